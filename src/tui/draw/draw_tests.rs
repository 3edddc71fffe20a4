//! Whole screens: what a person would see, at every size.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use super::scenes::{SCENES, app, event, key, paint, press, review_diff, take, talk, typed};
use super::*;
use crate::event::Event;
use crate::theme::{Depth, Theme};
use crate::tui::app::AppState;
use crate::tui::keys::Scope;
use crate::tui::layout;
use crate::tui::msg::Msg;

fn text_of(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..buffer.area.width {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            skip = text::width(symbol).saturating_sub(1);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn screen(app: &mut AppState) -> String {
    text_of(&paint(app).0)
}

/// The themes that snapshots and pictures are made in: name, depth of colour, and whether the ground is dark.
pub const THEMES: [(&str, Depth, bool); 3] =
    [("violin-dark", Depth::True, true), ("violin-light", Depth::True, false), ("violin-16", Depth::Ansi16, true)];

pub fn in_theme(app: &mut AppState, (name, depth, _): (&str, Depth, bool)) -> Buffer {
    app.depth = depth;
    app.set_theme(Theme::built_in(name));
    paint(app).0
}

fn style_of(cell: &ratatui::buffer::Cell) -> String {
    let mut out = Vec::new();
    for (name, colour) in [("", cell.fg), ("on ", cell.bg)] {
        match colour {
            Color::Reset => {}
            Color::Rgb(r, g, b) => out.push(format!("{name}#{r:02x}{g:02x}{b:02x}")),
            other => out.push(format!("{name}{other}").to_lowercase()),
        }
    }
    for (flag, name) in [
        (Modifier::BOLD, "bold"),
        (Modifier::DIM, "dim"),
        (Modifier::ITALIC, "italic"),
        (Modifier::UNDERLINED, "underlined"),
        (Modifier::REVERSED, "reversed"),
        (Modifier::CROSSED_OUT, "crossed"),
    ] {
        if cell.modifier.contains(flag) {
            out.push(name.to_owned());
        }
    }
    if out.is_empty() { "–".to_owned() } else { out.join(" ") }
}

/// The styles of the same screen in all themes: a letter for each cell, and what each letter stands for.
fn styles(buffers: &[Buffer]) -> String {
    let mut known: HashMap<String, char> = HashMap::new();
    let mut legend = String::new();
    let mut out = String::new();
    let letters: Vec<char> = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
    let area = buffers[0].area;
    for y in 0..area.height {
        let mut line = String::new();
        for x in 0..area.width {
            let style = buffers.iter().map(|buffer| style_of(&buffer[(x, y)])).collect::<Vec<_>>().join(" | ");
            if style == "– | – | –" {
                line.push('.');
                continue;
            }
            let next = letters[known.len()];
            let letter = *known.entry(style.clone()).or_insert_with(|| {
                let _ = writeln!(legend, "{next} {style}");
                next
            });
            line.push(letter);
        }
        let _ = writeln!(out, "{}", line.trim_end_matches('.'));
    }
    out + &legend
}

/// The base of every scene, for tests that go on from there.
fn scene(width: u16, height: u16) -> AppState {
    let mut app = app(width, height);
    talk(&mut app);
    app.prompt.insert("also check the negative case 日本");
    app
}

/// Every scene at every size in every theme: how it reads is the same in all of them, and how it looks is told for one.
#[test]
fn screens_look_as_they_should() {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let _bound = settings.bind_to_scope();
    for scene in SCENES {
        let mut out = String::new();
        for (width, height) in [(40, 12), (80, 24), (120, 36), (160, 50)] {
            let mut app = scene.app(width, height);
            let buffers = THEMES.map(|theme| in_theme(&mut app, theme));
            let text = text_of(&buffers[0]);
            for (buffer, (theme, ..)) in buffers.iter().zip(THEMES) {
                assert_eq!(text_of(buffer), text, "{} in {theme} at {width}x{height}", scene.name);
            }
            let _ = write!(out, "== {width}x{height}\n{text}");
            if width == 80 {
                let _ = write!(out, "== its colours: dark | light | 16\n{}", styles(&buffers));
            }
        }
        insta::assert_snapshot!(scene.name, out);
    }
}

/// traps.md B78.
#[test]
fn b78_nothing_panics_at_any_size() {
    for scene in SCENES {
        let mut app = scene.app(80, 24);
        for (width, height) in [
            (1, 1),
            (2, 1),
            (1, 5),
            (80, 1),
            (300, 2),
            (19, 4),
            (20, 5),
            (21, 6),
            (22, 7),
            (30, 8),
            (100, 9),
            (300, 100),
            (1, 100),
            (80, 24),
        ] {
            take(&mut app, Msg::Resize(width, height));
            let (buffer, caret) = paint(&mut app);
            assert!(caret.is_none_or(|caret| buffer.area.contains(caret)), "{} at {width}x{height}", scene.name);
            for key in ["list.down", "tree.down", "output.up", "view.page_up", "edit.up", "view.page_down"] {
                press(&mut app, key);
                paint(&mut app);
            }
        }
    }
}

/// Scenes in which a place was chosen by the size: another size shows another part of the same.
const MOVES: &[&str] = &["scrolled", "selection", "help_end", "search", "search_walk"];

/// traps.md B88.
#[test]
fn b88_what_was_resized_equals_what_was_made_so() {
    for scene in SCENES.iter().filter(|scene| !MOVES.contains(&scene.name)) {
        let mut app = scene.app(120, 36);
        for n in 0..16_u16 {
            take(&mut app, Msg::Resize(20 + n * 7 % 100, 5 + n * 5 % 40));
            paint(&mut app);
        }
        take(&mut app, Msg::Resize(80, 24));
        assert_eq!(screen(&mut app), screen(&mut scene.app(80, 24)), "{}", scene.name);
    }
}

#[test]
fn a_hit_that_is_looked_at_stays_in_sight_at_any_width() {
    let mut app = SCENES.iter().find(|scene| scene.name == "search").expect("a scene").app(120, 36);
    for width in [40, 200, 61, 24, 80, 300, 120] {
        take(&mut app, Msg::Resize(width, 24));
        paint(&mut app);
        let hit = app.search.as_ref().and_then(|search| search.current()).expect("a hit");
        assert!(app.transcript.view.contains(&hit.from.place), "at {width}");
    }
}

#[test]
fn what_is_wrong_with_bindings_is_told_once_for_each_time_that_it_is_new() {
    let mut app = scene(80, 24);
    let mut told = |source: &str| {
        let (bindings, problems) = crate::tui::keys::Bindings::parse(source).expect("reads");
        let before = app.transcript.blocks.len();
        take(&mut app, Msg::Done(crate::tui::msg::Done::Bindings(Box::new(bindings), problems)));
        app.transcript.blocks.len() - before
    };
    let wrong = r#"{"nope": ["x"], "pane.tree": ["hyper+x"]}"#;
    assert_eq!([told(wrong), told(wrong), told("{}"), told(wrong)], [2, 0, 0, 2]);
}

#[test]
fn after_two_clicks_a_drag_goes_by_words_and_after_three_by_lines() {
    let mut app = scene(80, 24);
    let text = "\n\none two-three four\n\nfive six".into();
    event(&mut app, Event::Delta { text });
    let (buffer, _) = paint(&mut app);
    let find = |what: &str| {
        let row = (0..buffer.area.height).find(|y| {
            let row: String = (0..buffer.area.width).map(|x| buffer[(x, *y)].symbol().to_owned()).collect();
            row.contains(what)
        });
        let y = row.expect("it shows");
        let row: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol().to_owned()).collect();
        (row.find(what).expect("it shows") as u16, y)
    };
    let (three, one, five) = (find("three"), find("one"), find("five"));
    let mut dragged = |clicks: usize, from: (u16, u16), to: (u16, u16)| {
        app.mouse.click = None;
        for _ in 0..clicks {
            super::scenes::mouse(&mut app, false, from.0, from.1);
        }
        super::scenes::mouse(&mut app, true, to.0, to.1);
        let selection = app.selection.expect("something is selected");
        let mut transcript = std::mem::take(&mut app.transcript);
        let text = transcript.selected(&selection, app.look());
        app.transcript = transcript;
        text
    };
    assert_eq!(dragged(1, three, (three.0 + 1, three.1)), "th");
    assert_eq!(dragged(2, three, (three.0 + 6, three.1)), "two-three four");
    assert_eq!(dragged(2, three, (one.0 + 2, one.1)), "one two-three");
    assert_eq!(dragged(2, three, (70, three.1)), "two-three");
    assert_eq!(dragged(3, three, five), "one two-three four\n\nfive six");
}

#[test]
fn the_mark_leads_back_to_the_end() {
    let mut app = SCENES.iter().find(|scene| scene.name == "scrolled").expect("a scene").app(80, 24);
    let mark = app.regions.mark;
    let (buffer, _) = paint(&mut app);
    let shown: String = (mark.x..mark.right()).map(|x| buffer[(x, mark.y)].symbol().to_owned()).collect();
    assert_eq!(shown, " ↓ new ");
    super::scenes::mouse(&mut app, false, mark.x + 2, mark.y);
    paint(&mut app);
    assert_eq!((app.transcript.anchor, app.regions.mark.width), (crate::tui::transcript::Anchor::End, 0));
}

/// What a key answers, the first thing that is chosen, and what Esc does: nothing dangerous.
#[test]
fn a_question_is_answered_no_unless_somebody_means_it() {
    for (name, yes) in [("trust", 't'), ("delete", 'y'), ("yolo", 'y'), ("rewind", 'b')] {
        let scene = SCENES.iter().find(|scene| scene.name == name).expect("a scene");
        let answered = |code| {
            let mut app = scene.app(80, 24);
            let effects = crate::tui::update::update(&mut app, Msg::Input(press_of(code)));
            // The list of sessions comes back.
            let list = name == "delete" && effects.is_empty();
            assert_eq!(app.overlay.is_some(), list, "{name}");
            format!("{effects:?}")
        };
        let (enter, escape) = (answered(KeyCode::Enter), answered(KeyCode::Esc));
        assert_eq!(enter, escape, "{name}");
        for effects in [enter, escape] {
            assert!(effects == "[]" || effects.contains("Trust(false)"), "{name}: {effects}");
        }
        assert_ne!(answered(KeyCode::Char(yes)), "[]", "{name}");
    }
}

fn press_of(code: KeyCode) -> crate::tui::term::Input {
    crate::tui::term::Input::Key(crossterm::event::KeyEvent::new(code, crossterm::event::KeyModifiers::NONE))
}

/// What a terminal shows: its cells with their colours, and its cursor.
fn seen(parser: &vt100::Parser) -> (Vec<String>, Option<(u16, u16)>) {
    let screen = parser.screen();
    let (rows, columns) = screen.size();
    let row = |y: u16| {
        let mut out = String::new();
        for x in 0..columns {
            let Some(cell) = screen.cell(y, x) else { continue };
            let blank = cell.contents().trim().is_empty();
            if blank && cell.bgcolor() == vt100::Color::Default && !cell.inverse() {
                out.push(' ');
                continue;
            }
            let ink = (!blank).then(|| (cell.contents(), cell.fgcolor(), cell.bold()));
            let _ = write!(out, "{ink:?}{:?}{}", cell.bgcolor(), cell.inverse());
        }
        out
    };
    ((0..rows).map(row).collect(), (!screen.hide_cursor()).then(|| screen.cursor_position()))
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(6))]
    /// traps.md B88: the terminal is resized at random, small and large, while an answer streams in and panes come and go: what it
    /// shows is what a fresh one would show.
    #[test]
    fn b88_resizes_while_it_streams_leave_nothing_behind(
        steps in proptest::collection::vec((0u8..12, 1u16..=300, 1u16..=100, 0u8..10), 12..20)
    ) {
        let mut app = scene(80, 24);
        let mut painter = crate::tui::term::Painter::new(Rect::new(0, 0, 80, 24));
        let mut parser = vt100::Parser::new(24, 80, 0);
        for (step, width, height, what) in steps {
            let size = match step {
                0..=4 => Some((width % 110 + 1, height % 40 + 1)),
                5 => Some((width, height)),
                _ => None,
            };
            if let Some((width, height)) = size {
                parser.screen_mut().set_size(height, width);
                painter.resize(Rect::new(0, 0, width, height));
                painter.forget();
                take(&mut app, Msg::Resize(width, height));
            }
            match what {
                0 => press(&mut app, "pane.tree"),
                1 => press(&mut app, "pane.output"),
                2 => press(&mut app, "view.page_up"),
                3 => press(&mut app, "app.help"),
                4 => review_diff(&mut app),
                5 => app.overlay = None,
                _ => {}
            }
            for n in 0..8 {
                let text = format!("word {n} 日本 👩\u{200d}🔬 `x` é {}", if n == 7 { "\n\n한글 ♻️\n\n" } else { "" });
                event(&mut app, Event::Delta { text });
                let scrolled = layout::layout(&mut app);
                parser.process(painter.frame(scrolled, &[], |buffer| draw(&app, buffer)).as_bytes());
            }
            let area = painter.area();
            let mut fresh = vt100::Parser::new(area.height, area.width, 0);
            let whole = crate::tui::term::Painter::new(area).frame(None, &[], |buffer| draw(&app, buffer)).to_owned();
            fresh.process(whole.as_bytes());
            let (shown, wanted) = (seen(&parser), seen(&fresh));
            for (y, (shown, wanted)) in shown.0.iter().zip(&wanted.0).enumerate() {
                proptest::prop_assert_eq!(shown, wanted, "row {} of {:?}", y, area);
            }
            proptest::prop_assert_eq!(shown.1, wanted.1);
        }
    }
}

