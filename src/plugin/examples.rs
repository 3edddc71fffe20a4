//! Plugins that come with Violin, to be installed with a key press; none is active by itself.

use std::io;
use std::path::PathBuf;

use crate::home::{Home, replace_file};

/// A plugin that comes with Violin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Example {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub description: &'static str,
    /// Its file's text.
    pub text: &'static str,
}

/// All of them.
pub const EXAMPLES: &[Example] = &[
    Example {
        name: "guard",
        description: "blocks or asks for dangerous shell commands, and runs the rest under set -e",
        text: include_str!("../../assets/plugins/guard.lua"),
    },
    Example {
        name: "protect",
        description: "keeps paths such as .env, keys and lock files from being written",
        text: include_str!("../../assets/plugins/protect.lua"),
    },
    Example {
        name: "checks",
        description: "runs a formatter or test after edits and feeds failures back",
        text: include_str!("../../assets/plugins/checks.lua"),
    },
];

/// Puts one into `~/.violin/plugins`; where it stands now.
///
/// # Errors
/// Where there is none of that name, a file of that name is there, or it cannot be written.
pub fn install(home: &Home, name: &str) -> io::Result<PathBuf> {
    let example = EXAMPLES.iter().find(|example| example.name == name);
    let example = example.ok_or_else(|| io::Error::other(format!("no plugin `{name}` comes with Violin")))?;
    let path = home.file("plugins").join(format!("{name}.lua"));
    if path.exists() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{} is there already", path.display())));
    }
    replace_file(&path, example.text.as_bytes())?;
    Ok(path)
}
