//! Faults that users of other agents have reported (traps.md j, k, l and m), with the real binary: configuration, clipboard
//! and images, who goes away, and what must not leak to disk or terminal.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Instant;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::support::home::{TestHome, lines_of};
use crate::support::pty::Pty;
use crate::support::server::{PATIENCE, Piece, Server, Step};
use crate::support::validate::assert_valid;
use crate::support::wire::Api;

const CHAT: Api = Api::Chat;

fn text(text: &str) -> Step {
    Step::stream(CHAT.answer(text, &[]))
}

fn calls(calls: &[(&str, &str, Value)]) -> Step {
    Step::stream(CHAT.answer("", calls))
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::yield_now();
    }
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn position(bytes: &[u8], what: &str) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what.as_bytes())
}

/// Everything below a folder, the folder itself too; links are not followed.
fn below(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    if path.is_dir() && !path.is_symlink() {
        found.extend(fs::read_dir(path).expect("readable").flatten().flat_map(|entry| below(&entry.path())));
    }
    found
}

/// The process that a command told its number of, as a file that it writes.
fn pid_in(file: &Path) -> String {
    let read = || fs::read_to_string(file).unwrap_or_default();
    until("the command runs", || read().ends_with('\n'));
    read().trim().to_owned()
}

fn ended(pid: &str) {
    let alive =
        || Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status().expect("kill is there").success();
    until("the command has ended", || !alive());
}

fn exit_of(child: &mut Child) -> ExitStatus {
    let mut status = None;
    until("the program ends", || {
        status = child.try_wait().expect("a status");
        status.is_some()
    });
    status.expect("it ended")
}

// j) Skills, AGENTS.md, config

/// traps.md B128: a variable that is not set, or is empty, is named before any request; a line's end that came with a
/// key is cut; a server that wants no key gets none.
#[test]
fn keys_are_whole_or_named_and_none_is_made_up() {
    let server = Server::answering(|_| text("fine"));
    let home = TestHome::new(&server, CHAT);
    let models = |key: Option<&str>| {
        let mut provider = json!({"base_url": server.url(), "api": CHAT.name(), "models": [{"id": "mock"}]});
        if let Some(key) = key {
            provider["api_key"] = key.into();
        }
        home.write_models(&json!({"mock": provider}));
    };
    let asked = |value: Option<&str>| {
        let mut command = home.command(&["-p", "--no-session", "hi"]);
        value.map(|value| command.env("THE_KEY", value));
        command.output().expect("started")
    };
    for form in ["$THE_KEY", "${THE_KEY}"] {
        models(Some(form));
        for value in [None, Some(""), Some(" \n")] {
            let output = asked(value);
            assert!(
                output.status.code() == Some(2) && told(&output).contains("THE_KEY is not set"),
                "{}",
                told(&output)
            );
        }
    }
    assert!(server.asked().is_empty(), "nothing was sent");
    assert!(asked(Some("from-the-environment\r\n")).status.success());
    models(Some("as-it-stands\n"));
    assert!(asked(None).status.success());
    models(None);
    assert!(asked(None).status.success());
    let sent: Vec<_> = server.asked().iter().map(|asked| asked.header("authorization").map(str::to_owned)).collect();
    assert_eq!(sent, [Some("Bearer from-the-environment".into()), Some("Bearer as-it-stands".into()), None]);
}

/// traps.md B129: what the interface saves is put into the file as it stands now, and a link stays one.
#[test]
fn a_setting_is_saved_into_what_was_edited_meanwhile() {
    let home = TestHome::new(&Server::scripted([]), CHAT);
    let link = home.home().join(".violin/agent/settings.json");
    fs::remove_file(&link).expect("removed");
    fs::create_dir(home.home().join("dotfiles")).expect("made");
    let real = home.home().join("dotfiles/violin.json");
    fs::write(&real, "{\"theme\": \"violin-dark\"}\n").expect("written");
    symlink("../../dotfiles/violin.json", &link).expect("linked");
    let mut pty = Pty::start(&home, &[]);
    pty.wait_for("F1 help");
    fs::write(&real, "{\n  // by hand\n  \"theme\": \"violin-dark\",\n  \"notify\": \"off\"\n}\n").expect("written");
    pty.enter("/theme violin-light");
    until("it is saved", || fs::read_to_string(&real).expect("there").contains("violin-light"));
    let saved = fs::read_to_string(&real).expect("there");
    assert_eq!(saved, "{\n  // by hand\n  \"theme\": \"violin-light\",\n  \"notify\": \"off\"\n}\n");
    assert!(link.is_symlink());
    pty.send("\x04");
    assert!(pty.end().0.success());
}

