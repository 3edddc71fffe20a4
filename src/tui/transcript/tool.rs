//! Tool calls: one row with live state, and a body that is rendered by the kind of its [`View`]. A tool's name
//! is only ever shown, never asked for.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ansi_to_tui::IntoText;
use ratatui::style::{Modifier, Style};

use super::markdown::{Code, Flow, code_rows};
use super::row::{CodeAt, Hit, Row, Span, Wrap, tidy, with, wrap};
use crate::message::{Block, Message, ToolCall, ToolMessage, text_of};
use crate::text;
use crate::theme::{Theme, Token};
use crate::toolkit::{DiffLine, Hunk, View};

/// A tool call as it is shown.
#[derive(Debug, Default)]
pub struct Tool {
    /// The call's id.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// What the call is about.
    pub title: String,
    /// How far it is.
    pub state: State,
    /// What it printed so far.
    pub live: Live,
    /// Why it was not run.
    pub denied: Option<String>,
}

/// How far a call is.
#[derive(Debug, Default)]
pub enum State {
    /// It never came to run, or its end is not known.
    #[default]
    Open,
    /// It runs since then.
    Running(Instant),
    /// It ended.
    Done(Outcome),
}

/// How a call ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Whether it did what was asked.
    pub ok: bool,
    /// A few words.
    pub summary: String,
    /// How long it ran, in milliseconds.
    pub duration_ms: Option<u64>,
    /// The exit code, of a command.
    pub exit_code: Option<i32>,
    /// What the model got.
    pub output: String,
    /// What the person sees in its stead.
    pub view: Option<View>,
    /// The entry's message, which holds all of that.
    pub message: Option<Arc<Message>>,
}

/// Output that is kept while it comes: its end, and how many lines were before that.
#[derive(Debug, Default)]
pub struct Live {
    text: String,
    dropped: usize,
}

const LIVE_MOST: usize = 512 * 1024;

impl Live {
    /// Takes more.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        if self.text.len() > LIVE_MOST {
            let cut = self.text.ceil_char_boundary(self.text.len() - LIVE_MOST / 2);
            let cut = self.text[cut..].find('\n').map_or(cut, |at| cut + at + 1);
            self.dropped += self.text[..cut].matches('\n').count();
            self.text.drain(..cut);
        }
    }

    /// What is kept of it.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// How much of a body is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What stands in the transcript without a click.
    Glance,
    /// What stands there after a click.
    Open,
    /// Everything.
    All,
}

/// Lines that a glance shows.
const GLANCE: usize = 6;
const GLANCE_DIFF: usize = 14;
/// Lines that an open body shows in the transcript; the output pane has all of them.
const OPEN: usize = 300;

impl Tool {
    /// A call of the history, whose result may follow.
    pub fn of_call(call: &ToolCall) -> Self {
        Tool { call_id: call.id.clone(), name: call.name.clone(), title: title_of(call), ..Tool::default() }
    }

    /// Takes the result as the session holds it.
    pub fn take_result(&mut self, message: &Arc<Message>) {
        let Message::Tool(result) = &**message else { return };
        let ToolMessage { is_error, duration_ms, exit_code, summary, .. } = result;
        self.state = State::Done(Outcome {
            ok: !is_error,
            summary: summary.clone(),
            duration_ms: *duration_ms,
            exit_code: *exit_code,
            message: Some(message.clone()),
            ..Outcome::default()
        });
        self.live = Live::default();
    }

    /// Whether it runs.
    pub fn runs(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    fn outcome(&self) -> Option<&Outcome> {
        match &self.state {
            State::Done(outcome) => Some(outcome),
            State::Open | State::Running(_) => None,
        }
    }

    /// How it is shown, where it says so.
    pub fn view(&self) -> Option<&View> {
        let outcome = self.outcome()?;
        match (&outcome.view, outcome.message.as_deref()) {
            (Some(view), _) => Some(view),
            (None, Some(Message::Tool(message))) => message.view.as_ref(),
            (None, _) => None,
        }
    }

    /// What the model got.
    pub fn output(&self) -> Cow<'_, str> {
        match self.outcome() {
            None => Cow::Borrowed(self.live.text()),
            Some(Outcome { message: Some(message), .. }) => Cow::Owned(text_of(message.content())),
            Some(outcome) => Cow::Borrowed(&outcome.output),
        }
    }

