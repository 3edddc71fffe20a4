use std::time::Instant;

use super::*;
use crate::event::Event;
use crate::message::StopReason;
use crate::theme::Theme;

fn look(theme: &Theme, width: u16) -> Look<'_> {
    Look { theme, generation: 0, width, tick: 0, now: Instant::now() }
}

fn theme() -> Theme {
    Theme::built_in("violin-dark")
}

fn shown(transcript: &Transcript) -> Vec<String> {
    let row = |place: &Place| transcript.blocks[place.block].row(place.row).map_or(String::new(), |row| row.text());
    transcript.view.iter().map(|place| row(place).trim_end().to_owned()).collect()
}

fn notes(count: usize) -> Transcript {
    let mut transcript = Transcript::default();
    for n in 0..count {
        transcript.note(format!("note {n}"), Tone::Quiet);
    }
    transcript
}

fn delta(transcript: &mut Transcript, text: &str) {
    transcript.event(Event::Delta { text: text.into() }, Instant::now());
}

#[test]
fn it_follows_the_end_until_one_scrolls_up() {
    let theme = theme();
    let mut transcript = notes(100);
    transcript.layout(look(&theme, 40), 5);
    assert_eq!(shown(&transcript)[4], " · note 99");
    transcript.scroll(-10, look(&theme, 40));
    transcript.layout(look(&theme, 40), 5);
    assert_eq!(shown(&transcript)[4], " · note 89");
    transcript.note("new", Tone::Quiet);
    transcript.layout(look(&theme, 40), 5);
    assert_eq!(shown(&transcript)[4], " · note 89");
    assert!(transcript.news);
    transcript.scroll(1000, look(&theme, 40));
    transcript.layout(look(&theme, 40), 5);
    assert_eq!((shown(&transcript)[4].as_str(), transcript.news), (" · new", false));
    transcript.to_start();
    transcript.layout(look(&theme, 40), 5);
    assert_eq!(shown(&transcript)[0], " · note 0");
    transcript.scroll(-5, look(&theme, 40));
    transcript.layout(look(&theme, 40), 5);
    assert_eq!(shown(&transcript)[0], " · note 0");
}

#[test]
fn a_resize_keeps_the_block_that_was_read() {
    let theme = theme();
    let mut transcript = Transcript::default();
    for n in 0..50 {
        transcript.push(Kind::Answer { text: format!("{n} {}", "word ".repeat(60)), live: false }, None);
    }
    transcript.layout(look(&theme, 80), 10);
    transcript.scroll(-60, look(&theme, 80));
    transcript.layout(look(&theme, 80), 10);
    let block = transcript.view[0].block;
    for width in [40, 200, 10, 80] {
        transcript.layout(look(&theme, width), 10);
        assert_eq!(transcript.view[0].block, block, "at {width}");
    }
}

#[test]
fn only_what_is_visible_is_laid_out() {
    let theme = theme();
    let mut transcript = notes(100_000);
    transcript.layout(look(&theme, 80), 40);
    assert!(transcript.blocks.iter().filter(|block| block.is_laid()).count() <= 41);
    for _ in 0..2000 {
        transcript.scroll(-40, look(&theme, 80));
        transcript.layout(look(&theme, 80), 40);
    }
    assert!(transcript.blocks.iter().filter(|block| block.is_laid()).count() < 25_000);
}

#[test]
fn a_delta_costs_no_layout_and_a_finished_answer_equals_the_streamed_one() {
    let theme = theme();
    let mut transcript = Transcript::default();
    for n in 0..400 {
        delta(&mut transcript, &format!("word{n} "));
        if n % 20 == 19 {
            delta(&mut transcript, "\n\n");
        }
        if n % 7 == 0 {
            transcript.layout(look(&theme, 40), 200);
        }
    }
    transcript.settle();
    transcript.layout(look(&theme, 40), 200);
    let streamed = shown(&transcript);
    let mut whole = Transcript::default();
    let text = transcript.blocks[0].source().into_owned();
    whole.push(Kind::Answer { text, live: false }, None);
    whole.layout(look(&theme, 40), 200);
    assert_eq!(streamed, shown(&whole));
}

