//! What effects brought.

use crate::tui::app::AppState;
use crate::tui::app::Overlay;
use crate::tui::commands;
use crate::tui::list::Subject;
use crate::tui::msg::{Clip, Done, Effect};
use crate::tui::pane::Pane;
use crate::tui::plugins;
use crate::tui::transcript::{CodeOf, Tone};

/// Takes it.
pub fn done(app: &mut AppState, done: Done, effects: &mut Vec<Effect>) {
    let dirty = std::mem::replace(&mut app.dirty, true);
    match done {
        Done::Models(models) => commands::take_models(app, models),
        Done::Sessions(scope, rows) => {
            commands::take_sessions(app, scope, rows);
            // What is searched may stand in others now.
            commands::search_sessions(app, effects);
        }
        Done::Found(query, files) => commands::take_found(app, &query, &files),
        Done::Extras(extras) => {
            let others = app.extras != extras;
            app.extras = extras;
            // Commands that have just come are offered where one is being typed.
            if others && app.prompt.before_cursor().starts_with('/') {
                super::complete::refresh(app, effects);
            }
        }
        Done::History(texts) => app.prompt.history.load(texts),
        Done::Matches { version, items } => super::complete::matched(app, version, items),
        Done::Edited(Ok(text)) => app.prompt.set_text(text.trim_end_matches('\n')),
        Done::Edited(Err(error)) => app.tell(error, Tone::Error),
        Done::Pasted(Ok(Clip::Text(text))) => app.prompt.paste(&text),
        Done::Pasted(Ok(Clip::Image(image))) | Done::Attached(Ok(image), _) => {
            if !app.takes_images() {
                app.tell("this model takes no images", Tone::Warning);
            }
            app.prompt.attach(image);
        }
        Done::Pasted(Err(error)) => app.tell(error, Tone::Warning),
        Done::Attached(Err(_), text) => app.prompt.paste(&text),
        Done::Coloured(coloured) => {
            let seen = match coloured.of {
                CodeOf::Block(id) => app.transcript.colour(id, coloured.piece, coloured.from, coloured.lines),
                CodeOf::Review(number) => app.reviews.colour(number, coloured.lines),
            };
            app.dirty = dirty | seen;
        }
        Done::Theme(Ok(theme)) => app.set_theme(*theme),
        Done::Theme(Err(error)) => app.transcript.note(error, Tone::Error),
        Done::Git(branch, changed) => app.git = (branch, changed),
        Done::Expanded(Ok(text), delivery) => super::submit::send_text(app, &text, delivery, effects),
        Done::Expanded(Err(error), _) => app.tell(error, Tone::Error),
        Done::SessionsChanged(result) => {
            if let Err(error) = result {
                app.tell(error, Tone::Error);
            }
            commands::resume(app, effects);
        }
        Done::Offered(offered, failed) => commands::take_offered(app, offered, failed),
        Done::Added(reference) => {
            app.tell(format!("{reference} is in models.json now"), Tone::Quiet);
            effects.push(Effect::Command(crate::agent::Command::SetModel(reference)));
        }
        Done::Toast(text, tone) => app.tell(text, tone),
        // A display that is named may be gone, as in a multiplexer that outlived it: the terminal is asked in its place.
        Done::Uncopied(text, error) => {
            tracing::debug!(error, "the clipboard took no text");
            effects.push(Effect::CopyThroughTerminal(text));
        }
        Done::Bindings(bindings, problems) => {
            app.bindings = *bindings;
            // A file that is saved may be told of more than once.
            if problems != app.binding_problems {
                for problem in &problems {
                    app.transcript.note(problem.clone(), Tone::Warning);
                }
                app.binding_problems = problems;
            }
        }
        Done::Changed(path) => changed(app, &path, effects),
        Done::Plugins(rows) => plugins::take(app, rows),
        Done::PluginActed(outcome) => plugins::acted(app, outcome, effects),
        Done::Themes(names) => commands::take_themes(app, names),
        Done::Log(path, text) => {
            if let Some(Pane::Output(output)) = &mut app.pane {
                output.log = Some((path, text));
                output.key = None;
                output.scroll = Some(0);
            }
        }
    }
}

/// A file that is watched changed.
fn changed(app: &mut AppState, path: &std::path::Path, effects: &mut Vec<Effect>) {
    if path.parent() == Some(&app.themes) {
        if path.file_stem().is_some_and(|stem| {
            stem.to_str() == Some(app.theme.name.as_str()) || stem.to_str() == Some(app.theme_name.as_str())
        }) {
            effects.push(Effect::Theme(app.theme.name.clone()));
        }
        return;
    }
    if path.file_name().is_some_and(|name| name == "keybindings.json") {
        effects.push(Effect::Bindings);
    }
    if path.file_name().is_some_and(|name| name == "models.json")
        && let Some(Overlay::List(list)) = &app.overlay
        && matches!(list.subject, Subject::Models(_))
    {
        effects.push(Effect::Models);
    }
}
