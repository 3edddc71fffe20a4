//! What comes into the interface and what goes out of it, as data: [`Msg`] in, [`Effect`] out.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::highlight::Coloured;
use super::keys::Bindings;
use super::plugins::PluginAct;
use super::prompt::chips::Image;
use super::sources::{Extra, ExtraKind, ModelChoice, SessionRow, SessionScope};
use super::term::Input;
use super::transcript::{Tone, Wanted};
use crate::agent::{Command, Delivery, Update};
use crate::plugin::PluginRow;
use crate::theme::Theme;

/// What came.
#[derive(Debug)]
pub enum Msg {
    /// From the terminal.
    Input(Input),
    /// From the agent.
    Update(Update),
    /// The terminal has another size.
    Resize(u16, u16),
    /// Time passed while something moves.
    Tick,
    /// From an effect.
    Done(Done),
}

/// What an effect brought.
#[derive(Debug)]
pub enum Done {
    /// All models.
    Models(Vec<ModelChoice>),
    /// Sessions.
    Sessions(SessionScope, Vec<SessionRow>),
    /// The files of the sessions in which a query was said.
    Found(String, Vec<PathBuf>),
    /// Further commands.
    Extras(Vec<Extra>),
    /// Prompts of before.
    History(Vec<String>),
    /// Completions for a text.
    Matches {
        /// The prompt's version that they are for.
        version: u64,
        /// What would be put in, the best first.
        items: Vec<String>,
    },
    /// The text from the editor.
    Edited(Result<String, String>),
    /// What the clipboard held.
    Pasted(Result<Clip, String>),
    /// An image that was read from a file, or the text to put in where it is none.
    Attached(Result<Image, String>, String),
    /// Colours for code.
    Coloured(Coloured),
    /// A theme that was read.
    Theme(Result<Box<Theme>, String>),
    /// The branch and the number of changed files.
    Git(Option<String>, usize),
    /// A further command's text.
    Expanded(Result<String, String>, Delivery),
    /// A session was renamed or deleted, or that failed.
    SessionsChanged(Result<(), String>),
    /// All plugins.
    Plugins(Vec<PluginRow>),
    /// What came of an act on a plugin.
    PluginActed(Result<String, String>),
    /// Models that models.json lacks, and what went wrong with some providers.
    Offered(Vec<(String, String)>, Vec<String>),
    /// A model was added to models.json: its reference.
    Added(String),
    /// Something to tell.
    Toast(String, Tone),
    /// Bindings that were read, with what is wrong with them.
    Bindings(Box<Bindings>, Vec<String>),
    /// A file that is watched changed.
    Changed(PathBuf),
    /// The names of all themes.
    Themes(Vec<String>),
    /// A text that the clipboard did not take, and why not.
    Uncopied(String, String),
    /// A whole output from its file.
    Log(PathBuf, Result<String, String>),
}

/// What a clipboard held.
#[derive(Debug)]
pub enum Clip {
    /// A text.
    Text(String),
    /// An image.
    Image(Image),
}

/// What is to be done outside.
#[derive(Debug)]
pub enum Effect {
    /// Tell the agent.
    Command(Command),
    /// Leave.
    Quit,
    /// Stop until `fg`.
    Suspend,
    /// Repaint everything.
    Repaint,
    /// Read the models.
    Models,
    /// Read the sessions.
    Sessions(SessionScope),
    /// Look for a text in what was said in sessions.
    SearchSessions(SessionScope, String),
    /// Read the further commands.
    Extras,
    /// Read prompts of before.
    History,
    /// Keep a prompt.
    Remember(String),
    /// Complete a file's name.
    Match {
        /// What was typed of it.
        query: String,
        /// The prompt's version.
        version: u64,
        /// How.
        how: Completion,
    },
    /// Open the editor on a text.
    Edit(String),
    /// Read the clipboard.
    Paste,
    /// Read an image file.
    Attach(PathBuf, String),
    /// Put a text into the clipboard.
    Copy(String),
    /// Ask the terminal to put a text into its clipboard.
    CopyThroughTerminal(String),
    /// Read the key bindings.
    Bindings,
    /// Colour code.
    Highlight(Wanted),
    /// Tell the person that something happened unseen.
    Notify(String),
    /// Read a theme.
    Theme(String),
    /// List the themes.
    Themes,
    /// Look at the repository.
    Git,
    /// Expand a further command.
    Expand(ExtraKind, String, String, Delivery),
    /// Save a setting.
    Save(&'static str, Value),
    /// Name a session.
    Rename(PathBuf, String),
    /// Delete a session.
    Delete(PathBuf),
    /// Read the plugins.
    Plugins,
    /// Do something about a plugin.
    Plugin(PluginAct),
    /// Ask the providers for models that models.json lacks.
    Offered,
    /// Add a model to models.json: provider and id.
    AddModel(String, String),
    /// Write models.json.
    WriteModels,
    /// Write the session out.
    Export(PathBuf, Option<String>),
    /// Switch mouse reports.
    Mouse(bool),
    /// Read a whole output.
    ReadLog(PathBuf),
    /// The window's title.
    Title(Arc<str>),
}

/// How a name is completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// Fuzzily among the files of the project.
    Project,
    /// As a path, step by step.
    Path,
}