    /// The file that holds all of the output.
    pub fn log(&self) -> Option<&std::path::Path> {
        match self.view() {
            Some(View::Terminal { log, .. }) => log.as_deref(),
            _ => None,
        }
    }

    /// Whether its body is shown without a click.
    pub fn opens_itself(&self) -> bool {
        match (&self.state, self.view()) {
            (State::Open, _) => false,
            (State::Running(_), _) => !self.live.text().is_empty(),
            (State::Done(outcome), None) => !outcome.ok,
            (State::Done(outcome), Some(view)) => match view {
                View::Diff { .. } | View::Terminal { .. } | View::Image { .. } => true,
                View::Markdown { .. } => true,
                View::Text { .. } | View::File { .. } | View::Matches | View::Paths | View::Unknown => !outcome.ok,
            },
        }
    }

    /// The row that stands for the call.
    pub fn head(&self, width: u16, theme: &Theme, open: bool, tick: u32, now: Instant) -> Row {
        let dim = theme.style(Token::Dim);
        let (mark, mark_style) = match (&self.state, open) {
            (State::Running(_), _) => (super::spinner(tick), theme.style(Token::Accent)),
            (_, true) => ("▾", dim),
            (_, false) => ("▸", dim),
        };
        let width = usize::from(width).saturating_sub(1);
        let mut right: Vec<Span> = Vec::new();
        match &self.state {
            State::Open => right.push(Span::new(self.denied.as_deref().map_or("not run", |_| "denied"), dim)),
            // Fractions of a second would only flicker.
            State::Running(since) => match now.saturating_duration_since(*since).as_secs() {
                0 => {}
                seconds => right.push(Span::new(clock(seconds), dim)),
            },
            State::Done(outcome) => {
                let (sign, token) = if outcome.ok { ("✓", Token::Success) } else { ("✗", Token::Error) };
                let mut words = tidy(&outcome.summary);
                if !outcome.ok && words.is_empty() {
                    words = outcome.exit_code.map_or(String::new(), |code| code.to_string());
                }
                if let Some(changes) = self.changes().filter(|_| outcome.ok) {
                    right.push(Span::new(format!("+{}", changes.0), theme.style(Token::Added)));
                    right.push(Span::new(format!(" −{}", changes.1), theme.style(Token::Removed)));
                } else {
                    if !outcome.ok || words.is_empty() {
                        let space = if words.is_empty() { "" } else { " " };
                        right.push(Span::new(format!("{sign}{space}"), theme.style(token)));
                    }
                    right.push(Span::new(words, if outcome.ok { dim } else { theme.style(token) }));
                }
                if let Some(ms) = outcome.duration_ms {
                    right.push(Span::new(format!("{:>7}", time(Duration::from_millis(ms))), dim));
                }
            }
        }
        let mut right_width: usize = right.iter().map(|span| text::width(&span.text)).sum();
        let name = text::ellipsis(&tidy(&self.name), 20);
        let name_width = text::width(&name).max(6);
        let left = 3 + name_width + 1;
        if left + right_width + 6 > width {
            right.clear();
            right_width = 0;
        }
        let room = width.saturating_sub(left + right_width + 2);
        let title = text::ellipsis(&tidy(text::first_line(&self.title)), room);
        let blanks = width.saturating_sub(left + text::width(&title) + right_width);
        let padded = format!("{name}{}", " ".repeat(name_width + 1 - text::width(&name)));
        let mut spans = vec![
            Span::new(" ", Style::new()),
            Span::new(mark, mark_style),
            Span::new(" ", Style::new()),
            Span::new(text::ellipsis(&padded, width.saturating_sub(3)), with(theme.style(Token::Tool), Modifier::BOLD)),
            Span::new(title, Style::new()),
        ];
        if !right.is_empty() {
            spans.push(Span::new(" ".repeat(blanks), Style::new()));
            spans.extend(right);
        }
        Row { gutter: 3, hit: Hit::Fold, ..Row::new(spans) }
    }

