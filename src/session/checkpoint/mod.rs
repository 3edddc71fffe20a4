//! Checkpoints: the working tree at one moment, kept in a private git store (product.md, "Rewind with files").
//!
//! The store is git's format and nothing else of git's: no `git add` runs, so that no hook, filter, attribute or
//! setting of the person's or the project's has a say, and bytes stay bytes. `scan` looks at the tree, `store` writes what
//! changed with `git fast-import`, `restore` puts a checkpoint back. A [`Manifest`] in each commit keeps what git does not:
//! modes and empty folders.

mod manifest;
mod restore;
mod scan;
mod store;

use std::io;
use std::path::{Path, PathBuf};

use crate::home::Home;

pub use manifest::{Item, Kind, Manifest};
pub use restore::{Change, Plan};

use scan::{Scan, StatCache};
use store::Store;

/// More files than this are not kept: looking at them would take too long.
const MOST_FILES: usize = 200_000;

/// What checkpoints are made by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Files larger than this many bytes are left out and named.
    pub file_bytes: u64,
    /// Of a tree with more files than this there are no checkpoints.
    pub files: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { file_bytes: 10 << 20, files: MOST_FILES }
    }
}

/// Checkpoints of one project. Calls block: they read files and run git.
#[derive(Debug)]
pub struct Checkpoints {
    root: PathBuf,
    store: Store,
    limits: Limits,
    cache: StatCache,
    /// The newest checkpoint, so that an unchanged tree needs no new one.
    newest: Option<(String, Manifest)>,
}

/// A checkpoint that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Its name in the store.
    pub reference: String,
    /// What is not in it: large files and nested repositories, for the person.
    pub left_out: Vec<String>,
}

/// Why there are no checkpoints.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The git program is missing.
    #[error("files are not kept for a rewind: the git program is not found")]
    NoGit,
    /// The directory is too much.
    #[error("files are not kept for a rewind: {0}")]
    Unsuitable(String),
    /// The directory has too many files.
    #[error("files are not kept for a rewind: {0}")]
    TooMany(String),
    /// Git failed.
    #[error("git failed: {0}")]
    Git(String),
    /// The file system failed.
    #[error("{path}: {source}")]
    Io {
        /// What it was about.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A checkpoint is not there any more, or not whole.
    #[error("the checkpoint {0} is not there any more")]
    Missing(String),
}

impl CheckpointError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.display().to_string();
        move |source| CheckpointError::Io { path, source }
    }
}

impl Checkpoints {
    /// The checkpoints of the project that `cwd` belongs to: its repository, or the directory itself.
    ///
    /// # Errors
    /// Where git is missing, or the directory is a home or a root.
    pub fn open(home: &Home, cwd: &Path, limits: Limits) -> Result<Self, CheckpointError> {
        let cwd = cwd.canonicalize().map_err(CheckpointError::io(cwd))?;
        let root = cwd.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(&cwd).to_owned();
        let is_home =
            std::env::home_dir().and_then(|dir| dir.canonicalize().ok()).is_some_and(|dir| dir.starts_with(&root));
        if is_home || root.parent().is_none() {
            return Err(CheckpointError::Unsuitable("this is a home directory, not a project".to_owned()));
        }
        let store = Store::open(&home.checkpoints_of(&root), &root)?;
        let cache = StatCache::default();
        Ok(Checkpoints { root, store, limits, cache, newest: None })
    }

    /// The project's root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Takes a checkpoint of the tree as it is now. A tree that has not changed since the last one needs none.
    ///
    /// # Errors
    /// Where there are too many files, or git or the file system fails.
    pub fn take(&mut self) -> Result<Taken, CheckpointError> {
        let Scan { manifest, unknown, left_out } =
            scan::scan(&self.root, self.store.folder(), self.limits, &self.cache)?;
        if let Some((reference, newest)) = &self.newest
            && unknown.is_empty()
            && *newest == manifest
        {
            return Ok(Taken { reference: reference.clone(), left_out });
        }
        let before = self.newest.as_ref().map(|(reference, _)| reference.as_str());
        let (reference, manifest) = self.store.write(&self.root, manifest, &unknown, before, &mut self.cache)?;
        self.newest = Some((reference.clone(), manifest));
        Ok(Taken { reference, left_out })
    }

    /// What a checkpoint holds.
    ///
    /// # Errors
    /// Where it is not there any more.
    pub fn manifest(&self, reference: &str) -> Result<Manifest, CheckpointError> {
        match &self.newest {
            Some((newest, manifest)) if newest == reference => Ok(manifest.clone()),
            _ => self.store.manifest(reference),
        }
    }

    /// What putting a checkpoint back would change. A file that is not as `last_known` (the checkpoint at the end of the last
    /// run) has it was changed by somebody else, and is a conflict. Takes a checkpoint of what is there now, so that the
    /// restore can be undone.
    ///
    /// # Errors
    /// As [`Checkpoints::take`] and [`Checkpoints::manifest`].
    pub fn plan(&mut self, target: &str, last_known: Option<&str>) -> Result<Plan, CheckpointError> {
        let wanted = self.manifest(target)?;
        let known = last_known.map(|reference| self.manifest(reference)).transpose()?;
        let now = self.take()?;
        let current = self.manifest(&now.reference)?;
        Ok(restore::plan(now.reference, &current, wanted, known.as_ref()))
    }

    /// Does what a plan says.
    ///
    /// # Errors
    /// At the first file that cannot be put back; what was done before it stays, and the plan's `before` undoes it.
    pub fn apply(&mut self, plan: &Plan) -> Result<(), CheckpointError> {
        restore::apply(&self.root, &self.store, plan)
    }
}

#[cfg(test)]
mod tests;
