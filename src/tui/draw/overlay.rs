//! What lies over everything: lists, pages, lines, questions.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};

use super::super::app::{AppState, LineFor, Overlay};
use super::super::list::{Ask, LineInput, List, Part, Subject};
use super::super::page::Page;
use super::super::transcript::row::{Span, with};
use super::{clear, fitting, frame, spans, width_of};
use crate::text;
use crate::theme::Token;

/// Draws it and says where the caret stands.
pub(super) fn overlay(app: &AppState, overlay: &Overlay, buffer: &mut Buffer) -> Option<Position> {
    let area = app.regions.overlay.intersection(buffer.area);
    clear(buffer, app.regions.cleared.intersection(buffer.area));
    match overlay {
        Overlay::List(list) => self::list(app, list, buffer, area),
        Overlay::Page(page) => {
            self::page(app, page, buffer, area);
            None
        }
        Overlay::Line(line, purpose) => self::line(app, line, purpose, buffer, area),
        Overlay::Ask(ask) => {
            self::ask(app, ask, buffer, area);
            None
        }
    }
}

fn title(app: &AppState, words: &str, width: u16) -> Vec<Span> {
    let words = text::ellipsis(words, usize::from(width.saturating_sub(6)));
    vec![Span::new(words, with(app.theme.style(Token::Heading), Modifier::BOLD))]
}

fn edge(app: &AppState) -> Style {
    app.theme.style(Token::BorderFocus)
}

fn input(app: &AppState, line: &LineInput, mark: &str, buffer: &mut Buffer, area: Rect, y: u16) -> Option<Position> {
    let x = area.x + 2;
    let room = area.width.checked_sub(4 + text::width(mark) as u16)?;
    if y >= area.bottom() {
        return None;
    }
    let start = spans(buffer, x, y, area.width, &[Span::new(mark, app.theme.style(Token::Accent))]);
    // The end of what stands before the cursor is what must be seen.
    let before = text::ellipsis_start(&text::visible(&line.before), usize::from(room).saturating_sub(1));
    let end = spans(buffer, start, y, room, &[Span::new(before, Style::new())]);
    spans(buffer, end, y, room.saturating_sub(end - start), &[Span::new(text::visible(&line.after), Style::new())]);
    Some(Position { x: end.min(area.right().saturating_sub(1)), y })
}

fn list(app: &AppState, list: &List, buffer: &mut Buffer, area: Rect) -> Option<Position> {
    let mut words = list.title.clone();
    if matches!(list.subject, Subject::Models(_)) {
        words = format!("{words} · thinking {}", app.settings.thinking);
    }
    if list.items.len() > list.shown.len() {
        words = format!("{words} · {} of {}", list.shown.len(), list.items.len());
    }
    frame(buffer, area, edge(app), &title(app, &words, area.width));
    let caret = input(app, &list.query, "> ", buffer, area, area.y + 1);
    let dim = app.theme.style(Token::Dim);
    let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
    let rows = usize::from(area.height.saturating_sub(4));
    for (index, item) in list.shown.iter().enumerate().skip(list.scroll).take(rows) {
        let y = area.y + 2 + (index - list.scroll) as u16;
        let item = &list.items[*item];
        let chosen = index == list.selected;
        let mark = Span::new(if chosen { " › " } else { "   " }, app.theme.style(Token::Accent));
        let right = right_of(app, &item.right, usize::from(inner.width / 2));
        let taken = width_of(&right);
        let room = inner.width.saturating_sub(3 + 1 + if taken > 0 { taken + 2 } else { 0 });
        let start = spans(buffer, inner.x, y, inner.width, &[mark]);
        spans(buffer, start, y, room, &cut(app, &item.left, usize::from(room)));
        spans(buffer, inner.right().saturating_sub(taken + 1), y, taken, &right);
        if chosen {
            buffer.set_style(Rect { y, height: 1, ..inner }, app.theme.style(Token::Selection));
        }
    }
    if rows > 0 && list.shown.is_empty() {
        let words = match (list.loading, list.items.is_empty()) {
            (true, _) => "…",
            (false, true) => "nothing here yet",
            (false, false) => "nothing fits",
        };
        spans(buffer, inner.x, area.y + 2, inner.width, &[Span::new(format!("   {words}"), dim)]);
    }
    if area.height > 4 {
        let hint = fitting(&list.hint, usize::from(inner.width.saturating_sub(2)));
        spans(buffer, inner.x + 1, area.bottom() - 2, inner.width.saturating_sub(1), &[Span::new(hint, dim)]);
    }
    caret
}

