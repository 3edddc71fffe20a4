//! Compaction: a summary takes the place of the older part of the conversation. It cannot fail: where no model
//! writes the summary, a digest of our own does.

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt;
use serde_json::json;

use super::answer::open;
use super::core::{Core, RunError};
use super::protocol::{Activity, Update};
use crate::choice::Thinking;
use crate::config::models::FALLBACK;
use crate::context::conversation::{SHORTENED, is_long, shortened};
use crate::context::tokens;
use crate::event::{CompactionTrigger, ErrorKind, Event};
use crate::message::stream::Accumulator;
use crate::message::{Block, Message, StopReason, UserMessage, text_of};
use crate::model::Model;
use crate::provider::Request;
use crate::session::{Entry, EntryId, Record, SummarySource};
use crate::text;

/// Of a tool result, so much goes into what is summarised.
const RESULT_BYTES: usize = 2_000;

/// A summary that is asked for again after an overflow gets half of the text, at most so often.
const SMALLER_TRIES: u32 = 4;

/// The most tokens of a summary.
const SUMMARY_TOKENS: u64 = 4_096;

const INSTRUCTIONS: &str = "You summarise a coding session so that another model can go on with it. Do not continue the \
conversation and do not answer what is in it. Write Markdown with these sections, leaving out empty ones: Goal; Constraints and \
preferences; Progress (done, in progress, blocked); Decisions; Next steps; Files read and changed. Keep exact names, paths, \
commands, numbers and error texts. About 400 words, or what the work needs. Where a previous summary is given, update it.";

/// Shortened results must make the context this much smaller than the threshold, in percent of it, so that it lasts.
const ENOUGH_ROOM: u64 = 80;

/// The conversation since the last compaction.
struct Talk {
    previous: Option<String>,
    messages: Vec<(EntryId, Arc<Message>)>,
}

/// What would be summarised, and what stays.
struct Plan {
    previous: Option<String>,
    old: Vec<Arc<Message>>,
    kept: Vec<Arc<Message>>,
    first_kept: Option<EntryId>,
    /// The person's latest request, where it does not stay.
    latest_request: Option<String>,
}

impl Core {
    /// Whether the next request would come too near the end of the window.
    pub(super) fn needs_compaction(&mut self) -> bool {
        let settings = &self.loaded.settings.compaction;
        let Some(model) = self.model().ok().filter(|_| settings.enabled && !self.tight) else { return false };
        let messages = self.conversation.messages(self.session.tree());
        self.count(&messages) > self.threshold(&model)
    }

    /// The most tokens of a request before it is compacted.
    fn threshold(&self, model: &Model) -> u64 {
        let window = model.context_window;
        let reserve = self.loaded.settings.compaction.reserve_tokens.max(window * 15 / 100).min(window / 4);
        window - reserve
    }

    /// Makes room as far as that is needed: first by shortening older tool results, then by a summary.
    ///
    /// # Errors
    /// As [`Core::compact`].
    pub(super) async fn make_room(&mut self) -> Result<(), RunError> {
        if self.shorten().await { Ok(()) } else { self.compact(CompactionTrigger::Threshold, None).await }
    }

    /// Shortens older tool results, in one go so that the provider's cache is broken once; `false`: that would not make
    /// enough room, and nothing was done.
    async fn shorten(&mut self) -> bool {
        let Ok(model) = self.model() else { return false };
        let messages = self.conversation.messages(self.session.tree());
        let before = self.count(&messages);
        let talk = self.talk();
        let settings = &self.loaded.settings.compaction;
        let most = settings.keep_recent_tokens.min(model.context_window * 40 / 100);
        let cut = cut(&talk.messages, settings.keep_recent_messages, most);
        let saved = |(id, message): &(EntryId, Arc<Message>)| match is_long(message) {
            true => tokens::of_message(message).saturating_sub(tokens::of_message(&shortened(message, *id))),
            false => 0,
        };
        // What is shortened already is counted as it is sent.
        let sent: u64 = messages.iter().map(|message| tokens::of_message(message)).sum();
        let whole: u64 = talk.messages.iter().map(|(_, message)| tokens::of_message(message)).sum();
        let saved = talk.messages[..cut].iter().map(saved).sum::<u64>().saturating_sub(whole.saturating_sub(sent));
        let room = self.threshold(&model) * ENOUGH_ROOM / 100;
        let Some((first_whole, _)) = talk.messages.get(cut).filter(|_| before.saturating_sub(saved) <= room) else {
            return false;
        };
        let data = json!({"before": first_whole, "tokens_before": before, "tokens_after": before - saved});
        self.append_record(Record::Custom { plugin: SHORTENED.to_owned(), data }).await;
        self.bus
            .notice(format!("older tool results are sent shortened from here on: {before} → {} tokens", before - saved))
            .await;
        true
    }