/// traps.md B76.
#[test]
fn b76_the_terminal_shows_what_was_drawn_after_any_change() {
    let (width, height) = (100, 30);
    let mut app = scene(width, height);
    let area = Rect::new(0, 0, width, height);
    let mut painter = crate::tui::term::Painter::new(area);
    let mut parser = vt100::Parser::new(height, width, 0);
    let mut step = |app: &mut AppState| {
        let scrolled = layout::layout(app);
        let bytes = painter.frame(scrolled, &[], |buffer| draw(app, buffer)).to_owned();
        assert!(!bytes.contains("\x1b[3J"));
        parser.process(bytes.as_bytes());
        let mut fresh = crate::tui::term::Painter::new(area);
        let mut terminal = vt100::Parser::new(height, width, 0);
        terminal.process(fresh.frame(None, &[], |buffer| draw(app, buffer)).as_bytes());
        assert_eq!(seen(&parser), seen(&terminal));
        bytes.len()
    };
    step(&mut app);
    for n in 0..120 {
        event(&mut app, Event::Delta { text: format!("word {n} 日本 `x` ") });
        if n % 9 == 0 {
            event(&mut app, Event::Delta { text: "\n\n한글 é ✓\n\n".into() });
        }
        step(&mut app);
    }
    for scene in SCENES {
        scene.enter(&mut app);
        step(&mut app);
        app.overlay = None;
        app.pane = None;
        app.popup = None;
        app.search = None;
        app.reviews.refuse_all();
        step(&mut app);
    }
    for _ in 0..20 {
        crate::tui::actions::scroll(&mut app, -3);
        step(&mut app);
    }
}

