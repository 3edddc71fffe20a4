//! What a tool is: the [`Tool`] trait, what it is given, and what it gives back.
//!
//! The trait stands on the lowest floor because everybody names it: the tools themselves, the Lua host that
//! adds more of them, the agent that runs them, and the front ends that render a [`View`] without ever
//! asking for a tool's name.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::message::{Block, Effect};

/// The arguments of a call: a JSON object that its schema has been checked against.
pub type Arguments = Map<String, Value>;

/// A tool that a model can call.
pub trait Tool: Send + Sync {
    /// The name that the model calls it by: `[a-zA-Z0-9_-]`, at most 64 characters.
    fn name(&self) -> &str;

    /// What it does, for the model: as short as it can be, since it is sent with every request.
    fn description(&self) -> &str;

    /// The JSON Schema of its arguments: an object schema.
    fn parameters(&self) -> Value;

    /// What a call of it can do to the machine.
    fn risk(&self) -> Risk;

    /// A line for the person that says what this call is about, such as the path or the command.
    fn title(&self, arguments: &Arguments) -> String;

    /// The path that the call would write, where it writes one: calls on one real path run one after another.
    fn writes(&self, _arguments: &Arguments) -> Option<String> {
        None
    }

    /// Whether it keeps to [`ShellSettings::fence`] in all that it does.
    fn fenced(&self) -> bool {
        false
    }

    /// Mends shapes of arguments that models are known to send, before they are checked against the schema.
    fn prepare(&self, arguments: Arguments) -> Arguments {
        arguments
    }

    /// What the call would change, to be shown when the person is asked; computed without changing anything.
    fn preview(&self, _context: &ToolContext, _arguments: &Arguments) -> Option<View> {
        None
    }

    /// Runs the call. It returns soon after `context.cancel` is cancelled, and leaves nothing running then.
    fn run<'a>(&'a self, context: ToolContext, arguments: Arguments) -> BoxFuture<'a, Result<ToolOutput, ToolError>>;
}

/// What a call can do to the machine (product.md, "Modes and review").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// It only looks.
    ReadOnly,
    /// It changes files that its arguments name.
    Write,
    /// It runs a program.
    Command,
}

/// What a running call knows of the world around it.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The call's id.
    pub call_id: String,
    /// The session's directory: relative paths start here.
    pub cwd: PathBuf,
    /// Cancelled when the person interrupts or the run ends.
    pub cancel: CancellationToken,
    /// Takes output while the call runs.
    pub live: LiveOutput,
    /// Where whole outputs that were cut for the model are kept (0700; made when first needed).
    pub outputs: PathBuf,
    /// Whether the model takes images.
    pub images: bool,
    /// What commands run under.
    pub shell: Arc<ShellSettings>,
}

/// How commands are run.
#[derive(Debug, Clone, PartialEq)]
pub struct ShellSettings {
    /// The shell, from settings; `None` looks for bash, then sh.
    pub program: Option<String>,
    /// Seconds after which a command without a timeout of its own is ended.
    pub timeout_s: u64,
    /// Milliseconds between SIGTERM and SIGKILL.
    pub kill_grace_ms: u64,
    /// Environment variables that are set for every command.
    pub env: Vec<(String, String)>,
    /// What commands are kept to; `None`: they run with the person's rights.
    pub fence: Option<Arc<Fence>>,
}

/// What a sandboxed command is kept to. Reading is not fenced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fence {
    /// Files and folders whose content it may create, change and delete.
    pub write: Vec<PathBuf>,
    /// Whether it may use TCP.
    pub network: bool,
}

impl Default for ShellSettings {
    fn default() -> Self {
        ShellSettings { program: None, timeout_s: 600, kill_grace_ms: 2000, env: Vec::new(), fence: None }
    }
}

/// Takes output of a call while it runs. Cheap to clone; sending waits when the receiver is slow.
#[derive(Clone)]
pub struct LiveOutput {
    call_id: Arc<str>,
    sender: Option<mpsc::Sender<LiveChunk>>,
}

/// A piece of live output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveChunk {
    /// Whose it is.
    pub call_id: Arc<str>,
    /// What came; colours (SGR) are kept, every other control sequence is already gone.
    pub text: String,
}

impl LiveOutput {
    /// An output whose chunks go to `sender`.
    pub fn new(call_id: &str, sender: mpsc::Sender<LiveChunk>) -> Self {
        LiveOutput { call_id: call_id.into(), sender: Some(sender) }
    }

