//! The transcript: blocks, where one stands in them, and the rows that are on the screen.
//!
//! Where one stands is kept as a block and a row of it, never as a count of rows from the top: only what is
//! visible is ever laid out, so that opening, resizing and scrolling cost the same at any length.

pub mod block;
pub mod fill;
pub mod markdown;
pub mod row;
pub mod search;
pub mod select;
mod table;
pub mod tool;

use std::collections::HashMap;

pub use block::{Block, Fold, Kind, Look, Tone};
pub use row::{Row, Span};
pub use search::Search;

use crate::session::EntryId;

/// The spinner's picture at a tick.
pub fn spinner(tick: u32) -> &'static str {
    const STEPS: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
    STEPS[tick as usize % STEPS.len()]
}

/// Where the window stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// At the end, and it follows.
    End,
    /// With this row at its top.
    At(Place),
}

/// A row of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which block.
    pub block: usize,
    /// Which of its rows, the gap before it being the first where there is one.
    pub row: usize,
}

/// Whose code it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CodeOf {
    /// A block's, by its id.
    Block(u64),
    /// That of a question, by its number.
    Review(u64),
}

/// A piece of code that wants colours.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Whose it is.
    pub of: CodeOf,
    /// Which piece of it.
    pub piece: usize,
    /// The language.
    pub language: String,
    /// The number of the first line, from 0.
    pub from: usize,
    /// The lines.
    pub lines: Vec<String>,
    /// How many bytes the lines before the first take; a window is highlighted from its start otherwise.
    pub last: bool,
}

/// Blocks and the window onto them.
#[derive(Debug)]
pub struct Transcript {
    /// All blocks, oldest first.
    pub blocks: Vec<Block>,
    /// Where the window stands.
    pub anchor: Anchor,
    /// What stands in the window, from its top.
    pub view: Vec<Place>,
    /// Whether something came below while the window stood elsewhere.
    pub news: bool,
    calls: HashMap<String, usize>,
    next_id: u64,
    laid_rows: usize,
    /// The first block of the turn that goes on.
    turn: usize,
    height: usize,
    /// The width that the window was laid out for.
    width: u16,
    /// The message that was appended last, and labels of its images.
    images: Option<(EntryId, Vec<String>)>,
}

/// Rows that are kept; beyond that, those far from the window go.
const KEPT: usize = 20_000;

impl Default for Transcript {
    fn default() -> Self {
        Transcript {
            blocks: Vec::new(),
            anchor: Anchor::End,
            view: Vec::new(),
            news: false,
            calls: HashMap::new(),
            next_id: 0,
            laid_rows: 0,
            turn: 0,
            height: 0,
            width: 0,
            images: None,
        }
    }
}

impl Transcript {
    /// Adds a block at the end.
    pub fn push(&mut self, kind: Kind, entry: Option<EntryId>) -> &mut Block {
        if let Kind::Tool(tool) = &kind {
            self.calls.insert(tool.call_id.clone(), self.blocks.len());
        }
        self.news |= self.anchor != Anchor::End;
        self.next_id += 1;
        let index = self.blocks.len();
        self.blocks.push(Block::new(self.next_id, kind, entry));
        &mut self.blocks[index]
    }

    /// Adds a remark.
    pub fn note(&mut self, text: impl Into<String>, tone: Tone) {
        self.push(Kind::Note { text: text.into(), tone }, None);
    }

    /// Takes the blocks from `from` on away.
    pub fn truncate(&mut self, from: usize) {
        self.blocks.truncate(from);
        self.calls.retain(|_, index| *index < from);
    }

    /// The block of a call.
    pub fn call(&mut self, id: &str) -> Option<&mut tool::Tool> {
        let index = *self.calls.get(id)?;
        let block = self.blocks.get_mut(index)?;
        block.touch();
        match &mut block.kind {
            Kind::Tool(tool) => Some(tool),
            _ => None,
        }
    }

    /// The tool of a block, by its id.
    pub fn tool(&self, block: u64) -> Option<&tool::Tool> {
        let at = self.blocks.binary_search_by_key(&block, |block| block.id).ok()?;
        match &self.blocks[at].kind {
            Kind::Tool(tool) => Some(tool),
            _ => None,
        }
    }

