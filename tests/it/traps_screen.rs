//! traps.md f): the bytes of frames, and what a terminal makes of them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::home::TestHome;
use crate::support::pty::Pty;
use crate::support::server::{Piece, Server, Step};
use crate::support::wire::{Api, chunk};

const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";

/// An answer in small pieces; those that are `None` wait until the test lets them go on.
fn streamed(pieces: impl IntoIterator<Item = Option<String>>) -> Step {
    let mut step = Step::stream(Api::Chat.begun(""));
    step.pieces.extend(pieces.into_iter().map(|piece| match piece {
        Some(text) => Piece::Bytes(chunk(&json!({"content": text}), Value::Null).into_bytes()),
        None => Piece::Hold,
    }));
    step.then(Piece::Bytes(Api::Chat.rest("", &[]).into_bytes()))
}

/// The program, with a key that paints the whole screen anew.
fn started(server: &Server, variables: &[(&str, &str)]) -> (TestHome, Pty) {
    let home = TestHome::new(server, Api::Chat);
    home.write(".violin/agent/keybindings.json", r#"{"app.repaint": ["f12"]}"#);
    let pty = Pty::with(&home, &[], variables);
    pty.wait_for("F1 help");
    (home, pty)
}

fn log(pty: &Pty) -> String {
    text(&pty.raw())
}

fn text(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).into_owned()
}

/// How often the whole screen was painted, each time to the end.
fn cleared(raw: &[u8]) -> usize {
    let text = text(raw);
    text.rfind(END).map_or(0, |end| text[..end].matches("\x1b[2J").count())
}

/// How often the whole screen was painted.
fn whole(pty: &Pty) -> usize {
    cleared(&pty.raw())
}

/// Another size; waits until the screen was painted for it.
fn resize(pty: &Pty, columns: u16, rows: u16) {
    let before = whole(pty);
    pty.resize(columns, rows);
    pty.wait_sent(&format!("it is painted at {columns} × {rows}"), |raw| cleared(raw) > before);
}

/// What a terminal of the present size shows of frames that begin with one that paints all of it.
fn replayed(pty: &Pty, frames: &str) -> vt100::Parser {
    let (rows, columns) = pty.size();
    let mut parser = vt100::Parser::new(rows, columns, 0);
    let from = frames.rfind("\x1b[?2026h\x1b[0m\x1b[2J").expect("all was painted");
    let end = frames.rfind(END).expect("a frame ended") + END.len();
    parser.process(&frames.as_bytes()[from..end]);
    parser
}

