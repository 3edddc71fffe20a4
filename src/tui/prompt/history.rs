//! What was sent before: walked with the arrow keys, searched with Ctrl+R, kept in `history.jsonl`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Way;
use crate::home::private_file;

/// Prompts that are kept in memory.
const MOST: usize = 1000;

/// The prompts of a directory, oldest first, and where one stands in them.
#[derive(Debug, Default)]
pub struct History {
    texts: Vec<String>,
    at: Option<usize>,
    draft: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(default)]
    cwd: String,
    text: String,
    #[serde(default)]
    at: i64,
}

impl History {
    /// Puts what was read from disk before what was sent meanwhile.
    pub fn load(&mut self, mut texts: Vec<String>) {
        texts.append(&mut self.texts);
        self.texts = texts;
    }

    /// Takes a prompt that was sent.
    pub fn push(&mut self, text: &str) {
        if self.texts.last().is_none_or(|last| last != text) {
            self.texts.push(text.to_owned());
        }
        if self.texts.len() > MOST {
            self.texts.remove(0);
        }
    }

    /// All of them, oldest first.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Whether one of them is shown.
    pub fn is_walking(&self) -> bool {
        self.at.is_some()
    }

    /// Nothing of it is shown any longer.
    pub fn leave(&mut self) {
        self.at = None;
        self.draft.clear();
    }

    /// The text before or after that which is shown; after the last comes the draft.
    pub fn walk(&mut self, way: Way, draft: &str) -> Option<String> {
        match (way, self.at) {
            (Way::Back, None) => {
                let at = self.texts.len().checked_sub(1)?;
                draft.clone_into(&mut self.draft);
                self.at = Some(at);
                Some(self.texts[at].clone())
            }
            (Way::Back, Some(at)) => {
                let at = at.checked_sub(1)?;
                self.at = Some(at);
                self.texts.get(at).cloned()
            }
            (Way::On, None) => None,
            (Way::On, Some(at)) if at + 1 < self.texts.len() => {
                self.at = Some(at + 1);
                Some(self.texts[at + 1].clone())
            }
            (Way::On, Some(_)) => {
                self.at = None;
                Some(std::mem::take(&mut self.draft))
            }
        }
    }
}

/// Reads the prompts of a directory. A line that does not read is passed over.
pub fn read(path: &Path, cwd: &Path) -> Vec<String> {
    let Ok(bytes) = fs::read(path) else { return Vec::new() };
    let cwd = cwd.to_string_lossy();
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok());
    let mut texts: Vec<String> = lines.filter(|line| line.cwd == cwd).map(|line| line.text).collect();
    texts.dedup();
    texts.split_off(texts.len().saturating_sub(MOST))
}

/// Adds a prompt to the file.
///
/// # Errors
/// Those of the file system.
pub fn append(path: &Path, cwd: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        crate::home::private_dir(folder)?;
    }
    let line =
        Line { cwd: cwd.to_string_lossy().into(), text: text.into(), at: jiff::Timestamp::now().as_millisecond() };
    let mut bytes = serde_json::to_vec(&line)?;
    bytes.push(b'\n');
    private_file().append(true).create(true).open(path)?.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_draft_comes_back() {
        let mut history = History::default();
        history.push("one");
        history.push("two");
        history.push("two");
        assert_eq!(history.walk(Way::Back, "draft").as_deref(), Some("two"));
        assert_eq!(history.walk(Way::Back, "two").as_deref(), Some("one"));
        assert_eq!(history.walk(Way::Back, "one"), None);
        assert_eq!(history.walk(Way::On, "one").as_deref(), Some("two"));
        assert_eq!(history.walk(Way::On, "two").as_deref(), Some("draft"));
        assert_eq!(history.walk(Way::On, "draft"), None);
    }

    #[test]
    fn the_file_is_private_and_kept_apart_by_directory() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("home/history.jsonl");
        append(&path, Path::new("/a"), "one\nline").expect("written");
        append(&path, Path::new("/b"), "two").expect("written");
        fs::OpenOptions::new().append(true).open(&path).expect("open").write_all(b"{bad\n").expect("written");
        append(&path, Path::new("/a"), "three").expect("written");
        assert_eq!(read(&path, Path::new("/a")), ["one\nline", "three"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        }
    }
}
