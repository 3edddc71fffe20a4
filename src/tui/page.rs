//! Pages of text to read: pairs of names and words in two columns, and meters.

use ratatui::style::Style;

use super::list::Part;
use super::transcript::row::{Row, Span, Wrap, wrap};
use crate::text;
use crate::theme::{Theme, Token};

/// Text to read.
#[derive(Debug, Default)]
pub struct Page {
    /// Its title.
    pub title: String,
    /// Its rows.
    pub rows: Vec<Row>,
    /// How far it is scrolled.
    pub scroll: usize,
    lines: Vec<PageLine>,
    /// The width and the theme that the rows were laid out for.
    laid: Option<(u16, u32)>,
}

/// A line of a page.
#[derive(Debug, Clone, PartialEq)]
pub enum PageLine {
    /// Nothing.
    Blank,
    /// Words from edge to edge.
    Words(Part),
    /// A name, and what it is.
    Pair(Part, Part),
    /// How much of a whole something takes.
    Meter {
        /// What takes it.
        name: String,
        /// How much, in words.
        words: String,
        /// How much, of one.
        share: f64,
        /// Whether it is what is left.
        free: bool,
    },
}

impl Page {
    /// A page of rows as they are.
    pub fn of_rows(title: impl Into<String>, rows: Vec<Row>) -> Self {
        Page { title: title.into(), rows, ..Page::default() }
    }

    /// A page of lines.
    pub fn of_lines(title: impl Into<String>, lines: Vec<PageLine>) -> Self {
        Page { title: title.into(), lines, ..Page::default() }
    }

    /// Lays its lines out.
    pub fn lay(&mut self, width: u16, theme: &Theme, generation: u32) {
        if self.lines.is_empty() || self.laid == Some((width, generation)) {
            return;
        }
        self.laid = Some((width, generation));
        let names = self.lines.iter().map(|line| match line {
            PageLine::Pair(name, _) => text::width(&name.text),
            PageLine::Meter { name, .. } => text::width(name),
            PageLine::Blank | PageLine::Words(_) => 0,
        });
        // What is left beside the names has room for a few words.
        let most = (usize::from(width) * 2 / 5).clamp(8, 34);
        let column = names.max().unwrap_or(0).clamp(1, most) as u16;
        self.rows = self.lines.iter().flat_map(|line| rows_of(line, column, width, theme)).collect();
    }
}

fn rows_of(line: &PageLine, column: u16, width: u16, theme: &Theme) -> Vec<Row> {
    let margin = [Span::new(" ", Style::new())];
    // One cell at each edge, two between the columns.
    let rest = width.saturating_sub(column + 4).max(4);
    match line {
        PageLine::Blank => vec![Row::default()],
        PageLine::Words(words) => {
            wrap(&[words.span(theme)], &margin, &margin, width.saturating_sub(1).max(4), Wrap::Words)
        }
        PageLine::Pair(name, words) => {
            let names = wrap(&[name.span(theme)], &[], &[], column, Wrap::Words);
            let words = wrap(&[words.span(theme)], &[], &[], rest, Wrap::Words);
            let row = |at: usize| {
                let name = names.get(at).cloned().unwrap_or_default();
                let blanks = usize::from(column + 2).saturating_sub(name.width());
                let mut spans = margin.to_vec();
                spans.extend(name.spans);
                spans.push(Span::new(" ".repeat(blanks), Style::new()));
                spans.extend(words.get(at).cloned().unwrap_or_default().spans);
                Row { gutter: 1, ..Row::new(spans) }
            };
            (0..names.len().max(words.len())).map(row).collect()
        }
        PageLine::Meter { name, words, share, free } => {
            let room = usize::from(rest).saturating_sub(text::width(words) + 1).min(40);
            let cells = ((share * room as f64).round().clamp(0.0, room as f64) as usize).min(room);
            let name = text::ellipsis(name, usize::from(column));
            let blanks = usize::from(column + 2).saturating_sub(text::width(&name));
            let token = if *free { Token::Dim } else { Token::Accent };
            vec![Row {
                gutter: 1,
                ..Row::new(vec![
                    margin[0].clone(),
                    Span::new(format!("{name}{}", " ".repeat(blanks)), theme.style(Token::Text)),
                    Span::new("█".repeat(cells), theme.style(token)),
                    Span::new("░".repeat(room - cells), theme.style(Token::Border)),
                    Span::new(format!(" {words}"), theme.style(Token::Dim)),
                ])
            }]
        }
    }
}
