//! Watching files: a call when one of them changes, and nothing at all while none does. There is no polling
//! and no timer of its own; who is called may arm one.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// Watches until it is dropped.
#[derive(Debug)]
pub struct Watch {
    _watcher: RecommendedWatcher,
}

/// What is watched.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// One file, whether it is there yet or not; its folder must be.
    File(PathBuf),
    /// Everything directly in a folder.
    Folder(PathBuf),
}

impl Watch {
    /// Begins to watch; `on_change` is called with the file that changed, from a thread of the watcher's, and
    /// may be called several times for one change. Folders that are not there are left out.
    ///
    /// # Errors
    /// Where the system gives no watcher at all.
    pub fn start(targets: &[Target], on_change: impl Fn(&Path) + Send + 'static) -> notify::Result<Self> {
        let mut files = HashSet::new();
        let mut folders = HashSet::new();
        let mut whole = HashSet::new();
        for target in targets {
            match target {
                Target::File(path) => {
                    // Editors replace files, and a link's own folder does not tell of what it points to.
                    for path in [Some(path.clone()), path.canonicalize().ok()].into_iter().flatten() {
                        folders.extend(path.parent().map(Path::to_owned));
                        files.insert(path);
                    }
                }
                Target::Folder(path) => {
                    whole.insert(path.clone());
                    folders.insert(path.clone());
                }
            }
        }
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let Ok(event) = event else { return };
            if matches!(event.kind, EventKind::Access(_)) {
                return;
            }
            for path in &event.paths {
                if files.contains(path) || path.parent().is_some_and(|parent| whole.contains(parent)) {
                    on_change(path);
                }
            }
        })?;
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            watcher.watch(folder, RecursiveMode::NonRecursive)?;
        }
        Ok(Watch { _watcher: watcher })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_replaced_file_is_told_and_its_neighbours_are_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().canonicalize().expect("real");
        let (file, other) = (root.join("models.json"), root.join("other.json"));
        let (sender, receiver) = mpsc::channel();
        let _watch = Watch::start(&[Target::File(file.clone())], move |path| {
            let _ = sender.send(path.to_owned());
        })
        .expect("watches");
        std::fs::write(&other, "1").expect("written");
        std::fs::write(root.join("new"), "2").expect("written");
        std::fs::rename(root.join("new"), &file).expect("renamed");
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok(file));
        assert!(receiver.try_iter().all(|path| path != other));
    }
}
