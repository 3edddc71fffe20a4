//! A plugin's own thread: it loads the plugin, and then does what it is asked, one thing after another.
//!
//! The Lua state never leaves the thread. Whoever asks waits on a channel, so that neither the interface nor a worker of the
//! runtime ever runs Lua.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, Table, Value as LuaValue};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::api::Api;
use super::budget::Stop;
use super::grants::{Grants, Permission};
use super::hooks::Hook;
use super::sandbox;
use super::shared::{Info, Shared, ToolInfo, World};
use super::value::{self, Null};
use crate::home::Home;
use crate::toolkit::Risk;

/// Why a call gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It failed, and how.
    Failed(String),
    /// The person interrupted.
    Interrupted,
    /// The plugin takes no part any more.
    Gone,
}

/// What is asked of a plugin.
#[derive(Debug)]
pub enum Work {
    /// Run a hook on an event.
    Hook(Hook, Value),
    /// Run a tool, by its place among the plugin's, with its arguments.
    Tool(usize, Value),
    /// Run a command with its argument.
    Command(String, String),
}

/// What a plugin's thread takes.
#[derive(Debug)]
pub enum Message {
    /// Something that is waited for.
    Ask {
        /// What.
        work: Work,
        /// Ends it.
        cancel: CancellationToken,
        /// Takes what came out.
        reply: oneshot::Sender<Result<Value, Fault>>,
    },
    /// An event for `on_event`.
    Event(Arc<Value>),
}

/// What a thread starts from.
pub struct Seed {
    /// The plugin.
    pub shared: Arc<Shared>,
    /// Its text.
    pub text: String,
    /// What it is asked.
    pub messages: mpsc::Receiver<Message>,
    /// Where it runs.
    pub world: Arc<Mutex<World>>,
    /// Counts the changes of what plugins there are.
    pub changes: Arc<watch::Sender<u64>>,
    /// Runs its commands.
    pub runtime: Handle,
    /// Where grants and data are.
    pub home: Home,
    /// Ends what nobody waits for.
    pub cancel: CancellationToken,
}

/// A loaded plugin.
struct Running {
    lua: Lua,
    hooks: HashMap<Hook, Function>,
    tools: Vec<Function>,
    commands: HashMap<String, Function>,
}

/// A stack that Lua's own limits of nesting fit into.
const STACK: usize = 16 << 20;

/// Starts the thread.
///
/// # Errors
/// Where the system gives none.
pub fn start(seed: Seed) -> std::io::Result<()> {
    std::thread::Builder::new().name("violin-plugin".to_owned()).stack_size(STACK).spawn(move || run(seed))?;
    Ok(())
}

fn run(seed: Seed) {
    let Seed { shared, text, mut messages, world, changes, runtime, home, cancel } = seed;
    let changed = || changes.send_modify(|count| *count += 1);
    let fail = |what: &str| {
        shared.fail(what);
        changed();
    };
    let notices = Rc::new(Cell::new(0));
    let api = Api { plugin: shared.clone(), world, runtime, home: home.clone(), notices: notices.clone() };
    shared.budget.begin(cancel.clone());
    let loaded = load(&shared, &text, api);
    shared.budget.end();
    let (running, info) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return fail(&error),
    };
    let granted = Grants::read(&home).has(&shared.hash, &info.permissions);
    shared.loaded(info, granted);
    changed();
    while let Some(message) = messages.blocking_recv() {
        notices.set(0);
        let (work, token, reply) = match message {
            Message::Ask { work, cancel, reply } => (work, cancel, Some(reply)),
            Message::Event(event) => {
                if !shared.is_active() {
                    continue;
                }
                // The last listener takes it whole.
                (Work::Hook(Hook::Event, Arc::unwrap_or_clone(event)), cancel.child_token(), None)
            }
        };
        if token.is_cancelled() {
            if let Some(reply) = reply {
                let _ = reply.send(Err(Fault::Interrupted));
            }
            continue;
        }
        let begun = Instant::now();
        let is_hook = matches!(work, Work::Hook(..));
        shared.budget.begin(token);
        let outcome = running.run(work);
        let stop = shared.budget.check().err();
        shared.budget.end();
        {
            let mut facts = shared.facts();
            facts.calls += 1;
            facts.time += begun.elapsed();
        }
        let outcome = outcome.map_err(|failure| match (stop, failure) {
            (Some(Stop::Cancelled), _) => (Fault::Interrupted, false),
            (Some(Stop::Time), failure) => {
                (Fault::Failed(format!("{}{}", failure.place(&shared.file), Stop::Time)), true)
            }
            (None, failure) => {
                let fatal = is_hook || failure.is_memory();
                (Fault::Failed(failure.sentence(&shared.file)), fatal)
            }
        });
        let fatal = match &outcome {
            Err((Fault::Failed(what), fatal)) => {
                if *fatal {
                    fail(what);
                } else {
                    shared.facts().last_error = Some(what.clone());
                }
                *fatal
            }
            _ => false,
        };
        if let Some(reply) = reply {
            // Who was interrupted listens no more.
            let _ = reply.send(outcome.map_err(|(fault, _)| fault));
        }
        if fatal {
            return;
        }
    }
}

