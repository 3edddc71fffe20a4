//! The sessions on disk: a row for each, and how a person's word for one leads to its file.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::entry::{Entry, Header};
use crate::home::{Home, replace_file};
use crate::message::{Message, text_of};
use crate::text;

/// A session, as lists show it (formats.md, "--json rows").
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Its id.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// The directory that it works in.
    pub cwd: String,
    /// Its name, where it has one.
    pub name: Option<String>,
    /// Unix seconds.
    pub created_at: i64,
    /// Unix seconds.
    pub updated_at: i64,
    /// How many messages the person and the model wrote.
    pub messages: usize,
    /// US dollars; `None` where no answer has a price.
    pub cost_usd: Option<f64>,
    /// The first lines of the person's first message.
    pub first_message: String,
}

/// The rows of a directory's sessions, or of all, newest first. Files that are no sessions are left out. A file is read whole
/// only where it has changed since the last time.
pub fn list(home: &Home, cwd: Option<&Path>) -> Vec<SessionRow> {
    let mut rows = Vec::new();
    for folder in folders(home, cwd) {
        let (mut index, mut changed) = (Index::read(&folder), false);
        let files = files_in(&folder);
        for file in &files {
            let known = index.get(file).cloned();
            // The stamp is from before the reading: what is written meanwhile is read the next time.
            let row = known.or_else(|| {
                let row = row(&file.path).ok()?;
                index.put(file, row.clone());
                changed = true;
                Some(row)
            });
            rows.extend(row);
        }
        changed |= index.keep_only(&files);
        if changed {
            // A list that cannot be kept is made again the next time.
            let _ = index.write(&folder);
        }
    }
    newest_first(&mut rows, |row| row);
    rows
}

/// A row that was read at a glance.
#[derive(Debug, Clone, PartialEq)]
pub struct Glance {
    /// The row. Where it is not `whole`, messages and cost are unknown, and so is a name that was given long ago.
    pub row: SessionRow,
    /// Everything in it is right.
    pub whole: bool,
}

/// As [`list`], but no file is read whole: of what has changed since the last [`list`] only the begin and the end are looked
/// at, so that 10,000 sessions are listed at once.
pub fn glance(home: &Home, cwd: Option<&Path>) -> Vec<Glance> {
    let mut rows = Vec::new();
    for folder in folders(home, cwd) {
        let index = Index::read(&folder);
        for file in files_in(&folder) {
            rows.extend(match index.get(&file) {
                Some(row) => Some(Glance { row: row.clone(), whole: true }),
                None => peek(&file).ok().map(|row| Glance { row, whole: false }),
            });
        }
    }
    newest_first(&mut rows, |glance| &glance.row);
    rows
}

fn newest_first<T>(rows: &mut [T], row: impl Fn(&T) -> &SessionRow) {
    rows.sort_by(|one, two| {
        let (one, two) = (row(one), row(two));
        (two.updated_at, &two.id).cmp(&(one.updated_at, &one.id))
    });
}

/// The sessions in which something was said, by the person or the model, that holds all words of a query, newest first.
/// `stop` is asked now and then.
pub fn search(home: &Home, cwd: Option<&Path>, query: &str, stop: &dyn Fn() -> bool) -> Vec<PathBuf> {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let mut files: Vec<SessionFile> = folders(home, cwd).iter().flat_map(|folder| files_in(folder)).collect();
    files.sort_by(|one, two| (two.modified, &two.path).cmp(&(one.modified, &one.path)));
    let mut found = Vec::new();
    for file in files {
        if words.is_empty() || stop() || found.len() >= MOST_FOUND {
            break;
        }
        if says(&file.path, &words, stop).unwrap_or(false) {
            found.push(file.path);
        }
    }
    found
}

/// A search gives at most so many.
const MOST_FOUND: usize = 500;

fn says(path: &Path, words: &[String], stop: &dyn Fn() -> bool) -> io::Result<bool> {
    // Within JSON a word stands escaped.
    let escaped = |word: &String| serde_json::to_string(word).map(|text| text[1..text.len() - 1].to_owned());
    let needles: Vec<String> = words.iter().map(escaped).collect::<Result<_, _>>()?;
    let mut missing: Vec<usize> = (0..words.len()).collect();
    let mut reader = BufReader::with_capacity(128 * 1024, File::open(path)?);
    let (mut line, mut lower) = (Vec::new(), Vec::new());
    while !missing.is_empty() && !stop() {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(false);
        }
        lower.clear();
        lower.extend_from_slice(&line);
        lower.make_ascii_lowercase();
        // Letters beyond ASCII are compared in the text; a word that has any is looked for by what is before them.
        let may_hold = |at: &usize| {
            let ascii = needles[*at].bytes().take_while(u8::is_ascii).count();
            memchr::memmem::find(&lower, &needles[*at].as_bytes()[..ascii]).is_some()
        };
        if !missing.iter().any(may_hold) {
            continue;
        }
        let Ok(entry) = Entry::parse(&line, 0) else { continue };
        let text = match entry.message().map(AsRef::as_ref) {
            Some(message @ (Message::User(_) | Message::Assistant(_))) => text_of(message.content()).to_lowercase(),
            _ => continue,
        };
        missing.retain(|at| !text.contains(&words[*at]));
    }
    Ok(missing.is_empty())
}

