//! Ways out that nobody chose: a panic, a terminal that vanishes, a suspended job.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde_json::json;

use crate::support::home::{TestHome, lines_of};
use crate::support::pty::Pty;
use crate::support::server::{PATIENCE, Piece, Server, Step};
use crate::support::wire::Api;
use crate::terminal::given_back;

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::yield_now();
    }
}

/// A file that a shell writes, once it is whole.
fn written(path: &Path) -> String {
    let read = || fs::read_to_string(path).unwrap_or_default();
    until(&format!("{} is written", path.display()), || read().ends_with('\n'));
    read()
}

/// traps.md B144: the screen is given back first, and then the panic is told.
#[cfg(debug_assertions)]
#[test]
fn a_panic_gives_the_terminal_back_before_it_is_told() {
    let server = Server::scripted([Step::stream(Api::Chat.answer("All done.", &[]))]);
    let home = TestHome::new(&server, Api::Chat);
    let mut pty = Pty::with(&home, &[], &[("VIOLIN_TEST_PANIC", "panic now")]);
    pty.wait_for("F1 help");
    pty.enter("go");
    pty.wait_for("All done.");
    pty.send("panic now");
    until("it has ended", || !pty.runs());
    let (now, before) = pty.settings();
    assert_eq!(now, before, "every setting is as it was");
    let (status, raw) = pty.end();
    assert_eq!(status.exit_code(), 101);
    given_back(&raw);
    let log = String::from_utf8_lossy(&raw).into_owned();
    let left = log.rfind("\x1b[?1049l").expect("the screen was left");
    let told = log.find("a panic on purpose").expect("it is told");
    assert!(left < told, "the report stands on the screen that is left: {log:?}");
    assert!(!log[left..].contains("\x1b[2J") && !log[left + 8..].contains("\x1b[?"), "nothing is drawn after that");
    // What was said is there, and goes on.
    assert_eq!(home.session().iter().filter(|line| line["role"].is_string()).count(), 2);
}

