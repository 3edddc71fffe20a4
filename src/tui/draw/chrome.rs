//! What stands round the transcript: header, status, queue, question, prompt, completions, footer.

use ratatui::buffer::Buffer;
use ratatui::layout::Position;
use ratatui::style::{Modifier, Style};

use super::super::app::{AppState, Phase};
use super::super::transcript::row::{Span, with};
use super::super::transcript::{Tone, spinner, tool};
use super::super::words;
use super::{clear, frame, spans, width_of};
use crate::agent::{Activity, Delivery};
use crate::choice::Mode;
use crate::message::text_of;
use crate::text;
use crate::theme::Token;

fn span(app: &AppState, text: impl Into<String>, token: Token) -> Span {
    Span::new(text, app.theme.style(token))
}

fn mode_token(mode: Mode) -> Token {
    match mode {
        Mode::Plan => Token::ModePlan,
        Mode::Ask => Token::ModeAsk,
        Mode::Auto => Token::ModeAuto,
        Mode::Yolo => Token::ModeYolo,
    }
}

pub(super) fn header(app: &AppState, buffer: &mut Buffer) {
    let area = app.regions.header;
    if area.height == 0 {
        return;
    }
    let dot = || span(app, " · ", Token::Dim);
    let mut right = Vec::new();
    match &app.settings.model {
        Some(model) => {
            right.push(Span::new(text::visible(&model.reference()), Style::new()));
            if model.reasoning {
                right.push(dot());
                right.push(span(app, app.settings.thinking.name(), Token::Dim));
            }
            if model.api == "demo" {
                right.push(dot());
                right.push(span(app, "scripted", Token::Warning));
            }
        }
        None => right.push(span(app, "no model: /model", Token::Warning)),
    }
    right.push(dot());
    right.push(span(app, app.settings.mode.name(), mode_token(app.settings.mode)));
    right.push(Span::new(" ", Style::new()));
    let right_width = width_of(&right).min(area.width);
    let mut left = vec![
        Span::new(" ", Style::new()),
        Span::new("violin", with(app.theme.style(Token::Accent), Modifier::BOLD)),
        dot(),
    ];
    let room = area.width.saturating_sub(right_width + 2);
    let free = |taken: &[Span]| usize::from(room.saturating_sub(width_of(taken)));
    let mut tail = Vec::new();
    if let Some(branch) = &app.git.0 {
        tail.push(dot());
        tail.push(span(app, text::ellipsis(&text::visible(branch), 28), Token::Dim));
        if app.git.1 > 0 {
            tail.push(span(app, format!(" ●{}", app.git.1), Token::Warning));
        }
    }
    // The directory first, then the branch, then the session's name: what has no room is left out.
    let place = text::visible(&app.place);
    if usize::from(width_of(&tail)) + text::width(&place).min(24) > free(&left) {
        tail.clear();
    }
    let cells = free(&left).saturating_sub(usize::from(width_of(&tail)));
    if cells >= text::width(&place).min(6) {
        left.push(Span::new(text::ellipsis_start(&place, cells), Style::new()));
    } else {
        left.pop();
    }
    left.extend(tail);
    if let Some(name) = app.session.tree.name()
        && free(&left) >= 11
    {
        left.push(dot());
        left.push(Span::new(text::ellipsis(&text::visible(name), free(&left).min(30)), Style::new()));
    }
    spans(buffer, area.x, area.y, room, &left);
    spans(buffer, area.right() - right_width, area.y, right_width, &right);
}

