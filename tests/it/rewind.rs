//! Back and forth in the tree, with the files, through the keys of the tree pane.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::home::{TestHome, lines_of};
use crate::support::pty::Pty;
use crate::support::server::{Piece, Server, Step};
use crate::support::validate::assert_valid;
use crate::support::wire::Api;

/// Everything in a folder: the mode and the content of each path, or where a link leads.
type Files = BTreeMap<PathBuf, (u32, Vec<u8>)>;

fn files(folder: &Path) -> Files {
    let mut out = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // It may be looked at while it is being restored: what has just gone is not there.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let content = match () {
                () if metadata.is_symlink() => {
                    fs::read_link(&path).unwrap_or_default().into_os_string().into_encoded_bytes()
                }
                () if metadata.is_dir() => Vec::new(),
                () => fs::read(&path).unwrap_or_default(),
            };
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            out.insert(path, (metadata.permissions().mode(), content));
        }
    }
    out
}

fn text(text: &str) -> Step {
    Step::stream(Api::Chat.answer(text, &[]))
}

fn calls(calls: &[(&str, &str, Value)]) -> Step {
    Step::stream(Api::Chat.answer("", calls))
}

fn ready(pty: &Pty) {
    pty.wait_for("F1 help");
}

fn idle(pty: &Pty) {
    pty.wait("the run is over", |screen| !screen.contains("esc to interrupt"));
}

fn say(pty: &mut Pty, prompt: &str, answer: &str) {
    pty.enter(prompt);
    pty.wait_for(answer);
    idle(pty);
}

/// Opens the tree and goes to the node with a text.
fn choose(pty: &mut Pty, words: &str) {
    pty.send("\x14");
    pty.wait_for("TREE");
    pty.send("/");
    pty.send(words);
    pty.wait_for(&format!("> {words}"));
    pty.send("\r");
    pty.wait("the node is chosen", |screen| screen.contains("· 1 node") && !screen.contains("filter the tree"));
}

#[test]
fn the_tree_goes_back_and_forth_with_all_files() {
    let server = Server::scripted([
        calls(&[("c1", "edit", json!({"path": "base.txt", "old_text": "alpha", "new_text": "beta"}))]),
        text("made it beta"),
        calls(&[
            ("c2", "write", json!({"path": "new.txt", "content": "new\n"})),
            ("c3", "write", json!({"path": "deep/down/x.txt", "content": "x\r\n"})),
        ]),
        text("wrote two files"),
        calls(&[(
            "c4",
            "bash",
            json!({"command": "mv base.txt moved.txt; rm keep.txt; echo made > made.txt; chmod 755 run.sh; ln -s new.txt link; mkdir empty; rm -r deep"}),
        )]),
        text("moved it around"),
        calls(&[("c5", "bash", json!({"command": "echo second > branch.txt; rm run.sh"}))]),
        text("went another way"),
    ]);
    let home = TestHome::new(&server, Api::Chat);
    let project = home.project();
    for (name, content) in [("base.txt", "alpha\r\n"), ("keep.txt", "kept\n"), ("run.sh", "#!/bin/sh\n")] {
        fs::write(project.join(name), content).expect("written");
    }
    let mut states = vec![files(&project)];
    let mut pty = Pty::start(&home, &[]);
    ready(&pty);
    for (prompt, answer) in
        [("say first", "made it beta"), ("say second", "wrote two files"), ("say third", "moved it around")]
    {
        say(&mut pty, prompt, answer);
        states.push(files(&project));
    }

    // Back before the first message, with the files; its text stands in the prompt.
    choose(&mut pty, "say first");
    pty.send("\r");
    pty.wait_for("What goes back?");
    assert_eq!(files(&project), states[3], "looking changes nothing");
    pty.send("b");
    pty.wait_for("restored");
    assert_eq!(files(&project), states[0]);
    pty.wait("the message is to be edited", |screen| !screen.contains("TREE") && screen.contains("say first"));
    pty.send("\x03");

    // Another branch.
    say(&mut pty, "say other", "went another way");
    states.push(files(&project));
    assert_ne!(states[4], states[0]);

    // Somebody changes a file by hand: it is shown, and only overwritten after a yes.
    fs::write(project.join("base.txt"), "by hand\n").expect("written");
    let by_hand = files(&project);
    choose(&mut pty, "moved it around");
    pty.send("\r");
    pty.wait("the conflict is shown", |screen| screen.contains("base.txt  changed by somebody else"));
    pty.send("n");
    pty.wait("the question is gone", |screen| !screen.contains("What goes back?"));
    assert_eq!(files(&project), by_hand);
    pty.send("\r");
    pty.wait_for("overwriting what somebody else changed");
    pty.send("b");
    pty.wait("it is restored", |screen| !screen.contains("TREE") && screen.contains("moved it around"));
    pty.wait_for("restored; /undo");
    assert_eq!(files(&project), states[3]);

    // A restore is undone, and that too.
    for state in [&by_hand, &states[3]] {
        pty.enter("/undo");
        pty.wait("the files are as they were", |_| files(&project) == *state);
        // The next one waits for this one's end.
        idle(&pty);
    }

    // The middle of the first branch: the files as they were when its second run had ended.
    choose(&mut pty, "wrote two files");
    pty.send("\r");
    pty.wait_for("What goes back?");
    pty.send("f");
    pty.wait("the files are as they were", |_| files(&project) == states[2]);
    pty.wait("the tree is closed", |screen| !screen.contains("TREE"));
    pty.send("\x04");
    assert!(pty.end().0.success());

    // It comes back to the leaf that was left.
    let pty = Pty::start(&home, &["-c"]);
    pty.wait("the first branch is shown", |screen| screen.contains("moved it around"));
    assert!(!pty.screen().contains("went another way"));
}

