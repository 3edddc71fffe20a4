//! The agent's state, and the small steps that everything else is made of: appending, telling, counting.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::bus::Bus;
use super::fallback::Standing;
use super::files::Files;
use super::protocol::{AgentSettings, SessionState, Update};
use super::review::{Grants, Ground};
use super::setup::{Loaded, Setup};
use crate::choice::{Mode, Thinking};
use crate::config::secret;
use crate::context::conversation::{Conversation, SHORTENED, in_force};
use crate::context::tokens;
use crate::event::{ContextUsage, ErrorKind};
use crate::message::{Message, StopReason};
use crate::model::Model;
use crate::provider::{Credentials, Link, ToolDefinition};
use crate::session::{Body, Entry, Record, Session};
use crate::tool::{self, Jobs};
use crate::toolkit::ToolSet;

/// Everything that the agent works with. One task owns it.
pub struct Core {
    pub(super) setup: Setup,
    pub(super) loaded: Loaded,
    pub(super) session: Session,
    pub(super) conversation: Conversation,
    pub(super) link: Link,
    /// Violin's own tools; `tools` are those that the model is told of.
    pub(super) builtin: ToolSet,
    pub(super) tools: ToolSet,
    pub(super) definitions: Arc<[ToolDefinition]>,
    pub(super) system: Arc<str>,
    /// The model that was chosen; who answers for it tells [`Core::model`].
    pub(super) model: Option<Arc<Model>>,
    /// Where a chain stands, if it is one.
    pub(super) standing: Standing,
    pub(super) thinking: Thinking,
    pub(super) mode: Mode,
    pub(super) bus: Bus,
    pub(super) jobs: Arc<Jobs>,
    pub(super) cancel: CancellationToken,
    /// A provider refused what was thought up to this message, so that nothing of that goes back.
    pub(super) forget_thinking: Option<Arc<Message>>,
    pub(super) files: Files,
    pub(super) ground: Ground,
    pub(super) grants: Grants,
    /// It was told in this run that a call was refused because nobody can be asked.
    pub(super) told_denial: bool,
    /// The last compaction made too little room, so that another one by itself would not help.
    pub(super) tight: bool,
    /// Up to which change of plugins `tools` is; `None`: they were not waited for yet.
    pub(super) plugins_seen: Option<u64>,
    /// What was last told of the session not being saved.
    told_problem: Option<String>,
}

/// Why a run cannot go on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct RunError {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// What happened and what to do.
    pub message: String,
}

impl RunError {
    /// A failure of that kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        RunError { kind, message: message.into() }
    }
}

impl Core {
    /// A core for a session. The model and the thinking level are the session's own where it has any.
    pub fn new(setup: Setup, loaded: Loaded, session: Session, model: Option<Arc<Model>>, bus: Bus) -> Self {
        let jobs = Arc::new(Jobs::default());
        let link = Link::new(loaded.timeouts());
        let files = Files::of(&setup.home, &setup.cwd, &loaded.settings.checkpoints);
        let of_session = in_force(session.tree()).1.and_then(|level| level.parse().ok());
        let mut core = Core {
            conversation: Conversation::default(),
            link,
            builtin: ToolSet::default(),
            tools: ToolSet::default(),
            plugins_seen: None,
            definitions: Arc::new([]),
            system: "".into(),
            model,
            standing: Standing::default(),
            thinking: setup.overrides.thinking.or(of_session).unwrap_or(loaded.settings.thinking),
            mode: setup.overrides.mode.unwrap_or(loaded.settings.mode),
            bus,
            jobs,
            cancel: CancellationToken::new(),
            forget_thinking: None,
            files,
            ground: Ground::of(&setup, &loaded),
            grants: Grants::default(),
            told_denial: false,
            tight: false,
            told_problem: None,
            setup,
            loaded,
            session,
        };
        core.furnish();
        core
    }

    /// Makes the tools and the system prompt from what was loaded.
    pub(super) fn furnish(&mut self) {
        self.ground = Ground::of(&self.setup, &self.loaded);
        self.builtin = tool::builtin(&self.jobs);
        self.arm();
        self.system = self.loaded.system(&self.setup.cwd);
    }

    /// Appends an entry, tells of it, and tells where the session is not being saved.
    pub(super) async fn append(&mut self, body: Body) -> Arc<Entry> {
        let entry = self.session.append(body);
        self.bus.send(Update::Appended(entry.clone())).await;
        let problem = self.session.problem().map(str::to_owned);
        if problem != self.told_problem {
            let text = match &problem {
                Some(problem) => format!(
                    "the session is not being saved ({problem}); it goes on in memory and is saved as soon as that works again"
                ),
                None => "the session is being saved again; nothing was lost".to_owned(),
            };
            self.bus.notice(text).await;
            self.told_problem = problem;
        }
        entry
    }

    /// Appends a message.
    pub(super) async fn append_message(&mut self, message: Message) -> Arc<Entry> {
        self.append(Body::Message(Arc::new(message))).await
    }

    /// Appends a record.
    pub(super) async fn append_record(&mut self, record: Record) -> Arc<Entry> {
        self.append(Body::Record(record)).await
    }

    /// Makes what was written safe against a loss of power, off the path.
    pub(super) fn sync(&self) {
        if let Some(file) = self.session.handle() {
            // A file system that cannot sync still has the data; there is nothing that anybody could do.
            tokio::task::spawn_blocking(move || drop(file.sync_data()));
        }
    }

