//! Fills the transcript: from the entries of a session, and from the events of a run.

use std::sync::Arc;
use std::time::Instant;

use super::Transcript;
use super::block::{Kind, Tone};
use super::tool::{Live, Outcome, State, Tool, images_of};
use crate::event::{ChangeReason, Decision, Event, UserSource};
use crate::message::{AssistantMessage, Block as Content, Message, StopReason, text_of};
use crate::session::{Body, Entry, EntryId, Record, Tree};
use crate::tui::words;

impl Transcript {
    /// Shows the path to a node of a session's tree.
    pub fn fill(&mut self, tree: &Tree, to: Option<usize>) {
        self.clear();
        for index in tree.path(to) {
            self.entry(&tree.nodes()[index].entry);
        }
    }

    /// Adds an entry of the past.
    pub fn entry(&mut self, entry: &Entry) {
        let id = Some(entry.id);
        match &entry.body {
            Body::Message(message) => match &**message {
                Message::User(user) => {
                    let kind = Kind::User { text: text_of(&user.content), images: images_of(&user.content) };
                    self.push(kind, id);
                }
                Message::Assistant(answer) => self.answer(answer, id),
                Message::Tool(result) => {
                    if self.call(&result.tool_call_id).is_none() {
                        let orphan =
                            Tool { call_id: result.tool_call_id.clone(), name: result.name.clone(), ..Tool::default() };
                        self.push(Kind::Tool(Box::new(orphan)), id);
                    }
                    if let Some(tool) = self.call(&result.tool_call_id) {
                        tool.take_result(message);
                    }
                }
            },
            Body::Record(record) => self.record(record, id),
        }
    }

    fn answer(&mut self, answer: &AssistantMessage, id: Option<EntryId>) {
        for block in &answer.content {
            match block {
                Content::Text { text } => {
                    self.push(Kind::Answer { text: text.clone(), live: false }, id);
                }
                Content::Thinking { thinking, .. } if !thinking.trim().is_empty() => {
                    self.push(Kind::Thinking { text: thinking.clone(), live: false }, id);
                }
                Content::Thinking { .. } | Content::Unknown => {}
                Content::ToolCall(call) => {
                    self.push(Kind::Tool(Box::new(Tool::of_call(call))), id);
                }
                Content::Image { .. } => {
                    for label in images_of(std::slice::from_ref(block)) {
                        self.note(label, Tone::Quiet);
                    }
                }
            }
        }
        self.stopped(answer.stop_reason);
        if let Some(error) = &answer.error {
            self.note(error.clone(), Tone::Error);
        }
    }

    fn stopped(&mut self, reason: StopReason) {
        match reason {
            StopReason::Aborted => self.note("interrupted", Tone::Warning),
            StopReason::Length => self.note("the answer was cut off by the output limit", Tone::Warning),
            StopReason::Refusal => self.note("the model refused to go on", Tone::Warning),
            StopReason::Stop | StopReason::ToolUse | StopReason::Error => {}
        }
    }

    fn record(&mut self, record: &Record, id: Option<EntryId>) {
        match record {
            Record::Compaction { summary, tokens_before, tokens_after, kept_messages, .. } => {
                self.compaction(summary.clone(), *tokens_before, *tokens_after, *kept_messages, id);
            }
            Record::BranchSummary { summary, .. } => {
                let title = "summary of the branch that was left".to_owned();
                self.push(Kind::Summary { title, text: summary.clone() }, id);
            }
            Record::ModelChange { model, .. } => self.note(format!("model: {model}"), Tone::Quiet),
            Record::ThinkingChange { level } => self.note(format!("thinking: {level}"), Tone::Quiet),
            Record::Shell { command, output, exit_code, in_context } => {
                let mut tool = shell(command, *in_context, id);
                tool.state = State::Done(shell_outcome(output.clone(), *exit_code));
                self.push(Kind::Tool(Box::new(tool)), id);
            }
            Record::Review { .. }
            | Record::Label { .. }
            | Record::Name { .. }
            | Record::Leaf { .. }
            | Record::Checkpoint { .. }
            | Record::Custom { .. }
            | Record::Unknown => {}
        }
    }

