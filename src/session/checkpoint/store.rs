//! The private git store: commits go in by `git fast-import`, contents come out by `git cat-file`.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use super::CheckpointError;
use super::manifest::{Kind, Manifest, os};
use super::scan::{Stamp, StatCache};
use crate::home::{private_dir, private_file};
use crate::process::spawn;

/// The store of one project.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
}

/// The branch that keeps all checkpoints from being taken for rubbish.
const BRANCH: &str = "refs/heads/checkpoints";

impl Store {
    /// Opens the store, and makes it where there is none.
    ///
    /// # Errors
    /// Where git is missing or fails, or the folder cannot be made.
    pub fn open(folder: &Path, root: &Path) -> Result<Self, CheckpointError> {
        let store = Store { folder: folder.to_owned() };
        if folder.join("HEAD").exists() {
            return Ok(store);
        }
        private_dir(folder).map_err(CheckpointError::io(folder))?;
        // Without the samples of hooks and the like that git's template brings.
        let output = output(store.git(&["init", "--bare", "--quiet", "--template="]).arg(folder))?;
        if !output.status.success() {
            return Err(CheckpointError::Git(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        // For whoever wonders whose files these are.
        let described = private_file().write(true).create(true).truncate(true).open(folder.join("description"));
        let written = described.and_then(|mut file| writeln!(file, "{}", root.display()));
        written.map_err(CheckpointError::io(folder))?;
        Ok(store)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Git, with everything of the person's and the system's shut out.
    fn git(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
            command.env_remove(name);
        }
        command
            .env("GIT_DIR", &self.folder)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .args([
                "-c",
                "core.hooksPath=/dev/null",
                "-c",
                "gc.auto=0",
                "-c",
                "core.sharedRepository=0600",
                "-c",
                "fastimport.unpackLimit=50",
            ])
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// Stores a manifest and the contents that are `unknown`; the new checkpoint's name, and the manifest with every object
    /// in it. Files that vanish meanwhile are left out.
    ///
    /// # Errors
    /// Where git or the file system fails.
    pub fn write(
        &self,
        root: &Path,
        mut manifest: Manifest,
        unknown: &[(Vec<u8>, Option<Stamp>)],
        before: Option<&str>,
        cache: &mut StatCache,
    ) -> Result<(String, Manifest), CheckpointError> {
        let mut import = Import::start(self.git(&[
            "fast-import",
            "--quiet",
            "--force",
            "--date-format=raw-permissive",
            "--cat-blob-fd=1",
        ]))?;
        for (path, stamp) in unknown {
            let content = manifest.items.get(path).and_then(|item| content(&root.join(os(path)), item.kind).ok());
            let Some(content) = content else {
                manifest.items.remove(path);
                continue;
            };
            let object = import.blob(&content)?;
            if let Some(item) = manifest.items.get_mut(path) {
                item.object.clone_from(&object);
            }
            if let Some(stamp) = stamp {
                cache.note(path.clone(), *stamp, object);
            }
        }
        let listing = import.blob(&manifest.to_bytes())?;
        let now = jiff::Timestamp::now().as_second();
        let mut commit = format!("commit {BRANCH}\nmark :1\ncommitter Violin <violin> {now} +0000\ndata 0\n");
        match before {
            Some(before) => commit.push_str(&format!("from {before}\n")),
            None => commit.push_str(&self.head()?.map(|head| format!("from {head}\n")).unwrap_or_default()),
        }
        commit.push_str(&format!("deleteall\nM 100644 {listing} manifest\n"));
        import.send(commit.as_bytes())?;
        // Contents are named by their objects: the store needs no paths, and no path can be one that git refuses.
        let mut objects: Vec<&str> =
            manifest.items.values().map(|item| item.object.as_str()).filter(|o| !o.is_empty()).collect();
        objects.sort_unstable();
        objects.dedup();
        for object in objects {
            import.send(format!("M 100644 {object} objects/{}/{}\n", &object[..2], &object[2..]).as_bytes())?;
        }
        import.send(b"\nget-mark :1\n")?;
        let reference = import.answer()?;
        import.end()?;
        Ok((reference, manifest))
    }

    fn head(&self) -> Result<Option<String>, CheckpointError> {
        let output = output(&mut self.git(&["rev-parse", "--verify", "--quiet", BRANCH]))?;
        let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(Some(name).filter(|name| output.status.success() && !name.is_empty()))
    }

    /// The manifest of a checkpoint.
    ///
    /// # Errors
    /// Where it is not there.
    pub fn manifest(&self, reference: &str) -> Result<Manifest, CheckpointError> {
        let gone = || CheckpointError::Missing(reference.to_owned());
        // A name comes from a session's file and could be any text.
        if reference.is_empty() || !reference.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(gone());
        }
        let mut contents = self.contents()?;
        let bytes = contents.get(&format!("{reference}:manifest"))?.ok_or_else(gone)?;
        Manifest::from_bytes(&bytes).ok_or_else(gone)
    }

    /// A reader of contents.
    ///
    /// # Errors
    /// Where git cannot be started.
    pub fn contents(&self) -> Result<Contents, CheckpointError> {
        let mut command = self.git(&["cat-file", "--batch"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = spawn(&mut command).map_err(missing)?;
        let stdout =
            child.stdout.take().map(BufReader::new).ok_or_else(|| CheckpointError::Git("no output".to_owned()))?;
        Ok(Contents { child, stdout })
    }
}

fn output(command: &mut Command) -> Result<Output, CheckpointError> {
    let child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    child.and_then(Child::wait_with_output).map_err(missing)
}

fn missing(error: io::Error) -> CheckpointError {
    match error.kind() {
        io::ErrorKind::NotFound => CheckpointError::NoGit,
        _ => CheckpointError::Git(error.to_string()),
    }
}

#[cfg(unix)]
fn content(path: &Path, kind: Kind) -> io::Result<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    match kind {
        Kind::Link => Ok(fs::read_link(path)?.into_os_string().into_vec()),
        Kind::File => read_file(path),
        Kind::Folder => Ok(Vec::new()),
    }
}

#[cfg(not(unix))]
fn content(path: &Path, kind: Kind) -> io::Result<Vec<u8>> {
    match kind {
        Kind::Link => Ok(fs::read_link(path)?.to_string_lossy().into_owned().into_bytes()),
        Kind::File => read_file(path),
        Kind::Folder => Ok(Vec::new()),
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A running `git fast-import`.
struct Import {
    child: Child,
    stdin: Option<io::BufWriter<std::process::ChildStdin>>,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Import {
    fn start(mut command: Command) -> Result<Self, CheckpointError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(&mut command).map_err(missing)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(stdin), Some(stdout)) => Ok(Import {
                child,
                stdin: Some(io::BufWriter::with_capacity(64 * 1024, stdin)),
                stdout: BufReader::new(stdout),
            }),
            _ => Err(CheckpointError::Git("no pipe".to_owned())),
        }
    }

    /// Stores a content; its object.
    fn blob(&mut self, content: &[u8]) -> Result<String, CheckpointError> {
        self.send(format!("blob\nmark :2\ndata {}\n", content.len()).as_bytes())?;
        self.send(content)?;
        self.send(b"\nget-mark :2\n")?;
        self.answer()
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        let sent =
            self.stdin.as_mut().map_or_else(|| Err(io::Error::other("it is over")), |stdin| stdin.write_all(bytes));
        sent.map_err(|error| self.failed(&error))
    }

    fn answer(&mut self) -> Result<String, CheckpointError> {
        let mut line = String::new();
        let flushed = self.stdin.as_mut().map_or(Ok(()), Write::flush);
        let read = flushed.and_then(|()| self.stdout.read_line(&mut line));
        match read {
            Ok(length) if length > 1 => Ok(line.trim().to_owned()),
            Ok(_) => Err(self.failed(&io::Error::other("it ended"))),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&mut self, error: &io::Error) -> CheckpointError {
        self.stdin = None;
        let _ = self.child.kill();
        let mut told = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut told);
        }
        let _ = self.child.wait();
        let told = crate::text::first_line(&told).to_owned();
        CheckpointError::Git(if told.is_empty() { error.to_string() } else { told })
    }

    fn end(mut self) -> Result<(), CheckpointError> {
        let flushed = self.stdin.take().map_or(Ok(()), |mut stdin| stdin.flush());
        if let Err(error) = flushed {
            return Err(self.failed(&error));
        }
        let status = self.child.wait().map_err(|error| CheckpointError::Git(error.to_string()))?;
        if status.success() { Ok(()) } else { Err(self.failed(&io::Error::other(status.to_string()))) }
    }
}

/// Reads contents by their objects.
pub struct Contents {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Contents {
    /// A content; `None` where there is none of that name.
    ///
    /// # Errors
    /// Where git fails.
    pub fn get(&mut self, object: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
        let failed = |error: io::Error| CheckpointError::Git(error.to_string());
        let stdin = self.child.stdin.as_mut().ok_or_else(|| CheckpointError::Git("no input".to_owned()))?;
        writeln!(stdin, "{object}").map_err(failed)?;
        let mut head = String::new();
        self.stdout.read_line(&mut head).map_err(failed)?;
        let mut words = head.split_whitespace().skip(1);
        if words.next() != Some("blob") {
            return Ok(None);
        }
        let size: usize = words.next().and_then(|size| size.parse().ok()).unwrap_or(0);
        let mut content = vec![0; size + 1];
        self.stdout.read_exact(&mut content).map_err(failed)?;
        content.pop();
        Ok(Some(content))
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
