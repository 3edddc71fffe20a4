//! Every scene that the interface can show, as one table: snapshots, sizes, themes and pictures are made of it.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use tokio::sync::oneshot;

use super::draw;
use crate::agent::{
    Activity, AgentSettings, CommandLine, Danger, Delivery, FileChange, Place, Queued, RestorePreview, ReviewRequest,
    SessionState, Update,
};
use crate::choice::{Mode, Thinking};
use crate::event::{ContextUsage, DecidedBy, Decision, Event, UserSource};
use crate::message::{Usage, UserMessage};
use crate::model::{Compat, Cost, Model};
use crate::session::{Entry, EntryId, Header, Tree};
use crate::theme::Depth;
use crate::toolkit::{DiffLine, Hunk, Risk, View};
use crate::tui::app::{AppState, LineFor, Overlay, Phase};
use crate::tui::highlight;
use crate::tui::msg::{Done, Msg};
use crate::tui::prompt::chips::Image;
use crate::tui::sources::{Extra, ExtraKind, ModelChoice, SessionRow, SessionScope};
use crate::tui::term::Input;
use crate::tui::transcript::Tone;
use crate::tui::{commands, layout, list, update};

/// A scene: its name, and how it comes about from the base that it stands on.
pub struct Scene {
    pub name: &'static str,
    base: fn(&mut AppState),
    open: fn(&mut AppState),
}

const fn scene(name: &'static str, base: fn(&mut AppState), open: fn(&mut AppState)) -> Scene {
    Scene { name, base, open }
}

