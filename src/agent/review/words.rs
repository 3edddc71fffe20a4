//! A command line read as a shell reads it, as far as that can be told before it runs: the simple commands in
//! it, also those within substitutions, and their words.
//!
//! What is told errs to the safe side: a word that a shell would only know later is `None`, and a line with
//! anything in it beyond plain commands joined by `&&`, `||`, `;`, `|` and `&` is not [`Line::plain`].

use std::iter::Peekable;
use std::str::Chars;

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

/// A word; `None` where it is not known before the shell expands it.
pub type Word = Option<String>;

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
        read_into(text, 0, &mut line);
        line
    }
}

/// The last part of a path: what a command is called by.
pub fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn read_into(text: &str, depth: usize, line: &mut Line) {
    if depth > DEEPEST {
        line.plain = false;
        return;
    }
    let mut reader =
        Reader { chars: text.chars().peekable(), depth, line, words: Vec::new(), word: None, redirect: None };
    reader.read();
}

/// A word as it grows.
#[derive(Default)]
struct Growing {
    text: String,
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
    chars: Peekable<Chars<'a>>,
    depth: usize,
    line: &'l mut Line,
    words: Vec<Word>,
    word: Option<Growing>,
    redirect: Option<Redirect>,
}

impl Reader<'_, '_> {
    fn read(&mut self) {
        let mut documents: Vec<(String, bool)> = Vec::new();
        while let Some(c) = self.chars.next() {
            match c {
                ' ' | '\t' | '\r' => self.end_word(&mut documents),
                '\n' => {
                    self.end_part(&mut documents);
                    self.skip_documents(&mut documents);
                }
                ';' | '|' => self.end_part(&mut documents),
                '&' if self.chars.peek() == Some(&'>') => {
                    self.end_word(&mut documents);
                    self.chars.next();
                    self.chars.next_if_eq(&'>');
                    self.redirect = Some(Redirect::File);
                }
                '&' => self.end_part(&mut documents),
                '#' if self.word.is_none() => while self.chars.next_if(|c| *c != '\n').is_some() {},
                '(' | ')' => {
                    self.line.plain = false;
                    self.end_part(&mut documents);
                }
                '<' | '>' => self.redirection(c, &mut documents),
                '\\' => match self.chars.next() {
                    Some('\n') => {}
                    Some(c) => self.growing().text.push(c),
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
                    self.growing().text.push(c);
                }
                '{' if self.word.is_some() || !self.chars.peek().is_none_or(|c| c.is_whitespace()) => {
                    self.growing().unknown = true;
                    self.growing().text.push(c);
                }
                c => self.growing().text.push(c),
            }
        }
        self.end_part(&mut documents);
    }

    fn growing(&mut self) -> &mut Growing {
        self.word.get_or_insert_default()
    }

    fn unknown(&mut self) {
        self.line.plain = false;
        self.growing().unknown = true;
    }

    fn end_word(&mut self, documents: &mut Vec<(String, bool)>) {
        let Some(word) = self.word.take() else { return };
        match self.redirect.take() {
            None => {}
            Some(Redirect::File) => {
                self.line.plain &= !word.unknown && word.text == "/dev/null";
                return;
            }
            Some(Redirect::Duplicate) => {
                let plain = word.text == "-" || word.text.bytes().all(|byte| byte.is_ascii_digit());
                self.line.plain &= plain && !word.unknown;
                return;
            }
            Some(Redirect::Here { strip }) => {
                self.line.plain = false;
                documents.push((word.text, strip));
                return;
            }
            Some(Redirect::Text) => {
                self.line.plain = false;
                return;
            }
        }
        let first = self.words.is_empty();
        if first && !word.quoted && !word.unknown && KEYWORDS.contains(&word.text.as_str()) {
            self.line.plain = false;
            return;
        }
        if first && is_assignment(&word.text) {
            self.line.plain = false;
            return;
        }
        self.words.push(if word.unknown { None } else { Some(word.text) });
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
        let script = words.iter().flatten().any(|word| SHELLS.contains(&base(word)));
        if script {
            for word in words.iter().flatten().skip(1).filter(|word| word.contains([' ', ';', '&', '|'])) {
                self.line.plain = false;
                read_into(word, self.depth + 1, self.line);
            }
        }
        self.line.parts.push(words);
    }

