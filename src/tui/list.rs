//! Lists to choose from, lines to write, questions with a few answers: the parts of pickers and dialogs.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use ratatui::style::{Modifier, Style};
use unicode_segmentation::UnicodeSegmentation;

use super::msg::Effect;
use super::sources::{ModelChoice, SessionRow, SessionScope};
use super::transcript::row::{Row, Span, Wrap, with, wrap};
use crate::theme::{Theme, Token};

/// A line of text that is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineInput {
    /// The text before the cursor.
    pub before: String,
    /// The text after it.
    pub after: String,
}

impl LineInput {
    /// One that holds a text.
    pub fn with(text: &str) -> Self {
        LineInput { before: text.to_owned(), after: String::new() }
    }

    /// All of it.
    pub fn text(&self) -> String {
        format!("{}{}", self.before, self.after)
    }

    /// Types a text; it stays one line.
    pub fn insert(&mut self, text: &str) {
        self.before.push_str(&crate::text::visible(&text.replace(['\n', '\r', '\t'], " ")));
    }

    /// Takes an editing key; `false` where it is none.
    pub fn key(&mut self, key: &crossterm::event::KeyEvent) -> bool {
        use crossterm::event::{KeyCode, KeyModifiers};
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('u') if ctrl => self.before.clear(),
            KeyCode::Char('k') if ctrl => self.after.clear(),
            KeyCode::Char('a') if ctrl => self.go_to_start(),
            KeyCode::Char('e') if ctrl => self.before.push_str(&std::mem::take(&mut self.after)),
            KeyCode::Char('w') if ctrl => {
                let mut words = self.before.split_word_bound_indices();
                let word = words.rfind(|(_, word)| word.chars().any(char::is_alphanumeric));
                let kept = word.map_or(0, |(at, _)| at);
                self.before.truncate(kept);
            }
            KeyCode::Home => self.go_to_start(),
            KeyCode::End => self.before.push_str(&std::mem::take(&mut self.after)),
            KeyCode::Backspace => {
                if let Some((at, _)) = self.before.grapheme_indices(true).next_back() {
                    self.before.truncate(at);
                }
            }
            KeyCode::Delete => {
                let next = self.after.graphemes(true).next().map_or(0, str::len);
                self.after.drain(..next);
            }
            KeyCode::Left => {
                if let Some((at, _)) = self.before.grapheme_indices(true).next_back() {
                    self.after.insert_str(0, &self.before.split_off(at));
                }
            }
            KeyCode::Right => {
                let next = self.after.graphemes(true).next().map_or(0, str::len);
                let moved: String = self.after.drain(..next).collect();
                self.before.push_str(&moved);
            }
            KeyCode::Char(c) if !ctrl && !key.modifiers.contains(KeyModifiers::ALT) => self.before.push(c),
            _ => return false,
        }
        true
    }

    fn go_to_start(&mut self) {
        self.after.insert_str(0, &std::mem::take(&mut self.before));
    }
}

/// What a list is for, with what its items stand for.
#[derive(Debug)]
pub enum Subject {
    /// Models.
    Models(Vec<ModelChoice>),
    /// Models that providers offer and models.json lacks: provider and id.
    Offered(Vec<(String, String)>),
    /// Sessions.
    Sessions(SessionScope, Vec<SessionRow>),
    /// Themes, with the one to go back to.
    Themes(Vec<String>, Box<crate::theme::Theme>),
    /// Prompts of before.
    History(Vec<String>),
    /// Thinking levels.
    Thinking,
    /// Modes.
    Modes,
    /// User messages to fork from.
    Fork(Vec<Option<crate::session::EntryId>>),
    /// Settings.
    Settings,
    /// Plugins.
    Plugins(Vec<super::plugins::PluginItem>),
}

/// A piece of text that gets its colour when it is drawn: the theme may change while it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The text, without control characters.
    pub text: String,
    /// What it is.
    pub token: Token,
    /// Whether it is bold.
    pub bold: bool,
}

impl Part {
    /// A piece.
    pub fn new(text: impl Into<String>, token: Token) -> Self {
        Part { text: text.into(), token, bold: false }
    }

    /// A piece of body text.
    pub fn plain(text: impl Into<String>) -> Self {
        Part::new(text, Token::Text)
    }