/// traps.md B130: a device, a pipe that nobody writes to, a file without end, `null` and wrong types are told, and the
/// start goes on. The same holds for what else is read at the start.
#[test]
fn files_that_are_no_settings_hold_nothing_up() {
    let server = Server::answering(|_| text("fine"));
    let home = TestHome::new(&server, CHAT);
    let agent = home.home().join(".violin/agent");
    let settings = agent.join("settings.json");
    let run = || {
        let output = home.run(&["-p", "--no-session", "hi"]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "fine\n", "{}", told(&output));
        told(&output)
    };
    let pipe = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo is there").success());
    let anew = || fs::remove_file(&settings).expect("removed");
    anew();
    symlink("/dev/zero", &settings).expect("linked");
    assert!(run().contains("settings.json"));
    anew();
    pipe(&settings);
    assert!(run().contains("settings.json"));
    anew();
    // Sparse: as large as it says, and takes no room.
    fs::File::create(&settings).and_then(|file| file.set_len(3 << 30)).expect("made");
    assert!(run().contains("larger than 4 MB"));
    home.write(
        ".violin/agent/settings.json",
        "{\n \"theme\": null,\n \"retry\": null,\n \"tools\": [null],\n \"mouse\": \"no\",\n \"limits\": {\"max_turns\": \"many\"},\n \"permissions\": []\n}",
    );
    let words = run();
    for (line, name) in [(2, "theme"), (3, "retry"), (4, "tools"), (5, "mouse"), (6, "max_turns"), (7, "permissions")] {
        assert!(words.contains(&format!("settings.json:{line}:")) && words.contains(name), "{name}: {words}");
    }
    anew();
    for path in ["AGENTS.md", "SYSTEM.md", "APPEND_SYSTEM.md", "prompts/a.md", "skills/a/SKILL.md"] {
        fs::create_dir_all(agent.join(path).parent().expect("a parent")).expect("made");
        pipe(&agent.join(path));
    }
    for path in
        [".violin/settings.json", ".violin/SYSTEM.md", ".violin/plugins/a.lua", ".violin/prompts/a.md", "AGENTS.md"]
    {
        fs::create_dir_all(home.project().join(path).parent().expect("a parent")).expect("made");
        pipe(&home.project().join(path));
    }
    run();
    // The interface reads the templates and the key bindings too.
    pipe(&agent.join("keybindings.json"));
    let mut pty = Pty::start(&home, &[]);
    pty.wait_for("F1 help");
    pty.send("/prom");
    pty.wait_for("/prom");
    pty.send("\x03\x04");
    assert!(pty.end().0.success());
}

// k) Clipboard and images

/// A display that takes connections and never answers: its name, and what keeps it there.
fn silent_display() -> (String, TcpListener) {
    // X servers are found by number, at 6000 and up.
    let found = (0..500).find_map(|_| {
        let number = fastrand::u16(100..20_000);
        Some((number, TcpListener::bind(("127.0.0.1", 6000 + number)).ok()?))
    });
    let (number, listener) = found.expect("a port is free");
    (format!("127.0.0.1:{number}"), listener)
}

/// traps.md B132. The clipboard is no program here: in place of a `wl-paste` that is missing or fails there is no display,
/// in place of one that hangs a display that does not answer.
#[test]
fn without_a_display_or_with_a_silent_one_a_line_says_so() {
    let server = Server::answering(|_| text("An answer."));
    let home = TestHome::new(&server, CHAT);
    let (silent, _listener) = silent_display();
    let cases: [(&[(&str, &str)], &str); 3] = [
        (&[], "there is no clipboard here"),
        (&[("WAYLAND_DISPLAY", "nobody-0"), ("XDG_RUNTIME_DIR", "/nowhere")], "there is no clipboard here"),
        (&[("DISPLAY", &silent)], "the clipboard does not answer"),
    ];
    for (variables, words) in cases {
        let mut pty = Pty::with(&home, &["--no-session"], variables);
        pty.wait_for("F1 help");
        let before = pty.screen();
        pty.send("\x16");
        pty.wait_for(words);
        let screen = pty.screen();
        assert_eq!(screen.lines().filter(|line| line.contains(words)).count(), 1, "{screen}");
        // Nothing but the line with the notice has changed.
        let changed = screen.lines().zip(before.lines()).filter(|(now, then)| now != then).count();
        assert!(changed <= 1, "{before}\n{screen}");
        pty.enter("go");
        pty.wait_for("An answer.");
        pty.send("\x1bc");
        pty.wait_for("through the terminal");
        pty.send("\x04");
        assert!(pty.end().0.success());
    }
}

