//! What the interface does most: laying out, scrolling, searching, painting.

use std::time::Instant;

use divan::Bencher;
use ratatui::layout::Rect;
use violin::agent::Update;
use violin::event::Event;
use violin::theme::{Depth, Theme};
use violin::tui::app::AppState;
use violin::tui::highlight::Highlighter;
use violin::tui::msg::Msg;
use violin::tui::term::{Decoder, Painter};
use violin::tui::transcript::{CodeOf, Kind, Look, Search, Transcript, Wanted};
use violin::tui::update::update;
use violin::tui::{draw, layout};

fn main() {
    divan::main();
}

fn look(theme: &Theme) -> Look<'_> {
    Look { theme, generation: 0, width: 120, tick: 0, now: Instant::now() }
}

fn long(lines: usize) -> Transcript {
    let mut transcript = Transcript::default();
    for n in 0..lines / 10 {
        let text = format!("Paragraph {n} with **bold** words.\n\n- one\n- two\n\n```rust\nfn f() {{}}\n```\n");
        transcript.push(Kind::Answer { text, live: false }, None);
    }
    transcript
}

fn app() -> AppState {
    AppState::new((120, 40), "/p".into(), "/none".into(), Depth::True, "violin-dark", true)
}

#[divan::bench]
fn open_100_000_lines(bencher: Bencher) {
    let theme = Theme::built_in("violin-dark");
    bencher.with_inputs(|| long(100_000)).bench_values(|mut transcript| {
        transcript.layout(look(&theme), 40);
        transcript
    });
}

#[divan::bench]
fn scroll_a_page_in_100_000_lines(bencher: Bencher) {
    let theme = Theme::built_in("violin-dark");
    let mut transcript = long(100_000);
    transcript.layout(look(&theme), 40);
    bencher.bench_local(|| {
        transcript.scroll(-38, look(&theme));
        transcript.layout(look(&theme), 40);
        if transcript.view.first().is_some_and(|place| place.block < 10) {
            transcript.to_end();
        }
    });
}

#[divan::bench]
fn search_100_000_lines(bencher: Bencher) {
    let theme = Theme::built_in("violin-dark");
    let mut transcript = long(100_000);
    transcript.layout(look(&theme), 40);
    bencher.bench_local(|| Search::new("paragraph 77", &mut transcript, look(&theme)).hits().len());
}

/// What the loop does for a frame.
fn frame(app: &mut AppState, painter: &mut Painter) -> usize {
    let scrolled = layout::layout(app);
    let links = draw::links(app);
    painter.frame(scrolled, &links, |buffer| draw::draw(app, buffer)).len()
}

/// What the loop does between a key and its echo: decode, update, lay out, draw.
fn key(app: &mut AppState, decoder: &mut Decoder, painter: &mut Painter) -> usize {
    let mut inputs = Vec::new();
    // Ctrl+U where the line is full.
    let byte = if app.prompt.text().len() < 60 { b'x' } else { 0x15 };
    decoder.feed(&[byte], Instant::now(), &mut inputs);
    for input in inputs {
        drop(update(app, Msg::Input(input)));
    }
    frame(app, painter)
}

fn delta(app: &mut AppState, text: &str) {
    drop(update(app, Msg::Update(Update::Event(Event::Delta { text: text.to_owned() }))));
}

#[divan::bench]
fn a_frame_while_a_long_answer_streams(bencher: Bencher) {
    let mut app = app();
    for n in 0..20_000 {
        delta(&mut app, if n % 60 == 59 { "words\n\n" } else { "some words " });
    }
    let mut painter = Painter::new(Rect::new(0, 0, 120, 40));
    frame(&mut app, &mut painter);
    bencher.bench_local(|| {
        delta(&mut app, "more ");
        frame(&mut app, &mut painter)
    });
}

#[divan::bench]
fn a_key_in_100_000_lines(bencher: Bencher) {
    let (mut app, mut decoder, mut painter) = (app(), Decoder::default(), Painter::new(Rect::new(0, 0, 120, 40)));
    app.transcript = long(100_000);
    frame(&mut app, &mut painter);
    bencher.bench_local(|| key(&mut app, &mut decoder, &mut painter));
}

/// Between two keys that come 60 a second, 5,000 deltas a second bring 83.
#[divan::bench]
fn a_key_while_5_000_deltas_a_second_stream_into_100_000_lines(bencher: Bencher) {
    let (mut app, mut decoder, mut painter) = (app(), Decoder::default(), Painter::new(Rect::new(0, 0, 120, 40)));
    app.transcript = long(100_000);
    frame(&mut app, &mut painter);
    let text = "A **word** in a line, and `code` in it.\n\n- one\n- two\n\n```rust\nfn f() {}\n```\n\n".as_bytes();
    let mut at = 0;
    bencher.bench_local(|| {
        for _ in 0..83 {
            let piece = &text[at..(at + 4).min(text.len())];
            at = (at + 4) % (text.len() / 4 * 4);
            delta(&mut app, std::str::from_utf8(piece).expect("ASCII"));
        }
        key(&mut app, &mut decoder, &mut painter)
    });
}

/// The grammars are loaded once, before the first piece.
#[divan::bench]
fn colours_of_100_lines(bencher: Bencher) {
    let mut highlighter = Highlighter::new();
    let line = "    let sum: u64 = left + right; // the \"sum\" of both\n";
    let lines: Vec<String> = vec![line.to_owned(); 100];
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut block = 0;
    let mut colour = || {
        block += 1;
        let wanted = Wanted {
            of: CodeOf::Block(block),
            piece: 0,
            language: "rust".into(),
            from: 0,
            lines: lines.clone(),
            last: true,
        };
        let sender = sender.clone();
        highlighter.ask(wanted, move |coloured| {
            let _ = sender.send(coloured.lines.len());
        });
        receiver.recv().expect("coloured")
    };
    colour();
    bencher.bench_local(colour);
}

#[divan::bench]
fn markdown_of_100_kb(bencher: Bencher) {
    let theme = Theme::built_in("violin-dark");
    let text = "A line with `code`, **bold** and [a link](https://x.y).\n\n- item\n- item\n\n".repeat(1300);
    bencher.bench_local(|| {
        let mut flow = violin::tui::transcript::markdown::Flow::default();
        flow.settle(&text, 120, &theme, true);
        flow.rows.len()
    });
}