    /// The same in bold.
    pub fn bold(self) -> Self {
        Part { bold: true, ..self }
    }

    /// It in the colours of a theme.
    pub fn span(&self, theme: &Theme) -> Span {
        let style = theme.style(self.token);
        Span::new(self.text.clone(), if self.bold { with(style, Modifier::BOLD) } else { style })
    }
}

/// An item of a list.
#[derive(Debug, Clone, Default)]
pub struct Item {
    /// What is searched.
    pub search: String,
    /// What stands at the left.
    pub left: Vec<Part>,
    /// What stands at the right.
    pub right: Vec<Part>,
}

/// A list to choose from.
#[derive(Debug)]
pub struct List {
    /// What it is for.
    pub subject: Subject,
    /// Its title.
    pub title: String,
    /// The keys that it takes.
    pub hint: String,
    /// What is searched.
    pub query: LineInput,
    /// All items.
    pub items: Vec<Item>,
    /// Those that fit the query, the best first.
    pub shown: Vec<usize>,
    /// Which of these is chosen.
    pub selected: usize,
    /// The first that is drawn.
    pub scroll: usize,
    /// Whether the items are still to come.
    pub loading: bool,
}

impl List {
    /// A list of these.
    pub fn new(subject: Subject, title: impl Into<String>, hint: impl Into<String>, items: Vec<Item>) -> Self {
        let shown = (0..items.len()).collect();
        List {
            subject,
            title: title.into(),
            hint: hint.into(),
            query: LineInput::default(),
            items,
            shown,
            selected: 0,
            scroll: 0,
            loading: false,
        }
    }

    /// Takes other items.
    pub fn set_items(&mut self, items: Vec<Item>) {
        self.items = items;
        self.loading = false;
        self.search();
    }

    /// Searches anew.
    pub fn search(&mut self) {
        let query = self.query.text();
        self.shown = if query.trim().is_empty() {
            (0..self.items.len()).collect()
        } else {
            best(&query, self.items.iter().map(|item| item.search.as_str()))
        };
        self.selected = self.selected.min(self.shown.len().saturating_sub(1));
        if !query.is_empty() {
            self.selected = 0;
        }
    }

    /// Shows more items behind those that fit the query.
    pub fn add(&mut self, items: impl Iterator<Item = usize>) {
        let mut there: std::collections::HashSet<usize> = self.shown.iter().copied().collect();
        self.shown.extend(items.filter(|item| there.insert(*item)));
    }

    /// The item that is chosen.
    pub fn chosen(&self) -> Option<usize> {
        self.shown.get(self.selected).copied()
    }

    /// Moves the choice.
    pub fn step(&mut self, by: isize) {
        let last = self.shown.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
    }

    /// Keeps the choice in a window of that height.
    pub fn place(&mut self, height: usize) {
        self.scroll = scrolled(self.scroll, self.selected, self.shown.len(), height);
    }
}

/// The scroll that keeps a choice in sight.
pub fn scrolled(scroll: usize, selected: usize, count: usize, height: usize) -> usize {
    let scroll = scroll.min(selected).max((selected + 1).saturating_sub(height.max(1)));
    scroll.min(count.saturating_sub(height))
}

/// The indices of what fits a query, the best first.
pub fn best<'a>(query: &str, texts: impl Iterator<Item = &'a str>) -> Vec<usize> {
    let mut matcher = Matcher::new(Config::DEFAULT);
    let pattern = Pattern::parse(query, CaseMatching::Smart, Normalization::Smart);
    let mut buffer = Vec::new();
    let scored = texts
        .enumerate()
        .filter_map(|(index, text)| Some((pattern.score(Utf32Str::new(text, &mut buffer), &mut matcher)?, index)));
    let mut scored: Vec<(u32, usize)> = scored.collect();
    scored.sort_by_key(|(score, index)| (std::cmp::Reverse(*score), *index));
    scored.into_iter().map(|(_, index)| index).collect()
}

/// Completions under the prompt's cursor.
#[derive(Debug, Default)]
pub struct Popup {
    /// The prompt's version that it is for.
    pub version: u64,
    /// The character of the line at which the completed word begins.
    pub column: usize,
    /// What can be put in.
    pub items: Vec<PopupItem>,
    /// Which is chosen.
    pub selected: usize,
    /// The first that is drawn.
    pub scroll: usize,
}

