//! Who writes a session: an advisory lock on a file beside it, in which the holder tells who it is.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::home::private_file;

/// The lock of a session file. It is given back when this is dropped, and by the system when the process
/// dies.
#[derive(Debug)]
pub struct SessionLock {
    file: File,
    path: PathBuf,
}

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// The machine.
    pub host: String,
    /// Unix seconds.
    pub started_at: i64,
}

/// Why there is no lock.
#[derive(Debug)]
pub(super) enum Refused {
    /// Somebody else has it; they may not have written yet who they are.
    Held(Option<Holder>),
    /// The file system failed.
    Io(std::io::Error),
}

impl SessionLock {
    /// Takes the lock of the session file at `session`.
    pub(super) fn take(session: &Path) -> Result<Self, Refused> {
        let path = session.with_extension("lock");
        // Another process may remove the file between our opening and our locking it; then it is not the lock.
        for _ in 0..16 {
            let opened = private_file().read(true).write(true).create(true).truncate(false).open(&path);
            let mut file = opened.map_err(Refused::Io)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(std::fs::TryLockError::WouldBlock) => return Err(Refused::Held(read_holder(&mut file))),
                Err(std::fs::TryLockError::Error(error)) => return Err(Refused::Io(error)),
            }
            if !is_same(&file, &path) {
                continue;
            }
            let holder =
                Holder { pid: std::process::id(), host: host(), started_at: jiff::Timestamp::now().as_second() };
            let text = serde_json::to_vec(&holder).map_err(|error| Refused::Io(error.into()))?;
            file.set_len(0).and_then(|()| file.write_all(&text)).map_err(Refused::Io)?;
            return Ok(SessionLock { file, path });
        }
        Err(Refused::Held(None))
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // While it is still locked: who opens it now finds another file, or none, at its path.
        if is_same(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn read_holder(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(4096).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(one), Ok(two)) = (file.metadata(), std::fs::metadata(path)) else { return false };
    (one.dev(), one.ino()) == (two.dev(), two.ino())
}

#[cfg(not(unix))]
fn is_same(_file: &File, path: &Path) -> bool {
    path.exists()
}

fn host() -> String {
    #[cfg(unix)]
    return rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    std::env::var("COMPUTERNAME").unwrap_or_default()
}
