//! A session that is written: its tree in memory, its file on disk, and the one way to add to both.
//!
//! The file only grows. What cannot be written, because the disk is full or the home is read-only, is kept
//! and written as soon as it can be; the conversation goes on meanwhile.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::entry::{Body, Entry, EntryId, Header, Record, VERSION};
use super::lock::{Holder, Refused, SessionLock};
use super::tree::Tree;
use crate::home::{Home, private_dir, private_file};
use crate::message::{Message, Usage};

/// A session.
#[derive(Debug)]
pub struct Session {
    header: Header,
    tree: Tree,
    usage: Usage,
    notices: Vec<String>,
    /// `None`: nothing is kept.
    file: Option<SessionFile>,
}

/// Why a session cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// It cannot be read or written.
    #[error("cannot {action} the session {}: {source}", .path.display())]
    Io {
        /// `read`, `make`, …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{} is not a session of Violin: its first line is no header and no entry follows", .0.display())]
    NotASession(PathBuf),
    /// It comes from a later version.
    #[error("{} was written by a later version of Violin (format {found}, this one reads {VERSION}); update Violin to open it", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Another process writes it.
    #[error("the session is open in another Violin ({}); close that one, or fork the session with --fork", holder(.0))]
    Locked(Option<Holder>),
}

fn holder(holder: &Option<Holder>) -> String {
    match holder {
        Some(holder) => format!("process {} on {}", holder.pid, holder.host),
        None => "its process is not known yet".to_owned(),
    }
}

/// What a session file holds, read without taking its lock.
#[derive(Debug)]
pub struct Loaded {
    /// Its first line.
    pub header: Header,
    /// The rest.
    pub tree: Tree,
    /// What all its answers used.
    pub usage: Usage,
    /// What could not be read, in sentences for the person.
    pub notices: Vec<String>,
    /// The file's last line lacks its newline.
    torn: bool,
}

#[derive(Debug)]
struct SessionFile {
    path: PathBuf,
    /// `None`: not made yet.
    open: Option<Open>,
    /// What is not on disk yet: before the first user message all of it, later what failed. It is not bounded:
    /// it is in memory as the tree anyway, and giving it up would lose the conversation.
    pending: Vec<u8>,
    /// Why the last write failed.
    problem: Option<String>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// Where the last whole line ends.
    end: u64,
    _lock: SessionLock,
}

impl Session {
    /// A new session of a directory. Its file is made when the first user message is appended.
    pub fn new(home: &Home, cwd: &Path, model: Option<String>) -> Self {
        let header = new_header(cwd, model);
        let path = home.sessions_of(cwd).join(format!("{}.jsonl", header.id));
        let file = SessionFile { path, open: None, pending: Vec::new(), problem: None };
        Session { header, tree: Tree::default(), usage: Usage::default(), notices: Vec::new(), file: Some(file) }
    }

    /// A session that is kept nowhere.
    pub fn ephemeral(cwd: &Path, model: Option<String>) -> Self {
        let header = new_header(cwd, model);
        Session { header, tree: Tree::default(), usage: Usage::default(), notices: Vec::new(), file: None }
    }

    /// Opens a session's file to go on with it.
    ///
    /// # Errors
    /// [`SessionError`]; nothing is changed then.
    pub fn open(path: &Path) -> Result<Self, SessionError> {
        let io = |action| move |source| SessionError::Io { action, path: path.to_owned(), source };
        let lock = SessionLock::take(path).map_err(|refused| match refused {
            Refused::Held(holder) => SessionError::Locked(holder),
            Refused::Io(source) => io("lock")(source),
        })?;
        let loaded = Loaded::read(path)?;
        let mut file = private_file().read(true).append(true).open(path).map_err(io("open"))?;
        let end = file.seek(SeekFrom::End(0)).map_err(io("read"))?;
        // A line that a crash cut off is closed with the next append, not now: looking changes nothing.
        let pending = if loaded.torn { b"\n".to_vec() } else { Vec::new() };
        let open = Some(Open { file, end, _lock: lock });
        let file = SessionFile { path: path.to_owned(), open, pending, problem: None };
        let Loaded { header, tree, usage, notices, .. } = loaded;
        Ok(Session { header, tree, usage, notices, file: Some(file) })
    }

