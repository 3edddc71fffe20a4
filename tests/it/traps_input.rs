//! traps.md g): keys and pastes as the bytes that terminals send, up to the request that the model gets.

use serde_json::{Value, json};

use crate::support::home::TestHome;
use crate::support::pty::Pty;
use crate::support::server::{Piece, Server, Step};
use crate::support::wire::{Api, chunk};
use crate::terminal::given_back;

/// A server that answers everything with "ok", and the program before it.
fn started() -> (Server, TestHome, Pty) {
    let server = Server::answering(|_| Step::stream(Api::Chat.answer("ok", &[])));
    let fields = json!({"contextWindow": 4_000_000, "input": ["text"]});
    let home = TestHome::with_model(&server, Api::Chat, &fields);
    let pty = Pty::start(&home, &[]);
    pty.wait_for("F1 help");
    (server, home, pty)
}

/// The rows between the prompt's borders, without their marks.
fn prompt(screen: &str) -> Vec<String> {
    let lines: Vec<&str> = screen.lines().collect();
    let row = |corner: char| lines.iter().rposition(|line| line.starts_with(corner));
    let (Some(top), Some(bottom)) = (row('╭'), row('╰')) else { return Vec::new() };
    let inside = lines.get(top + 1..bottom).unwrap_or_default();
    inside
        .iter()
        .map(|line| line.trim_matches('│').get(1..).unwrap_or("").trim_start_matches("> ").trim().to_owned())
        .collect()
}

fn wait_prompt(pty: &Pty, wanted: &[&str]) {
    pty.wait(&format!("{wanted:?} stands in the prompt"), |screen| prompt(screen) == wanted);
}

/// What the person says last in the `count`-th request.
fn said(server: &Server, count: usize) -> String {
    let asked = server.wait_asked(count);
    let messages = asked[count - 1].body["messages"].as_array().expect("messages").clone();
    let user = messages.iter().rfind(|message| message["role"] == "user").expect("the person says something");
    user["content"].as_str().expect("text").to_owned()
}

/// traps.md B94: every form of Shift+Enter, Alt+Enter, Ctrl+J and a backslash make a new line; Enter alone sends.
#[test]
fn every_form_of_a_new_line_makes_one_and_enter_alone_sends() {
    let (server, _home, mut pty) = started();
    let mut rows: Vec<&str> = vec![""];
    for (word, end) in
        [("one", "\x1b[13;2u"), ("two", "\x1b[27;2;13~"), ("three", "\x1b\r"), ("four", "\n"), ("five", "\\\r")]
    {
        pty.send(word);
        rows.pop();
        rows.push(word);
        wait_prompt(&pty, &rows);
        pty.send(end);
        rows.push("");
        wait_prompt(&pty, &rows);
    }
    pty.send("six");
    wait_prompt(&pty, &["one", "two", "three", "four", "five", "six"]);
    assert!(server.asked().is_empty(), "nothing was sent yet");
    pty.send("\r");
    assert_eq!(said(&server, 1), "one\ntwo\nthree\nfour\nfive\nsix");
}

/// traps.md B90: what is pasted is one draft, in brackets as without, whatever line ends it has.
#[test]
fn a_pasted_line_end_never_sends() {
    let (server, _home, mut pty) = started();
    // As `tmux paste-buffer` without -p gives it.
    pty.send("uno\rdos\rtres\r");
    wait_prompt(&pty, &["uno", "dos", "tres", ""]);
    pty.send("\x1b[200~cuatro\rcinco\r\nseis\n\x1b[201~");
    wait_prompt(&pty, &["uno", "dos", "tres", "cuatro", "cinco", "seis", ""]);
    assert!(server.asked().is_empty(), "nothing was sent yet");
    pty.send("\r");
    assert_eq!(said(&server, 1), "uno\ndos\ntres\ncuatro\ncinco\nseis");
    pty.wait_for("ok");
    assert_eq!(server.asked().len(), 1);
}

/// traps.md B92: a megabyte in small writes, with its end cut in two, is one mark, and is sent once and whole.
#[test]
fn a_megabyte_pasted_in_pieces_is_one_mark_and_is_sent_once() {
    let (server, _home, mut pty) = started();
    let text: String = (0..40_000).map(|n| format!("see @src/file_{n}.rs and 日本\n")).collect();
    assert!(text.len() > 1_000_000);
    let paste = |pty: &mut Pty, text: &str| {
        pty.send("\x1b[200~");
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(4096));
            pty.send(piece);
            rest = after;
        }
        pty.send("\x1b[20");
        pty.send("1~");
    };
    paste(&mut pty, &"a line\n".repeat(12));
    wait_prompt(&pty, &["[paste #1 +12 lines]"]);
    pty.send("\x7f");
    wait_prompt(&pty, &[""]);
    paste(&mut pty, &text);
    wait_prompt(&pty, &["[paste #2 +40000 lines]"]);
    pty.send("\r");
    assert_eq!(said(&server, 1), text.trim_end());
    pty.wait_for("ok");
    wait_prompt(&pty, &[""]);
    assert_eq!(server.asked().len(), 1);
}