/// traps.md B138: over ssh the terminal is asked and not the display that ssh brought, through tmux where one runs.
#[test]
fn a_copy_in_tmux_over_ssh_goes_through_both() {
    let home = TestHome::new(&Server::scripted([text("An answer.")]), CHAT);
    let variables = [("TMUX", "/tmp/tmux-0/default,1,0"), ("SSH_CONNECTION", "a 1 b 2"), ("DISPLAY", "localhost:10.0")];
    let mut pty = Pty::with(&home, &[], &variables);
    pty.wait_for("F1 help");
    pty.enter("go");
    pty.wait_for("An answer.");
    pty.send("\x1bc");
    pty.wait_for("copied 10 characters through the terminal");
    let raw = pty.raw();
    let data = base64::engine::general_purpose::STANDARD.encode("An answer.");
    assert!(position(&raw, &format!("\x1b]52;c;{data}\x07")).is_some(), "for a tmux that takes it itself");
    assert!(
        position(&raw, &format!("\x1bPtmux;\x1b\x1b]52;c;{data}\x07\x1b\\")).is_some(),
        "for the terminal around it"
    );
    pty.send("\x04");
    assert!(pty.end().0.success());
}

/// A picture of noise, which no format makes small.
fn noise(width: u32, height: u32) -> image::RgbImage {
    let mut random = fastrand::Rng::with_seed(7);
    image::RgbImage::from_fn(width, height, |_, _| image::Rgb(std::array::from_fn(|_| random.u8(..))))
}

/// The images of a request, as their kinds and bytes.
fn images(body: &Value) -> Vec<(String, Vec<u8>)> {
    let messages = body["messages"].as_array().expect("messages");
    let parts = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let urls = parts.filter_map(|part| part["image_url"]["url"].as_str());
    urls.map(|url| {
        let (kind, data) = url.strip_prefix("data:").and_then(|url| url.split_once(";base64,")).expect("a data URL");
        assert!(data.len() <= 4_500_000, "{} bytes of base64", data.len());
        (kind.to_owned(), base64::engine::general_purpose::STANDARD.decode(data).expect("base64"))
    })
    .collect()
}

