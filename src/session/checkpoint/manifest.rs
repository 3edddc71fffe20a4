//! What a checkpoint holds, path by path. Paths are bytes: file names need be no text.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The paths of a tree, relative to its root, `/` between the parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// What stands at each path. Folders are named only where they are empty.
    pub items: BTreeMap<Vec<u8>, Item>,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// A file, a link or an empty folder.
    pub kind: Kind,
    /// The mode's permission bits.
    pub mode: u32,
    /// The name of its content in the store; empty of a folder, and of what is not stored yet.
    pub object: String,
}

/// What an [`Item`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A symbolic link; its content is its target.
    Link,
    /// An empty folder.
    Folder,
}

const HEAD: &[u8] = b"violin.manifest.v1";

impl Manifest {
    /// As it is stored: a head, then `KIND MODE OBJECT PATH` for each path, each ended by a zero byte, which no path holds.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = HEAD.to_vec();
        out.push(0);
        for (path, item) in &self.items {
            let kind = match item.kind {
                Kind::File => 'f',
                Kind::Link => 'l',
                Kind::Folder => 'd',
            };
            out.extend_from_slice(format!("{kind} {:o} {} ", item.mode, item.object).as_bytes());
            out.extend_from_slice(path);
            out.push(0);
        }
        out
    }

    /// Reads what [`Manifest::to_bytes`] wrote; `None` where it is something else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut lines = bytes.split(|byte| *byte == 0);
        if lines.next()? != HEAD {
            return None;
        }
        let mut manifest = Manifest::default();
        for line in lines.filter(|line| !line.is_empty()) {
            let mut fields = line.splitn(4, |byte| *byte == b' ');
            let kind = match fields.next()? {
                b"f" => Kind::File,
                b"l" => Kind::Link,
                b"d" => Kind::Folder,
                _ => return None,
            };
            let mode = u32::from_str_radix(std::str::from_utf8(fields.next()?).ok()?, 8).ok()?;
            let object = std::str::from_utf8(fields.next()?).ok()?.to_owned();
            manifest.items.insert(fields.next()?.to_vec(), Item { kind, mode, object });
        }
        Some(manifest)
    }
}

/// A path's bytes as the system takes them.
#[cfg(unix)]
pub fn os(path: &[u8]) -> OsString {
    use std::os::unix::ffi::OsStringExt;
    OsString::from_vec(path.to_vec())
}

/// A path of the system's as bytes.
#[cfg(unix)]
pub fn bytes(path: &OsStr) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_bytes().to_vec()
}

/// A path's bytes as the system takes them.
#[cfg(not(unix))]
pub fn os(path: &[u8]) -> OsString {
    String::from_utf8_lossy(path).into_owned().into()
}

/// A path of the system's as bytes, with `/` between its parts.
#[cfg(not(unix))]
pub fn bytes(path: &OsStr) -> Vec<u8> {
    path.to_string_lossy().replace('\\', "/").into_bytes()
}
