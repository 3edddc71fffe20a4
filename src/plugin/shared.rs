//! What is known of a plugin, seen from its thread and from outside.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;

use super::budget::Budget;
use super::grants::Permission;
use super::hooks::Hook;
use crate::toolkit::{Risk, ShellSettings};

/// Whose plugin it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The person's own, in `~/.violin/plugins`.
    Own,
    /// A trusted project's, in `.violin/plugins`.
    Project,
}

/// Whether a plugin takes part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Its top level still runs.
    Loading,
    /// It takes part.
    Active,
    /// It asks for permissions that were not granted to this content.
    Waiting,
    /// The person switched it off for this session.
    Off,
    /// It failed, and is off for this session.
    Failed,
}

/// A tool that a plugin adds.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
    /// What it can do.
    pub risk: Risk,
}

/// What a plugin says of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Info {
    /// Its name.
    pub name: String,
    /// Its version; may be empty.
    pub version: String,
    /// What it does.
    pub description: String,
    /// What it asks for.
    pub permissions: Vec<Permission>,
    /// What it listens to.
    pub hooks: Vec<Hook>,
    /// Tools that it adds.
    pub tools: Vec<ToolInfo>,
    /// Slash commands that it adds, with what they do.
    pub commands: BTreeMap<String, String>,
}

/// What changes about a plugin.
#[derive(Debug)]
pub struct Facts {
    /// What it says of itself, once it is loaded; before that, its file's name.
    pub info: Arc<Info>,
    /// Whether it takes part.
    pub state: State,
    /// How often it was called.
    pub calls: u64,
    /// How long that took.
    pub time: Duration,
    /// What went wrong last.
    pub last_error: Option<String>,
}

/// A plugin, as both sides know it.
#[derive(Debug)]
pub struct Shared {
    /// Its file's name: plugins run in the order of these.
    pub file: String,
    /// Whose it is.
    pub origin: Origin,
    /// Its file.
    pub path: PathBuf,
    /// SHA-256 of the file.
    pub hash: String,
    /// The time of its calls.
    pub budget: Arc<Budget>,
    /// Takes what it tells the person.
    pub told: Arc<Told>,
    facts: Mutex<Facts>,
}

impl Shared {
    /// A plugin that is still to be loaded.
    pub fn new(file: String, origin: Origin, path: PathBuf, hash: String, told: Arc<Told>) -> Self {
        let name = file.trim_end_matches(".lua").to_owned();
        let facts = Facts {
            info: Arc::new(Info { name, ..Info::default() }),
            state: State::Loading,
            calls: 0,
            time: Duration::ZERO,
            last_error: None,
        };
        Shared { file, origin, path, hash, budget: Arc::default(), told, facts: Mutex::new(facts) }
    }

    /// What changes about it. Nothing is done while it is held but to look and to set.
    pub fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it takes part.
    pub fn is_active(&self) -> bool {
        self.facts().state == State::Active
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.facts().info.name.clone()
    }

    /// It failed and takes no part any more, which is told the first time.
    pub fn fail(&self, what: &str) {
        let mut facts = self.facts();
        facts.last_error = Some(what.to_owned());
        if std::mem::replace(&mut facts.state, State::Failed) != State::Failed {
            self.told.push(format!("the plugin `{}` is off for this session: {what}", facts.info.name));
        }
    }

    /// It is loaded, and takes part unless it asks for what was not granted, which is told.
    pub fn loaded(&self, info: Info, granted: bool) {
        let mut facts = self.facts();
        if !granted {
            let wanted = words(&info.permissions);
            let name = &info.name;
            self.told.push(format!("the plugin `{name}` asks for {wanted} and is off until you allow that: /plugins, or `violin plugins allow {name}`"));
        }
        facts.state = if granted { State::Active } else { State::Waiting };
        facts.info = Arc::new(info);
    }
}

/// Permissions in words.
pub fn words(permissions: &[Permission]) -> String {
    let words: Vec<&str> = permissions.iter().map(|permission| permission.name()).collect();
    words.join(", ")
}

/// What plugins tell the person. Nobody who tells waits: a plugin's thread may be waited for by who should listen.
#[derive(Debug, Default)]
pub struct Told {
    waiting: Mutex<VecDeque<String>>,
    more: Notify,
}

/// So much waits to be told; what is more is left out, and that is told.
const WAITING: usize = 64;

impl Told {
    /// Tells something.
    pub fn push(&self, text: String) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.len() {
            0..WAITING => waiting.push_back(text),
            WAITING => waiting.push_back("plugins tell more than can be shown; the rest is left out".to_owned()),
            _ => {}
        }
        self.more.notify_one();
    }

    /// What waits.
    pub fn take(&self) -> Vec<String> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    /// Waits until something is told. One may wait at a time.
    pub async fn next(&self) -> Vec<String> {
        loop {
            let waiting = self.take();
            if !waiting.is_empty() {
                return waiting;
            }
            self.more.notified().await;
        }
    }
}

/// What plugins know of where they run.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// The directory that is worked in.
    pub cwd: PathBuf,
    /// The session's id, where it is on disk.
    pub session: Option<String>,
    /// Where whole outputs of commands are kept.
    pub outputs: PathBuf,
    /// How commands run.
    pub shell: Arc<ShellSettings>,
}