/// All scenes.
pub const SCENES: &[Scene] = &[
    scene("welcome", idle, |_| {}),
    scene("markdown", idle, markdown),
    scene("tools", talk, tools),
    scene("running", talk, running),
    scene("thinking", talk, thinking),
    scene("remarks", idle, remarks),
    scene("session", talk, |_| {}),
    scene("scrolled", talk, |app| {
        tools(app);
        paint(app);
        press(app, "view.page_up");
        event(app, Event::Delta { text: "something new".into() });
    }),
    scene("queue", talk, queue),
    scene("prompt", idle, prompt),
    scene("retry", talk, |app| {
        let reason = "529 overloaded: the server is busy 日本語, try again later; this reason goes on and on and on";
        event(app, Event::Retry { attempt: 2, delay_ms: 8000, reason: reason.into() });
        app.run.phase = match std::mem::take(&mut app.run.phase) {
            Phase::Retry { attempt, reason, .. } => {
                Phase::Retry { attempt, reason, at: app.now + Duration::from_millis(7500) }
            }
            other => other,
        };
    }),
    scene("toast", idle, |app| {
        app.tell("copied 3 lines; 日本語 and a rather long remark that must be cut somewhere", Tone::Quiet)
    }),
    scene("selection", idle, |app| {
        markdown(app);
        paint(app);
        let area = app.regions.transcript;
        for kind in ["<0;{};{}M", "<32;{};{}M"] {
            let last = kind.starts_with("<32");
            let (x, y) = if last { (area.x + 12, area.bottom() - 1) } else { (area.x + 4, area.y + 1) };
            mouse(app, last, x, y);
        }
    }),
    scene("tree", branches, |app| press(app, "pane.tree")),
    scene("tree_preview", branches, |app| {
        press(app, "pane.tree");
        for _ in 0..4 {
            press(app, "tree.up");
        }
    }),
    scene("tree_filter", branches, |app| {
        press(app, "pane.tree");
        press(app, "tree.filter");
        typed(app, "decimals");
    }),
    scene("label", branches, |app| {
        press(app, "pane.tree");
        press(app, "tree.label");
        typed(app, "ここから");
    }),
    scene("output", talk, |app| {
        tools(app);
        press(app, "pane.output");
        press(app, "output.previous");
        press(app, "output.previous");
    }),
    scene("output_file", talk, |app| {
        tools(app);
        press(app, "pane.output");
        for _ in 0..5 {
            press(app, "output.previous");
        }
    }),
    scene("models", idle, models),
    scene("models_search", idle, |app| {
        models(app);
        typed(app, "qwen 日");
    }),
    scene("models_offered", idle, |app| {
        commands::offered(app, &mut Vec::new());
        let offered = ["gpt-5.1", "gpt-5.1-mini", "o5"].map(|id| ("openai".to_owned(), id.to_owned()));
        done(
            app,
            Done::Offered(offered.to_vec(), vec!["anthropic: 401, the key in ANTHROPIC_API_KEY is refused".into()]),
        );
    }),
    scene("sessions", idle, |app| sessions(app, SessionScope::Here)),
    scene("sessions_everywhere", idle, |app| sessions(app, SessionScope::Everywhere)),
    scene("sessions_none", idle, |app| {
        commands::resume(app, &mut Vec::new());
        done(app, Done::Sessions(SessionScope::Here, Vec::new()));
    }),
    scene("rename", idle, |app| {
        sessions(app, SessionScope::Here);
        press(app, "list.rename");
    }),
    scene("delete", idle, |app| {
        sessions(app, SessionScope::Here);
        press(app, "list.delete");
    }),
    scene("name", idle, |app| slash(app, "name")),
    scene("themes", idle, |app| {
        done(app, Done::Themes(crate::theme::BUILT_IN.iter().map(|(name, _)| (*name).to_owned()).collect()));
    }),
    scene("settings", idle, |app| slash(app, "settings")),
    scene("modes", idle, |app| slash(app, "mode")),
    scene("levels", idle, |app| slash(app, "thinking")),
    scene("fork", branches, |app| slash(app, "fork")),
    scene("history", idle, |app| {
        let long = format!("look at {LONG_PATH} and tell what it does");
        let texts = ["fix the cart total", "多行\nprompt\nwith lines", &long, "👩‍👩‍👧‍👦 ♻️ 🇨🇳 emoji"];
        done(app, Done::History(texts.map(str::to_owned).to_vec()));
        press(app, "prompt.history");
    }),
    scene("context", idle, |app| slash(app, "context")),
    scene("session_page", talk, |app| slash(app, "session")),
    scene("help", idle, |app| press(app, "app.help")),
    scene("help_end", idle, |app| {
        press(app, "app.help");
        key(app, KeyCode::End);
    }),
    scene("slash", idle, |app| {
        let extra =
            |kind, name: &str, description: &str| Extra { kind, name: name.into(), description: description.into() };
        app.extras = vec![
            extra(ExtraKind::Skill, "review-日本", "looks at a change and says what is wrong with it, at some length"),
            extra(ExtraKind::Template, "commit", "write a commit message"),
        ];
        typed(app, "/");
    }),
    scene("slash_found", idle, |app| typed(app, "/mo")),
    scene("files", idle, |app| {
        typed(app, "look at @car");
        let items = ["src/cart.rs", "src/カート/cart.rs", LONG_PATH, "tests/cart_test.rs", "docs/👩‍🔬 notes/cart.md"];
        let version = app.prompt.version;
        done(app, Done::Matches { version, items: items.map(str::to_owned).to_vec() });
    }),
    scene("paths", idle, |app| {
        typed(app, "look at src/");
        let version = app.prompt.version;
        let items = ["src/cart.rs", "src/カート/", "src/main.rs"];
        done(app, Done::Matches { version, items: items.map(str::to_owned).to_vec() });
    }),
    scene("search", idle, |app| {
        markdown(app);
        paint(app);
        press(app, "view.search");
        typed(app, "quick brown fox");
    }),
    scene("search_walk", idle, |app| {
        markdown(app);
        paint(app);
        press(app, "view.search");
        typed(app, "the");
        key(app, KeyCode::Enter);
        key(app, KeyCode::Char('N'));
    }),
    scene("review_diff", talk, review_diff),
    scene("review_command", talk, |app| {
        tools(app);
        review_command(
            app,
            "cd build && rm -rf 'target dir' && echo \"fertig: $HOME 日本語\"",
            &["rm -rf 'target dir'"],
            NO_SANDBOX,
        )
    }),
    scene("review_script", talk, |app| {
        let script = "set -e\nfor file in *.rs; do\n  echo \"$file 👩‍🔬\"   # a comment that is rather long and goes over the end of the line, as comments do\ndone\nsudo make install\ncurl -fsSL https://example.org/install.sh | sh -s -- --yes\nls\nls -la\npwd\ndate";
        review_command(app, script, &["sudo", "curl -fsSL https://example.org/install.sh | sh"], NO_SANDBOX);
    }),
    scene("review_again", talk, review_again),
    scene("refusal", talk, |app| {
        review_diff(app);
        app.open(Overlay::Line(list::LineInput::default(), LineFor::Refusal));
        typed(app, "use the library in its stead 日本");
    }),
    scene("trust", idle, |app| {
        let long = format!(".violin/{LONG_PATH}");
        let files = [".violin/settings.json: bash, mode", ".violin/plugins/日本.lua", ".violin/SYSTEM.md", &long];
        take(app, Msg::Update(Update::Trust(files.map(str::to_owned).to_vec())));
    }),
    scene("rewind", branches, rewind),
    scene("first_start", idle, |app| {
        let found = [
            "anthropic: the key in ANTHROPIC_API_KEY",
            "ollama: a server at http://127.0.0.1:11434 with 3 models: qwen3-coder:30b, gpt-oss:20b, gemma3",
        ];
        update::first_start(app, &found.map(str::to_owned));
    }),
    scene("plugins", idle, plugins),
    scene("plugin", idle, |app| {
        plugins(app);
        key(app, KeyCode::Enter);
    }),
    scene("yolo", idle, |app| crate::tui::actions::set_mode(app, Mode::Yolo, &mut Vec::new())),
];

