//! The tool calls of one answer: checked and reviewed in order, run in parallel, stored as they finish.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::core::{Core, RunError};
use super::fenced::{self, Left, Ran, Ready};
use super::review::{Pass, Passage};
use crate::event::{DecidedBy, Decision, ErrorKind, Event};
use crate::message::{AssistantMessage, Block, Message, StopReason, ToolCall, ToolMessage, text_of};
use crate::tool::{path, schema};
use crate::toolkit::{Arguments, LiveOutput, Risk, Tool, ToolContext, ToolError, ToolOutput};

/// Live output that waits to be told; a tool that prints faster waits.
const LIVE_CHUNKS: usize = 64;

/// After an interrupt, tools get so long beyond the grace of their processes.
const LAST_PATIENCE: Duration = Duration::from_secs(3);

/// So often in a row the same failing call is pointed out, and so often it ends the run.
const REPEATS_TOLD: u32 = 3;
const REPEATS_ENDED: u32 = 6;

/// How often the same call has failed in a row.
#[derive(Debug, Default)]
pub struct Repeats {
    last: Option<(String, Arguments)>,
    count: u32,
}

impl Repeats {
    /// Counts a finished call; how often it has failed in a row now.
    fn count(&mut self, call: &ToolCall, failed: bool) -> u32 {
        let same =
            self.last.as_ref().is_some_and(|(name, arguments)| *name == call.name && *arguments == call.arguments);
        self.count = match (failed, same) {
            (false, _) => 0,
            (true, true) => self.count + 1,
            (true, false) => 1,
        };
        self.last = failed.then(|| (call.name.clone(), call.arguments.clone()));
        self.count
    }
}

/// A call that is ready to run, or what it comes to without running.
enum Prepared {
    Run(Arc<dyn Tool>, Arguments, Pass),
    Refused(String),
    Cancelled,
}

/// A call in its group.
type Grouped = (usize, Arc<dyn Tool>, Arguments, Pass);

struct Finished {
    index: usize,
    result: Result<ToolOutput, ToolError>,
    duration: Duration,
    left: Option<Left>,
}

impl Core {
    /// Runs the calls of an answer. Each has its result in the session afterwards, whatever happens.
    ///
    /// # Errors
    /// Where the run cannot go on; the results are stored all the same.
    pub(super) async fn run_calls(&mut self, answer: &AssistantMessage, repeats: &mut Repeats) -> Result<(), RunError> {
        let calls: Vec<ToolCall> = answer.tool_calls().cloned().collect();
        let limit = self.loaded.settings.limits.max_tool_calls_per_turn.map_or(usize::MAX, |limit| limit as usize);
        let mut prepared = Vec::with_capacity(calls.len());
        for (index, call) in calls.iter().enumerate() {
            let tool = self.tools.get(&call.name).cloned();
            let title = tool.as_ref().map(|tool| tool.title(&call.arguments)).unwrap_or_default();
            let (id, name, args) = (call.id.clone(), call.name.clone(), call.arguments.clone());
            self.bus.emit(Event::ToolStart { id, name, args, title }).await;
            prepared.push(if answer.stop_reason == StopReason::Length {
                Prepared::Refused("not run: the answer was cut off by the output limit, so that the arguments may be incomplete. Make the call again, with less in it.".to_owned())
            } else if index >= limit {
                Prepared::Refused(format!("not run: at most {limit} calls of one answer are run; make it again in the next"))
            } else {
                self.prepare(call, tool).await
            });
        }
        let changes = |call: &Prepared| matches!(call, Prepared::Run(tool, ..) if tool.risk() != Risk::ReadOnly);
        if prepared.iter().any(changes) {
            self.before_changes().await;
        }
        self.execute(&calls, prepared, repeats).await
    }

    /// Checks a call against its schema and reviews it.
    async fn prepare(&mut self, call: &ToolCall, tool: Option<Arc<dyn Tool>>) -> Prepared {
        let Some(tool) = tool else {
            let names: Vec<_> = self.tools.iter().map(|tool| tool.name()).collect();
            return Prepared::Refused(format!(
                "there is no tool `{}`; there are {}",
                crate::text::clean(&call.name),
                names.join(", ")
            ));
        };
        if let Some(wrong) = &call.invalid {
            return Prepared::Refused(format!("not run: {wrong}"));
        }
        let arguments = match schema::check(&tool.parameters(), tool.prepare(call.arguments.clone())) {
            Ok(arguments) => arguments,
            Err(wrong) => {
                let given = serde_json::Value::Object(call.arguments.clone()).to_string();
                let given = crate::text::head(&given, 1000);
                return Prepared::Refused(format!("not run: the arguments do not fit.\n{wrong}\nGiven: {given}"));
            }
        };
        if self.cancel.is_cancelled() {
            return Prepared::Cancelled;
        }
        let (arguments, wish) = match self.shown_to_plugins(call, &tool, arguments).await {
            Ok(shown) => shown,
            Err(refused) => return Prepared::Refused(refused),
        };
        if self.cancel.is_cancelled() {
            return Prepared::Cancelled;
        }
        match self.review(call, &tool, &arguments, wish.as_deref()).await {
            Passage::Run(pass) => Prepared::Run(tool, arguments, pass),
            Passage::Refused(text) => Prepared::Refused(text),
            Passage::Cancelled => Prepared::Cancelled,
        }
    }

