//! What keys do: one row for each action, with its name, its words, its keys and its function.

use std::time::Duration;

use super::app::{AppState, LineFor, Overlay};
use super::commands;
use super::keys::{Action, Scope};
use super::list::LineInput;
use super::msg::{Completion, Effect};
use super::pane::{Output, Pane};
use super::prompt::Way;
use super::transcript::{Fold, Kind, Tone};
use super::tree::{Filter, TreePane};
use super::update::{complete, submit, tree};
use crate::agent::{Command, Delivery};
use crate::choice::Mode;

macro_rules! actions {
    ($($scope:ident: $($name:literal $doc:literal [$($key:literal),*] $run:expr;)+)+) => {
        /// All actions.
        pub const ACTIONS: &[Action] = &[$($(
            Action { name: $name, doc: $doc, keys: &[$($key),*], scope: Scope::$scope, run: $run },
        )+)+];
    };
}

type Effects = Vec<Effect>;

actions! {
    Global:
    "prompt.send" "send the message; while a run goes on it steers" ["enter"] |app, effects| submit::enter(app, Delivery::Steer, effects);
    "prompt.follow_up" "complete a path; while a run goes on, queue for its end" ["tab"] |app, effects| submit::tab(app, effects);
    "prompt.newline" "new line" ["alt+enter", "ctrl+j", "shift+enter", "ctrl+enter"] |app, _| app.prompt.insert("\n");
    "prompt.take_back" "take queued messages back to edit" ["alt+up"] |_, effects| effects.push(Effect::Command(Command::TakeBack));
    "prompt.history" "search what was sent before" ["ctrl+r"] |app, _| commands::history(app);
    "prompt.editor" "edit in $VISUAL or $EDITOR" ["ctrl+g"] |app, effects| effects.push(Effect::Edit(app.prompt.expanded()));
    "prompt.paste" "paste an image, or text" ["ctrl+v", "alt+v"] |_, effects| effects.push(Effect::Paste);
    "edit.left" "one character back" ["left", "ctrl+b"] |app, _| { app.prompt.step(Way::Back); };
    "edit.right" "one character on" ["right"] |app, _| { app.prompt.step(Way::On); };
    "edit.up" "one row up, then the history" ["up"] |app, _| up(app);
    "edit.down" "one row down, then the history" ["down"] |app, _| down(app);
    "edit.word_left" "one word back" ["alt+left", "ctrl+left", "alt+b"] |app, _| app.prompt.step_word(Way::Back);
    "edit.word_right" "one word on" ["alt+right", "ctrl+right", "alt+f"] |app, _| app.prompt.step_word(Way::On);
    "edit.home" "begin of the line" ["home", "ctrl+a"] |app, _| app.prompt.to_line_end(Way::Back);
    "edit.end" "end of the line" ["end", "ctrl+e"] |app, _| app.prompt.to_line_end(Way::On);
    "edit.backspace" "delete back" ["backspace", "shift+backspace", "ctrl+h"] |app, _| app.prompt.delete(Way::Back);
    "edit.delete" "delete on" ["delete"] |app, _| app.prompt.delete(Way::On);
    "edit.kill_word_back" "delete a word back" ["ctrl+w", "alt+backspace", "ctrl+backspace"] |app, _| app.prompt.kill_word(Way::Back);
    "edit.kill_word" "delete a word on" ["alt+d", "alt+delete", "ctrl+delete"] |app, _| app.prompt.kill_word(Way::On);
    "edit.kill_to_start" "delete to the begin of the line" ["ctrl+u"] |app, _| app.prompt.kill_line(Way::Back);
    "edit.kill_to_end" "delete to the end of the line" ["ctrl+k"] |app, _| app.prompt.kill_line(Way::On);
    "edit.yank" "put back what was deleted" ["ctrl+y"] |app, _| app.prompt.yank();
    "edit.yank_earlier" "put back what was deleted before that" ["alt+y"] |app, _| app.prompt.yank_earlier();
    "edit.undo" "undo" ["ctrl+-", "ctrl+_", "ctrl+7"] |app, _| app.prompt.undo();
    "edit.redo" "redo" ["alt+_", "alt+-", "ctrl+shift+z"] |app, _| app.prompt.redo();
    "app.interrupt" "interrupt; twice on an empty prompt: the tree" ["esc"] |app, effects| escape(app, effects);
    "app.clear" "clear the prompt; interrupt; twice: quit" ["ctrl+c"] |app, effects| clear(app, effects);
    "app.quit" "quit, on an empty prompt" ["ctrl+d"] |app, effects| quit_or_delete(app, effects);
    "app.suspend" "suspend; fg brings it back" ["ctrl+z"] |_, effects| effects.push(Effect::Suspend);
    "app.help" "all key bindings" ["f1"] |app, _| commands::help(app);
    "app.repaint" "repaint the screen" [] |_, effects| effects.push(Effect::Repaint);
    "app.mouse" "give the mouse to the terminal, or take it back" ["f2"] |app, effects| mouse(app, effects);
    "mode.cycle" "next mode: plan, ask, auto" ["shift+tab"] |app, effects| effects.push(Effect::Command(Command::SetMode(app.next_mode())));
    "model.pick" "choose a model" ["ctrl+l"] |app, effects| commands::models(app, effects);
    "pane.tree" "the session as a tree" ["ctrl+t"] |app, effects| toggle_tree(app, effects);
    "pane.output" "the whole output of a call" ["ctrl+o"] |app, effects| toggle_output(app, effects);
    "view.search" "search the transcript" ["ctrl+f", "alt+/", "f3"] |app, _| search(app);
    "view.page_up" "scroll up a page" ["pageup"] |app, _| page(app, Way::Back);
    "view.page_down" "scroll down a page" ["pagedown"] |app, _| page(app, Way::On);
    "view.line_up" "scroll up a line" ["ctrl+up", "ctrl+shift+up"] |app, _| scroll(app, -1);
    "view.line_down" "scroll down a line" ["ctrl+down", "ctrl+shift+down"] |app, _| scroll(app, 1);
    "view.top" "to the begin of the transcript" ["ctrl+home"] |app, _| app.transcript.to_start();
    "view.bottom" "to its end" ["ctrl+end"] |app, _| app.transcript.to_end();
    "view.fold_tools" "open or close all tool calls" ["alt+o"] |app, _| fold(app, |kind| matches!(kind, Kind::Tool(_)));
    "view.fold_thinking" "open or close all thinking" ["alt+t"] |app, _| fold(app, |kind| matches!(kind, Kind::Thinking { .. }));
    "view.copy" "copy the last answer" ["alt+c"] |app, effects| commands::copy(app, effects);
    Tree:
    "tree.up" "up" ["up", "k", "ctrl+p"] |app, _| tree::step(app, -1);
    "tree.down" "down" ["down", "j", "ctrl+n"] |app, _| tree::step(app, 1);
    "tree.page_up" "a page up" ["pageup"] |app, _| tree::step(app, -20);
    "tree.page_down" "a page down" ["pagedown"] |app, _| tree::step(app, 20);
    "tree.first" "to the first" ["home"] |app, _| tree::step(app, -1_000_000);
    "tree.last" "to the last" ["end"] |app, _| tree::step(app, 1_000_000);
    "tree.left" "fold, or to the branch point above" ["left", "h"] |app, _| tree::change(app, |pane, tree| pane.left(tree));
    "tree.right" "unfold, or to the next branch point" ["right", "l"] |app, _| tree::change(app, |pane, tree| pane.right(tree));
    "tree.filter" "filter by text" ["/"] |app, _| app.open(Overlay::Line(LineInput::default(), LineFor::TreeFilter));
    "tree.cycle" "what is shown: default, without tools, user only, labelled, all" ["tab"] |app, _| tree::change(app, |pane, tree| { pane.filter = pane.filter.next(); pane.rebuild(tree); });
    "tree.all" "show everything" ["a"] |app, _| tree::change(app, |pane, tree| { pane.filter = Filter::All; pane.query.clear(); pane.rebuild(tree); });
    "tree.label" "set a label" ["L"] |app, _| tree::label(app);
    "tree.continue" "continue from here" ["enter"] |app, effects| tree::go(app, false, effects);
    "tree.summarise" "continue from here with a summary of the branch that is left" ["s"] |app, effects| tree::go(app, true, effects);
    "tree.fork" "fork the path into a new session" ["f"] |app, effects| tree::fork(app, effects);
    "tree.close" "close the tree" ["esc", "ctrl+t", "q"] |app, _| tree::close(app);
    Output:
    "output.up" "up" ["up", "k"] |app, _| output_scroll(app, -1);
    "output.down" "down" ["down", "j"] |app, _| output_scroll(app, 1);
    "output.page_up" "a page up" ["pageup"] |app, _| output_scroll(app, -20);
    "output.page_down" "a page down" ["pagedown", "space"] |app, _| output_scroll(app, 20);
    "output.first" "to the begin" ["home", "g"] |app, _| output_scroll(app, isize::MIN);
    "output.last" "to the end, and follow" ["end", "G"] |app, _| output_scroll(app, isize::MAX);
    "output.previous" "the call before" ["left", "p"] |app, _| output_step(app, Way::Back);
    "output.next" "the call after" ["right", "n"] |app, _| output_step(app, Way::On);
    "output.log" "read the whole output from its file" ["enter", "f"] |app, effects| output_log(app, effects);
    "output.close" "close the output" ["esc", "ctrl+o", "q"] |app, _| app.pane = None;
    List:
    "list.up" "up" ["up", "ctrl+p"] |app, _| list_step(app, -1);
    "list.down" "down" ["down", "ctrl+n"] |app, _| list_step(app, 1);
    "list.page_up" "a page up" ["pageup"] |app, _| list_step(app, -10);
    "list.page_down" "a page down" ["pagedown"] |app, _| list_step(app, 10);
    "list.choose" "take what is chosen" ["enter"] |app, effects| commands::choose(app, effects);
    "list.default" "models: make it the default" ["ctrl+s"] |app, effects| commands::make_default(app, effects);
    "list.offered" "models: ask the providers for more" ["ctrl+a"] |app, effects| commands::offered(app, effects);
    "list.less" "models: think less" ["left"] |app, effects| commands::thinking_step(app, Way::Back, effects);
    "list.more" "models: think more" ["right"] |app, effects| commands::thinking_step(app, Way::On, effects);
    "list.scope" "sessions: this directory or all" ["tab"] |app, effects| commands::scope(app, effects);
    "list.rename" "sessions: rename" ["ctrl+r"] |app, _| commands::rename(app);
    "list.delete" "sessions: delete" ["ctrl+x"] |app, _| commands::delete(app);
    "list.close" "close the list" ["esc", "ctrl+c"] |app, effects| commands::close(app, effects);
}