/// traps.md B134: 12 MB by `read`, on the command line and by paste; the session goes on. traps.md B133: BMP becomes PNG.
/// traps.md B137: what is no image, or promises too much, is an error for the model and costs nothing.
#[test]
fn images_are_made_fit_or_refused_before_they_enter_the_history() {
    let names = ["big.png", "small.bmp", "moving.gif", "bomb.png", "empty.png", "torn.png"];
    let reads: Vec<_> = names.iter().map(|name| (*name, "read", json!({"path": name}))).collect();
    let server = Server::scripted([calls(&reads), text("seen"), text("still here"), text("pasted too")]);
    let home = TestHome::new(&server, CHAT);
    let at = |name: &str| home.project().join(name);
    noise(2050, 2000).save(at("big.png")).expect("written");
    assert!(fs::metadata(at("big.png")).expect("there").len() > 12_000_000);
    noise(4, 3).save(at("small.bmp")).expect("written");
    let frames = (0..3).map(|_| image::Frame::new(image::DynamicImage::ImageRgb8(noise(5, 5)).to_rgba8()));
    let gif = fs::File::create(at("moving.gif")).expect("made");
    image::codecs::gif::GifEncoder::new(gif).encode_frames(frames).expect("written");
    noise(1, 1).save(at("bomb.png")).expect("written");
    let mut bomb = fs::read(at("bomb.png")).expect("there");
    // 30,000 × 30,000 pixels, says its head.
    bomb[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
    fs::write(at("bomb.png"), &bomb).expect("written");
    fs::write(at("empty.png"), "").expect("written");
    fs::write(at("torn.png"), &bomb[..20]).expect("written");
    let (events, status) = home.events(&["--image", "small.bmp", "look at them"]);
    assert_eq!(status, 0, "{events:?}");
    let oks: Vec<_> = names
        .iter()
        .map(|name| {
            let end =
                events.iter().find(|event| event["type"] == "tool_end" && event["id"] == *name).expect("it ended");
            end["ok"] == true
        })
        .collect();
    // An empty file is an empty text, whatever it is called.
    assert_eq!(oks, [true, true, true, false, oks[4], false]);
    let body = &server.asked()[1].body;
    assert_valid(CHAT, body);
    let sent = images(body);
    assert_eq!(sent.len(), 4, "one that was given, three that were read");
    for (kind, bytes) in &sent {
        assert!(matches!(kind.as_str(), "image/png" | "image/jpeg"), "{kind}");
        let picture = image::load_from_memory(bytes).expect("it is whole");
        assert!(picture.width().max(picture.height()) <= 2000);
    }
    assert!(fs::metadata(&home.sessions()[0]).expect("there").len() < 6_000_000, "kept once, and small");
    assert_eq!(String::from_utf8_lossy(&home.run(&["-p", "-c", "and now"]).stdout), "still here\n");
    let mut pty = Pty::start(&home, &["--no-session"]);
    pty.wait_for("F1 help");
    pty.send(&format!("\x1b[200~{}\x1b[201~", at("big.png").display()));
    pty.wait_for("[image #1 ");
    pty.send("\r");
    pty.wait_for("pasted too");
    assert_eq!(images(&server.asked()[3].body).len(), 1);
}

// l) Cancel, abort, queue

/// traps.md B142, for what starts Violin as a program: who read its events is gone, in the middle of an answer and while
/// a command says nothing. The session goes on after that.
#[test]
fn a_reader_that_is_gone_ends_the_request_and_the_commands() {
    let held = Step::stream(CHAT.begun("Half of")).then(Piece::Hold);
    let command = "echo $$ > pid; exec sleep 1000";
    let server = Server::scripted([held, calls(&[("c1", "bash", json!({"command": command}))]), text("whole")]);
    for mode in ["--json", "-p"] {
        let home = TestHome::new(&server, CHAT);
        if mode == "-p" {
            let start =
                home.command(&["--mode", "yolo", "-p", "go"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
            let mut child = start.expect("started");
            let pid = pid_in(&home.project().join("pid"));
            drop(child.stdout.take());
            assert_eq!(exit_of(&mut child).code(), Some(1));
            ended(&pid);
            assert_eq!(String::from_utf8_lossy(&home.run(&["-p", "-c", "hi"]).stdout), "whole\n");
            assert_valid(CHAT, &server.asked()[2].body);
            continue;
        }
        let start = home.command(&["--json", "go"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = start.expect("started");
        server.wait_holding(1);
        drop(child.stdout.take());
        server.wait_gone(1);
        assert_eq!(exit_of(&mut child).code(), Some(1));
        let last = home.session().into_iter().rfind(|line| line["role"] == "assistant").expect("kept");
        assert_eq!((&last["stop_reason"], &last["content"][0]["text"]), (&json!("aborted"), &json!("Half of")));
    }
}

/// traps.md B140: two messages that wait while a command runs come back with Esc, once each and in order. traps.md B141:
/// the command is dead, and is not run again by the session that goes on.
#[test]
fn escape_in_a_command_brings_both_queued_messages_back_and_runs_nothing_again() {
    let command = "echo x >> log; echo $$ > pid; exec sleep 1000";
    let server = Server::scripted([
        calls(&[("c1", "bash", json!({"command": command}))]),
        text("both came"),
        text("here again"),
    ]);
    let home = TestHome::new(&server, CHAT);
    home.write_settings(json!({"mode": "yolo"}));
    let mut pty = Pty::start(&home, &[]);
    pty.wait_for("F1 help");
    pty.enter("begin");
    let pid = pid_in(&home.project().join("pid"));
    pty.enter("first in line");
    pty.wait_for("1 queued");
    pty.enter("second in line");
    pty.wait_for("2 queued");
    pty.send("\x1b");
    ended(&pid);
    pty.wait("both are back and nothing waits", |screen| {
        let (first, second) = (screen.rfind("first in line"), screen.rfind("second in line"));
        !screen.contains("queued") && !screen.contains("esc to interrupt") && first.is_some() && first < second
    });
    pty.send("\r");
    pty.wait_for("both came");
    pty.wait("the run is over", |screen| !screen.contains("esc to interrupt"));
    let body = server.asked()[1].body.clone();
    assert_valid(CHAT, &body);
    let said = body.to_string();
    for words in ["first in line", "second in line"] {
        assert_eq!(said.matches(words).count(), 1, "{said}");
    }
    assert!(said.find("first in line") < said.find("second in line"));
    pty.send("\x04");
    assert!(pty.end().0.success());
    assert_eq!(String::from_utf8_lossy(&home.run(&["-p", "-c", "hi"]).stdout), "here again\n");
    assert_eq!(fs::read_to_string(home.project().join("log")).expect("there"), "x\n");
    assert_eq!(server.asked().len(), 3, "each was sent once");
}

// m) Security

/// Each sequence of the trap, with a letter behind it that tells it from what Violin itself sends.
const HOSTILE: &str =
    "A\x1b]52;c;ZXZpbA==\x07B\x1b]0;pwn\x07C\x1b[2JQ\x1b[6nQ\x1bPevil\x1b\\D\u{9b}2JE\x1bQF\x1b]1337;evil";

/// What a terminal would obey of it.
const OBEYED: &[&str] =
    &["\x1b]52;c;ZXZp", "\x1b]0;pwn", "\x1b[2JQ", "\x1b[6nQ", "\x1bPevil", "\u{9b}", "\x1bQ", "\x1b]1337"];

fn harmless(raw: &[u8], place: &str) {
    for sequence in OBEYED {
        let at = position(raw, sequence);
        assert_eq!(at, None, "{sequence:?} in {place}");
    }
}

/// traps.md B146: answer, thinking, a tool's name and output, a file's name, an error's body, a session's title, what is
/// pasted; and the answer and the events where standard output is a terminal.
#[test]
fn nothing_that_a_terminal_obeys_comes_out_wherever_it_came_from() {
    let hostile_name = "f\x1b]52;c;ZXZpbA==\x07\x1b]0;pwn\x07\x1b[2JQ\u{9b}2J";
    let first = CHAT.thinking_answer(
        &format!("I think {HOSTILE}"),
        &format!(
            "I say {HOSTILE}\n\n`{HOSTILE}`\n\n```{HOSTILE}\n{HOSTILE}\n```\n\n[{HOSTILE}](https://x/{HOSTILE})\n"
        ),
        &[
            ("c1", HOSTILE, json!({HOSTILE: HOSTILE})),
            ("c2", "read", json!({"path": hostile_name})),
            ("c3", "bash", json!({"command": "cat f*; ls"})),
            ("c4", "write", json!({"path": format!("new{hostile_name}"), "content": HOSTILE})),
        ],
    );
    let server = Server::scripted([
        Step::stream(first),
        Step::error(400, &json!({"error": {"message": format!("wrong {HOSTILE}"), "type": HOSTILE}})),
        text("the end"),
        text(&format!("told: {HOSTILE}")),
        text(&format!("told: {HOSTILE}")),
    ]);
    let home = TestHome::new(&server, CHAT);
    home.write_settings(json!({"mode": "yolo"}));
    fs::write(home.project().join(hostile_name), HOSTILE).expect("written");
    let mut pty = Pty::start(&home, &[]);
    pty.wait_for("F1 help");
    pty.enter("go");
    pty.wait_for("wrong ");
    pty.wait("the run is over", |screen| !screen.contains("esc to interrupt"));
    pty.send("\x0f");
    pty.wait_for("OUTPUT");
    pty.send("\x0f");
    pty.send(&format!("\x1b[200~pasted {HOSTILE} whole\x1b[201~"));
    pty.wait_for("pasted ");
    // Enter in one burst with what was pasted would be taken for a part of it.
    pty.send("\r");
    pty.wait_for("the end");
    pty.send("\x04");
    let (status, raw) = pty.end();
    assert!(status.success());
    harmless(&raw, "the interface");
    // The title of a session that another program wrote, at its head, in the list, in the tree and on the way out.
    let path = home.sessions()[0].clone();
    let name =
        json!({"id": 900, "parent_id": null, "timestamp": 1, "type": "name", "name": format!("Title {HOSTILE}")});
    let label =
        json!({"id": 901, "parent_id": null, "timestamp": 1, "type": "label", "target_id": 1, "label": HOSTILE});
    let text = fs::read_to_string(&path).expect("there");
    fs::write(&path, format!("{text}{name}\n{label}\n")).expect("written");
    let mut pty = Pty::start(&home, &["-c"]);
    pty.wait_for("Title A");
    pty.send("\x14");
    pty.wait_for("TREE");
    pty.send("\x14");
    pty.enter("/resume");
    pty.wait("the list is there", |screen| screen.matches("Title A").count() > 1);
    pty.send("\x1b");
    pty.wait("the list is gone", |screen| screen.matches("Title A").count() == 1);
    pty.send("\x04");
    harmless(&pty.end().1, "the title");
    for arguments in [&["-p", "--no-session", "go"][..], &["--json", "--no-session", "go"]] {
        let pty = Pty::start(&home, arguments);
        let (status, raw) = pty.end();
        assert!(status.success() && position(&raw, "told: A").is_some());
        harmless(&raw, arguments[0]);
    }
    let shown = home.run(&["sessions", "show", path.file_stem().expect("a name").to_str().expect("text")]);
    harmless(&shown.stdout, "sessions show");
    harmless(&home.run(&["sessions", "list"]).stdout, "sessions list");
}

/// traps.md B149: everything that was made after a run, a fork, a compaction, a rewrite and an export.
#[test]
fn what_is_kept_is_the_persons_own_whatever_the_umask() {
    let command = json!({"command": "seq 1 20000"});
    let server = Server::answering(move |asked| match asked.body.get("tools") {
        None => text("What was done: things."),
        Some(_) if CHAT.results(&asked.body).is_empty() => {
            calls(&[("c1", "bash", command.clone()), ("c2", "write", json!({"path": "a.txt", "content": "a"}))])
        }
        Some(_) => text("It is done."),
    });
    let home = TestHome::new(&server, CHAT);
    // What the test itself put there is the person's, and keeps its mode; settings are made by the program.
    fs::remove_file(home.home().join(".violin/agent/settings.json")).expect("removed");
    for path in below(&home.home().join(".violin")) {
        let mode = if path.is_dir() { 0o700 } else { 0o600 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
    }
    fs::create_dir(home.project().join(".violin")).expect("made");
    let settings = json!({"compaction": {"keep_recent_messages": 1}}).to_string();
    fs::write(home.project().join(".violin/settings.json"), settings).expect("written");
    let run = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "umask 022; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_violin")]).args(arguments);
        command.current_dir(home.project()).env_clear().envs(home.environment()).env("VIOLIN_LOG", "debug");
        let output = command.stdin(Stdio::null()).output().expect("started");
        assert!(output.status.success(), "{arguments:?}: {}", told(&output));
    };
    run(&["trust"]);
    run(&["--mode", "yolo", "-p", "go"]);
    let id = home.session()[0]["id"].as_str().expect("an id").to_owned();
    run(&["-p", "--fork", &id, "more"]);
    run(&["sessions", "list"]);
    run(&["sessions", "export", &id, "out.html"]);
    run(&["doctor"]);
    let mut pty = Pty::shell(&home);
    pty.wait_for("ready> ");
    pty.send(&format!("umask 022; {} --mode yolo -s {id}\r", env!("CARGO_BIN_EXE_violin")));
    pty.wait_for("F1 help");
    pty.enter("/theme violin-light");
    // A line that follows at once would be taken for a paste.
    let idle = |screen: &str| !screen.contains("> /") && !screen.contains("esc to interrupt");
    pty.wait("it is saved", |screen| home.home().join(".violin/agent/settings.json").exists() && idle(screen));
    pty.enter("/name a name");
    pty.wait("it has its name", |screen| {
        screen.lines().next().is_some_and(|line| line.contains("a name")) && idle(screen)
    });
    pty.enter("/compact");
    pty.wait("it is compacted", |_| {
        home.sessions().iter().any(|path| lines_of(path).iter().any(|line| line["type"] == "compaction"))
    });
    pty.wait("it is over", idle);
    // A session file that is gone is written anew, whole.
    let path = home.sessions().into_iter().find(|path| path.to_string_lossy().contains(&id)).expect("there");
    fs::remove_file(&path).expect("removed");
    pty.enter("once more");
    pty.wait("it is there again", |screen| path.exists() && !screen.contains("esc to interrupt"));
    pty.enter("/export out.md");
    until("it is exported", || home.project().join("out.md").exists());
    pty.wait("the prompt is empty", |screen| !screen.contains("/export"));
    pty.send("\x04");
    pty.wait_for(&format!("violin -s {id}"));
    let made = below(&home.home().join(".violin"));
    let is_there = |end: &str| made.iter().any(|path| path.to_string_lossy().ends_with(end));
    for end in [".jsonl", "history.jsonl", "violin.log", "c1.log", "trust.json", "settings.json", "index.json", "HEAD"]
    {
        assert!(is_there(end), "{end} is not among {made:#?}");
    }
    let exports = ["out.html", "out.md"].map(|name| home.project().join(name));
    for path in made.iter().chain(&exports) {
        let mode = fs::symlink_metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} has {mode:o}", path.display());
    }
}

/// traps.md B152: `.violin` of a repository leads to the person's own folder, or parts of it do.
#[test]
fn a_repository_redirects_none_of_our_writes_and_brings_nothing_by_links() {
    let server = Server::answering(|asked| match CHAT.results(&asked.body).len() {
        0 if asked.body.to_string().contains("write there") => {
            calls(&[("c1", "write", json!({"path": ".violin/settings.json", "content": "{}"}))])
        }
        _ => text("done"),
    });
    for whole in [true, false] {
        let home = TestHome::new(&server, CHAT);
        home.write_settings(json!({"mode": "auto"}));
        let secret = home.home().join(".ssh");
        fs::create_dir(&secret).expect("made");
        fs::write(secret.join("SYSTEM.md"), "from elsewhere").expect("written");
        let own = home.project().join(".violin");
        if whole {
            symlink(&secret, &own).expect("linked");
        } else {
            fs::create_dir(&own).expect("made");
            for part in ["sessions", "checkpoints", "plugins", "outputs", "logs"] {
                symlink(&secret, own.join(part)).expect("linked");
            }
            symlink(secret.join("SYSTEM.md"), own.join("SYSTEM.md")).expect("linked");
        }
        let output = home.run(&["-p", "write there"]);
        assert!(output.status.success() && told(&output).contains("symbolic link"), "{}", told(&output));
        let mut pty = Pty::start(&home, &[]);
        pty.wait_for("F1 help");
        pty.enter("hi");
        pty.wait_for("done");
        pty.enter("/export");
        pty.wait_for(".html");
        pty.send("\x04");
        assert!(pty.end().0.success());
        let names: Vec<_> = fs::read_dir(&secret).expect("there").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["SYSTEM.md"], "nothing was written there");
        assert!(server.asked().iter().all(|asked| !asked.body.to_string().contains("from elsewhere")));
    }
}