    /// Compacts the conversation.
    ///
    /// # Errors
    /// Where there is nothing to summarise.
    pub(super) async fn compact(
        &mut self,
        trigger: CompactionTrigger,
        instructions: Option<String>,
    ) -> Result<(), RunError> {
        let model = self.model()?;
        let messages = self.conversation.messages(self.session.tree());
        let tokens_before = self.count(&messages);
        let Some(plan) = self.plan(&model) else {
            self.tight = true;
            if trigger == CompactionTrigger::Threshold {
                return Ok(());
            }
            let text = format!(
                "there is nothing to compact: the system prompt, the rules and the last messages take {tokens_before} tokens of the window's {}",
                model.context_window
            );
            return Err(RunError::new(ErrorKind::ContextOverflow, text));
        };
        if let Err(blocked) = self.may_compact(trigger).await {
            self.tight = true;
            if trigger == CompactionTrigger::Threshold {
                self.bus.notice(blocked.message).await;
                return Ok(());
            }
            return Err(blocked);
        }
        self.bus.send(Update::Activity(Activity::Compacting)).await;
        let by_model = self.summarise(&plan, instructions.as_deref()).await;
        if self.cancel.is_cancelled() {
            self.bus.notice("the compaction was interrupted; nothing was changed").await;
            return Ok(());
        }
        let (mut summary, source) = match by_model {
            Ok(summary) => (summary, SummarySource::Model),
            Err(reason) => {
                self.bus.notice(format!("the model could not summarise ({reason}); a digest of the requests, files and commands takes its place")).await;
                (digest(&plan), SummarySource::Deterministic)
            }
        };
        if let Some(request) = &plan.latest_request {
            summary.push_str(&format!("\n\n## The latest request, verbatim\n\n{request}"));
        }
        let kept: u64 = plan.kept.iter().map(|message| tokens::of_message(message)).sum();
        let tokens_after = self.fixed_tokens() + tokens::of_text(&summary) + kept;
        self.tight = tokens_after > self.threshold(&model);
        let kept_messages = plan.kept.len() as u64;
        let record = Record::Compaction {
            summary: summary.clone(),
            first_kept_id: plan.first_kept,
            tokens_before,
            tokens_after,
            kept_messages,
            trigger,
            source,
        };
        let entry = self.append_record(record).await;
        self.bus
            .emit(Event::Compaction {
                trigger,
                tokens_before,
                tokens_after,
                kept_messages,
                summary,
                entry: Some(entry.id.0),
            })
            .await;
        Ok(())
    }

    /// A summary of the branch that is left when the conversation goes on from `to`; `None`: there is nothing in it.
    pub(super) async fn summarise_branch(&mut self, to: Option<EntryId>) -> Option<String> {
        let tree = self.session.tree();
        let kept: HashSet<usize> = tree.path(to.and_then(|id| tree.find(id))).into_iter().collect();
        let left = tree.path(tree.leaf()).into_iter().filter(|index| !kept.contains(index));
        let old: Vec<_> = left.filter_map(|index| tree.nodes()[index].entry.message().cloned()).collect();
        if old.is_empty() {
            return None;
        }
        let plan = Plan { previous: None, old, kept: Vec::new(), first_kept: None, latest_request: None };
        self.bus.send(Update::Activity(Activity::Compacting)).await;
        let summary = self.summarise(&plan, None).await;
        self.bus.send(Update::Activity(Activity::Idle)).await;
        Some(summary.unwrap_or_else(|_| digest(&plan)))
    }

    /// What would be summarised; `None`: nothing.
    fn plan(&mut self, model: &Model) -> Option<Plan> {
        let Talk { previous, messages: talk } = self.talk();
        let settings = &self.loaded.settings.compaction;
        let most = settings.keep_recent_tokens.min(model.context_window * 40 / 100);
        let cut = cut(&talk, settings.keep_recent_messages, most);
        if cut == 0 {
            return None;
        }
        let (old, kept) = talk.split_at(cut);
        let is_user = |(_, message): &&(EntryId, Arc<Message>)| matches!(message.as_ref(), Message::User(_));
        let latest_request = match kept.iter().any(|item| is_user(&item)) {
            true => None,
            // It may lie before the last compaction: it is carried on through all of them.
            false => self.latest_request(),
        };
        let latest_request = latest_request.map(|request| text::head(&request, 16_000).to_owned());
        let messages = |part: &[(EntryId, Arc<Message>)]| part.iter().map(|(_, message)| message.clone()).collect();
        Some(Plan {
            previous,
            old: messages(old),
            kept: messages(kept),
            first_kept: kept.first().map(|(id, _)| *id),
            latest_request,
        })
    }