/// traps.md B93: the mark of a paste is one character for the cursor, and stands for the text whatever is done around it.
#[test]
fn the_text_behind_a_mark_is_sent_whatever_is_done_around_it() {
    let (server, _home, mut pty) = started();
    pty.enter("hello there");
    pty.wait_for("ok");
    let text: String = (0..50).map(|n| format!("pasted line {n}\n")).collect();
    pty.send(&format!("\x1b[200~{text}\x1b[201~"));
    wait_prompt(&pty, &["[paste #1 +50 lines]"]);
    pty.send("\x1b[D");
    pty.send("this: ");
    wait_prompt(&pty, &["this: [paste #1 +50 lines]"]);
    pty.send("\x01");
    // Undo and redo.
    pty.send("\x1f");
    wait_prompt(&pty, &["[paste #1 +50 lines]"]);
    pty.send("\x1b_");
    wait_prompt(&pty, &["this: [paste #1 +50 lines]"]);
    // Up to what was sent before, and back; to the begin of the line first, where Up leads out of the prompt.
    pty.send("\x01\x1b[A");
    wait_prompt(&pty, &["hello there"]);
    pty.send("\x1b[B");
    wait_prompt(&pty, &["this: [paste #1 +50 lines]"]);
    pty.send("\r");
    let whole = format!("this: {}", text.trim_end());
    assert_eq!(said(&server, 2), whole);
    wait_prompt(&pty, &[""]);
    // Another paste gets the same mark; what comes back from the history is not mixed up with it.
    pty.send(&format!("\x1b[200~{}\x1b[201~", "other\n".repeat(50)));
    wait_prompt(&pty, &["[paste #1 +50 lines]"]);
    pty.send("\x01\x1b[A");
    pty.wait("the long text is back", |screen| prompt(screen).iter().any(|row| row.contains("pasted line 49")));
    pty.send("\r");
    assert_eq!(said(&server, 3), whole);
}

/// traps.md B96: the base layout's key counts only where the key itself is of another script.
#[test]
fn shortcuts_are_those_of_the_layout_and_work_in_other_scripts() {
    let (_server, _home, mut pty) = started();
    pty.send("keep this");
    wait_prompt(&pty, &["keep this"]);
    // Ctrl+K on Dvorak, whose key is V elsewhere: it deletes to the end and pastes nothing.
    pty.send("\x1b[1;5D\x1b[107::118;5u");
    wait_prompt(&pty, &["keep"]);
    // Ctrl+С on a Cyrillic keyboard is Ctrl+C.
    pty.send("\x1b[1089::99;5u");
    wait_prompt(&pty, &[""]);
    pty.send("\x1b[1089::99;5u");
    pty.wait_for("Ctrl+C again to quit");
}

/// traps.md B85: a mouse report in two reads types nothing, and a lone Esc is a key.
#[test]
fn a_split_mouse_report_types_nothing_and_a_lone_escape_works() {
    let (_server, _home, mut pty) = started();
    pty.send("/");
    pty.wait_for("/model");
    pty.send("\x1b");
    pty.wait("the popup is closed", |screen| !screen.contains("/model"));
    for report in
        ["\x1b[<35;1", "50;7M", "\x1b[<35;150", ";7M", "\x1b[<35;150;7", "M", "\x1b[<0;150;7M\x1b[<0;1", "50;7m"]
    {
        pty.send(report);
    }
    pty.send("!");
    wait_prompt(&pty, &["/!"]);
}

/// The screen after each frame of what was sent from `from` to `to`.
fn frames(raw: &[u8], from: usize, to: usize, mut each: impl FnMut(&vt100::Screen)) -> usize {
    let mut parser = vt100::Parser::new(30, 100, 0);
    let (mut at, mut count) = (0, 0);
    let end = b"\x1b[?2026l";
    while let Some(next) = raw[at..to].windows(end.len()).position(|window| window == end) {
        let next = at + next + end.len();
        parser.process(&raw[at..next]);
        at = next;
        if at > from {
            each(parser.screen());
            count += 1;
        }
    }
    count
}

