//! Cutting texts for the model: by lines and bytes, whole lines where it can be, never inside a character.

/// Most lines of a text that a model gets at once.
pub const LINES: usize = 2000;

/// Most bytes of a text that a model gets at once: 50 KiB.
pub const BYTES: usize = 50 * 1024;

/// The end of a text, cut.
#[derive(Debug, PartialEq, Eq)]
pub struct Tail<'a> {
    /// What is kept.
    pub text: &'a str,
    /// How many lines that is.
    pub lines: usize,
    /// The first line of them lacks its begin.
    pub partial: bool,
}

/// The last lines of `text`, at most `lines` and `bytes` of them. A last line that alone is longer shows its
/// end. A newline at the end does not begin another line.
pub fn tail(text: &str, lines: usize, bytes: usize) -> Tail<'_> {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let mut start = body.len();
    let mut kept = 0;
    while kept < lines && (start > 0 || kept == 0) {
        let end = if kept == 0 { body.len() } else { start - 1 };
        let begin = memchr::memrchr(b'\n', &body.as_bytes()[..end]).map_or(0, |at| at + 1);
        if text.len() - begin > bytes {
            if kept == 0 {
                return Tail { text: crate::text::tail(text, bytes), lines: 1, partial: true };
            }
            break;
        }
        start = begin;
        kept += 1;
    }
    Tail { text: &text[start..], lines: kept, partial: false }
}

/// A line cut to about `bytes`, with a note of how much is left out; `around` is a place that must stay in sight.
pub fn line(line: &str, bytes: usize, around: usize) -> String {
    if line.len() <= bytes {
        return line.to_owned();
    }
    let start = if around + bytes / 4 <= bytes { 0 } else { line.floor_char_boundary(around - bytes / 4) };
    let end = line.floor_char_boundary((start + bytes).min(line.len()));
    let before = if start > 0 { "…" } else { "" };
    let after = if end < line.len() { format!("… ({} bytes in all)", line.len()) } else { String::new() };
    format!("{before}{}{after}", &line[start..end])
}

/// A size for people: `12 bytes`, `3.4 KiB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_keep_whole_lines() {
        assert_eq!(tail("a\nb\nc\n", 2, 100), Tail { text: "b\nc\n", lines: 2, partial: false });
        assert_eq!(tail("a\nb\nc", 9, 100), Tail { text: "a\nb\nc", lines: 3, partial: false });
        assert_eq!(tail("aaaa\nbb\n", 9, 4), Tail { text: "bb\n", lines: 1, partial: false });
        assert_eq!(tail("\n\n\n", 2, 100).text, "\n\n");
        assert_eq!(tail("", 2, 100).text, "");
    }

    #[test]
    fn a_long_last_line_shows_its_end_at_a_character() {
        let text = "x\n".to_owned() + &"😀".repeat(100);
        for bytes in 1..30 {
            let cut = tail(&text, 9, bytes);
            assert!(cut.partial && cut.text.len() <= bytes && text.ends_with(cut.text));
        }
    }

    #[test]
    fn long_lines_keep_the_place_in_sight() {
        let text = "é".repeat(500) + "HIT" + &"é".repeat(500);
        let cut = line(&text, 100, 1000);
        assert!(cut.contains("HIT") && cut.starts_with('…') && cut.ends_with("(2003 bytes in all)"), "{cut}");
        for around in 0..text.len() {
            line(&text, 61, around);
        }
    }
}
