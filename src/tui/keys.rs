//! Key bindings: one table of actions with their default keys. Help, `keybindings.json` and the README's table
//! are made from it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::app::AppState;
use super::msg::Effect;

/// A key with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chord {
    code: KeyCode,
    modifiers: KeyModifiers,
}

/// Where an action's keys count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// In the prompt, and wherever nothing else takes the key.
    Global,
    /// In the tree pane.
    Tree,
    /// In the output pane.
    Output,
    /// In lists: pickers and the completion popup.
    List,
}

/// What a key can do.
pub struct Action {
    /// Its name in `keybindings.json`.
    pub name: &'static str,
    /// What it does, for the help.
    pub doc: &'static str,
    /// The keys that it has by itself.
    pub keys: &'static [&'static str],
    /// Where they count.
    pub scope: Scope,
    /// Does it.
    pub run: fn(&mut AppState, &mut Vec<Effect>),
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Chord {
    /// The chord of a key press, in the one form that bindings use.
    pub fn of(event: &KeyEvent) -> Self {
        let mut modifiers =
            event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT | KeyModifiers::SUPER);
        let mut code = event.code;
        match code {
            KeyCode::Char(c) => {
                let shortcut = modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::SUPER);
                if shortcut {
                    if c.is_uppercase() {
                        modifiers |= KeyModifiers::SHIFT;
                    }
                    code = KeyCode::Char(c.to_ascii_lowercase());
                } else {
                    // The character itself tells whether Shift was held.
                    modifiers -= KeyModifiers::SHIFT;
                }
            }
            KeyCode::BackTab => {
                code = KeyCode::Tab;
                modifiers |= KeyModifiers::SHIFT;
            }
            _ => {}
        }
        Chord { code, modifiers }
    }

    /// Reads `ctrl+shift+t`, `f1`, `alt+enter`, `G`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut modifiers = KeyModifiers::NONE;
        let mut rest = text.trim();
        while let Some((name, after)) =
            rest.split_once('+').filter(|(name, after)| !name.is_empty() && !after.is_empty())
        {
            modifiers |= match name.to_ascii_lowercase().as_str() {
                "ctrl" | "control" => KeyModifiers::CONTROL,
                "alt" | "meta" | "option" => KeyModifiers::ALT,
                "shift" => KeyModifiers::SHIFT,
                "super" | "cmd" => KeyModifiers::SUPER,
                _ => return None,
            };
            rest = after;
        }
        let mut characters = rest.chars();
        let code = match (characters.next(), characters.next()) {
            (Some(c), None) => KeyCode::Char(c),
            (Some('f' | 'F'), Some('0'..='9')) => KeyCode::F(rest[1..].parse().ok().filter(|n| (1..=24).contains(n))?),
            _ => NAMED.iter().find(|(name, _)| name.eq_ignore_ascii_case(rest))?.1,
        };
        Some(Chord::of(&KeyEvent::new(code, modifiers)))
    }

    /// Whether it types a character.
    pub fn types(&self) -> Option<char> {
        match self.code {
            KeyCode::Char(c) if (self.modifiers - KeyModifiers::SHIFT).is_empty() => Some(c),
            _ => None,
        }
    }
}

const NAMED: &[(&str, KeyCode)] = &[
    ("enter", KeyCode::Enter),
    ("return", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("escape", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("insert", KeyCode::Insert),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
    ("space", KeyCode::Char(' ')),
];

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (modifier, name) in [
            (KeyModifiers::CONTROL, "Ctrl+"),
            (KeyModifiers::ALT, "Alt+"),
            (KeyModifiers::SHIFT, "Shift+"),
            (KeyModifiers::SUPER, "Super+"),
        ] {
            if self.modifiers.contains(modifier) {
                f.write_str(name)?;
            }
        }
        match self.code {
            KeyCode::Char(' ') => f.write_str("Space"),
            KeyCode::Char(c) if self.modifiers.is_empty() => write!(f, "{c}"),
            KeyCode::Char(c) => write!(f, "{}", c.to_ascii_uppercase()),
            KeyCode::F(n) => write!(f, "F{n}"),
            KeyCode::PageUp => f.write_str("PageUp"),
            KeyCode::PageDown => f.write_str("PageDown"),
            code => {
                let name = NAMED.iter().find(|(_, known)| *known == code).map_or("?", |(name, _)| name);
                let mut characters = name.chars();
                match characters.next() {
                    Some(first) => write!(f, "{}{}", first.to_ascii_uppercase(), characters.as_str()),
                    None => Ok(()),
                }
            }
        }
    }
}

/// The bindings in force.
#[derive(Debug, Clone)]
pub struct Bindings {
    by_chord: HashMap<(Scope, Chord), &'static Action>,
    keys: HashMap<&'static str, Vec<Chord>>,
}

impl Default for Bindings {
    fn default() -> Self {
        Bindings::with(&BTreeMap::new()).0
    }
}

