//! Rows: what a block is laid out into, and the one function that wraps text.

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::style::{Modifier, Style};
use unicode_segmentation::UnicodeSegmentation;

use crate::text;

/// A piece of text in one style.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The text, without control characters.
    pub text: String,
    /// How it looks.
    pub style: Style,
    /// Where it leads, of a link that the terminal shows as one; it is fit to be sent to a terminal.
    pub link: Option<Arc<str>>,
}

impl Span {
    /// A piece.
    pub fn new(text: impl Into<String>, style: Style) -> Self {
        Span { text: text.into(), style, link: None }
    }
}

/// How a row follows on the one above it, when text is copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Join {
    /// It begins a line.
    #[default]
    Line,
    /// It was wrapped off the row above at so many blanks, which neither row holds.
    Blank(u16),
    /// It was wrapped off the row above within a word.
    Tight,
}

/// Where a row's text stands in a piece of code, so that colours that come later find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeAt {
    /// Which piece of code of the block.
    pub piece: u32,
    /// Which of its lines.
    pub line: u32,
    /// The byte of the line at which the row begins.
    pub byte: u32,
}

/// What a click on a row does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Hit {
    /// It begins a selection.
    #[default]
    Text,
    /// It folds or unfolds the block.
    Fold,
}

/// A character of a row: what a reader takes for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell<'r> {
    /// The character.
    pub text: &'r str,
    /// Its first column.
    pub from: u16,
    /// The column after its last.
    pub to: u16,
}

/// A row of the screen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// What stands in it, from the left edge.
    pub spans: Vec<Span>,
    /// Cells at its begin that are no text: bars, indents, line numbers.
    pub gutter: u16,
    /// How it follows on the row above.
    pub join: Join,
    /// Where its text stands in a piece of code.
    pub code: Option<CodeAt>,
    /// What a click does.
    pub hit: Hit,
}

impl Row {
    /// A row of spans.
    pub fn new(spans: Vec<Span>) -> Self {
        Row { spans, ..Row::default() }
    }

    /// A row of one text behind a margin of one cell.
    pub fn plain(text: impl Into<String>, style: Style) -> Self {
        Row { spans: vec![Span::new(" ", Style::new()), Span::new(text, style)], gutter: 1, ..Row::default() }
    }

    /// All of its text.
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// How many cells it takes.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| text::width(&span.text)).sum()
    }

    /// Writes it into a buffer, cut to `width`.
    pub fn draw(&self, buffer: &mut Buffer, x: u16, y: u16, width: u16) {
        let end = x.saturating_add(width).min(buffer.area.right());
        let mut at = x;
        for span in &self.spans {
            if at >= end {
                break;
            }
            (at, _) = buffer.set_stringn(at, y, &span.text, usize::from(end - at), span.style);
        }
    }

    /// Its characters with the cells that they take, gutter left out.
    pub fn cells(&self) -> impl Iterator<Item = Cell<'_>> {
        let mut end: u16 = 0;
        let graphemes = self.spans.iter().flat_map(|span| span.text.graphemes(true));
        let cells = graphemes.map(move |text| {
            let from = end;
            end = end.saturating_add(text::width(text) as u16);
            Cell { text, from, to: end }
        });
        cells.skip_while(|cell| cell.from < self.gutter)
    }

    /// The characters of which some cell lies between two columns, gutter left out.
    fn covered(&self, from: u16, to: u16) -> impl Iterator<Item = Cell<'_>> {
        // What takes no cell of its own counts as if it took one.
        self.cells().filter(move |cell| cell.to.max(cell.from + 1) > from && cell.from < to)
    }

    /// The text between two columns, gutter left out.
    pub fn slice(&self, from: u16, to: u16) -> String {
        self.covered(from, to).map(|cell| cell.text).collect()
    }

    /// The columns of the whole characters between two columns.
    pub fn snap(&self, from: u16, to: u16) -> (u16, u16) {
        let mut cells = self.covered(from, to);
        let Some(first) = cells.next() else { return (from, from) };
        (first.from, cells.last().map_or(first.to, |last| last.to))
    }
}

/// Makes a text fit for a row: control characters as symbols, tabs as blanks.
pub fn tidy(line: &str) -> String {
    let plain = |byte: u8| (0x20..0x7f).contains(&byte);
    if line.bytes().all(plain) {
        return line.to_owned();
    }
    let clean = text::shown(line);
    if !clean.contains(['\t', '\n']) {
        return clean;
    }
    let mut out = String::with_capacity(clean.len() + 8);
    let mut column = 0;
    for grapheme in clean.graphemes(true) {
        match grapheme {
            "\t" => {
                let blanks = 4 - column % 4;
                out.extend(std::iter::repeat_n(' ', blanks));
                column += blanks;
            }
            "\n" | "\r\n" => out.push(' '),
            other => {
                out.push_str(other);
                column += text::width(other);
            }
        }
    }
    out
}

