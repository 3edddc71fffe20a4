//! Tables of Markdown: columns that fit, cells that wrap, and a list of pairs where not even that fits.

use ratatui::style::Style;

use super::row::{Join, Span, Wrap, wrap};
use crate::text;
use crate::theme::{Theme, Token};

/// Where a cell's text stands in its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// At the left.
    Left,
    /// In the middle.
    Middle,
    /// At the right.
    Right,
}

/// A table as it is read; the first row is its head.
#[derive(Debug)]
pub struct Table {
    aligns: Vec<Align>,
    rows: Vec<Vec<Vec<Span>>>,
    open: Vec<Vec<Span>>,
}

/// A line of the table's, without gutter.
pub type Line = (Vec<Span>, Join);

/// Least cells that a column is given.
const LEAST: usize = 4;
const BETWEEN: &str = " │ ";

impl Table {
    /// With these columns.
    pub fn new(aligns: Vec<Align>) -> Self {
        Table { aligns, rows: Vec::new(), open: Vec::new() }
    }

    /// The next cell of the row.
    pub fn cell(&mut self, spans: Vec<Span>) {
        self.open.push(spans);
    }

    /// The row is whole.
    pub fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.open));
    }

    /// Its lines for that many cells.
    pub fn layout(&self, room: usize, theme: &Theme) -> Vec<Line> {
        let columns = self.aligns.len();
        let between = text::width(BETWEEN) * columns.saturating_sub(1);
        if columns == 0 {
            return Vec::new();
        }
        if between + columns * LEAST > room {
            return self.pairs(room, theme);
        }
        let mut widths = vec![1; columns];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cells_of(cell));
            }
        }
        shrink(&mut widths, room - between);
        let border = theme.style(Token::Border);
        let mut lines = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            self.row(row, &widths, border, &mut lines);
            if number == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push((vec![Span::new(rule.join("─┼─"), border)], Join::Line));
            }
        }
        lines
    }

    fn row(&self, row: &[Vec<Span>], widths: &[usize], border: Style, lines: &mut Vec<Line>) {
        let empty = Vec::new();
        let cells: Vec<Vec<Vec<Span>>> = widths
            .iter()
            .enumerate()
            .map(|(column, width)| {
                let spans = row.get(column).unwrap_or(&empty);
                wrap(spans, &[], &[], *width as u16, Wrap::Words).into_iter().map(|row| row.spans).collect()
            })
            .collect();
        for level in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let mut line = Vec::new();
            for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
                if column > 0 {
                    line.push(Span::new(BETWEEN, border));
                }
                let spans = cell.get(level).unwrap_or(&empty);
                let free = width.saturating_sub(cells_of(spans));
                let before = match self.aligns[column] {
                    Align::Left => 0,
                    Align::Middle => free / 2,
                    Align::Right => free,
                };
                let last = column + 1 == widths.len();
                line.push(Span::new(" ".repeat(before), Style::new()));
                line.extend(spans.iter().cloned());
                line.push(Span::new(" ".repeat(if last { 0 } else { free - before }), Style::new()));
            }
            line.retain(|span| !span.text.is_empty());
            lines.push((line, Join::Line));
        }
    }

    /// Too many columns: each row as a list of `head: cell`.
    fn pairs(&self, room: usize, theme: &Theme) -> Vec<Line> {
        let (dim, empty) = (theme.style(Token::Dim), Vec::new());
        let head = self.rows.first().unwrap_or(&empty);
        let mut lines = Vec::new();
        for row in self.rows.iter().skip(1) {
            if !lines.is_empty() {
                lines.push((Vec::new(), Join::Line));
            }
            for (column, cell) in row.iter().enumerate() {
                let mut spans: Vec<Span> = head.get(column).into_iter().flatten().cloned().collect();
                spans.push(Span::new(": ", dim));
                spans.extend(cell.iter().cloned());
                for row in wrap(&spans, &[], &[Span::new("  ", dim)], room as u16, Wrap::Words) {
                    lines.push((row.spans, row.join));
                }
            }
        }
        lines
    }
}

fn cells_of(spans: &[Span]) -> usize {
    spans.iter().map(|span| text::width(&span.text)).sum()
}

/// Takes from the widest columns until all fit.
fn shrink(widths: &mut [usize], room: usize) {
    while widths.iter().sum::<usize>() > room {
        let over = widths.iter().sum::<usize>() - room;
        let widest = widths.iter().copied().max().unwrap_or(0);
        let next = widths.iter().copied().filter(|width| *width < widest).max().unwrap_or(0).max(1);
        let count = widths.iter().filter(|width| **width == widest).count();
        let step = (over.div_ceil(count)).min(widest - next.min(widest - 1)).max(1);
        if widest <= 1 {
            return;
        }
        for width in widths.iter_mut().filter(|width| **width == widest) {
            *width = width.saturating_sub(step).max(1);
        }
    }
}
