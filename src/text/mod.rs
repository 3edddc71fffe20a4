//! Text on a terminal: widths by grapheme, truncation at character borders, and cleaning of control
//! sequences. Everything that comes from a model, a tool, a file or a session passes [`clean`] or
//! [`clean_keeping_colour`] before it can reach the terminal.

mod clean;
mod secrets;

pub use clean::{ColourFilter, clean, clean_keeping_colour, shown, strip, visible};
pub use secrets::redact;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// How many cells a text takes, its control characters counted as none.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The longest head of `text` that is at most `bytes` long and ends at a character border.
pub fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The longest tail of `text` that is at most `bytes` long and begins at a character border.
pub fn tail(text: &str, bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..]
}

/// `text` cut to at most `cells`, with an ellipsis in place of what is left out at the end.
pub fn ellipsis(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let Some(room) = cells.checked_sub(1) else { return String::new() };
    let mut out = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        used += width(grapheme);
        if used > room {
            break;
        }
        out.push_str(grapheme);
    }
    out.push('…');
    out
}

/// `text` cut to at most `cells`, with an ellipsis in place of what is left out at the start: for paths,
/// whose end tells more.
pub fn ellipsis_start(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let Some(room) = cells.checked_sub(1) else { return String::new() };
    let mut kept = Vec::new();
    let mut used = 0;
    for grapheme in text.graphemes(true).rev() {
        used += width(grapheme);
        if used > room {
            break;
        }
        kept.push(grapheme);
    }
    kept.push("…");
    kept.into_iter().rev().collect()
}

/// The first line of a text that has more than blanks in it, trimmed.
pub fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_never_fall_inside_a_character() {
        let text = "a😀日本";
        for bytes in 0..=text.len() + 1 {
            assert!(text.starts_with(head(text, bytes)) && head(text, bytes).len() <= bytes);
            assert!(text.ends_with(tail(text, bytes)) && tail(text, bytes).len() <= bytes);
        }
    }

    #[test]
    fn an_ellipsis_never_takes_more_cells_than_asked() {
        for cells in 0..14 {
            let text = "日本👩‍🔬語テキスト";
            assert!(width(&ellipsis(text, cells)) <= cells);
            assert!(width(&ellipsis_start(text, cells)) <= cells);
        }
        assert_eq!(ellipsis("src/main.rs", 6), "src/m…");
        assert_eq!(ellipsis_start("src/main.rs", 8), "…main.rs");
    }
}
