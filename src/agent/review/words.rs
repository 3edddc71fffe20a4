//! A command line read as a shell reads it, as far as that can be told before it runs: the simple commands in
//! it, also those within substitutions, and their words.
//!
//! What is told errs to the safe side: a word that a shell would only know later is `None`, and a line with
//! anything in it beyond plain commands joined by `&&`, `||`, `;`, `|` and `&` is not [`Line::plain`].

use std::ops::Range;

/// Nesting deeper than this is not followed; the line is not plain then.
const DEEPEST: usize = 8;

/// A command line.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its simple commands, those of substitutions and of `sh -c` too.
    pub parts: Vec<Vec<Word>>,
    /// It is nothing but plain commands: no substitution, no redirection to a file, no assignment, no control flow.
    pub plain: bool,
}

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The word as the command gets it; `None` where it is not known before the shell expands it.
    pub text: Option<String>,
    /// Its bytes in the line that was read, quotes included.
    pub at: Range<usize>,
}

impl Word {
    /// The word, where it is known.
    pub fn known(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

/// Words that begin a construct instead of a command.
const KEYWORDS: &[&str] = &[
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "in", "function",
    "select", "coproc", "time", "!", "{", "}", "[[", "]]",
];

/// Commands whose argument is a script.
const SHELLS: &[&str] = &["sh", "bash", "zsh", "dash", "ksh", "fish", "eval", "su", "ssh"];

impl Line {
    /// Reads a command line.
    pub fn read(text: &str) -> Self {
        let mut line = Line { parts: Vec::new(), plain: true };
        read_into(&marked(text), 0, &mut line);
        line
    }
}

/// The last part of a path: what a command is called by.
pub fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// A character and the byte of the line at which it stands: what is nested is read on its own, but is marked where
/// it stands in the whole.
type Marked = (char, usize);

fn marked(text: &str) -> Vec<Marked> {
    text.char_indices().map(|(at, c)| (c, at)).collect()
}

fn text_of(chars: &[Marked]) -> String {
    chars.iter().map(|(c, _)| c).collect()
}

fn read_into(chars: &[Marked], depth: usize, line: &mut Line) {
    if depth > DEEPEST {
        line.plain = false;
        return;
    }
    let chars = Source { chars, next: 0 };
    let mut reader = Reader { chars, depth, line, words: Vec::new(), word: None, redirect: None, end: 0 };
    reader.read();
}

/// Characters that are read one after another.
struct Source<'a> {
    chars: &'a [Marked],
    next: usize,
}

impl Source<'_> {
    fn next(&mut self) -> Option<Marked> {
        let found = self.chars.get(self.next).copied();
        self.next += usize::from(found.is_some());
        found
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.next).map(|(c, _)| *c)
    }

    fn next_if(&mut self, fits: impl FnOnce(char) -> bool) -> Option<Marked> {
        if self.peek().is_some_and(fits) { self.next() } else { None }
    }

    /// The byte at which the character that was read last begins.
    fn begin(&self) -> usize {
        self.next.checked_sub(1).and_then(|last| self.chars.get(last)).map_or(0, |(_, at)| *at)
    }

    /// The byte after the character that was read last.
    fn end(&self) -> usize {
        self.next.checked_sub(1).and_then(|last| self.chars.get(last)).map_or(0, |(c, at)| at + c.len_utf8())
    }
}

/// A word as it grows.
#[derive(Default)]
struct Growing {
    text: Vec<Marked>,
    begin: usize,
    /// Something in it is only known later.
    unknown: bool,
    quoted: bool,
}

/// What the next word is the target of.
enum Redirect {
    File,
    Duplicate,
    Here { strip: bool },
    Text,
}

struct Reader<'a, 'l> {
    chars: Source<'a>,
    depth: usize,
    line: &'l mut Line,
    words: Vec<(Word, Vec<Marked>)>,
    word: Option<Growing>,
    redirect: Option<Redirect>,
    /// The byte after what was read before the character that is looked at: there a word ends.
    end: usize,
}