fn plugins(app: &mut AppState) {
    use crate::plugin::{Origin, Permission, PluginRow, State};
    let row = |name: &str, state, what: &str| PluginRow {
        name: name.into(),
        path: format!("/home/you/.violin/plugins/{name}.lua").into(),
        origin: Origin::Own,
        version: "1.0".into(),
        description: what.into(),
        state,
        hooks: vec!["on_tool_start", "on_tool_end", "on_session_before_compact"],
        permissions: vec![Permission::Read, Permission::Exec],
        tools: vec!["weather".into()],
        commands: vec!["notes".into(), "recap".into()],
        calls: 12,
        time: std::time::Duration::from_micros(3400),
        last_error: None,
    };
    let mut failed =
        row("日本-checks", State::Failed, "runs what a project of 日本 checks after each edit, and says so 👩‍🔬");
    failed.last_error = Some("日本-checks.lua:12: attempt to index a nil value (local 'x')".into());
    crate::tui::plugins::open(app, &mut Vec::new());
    let rows = vec![
        failed,
        row("guard", State::Active, "blocks or asks for dangerous shell commands, and runs the rest under set -e"),
        row("notes", State::Waiting, "keeps notes"),
        row("today", State::Off, "tells the model what day it is"),
    ];
    done(app, Done::Plugins(rows));
}

const NO_SANDBOX: &str =
    "look twice: it deletes whole folders · no sandbox: the kernel has no Landlock (it needs Linux 6.2 or later)";

pub const LONG_PATH: &str =
    "packages/storefront/src/組件/カート/a/very/long/path/that/goes/on/and/on/until/it/does/not/fit/any/more/total.rs";

impl Scene {
    /// The scene at a size, with all colours of code in it.
    pub fn app(&self, width: u16, height: u16) -> AppState {
        let mut app = app(width, height);
        (self.base)(&mut app);
        paint(&mut app);
        self.enter(&mut app);
        app
    }

    /// Brings an interface that shows the base of the scene into it.
    pub fn enter(&self, app: &mut AppState) {
        (self.open)(app);
        paint(app);
        coloured(app);
    }
}

/// The colours of all code that shows, which come from another thread otherwise.
pub fn coloured(app: &mut AppState) {
    let mut wanted = Vec::new();
    app.transcript.wanted(&mut wanted);
    app.reviews.wanted(&mut wanted);
    if !wanted.is_empty() {
        for coloured in highlight::coloured(&wanted) {
            done(app, Done::Coloured(coloured));
        }
    }
}

