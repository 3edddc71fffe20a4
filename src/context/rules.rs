//! Rules: AGENTS.md, else CLAUDE.md, of the person and of each directory of the project.

use std::path::{Path, PathBuf};

use super::{project_directories, read_text};
use crate::home::Home;

/// A file of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Where it stands.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// Names of files of rules; the first that is there counts.
const NAMES: &[&str] = &["AGENTS.md", "CLAUDE.md"];

/// All rules that hold in a directory, the person's own first, the nearest last and strongest, and what could
/// not be read.
pub fn discover(home: &Home, cwd: &Path) -> (Vec<Rules>, Vec<String>) {
    let (mut rules, mut notices) = (Vec::new(), Vec::new());
    let own = home.agent("");
    for directory in std::iter::once(own).chain(project_directories(cwd)) {
        let Some(path) = NAMES.iter().map(|name| directory.join(name)).find(|path| path.is_file()) else { continue };
        // The same file through two links, or a home that is the project, counts once.
        if rules.iter().any(|known: &Rules| same(&known.path, &path)) {
            continue;
        }
        match read_text(&path) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => rules.push(Rules { path, text }),
            Err(error) => notices.push(format!("the rules in {} are left out: {error}", path.display())),
        }
    }
    (rules, notices)
}

fn same(one: &Path, two: &Path) -> bool {
    match (one.canonicalize(), two.canonicalize()) {
        (Ok(one), Ok(two)) => one == two,
        _ => one == two,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_go_from_the_person_to_the_nearest_directory() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        write("home/agent/AGENTS.md", "mine");
        write("outside/AGENTS.md", "not of the repository");
        write("outside/repo/.git/HEAD", "ref");
        write("outside/repo/CLAUDE.md", "\u{feff}root");
        write("outside/repo/a/AGENTS.md", "a");
        write("outside/repo/a/CLAUDE.md", "not read beside AGENTS.md");
        write("outside/repo/a/b/AGENTS.md", &"x".repeat(300 * 1024));
        let home = Home::at(dir.path().join("home"));
        let (rules, notices) = discover(&home, &dir.path().join("outside/repo/a/b"));
        assert_eq!(rules.iter().map(|r| r.text.as_str()).collect::<Vec<_>>(), ["mine", "root", "a"]);
        assert_eq!(notices.len(), 1);
    }
}
