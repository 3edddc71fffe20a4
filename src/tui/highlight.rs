//! Colours for code, off the path of drawing: pieces of code go in, classes for their lines come out later.
//! Nothing of the highlighter is loaded before the first piece comes.

use std::collections::HashMap;
use std::sync::mpsc;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

use super::transcript::block::LineClasses;
use super::transcript::{CodeOf, Wanted};
use crate::theme::Class;

/// What came of a piece of code.
#[derive(Debug)]
pub struct Coloured {
    /// Whose it is.
    pub of: CodeOf,
    /// Which piece of it.
    pub piece: usize,
    /// The number of the first line, from 0.
    pub from: usize,
    /// The classes of each line.
    pub lines: Vec<LineClasses>,
}

/// Lines longer than this stay plain: expressions take too long over them.
const LONGEST: usize = 5000;
/// States of pieces that may grow.
const KEPT: usize = 16;

/// The thread that colours. It ends when this is dropped.
#[derive(Debug)]
pub struct Highlighter {
    sender: Option<mpsc::Sender<Wanted>>,
}

impl Highlighter {
    /// One whose thread begins with the first piece.
    pub fn new() -> Self {
        Highlighter { sender: None }
    }

    /// Asks for colours; `done` is called with them, from another thread.
    pub fn ask(&mut self, wanted: Wanted, done: impl Fn(Coloured) + Send + Clone + 'static) {
        let wanted = match &self.sender {
            Some(sender) => match sender.send(wanted) {
                Ok(()) => return,
                Err(mpsc::SendError(wanted)) => wanted,
            },
            None => wanted,
        };
        let (sender, receiver) = mpsc::channel::<Wanted>();
        let spawned = std::thread::Builder::new().name("highlight".into()).spawn(move || {
            let mut worker = Worker::load();
            for wanted in receiver {
                done(worker.colour(&wanted));
            }
        });
        if spawned.is_ok() {
            let _ = sender.send(wanted);
            self.sender = Some(sender);
        }
    }
}

impl Default for Highlighter {
    fn default() -> Self {
        Highlighter::new()
    }
}

struct Worker {
    syntaxes: SyntaxSet,
    states: HashMap<(CodeOf, usize), (ParseState, ScopeStack)>,
    order: Vec<(CodeOf, usize)>,
    classes: HashMap<Scope, Option<Class>>,
    selectors: Vec<(Scope, Class)>,
}

/// Which scopes stand for which class; the longest that fits counts.
const SELECTORS: &[(&str, Class)] = &[
    ("comment", Class::Comment),
    ("punctuation.definition.comment", Class::Comment),
    ("string", Class::String),
    ("punctuation.definition.string", Class::String),
    ("constant.character", Class::String),
    ("constant.numeric", Class::Number),
    ("constant", Class::Constant),
    ("keyword", Class::Keyword),
    ("keyword.operator", Class::Operator),
    ("keyword.operator.word", Class::Keyword),
    ("storage", Class::Keyword),
    ("storage.type", Class::Keyword),
    ("entity.name.function", Class::Function),
    ("support.function", Class::Function),
    ("support.macro", Class::Function),
    ("variable.function", Class::Function),
    ("entity.name", Class::Type),
    ("entity.name.tag", Class::Tag),
    ("entity.other.attribute-name", Class::Attribute),
    ("entity.other.inherited-class", Class::Type),
    ("support.type", Class::Type),
    ("support.class", Class::Type),
    ("support.type.property-name", Class::Attribute),
    ("meta.mapping.key", Class::Attribute),
    ("variable.parameter", Class::Variable),
    ("variable.language", Class::Keyword),
    ("variable.other", Class::Variable),
    ("markup.heading", Class::Heading),
    ("entity.name.section", Class::Heading),
    ("markup.inserted", Class::Inserted),
    ("markup.deleted", Class::Deleted),
];

impl Worker {
    fn load() -> Self {
        let selectors = SELECTORS.iter().filter_map(|(text, class)| Some((Scope::new(text).ok()?, *class))).collect();
        Worker {
            syntaxes: two_face::syntax::extra_newlines(),
            states: HashMap::new(),
            order: Vec::new(),
            classes: HashMap::new(),
            selectors,
        }
    }

