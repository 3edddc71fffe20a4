//! A session written out for people: Markdown, or one HTML page that needs nothing else.
//!
//! What is written is the branch that the session stands on. Nothing in a session, whoever wrote it, becomes markup or a
//! script of the page: see [`html`].

mod html;
mod markdown;

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::home::private_file;
use crate::message::{Block, Message, text_of};
use crate::session::{Loaded, Record};

pub use html::html;
pub use markdown::markdown;

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One HTML page.
    Html,
    /// Markdown.
    Markdown,
}

/// One thing that is shown.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// What the person said.
    User { text: String, images: Vec<(String, String)> },
    /// What the model said.
    Answer(String),
    /// What the model thought.
    Thinking(String),
    /// A tool call and its result, or a command of the person's own.
    Call { name: String, arguments: String, output: Option<String>, failed: bool },
    /// Something that happened, such as a change of the model.
    Note(String),
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file's name ends in something else.
    #[error("`{0}` should end in .html or .md")]
    Ending(String),
    /// It cannot be written.
    #[error("{path} cannot be written: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Writes a session into a file, which must not be there yet; without a name, into `violin-ID.html` in `folder`. The file.
///
/// # Errors
/// [`ExportError`]; nothing was written then.
pub fn write(loaded: &Loaded, folder: &Path, file: Option<&str>) -> Result<PathBuf, ExportError> {
    let name = file.map_or_else(|| format!("violin-{}.html", plain(&loaded.header.id)), str::to_owned);
    let path = folder.join(&name);
    let form = match path.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "htm") => Form::Html,
        Some("md" | "markdown") => Form::Markdown,
        _ => return Err(ExportError::Ending(name)),
    };
    let text = match form {
        Form::Html => html(loaded),
        Form::Markdown => markdown(loaded),
    };
    let made = private_file().write(true).create_new(true).open(&path);
    made.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|source| ExportError::Io { path: path.clone(), source })?;
    Ok(path)
}

/// An id comes from a file and could be any text; a name in a folder it is not.
fn plain(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).take(64).collect()
}

/// What is shown of a session, in order.
fn parts(loaded: &Loaded) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut open: Vec<(String, usize)> = Vec::new();
    for entry in loaded.tree.branch() {
        match (entry.message().map(AsRef::as_ref), entry.record()) {
            (Some(Message::User(message)), _) => {
                let image = |block: &Block| match block {
                    Block::Image { mime_type, data } => Some((mime_type.clone(), data.clone())),
                    _ => None,
                };
                parts.push(Part::User {
                    text: text_of(&message.content),
                    images: message.content.iter().filter_map(image).collect(),
                });
            }
            (Some(Message::Assistant(message)), _) => {
                for block in &message.content {
                    match block {
                        Block::Text { text } => parts.push(Part::Answer(text.clone())),
                        Block::Thinking { thinking, .. } if !thinking.is_empty() => {
                            parts.push(Part::Thinking(thinking.clone()))
                        }
                        Block::ToolCall(call) => {
                            open.push((call.id.clone(), parts.len()));
                            let arguments = arguments(&call.arguments);
                            parts.push(Part::Call { name: call.name.clone(), arguments, output: None, failed: false });
                        }
                        _ => {}
                    }
                }
                if let Some(error) = &message.error {
                    parts.push(Part::Note(format!("failed: {error}")));
                }
            }
            (Some(Message::Tool(message)), _) => {
                let at = open.iter().rposition(|(id, _)| *id == message.tool_call_id);
                if let Some(Part::Call { output, failed, .. }) = at.and_then(|at| parts.get_mut(open.swap_remove(at).1))
                {
                    *output = Some(text_of(&message.content));
                    *failed = message.is_error;
                }
            }
            (None, Some(record)) => parts.extend(of_record(record)),
            (None, None) => {}
        }
    }
    parts.iter_mut().for_each(redact);
    parts
}

/// Takes out of a part what looks like a secret: an export is made to be passed on.
fn redact(part: &mut Part) {
    let clean = |text: &mut String| {
        if let Cow::Owned(redacted) = crate::text::redact(text) {
            *text = redacted;
        }
    };
    match part {
        Part::User { text, .. } | Part::Answer(text) | Part::Thinking(text) | Part::Note(text) => clean(text),
        Part::Call { arguments, output, .. } => {
            clean(arguments);
            output.iter_mut().for_each(clean);
        }
    }
}

