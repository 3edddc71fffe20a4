//! Walking a project as the searches do: hidden files included, `.git` and what `.gitignore` names left out,
//! in the order of the paths.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use ignore::{DirEntry, WalkBuilder};

use crate::toolkit::ToolError;

/// The entries under a folder. A folder that cannot be read is passed over.
pub fn entries(root: &Path) -> impl Iterator<Item = DirEntry> {
    let walk = WalkBuilder::new(root)
        .hidden(false)
        .require_git(false)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
        .sort_by_file_path(Path::cmp)
        .build();
    walk.flatten()
}

/// A pattern of paths.
pub struct Pattern {
    matcher: GlobMatcher,
    /// It has no slash: it is meant for names at any depth.
    name_only: bool,
    /// `!` in front: what it matches is left out.
    negated: bool,
}

impl Pattern {
    /// The pattern that a glob means: `*`, `**`, `?`, `[…]`, `{a,b}`, `!` in front.
    ///
    /// # Errors
    /// For the model: what is wrong with it.
    pub fn of(glob: &str) -> Result<Self, ToolError> {
        let (negated, body) = glob.strip_prefix('!').map_or((false, glob), |rest| (true, rest));
        let body = body.trim_start_matches("./");
        let name_only = !body.contains('/');
        let body = body.trim_start_matches('/');
        // A folder's name means what is in it.
        let body = if body.ends_with('/') { format!("{body}**") } else { body.to_owned() };
        let glob = GlobBuilder::new(&body).literal_separator(true).build();
        let glob = glob.map_err(|error| ToolError::model(format!("The glob is not valid: {error}.")))?;
        Ok(Pattern { matcher: glob.compile_matcher(), name_only, negated })
    }

    /// Whether it takes a path, given from the folder that is searched.
    pub fn takes(&self, relative: &Path) -> bool {
        let path = match relative.file_name() {
            Some(name) if self.name_only => Path::new(name),
            _ => relative,
        };
        self.matcher.is_match(path) != self.negated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_take_what_people_mean() {
        let takes = |glob: &str, path: &str| Pattern::of(glob).expect("valid").takes(Path::new(path));
        assert!(takes("*.rs", "a/b/c.rs") && takes("./*.rs", "c.rs") && takes("*.{rs,toml}", "x.toml"));
        assert!(
            takes("src/*.rs", "src/a.rs") && !takes("src/*.rs", "src/b/a.rs") && takes("src/**/*.rs", "src/b/a.rs")
        );
        assert!(
            takes("**/a.rs", "a.rs") && takes("src/", "src/b/c") && takes("!*.md", "a.rs") && !takes("!*.md", "x/a.md")
        );
        assert!(Pattern::of("a[").is_err());
    }

    #[test]
    fn hidden_files_are_seen_and_ignored_ones_are_not() {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, text) in
            [(".gitignore", "*.log\n"), (".hidden", ""), ("a.log", ""), (".git/config", ""), ("b/c", "")]
        {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        let names: Vec<String> = entries(dir.path())
            .filter(|entry| entry.path().is_file())
            .map(|entry| entry.path().strip_prefix(dir.path()).expect("inside").display().to_string())
            .collect();
        assert_eq!(names, [".gitignore", ".hidden", "b/c"]);
    }
}
