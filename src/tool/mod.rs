//! The built-in tools: one file each, and one line each in `ROWS`.
//!
//! What the tools share stands beside them: [`path`] finds what a path means, [`files`] writes files whole and
//! leaves receipts, [`schema`] checks arguments, [`image`] makes images fit for a model, [`sandbox`]
//! keeps commands in, `diff` makes hunks,
//! `truncate` cuts texts. Nothing here knows the agent, a provider or the screen.

mod bash;
mod diff;
mod edit;
pub mod files;
mod glob;
mod grep;
pub mod image;
pub mod path;
mod read;
pub mod sandbox;
pub mod schema;
mod truncate;
mod walk;
mod write;

use std::sync::Arc;

use serde_json::Value;
use tokio::task;
use tokio_util::sync::CancellationToken;

pub use bash::{JobReport, Jobs, Plain, run_plain};

use crate::toolkit::{Arguments, Tool, ToolError, ToolSet};
use files::Seen;

/// What several tools of one session share.
struct Shared {
    /// Which files the model has seen, and as what.
    seen: Arc<Seen>,
    /// The commands that run in the background.
    jobs: Arc<Jobs>,
}

/// Makes one tool of a session.
type Row = fn(&Shared) -> Arc<dyn Tool>;

/// The built-in tools, in the order in which the model is told of them.
static ROWS: &[Row] = &[
    |shared| Arc::new(read::Read::new(shared.seen.clone())),
    |shared| Arc::new(write::Write::new(shared.seen.clone())),
    |shared| Arc::new(edit::Edit::new(shared.seen.clone())),
    |shared| Arc::new(bash::Bash::new(shared.jobs.clone())),
    |_| Arc::new(grep::Grep),
    |_| Arc::new(glob::Glob),
];

/// The built-in tools for one session. Commands that they start in the background are kept in `jobs`.
pub fn builtin(jobs: &Arc<Jobs>) -> ToolSet {
    let shared = Shared { seen: Arc::default(), jobs: jobs.clone() };
    ToolSet::new(ROWS.iter().map(|row| row(&shared)).collect())
}

/// Runs blocking work that only looks; a cancelled call returns at once and leaves the work to notice it.
async fn looking<T: Send + 'static>(
    cancel: &CancellationToken,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(ToolError::Cancelled),
        done = task::spawn_blocking(work) => finished(done),
    }
}

/// Runs blocking work that changes files: once begun it is waited for, so that its result tells the truth.
async fn changing<T: Send + 'static>(
    cancel: &CancellationToken,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    if cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    finished(task::spawn_blocking(work).await)
}

/// A panic goes on in the call's own task, where the agent turns it into an error result.
fn finished<T>(done: Result<Result<T, ToolError>, task::JoinError>) -> Result<T, ToolError> {
    match done {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(ToolError::Cancelled),
    }
}

/// A text argument; the error names it where it is missing.
fn text<'a>(arguments: &'a Arguments, name: &str) -> Result<&'a str, ToolError> {
    optional_text(arguments, name).ok_or_else(|| ToolError::model(format!("{name}: missing; give it as a string")))
}

/// A text argument, where there is one.
fn optional_text<'a>(arguments: &'a Arguments, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}

/// A whole number of at least `least`, where there is one.
fn count(arguments: &Arguments, name: &str, least: usize) -> Option<usize> {
    let value = arguments.get(name)?;
    let whole = value.as_i64().or_else(|| value.as_f64().map(|number| number as i64))?;
    Some(usize::try_from(whole).unwrap_or(0).max(least))
}

/// A yes or no; no where there is none.
fn flag(arguments: &Arguments, name: &str) -> bool {
    arguments.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// Takes an argument that came under another name that models use for it.
fn rename(arguments: &mut Arguments, others: &[&str], name: &str) {
    for other in others {
        if let Some(value) = arguments.shift_remove(*other)
            && !arguments.contains_key(name)
        {
            arguments.insert(name.to_owned(), value);
        }
    }
}

/// The names that models give to the path of a file.
const PATH_NAMES: &[&str] = &["file_path", "filePath", "filename", "file"];

#[cfg(test)]
mod testing {
    //! What the tests of the tools share.

    use super::*;
    use crate::message::text_of;
    use crate::toolkit::{LiveOutput, ShellSettings, ToolContext, ToolOutput};
    use std::path::Path;

    /// A context in that folder; outputs are kept in `.outputs` within it.
    pub fn context(cwd: &Path) -> ToolContext {
        ToolContext {
            call_id: "call_1".into(),
            cwd: cwd.to_owned(),
            cancel: CancellationToken::new(),
            live: LiveOutput::none(),
            outputs: cwd.join(".outputs"),
            images: true,
            shell: Arc::new(ShellSettings::default()),
        }
    }

    /// The arguments that a JSON object holds.
    pub fn arguments(value: Value) -> Arguments {
        match value {
            Value::Object(map) => map,
            other => panic!("no object: {other}"),
        }
    }

    /// Runs a call as the agent does: mended, checked, run.
    pub async fn call(tool: &dyn Tool, context: &ToolContext, value: Value) -> Result<ToolOutput, ToolError> {
        let prepared = tool.prepare(arguments(value));
        let checked = schema::check(&tool.parameters(), prepared).map_err(ToolError::Model)?;
        tool.run(context.clone(), checked).await
    }

    /// The text of a result, or of its error.
    pub fn said(result: &Result<ToolOutput, ToolError>) -> String {
        match result {
            Ok(output) => text_of(&output.content),
            Err(error) => error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn definitions_stay_small() {
        let tools = builtin(&Arc::default());
        let definitions: Vec<Value> = tools
            .iter()
            .map(|tool| {
                json!({"type": "function", "function": {
                    "name": tool.name(), "description": tool.description(), "parameters": tool.parameters()}})
            })
            .collect();
        let size = serde_json::to_string(&definitions).expect("writes").chars().count();
        println!("tool definitions: {size} characters");
        assert!(size < 2700, "{size} characters");
        let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
        assert_eq!(names, ["read", "write", "edit", "bash", "grep", "glob"]);
    }

    #[test]
    fn every_schema_is_one_that_strict_servers_take() {
        for tool in builtin(&Arc::default()).iter() {
            let schema = tool.parameters();
            assert_eq!(schema["type"], "object", "{}", tool.name());
            for name in schema["required"].as_array().expect("a list") {
                assert!(schema["properties"].get(name.as_str().expect("a name")).is_some(), "{}", tool.name());
            }
        }
    }

    #[test]
    fn numbers_are_kept_within_reason() {
        let arguments = testing::arguments(json!({"a": -5, "b": 2.0, "c": "x", "d": 7}));
        assert_eq!(count(&arguments, "a", 1), Some(1));
        assert_eq!(count(&arguments, "b", 0), Some(2));
        assert_eq!(count(&arguments, "c", 0), None);
        assert_eq!(count(&arguments, "d", 0), Some(7));
    }
}