pub(super) fn status(app: &AppState, buffer: &mut Buffer) {
    let area = app.regions.status;
    if area.height == 0 {
        return;
    }
    let mut left: Vec<Span> = Vec::new();
    if app.is_busy() {
        left.push(span(app, format!(" {} ", spinner(app.tick)), Token::Accent));
        let mut words = match (app.activity, &app.run.phase) {
            (Activity::Compacting, _) => "compacting".to_owned(),
            (Activity::Shell, _) => "running".to_owned(),
            (_, Phase::Waiting) => "waiting for the model".to_owned(),
            (_, Phase::Thinking) => "thinking".to_owned(),
            (_, Phase::Writing) => "writing".to_owned(),
            (_, Phase::Tools) => "working".to_owned(),
            (_, Phase::Retry { attempt, at, reason }) => {
                let left = at.saturating_duration_since(app.now).as_secs_f64().ceil();
                format!("retry {attempt} in {left}s: {reason}")
            }
        };
        if app.reviews.first().is_some() {
            words = "waiting for you".to_owned();
        }
        let seconds = app.run.since.map_or(0, |since| app.now.saturating_duration_since(since).as_secs());
        let mut rest = String::new();
        if seconds > 0 {
            rest.push_str(&format!(" · {}", tool::clock(seconds)));
        }
        let room = |rest: &str| usize::from(area.width).saturating_sub(4 + text::width(rest));
        let long = format!("{rest} · esc to interrupt");
        rest = if room(&long) >= text::width(&words).min(24) { long } else { format!("{rest} · esc") };
        let room = room(&rest);
        left.push(Span::new(text::ellipsis(&words, room.max(8)), Style::new()));
        left.push(span(app, rest, Token::Dim));
    }
    let mut right: Vec<Span> = Vec::new();
    if let Some(toast) = &app.toast {
        let token = match toast.tone {
            Tone::Quiet => Token::Dim,
            Tone::Warning => Token::Warning,
            Tone::Error => Token::Error,
        };
        let room = usize::from(area.width.saturating_sub(width_of(&left) + 3));
        right.push(span(app, text::ellipsis(&toast.text, room), token));
    } else if let Some(search) = app.search.as_ref().filter(|_| app.overlay.is_none()) {
        let count = search.hits().len();
        let at = if count == 0 { 0 } else { search.at() + 1 };
        let query = text::ellipsis(&text::visible(search.query()), 30);
        right.push(span(app, format!("“{query}” {at}/{count} · n N · esc"), Token::Dim));
    } else if !app.queue.is_empty() {
        right.push(span(app, format!("↑ {} queued · Alt+Up to edit", app.queue.len()), Token::Dim));
    }
    let end = spans(buffer, area.x, area.y, area.width, &left);
    let width = width_of(&right);
    let x = area.right().saturating_sub(width + 1);
    if x > end {
        spans(buffer, x, area.y, width, &right);
    } else if left.is_empty() {
        spans(buffer, area.x, area.y, area.width, &right);
    }
}

pub(super) fn queue(app: &AppState, buffer: &mut Buffer) {
    let area = app.regions.queue;
    for (index, queued) in app.queue.iter().enumerate().take(usize::from(area.height)) {
        let (name, token) = match queued.delivery {
            Delivery::Steer => (" steer ", Token::Accent),
            Delivery::FollowUp => (" then  ", Token::Dim),
        };
        let hidden = app.queue.len() - usize::from(area.height).min(app.queue.len());
        let last = index + 1 == usize::from(area.height) && hidden > 0;
        let body = text_of(&queued.message.content);
        let words = if last { format!("… {} more", hidden + 1) } else { text::visible(text::first_line(&body)) };
        let room = usize::from(area.width).saturating_sub(9);
        let row = [span(app, name, token), Span::new(text::ellipsis(&words, room), Style::new())];
        spans(buffer, area.x, area.y + index as u16, area.width, &row);
    }
}

pub(super) fn prompt(app: &AppState, buffer: &mut Buffer) -> Position {
    let (area, inner) = (app.regions.prompt, app.regions.text);
    if area.height == 0 {
        return Position { x: area.x, y: area.y };
    }
    let bordered = area.height > inner.height;
    if bordered {
        let shell = app.prompt.text().starts_with('!');
        let token = match (shell, app.settings.mode) {
            (true, _) => Token::Warning,
            (false, Mode::Yolo) => Token::ModeYolo,
            (false, Mode::Plan) => Token::ModePlan,
            (false, Mode::Ask | Mode::Auto) => Token::Border,
        };
        frame(buffer, area, app.theme.style(token), &[]);
    }
    let x = inner.x.saturating_sub(2);
    if inner.height > 0 {
        buffer.set_stringn(x, inner.y, "> ", 2, app.theme.style(Token::Accent));
    }
    let (rows, above) = app.prompt.visible(inner.height);
    for (index, row) in rows.iter().enumerate() {
        let y = inner.y + index as u16;
        let tidy = text::visible(&row.text);
        buffer.set_stringn(inner.x, y, &tidy, usize::from(inner.width), Style::new());
        for (from, to) in app.prompt.chips.spans(&row.text) {
            let cells = |n: usize| text::width(&row.text.chars().take(n).collect::<String>()) as u16;
            for x in inner.x + cells(from)..(inner.x + cells(to)).min(inner.right()) {
                if let Some(cell) = buffer.cell_mut((x, y)) {
                    cell.set_style(app.theme.style(Token::Accent));
                }
            }
        }
    }
    let below = app.prompt.rows().saturating_sub(above + rows.len());
    if bordered && area.width > 20 {
        let dim = app.theme.style(Token::Dim);
        if above > 0 {
            buffer.set_stringn(area.x + 3, area.y, format!(" ↑ {above} more "), 16, dim);
        }
        if below > 0 {
            buffer.set_stringn(area.x + 3, area.bottom() - 1, format!(" ↓ {below} more "), 16, dim);
        }
    }
    let caret = app.prompt.caret();
    Position {
        x: (inner.x + caret.x).min(inner.right().saturating_sub(1)),
        y: (inner.y + caret.y).min(inner.bottom().saturating_sub(1)),
    }
}

