//! From the bytes that a terminal sends to keys, mouse, pastes and replies, in crossterm's own types.
//!
//! It stands in the place of crossterm's reader, which takes an ESC that ends a read for the key, prints
//! the rest of a split mouse report, knows no `modifyOtherKeys` and takes the base layout's key for the key.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

/// What came from the terminal.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A key was pressed.
    Key(KeyEvent),
    /// Several plain characters that came in one piece: fast typing, or a paste without brackets.
    Text(String),
    /// A paste, literally.
    Paste(String),
    /// The mouse.
    Mouse(MouseEvent),
    /// The window has the person's attention, or has it no longer.
    Focus(bool),
    /// The terminal's background, as it answered.
    Background(u8, u8, u8),
}

/// How long a lone ESC may be the begin of a sequence.
const ESCAPE: Duration = Duration::from_millis(25);
/// How long `ESC [` and its like may be the begin of a sequence.
const INTRODUCER: Duration = Duration::from_millis(300);
/// How long the end of a reply may take. What has none must not swallow the keys that follow.
const REPLY: Duration = Duration::from_secs(1);
/// A read that comes this soon after a burst is part of it.
const BURST: Duration = Duration::from_millis(30);
/// No sequence is longer than this; what is, was none.
const LONGEST: usize = 16 * 1024;
const PASTE_END: &[u8] = b"\x1b[201~";

/// Decodes what a terminal sends, in whatever pieces it comes.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    paste: Option<Vec<u8>>,
    /// When the last lone ESC was taken for a key: what follows may still be its tail.
    escaped: Option<Instant>,
    burst: Option<Instant>,
}

enum Step {
    /// That many bytes are done with.
    Taken(usize),
    /// More must come first.
    Wait,
}

impl Decoder {
    /// Takes what was read.
    pub fn feed(&mut self, bytes: &[u8], now: Instant, out: &mut Vec<Input>) {
        let begun = out.len();
        self.bytes.extend_from_slice(bytes);
        if let Some(at) = self.escaped.take()
            && now.duration_since(at) < Duration::from_millis(500)
            && let Some(length) = mouse_tail(&self.bytes)
        {
            self.bytes.drain(..length);
        }
        let mut at = 0;
        while at < self.bytes.len() {
            if self.paste.is_some() {
                at = self.take_paste(at, out);
                continue;
            }
            match step(&self.bytes[at..], out) {
                Step::Taken(length) => {
                    if self.bytes[at..].starts_with(b"\x1b[200~") {
                        self.paste = Some(Vec::new());
                    }
                    at += length.max(1);
                }
                Step::Wait => break,
            }
        }
        self.bytes.drain(..at.min(self.bytes.len()));
        if self.bytes.len() > LONGEST {
            self.bytes.clear();
        }
        self.join(begun, now, out);
    }

    /// When [`Decoder::expire`] must be called if nothing comes until then.
    pub fn patience(&self) -> Option<Duration> {
        match self.bytes.as_slice() {
            [0x1b] => Some(ESCAPE),
            [0x1b, b'[' | b'O' | b']' | b'P' | b'_' | b'^'] => Some(INTRODUCER),
            [0x1b, b']' | b'P' | b'_', ..] => Some(REPLY),
            _ => None,
        }
    }