/// A completion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PopupItem {
    /// What is shown.
    pub label: String,
    /// What it is.
    pub detail: String,
    /// What is put in.
    pub insert: String,
}

/// A question with a few answers.
#[derive(Debug)]
pub struct Ask {
    /// What is asked.
    pub question: Vec<String>,
    /// The answers: their key, their words and what they do.
    pub answers: Vec<Answer>,
    /// Which is chosen.
    pub selected: usize,
    /// The question as it was laid out.
    pub rows: Vec<Row>,
}

/// An answer of an [`Ask`].
#[derive(Debug)]
pub struct Answer {
    /// The key that gives it.
    pub key: char,
    /// Its words.
    pub words: String,
    /// What it does.
    pub effects: Vec<Effect>,
}

impl Ask {
    /// A question; the last answer is what Esc gives.
    pub fn new(question: Vec<String>, answers: Vec<Answer>) -> Self {
        let selected = answers.len().saturating_sub(1);
        Ask { question, answers, selected, rows: Vec::new() }
    }

    /// Lays the question out for that many cells and rows: lines too long are wrapped, and rows too many left out.
    pub fn lay(&mut self, width: u16, most: usize) {
        self.rows = self
            .question
            .iter()
            .flat_map(|line| {
                let words = line.trim_start();
                let indent = " ".repeat(line.len() - words.len());
                let rest = format!("{indent}{}", if indent.is_empty() { "" } else { "  " });
                let gutter = |text: String| [Span::new(text, Style::new())];
                wrap(&gutter(words.to_owned()), &gutter(indent), &gutter(rest), width.max(4), Wrap::Words)
            })
            .collect();
        if self.rows.len() > most {
            self.rows.truncate(most.saturating_sub(1));
            self.rows.push(Row::new(vec![Span::new("…", Style::new())]));
        }
    }

    /// A yes or no question.
    pub fn confirm(question: impl Into<String>, yes: &str, effects: Vec<Effect>) -> Self {
        let yes = Answer { key: 'y', words: yes.to_owned(), effects };
        let no = Answer { key: 'n', words: "cancel".to_owned(), effects: Vec::new() };
        Ask::new(vec![question.into()], vec![yes, no])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_match_comes_first() {
        let texts = ["openai/gpt-5", "anthropic/opus", "local/gpt-oss"];
        assert_eq!(best("gpt", texts.into_iter()).len(), 2);
        assert_eq!(best("opus", texts.into_iter()), [1]);
        assert!(best("zzz", texts.into_iter()).is_empty());
    }

    /// traps.md B98: keys take characters whole, and a word is a word in every script.
    #[test]
    fn a_line_is_edited_by_whole_characters_and_words() {
        use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
        let mut line = LineInput::with("क्ष👨‍👩‍👧‍👦e\u{301}");
        let press = |line: &mut LineInput, code| line.key(&KeyEvent::new(code, KeyModifiers::NONE));
        let ctrl = |line: &mut LineInput, c| line.key(&KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL));
        press(&mut line, KeyCode::Left);
        press(&mut line, KeyCode::Backspace);
        assert_eq!((line.before.as_str(), line.after.as_str()), ("क्ष", "e\u{301}"));
        press(&mut line, KeyCode::Delete);
        assert_eq!(line.text(), "क्ष");
        let mut line = LineInput::with("日本語テスト foo");
        ctrl(&mut line, 'w');
        assert_eq!(line.text(), "日本語テスト ");
        ctrl(&mut line, 'w');
        assert!(line.text().starts_with("日本"), "{:?}", line.text());
        for _ in 0..9 {
            ctrl(&mut line, 'w');
        }
        assert_eq!(line.text(), "");
    }

    #[test]
    fn the_choice_stays_in_sight() {
        assert_eq!(scrolled(0, 9, 20, 5), 5);
        assert_eq!(scrolled(8, 2, 20, 5), 2);
        assert_eq!(scrolled(8, 2, 3, 5), 0);
        assert_eq!(scrolled(0, 0, 0, 0), 0);
    }
}