pub fn app(width: u16, height: u16) -> AppState {
    let mut app =
        AppState::new((width, height), "/home/you/code/shop".into(), "/none".into(), Depth::True, "violin-dark", true);
    app.place = "~/code/shop".into();
    app.git = (Some("main".into()), 2);
    let model = Model {
        provider: "openai".into(),
        id: "gpt-5".into(),
        name: "GPT-5".into(),
        api: "openai-responses".into(),
        base_url: String::new(),
        api_key: None,
        headers: Vec::new(),
        context_window: 200_000,
        max_tokens: None,
        reasoning: true,
        images: true,
        cost: None,
        compat: Compat::default(),
        thinking_levels: Default::default(),
        chain: Vec::new(),
    };
    app.settings = AgentSettings {
        model: Some(Arc::new(model)),
        thinking: Thinking::High,
        mode: Mode::Auto,
        context: ContextUsage::new(76_000, 200_000),
        context_parts: [
            ("system prompt", 400),
            ("tools", 380),
            ("rules", 1200),
            ("skills", 150),
            ("messages", 38_870),
            ("tool results", 35_000),
        ]
        .map(|(name, tokens)| (name.to_owned(), tokens))
        .to_vec(),
    };
    app
}

pub fn take(app: &mut AppState, msg: Msg) {
    update::update(app, msg);
}

pub fn event(app: &mut AppState, event: Event) {
    take(app, Msg::Update(Update::Event(event)));
}

pub fn done(app: &mut AppState, done: Done) {
    take(app, Msg::Done(done));
}

pub fn typed(app: &mut AppState, text: &str) {
    take(app, Msg::Input(Input::Text(text.into())));
}

pub fn key(app: &mut AppState, code: KeyCode) {
    take(app, Msg::Input(Input::Key(KeyEvent::new(code, KeyModifiers::NONE))));
}

pub fn mouse(app: &mut AppState, drag: bool, x: u16, y: u16) {
    use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
    let kind = if drag { MouseEventKind::Drag(MouseButton::Left) } else { MouseEventKind::Down(MouseButton::Left) };
    take(app, Msg::Input(Input::Mouse(MouseEvent { kind, column: x, row: y, modifiers: KeyModifiers::NONE })));
}

pub fn press(app: &mut AppState, name: &str) {
    let action = crate::tui::actions::ACTIONS.iter().find(|action| action.name == name).expect("an action");
    (action.run)(app, &mut Vec::new());
}

fn slash(app: &mut AppState, name: &str) {
    let slash = commands::SLASHES.iter().find(|slash| slash.name == name).expect("a command");
    (slash.run)(app, "", &mut Vec::new());
}

pub fn paint(app: &mut AppState) -> (Buffer, Option<Position>) {
    layout::layout(app);
    let mut buffer = Buffer::empty(Rect::new(0, 0, app.size.0, app.size.1));
    let caret = draw(app, &mut buffer);
    (buffer, caret)
}

const USAGE: Usage = Usage {
    input_tokens: 41_000,
    output_tokens: 2100,
    cache_read_tokens: 36_000,
    cache_write_tokens: 0,
    cost_usd: Some(0.31),
};

pub fn open_session(app: &mut AppState, lines: &[serde_json::Value]) {
    let mut tree = Tree::default();
    for line in lines {
        tree.push(Arc::new(Entry::parse(line.to_string().as_bytes(), 0).expect("reads")));
    }
    let id = "20261130-091500-1a2b3c4d".to_owned();
    let header = Header { version: 1, id, created_at: 0, cwd: "/".into(), model: None, parent_session: None };
    let path = Some("/home/you/.violin/sessions/shop-1234/20261130-091500-1a2b3c4d.jsonl".into());
    let state = SessionState { header, path, tree, usage: USAGE, notices: Vec::new() };
    take(app, Msg::Update(Update::Session(Box::new(state))));
}

/// Nothing was said yet, and nothing goes on.
pub fn idle(app: &mut AppState) {
    open_session(app, &[]);
}

/// A run goes on.
pub fn talk(app: &mut AppState) {
    open_session(app, &[]);
    take(app, Msg::Update(Update::Activity(Activity::Running)));
    app.run.since = Some(app.now - Duration::from_secs(12));
    let text = "fix the failing cart test 日本語".into();
    event(app, Event::User { text, source: UserSource::Prompt, images: 0, entry: None });
    event(app, Event::Delta { text: "I'll look at the test first. 👩‍🔬 ♻️ ❤️ 🇨🇳 한글\n".into() });
}

