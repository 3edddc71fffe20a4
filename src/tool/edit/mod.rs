//! `edit`: replaces texts in a file, all or none of them, and leaves every other byte as it is.
//!
//! Every edit is matched against the file as it stands, not against what the edits before it made of it.
//! `find` holds how an old text is found, `closest` what is shown where it is not.

mod closest;
mod find;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::toolkit::{Arguments, Risk, Tool, ToolContext, ToolError, ToolOutput, View};

use super::diff::{self, Splice};
use super::files::{self, Seen, Stamp};
use super::path;
use find::{Found, NotFound, Text};

/// Largest file that is edited, in bytes.
const LARGEST: u64 = 256 * 1024 * 1024;

/// The tool.
pub struct Edit {
    seen: Arc<Seen>,
}

impl Edit {
    /// One that tells by `seen` whether a file changed since the model saw it.
    pub fn new(seen: Arc<Seen>) -> Self {
        Edit { seen }
    }
}

impl Tool for Edit {
    fn name(&self) -> &str {
        "edit"
    }

    fn description(&self) -> &str {
        "Replace text in a file. Each old_text must occur exactly once in the file as it is; all edits apply or none"
    }

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {"path": {"type": "string"},
            "edits": {"type": "array", "items": {"type": "object",
                "properties": {"old_text": {"type": "string"}, "new_text": {"type": "string"}},
                "required": ["old_text", "new_text"]}}},
            "required": ["path", "edits"]})
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
        name_texts(&mut arguments);
        if let Some(Value::String(text)) = arguments.get("edits")
            && let Ok(parsed) = serde_json::from_str(text)
        {
            arguments.insert("edits".to_owned(), parsed);
        }
        if let (Some(old), Some(new)) = (arguments.shift_remove("old_text"), arguments.shift_remove("new_text"))
            && arguments.get("edits").is_none_or(|edits| edits.is_null() || edits.as_array().is_some_and(Vec::is_empty))
        {
            arguments.insert("edits".to_owned(), json!([{"old_text": old, "new_text": new}]));
        }
        let mend = |edit: &mut Value| {
            if let Value::String(text) = edit
                && let Ok(parsed @ Value::Object(_)) = serde_json::from_str(text)
            {
                *edit = parsed;
            }
            if let Value::Object(map) = edit {
                name_texts(map);
            }
        };
        match arguments.get_mut("edits") {
            Some(Value::Array(edits)) => edits.iter_mut().for_each(mend),
            Some(edit) => mend(edit),
            None => {}
        }
        arguments
    }

    fn preview(&self, context: &ToolContext, arguments: &Arguments) -> Option<View> {
        let plan = Plan::of(context, arguments).ok()?;
        let change = diff::of_splices(&plan.bytes, &plan.splices);
        Some(View::Diff { path: plan.name, hunks: change.hunks })
    }

    fn run<'a>(&'a self, context: ToolContext, arguments: Arguments) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let seen = self.seen.clone();
            super::changing(&context.cancel.clone(), move || {
                let plan = Plan::of(&context, &arguments)?;
                let stale = seen.stale(&plan.real, plan.stamp);
                let after = diff::spliced(&plan.bytes, &plan.splices);
                let now = fs::metadata(&plan.real).map(|metadata| Stamp::of(&metadata));
                if now.ok() != Some(plan.stamp) {
                    let text = format!("{} was changed by something else in this moment; edit it again.", plan.name);
                    return Err(ToolError::model(text));
                }
                files::replace(&plan.real, &after).map_err(|error| files::failed("written", &plan.name, &error))?;
                if let Ok(metadata) = fs::metadata(&plan.real) {
                    seen.note(&plan.real, Stamp::of(&metadata));
                }
                let change = diff::of_splices(&plan.bytes, &plan.splices);
                let mut text = format!("{} replacements in {}", plan.splices.len(), plan.name);
                for note in &plan.notes {
                    text.push('\n');
                    text.push_str(note);
                }
                if stale {
                    text.push_str("\nThe file had changed since you last read it; the edits fit all the same.");
                }
                let mut output = ToolOutput::text(text, change.summary());
                let (before, after) = (files::state(&plan.bytes), files::state(&after));
                output.effects = vec![files::effect("edit", &plan.argument, &plan.real, before, after)];
                output.view = Some(View::Diff { path: plan.name, hunks: change.hunks });
                Ok(output)
            })
            .await
        })
    }
}

/// Takes the texts of an edit from the other names that models use for them.
fn name_texts(map: &mut Map<String, Value>) {
    super::rename(map, &["oldText", "old_string", "oldString", "old"], "old_text");
    super::rename(map, &["newText", "new_string", "newString", "new"], "new_text");
}

/// What a call will change, found out without changing it.
struct Plan {
    argument: String,
    name: String,
    real: PathBuf,
    stamp: Stamp,
    bytes: Vec<u8>,
    /// In order of place; they do not overlap.
    splices: Vec<Splice>,
    /// Where a match was not exact.
    notes: Vec<String>,
}

