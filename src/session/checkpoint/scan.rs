//! Looks at a working tree: which files there are, and which of them the store does not know yet.

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ignore::WalkBuilder;

use super::manifest::{Item, Kind, Manifest, bytes};
use super::{CheckpointError, Limits};

/// What a scan found.
#[derive(Debug, Default)]
pub struct Scan {
    /// Everything that is there; what is not stored yet has no object.
    pub manifest: Manifest,
    /// The paths whose content the store does not know yet, with what to note once it does.
    pub unknown: Vec<(Vec<u8>, Option<Stamp>)>,
    /// What is left out, for the person.
    pub left_out: Vec<String>,
}

/// By what a file is known to be unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    size: u64,
    inode: u64,
    modified: SystemTime,
    changed: (i64, i64),
}

/// The objects of files that were seen before.
#[derive(Debug, Default)]
pub struct StatCache {
    known: HashMap<Vec<u8>, (Stamp, String)>,
}

impl StatCache {
    /// Notes a file's object.
    pub fn note(&mut self, path: Vec<u8>, stamp: Stamp, object: String) {
        self.known.insert(path, (stamp, object));
    }

    /// How many files are known.
    #[cfg(test)]
    pub fn known_count(&self) -> usize {
        self.known.len()
    }

    fn get(&self, path: &[u8], stamp: Stamp) -> Option<&str> {
        self.known.get(path).filter(|(known, _)| *known == stamp).map(|(_, object)| object.as_str())
    }
}

/// A file that was written this short a time ago may be written again without its stamp changing, since clocks tick.
const TICK: Duration = Duration::from_millis(50);

/// Scans the tree below `root`. `.gitignore` is respected, `.git` and nested repositories are not looked into, nor is `own`.
pub fn scan(root: &Path, own: &Path, limits: Limits, cache: &StatCache) -> Result<Scan, CheckpointError> {
    let mut scan = Scan::default();
    let now = SystemTime::now();
    let own = own.canonicalize().unwrap_or_else(|_| own.to_owned());
    let top = root.to_owned();
    let mut walk = WalkBuilder::new(root);
    walk.standard_filters(false).git_ignore(true).git_exclude(true).require_git(false).follow_links(false);
    walk.filter_entry(move |entry| {
        let is_top = entry.path() == top;
        entry.file_name() != ".git" && (is_top || !entry.path().join(".git").exists()) && entry.path() != own
    });
    let mut folders: HashMap<PathBuf, usize> = HashMap::new();
    let mut modes: HashMap<PathBuf, u32> = HashMap::new();
    for entry in walk.build() {
        // What cannot be looked at cannot be kept; the rest can.
        let Ok(entry) = entry else { continue };
        if entry.path() == root {
            continue;
        }
        let Ok(metadata) = entry.path().symlink_metadata() else { continue };
        let Ok(relative) = entry.path().strip_prefix(root) else { continue };
        if let Some(parent) = relative.parent() {
            *folders.entry(parent.to_owned()).or_default() += 1;
        }
        let path = bytes(relative.as_os_str());
        let kind = match metadata.file_type() {
            kind if kind.is_dir() => {
                folders.entry(relative.to_owned()).or_default();
                modes.insert(relative.to_owned(), mode(&metadata));
                continue;
            }
            kind if kind.is_symlink() => Kind::Link,
            kind if kind.is_file() => Kind::File,
            // Sockets, pipes and devices have no content to keep.
            _ => continue,
        };
        if kind == Kind::File && metadata.len() > limits.file_bytes {
            scan.left_out.push(format!("{} ({} MB)", relative.display(), metadata.len() >> 20));
            continue;
        }
        let stamp = stamp(&metadata);
        let object = stamp.and_then(|stamp| cache.get(&path, stamp)).unwrap_or_default().to_owned();
        if object.is_empty() {
            let settled = stamp.filter(|stamp| now.duration_since(stamp.modified).is_ok_and(|age| age > TICK));
            scan.unknown.push((path.clone(), settled));
        }
        scan.manifest.items.insert(path, Item { kind, mode: mode(&metadata), object });
        if scan.manifest.items.len() > limits.files {
            let text = format!("there are more than {} files in {}", limits.files, root.display());
            return Err(CheckpointError::TooMany(text));
        }
    }
    for (folder, _) in folders.into_iter().filter(|(folder, inside)| *inside == 0 && !folder.as_os_str().is_empty()) {
        let mode = modes.get(&folder).copied().unwrap_or(0o755);
        let item = Item { kind: Kind::Folder, mode, object: String::new() };
        scan.manifest.items.insert(bytes(folder.as_os_str()), item);
    }
    Ok(scan)
}

#[cfg(unix)]
fn mode(metadata: &Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    // The mode of a link means nothing.
    if metadata.is_symlink() { 0o777 } else { metadata.permissions().mode() & 0o7777 }
}

#[cfg(not(unix))]
fn mode(metadata: &Metadata) -> u32 {
    if metadata.permissions().readonly() { 0o444 } else { 0o644 }
}

#[cfg(unix)]
fn stamp(metadata: &Metadata) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let changed = (metadata.ctime(), metadata.ctime_nsec());
    Some(Stamp { size: metadata.len(), inode: metadata.ino(), modified: metadata.modified().ok()?, changed })
}

#[cfg(not(unix))]
fn stamp(metadata: &Metadata) -> Option<Stamp> {
    Some(Stamp { size: metadata.len(), inode: 0, modified: metadata.modified().ok()?, changed: (0, 0) })
}
