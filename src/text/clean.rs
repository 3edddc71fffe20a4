//! Removal of control sequences, whole: nothing of `ESC ] 52 ; … BEL` is left standing as text.

/// Removes every escape sequence and makes other control characters visible, but for newline and tab.
/// Carriage returns before a newline go.
pub fn clean(text: &str) -> String {
    let mut filter = ColourFilter { keep_colour: false, ..ColourFilter::default() };
    let mut out = filter.push(text);
    out.push_str(&filter.finish());
    out
}

/// Like [`clean`], but colours (SGR sequences) stay.
pub fn clean_keeping_colour(text: &str) -> String {
    let mut filter = ColourFilter::default();
    let mut out = filter.push(text);
    out.push_str(&filter.finish());
    out
}

/// Removes every escape sequence and every control character but newline and tab: what a model should get
/// of a command's output.
pub fn strip(text: &str) -> String {
    let mut filter = ColourFilter { keep_colour: false, show_controls: false, ..ColourFilter::default() };
    let mut out = filter.push(text);
    out.push_str(&filter.finish());
    out
}

/// Shows control characters as symbols and removes nothing: for the names of files and the like, where
/// what stands there matters. Newlines and tabs become symbols too.
pub fn visible(text: &str) -> String {
    text.chars().map(symbol).collect()
}

/// Like [`visible`], but newlines and tabs stay, and the carriage return before a newline goes: for whole texts of models, files
/// and people.
pub fn shown(text: &str) -> String {
    let keep = |c: char| if matches!(c, '\n' | '\t') { c } else { symbol(c) };
    text.replace("\r\n", "\n").chars().map(keep).collect()
}

/// The symbol that stands for a control character; any other character itself.
fn symbol(c: char) -> char {
    match u32::from(c) {
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'),
        0x7f => '\u{2421}',
        0x80..=0x9f => '\u{fffd}',
        // Bidirectional overrides reorder what the reader sees.
        0x202a..=0x202e | 0x2066..=0x2069 => '\u{fffd}',
        _ => c,
    }
}

/// Longest escape sequence that is waited for; what is longer never ends and is dropped.
const LONGEST: usize = 4096;

/// Cleans a text that comes in pieces: a sequence that is cut between two pieces is still removed whole.
#[derive(Debug)]
pub struct ColourFilter {
    keep_colour: bool,
    show_controls: bool,
    state: State,
    /// The sequence that is open, as far as it came; kept only while it may be a colour.
    open: String,
    /// Length of an open string sequence.
    length: usize,
    carriage_return: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Text,
    Escape,
    /// After ESC and an intermediate byte.
    Intermediate,
    Csi,
    /// OSC, DCS, APC, PM, SOS: up to BEL or ST.
    String,
    /// An ESC within such a string: the string's end, or the begin of the next sequence.
    StringEscape,
}

impl Default for ColourFilter {
    fn default() -> Self {
        ColourFilter {
            keep_colour: true,
            show_controls: true,
            state: State::Text,
            open: String::new(),
            length: 0,
            carriage_return: false,
        }
    }
}

