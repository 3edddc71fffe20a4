//! Keys, pastes and the mouse: who takes them.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use super::{complete, submit};
use crate::agent::{Command, ReviewAnswer};
use crate::theme::Theme;
use crate::tui::actions;
use crate::tui::app::{AppState, LineFor, Overlay, automatic};
use crate::tui::keys::{Chord, Scope};
use crate::tui::list::LineInput;
use crate::tui::msg::Effect;
use crate::tui::pane::Pane;
use crate::tui::term::Input;
use crate::tui::transcript::Search;
use crate::tui::transcript::row::Hit;
use crate::tui::transcript::select::{Selection, Spot};

/// Takes what came from the terminal.
pub fn input(app: &mut AppState, input: Input, effects: &mut Vec<Effect>) {
    match input {
        Input::Key(event) => key(app, event, effects),
        Input::Text(text) => text_input(app, &text, false, effects),
        Input::Paste(text) => text_input(app, &text, true, effects),
        Input::Mouse(event) => mouse(app, event, effects),
        Input::Focus(focused) => app.focused = Some(focused),
        Input::Background(r, g, b) => background(app, r, g, b),
    }
}

/// The terminal told its background: `auto` follows it.
fn background(app: &mut AppState, r: u8, g: u8, b: u8) {
    app.dark = 299 * u32::from(r) + 587 * u32::from(g) + 114 * u32::from(b) <= 127_500;
    let name = automatic(app.depth, app.dark);
    if app.theme_name == "auto" && app.theme.name != name {
        app.set_theme(Theme::load(name, &app.themes).unwrap_or_else(|_| Theme::built_in(name)));
    } else {
        app.dirty = false;
    }
}

fn text_input(app: &mut AppState, text: &str, pasted: bool, effects: &mut Vec<Effect>) {
    match &mut app.overlay {
        Some(Overlay::Line(line, purpose)) => {
            line.insert(text);
            if matches!(purpose, LineFor::Search | LineFor::TreeFilter) {
                line_changed(app);
            }
            return;
        }
        Some(Overlay::List(list)) => {
            list.query.insert(text);
            list.search();
            crate::tui::commands::search_sessions(app, effects);
            return;
        }
        Some(Overlay::Page(_) | Overlay::Ask(_)) => return,
        None => {}
    }
    if !pasted && app.reviews.first().is_none() && app.pane_has_keys() {
        // Each character may be a key there.
        for c in text.chars() {
            key(app, KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE), effects);
        }
        return;
    }
    if !pasted {
        app.prompt.insert(text);
    } else if let Some(path) = submit::image_path(text, &app.cwd) {
        effects.push(Effect::Attach(path, text.to_owned()));
    } else {
        app.prompt.paste(text);
    }
    complete::refresh(app, effects);
}

fn key(app: &mut AppState, event: KeyEvent, effects: &mut Vec<Effect>) {
    let chord = Chord::of(&event);
    app.selection = app.selection.take().filter(|_| event.code == KeyCode::Esc);
    match &app.overlay {
        Some(Overlay::List(_)) => return list_key(app, &event, chord, effects),
        Some(Overlay::Page(_)) => return page_key(app, &event, chord),
        Some(Overlay::Line(..)) => return line_key(app, &event, effects),
        Some(Overlay::Ask(_)) => return ask_key(app, &event, effects),
        None => {}
    }
    if app.reviews.first().is_some() && review_key(app, &event, effects) {
        return;
    }
    if app.popup.is_some() && popup_key(app, &event, chord, effects) {
        return;
    }
    let scope = match &app.pane {
        Some(Pane::Tree(_)) => Some(Scope::Tree),
        Some(Pane::Output(_)) if app.pane_has_keys() => Some(Scope::Output),
        Some(Pane::Output(_)) | None => None,
    };
    if let Some(action) = scope.and_then(|scope| app.bindings.find(scope, chord)) {
        (action.run)(app, effects);
        return;
    }
    if app.search.is_some() && app.prompt.is_empty() && search_key(app, chord) {
        return;
    }
    let version = app.prompt.version;
    match app.bindings.find(Scope::Global, chord) {
        Some(action) => {
            if action.name != "app.clear" {
                app.quit_armed = None;
            }
            (action.run)(app, effects);
        }
        None => {
            if matches!(app.pane, Some(Pane::Tree(_))) {
                return;
            }
            if let Some(c) = chord.types() {
                let mut bytes = [0; 4];
                app.prompt.insert(c.encode_utf8(&mut bytes));
            }
        }
    }
    if app.prompt.version != version && app.overlay.is_none() {
        complete::refresh(app, effects);
    } else if app.popup.as_ref().is_some_and(|popup| popup.version != app.prompt.version) {
        app.popup = None;
    }
}

