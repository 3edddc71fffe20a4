//! Whole screens: what a person would see, at every size.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::Rect;
use tokio::sync::oneshot;

use super::*;
use crate::agent::{Activity, AgentSettings, Delivery, Queued, ReviewRequest, SessionState, Update};
use crate::choice::{Mode, Thinking};
use crate::event::{ContextUsage, Event};
use crate::message::{Usage, UserMessage};
use crate::session::{Entry, Header, Tree};
use crate::theme::{Depth, Theme};
use crate::toolkit::{DiffLine, Hunk, Risk, View};
use crate::tui::app::AppState;
use crate::tui::keys::Scope;
use crate::tui::msg::{Done, Msg};
use crate::tui::sources::{ModelChoice, SessionRow, SessionScope};
use crate::tui::term::Input;
use crate::tui::{layout, update};

fn app(width: u16, height: u16) -> AppState {
    let mut app =
        AppState::new((width, height), "/home/you/code/shop".into(), "/none".into(), Depth::True, "violin-dark", true);
    app.git = (Some("main".into()), 2);
    app.settings = AgentSettings {
        model: None,
        thinking: Thinking::High,
        mode: Mode::Auto,
        context: ContextUsage::new(76_000, 200_000),
        context_parts: vec![("messages".into(), 76_000)],
    };
    app
}

fn take(app: &mut AppState, msg: Msg) {
    update::update(app, msg);
}

fn event(app: &mut AppState, event: Event) {
    take(app, Msg::Update(Update::Event(event)));
}

fn press(app: &mut AppState, name: &str) {
    let action = crate::tui::actions::ACTIONS.iter().find(|action| action.name == name).expect("an action");
    (action.run)(app, &mut Vec::new());
}

fn paint(app: &mut AppState) -> (Buffer, Option<Position>) {
    layout::layout(app);
    let mut buffer = Buffer::empty(Rect::new(0, 0, app.size.0, app.size.1));
    let caret = draw(app, &mut buffer);
    (buffer, caret)
}