/// traps.md B74.
#[test]
fn b74_frames_while_streaming_are_small() {
    let mut app = scene(80, 24);
    let mut painter = crate::tui::term::Painter::new(Rect::new(0, 0, 80, 24));
    let mut total = 0;
    let mut frames = 0;
    for n in 0..300 {
        event(&mut app, Event::Delta { text: format!("word{n} ") });
        let scrolled = layout::layout(&mut app);
        let bytes = painter.frame(scrolled, &[], |buffer| draw(&app, buffer));
        if n > 0 {
            assert!(!bytes.contains("\x1b[2J"));
            total += bytes.len();
            frames += 1;
        }
    }
    assert!(total / frames < 160, "{} bytes a frame", total / frames);
}

/// traps.md B82.
#[test]
fn b82_text_never_has_its_background_colour_in_any_theme() {
    for scene in SCENES {
        let mut app = scene.app(80, 24);
        for (name, _) in crate::theme::BUILT_IN {
            for depth in [Depth::True, Depth::Ansi256, Depth::Ansi16, Depth::None] {
                for cell in &in_theme(&mut app, (name, depth, true)).content {
                    let plain = cell.fg == Color::Reset;
                    assert!(plain || cell.fg != cell.bg, "{name} {depth:?}: {cell:?}");
                    assert!(depth != Depth::None || (plain && cell.bg == Color::Reset));
                }
            }
        }
    }
}

