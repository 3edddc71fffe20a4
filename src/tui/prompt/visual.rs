//! The prompt's text as rows of the screen, with the characters that each row holds.

use super::Chips;
use crate::text;

/// A row of the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisualRow {
    /// The line of the text.
    pub line: usize,
    /// The first character.
    pub start: usize,
    /// The character after the last.
    pub end: usize,
    /// Whether the line ends here.
    pub last: bool,
    /// The characters.
    pub text: String,
}

impl VisualRow {
    /// The character of the line that stands at a cell.
    pub fn column_at(&self, cell: usize, chips: &Chips) -> usize {
        let characters: Vec<char> = self.text.chars().collect();
        let mut used = 0;
        for (from, to) in chips.units(&self.text) {
            let cells = text::width(&characters[from..to].iter().collect::<String>());
            if used + cells > cell {
                return self.start + from;
            }
            used += cells;
        }
        // The end of a row that goes on is the begin of the next: stay within it.
        let end = characters.len();
        if self.last || end == 0 {
            return self.start + end;
        }
        chips.units(&self.text).last().map_or(self.start, |(from, _)| self.start + from)
    }
}

/// Lays lines out for `width` cells, a cell for the caret kept free at the end.
pub fn rows(lines: &[String], chips: &Chips, width: usize) -> Vec<VisualRow> {
    let room = width.saturating_sub(1).max(1);
    let mut rows = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let characters: Vec<char> = line.chars().collect();
        let mut start = 0;
        let mut used = 0;
        let mut last_break = None;
        let mut push = |start: usize, end: usize, last: bool| {
            let text = characters[start..end].iter().collect();
            rows.push(VisualRow { line: number, start, end, last, text });
        };
        for (from, to) in chips.units(line) {
            let unit: String = characters[from..to].iter().collect();
            let cells = text::width(&unit);
            let blank = unit == " ";
            if used + cells > room && from > start && !(blank && used <= room) {
                let cut = last_break.filter(|cut| *cut > start).unwrap_or(from);
                push(start, cut, false);
                used = text::width(&characters[cut..from].iter().collect::<String>());
                start = cut;
                last_break = None;
            }
            used += cells;
            if blank || cells == 2 {
                last_break = Some(to);
            }
        }
        push(start, characters.len(), true);
    }
    rows
}
