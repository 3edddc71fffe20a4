//! `violin`, the table that plugins reach the world through (formats.md, "Plugins").

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mlua::{Lua, LuaString, Table, Value};
use tokio::runtime::Handle;

use super::grants::Permission;
use super::shared::{Shared, State, World};
use super::store::Store;
use super::value::{self, Null};
use crate::home::{Home, open_regular};
use crate::tool::{self, path};
use crate::toolkit::{LiveOutput, ToolContext};

/// A file is read up to this, in bytes.
const MOST_READ: u64 = 10 << 20;

/// JSON is read up to this, in bytes.
const MOST_JSON: usize = 4 << 20;

/// A line of the log is cut to this, in bytes.
const MOST_LOG: usize = 8 * 1024;

/// A command of a plugin's without a timeout of its own may take so long, and with one so long at most.
const COMMAND: Duration = Duration::from_secs(60);
const LONGEST_COMMAND: Duration = Duration::from_secs(600);

/// What a plugin may tell the person in one call.
const MOST_NOTICES: u32 = 10;

/// What the table is made from.
#[derive(Clone)]
pub struct Api {
    /// The plugin.
    pub plugin: Arc<Shared>,
    /// Where it runs.
    pub world: Arc<Mutex<World>>,
    /// Runs its commands.
    pub runtime: Handle,
    /// Where it keeps things.
    pub home: Home,
    /// What it told the person in this call.
    pub notices: Rc<Cell<u32>>,
}

impl Api {
    /// Makes the table. Files that cannot be read or written give `nil` and a text, as from Lua's own library.
    ///
    /// # Errors
    /// Where there is no memory for it.
    pub fn table(self, lua: &Lua) -> mlua::Result<Table> {
        let violin = lua.create_table()?;
        let api = self.clone();
        violin.set(
            "log",
            lua.create_function(move |_, text: LuaString| {
                api.alive()?;
                api.log(&text.as_bytes());
                Ok(())
            })?,
        )?;
        let api = self.clone();
        violin.set(
            "notify",
            lua.create_function(move |_, text: LuaString| {
                api.alive()?;
                api.notify(&text.to_string_lossy());
                Ok(())
            })?,
        )?;
        violin.set("json", json(lua)?)?;
        violin.set("store", self.clone().store(lua)?)?;
        let api = self.clone();
        violin.set(
            "read",
            lua.create_function(move |lua, name: LuaString| {
                api.may(Permission::Read)?;
                match read(&api.resolve(&name)?) {
                    Ok(bytes) => Ok((Some(lua.create_string(bytes)?), None)),
                    Err(error) => Ok((None, Some(format!("{}: {error}", name.to_string_lossy())))),
                }
            })?,
        )?;
        let api = self.clone();
        violin.set(
            "write",
            lua.create_function(move |_, (name, text): (LuaString, LuaString)| {
                api.may(Permission::Write)?;
                let file = api.resolve(&name)?;
                let made = file.parent().map_or(Ok(()), fs::create_dir_all);
                let written = made.and_then(|()| fs::write(&file, text.as_bytes()));
                Ok(match written {
                    Ok(()) => (Some(true), None),
                    Err(error) => (None, Some(format!("{}: {error}", name.to_string_lossy()))),
                })
            })?,
        )?;
        let api = self.clone();
        violin.set(
            "run",
            lua.create_function(move |lua, (command, timeout): (LuaString, Option<f64>)| {
                api.may(Permission::Exec)?;
                api.run(lua, &command.to_string_lossy(), timeout)
            })?,
        )?;
        let api = self;
        violin.set(
            "env",
            lua.create_function(move |lua, name: LuaString| {
                api.may(Permission::Env)?;
                let value = std::env::var_os(name.to_string_lossy().as_str());
                value.map(|value| lua.create_string(value.as_encoded_bytes())).transpose()
            })?,
        )?;
        Ok(violin)
    }

    /// Writes to the log.
    pub fn log(&self, text: &[u8]) {
        let text = String::from_utf8_lossy(&text[..text.len().min(MOST_LOG)]);
        let text = crate::text::redact(&text);
        tracing::info!(plugin = self.plugin.name(), "{}", crate::text::clean(&text));
    }

    /// Whether the call may go on: what follows may go through much of a plugin's memory.
    fn alive(&self) -> mlua::Result<()> {
        self.plugin.budget.check().map_err(mlua::Error::external)
    }

    fn notify(&self, text: &str) {
        let told = self.notices.get();
        self.notices.set(told + 1);
        let name = self.plugin.name();
        let text = match told {
            0..MOST_NOTICES => format!("{name}: {}", crate::text::head(text, 2000)),
            MOST_NOTICES => format!("{name} says more than {MOST_NOTICES} things at once; the rest is left out"),
            _ => return,
        };
        self.plugin.told.push(text);
    }

