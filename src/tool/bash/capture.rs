//! What a command prints: its end for the model, all of it for a file, and pieces for the person while it runs.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use crate::home;
use crate::text::{self, ColourFilter};

use super::super::truncate;

/// Raw output that is kept in memory is cut to half of this when it is longer, in bytes.
const KEPT: usize = 8 * truncate::BYTES;

/// Largest log, in bytes: a command without end must not fill the disk.
const LARGEST_LOG: u64 = 1 << 30;

/// Most live text that waits to be sent, in bytes.
const MOST_LIVE: usize = 64 * 1024;

/// How often a line that is written over is shown.
const PROGRESS: Duration = Duration::from_secs(1);

/// Takes what a command prints.
pub struct Capture {
    raw: Vec<u8>,
    /// The begin of the output is no longer in `raw`.
    dropped: bool,
    newlines: u64,
    bytes: u64,
    log: Log,
    folder: PathBuf,
    name: String,
    live: Live,
}

enum Log {
    None,
    Open(File, PathBuf),
    /// It could not be written, and why.
    Failed(Option<PathBuf>, String),
}

/// What is left of an output.
#[derive(Debug)]
pub struct Captured {
    /// For the model, without control sequences; with a footer where it was cut.
    pub text: String,
    /// For the person, where there are colours in it.
    pub coloured: Option<String>,
    /// The file that holds all of it, where it was cut.
    pub log: Option<PathBuf>,
}

impl Capture {
    /// A capture whose log, if it comes to one, stands in `folder` under the name of the call.
    pub fn new(folder: &Path, call_id: &str) -> Self {
        Capture {
            raw: Vec::new(),
            dropped: false,
            newlines: 0,
            bytes: 0,
            log: Log::None,
            folder: folder.to_owned(),
            name: safe(call_id),
            live: Live::default(),
        }
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.raw.extend_from_slice(piece);
        self.bytes += piece.len() as u64;
        self.newlines += memchr::memchr_iter(b'\n', piece).count() as u64;
        self.live.push(piece);
        let long = self.bytes > truncate::BYTES as u64 || self.newlines > truncate::LINES as u64;
        match &mut self.log {
            // Nothing was dropped so far, so `raw` is all of it.
            Log::None if long => self.open_log(),
            Log::Open(..) => self.write_log(piece),
            _ => {}
        }
        if self.raw.len() > KEPT {
            self.raw = collapsed(&self.raw);
            if self.raw.len() > KEPT / 2 {
                let cut = self.raw.len() - KEPT / 2;
                let border = memchr::memchr(b'\n', &self.raw[cut..]).map_or(cut, |at| cut + at + 1);
                self.raw.drain(..if border < self.raw.len() { border } else { cut });
                self.dropped = true;
            }
        }
    }

    /// Opens the log and writes what there is so far; the path, or why it cannot be.
    pub fn open_log(&mut self) {
        match self.new_log() {
            Ok((file, path)) => {
                self.log = Log::Open(file, path);
                let raw = std::mem::take(&mut self.raw);
                self.write_log(&raw);
                self.raw = raw;
            }
            Err(error) => self.log = Log::Failed(None, error.to_string()),
        }
    }

    /// How many bytes came so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What came since there were that many bytes, as far as it is kept.
    pub fn since(&self, bytes: u64) -> &[u8] {
        let new = usize::try_from(self.bytes.saturating_sub(bytes)).unwrap_or(usize::MAX);
        &self.raw[self.raw.len().saturating_sub(new)..]
    }

    /// The log's path, where there is one.
    pub fn log_path(&self) -> Option<&Path> {
        match &self.log {
            Log::Open(_, path) => Some(path),
            _ => None,
        }
    }

