//! The prompt: a text area that moves and deletes by what a reader takes for one character, with pastes and
//! images as chips, a kill ring and a history. Nothing outside this module knows the text area's crate.

pub mod chips;
pub mod history;
mod visual;

use ratatui::layout::Position;
use tui_textarea::{CursorMove, TextArea};
use unicode_segmentation::UnicodeSegmentation;

pub use chips::{Chip, Chips};
pub use history::History;
pub use visual::VisualRow;

use crate::message::UserMessage;

/// A paste over this many lines, or [`PASTE_CHARS`], becomes a chip.
const PASTE_LINES: usize = 10;
/// A paste over this many characters becomes a chip.
const PASTE_CHARS: usize = 1000;

/// What the person is writing.
#[derive(Debug)]
pub struct Prompt {
    area: TextArea<'static>,
    /// What stands for pastes and images.
    pub chips: Chips,
    /// What was sent before.
    pub history: History,
    kills: Vec<String>,
    /// Whether the last action was a kill, so that the next one joins it.
    killing: bool,
    /// The text that was just yanked, so that another can take its place.
    yanked: Option<usize>,
    /// The column that moving up and down keeps to.
    goal: Option<usize>,
    /// Counts changes of the text.
    pub version: u64,
    visual: Vec<VisualRow>,
    /// The version and the width that the rows were made for.
    laid: Option<(u64, u16)>,
    scroll: usize,
    caret: Position,
}

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Towards the begin.
    Back,
    /// Towards the end.
    On,
}

impl Default for Prompt {
    fn default() -> Self {
        let mut prompt = Prompt {
            area: TextArea::default(),
            chips: Chips::default(),
            history: History::default(),
            kills: Vec::new(),
            killing: false,
            yanked: None,
            goal: None,
            version: 0,
            visual: Vec::new(),
            laid: None,
            scroll: 0,
            caret: Position::ORIGIN,
        };
        prompt.area.set_undo_coalescing(true);
        prompt.area.set_max_histories(1000);
        prompt
    }
}

impl Prompt {
    /// The text as it stands, chips as their marks.
    pub fn text(&self) -> String {
        self.area.lines().join("\n")
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.area.is_empty()
    }

    /// Line and character of the cursor.
    pub fn cursor(&self) -> (usize, usize) {
        self.area.cursor()
    }

    /// The line of the cursor.
    pub fn line(&self) -> &str {
        self.area.lines().get(self.cursor().0).map_or("", String::as_str)
    }

    /// The part of the cursor's line that stands before it.
    pub fn before_cursor(&self) -> &str {
        let (row, column) = self.cursor();
        let line = self.area.lines().get(row).map_or("", String::as_str);
        &line[..byte_of(line, column)]
    }

    fn edited(&mut self) {
        self.snap();
        self.version += 1;
        self.goal = None;
        self.killing = false;
        self.yanked = None;
    }

    /// What was changed may join what stands at both sides of the cursor into one character: it goes behind that.
    fn snap(&mut self) {
        let (row, column) = self.cursor();
        let units = self.chips.units(self.line());
        if let Some((_, end)) = units.into_iter().find(|(start, end)| *start < column && column < *end) {
            self.jump(row, end);
        }
    }

    /// Types a text at the cursor.
    pub fn insert(&mut self, text: &str) {
        self.area.insert_str(text);
        self.edited();
    }

    /// Takes a paste: literally, or as a chip where it is long.
    pub fn paste(&mut self, text: &str) {
        let text = crate::text::clean(&text.replace("\r\n", "\n").replace('\r', "\n")).replace('\t', "    ");
        // A line break at the end begins no further line.
        let lines = text.lines().count();
        if lines > PASTE_LINES || text.chars().nth(PASTE_CHARS).is_some() {
            let mark = self.chips.add_paste(text, lines);
            self.insert(&mark);
        } else {
            self.insert(&text);
        }
    }