impl Plan {
    fn of(context: &ToolContext, arguments: &Arguments) -> Result<Plan, ToolError> {
        let argument = super::text(arguments, "path")?;
        let edits = edits(arguments)?;
        let wanted = path::resolve(&context.cwd, argument);
        let Some(found) = path::existing(&wanted) else {
            let missing = path::missing(&context.cwd, &wanted);
            return Err(ToolError::model(format!("{missing} To make a new file, use write.")));
        };
        let name = path::show(&context.cwd, &found);
        let real = path::real(&found);
        let metadata = fs::metadata(&real).map_err(|error| files::failed("read", &name, &error))?;
        files::writable(&name, &real, &metadata)?;
        let bytes = files::contents(&name, &real, LARGEST)?;
        if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            let text =
                format!("{name} is UTF-16, which edit does not change. Use bash (iconv, python), or write it anew.");
            return Err(ToolError::model(text));
        }
        let (splices, notes) = matched(&name, &bytes, &edits)?;
        let argument = argument.to_owned();
        Ok(Plan { argument, name, real, stamp: Stamp::of(&metadata), bytes, splices, notes })
    }
}

/// An edit as it was asked for.
struct Wanted<'a> {
    old: &'a str,
    new: &'a str,
}

fn edits(arguments: &Arguments) -> Result<Vec<Wanted<'_>>, ToolError> {
    let list = arguments.get("edits").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if list.is_empty() {
        return Err(ToolError::model("edits: give at least one {old_text, new_text}."));
    }
    let field = |edit: &'_ Value, index: usize, name: &str| {
        let missing = || ToolError::model(format!("edits[{index}].{name}: missing"));
        edit.get(name).and_then(Value::as_str).map(|_| ()).ok_or_else(missing)
    };
    let mut edits = Vec::new();
    for (index, edit) in list.iter().enumerate() {
        field(edit, index, "old_text")?;
        field(edit, index, "new_text")?;
        let text = |name: &str| edit[name].as_str().unwrap_or_default();
        edits.push(Wanted { old: text("old_text"), new: text("new_text") });
    }
    Ok(edits)
}

/// Finds every edit's place.
fn matched(name: &str, bytes: &[u8], edits: &[Wanted<'_>]) -> Result<(Vec<Splice>, Vec<String>), ToolError> {
    let text = Text::of(bytes);
    let mut found: Vec<(usize, Found)> = Vec::new();
    let mut notes = Vec::new();
    for (index, edit) in edits.iter().enumerate() {
        let label = if edits.len() == 1 { "old_text".to_owned() } else { format!("edits[{index}].old_text") };
        if edit.old.is_empty() {
            let text = format!("{label} is empty. Give the text to replace, or use write for the whole file.");
            return Err(ToolError::model(text));
        }
        if edit.old == edit.new {
            return Err(ToolError::model(format!("{label} and its new_text are the same; nothing was changed.")));
        }
        match text.find(edit.old, edit.new) {
            Ok(place) => {
                if let Some(how) = place.how {
                    let line = text.line_of(place.splice.old.start);
                    notes.push(format!("{label} was not exactly in the file: matched at line {line} but for {how}."));
                }
                found.push((index, place));
            }
            Err(NotFound::Several(lines, how)) => {
                let count = lines.len();
                let shown: Vec<String> = lines.iter().take(10).map(usize::to_string).collect();
                let more = if count > 10 { ", …" } else { "" };
                let inexact = how.map_or_else(String::new, |how| format!(" (not exactly: but for {how})"));
                return Err(ToolError::model(format!(
                    "{label} occurs {count} times in {name}{inexact}, at lines {}{more}. Add lines around it to make it unique. Nothing was changed.",
                    shown.join(", ")
                )));
            }
            Err(NotFound::None) => {
                let mut message = format!("{label} was not found in {name}. Nothing was changed.");
                if bytes.is_empty() {
                    message.push_str(" The file is empty; use write.");
                } else if edit.old.contains('\u{fffd}') {
                    message.push_str(" \u{fffd} stands for bytes that are no UTF-8: choose a text without it.");
                }
                match closest::lines(bytes, edit.old) {
                    Some(lines) => message.push_str(&format!(" The closest lines are:\n{lines}")),
                    None => message.push_str(" Read the file again and copy the text from it."),
                }
                return Err(ToolError::model(message));
            }
        }
    }
    found.sort_by_key(|(_, place)| (place.splice.old.start, place.splice.old.end));
    for pair in found.windows(2) {
        if let [(one, first), (two, second)] = pair
            && second.splice.old.start < first.splice.old.end
        {
            let (one, two) = (one.min(two), one.max(two));
            let text = format!("edits[{one}] and edits[{two}] overlap; join them into one. Nothing was changed.");
            return Err(ToolError::model(text));
        }
    }
    let splices: Vec<Splice> = found.into_iter().map(|(_, place)| place.splice).collect();
    if splices.iter().all(|splice| bytes[splice.old.clone()] == splice.new[..]) {
        return Err(ToolError::model(format!("{name} already holds the new text; nothing was changed.")));
    }
    Ok((splices, notes))
}

#[cfg(test)]
mod tests;
