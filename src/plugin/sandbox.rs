//! A Lua state that a plugin can do no harm in: an allow-list of the pure standard library, bounded memory and time.

use std::sync::Arc;

use memchr::memmem;
use mlua::{HookTriggers, Lua, LuaOptions, LuaString, MultiValue, StdLib, Value, VmState};

use super::budget::{Budget, Stop};
use super::pattern::{self, Capture, Fault};

/// Memory of one plugin, in bytes (formats.md, "Plugins").
pub const MEMORY: usize = 64 << 20;

/// Between two looks at the clock, so many instructions run. Each may be a call of a function that is linear in all memory.
const INSTRUCTIONS: u32 = 200;

const PRELUDE: &str = include_str!("prelude.lua");

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stop::Time => "it took longer than 5 seconds",
            Stop::Cancelled => "interrupted",
        })
    }
}

impl std::error::Error for Stop {}

/// A fresh state. `log` takes what is printed.
///
/// # Errors
/// Where there is no memory for it.
pub fn state(budget: &Arc<Budget>, log: impl Fn(&[u8]) + 'static) -> mlua::Result<Lua> {
    let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH | StdLib::UTF8 | StdLib::COROUTINE | StdLib::OS;
    let lua = Lua::new_with(libraries, LuaOptions::default())?;
    lua.set_memory_limit(MEMORY)?;
    let native = lua.create_table()?;
    let clock = budget.clone();
    native.set("over", lua.create_function(move |_, ()| Ok(clock.check().is_err()))?)?;
    native.set(
        "log",
        lua.create_function(move |_, text: LuaString| {
            log(&text.as_bytes());
            Ok(())
        })?,
    )?;
    let clock = budget.clone();
    let search = move |lua: &Lua, (s, pattern, init, plain): (LuaString, LuaString, Option<i64>, Option<bool>)| {
        // One search may go through all memory; the next one asks first.
        clock.check().map_err(mlua::Error::external)?;
        let (subject, pattern) = (s.as_bytes(), pattern.as_bytes());
        let Some(from) = start(init.unwrap_or(1), subject.len()) else { return Ok(nothing()) };
        if plain == Some(true) || !pattern.iter().any(|byte| pattern::SPECIAL.contains(byte)) {
            let found = memmem::find(&subject[from..], &pattern);
            return Ok(found.map_or_else(nothing, |at| span(from + at, from + at + pattern.len())));
        }
        matched(lua, &clock, &subject, &pattern, from)
    };
    native.set("find", lua.create_function(search)?)?;
    let clock = budget.clone();
    let search_at = move |lua: &Lua, (s, pattern, at, anchored): (LuaString, LuaString, usize, Option<bool>)| {
        let (subject, mut pattern) = (s.as_bytes(), pattern.as_bytes().to_vec());
        // In `gmatch`, which tells nothing here, a caret is a sign as any other.
        if anchored.is_none() && pattern.first() == Some(&b'^') {
            pattern.insert(0, b'%');
        }
        matched(lua, &clock, &subject, &pattern, at.saturating_sub(1))
    };
    native.set("find_at", lua.create_function(search_at)?)?;
    lua.load(PRELUDE).set_name("=prelude").call::<()>(native)?;
    let clock = budget.clone();
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(INSTRUCTIONS), move |_, debug| {
        match clock.check() {
            Ok(()) => Ok(VmState::Continue),
            Err(stop) => {
                let file = debug.source().short_src.unwrap_or_default().into_owned();
                let line = debug.current_line().unwrap_or_default();
                Err(mlua::Error::runtime(format!("{file}:{line}: {stop}")))
            }
        }
    })?;
    Ok(lua)
}

/// Where a search begins; `None`: behind the end.
fn start(init: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from = match init {
        1.. => init - 1,
        0 => 0,
        _ => length.saturating_add(init).max(0),
    };
    usize::try_from(from).ok().filter(|_| from <= length)
}

fn nothing() -> MultiValue {
    MultiValue::from_iter([Value::Nil])
}

/// Bytes from and to, as Lua counts them.
fn span(from: usize, to: usize) -> MultiValue {
    let number = |number: usize| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    MultiValue::from_iter([number(from + 1), number(to)])
}

fn matched(lua: &Lua, budget: &Budget, subject: &[u8], pattern: &[u8], from: usize) -> mlua::Result<MultiValue> {
    let found = pattern::find(subject, pattern, from, &|| budget.check().is_ok()).map_err(|fault| match fault {
        Fault::Malformed(text) => mlua::Error::runtime(text),
        Fault::Stopped => mlua::Error::external(budget.check().err().unwrap_or(Stop::Time)),
    })?;
    let Some(found) = found else { return Ok(nothing()) };
    let mut values = span(found.start, found.end);
    for capture in found.captures {
        values.push_back(match capture {
            Capture::Span(from, to) => Value::String(lua.create_string(&subject[from..to])?),
            Capture::Position(at) | Capture::Open(at) => Value::Integer(i64::try_from(at + 1).unwrap_or(i64::MAX)),
        });
    }
    Ok(values)
}