/// A session with branches, labels, tools and a compaction.
fn branches(app: &mut AppState) {
    use serde_json::json;
    let call = json!([{"type": "text", "text": "I'll look at the test first"}, {"type": "tool_call", "id": "c", "name": "read", "arguments": {"path": "src/cart.rs"}}]);
    let mut lines = vec![
        json!({"id": 1, "parent_id": null, "role": "user", "content": "fix the cart total"}),
        json!({"id": 2, "parent_id": 1, "role": "assistant", "content": call}),
        json!({"id": 3, "parent_id": 2, "role": "tool", "tool_call_id": "c", "name": "read", "content": "x", "is_error": false, "summary": "120 lines"}),
        json!({"id": 4, "parent_id": 3, "role": "assistant", "content": "The total **underflows** when the discount is larger than the sum, as `src/cart.rs` line 41 shows; I'd clamp it."}),
        json!({"id": 5, "parent_id": 4, "role": "user", "content": "use decimals instead 日本語 👩‍👩‍👧‍👦"}),
        json!({"id": 6, "parent_id": 5, "role": "assistant", "content": "Decimals it is."}),
        json!({"id": 7, "parent_id": 4, "role": "user", "content": format!("explain the discount rule in {LONG_PATH}")}),
        json!({"id": 8, "parent_id": 7, "type": "model_change", "model": "anthropic/claude-opus-4-5"}),
        json!({"id": 9, "parent_id": 8, "role": "assistant", "content": "A discount is taken off the sum, never more than all of it."}),
        json!({"id": 10, "parent_id": 9, "type": "compaction", "summary": "Goal: fix the cart.", "tokens_before": 120_000, "tokens_after": 8000}),
        json!({"id": 11, "parent_id": 10, "role": "user", "content": "so clamp it"}),
        json!({"id": 12, "parent_id": 11, "role": "assistant", "content": "Clamped, and the test passes."}),
    ];
    lines.push(json!({"id": 13, "parent_id": 12, "type": "label", "target_id": 5, "label": "小数"}));
    lines.push(json!({"id": 14, "parent_id": 12, "type": "name", "name": "the cart total 合計"}));
    open_session(app, &lines);
}

fn markdown(app: &mut AppState) {
    let text = "# Heading 見出し\n\nThe quick brown fox jumps over the lazy dog, and `then` it looks **back** at *what* it ~~has~~ done: 日本語テキスト, combining e\u{301}, 👩‍👩‍👧‍👦 ♻️ 🇨🇳. See [the docs](https://example.org/a/b) for the rest.\n\n## Lists\n\n1. first\n2. second, with a nested one:\n   - inner one that is long enough to be wrapped at the edge of a narrow screen\n     - deeper\n- [x] done\n- [ ] to do\n\n> A quote, in the words of the fox, long enough for two lines of eighty columns, says it all.\n\n```rust\n/// Adds. 足す\nfn add(left: u64, right: u64) -> u64 {\n    left + right // the sum, with a comment that goes on and on until it has to be wrapped somewhere, even at a hundred and sixty columns it does\n}\n```\n\n| case | before 前 | after |\n|---|--:|:-:|\n| discount > sum | panic | 0 |\n| 👩‍🔬 emoji | 1 | a cell with so many words in it that it has to be wrapped |\n\n---\n\nThe end.\n";
    event(app, Event::Delta { text: text.into() });
    app.transcript.settle();
}

pub struct Call<'a> {
    pub name: &'a str,
    pub title: &'a str,
    pub ok: bool,
    pub summary: &'a str,
    pub output: &'a str,
    pub view: Option<View>,
}

pub fn started(app: &mut AppState, id: &str, name: &str, title: &str) {
    let (id, name) = (id.to_owned(), name.to_owned());
    event(app, Event::ToolStart { id, name, args: Default::default(), title: title.into() });
}

pub fn call(app: &mut AppState, id: &str, call: Call<'_>) {
    started(app, id, call.name, call.title);
    let end = Event::ToolEnd {
        id: id.to_owned(),
        name: call.name.to_owned(),
        ok: call.ok,
        output: call.output.into(),
        effects: Vec::new(),
        duration_ms: 3200,
        exit_code: Some(i32::from(!call.ok) * 101),
        summary: call.summary.into(),
        view: call.view,
        entry: None,
    };
    event(app, end);
}

