//! Searching the transcript: by whole lines, as they were before they were wrapped, and kept up with what
//! changes. Only blocks that changed are searched again.

use unicode_normalization::UnicodeNormalization;

use super::block::{Kind, Stamp};
use super::row::Join;
use super::select::{Spot, line_around};
use super::{Block, Look, Place, Transcript};

/// A hit: from one cell to another, which is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// Its first cell.
    pub from: Spot,
    /// The cell after its last.
    pub to: Spot,
}

impl Hit {
    /// Its columns in a row; the later one may lie behind the row's end.
    pub fn columns(&self, place: Place) -> Option<(u16, u16)> {
        let inside = self.from.place <= place && place <= self.to.place;
        let from = if place == self.from.place { self.from.column } else { 0 };
        let to = if place == self.to.place { self.to.column } else { u16::MAX };
        inside.then_some((from, to))
    }
}

/// A search and where it stands.
#[derive(Debug, Default)]
pub struct Search {
    query: String,
    needle: Needle,
    blocks: Vec<Found>,
    hits: Vec<Hit>,
    at: usize,
    /// The block of the hit that one went to, and its number among those of its block: rows change with the width.
    stood: (usize, usize),
}

/// What was found in a block, and in which state of it.
#[derive(Debug)]
struct Found {
    stamp: Stamp,
    width: u16,
    /// Rows before this one do not change while the block grows.
    settled: usize,
    hits: Vec<Hit>,
}

/// What is searched, in the forms in which it is.
#[derive(Debug, Default)]
struct Needle {
    folded: String,
    /// Its letters and digits.
    letters: Vec<u8>,
    /// For each of them, how many of the first ones stand right before it and are part of it: where a search
    /// that failed goes on, so that no text is looked at twice.
    back: Vec<usize>,
}

impl Needle {
    fn new(query: &str) -> Self {
        let folded = folded(query);
        let letters = letters(&folded).into_bytes();
        let mut back = vec![0; letters.len()];
        let mut length = 0;
        for at in 1..letters.len() {
            while length > 0 && letters[at] != letters[length] {
                length = back[length - 1];
            }
            length += usize::from(letters[at] == letters[length]);
            back[at] = length;
        }
        Needle { folded, letters, back }
    }

    /// Whether its letters stand in a text one after another, whatever else is between them.
    fn may_stand_in(&self, text: &str) -> bool {
        if !text.is_ascii() {
            let letters = letters(&folded(text)).into_bytes();
            return memchr::memmem::find(&letters, &self.letters).is_some();
        }
        let mut found = 0;
        for byte in text.bytes().filter(u8::is_ascii_alphanumeric) {
            if found == self.letters.len() {
                return true;
            }
            let byte = byte.to_ascii_lowercase();
            while found > 0 && self.letters[found] != byte {
                found = self.back[found - 1];
            }
            found += usize::from(self.letters[found] == byte);
        }
        found == self.letters.len()
    }
}

impl Search {
    /// A search for a text, letters' case aside. It stands at the last hit.
    pub fn new(query: &str, transcript: &mut Transcript, look: Look<'_>) -> Self {
        let mut search = Search { query: query.to_owned(), needle: Needle::new(query), ..Search::default() };
        search.refresh(transcript, look);
        search.go(search.hits.len().saturating_sub(1));
        search
    }

    fn go(&mut self, at: usize) {
        self.at = at;
        if let Some(hit) = self.hits.get(at) {
            let block = hit.from.place.block;
            self.stood = (block, at - self.first_of(block));
        }
    }

    /// The number of the first hit of a block or of those after it.
    fn first_of(&self, block: usize) -> usize {
        self.hits.partition_point(|hit| hit.from.place.block < block)
    }

    /// What is searched.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// All hits, from the first to the last.
    pub fn hits(&self) -> &[Hit] {
        &self.hits
    }

    /// Which of them one stands at.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The hit that one stands at.
    pub fn current(&self) -> Option<Hit> {
        self.hits.get(self.at).copied()
    }

    /// Goes to the next hit, or to the one before; `false` where there is none.
    pub fn step(&mut self, on: bool) -> bool {
        let count = self.hits.len();
        if count > 0 {
            self.go((self.at + if on { 1 } else { count - 1 }) % count);
        }
        count > 0
    }

    /// The hits that have cells in a row, with their numbers.
    pub fn in_row(&self, place: Place) -> impl Iterator<Item = (usize, &Hit)> {
        let begun = self.hits.partition_point(|hit| hit.to.place < place);
        self.hits.iter().enumerate().skip(begun).take_while(move |(_, hit)| hit.from.place <= place)
    }

