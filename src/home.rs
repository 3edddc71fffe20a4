//! Where Violin keeps its files (formats.md, "Home"), and how they are written: folders 0700, files 0600,
//! replaced whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// `~/.violin`, or what `$VIOLIN_HOME` says. It is only a place: nothing is made until it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// The home of that root.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Home { root: root.into() }
    }

    /// From the environment. `None` where there is neither `$VIOLIN_HOME` nor a home directory.
    pub fn from_env() -> Option<Self> {
        let own = std::env::var_os("VIOLIN_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = own.or_else(|| Some(std::env::home_dir().filter(|dir| dir.is_absolute())?.join(".violin")))?;
        Some(Home::at(std::path::absolute(root).ok()?))
    }

    /// The root itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `agent/NAME`: models.json, settings.json, AGENTS.md, skills, prompts.
    pub fn agent(&self, name: &str) -> PathBuf {
        self.root.join("agent").join(name)
    }

    /// `NAME` directly under the root: trust.json, history.jsonl, plugins, themes.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The folder of a directory's sessions.
    pub fn sessions_of(&self, cwd: &Path) -> PathBuf {
        self.sessions().join(slug(cwd))
    }

    /// The folder of all sessions.
    pub fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    /// The folder of a session's whole outputs.
    pub fn outputs_of(&self, session_id: &str) -> PathBuf {
        self.root.join("outputs").join(session_id)
    }

    /// The folder of a directory's file checkpoints.
    pub fn checkpoints_of(&self, cwd: &Path) -> PathBuf {
        self.root.join("checkpoints").join(slug(cwd))
    }

    /// The folder of what plugins keep for a session.
    pub fn plugin_data_of(&self, session_id: &str) -> PathBuf {
        self.root.join("plugin-data").join(session_id)
    }

    /// The folder of log files.
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }
}

/// The name that a directory's sessions are kept under: the real path with everything but
/// `[A-Za-z0-9._-]` made `-`, cut to 80, and 8 hexadecimal digits of its SHA-256.
pub fn slug(dir: &Path) -> String {
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let bytes = real.as_os_str().as_encoded_bytes();
    let plain = real.to_string_lossy();
    let kept = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    let name: String = plain.chars().map(kept).take(80).collect();
    format!("{name}-{}", &hex(&Sha256::digest(bytes))[..8])
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a folder and those above it, 0700 where they are new. A symbolic link in place of one of Violin's
/// own folders inside a project would redirect what we write: see [`refuse_symlink`].
pub fn private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Options that make a new file 0600.
pub fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Opens a file to be read, and nothing else that stands under a name: a FIFO would never open, a device never end.
///
/// # Errors
/// Those of the file system; also where it is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    // With it a FIFO opens at once, so that what was opened is what is looked at.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits() as i32);
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// The text of a small file that a person writes.
///
/// # Errors
/// As for [`open_regular`]; also where it is longer than `most` bytes, or no UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {} MB", most >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

/// Writes a file of our own whole: a temporary file beside it, fsync, rename. A symbolic link stays one: what
/// it points to is replaced. The file is 0600, or keeps the mode that it has.
///
/// # Errors
/// Those of the file system, and where something else than a file stands there, such as a device; what is there is
/// untouched then.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&target).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(io::Error::other("it is no regular file"));
    }
    let dir = target.parent().ok_or_else(|| io::Error::other("the path has no folder"))?;
    private_dir(dir)?;
    let mut file = tempfile::Builder::new().prefix(".violin-").tempfile_in(dir)?;
    file.write_all(bytes)?;
    if let Ok(metadata) = fs::metadata(&target) {
        file.as_file().set_permissions(metadata.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(&target).map_err(|error| error.error)?;
    // The rename itself is lost in a crash unless the folder is synced too; some file systems cannot.
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
    Ok(())
}

/// Refuses a path that is a symbolic link: for files of ours inside a project, which a cloned repository
/// could have put there to redirect our writes.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] where it is a link.
pub fn refuse_symlink(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => {
            let text = format!("{} is a symbolic link; Violin does not follow it for files of its own", path.display());
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        }
        _ => Ok(()),
    }
}

/// `path` with the person's home directory shown as `~`.
pub fn tilde(path: &Path) -> String {
    let home = std::env::home_dir();
    match home.as_deref().and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_tell_directories_apart_that_look_alike() {
        let one = slug(Path::new("/no such/a b"));
        let two = slug(Path::new("/no such/a-b"));
        assert!(one.starts_with("-no-such-a-b-") && two.starts_with("-no-such-a-b-"));
        assert_ne!(one, two);
        assert!(slug(Path::new(&format!("/{}", "日".repeat(300)))).len() <= 89);
    }

    #[cfg(unix)]
    #[test]
    fn replacing_keeps_links_and_modes() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().expect("a folder");
        let (file, link) = (dir.path().join("new/settings.json"), dir.path().join("link.json"));
        replace_file(&file, b"1").expect("written");
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(file.parent().expect("parent")).expect("there").permissions().mode() & 0o777, 0o700);
        symlink("new/settings.json", &link).expect("linked");
        replace_file(&link, b"2").expect("written");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read(&file).expect("read"), b"2");
        assert!(refuse_symlink(&link).is_err() && refuse_symlink(&file).is_ok());
    }

    /// traps.md B130, the same with what is no file at all: reading neither waits nor goes on for ever, and saving
    /// leaves the device in its place.
    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_neither_read_nor_replaced() {
        let dir = tempfile::tempdir().expect("a folder");
        let (pipe, link) = (dir.path().join("pipe"), dir.path().join("link"));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
        assert!(made.success());
        std::os::unix::fs::symlink("/dev/null", &link).expect("linked");
        for path in [pipe.as_path(), &link, Path::new("/dev/zero"), dir.path()] {
            let error = read_text(path, 1 << 20).expect_err("no file").to_string();
            assert_eq!(error, "it is no regular file", "{}", path.display());
        }
        assert!(replace_file(&link, b"x").is_err() && replace_file(&pipe, b"x").is_err());
        assert!(!fs::metadata("/dev/null").expect("there").is_file());
        let file = dir.path().join("a");
        fs::write(&file, "abc").expect("written");
        assert_eq!(read_text(&file, 3).expect("small"), "abc");
        assert!(read_text(&file, 2).expect_err("too large").to_string().contains("larger than"));
    }
}
