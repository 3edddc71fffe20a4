//! What a front end asks while no run goes on.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::Agent;
use super::core::Core;
use super::files::Files;
use super::protocol::{Activity, Command, Place, Restore, Update};
use crate::choice::Thinking;
use crate::config::trust::{Standing, Trust};
use crate::context::conversation::in_force;
use crate::event::{ChangeReason, CompactionTrigger, Event, UserSource};
use crate::message::text_of;
use crate::session::{EntryId, Record, Session};
use crate::tool;
use crate::toolkit::{LiveOutput, ToolContext};

impl Agent {
    /// Does what is asked.
    pub(super) async fn handle(&mut self, command: Command) {
        match command {
            Command::Prompt { message, .. } => self.run(message).await,
            Command::Shell { command, in_context } => self.shell(command, in_context).await,
            Command::Compact { instructions } => self.compact(instructions).await,
            Command::PluginCommand { name, argument } => self.plugin_command(&name, &argument).await,
            Command::Interrupt | Command::TakeBack => {}
            other => {
                self.core.cancel = self.inbox.begin();
                let Agent { core, inbox } = self;
                inbox.attend(core.change(other)).await;
            }
        }
    }

    /// Does what was asked in the middle of a run and can be done between two turns; the rest waits for its end.
    pub(super) async fn apply_deferred(&mut self) {
        for command in self.inbox.take_deferred(|command| {
            matches!(
                command,
                Command::SetModel(_)
                    | Command::SetThinking(_)
                    | Command::SetMode(_)
                    | Command::Label { .. }
                    | Command::Name(_)
            )
        }) {
            self.core.change(command).await;
        }
    }

    async fn compact(&mut self, instructions: Option<String>) {
        self.core.cancel = self.inbox.begin();
        let Agent { core, inbox } = self;
        core.tight = false;
        if let Err(error) = inbox.attend(core.compact(CompactionTrigger::Manual, instructions)).await {
            core.bus.notice(error.message).await;
        }
        core.sync();
        core.tell_settings().await;
        core.bus.send(Update::Activity(Activity::Idle)).await;
        self.run_queued().await;
    }

    /// Messages that were typed meanwhile go on as if they were typed now.
    async fn run_queued(&mut self) {
        let mut due = self.inbox.due(true).await.into_iter();
        if let Some(first) = due.next() {
            self.inbox.put_back(due.collect());
            self.run(first.message).await;
        }
    }

    async fn shell(&mut self, command: String, in_context: bool) {
        self.core.cancel = self.inbox.begin();
        let Agent { core, inbox } = self;
        core.bus.send(Update::Activity(Activity::Shell)).await;
        core.bus.emit(Event::User { text: command.clone(), source: UserSource::Shell, images: 0, entry: None }).await;
        inbox.attend(core.shell(command, in_context)).await;
        core.tell_settings().await;
        core.bus.send(Update::Activity(Activity::Idle)).await;
        self.run_queued().await;
    }
}

impl Core {
    /// Changes what is in force, or where the conversation stands.
    async fn change(&mut self, command: Command) {
        match command {
            Command::SetModel(name) => self.set_model(&name).await,
            Command::SetThinking(level) => self.set_thinking(level).await,
            Command::SetMode(mode) => {
                self.mode = mode;
                self.tell_settings().await;
            }
            Command::NewSession => {
                let model = self.model.as_ref().map(|model| model.reference());
                let session = match self.session.path() {
                    Some(_) => Session::new(&self.setup.home, &self.setup.cwd, model),
                    None => Session::ephemeral(&self.setup.cwd, model),
                };
                self.enter(session, Vec::new()).await;
            }
            Command::OpenSession(path) => self.open(&path).await,
            Command::Fork { to } => self.fork(to).await,
            Command::MoveLeaf { to, restore, summarise } => self.move_leaf(to, restore, summarise).await,
            Command::PreviewRestore { to } => self.preview_restore(to).await,
            Command::Undo { force } => self.undo(force).await,
            Command::Label { target, label } => {
                let label = label.filter(|label| !label.trim().is_empty());
                self.append_record(Record::Label { target_id: target, label }).await;
            }
            Command::Name(name) => {
                self.append_record(Record::Name { name: name.trim().to_owned() }).await;
            }
            Command::Trust(yes) => self.trust(yes).await,
            Command::Reload => self.reload().await,
            Command::Prompt { .. }
            | Command::Shell { .. }
            | Command::Compact { .. }
            | Command::PluginCommand { .. }
            | Command::Interrupt
            | Command::TakeBack => {}
        }
    }

