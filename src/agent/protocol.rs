//! What passes between the agent and a front end: [`Command`]s in, [`Update`]s out. A front end knows the
//! agent by these alone.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::choice::{Mode, Thinking};
use crate::event::{ContextUsage, Event};
use crate::message::{Usage, UserMessage};
use crate::model::Model;
use crate::session::{Entry, EntryId, Header, Tree};
use crate::toolkit::{Risk, View};

/// What a front end asks of the agent.
#[derive(Debug)]
pub enum Command {
    /// A message of the person's. While a run goes on it is queued as `delivery` says.
    Prompt {
        /// The message.
        message: UserMessage,
        /// When it goes in.
        delivery: Delivery,
    },
    /// Interrupts whatever goes on: model call, tools, retry wait, compaction. Queued messages come back in
    /// [`Update::Returned`].
    Interrupt,
    /// Gives the queued messages back in [`Update::Returned`].
    TakeBack,
    /// Runs a command of the person's own.
    Shell {
        /// The command.
        command: String,
        /// Whether the model gets it and its output.
        in_context: bool,
    },
    /// Another model from here on, as `provider/id`.
    SetModel(String),
    /// Another thinking level from here on.
    SetThinking(Thinking),
    /// Another mode.
    SetMode(Mode),
    /// Compacts the context now.
    Compact {
        /// What the summary should look at, in the person's words.
        instructions: Option<String>,
    },
    /// Begins a new session in the same directory.
    NewSession,
    /// Opens another session.
    OpenSession(PathBuf),
    /// Forks the path to an entry into a new session and goes there. `None`: the path to the leaf (a clone).
    Fork {
        /// The last entry that is taken along.
        to: Option<EntryId>,
    },
    /// Continues from another place in the tree.
    MoveLeaf {
        /// Where.
        to: Place,
        /// What happens to the files.
        restore: Restore,
        /// Puts a summary of the branch that is left into the context.
        summarise: bool,
    },
    /// What [`Restore`] would change, in [`Update::RestorePreview`].
    PreviewRestore {
        /// The place whose files are meant.
        to: Place,
    },
    /// Takes back what the last run changed in files, or the last restore.
    Undo {
        /// Overwrites also what somebody else has changed since.
        force: bool,
    },
    /// Names an entry; `None` takes the name away.
    Label {
        /// Which entry.
        target: EntryId,
        /// The name.
        label: Option<String>,
    },
    /// Names the session.
    Name(String),
    /// Trusts what the project brings as it stands now, or declines it.
    Trust(bool),
    /// Reads models, settings, rules, skills and plugins again.
    Reload,
    /// Runs a command of a plugin's.
    PluginCommand {
        /// Its name.
        name: String,
        /// What stands behind it.
        argument: String,
    },
}

/// When a message goes in while a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// After the running tool calls, before the next model call.
    Steer,
    /// When the run ends.
    FollowUp,
}

/// A place in the tree to go on from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// The new leaf; `None`: before the first entry.
    pub leaf: Option<EntryId>,
    /// The message of the person's that is sent anew from there: the files meant are those from right before it.
    pub anew: Option<EntryId>,
}

/// What goes back when the leaf moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restore {
    /// The conversation alone.
    Conversation,
    /// The conversation and the files. `force` overwrites what somebody else has changed since.
    Both {
        /// The person was shown the conflicts and said yes.
        force: bool,
    },
    /// The files alone.
    Files {
        /// The person was shown the conflicts and said yes.
        force: bool,
    },
}

