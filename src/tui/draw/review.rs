//! The question whether a call may run.

use ratatui::buffer::Buffer;
use ratatui::style::{Modifier, Style};

use super::super::app::AppState;
use super::super::transcript::row::{Span, with};
use super::{spans, width_of};
use crate::text;
use crate::theme::Token;
use crate::toolkit::Risk;

pub(super) fn review(app: &AppState, buffer: &mut Buffer) {
    let area = app.regions.review;
    let Some(request) = app.reviews.first().filter(|_| area.height > 0) else { return };
    let risk = match request.risk {
        Risk::ReadOnly => "only reads",
        Risk::Write => "changes files",
        Risk::Command => "runs a command",
    };
    let dialog = &app.reviews.dialog;
    let warning = app.theme.style(Token::Warning);
    let bold = with(Style::new(), Modifier::BOLD);
    let width = usize::from(area.width);
    buffer.set_stringn(area.x, area.y, "─".repeat(width), width, warning);
    let more = if app.reviews.more() > 0 { format!(" · {} more wait", app.reviews.more()) } else { String::new() };
    let head = [
        Span::new(format!(" {}", text::ellipsis(&text::visible(&request.name), 24)), with(warning, Modifier::BOLD)),
        Span::new(format!(" · {risk}{more} "), warning),
    ];
    let end = spans(buffer, area.x + 1, area.y, area.width.saturating_sub(2), &head);
    let scroll = app.reviews.scroll;
    if dialog.body.len() > dialog.shown && dialog.shown > 0 {
        let place = format!("{}–{} of {}", scroll + 1, scroll + dialog.shown, dialog.body.len());
        // With its keys, where there is room for them.
        for words in [format!(" {place} · PgUp PgDn "), format!(" {place} ")] {
            let place = [Span::new(words, warning)];
            let x = area.right().saturating_sub(width_of(&place) + 1);
            if x > end {
                spans(buffer, x, area.y, width_of(&place), &place);
                break;
            }
        }
    }
    let mut y = area.y + 1;
    if dialog.titled && y < area.bottom() {
        let title = text::ellipsis_start(&text::visible(&request.title), width.saturating_sub(2));
        spans(buffer, area.x, y, area.width, &[Span::new(format!(" {title}"), bold)]);
        y += 1;
    }
    let offers = app.reviews.offers();
    let answers = area.bottom().saturating_sub(offers.len() as u16).max(area.y + 1);
    for row in dialog.reason.iter().chain(dialog.body.iter().skip(scroll).take(dialog.shown)) {
        if y >= answers {
            break;
        }
        row.draw(buffer, area.x, y, area.width);
        y += 1;
    }
    for (index, offer) in offers.iter().enumerate() {
        let y = answers + index as u16;
        if y >= area.bottom() {
            break;
        }
        let chosen = index == app.reviews.selected;
        let row = [
            Span::new(if chosen { " › " } else { "   " }, app.theme.style(Token::Accent)),
            Span::new(format!("{}  ", offer.key), app.theme.style(Token::Accent)),
            Span::new(text::ellipsis(&offer.words, width.saturating_sub(7)), if chosen { bold } else { Style::new() }),
        ];
        spans(buffer, area.x, y, area.width, &row);
    }
}
