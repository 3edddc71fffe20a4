//! What the agent starts from: the person's files, what the command line says over them, and what follows.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::choice::{Mode, Thinking};
use crate::config::models::SelectError;
use crate::config::trust::{Brought, Standing, Trust};
use crate::config::{Models, Settings};
use crate::context::prompt::{PromptParts, system};
use crate::context::{read_text, rules, skills};
use crate::home::Home;
use crate::model::Model;
use crate::plugin::Host;
use crate::provider::Timeouts;
use crate::provider::retry::RetryPolicy;
use crate::toolkit::ShellSettings;

/// Looks up a variable of the environment.
pub type Env = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What the agent starts from.
#[derive(Clone)]
pub struct Setup {
    /// Where Violin keeps its files.
    pub home: Home,
    /// The directory that is worked in.
    pub cwd: PathBuf,
    /// What the command line says.
    pub overrides: Overrides,
    /// The environment.
    pub env: Env,
    /// What there is while there is no models.json.
    pub models: Option<Models>,
    /// Nobody can be asked anything.
    pub headless: bool,
    /// The plugins; they are loaded when the agent begins.
    pub plugins: Arc<Host>,
}

/// What the command line says, over any file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The model.
    pub model: Option<String>,
    /// The thinking level.
    pub thinking: Option<Thinking>,
    /// The mode.
    pub mode: Option<Mode>,
    /// The tools, of those that there are.
    pub tools: Option<Vec<String>>,
    /// In place of Violin's system prompt.
    pub system_prompt: Option<String>,
    /// Behind the system prompt.
    pub append_system_prompt: Option<String>,
    /// The most model calls of a run.
    pub max_turns: Option<u32>,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("cwd", &self.cwd).field("overrides", &self.overrides).finish_non_exhaustive()
    }
}

/// What the files say, read and put together.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// The models.
    pub models: Models,
    /// What the system prompt is made of.
    pub prompt: PromptParts,
    /// What was wrong with any of it, in sentences for the person.
    pub notices: Vec<String>,
    /// What the project brings, and how far the person trusts it.
    pub project: Option<(Brought, Standing)>,
}

impl Setup {
    /// Reads everything.
    pub fn load(&self) -> Loaded {
        let brought = Brought::of(&self.cwd);
        let standing = Trust::read(&self.home).standing(&brought);
        let trusted = Some(&brought).filter(|_| standing == Standing::Trusted);
        let over = trusted.and_then(|brought| brought.item("settings.json"));
        let over = over.map(|item| (item.path.as_path(), item.text.as_str()));
        let (settings, mistakes) = Settings::read_with(&[&self.home.agent("settings.json")], over);
        let mut notices: Vec<String> = brought.refused.clone();
        notices.extend(untrusted(&brought, standing));
        let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        notices.extend(mistakes);
        notices.extend(super::review::Rules::of(&settings.permissions).1);
        let (models, mistakes) = Models::read(&self.home.agent("models.json"));
        notices.extend(mistakes.iter().map(ToString::to_string));
        let models = models.or_else(|| self.models.clone()).unwrap_or_default();
        let prompt = self.prompt(trusted, &mut notices);
        Loaded { settings, models, prompt, notices, project: Some((brought, standing)) }
    }

