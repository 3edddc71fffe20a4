//! Blocks: what a transcript is made of. A block has a source, a version and the rows that it was last laid
//! out into; it is laid out again only when one of these, the width, the theme or its fold changes.

use std::time::Instant;

use ratatui::style::{Modifier, Style};

use super::markdown::{Code, Flow};
use super::row::{Hit, Row, Span, Wrap, tidy, with, wrap};
use super::tool::{Extent, Tool};
use crate::session::EntryId;
use crate::theme::{Class, Theme, Token};

/// What a block shows.
#[derive(Debug)]
pub enum Kind {
    /// What the person said.
    User {
        /// The text.
        text: String,
        /// A label for each image.
        images: Vec<String>,
    },
    /// What the model answers.
    Answer {
        /// Markdown, as far as it came.
        text: String,
        /// Whether more may come.
        live: bool,
    },
    /// What the model thinks.
    Thinking {
        /// As far as it came.
        text: String,
        /// Whether more may come.
        live: bool,
    },
    /// A tool call.
    Tool(Box<Tool>),
    /// A remark of the program's own.
    Note {
        /// The text.
        text: String,
        /// How loud it is.
        tone: Tone,
    },
    /// A summary that took the place of what came before, or of a branch.
    Summary {
        /// What it is.
        title: String,
        /// Markdown.
        text: String,
    },
}

/// How loud a note is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// It may be overlooked.
    Quiet,
    /// It wants attention.
    Warning,
    /// Something failed.
    Error,
}

/// Whether a block's body is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Fold {
    /// As suits it.
    #[default]
    Auto,
    /// The person opened it.
    Open,
    /// The person closed it.
    Closed,
}

/// What laying out needs to know.
#[derive(Debug, Clone, Copy)]
pub struct Look<'t> {
    /// The theme.
    pub theme: &'t Theme,
    /// Counts changes of the theme.
    pub generation: u32,
    /// Cells from edge to edge.
    pub width: u16,
    /// Counts steps of the spinner.
    pub tick: u32,
    /// Now.
    pub now: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    version: u32,
    width: u16,
    generation: u32,
    fold: Fold,
    gap: bool,
    tick: u32,
}

/// What a block's rows stand for, apart from their width and colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    id: u64,
    version: u32,
    fold: Fold,
    gap: bool,
}

impl Stamp {
    /// Whether a block in this state may have come to the other one by growing alone.
    pub fn grew_to(&self, later: &Stamp) -> bool {
        *self == Stamp { version: self.version, ..*later }
    }
}

/// The classes of a line of code: up to which byte, and which.
pub type LineClasses = Box<[(u32, Option<Class>)]>;

/// The colours of a piece of code, as far as they have come.
#[derive(Debug, Default)]
pub struct Colours {
    /// One for each line.
    pub lines: Vec<LineClasses>,
    /// How many lines were asked for.
    pub asked: usize,
}

/// One block.
#[derive(Debug)]
pub struct Block {
    /// Unique among all blocks ever.
    pub id: u64,
    /// Its entry in the session.
    pub entry: Option<EntryId>,
    /// What it shows.
    pub kind: Kind,
    /// Whether its body is shown.
    pub fold: Fold,
    /// The colours of its pieces of code.
    pub colours: Vec<Colours>,
    version: u32,
    key: Option<Key>,
    gap: bool,
    flow: Flow,
    rows: Vec<Row>,
    code: Vec<Code>,
}

impl Block {
    /// A new one.
    pub fn new(id: u64, kind: Kind, entry: Option<EntryId>) -> Self {
        Block {
            id,
            entry,
            kind,
            fold: Fold::Auto,
            colours: Vec::new(),
            version: 0,
            key: None,
            gap: false,
            flow: Flow::default(),
            rows: Vec::new(),
            code: Vec::new(),
        }
    }

    /// The state that its rows stand for, with or without a blank row before it.
    pub fn stamp(&self, gap: bool) -> Stamp {
        Stamp { id: self.id, version: self.version, fold: self.fold, gap }
    }

    /// Its source changed.
    pub fn touch(&mut self) {
        self.version = self.version.wrapping_add(1);
    }

