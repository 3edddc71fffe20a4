//! The README's pictures: three screens of one story, made of the interface itself.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::json;

use super::scenes::{Call, SCENES, app, call, coloured, done, event, open_session, paint, press, review_command, talk};
use super::svg::svg;
use super::tests::{THEMES, in_theme};
use crate::choice::Mode;
use crate::event::{Event, UserSource};
use crate::model::Cost;
use crate::toolkit::{DiffLine, Hunk, View};
use crate::tui::app::AppState;
use crate::tui::commands;
use crate::tui::msg::Done;
use crate::tui::sources::ModelChoice;

/// A picture: its file, and how its screen comes about.
type Picture = (&'static str, fn(&mut AppState));

const PICTURES: &[Picture] = &[("review", review), ("tree", tree), ("models", models)];

/// A test fails, is mended, and something is asked.
fn review(app: &mut AppState) {
    talk(app);
    app.settings.mode = Mode::Ask;
    app.transcript.clear();
    let said = "fix the failing cart test, then push".into();
    event(app, Event::User { text: said, source: UserSource::Prompt, images: 0, entry: None });
    event(app, Event::Delta { text: "I'll look at the test first.".into() });
    let terminal = || Some(View::Terminal { text: String::new(), log: None });
    call(
        app,
        "1",
        Call { name: "read", title: "src/cart.rs", ok: true, summary: "120 lines", output: "x", view: None },
    );
    let out = "running 14 tests\n".to_owned()
        + &(0..12).map(|n| format!("test cart::case_{n} ... \u{1b}[32mok\u{1b}[0m\n")).collect::<String>()
        + "test cart::a_total_is_never_negative ... \u{1b}[31mFAILED\u{1b}[0m\n\nassertion failed: left: -4, right: 0\n";
    call(
        app,
        "2",
        Call { name: "bash", title: "cargo test cart", ok: false, summary: "", output: &out, view: terminal() },
    );
    let lines = vec![
        DiffLine::Context("    pub fn total(&self) -> i64 {".into()),
        DiffLine::Removed("        self.sum() - self.discount".into()),
        DiffLine::Added("        (self.sum() - self.discount).max(0)".into()),
        DiffLine::Context("    }".into()),
    ];
    let hunks = vec![Hunk { old_start: 40, new_start: 40, lines }];
    let view = Some(View::Diff { path: "src/cart.rs".into(), hunks });
    call(app, "3", Call { name: "edit", title: "src/cart.rs", ok: true, summary: "+1 −1", output: "", view });
    let said = "The discount may be larger than the sum, so that the total went **below zero**. It is clamped now; I'll run the tests and push.";
    event(app, Event::Delta { text: said.into() });
    let text = "cargo test --quiet && git push --force-with-lease origin main";
    let reason = "look twice: it overwrites what others may have pushed · the mode `ask` asks";
    review_command(app, text, &["git push --force-with-lease origin main"], reason);
}

/// The same session as a tree.
fn tree(app: &mut AppState) {
    let calls = json!([{"type": "text", "text": "I'll look at the test first."}, {"type": "tool_call", "id": "c", "name": "read", "arguments": {"path": "src/cart.rs"}}]);
    let said = |id: u64, parent: u64, role: &str, text: &str| json!({"id": id, "parent_id": parent, "role": role, "content": text});
    open_session(
        app,
        &[
            json!({"id": 1, "parent_id": null, "role": "user", "content": "fix the failing cart test"}),
            json!({"id": 2, "parent_id": 1, "role": "assistant", "content": calls}),
            json!({"id": 3, "parent_id": 2, "role": "tool", "tool_call_id": "c", "name": "read", "content": "x", "is_error": false, "summary": "120 lines"}),
            said(
                4,
                3,
                "assistant",
                "The total goes **below zero** when the discount is larger than the sum. I'd clamp it in `Cart::total`.",
            ),
            said(5, 4, "user", "use decimals instead"),
            said(6, 5, "assistant", "Decimals it is: 14 files changed."),
            said(7, 4, "user", "yes, clamp it"),
            said(8, 7, "assistant", "Clamped, and all 14 tests pass."),
            said(9, 8, "user", "explain the discount rule"),
            said(
                10,
                9,
                "assistant",
                "A discount is taken off the sum once, after the taxes:\n\n1. `sum` adds the items,\n2. `discount` is at most the sum,\n3. `total` is what is left, never below zero.",
            ),
            json!({"id": 11, "parent_id": 10, "type": "label", "target_id": 5, "label": "decimals"}),
            json!({"id": 12, "parent_id": 10, "type": "name", "name": "cart total"}),
        ],
    );
    press(app, "pane.tree");
}

/// What can be chosen.
fn models(app: &mut AppState) {
    tree(app);
    press(app, "tree.close");
    let model =
        |provider: &str, id: &str, name: &str, window, cost: Option<(f64, f64)>, reason: Option<&str>| ModelChoice {
            provider: provider.into(),
            id: id.into(),
            name: name.into(),
            context_window: window,
            cost: cost.map(|(input, output)| Cost { input, output, ..Cost::default() }),
            images: cost.is_some(),
            reasoning: true,
            usable: reason.is_none(),
            reason: reason.map(str::to_owned),
        };
    commands::models(app, &mut Vec::new());
    let choices = vec![
        model("openai", "gpt-5", "GPT-5", 400_000, Some((1.25, 10.0)), None),
        model("openai", "gpt-5-mini", "GPT-5 mini", 400_000, Some((0.25, 2.0)), None),
        model("anthropic", "claude-sonnet-4-5", "Claude Sonnet 4.5", 200_000, Some((3.0, 15.0)), None),
        model("google", "gemini-2.5-pro", "Gemini 2.5 Pro", 1_000_000, None, Some("GEMINI_API_KEY is not set")),
        model("local", "qwen3-coder", "Qwen3 Coder", 65_536, None, None),
    ];
    done(app, Done::Models(choices));
}

fn written(folder: &OsStr, name: &str, picture: &str) {
    std::fs::create_dir_all(folder).expect("made");
    std::fs::write(Path::new(folder).join(name), picture).expect("written");
}

/// Writes the README's pictures where `VIOLIN_PICTURES` names a folder: `VIOLIN_PICTURES=assets cargo test pictures`;
/// and pictures of every scene, to be looked at, where `VIOLIN_SCREENS` does.
#[test]
fn pictures_of_the_readme() {
    let (readme, screens) = (std::env::var_os("VIOLIN_PICTURES"), std::env::var_os("VIOLIN_SCREENS"));
    for theme @ (name, _, dark) in THEMES.into_iter().take(2) {
        let name = name.trim_start_matches("violin-");
        for (file, open) in PICTURES {
            let mut app = app(120, 34);
            open(&mut app);
            paint(&mut app);
            coloured(&mut app);
            let picture = svg(&in_theme(&mut app, theme), dark);
            assert!(picture.ends_with("</svg>\n"));
            let file = format!("{file}-{name}.svg");
            match &readme {
                Some(folder) => written(folder, &file, &picture),
                // What the README shows is what there is.
                None => {
                    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets").join(&file);
                    let kept = std::fs::read_to_string(kept).expect("there");
                    assert!(
                        kept == picture,
                        "{file} is of an older interface: VIOLIN_PICTURES=assets cargo test pictures"
                    );
                }
            }
        }
        if let Some(folder) = &screens {
            for scene in SCENES {
                for (width, height) in [(80, 24), (160, 50)] {
                    let picture = svg(&in_theme(&mut scene.app(width, height), theme), dark);
                    written(folder, &format!("{}-{width}-{name}.svg", scene.name), &picture);
                }
            }
        }
    }
}