impl Bindings {
    /// The table with a person's own keys in place of those that it names, and what is wrong with them.
    pub fn with(own: &BTreeMap<String, Vec<String>>) -> (Self, Vec<String>) {
        let mut problems = Vec::new();
        let mut bindings = Bindings { by_chord: HashMap::new(), keys: HashMap::new() };
        for name in own.keys().filter(|name| !super::actions::ACTIONS.iter().any(|action| action.name == name.as_str()))
        {
            problems.push(format!("keybindings.json: there is no action `{name}`"));
        }
        // Keys of the person's own come first, so that they win over a default on the same key.
        let (mine, others): (Vec<_>, Vec<_>) =
            super::actions::ACTIONS.iter().partition(|action| own.contains_key(action.name));
        for action in mine {
            for key in &own[action.name] {
                match Chord::parse(key) {
                    Some(chord) => bindings.bind(action, chord, Some(&mut problems)),
                    None => problems.push(format!("keybindings.json: `{key}` of `{}` is no key", action.name)),
                }
            }
        }
        for action in others {
            for key in action.keys {
                if let Some(chord) = Chord::parse(key) {
                    bindings.bind(action, chord, None);
                }
            }
        }
        (bindings, problems)
    }

    fn bind(&mut self, action: &'static Action, chord: Chord, problems: Option<&mut Vec<String>>) {
        match self.by_chord.get(&(action.scope, chord)) {
            None => {
                self.by_chord.insert((action.scope, chord), action);
                self.keys.entry(action.name).or_default().push(chord);
            }
            Some(other) => {
                if let Some(problems) = problems {
                    problems.push(format!(
                        "keybindings.json: {chord} stands for both `{}` and `{}`; the first counts",
                        other.name, action.name
                    ));
                }
            }
        }
    }

    /// Reads `keybindings.json`.
    ///
    /// # Errors
    /// Where it is no JSON of that form, with line and column.
    pub fn parse(source: &str) -> Result<(Self, Vec<String>), String> {
        let own: BTreeMap<String, Vec<String>> =
            jsonc_parser::parse_to_serde_value(source, &jsonc_parser::ParseOptions::default()).map_err(|error| {
                let (line, column) = (error.line_display(), error.column_display());
                format!("keybindings.json, line {line}, column {column}: {}", error.kind())
            })?;
        Ok(Bindings::with(&own))
    }

    /// What a key does there.
    pub fn find(&self, scope: Scope, chord: Chord) -> Option<&'static Action> {
        self.by_chord.get(&(scope, chord)).copied()
    }

    /// The keys of an action, for people.
    pub fn keys_of(&self, name: &str) -> String {
        let keys = self.keys.get(name).map_or(&[] as &[Chord], Vec::as_slice);
        keys.iter().map(Chord::to_string).collect::<Vec<_>>().join(", ")
    }

    /// The first key of an action, as short as it can be: `^T`, `←`.
    pub fn short(&self, name: &str) -> Option<String> {
        let chord = self.keys.get(name)?.first()?;
        Some(match (chord.code, chord.modifiers) {
            (KeyCode::Left, KeyModifiers::NONE) => "←".to_owned(),
            (KeyCode::Right, KeyModifiers::NONE) => "→".to_owned(),
            (KeyCode::Up, KeyModifiers::NONE) => "↑".to_owned(),
            (KeyCode::Down, KeyModifiers::NONE) => "↓".to_owned(),
            _ => chord.to_string().replace("Ctrl+", "^"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chords_are_read_and_shown() {
        for (text, shown) in [
            ("ctrl+t", "Ctrl+T"),
            ("f1", "F1"),
            ("shift+tab", "Shift+Tab"),
            ("alt+Enter", "Alt+Enter"),
            ("G", "G"),
            ("+", "+"),
            ("ctrl++", "Ctrl++"),
            ("ctrl+pageup", "Ctrl+PageUp"),
        ] {
            assert_eq!(Chord::parse(text).expect(text).to_string(), shown);
        }
        for text in ["", "hyper+x", "ctrl+", "f99", "enterx"] {
            assert_eq!(Chord::parse(text), None, "{text}");
        }
    }

    #[test]
    fn own_keys_win_and_mistakes_are_told() {
        let source =
            r#"{"pane.tree": ["ctrl+y"], "model.pick": ["ctrl+y", "ctrl+foo"], "nope": [], "app.quit": [] /* off */}"#;
        let (bindings, problems) = Bindings::parse(source).expect("reads");
        let chord = Chord::parse("ctrl+y").expect("a key");
        let named = bindings.find(Scope::Global, chord).map(|action| action.name);
        assert!(matches!(named, Some("pane.tree" | "model.pick")));
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert_eq!(bindings.keys_of("app.quit"), "");
        assert!(Bindings::parse("{").expect_err("a mistake").starts_with("keybindings.json, line 1"));
    }

    #[test]
    fn default_keys_all_read_and_none_clash() {
        let mut seen = HashMap::new();
        for action in super::super::actions::ACTIONS {
            for key in action.keys {
                let chord = Chord::parse(key).unwrap_or_else(|| panic!("{key}"));
                if let Some(other) = seen.insert((action.scope, chord), action.name) {
                    panic!("{key} stands for {other} and {}", action.name);
                }
            }
        }
    }
}
