//! JSON into Lua and back, within bounds: what a plugin returns may be anything.
//!
//! JSON's `null` is Lua's `nil` where an event is handed in, so that `if event.args.timeout` means what it says, and
//! `violin.json.null` where a plugin decodes by itself. An empty table is an object unless `violin.json.array` marked it.

use std::collections::BTreeMap;

use mlua::{Lua, Table, Value as LuaValue};
use serde_json::{Map, Number, Value};

/// How deep values nest.
const DEEPEST: usize = 64;

/// Values in one conversion; tables that share parts could unfold without end.
const MOST_VALUES: usize = 200_000;

/// Bytes of all strings in one conversion.
const MOST_BYTES: usize = 16 << 20;

/// The name under which the metatable of arrays is kept where no plugin reaches it.
const ARRAY: &str = "violin.array";

/// What becomes of `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Null {
    /// `nil`: the key is not there.
    Nil,
    /// `violin.json.null`.
    Kept,
}

/// A Lua value for a JSON value.
pub fn to_lua(lua: &Lua, value: &Value, null: Null) -> mlua::Result<LuaValue> {
    Ok(match value {
        Value::Null if null == Null::Kept => LuaValue::NULL,
        Value::Null => LuaValue::Nil,
        Value::Bool(yes) => LuaValue::Boolean(*yes),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => LuaValue::Integer(whole),
            None => LuaValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => LuaValue::String(lua.create_string(text)?),
        Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (index, item) in items.iter().enumerate() {
                table.raw_set(index + 1, to_lua(lua, item, null)?)?;
            }
            mark_array(lua, &table)?;
            LuaValue::Table(table)
        }
        Value::Object(map) => {
            let table = lua.create_table_with_capacity(0, map.len())?;
            for (name, item) in map {
                table.raw_set(name.as_str(), to_lua(lua, item, null)?)?;
            }
            LuaValue::Table(table)
        }
    })
}

/// Marks a table as an array, so that it is one even when it is empty.
pub fn mark_array(lua: &Lua, table: &Table) -> mlua::Result<()> {
    let metatable = match lua.named_registry_value::<Option<Table>>(ARRAY)? {
        Some(metatable) => metatable,
        None => {
            let metatable = lua.create_table()?;
            // What it says of itself, so that a plugin does not reach the one that all arrays share.
            metatable.raw_set("__metatable", "array")?;
            lua.set_named_registry_value(ARRAY, &metatable)?;
            metatable
        }
    };
    table.set_metatable(Some(metatable))
}

/// The JSON value of a Lua value.
///
/// # Errors
/// Where it holds what JSON has no form for, or too much of it.
pub fn from_lua(lua: &Lua, value: &LuaValue) -> Result<Value, String> {
    let array = lua.named_registry_value::<Option<Table>>(ARRAY).ok().flatten();
    Reader { array, values: 0, bytes: 0 }.value(value, 0)
}

struct Reader {
    array: Option<Table>,
    values: usize,
    bytes: usize,
}

impl Reader {
    fn value(&mut self, value: &LuaValue, depth: usize) -> Result<Value, String> {
        self.values += 1;
        if depth > DEEPEST || self.values > MOST_VALUES {
            return Err("the table is nested too deeply, holds itself, or is too large".to_owned());
        }
        Ok(match value {
            LuaValue::Nil => Value::Null,
            other if *other == LuaValue::NULL => Value::Null,
            LuaValue::Boolean(yes) => Value::Bool(*yes),
            LuaValue::Integer(whole) => Value::Number((*whole).into()),
            LuaValue::Number(number) => match Number::from_f64(*number) {
                Some(number) => Value::Number(number),
                None => return Err(format!("{number} has no form in JSON")),
            },
            LuaValue::String(text) => Value::String(self.text(text)?),
            LuaValue::Table(table) => self.table(table, depth)?,
            other => return Err(format!("a {} has no form in JSON", other.type_name())),
        })
    }

    fn text(&mut self, text: &mlua::LuaString) -> Result<String, String> {
        let bytes = text.as_bytes();
        self.bytes += bytes.len();
        if self.bytes > MOST_BYTES {
            return Err(format!("it holds more than {} MiB of text", MOST_BYTES >> 20));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<Value, String> {
        let length = table.raw_len();
        let marked = table.metatable().is_some_and(|metatable| Some(metatable) == self.array);
        if marked || length > 0 {
            let mut items = Vec::new();
            for index in 1..=length {
                let item: LuaValue = table.raw_get(index).map_err(|error| error.to_string())?;
                items.push(self.value(&item, depth + 1)?);
            }
            let keys = table.pairs::<LuaValue, LuaValue>().take(length + 1).count();
            if keys != length {
                return Err("a table with both a list and names in it has no form in JSON".to_owned());
            }
            return Ok(Value::Array(items));
        }
        // Lua's order changes from run to run; what a model is told must not.
        let mut named = BTreeMap::new();
        for pair in table.pairs::<LuaValue, LuaValue>() {
            let (name, item) = pair.map_err(|error| error.to_string())?;
            let name = match &name {
                LuaValue::String(name) => self.text(name)?,
                LuaValue::Integer(whole) => whole.to_string(),
                other => return Err(format!("a {} cannot be a name in JSON", other.type_name())),
            };
            named.insert(name, self.value(&item, depth + 1)?);
        }
        Ok(Value::Object(Map::from_iter(named)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_goes_in_and_comes_back() {
        let lua = Lua::new();
        let value = json!({"a": [1, 2.5, "x", true, []], "b": {"c": null}, "e": {}});
        let kept = to_lua(&lua, &value, Null::Kept).expect("made");
        assert_eq!(from_lua(&lua, &kept), Ok(value.clone()));
        let bare = to_lua(&lua, &value, Null::Nil).expect("made");
        assert_eq!(from_lua(&lua, &bare), Ok(json!({"a": [1, 2.5, "x", true, []], "b": {}, "e": {}})));
    }

    #[test]
    fn what_has_no_form_or_no_end_is_an_error() {
        let lua = Lua::new();
        let told = |source: &str| from_lua(&lua, &lua.load(source).eval().expect("runs")).expect_err("no JSON");
        assert!(told("return {1, x = 2}").contains("both"));
        assert!(told("return print").contains("function"));
        assert!(told("return 0/0").contains("no form"));
        assert!(told("local t = {} t.t = t return t").contains("holds itself"));
        assert!(told("local t = {} for _ = 1, 40 do t = {t, t} end return t").contains("too large"));
        assert!(told("return {('x'):rep(9000000), ('y'):rep(9000000)}").contains("MiB"));
    }
}
