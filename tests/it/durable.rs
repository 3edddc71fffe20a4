//! Nothing that was said is lost: a disk that is full, a home that cannot be written, a file that vanishes, a project that
//! moves.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::home::{TestHome, lines_of};
use crate::support::pty::Pty;
use crate::support::server::{Server, Step};
use crate::support::wire::Api;

fn notices(events: &[Value]) -> Vec<&str> {
    events.iter().filter(|event| event["type"] == "notice").filter_map(|event| event["text"].as_str()).collect()
}

fn answering(text: &'static str) -> Server {
    Server::answering(move |_| Step::stream(Api::Chat.answer(text, &[])))
}

/// traps.md B106. A limit on the size of files fails writes as a full disk does, for root too.
#[test]
fn a_full_disk_is_told_and_the_conversation_goes_on() {
    let server = Server::answering(|asked| match Api::Chat.results(&asked.body).len() {
        20.. => Step::stream(Api::Chat.answer("all of it was read", &[])),
        n => Step::stream(Api::Chat.answer("", &[(&format!("c{n}"), "read", json!({"path": "long.txt"}))])),
    });
    let home = TestHome::new(&server, Api::Chat);
    home.write(".violin/agent/settings.json", &json!({"checkpoints": {"enabled": false}}).to_string());
    fs::write(home.project().join("long.txt"), "a line of a file that is read\n".repeat(100)).expect("written");
    let script = format!("trap '' XFSZ; ulimit -f 16; exec {} --json go", env!("CARGO_BIN_EXE_violin"));
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(home.project()).env_clear().envs(home.environment());
    let output = command.stdin(std::process::Stdio::null()).output().expect("started");
    let text = String::from_utf8(output.stdout).expect("text");
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    assert_eq!(output.status.code(), Some(0), "{events:#?}");
    assert_eq!(events.last().expect("a result")["text"], "all of it was read");
    let told: Vec<_> = notices(&events).into_iter().filter(|text| text.contains("not being saved")).collect();
    assert_eq!(told.len(), 1, "{:?}", notices(&events));
    // What could be written is there, in whole lines, and can be gone on with.
    let path = &home.sessions()[0];
    assert!(fs::read(path).expect("there").ends_with(b"\n") && lines_of(path).len() > 3);
    assert!(home.run(&["-p", "-c", "and now"]).status.success());
}

#[test]
fn a_home_that_cannot_be_written_is_told_and_no_way_back_is_promised() {
    let server = answering("said anyway");
    let home = TestHome::new(&server, Api::Chat);
    home.write(".violin/sessions", "a file in the way");
    let output = home.run(&["-p", "go"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "said anyway\n");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && told.contains("not being saved"), "{told}");
    let mut pty = Pty::start(&home, &[]);
    pty.wait_for("F1 help");
    pty.enter("go");
    pty.wait_for("said anyway");
    pty.wait_for("not being saved");
    // Once there is room again, everything is there.
    fs::remove_file(home.home().join(".violin/sessions")).expect("removed");
    pty.enter("again");
    pty.wait_for("being saved again");
    let saved = fs::read_to_string(&home.sessions()[0]).expect("there");
    assert!(saved.contains("\"content\":\"go\"") || saved.contains("\"text\":\"go\""), "{saved}");
    // A file that vanishes is made again, whole.
    pty.wait("the run is over", |screen| !screen.contains("esc to interrupt"));
    fs::remove_file(&home.sessions()[0]).expect("removed");
    pty.enter("once more");
    pty.wait("it is there again", |_| {
        home.sessions().first().is_some_and(|path| lines_of(path).len() > lines_in(&saved))
    });
    pty.wait("the run is over", |screen| !screen.contains("esc to interrupt"));
    fs::remove_dir_all(home.home().join(".violin/sessions")).expect("removed");
    pty.send("\x04");
    let (_, raw) = pty.end();
    assert!(!String::from_utf8_lossy(&raw).contains("violin -s 2"), "there is nothing to come back to");
}

fn lines_in(text: &str) -> usize {
    text.lines().count()
}

/// traps.md B109.
#[test]
fn a_session_is_found_from_elsewhere_through_links_and_after_a_move() {
    let server = answering("fine");
    let home = TestHome::new(&server, Api::Chat);
    let odd = home.project().join("a_b ü 日本");
    fs::create_dir(&odd).expect("made");
    let at = |place: &std::path::Path, arguments: &[&str]| {
        home.command(arguments).current_dir(place).output().expect("started")
    };
    assert!(at(&odd, &["-p", "first"]).status.success());
    let id = lines_of(&home.sessions()[0])[0]["id"].as_str().expect("an id").to_owned();
    // From elsewhere it works where it belongs, and says so.
    let output = at(&home.project(), &["-p", "-s", &id, "second"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && told.contains("works in") && told.contains("a_b"), "{told}");
    // Through a link the directory is the same.
    let link = home.project().join("link");
    symlink(&odd, &link).expect("linked");
    assert!(at(&link, &["-p", "-c", "third"]).status.success());
    assert_eq!(home.sessions().len(), 1);
    // The directory is gone: that is said, with the way out.
    let moved = home.project().join("moved");
    fs::rename(&odd, &moved).expect("moved");
    let output = at(&moved, &["-p", "-s", &id, "fourth"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && told.contains("is gone") && told.contains("-C DIR"), "{told}");
    let output = at(&home.project(), &["-p", "-s", &id, "-C", "moved", "fourth"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = lines_of(&home.sessions()[0]).into_iter().filter(|line| line["role"] == "user").count();
    assert_eq!(messages, 4);
}

#[test]
fn sessions_as_json_shown_with_their_effects_exported_and_deleted() {
    let server = Server::scripted([
        Step::stream(Api::Chat.answer("", &[("c1", "write", json!({"path": "a.txt", "content": "one"}))])),
        Step::stream(Api::Chat.answer("done", &[])),
    ]);
    let home = TestHome::new(&server, Api::Chat);
    home.run(&["-p", "go"]);
    let json = |arguments: &[&str]| -> Vec<Value> {
        let output = home.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    // The second time the row comes from the index, and is the same.
    let rows = json(&["sessions", "list", "--json"]);
    assert_eq!(rows, json(&["sessions", "list", "--all", "--json"]));
    let id = rows[0]["id"].as_str().expect("an id").to_owned();
    let shown = json(&["sessions", "show", &id, "--json"]);
    assert_eq!((&shown[0]["id"], shown.len()), (&json!(id), lines_of(&home.sessions()[0]).len()));
    let disk = || json(&["sessions", "show", &id, "--effects", "--json"])[0]["disk"].clone();
    assert_eq!(disk(), "as left");
    fs::write(home.project().join("a.txt"), "two").expect("written");
    assert_eq!(disk(), "changed since");
    fs::remove_file(home.project().join("a.txt")).expect("removed");
    assert_eq!(disk(), "gone since");
    let exported = json(&["sessions", "export", &id, "out.md", "--json"]);
    let exported = exported[0]["exported"].as_str().expect("a path").to_owned();
    assert!(fs::read_to_string(exported).expect("there").contains("done"));
    assert_eq!(json(&["sessions", "delete", &id, "--yes", "--json"]), [json!({"deleted": id})]);
    assert!(json(&["sessions", "list", "--json"]).is_empty());
}