/// The last parts that fit whole into that many cells; of the very last, as much as fits.
fn right_of(app: &AppState, parts: &[Part], cells: usize) -> Vec<Span> {
    let mut used = 0;
    let fits = parts.iter().rev().take_while(|part| {
        used += text::width(&part.text);
        used <= cells
    });
    match fits.count() {
        0 => cut(app, &parts[parts.len().saturating_sub(1)..], cells),
        count => cut(app, &parts[parts.len() - count..], cells),
    }
}

/// Parts in the theme's colours, cut to that many cells.
fn cut(app: &AppState, parts: &[Part], cells: usize) -> Vec<Span> {
    let mut left = cells;
    let whole: usize = parts.iter().map(|part| text::width(&part.text)).sum();
    let mut out = Vec::new();
    for part in parts {
        let mut span = part.span(&app.theme);
        let width = text::width(&span.text);
        // The last cell is the ellipsis's, where not all of it fits.
        if width > left || (whole > cells && width == left) {
            span.text = text::ellipsis(&format!("{} ", span.text), left);
            out.push(span);
            break;
        }
        left -= width;
        out.push(span);
    }
    out
}

fn page(app: &AppState, page: &Page, buffer: &mut Buffer, area: Rect) {
    let rows = usize::from(area.height.saturating_sub(2));
    let mut words = page.title.clone();
    if page.rows.len() > rows {
        let last = (page.scroll + rows).min(page.rows.len());
        words = format!("{words} · {}–{last} of {}", page.scroll + 1, page.rows.len());
    }
    frame(buffer, area, edge(app), &title(app, &words, area.width));
    for (index, row) in page.rows.iter().skip(page.scroll).take(rows).enumerate() {
        row.draw(buffer, area.x + 1, area.y + 1 + index as u16, area.width.saturating_sub(2));
    }
}

fn line(app: &AppState, line: &LineInput, purpose: &LineFor, buffer: &mut Buffer, area: Rect) -> Option<Position> {
    let words = match purpose {
        LineFor::Search => match &app.search {
            Some(search) if search.hits().is_empty() && !search.query().is_empty() => "search · no hit".to_owned(),
            Some(search) if !search.query().is_empty() => {
                format!("search · {} of {}", search.at() + 1, search.hits().len())
            }
            _ => "search".to_owned(),
        },
        LineFor::Label(_) => "label of this entry".to_owned(),
        LineFor::Name | LineFor::Rename(_) => "name of the session".to_owned(),
        LineFor::TreeFilter => "filter the tree".to_owned(),
        LineFor::Refusal => "no: what should the model do instead?".to_owned(),
    };
    frame(buffer, area, edge(app), &title(app, &words, area.width));
    input(app, line, "> ", buffer, area, area.y + u16::from(area.height > 2))
}

fn ask(app: &AppState, ask: &Ask, buffer: &mut Buffer, area: Rect) {
    frame(buffer, area, edge(app), &[]);
    let room = area.width.saturating_sub(4);
    for (y, row) in (area.y + 1..area.bottom().saturating_sub(1)).zip(&ask.rows) {
        row.draw(buffer, area.x + 2, y, room);
    }
    // The answers stand at the bottom, whatever there is room for above them.
    let answers = area.bottom().saturating_sub(1 + ask.answers.len() as u16).max(area.y + 1);
    for (index, answer) in ask.answers.iter().enumerate() {
        let y = answers + index as u16;
        if y + 1 >= area.bottom() {
            return;
        }
        let chosen = index == ask.selected;
        let style = if chosen { with(Style::new(), Modifier::BOLD) } else { Style::new() };
        let row = [
            Span::new(if chosen { "› " } else { "  " }, app.theme.style(Token::Accent)),
            Span::new(format!("{}  ", answer.key), app.theme.style(Token::Accent)),
            Span::new(text::ellipsis(&answer.words, usize::from(room).saturating_sub(5)), style),
        ];
        spans(buffer, area.x + 2, y, room, &row);
    }
}