    /// Nothing more came: an ESC was the key.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<Input>) {
        match self.bytes.as_slice() {
            [0x1b] => {
                out.push(key(KeyCode::Esc, KeyModifiers::NONE));
                self.escaped = Some(now);
            }
            [0x1b, second @ (b'[' | b'O' | b']' | b'P' | b'_' | b'^')] => {
                out.push(key(KeyCode::Char(char::from(*second)), KeyModifiers::ALT));
            }
            // A reply that broke off.
            [0x1b, b']' | b'P' | b'_', ..] => {}
            _ => return,
        }
        self.bytes.clear();
    }

    /// Takes as much of a paste as is there; where to go on.
    fn take_paste(&mut self, at: usize, out: &mut Vec<Input>) -> usize {
        let Some(paste) = &mut self.paste else { return at };
        // The end may be cut in two, so that it is looked for in what is kept, too.
        let from = paste.len().saturating_sub(PASTE_END.len() - 1);
        let before = paste.len();
        paste.extend_from_slice(&self.bytes[at..]);
        let Some(end) = find(&paste[from..], PASTE_END).map(|end| from + end) else { return self.bytes.len() };
        let whole = String::from_utf8_lossy(&paste[..end]).into_owned();
        self.paste = None;
        out.push(Input::Paste(whole));
        at + end + PASTE_END.len() - before
    }

    /// Joins plain characters that came in one read into one text; with a line break between them it was
    /// pasted, and must not submit.
    fn join(&mut self, begun: usize, now: Instant, out: &mut Vec<Input>) {
        if out.len() - begun < 2 && self.burst.is_none() {
            return;
        }
        let fresh = out.split_off(begun);
        let in_burst = self.burst.take().is_some_and(|at| now.duration_since(at) < BURST);
        let mut run: Vec<(char, Input)> = Vec::new();
        let mut pasted = false;
        let mut flush = |run: &mut Vec<(char, Input)>, out: &mut Vec<Input>| {
            let breaks = run.iter().filter(|(c, _)| *c == '\n').count();
            let inner = run.iter().rev().skip(1).any(|(c, _)| *c == '\n');
            if inner || (in_burst && breaks > 0 && run.len() > 1) {
                pasted = true;
                out.push(Input::Paste(run.iter().map(|(c, _)| *c).collect()));
                run.clear();
            } else {
                let enter = if breaks > 0 { run.pop() } else { None };
                if run.len() > 1 && !run.iter().any(|(c, _)| *c == '\t') {
                    out.push(Input::Text(run.iter().map(|(c, _)| *c).collect()));
                    run.clear();
                }
                out.extend(run.drain(..).chain(enter).map(|(_, input)| input));
            }
        };
        for input in fresh {
            match plain(&input) {
                Some(c) => run.push((c, input)),
                None => {
                    flush(&mut run, out);
                    out.push(input);
                }
            }
        }
        flush(&mut run, out);
        if pasted {
            self.burst = Some(now);
        }
    }
}