impl Reader<'_, '_> {
    fn read(&mut self) {
        let mut documents: Vec<(String, bool)> = Vec::new();
        loop {
            self.end = self.chars.end();
            let Some(mark) = self.chars.next() else { break };
            match mark.0 {
                ' ' | '\t' | '\r' => self.end_word(&mut documents),
                '\n' => {
                    self.end_part(&mut documents);
                    self.skip_documents(&mut documents);
                }
                ';' | '|' => self.end_part(&mut documents),
                '&' if self.chars.peek() == Some('>') => {
                    self.end_word(&mut documents);
                    self.chars.next();
                    self.chars.next_if(|c| c == '>');
                    self.redirect = Some(Redirect::File);
                }
                '&' => self.end_part(&mut documents),
                '#' if self.word.is_none() => while self.chars.next_if(|c| c != '\n').is_some() {},
                '(' | ')' => {
                    self.line.plain = false;
                    self.end_part(&mut documents);
                }
                c @ ('<' | '>') => self.redirection(c, &mut documents),
                '\\' => match self.chars.next() {
                    Some(('\n', _)) => {}
                    Some(escaped) => self.growing_from(mark.1).text.push(escaped),
                    None => self.line.plain = false,
                },
                '\'' => {
                    self.growing().quoted = true;
                    self.until_quote();
                }
                '"' => {
                    self.growing().quoted = true;
                    self.double_quoted();
                }
                '$' => self.dollar(),
                '`' => self.backquoted(),
                '*' | '?' | '[' => {
                    self.growing().unknown = true;
                    self.growing().text.push(mark);
                }
                '{' if self.word.is_some() || !self.chars.peek().is_none_or(char::is_whitespace) => {
                    self.growing().unknown = true;
                    self.growing().text.push(mark);
                }
                _ => self.growing().text.push(mark),
            }
        }
        self.end_part(&mut documents);
    }

    /// The word that grows, or one that begins at the character that was read last.
    fn growing(&mut self) -> &mut Growing {
        let begin = self.chars.begin();
        self.growing_from(begin)
    }

    fn growing_from(&mut self, begin: usize) -> &mut Growing {
        self.word.get_or_insert_with(|| Growing { begin, ..Growing::default() })
    }

    fn unknown(&mut self) {
        self.line.plain = false;
        self.growing().unknown = true;
    }

    fn end_word(&mut self, documents: &mut Vec<(String, bool)>) {
        let Some(word) = self.word.take() else { return };
        let text = text_of(&word.text);
        match self.redirect.take() {
            None => {}
            Some(Redirect::File) => {
                self.line.plain &= !word.unknown && text == "/dev/null";
                return;
            }
            Some(Redirect::Duplicate) => {
                let plain = text == "-" || text.bytes().all(|byte| byte.is_ascii_digit());
                self.line.plain &= plain && !word.unknown;
                return;
            }
            Some(Redirect::Here { strip }) => {
                self.line.plain = false;
                documents.push((text, strip));
                return;
            }
            Some(Redirect::Text) => {
                self.line.plain = false;
                return;
            }
        }
        let first = self.words.is_empty();
        if first && !word.quoted && !word.unknown && KEYWORDS.contains(&text.as_str()) {
            self.line.plain = false;
            return;
        }
        if first && is_assignment(&text) {
            self.line.plain = false;
            return;
        }
        let at = word.begin..self.end.max(word.begin);
        self.words.push((Word { text: Some(text).filter(|_| !word.unknown), at }, word.text));
    }

    fn end_part(&mut self, documents: &mut Vec<(String, bool)>) {
        self.end_word(documents);
        if self.redirect.take().is_some() {
            self.line.plain = false;
        }
        let words = std::mem::take(&mut self.words);
        if words.is_empty() {
            return;
        }
        let known = || words.iter().filter(|(word, _)| word.text.is_some());
        if known().any(|(word, _)| word.known().is_some_and(|word| SHELLS.contains(&base(word)))) {
            for (_, chars) in known().skip(1) {
                if chars.iter().any(|(c, _)| matches!(c, ' ' | ';' | '&' | '|')) {
                    self.line.plain = false;
                    read_into(chars, self.depth + 1, self.line);
                }
            }
        }
        self.line.parts.push(words.into_iter().map(|(word, _)| word).collect());
    }

