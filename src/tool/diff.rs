//! Hunks of a change to one file. Their cost follows the change, not the file.

use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffTag, capture_diff_slices_deadline, group_diff_ops};

use crate::text;
use crate::toolkit::{DiffLine, Hunk};

/// Lines around a change that are shown with it.
const CONTEXT: usize = 3;

/// How long a diff may look for the shortest way; after that it takes a longer one.
const PATIENCE: Duration = Duration::from_millis(200);

/// Most lines of a view; it is stored with the session.
const MOST_LINES: usize = 1000;

/// Most bytes of a line in a view.
const MOST_BYTES: usize = 1000;

/// A replacement of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// Which bytes of the old text go.
    pub old: Range<usize>,
    /// What comes in their place.
    pub new: Vec<u8>,
}

/// A change as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The changed regions, in order.
    pub hunks: Vec<Hunk>,
    /// Lines that are new.
    pub added: usize,
    /// Lines that are gone.
    pub removed: usize,
}

impl Change {
    /// `+3 −1`.
    pub fn summary(&self) -> String {
        format!("+{} −{}", self.added, self.removed)
    }
}

/// `old` with the splices applied; they are in order and do not overlap.
pub fn spliced(old: &[u8], splices: &[Splice]) -> Vec<u8> {
    let grown: usize = splices.iter().map(|splice| splice.new.len()).sum();
    let mut out = Vec::with_capacity(old.len() + grown);
    let mut at = 0;
    for splice in splices {
        out.extend_from_slice(&old[at..splice.old.start]);
        out.extend_from_slice(&splice.new);
        at = splice.old.end;
    }
    out.extend_from_slice(&old[at..]);
    out
}

/// The hunks of splices, which are in order and do not overlap.
pub fn of_splices(old: &[u8], splices: &[Splice]) -> Change {
    let mut change = Change { hunks: Vec::new(), added: 0, removed: 0 };
    let (mut counted, mut old_line, mut shift) = (0, 0, 0isize);
    let mut rest = splices;
    while let [first, ..] = rest {
        let mut window = around(old, &first.old);
        let mut taken = 1;
        while let Some(next) = rest.get(taken).filter(|next| around(old, &next.old).start <= window.end) {
            window.end = window.end.max(around(old, &next.old).end);
            taken += 1;
        }
        let moved: Vec<Splice> = rest[..taken]
            .iter()
            .map(|splice| Splice {
                old: splice.old.start - window.start..splice.old.end - window.start,
                new: splice.new.clone(),
            })
            .collect();
        old_line += memchr::memchr_iter(b'\n', &old[counted..window.start]).count();
        counted = window.start;
        let before = &old[window.clone()];
        let after = spliced(before, &moved);
        shift += add_hunks(&mut change, before, &after, old_line, shift);
        rest = &rest[taken..];
    }
    cap(&mut change);
    change
}

/// The hunks between two whole texts.
pub fn of_texts(old: &[u8], new: &[u8]) -> Change {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    if head == old.len() && head == new.len() {
        return Change { hunks: Vec::new(), added: 0, removed: 0 };
    }
    of_splices(old, &[Splice { old: head..old.len() - tail, new: new[head..new.len() - tail].to_vec() }])
}

/// The whole lines of a range with their context.
fn around(text: &[u8], range: &Range<usize>) -> Range<usize> {
    let mut start = line_start(text, range.start);
    for _ in 0..CONTEXT {
        start = if start == 0 { 0 } else { line_start(text, start - 1) };
    }
    let mut end = line_end(text, range.end);
    for _ in 0..CONTEXT {
        end = line_end(text, end);
    }
    start..end
}

fn line_start(text: &[u8], at: usize) -> usize {
    memchr::memrchr(b'\n', &text[..at]).map_or(0, |found| found + 1)
}

fn line_end(text: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |found| at + found + 1)
}