#[test]
fn a_discarded_answer_goes_and_comes_anew() {
    let theme = theme();
    let mut transcript = notes(1);
    let start = || Event::TurnStart {
        turn: 0,
        session_id: String::new(),
        model: Default::default(),
        context: Default::default(),
    };
    transcript.event(start(), Instant::now());
    delta(&mut transcript, "half of it");
    transcript.event(Event::Discard, Instant::now());
    transcript.event(start(), Instant::now());
    delta(&mut transcript, "all of it");
    transcript
        .event(Event::TurnEnd { turn: 0, usage: None, stop_reason: StopReason::Stop, entry: Some(4) }, Instant::now());
    transcript.layout(look(&theme, 40), 10);
    assert_eq!(shown(&transcript), [" · note 0", "", " all of it"]);
    assert_eq!(transcript.blocks[1].entry, Some(EntryId(4)));
}

#[test]
fn b145_what_had_arrived_stays_and_is_marked() {
    let theme = theme();
    let mut transcript = Transcript::default();
    delta(&mut transcript, "half an ans");
    transcript
        .event(Event::TurnEnd { turn: 0, usage: None, stop_reason: StopReason::Aborted, entry: None }, Instant::now());
    transcript.settle();
    transcript.layout(look(&theme, 40), 10);
    assert_eq!(shown(&transcript), [" half an ans", "", " ! interrupted"]);
}

#[test]
fn b68_progress_bars_and_sequences_of_a_command_show_as_a_terminal_would() {
    let theme = theme();
    let mut transcript = Transcript::default();
    transcript.begin_shell("x", true, Instant::now());
    transcript
        .shell_output("P 10%\rP 99%\rP 100%\r\nDone\n\x1b[1A\x1b[2K\x1b[31mred\x1b[0m\x1b]133;A\x07\x1b[?1049l\n");
    transcript.layout(look(&theme, 40), 10);
    assert_eq!(shown(&transcript)[1..], ["   P 100%", "   Done", "   red"]);
}

#[test]
fn b146_nothing_that_comes_reaches_a_row_as_a_control() {
    let theme = theme();
    let evil = "\x1b]52;c;ZXZpbA==\x07\x1b]0;pwn\x07\x1b[2J\x1b[6n\x1bP..\x1b\\\u{9b}2J\x1b]open \x1b";
    let mut transcript = Transcript::default();
    delta(&mut transcript, evil);
    transcript.event(Event::Thinking { text: evil.into() }, Instant::now());
    let start = Event::ToolStart { id: "c".into(), name: evil.into(), args: Default::default(), title: evil.into() };
    transcript.event(start, Instant::now());
    transcript.event(Event::ToolOutput { id: "c".into(), text: evil.into() }, Instant::now());
    transcript.event(Event::Error { msg: evil.into(), kind: crate::event::ErrorKind::Server }, Instant::now());
    transcript.push(Kind::User { text: evil.into(), images: Vec::new() }, None);
    transcript.push(Kind::Summary { title: evil.into(), text: evil.into() }, None);
    transcript.set_fold(Fold::Open, |_| true);
    transcript.layout(look(&theme, 60), 100);
    for row in shown(&transcript) {
        assert!(!row.chars().any(char::is_control), "{row:?}");
    }
    let answer = &shown(&transcript)[0];
    assert!(answer.contains("␛]52;c;ZXZpbA==␇␛]0;pwn␇␛[2J"), "what came stands there as symbols: {answer}");
}

#[test]
fn what_is_folded_away_costs_one_row() {
    let theme = theme();
    let mut transcript = Transcript::default();
    let start = Event::ToolStart { id: "c".into(), name: "x".into(), args: Default::default(), title: "t".into() };
    transcript.event(start, Instant::now());
    transcript.event(
        Event::ToolEnd {
            id: "c".into(),
            name: "x".into(),
            ok: true,
            output: "a\n".repeat(1000),
            effects: Vec::new(),
            duration_ms: 4,
            exit_code: None,
            summary: "1000 lines".into(),
            view: None,
            entry: None,
        },
        Instant::now(),
    );
    transcript.layout(look(&theme, 60), 100);
    assert_eq!(shown(&transcript), [" ▸ x      t                               1000 lines    4ms"]);
    transcript.toggle(0);
    transcript.layout(look(&theme, 60), 1000);
    assert_eq!(shown(&transcript).len(), 302);
    transcript.toggle(0);
    transcript.layout(look(&theme, 60), 1000);
    assert_eq!(shown(&transcript).len(), 1);
}
