//! Finding an old text in a file: exactly first, then with more and more tolerance, and never in two places.
//!
//! A tolerant search runs over a levelled copy of the file's lines. Only the lines in which a match begins and
//! ends are mapped back, so that the replaced span is one of the original bytes and nothing around it changes.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

use memchr::memmem;
use unicode_normalization::UnicodeNormalization;

use super::super::diff::Splice;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// The bytes of a file, prepared for several searches.
pub struct Text<'a> {
    bytes: &'a [u8],
    /// Where the text begins: after a byte order mark.
    begin: usize,
    copies: [OnceCell<Copy>; LEVELS.len()],
}

/// A place that was found, with what comes there.
#[derive(Debug)]
pub struct Found {
    /// The replacement.
    pub splice: Splice,
    /// What the match passed over, where it was not exact.
    pub how: Option<&'static str>,
}

/// Why no place was found.
#[derive(Debug, PartialEq, Eq)]
pub enum NotFound {
    /// The text is not there.
    None,
    /// The text is there more than once: the lines, and what the matches passed over.
    Several(Vec<usize>, Option<&'static str>),
}

/// How much a search passes over, each level all that the one before it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// `\r\n` for `\n`.
    Endings,
    /// Blanks at line ends; quotes, dashes, spaces and other forms of one character.
    Characters,
    /// Blanks at line starts.
    Indentation,
}

const LEVELS: [Level; 3] = [Level::Endings, Level::Characters, Level::Indentation];

impl Level {
    fn words(self) -> &'static str {
        match self {
            Level::Endings => "line endings",
            Level::Characters => "trailing blanks or look-alike characters (quotes, dashes, spaces, wide forms)",
            Level::Indentation => "indentation; the new text was indented like the file",
        }
    }
}

impl<'a> Text<'a> {
    /// The text of a file.
    pub fn of(bytes: &'a [u8]) -> Self {
        let begin = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
        Text { bytes, begin, copies: Default::default() }
    }

    /// The number of the line that a place is in, from 1.
    pub fn line_of(&self, at: usize) -> usize {
        memchr::memchr_iter(b'\n', &self.bytes[..at]).count() + 1
    }

    /// The only place of `old`, and `new` as it has to stand there.
    pub fn find(&self, old: &str, new: &str) -> Result<Found, NotFound> {
        let bom = |text: &'_ str| text.starts_with('\u{feff}') && self.begin > 0;
        let (old, new) = if bom(old) { (&old[3..], if bom(new) { &new[3..] } else { new }) } else { (old, new) };
        if old.is_empty() {
            return Err(NotFound::None);
        }
        match self.exactly(old)[..] {
            [] => {}
            [at] => {
                let new = self.with_endings(at, old, new, None);
                return Ok(Found { splice: Splice { old: at..at + old.len(), new }, how: None });
            }
            ref several => return Err(NotFound::Several(self.lines_of(several), None)),
        }
        for level in LEVELS {
            match self.tolerantly(level, old, new)? {
                Some(found) => return Ok(found),
                None => continue,
            }
        }
        Err(NotFound::None)
    }

    fn exactly(&self, old: &str) -> Vec<usize> {
        let finder = memmem::Finder::new(old);
        let mut found = Vec::new();
        let mut from = self.begin;
        while let Some(at) = finder.find(&self.bytes[from..]).map(|at| from + at) {
            // Not into the middle of a \r\n.
            if !(old.starts_with('\n') && at > 0 && self.bytes[at - 1] == b'\r') {
                found.push(at);
            }
            from = at + 1;
        }
        found
    }