/// traps.md B97: after every frame the terminal's cursor is shown and stands where the text cursor is, so that an
/// input method opens there: while an answer streams, and in what lies over the screen.
#[test]
fn the_terminals_cursor_is_the_caret_after_every_frame() {
    let mut step = Step::stream(Api::Chat.begun("Begun. "));
    for n in 0..24 {
        // Each waits for the frame before it.
        step.pieces.push(Piece::Hold);
        let text = format!("word {n} 日本 {}", if n % 4 == 3 { "\n\n" } else { "" });
        step.pieces.push(Piece::Bytes(chunk(&json!({"content": text}), Value::Null).into_bytes()));
    }
    step.pieces.push(Piece::Bytes(Api::Chat.rest("", &[]).into_bytes()));
    let server = Server::scripted([step]);
    let home = TestHome::new(&server, Api::Chat);
    let mut pty = Pty::start(&home, &[]);
    pty.wait_for("F1 help");
    pty.enter("go");
    server.wait_holding(1);
    pty.send("日本x\x1b[D");
    // The cursor stands before the x, behind two characters of two cells.
    let caret_at = |screen: &vt100::Screen, before: &str| {
        let (rows, columns) = screen.size();
        let row = (0..rows).rev().find(|y| screen.contents_between(*y, 0, *y, columns).contains(before));
        let y = row.unwrap_or_else(|| panic!("{before:?} is not on the screen:\n{}", screen.contents()));
        let line = screen.contents_between(y, 0, y, columns);
        let at = line.find(before).expect("it is there") + before.len();
        (y, violin::text::width(&line[..at]) as u16)
    };
    let check = |screen: &vt100::Screen, before: &str| {
        assert!(!screen.hide_cursor(), "the cursor is hidden:\n{}", screen.contents());
        assert_eq!(screen.cursor_position(), caret_at(screen, before), "{}", screen.contents());
    };
    pty.wait_sent("the cursor is moved", |raw| {
        let mut moved = false;
        frames(raw, 0, raw.len(), |screen| {
            moved = screen.contents().contains("> 日本x") && screen.cursor_position() == caret_at(screen, "> 日本");
        });
        moved
    });
    let from = pty.raw().len();
    for n in 0..24 {
        server.release();
        pty.wait_for(&format!("word {n}"));
    }
    pty.wait("the run is over", |screen| !screen.contains("esc to interrupt"));
    let raw = pty.raw();
    let count = frames(&raw, from, raw.len(), |screen| check(screen, "> 日本"));
    assert!(count >= 24, "{count} frames");
    // Over the screen: the list of models and the search, their cursors moved too.
    for (open, text, before) in [("\x0c", "模型", "> 模型"), ("\x06", "本日x\x1b[D", "> 本日")] {
        pty.send(open);
        let opened = if open == "\x0c" { "╭ models" } else { "╭ search" };
        pty.wait_for(opened);
        pty.send(text);
        let stands = |raw: &[u8]| {
            let mut stands = false;
            frames(raw, 0, raw.len(), |screen| {
                stands = screen.contents().contains(before) && screen.cursor_position() == caret_at(screen, before);
            });
            stands
        };
        pty.wait_sent(&format!("the cursor stands behind {before:?}"), |raw| stands(raw));
        pty.send("\x1b");
        pty.wait("it is closed", |screen| !screen.contains(opened) && screen.contains("> 日本x"));
    }
    pty.wait_sent("the cursor is back", |raw| {
        let mut back = false;
        frames(raw, 0, raw.len(), |screen| {
            back = screen.contents().contains("> 日本") && screen.cursor_position() == caret_at(screen, "> 日本");
        });
        back
    });
}

/// traps.md B98: keys move over and delete what a reader takes for one character.
#[test]
fn keys_take_characters_whole() {
    let (server, _home, mut pty) = started();
    // Left over the é, back over the family; Ctrl+E, and the é; Ctrl+W takes a word and never the whole line.
    pty.send("क्ष👨\u{200d}👩\u{200d}👧\u{200d}👦e\u{301}");
    pty.send("\x1b[D\x7f");
    pty.send("\x05\x7f");
    pty.send(" 日本語テスト foo");
    pty.wait_for("foo");
    pty.send("\x17");
    pty.wait("only foo is gone", |screen| !screen.contains("foo") && screen.contains("テスト"));
    pty.send("\x17!");
    pty.wait("only a word is gone", |screen| !screen.contains("テスト") && screen.contains('!'));
    pty.send("\r");
    let text = said(&server, 1);
    assert!(text.starts_with("क्ष 日本語") && text.ends_with('!'), "{text:?}");
}

/// traps.md B100: what is typed before the terminal is given back never reaches the shell, and no releases of keys are
/// asked for, so that none can come later.
#[test]
fn keys_that_were_typed_before_the_end_do_not_reach_the_shell() {
    let server = Server::scripted([]);
    let home = TestHome::new(&server, Api::Chat);
    let mut pty = Pty::shell(&home);
    pty.wait_for("ready>");
    pty.send(&format!("{}\r", env!("CARGO_BIN_EXE_violin")));
    pty.wait_for("F1 help");
    // Ctrl+D and its release, as kitty sends them; then what would end the shell.
    pty.send("\x1b[100;5u\x1b[100;5:3u\x04\x04exit\r");
    pty.wait("the shell is back", |screen| !screen.contains("F1 help") && screen.trim_end().ends_with("ready>"));
    pty.send("echo al''ive\r");
    pty.wait_for("alive");
    let screen = pty.screen();
    assert!(!screen.contains("5:3u") && !screen.contains("exit"), "{screen}");
    pty.send("exit\r");
    let (_, raw) = pty.end();
    given_back(&raw);
    let log = String::from_utf8_lossy(&raw).into_owned();
    let flags = log.split("\x1b[>").skip(1).filter_map(|rest| rest.split_once('u')?.0.parse::<u8>().ok());
    // 2 asks for releases.
    assert!(flags.clone().count() == 1 && flags.clone().all(|flags| flags & 2 == 0), "{:?}", flags.collect::<Vec<_>>());
}