/// The file of a directory's session that was written last.
pub fn newest(home: &Home, cwd: &Path) -> Option<PathBuf> {
    let mut files = files_in(&home.sessions_of(cwd));
    files.sort_by(|one, two| (two.modified, &two.path).cmp(&(one.modified, &one.path)));
    // The folder's name is made from the path; what the header says decides.
    let real = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    files.into_iter().map(|file| file.path).find(|path| {
        read_header(path).is_ok_and(|header| {
            Path::new(&header.cwd).canonicalize().map_or(Path::new(&header.cwd) == real, |dir| dir == real)
        })
    })
}

/// Why a word leads to no session.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// There is none.
    #[error("there is no session `{0}`; `violin sessions list --all` shows what there is")]
    None(String),
    /// There are several.
    #[error("`{given}` stands for several sessions: {found}; give more of the id")]
    Several {
        /// The word.
        given: String,
        /// Their ids.
        found: String,
    },
}

/// The file of a session that a person named by a path, an id, a prefix of an id, or its last 8 digits.
///
/// # Errors
/// Where it is none, or several.
pub fn find(home: &Home, given: &str) -> Result<PathBuf, FindError> {
    let path = Path::new(given);
    if path.is_file() {
        return Ok(path.to_owned());
    }
    let mut found: Vec<(String, PathBuf)> = folders(home, None)
        .iter()
        .flat_map(|folder| entries(folder))
        .filter(|path| is_session(path))
        .filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), path)))
        .filter(|(id, _)| !given.is_empty() && (id.starts_with(given) || id.rsplit('-').next() == Some(given)))
        .collect();
    if let Some(exact) = found.iter().position(|(id, _)| id == given) {
        return Ok(found.swap_remove(exact).1);
    }
    match found.len() {
        0 => Err(FindError::None(given.to_owned())),
        1 => Ok(found.swap_remove(0).1),
        _ => {
            let ids: Vec<_> = found.into_iter().take(5).map(|(id, _)| id).collect();
            Err(FindError::Several { given: given.to_owned(), found: ids.join(", ") })
        }
    }
}

/// The first line of a session's file.
///
/// # Errors
/// Where it cannot be read or is no header.
pub fn read_header(path: &Path) -> io::Result<Header> {
    let mut line = Vec::new();
    // A header is short; what has no newline for so long is no session.
    io::Read::take(BufReader::new(File::open(path)?), 1 << 20).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line)?)
}

/// A session's row. Only what the row needs of each line is read.
///
/// # Errors
/// Where the file cannot be read or has no header.
pub fn row(path: &Path) -> io::Result<SessionRow> {
    let header = read_header(path)?;
    let file = File::open(path)?;
    let modified = file.metadata()?.modified()?;
    let updated_at = modified.duration_since(std::time::UNIX_EPOCH).map_or(0, |age| age.as_secs() as i64);
    let mut row = SessionRow {
        id: header.id,
        path: path.to_owned(),
        cwd: header.cwd,
        name: None,
        created_at: header.created_at,
        updated_at,
        messages: 0,
        cost_usd: None,
        first_message: String::new(),
    };
    let mut reader = BufReader::with_capacity(128 * 1024, file);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        if let Ok(light) = serde_json::from_slice::<Light>(&line) {
            take(&mut row, &light, &line);
        }
        line.clear();
    }
    Ok(row)
}

fn take(row: &mut SessionRow, light: &Light, line: &[u8]) {
    match (light.role.as_deref(), light.kind.as_deref()) {
        (Some(role @ ("user" | "assistant")), _) => {
            row.messages += 1;
            if let Some(cost) = light.usage.as_ref().and_then(|usage| usage.cost_usd) {
                row.cost_usd = Some(row.cost_usd.unwrap_or(0.0) + cost);
            }
            if role == "user" && row.first_message.is_empty() {
                let entry = Entry::parse(line, 0).ok();
                if let Some(Message::User(message)) = entry.as_ref().and_then(Entry::message).map(AsRef::as_ref) {
                    row.first_message = text::head(&text_of(&message.content), 400).to_owned();
                }
            }
        }
        (_, Some("name")) => row.name = light.name.clone().filter(|name| !name.is_empty()),
        _ => {}
    }
}

