//! Files as the tools change them: what may be written, writing whole or not at all, receipts, and the record
//! of what the model has seen.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::home;
use crate::message::{Effect, FileState};
use crate::toolkit::ToolError;

use super::truncate;

/// The state of a file by which a change is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    /// That of a file with this metadata.
    pub fn of(metadata: &Metadata) -> Self {
        Stamp { bytes: metadata.len(), modified: metadata.modified().ok() }
    }
}

/// Which files the model has seen, by their real paths.
#[derive(Debug, Default)]
pub struct Seen {
    stamps: Mutex<HashMap<PathBuf, Stamp>>,
}

impl Seen {
    /// Notes that the model knows the file as it stands now.
    pub fn note(&self, path: &Path, stamp: Stamp) {
        self.lock().insert(path.to_owned(), stamp);
    }

    /// Whether the model saw the file, and it is another now.
    pub fn stale(&self, path: &Path, now: Stamp) -> bool {
        self.lock().get(path).is_some_and(|stamp| *stamp != now)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Stamp>> {
        // A panic elsewhere leaves the map whole: every change is one insert.
        self.stamps.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A file's state for a receipt.
pub fn state(bytes: &[u8]) -> FileState {
    FileState { exists: true, bytes: bytes.len() as u64, sha256: Some(home::hex(&Sha256::digest(bytes))) }
}

/// The state of the file at `path`, read in pieces.
///
/// # Errors
/// Those of reading; a file that is not there is none.
pub fn state_at(path: &Path) -> io::Result<FileState> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(nothing()),
        Err(error) => return Err(error),
    };
    let mut hash = Sha256::new();
    let mut bytes = 0;
    let mut piece = vec![0; 64 * 1024];
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            break;
        }
        hash.update(&piece[..read]);
        bytes += read as u64;
    }
    Ok(FileState { exists: true, bytes, sha256: Some(home::hex(&hash.finalize())) })
}

/// The state of a file that is not there.
pub fn nothing() -> FileState {
    FileState { exists: false, bytes: 0, sha256: None }
}

/// A receipt.
pub fn effect(operation: &str, path: &str, resolved: &Path, before: FileState, after: FileState) -> Effect {
    Effect {
        schema: "violin.effect.v1".into(),
        operation: operation.into(),
        path: path.into(),
        resolved_path: resolved.to_string_lossy().into_owned(),
        before,
        after,
    }
}

/// Refuses what is no regular file, and what must not be written.
///
/// # Errors
/// For the model: what is in the way.
pub fn writable(shown: &str, path: &Path, metadata: &Metadata) -> Result<(), ToolError> {
    let kind = kind(metadata);
    if kind != "file" {
        return Err(ToolError::model(format!("{shown} is a {kind}, not a file; choose another path.")));
    }
    let read_only = || ToolError::model(format!("{shown} is read-only; it was not changed. Ask before you chmod it."));
    // Root may write what is marked read-only; the mark is meant all the same.
    if metadata.permissions().readonly() {
        return Err(read_only());
    }
    #[cfg(unix)]
    if rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_err() {
        return Err(read_only());
    }
    Ok(())
}

/// What stands at a path, in a word.
pub fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_file() {
        return "file";
    }
    if kind.is_dir() {
        return "directory";
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "FIFO";
        }
        if kind.is_socket() {
            return "socket";
        }
        if kind.is_block_device() || kind.is_char_device() {
            return "device";
        }
    }
    "special file"
}

/// Opens a regular file for reading. A FIFO or a device that took its place meanwhile does not hold us.
///
/// # Errors
/// Those of the file system.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits() as i32);
    options.open(path)
}

/// Writes a file whole: a temporary file beside it, fsync, rename. The mode and the owner of the old one stay;
/// `path` is a real path, so that a symbolic link to it stays one too. Folders above it are made.
///
/// Where no file can be made or renamed beside it (a folder that may not be written, a file that is mounted by
/// itself) or its owner cannot be kept, the file is written in place.
///
/// # Errors
/// Those of the file system. The old file is untouched unless it had to be written in place.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().ok_or_else(|| io::Error::other("the path has no folder"))?;
    let old = fs::metadata(path).ok();
    if old.is_none() {
        fs::create_dir_all(dir)?;
    }
    match write_beside(path, dir, bytes, old.as_ref()) {
        Ok(()) => Ok(()),
        Err(Failure::Whole(error)) => Err(error),
        Err(Failure::Beside(error)) => match old {
            Some(_) => {
                let mut file = File::options().write(true).truncate(true).open(path)?;
                file.write_all(bytes)?;
                file.sync_all()
            }
            None => Err(error),
        },
    }
}

