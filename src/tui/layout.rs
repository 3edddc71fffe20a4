//! Where everything goes. This alone writes caches and hit boxes; drawing only reads them.

use ratatui::layout::Rect;

use super::app::{AppState, Overlay, Regions};
use super::list::scrolled;
use super::pane::{Output, Pane};
use super::term::Scrolled;
use super::transcript::block::Look;
use super::transcript::row::{Row, Span};
use super::transcript::tool::Extent;
use super::transcript::{Anchor, Kind, Search, Transcript, tool};
use crate::theme::Token;

/// Least columns for a pane beside the transcript.
const SIDE: u16 = 100;
/// Least size for anything at all.
const LEAST: (u16, u16) = (20, 5);

/// Lays everything out; says which rows only moved.
pub fn layout(app: &mut AppState) -> Option<Scrolled> {
    let before = app.regions;
    let view = app.transcript.view.clone();
    regions(app);
    if !app.regions.usable {
        return None;
    }
    let narrowed = before.transcript.width != app.regions.transcript.width;
    if narrowed {
        // Its cells are others now.
        app.selection = None;
        app.mouse.down = None;
    }
    let mut transcript = std::mem::take(&mut app.transcript);
    if let Some(mut search) = app.search.take() {
        let shown = |transcript: &Transcript, search: &Search| {
            search.current().is_some_and(|hit| transcript.view.contains(&hit.from.place))
        };
        let stood = shown(&transcript, &search);
        search.refresh(&mut transcript, app.look());
        transcript.layout(app.look(), app.regions.transcript.height);
        // Who looks at a hit looks at it in any width.
        if let Some(hit) = search.current().filter(|_| narrowed && stood && !shown(&transcript, &search)) {
            transcript.bring(hit.from.place, app.look());
        }
        app.search = Some(search);
    }
    transcript.layout(app.look(), app.regions.transcript.height);
    app.transcript = transcript;
    app.regions.mark = mark(app);
    pane(app);
    overlay(app);
    popup(app);
    let region = app.regions.transcript;
    let same = before.transcript == region && before.screen == app.regions.screen;
    // Only a region from edge to edge can be scrolled by the terminal.
    if !same || region.width != app.regions.screen.width || app.overlay.is_some() || app.popup.is_some() {
        return None;
    }
    let up = app.transcript.moved_up(&view) as u16;
    (up > 0 && up < region.height).then(|| Scrolled { top: region.y, bottom: region.bottom(), up })
}

fn regions(app: &mut AppState) {
    let (width, height) = app.size;
    let mut r = Regions { screen: Rect::new(0, 0, width, height), ..Regions::default() };
    r.usable = width >= LEAST.0 && height >= LEAST.1;
    if !r.usable {
        app.regions = r;
        return;
    }
    let header = u16::from(height >= 8);
    let mut footer = u16::from(height >= 7);
    let border = if height >= 9 { 2 } else { 0 };
    let text_width = width.saturating_sub(if border > 0 { 6 } else { 3 });
    let wanted = app.prompt.layout(text_width).min(usize::from(u16::MAX)) as u16;
    let text = wanted.clamp(1, (height / 3).max(1));
    let review = app.reviews.lay(width, height, &app.theme, app.generation);
    let mut prompt = text + border;
    let mut queue = (app.queue.len() as u16).min(4).min(height / 6);
    let status = u16::from(height >= 6);
    if review > 0 && header + footer + prompt + queue + status + review >= height {
        // The question takes the keys: where there is not room for both, what is written waits out of sight.
        (prompt, footer, queue) = (0, 0, 0);
    }
    let used = header + footer + prompt + queue + status + review;
    let body = height.saturating_sub(used).max(1);
    let mut y = 0;
    let mut take = |rows: u16| {
        let rows = rows.min(height - y);
        let rect = Rect::new(0, y, width, rows);
        y += rows;
        rect
    };
    r.header = take(header);
    // A free row under the header, where there are enough of them.
    let free = take(u16::from(height >= 20));
    let middle = take(body.saturating_sub(free.height).max(1));
    r.review = take(review);
    r.status = take(status);
    r.queue = take(queue);
    r.prompt = take(prompt);
    r.footer = take(footer);
    let inset = border / 2;
    r.text = Rect {
        x: r.prompt.x + if border > 0 { 4 } else { 2 },
        y: r.prompt.y + inset,
        width: text_width,
        height: r.prompt.height.saturating_sub(border),
    };
    app.prompt.place(r.text.height);
    r.transcript = middle;
    if app.pane.is_some() {
        if width >= SIDE {
            let pane = (width * 2 / 5).clamp(36, 90);
            r.transcript.width = width - pane;
            r.pane = Rect { x: width - pane, y: 0, width: pane, height: middle.bottom() };
            r.header.width = width - pane;
            r.side_by_side = true;
        } else {
            r.pane = middle;
        }
    }
    app.regions = r;
}

