//! The sessions on disk: a row for each, and how a person's word for one leads to its file.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::entry::{Entry, Header};
use crate::home::Home;
use crate::message::{Message, text_of};
use crate::text;

/// A session, as lists show it (formats.md, "--json rows").
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// The rows of a directory's sessions, or of all, newest first. Files that are no sessions are left out.
pub fn list(home: &Home, cwd: Option<&Path>) -> Vec<SessionRow> {
    let mut rows: Vec<_> = files(home, cwd).into_iter().filter_map(|(path, _)| row(&path).ok()).collect();
    rows.sort_by(|one, two| (two.updated_at, &two.id).cmp(&(one.updated_at, &one.id)));
    rows
}

/// The file of a directory's session that was written last.
pub fn newest(home: &Home, cwd: &Path) -> Option<PathBuf> {
    let mut files = files(home, Some(cwd));
    files.sort_by(|one, two| (two.1, &two.0).cmp(&(one.1, &one.0)));
    // The folder's name is made from the path; what the header says decides.
    let real = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    files.into_iter().map(|(path, _)| path).find(|path| {
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
    let mut found: Vec<(String, PathBuf)> = files(home, None)
        .into_iter()
        .filter_map(|(path, _)| Some((path.file_stem()?.to_str()?.to_owned(), path)))
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

/// The session files of a directory, or of all, with the time when they were last written.
fn files(home: &Home, cwd: Option<&Path>) -> Vec<(PathBuf, std::time::SystemTime)> {
    let folders = match cwd {
        Some(cwd) => vec![home.sessions_of(cwd)],
        None => entries(&home.sessions()),
    };
    let files = folders.iter().flat_map(|folder| entries(folder));
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .filter_map(|path| {
            let modified = path.metadata().and_then(|metadata| metadata.modified()).ok()?;
            Some((path, modified))
        })
        .collect()
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