fn popup_key(app: &mut AppState, event: &KeyEvent, chord: Chord, effects: &mut Vec<Effect>) -> bool {
    match event.code {
        KeyCode::Up | KeyCode::Down | KeyCode::PageUp | KeyCode::PageDown => {
            if let Some(action) = app.bindings.find(Scope::List, chord) {
                (action.run)(app, effects);
                return true;
            }
            false
        }
        KeyCode::Esc => {
            app.popup = None;
            true
        }
        KeyCode::Tab if event.modifiers.is_empty() => {
            if complete::accept(app) {
                app.prompt.insert(" ");
            }
            complete::refresh(app, effects);
            true
        }
        KeyCode::Enter if event.modifiers.is_empty() => {
            let sends = complete::accept(app);
            if sends {
                submit::enter(app, crate::agent::Delivery::Steer, effects);
            }
            true
        }
        _ => false,
    }
}

fn list_key(app: &mut AppState, event: &KeyEvent, chord: Chord, effects: &mut Vec<Effect>) {
    if let Some(action) = app.bindings.find(Scope::List, chord) {
        // In a list that does not know them, these edit the query.
        let Some(Overlay::List(list)) = &app.overlay else { return };
        let models = matches!(list.subject, crate::tui::list::Subject::Models(_));
        let sessions = matches!(list.subject, crate::tui::list::Subject::Sessions(..));
        let known = match action.name {
            "list.less" | "list.more" | "list.default" | "list.offered" => models,
            "list.scope" | "list.rename" | "list.delete" => sessions,
            _ => true,
        };
        if known {
            (action.run)(app, effects);
            return;
        }
    }
    let Some(Overlay::List(list)) = &mut app.overlay else { return };
    if list.query.key(event) {
        list.search();
        crate::tui::commands::preview(app);
        crate::tui::commands::search_sessions(app, effects);
    }
}

fn page_key(app: &mut AppState, event: &KeyEvent, chord: Chord) {
    let height = usize::from(app.regions.overlay.height.saturating_sub(2)).max(1);
    let help =
        app.bindings.find(Scope::Global, chord).is_some_and(|action| matches!(action.name, "app.help" | "app.clear"));
    let Some(Overlay::Page(page)) = &mut app.overlay else { return };
    let last = page.rows.len().saturating_sub(height);
    match event.code {
        KeyCode::Up | KeyCode::Char('k') => page.scroll = page.scroll.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => page.scroll = (page.scroll + 1).min(last),
        KeyCode::PageUp => page.scroll = page.scroll.saturating_sub(height),
        KeyCode::PageDown | KeyCode::Char(' ') => page.scroll = (page.scroll + height).min(last),
        KeyCode::Home => page.scroll = 0,
        // How many rows there are is known once it is laid out.
        KeyCode::End => page.scroll = usize::MAX,
        KeyCode::Esc | KeyCode::Char('q') | KeyCode::Enter => app.overlay = None,
        _ if help => app.overlay = None,
        _ => {}
    }
}

