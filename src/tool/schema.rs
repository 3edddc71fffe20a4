//! Checks arguments against a tool's JSON Schema, and mends on the way what models get slightly wrong: `"5"` for
//! 5, a single value for a list, a list as JSON text, `null` for what is optional.
//!
//! Schemas of plugins pass here too: a keyword that is not known is passed over, and no schema makes it panic.

use std::cmp::Ordering;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use serde_json::{Map, Value};

use crate::text;
use crate::toolkit::Arguments;

/// How deep schemas and values are followed.
const DEEPEST: usize = 48;

/// Most faults that are told at once.
const MOST_FAULTS: usize = 8;

/// The arguments as the schema wants them.
///
/// # Errors
/// Every fault with its path, one a line, such as `edits[0].old_text: missing`.
pub fn check(schema: &Value, arguments: Arguments) -> Result<Arguments, String> {
    let mut check = Check { root: schema, faults: Vec::new() };
    let checked = check.value(schema, Value::Object(arguments), "", 0);
    match checked {
        _ if !check.faults.is_empty() => {
            check.faults.truncate(MOST_FAULTS);
            Err(check.faults.join("\n"))
        }
        Value::Object(map) => Ok(map),
        _ => Err("arguments: expected an object".to_owned()),
    }
}

struct Check<'a> {
    root: &'a Value,
    faults: Vec<String>,
}

impl<'a> Check<'a> {
    fn fault(&mut self, path: &str, text: impl std::fmt::Display) {
        let path = if path.is_empty() { "arguments" } else { path };
        self.faults.push(format!("{path}: {text}"));
    }

