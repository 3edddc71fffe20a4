//! What a model is sent: the system prompt, the person's rules, the skills on offer, and the conversation,
//! built from a session's tree.

pub mod conversation;
pub mod front_matter;
pub mod prompt;
pub mod rules;
pub mod skills;
pub mod templates;
pub mod tokens;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::home::open_regular;

/// A rule, a skill or a template is smaller than this.
const LARGEST: u64 = 256 * 1024;

/// The text of a file that a person wrote for a model, without its byte order mark. What is no UTF-8 in it is
/// replaced.
///
/// # Errors
/// Where it cannot be read, is no regular file, or is too large.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let file = open_regular(path)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other("it is larger than 256 kB"));
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
}

/// The directories from the repository's root down to `cwd`; `cwd` alone outside of one.
pub fn project_directories(cwd: &Path) -> Vec<PathBuf> {
    let root = cwd.ancestors().find(|dir| dir.join(".git").exists());
    let mut directories: Vec<PathBuf> = match root {
        Some(root) => cwd.ancestors().take_while(|dir| dir.starts_with(root)).map(Path::to_owned).collect(),
        None => vec![cwd.to_owned()],
    };
    directories.reverse();
    directories
}