fn ask_key(app: &mut AppState, event: &KeyEvent, effects: &mut Vec<Effect>) {
    let Some(Overlay::Ask(ask)) = &mut app.overlay else { return };
    let count = ask.answers.len().max(1);
    let given = match event.code {
        KeyCode::Up | KeyCode::Left => {
            ask.selected = (ask.selected + count - 1) % count;
            return;
        }
        KeyCode::Down | KeyCode::Right | KeyCode::Tab => {
            ask.selected = (ask.selected + 1) % count;
            return;
        }
        KeyCode::Enter => ask.selected,
        KeyCode::Esc => count - 1,
        KeyCode::Char('c') if event.modifiers.contains(KeyModifiers::CONTROL) => count - 1,
        KeyCode::Char(c) => match ask.answers.iter().position(|answer| answer.key == c) {
            Some(at) => at,
            None => return,
        },
        _ => return,
    };
    let Some(Overlay::Ask(mut ask)) = app.overlay.take() else { return };
    if given >= ask.answers.len() {
        return;
    }
    let answer = ask.answers.swap_remove(given);
    if answer.effects.iter().any(|effect| matches!(effect, Effect::Command(Command::MoveLeaf { .. }))) {
        super::tree::finish(app);
    }
    app.pending = None;
    // What was asked over something leads back to it.
    app.overlay = app.overlay.take().or_else(|| app.below.take().filter(|_| answer.effects.is_empty()));
    effects.extend(answer.effects);
}

fn line_key(app: &mut AppState, event: &KeyEvent, effects: &mut Vec<Effect>) {
    let Some(Overlay::Line(line, _)) = &mut app.overlay else { return };
    match event.code {
        KeyCode::Esc => line_cancelled(app),
        KeyCode::Char('c') if event.modifiers.contains(KeyModifiers::CONTROL) => line_cancelled(app),
        KeyCode::Enter => {
            if let Some(Overlay::Line(line, purpose)) = app.overlay.take() {
                line_taken(app, &line, purpose, effects);
            }
        }
        _ => {
            if line.key(event) {
                line_changed(app);
            }
        }
    }
}

fn line_cancelled(app: &mut AppState) {
    let cancelled = app.overlay.take();
    app.overlay = app.below.take();
    match cancelled {
        Some(Overlay::Line(_, LineFor::Search)) => app.search = None,
        Some(Overlay::Line(_, LineFor::TreeFilter)) => {
            super::tree::change(app, |pane, tree| {
                pane.query.clear();
                pane.rebuild(tree);
            });
        }
        _ => {}
    }
}

fn line_changed(app: &mut AppState) {
    let Some(Overlay::Line(line, purpose)) = &app.overlay else { return };
    let text = line.text();
    match purpose {
        LineFor::Search => find(app, &text),
        LineFor::TreeFilter => super::tree::change(app, |pane, tree| {
            pane.query = text;
            pane.rebuild(tree);
        }),
        LineFor::Label(_) | LineFor::Name | LineFor::Rename(_) | LineFor::Refusal => {}
    }
}

fn line_taken(app: &mut AppState, line: &LineInput, purpose: LineFor, effects: &mut Vec<Effect>) {
    let text = line.text().trim().to_owned();
    let given = Some(text.clone()).filter(|text| !text.is_empty());
    match purpose {
        LineFor::Search => {
            if app.search.as_ref().is_none_or(|search| search.hits().is_empty()) {
                app.search = None;
                app.tell(format!("“{text}” is not here"), crate::tui::transcript::Tone::Quiet);
            }
        }
        LineFor::TreeFilter => {}
        LineFor::Label(target) => effects.push(Effect::Command(Command::Label { target, label: given })),
        LineFor::Name => effects.push(Effect::Command(Command::Name(text))),
        LineFor::Rename(path) => match given {
            Some(name) => effects.push(Effect::Rename(path, name)),
            None => app.overlay = app.below.take(),
        },
        LineFor::Refusal => app.reviews.answer(ReviewAnswer::No(text)),
    }
}

/// Searches the transcript and goes to the hit nearest to its end.
fn find(app: &mut AppState, query: &str) {
    let mut transcript = std::mem::take(&mut app.transcript);
    app.search = Some(Search::new(query, &mut transcript, app.look()));
    app.transcript = transcript;
    go_to_hit(app);
}

fn go_to_hit(app: &mut AppState) {
    let Some(hit) = app.search.as_ref().and_then(Search::current) else { return };
    let shown = |place| app.transcript.view.contains(&place);
    if shown(hit.from.place) && shown(hit.to.place) {
        return;
    }
    let mut transcript = std::mem::take(&mut app.transcript);
    transcript.bring(hit.from.place, app.look());
    app.transcript = transcript;
}