    /// How it ended, in a few words; `None` while it has not.
    pub fn outcome_words(&self) -> Option<String> {
        let outcome = self.outcome()?;
        let sign = if outcome.ok { "✓" } else { "✗" };
        let code = outcome.exit_code.filter(|_| !outcome.ok).map(|code| code.to_string());
        let words = Some(tidy(&outcome.summary)).filter(|words| !words.is_empty()).or(code);
        Some(words.map_or(sign.to_owned(), |words| format!("{sign} {words}")))
    }

    fn changes(&self) -> Option<(usize, usize)> {
        let Some(View::Diff { hunks, .. }) = self.view() else { return None };
        let lines = hunks.iter().flat_map(|hunk| &hunk.lines);
        Some(lines.fold((0, 0), |(added, removed), line| match line {
            DiffLine::Added(_) => (added + 1, removed),
            DiffLine::Removed(_) => (added, removed + 1),
            DiffLine::Context(_) => (added, removed),
        }))
    }

    /// The rows of its body. Pieces of code that can be coloured are added to `code`.
    pub fn body(&self, width: u16, theme: &Theme, extent: Extent, code: &mut Vec<Code>) -> Vec<Row> {
        if let Some(reason) = &self.denied {
            return lines_of(reason, width, theme.style(Token::Warning), extent, theme);
        }
        let view = self.view();
        let output = self.output();
        let Some(view) = view else {
            return match &self.state {
                State::Running(_) | State::Open => terminal(&output, self.live.dropped, width, theme, extent),
                State::Done(_) => lines_of(&output, width, Style::new(), extent, theme),
            };
        };
        let mut rows = match view {
            View::Terminal { text, .. } if text.is_empty() => terminal(&output, 0, width, theme, extent),
            View::Terminal { text, .. } => terminal(text, 0, width, theme, extent),
            view => view_rows(view, &output, width, theme, extent, code),
        };
        if extent == Extent::All
            && let Some(log) = self.log()
        {
            rows.push(Row::plain(
                format!("all of it: {}", text::visible(&log.to_string_lossy())),
                theme.style(Token::Dim),
            ));
        }
        rows
    }
}

/// The rows of a view; `output` stands in where it holds no text of its own.
pub fn view_rows(
    view: &View,
    output: &str,
    width: u16,
    theme: &Theme,
    extent: Extent,
    code: &mut Vec<Code>,
) -> Vec<Row> {
    match view {
        View::Text { text } => {
            lines_of(if text.is_empty() { output } else { text }, width, Style::new(), extent, theme)
        }
        View::Terminal { text, .. } => terminal(if text.is_empty() { output } else { text }, 0, width, theme, extent),
        View::File { path, first_line, text } => {
            let text = if text.is_empty() { output } else { text };
            file(path, *first_line, text, width, theme, extent, code)
        }
        View::Diff { path: _, hunks } => diff(hunks, width, theme, extent),
        View::Image { mime_type, width: w, height: h, bytes } => {
            vec![Row::plain(format!("  {}", image_label(mime_type, *w, *h, *bytes)), theme.style(Token::Dim))]
        }
        View::Markdown { text } => {
            let mut flow = Flow::default();
            flow.settle(text, width, theme, true);
            for row in &mut flow.rows {
                row.code = None;
            }
            flow.rows
        }
        View::Matches | View::Paths | View::Unknown => lines_of(output, width, Style::new(), extent, theme),
    }
}

