//! The one place where the state changes: a message comes in, effects go out.

pub mod agent;
pub mod complete;
mod done;
mod input;
pub mod submit;
pub mod tree;

use super::app::AppState;
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
