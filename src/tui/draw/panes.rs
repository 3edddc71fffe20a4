//! The panes: the session's tree, and whole outputs.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::super::app::AppState;
use super::super::commands::hint;
use super::super::layout::newest_call;
use super::super::pane::{Output, Pane};
use super::super::transcript::row::{Span, with};
use super::super::tree::{TreePane, summary};
use super::{clear, fitting, spans, width_of};
use crate::text;
use crate::theme::Token;

pub(super) fn pane(app: &AppState, buffer: &mut Buffer) {
    let Some(pane) = &app.pane else { return };
    let mut area = app.regions.pane;
    clear(buffer, area);
    if app.regions.side_by_side {
        for y in area.top()..area.bottom() {
            buffer.set_string(area.x, y, "│", app.theme.style(Token::Border));
        }
        area.x += 1;
        area.width -= 1;
    }
    if area.height == 0 {
        return;
    }
    match pane {
        Pane::Tree(pane) => tree(app, pane, buffer, area),
        Pane::Output(output) => self::output(app, output, buffer, area),
    }
}

/// The title of a pane: its name, what it shows, and at the right the place in it, where there is room.
fn title(app: &AppState, buffer: &mut Buffer, area: Rect, name: &str, rest: &str, place: &str) {
    let bold = with(app.theme.style(Token::Heading), Modifier::BOLD);
    let width = text::width(place) as u16;
    let taken = if width > 0 && width + 28 < area.width { width + 1 } else { 0 };
    if taken > 0 {
        buffer.set_string(area.right() - width, area.y, place, app.theme.style(Token::Dim));
    }
    let room = usize::from(area.width.saturating_sub(taken)).saturating_sub(text::width(name) + 4);
    let row =
        [Span::new(format!(" {name}  "), bold), Span::new(text::ellipsis(rest, room), app.theme.style(Token::Dim))];
    spans(buffer, area.x, area.y, area.width, &row);
}

fn tree(app: &AppState, pane: &TreePane, buffer: &mut Buffer, area: Rect) {
    let nodes = if pane.rows.len() == 1 { "node" } else { "nodes" };
    let mut rest = format!("{} · {} {nodes}", pane.filter.name(), pane.rows.len());
    if !pane.query.is_empty() {
        rest.push_str(&format!(" · “{}”", text::visible(&pane.query)));
    }
    title(app, buffer, area, "TREE", &rest, "");
    let rows = usize::from(area.height.saturating_sub(2));
    let session = &app.session.tree;
    let (dim, accent) = (app.theme.style(Token::Dim), app.theme.style(Token::Accent));
    for (index, row) in pane.rows.iter().enumerate().skip(pane.scroll).take(rows) {
        let y = area.y + 1 + (index - pane.scroll) as u16;
        let Some(node) = session.nodes().get(row.node) else { continue };
        let (who, words) = summary(&node.entry);
        let style = if row.on_path { Style::new() } else { dim };
        let mut line = vec![Span::new(format!(" {}", row.guides), app.theme.style(Token::Border))];
        if pane.leaf == Some(row.node) {
            line.push(Span::new("● ", accent));
        }
        if row.folded {
            line.push(Span::new("▸ ", dim));
        }
        if !who.is_empty() {
            line.push(Span::new(format!("{who}  "), app.theme.style(Token::User)));
        }
        if let Some(label) = session.label(node.entry.id) {
            line.push(Span::new(format!("[{}] ", text::visible(label)), app.theme.style(Token::Warning)));
        }
        let room = usize::from(area.width).saturating_sub(usize::from(width_of(&line)) + 1);
        line.push(Span::new(text::ellipsis(&words, room), style));
        spans(buffer, area.x, y, area.width, &line);
        if index == pane.selected {
            buffer.set_style(Rect { y, height: 1, ..area }, app.theme.style(Token::Selection));
        }
    }
    if area.height > 3 {
        let actions = [
            ("tree.continue", "continue"),
            ("tree.summarise", "summary"),
            ("tree.fork", "fork"),
            ("tree.label", "label"),
            ("tree.filter", "filter"),
            ("tree.cycle", "show"),
            ("tree.close", ""),
        ];
        let hint = fitting(&hint(app, &actions), usize::from(area.width).saturating_sub(2));
        spans(buffer, area.x, area.bottom() - 1, area.width, &[Span::new(format!(" {hint}"), dim)]);
    }
}

fn output(app: &AppState, output: &Output, buffer: &mut Buffer, area: Rect) {
    let call = output.block.or_else(|| newest_call(&app.transcript)).and_then(|id| app.transcript.tool(id));
    let rest = call.map_or(String::new(), |call| {
        let outcome = call.outcome_words().map_or(String::new(), |words| format!(" · {words}"));
        text::visible(&format!("{} · {}{outcome}", call.name, text::first_line(&call.title)))
    });
    let rows = usize::from(area.height.saturating_sub(1));
    let (all, last) = (output.rows.len(), (output.top + rows).min(output.rows.len()));
    let place = if all > rows { format!("{}–{last} of {all} ", output.top + 1) } else { String::new() };
    title(app, buffer, area, "OUTPUT", &rest, &place);
    for (index, row) in output.rows.iter().skip(output.top).take(rows).enumerate() {
        row.draw(buffer, area.x, area.y + 1 + index as u16, area.width);
    }
}