fn diff() -> View {
    let lines = vec![
        DiffLine::Context("    let total = sum; // 合計".into()),
        DiffLine::Removed("    total - discount".into()),
        DiffLine::Added("    (total - discount).max(0) // never below zero, which a line long enough to be wrapped at eighty columns says".into()),
        DiffLine::Context("}".into()),
    ];
    let later = vec![DiffLine::Context("mod tests {".into()), DiffLine::Added("    // 👩‍🔬".into())];
    let hunks = vec![Hunk { old_start: 9, new_start: 9, lines }, Hunk { old_start: 120, new_start: 120, lines: later }];
    View::Diff { path: "src/cart.rs".into(), hunks }
}

/// A call of each kind.
fn tools(app: &mut AppState) {
    let terminal = || Some(View::Terminal { text: String::new(), log: None });
    let file =
        View::File {
            path: "cart.rs".into(), first_line: 98, text: "fn total() -> u64 {\n    41 // 合計\n}\n".into()
        };
    call(
        app,
        "1",
        Call { name: "read", title: LONG_PATH, ok: true, summary: "3 lines", output: "x", view: Some(file) },
    );
    let hits = "src/cart.rs:12: total\n".repeat(12);
    call(
        app,
        "2",
        Call {
            name: "grep",
            title: "total 合計 in src",
            ok: true,
            summary: "12 matches",
            output: &hits,
            view: Some(View::Matches),
        },
    );
    let mut out: String = (0..30).map(|n| format!("test case_{n} ... \u{1b}[32mok\u{1b}[0m\n")).collect();
    out.push_str("test cart::total_合計 ... \u{1b}[31mFAILED\u{1b}[0m, because the total was -4 where it should have been 0, and that is a rather long line of output\n");
    call(
        app,
        "3",
        Call { name: "bash", title: "cargo test cart", ok: false, summary: "", output: &out, view: terminal() },
    );
    call(
        app,
        "4",
        Call { name: "edit", title: "src/cart.rs", ok: true, summary: "+2 −1", output: "", view: Some(diff()) },
    );
    let image = View::Image { mime_type: "image/png".into(), width: 1280, height: 720, bytes: 340_000 };
    call(
        app,
        "5",
        Call {
            name: "read", title: "shots/画面 👩‍🔬.png", ok: true, summary: "image", output: "", view: Some(image)
        },
    );
    started(app, "6", "bash", "git push --force");
    let review = Event::ToolReview {
        id: "6".into(),
        risk: Risk::Command,
        decision: Decision::Denied,
        by: DecidedBy::Person,
        reason: Some("not today, 明日".into()),
    };
    event(app, review);
    let end = Event::ToolEnd {
        id: "6".into(),
        name: "bash".into(),
        ok: false,
        output: "denied by the user: not today, 明日".into(),
        effects: Vec::new(),
        duration_ms: 0,
        exit_code: None,
        summary: "denied".into(),
        view: None,
        entry: None,
    };
    event(app, end);
    call(
        app,
        "7",
        Call {
            name: "a_plugin_tool_with_a_long_name",
            title: "q",
            ok: false,
            summary: "no such tool",
            output: "there is no tool of that name",
            view: None,
        },
    );
}

fn running(app: &mut AppState) {
    started(app, "1", "bash", "cargo build --release --workspace --all-features --target x86_64-unknown-linux-musl");
    let text = "   Compiling shop v0.1.0 (/home/you/code/shop)\n\u{1b}[33mwarning\u{1b}[0m: unused 変数\n    Building [====>    ] 12/40\r    Building [=====>   ] 13/40";
    event(app, Event::ToolOutput { id: "1".into(), text: text.into() });
    started(app, "2", "read", "src/main.rs");
}

fn thinking(app: &mut AppState) {
    let thought = "The test fails because the total is negative. 合計が負になる。 So it has to be clamped at zero, which is what the name of the test says.\n\nI could also use a type that cannot be negative, but then the subtraction would panic in its stead.";
    event(app, Event::Thinking { text: thought.into() });
    event(app, Event::Delta { text: "It underflows.".into() });
    event(app, Event::Thinking { text: thought.into() });
    let last = app.transcript.blocks.len() - 1;
    event(app, Event::Delta { text: "More below.".into() });
    app.transcript.toggle(last);
    event(app, Event::Thinking { text: thought.repeat(3) });
}