    fn tolerantly(&self, level: Level, old: &str, new: &str) -> Result<Option<Found>, NotFound> {
        let pieces = lines(old.as_bytes());
        if level == Level::Endings && !old.contains('\r') && memchr::memchr(b'\r', self.bytes).is_none() {
            return Ok(self.at_the_end(level, &pieces, old, new));
        }
        if level != Level::Endings && old.trim().is_empty() {
            return Ok(None);
        }
        let copy = self.copies[level as usize].get_or_init(|| Copy::of(level, &self.bytes[self.begin..]));
        let needle = Needle::of(level, old.as_bytes(), &pieces);
        let finder = memmem::Finder::new(&needle.bytes);
        let mut found = Vec::new();
        let mut maps = Maps::of(level);
        let mut from = 0;
        while let Some(at) = finder.find(&copy.bytes[from..]).map(|at| from + at) {
            if let Some(place) = self.place(&mut maps, copy, &needle, at) {
                found.push(place);
            }
            from = at + 1;
        }
        match &found[..] {
            [] => Ok(self.at_the_end(level, &pieces, old, new)),
            [place] => Ok(self.found(level, place, &pieces, old, new)),
            several => {
                let starts: Vec<usize> = several.iter().map(|place| place.span.start).collect();
                Err(NotFound::Several(self.lines_of(&starts), Some(level.words())))
            }
        }
    }

    /// An old text that ends with a newline, where the file ends without one.
    fn at_the_end(&self, level: Level, pieces: &[Range<usize>], old: &str, new: &str) -> Option<Found> {
        let body = old.strip_suffix("\r\n").or_else(|| old.strip_suffix('\n'))?;
        if self.bytes.ends_with(b"\n") || body.trim().is_empty() {
            return None;
        }
        let pieces = &pieces[..pieces.len() - 1];
        let copy = self.copies[level as usize].get_or_init(|| Copy::of(level, &self.bytes[self.begin..]));
        let needle = Needle::of(level, body.as_bytes(), pieces);
        let at = copy.bytes.len().checked_sub(needle.bytes.len()).filter(|at| copy.bytes[*at..] == needle.bytes)?;
        let place = self.place(&mut Maps::of(level), copy, &needle, at)?;
        let new = new.strip_suffix("\r\n").or_else(|| new.strip_suffix('\n')).unwrap_or(new);
        let found = self.found(level, &place, pieces, body, new)?;
        let how = if level == Level::Endings { "the newline at its end" } else { level.words() };
        Some(Found { how: Some(how), ..found })
    }

    /// The original bytes of a match at `at` in a copy; `None` where it does not begin and end at borders.
    fn place(&self, maps: &mut Maps, copy: &Copy, needle: &Needle, at: usize) -> Option<Place> {
        let level = maps.level;
        let mut end = at + needle.bytes.len();
        // Blanks of the old text that stand in the middle of a line are matched like all else.
        let within = !needle.blanks.is_empty() && copy.bytes[end..].starts_with(&needle.blanks);
        end += if within { needle.blanks.len() } else { 0 };
        let blanks_at_end = !needle.blanks.is_empty() && !within;
        let (first, start_in) = copy.line_at(at);
        let (last, end_in) = copy.line_at(end);
        let line = |index: usize| &self.bytes[self.begin..][copy.lines[index].original.clone()];
        let begins = copy.lines[first].original.start;
        let start = match (level, start_in) {
            (_, 0) => begins,
            (Level::Indentation, _) => return None,
            (_, within) => begins + maps.border(first, line(first), within)?,
        };
        let whole = end_in == copy.length(last);
        let ends = copy.lines[last].original.start;
        let stop = match end_in {
            0 if needle.bytes.ends_with(b"\n") => ends,
            _ if level == Level::Indentation && !whole => return None,
            _ if blanks_at_end && !whole => return None,
            _ if blanks_at_end => copy.lines[last].original.end,
            within => ends + maps.border(last, line(last), within)?,
        };
        Some(Place { span: self.begin + start..self.begin + stop, first })
    }

    /// Makes the replacement for a place.
    fn found(&self, level: Level, place: &Place, pieces: &[Range<usize>], old: &str, new: &str) -> Option<Found> {
        let copy = self.copies[level as usize].get()?;
        let text = &self.bytes[self.begin..];
        let indented;
        let new = if level == Level::Indentation {
            let file = copy.lines[place.first..].iter().map(|line| &text[line.original.clone()]);
            let asked = pieces.iter().map(|piece| &old.as_bytes()[piece.clone()]);
            indented = Indents::between(asked, file)?.apply(new);
            &indented
        } else {
            new
        };
        let new = self.with_endings(place.span.start, old, new, Some(level));
        Some(Found { splice: Splice { old: place.span.clone(), new }, how: Some(level.words()) })
    }

