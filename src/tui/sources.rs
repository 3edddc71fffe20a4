//! What the interface asks of the rest of the program, as closures that the command line supplies: the
//! interface itself reads no configuration and no session folder. They may block and are called off the loop.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::plugins::PluginAct;
use crate::model::Cost;
use crate::plugin::PluginRow;

/// A model that can be chosen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelChoice {
    /// Its provider.
    pub provider: String,
    /// Its id.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Tokens that fit.
    pub context_window: u64,
    /// Its price; `None` where unknown.
    pub cost: Option<Cost>,
    /// Whether it takes images.
    pub images: bool,
    /// Whether it can think.
    pub reasoning: bool,
    /// Whether it can be asked now.
    pub usable: bool,
    /// Why not, such as the variable that is not set.
    pub reason: Option<String>,
}

/// A session that can be opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionRow {
    /// Its id.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// The directory that it works in.
    pub cwd: String,
    /// The name that it was given.
    pub name: Option<String>,
    /// The first thing that the person said.
    pub first_message: String,
    /// How many messages it has; `None`: not counted yet.
    pub messages: Option<usize>,
    /// Unix seconds of the last change.
    pub updated_at: i64,
    /// What it cost; `None` where unknown.
    pub cost_usd: Option<f64>,
}

/// Which sessions are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionScope {
    /// Those of this directory.
    Here,
    /// All.
    Everywhere,
}

/// What kind of thing a further slash command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtraKind {
    /// A skill, run as `/skill:NAME`.
    Skill,
    /// A prompt template, run as `/NAME`.
    Template,
    /// A plugin's command, run as `/NAME`.
    Plugin,
}

/// A slash command that is not built in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extra {
    /// What it is.
    pub kind: ExtraKind,
    /// Its name.
    pub name: String,
    /// What it does, in a line.
    pub description: String,
}

type Shared<T> = Arc<T>;

/// The closures.
#[derive(Clone)]
#[allow(clippy::type_complexity, reason = "each type stands once, and its name is its field's")]
pub struct Sources {
    /// All configured models.
    pub models: Shared<dyn Fn() -> Vec<ModelChoice> + Send + Sync>,
    /// Sessions, the newest first, at once: what takes longer to know is left out.
    pub sessions: Shared<dyn Fn(SessionScope) -> Vec<SessionRow> + Send + Sync>,
    /// The same with everything, which may take a while.
    pub counted_sessions: Shared<dyn Fn(SessionScope) -> Vec<SessionRow> + Send + Sync>,
    /// The files of the sessions in which a text was said. The function is asked whether nobody wants to know any more.
    pub search_sessions: Shared<dyn Fn(SessionScope, &str, &dyn Fn() -> bool) -> Vec<PathBuf> + Send + Sync>,
    /// Skills, templates and commands of plugins.
    pub extras: Shared<dyn Fn() -> Vec<Extra> + Send + Sync>,
    /// The text that a skill or a template stands for; an empty text sends nothing.
    pub expand: Shared<dyn Fn(ExtraKind, &str, &str) -> Result<String, String> + Send + Sync>,
    /// Saves one of the settings.
    pub save_setting: Shared<dyn Fn(&str, &Value) -> Result<(), String> + Send + Sync>,
    /// Names a session.
    pub rename_session: Shared<dyn Fn(&Path, &str) -> Result<(), String> + Send + Sync>,
    /// Deletes a session.
    pub delete_session: Shared<dyn Fn(&Path) -> Result<(), String> + Send + Sync>,
    /// All plugins.
    pub plugins: Shared<dyn Fn() -> Vec<PluginRow> + Send + Sync>,
    /// Does something about a plugin, and says what came of it.
    pub plugin_act: Shared<dyn Fn(&PluginAct) -> Result<String, String> + Send + Sync>,
    /// Asks the providers what they offer: models that models.json lacks, as provider and id, and what went wrong.
    pub offered: Shared<dyn Fn() -> (Vec<(String, String)>, Vec<String>) + Send + Sync>,
    /// Adds a model of a provider to models.json.
    pub add_model: Shared<dyn Fn(&str, &str) -> Result<(), String> + Send + Sync>,
    /// Writes models.json from what was found at the first start, and says where.
    pub write_models: Shared<dyn Fn() -> Result<String, String> + Send + Sync>,
    /// Writes a session out as HTML or Markdown, by the file's ending, and says where.
    pub export: Shared<dyn Fn(&Path, Option<&str>) -> Result<String, String> + Send + Sync>,
}

impl Sources {
    /// Sources that have nothing and save nothing.
    pub fn empty() -> Self {
        let no = || Err("not available here".to_owned());
        Sources {
            models: Arc::new(Vec::new),
            sessions: Arc::new(|_| Vec::new()),
            counted_sessions: Arc::new(|_| Vec::new()),
            search_sessions: Arc::new(|_, _, _| Vec::new()),
            extras: Arc::new(Vec::new),
            expand: Arc::new(move |_, _, _| Err("not available here".to_owned())),
            save_setting: Arc::new(move |_, _| no()),
            rename_session: Arc::new(move |_, _| no()),
            delete_session: Arc::new(move |_| no()),
            plugins: Arc::new(Vec::new),
            plugin_act: Arc::new(move |_| Err("not available here".to_owned())),
            offered: Arc::new(|| (Vec::new(), Vec::new())),
            add_model: Arc::new(|_, _| Err("not available here".to_owned())),
            write_models: Arc::new(|| Err("not available here".to_owned())),
            export: Arc::new(move |_, _| Err("not available here".to_owned())),
        }
    }
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sources")
    }
}