#[derive(Deserialize)]
struct Light {
    #[serde(default)]
    role: Option<String>,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    usage: Option<LightUsage>,
}

#[derive(Deserialize)]
struct LightUsage {
    #[serde(default)]
    cost_usd: Option<f64>,
}

/// What a row can be told from without reading the whole file.
fn peek(file: &SessionFile) -> io::Result<SessionRow> {
    let header = read_header(&file.path)?;
    let mut row = SessionRow {
        id: header.id,
        path: file.path.clone(),
        cwd: header.cwd,
        created_at: header.created_at,
        updated_at: file.updated_at(),
        ..SessionRow::default()
    };
    let mut reader = BufReader::with_capacity(16 * 1024, File::open(&file.path)?);
    let mut line = Vec::new();
    // The first thing that the person said stands near the begin.
    for _ in 0..8 {
        line.clear();
        if io::Read::take(&mut reader, PEEK).read_until(b'\n', &mut line)? == 0 || !row.first_message.is_empty() {
            break;
        }
        if let Ok(light) = serde_json::from_slice::<Light>(&line) {
            take(&mut row, &light, &line);
        }
    }
    // A name is mostly given late.
    let from = file.size.saturating_sub(PEEK / 4);
    let mut end = Vec::new();
    let mut reader = reader.into_inner();
    reader.seek(SeekFrom::Start(from))?;
    io::Read::take(reader, PEEK / 4).read_to_end(&mut end)?;
    for line in end.split(|byte| *byte == b'\n').filter(|line| memchr::memmem::find(line, b"\"name\"").is_some()) {
        if let Ok(light @ Light { kind: Some(_), .. }) = serde_json::from_slice::<Light>(line) {
            take(&mut row, &light, line);
        }
    }
    (row.messages, row.cost_usd) = (0, None);
    Ok(row)
}

/// So many bytes of a line are looked at, at a glance.
const PEEK: u64 = 256 * 1024;

/// A session's file.
struct SessionFile {
    path: PathBuf,
    size: u64,
    modified: SystemTime,
}

impl SessionFile {
    fn updated_at(&self) -> i64 {
        self.modified.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs() as i64)
    }

    fn modified_ns(&self) -> u64 {
        self.modified.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_nanos() as u64)
    }

    fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }
}

/// What was read of a folder's files the last time, so that they need not be read again (`index.json` in the folder). It holds
/// nothing that is not in them; deleted, it is made again.
#[derive(Debug, Serialize, Deserialize)]
struct Index {
    version: u32,
    rows: HashMap<String, Indexed>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Indexed {
    size: u64,
    modified_ns: u64,
    row: SessionRow,
}

const INDEX: &str = "index.json";
const INDEX_VERSION: u32 = 1;

impl Index {
    fn read(folder: &Path) -> Self {
        let read = std::fs::read(folder.join(INDEX)).ok();
        let index = read.and_then(|bytes| serde_json::from_slice::<Index>(&bytes).ok());
        let index = index.filter(|index| index.version == INDEX_VERSION);
        index.unwrap_or(Index { version: INDEX_VERSION, rows: HashMap::new() })
    }

    /// The row of a file that has not changed since.
    fn get(&self, file: &SessionFile) -> Option<&SessionRow> {
        let known = self.rows.get(file.name())?;
        // The folder may have been moved.
        let same = (known.size, known.modified_ns) == (file.size, file.modified_ns()) && known.row.path == file.path;
        same.then_some(&known.row)
    }

    fn put(&mut self, file: &SessionFile, row: SessionRow) {
        let indexed = Indexed { size: file.size, modified_ns: file.modified_ns(), row };
        self.rows.insert(file.name().to_owned(), indexed);
    }

