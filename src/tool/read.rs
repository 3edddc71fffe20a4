//! `read`: a file's text, an image, or a folder's listing.

use std::fs;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::message::Block;
use crate::toolkit::{Arguments, Risk, Tool, ToolContext, ToolError, ToolOutput, View};

use super::files::{self, Seen, Stamp};
use super::{image, path, truncate};

/// Most entries of a listing.
const MOST_ENTRIES: usize = 500;

/// Bytes that tell what a file is.
const SNIFFED: usize = 8192;

/// Files larger than this are not counted to their end.
const COUNTED: u64 = 512 * 1024 * 1024;

/// The tool.
pub struct Read {
    seen: Arc<Seen>,
}

impl Read {
    /// One that notes in `seen` what the model has read.
    pub fn new(seen: Arc<Seen>) -> Self {
        Read { seen }
    }
}

impl Tool for Read {
    fn name(&self) -> &str {
        "read"
    }

    fn description(&self) -> &str {
        "Read a text file (2000 lines or 50 KiB at once), an image or a directory"
    }

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {
            "path": {"type": "string"},
            "offset": {"type": "integer", "description": "First line, from 1"},
            "limit": {"type": "integer"}},
            "required": ["path"]})
    }

    fn risk(&self) -> Risk {
        Risk::ReadOnly
    }

    fn title(&self, arguments: &Arguments) -> String {
        let path = super::optional_text(arguments, "path").unwrap_or("?").to_owned();
        match (super::count(arguments, "offset", 1), super::count(arguments, "limit", 1)) {
            (None, None) => path,
            (first, None) => format!("{path}:{}", first.unwrap_or(1)),
            (first, Some(limit)) => {
                let first = first.unwrap_or(1);
                format!("{path}:{first}-{}", first.saturating_add(limit - 1))
            }
        }
    }

    fn prepare(&self, mut arguments: Arguments) -> Arguments {
        super::rename(&mut arguments, super::PATH_NAMES, "path");
        arguments
    }

    fn run<'a>(&'a self, context: ToolContext, arguments: Arguments) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let wanted = path::resolve(&context.cwd, super::text(&arguments, "path")?);
            let offset = super::count(&arguments, "offset", 1);
            let limit = super::count(&arguments, "limit", 1);
            let seen = self.seen.clone();
            let cancel = context.cancel.clone();
            super::looking(&context.cancel, move || {
                let Some(found) = path::existing(&wanted) else {
                    return Err(ToolError::model(path::missing(&context.cwd, &wanted)));
                };
                let name = path::show(&context.cwd, &found);
                let failed = |error| files::failed("read", &name, &error);
                let metadata = fs::metadata(&found).map_err(failed)?;
                match files::kind(&metadata) {
                    "directory" => return listing(&found, &name, offset.unwrap_or(1), limit),
                    "file" => {}
                    kind => return Err(ToolError::model(format!("{name} is a {kind}; only files can be read."))),
                }
                let mut file = files::open(&found).map_err(failed)?;
                let mut head = Vec::new();
                file.by_ref().take(SNIFFED as u64).read_to_end(&mut head).map_err(failed)?;
                let output = if let Some(kind) = image::sniff(&head) {
                    picture(&found, &name, kind)?
                } else if let Some(encoding) = utf16(&head) {
                    let bytes = files::contents(&name, &found, 64 * 1024 * 1024)?;
                    let (text, encoding, _) = encoding.decode(&bytes);
                    let mut excerpt = excerpt(&mut text.as_bytes(), offset, limit, u64::MAX, &cancel)?;
                    excerpt.note = Some(format!("[{} text; edit cannot change it]", encoding.name()));
                    excerpt.output(&name)?
                } else if let Some(kind) = binary(&head) {
                    let size = truncate::size(metadata.len());
                    return Err(ToolError::model(format!("{name} is {kind} of {size}: binary, so it was not read.")));
                } else {
                    let mut reader = BufReader::with_capacity(64 * 1024, head.chain(file));
                    excerpt(&mut reader, offset, limit, metadata.len(), &cancel)?.output(&name)?
                };
                seen.note(&path::real(&found), Stamp::of(&metadata));
                Ok(output)
            })
            .await
        })
    }
}