fn screen(app: &mut AppState) -> String {
    let (buffer, _) = paint(app);
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

#[allow(clippy::too_many_arguments, reason = "each is a field of the event")]
fn tool(
    app: &mut AppState,
    id: &str,
    name: &str,
    title: &str,
    ok: bool,
    summary: &str,
    output: &str,
    view: Option<View>,
) {
    let (id, name) = (id.to_owned(), name.to_owned());
    event(app, Event::ToolStart { id: id.clone(), name: name.clone(), args: Default::default(), title: title.into() });
    event(
        app,
        Event::ToolEnd {
            id,
            name,
            ok,
            output: output.into(),
            effects: Vec::new(),
            duration_ms: 3200,
            exit_code: Some(i32::from(!ok)),
            summary: summary.into(),
            view,
            entry: None,
        },
    );
}

/// The sketch of the specification, with characters of every width in it.
fn scene(width: u16, height: u16) -> AppState {
    let mut app = app(width, height);
    let mut tree = Tree::default();
    for (id, parent, role, text) in [
        (1, "null", "user", "fix the cart total"),
        (2, "1", "assistant", "I'll look at the test first"),
        (3, "1", "user", "use decimals instead 日本語"),
        (4, "3", "assistant", "…"),
    ] {
        let line = format!(r#"{{"id":{id},"parent_id":{parent},"role":"{role}","content":"{text}"}}"#);
        tree.push(Arc::new(Entry::parse(line.as_bytes(), 0).expect("reads")));
    }
    let header =
        Header { version: 1, id: "s".into(), created_at: 0, cwd: "/".into(), model: None, parent_session: None };
    let usage = Usage {
        input_tokens: 41_000,
        output_tokens: 2100,
        cache_read_tokens: 36_000,
        cache_write_tokens: 0,
        cost_usd: Some(0.31),
    };
    let state = SessionState { header, path: None, tree, usage, notices: Vec::new() };
    take(&mut app, Msg::Update(Update::Session(Box::new(state))));
    take(&mut app, Msg::Update(Update::Activity(Activity::Running)));
    event(&mut app, Event::Delta { text: "I'll look at the test first. 👩‍🔬 ♻️ ❤️ 🇨🇳 한글\n".into() });
    let path = "src/a/very/long/path/that/goes/on/日本語/and/on/cart.rs";
    tool(&mut app, "1", "read", path, true, "120 lines", "x", None);
    let out: String = (0..30).map(|n| format!("test case_{n} ... ok\n")).collect();
    let view = Some(View::Terminal { text: String::new(), log: None });
    tool(&mut app, "2", "bash", "cargo test cart", false, "", &format!("{out}test total ... FAILED\n"), view);
    let lines = vec![
        DiffLine::Context("  let total = sum;".into()),
        DiffLine::Removed("  total - discount".into()),
        DiffLine::Added("  (total - discount).max(0)".into()),
    ];
    let view =
        Some(View::Diff { path: "src/cart.rs".into(), hunks: vec![Hunk { old_start: 40, new_start: 40, lines }] });
    tool(&mut app, "3", "edit", "src/cart.rs", true, "+1 −1", "", view);
    event(
        &mut app,
        Event::Delta { text: "Done:\n\n```rust\nfn total() {}\n```\n\n| a | 日本 |\n|---|---|\n| 1 | 2 |\n".into() },
    );
    let queued = Queued { message: UserMessage::text("then run the linter"), delivery: Delivery::FollowUp };
    take(&mut app, Msg::Update(Update::Queue(vec![queued])));
    app.prompt.insert("also check the negative case 日本");
    app.run.since = Some(app.now - Duration::from_secs(12));
    app
}

fn review(app: &mut AppState) {
    let lines = vec![DiffLine::Removed("old".into()), DiffLine::Added("new".into())];
    let (answer, kept) = oneshot::channel();
    std::mem::forget(kept);
    let request = ReviewRequest {
        call_id: "q".into(),
        name: "write".into(),
        title: "src/cart.rs".into(),
        risk: Risk::Write,
        reason: "the mode asks for writes".into(),
        view: Some(View::Diff { path: "src/cart.rs".into(), hunks: vec![Hunk { old_start: 1, new_start: 1, lines }] }),
        rule: Some("write(src/**)".into()),
        answer,
    };
    take(app, Msg::Update(Update::Review(request)));
}

fn models(app: &mut AppState) {
    let model = |id: &str, usable: bool| ModelChoice {
        provider: "openai".into(),
        id: id.into(),
        name: format!("{id} 日本"),
        context_window: 128_000,
        usable,
        reason: (!usable).then(|| "OPENAI_API_KEY is not set".into()),
        ..ModelChoice::default()
    };
    crate::tui::commands::models(app, &mut Vec::new());
    take(app, Msg::Done(Done::Models(vec![model("gpt-5", true), model("gpt-4o", false)])));
}

/// A state of the interface, by name, and how it comes about.
type State = (&'static str, fn(&mut AppState));

/// Every state that the interface can show.
const STATES: &[State] = &[
    ("plain", |_| {}),
    ("tree", |app| press(app, "pane.tree")),
    ("output", |app| press(app, "pane.output")),
    ("models", models),
    ("sessions", |app| {
        crate::tui::commands::resume(app, &mut Vec::new());
        let row = SessionRow {
            first_message: "fix 日本語 the failing cart test in the shop".into(),
            messages: Some(12),
            cost_usd: Some(0.2),
            updated_at: i64::MAX / 2,
            ..SessionRow::default()
        };
        let named = SessionRow { name: Some("cart".into()), ..row.clone() };
        take(app, Msg::Done(Done::Sessions(SessionScope::Here, vec![row, named])));
    }),
    ("help", |app| press(app, "app.help")),
    ("review", review),
    ("commands", |app| {
        app.prompt.reset("");
        take(app, Msg::Input(Input::Text("/m".into())));
    }),
    ("search", |app| {
        press(app, "view.search");
        take(app, Msg::Input(Input::Text("test".into())));
    }),
    ("context", |app| {
        let slash = crate::tui::commands::SLASHES.iter().find(|slash| slash.name == "context").expect("a command");
        (slash.run)(app, "", &mut Vec::new());
    }),
    ("yolo", |app| crate::tui::actions::set_mode(app, Mode::Yolo, &mut Vec::new())),
    ("themes", |app| take(app, Msg::Done(Done::Themes(vec!["violin-dark".into(), "violin-light".into()])))),
];

#[test]
fn screens_look_as_they_should() {
    for (name, open) in STATES {
        for (width, height) in [(120, 36), (80, 24), (40, 12), (160, 50)] {
            // One large size for all of them would be much to read: the widest only for the plain screen.
            if (width == 160 && *name != "tree")
                || (width == 40 && !matches!(*name, "plain" | "tree" | "models" | "review"))
            {
                continue;
            }
            let mut app = scene(width, height);
            paint(&mut app);
            open(&mut app);
            insta::assert_snapshot!(format!("{name}_{width}x{height}"), screen(&mut app));
        }
    }
}

#[test]
fn b78_nothing_panics_at_any_size() {
    for (name, open) in STATES {
        let mut app = scene(80, 24);
        paint(&mut app);
        open(&mut app);
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
            assert!(caret.is_none_or(|caret| buffer.area.contains(caret)), "{name} at {width}x{height}");
            for key in ["list.down", "tree.down", "output.up", "view.page_up", "edit.up", "view.page_down"] {
                press(&mut app, key);
                paint(&mut app);
            }
        }
    }
}

#[test]
fn b88_what_was_resized_equals_what_was_made_so() {
    for (name, open) in STATES {
        let mut app = scene(120, 36);
        paint(&mut app);
        open(&mut app);
        for n in 0..50_u16 {
            take(&mut app, Msg::Resize(20 + n * 7 % 100, 5 + n * 5 % 40));
            paint(&mut app);
        }
        take(&mut app, Msg::Resize(80, 24));
        let resized = screen(&mut app);
        let mut fresh = scene(80, 24);
        paint(&mut fresh);
        open(&mut fresh);
        assert_eq!(resized, screen(&mut fresh), "{name}");
    }
}

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
        for y in 0..height {
            for x in 0..width {
                let cell = |parser: &vt100::Parser| {
                    let cell = parser.screen().cell(y, x).expect("a cell");
                    let blank = cell.contents().trim().is_empty();
                    let ink = (!blank).then(|| (cell.contents().to_owned(), cell.fgcolor(), cell.bold()));
                    (ink, cell.bgcolor(), cell.inverse())
                };
                assert_eq!(cell(&parser), cell(&terminal), "at {x},{y}");
            }
        }
        assert_eq!(parser.screen().hide_cursor(), terminal.screen().hide_cursor());
        if !parser.screen().hide_cursor() {
            assert_eq!(parser.screen().cursor_position(), terminal.screen().cursor_position());
        }
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
    for (_, open) in STATES {
        open(&mut app);
        step(&mut app);
        app.overlay = None;
        app.pane = None;
        app.popup = None;
        step(&mut app);
    }
    for _ in 0..20 {
        crate::tui::actions::scroll(&mut app, -3);
        step(&mut app);
    }
}

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

#[test]
fn b82_text_never_has_its_background_colour_in_any_theme() {
    for (name, _) in crate::theme::BUILT_IN {
        for depth in [Depth::True, Depth::Ansi256, Depth::Ansi16, Depth::None] {
            for (_, open) in STATES {
                let mut app = scene(120, 36);
                app.depth = depth;
                app.set_theme(Theme::built_in(name));
                paint(&mut app);
                open(&mut app);
                let (buffer, _) = paint(&mut app);
                for cell in &buffer.content {
                    let plain = cell.fg == ratatui::style::Color::Reset;
                    assert!(plain || cell.fg != cell.bg, "{name} {depth:?}: {cell:?}");
                    assert!(depth != Depth::None || (plain && cell.bg == ratatui::style::Color::Reset));
                }
            }
        }
    }
}

#[test]
fn b97_the_caret_stands_where_the_text_is() {
    let mut app = scene(80, 24);
    app.prompt.reset("日本x");
    let (_, caret) = paint(&mut app);
    assert_eq!(caret, Some(Position { x: app.regions.text.x + 5, y: app.regions.text.y }));
    models(&mut app);
    take(&mut app, Msg::Input(Input::Text("日本".into())));
    let (buffer, caret) = paint(&mut app);
    let caret = caret.expect("a caret");
    assert_eq!(buffer[(caret.x - 2, caret.y)].symbol(), "本");
}

#[test]
fn a_question_that_just_came_is_not_answered_by_somebody_who_writes() {
    let mut app = scene(80, 24);
    review(&mut app);
    let key = |c: char| Msg::Input(Input::Key(crossterm::event::KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)));
    take(&mut app, key('y'));
    assert!(app.reviews.first().is_some() && app.prompt.text().ends_with("日本y"));
    app.now += Duration::from_secs(1);
    take(&mut app, key('x'));
    assert!(app.reviews.first().is_some());
    take(&mut app, key('y'));
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

/// Writes the README's pictures where `VIOLIN_PICTURES` names a folder: `VIOLIN_PICTURES=assets cargo test pictures`.
#[test]
fn pictures_of_the_readme() {
    for (name, theme, dark) in [("dark", "violin-dark", true), ("light", "violin-light", false)] {
        for (state, open) in STATES.iter().filter(|(state, _)| matches!(*state, "tree" | "models" | "review")) {
            let mut app = scene(120, 34);
            app.set_theme(Theme::built_in(theme));
            paint(&mut app);
            open(&mut app);
            let picture = super::svg::svg(&paint(&mut app).0, dark);
            assert!(picture.ends_with("</svg>\n"));
            if let Some(folder) = std::env::var_os("VIOLIN_PICTURES") {
                let path = std::path::Path::new(&folder).join(format!("{state}-{name}.svg"));
                std::fs::create_dir_all(&folder).expect("made");
                std::fs::write(path, picture).expect("written");
            }
        }
    }
}
