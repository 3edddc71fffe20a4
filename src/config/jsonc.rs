//! JSON that a person writes: comments and trailing commas are fine, and every mistake is told with its
//! file, line and column (formats.md, "Home").

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jsonc_parser::common::Ranged;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use jsonc_parser::{CollectOptions, ParseOptions, ast};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::home::open_regular;

/// A settings file is smaller than this; `/dev/zero` is not.
pub(super) const LARGEST: u64 = 4 << 20;

const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// A mistake in a file, in a sentence for the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The file.
    pub path: PathBuf,
    /// Line and column, from 1, where the mistake has a place.
    pub place: Option<(usize, usize)>,
    /// What is wrong, and what was expected.
    pub text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", crate::home::tilde(&self.path))?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.text)
    }
}

impl std::error::Error for Mistake {}

/// A file as it was read.
#[derive(Debug, Clone)]
pub struct Document {
    path: PathBuf,
    text: String,
    /// What it says.
    pub value: Value,
}

impl Document {
    /// Reads a file; `None` where there is none.
    ///
    /// # Errors
    /// Where it cannot be read, is too large, or is no JSON.
    pub fn read(path: &Path) -> Result<Option<Self>, Mistake> {
        let mistake = |text: String| Mistake { path: path.to_owned(), place: None, text };
        let mut bytes = Vec::new();
        let read = open_regular(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(mistake(format!("it cannot be read: {error}"))),
        }
        if bytes.len() as u64 > LARGEST {
            return Err(mistake("it is larger than 4 MB, which is no file of settings".to_owned()));
        }
        let text = String::from_utf8(bytes).map_err(|_| mistake("it is not UTF-8 text".to_owned()))?;
        Self::parse(path, text).map(Some)
    }

    /// Takes a text that is already there.
    ///
    /// # Errors
    /// Where it is no JSON.
    pub fn parse(path: &Path, text: String) -> Result<Self, Mistake> {
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        let parsed = jsonc_parser::parse_to_serde_value::<Option<Value>>(&text, &OPTIONS).map_err(|error| Mistake {
            path: path.to_owned(),
            place: Some((error.line_display(), error.column_display())),
            text: error.kind().to_string(),
        })?;
        let value = parsed.unwrap_or_else(|| Value::Object(Default::default()));
        Ok(Document { path: path.to_owned(), text, value })
    }

    /// Reads the value at a path as `T`.
    ///
    /// # Errors
    /// The mistake, at its place within the value.
    pub fn read_as<T: DeserializeOwned>(&self, at: &[&str], value: &Value) -> Result<T, Mistake> {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let inner = error.path().iter().map(|segment| segment.to_string());
            let place: Vec<String> = at.iter().map(|key| (*key).to_owned()).chain(inner).collect();
            let named = place.iter().map(String::as_str).collect::<Vec<_>>();
            self.mistake(&named, format!("`{}`: {}", place.join("."), error.inner()))
        })
    }

    /// A mistake at the value of a path of keys and list indices, or as near to it as there is one.
    pub fn mistake(&self, at: &[&str], text: impl Into<String>) -> Mistake {
        Mistake { path: self.path.clone(), place: self.locate(at), text: text.into() }
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn locate(&self, at: &[&str]) -> Option<(usize, usize)> {
        let parsed = jsonc_parser::parse_to_ast(&self.text, &CollectOptions::default(), &OPTIONS).ok()?;
        let mut value = parsed.value.as_ref()?;
        let mut start = value.range().start;
        for key in at {
            let next = match value {
                ast::Value::Object(object) => object.get(key).map(|property| {
                    start = property.range.start;
                    &property.value
                }),
                ast::Value::Array(array) => key.trim_matches(['[', ']']).parse().ok().and_then(|index: usize| {
                    let element = array.elements.get(index)?;
                    start = element.range().start;
                    Some(element)
                }),
                _ => None,
            };
            match next {
                Some(next) => value = next,
                None => break,
            }
        }
        let before = self.text.get(..start)?;
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Some((line, column))
    }
}

