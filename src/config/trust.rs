//! Trust: what a project brings does nothing until the person says so, and again when it has changed
//! (product.md, "Modes and review"; traps.md B150 and B152).
//!
//! Trust is bound to the directory's real path and to the content of each file. What was read for the hash is what is used:
//! [`Brought`] keeps it, so that nothing can be exchanged in between. Symbolic links are never followed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::home::{Home, hex, open_regular, refuse_symlink, replace_file};

/// A file of a project that does something is smaller than this.
const LARGEST: u64 = 1 << 20;

/// Names below `.violin` that do something, with what they do.
const FILES: &[(&str, &str)] = &[
    ("settings.json", "settings: the shell, rules, the sandbox and more"),
    ("SYSTEM.md", "in place of the system prompt"),
    ("APPEND_SYSTEM.md", "behind the system prompt"),
];

/// A file that a project brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its name below `.violin`, such as `plugins/x.lua`.
    pub name: String,
    /// Where it stands.
    pub path: PathBuf,
    /// What it would do.
    pub what: &'static str,
    /// What it says.
    pub text: String,
    /// SHA-256 of its bytes.
    pub hash: String,
}

/// What a project brings that does something.
#[derive(Debug, Clone, Default)]
pub struct Brought {
    /// The project's real path.
    pub dir: PathBuf,
    /// The files.
    pub items: Vec<Item>,
    /// What was passed over, and why.
    pub refused: Vec<String>,
}

/// How far a project is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It brings nothing, or all that it brings is trusted.
    Trusted,
    /// The person said no to just this.
    Declined,
    /// It was never asked.
    Unknown,
    /// It was trusted, and has changed since.
    Changed,
}

/// trust.json.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Trust {
    #[serde(default)]
    version: u32,
    #[serde(default)]
    directories: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Entry {
    trusted: bool,
    files: BTreeMap<String, String>,
}

impl Brought {
    /// Looks at what a project brings.
    pub fn of(cwd: &Path) -> Self {
        let dir = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let mut brought = Brought { dir, ..Brought::default() };
        let folder = brought.dir.join(".violin");
        if fs::symlink_metadata(&folder).is_err() || !brought.may_enter(&folder) {
            return brought;
        }
        for (name, what) in FILES {
            brought.take((*name).to_owned(), what, folder.join(name));
        }
        let plugins = folder.join("plugins");
        if fs::symlink_metadata(&plugins).is_err() || !brought.may_enter(&plugins) {
            return brought;
        }
        let mut paths: Vec<PathBuf> =
            fs::read_dir(&plugins).into_iter().flatten().flatten().map(|e| e.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "lua"));
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            brought.take(format!("plugins/{name}"), "a plugin, which runs code", path);
        }
        brought
    }

    fn may_enter(&mut self, folder: &Path) -> bool {
        match refuse_symlink(folder) {
            Ok(()) => true,
            Err(error) => {
                self.refused.push(error.to_string());
                false
            }
        }
    }

    fn take(&mut self, name: String, what: &'static str, path: PathBuf) {
        if fs::symlink_metadata(&path).is_err() {
            return;
        }
        match read(&path) {
            Ok(bytes) => {
                let hash = hex(&Sha256::digest(&bytes));
                let text = String::from_utf8_lossy(&bytes).into_owned();
                self.items.push(Item { name, path, what, text, hash });
            }
            Err(error) => self.refused.push(format!("{} is left out: {error}", path.display())),
        }
    }

    /// The file of that name below `.violin`.
    pub fn item(&self, name: &str) -> Option<&Item> {
        self.items.iter().find(|item| item.name == name)
    }

    /// A line for each file, for people.
    pub fn lines(&self) -> Vec<String> {
        let clean = |name: &str| crate::text::visible(name);
        self.items.iter().map(|item| format!(".violin/{} ({})", clean(&item.name), item.what)).collect()
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    refuse_symlink(path)?;
    let file = open_regular(path)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other("it is larger than 1 MB"));
    }
    Ok(bytes)
}

impl Trust {
    /// What the person trusts. A file that cannot be read trusts nothing.
    pub fn read(home: &Home) -> Self {
        Self::parse(home).unwrap_or_default()
    }