#[test]
fn a_branch_brings_its_thinking_level_back_and_may_leave_a_summary() {
    let server = Server::answering(|asked| match asked.body.get("tools") {
        None => text("the second way led nowhere"),
        Some(_) => text(&format!("answer {}", asked.body["messages"].as_array().expect("messages").len())),
    });
    let home = TestHome::with_model(&server, Api::Chat, &json!({"contextWindow": 100_000, "reasoning": true}));
    let mut pty = Pty::start(&home, &[]);
    ready(&pty);
    say(&mut pty, "say first", "answer 2");
    pty.enter("/thinking high");
    pty.wait_for("· high ·");
    say(&mut pty, "say second", "answer 4");
    // A label, on the way.
    choose(&mut pty, "answer 2");
    pty.send("L");
    pty.wait_for("label");
    pty.enter("good start");
    pty.wait_for("[good start]");
    pty.send("s");
    pty.wait_for("summary of the branch that was left");
    idle(&pty);
    pty.enter("/name the shop");
    pty.wait_for("· the shop ");
    say(&mut pty, "say third", "answer 5");
    pty.send("\x04");
    assert!(pty.end().0.success());
    assert!(home.run(&["-p", "-c", "say fourth"]).status.success());

    let asked: Vec<Value> = server.asked().into_iter().map(|asked| asked.body).collect();
    let effort = |at: usize| asked[at]["reasoning_effort"].clone();
    assert_ne!(effort(0), effort(1));
    assert_eq!((effort(3), effort(4)), (effort(0), effort(0)), "the branch's own level is back");
    let texts = |at: usize| -> Vec<String> {
        let messages = asked[at]["messages"].as_array().expect("messages")[1..].iter();
        messages.map(|message| message["content"].as_str().expect("text").to_owned()).collect()
    };
    assert!(texts(2)[0].contains("say second") && !texts(2)[0].contains("say first"), "{:?}", texts(2));
    let third = texts(3);
    assert_eq!(
        (&third[..2], third.last().expect("one").as_str()),
        (&["say first".to_owned(), "answer 2".to_owned()][..], "say third")
    );
    assert!(third[2].contains("the second way led nowhere"), "{third:?}");
    assert_eq!(texts(4).len(), 6);
    asked.iter().for_each(|body| assert_valid(Api::Chat, body));

    // A fork and a clone have labels and the name, and whole parents; the parent's file is as it was.
    let before = fs::read(&home.sessions()[0]).expect("there");
    let id = lines_of(&home.sessions()[0])[0]["id"].as_str().expect("an id").to_owned();
    assert!(home.run(&["-p", "--fork", &id, "say fifth"]).status.success());
    assert_eq!(
        fs::read(home.sessions().iter().find(|path| path.to_string_lossy().contains(&id)).expect("there"))
            .expect("there"),
        before
    );
    let fork = home.sessions().into_iter().find(|path| !path.to_string_lossy().contains(&id)).expect("a new file");
    let lines = lines_of(&fork);
    assert_eq!(lines[0]["parent_session"], id.as_str());
    let ids: Vec<&Value> = lines[1..].iter().map(|line| &line["id"]).collect();
    for line in &lines[1..] {
        assert!(line["parent_id"].is_null() || ids.contains(&&line["parent_id"]), "{line}");
    }
    assert!(
        lines.iter().any(|line| line["label"] == "good start") && lines.iter().any(|line| line["name"] == "the shop")
    );
    assert!(!fs::read_to_string(&fork).expect("there").contains("say second"), "the other branch stays behind");
}