    /// Copies the path from the root to `to` (`None`: to the leaf) of a session into a new one. Ids stay;
    /// labels of what is copied come along. The other file is only read.
    ///
    /// # Errors
    /// [`SessionError`] of reading the other or making the new one.
    pub fn fork(home: &Home, from: &Path, to: Option<EntryId>) -> Result<Self, SessionError> {
        let loaded = Loaded::read(from)?;
        let leaf = to.map_or(loaded.tree.leaf(), |id| loaded.tree.find(id));
        let path: HashSet<usize> = loaded.tree.path(leaf).into_iter().collect();
        let nodes = loaded.tree.nodes();
        let kept: HashSet<EntryId> = path.iter().map(|index| nodes[*index].entry.id).collect();
        let cwd = PathBuf::from(&loaded.header.cwd);
        let mut session = Session::new(home, &cwd, loaded.header.model.clone());
        session.header.parent_session = Some(loaded.header.id.clone());
        let (mut lines, mut index) = (Vec::new(), 0);
        // The lines themselves are copied, so that fields that we do not know are kept.
        let read = each_line(from, |line, number| {
            let line = line.trim_ascii();
            let Some(entry) = (number > 0).then(|| Entry::parse(line, 0).ok()).flatten() else { return };
            let wanted = match entry.record() {
                Some(Record::Label { target_id, .. }) => kept.contains(target_id),
                Some(Record::Leaf { .. }) => false,
                Some(Record::Name { .. }) => true,
                _ => {
                    // The lines of the tree come in the order of its nodes; another one was written meanwhile.
                    let Some(node) = nodes.get(index) else { return };
                    index += 1;
                    if path.contains(&(index - 1)) {
                        let mut copy = Entry::clone(&node.entry);
                        copy.parent_id = node.parent.map(|parent| nodes[parent].entry.id);
                        // A parent or an id that was mended is written as it was understood.
                        match copy.parent_id == entry.parent_id && copy.id == entry.id {
                            true => lines.extend_from_slice(line),
                            false => lines.extend_from_slice(&placed(line, &copy)),
                        }
                        lines.push(b'\n');
                        session.tree.push(Arc::new(copy));
                    }
                    return;
                }
            };
            if wanted {
                session.tree.push(Arc::new(entry));
                lines.extend_from_slice(line);
                lines.push(b'\n');
            }
        });
        read.map_err(|source| SessionError::Io { action: "read", path: from.to_owned(), source })?;
        session.usage = usage_of(&session.tree);
        if let Some(file) = &mut session.file {
            file.pending = lines;
            if session.tree.nodes().iter().any(|node| is_user(&node.entry)) {
                let made = file.save(&session.header, &session.tree);
                made.map_err(|source| SessionError::Io { action: "make", path: file.path.clone(), source })?;
            }
        }
        Ok(session)
    }

    /// Appends an entry behind the leaf, on disk before it is returned, and makes it the leaf. Labels, names and
    /// leaf moves have no parent.
    pub fn append(&mut self, body: Body) -> Arc<Entry> {
        let mut entry = Entry { id: self.tree.next_id(), parent_id: None, timestamp: now_ms(), body };
        if entry.in_tree() {
            entry.parent_id = self.tree.leaf_id();
        }
        if let Some(Message::Assistant(message)) = entry.message().map(Arc::as_ref) {
            message.usage.iter().for_each(|usage| self.usage.add(usage));
        }
        let entry = Arc::new(entry);
        self.tree.push(entry.clone());
        if let Some(file) = &mut self.file {
            match entry.to_line() {
                Ok(line) => file.pending.extend_from_slice(&line),
                Err(error) => file.problem = Some(error.to_string()),
            }
            if file.open.is_some() || is_user(&entry) {
                file.problem = file.save(&self.header, &self.tree).err().map(|error| error.to_string());
            }
        }
        entry
    }

    /// Why the session is not being saved, where it is not.
    pub fn problem(&self) -> Option<&str> {
        self.file.as_ref()?.problem.as_deref()
    }

    /// A handle to make what is written safe against a loss of power, off the path: `sync_data` on it.
    pub fn handle(&self) -> Option<File> {
        self.file.as_ref()?.open.as_ref()?.file.try_clone().ok()
    }

    /// The first line.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Names the first model, while the file is not made yet.
    pub fn set_model(&mut self, model: String) {
        if self.tree.is_empty() {
            self.header.model = Some(model);
        }
    }

