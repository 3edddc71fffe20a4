//! Themes: JSON files that name colours, read into one table of styles. It may name `ratatui::style` and
//! knows nothing else of a screen.
//!
//! A theme sets colours only where something must stand out: the background and the body text stay the
//! terminal's own. What a theme leaves out is taken from the built-in one for its background.

mod colour;
mod file;
mod schema;

pub use colour::Depth;
pub use schema::schema;

use std::path::{Path, PathBuf};

use ratatui::style::{Color, Modifier, Style};

use crate::home::read_text;

/// A theme's file is smaller than this.
const LARGEST: u64 = 1 << 20;

/// What a colour of the interface is for. The name in a theme file is [`Token::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// Body text.
    Text,
    /// What may be overlooked: hints, times, gutters.
    Dim,
    /// What leads the eye: the name, the caret's line, what is chosen.
    Accent,
    /// The bar beside what the person said.
    User,
    /// Thinking.
    Thinking,
    /// Headings of Markdown.
    Heading,
    /// Links.
    Link,
    /// Code within a line.
    Code,
    /// Quotes.
    Quote,
    /// A tool's name.
    Tool,
    /// What went well.
    Success,
    /// What failed.
    Error,
    /// What wants attention.
    Warning,
    /// Borders.
    Border,
    /// The border of what has the keys.
    BorderFocus,
    /// Behind what is selected.
    Selection,
    /// Behind a hit of a search.
    Match,
    /// Behind the hit where one stands.
    MatchCurrent,
    /// Added lines.
    Added,
    /// Removed lines.
    Removed,
    /// The mode `plan`.
    ModePlan,
    /// The mode `ask`.
    ModeAsk,
    /// The mode `auto`.
    ModeAuto,
    /// The mode `yolo`.
    ModeYolo,
}

impl Token {
    /// All of them with their names in theme files.
    pub const ALL: &[(Token, &'static str)] = &[
        (Token::Text, "text"),
        (Token::Dim, "dim"),
        (Token::Accent, "accent"),
        (Token::User, "user"),
        (Token::Thinking, "thinking"),
        (Token::Heading, "heading"),
        (Token::Link, "link"),
        (Token::Code, "code"),
        (Token::Quote, "quote"),
        (Token::Tool, "tool"),
        (Token::Success, "success"),
        (Token::Error, "error"),
        (Token::Warning, "warning"),
        (Token::Border, "border"),
        (Token::BorderFocus, "border_focus"),
        (Token::Selection, "selection"),
        (Token::Match, "match"),
        (Token::MatchCurrent, "match_current"),
        (Token::Added, "added"),
        (Token::Removed, "removed"),
        (Token::ModePlan, "mode_plan"),
        (Token::ModeAsk, "mode_ask"),
        (Token::ModeAuto, "mode_auto"),
        (Token::ModeYolo, "mode_yolo"),
    ];

    /// The name in theme files.
    pub fn name(self) -> &'static str {
        Token::ALL[self as usize].1
    }

    fn is_background(self) -> bool {
        matches!(self, Token::Selection | Token::Match | Token::MatchCurrent)
    }
}

/// What a piece of code is, as far as colours tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A comment.
    Comment,
    /// A string.
    String,
    /// A number.
    Number,
    /// Another constant.
    Constant,
    /// A keyword.
    Keyword,
    /// An operator.
    Operator,
    /// A function's name.
    Function,
    /// A type's name.
    Type,
    /// A tag of a markup language.
    Tag,
    /// An attribute or a key.
    Attribute,
    /// A variable or a parameter.
    Variable,
    /// A heading of a markup language.
    Heading,
    /// An added line of a diff.
    Inserted,
    /// A removed line of a diff.
    Deleted,
}

impl Class {
    /// All of them with the scope that stands for each in theme files.
    pub const ALL: &[(Class, &'static str)] = &[
        (Class::Comment, "comment"),
        (Class::String, "string"),
        (Class::Number, "constant.numeric"),
        (Class::Constant, "constant"),
        (Class::Keyword, "keyword"),
        (Class::Operator, "keyword.operator"),
        (Class::Function, "entity.name.function"),
        (Class::Type, "entity.name.type"),
        (Class::Tag, "entity.name.tag"),
        (Class::Attribute, "entity.other.attribute-name"),
        (Class::Variable, "variable"),
        (Class::Heading, "markup.heading"),
        (Class::Inserted, "markup.inserted"),
        (Class::Deleted, "markup.deleted"),
    ];
}

/// A theme, ready to draw with.
#[derive(Debug, Clone, PartialEq)]
pub struct Theme {
    /// Its name.
    pub name: String,
    /// Whether it is made for a dark background.
    pub dark: bool,
    /// Whether the terminal shows links (OSC 8), so that their addresses need not stand behind them.
    pub hyperlinks: bool,
    /// How many colours the terminal has.
    depth: Depth,
    ui: [Option<Color>; Token::ALL.len()],
    syntax: [Option<Color>; Class::ALL.len()],
}

/// The built-in themes: name and source.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("violin-dark", include_str!("../../themes/violin-dark.json")),
    ("violin-light", include_str!("../../themes/violin-light.json")),
    ("violin-contrast", include_str!("../../themes/violin-contrast.json")),
    ("violin-16", include_str!("../../themes/violin-16.json")),
];

