//! A run: from a message of the person's to an answer without a tool call.

use super::Agent;
use super::answer::{Answer, describe};
use super::calls::Repeats;
use super::core::{Core, RunError};
use super::inbox::Inbox;
use super::protocol::{Activity, Delivery, Queued, Update};
use crate::event::{CompactionTrigger, ErrorKind, Event, UserSource};
use crate::message::{AssistantMessage, Block, Message, StopReason, Usage, UserMessage, text_of};
use crate::session::EntryId;

/// Without a person at the screen, a run ends after so many turns.
const HEADLESS_TURNS: u32 = 200;

/// What a run has come to so far.
#[derive(Debug, Default)]
struct Progress {
    turns: u32,
    usage: Usage,
    text: String,
    repeats: Repeats,
}

impl Agent {
    /// Runs to the end. Whatever happens, the last event is the result, and before it the error where there was one.
    pub(super) async fn run(&mut self, message: UserMessage) {
        self.core.cancel = self.inbox.begin();
        self.core.tight = false;
        self.core.told_denial = false;
        self.core.bus.send(Update::Activity(Activity::Running)).await;
        if !self.may_begin(&message).await {
            return;
        }
        let mut progress = Progress::default();
        self.core.keep_thinking().await;
        self.core.files.begin_run();
        let entry = self.core.take_in(message, UserSource::Prompt).await;
        self.core.begin_checkpoint(entry).await;
        let outcome = self.turns(&mut progress).await;
        let aborted = self.core.cancel.is_cancelled();
        if let Err(error) = outcome {
            self.core.bus.emit(Event::Error { msg: error.message, kind: error.kind }).await;
        }
        self.core.pass_on().await;
        let session_id = self.core.session.header().id.clone();
        let Progress { turns, usage: usage_total, text, .. } = progress;
        self.core.bus.emit(Event::Result { text, turns, aborted, session_id, usage_total }).await;
        self.core.end_checkpoint().await;
        self.core.sync();
        // What was typed after the last look, or behind a failure, goes back to the prompt.
        self.inbox.give_back().await;
        self.core.tell_settings().await;
        self.core.bus.send(Update::Activity(Activity::Idle)).await;
    }

    async fn turns(&mut self, progress: &mut Progress) -> Result<(), RunError> {
        loop {
            let more = self.turn(progress).await?;
            if self.core.cancel.is_cancelled() {
                return Ok(());
            }
            let due = self.inbox.due(!more).await;
            if !more && due.is_empty() {
                return Ok(());
            }
            for Queued { message, delivery } in due {
                let source = match delivery {
                    Delivery::Steer => UserSource::Steer,
                    Delivery::FollowUp => UserSource::FollowUp,
                };
                let entry = self.core.take_in(message, source).await;
                self.core.begin_checkpoint(entry).await;
            }
            self.apply_deferred().await;
            self.core.check_limits(progress)?;
        }
    }

    /// One model call and the tool calls that it asked for; `true`: the model wants to see their results.
    async fn turn(&mut self, progress: &mut Progress) -> Result<bool, RunError> {
        let Agent { core, inbox } = self;
        core.take_in_plugins().await;
        core.take_in_jobs().await;
        core.come_back().await;
        if core.needs_compaction() {
            inbox.attend(core.make_room()).await?;
        }
        let turn = progress.turns;
        progress.turns += 1;
        let model = core.model()?;
        let (session_id, context) = (core.session.header().id.clone(), core.context());
        core.bus.emit(Event::TurnStart { turn, session_id, model: model.label(), context }).await;
        let prefix = format!("call_{}", core.session.tree().next_id().0);
        let mut answer = inbox.attend(core.ask(&prefix)).await;
        if let Answer::Overflow(error) = answer {
            answer = recover(core, inbox, error, &prefix).await;
        }
        let (message, failure) = match answer {
            Answer::Whole(message) => (message, None),
            Answer::Interrupted(message) => (message, None),
            Answer::Failed(error, message) => (message, Some(error)),
            Answer::Overflow(error) => (AssistantMessage::default(), Some(describe(&error, &model, None))),
        };
        let stop_reason = if failure.is_some() { StopReason::Error } else { message.stop_reason };
        let usage = message.usage;
        if let Some(usage) = &usage {
            progress.usage.add(usage);
        }
        let text = text_of(&message.content);
        if !text.is_empty() {
            progress.text = text;
        }
        let entry = if message.content.is_empty() {
            None
        } else {
            Some(core.append_message(Message::Assistant(message.clone())).await.id.0)
        };
        let ran = match failure {
            Some(error) => Err(error),
            None if core.cancel.is_cancelled() && stop_reason == StopReason::Aborted => Ok(false),
            None => {
                let asked = message.tool_calls().next().is_some();
                let ran = inbox.attend(core.run_calls(&message, &mut progress.repeats)).await;
                ran.map(|()| asked)
            }
        };
        let failed = matches!(stop_reason, StopReason::Error) || ran.is_err() && entry.is_none();
        let usage = usage.filter(|_| !failed);
        core.bus.emit(Event::TurnEnd { turn, usage, stop_reason, entry }).await;
        let more = ran?;
        core.end_of_answer(stop_reason, more, entry.is_some()).await?;
        Ok(more)
    }
}