impl ColourFilter {
    /// Cleans the next piece.
    pub fn push(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            self.take(c, &mut out);
        }
        out
    }

    /// Ends the text: what is still open is dropped.
    pub fn finish(&mut self) -> String {
        self.state = State::Text;
        self.open.clear();
        let pending = std::mem::take(&mut self.carriage_return);
        if pending && self.show_controls { symbol('\r').to_string() } else { String::new() }
    }

    fn take(&mut self, c: char, out: &mut String) {
        match self.state {
            State::Text => self.text(c, out),
            State::Escape => match c {
                '[' => self.state = State::Csi,
                ']' | 'P' | '_' | '^' | 'X' => self.begin_string(),
                '\u{20}'..='\u{2f}' => self.state = State::Intermediate,
                '\u{1b}' => {}
                // ESC and one character is a whole sequence; a control character is none.
                '\u{30}'..='\u{7e}' => self.state = State::Text,
                c => {
                    self.state = State::Text;
                    self.text(c, out);
                }
            },
            State::Intermediate => match c {
                '\u{20}'..='\u{2f}' => {}
                '\u{30}'..='\u{7e}' => self.state = State::Text,
                c => {
                    self.state = State::Text;
                    self.text(c, out);
                }
            },
            State::Csi => match c {
                '\u{20}'..='\u{3f}' if self.open.len() < LONGEST => self.open.push(c),
                '\u{40}'..='\u{7e}' => {
                    self.state = State::Text;
                    let plain = self.open.bytes().all(|b| b.is_ascii_digit() || matches!(b, b';' | b':'));
                    if c == 'm' && plain && self.keep_colour {
                        out.push_str("\x1b[");
                        out.push_str(&self.open);
                        out.push('m');
                    }
                    self.open.clear();
                }
                c => {
                    self.state = State::Text;
                    self.open.clear();
                    self.text(c, out);
                }
            },
            State::String => {
                self.length += 1;
                match c {
                    '\u{07}' | '\u{9c}' => self.state = State::Text,
                    '\u{1b}' => self.state = State::StringEscape,
                    // A string that does not end would swallow all that follows.
                    '\n' => {
                        self.state = State::Text;
                        self.text(c, out);
                    }
                    _ if self.length > LONGEST => self.state = State::Text,
                    _ => {}
                }
            }
            State::StringEscape => {
                self.state = State::Text;
                if c != '\\' {
                    self.state = State::Escape;
                    self.take(c, out);
                }
            }
        }
    }

    fn text(&mut self, c: char, out: &mut String) {
        if std::mem::take(&mut self.carriage_return) && c != '\n' && self.show_controls {
            out.push(symbol('\r'));
        }
        match c {
            '\u{1b}' => self.state = State::Escape,
            '\u{9b}' => self.state = State::Csi,
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => self.begin_string(),
            '\r' => self.carriage_return = true,
            '\n' | '\t' => out.push(c),
            c if symbol(c) == c => out.push(c),
            c if self.show_controls => out.push(symbol(c)),
            _ => {}
        }
    }

    fn begin_string(&mut self) {
        self.state = State::String;
        self.length = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every sequence of traps.md B146.
    const HOSTILE: &[&str] = &[
        "\x1b]52;c;ZXZpbA==\x07",
        "\x1b]0;pwn\x07",
        "\x1b[2J",
        "\x1b[6n",
        "\x1bPx\x1b\\",
        "\u{9b}2J",
        "\x1b]8;;javascript:x\x1b\\",
        "\x1b[?1049l",
        "\x1bc",
        "\x1b(0",
    ];

    #[test]
    fn hostile_sequences_are_removed_whole() {
        for sequence in HOSTILE {
            let text = format!("a{sequence}b");
            assert_eq!(clean(&text), "ab", "{sequence:?}");
            assert_eq!(clean_keeping_colour(&text), "ab", "{sequence:?}");
            assert_eq!(strip(&text), "ab", "{sequence:?}");
        }
    }

    #[test]
    fn shown_texts_lose_nothing_and_command_nothing() {
        for sequence in HOSTILE {
            let text = shown(&format!("a{sequence}b"));
            assert!(!text.contains(char::is_control) && text.chars().count() == sequence.chars().count() + 2, "{text}");
        }
        assert_eq!(shown("a\r\nb\tc\rd\u{1b}[31m"), "a\nb\tc␍d␛[31m");
    }

    #[test]
    fn pieces_give_what_the_whole_gives() {
        for sequence in HOSTILE {
            let text = format!("a{sequence}b");
            for (cut, _) in text.char_indices() {
                let mut filter = ColourFilter::default();
                let joined = filter.push(&text[..cut]) + &filter.push(&text[cut..]) + &filter.finish();
                assert_eq!(joined, "ab", "{sequence:?} at {cut}");
            }
        }
    }

    #[test]
    fn colours_stay_where_they_are_wanted() {
        assert_eq!(clean_keeping_colour("\x1b[1;31mred\x1b[0m"), "\x1b[1;31mred\x1b[0m");
        assert_eq!(clean_keeping_colour("\x1b[>1m\x1b[?25lx"), "x");
        assert_eq!(clean("\x1b[1;31mred\x1b[0m"), "red");
    }

    #[test]
    fn an_unterminated_string_ends_at_the_line() {
        assert_eq!(clean("a\x1b]0;never\nb"), "a\nb");
        assert_eq!(clean("lone \x1b"), "lone ");
    }

    #[test]
    fn other_controls_are_shown_or_dropped() {
        assert_eq!(clean("a\u{0}b\u{85}c\r\nd\re"), "a␀b\u{fffd}c\nd␍e");
        assert_eq!(strip("a\u{0}b\u{85}c\r\nd\re"), "abc\nde");
        assert_eq!(visible("a\nb\u{202e}"), "a␊b\u{fffd}");
    }
}
