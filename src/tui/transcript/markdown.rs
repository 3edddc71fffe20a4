//! Markdown into rows. [`Flow`] takes a text that grows and lays out anew only what is not yet settled.

use std::sync::Arc;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};

use super::row::{CodeAt, Row, Span, Wrap, tidy, with, wrap};
use super::table;
use crate::text;
use crate::theme::{Theme, Token};

/// A piece of code that can be coloured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Code {
    /// What its fence or its file says of the language.
    pub language: String,
    /// Its lines, tidied.
    pub lines: Vec<String>,
}

/// A text in Markdown as far as it is laid out.
#[derive(Debug, Default)]
pub struct Flow {
    /// Rows that nothing that follows can change.
    pub rows: Vec<Row>,
    /// How many bytes of the text they stand for.
    settled: usize,
    fence: Option<Fence>,
    /// The pieces of code in `rows`.
    pub code: Vec<Code>,
}

#[derive(Debug, Clone)]
struct Fence {
    marker: u8,
    length: usize,
    indent: usize,
}

/// The margin before every row.
const MARGIN: &str = " ";
/// Deepest indent that is drawn: what is nested deeper stands at the same place.
const DEEPEST: usize = 24;

impl Flow {
    /// Takes what has come of the text; `done` when nothing more will.
    pub fn settle(&mut self, text: &str, width: u16, theme: &Theme, done: bool) {
        loop {
            if let Some(fence) = self.fence.clone() {
                let Some(end) =
                    line_end(text, self.settled).or((done && self.settled < text.len()).then_some(text.len()))
                else {
                    return;
                };
                let line = &text[self.settled..end];
                if closes(line, &fence) {
                    self.fence = None;
                } else {
                    self.code_line(line, &fence, width);
                }
                self.settled = end;
                continue;
            }
            match border(text, self.settled) {
                Some(Border::Block(at)) => {
                    self.chunk(&text[self.settled..at], width, theme);
                    self.settled = at;
                }
                Some(Border::Fence { at, end, fence, language }) => {
                    self.chunk(&text[self.settled..at], width, theme);
                    self.begin_code(language);
                    self.fence = Some(fence);
                    self.settled = end;
                }
                None => {
                    if done && self.settled < text.len() {
                        self.chunk(&text[self.settled..], width, theme);
                        self.settled = text.len();
                    }
                    return;
                }
            }
        }
    }

    /// The rows of what is not yet settled.
    pub fn tail(&self, text: &str, width: u16, theme: &Theme) -> Vec<Row> {
        let rest = &text[self.settled.min(text.len())..];
        if rest.is_empty() {
            return Vec::new();
        }
        let mut rows = Vec::new();
        match &self.fence {
            Some(fence) if closes(rest, fence) || rest.trim_start().bytes().all(|byte| byte == fence.marker) => {}
            Some(fence) => {
                let line = tidy(strip_indent(rest, fence.indent));
                rows = code_rows(&line, None, inner(width), 2);
            }
            None => {
                let mut builder = Builder::new(width, theme, !self.rows.is_empty(), self.code.len());
                builder.run(rest);
                // Its code is not settled, so that colours that came for it would not fit.
                rows = builder.rows;
                for row in &mut rows {
                    row.code = None;
                }
            }
        }
        rows
    }

    fn chunk(&mut self, text: &str, width: u16, theme: &Theme) {
        let mut builder = Builder::new(width, theme, !self.rows.is_empty(), self.code.len());
        builder.run(text);
        self.rows.append(&mut builder.rows);
        self.code.append(&mut builder.code);
    }

    fn begin_code(&mut self, language: String) {
        if !self.rows.is_empty() {
            self.rows.push(Row::default());
        }
        self.code.push(Code { language, lines: Vec::new() });
    }

    fn code_line(&mut self, line: &str, fence: &Fence, width: u16) {
        let Some(piece) = self.code.len().checked_sub(1) else { return };
        let line = tidy(strip_indent(line.trim_end_matches(['\n', '\r']), fence.indent));
        let at = CodeAt { piece: piece as u32, line: self.code[piece].lines.len() as u32, byte: 0 };
        self.rows.extend(code_rows(&line, Some(at), inner(width), 2));
        self.code[piece].lines.push(line);
    }
}

/// The cells of a width without the margin at its right edge.
fn inner(width: u16) -> u16 {
    width.saturating_sub(1).max(1)
}

