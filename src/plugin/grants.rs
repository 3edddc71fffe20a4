//! What the person lets plugins do: permissions granted per content, in `plugin-grants.json`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::home::{Home, replace_file};

/// What a plugin may ask for beyond the pure language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// Read any file that the person can read.
    Read,
    /// Write any file that the person can write.
    Write,
    /// Run commands.
    Exec,
    /// Read variables of the environment, where keys may stand.
    Env,
}

impl Permission {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Permission::Read => "read",
            Permission::Write => "write",
            Permission::Exec => "exec",
            Permission::Env => "env",
        }
    }

    /// What it lets a plugin do, for people.
    pub fn what(self) -> &'static str {
        match self {
            Permission::Read => "read any file that you can read",
            Permission::Write => "write any file that you can write",
            Permission::Exec => "run commands",
            Permission::Env => "read variables of the environment, where keys may stand",
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Permission {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let all = [Permission::Read, Permission::Write, Permission::Exec, Permission::Env];
        all.into_iter()
            .find(|permission| permission.name() == name)
            .ok_or_else(|| format!("`{name}` is no permission; there are read, write, exec, env"))
    }
}

/// plugin-grants.json.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Grants {
    #[serde(default)]
    version: u32,
    /// By the SHA-256 of the plugin's file.
    #[serde(default)]
    grants: BTreeMap<String, Grant>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Grant {
    plugin: String,
    permissions: Vec<Permission>,
}

impl Grants {
    /// What was granted. A file that cannot be read grants nothing.
    pub fn read(home: &Home) -> Self {
        Self::parse(home).unwrap_or_default()
    }

    fn parse(home: &Home) -> io::Result<Self> {
        match fs::read_to_string(home.file("plugin-grants.json")) {
            Ok(text) => serde_json::from_str(&text).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Grants::default()),
            Err(error) => Err(error),
        }
    }

    /// Whether a file of that hash has all of these.
    pub fn has(&self, hash: &str, wanted: &[Permission]) -> bool {
        let granted = self.grants.get(hash).map(|grant| grant.permissions.as_slice()).unwrap_or_default();
        wanted.iter().all(|permission| granted.contains(permission))
    }

    /// Remembers that a file of that hash has these.
    ///
    /// # Errors
    /// Where it cannot be written, or holds what does not read: that is left as it is.
    pub fn allow(home: &Home, hash: &str, plugin: &str, permissions: &[Permission]) -> io::Result<()> {
        let mut grants = Self::parse(home)?;
        grants.version = 1;
        let grant = Grant { plugin: plugin.to_owned(), permissions: permissions.to_vec() };
        grants.grants.insert(hash.to_owned(), grant);
        let text = serde_json::to_string_pretty(&grants).map_err(io::Error::other)?;
        replace_file(&home.file("plugin-grants.json"), format!("{text}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_bound_to_the_content() {
        let dir = tempfile::tempdir().expect("a folder");
        let home = Home::at(dir.path());
        assert!(Grants::read(&home).has("aa", &[]));
        assert!(!Grants::read(&home).has("aa", &[Permission::Exec]));
        Grants::allow(&home, "aa", "checks", &[Permission::Exec, Permission::Read]).expect("kept");
        let grants = Grants::read(&home);
        assert!(grants.has("aa", &[Permission::Read]) && !grants.has("aa", &[Permission::Write]));
        assert!(!grants.has("bb", &[Permission::Exec]));
        std::fs::write(dir.path().join("plugin-grants.json"), "{broken").expect("written");
        assert!(Grants::allow(&home, "bb", "x", &[]).is_err(), "what does not read is not written over");
        assert!(!Grants::read(&home).has("aa", &[Permission::Read]));
        assert!("root".parse::<Permission>().is_err());
    }
}
