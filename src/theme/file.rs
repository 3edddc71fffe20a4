//! The form of a theme file (formats.md, "Themes").

use std::collections::BTreeMap;

use jsonc_parser::ParseOptions;
use ratatui::style::Color;
use serde::Deserialize;

use super::{Class, Theme, Token};

#[derive(Deserialize)]
struct File {
    name: String,
    #[serde(default = "yes")]
    dark: bool,
    #[serde(default)]
    palette: BTreeMap<String, String>,
    #[serde(default)]
    ui: BTreeMap<String, String>,
    #[serde(default)]
    syntax: BTreeMap<String, String>,
}

fn yes() -> bool {
    true
}

/// Reads a theme and completes it.
pub(super) fn parse(source: &str) -> Result<Theme, String> {
    let mut theme = parse_alone(source)?;
    let base = Theme::built_in(if theme.dark { "violin-dark" } else { "violin-light" });
    for (own, base) in theme.ui.iter_mut().zip(base.ui).chain(theme.syntax.iter_mut().zip(base.syntax)) {
        *own = own.or(base);
    }
    // A theme that says nothing of the body text leaves it to the terminal.
    theme.ui[Token::Text as usize] = theme.ui[Token::Text as usize].filter(|colour| *colour != Color::Reset);
    Ok(theme)
}

/// Reads a theme as it stands.
pub(super) fn parse_alone(source: &str) -> Result<Theme, String> {
    let file: File = jsonc_parser::parse_to_serde_value(source, &ParseOptions::default()).map_err(|error| {
        format!("line {}, column {}: {}", error.line_display(), error.column_display(), error.kind())
    })?;
    let mut theme = Theme {
        depth: super::Depth::True,
        hyperlinks: false,
        name: file.name.clone(),
        dark: file.dark,
        ui: [None; Token::ALL.len()],
        syntax: [None; Class::ALL.len()],
    };
    for (name, value) in &file.ui {
        let Some((token, _)) = Token::ALL.iter().find(|(_, known)| known == name) else {
            return Err(format!("`ui` has no `{name}`{}", nearest(name, Token::ALL.iter().map(|(_, name)| *name))));
        };
        theme.ui[*token as usize] = Some(colour(value, &file.palette)?);
    }
    let scopes: Vec<(&str, Color)> = file
        .syntax
        .iter()
        .map(|(scope, value)| Ok((scope.as_str(), colour(value, &file.palette)?)))
        .collect::<Result<_, String>>()?;
    for (class, scope) in Class::ALL {
        // The longest scope that holds this one, as TextMate themes do.
        let holds =
            |known: &str| *scope == known || scope.strip_prefix(known).is_some_and(|rest| rest.starts_with('.'));
        let best = scopes.iter().filter(|(known, _)| holds(known)).max_by_key(|(known, _)| known.len());
        theme.syntax[*class as usize] = best.map(|(_, colour)| *colour);
    }
    Ok(theme)
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let best = known.map(|known| (strsim::jaro_winkler(name, known), known)).max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(score, _)| *score > 0.75).map_or(String::new(), |(_, known)| format!("; did you mean `{known}`?"))
}

fn colour(value: &str, palette: &BTreeMap<String, String>) -> Result<Color, String> {
    let literal = palette.get(value).map_or(value, String::as_str);
    if let Some(digits) = literal.strip_prefix('#') {
        let channel = |at: usize| digits.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        if let (6, Some(r), Some(g), Some(b)) = (digits.len(), channel(0), channel(2), channel(4)) {
            return Ok(Color::Rgb(r, g, b));
        }
    }
    if let Some(Ok(index)) = literal.strip_prefix("ansi:").map(str::parse::<u8>) {
        return Ok(Color::Indexed(index));
    }
    if literal == "default" {
        return Ok(Color::Reset);
    }
    let names = palette.keys().map(String::as_str);
    Err(format!("`{value}` is no colour: `#rrggbb`, `ansi:N` or a name of the palette{}", nearest(value, names)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_theme_is_completed() {
        let source = r##"{"name":"own", /* mine */ "palette":{"hot":"#ff0000"},
            "ui":{"accent":"hot","dim":"ansi:8",}, "syntax":{"entity.name":"hot"}}"##;
        let theme = Theme::parse(source).expect("reads");
        assert_eq!(theme.style(Token::Accent).fg, Some(Color::Rgb(255, 0, 0)));
        assert_eq!(theme.style(Token::Dim).fg, Some(Color::Indexed(8)));
        assert_eq!(theme.class(Class::Type).fg, Some(Color::Rgb(255, 0, 0)));
        assert!(theme.style(Token::Error).fg.is_some() && theme.class(Class::String).fg.is_some());
    }

    #[test]
    fn mistakes_are_named() {
        let error = Theme::parse(r#"{"name":"x","ui":{"accnt":"ansi:1"}}"#).expect_err("a mistake");
        assert_eq!(error, "`ui` has no `accnt`; did you mean `accent`?");
        let error = Theme::parse("{\"name\":\"x\",\n \"ui\":{\"dim\":\"blurple\"}}").expect_err("a mistake");
        assert!(error.starts_with("`blurple` is no colour"), "{error}");
        let error = Theme::parse("{\"name\":\"x\",\n \"ui\": [}").expect_err("a mistake");
        assert!(error.starts_with("line 2, column"), "{error}");
        for odd in ["#ff", "#gggggg", "#日本", "ansi:300", ""] {
            assert!(colour(odd, &BTreeMap::new()).is_err(), "{odd}");
        }
    }
}