    /// Brings the hits up to date with what is shown; one stays at the same hit.
    pub fn refresh(&mut self, transcript: &mut Transcript, look: Look<'_>) {
        let count = transcript.blocks.len();
        let mut changed = self.blocks.len() > count;
        self.blocks.truncate(count);
        for index in 0..count {
            let stamp = transcript.stamp(index);
            let before = self.blocks.get_mut(index);
            if before.as_ref().is_some_and(|found| found.stamp == stamp && found.width == look.width) {
                continue;
            }
            // Of what only grew, only what grew is searched.
            let grown = before.filter(|found| found.width == look.width && found.stamp.grew_to(&stamp));
            let (from, mut hits) =
                grown.map_or((0, Vec::new()), |found| (found.settled, std::mem::take(&mut found.hits)));
            let count = hits.len();
            let settled = transcript.hits_in(index, &self.needle, look, from, &mut hits);
            changed |= from == 0 || count > 0 || !hits.is_empty();
            let found = Found { stamp, width: look.width, settled, hits };
            match self.blocks.get_mut(index) {
                Some(before) => *before = found,
                None => self.blocks.push(found),
            }
        }
        if !changed {
            return;
        }
        self.hits = self.blocks.iter().flat_map(|found| found.hits.iter().copied()).collect();
        let (block, number) = self.stood;
        let own = self.blocks.get(block).map_or(0, |found| found.hits.len());
        self.at = self.first_of(block) + number.min(own.saturating_sub(1));
        self.at = self.at.min(self.hits.len().saturating_sub(1));
    }
}

/// A text in the one form in which texts are compared.
fn folded(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.nfc().collect::<String>().to_lowercase() }
}

/// What of a folded text is left whatever the marks of Markdown in it: letters and digits.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Whether a block may show a text. Most do not, and need not be laid out to know it.
fn may_show(block: &Block, needle: &Needle) -> bool {
    match &block.kind {
        // What is shown of these is short, and much of it stands in no source.
        Kind::Tool(_) | Kind::User { .. } | Kind::Note { .. } | Kind::Thinking { .. } => true,
        // A name for a character stands in its place.
        Kind::Answer { text, .. } | Kind::Summary { text, .. } if text.contains('&') => true,
        // It is laid out as it is, and its text may be long.
        Kind::Answer { live: true, .. } => true,
        Kind::Answer { text, .. } => needle.may_stand_in(text),
        Kind::Summary { text, title } => needle.may_stand_in(text) || needle.may_stand_in(title),
    }
}

impl Transcript {
    /// Brings the hits in a block up to date from a row on; from which row on it may change while it grows.
    fn hits_in(&mut self, index: usize, needle: &Needle, look: Look<'_>, from: usize, hits: &mut Vec<Hit>) -> usize {
        if needle.folded.is_empty() || !may_show(&self.blocks[index], needle) {
            hits.clear();
            return 0;
        }
        let rows = self.lay(index, look);
        let block = &self.blocks[index];
        let mut row = if from == 0 { 0 } else { line_around(block, from.min(rows.saturating_sub(1))).start };
        hits.retain(|hit| hit.to.place.row < row);
        while row < rows {
            let line = line_around(block, row);
            row = line.end;
            find_in(block, index, line, &needle.folded, hits);
        }
        block.settled_rows()
    }
}

/// Finds a folded text in one line of a block.
fn find_in(block: &Block, index: usize, line: std::ops::Range<usize>, query: &str, hits: &mut Vec<Hit>) {
    // Folding may change how many bytes a character takes: for each byte, the cell that it came from is kept.
    let mut text = String::new();
    let mut cells: Vec<(usize, u16, u16)> = Vec::new();
    for row in line {
        let Some(content) = block.row(row) else { continue };
        if let Join::Blank(blanks) = content.join {
            text.extend(std::iter::repeat_n(' ', usize::from(blanks)));
            let edge = cells.last().map_or((row, 0, 0), |(row, _, to)| (*row, *to, *to));
            cells.resize(text.len(), edge);
        }
        for cell in content.cells() {
            match cell.text.as_bytes() {
                [byte] => text.push(char::from(byte.to_ascii_lowercase())),
                _ => text.push_str(&folded(cell.text)),
            }
            cells.resize(text.len(), (row, cell.from, cell.to));
        }
    }
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(query)).map(|at| at + from) {
        from = at + query.len();
        let spot = |row, column| Spot { place: Place { block: index, row }, column };
        if let (Some((row, first, _)), Some((last_row, _, last))) = (cells.get(at), cells.get(from - 1)) {
            hits.push(Hit { from: spot(*row, *first), to: spot(*last_row, *last) });
        }
    }
}