#[test]
fn a_terminal_that_vanishes_ends_the_program_and_its_tools_and_leaves_the_session_whole() {
    let command = "echo $$ > pid; exec sleep 1000";
    let server = Server::scripted([
        Step::stream(Api::Chat.answer("I'll wait.", &[("c1", "bash", json!({"command": command}))])),
        Step::stream(Api::Chat.answer("Here again.", &[])),
    ]);
    let home = TestHome::new(&server, Api::Chat);
    home.write_settings(json!({"mode": "yolo"}));
    let mut pty = Pty::start(&home, &[]);
    pty.wait_for("F1 help");
    pty.enter("wait for it");
    let pid = written(&home.project().join("pid")).trim().to_owned();
    let status = pty.vanish();
    assert!(!status.success());
    until("its command has ended", || !Path::new(&format!("/proc/{pid}")).exists() || cfg!(not(target_os = "linux")));
    let lines = lines_of(&home.sessions()[0]);
    assert!(lines.iter().any(|line| line["role"] == "assistant"), "what had arrived is kept: {lines:?}");
    let output = home.run(&["-c", "-p", "and now"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "Here again.");
}

#[test]
fn a_terminal_that_vanishes_in_the_middle_of_an_answer_leaves_what_had_arrived() {
    let mut held = Step::stream(Api::Chat.begun("Half of it"));
    held.pieces.push(Piece::Hold);
    let server = Server::scripted([held, Step::stream(Api::Chat.answer("The rest.", &[]))]);
    let home = TestHome::new(&server, Api::Chat);
    let mut pty = Pty::start(&home, &[]);
    pty.wait_for("F1 help");
    pty.enter("go");
    pty.wait_for("Half of it");
    assert!(!pty.vanish().success());
    server.wait_gone(1);
    let output = home.run(&["-c", "-p", "go on"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "The rest.");
}

/// traps.md B81: Ctrl+Z, a command in the shell, another size, `bg`, `fg`.
#[test]
fn a_suspended_job_gives_the_terminal_to_the_shell_and_comes_back_whole() {
    let server = Server::scripted([Step::stream(Api::Chat.answer("All done.", &[]))]);
    let home = TestHome::new(&server, Api::Chat);
    let file = |name: &str| home.project().join(name);
    let mut pty = Pty::shell(&home);
    pty.wait_for("ready>");
    // Without a line editor of its own, so that the shell's settings are the terminal's.
    pty.send("set +o emacs +o vi 2>/dev/null; stty -g > before\r");
    let before = written(&file("before"));
    pty.send(&format!("{}\r", env!("CARGO_BIN_EXE_violin")));
    pty.wait_for("F1 help");
    pty.enter("go");
    pty.wait_for("All done.");
    pty.send("a draft");
    pty.wait_for("a draft");
    pty.send("\x1a");
    pty.wait("it is stopped", |screen| screen.contains("Stopped") || screen.contains("Suspended"));
    pty.send("stty -g > between; echo al''ive\r");
    pty.wait_for("alive");
    assert_eq!(written(&file("between")), before, "the shell has its own settings");
    let left = String::from_utf8_lossy(&pty.raw()).into_owned();
    given_back(left.as_bytes());
    // In the background it leaves the terminal alone, whatever its size.
    pty.send("bg\r");
    pty.resize(80, 20);
    pty.send("echo sti''ll\r");
    pty.wait_for("still");
    let log = String::from_utf8_lossy(&pty.raw()).into_owned();
    assert_eq!(log.matches("\x1b[?1049h").count(), 1, "it did not come back by itself");
    pty.send("fg\r");
    pty.wait("the screen is back", |screen| {
        let lines: Vec<&str> = screen.lines().collect();
        lines.len() <= 20 && screen.contains("F1 help") && screen.contains("a draft") && screen.contains("All done.")
    });
    let screen = pty.screen();
    assert_eq!(screen.lines().filter(|line| line.contains("╰──")).count(), 1, "{screen}");
    assert!(!screen.contains("alive") && !screen.contains("still"), "nothing of the shell is left: {screen}");
    pty.send(" goes on");
    pty.wait_for("a draft goes on");
    pty.send("\x15\x04");
    // What is typed before the terminal is given back is thrown away with it; these lines come after that.
    pty.wait("the shell is back", |screen| screen.contains("violin -s") && screen.trim_end().ends_with("ready>"));
    pty.send("stty -g > after\r");
    assert_eq!(written(&file("after")), before);
    pty.send("exit\r");
    given_back(&pty.end().1);
}

/// traps.md B81: under a wrapper the whole job stops, and an answer that streams meanwhile goes on when it is back.
#[test]
fn a_wrapped_job_stops_whole_and_its_answer_goes_on() {
    let mut held = Step::stream(Api::Chat.begun("Half of it"));
    held.pieces.push(Piece::Hold);
    held.pieces.push(Piece::Bytes(Api::Chat.rest(" and the rest.", &[]).into_bytes()));
    let server = Server::scripted([held]);
    let home = TestHome::new(&server, Api::Chat);
    let mut pty = Pty::shell(&home);
    pty.wait_for("ready>");
    pty.send(&format!("sh -c '{}; echo left=$?'\r", env!("CARGO_BIN_EXE_violin")));
    pty.wait_for("F1 help");
    pty.enter("go");
    pty.wait_for("Half of it");
    // As kitty sends Ctrl+Z.
    pty.send("\x1b[122;5u");
    pty.wait("it is stopped", |screen| screen.contains("Stopped") || screen.contains("Suspended"));
    given_back(&pty.raw());
    server.release();
    pty.send("echo al''ive\r");
    pty.wait_for("alive");
    pty.resize(90, 25);
    pty.send("fg\r");
    pty.wait("it goes on at the new size", |screen| {
        screen.contains("Half of it") && screen.contains("F1 help") && !screen.contains("esc to interrupt")
    });
    let screen = pty.screen();
    assert!(!screen.contains("alive"), "nothing of the shell is left: {screen}");
    assert!(screen.lines().any(|line| line.chars().count() == 90 && line.starts_with('╰')), "{screen}");
    let lines = lines_of(&home.sessions()[0]);
    assert!(lines.iter().any(|line| line["role"] == "assistant"), "{lines:?}");
    pty.send("\x04");
    pty.wait_for("left=0");
    pty.send("exit\r");
    given_back(&pty.end().1);
}