/// traps.md B153: after a 401 that repeats key and headers, an export and a panic, neither is in any file but
/// models.json, nor in what any terminal was sent. The panic is one that only builds for tests have.
#[test]
fn a_key_stands_in_models_json_and_nowhere_else() {
    let secrets = ["sk-VIOLINTEST", "a secret of no known form"];
    let body = json!({"error": {"message": format!(
        "Incorrect API key provided: {} ({}) for https://x/v1?key={}", secrets[0], secrets[1], secrets[0]
    )}});
    let server = Server::answering(move |asked| match asked.body.to_string().contains("be refused") {
        true => Step::error(401, &body),
        false => text("fine"),
    });
    let home = TestHome::new(&server, CHAT);
    let models = |base_url: &str| {
        home.write_models(&json!({"mock": {"base_url": base_url, "api": CHAT.name(), "api_key": secrets[0],
            "headers": {"X-Team": secrets[1]}, "models": [{"id": "mock"}]}}));
    };
    models(&server.url());
    let mut seen: Vec<u8> = Vec::new();
    let mut run = |arguments: &[&str]| {
        let output = home.command(arguments).env("VIOLIN_LOG", "trace").output().expect("started");
        seen.extend([output.stdout, output.stderr].concat());
    };
    run(&["-p", "be refused"]);
    run(&["--json", "-c", "be refused again"]);
    for arguments in [&["models"][..], &["doctor"], &["sessions", "list"], &["plugins"]] {
        run(arguments);
    }
    let id = home.session()[0]["id"].as_str().expect("an id").to_owned();
    run(&["sessions", "show", &id]);
    run(&["sessions", "export", &id, "out.html"]);
    // Nobody listens there, and the address itself holds the key.
    models(&format!("http://user:{}@127.0.0.1:1/v1?key={}", secrets[0].trim(), secrets[0]));
    run(&["-p", "--no-session", "to nobody"]);
    run(&["models"]);
    run(&["doctor"]);
    models(&server.url());
    let variables = [("VIOLIN_LOG", "trace"), ("VIOLIN_TEST_PANIC", "panic now"), ("RUST_BACKTRACE", "1")];
    let mut pty = Pty::with(&home, &["-c"], &variables);
    pty.wait_for("F1 help");
    pty.enter("be refused once more");
    pty.wait_for("Incorrect API key");
    pty.wait("the run is over", |screen| !screen.contains("esc to interrupt"));
    pty.enter("/export out.md");
    until("it is exported", || home.project().join("out.md").exists());
    pty.wait("the prompt is empty", |screen| !screen.contains("/export"));
    pty.send(if cfg!(debug_assertions) { "panic now" } else { "\x04" });
    let (status, raw) = pty.end();
    assert_eq!(status.exit_code(), if cfg!(debug_assertions) { 101 } else { 0 });
    seen.extend(raw);
    for secret in secrets {
        let at = position(&seen, secret);
        assert_eq!(at, None, "{secret} was printed: {}", String::from_utf8_lossy(&seen));
        for path in [home.home(), home.project()].iter().flat_map(|path| below(path)) {
            let own = path.ends_with("agent/models.json") || !path.is_file();
            let bytes = if own { Vec::new() } else { fs::read(&path).expect("readable") };
            assert_eq!(position(&bytes, secret), None, "{secret} stands in {}", path.display());
        }
    }
}