fn search_key(app: &mut AppState, chord: Chord) -> bool {
    let on = match chord.types() {
        Some('n') => true,
        Some('N') => false,
        _ => return false,
    };
    let found = app.search.as_mut().is_some_and(|search| search.step(on));
    if found {
        go_to_hit(app);
    }
    found
}

fn review_key(app: &mut AppState, event: &KeyEvent, effects: &mut Vec<Effect>) -> bool {
    let offers = app.reviews.offers();
    let count = offers.len().max(1);
    if app.reviews.is_new(app.now) && event.code != KeyCode::Esc {
        // Enter would send what is half written: it does nothing.
        return event.code == KeyCode::Enter;
    }
    let plain = (event.modifiers - KeyModifiers::SHIFT).is_empty();
    match event.code {
        KeyCode::Up if plain => app.reviews.selected = (app.reviews.selected + count - 1) % count,
        KeyCode::Down if plain => app.reviews.selected = (app.reviews.selected + 1) % count,
        KeyCode::PageUp => app.reviews.scroll_by(-page(app)),
        KeyCode::PageDown => app.reviews.scroll_by(page(app)),
        KeyCode::Enter if plain => {
            if let Some(offer) = offers.get(app.reviews.selected) {
                answer(app, offer.key);
            }
        }
        KeyCode::Esc => app.interrupt(effects),
        KeyCode::Char(c) if plain => {
            if offers.iter().any(|offer| offer.key == c) {
                answer(app, c);
            }
        }
        _ => return false,
    }
    true
}

/// Rows that a page of the question scrolls: one stays in sight.
fn page(app: &AppState) -> isize {
    app.reviews.dialog.shown.saturating_sub(1).max(1) as isize
}

fn answer(app: &mut AppState, key: char) {
    match key {
        'y' => app.reviews.answer(ReviewAnswer::Once),
        's' => app.reviews.answer(ReviewAnswer::Session),
        'a' => app.reviews.answer(ReviewAnswer::Always),
        _ => app.open(Overlay::Line(LineInput::default(), LineFor::Refusal)),
    }
}

/// Two clicks within this time at one place are a double click.
const CLICKS: Duration = Duration::from_millis(400);
/// Rows that a step of the wheel scrolls.
const WHEEL: isize = 3;

fn mouse(app: &mut AppState, event: MouseEvent, effects: &mut Vec<Effect>) {
    let at = Position { x: event.column, y: event.row };
    let regions = app.regions;
    match event.kind {
        MouseEventKind::ScrollUp => wheel(app, at, -WHEEL),
        MouseEventKind::ScrollDown => wheel(app, at, WHEEL),
        MouseEventKind::Down(MouseButton::Left) => {
            if app.overlay.is_some() {
                return overlay_click(app, at, effects);
            }
            if regions.mark.contains(at) {
                app.transcript.to_end();
            } else if regions.text.contains(at) {
                app.prompt.click(at.x - regions.text.x, at.y - regions.text.y);
                app.popup = None;
            } else if regions.pane.contains(at) {
                pane_click(app, at);
            } else if regions.transcript.contains(at) {
                press(app, at);
            }
        }
        MouseEventKind::Drag(MouseButton::Left) => drag(app, at, effects),
        MouseEventKind::Up(MouseButton::Left) => release(app, at, effects),
        _ => app.dirty = false,
    }
}

fn wheel(app: &mut AppState, at: Position, rows: isize) {
    match &mut app.overlay {
        Some(Overlay::List(list)) => return list.step(rows.signum()),
        Some(Overlay::Page(page)) => {
            let height = usize::from(app.regions.overlay.height.saturating_sub(2));
            page.scroll = page.scroll.saturating_add_signed(rows).min(page.rows.len().saturating_sub(height));
            return;
        }
        Some(Overlay::Line(..) | Overlay::Ask(_)) | None => {}
    }
    if app.regions.review.contains(at) {
        return app.reviews.scroll_by(rows);
    }
    if app.regions.pane.contains(at) {
        match &mut app.pane {
            Some(Pane::Tree(pane)) => pane.step(rows.signum()),
            Some(Pane::Output(output)) => {
                let height = usize::from(app.regions.pane.height.saturating_sub(1));
                let last = output.rows.len().saturating_sub(height);
                let top = output.top.saturating_add_signed(rows).min(last);
                output.scroll = (top < last).then_some(top);
            }
            None => {}
        }
        return;
    }
    actions::scroll(app, rows);
}