/// The screen shows what it shows when it is painted anew: no cell is stale.
fn nothing_is_stale(pty: &mut Pty) {
    pty.wait("nothing goes on", |screen| !screen.contains("esc to interrupt") && screen.contains("F1 help"));
    let before = whole(pty);
    pty.send("\x1b[24~");
    pty.wait_sent("it is painted anew", |raw| cleared(raw) > before);
    let log = log(pty);
    let anew = log.rfind("\x1b[?2026h\x1b[0m\x1b[2J").expect("it is painted");
    let lines = |frames: &str| {
        let screen = replayed(pty, frames).screen().contents();
        screen.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(lines(&log[..anew]), lines(&log));
}

/// traps.md B74: 300 small pieces of an answer that is taller than the window.
#[test]
fn frames_are_few_small_and_whole_while_it_streams() {
    let pieces = (0..300).map(|n| Some(format!("word {n} of it{}", if n % 6 == 5 { "\n\n" } else { " " })));
    let server = Server::scripted([streamed(pieces)]);
    let (_home, mut pty) = started(&server, &[]);
    resize(&pty, 80, 24);
    let (before, begun) = (log(&pty).len(), Instant::now());
    pty.enter("go");
    pty.wait_for("word 299");
    pty.wait("the run is over", |screen| !screen.contains("esc to interrupt"));
    let (took, all) = (begun.elapsed(), log(&pty));
    let sent = &all[before..];
    for clear in ["\x1b[2J", "\x1b[3J"] {
        assert!(!sent.contains(clear), "{clear:?}");
    }
    let frames: Vec<&str> = sent.split(BEGIN).skip(1).collect();
    assert!(frames.len() > 1);
    for frame in &frames {
        assert_eq!(frame.matches(END).count(), 1, "every frame ends: {frame:?}");
        assert!(frame.len() < 4000, "{} bytes in a frame: {frame:?}", frame.len());
    }
    // At most 60 frames a second: the program cannot have had more time than went by here.
    let most = took.as_millis() / Duration::from_millis(16).as_millis() + 2;
    assert!(frames.len() as u128 <= most, "{} frames in {took:?}", frames.len());
}

/// traps.md B76: characters that terminals measure differently, in pieces that join late, beside a border.
#[test]
fn no_character_shifts_a_border_or_leaves_anything_behind() {
    let mixed = ["♻️♻️ ❤️ 👩‍🔬 🥲🏻 🇨", "🇳", " 한글 ", "e", "\u{301} क्ष 👨‍👩‍", "👧‍👦 日本語\n\n"];
    let pieces = (0..12).flat_map(|_| mixed).map(|text| Some(text.to_owned()));
    let server =
        Server::scripted([streamed(pieces.clone().chain([None]).chain(pieces).chain([Some("The end.".into())]))]);
    let (_home, mut pty) = started(&server, &[]);
    resize(&pty, 121, 30);
    pty.enter("go");
    server.wait_holding(1);
    pty.send("\x0f");
    // The pane's border stands in its column in each row above the prompt, after a whole frame.
    let border = |pty: &Pty| {
        pty.wait_sent("the frame is whole", |raw| raw.ends_with(END.as_bytes()));
        let parser = replayed(pty, &log(pty));
        let screen = parser.screen();
        let (_, columns) = screen.size();
        let column = columns - (columns * 2 / 5);
        for y in 0..20 {
            let found: Vec<u16> =
                (0..columns).filter(|x| screen.cell(y, *x).is_some_and(|cell| cell.contents() == "│")).collect();
            assert_eq!(found, [column], "row {y} of\n{}", screen.contents());
        }
    };
    pty.wait_for("no tool has run yet");
    border(&pty);
    server.release();
    pty.wait_for("The end.");
    border(&pty);
    // The wheel up and down; to the begin, and to the end.
    for (keys, shows) in
        [("\x1b[<64;9;9M", "↓ more"), ("\x1b[<65;9;9M", "The end."), ("\x1b[1;5H", "▌ go"), ("\x1b[1;5F", "The end.")]
    {
        pty.send(keys);
        let end = shows == "The end.";
        pty.wait("it is scrolled", |screen| screen.contains(shows) && screen.contains("The end.") == end);
        nothing_is_stale(&mut pty);
        border(&pty);
    }
    resize(&pty, 110, 30);
    nothing_is_stale(&mut pty);
    border(&pty);
}

/// traps.md B78 and B88: through sizes at which nothing fits, whatever lies over the screen; at 80 × 24 it is as ever.
#[test]
fn whatever_is_open_outlives_any_size() {
    let server = Server::scripted([streamed((0..300).map(|n| Some(format!("line {n} of it\n\n"))))]);
    let (_home, mut pty) = started(&server, &[]);
    pty.enter("go");
    pty.wait_for("line 299");
    let sizes = [(1, 1), (2, 1), (1, 5), (80, 1), (300, 2), (20, 5), (300, 100), (80, 24)];
    // The tree, the models, settings, completions, the help, the output; and scrolled up.
    for (open, shows, close) in [
        ("\x14", "TREE", "\x14"),
        ("\x0c", "╭ models", "\x1b"),
        ("/settings\r", "╭ settings", "\x1b"),
        ("/", "/model", "\x1b"),
        ("\x1bOP", "Ctrl+L", "\x1b"),
        ("\x0f", "OUTPUT", "\x0f"),
        ("\x1b[1;5H", "line 0 of it", "\x1b[1;5F"),
    ] {
        pty.send(open);
        pty.wait_for(shows);
        for (columns, rows) in sizes {
            resize(&pty, columns, rows);
            pty.send("\x1b[A\x1b[B");
        }
        pty.wait_for(shows);
        pty.send(close);
        pty.wait(&format!("{open:?} is closed"), |screen| !screen.contains(shows));
        // Whatever stood in the prompt.
        pty.send("\x15");
        pty.wait("the prompt is empty", |screen| screen.contains("│ >  "));
        nothing_is_stale(&mut pty);
    }
}

/// traps.md B88: a storm of sizes while it streams, and something tall that is closed.
#[test]
fn a_storm_of_sizes_while_it_streams_leaves_nothing_behind() {
    let pieces = (0..400).map(|n| Some(format!("word {n} 日本 {}", if n % 9 == 8 { "\n\n" } else { "" })));
    let server = Server::scripted([streamed([None].into_iter().chain(pieces).chain([Some("The end.".into())]))]);
    let (_home, mut pty) = started(&server, &[]);
    pty.enter("go");
    server.wait_holding(1);
    pty.send("\x1bOP");
    pty.wait_for("Ctrl+L");
    server.release();
    for n in 0..50 {
        pty.resize(30 + n * 37 % 110, 8 + n * 13 % 40);
    }
    pty.send("\x1b");
    pty.resize(80, 24);
    pty.wait_for("The end.");
    nothing_is_stale(&mut pty);
    let screen = pty.screen();
    assert_eq!(screen.lines().count(), 24, "{screen}");
    assert_eq!(screen.lines().filter(|line| line.contains("╰──")).count(), 1, "{screen}");
}

/// How many notifications stand between two frames; `None` where there is anything else but whole ones and titles.
fn notifications(mut between: &str) -> Option<usize> {
    let mut count = 0;
    while !between.is_empty() {
        if let Some(words) = between.strip_prefix("\x1b]0;") {
            between = words.split_once('\x07').filter(|(words, _)| !words.contains('\x1b'))?.1;
            continue;
        }
        between = between.strip_prefix('\x07').or(between.strip_prefix("\x1b]9;violin: done\x07"))?;
        count += 1;
    }
    Some(count)
}

/// What was sent from the first frame on: each frame, and what stands behind it.
fn parted(log: &str) -> impl Iterator<Item = (&str, &str)> {
    log.split(BEGIN).skip(1).filter_map(|part| part.split_once(END))
}

/// traps.md B89: notifications and titles stand between frames and are whole, however fast it streams.
#[test]
fn notifications_and_titles_never_cut_into_a_frame() {
    for notify in ["bell", "desktop"] {
        let pieces = || (0..200).map(|n| Some(format!("word {n} "))).chain([Some("over".to_owned())]);
        let server = Server::answering(move |_| streamed(pieces()));
        let home = TestHome::new(&server, Api::Chat);
        home.write_settings(json!({"notify": notify}));
        let mut pty = Pty::start(&home, &[]);
        pty.wait_for("F1 help");
        // Nobody looks at the window.
        pty.send("\x1b[O");
        let told = |log: &str| parted(log).filter_map(|(_, between)| notifications(between)).sum::<usize>();
        for n in 1..=3 {
            pty.enter(&format!("/name title {n}"));
            let title = format!("\x1b]0;violin - title {n} - project\x07");
            pty.wait_sent("it is named", |raw| text(raw).contains(&title));
            pty.enter("go");
            pty.wait_sent(&format!("{n} ends are told"), |raw| told(&text(raw)) >= n);
        }
        let log = log(&pty);
        assert_eq!(told(&log), 3);
        // The first frame comes before the terminal is asked for its colours.
        for (frame, between) in parted(&log).skip(1) {
            assert!(!["\x07", "\x1b]0;", "\x1b]9;"].iter().any(|mark| frame.contains(mark)), "{frame:?}");
            assert!(notifications(between).is_some(), "{between:?}");
        }
    }
}

/// The parameters of all sequences that set colours and styles.
fn styles(log: &str) -> Vec<String> {
    let parts = log.split("\x1b[").skip(1);
    let ended = parts.filter_map(|part| {
        part.split_once(|c: char| c.is_ascii_alphabetic()).map(|(body, _)| (body, &part[body.len()..]))
    });
    ended
        .filter(|(body, rest)| rest.starts_with('m') && !body.starts_with('>'))
        .map(|(body, _)| body.to_owned())
        .collect()
}

/// traps.md B82: where a terminal has 16 colours or none, no others are sent; the ground stays its own, and commands
/// know of it.
#[test]
fn a_terminal_gets_only_colours_that_it_has() {
    let code = "```rust\nfn main() { let x = \"text\"; } // why\n```\n\n# Head\n\n> quote `code` [link](https://example.org)\n";
    let server = Server::answering(move |asked| {
        let messages = asked.body["messages"].as_array().expect("messages");
        match messages.last().expect("one")["role"] == "tool" {
            true => Step::stream(Api::Chat.answer("All done.", &[])),
            false => {
                let command = json!({"command": "printf 'no=%s. \\033[31mred\\033[0m\\n' \"$NO_COLOR\""});
                let write = json!({"path": "a.rs", "content": "fn a() {}\n"});
                Step::stream(Api::Chat.answer(code, &[("c1", "bash", command), ("c2", "write", write)]))
            }
        }
    });
    let terminals: [(&[(&str, &str)], &str); 2] =
        [(&[("TERM", "xterm"), ("COLORTERM", "")], "no=."), (&[("NO_COLOR", "1")], "no=1.")];
    for (variables, told) in terminals {
        let (_home, mut pty) = started(&server, variables);
        pty.enter("go");
        pty.wait_for("All done.");
        pty.wait_for(told);
        pty.wait("the run is over", |screen| !screen.contains("esc to interrupt"));
        assert_eq!(pty.marked(), [""; 0], "the ground is the terminal's own");
        for style in styles(&log(&pty)) {
            let plain = |part: &str| matches!(part, "" | "0" | "1" | "2" | "3" | "4" | "7" | "9");
            let of_16 =
                |part: &str| part.parse().is_ok_and(|n: u8| matches!(n, 30..=37 | 39..=47 | 49 | 90..=97 | 100..=107));
            let fits = |part: &str| plain(part) || (told == "no=." && of_16(part));
            assert!(style.split(';').all(fits), "{style:?}");
        }
    }
}