/// traps.md B154: where writes run without a question because they stay in the project, they do.
#[test]
fn no_link_and_no_dots_lead_a_write_out_of_the_project() {
    let paths = [
        "link/x",
        "a/../../outside/x",
        "deep/../link/new/x",
        "../outside/x",
        "file-link",
        "a/link/../x",
        "no/../no-link/y",
    ];
    let writes: Vec<_> = paths
        .iter()
        .map(|path| (*path, "write", json!({"path": path, "content": "x"})))
        .chain([
            ("hard", "write", json!({"path": "hard", "content": "changed"})),
            ("edit", "edit", json!({"path": "hard-too", "edits": [{"old_text": "mine", "new_text": "theirs"}]})),
        ])
        .collect();
    let server = Server::scripted([calls(&writes), text("done")]);
    let home = TestHome::new(&server, CHAT);
    home.write_settings(json!({"mode": "auto"}));
    let outside = home.project().join("../outside");
    fs::create_dir(&outside).expect("made");
    for name in ["kept", "kept-too"] {
        fs::write(outside.join(name), "mine\n").expect("written");
    }
    fs::create_dir_all(home.project().join("a")).expect("made");
    symlink(&outside, home.project().join("link")).expect("linked");
    symlink(&outside, home.project().join("a/link")).expect("linked");
    // One that points nowhere yet, over a folder that is not there.
    symlink("missing/../../outside/new", home.project().join("no-link")).expect("linked");
    symlink(outside.join("new"), home.project().join("file-link")).expect("linked");
    fs::hard_link(outside.join("kept"), home.project().join("hard")).expect("linked");
    fs::hard_link(outside.join("kept-too"), home.project().join("hard-too")).expect("linked");
    let (events, _) = home.events(&["go"]);
    let decisions: Vec<_> = events
        .iter()
        .filter(|event| event["type"] == "tool_review")
        .map(|event| event["decision"].as_str().expect("text").to_owned())
        .collect();
    assert_eq!(decisions, [["denied"; 7].as_slice(), &["allowed"; 2]].concat());
    let mut names: Vec<_> = fs::read_dir(&outside).expect("there").flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["kept", "kept-too"]);
    for name in ["kept", "kept-too"] {
        assert_eq!(fs::read_to_string(outside.join(name)).expect("there"), "mine\n", "through a hard link");
    }
    assert_eq!(fs::read_to_string(home.project().join("hard")).expect("there"), "changed");
}

