//! Where the loop meets plugins: what they are told and asked, and what comes of their answers.

use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Agent;
use super::bus::Bus;
use super::core::{Core, RunError};
use super::protocol::{Activity, Update};
use crate::context::tokens;
use crate::event::{CompactionTrigger, DecidedBy, Decision, ErrorKind};
use crate::message::{Block, Message, ToolCall, UserMessage, text_of};
use crate::plugin::{Blocked, CommandOutcome, EndedCall, Host, Injection, World};
use crate::provider::{Request, ToolDefinition};
use crate::text;
use crate::tool::schema;
use crate::toolkit::{Arguments, Tool, ToolError, ToolOutput, View};

/// The most that a plugin puts in a result's place, in bytes.
const MOST_CONTENT: usize = 256 * 1024;

/// Passes on what plugins tell, and that there are others now, until it is aborted.
pub fn listen(host: Arc<Host>, bus: Bus) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut changes = host.changes();
        loop {
            tokio::select! {
                texts = host.told().next() => {
                    for text in texts {
                        bus.aside(text).await;
                    }
                }
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    host.ready().await;
                    bus.send(Update::Plugins).await;
                }
            }
        }
    })
}

/// A call whose result plugins may look at.
pub struct Watched {
    host: Arc<Host>,
    tool: String,
    id: String,
    arguments: Arguments,
    cancel: CancellationToken,
}

impl Watched {
    /// Shows a result to plugins; what they left of it.
    pub async fn ended(self, result: Result<ToolOutput, ToolError>) -> Result<ToolOutput, ToolError> {
        let mut output = match result {
            Ok(output) => output,
            Err(ToolError::Model(text)) => {
                let summary = text::first_line(&text).to_owned();
                ToolOutput { is_error: true, ..ToolOutput::text(text, summary) }
            }
            Err(error @ (ToolError::Cancelled | ToolError::Fatal(_))) => return Err(error),
        };
        if self.cancel.is_cancelled() {
            return Ok(output);
        }
        let content = text_of(&output.content);
        let call = EndedCall {
            tool: &self.tool,
            id: &self.id,
            arguments: &self.arguments,
            content: &content,
            is_error: output.is_error,
            exit_code: output.exit_code,
            effects: &output.effects,
        };
        let ended = self.host.tool_end(call, &self.cancel).await;
        if ended.by.is_empty() {
            return Ok(output);
        }
        if let Some(content) = ended.content {
            output.content.retain(|block| !matches!(block, Block::Text { .. }));
            let content = text::head(&content, MOST_CONTENT).to_owned();
            output.content.insert(0, Block::Text { text: content });
            // A change is shown as it is; other views would show what the plugin took away.
            if !matches!(output.view, Some(View::Diff { .. } | View::Image { .. })) {
                output.view = None;
            }
        }
        output.is_error = ended.is_error.unwrap_or(output.is_error);
        let by = format!("changed by {}", ended.by.join(", "));
        output.summary = if output.summary.is_empty() { by } else { format!("{} · {by}", output.summary) };
        Ok(output)
    }
}

impl Agent {
    /// Asks plugins whether a run may begin; `false`: it may not, and all is told.
    pub(super) async fn may_begin(&mut self, message: &UserMessage) -> bool {
        let Agent { core, inbox } = self;
        let Some(Blocked { plugin, reason }) = inbox.attend(core.asked_to_begin(message)).await else { return true };
        let what = format!("the plugin `{plugin}` did not let the run begin: {reason}");
        core.bus.send(Update::Returned(vec![message.clone()])).await;
        core.over(RunError::new(ErrorKind::Limit, what)).await;
        core.bus.send(Update::Activity(Activity::Idle)).await;
        false
    }

    /// Runs a command of a plugin's.
    pub(super) async fn plugin_command(&mut self, name: &str, argument: &str) {
        self.core.cancel = self.inbox.begin();
        let Agent { core, inbox } = self;
        let (host, cancel) = (core.setup.plugins.clone(), core.cancel.clone());
        core.bus.send(Update::Activity(Activity::Shell)).await;
        let outcome = inbox.attend(host.run_command(name, argument, &cancel)).await;
        core.bus.send(Update::Activity(Activity::Idle)).await;
        match outcome {
            Ok(CommandOutcome::Done) => {}
            Ok(CommandOutcome::Told(text)) | Err(text) => core.bus.notice(text).await,
            Ok(CommandOutcome::Prompt(text)) => self.run(UserMessage::text(text)).await,
        }
    }
}

impl Core {
    /// Tells plugins where they run.
    pub(super) fn place_plugins(&self) {
        let header = self.session.header();
        // An id comes from a file and could be any text; only a name becomes a folder.
        let is_name = !header.id.is_empty() && header.id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        self.setup.plugins.enter(World {
            cwd: self.setup.cwd.clone(),
            session: self.session.path().filter(|_| is_name).map(|_| header.id.clone()),
            outputs: self.setup.home.outputs_of(if is_name { &header.id } else { "plugins" }),
            shell: Arc::new(self.loaded.shell()),
        });
    }

    /// Looks for plugin files and begins to load them.
    pub(super) async fn load_plugins(&self) {
        self.place_plugins();
        for notice in self.setup.plugins.load(&self.setup.cwd) {
            self.bus.notice(notice).await;
        }
        if !self.setup.headless {
            self.setup.plugins.watch(&self.setup.cwd);
        }
    }

