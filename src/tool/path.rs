//! What a path in an argument means: `~`, `file://`, a leading `@`, names that differ only in their Unicode form,
//! and names that come near.

use std::fs;
use std::path::{Component, Path, PathBuf};

use ignore::WalkBuilder;
use unicode_normalization::UnicodeNormalization;

use crate::text;

/// Most entries of a folder that are looked at for a name that comes near.
const MOST_ENTRIES: usize = 50_000;

/// Most entries of the project that are looked at for a file of the same name elsewhere.
const MOST_WALKED: usize = 20_000;

/// The path that an argument means: relative ones start at `cwd`. It need not exist.
pub fn resolve(cwd: &Path, argument: &str) -> PathBuf {
    let argument = argument.trim_end_matches(['\n', '\r']);
    if let Some(url) = argument.strip_prefix("file://") {
        let path = url.strip_prefix("localhost").filter(|rest| rest.starts_with('/')).unwrap_or(url);
        return cwd.join(percent_decoded(path));
    }
    if (argument == "~" || argument.starts_with("~/"))
        && let Some(home) = std::env::home_dir()
    {
        return home.join(argument[1..].trim_start_matches('/'));
    }
    // People and models write @file for a file; a name that really begins so wins.
    if let Some(rest) = argument.strip_prefix('@').filter(|rest| !rest.is_empty()) {
        let first = Path::new(argument).components().next().map(|first| cwd.join(first));
        if first.is_none_or(|first| fs::symlink_metadata(first).is_err()) {
            return resolve(cwd, rest);
        }
    }
    cwd.join(argument)
}

/// The real path: symbolic links and `..` resolved as far as it exists, the rest as it stands. For locks and
/// for telling whether a path lies inside a folder.
pub fn real(path: &Path) -> PathBuf {
    real_within(path, 40)
}

/// [`real`], which goes `steps` times through links that point nowhere and back out of folders that are not there.
fn real_within(path: &Path, mut steps: usize) -> PathBuf {
    let mut rest = Vec::new();
    let mut existing = path.to_owned();
    loop {
        if let Ok(real) = existing.canonicalize() {
            let joined = rest.iter().rev().fold(real, |path: PathBuf, component: &PathBuf| {
                if component.as_os_str() == ".." {
                    path.parent().unwrap_or(&path).to_owned()
                } else {
                    path.join(component)
                }
            });
            // Back out of a folder that is not there, the way may go through what is: `missing/../link`.
            let back = rest.iter().any(|component| component.as_os_str() == "..");
            return if back && steps > 0 { real_within(&joined, steps - 1) } else { joined };
        }
        // A link that points nowhere yet: a write goes where it points.
        if let Ok(target) = fs::read_link(&existing)
            && steps > 0
        {
            let base = existing.parent().map(Path::to_owned).unwrap_or_default();
            existing = base.join(target);
            steps -= 1;
            continue;
        }
        let Some(last) = existing.components().next_back() else { return path.to_owned() };
        rest.push(PathBuf::from(last.as_os_str()));
        if !existing.pop() {
            return path.to_owned();
        }
    }
}

/// The path of something that exists: `path` itself, or the only one whose name differs just in its Unicode
/// form: composed or not, kinds of spaces and apostrophes (macOS makes both), or bytes that were shown escaped.
pub fn existing(path: &Path) -> Option<PathBuf> {
    if fs::symlink_metadata(path).is_ok() {
        return Some(path.to_owned());
    }
    let mut found = PathBuf::new();
    for component in path.components() {
        let next = found.join(component);
        let Component::Normal(name) = component else {
            found = next;
            continue;
        };
        if fs::symlink_metadata(&next).is_ok() {
            found = next;
            continue;
        }
        let wanted = folded(&name.to_string_lossy());
        let mut alike = entries(&found).filter(|entry| {
            let raw = Path::new(entry);
            folded(&entry.to_string_lossy()) == wanted || raw.to_str().is_none() && shown(raw) == wanted
        });
        let (Some(only), None) = (alike.next(), alike.next()) else { return None };
        drop(alike);
        found.push(only);
    }
    Some(found)
}

/// How a path is named to the model and the person: relative where it lies in `cwd`, control characters made
/// visible, bytes that are no UTF-8 escaped as `\xNN`.
pub fn show(cwd: &Path, path: &Path) -> String {
    match path.strip_prefix(cwd) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
        Ok(rest) => shown(rest),
        Err(_) => shown(path),
    }
}

/// Why there is nothing at `path`, with names that come near.
pub fn missing(cwd: &Path, path: &Path) -> String {
    let name = show(cwd, path);
    let near = near(cwd, path);
    match near.is_empty() {
        true => format!("{name} does not exist. Find it with glob, or list its folder with read."),
        false => format!("{name} does not exist. Did you mean: {}?", near.join(", ")),
    }
}

