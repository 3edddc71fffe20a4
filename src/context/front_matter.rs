//! YAML front matter of skills and templates, read leniently: a description with a colon in it is the commonest
//! mistake, and makes a skill vanish elsewhere.

use serde::Deserialize;
use serde_json::Value;

/// What front matter may say. Values that are no text are taken as the text that stands there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrontMatter {
    /// The name.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// A model is not told of it; only a person uses it.
    pub hidden: bool,
}

/// A text parted into its front matter, its body, and what was wrong with the former.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parted<'a> {
    /// What the front matter says; all empty where there is none.
    pub matter: FrontMatter,
    /// The rest.
    pub body: &'a str,
    /// The YAML was not valid, and was read line by line.
    pub lenient: bool,
}

/// Parts a text.
pub fn part(text: &str) -> Parted<'_> {
    let none = Parted { matter: FrontMatter::default(), body: text, lenient: false };
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else { return none };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let (yaml, body) = (&rest[..at], &rest[at + line.len()..]);
            // Names such as `yes` and `123` are texts: the lines decide wherever they name one plainly.
            let lines = by_lines(yaml);
            return match serde_saphyr::from_str::<Wire>(yaml) {
                Ok(wire) => Parted { matter: wire.over(lines), body, lenient: false },
                Err(_) => Parted { matter: lines, body, lenient: true },
            };
        }
        at += line.len();
    }
    none
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    description: Option<Value>,
    #[serde(default, rename = "disable-model-invocation")]
    hidden: Option<Value>,
}

impl Wire {
    fn over(self, lines: FrontMatter) -> FrontMatter {
        let description = match self.description {
            Some(Value::String(text)) => Some(text.trim().to_owned()),
            _ => lines.description,
        };
        FrontMatter { name: lines.name, description, hidden: self.hidden == Some(Value::Bool(true)) || lines.hidden }
    }
}

/// `key: rest of the line`, for the keys that we know.
fn by_lines(yaml: &str) -> FrontMatter {
    let field = |key: &str| {
        let rest = yaml.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        let rest = rest.trim();
        let quoted = |mark: char| rest.strip_prefix(mark).and_then(|rest| rest.strip_suffix(mark));
        let text = quoted('"').or_else(|| quoted('\'')).unwrap_or(rest);
        (!text.is_empty()).then(|| text.to_owned())
    };
    FrontMatter {
        name: field("name"),
        description: field("description"),
        hidden: field("disable-model-invocation").as_deref() == Some("true"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// traps.md B122: a colon in a description. traps.md B124: a bad optional field, and names that YAML takes for
    /// something else.
    #[test]
    fn common_mistakes_lose_nothing() {
        let parted = part("---\nname: deploy\ndescription: Does X: then Y\ndeps: [ray[train], x]\n---\nbody\n");
        assert_eq!(parted.matter.description.as_deref(), Some("Does X: then Y"));
        assert_eq!((parted.matter.name.as_deref(), parted.body, parted.lenient), (Some("deploy"), "body\n", true));
        for name in ["yes", "on", "123", "1e3"] {
            assert_eq!(part(&format!("---\nname: {name}\n---\n")).matter.name.as_deref(), Some(name));
        }
        let parted = part("---\nname: train\ndescription: Trains it\ndeps: [ray[train], x]\n---\nbody\n");
        assert_eq!(parted.matter.description.as_deref(), Some("Trains it"));
        let parted = part("---\nname: on\ndescription: 5\ndisable-model-invocation: maybe\n---\n");
        assert_eq!((parted.matter.description.as_deref(), parted.matter.hidden), (Some("5"), false));
    }

    #[test]
    fn folded_descriptions_are_whole() {
        let parted = part("---\r\nname: \"a b\"\r\ndescription: >\r\n  one\r\n  two\r\n---\r\nbody");
        assert_eq!(parted.matter.description.as_deref(), Some("one two"));
        assert_eq!((parted.matter.name.as_deref(), parted.body), (Some("a b"), "body"));
    }

    #[test]
    fn a_text_without_it_is_all_body() {
        for text in ["just text", "---\nname: x\nno end", ""] {
            assert_eq!(part(text).body, text);
        }
    }
}