    /// Waits for plugins that are being loaded, and takes in what they add, where that has changed.
    pub(super) async fn take_in_plugins(&mut self) {
        let host = self.setup.plugins.clone();
        if self.plugins_seen == Some(host.generation()) {
            return;
        }
        host.ready().await;
        self.plugins_seen = Some(host.generation());
        self.arm();
        self.pass_on().await;
    }

    /// Passes on what plugins have told so far: at the end of a run it may be read no more.
    pub(super) async fn pass_on(&self) {
        for text in self.setup.plugins.told().take() {
            self.bus.aside(text).await;
        }
    }

    /// Makes the set of tools: Violin's own, and those of plugins.
    pub(super) fn arm(&mut self) {
        let chosen = self.setup.overrides.tools.as_ref();
        let mut tools = self.builtin.only(chosen.unwrap_or(&self.loaded.settings.tools));
        let wanted = |tool: &Arc<dyn Tool>| chosen.is_none_or(|names| names.iter().any(|name| name == tool.name()));
        tools.extend(self.setup.plugins.tools().into_iter().filter(wanted));
        let define = |tool: &Arc<dyn Tool>| ToolDefinition {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            parameters: tool.parameters(),
        };
        self.definitions = tools.iter().map(define).collect();
        self.tools = tools;
    }

    async fn asked_to_begin(&mut self, message: &UserMessage) -> Option<Blocked> {
        self.take_in_plugins().await;
        let images = message.content.iter().filter(|block| matches!(block, Block::Image { .. })).count();
        let event = json!({
            "prompt": text_of(&message.content), "images": images,
            "cwd": self.setup.cwd, "session_id": self.session.header().id,
            "model": self.model.as_ref().map(|model| model.reference()), "mode": self.mode.to_string(),
        });
        self.setup.plugins.agent_start(event, &self.cancel).await
    }

    /// What plugins send along with the next model call.
    pub(super) async fn injection(&self) -> Injection {
        let host = &self.setup.plugins;
        if !host.injects() {
            return Injection::default();
        }
        let event = json!({
            "session_id": self.session.header().id, "cwd": self.setup.cwd,
            "model": self.model().ok().map(|model| model.reference()), "mode": self.mode.to_string(),
        });
        host.context(event, &self.cancel).await
    }

    /// Looks at a call before it is reviewed: the arguments that it runs with and why the person is to be asked, or why it does
    /// not run.
    pub(super) async fn shown_to_plugins(
        &mut self,
        call: &ToolCall,
        tool: &Arc<dyn Tool>,
        arguments: Arguments,
    ) -> Result<(Arguments, Option<String>), String> {
        let host = self.setup.plugins.clone();
        let started = host.tool_start(tool.name(), &call.id, tool.risk(), &arguments, &self.cancel).await;
        if let Some(Blocked { plugin, reason }) = started.blocked {
            let told = Some(format!("{plugin}: {reason}"));
            self.told(call, tool.risk(), Decision::Denied, DecidedBy::Plugin, told).await;
            return Err(format!("blocked by the plugin `{plugin}`: {reason}"));
        }
        let Some((changed, by)) = started.changed else { return Ok((arguments, started.ask)) };
        let by = by.join(", ");
        let changed = schema::check(&tool.parameters(), tool.prepare(changed))
            .map_err(|wrong| format!("not run: what the plugin {by} made of the arguments does not fit.\n{wrong}"))?;
        let told = format!("{by} changed it to: {}", text::ellipsis(&tool.title(&changed), 200));
        self.told(call, tool.risk(), Decision::Allowed, DecidedBy::Plugin, Some(told)).await;
        Ok((changed, started.ask))
    }

    /// A call whose result plugins want to look at.
    pub(super) fn watched(&self, call: &ToolCall, tool: &Arc<dyn Tool>, arguments: &Arguments) -> Option<Watched> {
        let host = self.setup.plugins.clone();
        host.looks_at_results().then(|| Watched {
            tool: tool.name().to_owned(),
            id: call.id.clone(),
            arguments: arguments.clone(),
            cancel: self.cancel.clone(),
            host,
        })
    }

    /// Asks plugins whether the conversation may be compacted.
    ///
    /// # Errors
    /// Where it may not.
    pub(super) async fn may_compact(&self, trigger: CompactionTrigger) -> Result<(), RunError> {
        match self.setup.plugins.before_compact(trigger, &self.cancel).await {
            None => Ok(()),
            Some(Blocked { plugin, reason }) => {
                let text = format!("the plugin `{plugin}` did not let the conversation be compacted: {reason}");
                Err(RunError::new(ErrorKind::ContextOverflow, text))
            }
        }
    }
}

/// Puts what plugins send along into a request.
pub fn inject(request: &mut Request, injection: &Injection) {
    let mut used = 0;
    if !injection.system.is_empty() {
        let text = injection.system.join("\n\n");
        used += tokens::of_text(&text);
        request.system =
            if request.system.is_empty() { text.into() } else { format!("{}\n\n{text}", request.system).into() };
    }
    let user = request.messages.iter().rposition(|message| matches!(**message, Message::User(_)));
    if let Some(index) = user.filter(|_| !injection.user.is_empty())
        && let Message::User(message) = request.messages[index].as_ref()
    {
        let mut message = message.clone();
        for text in &injection.user {
            used += tokens::of_text(text);
            message.content.push(Block::Text { text: text.clone() });
        }
        request.messages[index] = Arc::new(Message::User(message));
    }
    request.room = request.room.saturating_sub(used).max(1);
    request.max_tokens = request.max_tokens.map(|most| most.min(request.room));
}