    async fn execute(
        &mut self,
        calls: &[ToolCall],
        prepared: Vec<Prepared>,
        repeats: &mut Repeats,
    ) -> Result<(), RunError> {
        let (live, mut chunks) = mpsc::channel(LIVE_CHUNKS);
        let mut waiting: Vec<Option<Instant>> = vec![None; calls.len()];
        let mut running: JoinSet<Vec<Finished>> = JoinSet::new();
        let mut tasks = HashMap::new();
        let mut failure = None;
        for (key, group) in self.group(calls, prepared, &mut failure, repeats).await {
            let mut work = Vec::new();
            for (index, tool, arguments, pass) in group {
                waiting[index] = Some(Instant::now());
                let context =
                    self.tool_context(&calls[index], LiveOutput::new(&calls[index].id, live.clone()), pass.fenced);
                let ask = (!self.setup.headless).then(|| self.bus.clone());
                let watched = self.watched(&calls[index], &tool, &arguments);
                work.push((index, Ready { tool, arguments, context, pass, ask }, watched));
            }
            let indices: Vec<usize> = work.iter().map(|(index, ..)| *index).collect();
            let handle = running.spawn(async move {
                let mut done = Vec::with_capacity(work.len());
                for (index, ready, watched) in work {
                    let begun = Instant::now();
                    let Ran { result, left } = fenced::run(ready).await;
                    let duration = begun.elapsed();
                    let result = match watched {
                        Some(watched) => watched.ended(result).await,
                        None => result,
                    };
                    done.push(Finished { index, result, duration, left });
                }
                done
            });
            tasks.insert(handle.id(), (key, indices));
        }
        drop(live);

        let grace = Duration::from_millis(self.loaded.settings.limits.kill_grace_ms) + LAST_PATIENCE;
        let cancel = self.cancel.clone();
        let give_up = async move {
            cancel.cancelled().await;
            tokio::time::sleep(grace).await;
        };
        tokio::pin!(give_up);
        while !running.is_empty() {
            tokio::select! {
                biased;
                Some(chunk) = chunks.recv() => {
                    self.bus.emit(Event::ToolOutput { id: chunk.call_id.to_string(), text: chunk.text }).await;
                }
                Some(joined) = running.join_next_with_id() => {
                    let finished = match joined {
                        Ok((_, finished)) => finished,
                        Err(error) => {
                            let indices = tasks.get(&error.id()).map(|(_, indices)| indices.clone()).unwrap_or_default();
                            let text = "the tool failed inside Violin (this is a fault of Violin's, not of the call)";
                            indices.into_iter().filter(|index| waiting[*index].is_some()).map(|index| Finished {
                                index,
                                result: Err(ToolError::model(text)),
                                duration: waiting[index].map_or(Duration::ZERO, |begun| begun.elapsed()),
                                left: None,
                            }).collect()
                        }
                    };
                    for done in finished {
                        waiting[done.index] = None;
                        let call = &calls[done.index];
                        if let Some(left) = done.left {
                            self.left_sandbox(call, left).await;
                        }
                        if let Err(error) = self.store(call, done.result, done.duration, repeats).await {
                            failure.get_or_insert(error);
                        }
                    }
                }
                () = &mut give_up => break,
            }
        }
        running.abort_all();
        // What is still printed after the last result is not worth waiting for; what is here is told.
        while let Ok(chunk) = chunks.try_recv() {
            self.bus.emit(Event::ToolOutput { id: chunk.call_id.to_string(), text: chunk.text }).await;
        }
        for (index, begun) in waiting.into_iter().enumerate() {
            if let Some(begun) = begun {
                self.store(&calls[index], Err(ToolError::Cancelled), begun.elapsed(), repeats).await?;
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Stores what is not run, and groups what is: calls that write one real path run one after another.
    async fn group(
        &mut self,
        calls: &[ToolCall],
        prepared: Vec<Prepared>,
        failure: &mut Option<RunError>,
        repeats: &mut Repeats,
    ) -> Vec<(Option<PathBuf>, Vec<Grouped>)> {
        let mut groups: Vec<(Option<PathBuf>, Vec<_>)> = Vec::new();
        for (index, call) in prepared.into_iter().enumerate() {
            match call {
                refused @ (Prepared::Refused(_) | Prepared::Cancelled) => {
                    let why = match refused {
                        Prepared::Refused(text) => ToolError::Model(text),
                        Prepared::Run(..) | Prepared::Cancelled => ToolError::Cancelled,
                    };
                    if let Err(error) = self.store(&calls[index], Err(why), Duration::ZERO, repeats).await {
                        failure.get_or_insert(error);
                    }
                }
                Prepared::Run(tool, arguments, pass) => {
                    let key =
                        tool.writes(&arguments).map(|written| path::real(&path::resolve(&self.setup.cwd, &written)));
                    match groups.iter_mut().find(|(known, _)| key.is_some() && *known == key) {
                        Some((_, group)) => group.push((index, tool, arguments, pass)),
                        None => groups.push((key, vec![(index, tool, arguments, pass)])),
                    }
                }
            }
        }
        groups
    }

    /// What a preview runs with.
    pub(super) fn quiet_context(&self, call: &ToolCall) -> ToolContext {
        self.tool_context(call, LiveOutput::none(), false)
    }

    fn tool_context(&self, call: &ToolCall, live: LiveOutput, fenced: bool) -> ToolContext {
        let mut shell = self.loaded.shell();
        if fenced {
            shell.fence = self.ground.fence.clone().ok();
        }
        ToolContext {
            call_id: call.id.clone(),
            cwd: self.setup.cwd.clone(),
            cancel: self.cancel.child_token(),
            live,
            outputs: self.setup.home.outputs_of(&self.session.header().id),
            images: self.model().is_ok_and(|model| model.images),
            shell: Arc::new(shell),
        }
    }

    /// Stores the person's answer to whether a command might leave the sandbox.
    async fn left_sandbox(&mut self, call: &ToolCall, left: Left) {
        if let (true, Some(command)) = (left.session, &left.command) {
            self.unfence(command);
        }
        let (decision, reason) = match left.yes {
            true => (Decision::Allowed, "run again without the sandbox".to_owned()),
            false => {
                (Decision::Denied, left.reason.unwrap_or_else(|| "not to run again without the sandbox".to_owned()))
            }
        };
        self.told(call, Risk::Command, decision, DecidedBy::Person, Some(reason)).await;
    }

    /// Stores a result and tells of it.
    async fn store(
        &mut self,
        call: &ToolCall,
        result: Result<ToolOutput, ToolError>,
        duration: Duration,
        repeats: &mut Repeats,
    ) -> Result<(), RunError> {
        let mut fatal = None;
        let mut output = result.unwrap_or_else(|error| {
            if let ToolError::Fatal(text) = &error {
                fatal = Some(RunError::new(ErrorKind::Internal, text.clone()));
            }
            let text = match &error {
                ToolError::Cancelled => "[interrupted by the user]".to_owned(),
                other => other.to_string(),
            };
            let summary = if matches!(error, ToolError::Cancelled) {
                "interrupted".to_owned()
            } else {
                crate::text::first_line(&text).to_owned()
            };
            ToolOutput { is_error: true, ..ToolOutput::text(text, summary) }
        });
        let count = repeats.count(call, output.is_error && !self.cancel.is_cancelled());
        if count >= REPEATS_TOLD {
            let text = format!("[this very call has now failed {count} times in a row; try something else]");
            output.content.push(Block::Text { text });
        }
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let message = ToolMessage {
            tool_call_id: call.id.clone(),
            name: call.name.clone(),
            content: output.content,
            is_error: output.is_error,
            duration_ms: Some(duration_ms),
            exit_code: output.exit_code,
            effects: output.effects,
            summary: output.summary,
            view: output.view,
        };
        let entry = self.append_message(Message::Tool(message.clone())).await;
        self.bus
            .emit(Event::ToolEnd {
                id: message.tool_call_id,
                name: message.name,
                ok: !message.is_error,
                output: text_of(&message.content),
                effects: message.effects,
                duration_ms,
                exit_code: message.exit_code,
                summary: message.summary,
                view: message.view,
                entry: Some(entry.id.0),
            })
            .await;
        if count >= REPEATS_ENDED {
            let text = format!(
                "the model made the same failing call {count} times in a row (`{}`); say how it should go on",
                call.name
            );
            return Err(RunError::new(ErrorKind::Limit, text));
        }
        fatal.map_or(Ok(()), Err)
    }
}
