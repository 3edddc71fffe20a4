//! What the keys of the tree pane do.

use crate::agent::{Command, Place};
use crate::message::Message;
use crate::session::Tree;
use crate::tui::app::{AppState, LineFor, Overlay};
use crate::tui::list::LineInput;
use crate::tui::msg::Effect;
use crate::tui::pane::Pane;
use crate::tui::tree::{TreePane, continuation};

/// A continuation that waits to know what would change in files.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// Where it goes on.
    pub to: Place,
    /// Whether a summary of the branch that is left is wanted.
    pub summarise: bool,
    /// The text that goes to the prompt.
    pub text: Option<String>,
}

/// Changes the pane together with the session's tree.
pub fn change(app: &mut AppState, change: impl FnOnce(&mut TreePane, &Tree)) {
    if let Some(Pane::Tree(pane)) = &mut app.pane {
        change(pane, &app.session.tree);
    }
    preview(app);
}

/// Moves the choice.
pub fn step(app: &mut AppState, by: isize) {
    change(app, |pane, _| pane.step(by));
}

/// Shows the branch under the choice in the transcript.
fn preview(app: &mut AppState) {
    if app.is_busy() {
        return;
    }
    let Some(Pane::Tree(pane)) = &mut app.pane else { return };
    let Some(node) = pane.node() else { return };
    let on_path = pane.rows.get(pane.selected).is_some_and(|row| row.on_path);
    if on_path {
        if std::mem::take(&mut pane.previewing) {
            app.transcript.fill(&app.session.tree, app.session.tree.leaf());
        }
    } else {
        pane.previewing = true;
        app.transcript.fill(&app.session.tree, Some(node));
    }
    // On the path, the transcript goes where the node stands.
    let entry = app.session.tree.nodes()[node].entry.id;
    if on_path && app.session.tree.leaf() != Some(node) {
        if let Some(block) = app.transcript.blocks.iter().position(|block| block.entry == Some(entry)) {
            app.transcript.show(block);
        }
    } else {
        app.transcript.to_end();
    }
    app.dirty = true;
}

/// Closes the pane; the transcript shows its own branch again.
pub fn close(app: &mut AppState) {
    if let Some(Pane::Tree(pane)) = app.pane.take() {
        if pane.previewing {
            app.transcript.fill(&app.session.tree, app.session.tree.leaf());
        }
        app.transcript.to_end();
    }
    app.pane = None;
}

/// Asks for a label of the chosen node.
pub fn label(app: &mut AppState) {
    let Some(Pane::Tree(pane)) = &app.pane else { return };
    let Some(node) = pane.node() else { return };
    let id = app.session.tree.nodes()[node].entry.id;
    let label = app.session.tree.label(id).unwrap_or("").to_owned();
    app.open(Overlay::Line(LineInput::with(&label), LineFor::Label(id)));
}

/// Continues from the chosen node, once it is known what that would change.
pub fn go(app: &mut AppState, summarise: bool, effects: &mut Vec<Effect>) {
    let Some(Pane::Tree(pane)) = &app.pane else { return };
    let Some(node) = pane.node() else { return };
    if app.is_busy() {
        app.tell("interrupt the run first", crate::tui::transcript::Tone::Warning);
        return;
    }
    if app.session.tree.leaf() == Some(node) {
        close(app);
        return;
    }
    let (leaf, text) = continuation(&app.session.tree, node);
    let anew = text.is_some().then(|| app.session.tree.nodes()[node].entry.id);
    let to = Place { leaf, anew };
    app.pending = Some(Pending { to, summarise, text });
    effects.push(Effect::Command(Command::PreviewRestore { to }));
}

/// Closes the pane and puts the text of the continuation that waited into the prompt.
pub fn finish(app: &mut AppState) {
    close(app);
    if let Some(text) = app.pending.take().and_then(|pending| pending.text) {
        app.prompt.set_text(&text);
    }
}

/// Forks the path to the chosen node into a new session.
pub fn fork(app: &mut AppState, effects: &mut Vec<Effect>) {
    let Some(Pane::Tree(pane)) = &app.pane else { return };
    let Some(node) = pane.node() else { return };
    let entry = app.session.tree.nodes()[node].entry.clone();
    let text = match entry.message().map(|message| &**message) {
        Some(Message::User(_)) => continuation(&app.session.tree, node).1,
        _ => None,
    };
    let to = continuation(&app.session.tree, node).0;
    app.pending = Some(Pending { to: Place::default(), summarise: false, text });
    finish(app);
    // Before the first entry there is nothing to take along.
    effects.push(Effect::Command(if to.is_none() { Command::NewSession } else { Command::Fork { to } }));
}
