//! The code is laid out as the map in `src/lib.rs` says.

use std::fs;
use std::path::{Path, PathBuf};

/// The floor of each module; floor 1 is where siblings do not know each other.
const FLOORS: &[(&str, u8)] = &[
    ("message", 0),
    ("event", 0),
    ("toolkit", 0),
    ("model", 0),
    ("choice", 0),
    ("home", 0),
    ("process", 0),
    ("text", 0),
    ("config", 1),
    ("session", 1),
    ("provider", 1),
    ("theme", 1),
    ("watch", 1),
    ("tool", 2),
    ("context", 2),
    ("plugin", 2),
    ("agent", 3),
    ("tui", 4),
    ("headless", 4),
    ("export", 4),
    ("cli", 5),
];

/// The most lines of a file without its tests.
const LONGEST: usize = 800;

fn floor(module: &str) -> Option<u8> {
    FLOORS.iter().find(|(name, _)| *name == module).map(|(_, floor)| *floor)
}

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("readable").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

/// A file without its tests and comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("readable");
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_floor_imports_only_floors_below_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 50);
    let mut faults = Vec::new();
    for path in files {
        let relative = path.strip_prefix(&root).expect("below it").to_owned();
        let own = relative.iter().next().expect("a part").to_string_lossy().trim_end_matches(".rs").to_owned();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if matches!(own.as_str(), "lib" | "main") || name.ends_with("tests") {
            continue;
        }
        let Some(mine) = floor(&own) else {
            faults.push(format!("{} stands on no floor", relative.display()));
            continue;
        };
        let text = code(&path);
        for part in text.split("crate::").skip(1) {
            let module: String = part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let Some(theirs) = floor(&module) else { continue };
            let fine = module == own || theirs < mine || (theirs == mine && mine != 1);
            if !fine {
                faults.push(format!("{} imports {module}", relative.display()));
            }
        }
        for library in ["ratatui", "crossterm"] {
            let names = text.contains(&format!("{library}::"));
            let may = mine >= 4 || (own == "theme" && library == "ratatui");
            if names && !may {
                faults.push(format!("{} names {library}", relative.display()));
            }
        }
        let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
        if lines > LONGEST {
            faults.push(format!("{} has {lines} lines", relative.display()));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