    /// `new` with the line ending of the line that it comes into.
    fn with_endings(&self, at: usize, old: &str, new: &str, level: Option<Level>) -> Vec<u8> {
        // Who writes \r\n and is matched exactly knows what the file holds.
        if level.is_none() && old.contains("\r\n") {
            return new.as_bytes().to_vec();
        }
        let ending = self.ending(at);
        match level {
            None if ending == "\n" => new.as_bytes().to_vec(),
            _ => new.replace("\r\n", "\n").replace('\n', ending).into_bytes(),
        }
    }

    fn ending(&self, at: usize) -> &'static str {
        let found = memchr::memchr(b'\n', &self.bytes[at..]).map(|found| at + found);
        match found.or_else(|| memchr::memrchr(b'\n', &self.bytes[..at])) {
            Some(found) if found > 0 && self.bytes[found - 1] == b'\r' => "\r\n",
            Some(_) => "\n",
            None if memchr::memchr(b'\r', self.bytes).is_some() => "\r",
            None => "\n",
        }
    }

    /// The line numbers of places that are in order.
    fn lines_of(&self, places: &[usize]) -> Vec<usize> {
        let (mut line, mut counted) = (1, 0);
        let number = |at: &usize| {
            line += memchr::memchr_iter(b'\n', &self.bytes[counted..*at]).count();
            counted = *at;
            line
        };
        places.iter().map(number).collect()
    }
}

/// The file with its lines levelled and joined by newlines.
struct Copy {
    bytes: Vec<u8>,
    lines: Vec<Line>,
}

struct Line {
    /// Where it begins in the copy.
    start: usize,
    /// Its bytes in the original, without its ending.
    original: Range<usize>,
}

impl Copy {
    fn of(level: Level, text: &[u8]) -> Self {
        let mut copy = Copy { bytes: Vec::with_capacity(text.len()), lines: Vec::new() };
        for (index, original) in lines(text).into_iter().enumerate() {
            if index > 0 {
                copy.bytes.push(b'\n');
            }
            let start = copy.bytes.len();
            level_line(level, &text[original.clone()], &mut copy.bytes, None);
            copy.lines.push(Line { start, original });
        }
        copy
    }

    /// The line of a place in the copy, and the place within it.
    fn line_at(&self, at: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|line| line.start <= at).saturating_sub(1);
        (line, at - self.lines[line].start)
    }

    /// The length of a levelled line.
    fn length(&self, line: usize) -> usize {
        let end = self.lines.get(line + 1).map_or(self.bytes.len(), |next| next.start - 1);
        end - self.lines[line].start
    }
}

/// The old text, levelled like the file.
struct Needle {
    bytes: Vec<u8>,
    /// Blanks at the end of its last line, which the levelling took. They match blanks within a line, or the end
    /// of one.
    blanks: Vec<u8>,
}

impl Needle {
    fn of(level: Level, old: &[u8], pieces: &[Range<usize>]) -> Self {
        let mut bytes = Vec::with_capacity(old.len());
        for (index, piece) in pieces.iter().enumerate() {
            if index > 0 {
                bytes.push(b'\n');
            }
            level_line(level, &old[piece.clone()], &mut bytes, None);
        }
        let last = pieces.last().map_or(&[][..], |piece| &old[piece.clone()]);
        let kept = last.iter().rposition(|byte| !matches!(byte, b' ' | b'\t')).map_or(0, |at| at + 1);
        let blanks = if level == Level::Endings { Vec::new() } else { last[kept..].to_vec() };
        Needle { bytes, blanks }
    }
}

/// A match in the original bytes, and the index of the line in which it begins.
struct Place {
    span: Range<usize>,
    first: usize,
}

/// The lines of a text without their endings. A text without any newline may be parted by carriage returns.
fn lines(text: &[u8]) -> Vec<Range<usize>> {
    let separator = if memchr::memchr(b'\n', text).is_some() { b'\n' } else { b'\r' };
    let mut lines = Vec::new();
    let mut start = 0;
    for end in memchr::memchr_iter(separator, text) {
        let carriage_return = separator == b'\n' && end > start && text[end - 1] == b'\r';
        lines.push(start..end - usize::from(carriage_return));
        start = end + 1;
    }
    lines.push(start..text.len());
    lines
}