/// A line of code as rows, `indent` cells in.
pub fn code_rows(line: &str, at: Option<CodeAt>, width: u16, indent: usize) -> Vec<Row> {
    let gutter = [Span::new(" ".repeat(MARGIN.len() + indent), Style::new())];
    let mut rows = wrap(&[Span::new(line, Style::new())], &gutter, &gutter, width, Wrap::Anywhere);
    let mut byte = 0;
    for row in &mut rows {
        row.code = at.map(|at| CodeAt { byte, ..at });
        byte += row.spans.iter().skip(1).map(|span| span.text.len()).sum::<usize>() as u32;
    }
    rows
}

enum Border {
    /// A new block begins there, and nothing before it can change.
    Block(usize),
    /// A fence opens.
    Fence { at: usize, end: usize, fence: Fence, language: String },
}

fn line_end(text: &str, from: usize) -> Option<usize> {
    text[from..].find('\n').map(|at| from + at + 1)
}

/// The next place from `from` at which the text can be cut for good.
fn border(text: &str, from: usize) -> Option<Border> {
    let mut at = from;
    let mut list = false;
    let mut blank = false;
    let mut nested: Option<Fence> = None;
    let mut some = false;
    while let Some(end) = line_end(text, at) {
        let line = &text[at..end];
        let content = line.trim();
        if let Some(fence) = &nested {
            if closes(line, fence) {
                nested = None;
            }
            at = end;
            continue;
        }
        if content.is_empty() {
            blank = some;
            at = end;
            continue;
        }
        let indent = line.len() - line.trim_start_matches(' ').len();
        let item = indent <= 3 && is_item(content);
        if blank && indent == 0 && !line.starts_with('\t') && !(list && item) {
            return Some(Border::Block(at));
        }
        if let Some((fence, language)) = opens(line) {
            if !list && fence.indent <= 3 {
                return Some(Border::Fence { at, end, fence, language });
            }
            nested = Some(fence);
        }
        list |= item;
        blank = false;
        some = true;
        at = end;
    }
    None
}