/// The character that a key types.
fn plain(input: &Input) -> Option<char> {
    match input {
        Input::Key(KeyEvent { code, modifiers, .. }) if (*modifiers - KeyModifiers::SHIFT).is_empty() => match code {
            KeyCode::Char(c) => Some(*c),
            KeyCode::Enter if modifiers.is_empty() => Some('\n'),
            KeyCode::Tab if modifiers.is_empty() => Some('\t'),
            _ => None,
        },
        _ => None,
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// The length of a mouse report whose ESC came alone before it.
fn mouse_tail(bytes: &[u8]) -> Option<usize> {
    let rest = bytes.strip_prefix(b"[<")?;
    let end = rest.iter().position(|byte| !(byte.is_ascii_digit() || *byte == b';'))?;
    matches!(rest[end], b'M' | b'm').then_some(end + 3)
}

fn key(code: KeyCode, modifiers: KeyModifiers) -> Input {
    Input::Key(KeyEvent::new(code, modifiers))
}

fn step(bytes: &[u8], out: &mut Vec<Input>) -> Step {
    match bytes[0] {
        0x1b => escape(bytes, out),
        byte @ (0x00..=0x1f | 0x7f) => {
            out.push(control(byte, KeyModifiers::NONE));
            Step::Taken(1)
        }
        _ => match character(bytes) {
            Ok((c, length)) => {
                out.push(key(KeyCode::Char(c), KeyModifiers::NONE));
                Step::Taken(length)
            }
            Err(step) => step,
        },
    }
}

fn character(bytes: &[u8]) -> Result<(char, usize), Step> {
    let length = match bytes[0] {
        0x00..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Err(Step::Taken(1)),
    };
    match bytes.get(..length) {
        None => Err(Step::Wait),
        Some(whole) => match std::str::from_utf8(whole).ok().and_then(|text| text.chars().next()) {
            // C1 controls are no keys.
            Some(c) if !c.is_control() => Ok((c, length)),
            Some(_) => Err(Step::Taken(length)),
            None => Err(Step::Taken(1)),
        },
    }
}

fn control(byte: u8, more: KeyModifiers) -> Input {
    let ctrl = more | KeyModifiers::CONTROL;
    match byte {
        b'\r' => key(KeyCode::Enter, more),
        b'\t' => key(KeyCode::Tab, more),
        0x7f | 0x08 => key(KeyCode::Backspace, more),
        0x00 => key(KeyCode::Char(' '), ctrl),
        0x1b => key(KeyCode::Esc, more),
        byte @ 0x01..=0x1a => key(KeyCode::Char(char::from(byte - 1 + b'a')), ctrl),
        byte => key(KeyCode::Char(char::from(byte + 0x40)), ctrl),
    }
}

fn escape(bytes: &[u8], out: &mut Vec<Input>) -> Step {
    match bytes.get(1) {
        None => Step::Wait,
        Some(b'[') => csi(bytes, out),
        Some(b'O') => match bytes.get(2) {
            None => Step::Wait,
            Some(last) => {
                if let Some(code) = letter(*last) {
                    out.push(key(code, KeyModifiers::NONE));
                } else if *last == b'M' {
                    out.push(key(KeyCode::Enter, KeyModifiers::NONE));
                }
                Step::Taken(3)
            }
        },
        Some(first @ (b']' | b'P' | b'_' | b'^')) => match bytes.get(2) {
            None => Step::Wait,
            Some(second) if begins_reply(*first, *second) => string(bytes, out),
            Some(_) => {
                out.push(key(KeyCode::Char(char::from(*first)), KeyModifiers::ALT));
                Step::Taken(2)
            }
        },
        Some(0x1b) => {
            out.push(key(KeyCode::Esc, KeyModifiers::NONE));
            Step::Taken(1)
        }
        Some(byte @ (0x00..=0x1f | 0x7f)) => {
            out.push(control(*byte, KeyModifiers::ALT));
            Step::Taken(2)
        }
        Some(_) => match character(&bytes[1..]) {
            Ok((c, length)) => {
                out.push(key(KeyCode::Char(c), KeyModifiers::ALT));
                Step::Taken(length + 1)
            }
            Err(Step::Taken(length)) => Step::Taken(length + 1),
            Err(Step::Wait) => Step::Wait,
        },
    }
}

/// Whether a terminal's reply goes on like that; else it was a key with Alt, and another behind it.
fn begins_reply(first: u8, second: u8) -> bool {
    match first {
        b']' => second.is_ascii_digit(),
        b'P' => second.is_ascii_digit() || matches!(second, b'!' | b'>' | b'$' | b'+'),
        b'_' => second == b'G',
        _ => false,
    }
}

/// A reply in the form of a string: of interest is only the background's colour.
fn string(bytes: &[u8], out: &mut Vec<Input>) -> Step {
    let end = bytes.iter().enumerate().skip(2).find_map(|(at, byte)| match byte {
        0x07 => Some((at, at + 1)),
        0x1b if bytes.get(at + 1) == Some(&b'\\') => Some((at, at + 2)),
        _ => None,
    });
    let Some((end, length)) = end else {
        return if bytes.len() > LONGEST { Step::Taken(bytes.len()) } else { Step::Wait };
    };
    if let Ok(text) = std::str::from_utf8(&bytes[2..end])
        && let Some(colour) = text.strip_prefix("11;rgb:")
    {
        let mut channels = colour.split('/').map(|part| u8::from_str_radix(crate::text::head(part, 2), 16));
        if let (Some(Ok(r)), Some(Ok(g)), Some(Ok(b))) = (channels.next(), channels.next(), channels.next()) {
            out.push(Input::Background(r, g, b));
        }
    }
    Step::Taken(length)
}

fn csi(bytes: &[u8], out: &mut Vec<Input>) -> Step {
    let Some(end) = bytes.iter().skip(2).position(|byte| !(0x20..=0x3f).contains(byte)).map(|at| at + 2) else {
        return if bytes.len() > 256 { Step::Taken(bytes.len()) } else { Step::Wait };
    };
    let last = bytes[end];
    if !(0x40..=0x7e).contains(&last) {
        // It broke off: what came of it is nothing, and what follows begins anew.
        return Step::Taken(end);
    }
    let body = &bytes[2..end];
    let taken = Step::Taken(end + 1);
    if let Some(report) = body.strip_prefix(b"<") {
        out.extend(mouse(report, last));
        return taken;
    }
    if body.first().is_some_and(|byte| matches!(byte, b'?' | b'>' | b'=')) {
        return taken;
    }
    let fields: Vec<Vec<u32>> =
        body.split(|byte| *byte == b';').map(|field| field.split(|byte| *byte == b':').map(number).collect()).collect();
    let field = |at: usize, sub: usize| fields.get(at).and_then(|field| field.get(sub)).copied().unwrap_or(0);
    let released = field(1, 1) == 3;
    let modifiers = modifiers(field(1, 0));
    let pressed = match last {
        b'I' | b'O' if body.is_empty() => {
            out.push(Input::Focus(last == b'I'));
            return taken;
        }
        b'Z' => Some((KeyCode::BackTab, modifiers | KeyModifiers::SHIFT)),
        b'u' => unicode_key(field(0, 0), field(0, 1), field(0, 2), modifiers),
        b'~' if field(0, 0) == 27 => {
            let modifiers = self::modifiers(field(1, 0));
            unicode_key(field(2, 0), 0, 0, modifiers)
        }
        b'~' => tilde(field(0, 0)).map(|code| (code, modifiers)),
        last => letter(last).map(|code| (code, modifiers)),
    };
    if let Some((code, modifiers)) = pressed.filter(|_| !released) {
        out.push(key(code, modifiers));
    }
    taken
}

fn number(digits: &[u8]) -> u32 {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn modifiers(field: u32) -> KeyModifiers {
    let bits = field.saturating_sub(1);
    let mut modifiers = KeyModifiers::NONE;
    for (bit, modifier) in [
        (1, KeyModifiers::SHIFT),
        (2, KeyModifiers::ALT),
        (4, KeyModifiers::CONTROL),
        (8, KeyModifiers::SUPER),
        (32, KeyModifiers::ALT),
    ] {
        if bits & bit != 0 {
            modifiers |= modifier;
        }
    }
    modifiers
}

/// A key by its code point, as kitty's protocol and `modifyOtherKeys` name it. The base layout's key counts
/// only where the key itself is of another script: Ctrl+С on a Cyrillic keyboard is Ctrl+C, but Ctrl+K on a
/// Dvorak one stays Ctrl+K.
fn unicode_key(code: u32, shifted: u32, base: u32, modifiers: KeyModifiers) -> Option<(KeyCode, KeyModifiers)> {
    let code = match code {
        13 | 57414 => KeyCode::Enter,
        27 => KeyCode::Esc,
        9 if modifiers.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
        9 => KeyCode::Tab,
        127 | 8 => KeyCode::Backspace,
        57399..=57408 => KeyCode::Char(char::from(b'0' + (code - 57399) as u8)),
        57417 => KeyCode::Left,
        57418 => KeyCode::Right,
        57419 => KeyCode::Up,
        57420 => KeyCode::Down,
        57421 => KeyCode::PageUp,
        57422 => KeyCode::PageDown,
        57423 => KeyCode::Home,
        57424 => KeyCode::End,
        57425 => KeyCode::Insert,
        57426 => KeyCode::Delete,
        // Other keys of kitty's private range: volume, lock keys and the like.
        57344..=63743 => return None,
        code => {
            let shortcut = modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SUPER);
            let code = if shortcut && code > 127 && (1..128).contains(&base) { base } else { code };
            let c = char::from_u32(code).filter(|c| !c.is_control())?;
            if shortcut || !modifiers.contains(KeyModifiers::SHIFT) {
                KeyCode::Char(c)
            } else {
                KeyCode::Char(char::from_u32(shifted).filter(|c| *c > ' ').unwrap_or_else(|| upper(c)))
            }
        }
    };
    Some((code, modifiers))
}

fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(c), None) => c,
        _ => c,
    }
}

