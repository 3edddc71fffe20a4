//! The full-screen interface in a real pty, over real HTTP.

use std::fs;

use serde_json::{Value, json};

use crate::support::home::{TestHome, lines_of};
use crate::support::pty::Pty;
use crate::support::server::{Piece, Server, Step};
use crate::support::validate::assert_valid;
use crate::support::wire::Api;

/// The prompt is there.
fn ready(pty: &Pty) {
    pty.wait_for("F1 help");
}

fn text(text: &str) -> Step {
    Step::stream(Api::Chat.answer(text, &[]))
}

fn position(haystack: &[u8], needle: &str) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle.as_bytes())
}

fn last_position(haystack: &[u8], needle: &str) -> Option<usize> {
    haystack.windows(needle.len()).rposition(|window| window == needle.as_bytes())
}

#[test]
fn the_first_start_plays_the_demo_to_the_end() {
    let home = TestHome::bare();
    let mut pty = Pty::start(&home, &[]);
    ready(&pty);
    pty.wait_for("scripted");
    // The task stands in the prompt already.
    pty.wait_for("fix the failing cart test");
    pty.send("\r");
    pty.wait_for("what it finds.");
    // The screen is taller than the answer's last lines: the wheel brings the rest back.
    pty.send("\x1b[<64;10;10M\x1b[<64;10;10M\x1b[<64;10;10M");
    pty.wait_for("+3 −1");
    let screen = pty.screen();
    assert!(
        screen.contains("edit") && screen.contains("+3 −1") && screen.contains("a total is never negative"),
        "{screen}"
    );
    pty.send("\x04");
    let (status, raw) = pty.end();
    assert!(status.success());
    // The terminal is given back: the alternate screen is left last, and two lines tell how to come back.
    let left = last_position(&raw, "\x1b[?1049l").expect("the screen was left");
    let tail = String::from_utf8_lossy(&raw[left..]).into_owned();
    assert!(tail.contains("violin -s 2"), "{tail:?}");
    assert!(position(&raw, "\x1b[?1049h").expect("entered") < left);
}

#[test]
fn a_conversation_is_shown_kept_and_continued() {
    let server = Server::scripted([
        Step::stream(Api::Chat.answer("Looking.", &[("c1", "bash", json!({"command": "echo from-the-shell"}))])),
        text("All **done** here."),
        text("Still here."),
    ]);
    let home = TestHome::new(&server, Api::Chat);
    let mut pty = Pty::start(&home, &[]);
    ready(&pty);
    pty.enter("do something");
    pty.wait_for("All done here.");
    pty.wait_for("from-the-shell");
    pty.send("\x04");
    assert!(pty.end().0.success());
    let mut pty = Pty::start(&home, &["-c"]);
    pty.wait_for("All done here.");
    pty.enter("and now");
    pty.wait_for("Still here.");
    pty.send("\x04");
    assert!(pty.end().0.success());
    assert_valid(Api::Chat, &server.asked()[2].body);
    assert_eq!(server.asked()[2].body["messages"].as_array().expect("messages").len(), 6);
}

#[test]
fn steering_goes_in_after_the_tools_and_follow_ups_at_the_end() {
    let hold = |answer: String| {
        let mut step = Step::stream("");
        step.pieces = vec![Piece::Hold, Piece::Bytes(answer.into_bytes())];
        step
    };
    let server = Server::scripted([
        hold(Api::Chat.answer("", &[("c1", "bash", json!({"command": "echo one"}))])),
        text("first"),
        text("second"),
    ]);
    let home = TestHome::new(&server, Api::Chat);
    let mut pty = Pty::start(&home, &[]);
    ready(&pty);
    pty.enter("begin");
    server.wait_holding(1);
    pty.enter("steer this way");
    // What comes in one burst with a line's end would be taken for a paste.
    pty.wait_for("1 queued");
    pty.send("and then that");
    pty.wait_for("and then that");
    pty.send("\t");
    pty.wait("both are queued", |screen| screen.contains("2 queued"));
    server.release();
    pty.wait_for("second");
    let asked = server.wait_asked(3);
    let users = |body: &Value| -> Vec<String> {
        let messages = body["messages"].as_array().expect("messages");
        messages
            .iter()
            .filter(|m| m["role"] == "user")
            .map(|m| m["content"].as_str().expect("text").to_owned())
            .collect()
    };
    assert_eq!(users(&asked[1].body), ["begin", "steer this way"]);
    assert_eq!(users(&asked[2].body), ["begin", "steer this way", "and then that"]);
    let last = asked[1].body["messages"].as_array().expect("messages").last().expect("one").clone();
    assert_eq!(last["content"], "steer this way", "after the result");
}

