//! What the agent tells.

use std::sync::Arc;
use std::time::Duration;

use crate::agent::{Activity, Command, FileChange, Restore, RestorePreview, Update};
use crate::event::Event;
use crate::text;
use crate::tui::app::{AppState, Overlay, Phase};
use crate::tui::list::{Answer, Ask};
use crate::tui::msg::Effect;
use crate::tui::transcript::Tone;

/// Takes an update.
pub fn update(app: &mut AppState, update: Update, effects: &mut Vec<Effect>) {
    app.dirty = true;
    match update {
        Update::Event(event) => self::event(app, event, effects),
        Update::Session(state) => {
            let state = *state;
            app.session.id = state.header.id;
            app.session.path = state.path;
            app.session.usage = state.usage;
            app.session.tree = state.tree;
            app.transcript.fill(&app.session.tree, app.session.tree.leaf());
            for notice in state.notices {
                app.transcript.note(notice, Tone::Warning);
            }
            app.selection = None;
            app.search = None;
            app.reviews.refuse_all();
            if let Some(crate::tui::pane::Pane::Tree(pane)) = &mut app.pane {
                pane.previewing = false;
                pane.refresh(&app.session.tree);
            }
            effects.push(title(app));
        }
        Update::Appended(entry) => {
            app.transcript.appended(&entry);
            app.session.tree.push(entry);
            // It may have given the session a name.
            effects.push(title(app));
            if let Some(crate::tui::pane::Pane::Tree(pane)) = &mut app.pane {
                pane.refresh(&app.session.tree);
            }
        }
        Update::Activity(activity) => self::activity(app, activity, effects),
        Update::Queue(queue) => app.queue = queue,
        Update::Returned(messages) => {
            if !messages.is_empty() {
                app.prompt.give_back(&messages);
            }
        }
        Update::Settings(settings) => app.settings = *settings,
        Update::Review(request) => {
            app.reviews.push(request, app.now);
            if app.is_unseen() {
                effects.push(Effect::Notify("a question waits".to_owned()));
            }
        }
        Update::Trust(files) => trust(app, files),
        Update::Plugins => {
            effects.push(Effect::Extras);
            if crate::tui::plugins::is_open(app) {
                effects.push(Effect::Plugins);
            }
        }
        Update::RestorePreview(preview) => restore(app, preview, effects),
        Update::ShellOutput(output) => app.transcript.shell_output(&output),
    }
}

/// The window's title.
pub fn title(app: &AppState) -> Effect {
    let place = app.cwd.file_name().map_or(app.place.clone(), |name| name.to_string_lossy().into_owned());
    let title = match app.session.tree.name() {
        Some(name) => format!("violin - {name} - {place}"),
        None => format!("violin - {place}"),
    };
    Effect::Title(Arc::from(text::visible(&title)))
}

fn activity(app: &mut AppState, activity: Activity, effects: &mut Vec<Effect>) {
    let before = std::mem::replace(&mut app.activity, activity);
    match (before, activity) {
        (Activity::Idle, Activity::Idle) => {}
        (Activity::Idle, _) => {
            app.run.since = Some(app.now);
            app.run.phase = Phase::Waiting;
        }
        (_, Activity::Idle) => {
            app.transcript.settle();
            if app.is_unseen() && before != Activity::Shell {
                effects.push(Effect::Notify("done".to_owned()));
            }
            app.run.since = None;
            // A run that ended takes its questions along.
            app.reviews.refuse_all();
            effects.push(Effect::Git);
        }
        (_, _) => {}
    }
}

fn event(app: &mut AppState, event: Event, _effects: &mut Vec<Effect>) {
    match &event {
        Event::TurnStart { context, .. } => {
            app.settings.context = *context;
            app.run.phase = Phase::Waiting;
        }
        Event::Delta { .. } => app.run.phase = Phase::Writing,
        Event::Thinking { .. } => app.run.phase = Phase::Thinking,
        Event::ToolStart { .. } | Event::ToolOutput { .. } => app.run.phase = Phase::Tools,
        Event::ToolEnd { .. } => {}
        Event::Retry { attempt, delay_ms, reason } => {
            let at = app.now + Duration::from_millis(*delay_ms);
            app.run.phase = Phase::Retry { attempt: *attempt, at, reason: text::visible(text::first_line(reason)) };
        }
        Event::TurnEnd { usage: Some(usage), .. } => app.session.usage.add(usage),
        _ => {}
    }
    app.transcript.event(event, app.now);
}

/// Asks whether what the project brings is trusted.
fn trust(app: &mut AppState, files: Vec<String>) {
    let mut question = vec!["This project brings files that change what Violin does or run code:".to_owned()];
    question.extend(files.iter().take(10).map(|file| format!("  {}", text::visible(file))));
    if files.len() > 10 {
        question.push(format!("  … {} more", files.len() - 10));
    }
    question.push("Trust them as they are now?".to_owned());
    let answer = |key, words: &str, yes| Answer {
        key,
        words: words.to_owned(),
        effects: vec![Effect::Command(Command::Trust(yes))],
    };
    // A no stands last, where Esc leads and what is chosen first: a key that was meant for the prompt must not trust anything.
    app.open(Overlay::Ask(Ask::new(
        question,
        vec![answer('t', "trust them", true), answer('n', "no, leave them out", false)],
    )));
}

/// Asks what should go back, now that it is known what would change.
fn restore(app: &mut AppState, preview: RestorePreview, effects: &mut Vec<Effect>) {
    let Some(pending) = app.pending.clone().filter(|pending| pending.to == preview.to) else { return };
    let go = |restore| Command::MoveLeaf { to: pending.to, restore, summarise: pending.summarise };
    if preview.changes.is_empty() && preview.conflicts.is_empty() {
        if let Some(reason) = preview.unavailable {
            app.tell(format!("files stay as they are: {reason}"), Tone::Quiet);
        }
        super::tree::finish(app);
        effects.push(Effect::Command(go(Restore::Conversation)));
        return;
    }
    let force = !preview.conflicts.is_empty();
    let count = preview.changes.len();
    let files = if count == 1 { "file" } else { "files" };
    let mut question = vec![format!("{count} {files} changed since. What goes back?")];
    for (path, change) in preview.changes.iter().take(8) {
        let sign = match change {
            FileChange::Created => "+",
            FileChange::Modified => "~",
            FileChange::Deleted => "−",
        };
        let conflict = if preview.conflicts.contains(path) { "  changed by somebody else" } else { "" };
        question.push(format!("  {sign} {}{conflict}", text::visible(path)));
    }
    if preview.changes.len() > 8 {
        question.push(format!("  … {} more", preview.changes.len() - 8));
    }
    let overwrite = if force { ", overwriting what somebody else changed" } else { "" };
    let answer = |key, words: String, restore| {
        let effects = vec![Effect::Command(go(restore))];
        Answer { key, words, effects }
    };
    let answers = vec![
        answer('c', "conversation only".to_owned(), Restore::Conversation),
        answer('b', format!("conversation and files{overwrite}"), Restore::Both { force }),
        answer('f', format!("files only{overwrite}"), Restore::Files { force }),
        Answer { key: 'n', words: "cancel".to_owned(), effects: Vec::new() },
    ];
    app.open(Overlay::Ask(Ask::new(question, answers)));
}