    fn parse(home: &Home) -> io::Result<Self> {
        match fs::read_to_string(home.file("trust.json")) {
            Ok(text) => serde_json::from_str(&text).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Trust::default()),
            Err(error) => Err(error),
        }
    }

    /// How far what a project brings is trusted.
    pub fn standing(&self, brought: &Brought) -> Standing {
        if brought.items.is_empty() {
            return Standing::Trusted;
        }
        let Some(entry) = self.directories.get(&key(&brought.dir)) else { return Standing::Unknown };
        let same = brought.items.iter().all(|item| entry.files.get(&item.name) == Some(&item.hash));
        match (entry.trusted, same) {
            (true, true) => Standing::Trusted,
            (true, false) => Standing::Changed,
            (false, true) => Standing::Declined,
            (false, false) => Standing::Unknown,
        }
    }

    /// The trusted directories.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        self.directories.iter().filter(|(_, entry)| entry.trusted).map(|(dir, _)| dir.as_str())
    }

    /// Remembers the person's answer to what a project brings now.
    ///
    /// # Errors
    /// Where it cannot be written, or holds what does not read: that is left as it is.
    pub fn answer(home: &Home, brought: &Brought, trusted: bool) -> io::Result<()> {
        let mut trust = Self::parse(home)?;
        let files = brought.items.iter().map(|item| (item.name.clone(), item.hash.clone())).collect();
        trust.directories.insert(key(&brought.dir), Entry { trusted, files });
        trust.write(home)
    }

    /// Takes a directory's trust back; whether it had any.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub fn revoke(home: &Home, dir: &Path) -> io::Result<bool> {
        let mut trust = Self::parse(home)?;
        let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let had = trust.directories.remove(&key(&real)).is_some();
        if had {
            trust.write(home)?;
        }
        Ok(had)
    }

    fn write(&mut self, home: &Home) -> io::Result<()> {
        self.version = 1;
        let text = serde_json::to_string_pretty(self).map_err(io::Error::other)?;
        replace_file(&home.file("trust.json"), format!("{text}\n").as_bytes())
    }
}

/// The real path; bytes that are no text are written in hexadecimal, so that no two paths are taken for one.
fn key(dir: &Path) -> String {
    match dir.to_str() {
        Some(text) => text.to_owned(),
        None => format!("hex:{}", hex(dir.as_os_str().as_encoded_bytes())),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn project() -> (tempfile::TempDir, Home, PathBuf) {
        let dir = tempfile::tempdir().expect("a folder");
        let (home, project) = (Home::at(dir.path().join("home")), dir.path().join("project"));
        fs::create_dir_all(project.join(".violin/plugins")).expect("made");
        (dir, home, project)
    }

    #[test]
    fn trust_is_bound_to_path_and_content() {
        let (_dir, home, project) = project();
        let standing = || Trust::read(&home).standing(&Brought::of(&project));
        assert_eq!(standing(), Standing::Trusted, "nothing is brought");
        fs::write(project.join(".violin/settings.json"), "{}").expect("written");
        fs::write(project.join(".violin/plugins/a.lua"), "return {}").expect("written");
        fs::write(project.join(".violin/plugins/a.txt"), "no plugin").expect("written");
        assert_eq!(standing(), Standing::Unknown);
        Trust::answer(&home, &Brought::of(&project), false).expect("kept");
        assert_eq!(standing(), Standing::Declined);
        Trust::answer(&home, &Brought::of(&project), true).expect("kept");
        assert_eq!(standing(), Standing::Trusted);
        let mode = fs::metadata(home.file("trust.json")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(project.join(".violin/plugins/b.lua"), "return {}").expect("written");
        assert_eq!(standing(), Standing::Changed, "a new file");
        fs::remove_file(project.join(".violin/plugins/b.lua")).expect("gone");
        fs::write(project.join(".violin/settings.json"), "{ }").expect("written");
        assert_eq!(standing(), Standing::Changed, "another content");
        fs::write(home.file("trust.json.kept"), fs::read(home.file("trust.json")).expect("there")).expect("copied");
        fs::write(home.file("trust.json"), "{broken").expect("written");
        assert!(Trust::answer(&home, &Brought::of(&project), true).is_err(), "what does not read is not written over");
        assert_eq!(fs::read_to_string(home.file("trust.json")).expect("there"), "{broken");
        fs::rename(home.file("trust.json.kept"), home.file("trust.json")).expect("back");
        let moved = project.with_file_name("moved");
        fs::write(project.join(".violin/settings.json"), "{}").expect("written");
        assert_eq!(standing(), Standing::Trusted);
        fs::rename(&project, &moved).expect("moved");
        assert_eq!(Trust::read(&home).standing(&Brought::of(&moved)), Standing::Unknown, "another path");
        assert!(Trust::revoke(&home, &project).expect("written") && !Trust::revoke(&home, &project).expect("written"));
    }

    /// traps.md B152.
    #[test]
    fn links_are_not_followed() {
        let (dir, _home, project) = project();
        let secret = dir.path().join("secret.lua");
        fs::write(&secret, "secret").expect("written");
        symlink(&secret, project.join(".violin/plugins/x.lua")).expect("linked");
        symlink(&secret, project.join(".violin/SYSTEM.md")).expect("linked");
        let brought = Brought::of(&project);
        assert!(brought.items.is_empty() && brought.refused.len() == 2, "{brought:?}");
        let other = dir.path().join("other");
        fs::create_dir(&other).expect("made");
        symlink(project.join(".violin"), other.join(".violin")).expect("linked");
        let brought = Brought::of(&other);
        assert!(brought.items.is_empty() && brought.refused.len() == 1, "{brought:?}");
    }
}