/// traps.md B140.
#[test]
fn escape_interrupts_and_brings_queued_messages_back() {
    let mut held = Step::stream(Api::Chat.begun("Half of"));
    held.pieces.push(Piece::Hold);
    let server = Server::scripted([held, text("whole")]);
    let home = TestHome::new(&server, Api::Chat);
    let mut pty = Pty::start(&home, &[]);
    ready(&pty);
    pty.enter("go");
    pty.wait_for("Half of");
    pty.enter("never mind");
    pty.wait_for("1 queued");
    pty.send("\x1b");
    server.wait_gone(1);
    pty.wait("the message is back in the prompt", |screen| screen.contains("never mind") && !screen.contains("queued"));
    pty.send("\r");
    pty.wait_for("whole");
    let body = &server.asked()[1].body;
    assert_valid(Api::Chat, body);
    let texts: Vec<_> =
        body["messages"].as_array().expect("messages")[1..].iter().map(|m| m["content"].clone()).collect();
    assert_eq!(texts, ["go", "Half of", "never mind"]);
}

/// traps.md B146.
#[test]
fn no_control_sequence_of_a_model_or_a_tool_reaches_the_terminal() {
    let hostile = "a\u{1b}]52;c;ZXZpbA==\u{7}b\u{1b}]0;pwn\u{7}c\u{1b}[2Jd\u{1b}[6ne\u{1b}Px\u{1b}\\f\u{9b}2Jg\u{1b}]unterminated";
    let server = Server::scripted([
        Step::stream(Api::Chat.answer(
            hostile,
            &[
                ("c1", "read", json!({"path": "\u{1b}]0;pwn\u{7}x"})),
                ("c2", "bash", json!({"command": "printf 'z\\033]0;pwn\\007\\033[?1049lz\\n'"})),
            ],
        )),
        text("the end"),
    ]);
    let home = TestHome::new(&server, Api::Chat);
    let mut pty = Pty::start(&home, &[]);
    ready(&pty);
    pty.enter("go");
    pty.wait_for("the end");
    let raw = pty.raw();
    for needle in
        ["\x1b]52;c;ZXZp", "\x1b]0;pwn", "pwn\x07", "\x1b[2Jd", "\x1b[6ne", "\x1bPx", "\x1b]unterminated", "\u{9b}"]
    {
        assert_eq!(position(&raw, needle), None, "{needle:?}");
    }
    // In texts controls stand as symbols; of a command's output they go whole.
    let screen = pty.screen();
    assert!(screen.contains("a␛]52;c;ZXZpbA==␇b␛]0;pwn␇c␛[2Jd"), "{screen}");
    assert!(screen.contains("zz"), "{screen}");
    assert_eq!(position(&raw, "\x1b[?1049l"), None, "the screen was not left");
}