/// The mark that leads back to the transcript's end: there where the end is not in sight.
pub const MARKS: [&str; 2] = [" ↓ more ", " ↓ new "];

fn mark(app: &AppState) -> Rect {
    let region = app.regions.transcript;
    let covered = app.pane.is_some() && !app.regions.side_by_side;
    if app.transcript.anchor == Anchor::End || covered || region.height < 3 || region.width < 13 {
        return Rect::default();
    }
    let width = crate::text::width(MARKS[usize::from(app.transcript.news)]) as u16;
    Rect { x: region.right() - width - 1, y: region.bottom() - 1, width, height: 1 }
}

/// The newest call, which the output pane follows.
pub fn newest_call(transcript: &Transcript) -> Option<u64> {
    transcript.blocks.iter().rev().find(|block| matches!(block.kind, Kind::Tool(_))).map(|block| block.id)
}

fn pane(app: &mut AppState) {
    let region = app.regions.pane;
    let rows = usize::from(region.height.saturating_sub(1));
    match &mut app.pane {
        Some(Pane::Tree(pane)) => {
            pane.scroll = scrolled(pane.scroll, pane.selected, pane.rows.len(), rows.saturating_sub(1));
        }
        Some(Pane::Output(output)) => {
            let look = Look {
                theme: &app.theme,
                generation: app.generation,
                width: region.width.saturating_sub(u16::from(app.regions.side_by_side)),
                tick: app.tick,
                now: app.now,
            };
            lay_output(output, &app.transcript, look);
            let last = output.rows.len().saturating_sub(rows);
            output.top = output.scroll.unwrap_or(last).min(last);
        }
        None => {}
    }
}

fn lay_output(output: &mut Output, transcript: &Transcript, look: Look<'_>) {
    let Some(id) = output.block.or_else(|| newest_call(transcript)) else {
        output.rows = vec![Row::plain("no tool has run yet", look.theme.style(Token::Dim))];
        output.key = None;
        return;
    };
    let Some(call) = transcript.tool(id) else { return };
    let key = (id, look.width, look.generation, call.live.text().len(), call.runs());
    if output.key == Some(key) {
        return;
    }
    output.key = Some(key);
    let mut code = Vec::new();
    output.rows = match &output.log {
        Some((path, Ok(text))) => {
            let view = crate::toolkit::View::Terminal { text: text.clone(), log: None };
            let mut rows =
                vec![Row::plain(crate::text::visible(&path.to_string_lossy()), look.theme.style(Token::Dim))];
            rows.extend(tool::view_rows(&view, "", look.width, look.theme, Extent::All, &mut code));
            rows
        }
        Some((_, Err(error))) => vec![Row::plain(crate::text::visible(error), look.theme.style(Token::Error))],
        None => call.body(look.width, look.theme, Extent::All, &mut code),
    };
    if output.rows.is_empty() {
        output.rows = vec![Row::new(vec![Span::new(" (no output)", look.theme.style(Token::Dim))])];
    }
}