    /// The entries.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// What all answers in it used.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// What loading it brought up.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Its file, made or not; `None`: nothing is kept.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    /// Whether its file is there.
    pub fn is_on_disk(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.open.is_some())
    }
}

impl SessionFile {
    /// Writes what is pending.
    fn save(&mut self, header: &Header, tree: &Tree) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|open| is_gone(&open.file)) {
            // Somebody deleted the file: it is made again from what is in memory.
            self.open = None;
            self.pending.clear();
            for node in tree.nodes() {
                self.pending.extend_from_slice(&node.entry.to_line()?);
            }
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(Open::make(&self.path, header)?),
        };
        if let Err(error) = open.file.write_all(&self.pending) {
            // A part of it may be there; the file ends with whole lines only.
            open.file.set_len(open.end)?;
            return Err(error);
        }
        open.end += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

impl Open {
    fn make(path: &Path, header: &Header) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            private_dir(dir)?;
        }
        let lock = SessionLock::take(path).map_err(|refused| match refused {
            Refused::Held(_) => {
                io::Error::new(io::ErrorKind::ResourceBusy, "another process has a session of that name")
            }
            Refused::Io(error) => error,
        })?;
        let mut file = private_file().append(true).create_new(true).open(path)?;
        let mut line = serde_json::to_vec(header)?;
        line.push(b'\n');
        if let Err(error) = file.write_all(&line) {
            // An empty or torn file of that name would be in the way of the next try.
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        Ok(Open { file, end: line.len() as u64, _lock: lock })
    }
}

impl Loaded {
    /// Reads a session's file. Lines that cannot be read are skipped and told of.
    ///
    /// # Errors
    /// Where the file cannot be read, or is no session, or of a later version.
    pub fn read(path: &Path) -> Result<Self, SessionError> {
        let mut header = None;
        let (mut tree, mut usage, mut notices) = (Tree::default(), Usage::default(), Vec::new());
        let mut unreadable: Vec<(usize, String)> = Vec::new();
        let mut mended = 0;
        let read = each_line(path, |line, number| {
            let trimmed = line.trim_ascii();
            if trimmed.is_empty() {
                return;
            }
            if number == 0 {
                match serde_json::from_slice::<Header>(trimmed) {
                    Ok(found) => header = Some(found),
                    Err(error) => unreadable.push((1, error.to_string())),
                }
                return;
            }
            match Entry::parse(trimmed, tree.next_id().0) {
                Ok(entry) => {
                    if let Some(Message::Assistant(message)) = entry.message().map(Arc::as_ref) {
                        message.usage.iter().for_each(|used| usage.add(used));
                    }
                    mended += usize::from(!tree.push(Arc::new(entry)));
                }
                Err(error) => unreadable.push((number + 1, error)),
            }
        });
        let torn = read.map_err(|source| SessionError::Io { action: "read", path: path.to_owned(), source })?;
        let header = match header {
            Some(header) => header,
            None if tree.is_empty() => return Err(SessionError::NotASession(path.to_owned())),
            None => header_from_name(path),
        };
        if header.version > VERSION {
            return Err(SessionError::Version { path: path.to_owned(), found: header.version });
        }
        if let Some((line, error)) = unreadable.first() {
            let more = match unreadable.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            notices.push(format!("line {line} of the session cannot be read and was skipped{more}: {error}"));
        }
        if mended > 0 && unreadable.is_empty() {
            notices.push(format!("{mended} entries name a parent that is not there; they follow on the entry before"));
        }
        Ok(Loaded { header, tree, usage, notices, torn })
    }
}

/// Hands on each line without its newline, numbered from 0; `true`: the last one lacks its newline.
fn each_line(path: &Path, mut take: impl FnMut(&[u8], usize)) -> io::Result<bool> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut reader = BufReader::with_capacity(256 * 1024, file);
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        // A line is at most what a 32-bit machine could hold; a file without newlines does not fill the memory.
        let read = reader.by_ref().take(1 << 31).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(false);
        }
        let whole = line.last() == Some(&b'\n');
        if whole {
            line.pop();
        }
        take(&line, number);
        number += 1;
        if !whole {
            return Ok(true);
        }
    }
}

