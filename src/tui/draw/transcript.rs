//! The transcript's visible rows, with colours of code, selection and search over them.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_segmentation::UnicodeSegmentation;

use super::super::app::AppState;
use super::super::layout::MARKS;
use super::super::term::Link;
use super::super::transcript::block::Block;
use super::super::transcript::{Place, Row};
use crate::text;
use crate::theme::{Theme, Token};

pub(super) fn transcript(app: &AppState, buffer: &mut Buffer) {
    let area = app.regions.transcript;
    if !app.regions.side_by_side && app.pane.is_some() {
        return;
    }
    for (index, place) in app.transcript.view.iter().enumerate().take(usize::from(area.height)) {
        let y = area.y + index as u16;
        let Some(block) = app.transcript.blocks.get(place.block) else { continue };
        if let Some(row) = block.row(place.row) {
            row.draw(buffer, area.x, y, area.width);
            colours(&app.theme, block, row, buffer, area, y);
        }
        over(app, *place, buffer, area, y);
    }
    if app.transcript.blocks.is_empty() {
        welcome(app, buffer, area);
    }
    let mark = app.regions.mark;
    if mark.width > 0 {
        let token = if app.transcript.news { Token::Accent } else { Token::Dim };
        let words = MARKS[usize::from(app.transcript.news)];
        buffer.set_stringn(mark.x, mark.y, words, usize::from(mark.width), app.theme.style(token));
    }
}

/// Where the visible rows have links.
pub(super) fn links(app: &AppState) -> Vec<Link> {
    let area = app.regions.transcript;
    let mut out = Vec::new();
    if !app.regions.side_by_side && app.pane.is_some() {
        return out;
    }
    for (index, place) in app.transcript.view.iter().enumerate().take(usize::from(area.height)) {
        let row = app.transcript.blocks.get(place.block).and_then(|block| block.row(place.row));
        let mut x = area.x;
        for span in row.iter().flat_map(|row| &row.spans) {
            let end = x.saturating_add(text::width(&span.text) as u16).min(area.right());
            if let Some(target) = &span.link {
                out.push(Link { y: area.y + index as u16, from: x, to: end, target: target.clone() });
            }
            x = end;
        }
    }
    out
}

/// Lays the colours that have come over a row of code.
fn colours(theme: &Theme, block: &Block, row: &Row, buffer: &mut Buffer, area: Rect, y: u16) {
    let Some(at) = row.code else { return };
    let Some(line) = block.colours.get(at.piece as usize).and_then(|colours| colours.lines.get(at.line as usize))
    else {
        return;
    };
    let Some(span) = row.spans.last().filter(|_| row.spans.len() > 1) else { return };
    let mut x = area.x + row.gutter;
    let mut byte = at.byte;
    let mut classes = line.iter();
    let mut current = classes.next();
    for grapheme in span.text.graphemes(true) {
        while current.is_some_and(|(end, _)| *end <= byte) {
            current = classes.next();
        }
        let cells = text::width(grapheme) as u16;
        if let Some((_, Some(class))) = current {
            for x in x..(x + cells).min(area.right()) {
                if let Some(cell) = buffer.cell_mut((x, y)) {
                    cell.set_style(theme.class(*class));
                }
            }
        }
        byte += grapheme.len() as u32;
        x += cells;
        if x >= area.right() {
            break;
        }
    }
}

/// Lays the hits of a search and the selection over a row.
fn over(app: &AppState, place: Place, buffer: &mut Buffer, area: Rect, y: u16) {
    let Some(row) = app.transcript.blocks.get(place.block).and_then(|block| block.row(place.row)) else { return };
    let mut paint = |columns: (u16, u16), token: Token| {
        let (from, to) = row.snap(columns.0, columns.1);
        for x in area.x.saturating_add(from)..area.x.saturating_add(to).min(area.right()) {
            if let Some(cell) = buffer.cell_mut((x, y)) {
                if token != Token::Selection {
                    // A colour that stands out from the ground need not stand out from the mark.
                    cell.set_fg(ratatui::style::Color::Reset);
                }
                cell.set_style(app.theme.style(token));
            }
        }
    };
    if let Some(search) = &app.search {
        for (number, hit) in search.in_row(place) {
            let token = if number == search.at() { Token::MatchCurrent } else { Token::Match };
            if let Some(columns) = hit.columns(place) {
                paint(columns, token);
            }
        }
    }
    if let Some(columns) = app.selection.and_then(|selection| selection.columns(place)) {
        paint(columns, Token::Selection);
    }
}

/// What stands there before anything was said.
fn welcome(app: &AppState, buffer: &mut Buffer, area: Rect) {
    let dim = app.theme.style(Token::Dim);
    let key = |name: &str| app.bindings.short(name).unwrap_or_default();
    let lines = [
        format!("{:>9}  send; Alt+Enter for a new line", "Enter"),
        format!("{:>9}  files of the project", "@"),
        format!("{:>9}  commands, templates, skills", "/"),
        format!("{:>9}  run a command yourself", "!"),
        format!("{:>9}  next mode: plan, ask, auto", key("mode.cycle")),
        format!("{:>9}  all keys", key("app.help")),
    ];
    if area.height < 9 || area.width < 44 {
        return;
    }
    for (index, line) in lines.iter().enumerate() {
        buffer.set_stringn(area.x + 1, area.y + 1 + index as u16, line, usize::from(area.width - 2), dim);
    }
}