    /// A model's key and headers, expanded.
    ///
    /// # Errors
    /// Where a variable is not set or a command fails; nothing was asked then.
    pub(super) async fn credentials(&self, model: &Model) -> Result<Credentials, RunError> {
        let env = self.setup.env.clone();
        let resolve = async |text| {
            secret::resolve(text, &*env).await.map_err(|error| {
                let text = format!("{error}; the provider `{}` in models.json needs it", model.provider);
                RunError::new(ErrorKind::Config, text)
            })
        };
        let api_key = match &model.api_key {
            Some(text) => Some(resolve(text).await?),
            None => None,
        };
        let mut headers = Vec::with_capacity(model.headers.len());
        for (name, text) in &model.headers {
            headers.push((name.clone(), resolve(text).await?));
        }
        Ok(Credentials { api_key, headers })
    }

    /// What stands in the window: what the last answer used, and an estimate of what came after it.
    pub(super) fn context(&mut self) -> ContextUsage {
        let window = self.model().map_or(0, |model| model.context_window);
        let messages = self.conversation.messages(self.session.tree());
        ContextUsage::new(self.count(&messages), window)
    }

    /// The tokens that a request with these messages takes.
    pub(super) fn count(&self, messages: &[Arc<Message>]) -> u64 {
        let fixed = self.fixed_tokens();
        let known = messages.iter().enumerate().rev().find_map(|(index, message)| match message.as_ref() {
            // What a failed answer reports is not what its context took; what was reported before a compaction
            // counted what is no more there.
            Message::Assistant(answer) if !matches!(answer.stop_reason, StopReason::Error | StopReason::Aborted) => {
                let usage = answer.usage.filter(|usage| usage.total() > 0)?;
                Some((index, usage.total()))
            }
            _ => None,
        });
        let estimate =
            |messages: &[Arc<Message>]| messages.iter().map(|message| tokens::of_message(message)).sum::<u64>();
        let whole = fixed + estimate(messages);
        match known {
            // Some servers report next to nothing; less than half of what we see ourselves is not believed.
            Some((index, used)) if !self.compacted_since(messages, index) => {
                used.saturating_add(estimate(&messages[index + 1..])).max(whole / 2)
            }
            _ => whole,
        }
    }

    /// Whether the answer at `index` was asked before the newest compaction on the path, so that its usage tells of
    /// a context that is gone.
    fn compacted_since(&self, messages: &[Arc<Message>], index: usize) -> bool {
        let tree = self.session.tree();
        for node in tree.path(tree.leaf()).into_iter().rev() {
            let entry = &tree.nodes()[node].entry;
            match &entry.body {
                Body::Record(Record::Compaction { .. }) => return true,
                Body::Record(Record::Custom { plugin, .. }) if plugin == SHORTENED => return true,
                Body::Message(message) if Arc::ptr_eq(message, &messages[index]) => return false,
                _ => {}
            }
        }
        false
    }

    /// The tokens of the system prompt and the tools.
    pub(super) fn fixed_tokens(&self) -> u64 {
        let tools = self.definitions.iter().map(|tool| {
            tokens::of_text(&tool.name)
                + tokens::of_text(&tool.description)
                + tokens::of_text(&tool.parameters.to_string())
        });
        tokens::of_text(&self.system) + tools.sum::<u64>()
    }

    /// Tells what is in force.
    pub(super) async fn tell_settings(&mut self) {
        let context = self.context();
        let settings = AgentSettings {
            model: self.model.clone(),
            thinking: self.thinking,
            mode: self.mode,
            context,
            context_parts: self.context_parts(),
        };
        self.bus.send(Update::Settings(Box::new(settings))).await;
    }

    /// Tells the whole session anew.
    pub(super) async fn tell_session(&mut self, notices: Vec<String>) {
        let state = SessionState {
            header: self.session.header().clone(),
            path: self.session.path().map(PathBuf::from),
            tree: self.session.tree().clone(),
            usage: self.session.usage(),
            notices,
        };
        self.bus.send(Update::Session(Box::new(state))).await;
    }

    /// What fills the window, by our own estimate.
    fn context_parts(&mut self) -> Vec<(String, u64)> {
        let rules: u64 = self.loaded.prompt.rules.iter().map(|rules| tokens::of_text(&rules.text)).sum();
        let skills = self.loaded.prompt.skills.iter().filter(|skill| !skill.hidden);
        let skills: u64 = skills.map(|skill| tokens::of_text(&skill.description) + tokens::of_text(&skill.name)).sum();
        let system = tokens::of_text(&self.system);
        let tools = self.fixed_tokens() - system;
        let (mut talk, mut results) = (0, 0);
        for message in self.conversation.messages(self.session.tree()) {
            let count = tokens::of_message(&message);
            match message.as_ref() {
                Message::Tool(_) => results += count,
                Message::User(_) | Message::Assistant(_) => talk += count,
            }
        }
        let prompt = system.saturating_sub(rules + skills);
        let parts = [
            ("prompt", prompt),
            ("tools", tools),
            ("rules", rules),
            ("skills", skills),
            ("messages", talk),
            ("tool results", results),
        ];
        parts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
    }
}