/// How something failed in Lua, or in what it gave.
enum Failure {
    Lua(mlua::Error),
    Value(String),
}

impl From<mlua::Error> for Failure {
    fn from(error: mlua::Error) -> Self {
        Failure::Lua(error)
    }
}

impl Failure {
    fn is_memory(&self) -> bool {
        fn memory(error: &mlua::Error) -> bool {
            match error {
                mlua::Error::MemoryError(_) => true,
                mlua::Error::CallbackError { cause, .. } => memory(cause),
                _ => false,
            }
        }
        matches!(self, Failure::Lua(error) if memory(error))
    }

    /// `file.lua:12: ` where the failure tells of a place.
    fn place(&self, file: &str) -> String {
        let Failure::Lua(error) = self else { return String::new() };
        let text = error.to_string();
        let mark = format!("{file}:");
        let found = text.match_indices(&mark).find_map(|(at, _)| {
            let line: String = text[at + mark.len()..].chars().take_while(char::is_ascii_digit).collect();
            (!line.is_empty()).then_some(line)
        });
        found.map_or_else(String::new, |line| format!("{mark}{line}: "))
    }

    /// What happened, with file and line where they are known, and without a traceback.
    fn sentence(&self, file: &str) -> String {
        fn words(error: &mlua::Error) -> String {
            match error {
                mlua::Error::SyntaxError { message, .. } | mlua::Error::RuntimeError(message) => message.clone(),
                mlua::Error::CallbackError { cause, .. } => words(cause),
                other => other.to_string(),
            }
        }
        if self.is_memory() {
            return format!("{}it used more than {} MiB of memory", self.place(file), sandbox::MEMORY >> 20);
        }
        let text = match self {
            Failure::Value(text) => text.clone(),
            Failure::Lua(error) => words(error),
        };
        let text = text.split("\nstack traceback:").next().unwrap_or_default().trim();
        let text = crate::text::head(text, 600);
        let place = if text.starts_with(&format!("{file}:")) { String::new() } else { self.place(file) };
        crate::text::redact(&format!("{place}{text}")).into_owned()
    }
}

impl Running {
    fn run(&self, work: Work) -> Result<Value, Failure> {
        let gone = || Failure::Value("it is not there any more".to_owned());
        let returned: LuaValue = match work {
            Work::Hook(hook, event) => {
                let Some(function) = self.hooks.get(&hook) else { return Ok(Value::Null) };
                function.call(value::to_lua(&self.lua, &event, Null::Nil)?)?
            }
            Work::Tool(index, arguments) => {
                let function = self.tools.get(index).ok_or_else(gone)?;
                function.call(value::to_lua(&self.lua, &arguments, Null::Nil)?)?
            }
            Work::Command(name, argument) => self.commands.get(&name).ok_or_else(gone)?.call(argument)?,
        };
        value::from_lua(&self.lua, &returned)
            .map_err(|error| Failure::Value(format!("it returned no good value: {error}")))
    }
}

fn load(shared: &Arc<Shared>, text: &str, api: Api) -> Result<(Running, Info), String> {
    let logger = api.clone();
    let made = (|| {
        let lua = sandbox::state(&shared.budget, move |text| logger.log(text))?;
        lua.globals().set("violin", api.table(&lua)?)?;
        let chunk = lua.load(text).set_name(format!("@{}", shared.file)).set_mode(ChunkMode::Text);
        let returned: LuaValue = chunk.eval()?;
        Ok::<_, mlua::Error>((lua, returned))
    })();
    let (lua, returned) = made.map_err(|error| match shared.budget.check() {
        Err(stop) => stop.to_string(),
        Ok(()) => Failure::Lua(error).sentence(&shared.file),
    })?;
    let LuaValue::Table(table) = returned else {
        return Err(format!("{} must return a table with its name and hooks", shared.file));
    };
    describe(lua, &table, &shared.name())
}