    /// Whether nothing more will come of it by itself.
    pub fn is_finished(&self) -> bool {
        match &self.kind {
            Kind::Answer { live, .. } | Kind::Thinking { live, .. } => !live,
            Kind::Tool(tool) => !tool.runs(),
            Kind::User { .. } | Kind::Note { .. } | Kind::Summary { .. } => true,
        }
    }

    /// Whether its body is shown.
    pub fn is_open(&self) -> bool {
        match (self.fold, &self.kind) {
            (Fold::Open, _) => true,
            (Fold::Closed, _) => false,
            (Fold::Auto, Kind::Tool(tool)) => tool.opens_itself(),
            (Fold::Auto, Kind::Thinking { live, .. }) => *live,
            (Fold::Auto, Kind::Summary { .. }) => false,
            (Fold::Auto, Kind::User { .. } | Kind::Answer { .. } | Kind::Note { .. }) => true,
        }
    }

    /// Lays it out, where that is needed. `gap` asks for a blank row before it. Returns how many rows were made.
    pub fn lay(&mut self, look: Look<'_>, gap: bool) -> usize {
        let tick = if matches!(&self.kind, Kind::Tool(tool) if tool.runs()) { look.tick } else { 0 };
        let key =
            Key { version: self.version, width: look.width, generation: look.generation, fold: self.fold, gap, tick };
        if self.key == Some(key) {
            return 0;
        }
        let reflow =
            self.key.is_none_or(|old| (old.width, old.generation, old.fold) != (key.width, key.generation, key.fold));
        self.key = Some(key);
        self.gap = gap;
        let theme = look.theme;
        match &self.kind {
            Kind::Answer { text, live } => {
                if reflow {
                    self.flow = Flow::default();
                }
                self.flow.settle(text, look.width, theme, !live);
                self.rows = if *live { self.flow.tail(text, look.width, theme) } else { Vec::new() };
                self.gap = gap && !(self.flow.rows.is_empty() && self.rows.is_empty());
            }
            Kind::User { text, images } => {
                let bar = [Span::new(" ▌ ", theme.style(Token::User))];
                self.rows.clear();
                let bold = with(Style::new(), Modifier::BOLD);
                for line in text.lines() {
                    let width = look.width.saturating_sub(1);
                    self.rows.extend(wrap(&[Span::new(tidy(line), bold)], &bar, &bar, width, Wrap::Words));
                }
                for label in images {
                    self.rows.extend(wrap(
                        &[Span::new(label.clone(), theme.style(Token::Dim))],
                        &bar,
                        &bar,
                        look.width,
                        Wrap::Words,
                    ));
                }
            }
            Kind::Thinking { text, live } => self.rows = thinking(text, *live, self.fold, look),
            Kind::Tool(tool) => {
                let open = self.is_open();
                self.code.clear();
                let mut rows = vec![tool.head(look.width, theme, open, look.tick, look.now)];
                if open {
                    let extent = if self.fold == Fold::Open { Extent::Open } else { Extent::Glance };
                    rows.extend(tool.body(look.width, theme, extent, &mut self.code));
                }
                self.rows = rows;
            }
            Kind::Note { text, tone } => {
                let (mark, style) = match tone {
                    Tone::Quiet => (" · ", theme.style(Token::Dim)),
                    Tone::Warning => (" ! ", theme.style(Token::Warning)),
                    Tone::Error => (" ✗ ", theme.style(Token::Error)),
                };
                self.rows.clear();
                let mut first = Span::new(mark, style);
                for line in text.lines() {
                    let rest = [Span::new("   ", Style::new())];
                    let spans = [Span::new(tidy(line), style)];
                    let width = look.width.saturating_sub(1);
                    self.rows.extend(wrap(&spans, std::slice::from_ref(&first), &rest, width, Wrap::Words));
                    first = Span::new("   ", style);
                }
            }
            Kind::Summary { title, text } => {
                let mark = if self.is_open() { " ▾ " } else { " ▸ " };
                let dim = theme.style(Token::Dim);
                let head = Row::new(vec![Span::new(mark, dim), Span::new(tidy(title), dim)]);
                self.rows = vec![Row { gutter: 3, hit: Hit::Fold, ..head }];
                if self.is_open() {
                    let mut flow = Flow::default();
                    flow.settle(text, look.width, theme, true);
                    self.rows.append(&mut flow.rows);
                    self.code = flow.code;
                }
            }
        }
        self.height()
    }

