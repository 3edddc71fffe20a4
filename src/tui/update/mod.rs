//! The one place where the state changes: a message comes in, effects go out.

pub mod agent;
pub mod complete;
mod done;
mod input;
pub mod submit;
pub mod tree;

use super::app::{AppState, Overlay};
use super::list::{Answer, Ask};
use super::msg::{Effect, Msg};

/// Takes a message.
pub fn update(app: &mut AppState, msg: Msg) -> Vec<Effect> {
    let mut effects = Vec::new();
    match msg {
        Msg::Input(input) => {
            app.dirty = true;
            input::input(app, input, &mut effects);
        }
        Msg::Update(update) => agent::update(app, update, &mut effects),
        Msg::Resize(width, height) => {
            app.size = (width, height);
            app.dirty = true;
        }
        Msg::Tick => {
            app.tick = app.tick.wrapping_add(1);
            app.dirty = true;
            if app.toast.as_ref().is_some_and(|toast| toast.until <= app.now) {
                app.toast = None;
            }
        }
        Msg::Done(done) => done::done(app, done, &mut effects),
    }
    effects
}

/// Asks whether what was found at the first start is to be written into models.json.
pub fn first_start(app: &mut AppState, found: &[String]) {
    let mut question = vec!["Nothing is configured yet. Found here:".to_owned()];
    question.extend(found.iter().map(|line| format!("  {}", crate::text::visible(line))));
    let answers = vec![
        Answer {
            key: 'w',
            words: "write models.json, to be changed as you like".to_owned(),
            effects: vec![Effect::WriteModels],
        },
        Answer { key: 'n', words: "not now; use them for this session".to_owned(), effects: Vec::new() },
    ];
    app.open(Overlay::Ask(Ask { selected: 0, ..Ask::new(question, answers) }));
}