fn up(app: &mut AppState) {
    if app.prompt.history.is_walking() && app.prompt.cursor().0 == 0 || !app.prompt.step_row(Way::Back) {
        app.prompt.recall(Way::Back);
    }
}

fn down(app: &mut AppState) {
    if !app.prompt.step_row(Way::On) {
        app.prompt.recall(Way::On);
    }
}

/// Twice within this time counts as a double press.
const DOUBLE: Duration = Duration::from_secs(2);
const DOUBLE_ESCAPE: Duration = Duration::from_millis(600);

fn escape(app: &mut AppState, effects: &mut Effects) {
    if app.selection.take().is_some() || app.search.take().is_some() {
        return;
    }
    if app.is_busy() {
        app.interrupt(effects);
        return;
    }
    if !app.prompt.is_empty() {
        return;
    }
    let again = app.escape_armed.take().is_some_and(|at| app.now.duration_since(at) < DOUBLE_ESCAPE);
    if again {
        toggle_tree(app, effects);
    } else {
        app.escape_armed = Some(app.now);
    }
}

fn clear(app: &mut AppState, effects: &mut Effects) {
    if !app.prompt.is_empty() {
        app.prompt.set_text("");
        app.quit_armed = None;
        return;
    }
    let again = app.quit_armed.take().is_some_and(|at| app.now.duration_since(at) < DOUBLE);
    if again {
        effects.push(Effect::Quit);
        return;
    }
    if app.is_busy() {
        app.interrupt(effects);
    }
    app.quit_armed = Some(app.now);
    app.tell("Ctrl+C again to quit", Tone::Quiet);
}

