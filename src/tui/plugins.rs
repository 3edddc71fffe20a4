//! `/plugins`: what there is, what it does and costs, and what can be done about it.

use super::app::{AppState, Overlay};
use super::commands::plain_hint;
use super::list::{Answer, Ask, Item, List, Part, Subject};
use super::msg::Effect;
use super::transcript::Tone;
use crate::plugin::examples::{EXAMPLES, Example};
use crate::plugin::{Origin, PluginRow, State};
use crate::text;
use crate::theme::Token;

/// A row of the list.
#[derive(Debug, Clone)]
pub enum PluginItem {
    /// One that is installed.
    Installed(Box<PluginRow>),
    /// One that comes with Violin and is not installed.
    Example(&'static Example),
}

/// What a person does about a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginAct {
    /// Switches it on or off for this session.
    Switch {
        /// Its name.
        name: String,
        /// On, or off.
        on: bool,
    },
    /// Grants what it asks for.
    Allow(String),
    /// Puts one that comes with Violin into `~/.violin/plugins`.
    Install(String),
}

/// Opens the list of plugins.
pub fn open(app: &mut AppState, effects: &mut Vec<Effect>) {
    let hint = plain_hint(app, "more");
    let mut list = List::new(Subject::Plugins(Vec::new()), "plugins", hint, Vec::new());
    list.loading = true;
    app.open(Overlay::List(Box::new(list)));
    effects.push(Effect::Plugins);
}

/// Whether the list is open.
pub fn is_open(app: &AppState) -> bool {
    matches!(&app.overlay, Some(Overlay::List(list)) if matches!(list.subject, Subject::Plugins(_)))
}

/// Fills the list.
pub fn take(app: &mut AppState, rows: Vec<PluginRow>) {
    let more = EXAMPLES.iter().filter(|example| rows.iter().all(|row| row.name != example.name));
    let more: Vec<PluginItem> = more.map(PluginItem::Example).collect();
    let rows: Vec<PluginItem> = rows.into_iter().map(|row| PluginItem::Installed(Box::new(row))).chain(more).collect();
    let items = rows.iter().map(item).collect();
    let Some(Overlay::List(list)) = &mut app.overlay else { return };
    if matches!(list.subject, Subject::Plugins(_)) {
        list.subject = Subject::Plugins(rows);
        list.set_items(items);
        app.dirty = true;
    }
}

fn item(item: &PluginItem) -> Item {
    let (mark, token, name, version, what, right) = match item {
        PluginItem::Installed(row) => {
            let (mark, token) = match row.state {
                State::Active => ("●", Token::Success),
                State::Loading | State::Off => ("○", Token::Dim),
                State::Waiting => ("!", Token::Warning),
                State::Failed => ("✗", Token::Error),
            };
            let right = match row.state {
                State::Active => format!("{} · {}", calls(row.calls), milliseconds(row)),
                State::Loading => "loading".to_owned(),
                State::Off => "off".to_owned(),
                State::Waiting => "waits for permission".to_owned(),
                State::Failed => "failed".to_owned(),
            };
            (mark, token, row.name.as_str(), row.version.as_str(), row.description.as_str(), right)
        }
        PluginItem::Example(example) => {
            ("+", Token::Dim, example.name, "", example.description, "not installed".to_owned())
        }
    };
    let (name, what) = (text::visible(name), text::visible(what));
    let mut left = vec![Part::new(format!("{mark} "), token), Part::plain(name.clone()).bold()];
    if !version.is_empty() {
        left.push(Part::new(format!(" {}", text::visible(version)), Token::Dim));
    }
    left.push(Part::new(format!("  {what}"), Token::Dim));
    Item { search: format!("{name} {what}"), left, right: vec![Part::new(right, Token::Dim)] }
}

fn calls(count: u64) -> String {
    if count == 1 { "1 call".to_owned() } else { format!("{count} calls") }
}

fn milliseconds(row: &PluginRow) -> String {
    let spent = row.time.as_secs_f64() * 1000.0;
    if spent < 10.0 { format!("{spent:.1} ms") } else { format!("{spent:.0} ms") }
}

/// Shows all of a plugin, and what can be done about it.
pub fn choose(app: &mut AppState, item: &PluginItem) {
    let close = || Answer { key: 'n', words: "close".to_owned(), effects: Vec::new() };
    let act = |key, words: &str, act| Answer { key, words: words.to_owned(), effects: vec![Effect::Plugin(act)] };
    let mut lines = Vec::new();
    let mut answers = Vec::new();
    match item {
        PluginItem::Example(example) => {
            lines.push(format!("{}: {}", example.name, example.description));
            lines.push("It comes with Violin and is not installed.".to_owned());
            answers.push(act('i', "install it into ~/.violin/plugins", PluginAct::Install(example.name.to_owned())));
        }
        PluginItem::Installed(row) => {
            let title = format!("{} {}", row.name, row.version);
            let what = if row.description.is_empty() { String::new() } else { format!(": {}", row.description) };
            lines.push(text::visible(&format!("{}{what}", title.trim_end())));
            lines.push(String::new());
            let whose = match row.origin {
                Origin::Own => "",
                Origin::Project => " (this project's)",
            };
            add(&mut lines, "file", &format!("{}{whose}", crate::home::tilde(&row.path)));
            add(&mut lines, "hooks", &row.hooks.join(", "));
            let permissions: Vec<String> =
                row.permissions.iter().map(|permission| format!("{permission}: {}", permission.what())).collect();
            add(&mut lines, "asks for", &permissions.join("; "));
            add(&mut lines, "tools", &row.tools.join(", "));
            let commands: Vec<String> = row.commands.iter().map(|name| format!("/{name}")).collect();
            add(&mut lines, "commands", &commands.join(", "));
            add(&mut lines, "calls", &format!("{}, {} in all", row.calls, milliseconds(row)));
            add(&mut lines, "error", row.last_error.as_deref().unwrap_or_default());
            let name = row.name.clone();
            let switch = |on| PluginAct::Switch { name: name.clone(), on };
            match row.state {
                State::Active | State::Loading => {
                    answers.push(act('o', "switch it off for this session", switch(false)))
                }
                State::Off => answers.push(act('o', "switch it on", switch(true))),
                State::Failed => answers.push(act('o', "load it anew", switch(true))),
                State::Waiting => {
                    answers.push(act('a', "allow what it asks for", PluginAct::Allow(name.clone())));
                    answers.push(act('o', "switch it off for this session", switch(false)));
                }
            }
        }
    }
    answers.push(close());
    app.open(Overlay::Ask(Ask::new(lines, answers)));
}

/// Adds a line with its label; nothing where there is no text.
fn add(lines: &mut Vec<String>, label: &str, what: &str) {
    if !what.is_empty() {
        lines.push(format!("{label:<10}{}", text::visible(what)));
    }
}

/// Tells what came of an act, and shows the list again.
pub fn acted(app: &mut AppState, outcome: Result<String, String>, effects: &mut Vec<Effect>) {
    match outcome {
        Ok(text) => app.tell(text, Tone::Quiet),
        Err(text) => app.tell(text, Tone::Error),
    }
    effects.push(Effect::Extras);
    if app.overlay.is_none() {
        open(app, effects);
    }
}
