//! The one bus of what happens: everything that a front end or a plugin learns goes through it.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::protocol::Update;
use crate::event::Event;
use crate::plugin::Host;
use crate::text::redact;

/// Sends updates to whoever listens. The channel is bounded: a slow listener slows the agent, and nothing is
/// dropped.
#[derive(Debug, Clone)]
pub struct Bus {
    updates: mpsc::Sender<Update>,
    plugins: Arc<Host>,
}

impl Bus {
    /// A bus to that listener, and to plugins that listen to events.
    pub fn new(updates: mpsc::Sender<Update>, plugins: Arc<Host>) -> Self {
        Bus { updates, plugins }
    }

    /// Tells of an event. A listener that is gone shows in the inbox, whose other end it holds too.
    ///
    /// What others said and is told as it is, is told without what looks like a secret.
    pub async fn emit(&self, mut event: Event) {
        if let Event::Error { msg: text, .. } | Event::Notice { text } | Event::Retry { reason: text, .. } = &mut event
            && let Cow::Owned(redacted) = redact(text)
        {
            *text = redacted;
        }
        log(&event);
        self.plugins.tell(&event);
        self.send(Update::Event(event)).await;
    }

    /// Tells what a plugin says. Other plugins do not hear it: two that answer each other would never end.
    pub async fn aside(&self, text: String) {
        let text = redact(&text).into_owned();
        self.send(Update::Event(Event::Notice { text })).await;
    }

    /// Tells something that a person should know.
    pub async fn notice(&self, text: impl Into<String>) {
        self.emit(Event::Notice { text: text.into() }).await;
    }

    /// Sends an update.
    pub async fn send(&self, update: Update) {
        let _ = self.updates.send(update).await;
    }
}

/// Writes what happened to the log, without what was said.
fn log(event: &Event) {
    match event {
        Event::Delta { text } | Event::Thinking { text } => tracing::trace!(bytes = text.len(), "delta"),
        Event::ToolOutput { id, text } => tracing::trace!(id, bytes = text.len(), "tool output"),
        Event::TurnStart { turn, session_id, model, context } => {
            tracing::debug!(turn, session_id, model = model.id, tokens = context.tokens, "turn begins");
        }
        Event::User { source, images, entry, .. } => tracing::debug!(?source, images, entry, "message"),
        Event::ToolStart { id, name, .. } => tracing::debug!(id, name, "call"),
        Event::ToolReview { id, risk, decision, by, .. } => tracing::debug!(id, ?risk, ?decision, ?by, "review"),
        Event::ToolEnd { id, name, ok, output, duration_ms, exit_code, .. } => {
            tracing::debug!(id, name, ok, duration_ms, exit_code, bytes = output.len(), "call ended");
        }
        Event::TurnEnd { turn, usage, stop_reason, .. } => tracing::debug!(turn, ?usage, ?stop_reason, "turn ended"),
        Event::Discard => tracing::debug!("answer discarded"),
        Event::ModelChange { model, reason } => tracing::info!(model, ?reason, "model changed"),
        Event::Notice { text } => tracing::info!("{text}"),
        Event::Retry { attempt, delay_ms, reason } => tracing::info!(attempt, delay_ms, reason, "retry"),
        Event::Compaction { trigger, tokens_before, tokens_after, .. } => {
            tracing::info!(?trigger, tokens_before, tokens_after, "compacted");
        }
        Event::Error { msg, kind } => tracing::warn!(?kind, "{msg}"),
        Event::Result { turns, aborted, usage_total, .. } => {
            tracing::info!(turns, aborted, ?usage_total, "run ended");
        }
    }
}
