//! The moments of a run at which plugins are asked, in the order of their files, each seeing what the one before it left.

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::Host;
use super::hooks::{Hook, Reply};
use super::host::Plugin;
use super::worker::{Fault, Work};
use crate::event::CompactionTrigger;
use crate::message::Effect;
use crate::toolkit::{Arguments, Risk};

/// A plugin said no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// Which.
    pub plugin: String,
    /// Why.
    pub reason: String,
}

/// What goes with one model call and is never stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Injection {
    /// Behind the system prompt.
    pub system: Vec<String>,
    /// As the last blocks of the last message of the person's.
    pub user: Vec<String>,
}

/// What becomes of a call before it is reviewed.
#[derive(Debug, Default, PartialEq)]
pub struct Started {
    /// It does not run.
    pub blocked: Option<Blocked>,
    /// The person is to be asked, and why.
    pub ask: Option<String>,
    /// It runs with these arguments, and which plugins changed them.
    pub changed: Option<(Arguments, Vec<String>)>,
}

/// What became of a result.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Another text for the model.
    pub content: Option<String>,
    /// Whether it failed, where a plugin says so.
    pub is_error: Option<bool>,
    /// Which plugins changed it.
    pub by: Vec<String>,
}

/// What a command of a plugin's came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Nothing to say.
    Done,
    /// Something for the person.
    Told(String),
    /// A message for the model.
    Prompt(String),
}

/// A call that ran, as plugins see it.
#[derive(Debug)]
pub struct EndedCall<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The call's id.
    pub id: &'a str,
    /// What it ran with.
    pub arguments: &'a Arguments,
    /// What the model would get.
    pub content: &'a str,
    /// Whether it failed.
    pub is_error: bool,
    /// The exit code, of a command.
    pub exit_code: Option<i32>,
    /// The files that it changed.
    pub effects: &'a [Effect],
}

/// The arguments as `event.arguments`: for `bash` the command, for other tools the arguments as JSON text.
fn arguments_text(tool: &str, arguments: &Arguments) -> String {
    match (tool, arguments.get("command").and_then(Value::as_str)) {
        ("bash", Some(command)) => command.to_owned(),
        _ => Value::Object(arguments.clone()).to_string(),
    }
}

/// Arguments that a plugin returned, as a table or as a text of the form of `event.arguments`.
fn arguments_from(tool: &str, given: Value, before: &Arguments) -> Result<Arguments, String> {
    match given {
        Value::Object(arguments) => Ok(arguments),
        Value::String(command) if tool == "bash" => {
            let mut arguments = before.clone();
            arguments.insert("command".to_owned(), Value::String(command));
            Ok(arguments)
        }
        Value::String(text) => serde_json::from_str(&text)
            .map_err(|error| format!("the arguments that it returned are no JSON object: {error}")),
        other => Err(format!("the arguments that it returned are {other}; give a table or a text")),
    }
}

fn text_of(map: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(format!("`{name}` must be a text, not {other}")),
    }
}

impl Host {
    /// Asks one plugin. What it answers wrongly is its failure. `Err`: it failed just now.
    async fn answer(
        &self,
        plugin: &Plugin,
        hook: Hook,
        event: Value,
        cancel: &CancellationToken,
    ) -> Result<Reply, Option<String>> {
        match self.ask(plugin, Work::Hook(hook, event), cancel).await {
            Ok(value) => match Reply::read(hook, value) {
                Ok(reply) => Ok(reply),
                Err(wrong) => {
                    self.fail(plugin, &wrong);
                    Err(Some(wrong))
                }
            },
            Err(Fault::Failed(what)) => Err(Some(what)),
            Err(Fault::Interrupted | Fault::Gone) => Err(None),
        }
    }

    /// Before a run; `Some`: it does not begin.
    pub async fn agent_start(&self, event: Value, cancel: &CancellationToken) -> Option<Blocked> {
        self.first_block(Hook::AgentStart, event, cancel).await
    }

    /// Before a compaction; `Some`: it is left out.
    pub async fn before_compact(&self, trigger: CompactionTrigger, cancel: &CancellationToken) -> Option<Blocked> {
        let reason = serde_json::to_value(trigger).unwrap_or_default();
        self.first_block(Hook::BeforeCompact, json!({"reason": reason}), cancel).await
    }

    async fn first_block(&self, hook: Hook, event: Value, cancel: &CancellationToken) -> Option<Blocked> {
        for plugin in self.with(hook) {
            if let Ok(Reply::Block(reason)) = self.answer(&plugin, hook, event.clone(), cancel).await {
                return Some(Blocked { plugin: plugin.shared.name(), reason });
            }
        }
        None
    }

    /// Before a model call: what goes with it.
    pub async fn context(&self, event: Value, cancel: &CancellationToken) -> Injection {
        let mut injection = Injection::default();
        for plugin in self.with(Hook::Context) {
            let Ok(Reply::Modify(map)) = self.answer(&plugin, Hook::Context, event.clone(), cancel).await else {
                continue;
            };
            let read = text_of(&map, "inject_text").and_then(|text| Ok((text, text_of(&map, "inject_role")?)));
            match read {
                Ok((None, _)) => {}
                Ok((Some(text), _)) if text.is_empty() => {}
                Ok((Some(text), role)) => match role.as_deref() {
                    None | Some("system") => injection.system.push(text),
                    Some("user") => injection.user.push(text),
                    Some(other) => {
                        let wrong = format!("on_context returned the role `{other}`; there are system and user");
                        self.fail(&plugin, &wrong);
                    }
                },
                Err(wrong) => self.fail(&plugin, &format!("on_context: {wrong}")),
            }
        }
        injection
    }