    /// The newest message of the person's on the path.
    fn latest_request(&self) -> Option<String> {
        let path = self.session.tree().branch();
        path.iter().rev().find_map(|entry| match entry.message().map(AsRef::as_ref) {
            Some(Message::User(user)) => Some(text_of(&user.content)),
            _ => None,
        })
    }

    /// The messages since the last compaction, with those that it kept, and its summary.
    fn talk(&self) -> Talk {
        let path: Vec<Arc<Entry>> = self.session.tree().branch();
        let compaction = path.iter().rposition(|entry| matches!(entry.record(), Some(Record::Compaction { .. })));
        let (previous, first) = match compaction.map(|at| (at, path[at].record())) {
            Some((at, Some(Record::Compaction { summary, first_kept_id, .. }))) => {
                let kept = first_kept_id.and_then(|id| path.iter().position(|entry| entry.id == id));
                (Some(summary.clone()), kept.unwrap_or(at))
            }
            _ => (None, 0),
        };
        let messages = path[first..].iter().filter_map(|entry| Some((entry.id, entry.message()?.clone()))).collect();
        Talk { previous, messages }
    }

    /// Asks a model for the summary; the reason where it gave none.
    async fn summarise(&mut self, plan: &Plan, instructions: Option<&str>) -> Result<String, String> {
        let session_model = self.model().map_err(|error| error.message)?;
        let model = match &self.loaded.settings.compaction.model {
            Some(name) => match self.loaded.select(name).map_err(|error| error.to_string())? {
                chain if chain.api == FALLBACK => session_model,
                model => model,
            },
            None => session_model,
        };
        let credentials = self.credentials(&model).await.map_err(|error| error.message)?;
        // Half of the window in bytes at four a token: room for the summary, and for counting otherwise than we do.
        let mut room = usize::try_from(model.context_window * 2).unwrap_or(usize::MAX);
        for attempt in 1.. {
            let content = request_text(plan, instructions, room);
            let request = Request {
                model: model.clone(),
                credentials: credentials.clone(),
                system: INSTRUCTIONS.into(),
                tools: Arc::new([]),
                messages: vec![Arc::new(Message::User(UserMessage::text(content)))],
                thinking: Thinking::Off,
                max_tokens: Some(
                    model
                        .max_tokens
                        .unwrap_or(SUMMARY_TOKENS)
                        .min(SUMMARY_TOKENS)
                        .min((model.context_window / 4).max(256)),
                ),
                forget_thinking: 0,
                room: model.context_window / 4,
                session_id: self.session.header().id.as_str().into(),
            };
            let error = match self.one_answer(&request).await {
                Ok(summary) => return Ok(summary),
                Err(error) => error,
            };
            let (overflow, delay) = match &error {
                Refused::Provider(error) if error.kind == ErrorKind::ContextOverflow => (true, None),
                Refused::Provider(error) => (false, self.loaded.retry().delay(attempt, error, fastrand::f64())),
                Refused::Unusable(_) => (false, None),
            };
            match (overflow, delay) {
                (true, _) if attempt <= SMALLER_TRIES => room /= 2,
                (false, Some(delay)) if !self.setup.headless || delay.as_secs() <= 60 => {
                    let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                    self.bus.emit(Event::Retry { attempt, delay_ms, reason: error.to_string() }).await;
                    tokio::select! {
                        biased;
                        () = self.cancel.cancelled() => return Err("interrupted".to_owned()),
                        () = tokio::time::sleep(delay) => {}
                    }
                }
                _ => return Err(error.to_string()),
            }
        }
        unreachable!("the tries are bounded")
    }