    /// An output that nobody listens to.
    pub fn none() -> Self {
        LiveOutput { call_id: "".into(), sender: None }
    }

    /// Sends a piece; a receiver that is gone is no error.
    pub async fn send(&self, text: String) {
        if let Some(sender) = &self.sender {
            let _ = sender.send(LiveChunk { call_id: self.call_id.clone(), text }).await;
        }
    }
}

impl fmt::Debug for LiveOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveOutput").field(&self.call_id).finish()
    }
}

/// What a call gives back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// For the model.
    pub content: Vec<Block>,
    /// The call did not do what was asked (a command's exit code, say), though the tool itself worked.
    pub is_error: bool,
    /// A few words for the person, such as `120 lines` or `+3 −1`.
    pub summary: String,
    /// For the person, where it is not the content itself.
    pub view: Option<View>,
    /// Receipts of the files that changed.
    pub effects: Vec<Effect>,
    /// The exit code, of tools that run a command.
    pub exit_code: Option<i32>,
}

impl ToolOutput {
    /// An output of text alone.
    pub fn text(text: impl Into<String>, summary: impl Into<String>) -> Self {
        let content = vec![Block::Text { text: text.into() }];
        ToolOutput { content, summary: summary.into(), ..ToolOutput::default() }
    }
}

/// How a result is shown. The front ends render kinds and never ask for a tool's name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum View {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A file's text, or a part of it, to be highlighted by its name.
    File {
        /// Whose name tells the language.
        path: String,
        /// The number of the first line, from 1.
        first_line: usize,
        /// The text; empty means: the content itself.
        text: String,
    },
    /// A change to one file.
    Diff {
        /// The file.
        path: String,
        /// The changed regions, in order.
        hunks: Vec<Hunk>,
    },
    /// What a command printed: SGR colours may stand in it.
    Terminal {
        /// The output's tail; empty means: the content itself.
        text: String,
        /// The file that holds all of it, where it was cut.
        log: Option<PathBuf>,
    },
    /// Hits of a search, as `file:line: text` lines in the content.
    Matches,
    /// Paths, one a line in the content.
    Paths,
    /// An image.
    Image {
        /// Such as `image/png`.
        mime_type: String,
        /// Pixels; 0 where unknown.
        width: u32,
        /// Pixels; 0 where unknown.
        height: u32,
        /// Of the file, in bytes.
        bytes: u64,
    },
    /// Markdown.
    Markdown {
        /// The source.
        text: String,
    },
    /// A kind that this version does not know.
    #[serde(other)]
    Unknown,
}

/// A changed region with some lines around it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hunk {
    /// The first line's number in the old file, from 1.
    pub old_start: usize,
    /// The first line's number in the new file, from 1.
    pub new_start: usize,
    /// Its lines, without line ends.
    pub lines: Vec<DiffLine>,
}

/// A line of a [`Hunk`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiffLine {
    /// It stands in both.
    #[serde(rename = " ")]
    Context(String),
    /// It is gone.
    #[serde(rename = "-")]
    Removed(String),
    /// It is new.
    #[serde(rename = "+")]
    Added(String),
}

/// Why a call gave no output.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The model should read it and try otherwise.
    #[error("{0}")]
    Model(String),
    /// The call was cancelled.
    #[error("interrupted")]
    Cancelled,
    /// The run cannot go on.
    #[error("{0}")]
    Fatal(String),
}

impl ToolError {
    /// An error that the model should read.
    pub fn model(text: impl Into<String>) -> Self {
        ToolError::Model(text.into())
    }
}

/// The tools of a session, in the order in which the model is told of them.
#[derive(Clone, Default)]
pub struct ToolSet {
    tools: Vec<Arc<dyn Tool>>,
}

impl ToolSet {
    /// A set of these tools.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        ToolSet { tools }
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.name() == name)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter()
    }

    /// Adds tools at the end.
    pub fn extend(&mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) {
        self.tools.extend(tools);
    }

    /// Only the tools whose names are in `names`, in the set's own order.
    pub fn only(&self, names: &[String]) -> Self {
        ToolSet { tools: self.tools.iter().filter(|tool| names.iter().any(|n| n == tool.name())).cloned().collect() }
    }
}

impl fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tools.iter().map(|tool| tool.name())).finish()
    }
}
