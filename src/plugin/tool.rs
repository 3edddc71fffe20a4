//! Tools of plugins, as the loop sees them.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

use super::host::{Host, Plugin};
use super::shared::{State, ToolInfo};
use super::worker::{Fault, Work};
use crate::text;
use crate::toolkit::{Arguments, Risk, Tool, ToolContext, ToolError, ToolOutput};

/// The most text that a tool gives the model, in bytes.
const MOST: usize = 50 * 1024;

impl Host {
    /// The tools of plugins that take part.
    pub fn tools(self: &Arc<Self>) -> Vec<Arc<dyn Tool>> {
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for plugin in self.all() {
            let info = {
                let facts = plugin.shared.facts();
                if facts.state != State::Active {
                    continue;
                }
                facts.info.clone()
            };
            for (index, tool) in info.tools.iter().enumerate() {
                tools.push(Arc::new(PluginTool::new(self.clone(), plugin.clone(), index, tool.clone())));
            }
        }
        tools
    }
}

/// A tool whose work a plugin does.
struct PluginTool {
    host: Arc<Host>,
    plugin: Arc<Plugin>,
    index: usize,
    info: ToolInfo,
}

impl PluginTool {
    /// The tool at that place among the plugin's.
    fn new(host: Arc<Host>, plugin: Arc<Plugin>, index: usize, info: ToolInfo) -> Self {
        PluginTool { host, plugin, index, info }
    }
}

impl Tool for PluginTool {
    fn name(&self) -> &str {
        &self.info.name
    }

    fn description(&self) -> &str {
        &self.info.description
    }

    fn parameters(&self) -> Value {
        self.info.parameters.clone()
    }

    fn risk(&self) -> Risk {
        self.info.risk
    }

    fn title(&self, arguments: &Arguments) -> String {
        let words: Vec<String> = arguments
            .values()
            .map(|value| match value {
                Value::String(text) => text::first_line(text).to_owned(),
                other => other.to_string(),
            })
            .collect();
        text::ellipsis(&words.join(" "), 200)
    }

    fn run<'a>(&'a self, context: ToolContext, arguments: Arguments) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let work = Work::Tool(self.index, Value::Object(arguments));
            let value = match self.host.ask(&self.plugin, work, &context.cancel).await {
                Ok(value) => value,
                Err(Fault::Interrupted) => return Err(ToolError::Cancelled),
                Err(Fault::Failed(what)) => return Err(ToolError::Model(what)),
                Err(Fault::Gone) => return Err(ToolError::model("the plugin of this tool takes no part any more")),
            };
            let (content, is_error) = match value {
                Value::Null => (String::new(), false),
                Value::String(text) => (text, false),
                Value::Object(mut map) => {
                    let is_error = map.get("is_error").and_then(Value::as_bool).unwrap_or(false);
                    match map.shift_remove("content") {
                        Some(Value::String(text)) => (text, is_error),
                        _ => return Err(wrong()),
                    }
                }
                Value::Bool(_) | Value::Number(_) | Value::Array(_) => return Err(wrong()),
            };
            let summary = text::first_line(&content).to_owned();
            let mut shown = text::head(&content, MOST).to_owned();
            if shown.len() < content.len() {
                shown.push_str(&format!("\n[cut here: {} of {} bytes]", shown.len(), content.len()));
            }
            if shown.is_empty() {
                shown.push_str("(no output)");
            }
            Ok(ToolOutput { is_error, ..ToolOutput::text(shown, text::ellipsis(&summary, 80)) })
        })
    }
}

fn wrong() -> ToolError {
    ToolError::model("the tool returned neither a text nor a table with `content`")
}