fn shown(path: &Path) -> String {
    let mut out = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        out.push_str(&text::visible(chunk.valid()));
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// Up to three paths whose names come near.
fn near(cwd: &Path, path: &Path) -> Vec<String> {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy().to_lowercase()) else { return Vec::new() };
    let mut scored: Vec<(f64, String)> = Vec::new();
    if let Some(parent) = path.parent() {
        for entry in entries(parent) {
            let entry_name = entry.to_string_lossy().to_lowercase();
            let score = if entry_name == name { 2.0 } else { strsim::jaro_winkler(&entry_name, &name) };
            if score > 0.85 {
                scored.push((score, show(cwd, &parent.join(entry))));
            }
        }
    }
    if scored.len() < 3 {
        let walk = WalkBuilder::new(cwd).require_git(false).build().flatten().take(MOST_WALKED);
        for entry in walk.filter(|entry| entry.file_name().to_string_lossy().to_lowercase() == name).take(10) {
            scored.push((1.5, show(cwd, entry.path())));
        }
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut names: Vec<String> = scored.into_iter().map(|(_, name)| name).collect();
    names.dedup();
    names.truncate(3);
    names
}

fn entries(dir: &Path) -> impl Iterator<Item = std::ffi::OsString> + use<> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    fs::read_dir(dir).into_iter().flatten().take(MOST_ENTRIES).flatten().map(|entry| entry.file_name())
}

/// A name with everything levelled that people cannot see the difference of.
fn folded(name: &str) -> String {
    name.nfc()
        .map(|c| match c {
            '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
            '\u{2018}' | '\u{2019}' => '\'',
            c => c,
        })
        .collect()
}

fn percent_decoded(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    #[cfg(unix)]
    return PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(out));
    #[cfg(not(unix))]
    return PathBuf::from(String::from_utf8_lossy(&out).into_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_path_mean_the_same() {
        let dir = tempfile::tempdir().expect("a folder");
        let cwd = dir.path();
        assert_eq!(resolve(cwd, "a/b"), cwd.join("a/b"));
        assert_eq!(resolve(cwd, "@a/b"), cwd.join("a/b"));
        assert_eq!(resolve(cwd, "/x y"), Path::new("/x y"));
        assert_eq!(resolve(cwd, "file:///x%20y%zz"), Path::new("/x y%zz"));
        assert_eq!(resolve(cwd, "file://localhost/x"), Path::new("/x"));
        if let Some(home) = std::env::home_dir() {
            assert_eq!(resolve(cwd, "~/x"), home.join("x"));
            assert_eq!(resolve(cwd, "~"), home);
        }
        fs::create_dir(cwd.join("@types")).expect("made");
        assert_eq!(resolve(cwd, "@types/new.ts"), cwd.join("@types/new.ts"));
    }

    #[test]
    fn unicode_forms_of_names_are_found() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        for name in ["Shot 9.15\u{202f}AM.png", "caf\u{65}\u{301}.txt", "it\u{2019}s.md"] {
            fs::write(at(name), "x").expect("written");
        }
        assert_eq!(existing(&at("Shot 9.15 AM.png")), Some(at("Shot 9.15\u{202f}AM.png")));
        assert_eq!(existing(&at("caf\u{e9}.txt")), Some(at("caf\u{65}\u{301}.txt")));
        assert_eq!(existing(&at("it's.md")), Some(at("it\u{2019}s.md")));
        assert_eq!(existing(&at("none.md")), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn names_that_are_no_text_are_shown_and_found_again() {
        use std::os::unix::ffi::OsStrExt;
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join(std::ffi::OsStr::from_bytes(b"\xff.txt"));
        fs::write(&file, "x").expect("written");
        assert_eq!(show(dir.path(), &file), "\\xff.txt");
        assert_eq!(existing(&resolve(dir.path(), r"\xff.txt")), Some(file));
        assert_eq!(show(dir.path(), &dir.path().join("a\u{1b}b\n")), "a␛b␊");
    }

    #[test]
    fn a_missing_file_names_what_comes_near() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(dir.path().join("src/deep")).expect("made");
        fs::write(dir.path().join("src/README.md"), "").expect("written");
        fs::write(dir.path().join("src/deep/main.rs"), "").expect("written");
        let text = missing(dir.path(), &dir.path().join("src/Readme.md"));
        assert!(text.contains("Did you mean: src/README.md?"), "{text}");
        let text = missing(dir.path(), &dir.path().join("main.rs"));
        assert!(text.contains("src/deep/main.rs"), "{text}");
    }

    #[cfg(unix)]
    #[test]
    fn real_paths_follow_links_of_what_exists() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().canonicalize().expect("real");
        fs::create_dir(root.join("a")).expect("made");
        std::os::unix::fs::symlink("a", root.join("link")).expect("linked");
        std::os::unix::fs::symlink("a/later", root.join("dangling")).expect("linked");
        assert_eq!(real(&root.join("link/new/x")), root.join("a/new/x"));
        assert_eq!(real(&root.join("link/../y")), root.join("y"));
        assert_eq!(real(&root.join("dangling")), root.join("a/later"));
        std::os::unix::fs::symlink("loop", root.join("loop")).expect("linked");
        real(&root.join("loop"));
        // traps.md B154: back out of what is not there the way may go through a link.
        assert_eq!(real(&root.join("missing/../link/new")), root.join("a/new"));
        assert_eq!(real(&root.join("missing/../link/../../x")), root.parent().expect("a parent").join("x"));
        std::os::unix::fs::symlink("missing/../back", root.join("back")).expect("linked");
        real(&root.join("back/x"));
    }
}
