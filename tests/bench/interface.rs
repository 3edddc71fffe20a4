//! What the interface does most: laying out, scrolling, searching, painting.

use std::time::Instant;

use divan::Bencher;
use ratatui::layout::Rect;
use violin::event::Event;
use violin::theme::{Depth, Theme};
use violin::tui::app::AppState;
use violin::tui::term::Painter;
use violin::tui::transcript::{Kind, Look, Search, Tone, Transcript};
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

#[divan::bench]
fn a_frame_while_a_long_answer_streams(bencher: Bencher) {
    let mut app = app();
    for n in 0..20_000 {
        let text = if n % 60 == 59 { "words\n\n".to_owned() } else { format!("word{n} ") };
        app.transcript.event(Event::Delta { text }, Instant::now());
    }
    let mut painter = Painter::new(Rect::new(0, 0, 120, 40));
    bencher.bench_local(|| {
        app.transcript.event(Event::Delta { text: "more ".into() }, Instant::now());
        let scrolled = layout::layout(&mut app);
        painter.frame(scrolled, &[], |buffer| draw::draw(&app, buffer)).len()
    });
}

#[divan::bench]
fn a_key_in_a_long_transcript(bencher: Bencher) {
    let mut app = app();
    app.transcript = long(100_000);
    app.transcript.note("end", Tone::Quiet);
    let mut painter = Painter::new(Rect::new(0, 0, 120, 40));
    bencher.bench_local(|| {
        app.prompt.insert("x");
        if app.prompt.text().len() > 100 {
            app.prompt.reset("");
        }
        let scrolled = layout::layout(&mut app);
        painter.frame(scrolled, &[], |buffer| draw::draw(&app, buffer)).len()
    });
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