fn of_record(record: &Record) -> Option<Part> {
    match record {
        Record::Compaction { summary, .. } => Some(Part::Note(format!("The context was compacted.\n\n{summary}"))),
        Record::BranchSummary { summary, .. } => Some(Part::Note(format!("Another branch was left.\n\n{summary}"))),
        Record::ModelChange { model, .. } => Some(Part::Note(format!("model: {model}"))),
        Record::Shell { command, output, exit_code, .. } => Some(Part::Call {
            name: "!".to_owned(),
            arguments: command.clone(),
            output: Some(output.clone()),
            failed: *exit_code != Some(0),
        }),
        _ => None,
    }
}

/// The arguments of a call, a line each; a text stands as it is.
fn arguments(arguments: &serde_json::Map<String, serde_json::Value>) -> String {
    let line = |(name, value): (&String, &serde_json::Value)| match value {
        serde_json::Value::String(text) => format!("{name}: {text}"),
        value => format!("{name}: {value}"),
    };
    arguments.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What a session is called.
fn title(loaded: &Loaded) -> String {
    let first = loaded.tree.nodes().iter().find_map(|node| match node.entry.message().map(AsRef::as_ref) {
        Some(Message::User(message)) => Some(text_of(&message.content)),
        _ => None,
    });
    let first = first.as_deref().map(crate::text::first_line).unwrap_or_default();
    let title = loaded.tree.name().unwrap_or(first);
    crate::text::clean(&crate::text::ellipsis(&crate::text::redact(title), 80))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(dir: &Path, lines: &[serde_json::Value]) -> Loaded {
        let path = dir.join("s.jsonl");
        let header = serde_json::json!({"id": "../x", "cwd": "/p", "created_at": 1_795_984_381});
        let text: String = std::iter::once(&header).chain(lines).map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, text).expect("written");
        Loaded::read(&path).expect("loads")
    }

    const HOSTILE: &str = "<script>alert(1)</script> <img src=x onerror=alert(1)> [x](javascript:alert(1)) [y](https://e.org/\"onx=1) `</pre><script>` \u{1b}]0;pwn\u{7}\n\n[x](javascript:alert(1)) <b onclick=x> ![y](https://e.org/y.png)";

    fn hostile(dir: &Path) -> Loaded {
        loaded(
            dir,
            &[
                serde_json::json!({"id": 1, "parent_id": null, "role": "user", "content": [{"type": "text", "text": HOSTILE}, {"type": "image", "mime_type": "image/png\" onload=\"x", "data": "AAAA\"><script>"}]}),
                serde_json::json!({"id": 2, "parent_id": 1, "role": "assistant", "content": [{"type": "text", "text": HOSTILE}, {"type": "thinking", "thinking": HOSTILE}, {"type": "tool_call", "id": "c", "name": HOSTILE, "arguments": {HOSTILE: HOSTILE}}]}),
                serde_json::json!({"id": 3, "parent_id": 2, "role": "tool", "tool_call_id": "c", "content": HOSTILE}),
                serde_json::json!({"id": 4, "parent_id": null, "type": "name", "name": HOSTILE}),
            ],
        )
    }

    #[test]
    fn nothing_in_a_session_becomes_markup_or_a_script() {
        let dir = tempfile::tempdir().expect("a folder");
        let page = html(&hostile(dir.path()));
        let body = page.split("<body>").nth(1).expect("a body");
        for bad in
            ["<script", "<img src=x", "<b ", "href=\"javascript:", "src=\"https", "onload=\"x", "\u{1b}", "/\"onx=1\""]
        {
            assert!(!body.contains(bad), "{bad} in {body}");
        }
        assert!(body.contains("&lt;script&gt;"));
    }

    #[test]
    fn a_file_is_private_and_never_overwritten() {
        let dir = tempfile::tempdir().expect("a folder");
        let session = hostile(dir.path());
        let path = write(&session, dir.path(), None).expect("written");
        assert_eq!(path, dir.path().join("violin-___x.html"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        }
        assert!(matches!(write(&session, dir.path(), None), Err(ExportError::Io { .. })));
        assert!(matches!(write(&session, dir.path(), Some("x.pdf")), Err(ExportError::Ending(_))));
        let path = write(&session, dir.path(), Some("x.md")).expect("written");
        assert!(std::fs::read_to_string(path).expect("there").contains("## You"));
    }

    #[test]
    fn fences_hold_whatever_is_in_them() {
        let dir = tempfile::tempdir().expect("a folder");
        let lines = [
            serde_json::json!({"id": 1, "parent_id": null, "type": "shell", "command": "cat x", "output": "```\n````\n", "exit_code": 0, "in_context": true}),
        ];
        let text = markdown(&loaded(dir.path(), &lines));
        assert!(text.contains("\n`````\n```\n````\n`````\n"), "{text}");
    }
}
