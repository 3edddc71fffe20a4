//! Selecting text with the mouse, and finding it.

use unicode_segmentation::UnicodeSegmentation;

use super::row::Join;
use super::{Look, Place, Transcript};
use crate::text;

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

/// A hit of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// The row.
    pub place: Place,
    /// Its first column.
    pub from: u16,
    /// The column after its last.
    pub to: u16,
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
                let Some(content) = self.blocks[block].row(row) else {
                    if begun {
                        out.push('\n');
                    }
                    begun = true;
                    continue;
                };
                if begun {
                    match content.join {
                        Join::Line => out.push('\n'),
                        Join::Blank => out.push(' '),
                        Join::Tight => {}
                    }
                }
                begun = true;
                let piece = content.slice(from, to);
                // What stands behind the text up to the edge is padding.
                out.push_str(if to == u16::MAX { piece.trim_end() } else { &piece });
            }
        }
        out
    }

    /// The word, or the whole line, around a cell.
    pub fn around(&self, spot: Spot, whole_line: bool) -> Option<Selection> {
        let block = self.blocks.get(spot.place.block)?;
        let row = block.row(spot.place.row)?;
        if whole_line {
            let joined = |row: usize| block.row(row).is_some_and(|row| row.join != Join::Line);
            let mut first = spot.place.row;
            while joined(first) && first > 0 {
                first -= 1;
            }
            let mut last = spot.place.row;
            while joined(last + 1) {
                last += 1;
            }
            let place = |row| Place { row, ..spot.place };
            return Some(Selection {
                from: Spot { place: place(first), column: 0 },
                to: Spot { place: place(last), column: u16::MAX },
            });
        }
        let mut at: u16 = 0;
        let text = row.text();
        for word in text.split_word_bounds() {
            let cells = text::width(word) as u16;
            if spot.column < at + cells {
                let from = Spot { place: spot.place, column: at };
                return Some(Selection { from, to: Spot { column: at + cells, ..from } });
            }
            at += cells;
        }
        None
    }

    /// All places where a text stands, letters' case aside.
    pub fn find(&mut self, query: &str, look: Look<'_>) -> Vec<Hit> {
        let query = query.to_lowercase();
        let mut hits = Vec::new();
        if query.is_empty() {
            return hits;
        }
        for block in 0..self.blocks.len() {
            // Most blocks do not hold it, and need not be laid out.
            if !self.blocks[block].source().to_lowercase().contains(&query) {
                continue;
            }
            for row in 0..self.lay(block, look) {
                let Some(content) = self.blocks[block].row(row) else { continue };
                find_in(&content.text(), &query, |from, to| hits.push(Hit { place: Place { block, row }, from, to }));
            }
        }
        hits
    }
}

fn find_in(text: &str, query: &str, mut found: impl FnMut(u16, u16)) {
    // Lower case may take more bytes than upper case: cells are counted over the graphemes of the original.
    let mut lower = String::new();
    let mut cells = Vec::new();
    let mut at: u16 = 0;
    for grapheme in text.graphemes(true) {
        let begun = lower.len();
        lower.push_str(&grapheme.to_lowercase());
        let end = at.saturating_add(text::width(grapheme) as u16);
        cells.resize(lower.len().max(begun), (at, end));
        at = end;
    }
    let mut from = 0;
    while let Some(index) = lower.get(from..).and_then(|rest| rest.find(query)).map(|index| index + from) {
        let end = index + query.len();
        if let (Some((first, _)), Some((_, last))) = (cells.get(index), cells.get(end - 1)) {
            found(*first, *last);
        }
        from = end;
    }
}