    /// What keeps commands in here, in `auto`.
    ///
    /// # Errors
    /// Why nothing does.
    pub fn sandbox(&self, settings: &Settings) -> Result<&'static str, String> {
        let loaded = Loaded { settings: settings.clone(), ..Loaded::default() };
        super::review::Ground::of(self, &loaded).fence?;
        crate::tool::sandbox::support(settings.sandbox.network)
    }

    fn prompt(&self, project: Option<&Brought>, notices: &mut Vec<String>) -> PromptParts {
        let (rules, unread) = rules::discover(&self.home, &self.cwd);
        notices.extend(unread);
        let (skills, odd) = skills::discover(&self.home, &self.cwd);
        notices.extend(odd);
        let file = |name: &str| {
            let path = self.home.agent(name);
            path.exists().then(|| read_text(&path).map_err(|error| format!("{} is left out: {error}", path.display())))
        };
        let mut text = |name: &str| match file(name)? {
            Ok(text) => Some(text),
            Err(notice) => {
                notices.push(notice);
                None
            }
        };
        let brought = |name: &str| project.and_then(|project| project.item(name)).map(|item| item.text.clone());
        let replacement = self.overrides.system_prompt.clone().or_else(|| brought("SYSTEM.md"));
        let replacement = replacement.or_else(|| text("SYSTEM.md"));
        let appended = text("APPEND_SYSTEM.md").into_iter().chain(brought("APPEND_SYSTEM.md"));
        let appended = appended.chain(self.overrides.append_system_prompt.clone()).collect();
        PromptParts { replacement, appended, rules, skills }
    }
}

/// What the person should know of a project that is not trusted.
fn untrusted(brought: &Brought, standing: Standing) -> Option<String> {
    let how = match standing {
        Standing::Trusted | Standing::Declined => return None,
        Standing::Unknown => "this project brings",
        Standing::Changed => "what this project brings has changed since it was trusted:",
    };
    let files = brought.lines().join(", ");
    Some(format!("{how} {files}. None of it is in force; look at it, then run `violin trust` here"))
}

impl Loaded {
    /// The model to begin with: the command line's, the session's, the settings', the file's default, the first whose
    /// key can be had. A session's or a setting's model that is not there any more is told and passed over.
    ///
    /// # Errors
    /// Where the command line names none that there is, or where there is none at all.
    pub fn choose_model(
        &self,
        setup: &Setup,
        of_session: Option<&str>,
        notices: &mut Vec<String>,
    ) -> Result<Arc<Model>, SelectError> {
        if let Some(given) = &setup.overrides.model {
            return self.select(given);
        }
        let wanted = [of_session, self.settings.model.as_deref(), self.models.default.as_deref()];
        for given in wanted.into_iter().flatten() {
            match self.select(given) {
                Ok(model) => return Ok(model),
                Err(SelectError::NoModels) => {}
                Err(error) => notices.push(error.to_string()),
            }
        }
        self.models.first_usable(&*setup.env).ok_or(SelectError::NoModels)
    }

    /// The model that a word means; the demo is always there.
    ///
    /// # Errors
    /// Where it means none.
    pub fn select(&self, given: &str) -> Result<Arc<Model>, SelectError> {
        match given {
            "demo" | "demo/demo" => Ok(Arc::new(crate::provider::demo::model())),
            given => self.models.select(given),
        }
    }

    /// The system prompt for a directory.
    pub fn system(&self, cwd: &Path) -> Arc<str> {
        system(&self.prompt, cwd).into()
    }

    /// When failed model calls are made again.
    pub fn retry(&self) -> RetryPolicy {
        let retry = &self.settings.retry;
        RetryPolicy {
            max_retries: retry.max_retries,
            base_delay: Duration::from_millis(retry.base_delay_ms),
            max_delay: Duration::from_millis(retry.max_delay_ms),
        }
    }

    /// How long a provider may be silent.
    pub fn timeouts(&self) -> Timeouts {
        let retry = &self.settings.retry;
        Timeouts {
            connect: Duration::from_millis(retry.connect_timeout_ms),
            idle: Duration::from_millis(retry.idle_timeout_ms),
        }
    }

    /// How commands are run.
    pub fn shell(&self) -> ShellSettings {
        ShellSettings {
            program: self.settings.shell.clone(),
            timeout_s: self.settings.limits.bash_timeout_s,
            kill_grace_ms: self.settings.limits.kill_grace_ms,
            env: vec![("VIOLIN".to_owned(), "1".to_owned()), ("AI_AGENT".to_owned(), "violin".to_owned())],
            fence: None,
        }
    }
}
