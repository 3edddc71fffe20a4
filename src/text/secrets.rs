//! Secrets taken out of a text by their form, where it goes to a place that others may see: an error, a notice, an export. Keys that Violin
//! knows are taken out by value before that, where they are used.

use std::borrow::Cow;

/// What stands in a secret's place.
const GONE: &str = "[redacted]";

/// Beginnings of keys, with the least characters behind them and whether one of these must be a digit or a capital.
const PREFIXES: &[(&str, usize, bool)] = &[
    ("sk-", 8, true),
    ("ghp_", 16, false),
    ("gho_", 16, false),
    ("ghu_", 16, false),
    ("ghs_", 16, false),
    ("ghr_", 16, false),
    ("github_pat_", 16, false),
    ("glpat-", 16, false),
    ("AKIA", 16, true),
    ("ASIA", 16, true),
    ("AIza", 30, true),
    ("xoxb-", 10, true),
    ("xoxp-", 10, true),
    ("xoxa-", 10, true),
];

/// Names of parameters of an address whose values are secrets.
const PARAMETERS: &[&str] = &["key", "api_key", "apikey", "api-key", "access_token", "token", "secret", "signature"];

/// The text without what looks like a key, a bearer token or a secret parameter of an address.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut kept, mut at) = (0, 0);
    while at < text.len() {
        let Some((from, to)) = secret(text, at) else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
            continue;
        };
        out.push_str(&text[kept..from]);
        out.push_str(GONE);
        (kept, at) = (to, to);
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[kept..]);
    Cow::Owned(out)
}

/// The secret that begins at a place, as its bytes from and to.
fn secret(text: &str, at: usize) -> Option<(usize, usize)> {
    let rest = &text[at..];
    let first = *rest.as_bytes().first()?;
    // Nearly every place is passed over by its first byte.
    if !matches!(first, b's' | b'g' | b'A' | b'x' | b'B' | b'b' | b'?' | b'&') {
        return None;
    }
    let run = |from: usize, fits: fn(u8) -> bool| from + text[from..].bytes().take_while(|byte| fits(*byte)).count();
    if matches!(first, b'?' | b'&') {
        let (name, _) = rest[1..].split_once('=')?;
        if !PARAMETERS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return None;
        }
        let from = at + 1 + name.len() + 1;
        let to = run(from, |byte| {
            !byte.is_ascii_whitespace() && !matches!(byte, b'&' | b'"' | b'\'' | b'<' | b'>' | b')' | b'#' | b'`')
        });
        return (to > from).then_some((from, to));
    }
    // Within a word there is no key.
    if text[..at].bytes().next_back().is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
        return None;
    }
    if rest.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("bearer ")) {
        let from = at + 7;
        let to = run(from, |byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'+' | b'/' | b'=' | b'-')
        });
        let value = &text[from..to];
        let telling = value.bytes().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
        return (value.len() >= 8 && telling).then_some((from, to));
    }
    let (prefix, least, telling) = PREFIXES.iter().find(|(prefix, ..)| rest.starts_with(prefix))?;
    let from = at + prefix.len();
    let to = run(from, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    let value = &text[from..to];
    let tells = value.bytes().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    (value.len() >= *least && (!telling || tells)).then_some((at, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_and_words_stay() {
        let cases = [
            ("Incorrect API key: sk-VIOLINTEST.", "Incorrect API key: [redacted]."),
            ("sk-ant-api03-abc_DEF-123", "[redacted]"),
            ("Authorization: Bearer eyJhbGciOi.J9-_x=\n", "Authorization: Bearer [redacted]\n"),
            ("bearer 0123456789abcdef", "bearer [redacted]"),
            ("ghp_abcdefghijklmnopqrst x AKIAIOSFODNN7EXAMPLE", "[redacted] x [redacted]"),
            ("https://x/v1?alt=sse&key=abc123&z=1 é", "https://x/v1?alt=sse&key=[redacted]&z=1 é"),
            ("GET /a?api_key=\"x\" ", "GET /a?api_key=\"x\" "),
            ("a task-force, sk-learn, disk-ABCDEFGH12345", "a task-force, sk-learn, disk-ABCDEFGH12345"),
            ("the bearer of this letter; a?b=c&d", "the bearer of this letter; a?b=c&d"),
            ("日本語?key=日本", "日本語?key=[redacted]"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(redact(text), expected, "{text}");
        }
    }
}