    /// Takes an image as a chip.
    pub fn attach(&mut self, image: chips::Image) {
        let mark = self.chips.add_image(image);
        self.insert(&mark);
    }

    /// Replaces everything.
    pub fn set_text(&mut self, text: &str) {
        self.area.select_all();
        self.area.insert_str(text);
        if text.is_empty() {
            self.area.delete_str(0);
        }
        self.area.cancel_selection();
        self.edited();
    }

    /// Begins anew with this text; what was there cannot be undone back.
    pub fn reset(&mut self, text: &str) {
        let lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        let end = (lines.len() - 1, lines.last().map_or(0, |line| line.chars().count()));
        self.area.set_lines(lines, end);
        self.edited();
    }

    /// The message, and the prompt empty; `None` where there is nothing to send.
    pub fn take(&mut self) -> Option<UserMessage> {
        let message = self.chips.message(&self.text())?;
        self.history.leave();
        self.reset("");
        self.chips.clear();
        Some(message)
    }

    /// Puts messages back in front of what is there.
    pub fn give_back(&mut self, messages: &[UserMessage]) {
        let mut parts: Vec<String> = messages.iter().map(|message| self.chips.text_of(message)).collect();
        if !self.is_empty() {
            parts.push(self.text());
        }
        self.set_text(&parts.join("\n\n"));
    }

    /// The whole text with pastes in place of their chips: for an editor, and for history.
    pub fn expanded(&self) -> String {
        self.chips.expand(&self.text())
    }

    fn jump(&mut self, row: usize, column: usize) {
        let near = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        self.area.move_cursor(CursorMove::Jump(near(row), near(column)));
        // A line longer than the jump can name is walked.
        for _ in self.area.cursor().1..column {
            self.area.move_cursor(CursorMove::Forward);
        }
    }

    /// Moves the cursor to a character.
    pub fn go(&mut self, row: usize, column: usize) {
        self.jump(row, column);
        self.goal = None;
        self.killing = false;
        self.yanked = None;
    }

    /// The place one reader's character away; `None` at the end of the text.
    fn next(&self, way: Way) -> Option<(usize, usize)> {
        let (row, column) = self.cursor();
        let lines = self.area.lines();
        let line = lines.get(row)?;
        let units = self.chips.units(line);
        match way {
            Way::Back => match units.iter().rev().find(|(start, _)| *start < column) {
                Some((start, _)) => Some((row, *start)),
                None => row.checked_sub(1).map(|row| (row, lines[row].chars().count())),
            },
            Way::On => match units.iter().find(|(_, end)| *end > column) {
                Some((_, end)) => Some((row, *end)),
                None => (row + 1 < lines.len()).then_some((row + 1, 0)),
            },
        }
    }

    /// Moves by one reader's character; `false` at the end of the text.
    pub fn step(&mut self, way: Way) -> bool {
        let next = self.next(way);
        if let Some((row, column)) = next {
            self.go(row, column);
        }
        next.is_some()
    }

    /// The place one word away.
    fn next_word(&self, way: Way) -> Option<(usize, usize)> {
        let (row, column) = self.cursor();
        let lines = self.area.lines();
        let line = lines.get(row)?;
        let mut words: Vec<(usize, usize)> = Vec::new();
        let mut at = 0;
        let chips = self.chips.spans(line);
        for word in line.split_word_bounds() {
            let end = at + word.chars().count();
            let in_chip = chips.iter().find(|(from, to)| *from <= at && end <= *to);
            match in_chip {
                Some(chip) if words.last() != Some(chip) => words.push(*chip),
                None if word.chars().any(char::is_alphanumeric) => words.push((at, end)),
                Some(_) | None => {}
            }
            at = end;
        }
        match way {
            Way::Back => match words.iter().rev().find(|(start, _)| *start < column) {
                Some((start, _)) => Some((row, *start)),
                None if column > 0 => Some((row, 0)),
                None => row.checked_sub(1).map(|row| (row, lines[row].chars().count())),
            },
            Way::On => match words.iter().find(|(_, end)| *end > column) {
                Some((_, end)) => Some((row, *end)),
                None if column < at => Some((row, at)),
                None => (row + 1 < lines.len()).then_some((row + 1, 0)),
            },
        }
    }