/// What the agent tells a front end.
#[derive(Debug)]
pub enum Update {
    /// What plugins there are, or what they add, has changed.
    Plugins,
    /// Something happened in a run; the same events as `--json` prints.
    Event(Event),
    /// Another session, or another place in it: everything that is shown begins anew.
    Session(Box<SessionState>),
    /// An entry was appended to the session (also one that an [`Event`] tells of).
    Appended(Arc<Entry>),
    /// What the agent is doing now.
    Activity(Activity),
    /// The messages that wait, in order.
    Queue(Vec<Queued>),
    /// Messages that come back to the prompt, in order.
    Returned(Vec<UserMessage>),
    /// The model, thinking level, mode or context changed.
    Settings(Box<AgentSettings>),
    /// A call waits for the person.
    Review(ReviewRequest),
    /// The project brings files that do nothing until the person trusts them: a line for each.
    Trust(Vec<String>),
    /// What a restore of files would change.
    RestorePreview(RestorePreview),
    /// Output of a command of the person's own, as it comes.
    ShellOutput(String),
}

/// A whole session, as it is opened.
#[derive(Debug, Clone)]
pub struct SessionState {
    /// The header of its file.
    pub header: Header,
    /// The file; `None` where nothing is kept. It need not be there yet.
    pub path: Option<PathBuf>,
    /// Its entries.
    pub tree: Tree,
    /// All that it has used so far.
    pub usage: Usage,
    /// What loading it brought up, such as lines that could not be read.
    pub notices: Vec<String>,
}

/// What the agent is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activity {
    /// Nothing: it waits for a message.
    #[default]
    Idle,
    /// A run goes on.
    Running,
    /// The context is being compacted.
    Compacting,
    /// A command of the person's own runs.
    Shell,
}

/// A message that waits.
#[derive(Debug, Clone, PartialEq)]
pub struct Queued {
    /// The message.
    pub message: UserMessage,
    /// When it goes in.
    pub delivery: Delivery,
}

/// What is in force.
#[derive(Debug, Clone, Default)]
pub struct AgentSettings {
    /// Who answers; `None` where no model is configured.
    pub model: Option<Arc<Model>>,
    /// How much it thinks.
    pub thinking: Thinking,
    /// What runs without a question.
    pub mode: Mode,
    /// What stands in the window, by our own estimate.
    pub context: ContextUsage,
    /// What fills it, as (what, tokens), without what is free.
    pub context_parts: Vec<(String, u64)>,
}

/// A call that waits for the person's answer.
#[derive(Debug)]
pub struct ReviewRequest {
    /// The call's id.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// What it is about, in a line.
    pub title: String,
    /// What it can do.
    pub risk: Risk,
    /// Why it is asked.
    pub reason: String,
    /// The command that it would run, where it runs one.
    pub command: Option<CommandLine>,
    /// What else there is to see: what it would change, or what came of it before.
    pub view: Option<View>,
    /// The rule that `always` would add, such as `bash(cargo test:*)`.
    pub rule: Option<String>,
    /// Takes the answer; dropped, it counts as no.
    pub answer: oneshot::Sender<ReviewAnswer>,
}

/// A command and what is to be looked at twice in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The command as it would run.
    pub text: String,
    /// Its dangers, in the order in which they stand in it.
    pub dangers: Vec<Danger>,
}

/// A dangerous part of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Danger {
    /// Its bytes in the command.
    pub at: std::ops::Range<usize>,
    /// What is dangerous about it, as a sentence without its full stop.
    pub why: &'static str,
}

/// The person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReviewAnswer {
    /// Yes, this once.
    Once,
    /// Yes, and the same for the rest of the session.
    Session,
    /// Yes, and a rule in the settings.
    Always,
    /// No, with a reason for the model.
    No(String),
}

/// What a restore of files would change.
#[derive(Debug, Clone, Default)]
pub struct RestorePreview {
    /// The place that was asked about.
    pub to: Place,
    /// Why no files can be restored, where none can.
    pub unavailable: Option<String>,
    /// Paths that would be written, made or deleted, with what would happen to them.
    pub changes: Vec<(String, FileChange)>,
    /// Those of them that somebody else has changed since.
    pub conflicts: Vec<String>,
}

/// What would happen to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChange {
    /// It is not there now and would be.
    Created,
    /// It would get other content or another mode.
    Modified,
    /// It would go.
    Deleted,
}