impl Theme {
    /// The style of a token: a foreground, or a background for tokens that are one.
    pub fn style(&self, token: Token) -> Style {
        match (self.ui[token as usize], token.is_background()) {
            (Some(colour), false) => Style::new().fg(colour),
            (Some(colour), true) => Style::new().bg(colour),
            (None, true) if token == Token::Match => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            (None, true) => Style::new().add_modifier(Modifier::REVERSED),
            (None, false) if matches!(token, Token::Dim | Token::Thinking | Token::Quote | Token::Border) => {
                Style::new().add_modifier(Modifier::DIM)
            }
            (None, false) => Style::new(),
        }
    }

    /// A style that does not come from the theme, such as that of a command's output, in the colours that the terminal has.
    pub fn fit(&self, mut style: Style) -> Style {
        style.fg = style.fg.and_then(|colour| self.depth.nearest(colour));
        style.bg = style.bg.and_then(|colour| self.depth.nearest(colour));
        style
    }

    /// The colour of a class of code.
    pub fn class(&self, class: Class) -> Style {
        self.syntax[class as usize].map_or(Style::new(), |colour| Style::new().fg(colour))
    }

    /// The theme in the colours that a terminal has. A background on which some text would be lost becomes
    /// reversed text.
    pub fn at_depth(mut self, depth: Depth) -> Self {
        self.depth = depth;
        for colour in self.ui.iter_mut().chain(&mut self.syntax) {
            *colour = colour.and_then(|colour| depth.nearest(colour));
        }
        for (token, _) in Token::ALL.iter().filter(|(token, _)| token.is_background()) {
            let ground = self.ui[*token as usize];
            let ink = Token::ALL
                .iter()
                .filter(|(token, _)| !token.is_background())
                .map(|(token, _)| self.ui[*token as usize]);
            if ink.chain(self.syntax).any(|ink| ink == ground) {
                self.ui[*token as usize] = None;
            }
        }
        self
    }

    /// Reads a theme's source. What it leaves out comes from the built-in theme for its background.
    ///
    /// # Errors
    /// What is wrong, with line and column where it is the JSON.
    pub fn parse(source: &str) -> Result<Self, String> {
        file::parse(source)
    }

    /// A built-in theme; the dark one where there is none of that name.
    pub fn built_in(name: &str) -> Self {
        let (name, source) = BUILT_IN.iter().find(|(known, _)| *known == name).unwrap_or(&BUILT_IN[0]);
        file::parse_alone(source).unwrap_or_else(|_| Theme {
            hyperlinks: false,
            depth: Depth::True,
            name: (*name).to_owned(),
            dark: true,
            ui: [None; Token::ALL.len()],
            syntax: [None; Class::ALL.len()],
        })
    }

    /// The theme of that name: the person's own file first, then a built-in one.
    ///
    /// # Errors
    /// Where there is none, or its file does not read.
    pub fn load(name: &str, folder: &Path) -> Result<Self, String> {
        let path = file_of(name, folder);
        match read_text(&path, LARGEST) {
            Ok(source) => Theme::parse(&source).map_err(|error| format!("{}: {error}", path.display())),
            Err(_) if BUILT_IN.iter().any(|(known, _)| *known == name) => Ok(Theme::built_in(name)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(format!("there is no theme `{name}`; it would stand in {}", path.display()))
            }
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }
}

/// The file of a theme of the person's own.
pub fn file_of(name: &str, folder: &Path) -> PathBuf {
    // A name is a name, never a way out of the folder.
    let plain = Path::new(name).file_name().unwrap_or_default();
    folder.join(plain).with_extension("json")
}

/// The names of all themes: the built-in ones, then the person's own.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = BUILT_IN.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut own: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .filter(|name| !names.contains(name))
        .collect();
    own.sort();
    names.append(&mut own);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_stand_in_the_order_of_their_enums() {
        for (index, (token, _)) in Token::ALL.iter().enumerate() {
            assert_eq!(*token as usize, index);
        }
        for (index, (class, _)) in Class::ALL.iter().enumerate() {
            assert_eq!(*class as usize, index);
        }
    }

    #[test]
    fn built_in_themes_are_whole_and_leave_body_and_background_alone() {
        for (name, source) in BUILT_IN {
            let theme = Theme::parse(source).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(theme.name, *name);
            assert_eq!(theme.style(Token::Text), Style::new(), "{name}");
            for (token, token_name) in Token::ALL.iter().filter(|(token, _)| *token != Token::Text) {
                assert!(theme.ui[*token as usize].is_some(), "{name} lacks {token_name}");
            }
            let bad = |colour: &&Option<Color>| matches!(colour, Some(Color::Rgb(..))) && *name == "violin-16";
            assert_eq!(theme.ui.iter().chain(&theme.syntax).find(bad), None, "{name}");
        }
    }

    #[test]
    fn a_name_never_leads_out_of_the_folder() {
        assert_eq!(file_of("../../etc/x", Path::new("/t")), Path::new("/t/x.json"));
    }
}