/// Compacts, and asks once more: a second overflow is an error.
async fn recover(core: &mut Core, inbox: &mut Inbox, error: crate::provider::ProviderError, prefix: &str) -> Answer {
    let fail = |error: RunError| Answer::Failed(error, AssistantMessage::default());
    let Ok(model) = core.model() else { return Answer::Overflow(error) };
    if !core.loaded.settings.compaction.enabled {
        let told = describe(&error, &model, None);
        return fail(RunError::new(told.kind, format!("{} (automatic compaction is off)", told.message)));
    }
    match inbox.attend(core.compact(CompactionTrigger::Overflow, None)).await {
        Ok(()) if core.cancel.is_cancelled() => {
            Answer::Interrupted(AssistantMessage { stop_reason: StopReason::Aborted, ..Default::default() })
        }
        Ok(()) => inbox.attend(core.ask(prefix)).await,
        Err(failed) => {
            let told = describe(&error, &model, None);
            fail(RunError::new(told.kind, format!("{} ({})", told.message, failed.message)))
        }
    }
}

impl Core {
    /// Tells that a run is over before it began.
    pub(super) async fn over(&self, error: RunError) {
        self.bus.emit(Event::Error { msg: error.message, kind: error.kind }).await;
        let session_id = self.session.header().id.clone();
        let (text, usage_total) = (String::new(), Usage::default());
        self.bus
            .emit(Event::Result { text, turns: 0, aborted: self.cancel.is_cancelled(), session_id, usage_total })
            .await;
    }

    /// Stores a message of the person's and tells of it; its entry.
    pub(super) async fn take_in(&mut self, message: UserMessage, source: UserSource) -> EntryId {
        let text = text_of(&message.content);
        let images = message.content.iter().filter(|block| matches!(block, Block::Image { .. })).count();
        let entry = self.append_message(Message::User(message)).await;
        self.bus.emit(Event::User { text, source, images, entry: Some(entry.id.0) }).await;
        entry.id
    }

    /// What the reason for the end of an answer asks for.
    async fn end_of_answer(&mut self, reason: StopReason, more: bool, answered: bool) -> Result<(), RunError> {
        let model = self.model()?;
        match reason {
            StopReason::Refusal => {
                let text = format!("{} refused to answer; put it in other words, or choose another model", model.name);
                Err(RunError::new(ErrorKind::InvalidRequest, text))
            }
            // Where calls were cut off the model is told, and makes them again.
            StopReason::Length if !more => {
                let text = "the answer was cut off by the model's output limit; say \"go on\" to continue";
                Err(RunError::new(ErrorKind::Limit, text))
            }
            StopReason::Stop if !answered => {
                self.bus.notice(format!("{} gave an empty answer", model.name)).await;
                Ok(())
            }
            StopReason::Length | StopReason::Stop | StopReason::ToolUse | StopReason::Error | StopReason::Aborted => {
                Ok(())
            }
        }
    }

    fn check_limits(&self, progress: &Progress) -> Result<(), RunError> {
        let limits = &self.loaded.settings.limits;
        let own = self.setup.overrides.max_turns.or(limits.max_turns);
        let max_turns = own.or(self.setup.headless.then_some(HEADLESS_TURNS)).unwrap_or(u32::MAX);
        if progress.turns >= max_turns {
            let text = format!("the run was stopped after {max_turns} turns (max_turns); say \"go on\" to continue");
            return Err(RunError::new(ErrorKind::Limit, text));
        }
        let (cost, most) = (progress.usage.cost_usd.unwrap_or(0.0), limits.max_cost_usd.unwrap_or(f64::INFINITY));
        if cost >= most {
            let text = format!(
                "the run was stopped: it has cost ${cost:.2} (max_cost_usd is {most}); say \"go on\" to continue"
            );
            return Err(RunError::new(ErrorKind::Limit, text));
        }
        Ok(())
    }

    /// Tells the model what jobs in the background printed and how they ended.
    async fn take_in_jobs(&mut self) {
        for report in self.jobs.take_reports() {
            self.append_message(Message::User(UserMessage::text(report.text))).await;
        }
    }
}