    async fn one_answer(&self, request: &Request) -> Result<String, Refused> {
        let mut stream = open(&self.link, request).map_err(Refused::Provider)?;
        let mut accumulator = Accumulator::default();
        loop {
            let next = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(Refused::Unusable("interrupted")),
                next = stream.next() => next,
            };
            match next {
                Some(event) => accumulator.push(&event.map_err(Refused::Provider)?),
                None => break,
            }
            if accumulator.ended().is_some() {
                break;
            }
        }
        let message = accumulator.finish("summary");
        let summary = text_of(&message.content).trim().to_owned();
        match message.stop_reason {
            StopReason::Stop if !summary.is_empty() => Ok(summary),
            // A part of a summary would be taken for the whole.
            StopReason::Length => Err(Refused::Unusable("its summary was cut off")),
            StopReason::ToolUse => Err(Refused::Unusable("it called a tool in place of a summary")),
            _ => Err(Refused::Unusable("it gave no summary")),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("{0}")]
    Provider(crate::provider::ProviderError),
    #[error("{0}")]
    Unusable(&'static str),
}

/// Where the kept part begins: at most so many messages and tokens, at least one message, never a result without
/// its call.
fn cut(talk: &[(EntryId, Arc<Message>)], most_messages: usize, most_tokens: u64) -> usize {
    let mut sum = 0;
    let mut cut = talk.len();
    while cut > 0 && talk.len() - cut < most_messages.max(1) {
        sum += tokens::of_message(&talk[cut - 1].1);
        if sum > most_tokens && cut < talk.len() {
            break;
        }
        cut -= 1;
    }
    let is_result = |at: usize| matches!(talk.get(at).map(|(_, message)| message.as_ref()), Some(Message::Tool(_)));
    let forward = (cut..talk.len()).find(|at| !is_result(*at));
    forward.unwrap_or_else(|| (0..cut).rev().find(|at| !is_result(*at)).unwrap_or(0))
}

/// What the summariser is sent: at most `room` bytes, of which the beginning and the end are kept.
fn request_text(plan: &Plan, instructions: Option<&str>, room: usize) -> String {
    let talk: String = plan.old.iter().map(|message| line(message)).collect();
    let talk = if talk.len() > room {
        let (head, tail) = (text::head(&talk, room / 4), text::tail(&talk, room * 3 / 4));
        format!("{head}\n\n[… {} bytes left out …]\n\n{tail}", talk.len() - head.len() - tail.len())
    } else {
        talk
    };
    let mut out = String::new();
    if let Some(previous) = &plan.previous {
        out.push_str(&format!("<previous-summary>\n{}\n</previous-summary>\n\n", text::head(previous, room / 2)));
    }
    out.push_str(&format!("<conversation>\n{talk}</conversation>\n\nSummarise the conversation."));
    if let Some(focus) = instructions.filter(|focus| !focus.trim().is_empty()) {
        out.push_str(&format!(" The user asks for this: {}", focus.trim()));
    }
    out
}

/// A message as labelled text. Thinking is left out.
fn line(message: &Message) -> String {
    match message {
        Message::User(user) => format!("[User] {}\n", text_of(&user.content)),
        Message::Tool(result) => {
            let whole = text_of(&result.content);
            let shown = if whole.len() > RESULT_BYTES {
                format!("{} … {}", text::head(&whole, RESULT_BYTES / 2), text::tail(&whole, RESULT_BYTES / 2))
            } else {
                whole
            };
            format!("[{}{}] {shown}\n", result.name, if result.is_error { " failed" } else { "" })
        }
        Message::Assistant(answer) => {
            let piece = |block: &Block| match block {
                Block::Text { text } => format!("[Assistant] {text}\n"),
                Block::ToolCall(call) => {
                    let arguments = serde_json::Value::Object(call.arguments.clone()).to_string();
                    format!("[Call] {} {}\n", call.name, text::head(&arguments, RESULT_BYTES))
                }
                _ => String::new(),
            };
            answer.content.iter().map(piece).collect()
        }
    }
}

/// The digest that takes a summary's place: requests verbatim, files, commands with exit codes, the last words.
fn digest(plan: &Plan) -> String {
    let mut requests = Vec::new();
    let (mut read, mut changed, mut commands) = (Vec::new(), Vec::new(), Vec::new());
    let mut conclusion = String::new();
    let mut pending: Vec<(String, String)> = Vec::new();
    for message in &plan.old {
        match message.as_ref() {
            Message::User(user) => requests.push(text::head(&text_of(&user.content), 2_000).to_owned()),
            Message::Assistant(answer) => {
                let said = text_of(&answer.content);
                if !said.trim().is_empty() {
                    conclusion = text::head(&said, 4_000).to_owned();
                }
                for call in answer.tool_calls() {
                    let field =
                        |name: &str| call.arguments.get(name).and_then(|value| value.as_str()).map(str::to_owned);
                    if let Some(path) = field("path") {
                        let list =
                            if matches!(call.name.as_str(), "write" | "edit") { &mut changed } else { &mut read };
                        if !list.contains(&path) {
                            list.push(path);
                        }
                    }
                    if let Some(command) = field("command") {
                        pending.push((call.id.clone(), command));
                    }
                }
            }
            Message::Tool(result) => {
                if let Some(at) = pending.iter().position(|(id, _)| *id == result.tool_call_id) {
                    let (_, command) = pending.swap_remove(at);
                    let code = result.exit_code.map_or("no exit code".to_owned(), |code| format!("exit code {code}"));
                    commands.push(format!("`{}`: {code}", text::head(&command, 300)));
                }
            }
        }
    }
    let mut out =
        plan.previous.clone().map(|previous| format!("{}\n\n", text::head(&previous, 24_000))).unwrap_or_default();
    out.push_str("(This digest was made without a model.)\n");
    let mut section = |title: &str, items: &[String], most: usize| {
        if items.is_empty() {
            return;
        }
        out.push_str(&format!("\n## {title}\n\n"));
        let skipped = items.len().saturating_sub(most);
        if skipped > 0 {
            out.push_str(&format!("- ({skipped} earlier ones left out)\n"));
        }
        for item in &items[skipped..] {
            out.push_str(&format!("- {item}\n"));
        }
    };
    section("Requests", &requests, 20);
    section("Files read", &read, 60);
    section("Files changed", &changed, 60);
    section("Commands", &commands, 40);
    section("The last answer", &[conclusion].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>(), 1);
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AssistantMessage, ToolCall, ToolMessage};

