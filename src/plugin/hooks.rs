//! The hooks by name, and what they may answer (formats.md, "Plugins").

use serde_json::{Map, Value};

/// A moment at which plugins are asked or told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hook {
    /// Before a run.
    AgentStart,
    /// Before each model call.
    Context,
    /// Before a tool runs.
    ToolStart,
    /// After a tool ran.
    ToolEnd,
    /// Before a compaction.
    BeforeCompact,
    /// Every event.
    Event,
}

/// All of them, with the actions that they may answer.
const HOOKS: &[(Hook, &str, &[&str])] = &[
    (Hook::AgentStart, "on_agent_start", &["block"]),
    (Hook::Context, "on_context", &["modify"]),
    (Hook::ToolStart, "on_tool_start", &["block", "ask", "modify"]),
    (Hook::ToolEnd, "on_tool_end", &["modify"]),
    (Hook::BeforeCompact, "on_session_before_compact", &["block"]),
    (Hook::Event, "on_event", &[]),
];

impl Hook {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Hook> {
        HOOKS.iter().map(|(hook, ..)| *hook)
    }

    fn row(self) -> &'static (Hook, &'static str, &'static [&'static str]) {
        // Every hook has its row; the first one stands in for what cannot be.
        HOOKS.iter().find(|(hook, ..)| *hook == self).unwrap_or(&HOOKS[0])
    }

    /// Its name in a plugin.
    pub fn name(self) -> &'static str {
        self.row().1
    }
}

/// What a plugin answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// It goes on.
    Allow,
    /// It does not, and why.
    Block(String),
    /// The person is to be asked, and why.
    Ask(String),
    /// It goes on with other values.
    Modify(Map<String, Value>),
}

impl Reply {
    /// Reads what a hook returned.
    ///
    /// # Errors
    /// Where it is nothing that this hook may return.
    pub fn read(hook: Hook, value: Value) -> Result<Self, String> {
        let name = hook.name();
        let mut map = match value {
            Value::Null => return Ok(Reply::Allow),
            Value::Object(map) => map,
            other => return Err(format!("{name} returned {other}; it may return nothing or a table with `action`")),
        };
        let action = match map.shift_remove("action") {
            Some(Value::String(action)) => action,
            _ => return Err(format!("{name} returned a table without `action`")),
        };
        let known = hook.row().2;
        if action != "allow" && !known.contains(&action.as_str()) {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!("{name} returned the action `{action}`; it may return {known}"));
        }
        let reason = || match map.get("reason") {
            Some(Value::String(reason)) if !reason.trim().is_empty() => reason.trim().to_owned(),
            _ => "it gave no reason".to_owned(),
        };
        Ok(match action.as_str() {
            "block" => Reply::Block(reason()),
            "ask" => Reply::Ask(reason()),
            "modify" => Reply::Modify(map),
            _ => Reply::Allow,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn replies_are_read_as_the_hook_allows() {
        let read = |hook, value| Reply::read(hook, value);
        assert_eq!(read(Hook::ToolStart, Value::Null), Ok(Reply::Allow));
        assert_eq!(read(Hook::ToolStart, json!({"action": "allow"})), Ok(Reply::Allow));
        let block = json!({"action": "block", "reason": " no "});
        assert_eq!(read(Hook::ToolStart, block.clone()), Ok(Reply::Block("no".into())));
        let told = read(Hook::ToolEnd, block).expect_err("not there");
        assert!(told.contains("on_tool_end") && told.contains("it may return modify"), "{told}");
        assert!(read(Hook::Event, json!({"action": "block"})).is_err());
        assert!(read(Hook::ToolStart, json!({"reason": "x"})).is_err());
        assert!(read(Hook::ToolStart, json!("yes")).is_err());
        let modify = read(Hook::Context, json!({"action": "modify", "inject_text": "x"})).expect("reads");
        assert!(matches!(modify, Reply::Modify(map) if map["inject_text"] == "x"));
    }
}