    fn new_log(&self) -> io::Result<(File, PathBuf)> {
        home::private_dir(&self.folder)?;
        let mut number = 1;
        loop {
            let name = if number == 1 { format!("{}.log", self.name) } else { format!("{}-{number}.log", self.name) };
            let path = self.folder.join(name);
            match home::private_file().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((file, path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 100 => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn write_log(&mut self, piece: &[u8]) {
        let Log::Open(file, path) = &mut self.log else { return };
        let result = match self.bytes > LARGEST_LOG {
            true => Err(io::Error::other("the output is over 1 GiB")),
            false => file.write_all(piece),
        };
        if let Err(error) = result {
            self.log = Log::Failed(Some(path.clone()), error.to_string());
        }
    }

    /// Live text that waits to be sent.
    pub fn live(&mut self) -> Option<String> {
        self.live.take()
    }

    /// The last live text, once nothing more comes.
    pub fn last_live(&mut self) -> Option<String> {
        self.live.show_line();
        self.live.take()
    }

    /// Whether live text waits to be sent.
    pub fn has_live(&self) -> bool {
        self.live.waits()
    }

    /// Ends the capture. A log of an output that was not cut after all is removed.
    pub fn finish(self) -> Captured {
        let raw = collapsed(&self.raw);
        let whole = text::strip(&String::from_utf8_lossy(&raw));
        let tail = truncate::tail(&whole, truncate::LINES, truncate::BYTES);
        let total = self.newlines + u64::from(!self.raw.is_empty() && !self.raw.ends_with(b"\n"));
        let cut = self.dropped || tail.text.len() < whole.len();
        let mut out = Captured { text: tail.text.to_owned(), coloured: None, log: None };
        let coloured = text::clean_keeping_colour(&String::from_utf8_lossy(&raw));
        if coloured.contains('\u{1b}') {
            let tail = truncate::tail(&coloured, truncate::LINES, 2 * truncate::BYTES);
            out.coloured = Some(tail.text.to_owned());
        }
        if !cut {
            if let Log::Open(_, path) | Log::Failed(Some(path), _) = &self.log {
                let _ = std::fs::remove_file(path);
            }
            return out;
        }
        let place = match self.log {
            Log::Open(_, path) => {
                let text = format!("all of it in {}", path.display());
                out.log = Some(path);
                text
            }
            Log::Failed(Some(path), why) => {
                let text = format!("its begin in {} ({why})", path.display());
                out.log = Some(path);
                text
            }
            Log::Failed(None, why) => format!("the rest could not be kept: {why}"),
            Log::None => "the rest was not kept".to_owned(),
        };
        if !out.text.ends_with('\n') {
            out.text.push('\n');
        }
        let what = match tail.partial {
            true => format!("the last {} of line {total}", truncate::size(tail.text.len() as u64)),
            false => format!("lines {}-{total} of {total}", total.saturating_sub(tail.lines as u64) + 1),
        };
        out.text.push_str(&format!("[{what}, {} in all; {place}]\n", truncate::size(self.bytes)));
        out
    }
}

/// A call's id as a file name.
fn safe(call_id: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' };
    let name: String = call_id.chars().map(kept).take(100).collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { "call".to_owned() } else { name.to_owned() }
}

/// The output with every line as it was last written over: of what stands between carriage returns, the last
/// piece that shows something stays.
fn collapsed(raw: &[u8]) -> Vec<u8> {
    if memchr::memchr(b'\r', raw).is_none() {
        return raw.to_vec();
    }
    let mut out = Vec::with_capacity(raw.len());
    for line in raw.split_inclusive(|byte| *byte == b'\n') {
        let (body, end) = match line.strip_suffix(b"\n") {
            Some(body) => (body, &b"\n"[..]),
            None => (line, &b""[..]),
        };
        let shows = |piece: &&[u8]| !text::strip(&String::from_utf8_lossy(piece)).trim().is_empty();
        let piece = body.rsplit(|byte| *byte == b'\r').find(shows);
        // A line that only moves about keeps what it has, without its carriage returns.
        out.extend_from_slice(piece.unwrap_or_else(|| body.split(|byte| *byte == b'\r').next().unwrap_or(b"")));
        out.extend_from_slice(end);
    }
    out
}

/// Makes live text: characters whole, colours kept, lines that are written over shown once a second.
#[derive(Default)]
struct Live {
    filter: ColourFilter,
    /// Bytes of a character that is not whole yet.
    bytes: Vec<u8>,
    waiting: String,
    carriage_return: bool,
    /// The line is being written over: this is what it holds now, and it is not in `waiting`.
    line: Option<String>,
    shown: Option<Instant>,
}

impl Live {
    fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        let whole = self.bytes.len() - unfinished(&self.bytes);
        let text = String::from_utf8_lossy(&self.bytes[..whole]).into_owned();
        self.bytes.drain(..whole);
        for c in text.chars() {
            if std::mem::take(&mut self.carriage_return) && c != '\n' {
                self.line = Some(String::new());
            }
            match (c, &mut self.line) {
                ('\r', _) => self.carriage_return = true,
                ('\n', Some(_)) => {
                    self.show_line();
                    self.line = None;
                    self.waiting.push('\n');
                }
                (c, Some(line)) => line.push(c),
                (c, None) => self.waiting.push(c),
            }
        }
        if self.waiting.len() > MOST_LIVE {
            let kept = text::tail(&self.waiting, MOST_LIVE / 2);
            let kept = kept.split_once('\n').map_or(kept, |(_, rest)| rest);
            self.waiting = format!("…\n{kept}");
        }
    }

    fn show_line(&mut self) {
        if let Some(line) = &mut self.line
            && !text::strip(line).trim().is_empty()
        {
            self.waiting.push('\n');
            self.waiting.push_str(line);
            line.clear();
            self.shown = Some(Instant::now());
        }
    }

    fn waits(&self) -> bool {
        !self.waiting.is_empty() || self.line.as_ref().is_some_and(|line| !line.is_empty()) && self.due()
    }

    fn due(&self) -> bool {
        self.shown.is_none_or(|shown| shown.elapsed() >= PROGRESS)
    }

    fn take(&mut self) -> Option<String> {
        if self.due() {
            self.show_line();
        }
        let text = self.filter.push(&std::mem::take(&mut self.waiting));
        (!text.is_empty()).then_some(text)
    }
}

/// How many bytes at the end may be the begin of a character that is still to come.
fn unfinished(bytes: &[u8]) -> usize {
    (1..=bytes.len().min(3))
        .find(|back| {
            let end = &bytes[bytes.len() - back..];
            end[0] >= 0xc2 && std::str::from_utf8(end).is_err_and(|error| error.error_len().is_none())
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(pieces: &[&[u8]]) -> (Captured, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a folder");
        let mut capture = Capture::new(&dir.path().join("new"), "../call|1");
        for piece in pieces {
            capture.push(piece);
        }
        (capture.finish(), dir)
    }

    #[test]
    fn lines_that_are_written_over_show_their_last_state() {
        assert_eq!(captured(&[b"P 10%\rP 99%\rP 100%\nDone\n"]).0.text, "P 100%\nDone\n");
        assert_eq!(captured(&[b"P 1%\r", b"P 2%\r\x1b[K"]).0.text, "P 2%");
        assert_eq!(captured(&[b"a\r\nb\r\n"]).0.text, "a\nb\n");
        assert_eq!(captured(&[b"\x1b[1A\x1b[2K\x1b[Gx\n"]).0.text, "x\n");
        assert_eq!(captured(&[b"\x1b]133;A\x07\x1b[?1049l\x1b[?25l"]).0.text, "");
        let (out, _dir) = captured(&[b"\x1b[31mred\x1b[0m \xff\n"]);
        assert_eq!(out.text, "red \u{fffd}\n");
        assert_eq!(out.coloured.as_deref(), Some("\x1b[31mred\x1b[0m \u{fffd}\n"));
    }

    #[cfg(unix)]
    #[test]
    fn what_is_cut_is_kept_whole_in_a_private_file() {
        use std::os::unix::fs::PermissionsExt;
        let text: String = (1..=2500).map(|n| format!("line {n}\n")).collect();
        let (out, _dir) = captured(&[&text.as_bytes()[..9999], &text.as_bytes()[9999..]]);
        let log = out.log.expect("a log");
        assert!(log.ends_with("new/_call_1.log"), "{}", log.display());
        assert_eq!(std::fs::read(&log).expect("read"), text.as_bytes());
        assert_eq!(std::fs::metadata(&log).expect("there").permissions().mode() & 0o777, 0o600);
        assert!(out.text.starts_with("line 501\n"));
        let footer = out.text.lines().last().expect("a footer");
        assert!(footer.starts_with("[lines 501-2500 of 2500, 23.3 KiB in all; all of it in "), "{footer}");
    }

    #[test]
    fn long_lines_and_long_outputs_are_bounded() {
        let (out, _dir) = captured(&["é".repeat(100_000).as_bytes()]);
        assert!(out.text.starts_with('é') && out.text.contains("[the last 50.0 KiB of line 1, 195.3 KiB in all"));
        let line = "x".repeat(99) + "\n";
        let (out, _dir) = captured(&vec![line.as_bytes(); 50_000]);
        assert!(out.text.len() < truncate::BYTES + 300 && out.text.contains("of 50000, 4.8 MiB in all"));
        assert_eq!(std::fs::metadata(out.log.expect("a log")).expect("there").len(), 5_000_000);
        // Much output that is written over is little to show, and needs no log.
        let (out, dir) = captured(&vec![&b"P 12345678%\r"[..]; 100_000]);
        assert_eq!((out.text.as_str(), out.log), ("P 12345678%", None));
        assert_eq!(std::fs::read_dir(dir.path().join("new")).expect("read").count(), 0);
    }

    #[test]
    fn live_text_has_whole_characters_and_no_control_sequences() {
        let mut live = Live::default();
        live.push(&"é".as_bytes()[..1]);
        assert_eq!(live.take(), None);
        live.push(&"é\x1b[31mr\x1b[2".as_bytes()[1..]);
        live.push(b"Jx\xff\n");
        assert_eq!(live.take().as_deref(), Some("é\x1b[31mrx\u{fffd}\n"));
        live.push(b"P 1%\rP 2%");
        assert_eq!(live.take().as_deref(), Some("P 1%\nP 2%"));
        live.push(b"\rP 3%\rP 4%");
        assert_eq!(live.take(), None, "not again within a second");
        live.push(b"\rP 5%\nend\r\n");
        assert_eq!(live.take().as_deref(), Some("\nP 5%\nend\n"));
        live.push("😀".repeat(100_000).as_bytes());
        assert!(live.take().is_some_and(|text| text.len() <= MOST_LIVE));
    }
}