/// Appends a levelled line to `out`. `map` takes, for each byte of it, where its character begins in `line`, and
/// at last where the last one ends.
fn level_line(level: Level, line: &[u8], out: &mut Vec<u8>, mut map: Option<&mut Vec<usize>>) {
    let begin = out.len();
    let mut ends = 0;
    if level == Level::Endings {
        out.extend_from_slice(line);
        ends = line.len();
        if let Some(map) = map.as_deref_mut() {
            map.extend(0..line.len());
        }
    } else {
        if map.is_none() && line.is_ascii() {
            let line = if level == Level::Indentation { &line[indent(line).len()..] } else { line };
            let kept = line.iter().rposition(|byte| !matches!(byte, b' ' | b'\t')).map_or(0, |at| at + 1);
            out.extend_from_slice(&line[..kept]);
            return;
        }
        let mut at = 0;
        let mut kept = (out.len(), 0);
        let mut at_start = level == Level::Indentation;
        for chunk in line.utf8_chunks() {
            let characters = chunk.valid().chars().map(|c| (Ok(c), c.len_utf8()));
            for (character, length) in characters.chain(chunk.invalid().iter().map(|byte| (Err(*byte), 1))) {
                let before = out.len();
                match character {
                    Ok(c) => level_character(c, out),
                    Err(byte) => out.push(byte),
                }
                let blank = matches!(out[before..], [b' '] | [b'\t']);
                if at_start && blank {
                    out.truncate(before);
                } else {
                    at_start = false;
                    if let Some(map) = map.as_deref_mut() {
                        map.extend(std::iter::repeat_n(at, out.len() - before));
                    }
                }
                at += length;
                if !blank {
                    kept = (out.len(), at);
                }
            }
        }
        out.truncate(kept.0.max(begin));
        ends = ends.max(kept.1);
    }
    if let Some(map) = map {
        map.truncate(out.len() - begin);
        map.push(ends);
    }
}

/// The map of one levelled line at a time: many matches in one long line need it but once.
struct Maps {
    level: Level,
    line: Option<usize>,
    map: Vec<usize>,
}

impl Maps {
    fn of(level: Level) -> Self {
        Maps { level, line: None, map: Vec::new() }
    }

    /// Where a place in a levelled line lies in the original, unless it lies inside a character.
    fn border(&mut self, index: usize, line: &[u8], at: usize) -> Option<usize> {
        if self.line != Some(index) {
            self.map.clear();
            level_line(self.level, line, &mut Vec::new(), Some(&mut self.map));
            self.line = Some(index);
        }
        let place = *self.map.get(at)?;
        (at == 0 || at + 1 == self.map.len() || self.map[at - 1] != place).then_some(place)
    }
}

/// Appends the plainest form of a character.
fn level_character(c: char, out: &mut Vec<u8>) {
    if c.is_ascii() {
        out.push(c as u8);
        return;
    }
    let mut buffer = [0; 4];
    for part in std::iter::once(plain(c)).nfkd().map(plain) {
        out.extend_from_slice(part.encode_utf8(&mut buffer).as_bytes());
    }
}

fn plain(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201b}' | '\u{2032}' => '\'',
        '\u{201c}'..='\u{201f}' | '\u{2033}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        c => c,
    }
}

/// Which indentation of the file stands for which of the old text.
struct Indents<'a> {
    of: HashMap<&'a [u8], &'a [u8]>,
}

impl<'a> Indents<'a> {
    /// `None` where the same indentation of the one stands for several of the other: the blocks differ in shape.
    fn between(old: impl Iterator<Item = &'a [u8]>, file: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut of = HashMap::new();
        for (old, file) in old.zip(file).filter(|(old, _)| !old.trim_ascii().is_empty()) {
            let (old, file) = (indent(old), indent(file));
            if *of.entry(old).or_insert(file) != file {
                return None;
            }
        }
        Some(Indents { of })
    }

    fn apply(&self, new: &str) -> String {
        let line = |line: &str| {
            let own = indent(line.as_bytes());
            match line.trim().is_empty() {
                true => line.to_owned(),
                false => self.indent(own) + &line[own.len()..],
            }
        };
        new.split('\n').map(line).collect::<Vec<_>>().join("\n")
    }

