//! Which plugin files there are: the person's own, and a trusted project's.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::shared::Origin;
use crate::config::trust::{Brought, Standing, Trust};
use crate::home::{Home, hex, open_regular};

/// A plugin is smaller than this, in bytes.
const LARGEST: u64 = 1 << 20;

/// A plugin's file, as it was read once.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its name.
    pub file: String,
    /// Whose it is.
    pub origin: Origin,
    /// Where it stands.
    pub path: PathBuf,
    /// SHA-256 of its bytes.
    pub hash: String,
    /// Its text.
    pub text: String,
}

/// All plugin files in the order in which they run: by name, the person's own first; and what could not be read.
pub fn find(home: &Home, cwd: &Path) -> (Vec<Source>, Vec<String>) {
    let (mut sources, mut notices) = (Vec::new(), Vec::new());
    let folder = home.file("plugins");
    for path in fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let Some(file) = name(&path) else { continue };
        match read(&path) {
            Ok(bytes) => {
                let hash = hex(&Sha256::digest(&bytes));
                let text = String::from_utf8_lossy(&bytes).into_owned();
                sources.push(Source { file, origin: Origin::Own, path, hash, text });
            }
            Err(error) => notices.push(format!("the plugin {} is left out: {error}", path.display())),
        }
    }
    let brought = Brought::of(cwd);
    if Trust::read(home).standing(&brought) == Standing::Trusted {
        for item in brought.items {
            let Some(file) = item.name.strip_prefix("plugins/").map(str::to_owned) else { continue };
            let (path, hash, text) = (item.path, item.hash, item.text);
            sources.push(Source { file, origin: Origin::Project, path, hash, text });
        }
    }
    sources.sort_by(|a, b| (&a.file, a.origin).cmp(&(&b.file, b.origin)));
    (sources, notices)
}

/// The name of a plugin's file; what editors leave beside it is none.
fn name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    (name.ends_with(".lua") && !name.starts_with('.')).then(|| name.to_owned())
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LARGEST {
        true => Err(io::Error::other("it is larger than 1 MB")),
        false => Ok(bytes),
    }
}
