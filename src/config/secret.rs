//! Keys: `$NAME` from the environment, `!command` from a program, or the text itself.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::model::Secret;
use crate::process::starting;

/// A `!command` must answer within this.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a key could not be had. It never holds the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// A variable is not there, or empty.
    #[error("{0} is not set")]
    Unset(String),
    /// A `$` that begins no name.
    #[error("a `$` must be followed by a name, as in $NAME or ${{NAME}}; `$$` stands for a dollar")]
    BadReference,
    /// The command failed.
    #[error("the command for the key failed: {0}")]
    Command(String),
}

/// Replaces `$NAME` and `${NAME}` by what `env` says, and `$$` by a dollar. A `!command` is not run here.
///
/// # Errors
/// The name that is not set.
pub fn expand(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, SecretError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let (name, after) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}').ok_or(SecretError::BadReference)?,
            None => after.split_at(after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len())),
        };
        if name.is_empty() {
            return Err(SecretError::BadReference);
        }
        let value = env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        out.push_str(&value.ok_or_else(|| SecretError::Unset(name.to_owned()))?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// The key that a text stands for.
///
/// # Errors
/// Where a variable is not set, or the command fails or does not answer.
pub async fn resolve(text: &Secret, env: &(dyn Fn(&str) -> Option<String> + Sync)) -> Result<Secret, SecretError> {
    match text.reveal().strip_prefix('!') {
        Some(command) => run(command).await.map(Secret::new),
        // A line's end that was copied with a key makes no header.
        None => expand(text.reveal(), env).map(|key| Secret::new(key.trim())),
    }
}

/// Whether a key could be had, as far as can be told without running anything.
///
/// # Errors
/// As [`expand`].
pub fn check(text: &Secret, env: &dyn Fn(&str) -> Option<String>) -> Result<(), SecretError> {
    if text.reveal().starts_with('!') { Ok(()) } else { expand(text.reveal(), env).map(drop) }
}

async fn run(command: &str) -> Result<String, SecretError> {
    let failed = |text: String| SecretError::Command(text);
    let mut process = Command::new("sh");
    process.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    // What it says on stderr could be anything, and is not shown: it may hold a key.
    let child = starting(|| process.spawn()).map_err(|error| failed(error.to_string()))?;
    let output = timeout(PATIENCE, child.wait_with_output()).await;
    let output = output.map_err(|_| failed(format!("it did not end within {} s", PATIENCE.as_secs())))?;
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(format!("it ended with {}", output.status)));
    }
    let text = String::from_utf8(output.stdout).map_err(|_| failed("it printed no text".to_owned()))?;
    match text.trim() {
        "" => Err(failed("it printed nothing".to_owned())),
        key => Ok(key.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "KEY" => Some("abc\n".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    /// traps.md B128.
    #[test]
    fn names_are_replaced_and_missing_ones_named() {
        assert_eq!(expand("$KEY", &env), Ok("abc".into()));
        assert_eq!(expand("Bearer ${KEY}-$$5", &env), Ok("Bearer abc-$5".into()));
        assert_eq!(expand("plain", &env), Ok("plain".into()));
        assert_eq!(expand("$MISSING", &env).expect_err("unset").to_string(), "MISSING is not set");
        assert_eq!(expand("$EMPTY", &env), Err(SecretError::Unset("EMPTY".into())));
        assert_eq!(expand("a$", &env), Err(SecretError::BadReference));
        assert_eq!(expand("${KEY", &env), Err(SecretError::BadReference));
    }

    #[tokio::test]
    async fn commands_are_run_and_their_failures_told() {
        let get = async |text: &str| resolve(&Secret::new(text), &env).await.map(|secret| secret.reveal().to_owned());
        assert_eq!(get("!printf ' k-1 \\n'").await, Ok("k-1".into()));
        assert!(matches!(get("!exit 3").await, Err(SecretError::Command(text)) if text.contains('3')));
        assert!(matches!(get("!true").await, Err(SecretError::Command(_))));
    }
}