    async fn set_model(&mut self, name: &str) {
        // It may stand in models.json since a moment ago.
        let found = self.loaded.select(name).or_else(|error| self.setup.load().select(name).map_err(|_| error));
        let model = match found {
            Ok(model) => model,
            Err(error) => return self.bus.notice(error.to_string()).await,
        };
        if self.model.as_ref().is_some_and(|known| *known == model) {
            return;
        }
        let reference = model.reference();
        self.model = Some(model);
        if self.session.tree().is_empty() {
            self.session.set_model(reference.clone());
        } else {
            let reason = ChangeReason::User;
            self.append_record(Record::ModelChange { model: reference.clone(), reason }).await;
        }
        self.bus.emit(Event::ModelChange { model: reference, reason: ChangeReason::User }).await;
        self.tell_settings().await;
    }

    async fn set_thinking(&mut self, level: Thinking) {
        if self.thinking != level {
            self.thinking = level;
            self.append_record(Record::ThinkingChange { level: level.name().to_owned() }).await;
        }
        self.tell_settings().await;
    }

    /// Keeps the thinking level in the session where its path would tell another one, so that it comes back with it.
    pub(super) async fn keep_thinking(&mut self) {
        let told = in_force(self.session.tree()).1.and_then(|level| level.parse().ok());
        if told.unwrap_or(self.loaded.settings.thinking) != self.thinking {
            self.append_record(Record::ThinkingChange { level: self.thinking.name().to_owned() }).await;
        }
    }

    /// Goes on with another session.
    async fn enter(&mut self, session: Session, notices: Vec<String>) {
        self.jobs.kill_all();
        self.session = session;
        self.forget_thinking = None;
        self.grants = Default::default();
        self.conversation = Default::default();
        self.files = Files::of(&self.setup.home, &self.setup.cwd, &self.loaded.settings.checkpoints);
        self.resume();
        self.place_plugins();
        self.tell_session(notices).await;
        self.tell_settings().await;
    }

    /// Takes the model and the thinking level from where the session's leaf stands.
    pub(super) fn resume(&mut self) {
        let (model, thinking) = in_force(self.session.tree());
        let model = model.or_else(|| self.session.header().model.clone());
        if let Some(model) = model.and_then(|name| self.loaded.select(&name).ok()) {
            self.model = Some(model);
        }
        let level = thinking.and_then(|level| level.parse().ok()).or(self.setup.overrides.thinking);
        self.thinking = level.unwrap_or(self.loaded.settings.thinking);
    }

    async fn open(&mut self, path: &Path) {
        if self.session.path() == Some(path) {
            return;
        }
        let session = match Session::open(path) {
            Ok(session) => session,
            Err(error) => return self.bus.notice(error.to_string()).await,
        };
        let mut notices = session.notices().to_vec();
        let cwd = Path::new(&session.header().cwd).to_owned();
        if cwd != self.setup.cwd {
            if cwd.is_dir() {
                notices.push(format!("this session works in {}", crate::home::tilde(&cwd)));
                self.setup.cwd = cwd;
                self.loaded = self.setup.load();
                self.furnish();
                self.ask_trust().await;
                self.load_plugins().await;
            } else {
                let here = crate::home::tilde(&self.setup.cwd);
                notices.push(format!("this session's directory {} is gone; it goes on in {here}", cwd.display()));
            }
        }
        self.enter(session, notices).await;
    }

    async fn fork(&mut self, to: Option<EntryId>) {
        let Some(path) = self.session.path().filter(|_| self.session.is_on_disk()).map(Path::to_owned) else {
            return self.bus.notice("there is nothing to fork yet: the session is not on disk").await;
        };
        match Session::fork(&self.setup.home, &path, to) {
            Ok(session) => {
                let from = self.session.header().id.clone();
                self.enter(session, vec![format!("forked from {from}")]).await;
            }
            Err(error) => self.bus.notice(error.to_string()).await,
        }
    }