    /// Moves by a word.
    pub fn step_word(&mut self, way: Way) {
        if let Some((row, column)) = self.next_word(way) {
            self.go(row, column);
        }
    }

    /// Moves to an end of the line.
    pub fn to_line_end(&mut self, way: Way) {
        let (row, _) = self.cursor();
        let column = if way == Way::Back { 0 } else { self.line().chars().count() };
        self.go(row, column);
    }

    /// Moves to an end of the text.
    pub fn to_end(&mut self, way: Way) {
        let last = self.area.lines().len() - 1;
        match way {
            Way::Back => self.go(0, 0),
            Way::On => self.go(last, self.area.lines()[last].chars().count()),
        }
    }

    /// Deletes up to a place and gives what stood there.
    fn cut_to(&mut self, target: Option<(usize, usize)>) -> String {
        let Some(target) = target else { return String::new() };
        let here = self.cursor();
        let (from, to) = if target < here { (target, here) } else { (here, target) };
        let text = self.between(from, to);
        self.jump(from.0, from.1);
        self.area.delete_str(text.chars().count());
        self.snap();
        self.version += 1;
        self.goal = None;
        self.yanked = None;
        text
    }

    fn between(&self, from: (usize, usize), to: (usize, usize)) -> String {
        let lines = self.area.lines();
        if from.0 == to.0 {
            return lines[from.0].chars().skip(from.1).take(to.1 - from.1).collect();
        }
        let mut text: String = lines[from.0].chars().skip(from.1).collect();
        for line in &lines[from.0 + 1..to.0] {
            text.push('\n');
            text.push_str(line);
        }
        text.push('\n');
        text.extend(lines[to.0].chars().take(to.1));
        text
    }

    /// Deletes one reader's character.
    pub fn delete(&mut self, way: Way) {
        let target = self.next(way);
        self.cut_to(target);
        self.killing = false;
    }

    fn kill(&mut self, target: Option<(usize, usize)>, way: Way) {
        let joins = self.killing;
        let text = self.cut_to(target);
        if text.is_empty() {
            return;
        }
        match (self.kills.last_mut().filter(|_| joins), way) {
            (Some(last), Way::On) => last.push_str(&text),
            (Some(last), Way::Back) => last.insert_str(0, &text),
            (None, _) => self.kills.push(text),
        }
        if self.kills.len() > 64 {
            self.kills.remove(0);
        }
        self.killing = true;
    }

    /// Kills a word.
    pub fn kill_word(&mut self, way: Way) {
        self.kill(self.next_word(way), way);
    }

    /// Kills to an end of the line, or the line break where there is nothing before it.
    pub fn kill_line(&mut self, way: Way) {
        let (row, column) = self.cursor();
        let length = self.line().chars().count();
        let target = match way {
            Way::Back if column > 0 => Some((row, 0)),
            Way::On if column < length => Some((row, length)),
            Way::Back | Way::On => self.next(way),
        };
        self.kill(target, way);
    }

    /// Puts the last kill in.
    pub fn yank(&mut self) {
        if let Some(index) = self.kills.len().checked_sub(1) {
            let text = self.kills[index].clone();
            self.insert(&text);
            self.yanked = Some(index);
        }
    }

    /// Right after a yank, puts the kill before it in its place.
    pub fn yank_earlier(&mut self) {
        let Some(index) = self.yanked else { return };
        let length = self.kills[index].chars().count();
        for _ in 0..length {
            self.area.delete_char();
        }
        let earlier = index.checked_sub(1).unwrap_or(self.kills.len() - 1);
        let text = self.kills[earlier].clone();
        self.insert(&text);
        self.yanked = Some(earlier);
    }