    fn redirection(&mut self, first: char, documents: &mut Vec<(String, bool)>) {
        // Digits right before it are a descriptor, no word.
        if self.word.as_ref().is_some_and(|word| !word.quoted && word.text.iter().all(|(c, _)| c.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word(documents);
        let begin = self.chars.begin();
        self.redirect = Some(match (first, self.chars.peek()) {
            (_, Some('(')) => {
                self.chars.next();
                self.line.plain = false;
                self.nested();
                return self.growing_from(begin).unknown = true;
            }
            ('<', Some('<')) => {
                self.chars.next();
                match self.chars.next_if(|c| matches!(c, '<' | '-')) {
                    Some(('<', _)) => Redirect::Text,
                    strip => Redirect::Here { strip: strip.is_some() },
                }
            }
            (_, Some('&')) => {
                self.chars.next();
                Redirect::Duplicate
            }
            (_, Some('>' | '|')) => {
                self.chars.next();
                Redirect::File
            }
            _ => Redirect::File,
        });
    }

    /// Skips the bodies of here-documents. What a shell would substitute in them is read too.
    fn skip_documents(&mut self, documents: &mut Vec<(String, bool)>) {
        for (end, strip) in documents.drain(..) {
            loop {
                let mut chars = Vec::new();
                let mut ended = false;
                while let Some(mark) = self.chars.next() {
                    if mark.0 == '\n' {
                        ended = true;
                        break;
                    }
                    chars.push(mark);
                }
                let text = text_of(&chars);
                let bare = if strip { text.trim_start_matches('\t') } else { &text };
                if bare == end || !ended {
                    break;
                }
                if text.contains("$(") || text.contains('`') {
                    substitutions(&chars, self.depth + 1, self.line);
                }
            }
        }
    }

    fn until_quote(&mut self) {
        loop {
            match self.chars.next() {
                Some(('\'', _)) => return,
                Some(mark) => self.growing().text.push(mark),
                None => return self.unknown(),
            }
        }
    }

    fn double_quoted(&mut self) {
        loop {
            match self.chars.next() {
                Some(('"', _)) => return,
                Some(mark @ ('\\', _)) => match self.chars.next() {
                    Some(('\n', _)) => {}
                    Some(escaped @ ('$' | '`' | '"' | '\\', _)) => self.growing().text.push(escaped),
                    Some(other) => self.growing().text.extend([mark, other]),
                    None => return self.unknown(),
                },
                Some(('$', _)) => self.dollar(),
                Some(('`', _)) => self.backquoted(),
                Some(mark) => self.growing().text.push(mark),
                None => return self.unknown(),
            }
        }
    }

    fn dollar(&mut self) {
        let mark = ('$', self.chars.begin());
        match self.chars.peek() {
            Some('(') => {
                self.unknown();
                self.chars.next();
                self.nested();
            }
            Some('{') => {
                self.unknown();
                let mut text = Vec::new();
                let mut open = 0;
                while let Some(mark) = self.chars.next() {
                    match mark.0 {
                        '{' => open += 1,
                        '}' => open -= 1,
                        _ => {}
                    }
                    text.push(mark);
                    if open == 0 {
                        break;
                    }
                }
                substitutions(&text, self.depth + 1, self.line);
            }
            Some(c)
                if c.is_alphanumeric() || matches!(c, '_' | '@' | '*' | '#' | '?' | '$' | '!' | '-' | '\'' | '"') =>
            {
                self.unknown();
            }
            _ => self.growing().text.push(mark),
        }
    }

    fn backquoted(&mut self) {
        self.unknown();
        let mut text = Vec::new();
        while let Some(mark) = self.chars.next() {
            match mark.0 {
                '`' => return read_into(&text, self.depth + 1, self.line),
                '\\' => text.extend(self.chars.next()),
                _ => text.push(mark),
            }
        }
    }

    /// Reads up to the parenthesis that closes what was opened, and what stands between as commands.
    fn nested(&mut self) {
        let mut text = Vec::new();
        let (mut open, mut quote) = (1, None);
        while let Some(mark) = self.chars.next() {
            match (quote, mark.0) {
                (None, c @ ('\'' | '"')) => quote = Some(c),
                (Some(q), c) if q == c => quote = None,
                (Some('\''), _) => {}
                (_, '\\') => {
                    text.push(mark);
                    text.extend(self.chars.next());
                    continue;
                }
                (None, '(') => open += 1,
                (None, ')') => open -= 1,
                _ => {}
            }
            if open == 0 {
                break;
            }
            text.push(mark);
        }
        read_into(&text, self.depth + 1, self.line);
    }
}

/// The commands in the substitutions of a text that is no command itself.
fn substitutions(chars: &[Marked], depth: usize, line: &mut Line) {
    if depth > DEEPEST {
        line.plain = false;
        return;
    }
    let begin = chars.first().map_or(0, |(_, at)| *at);
    let mut quoted: Vec<Marked> = [':', ' ', '"'].map(|c| (c, begin)).to_vec();
    quoted.extend(chars.iter().filter(|(c, _)| *c != '"'));
    quoted.push(('"', begin));
    let mut inner = Line { parts: Vec::new(), plain: true };
    read_into(&quoted, depth, &mut inner);
    line.plain &= inner.plain;
    line.parts.extend(inner.parts.into_iter().filter(|part| part.first().and_then(Word::known) != Some(":")));
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '[' | ']');
        !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(letter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> (Vec<String>, bool) {
        let line = Line::read(text);
        let word = |word: &Word| word.text.clone().unwrap_or_else(|| "?".to_owned());
        (line.parts.iter().map(|part| part.iter().map(word).collect::<Vec<_>>().join("·")).collect(), line.plain)
    }

    #[test]
    fn commands_are_read_as_a_shell_reads_them() {
        let cases: &[(&str, &[&str], bool)] = &[
            ("cargo test", &["cargo·test"], true),
            ("  cargo   test\t--all # why; rm x", &["cargo·test·--all"], true),
            ("a && b; c | d || e & f", &["a", "b", "c", "d", "e", "f"], true),
            ("a\nb \\\n c", &["a", "b·c"], true),
            ("echo 'a; rm -rf /' \"b && c\" d\\;e", &["echo·a; rm -rf /·b && c·d;e"], true),
            ("echo \"a\\\"b\\n\" $", &["echo·a\"b\\n·$"], true),
            ("'ca'r\"go\" test", &["cargo·test"], true),
            ("ls *.rs a?c", &["ls·?·?"], true),
            ("cargo test 2>&1 | tail", &["cargo·test", "tail"], true),
            ("cargo test >/dev/null 2> /dev/null", &["cargo·test"], true),
            ("cargo test > x", &["cargo·test"], false),
            ("cargo test &> x", &["cargo·test"], false),
            ("cat < x >> y", &["cat"], false),
            ("echo $HOME", &["echo·?"], false),
            ("$X y", &["?·y"], false),
            ("echo $(rm -rf x) z", &["rm·-rf·x", "echo·?·z"], false),
            ("echo \"$(rm -rf 'a)b')\"", &["rm·-rf·a)b", "echo·?"], false),
            ("echo `rm x`", &["rm·x", "echo·?"], false),
            ("echo ${X:-$(rm x)}", &["rm·x", "echo·?"], false),
            ("diff <(rm a) b", &["rm·a", "diff·?·b"], false),
            ("FOO=1 BAR+=2 make", &["make"], false),
            ("(cd x && rm y)", &["cd·x", "rm·y"], false),
            ("{ rm y; }", &["rm·y"], false),
            ("if true; then rm x; fi", &["true", "rm·x"], false),
            ("! rm x", &["rm·x"], false),
            ("bash -c 'rm x; ls'", &["rm·x", "ls", "bash·-c·rm x; ls"], false),
            ("sudo sh -c \"rm x\"", &["rm·x", "sudo·sh·-c·rm x"], false),
            ("cat <<EOF\nrm x\n$(rm y)\nEOF\nls", &["cat", "rm·y", "ls"], false),
            ("cat <<-'E'\n\tx\n\tE\nls", &["cat", "ls"], false),
            ("cat <<< x", &["cat"], false),
            ("rm {a,b}", &["rm·?"], true),
            ("echo 'unfinished", &["echo·?"], false),
            ("", &[], true),
        ];
        for (text, parts, plain) in cases {
            let (got, is_plain) = shown(text);
            assert_eq!(
                (got.iter().map(String::as_str).collect::<Vec<_>>(), is_plain),
                (parts.to_vec(), *plain),
                "{text}"
            );
        }
    }

    #[test]
    fn words_know_where_they_stand_in_the_line() {
        for text in [
            "rm -rf x",
            "  a; 'rm' -rf \"x y\" && b",
            "日本 $(rm -rf 'é') z",
            "bash -c 'cd x; rm -rf y'",
            "sh -c \"rm -rf \\\"a b\\\"\"",
            "echo `rm -rf x`",
            "cat <<E\n$(rm -rf q)\nE\n",
            "echo ${X:-$(rm -rf z)}",
            "r\\m -rf x",
        ] {
            let line = Line::read(text);
            let part = line.parts.iter().find(|part| part[0].known() == Some("rm")).unwrap_or_else(|| panic!("{text}"));
            let raw: Vec<&str> = part.iter().map(|word| &text[word.at.clone()]).collect();
            assert!(raw[0].trim_matches('\'').replace('\\', "") == "rm" && raw[1] == "-rf", "{text}: {raw:?}");
        }
    }

    #[test]
    fn hostile_lines_end() {
        for text in
            ["$(".repeat(5000), "`".repeat(5001), "<<".repeat(3000), "\"${".repeat(3000), "bash -c '".repeat(500)]
        {
            assert!(!Line::read(&text).plain);
        }
    }
}