/// A scripted run of three messages that change files by edit, write and bash; back, on another branch, and back again.
#[test]
fn the_tree_goes_back_with_the_files() {
    let server = Server::scripted([
        Step::stream(Api::Chat.answer("", &[("c1", "write", json!({"path": "a.txt", "content": "one\n"}))])),
        text("wrote one"),
        Step::stream(
            Api::Chat.answer("", &[("c2", "edit", json!({"path": "a.txt", "old_text": "one", "new_text": "two"}))]),
        ),
        text("made it two"),
        Step::stream(Api::Chat.answer("", &[("c3", "bash", json!({"command": "mv a.txt b.txt; chmod 755 b.txt"}))])),
        text("moved it"),
    ]);
    let home = TestHome::new(&server, Api::Chat);
    let file = |name: &str| fs::read_to_string(home.project().join(name)).ok();
    let mut pty = Pty::start(&home, &[]);
    ready(&pty);
    for (prompt, answer) in [("first", "wrote one"), ("second", "made it two"), ("third", "moved it")] {
        pty.enter(prompt);
        pty.wait_for(answer);
    }
    pty.wait("the run is over", |screen| !screen.contains("esc to interrupt"));
    assert_eq!((file("a.txt"), file("b.txt").as_deref()), (None, Some("two\n")));
    pty.enter("/undo");
    pty.wait_for("restored");
    assert_eq!((file("a.txt").as_deref(), file("b.txt")), (Some("two\n"), None));
    // An undo is undone the same way.
    pty.enter("/undo");
    pty.wait("it is undone", |_| file("b.txt").is_some());
    assert_eq!(file("a.txt"), None);
    let lines = lines_of(&home.sessions()[0]);
    let checkpoints = lines.iter().filter(|line| line["type"] == "checkpoint").count();
    assert_eq!(checkpoints, 6, "one before and one after each run");
}

#[test]
fn what_the_environment_offers_is_shown_and_written_on_a_key_press() {
    let home = TestHome::bare();
    let mut pty = Pty::with(&home, &[], &[("ANTHROPIC_API_KEY", "sk-VIOLINTEST")]);
    pty.wait_for("anthropic: the key in ANTHROPIC_API_KEY");
    pty.send("w");
    pty.wait_for("written: ~/.violin/agent/models.json");
    let written = fs::read_to_string(home.home().join(".violin/agent/models.json")).expect("there");
    assert!(written.contains("\"$ANTHROPIC_API_KEY\"") && !written.contains("sk-VIOLINTEST"), "{written}");
    pty.send("\x04");
    let (_, raw) = pty.end();
    assert_eq!(position(&raw, "sk-VIOLINTEST"), None);
}

/// traps.md B78 and B88.
#[test]
fn no_size_is_too_small_and_a_resize_leaves_nothing_behind() {
    let mut held = Step::stream(Api::Chat.begun(&"A line of text with 日本語 and 👩‍🔬 in it.\n\n".repeat(40)));
    held.pieces.push(Piece::Hold);
    let server = Server::scripted([held]);
    let home = TestHome::new(&server, Api::Chat);
    let mut pty = Pty::start(&home, &[]);
    ready(&pty);
    pty.enter("go");
    pty.wait_for("日本語");
    for (columns, rows) in [(1, 1), (2, 1), (1, 5), (80, 1), (300, 2), (20, 5), (40, 12), (300, 100), (5, 40)] {
        pty.resize(columns, rows);
        pty.send("\x14\x1b[Bx\x7f\x14");
    }
    pty.resize(80, 24);
    pty.wait("the screen is whole again", |screen| screen.contains("F1 help") && screen.contains("日本語"));
    let lines: Vec<_> = pty.screen().lines().map(str::to_owned).collect();
    assert_eq!(lines.iter().filter(|line| line.contains("╰──")).count(), 1, "{lines:#?}");
}

#[test]
fn a_model_that_a_server_offers_is_added_from_the_picker() {
    let server = Server::answering(|asked| match asked.path.ends_with("/models") {
        true => Step::error(200, &json!({"data": [{"id": "mock"}, {"id": "brand-new"}]})),
        false => text("ok"),
    });
    let home = TestHome::new(&server, Api::Chat);
    let mut pty = Pty::start(&home, &[]);
    ready(&pty);
    pty.send("\x0c");
    pty.wait_for("^A more");
    pty.send("\x01");
    pty.wait_for("mock/brand-new");
    pty.send("\r");
    pty.wait_for("mock/brand-new is in models.json now");
    pty.wait("it answers from here on", |screen| {
        screen.lines().next().is_some_and(|line| line.contains("mock/brand-new"))
    });
    let written = fs::read_to_string(home.home().join(".violin/agent/models.json")).expect("there");
    assert!(written.contains("brand-new"), "{written}");
}