/// Why a file could not be written by way of another.
enum Failure {
    /// It cannot be written at all, for want of space.
    Whole(io::Error),
    /// No other file can take its place.
    Beside(io::Error),
}

fn write_beside(path: &Path, dir: &Path, bytes: &[u8], old: Option<&Metadata>) -> Result<(), Failure> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".violin-");
    #[cfg(unix)]
    if old.is_none() {
        // The umask takes its part from this.
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(dir).map_err(Failure::Beside)?;
    file.write_all(bytes).map_err(Failure::Whole)?;
    if let Some(old) = old {
        #[cfg(unix)]
        keep_owner(file.as_file(), old).map_err(Failure::Beside)?;
        // After the owner: changing that takes set-user-id bits away.
        file.as_file().set_permissions(old.permissions()).map_err(Failure::Beside)?;
    }
    file.as_file().sync_all().map_err(Failure::Whole)?;
    file.persist(path).map_err(|error| Failure::Beside(error.error))?;
    Ok(())
}

#[cfg(unix)]
fn keep_owner(file: &File, old: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let new = file.metadata()?;
    if (new.uid(), new.gid()) == (old.uid(), old.gid()) {
        return Ok(());
    }
    std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()))
}

/// An error of the file system, for the model.
pub fn failed(doing: &str, shown: &str, error: &io::Error) -> ToolError {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a part of its path is a file, not a folder".to_owned()
        }
        io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        _ => error.to_string(),
    };
    ToolError::model(format!("{shown} could not be {doing}: {why}."))
}

/// Reads a whole file that is not larger than `most` bytes.
///
/// # Errors
/// For the model: what is in the way.
pub fn contents(shown: &str, path: &Path, most: u64) -> Result<Vec<u8>, ToolError> {
    let file = open(path).map_err(|error| failed("read", shown, &error))?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| failed("read", shown, &error))?;
    if bytes.len() as u64 > most {
        let limit = truncate::size(most);
        return Err(ToolError::model(format!("{shown} is larger than {limit}; change it with bash (sed, python).")));
    }
    Ok(bytes)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn modes_and_owners_stay() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("file");
        for mode in [0o755, 0o644, 0o600, 0o4755] {
            fs::write(&path, "old").expect("written");
            let as_root = std::os::unix::fs::chown(&path, Some(12345), Some(12345)).is_ok();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
            replace(&path, b"new").expect("written");
            let metadata = fs::metadata(&path).expect("there");
            assert_eq!(metadata.permissions().mode() & 0o7777, mode);
            assert!(!as_root || (metadata.uid(), metadata.gid()) == (12345, 12345));
            assert_eq!(fs::read(&path).expect("read"), b"new");
            fs::remove_file(&path).expect("removed");
        }
        assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 0, "nothing is left beside it");
    }

    #[test]
    fn a_new_file_has_the_mode_that_any_program_would_give_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let (ours, theirs) = (dir.path().join("a/b/ours"), dir.path().join("theirs"));
        replace(&ours, b"x").expect("written");
        fs::write(&theirs, b"x").expect("written");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode(&ours), mode(&theirs));
    }

    #[test]
    fn what_is_no_file_or_read_only_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("file");
        fs::write(&path, "x").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("set");
        let check = |path: &Path| writable("x", path, &fs::metadata(path).expect("there"));
        assert!(check(&path).is_err_and(|error| error.to_string().contains("read-only")));
        assert!(check(dir.path()).is_err_and(|error| error.to_string().contains("directory")));
        assert!(check(Path::new("/dev/null")).is_err_and(|error| error.to_string().contains("device")));
    }

    #[test]
    fn a_receipt_holds_the_hash_of_the_bytes() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("file");
        assert_eq!(state_at(&path).expect("looked"), nothing());
        fs::write(&path, "abc").expect("written");
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(state(b"abc").sha256.as_deref(), Some(sum));
        assert_eq!(state_at(&path).expect("read"), state(b"abc"));
    }
}