#[test]
fn a_thinking_level_of_the_command_line_comes_back_without_a_screen() {
    let server = Server::answering(|_| text("fine"));
    let home = TestHome::with_model(&server, Api::Chat, &json!({"reasoning": true}));
    home.run(&["-p", "first"]);
    home.run(&["-p", "-c", "--thinking", "high", "second"]);
    home.run(&["-p", "-c", "third"]);
    let efforts: Vec<Value> = server.asked().iter().map(|asked| asked.body["reasoning_effort"].clone()).collect();
    assert!(efforts[0] != efforts[1] && efforts[1] == efforts[2], "{efforts:?}");
}

#[test]
fn checkpoints_that_cannot_be_are_told_once() {
    let write = |id: &str, path: &str| calls(&[(id, "write", json!({"path": path, "content": "x"}))]);
    let server = Server::scripted([
        write("c1", "a"),
        text("one"),
        write("c2", "b"),
        text("two"),
        write("c3", "c"),
        text("three"),
    ]);
    let home = TestHome::new(&server, Api::Chat);
    // In the home directory itself there are none; it is told, and the run goes on.
    let place = home.home();
    let (events, status) = home.events(&["--mode", "yolo", "-C", &place.to_string_lossy(), "go"]);
    let told = |events: &[Value]| -> Vec<String> {
        let notices = events.iter().filter(|event| event["type"] == "notice");
        notices.map(|event| event["text"].as_str().expect("text").to_owned()).collect()
    };
    assert_eq!((status, place.join("a").exists()), (0, true));
    assert!(told(&events).iter().any(|text| text.contains("home directory")), "{events:#?}");
    // Without git.
    let empty = home.home().join("empty");
    fs::create_dir(&empty).expect("made");
    let output = home.command(&["--json", "go"]).env("PATH", &empty).output().expect("started");
    let lines = String::from_utf8(output.stdout).expect("text");
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    assert_eq!(told(&events).iter().filter(|text| text.contains("git program is not found")).count(), 1, "{events:#?}");
    assert!(home.project().join("b").exists());
    // Switched off there is nothing to tell.
    home.write(".violin/agent/settings.json", &json!({"checkpoints": {"enabled": false}}).to_string());
    let (events, status) = home.events(&["go"]);
    assert_eq!((status, told(&events), home.project().join("c").exists()), (0, vec![], true));
}

#[test]
fn an_undo_takes_back_all_of_a_run_that_was_steered() {
    let write = |path: &str| Api::Chat.answer("", &[(path, "write", json!({"path": path, "content": "x"}))]);
    let held = Step { pieces: vec![Piece::Hold], ..Step::stream("") }.then(Piece::Bytes(write("a").into_bytes()));
    let server = Server::scripted([held, Step::stream(write("b")), text("wrote both")]);
    let home = TestHome::new(&server, Api::Chat);
    let mut pty = Pty::start(&home, &[]);
    ready(&pty);
    pty.enter("write a");
    server.wait_holding(1);
    pty.enter("and b");
    pty.wait_for("1 queued");
    server.release();
    pty.wait_for("wrote both");
    idle(&pty);
    assert!(home.project().join("a").exists() && home.project().join("b").exists());
    pty.enter("/undo");
    pty.wait_for("2 files restored");
    assert!(files(&home.project()).is_empty());
}

#[test]
fn the_picker_finds_what_was_said() {
    let server = Server::scripted([text("the zebra is mended"), text("something else")]);
    let home = TestHome::new(&server, Api::Chat);
    for prompt in ["first task", "second task"] {
        assert!(home.run(&["-p", prompt]).status.success());
    }
    let mut pty = Pty::start(&home, &["-r"]);
    pty.wait_for("sessions of this directory");
    pty.wait("both are counted", |screen| screen.matches("2 msg").count() == 2);
    pty.send("zebra mended");
    pty.wait("one is found", |screen| screen.contains("first task") && !screen.contains("second task"));
    pty.send("\r");
    pty.wait_for("the zebra is mended");
    // Everything is known at once the next time.
    let folder = home.sessions()[0].parent().expect("a folder").to_owned();
    let index = fs::read_to_string(folder.join("index.json")).expect("there");
    assert!(index.contains("first task") && !index.contains("zebra"), "{index}");
}