    /// Forgets its rows; they are made again when they are needed.
    pub fn forget(&mut self) {
        self.key = None;
        self.flow = Flow::default();
        self.rows = Vec::new();
        self.code = Vec::new();
    }

    /// Whether it has rows.
    pub fn is_laid(&self) -> bool {
        self.key.is_some()
    }

    /// How many rows it has, the gap included; 0 before it is laid out.
    pub fn height(&self) -> usize {
        usize::from(self.gap) + self.flow.rows.len() + self.rows.len()
    }

    /// How many of its rows, the gap included, stay as they are while it grows.
    pub fn settled_rows(&self) -> usize {
        match &self.kind {
            Kind::Answer { live: true, .. } => usize::from(self.gap) + self.flow.rows.len(),
            _ => 0,
        }
    }

    /// One of its rows; `None` for the gap.
    pub fn row(&self, index: usize) -> Option<&Row> {
        let index = index.checked_sub(usize::from(self.gap))?;
        self.flow.rows.get(index).or_else(|| self.rows.get(index - self.flow.rows.len().min(index)))
    }

    /// Its pieces of code, settled ones only.
    pub fn code(&self) -> &[Code] {
        if self.flow.code.is_empty() { &self.code } else { &self.flow.code }
    }

    /// Its source, for searching and copying.
    pub fn source(&self) -> std::borrow::Cow<'_, str> {
        use std::borrow::Cow;
        match &self.kind {
            Kind::User { text, .. }
            | Kind::Answer { text, .. }
            | Kind::Thinking { text, .. }
            | Kind::Note { text, .. }
            | Kind::Summary { text, .. } => Cow::Borrowed(text),
            Kind::Tool(tool) => Cow::Owned(format!("{} {}\n{}", tool.name, tool.title, tool.output())),
        }
    }
}

/// Lines of thinking that are shown while it goes on.
const THINKING_LIVE: usize = 4;

fn thinking(text: &str, live: bool, fold: Fold, look: Look<'_>) -> Vec<Row> {
    let theme = look.theme;
    let style = with(theme.style(Token::Thinking), Modifier::ITALIC);
    let text = text.trim();
    if text.is_empty() {
        return if live { vec![Row::plain("  thinking…", style)] } else { Vec::new() };
    }
    let gutter = [Span::new("   ", Style::new())];
    let width = look.width.saturating_sub(1);
    let all = |text: &str| {
        let lines = text.lines().map(|line| [Span::new(tidy(line), style)]);
        lines.flat_map(|line| wrap(&line, &gutter, &gutter, width, Wrap::Words)).collect::<Vec<_>>()
    };
    let head = |mark: &str, note: String| {
        let row = Row::new(vec![Span::new(mark, theme.style(Token::Dim)), Span::new(note, style)]);
        Row { gutter: 3, hit: Hit::Fold, ..row }
    };
    match (fold, live) {
        (Fold::Open, _) => {
            let mut rows = vec![head(" ▾ ", "thinking".into())];
            rows.extend(all(text));
            rows
        }
        (Fold::Auto, true) => {
            // Only the end is shown, so that only the end is laid out.
            let tail = crate::text::tail(text, usize::from(look.width) * (THINKING_LIVE + 1));
            let mut rows = all(tail);
            let cut = rows.len().saturating_sub(THINKING_LIVE);
            rows.drain(..cut);
            rows.insert(0, head(" ▾ ", "thinking".into()));
            rows
        }
        (Fold::Auto | Fold::Closed, _) => {
            let first = tidy(crate::text::first_line(text)).replace("**", "");
            let room = usize::from(width).saturating_sub(14);
            vec![head(" ▸ ", format!("thought: {}", crate::text::ellipsis(&first, room)))]
        }
    }
}