    /// Continues from another place in the tree. Where files are to go along and cannot, nothing is moved.
    async fn move_leaf(&mut self, place: Place, restore: Restore, summarise: bool) {
        let to = place.leaf;
        if to.is_some_and(|id| self.session.tree().find(id).is_none()) {
            return self.bus.notice("that entry is not in this session").await;
        }
        let (files, conversation) = match restore {
            Restore::Conversation => (None, true),
            Restore::Both { force } => (Some(force), true),
            Restore::Files { force } => (Some(force), false),
        };
        // The summary is of the branch as it is, before anything moves.
        let summary = if summarise && conversation { self.summarise_branch(to).await } else { None };
        if self.cancel.is_cancelled() {
            return self.bus.notice("interrupted; nothing was moved").await;
        }
        let from = self.session.tree().leaf_id();
        if conversation && from != to {
            self.append_record(Record::Leaf { target_id: to }).await;
        }
        let mut notices = Vec::new();
        match files {
            None => {}
            Some(force) => match self.restore_files(place, force).await {
                Ok(told) => notices.push(told),
                Err(why_not) => {
                    if conversation && from != to {
                        self.append_record(Record::Leaf { target_id: from }).await;
                    }
                    return self.bus.notice(why_not).await;
                }
            },
        }
        if let (Some(summary), Some(from_id)) = (summary, from) {
            self.append_record(Record::BranchSummary { from_id, summary }).await;
        }
        if conversation {
            self.resume();
            // Notices go with it: what was shown before is shown no more.
            self.tell_session(notices).await;
            self.tell_settings().await;
        } else {
            for notice in notices {
                self.bus.notice(notice).await;
            }
        }
    }

    /// Asks once whether what the project brings is trusted.
    pub(super) async fn ask_trust(&self) {
        if let Some((brought, Standing::Unknown | Standing::Changed)) = &self.loaded.project
            && !self.setup.headless
        {
            self.bus.send(Update::Trust(brought.lines())).await;
        }
    }

    /// Remembers the person's answer. It is bound to what was shown: files that changed meanwhile are asked again.
    async fn trust(&mut self, yes: bool) {
        let Some((brought, _)) = &self.loaded.project else { return };
        match Trust::answer(&self.setup.home, brought, yes) {
            Ok(()) if yes => self.reload().await,
            Ok(()) => {}
            Err(error) => self.bus.notice(format!("trust.json was not changed: {error}; mend it or remove it")).await,
        }
    }

    async fn reload(&mut self) {
        self.loaded = self.setup.load();
        self.furnish();
        self.load_plugins().await;
        if let Some(model) = self.model.as_ref().and_then(|model| self.loaded.select(&model.reference()).ok()) {
            self.model = Some(model);
        }
        for notice in self.loaded.notices.clone() {
            self.bus.notice(notice).await;
        }
        self.tell_settings().await;
    }

    /// Runs a command of the person's own and stores it.
    async fn shell(&mut self, command: String, in_context: bool) {
        let jobs = Arc::default();
        let tools = tool::builtin(&jobs);
        let Some(bash) = tools.get("bash").cloned() else { return };
        let (live, mut chunks) = mpsc::channel(64);
        let context = ToolContext {
            call_id: format!("shell_{}", self.session.tree().next_id().0),
            cwd: self.setup.cwd.clone(),
            cancel: self.cancel.clone(),
            live: LiveOutput::new("shell", live),
            outputs: self.setup.home.outputs_of(&self.session.header().id),
            images: false,
            shell: Arc::new(self.loaded.shell()),
        };
        let arguments = serde_json::Map::from_iter([("command".to_owned(), command.as_str().into())]);
        let work = bash.run(context, arguments);
        tokio::pin!(work);
        let result = loop {
            tokio::select! {
                biased;
                Some(chunk) = chunks.recv() => self.bus.send(Update::ShellOutput(chunk.text)).await,
                result = &mut work => break result,
            }
        };
        while let Ok(chunk) = chunks.try_recv() {
            self.bus.send(Update::ShellOutput(chunk.text)).await;
        }
        let (output, exit_code) = match result {
            Ok(output) => (text_of(&output.content), output.exit_code.or((!output.is_error).then_some(0))),
            Err(error) => (format!("[{error}]"), None),
        };
        self.append_record(Record::Shell { command, output, exit_code, in_context }).await;
    }
}