    fn compaction(&mut self, summary: String, before: u64, after: u64, kept: u64, id: Option<EntryId>) {
        let kept = match kept {
            0 => String::new(),
            1 => " · the last message is kept".to_owned(),
            kept => format!(" · the last {kept} messages are kept"),
        };
        let title = format!("context compacted: {} → {} tokens{kept}", words::count(before), words::count(after));
        self.push(Kind::Summary { title, text: summary }, id);
    }

    /// Takes an entry that was just appended: what is already shown gets its entry, and results that are whole
    /// take the place of what was streamed.
    pub fn appended(&mut self, entry: &Entry) {
        match &entry.body {
            Body::Message(message) => match &**message {
                Message::Tool(result) => {
                    if let Some(tool) = self.call(&result.tool_call_id) {
                        tool.take_result(message);
                    }
                }
                Message::User(user) => self.images = Some((entry.id, images_of(&user.content))),
                Message::Assistant(_) => {}
            },
            Body::Record(Record::Shell { output, exit_code, .. }) => {
                if let Some(tool) = self.call(SHELL) {
                    tool.state = State::Done(shell_outcome(output.clone(), *exit_code));
                    tool.live = Live::default();
                }
                self.calls.remove(SHELL);
            }
            Body::Record(record @ Record::BranchSummary { .. }) => self.record(record, Some(entry.id)),
            Body::Record(_) => {}
        }
    }

    /// A command of the person's own begins.
    pub fn begin_shell(&mut self, command: &str, in_context: bool, now: Instant) {
        let mut tool = shell(command, in_context, None);
        tool.state = State::Running(now);
        self.push(Kind::Tool(Box::new(tool)), None);
    }

    /// It printed something.
    pub fn shell_output(&mut self, text: &str) {
        if let Some(tool) = self.call(SHELL) {
            tool.live.push(text);
        }
    }

    /// What is shown as going on goes on no longer.
    pub fn settle(&mut self) {
        self.finish_live();
        for block in self.blocks.iter_mut().rev().take(256) {
            if let Kind::Tool(tool) = &mut block.kind
                && tool.runs()
            {
                tool.state = State::Open;
                block.touch();
            }
        }
        self.calls.remove(SHELL);
    }

    fn finish_live(&mut self) {
        if let Some(block) = self.blocks.last_mut()
            && let Kind::Answer { live, .. } | Kind::Thinking { live, .. } = &mut block.kind
            && std::mem::take(live)
        {
            block.touch();
        }
    }