    /// Takes the last change back.
    pub fn undo(&mut self) {
        self.area.undo();
        self.edited();
    }

    /// Makes it again.
    pub fn redo(&mut self) {
        self.area.redo();
        self.edited();
    }

    /// Replaces the characters of the cursor's line from `column` up to the cursor.
    pub fn replace_before(&mut self, column: usize, text: &str) {
        let row = self.cursor().0;
        self.cut_to(Some((row, column)));
        self.insert(text);
    }

    /// Lays the text out for that many cells and says how many rows it takes.
    pub fn layout(&mut self, width: u16) -> usize {
        if self.laid != Some((self.version, width)) {
            self.visual = visual::rows(self.area.lines(), &self.chips, usize::from(width.max(1)));
            self.laid = Some((self.version, width));
        }
        self.visual.len()
    }

    /// Scrolls so that the cursor is in a window of that height, and finds where it stands there.
    pub fn place(&mut self, height: u16) {
        let height = usize::from(height.max(1));
        let at = self.visual_cursor();
        self.scroll = self.scroll.min(self.visual.len().saturating_sub(height)).min(at);
        self.scroll = self.scroll.max((at + 1).saturating_sub(height));
        let column = self.cells_before(at);
        self.caret = Position { x: column as u16, y: (at - self.scroll) as u16 };
    }

    /// The rows in the window, and how many are above it.
    pub fn visible(&self, height: u16) -> (&[VisualRow], usize) {
        let end = (self.scroll + usize::from(height)).min(self.visual.len());
        (&self.visual[self.scroll.min(end)..end], self.scroll)
    }

    /// How many rows it takes.
    pub fn rows(&self) -> usize {
        self.visual.len()
    }

    /// Where the caret stands in the window.
    pub fn caret(&self) -> Position {
        self.caret
    }

    fn visual_cursor(&self) -> usize {
        let (row, column) = self.cursor();
        let holds = |visual: &VisualRow| {
            visual.line == row
                && visual.start <= column
                && (column < visual.end || (visual.last && column == visual.end))
        };
        self.visual.iter().position(holds).unwrap_or(0)
    }

    fn cells_before(&self, at: usize) -> usize {
        let Some(visual) = self.visual.get(at) else { return 0 };
        let column = self.cursor().1;
        let before: String = visual.text.chars().take(column.saturating_sub(visual.start)).collect();
        crate::text::width(&before)
    }

    /// Moves a row up or down as it is laid out; `false` at the edge.
    pub fn step_row(&mut self, way: Way) -> bool {
        let at = self.visual_cursor();
        let goal = self.goal.unwrap_or_else(|| self.cells_before(at));
        let target = match way {
            Way::Back => at.checked_sub(1),
            Way::On => Some(at + 1),
        };
        let Some(visual) = target.and_then(|target| self.visual.get(target)) else { return false };
        let column = visual.column_at(goal, &self.chips);
        let line = visual.line;
        self.go(line, column);
        self.goal = Some(goal);
        true
    }

    /// Moves the cursor to a cell of the window.
    pub fn click(&mut self, x: u16, y: u16) {
        if let Some(visual) = self.visual.get(self.scroll + usize::from(y)) {
            let column = visual.column_at(usize::from(x), &self.chips);
            let line = visual.line;
            self.go(line, column);
        }
    }

    /// Shows what was sent before or after that which is shown; `false` where there is nothing.
    pub fn recall(&mut self, way: Way) -> bool {
        let draft = self.text();
        match self.history.walk(way, &draft) {
            Some(text) => {
                self.set_text(&text);
                true
            }
            None => false,
        }
    }
}

/// The byte of a character.
pub fn byte_of(line: &str, column: usize) -> usize {
    line.char_indices().nth(column).map_or(line.len(), |(at, _)| at)
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