    fn value(&mut self, schema: &'a Value, value: Value, path: &str, depth: usize) -> Value {
        if depth > DEEPEST {
            self.fault(path, "nested too deeply");
            return value;
        }
        let schema = match schema {
            Value::Bool(false) => {
                self.fault(path, "must not be given");
                return value;
            }
            Value::Object(schema) => schema,
            _ => return value,
        };
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let root = self.root;
            let found = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
            return match found {
                Some(target) => self.value(target, value, path, depth + 1),
                None => value,
            };
        }
        let mut value = self.typed(schema, value, path);
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(options)) = schema.get(key) {
                value = self.any(options, value, path, depth);
            }
        }
        if let Some(Value::Array(all)) = schema.get("allOf") {
            for part in all {
                value = self.value(part, value, path, depth + 1);
            }
        }
        value = self.listed(schema, value, path);
        match value {
            Value::Object(map) => Value::Object(self.object(schema, map, path, depth)),
            Value::Array(items) => Value::Array(self.array(schema, items, path, depth)),
            other => {
                self.bounds(schema, &other, path);
                other
            }
        }
    }

    /// Brings the value to one of the schema's types.
    fn typed(&mut self, schema: &Map<String, Value>, value: Value, path: &str) -> Value {
        let mut types: Vec<&str> = match schema.get("type") {
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ if schema.contains_key("properties") => vec!["object"],
            _ => return value,
        };
        if schema.get("nullable") == Some(&Value::Bool(true)) {
            types.push("null");
        }
        if types.is_empty() || types.iter().any(|kind| is(kind, &value)) {
            return value;
        }
        for kind in &types {
            if let Some(mended) = mend(kind, &value) {
                return mended;
            }
        }
        let got = preview(&value);
        self.fault(path, format_args!("expected {}, got {got}", types.join(" or ")));
        value
    }

    /// The first of several schemas that the value satisfies.
    fn any(&mut self, options: &'a [Value], value: Value, path: &str, depth: usize) -> Value {
        let mut first = None;
        // Once as it stands, so that no mending hides a schema that fits it better.
        for mending in [false, true] {
            for option in options {
                let mut attempt = Check { root: self.root, faults: Vec::new() };
                let result = attempt.value(option, value.clone(), path, depth + 1);
                if attempt.faults.is_empty() && (mending || result == value) {
                    return result;
                }
                first = first.or(attempt.faults.into_iter().next());
            }
        }
        let none = || format!("{path}: fits none of the forms that are allowed");
        self.faults.push(first.filter(|_| options.len() == 1).unwrap_or_else(none));
        value
    }

    /// `enum` and `const`.
    fn listed(&mut self, schema: &Map<String, Value>, value: Value, path: &str) -> Value {
        let allowed = match (schema.get("enum"), schema.get("const")) {
            (Some(Value::Array(values)), _) => values.as_slice(),
            (_, Some(only)) => std::slice::from_ref(only),
            _ => return value,
        };
        if allowed.contains(&value) {
            return value;
        }
        let near = |allowed: &&Value| match (*allowed, &value) {
            (Value::String(a), Value::String(b)) => a.eq_ignore_ascii_case(b.trim()),
            (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
            (a, Value::String(b)) => serde_json::from_str::<Value>(b).is_ok_and(|b| *a == b),
            _ => false,
        };
        if let Some(found) = allowed.iter().find(near) {
            return found.clone();
        }
        let names: Vec<String> = allowed.iter().map(Value::to_string).collect();
        self.fault(path, format_args!("must be one of {}, got {}", names.join(", "), preview(&value)));
        value
    }

    fn object(&mut self, schema: &'a Map<String, Value>, map: Arguments, path: &str, depth: usize) -> Arguments {
        let properties = schema.get("properties").and_then(Value::as_object);
        let list = schema.get("required").and_then(Value::as_array);
        let required: Vec<&str> = list.into_iter().flatten().filter_map(Value::as_str).collect();
        let other = schema.get("additionalProperties");
        let mut out = Map::new();
        for (name, value) in map {
            let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let known = properties.and_then(|properties| properties.get(&name));
            let Some(part) = known.or(other) else {
                out.insert(name, value);
                continue;
            };
            // Models add fields that a tool does not have; the tool does not look at them.
            if known.is_none() && part == &Value::Bool(false) {
                continue;
            }
            if value.is_null() && !required.contains(&name.as_str()) && !self.takes_null(part, 0) {
                continue;
            }
            let value = self.value(part, value, &at, depth + 1);
            out.insert(name, value);
        }
        for name in required {
            if !out.contains_key(name) {
                let at = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                self.fault(&at, "missing");
            }
        }
        out
    }

    fn array(&mut self, schema: &'a Map<String, Value>, items: Vec<Value>, path: &str, depth: usize) -> Vec<Value> {
        let limit = |name: &str| schema.get(name).and_then(Value::as_u64);
        if limit("minItems").is_some_and(|least| (items.len() as u64) < least) {
            self.fault(path, format_args!("needs at least {} items", limit("minItems").unwrap_or(0)));
        }
        if limit("maxItems").is_some_and(|most| items.len() as u64 > most) {
            self.fault(path, format_args!("takes at most {} items", limit("maxItems").unwrap_or(0)));
        }
        let Some(part) = schema.get("items") else { return items };
        let check = |(index, item)| self.value(part, item, &format!("{path}[{index}]"), depth + 1);
        items.into_iter().enumerate().map(check).collect()
    }

    /// Limits of numbers and texts.
    fn bounds(&mut self, schema: &Map<String, Value>, value: &Value, path: &str) {
        let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
        if let Some(number) = value.as_f64() {
            let tests = [
                ("minimum", [Ordering::Greater, Ordering::Equal], "at least"),
                ("maximum", [Ordering::Less, Ordering::Equal], "at most"),
                ("exclusiveMinimum", [Ordering::Greater; 2], "more than"),
                ("exclusiveMaximum", [Ordering::Less; 2], "less than"),
            ];
            for (name, allowed, words) in tests {
                if let Some(limit) = limit(name)
                    && !allowed.contains(&number.total_cmp(&limit))
                {
                    self.fault(path, format_args!("must be {words} {limit}, got {number}"));
                }
            }
        }
        if let Value::String(text) = value {
            let length = text.chars().count() as f64;
            if let Some(least) = limit("minLength").filter(|least| length < *least) {
                self.fault(path, format_args!("needs at least {least} characters"));
            }
            if let Some(most) = limit("maxLength").filter(|most| length > *most) {
                self.fault(path, format_args!("takes at most {most} characters, got {length}"));
            }
            if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
                && let Ok(matcher) = RegexMatcher::new(pattern)
                && matcher.is_match(text.as_bytes()) == Ok(false)
            {
                self.fault(path, format_args!("does not match the pattern {pattern}"));
            }
        }
    }

    fn takes_null(&self, schema: &Value, depth: usize) -> bool {
        if depth > DEEPEST {
            return false;
        }
        let is_null = |kind: &Value| kind == "null";
        let typed = match schema.get("type") {
            Some(Value::Array(several)) => several.iter().any(is_null),
            Some(kind) => is_null(kind),
            None => false,
        };
        let one_of = |key: &str| schema.get(key).and_then(Value::as_array).into_iter().flatten();
        typed
            || schema.get("nullable") == Some(&Value::Bool(true))
            || one_of("enum").any(Value::is_null)
            || ["anyOf", "oneOf"].iter().any(|key| one_of(key).any(|part| self.takes_null(part, depth + 1)))
    }
}

/// Whether the value is of that type; types that nobody knows take everything.
fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    }
}

