//! The log file, `logs/violin.log`: warnings always, and as much more as `VIOLIN_LOG` says (`info`, `debug`, `trace`, `off`, or
//! a list such as `violin::agent=debug,warn`). What was said in a session is not written to it, and nothing that looks
//! like a secret.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::home::{Home, private_dir, private_file};
use crate::text::{clean, redact};

/// A file that has grown to this many bytes becomes `violin.log.1`, in place of the one before.
const LARGEST: u64 = 4 << 20;

/// Begins to log. A word in `VIOLIN_LOG` that means nothing is told.
pub fn start(home: &Home) -> Option<String> {
    let wanted = std::env::var("VIOLIN_LOG").ok().filter(|wanted| !wanted.trim().is_empty());
    let (filter, wrong) = match wanted.as_deref().map(str::parse::<Targets>) {
        None => (Targets::new().with_default(LevelFilter::WARN), None),
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => {
            let wrong = format!("VIOLIN_LOG says nothing that can be read ({error}); warnings are logged");
            (Targets::new().with_default(LevelFilter::WARN), Some(wrong))
        }
    };
    let log = Log { path: home.logs().join("violin.log"), open: Arc::default() };
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(log);
    // Only one can be set in a process, and it is set here.
    let _ = tracing_subscriber::registry().with(filter).with(layer).try_init();
    wrong
}

/// The file; it is made with the first line.
#[derive(Clone)]
struct Log {
    path: PathBuf,
    open: Arc<Mutex<Option<(File, u64)>>>,
}

impl Log {
    fn append(&self, text: &str) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.as_ref().is_some_and(|(_, size)| *size > LARGEST) {
            *open = None;
            fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
        if open.is_none() {
            self.path.parent().map_or(Ok(()), private_dir)?;
            let file = private_file().append(true).create(true).open(&self.path)?;
            let size = file.metadata()?.len();
            *open = Some((file, size));
        }
        if let Some((file, size)) = open.as_mut() {
            file.write_all(text.as_bytes())?;
            *size += text.len() as u64;
        }
        Ok(())
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let line = format!("{}\n", clean(&redact(text.trim_end())));
        // A log that cannot be written must not stop what it tells of, and there is nowhere else to tell.
        let _ = self.append(&line);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_has_grown_makes_place_for_a_new_one() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut log = Log { path: dir.path().join("logs/violin.log"), open: Arc::default() };
        log.write_all(b"the key is sk-abcdefgh12345678 \x1b[31m\n").expect("written");
        let text = fs::read_to_string(&log.path).expect("there");
        assert!(text.contains("[redacted]") && !text.contains("sk-abc") && !text.contains('\u{1b}'), "{text}");
        fs::write(&log.path, vec![b'x'; LARGEST as usize + 1]).expect("grown");
        log.open = Arc::default();
        log.write_all(b"one\n").expect("written");
        log.write_all(b"two\n").expect("written");
        assert_eq!(fs::read_to_string(&log.path).expect("there"), "two\n");
        assert!(fs::metadata(dir.path().join("logs/violin.log.1")).expect("kept").len() > LARGEST);
    }
}
