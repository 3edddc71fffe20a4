//! Puts a checkpoint back: only what differs is touched, and nothing that the checkpoint could not have held.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::CheckpointError;
use super::manifest::{Item, Kind, Manifest, os};
use super::store::Store;

/// What a restore would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The checkpoint of what is there now: restoring it undoes the restore.
    pub before: String,
    /// What changes, by path.
    pub changes: Vec<(Vec<u8>, Change)>,
    /// Those of the paths that somebody else has changed since the last run.
    pub conflicts: Vec<Vec<u8>>,
}

/// What happens at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is not there now and will be.
    Create(Item),
    /// It gets other content, another mode or another kind.
    Modify(Item),
    /// It goes.
    Delete(Item),
}

/// Compares what is there with what is wanted.
pub fn plan(before: String, current: &Manifest, wanted: Manifest, known: Option<&Manifest>) -> Plan {
    let mut changes = Vec::new();
    for (path, item) in &current.items {
        if !wanted.items.contains_key(path) {
            // A folder that is not empty any more in the checkpoint is made by what is in it.
            let inside = item.kind == Kind::Folder && has_below(&wanted, path);
            if !inside {
                changes.push((path.clone(), Change::Delete(item.clone())));
            }
        }
    }
    for (path, item) in wanted.items {
        match current.items.get(&path) {
            Some(there) if *there == item => {}
            Some(_) => changes.push((path, Change::Modify(item))),
            None if item.kind == Kind::Folder && has_below(current, &path) => {}
            None => changes.push((path, Change::Create(item))),
        }
    }
    let changed_since = |path: &Vec<u8>| known.is_some_and(|known| known.items.get(path) != current.items.get(path));
    let conflicts = changes.iter().map(|(path, _)| path).filter(|path| changed_since(path)).cloned().collect();
    Plan { before, changes, conflicts }
}

fn has_below(manifest: &Manifest, folder: &[u8]) -> bool {
    let mut prefix = folder.to_vec();
    prefix.push(b'/');
    manifest.items.range(prefix.clone()..).next().is_some_and(|(path, _)| path.starts_with(&prefix))
}

/// Does what a plan says: first what goes, then what comes.
pub fn apply(root: &Path, store: &Store, plan: &Plan) -> Result<(), CheckpointError> {
    for (path, change) in &plan.changes {
        if let Change::Delete(item) = change {
            let target = inside(root, path)?;
            delete(&target, item.kind).map_err(CheckpointError::io(&target))?;
        }
    }
    // A file may come where a folder was.
    prune(root, plan);
    let mut contents = store.contents()?;
    for (path, change) in &plan.changes {
        let (Change::Create(item) | Change::Modify(item)) = change else { continue };
        let target = inside(root, path)?;
        if item.kind == Kind::Folder {
            make_way(&target, Kind::Folder)
                .and_then(|()| fs::create_dir_all(&target))
                .map_err(CheckpointError::io(&target))?;
            set_mode(&target, item.mode).map_err(CheckpointError::io(&target))?;
            continue;
        }
        let content = contents.get(&item.object)?.ok_or_else(|| CheckpointError::Missing(item.object.clone()))?;
        write(&target, item, &content).map_err(CheckpointError::io(&target))?;
    }
    Ok(())
}

/// The path below the root, no part of which leads out of it through a link.
fn inside(root: &Path, path: &[u8]) -> Result<PathBuf, CheckpointError> {
    let relative = PathBuf::from(os(path));
    let refused = |why: &str| CheckpointError::Unsuitable(format!("{} {why}", relative.display()));
    let plain = relative.components().all(|part| matches!(part, std::path::Component::Normal(name) if name != ".git"));
    if !plain {
        return Err(refused("leads out of the project"));
    }
    let mut folder = root.to_owned();
    for part in relative.parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        if fs::symlink_metadata(&folder).is_ok_and(|metadata| metadata.is_symlink()) {
            return Err(refused("lies behind a link that was not there before"));
        }
    }
    Ok(root.join(relative))
}

fn delete(target: &Path, kind: Kind) -> io::Result<()> {
    let removed = match kind {
        Kind::Folder => fs::remove_dir(target),
        Kind::File | Kind::Link => fs::remove_file(target),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // It is not empty any more: what is in it now is ignored, and stays.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        other => other,
    }
}

/// Removes what stands at a path where something of another kind must go. A folder with something in it stays.
fn make_way(target: &Path, kind: Kind) -> io::Result<()> {
    match fs::symlink_metadata(target) {
        Ok(there) if there.is_dir() && kind != Kind::Folder => fs::remove_dir(target),
        Ok(there) if !there.is_dir() && (kind != Kind::File || there.is_symlink()) => fs::remove_file(target),
        _ => Ok(()),
    }
}

fn write(target: &Path, item: &Item, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder)?;
    }
    make_way(target, item.kind)?;
    if item.kind == Kind::Link {
        return link(target, content);
    }
    let folder = target.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".violin-").tempfile_in(folder)?;
    io::Write::write_all(&mut file, content)?;
    set_mode(file.path(), item.mode)?;
    file.persist(target).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(unix)]
fn link(target: &Path, content: &[u8]) -> io::Result<()> {
    if fs::symlink_metadata(target).is_ok() {
        fs::remove_file(target)?;
    }
    std::os::unix::fs::symlink(os(content), target)
}

#[cfg(not(unix))]
fn link(_target: &Path, _content: &[u8]) -> io::Result<()> {
    Err(io::Error::other("links are not restored on this system"))
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_mode(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Removes the folders that deletions left empty: the checkpoint would have named them if they had been there.
fn prune(root: &Path, plan: &Plan) {
    for (path, change) in &plan.changes {
        if !matches!(change, Change::Delete(_)) {
            continue;
        }
        let relative = PathBuf::from(os(path));
        for folder in relative.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
            // A folder that is not empty is refused, which is what is wanted.
            if fs::remove_dir(root.join(folder)).is_err() {
                break;
            }
        }
    }
}