    fn colour(&mut self, wanted: &Wanted) -> Coloured {
        let key = (wanted.of, wanted.piece);
        let (mut state, mut stack) = match self.states.remove(&key).filter(|_| wanted.from > 0) {
            Some(kept) => kept,
            None => {
                let syntax = self.syntaxes.find_syntax_by_token(&wanted.language);
                let syntax = syntax.unwrap_or_else(|| self.syntaxes.find_syntax_plain_text());
                (ParseState::new(syntax), ScopeStack::new())
            }
        };
        let mut lines = Vec::with_capacity(wanted.lines.len());
        for line in &wanted.lines {
            lines.push(self.line(line, &mut state, &mut stack));
        }
        self.order.retain(|other| *other != key);
        self.order.push(key);
        if self.order.len() > KEPT {
            let oldest = self.order.remove(0);
            self.states.remove(&oldest);
        }
        self.states.insert(key, (state, stack));
        Coloured { of: wanted.of, piece: wanted.piece, from: wanted.from, lines }
    }

    fn line(&mut self, line: &str, state: &mut ParseState, stack: &mut ScopeStack) -> LineClasses {
        if line.len() > LONGEST {
            return Box::default();
        }
        let Ok(parsed) = state.parse_line(&format!("{line}\n"), &self.syntaxes) else { return Box::default() };
        let mut out: Vec<(u32, Option<Class>)> = Vec::new();
        let mut push = |end: usize, class: Option<Class>| {
            let (end, begun) = (end.min(line.len()) as u32, out.last().map_or(0, |(end, _)| *end));
            match out.last_mut() {
                Some(last) if last.1 == class => last.0 = end,
                _ if end > begun => out.push((end, class)),
                _ => {}
            }
        };
        for (at, operation) in parsed {
            push(at, self.class_of(stack));
            if stack.apply(&operation).is_err() {
                return Box::default();
            }
        }
        push(line.len(), self.class_of(stack));
        out.into()
    }

    fn class_of(&mut self, stack: &ScopeStack) -> Option<Class> {
        stack.scopes.iter().rev().find_map(|scope| {
            let selectors = &self.selectors;
            *self.classes.entry(*scope).or_insert_with(|| {
                let fits = selectors.iter().filter(|(selector, _)| selector.is_prefix_of(*scope));
                fits.max_by_key(|(selector, _)| selector.len()).map(|(_, class)| *class)
            })
        })
    }
}

/// Colours pieces of code at once, for tests that look at whole screens.
#[cfg(test)]
pub fn coloured(wanted: &[Wanted]) -> Vec<Coloured> {
    thread_local! {
        static WORKER: std::cell::RefCell<Worker> = std::cell::RefCell::new(Worker::load());
    }
    WORKER.with_borrow_mut(|worker| wanted.iter().map(|wanted| worker.colour(wanted)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(language: &str, from: usize, lines: &[&str]) -> Wanted {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        Wanted { of: CodeOf::Block(1), piece: 0, language: language.into(), from, lines, last: true }
    }

    fn class_at(line: &LineClasses, byte: u32) -> Option<Class> {
        line.iter().find(|(end, _)| byte < *end).and_then(|(_, class)| *class)
    }

    #[test]
    fn code_is_told_apart_and_a_state_carries_over() {
        let mut worker = Worker::load();
        let first = worker.colour(&wanted("rust", 0, &["fn main() { /* open", "still"]));
        assert_eq!(class_at(&first.lines[0], 0), Some(Class::Keyword));
        assert_eq!(class_at(&first.lines[0], 3), Some(Class::Function));
        assert_eq!(class_at(&first.lines[1], 0), Some(Class::Comment));
        let second = worker.colour(&wanted("rust", 2, &["end */ let x = \"s\";"]));
        assert_eq!(class_at(&second.lines[0], 0), Some(Class::Comment));
        assert_eq!(class_at(&second.lines[0], 7), Some(Class::Keyword));
        assert_eq!(class_at(&second.lines[0], 16), Some(Class::String));
    }

    #[test]
    fn the_common_languages_are_there() {
        let worker = Worker::load();
        for language in [
            "rust",
            "rs",
            "ts",
            "tsx",
            "typescript",
            "python",
            "py",
            "go",
            "c",
            "cpp",
            "java",
            "sh",
            "bash",
            "json",
            "yaml",
            "toml",
            "sql",
            "md",
            "html",
            "css",
            "Dockerfile",
            "dockerfile",
            "diff",
            "kotlin",
            "swift",
            "zig",
        ] {
            assert!(worker.syntaxes.find_syntax_by_token(language).is_some(), "{language}");
        }
    }

    #[test]
    fn what_is_unknown_or_too_long_stays_plain() {
        let mut worker = Worker::load();
        let long = "x".repeat(LONGEST + 1);
        let result = worker.colour(&wanted("klingon", 0, &["日本 = 1", &long]));
        assert_eq!(result.lines.len(), 2);
        assert!(result.lines[1].is_empty());
    }
}