/// Images, notes of every tone, a summary, what the person ran.
fn remarks(app: &mut AppState) {
    use serde_json::json;
    let png = "iVBORw0KGgoAAAANSUhEUgAABQAAAALQCAIAAABAH0oB";
    let content = json!([{"type": "text", "text": "what is wrong in these 画面?"}, {"type": "image", "mime_type": "image/png", "data": png}, {"type": "image", "mime_type": "image/jpeg", "data": "/9j/"}]);
    let lines = [
        json!({"id": 1, "parent_id": null, "type": "compaction", "summary": "Goal: fix the cart.", "tokens_before": 120_000, "tokens_after": 8000, "kept_messages": 10}),
        json!({"id": 2, "parent_id": 1, "role": "user", "content": content}),
        json!({"id": 3, "parent_id": 2, "type": "model_change", "model": "anthropic/claude-opus-4-5"}),
        json!({"id": 4, "parent_id": 3, "type": "shell", "command": "ls -la | head -2", "output": "total 8\ncart.rs", "exit_code": 0, "in_context": true}),
        json!({"id": 5, "parent_id": 4, "role": "assistant", "content": "The image shows", "stop_reason": "aborted"}),
    ];
    open_session(app, &lines);
    app.transcript.note(
        "settings.json, line 4: `modee` is no setting; did you mean `mode`? The rest of the file applies.",
        Tone::Warning,
    );
    app.transcript.note(
        "401 unauthorized: the key in OPENAI_API_KEY is refused by https://api.openai.com/v1/responses",
        Tone::Error,
    );
}

fn queue(app: &mut AppState) {
    let queued = |text: &str, delivery| Queued { message: UserMessage::text(text), delivery };
    let messages = vec![
        queued("steer this way", Delivery::Steer),
        queued(
            "then run the linter 日本語 over all of it, and tell me what it finds, one by one, in order of weight",
            Delivery::FollowUp,
        ),
        queued("and then\nseveral\nlines", Delivery::FollowUp),
        queued("four", Delivery::FollowUp),
        queued("five", Delivery::FollowUp),
        queued("six", Delivery::FollowUp),
    ];
    take(app, Msg::Update(Update::Queue(messages)));
    app.prompt.insert("also check the negative case 日本");
}

fn prompt(app: &mut AppState) {
    app.prompt.attach(Image { mime_type: "image/png".into(), data: String::new(), width: 1280, height: 720 });
    app.prompt.insert(" what is wrong here? 日本語テキスト 👩‍👩‍👧‍👦 and a line long enough to be wrapped even where there are one hundred and sixty columns, which takes some more words than one would think\n");
    app.prompt.paste(&"a pasted line\n".repeat(312));
    for n in 0..9 {
        app.prompt.insert(&format!("\nline {n}"));
    }
    app.settings.mode = Mode::Plan;
}

fn models(app: &mut AppState) {
    let model = |provider: &str, id: &str, name: &str, reason: Option<&str>| ModelChoice {
        provider: provider.into(),
        id: id.into(),
        name: name.into(),
        context_window: 200_000,
        cost: (provider != "local").then_some(Cost { input: 1.25, output: 10.0, ..Cost::default() }),
        images: provider != "local",
        reasoning: id != "gpt-4o",
        usable: reason.is_none(),
        reason: reason.map(str::to_owned),
    };
    commands::models(app, &mut Vec::new());
    let choices = vec![
        model("openai", "gpt-5", "GPT-5", None),
        model("openai", "gpt-4o", "gpt-4o", None),
        model("anthropic", "claude-opus-4-5", "Claude Opus 4.5", Some("ANTHROPIC_API_KEY is not set")),
        model("local", "qwen3-coder-30b-a3b-instruct-q4_k_m.gguf", "通義千問 Qwen3 Coder 30B", None),
        model(
            "a-provider-with-a-long-name",
            "models/and-a-model-with-an-even-longer-id-日本語",
            "",
            Some("A_PROVIDER_WITH_A_LONG_NAME_API_KEY is not set"),
        ),
    ];
    done(app, Done::Models(choices));
}

