//! The one bus of what happens: everything that a front end or a plugin learns goes through it.

use tokio::sync::mpsc;

use super::protocol::Update;
use crate::event::Event;

/// Sends updates to whoever listens. The channel is bounded: a slow listener slows the agent, and nothing is
/// dropped.
#[derive(Debug, Clone)]
pub struct Bus {
    updates: mpsc::Sender<Update>,
}

impl Bus {
    /// A bus to that listener.
    pub fn new(updates: mpsc::Sender<Update>) -> Self {
        Bus { updates }
    }

    /// Tells of an event. A listener that is gone shows in the inbox, whose other end it holds too.
    pub async fn emit(&self, event: Event) {
        self.send(Update::Event(event)).await;
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