    fn may(&self, permission: Permission) -> mlua::Result<()> {
        let facts = self.plugin.facts();
        if facts.state == State::Loading {
            return Err(mlua::Error::runtime("a plugin's top level has no permissions; use them in its hooks"));
        }
        if !facts.info.permissions.contains(&permission) {
            let text = format!("this needs the permission `{permission}`: name it in the plugin's `permissions`");
            return Err(mlua::Error::runtime(text));
        }
        if facts.state == State::Waiting {
            return Err(mlua::Error::runtime(format!("the permission `{permission}` was not granted yet")));
        }
        Ok(())
    }

    fn world(&self) -> World {
        self.world.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn resolve(&self, name: &LuaString) -> mlua::Result<std::path::PathBuf> {
        let name = name.to_str().map_err(|_| mlua::Error::runtime("a path must be UTF-8"))?;
        Ok(path::resolve(&self.world().cwd, &name))
    }

    fn run(&self, lua: &Lua, command: &str, timeout: Option<f64>) -> mlua::Result<Table> {
        let limit = match timeout {
            None => COMMAND,
            Some(seconds) if seconds > 0.0 => Duration::from_secs_f64(seconds.min(LONGEST_COMMAND.as_secs_f64())),
            Some(_) => return Err(mlua::Error::runtime("the timeout must be more than 0 seconds")),
        };
        let world = self.world();
        let context = ToolContext {
            call_id: format!("plugin-{}", self.plugin.name()),
            cwd: world.cwd,
            cancel: self.plugin.budget.cancel(),
            live: LiveOutput::none(),
            outputs: world.outputs,
            images: false,
            shell: world.shell,
        };
        // A command's time is its own, not the plugin's.
        let given = limit + Duration::from_millis(context.shell.kill_grace_ms) + Duration::from_secs(2);
        self.plugin.budget.extend(given);
        let begun = Instant::now();
        let ran = self.runtime.block_on(tool::run_plain(&context, command, limit));
        self.plugin.budget.shorten(given.saturating_sub(begun.elapsed()));
        let ran = ran.map_err(|error| mlua::Error::runtime(error.to_string()))?;
        let table = lua.create_table()?;
        table.set("output", ran.output)?;
        table.set("exit_code", ran.exit_code)?;
        table.set("timed_out", ran.timed_out)?;
        Ok(table)
    }

    fn store(self, lua: &Lua) -> mlua::Result<Table> {
        // Which session's it is stands beside it: the person may go to another one.
        let kept: RefCell<Option<Kept>> = RefCell::default();
        let api = self;
        let with = Rc::new(move |work: &mut dyn FnMut(&mut Store) -> Result<(), String>| {
            let session = api.world().session;
            let mut kept = kept.borrow_mut();
            let mut open = match kept.take() {
                Some(open) if open.session == session => open,
                _ => Kept { store: Store::open(&api.home, session.as_deref(), &api.plugin.name())?, session },
            };
            let done = work(&mut open.store);
            *kept = Some(open);
            done
        });
        let table = lua.create_table()?;
        let open = with.clone();
        let get = move |lua: &Lua, key: String| {
            let mut value = serde_json::Value::Null;
            open(&mut |store| {
                value = store.get(&key).cloned().unwrap_or_default();
                Ok(())
            })
            .map_err(mlua::Error::runtime)?;
            value::to_lua(lua, &value, Null::Nil)
        };
        table.set("get", lua.create_function(get)?)?;
        let set = move |lua: &Lua, (key, value): (String, Value)| {
            let mut value = Some(value::from_lua(lua, &value).map_err(mlua::Error::runtime)?);
            with(&mut |store| store.set(key.clone(), value.take().unwrap_or_default())).map_err(mlua::Error::runtime)
        };
        table.set("set", lua.create_function(set)?)?;
        Ok(table)
    }
}

/// What is kept for a session.
struct Kept {
    session: Option<String>,
    store: Store,
}

fn json(lua: &Lua) -> mlua::Result<Table> {
    let json = lua.create_table()?;
    let encode = |lua: &Lua, value: Value| {
        let value = value::from_lua(lua, &value).map_err(mlua::Error::runtime)?;
        serde_json::to_string(&value).map_err(mlua::Error::external)
    };
    json.set("encode", lua.create_function(encode)?)?;
    let decode = |lua: &Lua, text: LuaString| {
        let text = text.as_bytes();
        // What it is read into is larger by far, and not counted as the plugin's memory.
        if text.len() > MOST_JSON {
            return Ok((Value::Nil, Some(format!("it is longer than {} MiB", MOST_JSON >> 20))));
        }
        match serde_json::from_slice::<serde_json::Value>(&text) {
            Ok(value) => Ok((value::to_lua(lua, &value, Null::Kept)?, None)),
            Err(error) => Ok((Value::Nil, Some(error.to_string()))),
        }
    };
    json.set("decode", lua.create_function(decode)?)?;
    json.set("null", Value::NULL)?;
    let array = |lua: &Lua, table: Table| {
        value::mark_array(lua, &table)?;
        Ok(table)
    };
    json.set("array", lua.create_function(array)?)?;
    Ok(json)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(MOST_READ + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MOST_READ {
        true => Err(io::Error::other("it is larger than 10 MiB")),
        false => Ok(bytes),
    }
}
