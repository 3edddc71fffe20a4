//! Lua patterns (reference manual of Lua 5.4, section 6.4.1), matched within bounds.
//!
//! Lua's own matcher backtracks inside one C function, where no hook fires: a pattern such as `a*a*a*a*b` could hold a plugin's
//! thread for years. This one counts its steps and asks from time to time whether it may go on.

/// Signs that make a text a pattern; one without them stands for itself.
pub const SPECIAL: &[u8] = b"^$*+?.([%-";

/// So often the matcher asks whether it may go on, in steps.
const BREATH: u32 = 4096;

/// Captures of one pattern.
const MOST_CAPTURES: usize = 32;

/// How deep the parts of a pattern nest in each other's backtracking.
const DEEPEST: u32 = 200;

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// The pattern is none.
    Malformed(&'static str),
    /// The matcher was told to stop.
    Stopped,
}

/// What a pair of parentheses took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    /// The bytes from and to.
    Span(usize, usize),
    /// The place itself, for `()`.
    Position(usize),
    /// It is open still.
    Open(usize),
}

/// A place where a pattern matches.
#[derive(Debug, PartialEq, Eq)]
pub struct Match {
    /// The first byte.
    pub start: usize,
    /// The byte behind the last.
    pub end: usize,
    /// What the parentheses took.
    pub captures: Vec<Capture>,
}

/// The first match at `from` or behind it. `go_on` tells whether it may go on.
///
/// # Errors
/// Where the pattern is malformed, or where it may not go on.
pub fn find(subject: &[u8], pattern: &[u8], from: usize, go_on: &dyn Fn() -> bool) -> Result<Option<Match>, Fault> {
    let (anchored, first) = match pattern.first() {
        Some(b'^') => (true, 1),
        _ => (false, 0),
    };
    let mut matcher = Matcher { subject, pattern, captures: Vec::new(), steps: 0, depth: 0, go_on };
    for start in from..=subject.len() {
        matcher.captures.clear();
        matcher.step(1)?;
        if let Some(end) = matcher.at(start, first)? {
            let open = matcher.captures.iter().any(|capture| matches!(capture, Capture::Open(_)));
            if open {
                return Err(Fault::Malformed("unfinished capture"));
            }
            return Ok(Some(Match { start, end, captures: matcher.captures }));
        }
        if anchored {
            break;
        }
    }
    Ok(None)
}

struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    steps: u32,
    depth: u32,
    go_on: &'a dyn Fn() -> bool,
}

