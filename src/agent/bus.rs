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