pub(super) fn footer(app: &AppState, buffer: &mut Buffer) {
    let area = app.regions.footer;
    if area.height == 0 {
        return;
    }
    let context = app.settings.context;
    let usage = app.session.usage;
    let share = context.usage_pct.clamp(0.0, 100.0);
    let filled = ((share / 100.0 * 8.0).round() as usize).min(8);
    let gauge = match share {
        ..70.0 => Token::Success,
        70.0..85.0 => Token::Warning,
        _ => Token::Error,
    };
    let mut left = vec![
        span(app, " ctx ", Token::Dim),
        span(app, "█".repeat(filled), gauge),
        span(app, "░".repeat(8 - filled), Token::Border),
        span(app, format!(" {share:.0}%"), Token::Dim),
    ];
    let mut parts = Vec::new();
    if usage.total() > 0 {
        let tokens = usage.input_tokens + usage.cache_write_tokens;
        let mut part = format!(" · ↑{} ↓{}", words::count(tokens), words::count(usage.output_tokens));
        if usage.cache_read_tokens > 0 {
            part.push_str(&format!(" ⟳{}", words::count(usage.cache_read_tokens)));
        }
        parts.push(part);
        parts.extend(usage.cost_usd.map(|cost| format!(" · {}", words::dollars(cost))));
    }
    for part in parts {
        // What does not fit whole is left out.
        if usize::from(width_of(&left)) + text::width(&part) < usize::from(area.width) {
            left.push(span(app, part, Token::Dim));
        }
    }
    let hints = [
        ("pane.tree", "tree"),
        ("pane.output", "output"),
        ("model.pick", "model"),
        ("", "commands"),
        ("app.help", "help"),
    ];
    let end = area.x + width_of(&left);
    let mut right: Vec<Span> = Vec::new();
    for (name, word) in hints {
        let key = if name.is_empty() { Some("/".to_owned()) } else { app.bindings.short(name) };
        if let Some(key) = key {
            right.push(Span::new(format!("{key} "), Style::new()));
            right.push(span(app, format!("{word}  "), Token::Dim));
        }
    }
    // Fewer hints where there is less room, the last ones kept.
    while end + width_of(&right) + 2 > area.right() && !right.is_empty() {
        right.drain(..2.min(right.len()));
    }
    spans(buffer, area.x, area.y, area.width, &left);
    let width = width_of(&right).saturating_sub(1);
    spans(buffer, area.right().saturating_sub(width), area.y, width, &right);
}

pub(super) fn popup(app: &AppState, buffer: &mut Buffer) {
    let Some(popup) = &app.popup else { return };
    let area = app.regions.popup;
    if area.width < 8 {
        return;
    }
    clear(buffer, area);
    let label = popup.items.iter().map(|item| text::width(&item.label)).max().unwrap_or(0);
    let label = label.min(usize::from(area.width).saturating_sub(4)).min(60);
    for (index, item) in popup.items.iter().enumerate().skip(popup.scroll).take(usize::from(area.height)) {
        let y = area.y + (index - popup.scroll) as u16;
        let chosen = index == popup.selected;
        let shown = text::ellipsis_start(&item.label, label);
        let pad = " ".repeat(label - text::width(&shown).min(label));
        let style = if chosen { with(Style::new(), Modifier::BOLD) } else { Style::new() };
        let row = [
            span(app, if chosen { " › " } else { "   " }, Token::Accent),
            Span::new(format!("{shown}{pad}  "), style),
            span(app, text::ellipsis(&item.detail, usize::from(area.width).saturating_sub(label + 6)), Token::Dim),
        ];
        spans(buffer, area.x, y, area.width, &row);
        if chosen {
            buffer.set_style(ratatui::layout::Rect { y, height: 1, ..area }, app.theme.style(Token::Selection));
        }
    }
}