/// Adds the hunks of one window; returns by how many lines it grew.
fn add_hunks(change: &mut Change, before: &[u8], after: &[u8], first_line: usize, shift: isize) -> isize {
    let old: Vec<&[u8]> = before.split_inclusive(|byte| *byte == b'\n').collect();
    let new: Vec<&[u8]> = after.split_inclusive(|byte| *byte == b'\n').collect();
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(Instant::now() + PATIENCE));
    for group in group_diff_ops(ops, CONTEXT) {
        let (Some(first), Some(_)) = (group.first(), group.last()) else { continue };
        let old_start = first_line + first.old_range().start + 1;
        let new_start = (first_line + first.new_range().start).saturating_add_signed(shift) + 1;
        let mut lines = Vec::new();
        for op in &group {
            let (tag, was, is) = op.as_tag_tuple();
            if tag == DiffTag::Equal {
                lines.extend(old[was].iter().map(|line| DiffLine::Context(shown(line, 0))));
                continue;
            }
            change.removed += was.len();
            change.added += is.len();
            // In one very long line the change itself must be in sight.
            let same = match (was.len(), is.len()) {
                (1, 1) => old[was.start].iter().zip(new[is.start]).take_while(|(a, b)| a == b).count(),
                _ => 0,
            };
            lines.extend(old[was].iter().map(|line| DiffLine::Removed(shown(line, same))));
            lines.extend(new[is].iter().map(|line| DiffLine::Added(shown(line, same))));
        }
        change.hunks.push(Hunk { old_start, new_start, lines });
    }
    new.len() as isize - old.len() as isize
}

fn shown(line: &[u8], around: usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= MOST_BYTES {
        return String::from_utf8_lossy(line).into_owned();
    }
    let start = around.saturating_sub(MOST_BYTES / 4).min(line.len());
    let end = (start + MOST_BYTES).min(line.len());
    let piece = String::from_utf8_lossy(&line[start..end]);
    let piece = piece.trim_matches('\u{fffd}');
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < line.len() { "…" } else { "" });
    format!("{before}{}{after}", text::head(piece, MOST_BYTES))
}

/// Leaves out what is too much to be stored; the counts stay true.
fn cap(change: &mut Change) {
    let mut room = MOST_LINES;
    for hunk in &mut change.hunks {
        hunk.lines.truncate(room);
        room -= hunk.lines.len();
    }
    change.hunks.retain(|hunk| !hunk.lines.is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(range: Range<usize>) -> String {
        range.map(|n| format!("l{n}\n")).collect()
    }

    #[test]
    fn hunks_have_three_lines_of_context_and_right_numbers() {
        let old = numbered(1..101);
        let at = |text: &str| old.find(text).expect("there");
        let one = Splice { old: at("l10\n")..at("l11\n"), new: b"x\ny\n".to_vec() };
        let two = Splice { old: at("l50\n")..at("l50\n") + 3, new: b"z".to_vec() };
        let change = of_splices(old.as_bytes(), &[one, two]);
        assert_eq!(change.summary(), "+3 −2");
        assert_eq!(change.hunks.len(), 2);
        assert_eq!((change.hunks[0].old_start, change.hunks[0].new_start), (7, 7));
        assert_eq!((change.hunks[1].old_start, change.hunks[1].new_start), (47, 48));
        let removed = DiffLine::Removed("l10".into());
        assert_eq!(change.hunks[0].lines[3], removed);
        assert_eq!(change.hunks[0].lines.len(), 9);
    }

    #[test]
    fn whole_texts_and_close_changes() {
        let change = of_texts(b"a\nb\nc\n", b"a\nB\nc\n");
        assert_eq!(change.hunks.len(), 1);
        assert_eq!(change.summary(), "+1 −1");
        assert_eq!(of_texts(b"", b"x\ny\n").summary(), "+2 −0");
        assert_eq!(of_texts(b"x", b"x").hunks, []);
        let old = numbered(1..20);
        let splices: Vec<Splice> = [3, 12, 21].map(|at| Splice { old: at..at + 2, new: b"zz".to_vec() }).to_vec();
        assert_eq!(of_splices(old.as_bytes(), &splices).hunks.len(), 1);
    }

    #[test]
    fn long_lines_and_long_changes_are_bounded() {
        let old = "é".repeat(5_000_000);
        let at = old.len() / 2;
        let change = of_splices(old.as_bytes(), &[Splice { old: at..at, new: b"NEW".to_vec() }]);
        let bytes: usize = serde_json::to_string(&change.hunks).expect("writes").len();
        assert!(bytes < 5000, "{bytes}");
        assert!(matches!(&change.hunks[0].lines[1], DiffLine::Added(line) if line.contains("NEW")));
        let change = of_texts(b"", numbered(0..50_000).as_bytes());
        assert_eq!(change.added, 50_000);
        assert_eq!(change.hunks[0].lines.len(), MOST_LINES);
    }
}