/// A line with the id and the parent of an entry, and everything else as it is.
fn placed(line: &[u8], entry: &Entry) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(line) else {
        return line.to_vec();
    };
    value.insert("id".to_owned(), entry.id.0.into());
    value.insert("parent_id".to_owned(), entry.parent_id.map(|id| id.0).into());
    serde_json::to_vec(&value).unwrap_or_else(|_| line.to_vec())
}

fn usage_of(tree: &Tree) -> Usage {
    let mut usage = Usage::default();
    for node in tree.nodes() {
        if let Some(Message::Assistant(message)) = node.entry.message().map(Arc::as_ref) {
            message.usage.iter().for_each(|used| usage.add(used));
        }
    }
    usage
}

fn is_user(entry: &Entry) -> bool {
    matches!(entry.message().map(Arc::as_ref), Some(Message::User(_)))
        || matches!(entry.record(), Some(Record::Shell { .. }))
}

#[cfg(unix)]
fn is_gone(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
}

#[cfg(not(unix))]
fn is_gone(_file: &File) -> bool {
    false
}

fn new_header(cwd: &Path, model: Option<String>) -> Header {
    let now = jiff::Timestamp::now();
    let id = format!("{}-{:08x}", now.strftime("%Y%m%d-%H%M%S"), fastrand::u32(..));
    let cwd = cwd.to_string_lossy().into_owned();
    Header { version: VERSION, id, created_at: now.as_second(), cwd, model, parent_session: None }
}

