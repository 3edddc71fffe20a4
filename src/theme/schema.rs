//! The JSON Schema of a theme file, made from the tables of tokens and scopes.

use serde_json::{Map, Value, json};

use super::{Class, Token};

/// The schema.
pub fn schema() -> Value {
    let colour = json!({"$ref": "#/$defs/colour"});
    let ui: Map<String, Value> = Token::ALL.iter().map(|(_, name)| ((*name).to_owned(), colour.clone())).collect();
    let scopes: Vec<&str> = Class::ALL.iter().map(|(_, scope)| *scope).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A theme of Violin",
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "dark": {"type": "boolean", "default": true, "description": "made for a dark background"},
            "palette": {
                "type": "object",
                "description": "names for colours",
                "additionalProperties": {"type": "string", "pattern": "^(#[0-9a-fA-F]{6}|ansi:[0-9]{1,3}|default)$"}
            },
            "ui": {"type": "object", "properties": ui, "additionalProperties": false},
            "syntax": {
                "type": "object",
                "description": format!("colours by scope; the longest that holds one of these counts: {}", scopes.join(", ")),
                "additionalProperties": colour
            }
        },
        "$defs": {"colour": {"type": "string", "description": "#rrggbb, ansi:N, default, or a name of the palette"}}
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Run with `UPDATE_DOCS=1` to write the file anew.
    #[test]
    fn the_schema_in_assets_is_the_tables() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/theme.schema.json");
        let made = format!("{}\n", serde_json::to_string_pretty(&super::schema()).expect("writes"));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &made).expect("written");
        }
        assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), made, "run with UPDATE_DOCS=1");
    }
}