/// How far two colours lie apart, as the web's guidelines for contents count it: 1 is the same, 21 black on white.
fn contrast(one: (u8, u8, u8), other: (u8, u8, u8)) -> f64 {
    let light = |(r, g, b): (u8, u8, u8)| {
        let part = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.039_28 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b)
    };
    let (one, other) = (light(one), light(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// traps.md B82: every text in true colour can be read on the grounds that terminals have, also where it is selected or found.
#[test]
fn b82_text_stands_out_from_its_ground() {
    let dark = [(0, 0, 0), (0x16, 0x18, 0x1d), (0x1e, 0x1e, 0x2e), (0x28, 0x2a, 0x36)];
    let light = [(0xff, 0xff, 0xff), (0xfb, 0xfb, 0xf9), (0xfd, 0xf6, 0xe3)];
    for (theme, grounds) in [("violin-dark", &dark[..]), ("violin-contrast", &dark[..2]), ("violin-light", &light[..])]
    {
        for scene in SCENES {
            let mut app = scene.app(80, 24);
            let buffer = in_theme(&mut app, (theme, Depth::True, true));
            for cell in &buffer.content {
                let ruled = "│─╭╮╰╯┼├└┤░█▏▌".contains(cell.symbol());
                let Color::Rgb(r, g, b) = cell.fg else { continue };
                if cell.symbol().trim().is_empty() || ruled {
                    continue;
                }
                let own = match cell.bg {
                    Color::Rgb(r, g, b) => vec![(r, g, b)],
                    _ => grounds.to_vec(),
                };
                for ground in own {
                    let far = contrast((r, g, b), ground);
                    assert!(far >= 3.0, "{theme}, {}: {far:.1} of {cell:?} on {ground:?}", scene.name);
                }
            }
        }
    }
}

/// traps.md B97.
#[test]
fn b97_the_caret_stands_where_the_text_is() {
    let mut app = scene(80, 24);
    app.prompt.reset("日本x");
    let (_, caret) = paint(&mut app);
    assert_eq!(caret, Some(Position { x: app.regions.text.x + 5, y: app.regions.text.y }));
    press(&mut app, "model.pick");
    typed(&mut app, "日本");
    let (buffer, caret) = paint(&mut app);
    let caret = caret.expect("a caret");
    assert_eq!(buffer[(caret.x - 2, caret.y)].symbol(), "本");
}

/// traps.md B77: at 21 columns nothing reaches over the edge: neither what is written in the prompt and in one-line
/// inputs nor names in the header and in lists; and the caret stays in sight.
#[test]
fn wide_characters_never_pass_the_edge_of_a_narrow_screen() {
    let wide = "日本語テキスト日本語テ";
    let name = "長い名前のセッション、とても長い名前";
    let check = |app: &mut AppState, what: &str| {
        let (buffer, caret) = paint(app);
        let area = buffer.area;
        for y in 0..area.height {
            let last = buffer[(area.right() - 1, y)].symbol();
            assert!(text::width(last) <= 1, "{what} at {}: {last:?} reaches over the edge", area.width);
        }
        assert!(caret.is_none_or(|caret| area.contains(caret)), "{what}: {caret:?}");
        // A terminal of that size shows the same, with its borders where they belong.
        let mut parser = vt100::Parser::new(area.height, area.width, 0);
        let bytes = crate::tui::term::Painter::new(area).frame(None, &[], |buffer| draw(app, buffer)).to_owned();
        parser.process(bytes.as_bytes());
        for y in 0..area.height {
            for x in (0..area.width).filter(|x| "│╮╯".contains(buffer[(*x, y)].symbol())) {
                let shown = parser.screen().cell(y, x).map(vt100::Cell::contents);
                assert_eq!(shown, Some(buffer[(x, y)].symbol()), "{what}: column {x} of row {y}");
            }
        }
    };
    let named = serde_json::json!({"id": 1, "parent_id": null, "type": "name", "name": name});
    for width in [20, 21, 22, 23, 40, 100] {
        let mut app = app(width, 24);
        super::scenes::open_session(&mut app, std::slice::from_ref(&named));
        assert_eq!(app.session.tree.name(), Some(name));
        event(&mut app, Event::Delta { text: format!("{wide}\n\n> {wide}\n\n```\n{wide}\n```\n") });
        app.prompt.insert(wide);
        check(&mut app, "the prompt");
        for scene in ["models_search", "sessions", "name", "label", "refusal", "search", "history", "tree", "files"] {
            let mut app = SCENES.iter().find(|known| known.name == scene).expect("a scene").app(width, 24);
            typed(&mut app, wide);
            check(&mut app, scene);
            typed(&mut app, wide);
            check(&mut app, scene);
        }
    }
}

/// traps.md B84: what a step of the spinner, a piece of an answer and a key cost does not depend on what was said before:
/// nothing of it is laid out anew, and as much is sent as with nothing before it. And where nothing moves, nothing is sent.
#[test]
fn what_a_frame_costs_does_not_depend_on_history() {
    let costs = |messages: usize| {
        let mut app = app(100, 30);
        super::scenes::open_session(&mut app, &[]);
        for n in 0..messages {
            let text = format!("answer {n} with **bold** words\n\n- one\n- two\n\n```rust\nfn f() {{}}\n```\n");
            app.transcript.push(crate::tui::transcript::Kind::Answer { text, live: false }, None);
        }
        take(&mut app, Msg::Update(crate::agent::Update::Activity(crate::agent::Activity::Running)));
        // Enough to fill the window.
        event(&mut app, Event::Delta { text: "a line of text\n\n".repeat(40) });
        let mut painter = crate::tui::term::Painter::new(Rect::new(0, 0, 100, 30));
        let mut frame = |app: &mut AppState| {
            let scrolled = layout::layout(app);
            painter.frame(scrolled, &[], |buffer| draw(app, buffer)).len()
        };
        frame(&mut app);
        let laid = |app: &AppState| app.transcript.blocks.iter().filter(|block| block.is_laid()).count();
        assert!(laid(&app) <= 31, "{} of {messages} are laid out", laid(&app));
        let before = laid(&app);
        let mut sent = Vec::new();
        for n in 0..40 {
            take(&mut app, Msg::Tick);
            sent.push(frame(&mut app));
            event(&mut app, Event::Delta { text: format!("word {n}{}", if n % 5 == 4 { "\n\n" } else { " " }) });
            sent.push(frame(&mut app));
            typed(&mut app, "k");
            sent.push(frame(&mut app));
            assert_eq!(frame(&mut app), 0, "nothing moved");
        }
        assert_eq!(laid(&app), before, "nothing of what was said before is laid out");
        sent
    };
    let (none, many) = (costs(0), costs(2000));
    assert_eq!(none, many);
    assert!(many.iter().all(|bytes| *bytes < 1500), "{many:?}");
}

#[test]
fn a_question_that_just_came_is_not_answered_by_somebody_who_writes() {
    let mut app = scene(80, 24);
    review_diff(&mut app);
    key(&mut app, KeyCode::Char('y'));
    assert!(app.reviews.first().is_some() && app.prompt.text().ends_with("日本y"));
    app.now += Duration::from_secs(1);
    key(&mut app, KeyCode::Char('x'));
    assert!(app.reviews.first().is_some());
    key(&mut app, KeyCode::Char('y'));
    assert!(app.reviews.first().is_none());
}

#[test]
fn the_tables_name_everything_once() {
    let mut names: Vec<&str> = crate::tui::actions::ACTIONS.iter().map(|action| action.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(crate::tui::actions::ACTIONS.iter().any(|action| action.scope == Scope::Tree));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]
    #[test]
    fn any_keys_at_any_size_are_survived(
        steps in proptest::collection::vec((0u8..=255, 1u16..130, 1u16..45), 1..40)
    ) {
        let mut app = scene(80, 24);
        for (step, width, height) in steps {
            match step {
                0..=40 => take(&mut app, Msg::Resize(width, height)),
                41..=80 => event(&mut app, Event::Delta { text: "```\n日本 | a\n\n- x".into() }),
                _ => {
                    let action = &crate::tui::actions::ACTIONS[usize::from(step) % crate::tui::actions::ACTIONS.len()];
                    (action.run)(&mut app, &mut Vec::new());
                }
            }
            paint(&mut app);
        }
    }
}