/// A part of a text.
#[derive(Default)]
struct Excerpt {
    text: Vec<u8>,
    /// The first line's number.
    first: usize,
    /// How many lines are shown.
    shown: usize,
    /// How many there are, where they were counted.
    total: Option<usize>,
    /// It ended at our own limit of bytes.
    by_bytes: bool,
    /// The length of the only line, where that alone is too long.
    cut: Option<u64>,
    note: Option<String>,
}

/// Reads lines with bounded memory, however long the file or a line of it is.
fn excerpt(
    reader: &mut dyn BufRead,
    offset: Option<usize>,
    limit: Option<usize>,
    size: u64,
    cancel: &CancellationToken,
) -> Result<Excerpt, ToolError> {
    let first = offset.unwrap_or(1);
    let last = first.saturating_add(limit.unwrap_or(truncate::LINES).min(truncate::LINES) - 1);
    let mut out = Excerpt { first, ..Excerpt::default() };
    let (mut number, mut done, mut counted) = (1, false, true);
    // The line that is being read, at most a little more of it than can be shown.
    let (mut line, mut line_bytes) = (Vec::new(), 0u64);
    loop {
        if cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let buffer = reader.fill_buf().map_err(|error| ToolError::model(format!("reading failed: {error}")))?;
        if buffer.is_empty() {
            break;
        }
        let mut rest = buffer;
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest);
            let piece = &rest[..end.map_or(rest.len(), |end| end + 1)];
            rest = &rest[piece.len()..];
            line_bytes += piece.len() as u64;
            if !done && (first..=last).contains(&number) {
                let room = (truncate::BYTES + 4).saturating_sub(line.len());
                line.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            if end.is_some() {
                done = out.take(number, last, &line, line_bytes, done);
                number += 1;
                line.clear();
                line_bytes = 0;
            }
        }
        let read = buffer.len();
        reader.consume(read);
        if done && size > COUNTED {
            counted = false;
            break;
        }
    }
    if line_bytes > 0 {
        out.take(number, last, &line, line_bytes, done);
        number += 1;
    }
    out.total = counted.then_some(number - 1);
    Ok(out)
}

impl Excerpt {
    /// Takes a whole line; returns whether the excerpt is complete.
    fn take(&mut self, number: usize, last: usize, line: &[u8], line_bytes: u64, done: bool) -> bool {
        if done || number < self.first {
            return done;
        }
        if self.text.len() as u64 + line_bytes > truncate::BYTES as u64 {
            self.by_bytes = true;
            if self.shown == 0 {
                self.cut = Some(line_bytes);
                let end = line.len().min(truncate::BYTES);
                // Back to a border between characters.
                let back = line[..end].iter().rev().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
                let lead = end - back;
                let whole = std::str::from_utf8(&line[lead.saturating_sub(1)..end]).is_ok();
                self.text.extend_from_slice(&line[..if whole { end } else { lead.saturating_sub(1) }]);
                self.shown = 1;
            }
            return true;
        }
        let line = if number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
        match line.strip_suffix(b"\r\n") {
            Some(body) => {
                self.text.extend_from_slice(body);
                self.text.push(b'\n');
            }
            None => self.text.extend_from_slice(line),
        }
        self.shown += 1;
        number >= last
    }