/// Such as `[image PNG 1280×720 · 340 kB]`.
pub fn image_label(mime_type: &str, width: u32, height: u32, bytes: u64) -> String {
    let kind = text::visible(mime_type.strip_prefix("image/").unwrap_or(mime_type)).to_uppercase();
    let size = if width > 0 { format!(" {width}×{height}") } else { String::new() };
    format!("[image {kind}{size} · {}]", crate::tui::words::bytes(bytes))
}

/// A call's title where only its arguments are known: the first text among them.
fn title_of(call: &ToolCall) -> String {
    let short = |value: &&serde_json::Value| value.is_string() || value.is_number();
    match call.arguments.values().find(short) {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

fn more(count: usize, what: &str, theme: &Theme) -> Row {
    let row = Row::plain(format!("  … {count} {what} lines"), theme.style(Token::Dim));
    Row { gutter: u16::MAX, hit: Hit::Fold, ..row }
}

/// The cells of a width without the margin at its right edge.
fn inner(width: u16) -> u16 {
    width.saturating_sub(1).max(1)
}

fn limit_of(extent: Extent, glance: usize) -> usize {
    match extent {
        Extent::Glance => glance,
        Extent::Open => OPEN,
        Extent::All => usize::MAX,
    }
}

fn lines_of(text: &str, width: u16, style: Style, extent: Extent, theme: &Theme) -> Vec<Row> {
    let limit = limit_of(extent, GLANCE);
    let mut rows = Vec::new();
    let mut lines = text.lines();
    let gutter = [Span::new("   ", Style::new())];
    for line in lines.by_ref().take(limit) {
        rows.extend(wrap(&[Span::new(tidy(line), style)], &gutter, &gutter, inner(width), Wrap::Anywhere));
    }
    let rest = lines.count();
    if rest > 0 {
        rows.push(more(rest, "more", theme));
    }
    rows
}

/// What a terminal shows of a line on which carriage returns went back to the start.
fn overprinted(line: &str) -> &str {
    let line = line.trim_end_matches('\r');
    line.rsplit('\r').next().unwrap_or(line)
}

fn terminal(text: &str, dropped: usize, width: u16, theme: &Theme, extent: Extent) -> Vec<Row> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    if text.is_empty() {
        return Vec::new();
    }
    let limit = limit_of(extent, GLANCE);
    let mut lines: Vec<&str> = Vec::new();
    let mut hidden = dropped;
    for line in text.rsplit('\n') {
        if lines.len() < limit {
            lines.push(line);
        } else {
            hidden += 1;
        }
    }
    let mut rows = Vec::new();
    if hidden > 0 {
        rows.push(more(hidden, "earlier", theme));
    }
    let gutter = [Span::new("   ", Style::new())];
    for line in lines.into_iter().rev() {
        let mut spans = coloured(overprinted(line));
        for span in &mut spans {
            span.style = theme.fit(span.style);
        }
        rows.extend(wrap(&spans, &gutter, &gutter, inner(width), Wrap::Anywhere));
    }
    rows
}

/// A line with its colours; every other sequence is gone.
pub fn coloured(line: &str) -> Vec<Span> {
    if line.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return vec![Span::new(line, Style::new())];
    }
    let clean = text::clean_keeping_colour(line);
    if !clean.contains('\x1b') {
        return vec![Span::new(tidy(&clean), Style::new())];
    }
    match clean.into_text() {
        Ok(text) => {
            let spans = text.lines.iter().flat_map(|line| {
                let base = line.style;
                line.spans.iter().map(move |span| Span::new(tidy(&span.content), base.patch(span.style)))
            });
            spans.filter(|span| !span.text.is_empty()).collect()
        }
        Err(_) => vec![Span::new(tidy(&clean), Style::new())],
    }
}