fn quit_or_delete(app: &mut AppState, effects: &mut Effects) {
    if app.prompt.is_empty() {
        effects.push(Effect::Quit);
    } else {
        app.prompt.delete(Way::On);
    }
}

fn mouse(app: &mut AppState, effects: &mut Effects) {
    app.mouse_on = !app.mouse_on;
    effects.push(Effect::Mouse(app.mouse_on));
    let whose =
        if app.mouse_on { "Violin takes the mouse" } else { "the terminal has the mouse: its own selection works" };
    app.tell(whose, Tone::Quiet);
}

/// Opens the tree, or closes it.
pub fn toggle_tree(app: &mut AppState, _effects: &mut Effects) {
    if matches!(app.pane, Some(Pane::Tree(_))) {
        tree::close(app);
        return;
    }
    let mut pane = TreePane::default();
    pane.refresh(&app.session.tree);
    app.pane = Some(Pane::Tree(Box::new(pane)));
}

fn toggle_output(app: &mut AppState, _effects: &mut Effects) {
    tree::close(app);
    app.pane = Some(Pane::Output(Output::default()));
}

fn search(app: &mut AppState) {
    let query = app.search.as_ref().map_or(String::new(), |search| search.query().to_owned());
    app.open(Overlay::Line(LineInput::with(&query), LineFor::Search));
}