fn letter(last: u8) -> Option<KeyCode> {
    Some(match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        b'P' => KeyCode::F(1),
        b'Q' => KeyCode::F(2),
        b'R' => KeyCode::F(3),
        b'S' => KeyCode::F(4),
        _ => return None,
    })
}

fn tilde(code: u32) -> Option<KeyCode> {
    Some(match code {
        1 | 7 => KeyCode::Home,
        2 => KeyCode::Insert,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        11..=15 => KeyCode::F((code - 10) as u8),
        17..=21 => KeyCode::F((code - 11) as u8),
        23 | 24 => KeyCode::F((code - 12) as u8),
        _ => return None,
    })
}

fn mouse(report: &[u8], last: u8) -> Option<Input> {
    let mut fields = report.split(|byte| *byte == b';').map(number);
    let (bits, x, y) = (fields.next()?, fields.next()?, fields.next()?);
    let button = match bits & 3 {
        0 => MouseButton::Left,
        1 => MouseButton::Middle,
        _ => MouseButton::Right,
    };
    let kind = match (bits & 0b110_0000, last) {
        (0b100_0000, b'M') if bits & 3 == 0 => MouseEventKind::ScrollUp,
        (0b100_0000, b'M') if bits & 3 == 1 => MouseEventKind::ScrollDown,
        (0b100_0000, _) => return None,
        (0b010_0000, _) if bits & 3 == 3 => MouseEventKind::Moved,
        (0b010_0000, _) => MouseEventKind::Drag(button),
        (0, b'M') if bits & 3 != 3 => MouseEventKind::Down(button),
        (0, _) => MouseEventKind::Up(button),
        _ => return None,
    };
    let mut modifiers = KeyModifiers::NONE;
    for (bit, modifier) in [(4, KeyModifiers::SHIFT), (8, KeyModifiers::ALT), (16, KeyModifiers::CONTROL)] {
        if bits & bit != 0 {
            modifiers |= modifier;
        }
    }
    let cell = |n: u32| u16::try_from(n.saturating_sub(1)).unwrap_or(u16::MAX);
    Some(Input::Mouse(MouseEvent { kind, column: cell(x), row: cell(y), modifiers }))
}

#[cfg(test)]
#[path = "input_tests.rs"]
mod tests;