fn file(
    path: &str,
    first_line: usize,
    text: &str,
    width: u16,
    theme: &Theme,
    extent: Extent,
    code: &mut Vec<Code>,
) -> Vec<Row> {
    let limit = limit_of(extent, GLANCE);
    let total = text.lines().count();
    let digits = (first_line + total.min(limit)).to_string().len();
    let dim = theme.style(Token::Dim);
    let piece = code.len() as u32;
    let mut kept = Code { language: language_of(path), lines: Vec::new() };
    let mut rows = Vec::new();
    for (number, line) in text.lines().take(limit).enumerate() {
        let line = tidy(line);
        let at = CodeAt { piece, line: number as u32, byte: 0 };
        let mut new = code_rows(&line, Some(at), inner(width), digits + 4);
        for (index, row) in new.iter_mut().enumerate() {
            let shown = if index == 0 { (first_line + number).to_string() } else { String::new() };
            if let Some(gutter) = row.spans.first_mut() {
                *gutter = Span::new(format!("   {shown:>digits$}  "), dim);
            }
        }
        rows.append(&mut new);
        kept.lines.push(line);
    }
    code.push(kept);
    if total > limit {
        rows.push(more(total - limit, "more", theme));
    }
    rows
}

/// The token by which a highlighter knows a file's language.
pub fn language_of(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => extension.to_owned(),
        _ => name.to_owned(),
    }
}

fn diff(hunks: &[Hunk], width: u16, theme: &Theme, extent: Extent) -> Vec<Row> {
    let limit = limit_of(extent, GLANCE_DIFF);
    let ends = hunks.iter().map(|hunk| hunk.old_start.max(hunk.new_start) + hunk.lines.len());
    let digits = ends.max().unwrap_or(1).to_string().len();
    let dim = theme.style(Token::Dim);
    let mut rows = Vec::new();
    let mut shown = 0;
    let mut hidden = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let (mut old, mut new) = (hunk.old_start, hunk.new_start);
        if index > 0 && shown < limit {
            rows.push(Row { gutter: u16::MAX, ..Row::plain(format!("  {:>digits$}", "⋮"), dim) });
        }
        for line in &hunk.lines {
            let (number, sign, text, style) = match line {
                DiffLine::Context(text) => (new, ' ', text, Style::new()),
                DiffLine::Removed(text) => (old, '-', text, theme.style(Token::Removed)),
                DiffLine::Added(text) => (new, '+', text, theme.style(Token::Added)),
            };
            match line {
                DiffLine::Context(_) => (old, new) = (old + 1, new + 1),
                DiffLine::Removed(_) => old += 1,
                DiffLine::Added(_) => new += 1,
            }
            if shown >= limit {
                hidden += 1;
                continue;
            }
            shown += 1;
            let first = [Span::new(format!("   {number:>digits$} "), dim), Span::new(format!("{sign} "), style)];
            let rest = [Span::new(" ".repeat(digits + 6), dim)];
            rows.extend(wrap(&[Span::new(tidy(text), style)], &first, &rest, inner(width), Wrap::Anywhere));
        }
    }
    if hidden > 0 {
        rows.push(more(hidden, "more", theme));
    }
    rows
}

/// How long something goes on, in whole seconds: `3s`, `2m05s`.
pub fn clock(seconds: u64) -> String {
    if seconds < 60 { format!("{seconds}s") } else { time(Duration::from_secs(seconds)) }
}

/// A duration in few characters: `4ms`, `3.2s`, `2m05s`, `1h02m`.
pub fn time(duration: Duration) -> String {
    let ms = duration.as_millis();
    let seconds = duration.as_secs();
    match ms {
        0..1000 => format!("{ms}ms"),
        1000..10_000 => format!("{:.1}s", ms as f64 / 1000.0),
        10_000..60_000 => format!("{seconds}s"),
        60_000..3_600_000 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// What images a content holds, as labels.
pub fn images_of(content: &[Block]) -> Vec<String> {
    let labels = content.iter().filter_map(|block| match block {
        Block::Image { mime_type, data } => {
            let (width, height) = crate::tui::images::size_of(data).unwrap_or_default();
            Some(image_label(mime_type, width, height, data.len() as u64 * 3 / 4))
        }
        _ => None,
    });
    labels.collect()
}