    fn user(text: &str) -> Arc<Message> {
        Arc::new(Message::User(UserMessage::text(text)))
    }

    fn call(id: &str, command: &str) -> Arc<Message> {
        let arguments = serde_json::Map::from_iter([("command".to_owned(), command.into())]);
        let call = ToolCall { id: id.into(), name: "bash".into(), arguments, invalid: None, signature: None };
        Arc::new(Message::Assistant(AssistantMessage { content: vec![Block::ToolCall(call)], ..Default::default() }))
    }

    fn result(id: &str, bytes: usize) -> Arc<Message> {
        let content = vec![Block::Text { text: "x".repeat(bytes) }];
        Arc::new(Message::Tool(ToolMessage {
            tool_call_id: id.into(),
            content,
            exit_code: Some(3),
            ..Default::default()
        }))
    }

    fn numbered(messages: Vec<Arc<Message>>) -> Vec<(EntryId, Arc<Message>)> {
        messages.into_iter().enumerate().map(|(index, message)| (EntryId(index as u64), message)).collect()
    }

    #[test]
    fn a_cut_never_parts_a_call_from_its_results() {
        let talk = numbered(vec![
            user("a"),
            call("1", "x"),
            result("1", 10),
            result("2", 10),
            user("b"),
            call("3", "x"),
            result("3", 10),
        ]);
        for most in 1..10 {
            for tokens in [0, 10, 20, 30, 1000] {
                let at = cut(&talk, most, tokens);
                assert!(at < talk.len() && !matches!(talk[at].1.as_ref(), Message::Tool(_)), "{most} {tokens} {at}");
            }
        }
        // A giant result alone keeps its call.
        assert_eq!(cut(&talk[..4], 10, 1), 1);
        assert_eq!(cut(&talk, 100, 1_000_000), 0);
        assert_eq!(cut(&[], 10, 10), 0);
    }

    #[test]
    fn a_digest_holds_what_matters() {
        let plan = Plan {
            previous: Some("Before.".into()),
            old: vec![user("fix the cart"), call("1", "cargo test"), result("1", 5)],
            kept: Vec::new(),
            first_kept: None,
            latest_request: None,
        };
        let text = digest(&plan);
        for part in ["Before.", "- fix the cart", "- `cargo test`: exit code 3"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_long_conversation_is_cut_to_the_room_there_is() {
        let plan = Plan {
            previous: Some("p".repeat(10_000)),
            old: (0..50).map(|_| result("1", 9_000)).collect(),
            kept: Vec::new(),
            first_kept: None,
            latest_request: None,
        };
        assert!(request_text(&plan, Some("tests"), 8_000).len() < 13_000);
    }
}
