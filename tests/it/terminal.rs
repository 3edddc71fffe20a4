//! The terminal is given back whole on every way out, and what the interface does with it is whole.

use std::process::Command;

use crate::support::home::TestHome;
use crate::support::pty::Pty;
use crate::support::server::{Server, Step};
use crate::support::wire::Api;

fn started(answers: &[&str]) -> (TestHome, Pty) {
    let steps: Vec<_> = answers.iter().map(|text| Step::stream(Api::Chat.answer(text, &[]))).collect();
    let home = TestHome::new(&Server::scripted(steps), Api::Chat);
    let pty = Pty::start(&home, &[]);
    pty.wait_for("F1 help");
    (home, pty)
}

fn at(log: &str, what: &str) -> usize {
    log.find(what).unwrap_or_else(|| panic!("{what:?} is missing in {log:?}"))
}

/// traps.md B80 and the conduct of tui.md.
pub fn given_back(raw: &[u8]) {
    let log = String::from_utf8_lossy(raw);
    assert!(at(&log, "\x1b[?1049h") < at(&log, "\x1b[>5u"), "keyboard flags are pushed on the alternate screen");
    assert!(at(&log, "\x1b[<u") < at(&log, "\x1b[?1049l"), "and popped before it is left");
    for switch in ["?2004", "?1004", "?1000", "?1002", "?1006", "?2026"] {
        let (on, off) = (format!("\x1b[{switch}h"), format!("\x1b[{switch}l"));
        assert!(log.rfind(&on).is_none_or(|on| log.rfind(&off).is_some_and(|off| on < off)), "{switch} stays on");
    }
    assert!(log.rfind("\x1b[?7h") > log.rfind("\x1b[?7l"), "lines wrap no longer");
    assert!(log.rfind("\x1b[?25h") > log.rfind("\x1b[?25l"), "the cursor stays hidden");
}

#[test]
fn quitting_gives_the_terminal_back() {
    let (_home, mut pty) = started(&[]);
    let (raw, before) = pty.settings();
    assert_ne!(raw, before);
    pty.send("\x04");
    while pty.runs() {
        std::thread::yield_now();
    }
    assert_eq!(pty.settings().0, before, "the settings are back");
    let (status, log) = pty.end();
    assert!(status.success());
    given_back(&log);
}

#[test]
fn signals_give_the_terminal_back() {
    for (name, status) in [("TERM", 143), ("HUP", 129)] {
        let (_home, pty) = started(&[]);
        let pid = pty.pid().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("sent").success());
        let (exit, log) = pty.end();
        assert_eq!(exit.exit_code(), status, "{name}");
        given_back(&log);
    }
}

/// traps.md B74: frames are whole, and nothing clears the screen while it streams.
#[test]
fn frames_are_whole_and_the_screen_is_never_cleared_while_it_streams() {
    let long: String = (0..300).map(|n| format!("line {n} of an answer\n\n")).collect();
    let (_home, mut pty) = started(&[&long]);
    let before = pty.raw().len();
    pty.enter("go");
    pty.wait_for("line 299");
    pty.send("\x04");
    let (_, raw) = pty.end();
    let log = String::from_utf8_lossy(&raw).into_owned();
    let left = at(&log, "\x1b[?1049l");
    let streamed = &log[before..left];
    for clear in ["\x1b[2J", "\x1b[3J"] {
        assert!(!streamed.contains(clear), "{clear:?}");
    }
    let (begun, ended) = (log.matches("\x1b[?2026h").count(), log.matches("\x1b[?2026l").count());
    assert!(begun > 1 && ended >= begun, "{begun} frames begun, {ended} ended");
    assert!(streamed.len() < 60_000, "{} bytes", streamed.len());
}

#[test]
fn the_mouse_copies_the_exact_text_through_the_terminal() {
    let (_home, mut pty) = started(&["The test passes now."]);
    pty.enter("hello");
    pty.wait_for("The test passes now.");
    let screen = pty.screen();
    let row = screen.lines().position(|line| line.contains("The test passes")).expect("the row") + 1;
    pty.send(&format!("\x1b[<0;2;{row}M\x1b[<32;16;{row}M\x1b[<0;16;{row}m"));
    pty.wait_for("copied");
    let log = String::from_utf8_lossy(&pty.raw()).into_owned();
    // "The test passes"
    assert!(log.contains("\x1b]52;c;VGhlIHRlc3QgcGFzc2Vz"), "{log:?}");
}

/// traps.md B85, B90 and B94.
#[test]
fn keys_and_pastes_come_in_as_they_were_meant() {
    let (_home, mut pty) = started(&["ok"]);
    pty.send("one\x1b[13;2utwo\x1b[27;2;13~three\x1b\rfour");
    pty.wait("four lines", |screen| {
        ["one", "two", "three", "four"].iter().all(|word| screen.lines().any(|line| line.contains(word)))
    });
    pty.send("\x1b[200~five\nsix\x1b[2");
    pty.send("01~");
    pty.wait_for("six");
    // A mouse report that comes in two pieces types nothing.
    pty.send("\x1b[<35;1");
    pty.send("50;7M");
    pty.send("!");
    pty.wait("the mark", |screen| screen.lines().any(|line| line.contains("six!")));
    assert!(!pty.screen().contains("35;1"));
}

/// traps.md B148.
#[test]
fn links_lead_only_where_they_may() {
    let answer = "See [the docs](https://example.org/a?b=1), [this](javascript:alert(1)), [that](file:///etc/passwd) and https://plain.org.";
    let home = TestHome::new(&Server::answering(move |_| Step::stream(Api::Chat.answer(answer, &[]))), Api::Chat);
    for (variables, shown) in [(&[("TERM", "xterm-kitty")][..], true), (&[], false)] {
        let mut pty = Pty::with(&home, &["--no-session"], variables);
        pty.wait_for("F1 help");
        pty.enter("go");
        pty.wait_for("plain.org");
        let log = String::from_utf8_lossy(&pty.raw()).into_owned();
        assert_eq!(log.contains("\x1b]8;;https://example.org/a?b=1\x1b\\"), shown);
        assert!(!log.contains("]8;;javascript") && !log.contains("]8;;file"));
        let screen = pty.screen();
        assert_eq!(screen.contains("the docs (https://example.org/a?b=1)"), !shown, "{screen}");
        assert!(screen.contains("javascript:alert(1)"), "what it would have led to is told: {screen}");
        if shown {
            assert_eq!(log.matches("\x1b]8;;h").count(), log.matches("\x1b]8;;\x1b\\").count(), "every link ends");
        }
    }
}
