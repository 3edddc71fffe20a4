//! `write`: a whole file, replaced at once or not at all.

use std::fs;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::toolkit::{Arguments, Risk, Tool, ToolContext, ToolError, ToolOutput, View};

use super::files::{self, Seen, Stamp};
use super::{diff, path};

/// Larger files are replaced without a diff.
const DIFFED: u64 = 4 * 1024 * 1024;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// The tool.
pub struct Write {
    seen: Arc<Seen>,
}

impl Write {
    /// One that notes in `seen` what the model has written.
    pub fn new(seen: Arc<Seen>) -> Self {
        Write { seen }
    }
}

impl Tool for Write {
    fn name(&self) -> &str {
        "write"
    }

    fn description(&self) -> &str {
        "Create or replace a file"
    }

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"]})
    }

    fn risk(&self) -> Risk {
        Risk::Write
    }

    fn title(&self, arguments: &Arguments) -> String {
        super::optional_text(arguments, "path").unwrap_or("?").to_owned()
    }

    fn writes(&self, arguments: &Arguments) -> Option<String> {
        super::optional_text(arguments, "path").map(str::to_owned)
    }

    fn prepare(&self, mut arguments: Arguments) -> Arguments {
        super::rename(&mut arguments, super::PATH_NAMES, "path");
        super::rename(&mut arguments, &["contents", "text"], "content");
        arguments
    }

    fn preview(&self, context: &ToolContext, arguments: &Arguments) -> Option<View> {
        let path = path::resolve(&context.cwd, super::optional_text(arguments, "path")?);
        let content = super::optional_text(arguments, "content")?;
        let metadata = fs::metadata(&path).ok();
        let old = match metadata {
            Some(metadata) if !metadata.is_file() || metadata.len() > DIFFED => return None,
            Some(_) => files::contents("", &path, DIFFED).ok()?,
            None => Vec::new(),
        };
        let hunks = diff::of_texts(&old, &bytes_for(&old, content)).hunks;
        Some(View::Diff { path: path::show(&context.cwd, &path), hunks })
    }

    fn run<'a>(&'a self, context: ToolContext, arguments: Arguments) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let argument = super::text(&arguments, "path")?.to_owned();
            let content = super::text(&arguments, "content")?.to_owned();
            let seen = self.seen.clone();
            super::changing(&context.cancel, move || {
                let wanted = path::resolve(&context.cwd, &argument);
                let name = path::show(&context.cwd, &wanted);
                if argument.ends_with('/') {
                    return Err(ToolError::model(format!("{name} is a directory's name; give the path of a file.")));
                }
                let real = path::real(&wanted);
                let mut old = Vec::new();
                let mut diffed = true;
                let before = match fs::metadata(&real) {
                    Ok(metadata) => {
                        files::writable(&name, &real, &metadata)?;
                        diffed = metadata.len() <= DIFFED;
                        if diffed {
                            old = files::contents(&name, &real, DIFFED)?;
                            files::state(&old)
                        } else {
                            files::state_at(&real).map_err(|error| files::failed("read", &name, &error))?
                        }
                    }
                    Err(_) => files::nothing(),
                };
                let bytes = bytes_for(&old, &content);
                files::replace(&real, &bytes).map_err(|error| files::failed("written", &name, &error))?;
                if let Ok(metadata) = fs::metadata(&real) {
                    seen.note(&real, Stamp::of(&metadata));
                }
                let word = if before.exists { "replaced" } else { "created" };
                let lines = content.lines().count();
                let kept = if bytes.len() > content.len() { "; its byte order mark was kept" } else { "" };
                let mut output = ToolOutput::text(format!("{word} {name} ({lines} lines){kept}"), "");
                if diffed {
                    let change = diff::of_texts(&old, &bytes);
                    output.summary = if before.exists { change.summary() } else { format!("+{lines}") };
                    output.view = Some(View::Diff { path: name, hunks: change.hunks });
                }
                output.effects = vec![files::effect("write", &argument, &real, before, files::state(&bytes))];
                Ok(output)
            })
            .await
        })
    }
}

/// The bytes to write: a byte order mark of the old file stays, since `read` does not show it.
fn bytes_for(old: &[u8], content: &str) -> Vec<u8> {
    let keep = old.starts_with(BOM) && !content.as_bytes().starts_with(BOM);
    [if keep { BOM } else { b"" }, content.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, context, said};
    use super::*;
    use crate::toolkit::DiffLine;
    use std::path::Path;

    async fn write(dir: &Path, path: &str, content: &str) -> Result<ToolOutput, ToolError> {
        call(&Write::new(Arc::default()), &context(dir), json!({"path": path, "content": content})).await
    }

    #[tokio::test]
    async fn it_tells_new_from_replaced_and_leaves_a_receipt() {
        let dir = tempfile::tempdir().expect("a folder");
        let output = write(dir.path(), "@a/b.txt", "one\ntwo\n").await;
        assert_eq!(said(&output), "created a/b.txt (2 lines)");
        let effect = output.expect("written").effects.remove(0);
        assert_eq!((effect.operation.as_str(), effect.path.as_str()), ("write", "@a/b.txt"));
        assert_eq!((effect.before, effect.after), (files::nothing(), files::state(b"one\ntwo\n")));
        let output = write(dir.path(), "a/b.txt", "one\n2\n").await.expect("written");
        assert_eq!(output.summary, "+1 −1");
        assert_eq!(output.effects[0].before, files::state(b"one\ntwo\n"));
        assert_eq!(fs::read(dir.path().join("a/b.txt")).expect("read"), b"one\n2\n");
    }

    #[tokio::test]
    async fn a_byte_order_mark_stays() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("a"), b"\xef\xbb\xbfold\r\n").expect("written");
        assert!(said(&write(dir.path(), "a", "new\n").await).contains("byte order mark"));
        assert_eq!(fs::read(dir.path().join("a")).expect("read"), b"\xef\xbb\xbfnew\n");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn links_stay_links_and_wrong_places_are_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "x").expect("written");
        std::os::unix::fs::symlink("file", at("link")).expect("linked");
        std::os::unix::fs::symlink("later", at("dangling")).expect("linked");
        write(dir.path(), "link", "y").await.expect("written");
        write(dir.path(), "dangling", "z").await.expect("written");
        assert!(fs::symlink_metadata(at("link")).expect("there").is_symlink());
        assert_eq!(fs::read(at("file")).expect("read"), b"y");
        assert_eq!(fs::read(at("later")).expect("read"), b"z");
        assert!(said(&write(dir.path(), ".", "x").await).contains("is a directory"));
        assert!(said(&write(dir.path(), "file/x", "x").await).contains("is a file, not a folder"));
        assert!(said(&write(dir.path(), "/dev/null", "x").await).contains("is a device"));
    }

    #[test]
    fn a_preview_changes_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let arguments = super::super::testing::arguments(json!({"path": "a", "content": "x\n"}));
        let view = Write::new(Arc::default()).preview(&context(dir.path()), &arguments);
        let Some(View::Diff { hunks, .. }) = view else { panic!("no diff") };
        assert_eq!(hunks[0].lines, [DiffLine::Added("x".into())]);
        assert!(!dir.path().join("a").exists());
    }
}