    fn output(self, name: &str) -> Result<ToolOutput, ToolError> {
        let lines = |count: usize| if count == 1 { "1 line".to_owned() } else { format!("{count} lines") };
        if self.shown == 0 {
            return match self.total {
                Some(0) => Ok(ToolOutput::text(format!("({name} is empty)"), "empty")),
                total => {
                    let total = lines(total.unwrap_or(0));
                    let text = format!("{name} has {total}; offset {} is past its end.", self.first);
                    Err(ToolError::model(text))
                }
            };
        }
        let end = self.first + self.shown - 1;
        let mut notes = Vec::new();
        if let Some(bytes) = self.cut {
            let (size, limit) = (truncate::size(bytes), truncate::size(truncate::BYTES as u64));
            notes.push(format!(
                "[line {end} has {size}; its first {limit} are shown. Cut it with bash: sed -n {end}p | cut -c]"
            ));
        }
        if self.total.is_none_or(|total| total > end) {
            let of = self.total.map_or_else(|| "many".to_owned(), |total| total.to_string());
            let why = if self.by_bytes { " (50 KiB limit)" } else { "" };
            notes.push(format!("[lines {}-{end} of {of}{why}; continue with offset={}]", self.first, end + 1));
        }
        let text = match String::from_utf8(self.text) {
            Ok(text) => text,
            Err(error) => {
                notes.push("[not all of it is UTF-8: \u{fffd} stands for other bytes]".to_owned());
                String::from_utf8_lossy(error.as_bytes()).into_owned()
            }
        };
        notes.extend(self.note);
        let mut output = ToolOutput::text(text, lines(self.shown));
        if !notes.is_empty() {
            output.content.push(Block::Text { text: notes.join("\n") });
        }
        output.view = Some(View::File { path: name.to_owned(), first_line: self.first, text: String::new() });
        Ok(output)
    }
}

/// The image itself, made fit for a model, and a line about it; where it cannot be decoded, only the line.
fn picture(path: &Path, name: &str, kind: &str) -> Result<ToolOutput, ToolError> {
    let bytes = files::contents(name, path, image::MOST_BYTES)?;
    match image::prepare(&bytes) {
        Ok(picture) => {
            let mut output = ToolOutput::text(format!("{name}: {}", picture.about()), picture.about());
            output.view = Some(View::Image {
                mime_type: picture.mime_type.to_owned(),
                width: picture.width,
                height: picture.height,
                bytes: bytes.len() as u64,
            });
            output.content.push(picture.block());
            Ok(output)
        }
        Err(why) => {
            let size = truncate::size(bytes.len() as u64);
            Err(ToolError::model(format!("{name} is {kind} of {size} that cannot be shown: {why}.")))
        }
    }
}

fn listing(path: &Path, name: &str, first: usize, limit: Option<usize>) -> Result<ToolOutput, ToolError> {
    let entries = fs::read_dir(path).map_err(|error| files::failed("listed", name, &error))?;
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| {
            let slash = if fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_dir()) { "/" } else { "" };
            path::show(path, &entry.path()) + slash
        })
        .collect();
    if names.is_empty() {
        return Ok(ToolOutput::text(format!("({name} is an empty directory)"), "empty"));
    }
    names.sort_by_cached_key(|name| (name.to_lowercase(), name.clone()));
    let total = names.len();
    let shown: Vec<String> =
        names.into_iter().skip(first - 1).take(limit.unwrap_or(MOST_ENTRIES).min(MOST_ENTRIES)).collect();
    if shown.is_empty() {
        return Err(ToolError::model(format!("{name} has {total} entries; offset {first} is past its end.")));
    }
    let end = first - 1 + shown.len();
    let mut output = ToolOutput::text(shown.join("\n"), format!("{} entries", shown.len()));
    if end < total {
        let text = format!("[entries {first}-{end} of {total}; continue with offset={}]", end + 1);
        output.content.push(Block::Text { text });
    }
    output.view = Some(View::Paths);
    Ok(output)
}

fn utf16(head: &[u8]) -> Option<&'static encoding_rs::Encoding> {
    match head {
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] => Some(encoding_rs::UTF_16LE),
        [0xfe, 0xff, ..] => Some(encoding_rs::UTF_16BE),
        _ => None,
    }
}