/// Where lines may break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrap {
    /// At blanks and between wide characters; within a word only where it is longer than a line.
    Words,
    /// Anywhere: for code.
    Anywhere,
}

/// Wraps one line into rows of at most `width` cells. `first` stands before its first row and `rest` before
/// the others, as gutter.
pub fn wrap(spans: &[Span], first: &[Span], rest: &[Span], width: u16, how: Wrap) -> Vec<Row> {
    let mut rows = Vec::new();
    let cells_of = |spans: &[Span]| spans.iter().map(|span| text::width(&span.text)).sum::<usize>();
    let width = usize::from(width.max(1));
    // Most lines fit.
    if let Some(row) = whole(spans, first, width) {
        return vec![row];
    }
    let mut line = Line { spans: first.to_vec(), gutter: cells_of(first), used: 0, ..Line::default() };
    let room_of = |gutter: usize| width.saturating_sub(gutter).max(1);
    let mut room = room_of(line.gutter);
    for (index, span) in spans.iter().enumerate() {
        'graphemes: for grapheme in span.text.graphemes(true) {
            let cells = text::width(grapheme);
            if cells > room {
                // A wide character in a single column: nothing can be done but leave it out.
                continue;
            }
            // What is carried over may leave too little room again.
            while line.used + cells > room {
                let next = |join| Line { spans: rest.to_vec(), gutter: cells_of(rest), join, ..Line::default() };
                let blank = grapheme == " ";
                match line.last_break.filter(|_| how == Wrap::Words && !blank) {
                    Some(mark) => {
                        let (carried, blanks) = line.cut(mark);
                        let mut fresh = next(if mark.blank { Join::Blank(blanks) } else { Join::Tight });
                        for (span, index) in carried {
                            fresh.used += text::width(&span.text);
                            fresh.push(&span.text, &span, index);
                        }
                        rows.push(std::mem::replace(&mut line, fresh).row());
                    }
                    None => {
                        let join = if blank && how == Wrap::Words { Join::Blank(1) } else { Join::Tight };
                        rows.push(std::mem::replace(&mut line, next(join)).row());
                        if join != Join::Tight {
                            room = room_of(line.gutter);
                            continue 'graphemes;
                        }
                    }
                }
                room = room_of(line.gutter);
            }
            if cells == 2 && line.used > 0 {
                line.mark(false);
            }
            line.push(grapheme, span, index);
            line.used += cells;
            if grapheme == " " || cells == 2 {
                line.mark(grapheme == " ");
            }
        }
    }
    rows.push(line.row());
    rows
}

/// A line that fits into one row.
fn whole(spans: &[Span], first: &[Span], width: usize) -> Option<Row> {
    let mut used = 0;
    let mut gutter = 0;
    for (index, span) in first.iter().chain(spans).enumerate() {
        used += if span.text.is_ascii() { span.text.len() } else { text::width(&span.text) };
        if used > width {
            return None;
        }
        if index + 1 == first.len() {
            gutter = used as u16;
        }
    }
    let filled = spans.iter().filter(|span| !span.text.is_empty());
    Some(Row { spans: first.iter().chain(filled).cloned().collect(), gutter, ..Row::default() })
}

#[derive(Default)]
struct Line {
    spans: Vec<Span>,
    gutter: usize,
    used: usize,
    join: Join,
    /// Which source span the last span came from.
    source: Option<usize>,
    last_break: Option<Mark>,
}

/// A place where a line may break: a span, and a byte in it.
#[derive(Clone, Copy)]
struct Mark {
    span: usize,
    byte: usize,
    blank: bool,
}

impl Line {
    /// Adds text that looks, and leads, as `like` does.
    fn push(&mut self, text: &str, like: &Span, source: usize) {
        match self.spans.last_mut() {
            Some(last) if self.source == Some(source) => last.text.push_str(text),
            _ => {
                let mut owned = String::with_capacity(text.len().max(24));
                owned.push_str(text);
                self.spans.push(Span { text: owned, style: like.style, link: like.link.clone() });
                self.source = Some(source);
            }
        }
    }

    fn mark(&mut self, blank: bool) {
        if self.source.is_some() {
            let span = self.spans.len() - 1;
            self.last_break = Some(Mark { span, byte: self.spans[span].text.len(), blank });
        }
    }

