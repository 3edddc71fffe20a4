//! Sending what stands in the prompt.

use std::path::PathBuf;

use crate::agent::{Activity, Command, Delivery};
use crate::message::{Block, UserMessage};
use crate::tui::app::AppState;
use crate::tui::commands::{SLASHES, extra_name};
use crate::tui::msg::Effect;
use crate::tui::sources::ExtraKind;
use crate::tui::transcript::Tone;

/// Enter: a backslash before the cursor makes a new line, else the prompt is sent.
pub fn enter(app: &mut AppState, delivery: Delivery, effects: &mut Vec<Effect>) {
    if app.prompt.before_cursor().ends_with('\\') {
        app.prompt.delete(crate::tui::prompt::Way::Back);
        app.prompt.insert("\n");
        return;
    }
    send(app, delivery, effects);
}

/// Tab: a path under the cursor is completed; else, while a run goes on, the message waits for its end.
pub fn tab(app: &mut AppState, effects: &mut Vec<Effect>) {
    if crate::tui::actions::complete_path(app, effects) {
        return;
    }
    if app.is_busy() && !app.prompt.is_empty() {
        send(app, Delivery::FollowUp, effects);
    }
}

fn send(app: &mut AppState, delivery: Delivery, effects: &mut Vec<Effect>) {
    let text = app.prompt.text();
    let line = text.trim();
    if line.is_empty() {
        return;
    }
    if let Some(rest) = line.strip_prefix('!') {
        let (command, in_context) = match rest.strip_prefix('!') {
            Some(command) => (command.trim(), false),
            None => (rest.trim(), true),
        };
        if command.is_empty() {
            return;
        }
        if app.activity != Activity::Idle {
            app.tell("a command of your own runs when the run is over", Tone::Warning);
            return;
        }
        let command = app.prompt.chips.expand(command);
        remember(app, effects);
        app.prompt.take();
        app.transcript.begin_shell(&command, in_context, app.now);
        app.transcript.to_end();
        effects.push(Effect::Command(Command::Shell { command, in_context }));
        return;
    }
    // A space before the slash makes it text.
    if let Some(rest) = text.trim_end().strip_prefix('/') {
        let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let argument = argument.trim().to_owned();
        if let Some(slash) = SLASHES.iter().find(|slash| slash.name == name) {
            remember(app, effects);
            app.prompt.reset("");
            (slash.run)(app, &argument, effects);
            return;
        }
        let extra = app.extras.iter().find(|extra| extra_name(extra.kind, &extra.name)[1..] == *name).cloned();
        if let Some(extra) = extra {
            let argument = app.prompt.chips.expand(&argument);
            remember(app, effects);
            app.prompt.reset("");
            effects.push(match extra.kind {
                ExtraKind::Plugin => Effect::Command(Command::PluginCommand { name: extra.name, argument }),
                ExtraKind::Skill | ExtraKind::Template => Effect::Expand(extra.kind, extra.name, argument, delivery),
            });
            return;
        }
        if looks_like_command(name) && !line.contains('\n') {
            let name = crate::text::ellipsis(&crate::text::visible(name), 40);
            app.tell(format!("there is no command /{name}; with a space before it, it is sent as text"), Tone::Warning);
            return;
        }
        // What looks like a path is text.
    }
    if app.prompt.chips.has_images(&text) && !app.takes_images() {
        app.tell("this model takes no images: choose another (Ctrl+L) or remove them", Tone::Error);
        return;
    }
    remember(app, effects);
    if let Some(message) = app.prompt.take() {
        send_message(app, message, delivery, effects);
    }
}

fn remember(app: &mut AppState, effects: &mut Vec<Effect>) {
    let text = app.prompt.expanded();
    let text = text.trim().to_owned();
    app.prompt.history.push(&text);
    effects.push(Effect::Remember(text));
}

/// Sends a message to the agent, and shows it.
pub fn send_message(app: &mut AppState, message: UserMessage, delivery: Delivery, effects: &mut Vec<Effect>) {
    app.transcript.to_end();
    app.search = None;
    app.selection = None;
    effects.push(Effect::Command(Command::Prompt { message, delivery }));
}

/// Sends a text that did not stand in the prompt.
pub fn send_text(app: &mut AppState, text: &str, delivery: Delivery, effects: &mut Vec<Effect>) {
    if text.trim().is_empty() {
        return;
    }
    let message = UserMessage { content: vec![Block::Text { text: text.to_owned() }] };
    send_message(app, message, delivery, effects);
}

/// Whether a paste is the path of an image, as a dropped file comes.
pub fn image_path(paste: &str, cwd: &std::path::Path) -> Option<PathBuf> {
    let text = paste.trim();
    if text.is_empty() || text.contains('\n') || text.len() > 4096 {
        return None;
    }
    let text = text.strip_prefix("file://").unwrap_or(text);
    // Terminals quote or escape what is dropped on them.
    let text = shlex::split(text).filter(|words| words.len() == 1).map_or(text.to_owned(), |words| words.concat());
    let lower = text.to_lowercase();
    let known = [".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp"];
    if !known.iter().any(|ending| lower.ends_with(ending)) {
        return None;
    }
    let path = match text.strip_prefix("~/") {
        Some(rest) => std::env::home_dir()?.join(rest),
        None => cwd.join(&text),
    };
    Some(path)
}

/// Whether a word behind a slash can only be meant for a command: a path would go on.
fn looks_like_command(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || matches!(c, '-' | '_' | ':');
    !name.is_empty() && name.chars().all(fits) && !std::path::Path::new("/").join(name).exists()
}

/// The further command of that kind, in words.
pub fn kind_name(kind: ExtraKind) -> &'static str {
    match kind {
        ExtraKind::Skill => "skill",
        ExtraKind::Template => "template",
        ExtraKind::Plugin => "plugin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Depth;

    #[test]
    fn an_unknown_command_is_not_sent_to_the_model() {
        let mut app = AppState::new((80, 24), "/p".into(), "/none".into(), Depth::True, "violin-dark", true);
        let mut sent = |text: &str| {
            let mut effects = Vec::new();
            app.prompt.set_text(text);
            send(&mut app, Delivery::Steer, &mut effects);
            let prompts = |effect: &Effect| matches!(effect, Effect::Command(Command::Prompt { .. }));
            (effects.iter().any(prompts), app.prompt.text())
        };
        assert_eq!(sent("/modle x"), (false, "/modle x".to_owned()), "it stays to be mended");
        for text in [" /modle x", "/etc/hosts is what?", "/tmp", "/Users what is it?", "/modle\nis a word"] {
            assert_eq!(sent(text), (true, String::new()), "{text}");
        }
    }
}