fn header_from_name(path: &Path) -> Header {
    let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Header { version: VERSION, id, created_at: 0, cwd: String::new(), model: None, parent_session: None }
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AssistantMessage, UserMessage};

    fn user(text: &str) -> Body {
        Body::Message(Arc::new(Message::User(UserMessage::text(text))))
    }

    fn started(dir: &Path) -> (Session, PathBuf) {
        let mut session = Session::new(&Home::at(dir.join("home")), dir, Some("p/m".into()));
        session.append(user("one"));
        let path = session.path().expect("kept").to_owned();
        (session, path)
    }

    fn texts(tree: &Tree) -> Vec<String> {
        tree.branch().iter().filter_map(|e| e.message().map(|m| crate::message::text_of(m.content()))).collect()
    }

    #[test]
    fn the_file_is_made_with_the_first_user_message() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut session = Session::new(&Home::at(dir.path()), dir.path(), None);
        session.append(Body::Record(Record::ThinkingChange { level: "low".into() }));
        let path = session.path().expect("kept").to_owned();
        assert!(!path.exists() && !session.is_on_disk());
        session.append(user("one"));
        let text = std::fs::read_to_string(&path).expect("there");
        assert_eq!(text.lines().count(), 3);
        assert!(text.starts_with(&format!("{{\"version\":1,\"id\":\"{}\"", session.header().id)));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(path.parent().expect("a folder"))), (0o600, 0o700));
        }
    }

    /// traps.md B101 and B104.
    #[test]
    fn bad_lines_are_skipped_and_told() {
        let dir = tempfile::tempdir().expect("a folder");
        let (mut session, path) = started(dir.path());
        session.append(user("two\u{2028}\nlines"));
        drop(session);
        let mut text = std::fs::read_to_string(&path).expect("there");
        text.push_str("{\"id\":3,\"parent\n\n[1,2]\n");
        text.push_str("{\"id\":5,\"parent_id\":3,\"timestamp\":1,\"role\":\"user\",\"content\":\"three\"}\n");
        std::fs::write(&path, &text).expect("written");
        let mut session = Session::open(&path).expect("opens");
        assert_eq!(texts(session.tree()), ["one", "two\u{2028}\nlines", "three"]);
        assert_eq!(session.notices().len(), 1);
        assert!(session.notices()[0].starts_with("line 4 of the session"), "{:?}", session.notices());
        session.append(user("four"));
        assert!(std::fs::read_to_string(&path).expect("there").starts_with(&text), "what was there stays");
    }

    /// traps.md B102: at every byte.
    #[test]
    fn a_file_cut_anywhere_loads_and_goes_on() {
        let dir = tempfile::tempdir().expect("a folder");
        let (mut session, path) = started(dir.path());
        session.append(user("zwei 日本"));
        session.append(user("three"));
        drop(session);
        let whole = std::fs::read(&path).expect("there");
        let header = whole.iter().position(|byte| *byte == b'\n').expect("a line");
        for cut in header + 1..=whole.len() {
            std::fs::write(&path, &whole[..cut]).expect("written");
            let mut session = Session::open(&path).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            let before = texts(session.tree());
            let finished = whole[..cut].iter().filter(|byte| **byte == b'\n').count() - 1;
            assert!(before.len() >= finished, "cut at {cut}");
            session.append(user("on"));
            drop(session);
            let session = Session::open(&path).expect("opens again");
            assert_eq!(texts(session.tree()), [before.as_slice(), &["on".to_owned()]].concat(), "cut at {cut}");
        }
    }

    /// traps.md B105.
    #[test]
    fn a_second_writer_is_refused_and_told_who_the_first_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let (session, path) = started(dir.path());
        let Err(SessionError::Locked(Some(holder))) = Session::open(&path) else { panic!("refused") };
        assert_eq!(holder.pid, std::process::id());
        assert_eq!(texts(&Loaded::read(&path).expect("reading is free").tree), ["one"]);
        drop(session);
        assert!(!path.with_extension("lock").exists());
        Session::open(&path).expect("free again");
    }

    /// traps.md B110.
    #[test]
    fn a_fork_leaves_its_parent_alone_and_keeps_ids_labels_and_unknown_fields() {
        let dir = tempfile::tempdir().expect("a folder");
        let (mut session, path) = started(dir.path());
        let second = session.append(user("two"));
        session.append(user("three"));
        session.append(Body::Record(Record::Label { target_id: second.id, label: Some("here".into()) }));
        drop(session);
        let odd = std::fs::read_to_string(&path)
            .expect("there")
            .replace("\"content\":\"two\"", "\"content\":\"two\",\"odd\":7");
        std::fs::write(&path, &odd).expect("written");
        let home = Home::at(dir.path().join("home"));
        let fork = Session::fork(&home, &path, Some(second.id)).expect("forked");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), odd);
        let copied = std::fs::read_to_string(fork.path().expect("kept")).expect("there");
        assert_eq!((copied.matches("\"version\"").count(), copied.contains("\"odd\":7")), (1, true));
        assert_eq!(
            (texts(fork.tree()), fork.tree().label(second.id)),
            (vec!["one".into(), "two".into()], Some("here"))
        );
        assert!(fork.header().parent_session.is_some());
        let again = Session::fork(&home, fork.path().expect("kept"), None).expect("forked");
        assert_eq!(texts(again.tree()), ["one", "two"]);
    }

    #[test]
    fn a_file_that_is_deleted_is_made_again_whole() {
        let dir = tempfile::tempdir().expect("a folder");
        let (mut session, path) = started(dir.path());
        std::fs::remove_file(&path).expect("removed");
        session.append(user("two"));
        assert_eq!(session.problem(), None);
        assert_eq!(texts(&Loaded::read(&path).expect("there").tree), ["one", "two"]);
    }

    #[test]
    fn what_cannot_be_saved_is_kept_and_saved_later() {
        let dir = tempfile::tempdir().expect("a folder");
        let home = dir.path().join("home");
        std::fs::write(&home, "a file in the way").expect("written");
        let mut session = Session::new(&Home::at(&home), dir.path(), None);
        session.append(user("one"));
        assert!(session.problem().is_some());
        std::fs::remove_file(&home).expect("removed");
        session.append(Body::Message(Arc::new(Message::Assistant(AssistantMessage::default()))));
        session.append(user("two"));
        assert_eq!(session.problem(), None);
        let path = session.path().expect("kept").to_owned();
        drop(session);
        assert_eq!(Loaded::read(&path).expect("there").tree.nodes().len(), 3);
    }

    #[test]
    fn another_file_is_refused_untouched() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("notes.jsonl");
        for text in ["", "just text\nand more\n", "[]\n"] {
            std::fs::write(&path, text).expect("written");
            assert!(matches!(Session::open(&path), Err(SessionError::NotASession(_))));
            assert_eq!(std::fs::read_to_string(&path).expect("there"), text);
        }
        std::fs::write(&path, "{\"version\":9,\"id\":\"x\",\"cwd\":\"/\"}\n").expect("written");
        assert!(matches!(Session::open(&path), Err(SessionError::Version { found: 9, .. })));
    }
}