    /// Forgets files that are gone; whether there were any.
    fn keep_only(&mut self, files: &[SessionFile]) -> bool {
        let there: HashSet<&str> = files.iter().map(SessionFile::name).collect();
        let before = self.rows.len();
        self.rows.retain(|name, _| there.contains(name.as_str()));
        self.rows.len() < before
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        replace_file(&folder.join(INDEX), &serde_json::to_vec(self)?)
    }
}

/// The folders of a directory's sessions, or of all.
fn folders(home: &Home, cwd: Option<&Path>) -> Vec<PathBuf> {
    match cwd {
        Some(cwd) => vec![home.sessions_of(cwd)],
        None => entries(&home.sessions()),
    }
}

fn is_session(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

/// The session files of a folder.
fn files_in(folder: &Path) -> Vec<SessionFile> {
    let files = entries(folder).into_iter().filter(|path| is_session(path));
    let file = |path: PathBuf| {
        let metadata = path.metadata().ok()?;
        Some(SessionFile { size: metadata.len(), modified: metadata.modified().ok()?, path })
    };
    files.filter_map(file).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::UserMessage;
    use crate::session::{Body, Record, Session};
    use std::sync::Arc;

    fn made(home: &Home, cwd: &Path, text: &str) -> (String, PathBuf) {
        let mut session = Session::new(home, cwd, None);
        session.append(Body::Message(Arc::new(Message::User(UserMessage::text(text)))));
        session.append(Body::Record(Record::Name { name: format!("about {text}") }));
        (session.header().id.clone(), session.path().expect("kept").to_owned())
    }

    #[test]
    fn rows_tell_what_lists_show() {
        let dir = tempfile::tempdir().expect("a folder");
        let home = Home::at(dir.path().join("home"));
        let (id, path) = made(&home, dir.path(), "carts");
        let rows = list(&home, Some(dir.path()));
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((row.id.as_str(), row.messages, row.first_message.as_str()), (id.as_str(), 1, "carts"));
        assert_eq!(row.name.as_deref(), Some("about carts"));
        assert_eq!(newest(&home, dir.path()), Some(path));
        assert_eq!(newest(&home, Path::new("/nowhere")), None);
    }

    #[test]
    fn a_glance_tells_what_stands_at_both_ends_and_the_rest_once_it_was_listed() {
        let dir = tempfile::tempdir().expect("a folder");
        let home = Home::at(dir.path().join("home"));
        let (_, path) = made(&home, dir.path(), "carts");
        let at_once = glance(&home, Some(dir.path()));
        let seen = (at_once[0].whole, at_once[0].row.messages, at_once[0].row.first_message.as_str());
        assert_eq!((seen, at_once[0].row.name.as_deref()), ((false, 0, "carts"), Some("about carts")));
        let listed = list(&home, None);
        assert_eq!(glance(&home, None), [Glance { row: listed[0].clone(), whole: true }]);
        // What is added is seen, and what is deleted is gone.
        let mut session = Session::open(&path).expect("opens");
        session.append(Body::Message(Arc::new(Message::User(UserMessage::text("more")))));
        drop(session);
        assert!(!glance(&home, None)[0].whole);
        assert_eq!(list(&home, None)[0].messages, 2);
        std::fs::remove_file(&path).expect("removed");
        assert_eq!((list(&home, None), glance(&home, None)), (vec![], vec![]));
    }

    #[test]
    fn what_was_said_is_found_and_an_index_of_rubbish_is_made_anew() {
        let dir = tempfile::tempdir().expect("a folder");
        let home = Home::at(dir.path().join("home"));
        let (_, path) = made(&home, dir.path(), "the \"Quoted\" Größe\nof carts");
        made(&home, dir.path(), "something else");
        let find = |query: &str| search(&home, None, query, &|| false);
        for query in ["quoted", "GRÖSSE".to_lowercase().replace("ss", "ß").as_str(), "carts \"quoted\"", "of  CARTS"]
        {
            assert_eq!(find(query), [path.as_path()], "{query}");
        }
        for query in ["", "jsonl", "role", "about"] {
            assert!(find(query).is_empty(), "{query}");
        }
        assert!(search(&home, None, "carts", &|| true).is_empty());
        std::fs::write(home.sessions_of(dir.path()).join("index.json"), "{[").expect("written");
        assert_eq!(list(&home, None).len(), 2);
    }

    #[test]
    fn words_lead_to_a_session() {
        let dir = tempfile::tempdir().expect("a folder");
        let home = Home::at(dir.path().join("home"));
        let (one, path) = made(&home, dir.path(), "one");
        made(&home, dir.path(), "two");
        for word in
            [one.as_str(), one.rsplit('-').next().expect("digits"), &one[..one.len() - 1], &path.to_string_lossy()]
        {
            assert_eq!(find(&home, word).expect("found"), path, "{word}");
        }
        assert!(matches!(find(&home, &one[..8]), Err(FindError::Several { .. })));
        assert!(matches!(find(&home, "nothing"), Err(FindError::None(_))));
    }
}