fn is_item(content: &str) -> bool {
    let digits = content.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &content[digits..];
    let marked = if digits == 0 { rest.strip_prefix(['-', '*', '+']) } else { rest.strip_prefix(['.', ')']) };
    marked.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

fn opens(line: &str) -> Option<(Fence, String)> {
    let content = line.trim_start_matches(' ');
    let indent = line.len() - content.len();
    let marker = content.bytes().next().filter(|byte| matches!(byte, b'`' | b'~'))?;
    let length = content.bytes().take_while(|byte| *byte == marker).count();
    let info = content[length..].trim();
    if length < 3 || (marker == b'`' && info.contains('`')) {
        return None;
    }
    let language = info.split([' ', ',', '{']).next().unwrap_or("").to_owned();
    Some((Fence { marker, length, indent }, language))
}

fn closes(line: &str, fence: &Fence) -> bool {
    let content = line.trim();
    content.len() >= fence.length && content.bytes().all(|byte| byte == fence.marker)
}

fn strip_indent(line: &str, indent: usize) -> &str {
    let blanks = line.bytes().take(indent).take_while(|byte| *byte == b' ').count();
    &line[blanks..]
}

/// An address as a terminal may be sent it: of the web or of mail, in plain characters (traps.md B148).
fn target(address: &str) -> Option<Arc<str>> {
    let lower = address.to_ascii_lowercase();
    let safe = ["http://", "https://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme));
    (safe && address.len() <= 2000 && address.bytes().all(|byte| byte.is_ascii_graphic())).then(|| address.into())
}

/// Lays out one chunk of Markdown.
struct Builder<'t> {
    theme: &'t Theme,
    width: u16,
    rows: Vec<Row>,
    code: Vec<Code>,
    first_piece: usize,
    /// A blank row stands before the next block.
    gap: bool,
    prefixes: Vec<Prefix>,
    spans: Vec<Span>,
    styles: Vec<Style>,
    lists: Vec<Option<u64>>,
    link: Option<(String, usize)>,
    /// Where the link that is open leads, where the terminal shows links.
    target: Option<Arc<str>>,
    in_code: bool,
    table: Option<table::Table>,
    /// Whether the item that is open has paragraphs parted by blank rows.
    tight: bool,
}

struct Prefix {
    /// Before the first row only; taken when it was used.
    first: Option<String>,
    rest: String,
    style: Style,
}

impl<'t> Builder<'t> {
    fn new(width: u16, theme: &'t Theme, gap: bool, first_piece: usize) -> Self {
        Builder {
            theme,
            width,
            rows: Vec::new(),
            code: Vec::new(),
            first_piece,
            gap,
            prefixes: Vec::new(),
            spans: Vec::new(),
            styles: vec![Style::new()],
            lists: Vec::new(),
            link: None,
            target: None,
            in_code: false,
            table: None,
            tight: true,
        }
    }

    fn run(&mut self, text: &str) {
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        // The parser hands text out in pieces, in which a sequence could not be told from text any longer.
        let text = cleaned(text);
        for event in Parser::new_ext(&text, options) {
            self.event(event);
        }
        self.flush();
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.in_code => {
                if let Some(code) = self.code.last_mut() {
                    code.lines.extend(text.lines().map(tidy));
                }
            }
            Event::Text(text) => self.push(&text, self.style()),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.push(&text, self.style().patch(self.theme.style(Token::Code)));
            }
            Event::Html(text) | Event::InlineHtml(text) => {
                self.push(text.trim_end_matches('\n'), self.style());
                if text.ends_with('\n') {
                    self.flush();
                }
            }
            Event::SoftBreak => self.push(" ", self.style()),
            Event::HardBreak => self.flush(),
            Event::Rule => {
                self.block();
                let room = usize::from(self.width).saturating_sub(self.gutter() + 1).min(60);
                self.spans.push(Span::new("─".repeat(room.max(1)), self.theme.style(Token::Border)));
                self.flush();
                self.gap = true;
            }
            Event::TaskListMarker(done) => {
                let (mark, token) = if done { ("☑ ", Token::Success) } else { ("☐ ", Token::Dim) };
                self.spans.push(Span::new(mark, self.theme.style(token)));
            }
            Event::FootnoteReference(name) => self.push(&format!("[{name}]"), self.theme.style(Token::Dim)),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        let style = self.style();
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.block(),
            Tag::Heading { level, .. } => {
                self.block();
                let mut style = with(self.theme.style(Token::Heading), Modifier::BOLD);
                if level == HeadingLevel::H1 {
                    style = with(style, Modifier::UNDERLINED);
                }
                self.styles.push(style);
            }
            Tag::BlockQuote(_) => {
                self.block();
                self.gap = false;
                let style = self.theme.style(Token::Quote);
                self.prefixes.push(Prefix { first: None, rest: "▏ ".into(), style });
                self.styles.push(style);
            }
            Tag::CodeBlock(kind) => {
                self.block();
                let language = match kind {
                    CodeBlockKind::Fenced(info) => info.split([' ', ',']).next().unwrap_or("").to_owned(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code.push(Code { language, lines: Vec::new() });
                self.in_code = true;
            }
            Tag::List(start) => {
                if self.lists.is_empty() {
                    self.block();
                } else {
                    self.flush();
                }
                self.gap = false;
                self.lists.push(start);
            }
            Tag::Item => {
                self.flush();
                let loose = !self.tight;
                self.gap = self.gap && loose;
                let depth = self.lists.len();
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ if depth.is_multiple_of(2) => "◦ ".to_owned(),
                    _ => "• ".to_owned(),
                };
                let rest = " ".repeat(text::width(&mark));
                self.prefixes.push(Prefix { first: Some(mark), rest, style: self.theme.style(Token::Dim) });
            }
            Tag::Emphasis => self.styles.push(with(style, Modifier::ITALIC)),
            Tag::Strong => self.styles.push(with(style, Modifier::BOLD)),
            Tag::Strikethrough => self.styles.push(with(style, Modifier::CROSSED_OUT)),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.target = Some(&dest_url).filter(|_| self.theme.hyperlinks).and_then(|address| target(address));
                self.link = Some((dest_url.to_string(), self.spans.len()));
                self.styles.push(with(style.patch(self.theme.style(Token::Link)), Modifier::UNDERLINED));
            }
            Tag::Table(alignments) => {
                self.block();
                self.table = Some(table::Table::new(alignments.iter().map(|a| align(*a)).collect()));
            }
            Tag::TableHead => self.styles.push(with(style, Modifier::BOLD)),
            Tag::TableRow | Tag::TableCell => {}
            Tag::FootnoteDefinition(name) => {
                self.block();
                self.push(&format!("[{name}] "), self.theme.style(Token::Dim));
            }
            Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.flush();
                self.gap = true;
            }
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
                self.gap = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.prefixes.pop();
                self.styles.pop();
                self.gap = true;
            }
            TagEnd::CodeBlock => {
                self.in_code = false;
                self.code_block();
                self.gap = true;
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.gap = true;
                self.tight = true;
            }
            TagEnd::Item => {
                // A paragraph within the item set the gap: the list is a loose one.
                self.tight = !self.gap || self.spans.is_empty() && self.lists.len() > 1;
                self.flush();
                self.prefixes.pop();
                self.gap = false;
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let room = usize::from(self.width).saturating_sub(self.gutter() + 1);
                    for (spans, join) in table.layout(room.max(1), self.theme) {
                        let (first, rest) = self.gutters();
                        let mut rows = wrap(&spans, &first, &rest, self.width, Wrap::Anywhere);
                        rows.truncate(1);
                        if let Some(row) = rows.first_mut() {
                            row.join = join;
                        }
                        self.rows.append(&mut rows);
                    }
                }
                self.gap = true;
            }
            TagEnd::TableHead => {
                self.styles.pop();
                if let Some(table) = &mut self.table {
                    table.end_row();
                }
            }
            TagEnd::TableRow => {
                if let Some(table) = &mut self.table {
                    table.end_row();
                }
            }
            TagEnd::TableCell => {
                let spans = std::mem::take(&mut self.spans);
                if let Some(table) = &mut self.table {
                    table.cell(spans);
                }
            }
            TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    /// Shows the address behind a link's text where the text is not the address.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some((address, begun)) = self.link.take() else { return };
        if self.target.take().is_some() {
            return;
        }
        let shown: String = self.spans.iter().skip(begun).map(|span| span.text.as_str()).collect();
        let address = text::visible(&address);
        if shown.trim() != address && !address.starts_with('#') && address != format!("mailto:{shown}") {
            let dim = self.theme.style(Token::Dim);
            self.push(&format!(" ({address})"), dim);
        }
    }

    fn push(&mut self, text: &str, style: Style) {
        let text = tidy(text);
        match self.spans.last_mut() {
            Some(last) if last.style == style && last.link == self.target => last.text.push_str(&text),
            _ => self.spans.push(Span { link: self.target.clone(), ..Span::new(text, style) }),
        }
    }

    /// Ends what came before and makes room for a new block.
    fn block(&mut self) {
        self.flush();
        if std::mem::take(&mut self.gap) {
            let row = Row::new(self.gutters_used(false));
            self.rows.push(Row { gutter: row.width() as u16, ..row });
        }
    }

    fn gutter(&self) -> usize {
        (MARGIN.len() + self.prefixes.iter().map(|prefix| text::width(&prefix.rest)).sum::<usize>()).min(DEEPEST)
    }

    fn gutters(&mut self) -> (Vec<Span>, Vec<Span>) {
        let first = self.gutters_used(true);
        for prefix in &mut self.prefixes {
            prefix.first = None;
        }
        (first, self.gutters_used(false))
    }

    fn gutters_used(&self, first: bool) -> Vec<Span> {
        let mut spans = vec![Span::new(MARGIN, Style::new())];
        let deepest = DEEPEST.min(usize::from(self.width) / 2);
        let mut used = MARGIN.len();
        for prefix in &self.prefixes {
            let text = prefix.first.as_ref().filter(|_| first).unwrap_or(&prefix.rest);
            used += text::width(text);
            if used > deepest.max(4) {
                break;
            }
            spans.push(Span::new(text.clone(), prefix.style));
        }
        spans
    }

    fn flush(&mut self) {
        if self.spans.is_empty() {
            return;
        }
        let spans = std::mem::take(&mut self.spans);
        let (first, rest) = self.gutters();
        self.rows.extend(wrap(&spans, &first, &rest, inner(self.width), Wrap::Words));
    }

    fn code_block(&mut self) {
        let Some(index) = self.code.len().checked_sub(1) else { return };
        let piece = (self.first_piece + index) as u32;
        let (mut first, mut rest) = self.gutters();
        first.push(Span::new("  ", Style::new()));
        rest.push(Span::new("  ", Style::new()));
        for (number, line) in self.code[index].lines.iter().enumerate() {
            let gutter = if number == 0 { &first } else { &rest };
            let mut rows =
                wrap(&[Span::new(line.clone(), Style::new())], gutter, &rest, inner(self.width), Wrap::Anywhere);
            let mut byte = 0;
            for row in &mut rows {
                row.code = Some(CodeAt { piece, line: number as u32, byte });
                byte += row.spans.last().map_or(0, |span| span.text.len()) as u32;
            }
            self.rows.append(&mut rows);
        }
    }
}

/// A source without control characters: symbols stand in their place.
fn cleaned(text: &str) -> std::borrow::Cow<'_, str> {
    let plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(plain) { text.into() } else { text::shown(text).into() }
}

fn align(alignment: Alignment) -> table::Align {
    match alignment {
        Alignment::None | Alignment::Left => table::Align::Left,
        Alignment::Center => table::Align::Middle,
        Alignment::Right => table::Align::Right,
    }
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
