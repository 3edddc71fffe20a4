//! Selecting text with the mouse. What was wrapped comes back as it was before.

use std::ops::Range;

use super::block::Block;
use super::row::{Cell, Join};
use super::{Look, Place, Transcript};

/// A cell of the transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// The row.
    pub place: Place,
    /// The column, from the transcript's left edge.
    pub column: u16,
}

/// What is selected: from one cell to another, in either order; the later one is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection {
    /// Where it began.
    pub from: Spot,
    /// Where it is now.
    pub to: Spot,
}

impl Selection {
    /// What a drag from one cell to another covers: both of them are part of it.
    pub fn drag(from: Spot, to: Spot) -> Self {
        let (first, last) = if from <= to { (from, to) } else { (to, from) };
        Selection { from: first, to: Spot { column: last.column.saturating_add(1), ..last } }
    }

    /// The earlier end and the later one.
    pub fn ordered(&self) -> (Spot, Spot) {
        if self.from <= self.to { (self.from, self.to) } else { (self.to, self.from) }
    }

    /// The columns that are selected in a row.
    pub fn columns(&self, place: Place) -> Option<(u16, u16)> {
        let (first, last) = self.ordered();
        if place < first.place || place > last.place || first == last {
            return None;
        }
        let from = if place == first.place { first.column } else { 0 };
        let to = if place == last.place { last.column } else { u16::MAX };
        Some((from, to))
    }
}

/// The rows of the line that a row of a block is part of.
pub fn line_around(block: &Block, row: usize) -> Range<usize> {
    let joined = |row: usize| block.row(row).is_some_and(|row| row.join != Join::Line);
    let mut first = row;
    while joined(first) && first > 0 {
        first -= 1;
    }
    let mut end = row + 1;
    while joined(end) {
        end += 1;
    }
    first..end
}

impl Transcript {
    /// The text that is selected: rows that were wrapped come back as one line.
    pub fn selected(&mut self, selection: &Selection, look: Look<'_>) -> String {
        let (first, last) = selection.ordered();
        let mut out = String::new();
        let mut begun = false;
        for block in first.place.block..=last.place.block.min(self.blocks.len().saturating_sub(1)) {
            let rows = self.lay(block, look);
            for row in 0..rows {
                let place = Place { block, row };
                let Some((from, to)) = selection.columns(place) else { continue };
                let content = self.blocks[block].row(row);
                if std::mem::replace(&mut begun, true) {
                    match content.map_or(Join::Line, |content| content.join) {
                        Join::Line => out.push('\n'),
                        Join::Blank(blanks) => out.extend(std::iter::repeat_n(' ', usize::from(blanks))),
                        Join::Tight => {}
                    }
                }
                out.extend(content.map(|content| content.slice(from, to)));
            }
        }
        out
    }

    /// The word around a cell, also where it is wrapped.
    pub fn word_around(&self, spot: Spot) -> Option<Selection> {
        let block = self.blocks.get(spot.place.block)?;
        let mut cells: Vec<(usize, Cell<'_>, Kind)> = Vec::new();
        let mut chosen = None;
        for row in line_around(block, spot.place.row) {
            let content = block.row(row)?;
            if let (Join::Blank(_), Some((before, cell, _))) = (content.join, cells.last().copied()) {
                cells.push((before, Cell { text: " ", from: cell.to, to: cell.to }, Kind::Other));
            }
            for cell in content.cells() {
                if row == spot.place.row && cell.from <= spot.column && spot.column < cell.to {
                    chosen = Some(cells.len());
                }
                cells.push((row, cell, Kind::of(cell.text)));
            }
        }
        let chosen = chosen?;
        let kind = |at: usize| cells[at].2;
        let (mut first, mut last) = (chosen, chosen);
        if kind(chosen) != Kind::Other {
            let part = |at: usize| kind(at) != Kind::Other;
            while first > 0 && part(first - 1) {
                first -= 1;
            }
            while last + 1 < cells.len() && part(last + 1) {
                last += 1;
            }
            // A full stop after a word is none of it, nor is a dash before it.
            while first < chosen && kind(first) == Kind::Between {
                first += 1;
            }
            while last > chosen && kind(last) == Kind::Between {
                last -= 1;
            }
        }
        let spot = |at: usize, column| Spot { place: Place { row: cells[at].0, ..spot.place }, column };
        Some(Selection { from: spot(first, cells[first].1.from), to: spot(last, cells[last].1.to) })
    }

    /// The whole line around a cell.
    pub fn line_around(&self, spot: Spot) -> Option<Selection> {
        let block = self.blocks.get(spot.place.block)?;
        block.row(spot.place.row)?;
        let rows = line_around(block, spot.place.row);
        let place = |row| Place { row, ..spot.place };
        Some(Selection {
            from: Spot { place: place(rows.start), column: 0 },
            to: Spot { place: place(rows.end - 1), column: u16::MAX },
        })
    }
}

/// What a character is to a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It makes words.
    Letter,
    /// It joins them, as in paths, addresses and options.
    Between,
    /// It parts them.
    Other,
}

impl Kind {
    fn of(text: &str) -> Self {
        match text.chars().next() {
            Some(c) if c.is_alphanumeric() || c == '_' => Kind::Letter,
            Some('-' | '.' | '/' | '~' | '@' | ':' | '+' | '%' | '#' | '=' | '?' | '&' | '\\') => Kind::Between,
            _ => Kind::Other,
        }
    }
}