    /// Cuts what stands after a mark off, and the blanks before it: how many of these there were.
    fn cut(&mut self, mark: Mark) -> (Vec<(Span, usize)>, u16) {
        let source = self.source.unwrap_or(0);
        let later = self.spans.split_off(mark.span + 1);
        let count = later.len();
        let tail = self.spans[mark.span].text.split_off(mark.byte);
        let tail = Span { text: tail, ..self.spans[mark.span].clone() };
        let mut carried = vec![(tail, source.saturating_sub(count))];
        carried.extend(later.into_iter().enumerate().map(|(at, span)| (span, source + 1 + at - count)));
        carried.retain(|(span, _)| !span.text.is_empty());
        let mut blanks = 0;
        if mark.blank {
            let text = &mut self.spans[mark.span].text;
            let kept = text.trim_end_matches(' ').len();
            blanks = (text.len() - kept) as u16;
            text.truncate(kept);
        }
        (carried, blanks)
    }

    fn row(mut self) -> Row {
        for span in &mut self.spans {
            span.text.shrink_to_fit();
        }
        Row { spans: self.spans, gutter: self.gutter as u16, join: self.join, ..Row::default() }
    }
}

/// Adds a modifier to a style.
pub fn with(style: Style, modifier: Modifier) -> Style {
    style.add_modifier(modifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, width: u16) -> Vec<String> {
        wrap(&[Span::new(text, Style::new())], &[], &[], width, Wrap::Words).iter().map(Row::text).collect()
    }

    #[test]
    fn words_stay_whole_where_they_can() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("one two ", 7), ["one two", ""]);
        assert_eq!(wrapped("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("a bcdefghij", 4), ["a", "bcde", "fghi", "j"]);
        assert_eq!(wrapped("", 4), [""]);
    }

    /// traps.md B77: 11 characters of two cells in 21.
    #[test]
    fn b77_wide_characters_never_pass_the_edge() {
        assert_eq!(wrapped("日本語テキスト日本語テ", 21), ["日本語テキスト日本語", "テ"]);
        for width in 1..30 {
            for row in wrapped("日本 👩‍🔬🥲🏻 ♻️♻️ ❤️ abc 한글 🇨🇳", width) {
                assert!(text::width(&row) <= usize::from(width), "{row:?} at {width}");
            }
        }
    }

    #[test]
    fn styles_follow_their_words() {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let spans = [Span::new("one ", Style::new()), Span::new("two three", bold), Span::new(" x", Style::new())];
        let rows = wrap(&spans, &[Span::new("- ", Style::new())], &[Span::new("  ", Style::new())], 9, Wrap::Words);
        let texts: Vec<String> = rows.iter().map(Row::text).collect();
        assert_eq!(texts, ["- one two", "  three x"]);
        assert_eq!(rows[1].spans[1], Span::new("three", bold));
        assert_eq!((rows[1].join, rows[1].gutter), (Join::Blank(1), 2));
    }

    #[test]
    fn a_slice_leaves_the_gutter_out() {
        let row = Row { gutter: 2, ..Row::new(vec![Span::new("> 日本abc", Style::new())]) };
        assert_eq!(row.slice(0, 6), "日本");
        assert_eq!(row.slice(4, 99), "本abc");
        // Half of a wide character is all of it.
        assert_eq!((row.slice(5, 99).as_str(), row.slice(2, 5).as_str()), ("本abc", "日本"));
        assert_eq!((row.snap(5, 6), row.snap(3, 5), row.snap(40, 50)), ((4, 6), (2, 6), (40, 40)));
    }

    #[test]
    fn tabs_and_sequences_do_not_reach_a_row() {
        assert_eq!(tidy("a\tb\x1b[2Jc"), "a   b␛[2Jc");
    }

    proptest::proptest! {
        #[test]
        fn nothing_is_lost_in_wrapping(text in "[a-z日本👩é ]{0,80}", width in 2u16..20, words: bool) {
            let how = if words { Wrap::Words } else { Wrap::Anywhere };
            let rows = wrap(&[Span::new(text.clone(), Style::new())], &[], &[], width, how);
            let mut joined = String::new();
            for row in &rows {
                proptest::prop_assert!(row.width() <= usize::from(width));
                if let Join::Blank(blanks) = row.join {
                    joined.extend(std::iter::repeat_n(' ', usize::from(blanks)));
                }
                joined.push_str(&row.text());
            }
            proptest::prop_assert_eq!(joined, text);
        }
    }
}