    /// Before a tool runs.
    pub async fn tool_start(
        &self,
        tool: &str,
        id: &str,
        risk: Risk,
        arguments: &Arguments,
        cancel: &CancellationToken,
    ) -> Started {
        let mut started = Started::default();
        for plugin in self.with(Hook::ToolStart) {
            let now = started.changed.as_ref().map_or(arguments, |(arguments, _)| arguments);
            let event = json!({
                "tool_name": tool, "call_id": id, "risk": risk, "arguments": arguments_text(tool, now), "args": now,
            });
            let name = plugin.shared.name();
            match self.answer(&plugin, Hook::ToolStart, event, cancel).await {
                Ok(Reply::Allow) | Err(None) => {}
                Ok(Reply::Block(reason)) => {
                    started.blocked = Some(Blocked { plugin: name, reason });
                    return started;
                }
                Ok(Reply::Ask(reason)) => {
                    started.ask.get_or_insert(format!("the plugin `{name}` asks: {reason}"));
                }
                Ok(Reply::Modify(mut map)) => {
                    let Some(given) = map.shift_remove("arguments") else { continue };
                    match arguments_from(tool, given, now) {
                        Ok(arguments) if arguments == *now => {}
                        Ok(arguments) => {
                            let mut by = started.changed.take().map(|(_, by)| by).unwrap_or_default();
                            by.push(name);
                            started.changed = Some((arguments, by));
                        }
                        Err(wrong) => self.fail(&plugin, &format!("on_tool_start: {wrong}")),
                    }
                }
                // What watched over calls has just failed at this one: a person looks in its stead.
                Err(Some(_)) => {
                    started.ask.get_or_insert(format!("the plugin `{name}` failed as it looked at this call"));
                }
            }
        }
        started
    }

    /// After a tool ran.
    pub async fn tool_end(&self, call: EndedCall<'_>, cancel: &CancellationToken) -> Ended {
        let mut ended = Ended::default();
        for plugin in self.with(Hook::ToolEnd) {
            let event = json!({
                "tool_name": call.tool, "call_id": call.id,
                "arguments": arguments_text(call.tool, call.arguments), "args": call.arguments,
                "content": ended.content.as_deref().unwrap_or(call.content),
                "is_error": ended.is_error.unwrap_or(call.is_error),
                "exit_code": call.exit_code, "effects": call.effects,
            });
            let Ok(Reply::Modify(map)) = self.answer(&plugin, Hook::ToolEnd, event, cancel).await else { continue };
            let is_error = match map.get("is_error") {
                None | Some(Value::Null) => Ok(None),
                Some(Value::Bool(is_error)) => Ok(Some(*is_error)),
                Some(other) => Err(format!("`is_error` must be true or false, not {other}")),
            };
            match text_of(&map, "content").and_then(|content| Ok((content, is_error?))) {
                Ok((None, None)) => {}
                Ok((content, is_error)) => {
                    ended.content = content.or(ended.content);
                    ended.is_error = is_error.or(ended.is_error);
                    ended.by.push(plugin.shared.name());
                }
                Err(wrong) => self.fail(&plugin, &format!("on_tool_end: {wrong}")),
            }
        }
        ended
    }

    /// Runs a command of a plugin's.
    ///
    /// # Errors
    /// Where there is none of that name, or it failed.
    pub async fn run_command(
        &self,
        name: &str,
        argument: &str,
        cancel: &CancellationToken,
    ) -> Result<CommandOutcome, String> {
        let has = |plugin: &&std::sync::Arc<Plugin>| {
            plugin.shared.is_active() && plugin.shared.facts().info.commands.contains_key(name)
        };
        let plugins = self.all();
        let Some(plugin) = plugins.iter().find(has) else {
            return Err(format!("no plugin has the command /{} any more", crate::text::visible(name)));
        };
        let of = plugin.shared.name();
        match self.ask(plugin, Work::Command(name.to_owned(), argument.to_owned()), cancel).await {
            Ok(Value::Null) => Ok(CommandOutcome::Done),
            Ok(Value::String(text)) if text.is_empty() => Ok(CommandOutcome::Done),
            Ok(Value::String(text)) => Ok(CommandOutcome::Told(text)),
            Ok(Value::Object(map)) => match map.get("prompt") {
                Some(Value::String(prompt)) => Ok(CommandOutcome::Prompt(prompt.clone())),
                _ => Err(format!("/{name} of the plugin `{of}` returned a table without `prompt`")),
            },
            Ok(other) => Err(format!(
                "/{name} of the plugin `{of}` returned {other}; it may return nothing, a text, or {{prompt = …}}"
            )),
            Err(Fault::Failed(what)) => Err(format!("/{name} of the plugin `{of}` failed: {what}")),
            Err(Fault::Interrupted) => Err("interrupted".to_owned()),
            Err(Fault::Gone) => Err(format!("the plugin `{of}` takes no part any more")),
        }
    }
}