/// Reads the table that a plugin's file returned.
fn describe(lua: Lua, table: &Table, file_name: &str) -> Result<(Running, Info), String> {
    let text = |name: &str| -> Result<Option<String>, String> {
        match table.raw_get::<LuaValue>(name).map_err(|error| error.to_string())? {
            LuaValue::Nil => Ok(None),
            LuaValue::String(text) => Ok(Some(crate::text::visible(&text.to_string_lossy()))),
            LuaValue::Integer(number) => Ok(Some(number.to_string())),
            LuaValue::Number(number) => Ok(Some(number.to_string())),
            other => Err(format!("`{name}` must be a text, not a {}", other.type_name())),
        }
    };
    let mut info = Info {
        name: text("name")?.unwrap_or_else(|| file_name.to_owned()),
        version: text("version")?.unwrap_or_default(),
        description: text("description")?.unwrap_or_default(),
        ..Info::default()
    };
    if !is_name(&info.name) {
        return Err(format!("`{}` is no name: letters, digits, _ and -, at most 64", info.name));
    }
    if let Some(list) = part::<Table>(table, "permissions", "a list")? {
        for name in list.sequence_values::<String>() {
            let name = name.map_err(|_| "`permissions` must be a list of names".to_owned())?;
            info.permissions.push(name.parse::<Permission>()?);
        }
        info.permissions.sort_unstable();
        info.permissions.dedup();
    }
    let mut hooks = HashMap::new();
    for pair in table.pairs::<LuaValue, LuaValue>() {
        let Ok((LuaValue::String(name), given)) = pair else { continue };
        let name = name.to_string_lossy();
        if !name.starts_with("on_") {
            continue;
        }
        let Some(hook) = Hook::all().find(|hook| hook.name() == name) else {
            let known: Vec<_> = Hook::all().map(Hook::name).collect();
            return Err(format!("there is no hook `{name}`; there are {}", known.join(", ")));
        };
        let LuaValue::Function(function) = given else { return Err(format!("`{name}` must be a function")) };
        hooks.insert(hook, function);
    }
    info.hooks = Hook::all().filter(|hook| hooks.contains_key(hook)).collect();
    let mut tools = Vec::new();
    if let Some(list) = part::<Table>(table, "tools", "a list")? {
        for (index, row) in list.sequence_values::<Table>().enumerate() {
            let row = row.map_err(|_| "`tools` must be a list of tables".to_owned())?;
            let (tool, execute) = tool(&lua, &row).map_err(|wrong| format!("tools[{}]: {wrong}", index + 1))?;
            info.tools.push(tool);
            tools.push(execute);
        }
    }
    let mut commands = HashMap::new();
    if let Some(map) = part::<Table>(table, "commands", "a table")? {
        let mut described = BTreeMap::new();
        for pair in map.pairs::<String, Table>() {
            let (name, row) = pair.map_err(|_| "`commands` must hold tables by name".to_owned())?;
            let wrong = |wrong: String| format!("commands.{}: {wrong}", crate::text::visible(&name));
            if !is_name(&name) {
                return Err(wrong("that is no name: letters, digits, _ and -, at most 64".to_owned()));
            }
            let run = part::<Function>(&row, "run", "a function").map_err(wrong)?;
            commands.insert(name.clone(), run.ok_or_else(|| wrong("`run` is missing".to_owned()))?);
            let description = part::<String>(&row, "description", "a text").map_err(wrong)?.unwrap_or_default();
            described.insert(name, crate::text::visible(&description));
        }
        info.commands = described;
    }
    Ok((Running { lua, hooks, tools, commands }, info))
}

fn part<T: mlua::FromLua>(table: &Table, name: &str, what: &str) -> Result<Option<T>, String> {
    table.raw_get(name).map_err(|_| format!("`{name}` must be {what}"))
}

fn tool(lua: &Lua, row: &Table) -> Result<(ToolInfo, Function), String> {
    let name = part::<String>(row, "name", "a text")?.ok_or("`name` is missing")?;
    if !is_name(&name) {
        return Err(format!("`{}` is no name: letters, digits, _ and -, at most 64", crate::text::visible(&name)));
    }
    let execute = part::<Function>(row, "execute", "a function")?.ok_or("`execute` is missing")?;
    let risk = match part::<String>(row, "risk", "a text")?.as_deref() {
        None | Some("command") => Risk::Command,
        Some("write") => Risk::Write,
        Some("read_only") => Risk::ReadOnly,
        Some(other) => return Err(format!("`{other}` is no risk; there are read_only, write, command")),
    };
    let parameters = match part::<Table>(row, "parameters", "a table")? {
        Some(table) => value::from_lua(lua, &LuaValue::Table(table))?,
        None => Value::Object(serde_json::Map::new()),
    };
    let Value::Object(mut parameters) = parameters else { return Err("`parameters` must be a JSON Schema".to_owned()) };
    parameters.entry("type").or_insert_with(|| "object".into());
    parameters.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
    if parameters.get("type").and_then(Value::as_str) != Some("object") {
        return Err("`parameters` must be a JSON Schema of an object".to_owned());
    }
    // An empty Lua table could be either.
    if parameters.get("required").is_some_and(Value::is_object) {
        parameters.shift_remove("required");
    }
    let description = part::<String>(row, "description", "a text")?.unwrap_or_default();
    let parameters = Value::Object(parameters);
    Ok((ToolInfo { name, description, parameters, risk }, execute))
}

/// Names of plugins, tools and commands.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !name.is_empty() && name.len() <= 64 && name.chars().all(fits)
}