/// The value as one of that type, where what was meant is plain.
fn mend(kind: &str, value: &Value) -> Option<Value> {
    match (kind, value) {
        ("integer", Value::Number(number)) => whole(number.as_f64()?),
        ("integer", Value::String(text)) => {
            let text = text.trim();
            text.parse::<i64>().map(Value::from).ok().or_else(|| whole(text.parse().ok()?))
        }
        ("number", Value::String(text)) => {
            let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite())?;
            whole(number).or_else(|| serde_json::Number::from_f64(number).map(Value::Number))
        }
        ("boolean", Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => Some(Value::Bool(true)),
            "false" | "no" | "0" | "" => Some(Value::Bool(false)),
            _ => None,
        },
        ("boolean", Value::Number(number)) => match number.as_f64()? {
            0.0 => Some(Value::Bool(false)),
            1.0 => Some(Value::Bool(true)),
            _ => None,
        },
        ("string", Value::Number(_) | Value::Bool(_)) => Some(Value::String(value.to_string())),
        ("array", Value::String(text)) => match parsed(text) {
            Some(list @ Value::Array(_)) => Some(list),
            Some(object @ Value::Object(_)) => Some(Value::Array(vec![object])),
            _ => Some(Value::Array(vec![value.clone()])),
        },
        ("array", Value::Null) => None,
        ("array", single) => Some(Value::Array(vec![single.clone()])),
        ("object", Value::String(text)) => parsed(text).filter(Value::is_object),
        ("null", Value::String(text)) if text == "null" => Some(Value::Null),
        _ => None,
    }
}

fn whole(number: f64) -> Option<Value> {
    // Beyond 2^53 a float does not tell which whole number was meant.
    (number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0).then(|| Value::from(number as i64))
}

fn parsed(text: &str) -> Option<Value> {
    text.trim_start().starts_with(['[', '{']).then(|| serde_json::from_str(text).ok())?
}

fn preview(value: &Value) -> String {
    let whole = value.to_string();
    let cut = text::head(&whole, 60);
    if cut.len() < whole.len() { format!("{cut}…") } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(schema: Value, arguments: Value) -> Result<Value, String> {
        let Value::Object(map) = arguments else { panic!("no object") };
        check(&schema, map).map(Value::Object)
    }

    fn schema() -> Value {
        json!({"type": "object", "additionalProperties": false, "required": ["path"], "properties": {
            "path": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}, "all": {"type": "boolean"},
            "names": {"type": "array", "items": {"type": "string"}}, "ratio": {"type": "number"},
            "kind": {"enum": ["Fast", "slow"]}, "at": {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}}}})
    }

    #[test]
    fn slight_mistakes_are_mended() {
        let mended = run(
            schema(),
            json!({"path": 5, "limit": "5", "all": "true", "names": "a", "ratio": "0.5", "kind": "fast",
                "at": "{\"x\": 3.0}", "stray": 1}),
        );
        let right =
            json!({"path": "5", "limit": 5, "all": true, "names": ["a"], "ratio": 0.5, "kind": "Fast", "at": {"x": 3}});
        assert_eq!(mended, Ok(right));
        assert_eq!(run(schema(), json!({"path": "a", "limit": null})), Ok(json!({"path": "a"})));
        assert_eq!(
            run(schema(), json!({"path": "a", "names": "[\"x\",\"y\"]"})),
            Ok(json!({"path": "a", "names": ["x", "y"]}))
        );
    }

    #[test]
    fn faults_name_their_path() {
        let faults = run(schema(), json!({"limit": "many", "names": [{}], "at": {}, "kind": "x"})).expect_err("wrong");
        assert_eq!(
            faults,
            "limit: expected integer, got \"many\"\nnames[0]: expected string, got {}\nat.x: missing\n\
             kind: must be one of \"Fast\", \"slow\", got \"x\"\npath: missing"
        );
        assert_eq!(run(schema(), json!({"path": "a", "limit": 0})), Err("limit: must be at least 1, got 0".into()));
        assert_eq!(run(schema(), json!({"path": null})), Err("path: expected string, got null".into()));
    }

    #[test]
    fn schemas_of_every_make_are_taken() {
        for odd in [
            json!({}),
            json!(true),
            json!(null),
            json!({"type": 5}),
            json!({"properties": []}),
            json!({"required": [1]}),
        ] {
            assert_eq!(run(odd, json!({"a": 1})), Ok(json!({"a": 1})));
        }
        let referring = json!({"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}});
        assert_eq!(run(referring, json!({"a": "1"})), Ok(json!({"a": 1})));
        let looping = json!({"$ref": "#"});
        assert!(run(looping, json!({})).is_err());
        let nullable = json!({"properties": {"a": {"type": ["string", "null"]}}});
        assert_eq!(run(nullable, json!({"a": null})), Ok(json!({"a": null})));
        let either = json!({"properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}});
        assert_eq!(run(either, json!({"a": "5"})), Ok(json!({"a": "5"})));
        let pattern = json!({"properties": {"a": {"type": "string", "pattern": "^x("}, "b": {"pattern": "^x"}}});
        assert!(run(pattern.clone(), json!({"a": "y"})).is_ok());
        assert!(run(pattern, json!({"b": "y"})).is_err());
    }
}