fn sessions(app: &mut AppState, scope: SessionScope) {
    commands::resume(app, &mut Vec::new());
    let now = jiff::Timestamp::now().as_second();
    let row = |name: Option<&str>, first: &str, messages, cost_usd, ago| SessionRow {
        path: format!("/s/{first}.jsonl").into(),
        cwd: format!("/home/you/code/{}", if first.len() > 40 { LONG_PATH } else { "shop" }),
        name: name.map(str::to_owned),
        first_message: first.into(),
        messages,
        cost_usd,
        updated_at: now - ago,
        ..SessionRow::default()
    };
    let rows = vec![
        row(
            None,
            "fix 日本語 the failing cart test in the shop, and whatever else is wrong with it: 👩‍👩‍👧‍👦 ♻️ 🇨🇳",
            Some(12),
            Some(0.2),
            10,
        ),
        row(Some("the cart 合計"), "fix the cart total", Some(1234), Some(12.345), 60 * 5 + 30),
        row(
            Some("a name that is longer than most and does not leave any room for the first message of the session"),
            "hello",
            None,
            None,
            3600 * 3 + 60,
        ),
        row(None, "explain", Some(2), Some(0.0012), 86_400 * 40 + 60),
    ];
    done(app, Done::Sessions(scope, rows));
}

fn request(app: &mut AppState, request: impl FnOnce(oneshot::Sender<crate::agent::ReviewAnswer>) -> ReviewRequest) {
    let (answer, kept) = oneshot::channel();
    std::mem::forget(kept);
    take(app, Msg::Update(Update::Review(request(answer))));
}

pub fn review_diff(app: &mut AppState) {
    request(app, |answer| ReviewRequest {
        call_id: "q".into(),
        name: "edit".into(),
        title: "src/cart.rs".into(),
        risk: Risk::Write,
        reason: "the mode `ask` asks".into(),
        command: None,
        view: Some(diff()),
        rule: Some("write(src/**)".into()),
        answer,
    });
}

pub fn review_command(app: &mut AppState, text: &str, dangers: &[&str], reason: &str) {
    let marks = dangers.iter().filter_map(|part| text.find(part).map(|at| at..at + part.len()));
    let dangers = marks.map(|at| Danger { at, why: "it deletes whole folders" }).collect();
    request(app, |answer| ReviewRequest {
        call_id: "q".into(),
        name: "bash".into(),
        title: text.into(),
        risk: Risk::Command,
        reason: reason.into(),
        command: Some(CommandLine { text: text.into(), dangers }),
        view: None,
        rule: Some(format!("bash({text})")).filter(|_| !text.contains([';', '&', '|', '\n'])),
        answer,
    });
}

/// The question whether a command may leave the sandbox, and another behind it.
fn review_again(app: &mut AppState) {
    request(app, |answer| {
        ReviewRequest {
        call_id: "q".into(),
        name: "bash".into(),
        title: "make install".into(),
        risk: Risk::Command,
        reason: "it seems to have failed because of the sandbox; run it again without?".into(),
        command: Some(CommandLine { text: "make install".into(), dangers: Vec::new() }),
        view: Some(View::Terminal { text: "cp shop /usr/local/bin\ncp: cannot create '/usr/local/bin/shop': \u{1b}[31mPermission denied\u{1b}[0m\n".into(), log: None }),
        rule: None,
        answer,
    }
    });
    review_diff(app);
}

fn rewind(app: &mut AppState) {
    press(app, "pane.tree");
    press(app, "tree.up");
    press(app, "tree.continue");
    let to = app.pending.as_ref().map_or(Place { leaf: Some(EntryId(1)), anew: None }, |pending| pending.to);
    let mut changes: Vec<(String, FileChange)> = vec![
        ("src/cart.rs".into(), FileChange::Modified),
        ("src/カート.rs".into(), FileChange::Created),
        (LONG_PATH.into(), FileChange::Deleted),
    ];
    changes.extend((0..9).map(|n| (format!("tests/case_{n}.rs"), FileChange::Modified)));
    let conflicts = vec!["src/cart.rs".to_owned()];
    take(app, Msg::Update(Update::RestorePreview(RestorePreview { to, unavailable: None, changes, conflicts })));
}
