//! Draws the state into a buffer. Nothing here changes anything.

mod chrome;
mod overlay;
mod panes;
mod review;
mod transcript;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;

use super::app::AppState;
use super::term::Link;
use super::transcript::row::Span;
use crate::text;

/// Draws everything and says where the caret stands.
pub fn draw(app: &AppState, buffer: &mut Buffer) -> Option<Position> {
    if !app.regions.usable || buffer.area != app.regions.screen {
        if buffer.area.width > 0 && buffer.area.height > 0 {
            let width = usize::from(buffer.area.width);
            buffer.set_stringn(0, 0, text::ellipsis("too small", width), width, Style::new());
        }
        return None;
    }
    chrome::header(app, buffer);
    transcript::transcript(app, buffer);
    panes::pane(app, buffer);
    review::review(app, buffer);
    chrome::status(app, buffer);
    chrome::queue(app, buffer);
    let caret = chrome::prompt(app, buffer);
    chrome::footer(app, buffer);
    chrome::popup(app, buffer);
    match &app.overlay {
        Some(over) => overlay::overlay(app, over, buffer),
        None => Some(caret).filter(|_| app.reviews.first().is_none()).filter(|caret| buffer.area.contains(*caret)),
    }
}

/// The links of the transcript that show, for a terminal that knows them. What lies over the transcript has none.
pub fn links(app: &AppState) -> Vec<Link> {
    if !app.theme.hyperlinks || app.overlay.is_some() || app.popup.is_some() || !app.regions.usable {
        return Vec::new();
    }
    transcript::links(app)
}

/// Writes spans from left to right, at most `width` cells; where it ended.
fn spans(buffer: &mut Buffer, x: u16, y: u16, width: u16, spans: &[Span]) -> u16 {
    let end = x.saturating_add(width).min(buffer.area.right());
    let mut at = x;
    for span in spans {
        if at >= end || y >= buffer.area.bottom() {
            break;
        }
        (at, _) = buffer.set_stringn(at, y, &span.text, usize::from(end - at), span.style);
    }
    at
}

fn width_of(spans: &[Span]) -> u16 {
    spans.iter().map(|span| text::width(&span.text)).sum::<usize>().min(usize::from(u16::MAX)) as u16
}

/// As many of the parts of a hint, which a dot parts, as fit whole.
fn fitting(hint: &str, cells: usize) -> String {
    let mut out = String::new();
    for part in hint.split(" · ") {
        let longer = if out.is_empty() { part.to_owned() } else { format!("{out} · {part}") };
        if text::width(&longer) > cells {
            break;
        }
        out = longer;
    }
    out
}

/// Empties a part of the screen.
fn clear(buffer: &mut Buffer, area: Rect) {
    for y in area.top()..area.bottom().min(buffer.area.bottom()) {
        // A wide character that reaches into the area must not be left in half.
        if area.x > 0
            && let Some(cell) = buffer.cell_mut((area.x - 1, y))
            && text::width(cell.symbol()) > 1
        {
            cell.set_symbol(" ");
        }
        for x in area.left()..area.right().min(buffer.area.right()) {
            buffer[(x, y)].reset();
        }
    }
}

/// Draws a rounded border with a title.
fn frame(buffer: &mut Buffer, area: Rect, style: Style, title: &[Span]) {
    if area.width < 2 || area.height < 2 {
        return;
    }
    let inner = usize::from(area.width - 2);
    let line = "─".repeat(inner);
    buffer.set_string(area.x, area.y, format!("╭{line}╮"), style);
    buffer.set_string(area.x, area.bottom() - 1, format!("╰{line}╯"), style);
    for y in area.y + 1..area.bottom() - 1 {
        buffer.set_string(area.x, y, "│", style);
        buffer.set_string(area.right() - 1, y, "│", style);
    }
    if area.width > 6 && !title.is_empty() {
        buffer.set_string(area.x + 1, area.y, " ", style);
        let end = spans(buffer, area.x + 2, area.y, area.width - 4, title);
        buffer.set_string(end, area.y, " ", style);
    }
}

#[cfg(test)]
#[path = "pictures_tests.rs"]
mod pictures;
#[cfg(test)]
#[path = "scenes_tests.rs"]
mod scenes;
#[cfg(test)]
mod svg;
#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