/// The text of a file with the value at a path of keys replaced or added; everything else, comments too,
/// stays as it is.
///
/// # Errors
/// Where the text is no JSON object.
pub fn with_value(path: &Path, text: &str, keys: &[&str], value: &Value) -> Result<String, Mistake> {
    let text = if text.trim().is_empty() { "{\n}\n" } else { text };
    let no_object = |what: String| Mistake { path: path.to_owned(), place: None, text: what };
    let root = CstRootNode::parse(text, &OPTIONS).map_err(|error| Mistake {
        path: path.to_owned(),
        place: Some((error.line_display(), error.column_display())),
        text: error.kind().to_string(),
    })?;
    let mut object = root.object_value_or_create().ok_or_else(|| no_object("it is no object".to_owned()))?;
    let Some((last, parents)) = keys.split_last() else { return Ok(text.to_owned()) };
    for key in parents {
        let inner = object.object_value_or_create(key);
        object = inner.ok_or_else(|| no_object(format!("`{key}` is no object")))?;
    }
    match object.get(last) {
        Some(property) => property.set_value(input(value)),
        None => {
            object.append(last, input(value));
        }
    }
    Ok(root.to_string())
}

/// The text of a file with a value put at the end of the list at a path of keys, which is made where it is missing;
/// everything else, comments too, stays as it is.
///
/// # Errors
/// Where the text is no JSON, or something on the path is no object or list.
pub fn with_appended(path: &Path, text: &str, keys: &[&str], value: &Value) -> Result<String, Mistake> {
    let wrong = |what: String| Mistake { path: path.to_owned(), place: None, text: what };
    let root = CstRootNode::parse(text, &OPTIONS).map_err(|error| Mistake {
        path: path.to_owned(),
        place: Some((error.line_display(), error.column_display())),
        text: error.kind().to_string(),
    })?;
    let mut object = root.object_value_or_create().ok_or_else(|| wrong("it is no object".to_owned()))?;
    let Some((last, parents)) = keys.split_last() else { return Ok(text.to_owned()) };
    for key in parents {
        let inner = object.object_value_or_create(key);
        object = inner.ok_or_else(|| wrong(format!("`{key}` is no object")))?;
    }
    let list = object.array_value_or_create(last).ok_or_else(|| wrong(format!("`{last}` is no list")))?;
    list.append(input(value));
    Ok(root.to_string())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(list) => CstInputValue::Array(list.iter().map(input).collect()),
        Value::Object(map) => {
            CstInputValue::Object(map.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(text: &str) -> Result<Document, Mistake> {
        Document::parse(Path::new("/x/settings.json"), text.to_owned())
    }

    #[test]
    fn comments_and_trailing_commas_are_fine() {
        let document = parse("\u{feff}{ // one\n \"a\": [1, 2,], /* two */ }").expect("reads");
        assert_eq!(document.value, json!({"a": [1, 2]}));
        assert_eq!(parse("  // nothing\n").expect("reads").value, json!({}));
    }

    #[test]
    fn mistakes_have_a_place() {
        let error = parse("{\n  \"a\": 1\n  \"b\": 2\n}").expect_err("a comma is missing");
        assert!(error.to_string().starts_with("/x/settings.json:"), "{error}");
        assert_eq!(error.place.map(|place| place.0), Some(2));
        let document = parse("{\n  \"a\": {\"list\": [1,\n \"x\"]}\n}").expect("reads");
        let error = document.read_as::<Vec<u32>>(&["a", "list"], &document.value["a"]["list"]).expect_err("a text");
        assert_eq!(error.place, Some((3, 2)), "{error}");
    }

    #[test]
    fn saving_keeps_comments() {
        let text = "{\n  // mine\n  \"theme\": \"dark\", // yes\n  \"retry\": {\"max_retries\": 1},\n}\n";
        let path = Path::new("/x");
        let text = with_value(path, text, &["theme"], &json!("light")).expect("an object");
        let text = with_value(path, &text, &["retry", "base_delay_ms"], &json!(5)).expect("an object");
        let text = with_value(path, &text, &["model"], &json!("a/b")).expect("an object");
        assert!(text.contains("// mine") && text.contains("// yes"), "{text}");
        let value = parse(&text).expect("reads").value;
        let expected = json!({"theme": "light", "retry": {"max_retries": 1, "base_delay_ms": 5}, "model": "a/b"});
        assert_eq!(value, expected);
        assert_eq!(
            parse(&with_value(path, "", &["a"], &json!(1)).expect("made")).expect("reads").value,
            json!({"a": 1})
        );
        assert!(with_value(path, "{\"a\": }", &["b"], &json!(1)).is_err());
    }
}
