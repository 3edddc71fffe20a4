//! The mouse and the search in a real terminal.

use base64::Engine as _;

use crate::support::home::TestHome;
use crate::support::pty::Pty;
use crate::support::server::{Server, Step};
use crate::support::wire::Api;

/// The answer, 100 columns wide: prose that wraps, wide and combined characters, and code.
const PROSE: &str = "The quick brown fox jumps over src/cart/total.rs, and then it looks back at what it has done: 日本語テキスト and cafe\u{301} are here.";
const CODE: &str = "let text = \"two  blanks\";";

fn answered() -> (TestHome, Pty) {
    let answer = format!("{PROSE}\n\n```rust\n{CODE}\n```\n\nThe quick brown end.");
    let home = TestHome::new(&Server::scripted([Step::stream(Api::Chat.answer(&answer, &[]))]), Api::Chat);
    let mut pty = Pty::start(&home, &[]);
    pty.wait_for("F1 help");
    pty.enter("go");
    pty.wait_for("brown end.");
    pty.wait("the run is over", |screen| !screen.contains("esc to interrupt"));
    (home, pty)
}

/// The column and the row, from 1, at which a text begins on the screen.
fn place(pty: &Pty, what: &str) -> (usize, usize) {
    let screen = pty.screen();
    let found = screen.lines().enumerate().find_map(|(row, line)| Some((row, line, line.find(what)?)));
    let (row, line, at) = found.unwrap_or_else(|| panic!("{what:?} is not on the screen:\n{screen}"));
    (violin::text::width(&line[..at]) + 1, row + 1)
}

fn click(pty: &mut Pty, (x, y): (usize, usize), times: usize) {
    pty.send(&format!("\x1b[<0;{x};{y}M\x1b[<0;{x};{y}m").repeat(times));
}

fn drag(pty: &mut Pty, from: (usize, usize), to: (usize, usize)) {
    let ((x, y), (a, b)) = (from, to);
    pty.send(&format!("\x1b[<0;{x};{y}M\x1b[<32;{a};{b}M\x1b[<0;{a};{b}m"));
}

/// What was put into the clipboard through the terminal, in order; waits for so many.
fn copied(pty: &Pty, count: usize) -> Vec<String> {
    let texts = |raw: &[u8]| -> Vec<String> {
        let log = String::from_utf8_lossy(raw).into_owned();
        let ends = |part: &str| part.find(['\x07', '\x1b']).map(|end| part[..end].to_owned());
        let coded = log.split("\x1b]52;c;").skip(1).filter_map(ends);
        let decoded = coded.map(|text| base64::engine::general_purpose::STANDARD.decode(text).expect("base64"));
        decoded.map(|bytes| String::from_utf8(bytes).expect("text")).collect()
    };
    let begun = std::time::Instant::now();
    loop {
        let found = texts(&pty.raw());
        if found.len() >= count {
            return found;
        }
        assert!(begun.elapsed() < crate::support::server::PATIENCE, "only {found:?} was copied");
        std::thread::yield_now();
    }
}

#[test]
fn what_is_dragged_over_and_clicked_is_copied_as_it_was_written() {
    let (_home, mut pty) = answered();
    let (start, end) = (place(&pty, "brown fox"), place(&pty, "語テキスト"));
    assert_ne!(start.1, end.1, "it is wrapped");
    drag(&mut pty, start, end);
    let from = PROSE.find("brown").expect("there");
    let to = PROSE.find("語").expect("there") + "語".len();
    assert_eq!(copied(&pty, 1)[0], PROSE[from..to]);
    // Backwards, from the second cell of a wide character.
    drag(&mut pty, (end.0 + 1, end.1), start);
    assert_eq!(copied(&pty, 2)[1], PROSE[from..to]);
    // Through code, up to the end of another block.
    let (code, last) = (place(&pty, "let text"), place(&pty, "end."));
    drag(&mut pty, code, (last.0 + 3, last.1));
    assert_eq!(copied(&pty, 3)[2], format!("{CODE}\n\nThe quick brown end."));
    let cafe = place(&pty, "cafe");
    click(&mut pty, (cafe.0 + 3, cafe.1), 2);
    // A double click is two: the first releases nothing.
    assert_eq!(copied(&pty, 4)[3], "cafe\u{301}");
    let path = place(&pty, "total.rs");
    click(&mut pty, path, 3);
    // The third click takes the line, after the second has taken the word.
    let texts = copied(&pty, 6);
    assert_eq!(texts[4..], ["src/cart/total.rs".to_owned(), PROSE.to_owned()]);
    pty.send("\x04");
    assert!(pty.end().0.success());
}

#[test]
fn a_hit_over_the_end_of_a_row_is_marked_and_walked_to() {
    let (_home, mut pty) = answered();
    let screen = pty.screen();
    let row = screen.lines().find(|line| line.contains("The quick brown fox")).expect("the row").trim_end();
    let row = row.trim_start();
    assert!(PROSE.starts_with(row), "{row:?}");
    // The last four characters of the row and the first four of the next.
    let last = &row[row.char_indices().rev().nth(3).expect("four").0..];
    let rest = PROSE[row.len()..].trim_start();
    let next = &rest[..rest.char_indices().nth(4).expect("four").0];
    let query = &PROSE[row.len() - last.len()..PROSE.len() - rest.len() + next.len()];
    pty.send("\x06");
    pty.wait_for("search");
    pty.send(&query.to_uppercase());
    pty.wait_for("search · 1 of 1");
    let begun = std::time::Instant::now();
    while pty.marked() != [last, next] {
        assert!(begun.elapsed() < crate::support::server::PATIENCE, "{:?}", pty.marked());
        std::thread::yield_now();
    }
    pty.send("\x15the quick brown");
    pty.wait_for("search · 2 of 2");
    pty.send("\r");
    pty.wait_for("2/2");
    pty.send("n");
    pty.wait_for("1/2");
    pty.send("N");
    pty.wait_for("2/2");
    pty.send("\x1b");
    pty.wait("the search is over", |screen| !screen.contains("2/2"));
    pty.send("n");
    pty.wait("it is a letter again", |screen| screen.lines().any(|line| line.contains("> n")));
}
