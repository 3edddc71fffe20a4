//! The agent: it asks the model, runs the tools that it asks for, appends the results and goes on until the
//! model asks for nothing more. It knows neither screen nor terminal.
//!
//! [`spawn`] starts it on a task of its own; [`Command`]s go in, [`Update`]s come out. `run` is the loop, `answer` one
//! model call, `calls` the tool calls of one answer, `review` the gate before them, `fenced` runs them, `compaction` what happens when the
//! window fills, `files` the
//! files that go with the conversation, `commands` what a person asks between runs, `inbox` what comes in while work goes on, `plugins` what plugins
//! are told and asked.

mod answer;
mod bus;
mod calls;
mod commands;
mod compaction;
mod core;
mod fallback;
mod fenced;
mod files;
mod inbox;
mod plugins;
mod protocol;
mod review;
mod run;
mod setup;

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::model::Model;
use crate::session::Session;

pub use protocol::{
    Activity, AgentSettings, Command, CommandLine, Danger, Delivery, FileChange, Place, Queued, Restore,
    RestorePreview, ReviewAnswer, ReviewRequest, SessionState, Update,
};
pub use setup::{Env, Loaded, Overrides, Setup};

use bus::Bus;
use core::Core;
use inbox::Inbox;

/// Commands that wait; a person types slower.
const COMMANDS: usize = 64;

/// Updates that wait; then the agent does. So many that a flood of deltas fits in between two looks of the interface.
const UPDATES: usize = 4096;

/// The agent, on its own task.
struct Agent {
    core: Core,
    inbox: Inbox,
}

/// A running agent, as a front end holds it. When the sender of commands is dropped, the agent ends what it does and
/// then itself.
#[derive(Debug)]
pub struct Handle {
    /// Takes commands.
    pub commands: mpsc::Sender<Command>,
    /// Gives updates.
    pub updates: mpsc::Receiver<Update>,
    /// Ends with the agent.
    pub task: JoinHandle<()>,
}

/// Starts the agent on a session.
pub fn spawn(setup: Setup, loaded: Loaded, session: Session, model: Option<Arc<Model>>) -> Handle {
    let (commands, inbox) = mpsc::channel(COMMANDS);
    let (sender, updates) = mpsc::channel(UPDATES);
    let bus = Bus::new(sender, setup.plugins.clone());
    let inbox = Inbox::new(inbox, bus.clone());
    let core = Core::new(setup, loaded, session, model, bus);
    let task = tokio::spawn(Agent { core, inbox }.serve());
    Handle { commands, updates, task }
}

impl Agent {
    async fn serve(mut self) {
        let listener = plugins::listen(self.core.setup.plugins.clone(), self.core.bus.clone());
        let notices = self.core.session.notices().to_vec();
        self.core.tell_session(notices).await;
        self.core.tell_settings().await;
        self.core.ask_trust().await;
        self.core.load_plugins().await;
        while let Some(command) = self.inbox.next().await {
            self.handle(command).await;
        }
        self.core.jobs.kill_all();
        self.core.setup.plugins.shut_down().await;
        listener.abort();
    }
}