/// traps.md B154, between the check and the use: what was reviewed is what is written, or nothing is.
#[test]
fn a_folder_that_becomes_a_link_while_a_write_is_asked_about_is_not_followed() {
    let write = json!({"path": "folder/x", "content": "x"});
    let server = Server::scripted([calls(&[("c1", "write", write)]), text("all over")]);
    let home = TestHome::new(&server, CHAT);
    home.write_settings(json!({"mode": "ask"}));
    let (folder, outside) = (home.project().join("folder"), home.project().join("../outside"));
    fs::create_dir(&folder).expect("made");
    fs::create_dir(&outside).expect("made");
    let mut pty = Pty::start(&home, &[]);
    pty.wait_for("F1 help");
    pty.enter("go");
    pty.wait_for("yes, once");
    fs::remove_dir(&folder).expect("removed");
    symlink(&outside, &folder).expect("linked");
    // A question that has just come takes no keys; arrows are harmless.
    while pty.screen().contains("› y") {
        pty.send("\x1b[B");
        pty.soon(|screen| !screen.contains("› y"));
    }
    pty.send("y");
    pty.wait_for("all over");
    let results = CHAT.results(&server.asked()[1].body);
    assert!(results[0].contains("leads elsewhere now"), "{results:?}");
    assert_eq!(fs::read_dir(&outside).expect("there").count(), 0);
}