    /// Takes an event of a run.
    pub fn event(&mut self, event: Event, now: Instant) {
        match event {
            Event::Delta { text: more } => {
                if let Some(block) = self.blocks.last_mut()
                    && let Kind::Answer { text, live: true } = &mut block.kind
                {
                    text.push_str(&more);
                    block.touch();
                    self.news |= self.anchor != super::Anchor::End;
                    return;
                }
                self.finish_live();
                self.push(Kind::Answer { text: more, live: true }, None);
            }
            Event::Thinking { text: more } => {
                if let Some(block) = self.blocks.last_mut()
                    && let Kind::Thinking { text, live: true } = &mut block.kind
                {
                    text.push_str(&more);
                    block.touch();
                    return;
                }
                self.finish_live();
                self.push(Kind::Thinking { text: more, live: true }, None);
            }
            Event::TurnStart { .. } => {
                self.finish_live();
                self.turn = self.blocks.len();
            }
            // A command of the person's own is shown as one: it has a row already.
            Event::User { source: UserSource::Shell, .. } => {}
            Event::User { text, images, entry, .. } => {
                // The entry was appended before, and tells more of them.
                let known = self.images.take().filter(|(id, _)| Some(id.0) == entry).map(|(_, labels)| labels);
                let labels = known.unwrap_or_else(|| (1..=images).map(|n| format!("[image #{n}]")).collect());
                self.finish_live();
                self.push(Kind::User { text, images: labels }, entry.map(EntryId));
            }
            Event::ToolStart { id, name, title, .. } => {
                self.finish_live();
                let state = State::Running(now);
                let tool = Tool { call_id: id, name, title, state, ..Tool::default() };
                self.push(Kind::Tool(Box::new(tool)), None);
            }
            Event::ToolReview { id, decision, reason, .. } => {
                if let (Decision::Denied, Some(tool)) = (decision, self.call(&id)) {
                    tool.denied = Some(reason.unwrap_or_else(|| "not allowed".to_owned()));
                }
            }
            Event::ToolOutput { id, text } => {
                if let Some(tool) = self.call(&id) {
                    tool.live.push(&text);
                }
            }
            Event::ToolEnd { id, ok, output, duration_ms, exit_code, summary, view, entry, .. } => {
                if let Some(tool) = self.call(&id) {
                    let mut outcome = match std::mem::take(&mut tool.state) {
                        State::Done(outcome) => outcome,
                        State::Open | State::Running(_) => Outcome { output, ..Outcome::default() },
                    };
                    outcome.ok = ok;
                    outcome.duration_ms = Some(duration_ms);
                    outcome.exit_code = exit_code;
                    outcome.summary = summary;
                    // The message that is there already holds the same.
                    if outcome.message.is_none() {
                        outcome.view = view;
                    }
                    tool.state = State::Done(outcome);
                    tool.live = Live::default();
                }
                if let Some(block) = self.calls.get(&id).and_then(|index| self.blocks.get_mut(*index)) {
                    block.entry = entry.map(EntryId);
                }
            }
            Event::TurnEnd { stop_reason, entry, .. } => {
                self.finish_live();
                for block in self.blocks.iter_mut().skip(self.turn) {
                    block.entry = block.entry.or(entry.map(EntryId));
                }
                self.stopped(stop_reason);
            }
            Event::Discard => self.truncate(self.turn),
            Event::ModelChange { model, reason } => {
                let why = match reason {
                    ChangeReason::User => "",
                    ChangeReason::Fallback => " (the one before it failed)",
                };
                self.note(format!("model: {model}{why}"), Tone::Quiet);
            }
            Event::Notice { text } => self.note(text, Tone::Warning),
            Event::Retry { .. } => {}
            Event::Compaction { tokens_before, tokens_after, kept_messages, summary, entry, .. } => {
                self.compaction(summary, tokens_before, tokens_after, kept_messages, entry.map(EntryId));
            }
            Event::Error { msg, .. } => self.note(msg, Tone::Error),
            Event::Result { .. } => self.settle(),
        }
    }
}

/// The id that a running command of the person's own is known by.
const SHELL: &str = "\0shell";

fn shell(command: &str, in_context: bool, entry: Option<EntryId>) -> Tool {
    let name = if in_context { "!" } else { "!!" };
    let call_id = entry.map_or(SHELL.to_owned(), |id| format!("\0shell {}", id.0));
    Tool { call_id, name: name.into(), title: command.to_owned(), ..Tool::default() }
}

fn shell_outcome(output: String, exit_code: Option<i32>) -> Outcome {
    Outcome {
        ok: exit_code == Some(0),
        exit_code,
        view: Some(crate::toolkit::View::Terminal { text: String::new(), log: None }),
        output,
        ..Outcome::default()
    }
}

/// The last answer's text, for copying.
pub fn last_answer(transcript: &Transcript) -> Option<Arc<str>> {
    transcript.blocks.iter().rev().find_map(|block| match &block.kind {
        Kind::Answer { text, .. } => Some(text.trim().into()),
        _ => None,
    })
}