    fn redirection(&mut self, first: char, documents: &mut Vec<(String, bool)>) {
        // Digits right before it are a descriptor, no word.
        if self.word.as_ref().is_some_and(|word| !word.quoted && word.text.bytes().all(|byte| byte.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word(documents);
        self.redirect = Some(match (first, self.chars.peek().copied()) {
            (_, Some('(')) => {
                self.chars.next();
                self.line.plain = false;
                self.nested();
                return self.growing().unknown = true;
            }
            ('<', Some('<')) => {
                self.chars.next();
                match self.chars.next_if(|c| matches!(c, '<' | '-')) {
                    Some('<') => Redirect::Text,
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
                let mut text = String::new();
                let mut ended = false;
                for c in self.chars.by_ref() {
                    if c == '\n' {
                        ended = true;
                        break;
                    }
                    text.push(c);
                }
                let bare = if strip { text.trim_start_matches('\t') } else { &text };
                if bare == end || !ended {
                    break;
                }
                if text.contains("$(") || text.contains('`') {
                    substitutions(&text, self.depth + 1, self.line);
                }
            }
        }
    }

    fn until_quote(&mut self) {
        loop {
            match self.chars.next() {
                Some('\'') => return,
                Some(c) => self.growing().text.push(c),
                None => return self.unknown(),
            }
        }
    }

    fn double_quoted(&mut self) {
        loop {
            match self.chars.next() {
                Some('"') => return,
                Some('\\') => match self.chars.next() {
                    Some('\n') => {}
                    Some(c @ ('$' | '`' | '"' | '\\')) => self.growing().text.push(c),
                    Some(c) => self.growing().text.extend(['\\', c]),
                    None => return self.unknown(),
                },
                Some('$') => self.dollar(),
                Some('`') => self.backquoted(),
                Some(c) => self.growing().text.push(c),
                None => return self.unknown(),
            }
        }
    }

    fn dollar(&mut self) {
        match self.chars.peek().copied() {
            Some('(') => {
                self.chars.next();
                self.unknown();
                self.nested();
            }
            Some('{') => {
                self.unknown();
                let mut text = String::new();
                let mut open = 0;
                for c in self.chars.by_ref() {
                    match c {
                        '{' => open += 1,
                        '}' => open -= 1,
                        _ => {}
                    }
                    text.push(c);
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
            _ => self.growing().text.push('$'),
        }
    }

    fn backquoted(&mut self) {
        self.unknown();
        let mut text = String::new();
        while let Some(c) = self.chars.next() {
            match c {
                '`' => return read_into(&text, self.depth + 1, self.line),
                '\\' => text.extend(self.chars.next()),
                c => text.push(c),
            }
        }
    }

    /// Reads up to the parenthesis that closes what was opened, and what stands between as commands.
    fn nested(&mut self) {
        let mut text = String::new();
        let (mut open, mut quote) = (1, None);
        while let Some(c) = self.chars.next() {
            match (quote, c) {
                (None, '\'' | '"') => quote = Some(c),
                (Some(q), c) if q == c => quote = None,
                (Some('\''), _) => {}
                (_, '\\') => {
                    text.push(c);
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
            text.push(c);
        }
        read_into(&text, self.depth + 1, self.line);
    }
}

/// The commands in the substitutions of a text that is no command itself.
fn substitutions(text: &str, depth: usize, line: &mut Line) {
    let quoted = format!(": \"{}\"", text.replace('"', ""));
    if depth > DEEPEST {
        line.plain = false;
        return;
    }
    let mut inner = Line { parts: Vec::new(), plain: true };
    read_into(&quoted, depth, &mut inner);
    line.plain &= inner.plain;
    line.parts.extend(inner.parts.into_iter().filter(|part| part.first() != Some(&Some(":".to_owned()))));
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
        let word = |word: &Word| word.clone().unwrap_or_else(|| "?".to_owned());
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
    fn hostile_lines_end() {
        for text in
            ["$(".repeat(5000), "`".repeat(5001), "<<".repeat(3000), "\"${".repeat(3000), "bash -c '".repeat(500)]
        {
            assert!(!Line::read(&text).plain);
        }
    }
}