fn overlay_click(app: &mut AppState, at: Position, effects: &mut Vec<Effect>) {
    let region = app.regions.overlay;
    if !region.contains(at) {
        if matches!(app.overlay, Some(Overlay::Page(_))) {
            app.overlay = None;
        }
        return;
    }
    if let Some(Overlay::List(list)) = &mut app.overlay {
        let row = usize::from(at.y.saturating_sub(region.y + 2)) + list.scroll;
        if at.y >= region.y + 2 && row < list.shown.len() {
            if list.selected == row {
                crate::tui::commands::choose(app, effects);
            } else {
                list.selected = row;
                crate::tui::commands::preview(app);
            }
        }
    }
}

fn pane_click(app: &mut AppState, at: Position) {
    let region = app.regions.pane;
    if let Some(Pane::Tree(pane)) = &mut app.pane {
        let row = usize::from(at.y.saturating_sub(region.y + 1)) + pane.scroll;
        if at.y > region.y && row < pane.rows.len() {
            let by = row as isize - pane.selected as isize;
            super::tree::step(app, by);
        }
    }
}

/// The cell of the transcript at a position of the screen, or the nearest one.
fn spot(app: &AppState, at: Position) -> Option<Spot> {
    let region: Rect = app.regions.transcript;
    let row = usize::from(at.y.saturating_sub(region.y)).min(app.transcript.view.len().checked_sub(1)?);
    Some(Spot { place: app.transcript.view[row], column: at.x.saturating_sub(region.x) })
}

fn press(app: &mut AppState, at: Position) {
    let Some(spot) = spot(app, at) else { return };
    let count = match app.mouse.click {
        Some((when, x, y, count)) if (x, y) == (at.x, at.y) && app.now.duration_since(when) < CLICKS => count % 3 + 1,
        _ => 1,
    };
    app.mouse.click = Some((app.now, at.x, at.y, count));
    app.mouse.clicks = count;
    app.mouse.down = Some(spot);
    app.selection = around(app, spot);
}

/// What the clicks before a drag take at a cell: nothing, a word, a line.
fn around(app: &AppState, spot: Spot) -> Option<Selection> {
    match app.mouse.clicks {
        2 => app.transcript.word_around(spot),
        3 => app.transcript.line_around(spot),
        _ => None,
    }
}

fn drag(app: &mut AppState, at: Position, _effects: &mut Vec<Effect>) {
    let Some(from) = app.mouse.down else { return };
    let region = app.regions.transcript;
    if at.y <= region.y && region.y > 0 && at.y < region.y {
        actions::scroll(app, -1);
    } else if at.y >= region.bottom() {
        actions::scroll(app, 1);
    }
    if let Some(to) = spot(app, at) {
        app.selection = Some(match (around(app, from), around(app, to)) {
            (Some(one), Some(other)) => Selection { from: one.from.min(other.from), to: one.to.max(other.to) },
            // Beside words there is none.
            (Some(one), None) => one,
            (None, _) => Selection::drag(from, to),
        });
        app.mouse.click = None;
    }
}

fn release(app: &mut AppState, at: Position, effects: &mut Vec<Effect>) {
    let Some(down) = app.mouse.down.take() else { return };
    match app.selection {
        Some(selection) => {
            let mut transcript = std::mem::take(&mut app.transcript);
            let text = transcript.selected(&selection, app.look());
            app.transcript = transcript;
            if !text.trim().is_empty() {
                effects.push(Effect::Copy(text));
            }
        }
        None => {
            let hit = app
                .transcript
                .blocks
                .get(down.place.block)
                .and_then(|block| block.row(down.place.row))
                .map(|row| row.hit);
            if hit == Some(Hit::Fold) && app.regions.transcript.contains(at) {
                app.transcript.toggle(down.place.block);
            }
        }
    }
}