/// What kind of binary file begins so; `None` for text.
fn binary(head: &[u8]) -> Option<&'static str> {
    const KINDS: &[(&[u8], &str)] = &[
        (b"%PDF-", "a PDF file"),
        (b"\x7fELF", "an ELF program or library"),
        (b"\xcf\xfa\xed\xfe", "a Mach-O program or library"),
        (b"MZ\x90", "a Windows program or library"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"\x1f\x8b", "a gzip file"),
        (b"BZh", "a bzip2 file"),
        (b"\xfd7zXZ\0", "an xz file"),
        (b"\x28\xb5\x2f\xfd", "a zstd file"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\0asm", "a WebAssembly module"),
        (b"\xca\xfe\xba\xbe", "a Java class or Mach-O file"),
        (b"OggS", "an Ogg file"),
        (b"ID3", "an MP3 file"),
        (b"fLaC", "a FLAC file"),
        (b"RIFF", "a RIFF (audio or video) file"),
        (b"II*\0", "a TIFF image"),
        (b"MM\0*", "a TIFF image"),
        (b"\0\0\x01\0", "an icon"),
    ];
    let odd = |byte: &&u8| matches!(byte, 0..=8 | 14..=26 | 28..=31 | 127);
    let is_text = !head.contains(&0) && head.iter().filter(odd).count() * 20 <= head.len();
    let kind = KINDS.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, kind)| *kind);
    // The letters of some marks can begin a text too.
    if is_text && !head.starts_with(b"%PDF-") {
        return None;
    }
    match head.get(4..12) {
        Some(b"ftypheic" | b"ftypheix" | b"ftypmif1" | b"ftyphevc") => Some("a HEIC image"),
        Some(b"ftypavif" | b"ftypavis") => Some("an AVIF image"),
        Some(brand) if brand.starts_with(b"ftyp") => Some("an MP4 (audio or video) file"),
        _ => kind.or(Some("a file of unknown kind")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, context, said};
    use super::*;
    use crate::message::text_of;

    async fn read(dir: &Path, arguments: Value) -> Result<ToolOutput, ToolError> {
        call(&Read::new(Arc::default()), &context(dir), arguments).await
    }

    fn folder(name: &str, bytes: impl AsRef<[u8]>) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join(name), bytes).expect("written");
        dir
    }

    #[tokio::test]
    async fn a_part_says_how_to_go_on() {
        let text: String = (1..=5000).map(|n| format!("line {n}\n")).collect();
        let dir = folder("a", &text);
        let whole = read(dir.path(), json!({"path": "a"})).await.expect("read");
        assert_eq!(whole.content[1], Block::Text { text: "[lines 1-2000 of 5000; continue with offset=2001]".into() });
        assert_eq!(whole.summary, "2000 lines");
        let part = read(dir.path(), json!({"path": "@a", "offset": "4999", "limit": 5})).await.expect("read");
        assert_eq!(text_of(&part.content), "line 4999\nline 5000\n");
        assert_eq!(part.view, Some(View::File { path: "a".into(), first_line: 4999, text: String::new() }));
        let past = read(dir.path(), json!({"path": "a", "offset": 6000})).await;
        assert_eq!(said(&past), "a has 5000 lines; offset 6000 is past its end.");
    }

    #[tokio::test]
    async fn bytes_are_bounded_and_characters_whole() {
        let dir = folder("emoji", "😀".repeat(20_000));
        let text = said(&read(dir.path(), json!({"path": "emoji"})).await);
        assert!(text.starts_with("😀") && !text.contains('\u{fffd}'), "cut at a border");
        assert!(text.contains("line 1 has 78.1 KiB"), "{}", &text[text.len() - 120..]);
        let dir = folder("long", ("é".repeat(500) + "\n").repeat(100));
        let text = said(&read(dir.path(), json!({"path": "long"})).await);
        assert!(text.ends_with("[lines 1-51 of 100 (50 KiB limit); continue with offset=52]"));
        assert!(!text.contains('\u{fffd}'));
    }

    #[tokio::test]
    async fn empty_files_folders_and_encodings() {
        let dir = folder("empty", "");
        let path = dir.path();
        assert_eq!(said(&read(path, json!({"path": "empty"})).await), "(empty is empty)");
        fs::write(path.join("bom"), b"\xef\xbb\xbfone\r\ntwo\r\n").expect("written");
        assert_eq!(said(&read(path, json!({"path": "bom"})).await), "one\ntwo\n");
        fs::write(path.join("latin"), b"caf\xe9\n").expect("written");
        assert!(said(&read(path, json!({"path": "latin"})).await).starts_with("caf\u{fffd}\n\n[not all"));
        fs::write(path.join("wide"), b"\xff\xfeh\0i\0\n\0").expect("written");
        assert!(said(&read(path, json!({"path": "wide"})).await).starts_with("hi\n\n[UTF-16LE"));
        fs::create_dir(path.join("Sub")).expect("made");
        assert_eq!(said(&read(path, json!({"path": "."})).await), "bom\nempty\nlatin\nSub/\nwide");
        assert!(said(&read(path, json!({"path": "Sub"})).await).contains("empty directory"));
    }

    #[tokio::test]
    async fn what_is_no_text_is_refused_with_its_kind() {
        let dir = folder("a.pdf", b"%PDF-1.7 text");
        let path = dir.path();
        fs::write(path.join("prog"), b"\x7fELF\x02\x01\x01\0\0\0").expect("written");
        fs::write(path.join("gifs.txt"), "GIF is a format\nBZh\n").expect("written");
        fs::write(path.join("heic"), b"\0\0\0\x18ftypheic\0\0\0\0").expect("written");
        assert!(said(&read(path, json!({"path": "a.pdf"})).await).contains("a PDF file of 13 bytes"));
        assert!(said(&read(path, json!({"path": "prog"})).await).contains("an ELF program"));
        assert!(said(&read(path, json!({"path": "heic"})).await).contains("a HEIC image"));
        assert_eq!(said(&read(path, json!({"path": "gifs.txt"})).await), "GIF is a format\nBZh\n");
        assert!(said(&read(path, json!({"path": "a.PDF"})).await).contains("Did you mean: a.pdf?"));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn devices_and_fifos_are_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(std::process::Command::new("mkfifo").arg(dir.path().join("p")).status().expect("ran").success());
        assert!(said(&read(dir.path(), json!({"path": "p"})).await).contains("is a FIFO"));
        assert!(said(&read(dir.path(), json!({"path": "/dev/zero"})).await).contains("is a device"));
        let status = read(Path::new("/proc/self"), json!({"path": "status"})).await;
        assert!(!cfg!(target_os = "linux") || said(&status).contains("Pid:"));
    }

    #[tokio::test]
    async fn images_are_told_by_their_content() {
        let png = image::testing::png(3, 2);
        let dir = folder("pic.jpg", &png);
        let path = dir.path();
        let output = read(path, json!({"path": "pic.jpg"})).await.expect("read");
        assert!(matches!(&output.content[1], Block::Image { mime_type, .. } if mime_type == "image/png"));
        assert!(matches!(output.view, Some(View::Image { width: 3, height: 2, .. })));
        fs::write(path.join("fake.png"), "<svg xmlns='x'/>").expect("written");
        assert_eq!(said(&read(path, json!({"path": "fake.png"})).await), "<svg xmlns='x'/>");
        fs::write(path.join("cut.png"), &png[..png.len() / 2]).expect("written");
        let text = said(&read(path, json!({"path": "cut.png"})).await);
        assert!(text.contains("a PNG image of") && text.contains("cannot be shown"), "{text}");
    }
}