impl Matcher<'_> {
    fn step(&mut self, count: usize) -> Result<(), Fault> {
        self.steps = self.steps.saturating_add(u32::try_from(count).unwrap_or(BREATH));
        if self.steps < BREATH {
            return Ok(());
        }
        self.steps = 0;
        if (self.go_on)() { Ok(()) } else { Err(Fault::Stopped) }
    }

    /// Matches the rest of the pattern at a place; the end of what it took.
    fn at(&mut self, s: usize, p: usize) -> Result<Option<usize>, Fault> {
        if self.depth >= DEEPEST {
            return Err(Fault::Malformed("pattern too complex"));
        }
        self.depth += 1;
        let found = self.rest(s, p);
        self.depth -= 1;
        found
    }

    fn rest(&mut self, mut s: usize, mut p: usize) -> Result<Option<usize>, Fault> {
        loop {
            let Some(&item) = self.pattern.get(p) else { return Ok(Some(s)) };
            let next = self.pattern.get(p + 1).copied();
            match (item, next) {
                (b'(', Some(b')')) => return self.capturing(Capture::Position(s), s, p + 2),
                (b'(', _) => return self.capturing(Capture::Open(s), s, p + 1),
                (b')', _) => return self.closing(s, p + 1),
                (b'$', None) => return Ok((s == self.subject.len()).then_some(s)),
                (b'%', Some(b'b')) => match self.balanced(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    let set = p + 2;
                    if self.pattern.get(set) != Some(&b'[') {
                        return Err(Fault::Malformed("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(set)?;
                    let before = s.checked_sub(1).map_or(0, |at| self.subject[at]);
                    let here = self.subject.get(s).copied().unwrap_or(0);
                    if self.in_set(before, set, end) || !self.in_set(here, set, end) {
                        return Ok(None);
                    }
                    p = end;
                }
                (b'%', Some(digit @ b'0'..=b'9')) => match self.again(s, digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(p)?;
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if self.single(s, p, end)?
                                && let Some(found) = self.at(s + 1, end + 1)?
                            {
                                return Ok(Some(found));
                            }
                            p = end + 1;
                        }
                        Some(b'*') => return self.longest(s, s, p, end),
                        Some(b'+') => {
                            return if self.single(s, p, end)? { self.longest(s + 1, s + 1, p, end) } else { Ok(None) };
                        }
                        Some(b'-') => return self.shortest(s, p, end),
                        _ => {
                            if !self.single(s, p, end)? {
                                return Ok(None);
                            }
                            (s, p) = (s + 1, end);
                        }
                    }
                }
            }
        }
    }

    fn capturing(&mut self, capture: Capture, s: usize, p: usize) -> Result<Option<usize>, Fault> {
        if self.captures.len() >= MOST_CAPTURES {
            return Err(Fault::Malformed("too many captures"));
        }
        self.captures.push(capture);
        let depth = self.captures.len();
        let found = self.at(s, p)?;
        if found.is_none() {
            self.captures.truncate(depth - 1);
        }
        Ok(found)
    }

    fn closing(&mut self, s: usize, p: usize) -> Result<Option<usize>, Fault> {
        let open = self.captures.iter().rposition(|capture| matches!(capture, Capture::Open(_)));
        let Some(index) = open else { return Err(Fault::Malformed("invalid pattern capture")) };
        let before = self.captures[index];
        if let Capture::Open(start) = before {
            self.captures[index] = Capture::Span(start, s);
        }
        let found = self.at(s, p)?;
        if found.is_none() {
            self.captures[index] = before;
        }
        Ok(found)
    }

    /// `%bxy`.
    fn balanced(&mut self, s: usize, p: usize) -> Result<Option<usize>, Fault> {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(Fault::Malformed("malformed pattern (missing arguments to '%b')"));
        };
        if self.subject.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for at in s + 1..self.subject.len() {
            self.step(1)?;
            let byte = self.subject[at];
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%1`: what a capture took, once more.
    fn again(&mut self, s: usize, digit: u8) -> Result<Option<usize>, Fault> {
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        let Some(Capture::Span(from, to)) = index.and_then(|index| self.captures.get(index)).copied() else {
            return Err(Fault::Malformed("invalid capture index in pattern"));
        };
        self.step(to - from)?;
        let same = self.subject[s..].starts_with(&self.subject[from..to]);
        Ok(same.then_some(s + (to - from)))
    }

    /// As often as it can be, and then less.
    fn longest(&mut self, least: usize, s: usize, p: usize, end: usize) -> Result<Option<usize>, Fault> {
        let mut at = s;
        while self.single(at, p, end)? {
            at += 1;
        }
        loop {
            if let Some(found) = self.at(at, end + 1)? {
                return Ok(Some(found));
            }
            if at == least {
                return Ok(None);
            }
            at -= 1;
        }
    }

    /// As seldom as it can be, and then more.
    fn shortest(&mut self, mut s: usize, p: usize, end: usize) -> Result<Option<usize>, Fault> {
        loop {
            if let Some(found) = self.at(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(s, p, end)? {
                return Ok(None);
            }
            s += 1;
        }
    }

    /// Whether one byte belongs to the class at `p`.
    fn single(&mut self, s: usize, p: usize, end: usize) -> Result<bool, Fault> {
        self.step(1)?;
        let Some(&byte) = self.subject.get(s) else { return Ok(false) };
        Ok(match self.pattern[p] {
            b'.' => true,
            b'%' => class(byte, self.pattern[p + 1]),
            b'[' => {
                self.step(end - p)?;
                self.in_set(byte, p, end)
            }
            literal => literal == byte,
        })
    }

    /// The place behind the class that begins at `p`.
    fn class_end(&self, p: usize) -> Result<usize, Fault> {
        match self.pattern[p] {
            b'%' if p + 1 < self.pattern.len() => Ok(p + 2),
            b'%' => Err(Fault::Malformed("malformed pattern (ends with '%')")),
            b'[' => {
                let mut at = p + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                // A bracket right at the begin stands for itself.
                let first = at;
                loop {
                    match self.pattern.get(at) {
                        None => return Err(Fault::Malformed("malformed pattern (missing ']')")),
                        Some(b']') if at > first => return Ok(at + 1),
                        Some(b'%') => at += 2,
                        Some(_) => at += 1,
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether a byte belongs to the set from `[` at `p` to behind its `]`.
    fn in_set(&self, byte: u8, p: usize, end: usize) -> bool {
        let inside = &self.pattern[p + 1..end - 1];
        let (negated, inside) = match inside.split_first() {
            Some((b'^', rest)) => (true, rest),
            _ => (false, inside),
        };
        let mut at = 0;
        let mut found = false;
        while at < inside.len() && !found {
            match &inside[at..] {
                [b'%', kind, ..] => {
                    found = class(byte, *kind);
                    at += 2;
                }
                [from, b'-', to, ..] => {
                    found = (*from..=*to).contains(&byte);
                    at += 3;
                }
                [literal, ..] => {
                    found = *literal == byte;
                    at += 1;
                }
                [] => {}
            }
        }
        found != negated
    }
}

/// Whether a byte belongs to `%kind`; a capital means the opposite, a sign itself.
fn class(byte: u8, kind: u8) -> bool {
    let belongs = match kind.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        // The vertical tab too, which Rust does not count.
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => return kind == byte,
    };
    belongs != kind.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    fn ours(subject: &str, pattern: &str) -> Result<Option<(usize, usize, Vec<Capture>)>, Fault> {
        let found = find(subject.as_bytes(), pattern.as_bytes(), 0, &|| true)?;
        Ok(found.map(|found| (found.start, found.end, found.captures)))
    }

    #[test]
    fn patterns_take_what_the_manual_says() {
        let span = |from, to| Capture::Span(from, to);
        for (subject, pattern, expected) in [
            ("hello world", "o w", Some((4, 7, vec![]))),
            ("hello", "l+", Some((2, 4, vec![]))),
            ("hello", "l-o", Some((2, 5, vec![]))),
            ("key = value", "^(%w+)%s*=%s*(%w+)$", Some((0, 11, vec![span(0, 3), span(6, 11)]))),
            ("a(b(c)d)e", "%b()", Some((1, 8, vec![]))),
            ("THE (quick) fox", "%f[%a]%a+%f[%A]", Some((0, 3, vec![]))),
            ("say 'it' \"is\"", "(['\"])(.-)%1", Some((4, 8, vec![span(4, 5), span(5, 7)]))),
            ("x", "()", Some((0, 0, vec![Capture::Position(0)]))),
            ("]", "[]]", Some((0, 1, vec![]))),
            ("a-b", "[a%-]+", Some((0, 2, vec![]))),
            ("abc", "[^a]", Some((1, 2, vec![]))),
            ("abc", "b?c", Some((1, 3, vec![]))),
            ("abc", "^b", None),
            ("", "^$", Some((0, 0, vec![]))),
            ("a$b", "$b", Some((1, 3, vec![]))),
            ("f\u{b}g", "%s", Some((1, 2, vec![]))),
        ] {
            assert_eq!(ours(subject, pattern), Ok(expected), "{pattern} in {subject}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_told() {
        for pattern in ["%", "[a", "[", "[%", "%b(", "%fa", "(a", "a)", "%1", "(%1)", "[^]"] {
            assert!(matches!(ours("aaa()", pattern), Err(Fault::Malformed(_))), "{pattern}");
        }
        assert!(matches!(ours("a", &"a?".repeat(300)), Err(Fault::Malformed(_)) | Ok(_)));
        assert_eq!(ours("x", &"(".repeat(40)), Err(Fault::Malformed("too many captures")));
    }

    #[test]
    fn a_bomb_stops_when_it_is_told_to() {
        let subject = "a".repeat(5000);
        for pattern in ["a*a*a*a*a*a*b", "(a-)(a-)(a-)(a-)(a-)b", "(.*)(.*)(.*)%1b", "%b()", ".-.-.-.-.-b"] {
            let asked = Cell::new(0);
            let go_on = || {
                asked.set(asked.get() + 1);
                asked.get() < 3
            };
            let text = if pattern == "%b()" { "(".repeat(20_000) } else { subject.clone() };
            assert_eq!(find(text.as_bytes(), pattern.as_bytes(), 0, &go_on), Err(Fault::Stopped), "{pattern}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Where Lua's own matcher gives an answer, ours gives the same.
        #[test]
        fn ours_agrees_with_luas_own(subject in "[ab1(). ]{0,12}", pattern in "[ab1().%\\[\\]^$*+?wdbf-]{0,8}") {
            prop_assume!(pattern.bytes().any(|byte| SPECIAL.contains(&byte)));
            let lua = mlua::Lua::new();
            let own: mlua::Function = lua.load("return function(s, p) return string.find(s, p) end").eval().expect("made");
            let theirs = own.call::<mlua::MultiValue>((subject.as_str(), pattern.as_str()));
            match (theirs, ours(&subject, &pattern)) {
                (Ok(values), Ok(Some((start, end, captures)))) => {
                    let numbers: Vec<_> = values.iter().take(2).filter_map(mlua::Value::as_integer).collect();
                    prop_assert_eq!(numbers, vec![start as i64 + 1, end as i64]);
                    for (value, capture) in values.iter().skip(2).zip(&captures) {
                        match capture {
                            Capture::Span(from, to) => prop_assert_eq!(value.to_string().expect("text"), &subject[*from..*to]),
                            Capture::Position(at) => prop_assert_eq!(value.as_integer(), Some(*at as i64 + 1)),
                            Capture::Open(_) => prop_assert!(false, "an open capture"),
                        }
                    }
                }
                (Ok(values), Ok(None)) => prop_assert!(values.iter().all(mlua::Value::is_nil)),
                (Err(_), Err(Fault::Malformed(_))) => {}
                (theirs, ours) => prop_assert!(false, "{theirs:?} and {ours:?}"),
            }
        }
    }
}
