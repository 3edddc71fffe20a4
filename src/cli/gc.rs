//! `violin gc`: sessions, whole outputs and checkpoints that are older than asked.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::args::GcArgs;
use super::{Exit, confirmed, print_json};
use crate::home::Home;
use crate::session::Session;

/// What would go.
#[derive(Debug, Default)]
struct Rubbish {
    sessions: Vec<(PathBuf, u64)>,
    outputs: Vec<(PathBuf, u64)>,
    plugin_data: Vec<(PathBuf, u64)>,
    checkpoints: Vec<(PathBuf, u64)>,
}

/// Does what `violin gc` says.
pub fn run(home: &Home, args: &GcArgs) -> Result<u8, Exit> {
    let age = parse_age(&args.older_than)
        .ok_or_else(|| Exit::usage(format!("`{}` is no age; write it as 90d, 12w or 48h", args.older_than)))?;
    let before = SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
    let rubbish = look(home, before);
    let sum = |part: &[(PathBuf, u64)]| part.iter().map(|(_, size)| size).sum::<u64>();
    let parts = [
        ("sessions", &rubbish.sessions),
        ("outputs", &rubbish.outputs),
        ("plugin_data", &rubbish.plugin_data),
        ("checkpoints", &rubbish.checkpoints),
    ];
    let total: u64 = parts.iter().map(|(_, part)| sum(part)).sum();
    if !args.json {
        let mut out = io::stdout().lock();
        for (name, part) in &parts {
            writeln!(out, "{name:<12} {:>6}  {:>9}", part.len(), megabytes(sum(part)))?;
        }
        if total == 0 {
            writeln!(out, "nothing is older than {}", args.older_than)?;
        }
    }
    let empty = parts.iter().all(|(_, part)| part.is_empty());
    let go = !empty && (args.yes || (!args.json && confirmed(&format!("Delete these, {} in all?", megabytes(total)))));
    let mut kept = Vec::new();
    if go {
        for (path, _) in &rubbish.sessions {
            if let Err(exit) = super::sessions::remove(home, path) {
                kept.push(format!("{}: {}", path.display(), exit.message));
            }
        }
        for (path, _) in rubbish.outputs.iter().chain(&rubbish.plugin_data).chain(&rubbish.checkpoints) {
            match std::fs::remove_dir_all(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    kept.push(format!("{}: {error}", path.display()))
                }
                _ => {}
            }
        }
    }
    if args.json {
        let counts =
            parts.iter().map(|(name, part)| ((*name).to_owned(), json!({"count": part.len(), "bytes": sum(part)})));
        let counts: serde_json::Map<String, serde_json::Value> = counts.collect();
        print_json(
            &json!({"older_than": args.older_than, "deleted": go, "bytes": total, "parts": counts, "kept": kept}),
        )?;
    } else if go {
        writeln!(io::stdout(), "freed {}", megabytes(total))?;
    } else if !empty {
        writeln!(io::stdout(), "nothing was deleted; --yes deletes without a question")?;
    }
    for told in &kept {
        let _ = writeln!(io::stderr(), "violin: kept {}", crate::text::clean(told));
    }
    Ok(u8::from(!kept.is_empty()))
}

/// What is older than that. A session that is open somewhere is not.
fn look(home: &Home, before: SystemTime) -> Rubbish {
    let mut rubbish = Rubbish::default();
    let mut living = Vec::new();
    for file in entries(&home.sessions()).iter().flat_map(|folder| entries(folder)) {
        if file.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let id = file.file_stem().unwrap_or_default().to_owned();
        match newest(&file) {
            Some(time) if time < before && Session::open(&file).is_ok() => {
                rubbish.sessions.push((file.clone(), size(&file)))
            }
            _ => living.push(id),
        }
    }
    let old = |path: &Path| newest(path).is_some_and(|time| time < before);
    // What belongs to a session goes when neither it nor the session was touched for so long.
    let orphans = |kind: &str| {
        let unused = |folder: &PathBuf| folder.file_name().is_none_or(|name| living.iter().all(|id| id != name));
        let folders = entries(&home.file(kind)).into_iter().filter(|folder| unused(folder) && old(folder));
        folders.map(|folder| (folder.clone(), size(&folder))).collect()
    };
    rubbish.outputs = orphans("outputs");
    rubbish.plugin_data = orphans("plugin-data");
    for folder in entries(&home.file("checkpoints")) {
        if old(&folder) {
            rubbish.checkpoints.push((folder.clone(), size(&folder)));
        }
    }
    rubbish
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

/// When something in it was last written.
fn newest(path: &Path) -> Option<SystemTime> {
    let own = path.symlink_metadata().and_then(|metadata| metadata.modified()).ok();
    let inside = is_folder(path).then(|| entries(path).iter().filter_map(|entry| newest(entry)).max()).flatten();
    own.max(inside)
}

fn size(path: &Path) -> u64 {
    if is_folder(path) {
        return entries(path).iter().map(|entry| size(entry)).sum();
    }
    path.symlink_metadata().map_or(0, |metadata| metadata.len())
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn parse_age(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let number: u64 = text[..text.len() - unit.len_utf8()].parse().ok()?;
    let hours = match unit {
        'h' => 1,
        'd' => 24,
        'w' => 24 * 7,
        _ => return None,
    };
    Some(Duration::from_secs(number.checked_mul(hours)?.checked_mul(3600)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_read() {
        assert_eq!(parse_age("90d"), Some(Duration::from_secs(90 * 86_400)));
        assert_eq!(parse_age("2w"), Some(Duration::from_secs(14 * 86_400)));
        for bad in ["", "d", "-1d", "9", "9y", "99999999999999999999d", "1日"] {
            assert_eq!(parse_age(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_what_is_old_and_unused_is_rubbish() {
        let dir = tempfile::tempdir().expect("a folder");
        let home = Home::at(dir.path());
        let write = |path: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(&path, "{\"id\":\"x\",\"cwd\":\"/\"}\n").expect("written");
        };
        write("sessions/p/one.jsonl");
        write("outputs/one/c.log");
        write("outputs/gone/c.log");
        write("checkpoints/p/HEAD");
        write("plugin-data/one/guard.json");
        let now = SystemTime::now() + Duration::from_secs(60);
        let all = look(&home, now);
        assert_eq!((all.sessions.len(), all.outputs.len(), all.checkpoints.len()), (1, 2, 1));
        assert_eq!(all.plugin_data.len(), 1);
        let none = look(&home, now - Duration::from_secs(3600));
        assert!(none.sessions.is_empty() && none.outputs.is_empty() && none.checkpoints.is_empty());
        let open = Session::open(&dir.path().join("sessions/p/one.jsonl")).expect("opens");
        let rubbish = look(&home, now);
        assert_eq!((rubbish.sessions.len(), rubbish.outputs.len()), (0, 1), "what is open is kept with its outputs");
        assert!(rubbish.plugin_data.is_empty(), "and with what plugins keep for it");
        drop(open);
    }
}