fn page(app: &mut AppState, way: Way) {
    let rows = isize::try_from(app.regions.transcript.height).unwrap_or(1).saturating_sub(2).max(1);
    scroll(app, if way == Way::Back { -rows } else { rows });
}

/// Scrolls the transcript.
pub fn scroll(app: &mut AppState, rows: isize) {
    let mut transcript = std::mem::take(&mut app.transcript);
    transcript.scroll(rows, app.look());
    app.transcript = transcript;
    app.dirty = true;
}

fn fold(app: &mut AppState, is: impl Fn(&Kind) -> bool) {
    let open = app.transcript.blocks.iter().any(|block| is(&block.kind) && block.fold == Fold::Open);
    app.transcript.set_fold(if open { Fold::Auto } else { Fold::Open }, is);
}

fn output_scroll(app: &mut AppState, by: isize) {
    let height = usize::from(app.regions.pane.height.saturating_sub(1));
    if let Some(Pane::Output(output)) = &mut app.pane {
        let last = output.rows.len().saturating_sub(height);
        let at = output.top.saturating_add_signed(by).min(last);
        output.scroll = (at < last).then_some(at);
    }
}

fn output_step(app: &mut AppState, way: Way) {
    let Some(Pane::Output(output)) = &mut app.pane else { return };
    let calls: Vec<u64> = app
        .transcript
        .blocks
        .iter()
        .filter(|block| matches!(block.kind, Kind::Tool(_)))
        .map(|block| block.id)
        .collect();
    let at =
        output.block.and_then(|id| calls.iter().position(|call| *call == id)).unwrap_or(calls.len().saturating_sub(1));
    let next = match way {
        Way::Back => at.saturating_sub(1),
        Way::On => (at + 1).min(calls.len().saturating_sub(1)),
    };
    *output = Output { block: calls.get(next).copied(), scroll: Some(0), ..Output::default() };
}

fn output_log(app: &mut AppState, effects: &mut Effects) {
    let Some(Pane::Output(output)) = &app.pane else { return };
    let block = output.block.or(super::layout::newest_call(&app.transcript));
    let log = block.and_then(|id| app.transcript.tool(id)).and_then(|tool| tool.log());
    match log {
        Some(path) => effects.push(Effect::ReadLog(path.to_owned())),
        None => app.tell("this output was not cut: all of it is here", Tone::Quiet),
    }
}

fn list_step(app: &mut AppState, by: isize) {
    if let Some(popup) = &mut app.popup {
        let last = popup.items.len().saturating_sub(1);
        popup.selected = match (popup.selected, by) {
            (0, -1) => last,
            (at, 1) if at == last => 0,
            (at, by) => at.saturating_add_signed(by).min(last),
        };
        return;
    }
    if let Some(Overlay::List(list)) = &mut app.overlay {
        list.step(by);
        commands::preview(app);
    }
}

/// Asks for completions of a path under the cursor.
pub fn complete_path(app: &mut AppState, effects: &mut Effects) -> bool {
    let Some((column, query)) = complete::path_under(app.prompt.before_cursor()) else { return false };
    app.popup = None;
    let _ = column;
    effects.push(Effect::Match { query, version: app.prompt.version, how: Completion::Path });
    true
}

/// Enters a mode, with a question where that is needed.
pub fn set_mode(app: &mut AppState, mode: Mode, effects: &mut Effects) {
    let set = Effect::Command(Command::SetMode(mode));
    if mode == Mode::Yolo && app.settings.mode != Mode::Yolo {
        let question = "yolo runs everything without a question, outside the sandbox too. Enter it?";
        app.open(Overlay::Ask(super::list::Ask::confirm(question, "enter yolo", vec![set])));
    } else {
        effects.push(set);
    }
}