    /// The file's indentation for one of the new text.
    fn indent(&self, own: &[u8]) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if let Some(file) = self.of.get(own) {
            return text(file);
        }
        // Deeper than a known one: what it has beyond that follows, in the file's own unit where that is plain.
        let longest = self.of.iter().filter(|(old, _)| own.starts_with(old)).max_by_key(|(old, _)| old.len());
        if let Some((old, file)) = longest {
            let beyond = &own[old.len()..];
            return match self.unit() {
                Some((from, to)) if beyond.len().is_multiple_of(from) && beyond.iter().all(|b| *b == own[0]) => {
                    text(file) + &to.repeat(beyond.len() / from)
                }
                _ => text(file) + &text(beyond),
            };
        }
        // Less deep than all: as much is taken from the file's.
        let shallowest = self.of.iter().min_by_key(|(old, _)| old.len());
        match shallowest {
            Some((old, file)) if old.len() > own.len() => {
                let less = old.len() - own.len();
                match self.unit() {
                    Some((from, to)) if less.is_multiple_of(from) => {
                        text(&file[..file.len().saturating_sub(to.len() * (less / from))])
                    }
                    _ => text(&file[..file.len().saturating_sub(less)]),
                }
            }
            _ => text(own),
        }
    }

    /// How many blanks of the old text are one step, and what one step is in the file, where the two differ in
    /// kind or width.
    fn unit(&self) -> Option<(usize, String)> {
        let mut steps: Vec<(usize, &[u8])> = self.of.iter().map(|(old, file)| (old.len(), *file)).collect();
        steps.sort_unstable();
        let deeper = steps.windows(2).find_map(|pair| match pair {
            [(one, a), (two, b)] if b.len() > a.len() && b.starts_with(a) => Some((two - one, &b[a.len()..])),
            _ => None,
        });
        let (from, to) = match (deeper, steps.first()) {
            (Some(step), _) => step,
            // A single depth tells only when tabs stand for spaces: then one tab is one step.
            (None, Some((old, file))) if *old > 0 && !file.is_empty() && file.iter().all(|byte| *byte == b'\t') => {
                (old / file.len(), &b"\t"[..])
            }
            _ => return None,
        };
        (from > 0).then(|| (from, String::from_utf8_lossy(to).into_owned()))
    }
}

fn indent(line: &[u8]) -> &[u8] {
    let length = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &line[..length]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes of which lines, blanks, look-alikes and broken characters are made.
    fn pieces(most: usize) -> impl Strategy<Value = Vec<&'static [u8]>> {
        let alphabet: [&[u8]; 14] = [
            b"a",
            b"b",
            b" ",
            b"\t",
            b"\n",
            b"\r\n",
            b"\r",
            b"'",
            "\u{2019}".as_bytes(),
            "\u{2026}".as_bytes(),
            b".",
            "\u{e9}".as_bytes(),
            "e\u{301}".as_bytes(),
            b"\xff",
        ];
        proptest::collection::vec(proptest::sample::select(alphabet.to_vec()), 0..most)
    }

    proptest! {
        #[test]
        fn a_match_is_a_span_of_whole_characters(file in pieces(40), old in pieces(6), new in pieces(6)) {
            let file = file.concat();
            let (old, new) = (String::from_utf8_lossy(&old.concat()).into_owned(), String::from_utf8_lossy(&new.concat()).into_owned());
            if let Ok(found) = Text::of(&file).find(&old, &new) {
                let Range { start, end } = found.splice.old;
                prop_assert!(start <= end && end <= file.len());
                let begins_inside = |at: usize| at < file.len() && file[at] & 0xc0 == 0x80;
                prop_assert!(!begins_inside(start) && !begins_inside(end));
                // An exact match is one to the byte.
                if found.how.is_none() {
                    prop_assert_eq!(&file[start..end], old.as_bytes());
                }
            }
        }
    }

    #[test]
    fn many_matches_in_one_long_line_take_no_longer_than_one() {
        let file = "x = \u{2019}a\u{2019}; ".repeat(100_000);
        let found = Text::of(file.as_bytes()).find("x = 'a';", "y");
        assert!(matches!(found, Err(NotFound::Several(lines, Some(_))) if lines.len() == 100_000));
    }
}
