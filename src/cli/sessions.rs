//! `violin sessions`: list, show, delete.

use std::io::{self, Write};
use std::path::Path;

use serde_json::json;

use super::args::{SessionsAction, SessionsArgs};
use super::{Exit, confirmed, print_json, shown};
use crate::export;
use crate::home::Home;
use crate::message::{Block, Message, text_of};
use crate::session::{Loaded, Record, Session, list};
use crate::text;
use crate::tool::files;

/// Does what `violin sessions …` says.
pub fn run(home: &Home, args: &SessionsArgs) -> Result<u8, Exit> {
    match &args.action {
        None => rows(home, args.all, args.json),
        Some(SessionsAction::List { all }) => rows(home, args.all || *all, args.json),
        Some(SessionsAction::Show { id, effects: false }) => show(home, id, args.json),
        Some(SessionsAction::Show { id, effects: true }) => effects(home, id, args.json),
        Some(SessionsAction::Export { id, file }) => export(home, id, file.as_deref(), args.json),
        Some(SessionsAction::Delete { id, yes }) => delete(home, id, *yes, args.json),
    }
}

fn rows(home: &Home, all: bool, json: bool) -> Result<u8, Exit> {
    let cwd = super::start::directory(None)?;
    let rows = list::list(home, (!all).then_some(cwd.as_path()));
    let mut out = io::stdout().lock();
    for row in &rows {
        if json {
            writeln!(out, "{}", serde_json::to_string(row).map_err(Exit::failed)?)?;
            continue;
        }
        let when = jiff::Timestamp::from_second(row.updated_at).unwrap_or_default();
        let when = when.to_zoned_datetime(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M");
        let title = row.name.as_deref().unwrap_or_else(|| text::first_line(&row.first_message));
        let cost = row.cost_usd.map(|cost| format!("${cost:.2}")).unwrap_or_default();
        let place = if all { format!("  {}", text::visible(&row.cwd)) } else { String::new() };
        writeln!(
            out,
            "{}  {when}  {:>4} msg  {cost:>7}  {}{place}",
            row.id,
            row.messages,
            text::ellipsis(&text::clean(title), 60)
        )?;
    }
    if rows.is_empty() && !json {
        let hint = if all { "" } else { " of this directory; --all shows those of others" };
        writeln!(out, "no sessions{hint}")?;
    }
    Ok(0)
}

fn show(home: &Home, id: &str, json: bool) -> Result<u8, Exit> {
    let path = list::find(home, id).map_err(Exit::failed)?;
    let loaded = Loaded::read(&path).map_err(Exit::failed)?;
    let mut out = io::stdout().lock();
    for notice in &loaded.notices {
        let _ = writeln!(io::stderr(), "violin: {}", text::clean(notice));
    }
    if json {
        writeln!(out, "{}", serde_json::to_string(&loaded.header).map_err(Exit::failed)?)?;
    }
    for entry in loaded.tree.branch() {
        if json {
            out.write_all(&entry.to_line().map_err(Exit::failed)?)?;
            continue;
        }
        match (entry.message().map(AsRef::as_ref), entry.record()) {
            (Some(Message::User(message)), _) => {
                writeln!(out, "> {}\n", text::clean(&text_of(&message.content)).replace('\n', "\n> "))?
            }
            (Some(Message::Assistant(message)), _) => {
                for block in &message.content {
                    match block {
                        Block::Text { text } => writeln!(out, "{}\n", text::clean(text))?,
                        Block::ToolCall(call) => {
                            let arguments = serde_json::Value::Object(call.arguments.clone()).to_string();
                            writeln!(
                                out,
                                "* {} {}",
                                text::clean(&call.name),
                                text::ellipsis(&text::visible(&arguments), 200)
                            )?;
                        }
                        _ => {}
                    }
                }
            }
            (Some(Message::Tool(message)), _) => {
                let mark = if message.is_error { "failed" } else { "ok" };
                writeln!(out, "  {mark} {}\n", text::clean(&message.summary))?;
            }
            (None, Some(Record::Compaction { summary, .. })) => {
                writeln!(out, "[compacted]\n{}\n", text::clean(summary))?
            }
            (None, Some(Record::ModelChange { model, .. })) => writeln!(out, "[model {}]\n", text::clean(model))?,
            _ => {}
        }
    }
    Ok(0)
}

/// Every change of a file that a tool left a receipt of, and whether the file is still as it left it.
fn effects(home: &Home, id: &str, json: bool) -> Result<u8, Exit> {
    let path = list::find(home, id).map_err(Exit::failed)?;
    let loaded = Loaded::read(&path).map_err(Exit::failed)?;
    let mut receipts = Vec::new();
    for node in loaded.tree.nodes() {
        if let Some(Message::Tool(message)) = node.entry.message().map(AsRef::as_ref) {
            receipts.extend(message.effects.iter().map(|effect| (node.entry.id, effect)));
        }
    }
    let mut out = io::stdout().lock();
    for (index, (entry, effect)) in receipts.iter().enumerate() {
        let later = receipts[index + 1..].iter().any(|(_, other)| other.resolved_path == effect.resolved_path);
        let disk = match files::state_at(Path::new(&effect.resolved_path)) {
            _ if later => "changed again later",
            Ok(now) if now == effect.after => "as left",
            Ok(now) if !now.exists => "gone since",
            Ok(_) => "changed since",
            Err(_) => "cannot be read",
        };
        if json {
            writeln!(out, "{}", json!({"entry": entry, "effect": effect, "disk": disk}))?;
            continue;
        }
        let hash = |state: &crate::message::FileState| {
            state.sha256.as_deref().map_or("-".to_owned(), |hash| hash[..12.min(hash.len())].to_owned())
        };
        writeln!(
            out,
            "{:<6} {:<7} {} → {}  {:>8} bytes  {disk:<20} {}",
            entry.0,
            effect.operation,
            hash(&effect.before),
            hash(&effect.after),
            effect.after.bytes,
            text::visible(&effect.resolved_path)
        )?;
    }
    Ok(0)
}

fn export(home: &Home, id: &str, file: Option<&str>, json: bool) -> Result<u8, Exit> {
    let path = list::find(home, id).map_err(Exit::failed)?;
    let loaded = Loaded::read(&path).map_err(Exit::failed)?;
    let written = export::write(&loaded, &super::start::directory(None)?, file).map_err(Exit::failed)?;
    if json {
        print_json(&json!({"exported": written}))?;
    } else {
        writeln!(io::stdout(), "{}", shown(&written))?;
    }
    Ok(0)
}

fn delete(home: &Home, id: &str, yes: bool, json: bool) -> Result<u8, Exit> {
    let path = list::find(home, id).map_err(Exit::failed)?;
    if !yes && !confirmed(&format!("Delete the session {}?", shown(&path))) {
        return Err(Exit::usage("nothing was deleted; --yes deletes without a question"));
    }
    let id = remove(home, &path)?;
    if json {
        print_json(&json!({"deleted": id}))?;
    } else {
        writeln!(io::stdout(), "deleted {id}")?;
    }
    Ok(0)
}

/// Deletes a session with its whole outputs; its id. One that somebody writes is not deleted under them.
pub fn remove(home: &Home, path: &Path) -> Result<String, Exit> {
    // Opening takes the lock.
    let session = Session::open(path).map_err(Exit::failed)?;
    let id = session.header().id.clone();
    std::fs::remove_file(path)?;
    // An id comes from the file and could be any text; only a name leads into the folder of outputs.
    if id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') && !id.is_empty() {
        for folder in [home.outputs_of(&id), home.plugin_data_of(&id)] {
            match std::fs::remove_dir_all(folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
    }
    Ok(id)
}
