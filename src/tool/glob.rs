//! `glob`: files by the pattern of their paths, newest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::message::Block;
use crate::toolkit::{Arguments, Risk, Tool, ToolContext, ToolError, ToolOutput, View};

use super::{path, truncate, walk};

/// Most paths that are given without being asked for more or fewer.
const LIMIT: usize = 1000;

/// Most paths that can be asked for.
const MOST: usize = 10_000;

/// The tool.
pub struct Glob;

impl Tool for Glob {
    fn name(&self) -> &str {
        "glob"
    }

    fn description(&self) -> &str {
        "List files by a pattern such as src/**/*.{ts,tsx}, newest first; .gitignore is respected"
    }

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {
            "pattern": {"type": "string"},
            "path": {"type": "string"},
            "limit": {"type": "integer"}},
            "required": ["pattern"]})
    }

    fn risk(&self) -> Risk {
        Risk::ReadOnly
    }

    fn title(&self, arguments: &Arguments) -> String {
        let pattern = super::optional_text(arguments, "pattern").unwrap_or("?");
        match super::optional_text(arguments, "path") {
            Some(path) => format!("{pattern} in {path}"),
            None => pattern.to_owned(),
        }
    }

    fn run<'a>(&'a self, context: ToolContext, arguments: Arguments) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let pattern = super::text(&arguments, "pattern")?.to_owned();
            let wanted = super::optional_text(&arguments, "path").unwrap_or(".").to_owned();
            let limit = super::count(&arguments, "limit", 1).unwrap_or(LIMIT).min(MOST);
            super::looking(&context.cancel.clone(), move || search(&context, &pattern, &wanted, limit)).await
        })
    }
}

fn search(context: &ToolContext, pattern: &str, wanted: &str, limit: usize) -> Result<ToolOutput, ToolError> {
    let (base, pattern) = parted(&path::resolve(&context.cwd, wanted), pattern);
    let Some(root) = path::existing(&base) else {
        return Err(ToolError::model(path::missing(&context.cwd, &base)));
    };
    if !root.is_dir() {
        let text = format!("{} is not a directory; give the directory to search in.", path::show(&context.cwd, &root));
        return Err(ToolError::model(text));
    }
    let glob = walk::Pattern::of(&pattern)?;
    let mut total = 0;
    // The newest so far, the oldest of them on top.
    let mut newest: BinaryHeap<Reverse<(SystemTime, Reverse<PathBuf>)>> = BinaryHeap::new();
    for entry in walk::entries(&root) {
        if context.cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        if entry.file_type().is_none_or(|kind| kind.is_dir()) {
            continue;
        }
        let Ok(relative) = entry.path().strip_prefix(&root) else { continue };
        if !glob.takes(relative) {
            continue;
        }
        total += 1;
        let modified = entry.metadata().ok().and_then(|metadata| metadata.modified().ok());
        newest.push(Reverse((modified.unwrap_or(SystemTime::UNIX_EPOCH), Reverse(entry.into_path()))));
        if newest.len() > limit {
            newest.pop();
        }
    }
    if total == 0 {
        let place = path::show(&context.cwd, &root);
        let text = format!("No files match {pattern} in {place} (those that .gitignore names are left out).");
        return Ok(ToolOutput::text(text, "no files"));
    }
    let mut lines = String::new();
    let mut shown = 0;
    for Reverse((_, Reverse(file))) in newest.into_sorted_vec() {
        let line = path::show(&context.cwd, &file);
        if lines.len() + line.len() > truncate::BYTES {
            break;
        }
        if shown > 0 {
            lines.push('\n');
        }
        lines.push_str(&line);
        shown += 1;
    }
    let mut output = ToolOutput::text(lines, if total == 1 { "1 file".to_owned() } else { format!("{total} files") });
    if shown < total {
        let text = format!("[the newest {shown} of {total} files; narrow the pattern or the path for others]");
        output.content.push(Block::Text { text });
    }
    output.view = Some(View::Paths);
    Ok(output)
}

/// The folder to search and the pattern within it: an absolute pattern, or one with `..`, names its own folder.
fn parted(base: &Path, pattern: &str) -> (PathBuf, String) {
    let pattern = pattern.trim_start_matches("./");
    if !(pattern.starts_with('/') || pattern.starts_with("~/") || pattern.starts_with("../")) {
        return (base.to_owned(), pattern.to_owned());
    }
    let parts: Vec<&str> = pattern.split('/').collect();
    let special = |part: &&str| part.contains(['*', '?', '[', '{', '!']);
    let fixed = parts.iter().position(special).unwrap_or(parts.len() - 1).min(parts.len() - 1);
    let folder = parts[..fixed].join("/");
    let folder = if folder.is_empty() { "/" } else { &folder };
    // The rest has a slash in front, so that it means this folder only.
    (path::resolve(base, folder), format!("/{}", parts[fixed..].join("/")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, context, said};
    use super::*;
    use crate::message::text_of;
    use std::fs;
    use std::time::Duration;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        for (index, name) in names.iter().enumerate() {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            let file = fs::File::create(path).expect("made");
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1000 + index as u64)).expect("set");
        }
        dir
    }

    async fn glob(dir: &Path, arguments: Value) -> Result<ToolOutput, ToolError> {
        call(&Glob, &context(dir), arguments).await
    }

    #[tokio::test]
    async fn the_newest_come_first() {
        let dir = folder(&["old.rs", "src/mid.rs", "src/x.md", "new.rs"]);
        assert_eq!(said(&glob(dir.path(), json!({"pattern": "*.rs"})).await), "new.rs\nsrc/mid.rs\nold.rs");
        let few = glob(dir.path(), json!({"pattern": "*.rs", "limit": 2})).await.expect("found");
        let text = text_of(&few.content);
        assert_eq!(text, "new.rs\nsrc/mid.rs\n[the newest 2 of 3 files; narrow the pattern or the path for others]");
        assert_eq!((few.summary.as_str(), few.view), ("3 files", Some(View::Paths)));
    }

    #[tokio::test]
    async fn patterns_and_places() {
        let dir = folder(&["a/b/c.rs", "a/d.rs", "e.rs"]);
        let path = dir.path();
        assert_eq!(said(&glob(path, json!({"pattern": "a/**/*.rs"})).await), "a/d.rs\na/b/c.rs");
        assert_eq!(said(&glob(path, json!({"pattern": "*.rs", "path": "a/b"})).await), "a/b/c.rs");
        let absolute = format!("{}/*.rs", path.display());
        assert_eq!(said(&glob(path, json!({"pattern": absolute})).await), "e.rs");
        assert!(said(&glob(path, json!({"pattern": "*.py"})).await).starts_with("No files match *.py in ."));
        assert!(said(&glob(path, json!({"pattern": "x["})).await).contains("glob is not valid"));
        assert!(said(&glob(path, json!({"pattern": "*", "path": "e.rs"})).await).contains("not a directory"));
        assert!(said(&glob(path, json!({"pattern": "*", "path": "none"})).await).contains("does not exist"));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn names_that_are_no_text_are_escaped() {
        use std::os::unix::ffi::OsStrExt;
        let dir = folder(&[]);
        fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"\xff.txt")), "x").expect("written");
        assert_eq!(said(&glob(dir.path(), json!({"pattern": "*.txt"})).await), "\\xff.txt");
    }
}