    /// Begins anew, without blocks. Ids go on.
    pub fn clear(&mut self) {
        let next_id = self.next_id;
        *self = Transcript { next_id, ..Transcript::default() };
    }

    /// Whether a blank row stands before a block.
    fn gap(&self, index: usize) -> bool {
        let Some(before) = index.checked_sub(1).map(|before| &self.blocks[before]) else { return false };
        let small = |kind: &Kind| matches!(kind, Kind::Tool(_) | Kind::Thinking { .. } | Kind::Note { .. });
        !(small(&before.kind) && small(&self.blocks[index].kind))
    }

    /// The state that a block's rows stand for, width and colours aside.
    fn stamp(&self, index: usize) -> block::Stamp {
        self.blocks[index].stamp(self.gap(index))
    }

    fn lay(&mut self, index: usize, look: Look<'_>) -> usize {
        let gap = self.gap(index);
        let made = self.blocks[index].lay(look, gap);
        self.laid_rows += made;
        self.blocks[index].height()
    }

    /// Lays out what the window shows.
    pub fn layout(&mut self, look: Look<'_>, height: u16) {
        self.height = usize::from(height);
        let mut view = Vec::with_capacity(self.height);
        if std::mem::replace(&mut self.width, look.width) != look.width
            && let Anchor::At(place) = &mut self.anchor
            && let Some(block) = self.blocks.get(place.block).filter(|block| block.is_laid())
        {
            // A block has more rows in less width: one stays at the same part of it.
            let (block, row, before) = (place.block, place.row, block.height().max(1));
            let now = self.lay(block, look);
            self.anchor = Anchor::At(Place { block, row: row * now / before });
        }
        if let Anchor::At(place) = self.anchor {
            self.walk_down(place, look, &mut view);
            if view.len() < self.height {
                // The end came into the window.
                view.clear();
                self.anchor = Anchor::End;
            }
        }
        if self.anchor == Anchor::End {
            self.news = false;
            'blocks: for block in (0..self.blocks.len()).rev() {
                for row in (0..self.lay(block, look)).rev() {
                    if view.len() == self.height {
                        break 'blocks;
                    }
                    view.push(Place { block, row });
                }
            }
            view.reverse();
        }
        self.view = view;
        self.evict();
    }

    fn walk_down(&mut self, from: Place, look: Look<'_>, view: &mut Vec<Place>) {
        let mut first = from.row;
        for block in from.block..self.blocks.len() {
            let rows = self.lay(block, look);
            if block == from.block {
                first = first.min(rows.saturating_sub(1));
            }
            for row in first..rows {
                if view.len() == self.height {
                    return;
                }
                view.push(Place { block, row });
            }
            first = 0;
        }
    }

    fn evict(&mut self) {
        if self.laid_rows < KEPT {
            return;
        }
        let first = self.view.first().map_or(0, |place| place.block.saturating_sub(64));
        let last = self.view.last().map_or(0, |place| place.block + 64);
        let mut kept = 0;
        for (index, block) in self.blocks.iter_mut().enumerate() {
            if index < first || index > last {
                if block.is_laid() {
                    block.forget();
                }
            } else {
                kept += block.height();
            }
        }
        // What stays counts only half, so that one huge block is not thrown away and made again in turns.
        self.laid_rows = kept.min(KEPT / 2);
    }

    /// Moves the window by rows; up is negative.
    pub fn scroll(&mut self, rows: isize, look: Look<'_>) {
        let Some(mut top) = self.view.first().copied() else { return };
        if top.block >= self.blocks.len() {
            return;
        }
        if rows > 0 && self.anchor == Anchor::End {
            return;
        }
        let mut left = rows.unsigned_abs();
        while left > 0 {
            if rows < 0 {
                if top.row >= left {
                    top.row -= left;
                    break;
                }
                left -= top.row;
                top.row = 0;
                let Some(before) = top.block.checked_sub(1) else { break };
                top = Place { block: before, row: self.lay(before, look) };
            } else {
                let height = self.lay(top.block, look);
                if top.row + left < height {
                    top.row += left;
                    break;
                }
                if top.block + 1 >= self.blocks.len() {
                    self.anchor = Anchor::End;
                    return;
                }
                left -= height.saturating_sub(top.row).min(left);
                top = Place { block: top.block + 1, row: 0 };
            }
        }
        // A transcript that fits has nowhere to go.
        if rows < 0 && self.view.len() < self.height {
            return;
        }
        self.anchor = Anchor::At(top);
    }

    /// Moves the window so that a row stands in it, a third of its height from the top.
    pub fn bring(&mut self, place: Place, look: Look<'_>) {
        let third = isize::try_from(self.height / 3).unwrap_or(0);
        self.anchor = Anchor::At(place);
        self.view = vec![place];
        // It is full, whatever it held before.
        let height = std::mem::replace(&mut self.height, 1);
        self.scroll(-third, look);
        self.height = height;
    }

    /// Moves the window to the begin.
    pub fn to_start(&mut self) {
        if !self.blocks.is_empty() {
            self.anchor = Anchor::At(Place { block: 0, row: 0 });
        }
    }

    /// Moves the window to the end, where it follows.
    pub fn to_end(&mut self) {
        self.anchor = Anchor::End;
    }

    /// Moves the window so that a block is at its top.
    pub fn show(&mut self, block: usize) {
        if block < self.blocks.len() {
            self.anchor = Anchor::At(Place { block, row: 0 });
        }
    }

    /// Folds or unfolds a block.
    pub fn toggle(&mut self, index: usize) {
        if let Some(block) = self.blocks.get_mut(index) {
            let glance = matches!(&block.kind, Kind::Tool(_)) && block.fold == Fold::Auto && block.is_open();
            block.fold = match (block.is_open(), glance) {
                (true, true) | (false, _) => Fold::Open,
                (true, false) => Fold::Closed,
            };
        }
    }

    /// Folds or unfolds all blocks that `is` says yes to.
    pub fn set_fold(&mut self, fold: Fold, is: impl Fn(&Kind) -> bool) {
        for block in &mut self.blocks {
            if is(&block.kind) {
                block.fold = fold;
            }
        }
    }

    /// By how many rows what is shown moved up since `before`, where it only moved.
    pub fn moved_up(&self, before: &[Place]) -> usize {
        let Some(top) = self.view.first() else { return 0 };
        if before.len() != self.view.len() {
            return 0;
        }
        before.iter().position(|place| place == top).unwrap_or(0)
    }

    /// The pieces of code in the window that want colours.
    pub fn wanted(&mut self, out: &mut Vec<Wanted>) {
        let mut before = usize::MAX;
        for place in &self.view {
            if place.block == before {
                continue;
            }
            before = place.block;
            // The window may be older than the blocks.
            let Some(block) = self.blocks.get_mut(place.block) else { continue };
            let finished = block.is_finished();
            let sizes: Vec<usize> = block.code().iter().map(|code| code.lines.len()).collect();
            block.colours.resize_with(sizes.len().max(block.colours.len()), Default::default);
            for (piece, size) in sizes.into_iter().enumerate() {
                let colours = &block.colours[piece];
                let open = colours.asked > colours.lines.len();
                if open || colours.asked >= size {
                    continue;
                }
                let from = colours.asked;
                let code = &block.code()[piece];
                out.push(Wanted {
                    of: CodeOf::Block(block.id),
                    piece,
                    language: code.language.clone(),
                    from,
                    lines: code.lines[from..].to_vec(),
                    last: finished,
                });
                block.colours[piece].asked = size;
            }
        }
    }

    /// Takes colours that came.
    pub fn colour(&mut self, id: u64, piece: usize, from: usize, lines: Vec<block::LineClasses>) -> bool {
        let Ok(at) = self.blocks.binary_search_by_key(&id, |block| block.id) else { return false };
        let Some(colours) = self.blocks[at].colours.get_mut(piece) else { return false };
        if colours.lines.len() != from {
            return false;
        }
        colours.lines.extend(lines);
        true
    }
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod select_tests;
#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