/// A box in the middle of the screen: above the prompt where it fits there, else over everything but header and footer.
fn middle(r: &Regions, width: u16, height: u16) -> Rect {
    let screen = r.screen;
    let (top, over) = (r.header.bottom(), r.review.bottom().max(r.transcript.bottom()).max(r.pane.bottom()));
    let fits = height <= over.saturating_sub(top);
    let end = if fits { over } else { screen.height - r.footer.height };
    let (width, height) = (width.min(screen.width), height.min(end.saturating_sub(top)));
    Rect { x: (screen.width - width) / 2, y: top + (end - top - height) / 2, width, height }
}

/// What is emptied for a box: its rows from edge to edge, and one above and below where there is one.
fn cleared(r: &Regions, region: Rect) -> Rect {
    let top = region.y.saturating_sub(1).max(r.header.bottom());
    // A prompt that is partly covered goes whole.
    let end = if region.bottom() > r.status.y { r.screen.height - r.footer.height } else { region.bottom() + 1 };
    Rect { x: 0, y: top, width: r.screen.width, height: end.min(r.screen.height).saturating_sub(top) }
}

fn overlay(app: &mut AppState) {
    let r = &mut app.regions;
    let wide = r.screen.width.saturating_sub(4).clamp(1, 110);
    let region = match &mut app.overlay {
        Some(Overlay::List(list)) => {
            let wanted = (list.items.len() as u16).saturating_add(4).clamp(8, 26);
            let region = middle(r, wide, wanted);
            list.place(usize::from(region.height.saturating_sub(4)));
            region
        }
        Some(Overlay::Page(page)) => {
            let width = wide.min(100);
            page.lay(width.saturating_sub(2), &app.theme, app.generation);
            let region = middle(r, width, (page.rows.len() as u16).saturating_add(2));
            let last = page.rows.len().saturating_sub(usize::from(region.height.saturating_sub(2)));
            page.scroll = page.scroll.min(last);
            region
        }
        Some(Overlay::Line(..)) => {
            let prompt = r.prompt;
            let height = 3.min(prompt.bottom());
            r.overlay = Rect { y: prompt.bottom() - height, height, ..prompt };
            r.cleared = r.overlay;
            return;
        }
        Some(Overlay::Ask(ask)) => {
            let width = wide.min(80);
            let answers = ask.answers.len();
            let most = usize::from(r.screen.height.saturating_sub(r.header.height + r.footer.height));
            ask.lay(width.saturating_sub(4), most.saturating_sub(answers + 3).max(1));
            middle(r, width, (ask.rows.len() + answers) as u16 + 3)
        }
        None => Rect::default(),
    };
    r.overlay = region;
    r.cleared = cleared(r, region);
}

/// Rows that the popup shows at most.
const POPUP: usize = 8;

fn popup(app: &mut AppState) {
    let Some(popup) = &mut app.popup else { return };
    let space = usize::from(app.regions.prompt.y);
    let height = popup.items.len().min(POPUP).min(space);
    popup.scroll = scrolled(popup.scroll, popup.selected, popup.items.len(), height);
    let widest = |part: fn(&super::list::PopupItem) -> &str| {
        popup.items.iter().map(|item| crate::text::width(part(item))).max().unwrap_or(0).min(100) as u16
    };
    let screen = app.regions.screen;
    let width = (widest(|item| &item.label) + widest(|item| &item.detail) + 6).clamp(20, 100);
    let width = width.min(screen.width.saturating_sub(2));
    let caret = app.regions.text.x + app.prompt.caret().x;
    let x = caret.saturating_sub(width / 3).min(screen.width.saturating_sub(width));
    let x = if app.regions.text.x > x { app.regions.prompt.x + 1 } else { x };
    let y = app.regions.prompt.y - height as u16;
    app.regions.popup = Rect { x, y, width: width.min(screen.width - x), height: height as u16 };
}
