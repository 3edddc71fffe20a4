//! What the gate stands on: the project's root, the folders that may be written, the sandbox, the rules.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::place::{self, Place};
use super::rules::Rules;
use crate::agent::setup::{Loaded, Setup};
use crate::context::project_directories;
use crate::tool::{path, sandbox};
use crate::toolkit::Fence;

/// What the gate stands on. It is made anew when settings or the directory change.
#[derive(Debug, Clone)]
pub struct Ground {
    /// The project's root, with symbolic links resolved.
    pub root: PathBuf,
    /// The person's home directory.
    home: Option<PathBuf>,
    /// Where else writes run without a question: the temporary folder and what the settings name.
    also: Vec<PathBuf>,
    /// The sandbox of commands, or why there is none.
    pub fence: Result<Arc<Fence>, String>,
    /// The person's rules.
    pub rules: Rules,
}

impl Ground {
    /// The ground of a directory.
    pub fn of(setup: &Setup, loaded: &Loaded) -> Self {
        let root = project_directories(&setup.cwd).into_iter().next().unwrap_or_else(|| setup.cwd.clone());
        let home = std::env::home_dir().map(|home| path::real(&home));
        let grounds = sandbox::Grounds {
            root: path::real(&root),
            home: home.clone(),
            own: path::real(setup.home.root()),
            temp: path::real(&std::env::temp_dir()),
        };
        let fence = sandbox::fence(&loaded.settings.sandbox, &grounds, &*setup.env).map(Arc::new);
        let also = sandbox::named(&loaded.settings.sandbox, &grounds);
        let rules = Rules::of(&loaded.settings.permissions).0;
        Ground { root: grounds.root, home, also, fence, rules }
    }

    /// Where a real path lies.
    pub fn place(&self, real: &Path) -> Place {
        place::of(real, &self.root, self.home.as_deref(), &self.also)
    }
}
