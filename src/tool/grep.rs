//! `grep`: lines that match a pattern, in the order of their paths, with ripgrep's own crates. No configuration
//! of ripgrep's is read, and the search ends at the limit.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use futures::future::BoxFuture;
use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::message::Block;
use crate::toolkit::{Arguments, Risk, Tool, ToolContext, ToolError, ToolOutput, View};

use super::{files, path, truncate, walk};

/// Most matching lines that are given without being asked for more or fewer.
const LIMIT: usize = 100;

/// Most matching lines that can be asked for.
const MOST: usize = 2000;

/// Most lines of context.
const MOST_CONTEXT: usize = 20;

/// Where a long line is cut, in bytes.
const LINE: usize = 500;

/// Memory for one line (or, with a pattern over several lines, one file), in bytes.
const HEAP: usize = 64 * 1024 * 1024;

/// The tool.
pub struct Grep;

impl Tool for Grep {
    fn name(&self) -> &str {
        "grep"
    }

    fn description(&self) -> &str {
        "Search files with a regular expression (ripgrep); .gitignore is respected"
    }

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {
            "pattern": {"type": "string"},
            "path": {"type": "string", "description": "File or directory, default ."},
            "glob": {"type": "string"},
            "ignore_case": {"type": "boolean"},
            "literal": {"type": "boolean"},
            "context": {"type": "integer", "description": "Lines around"},
            "limit": {"type": "integer", "description": "Default 100"},
            "offset": {"type": "integer", "description": "Matches to skip"}},
            "required": ["pattern"]})
    }

    fn risk(&self) -> Risk {
        Risk::ReadOnly
    }

    fn title(&self, arguments: &Arguments) -> String {
        let mut title = super::optional_text(arguments, "pattern").unwrap_or("?").to_owned();
        for name in ["path", "glob"] {
            if let Some(value) = super::optional_text(arguments, name) {
                title.push_str(&format!(" in {value}"));
            }
        }
        title
    }

    fn prepare(&self, mut arguments: Arguments) -> Arguments {
        super::rename(&mut arguments, &["ignoreCase", "case_insensitive", "-i"], "ignore_case");
        super::rename(&mut arguments, &["include"], "glob");
        arguments
    }

    fn run<'a>(&'a self, context: ToolContext, arguments: Arguments) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move { super::looking(&context.cancel.clone(), move || search(&context, &arguments)).await })
    }
}

fn search(context: &ToolContext, arguments: &Arguments) -> Result<ToolOutput, ToolError> {
    let pattern = super::text(arguments, "pattern")?;
    let wanted = path::resolve(&context.cwd, super::optional_text(arguments, "path").unwrap_or("."));
    let Some(root) = path::existing(&wanted) else {
        return Err(ToolError::model(path::missing(&context.cwd, &wanted)));
    };
    let place = path::show(&context.cwd, &root);
    let metadata = fs::metadata(&root).map_err(|error| files::failed("searched", &place, &error))?;
    let kind = files::kind(&metadata);
    if kind != "file" && kind != "directory" {
        return Err(ToolError::model(format!("{place} is a {kind}; only files can be searched.")));
    }
    let glob = super::optional_text(arguments, "glob").map(walk::Pattern::of).transpose()?;
    let around = super::count(arguments, "context", 0).unwrap_or(0).min(MOST_CONTEXT);
    let several_lines = !super::flag(arguments, "literal") && pattern.contains("\\n") || pattern.contains('\n');
    let matcher = matcher(pattern, arguments, several_lines)?;
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .line_terminator(if several_lines { LineTerminator::byte(b'\n') } else { LineTerminator::crlf() })
        .multi_line(several_lines)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(HEAP))
        .before_context(around)
        .after_context(around)
        .build();
    let limit = super::count(arguments, "limit", 1).unwrap_or(LIMIT).min(MOST);
    let skip = super::count(arguments, "offset", 0).unwrap_or(0);
    let mut hits = Hits {
        matcher: &matcher,
        cancel: &context.cancel,
        name: String::new(),
        text: String::new(),
        seen: 0,
        skip,
        limit,
        shown: 0,
        full: None,
        gap: false,
    };
    let (mut searched, mut failures, mut binary) = (0, Vec::new(), false);
    let mut look = |file: &Path, hits: &mut Hits<'_>| {
        hits.name = path::show(&context.cwd, file);
        hits.gap = around > 0 && !hits.text.is_empty();
        searched += 1;
        let opened = files::open(file).and_then(|opened| opened.metadata().map(|metadata| (opened, metadata)));
        let result = opened.and_then(|(opened, metadata): (File, _)| match metadata.is_file() {
            true => {
                let mut sink = Watched { hits, binary: false };
                let result = searcher.search_file(&matcher, &opened, &mut sink);
                binary = sink.binary;
                result
            }
            false => Ok(()),
        });
        if let Err(error) = result {
            failures.push(format!("{}: {error}", path::show(&context.cwd, file)));
        }
    };
    if kind == "file" {
        look(&root, &mut hits);
    } else {
        for entry in walk::entries(&root) {
            if context.cancel.is_cancelled() {
                return Err(ToolError::Cancelled);
            }
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            let relative = entry.path().strip_prefix(&root).unwrap_or(entry.path());
            if glob.as_ref().is_some_and(|glob| !glob.takes(relative)) {
                continue;
            }
            look(entry.path(), &mut hits);
            if hits.full.is_some() {
                break;
            }
        }
    }
    if context.cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    let (seen, shown, full) = (hits.seen, hits.shown, hits.full);
    let mut text = hits.text;
    text.truncate(text.trim_end_matches('\n').len());
    if shown == 0 {
        text = match (seen, searched) {
            (1.., _) => format!("No matches past offset {skip}: there are {seen} in all."),
            (_, 0) => format!("No files to search in {place}: none fits the glob, or .gitignore names them all."),
            _ if kind == "file" && binary => format!("{place} is a binary file; it was not searched."),
            _ => format!("No matches for {pattern} in {place}"),
        };
    }
    let matches = if shown == 1 { "1 match".to_owned() } else { format!("{shown} matches") };
    let summary = if shown == 0 { "no matches".to_owned() } else { matches };
    let mut output = ToolOutput::text(text, summary);
    let mut notes = Vec::new();
    match full {
        Some(Full::Matches) => {
            notes.push(format!("[{shown} matches shown, there are more: go on with offset={}]", skip + shown))
        }
        Some(Full::Bytes) => {
            notes.push(format!(
                "[{shown} matches shown (50 KiB limit), there are more: go on with offset={}]",
                skip + shown
            ));
        }
        None => {}
    }
    if !failures.is_empty() {
        let more = if failures.len() > 3 { format!(" and {} more", failures.len() - 3) } else { String::new() };
        failures.truncate(3);
        notes.push(format!("[not searched: {}{more}]", failures.join("; ")));
    }
    if !notes.is_empty() {
        output.content.push(Block::Text { text: notes.join("\n") });
    }
    output.view = Some(View::Matches);
    Ok(output)
}

fn matcher(pattern: &str, arguments: &Arguments, several_lines: bool) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .case_insensitive(super::flag(arguments, "ignore_case"))
        .fixed_strings(super::flag(arguments, "literal"));
    if !several_lines {
        builder.crlf(true);
    }
    builder.build(pattern).map_err(|error| {
        ToolError::model(format!(
            "The pattern is not valid: {error}\nMend it, or set literal to search for it as it stands."
        ))
    })
}

/// Why a search ended before the last file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    Matches,
    Bytes,
}

/// Collects the matches of all files.
struct Hits<'a> {
    matcher: &'a RegexMatcher,
    cancel: &'a CancellationToken,
    name: String,
    text: String,
    seen: usize,
    skip: usize,
    limit: usize,
    shown: usize,
    /// Set only once another match proves that there are more.
    full: Option<Full>,
    /// A `--` is due before the next line.
    gap: bool,
}

impl Hits<'_> {
    fn add(&mut self, number: u64, mark: char, line: &[u8]) -> usize {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\n', '\r']);
        let line = if number == 1 { line.trim_start_matches('\u{feff}') } else { line };
        let hit = self.matcher.find(line.as_bytes()).ok().flatten().map_or(0, |hit| hit.start());
        if std::mem::take(&mut self.gap) {
            self.text.push_str("--\n");
        }
        let line = truncate::line(line, LINE, if mark == ':' { hit } else { 0 });
        self.text.push_str(&format!("{}{mark}{number}{mark} {line}\n", self.name));
        self.text.len()
    }
}

/// The collector at work on one file.
struct Watched<'a, 'b> {
    hits: &'a mut Hits<'b>,
    binary: bool,
}

impl Sink for Watched<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let hits = &mut *self.hits;
        if hits.cancel.is_cancelled() {
            return Ok(false);
        }
        hits.seen += 1;
        if hits.seen <= hits.skip {
            return Ok(true);
        }
        if hits.shown >= hits.limit {
            hits.full = Some(Full::Matches);
            return Ok(false);
        }
        if hits.text.len() > truncate::BYTES - LINE {
            hits.full = Some(Full::Bytes);
            return Ok(false);
        }
        hits.shown += 1;
        let first = found.line_number().unwrap_or(0);
        for (line, number) in found.lines().take(50).zip(first..) {
            hits.add(number, ':', line);
        }
        Ok(true)
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        let hits = &mut *self.hits;
        // Around matches that are left out nothing is shown.
        let wanted = match context.kind() {
            SinkContextKind::After => hits.shown > 0,
            _ => hits.seen >= hits.skip && hits.shown < hits.limit,
        };
        if wanted && hits.full.is_none() && hits.text.len() < truncate::BYTES {
            hits.add(context.line_number().unwrap_or(0), '-', context.bytes());
        }
        Ok(true)
    }

    fn context_break(&mut self, _searcher: &Searcher) -> Result<bool, io::Error> {
        self.hits.gap = !self.hits.text.is_empty();
        Ok(true)
    }

    fn binary_data(&mut self, _searcher: &Searcher, _offset: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, context, said};
    use super::*;
    use crate::message::text_of;

    fn folder(entries: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, bytes) in entries {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, bytes).expect("written");
        }
        dir
    }

    async fn grep(dir: &tempfile::TempDir, arguments: Value) -> String {
        said(&call(&Grep, &context(dir.path()), arguments).await)
    }

    #[tokio::test]
    async fn matches_come_by_path_with_their_context() {
        let dir = folder(&[
            ("b.txt", b"one\ntwo\nthree\nfour\nfive\nsix\nseven\n"),
            ("a/c.rs", b"two\r\n"),
            (".gitignore", b"*.log\n"),
            ("x.log", b"two\n"),
            (".git/y", b"two\n"),
            (".env", b"TWO\n"),
        ]);
        assert_eq!(grep(&dir, json!({"pattern": "two$"})).await, "a/c.rs:1: two\nb.txt:2: two");
        let insensitive = grep(&dir, json!({"pattern": "^two", "ignoreCase": true})).await;
        assert_eq!(insensitive, ".env:1: TWO\na/c.rs:1: two\nb.txt:2: two");
        assert_eq!(grep(&dir, json!({"pattern": "two", "glob": "*.rs"})).await, "a/c.rs:1: two");
        let around = grep(&dir, json!({"pattern": "two|six", "path": "b.txt", "context": 1})).await;
        assert_eq!(
            around,
            "b.txt-1- one\nb.txt:2: two\nb.txt-3- three\n--\nb.txt-5- five\nb.txt:6: six\nb.txt-7- seven"
        );
        assert_eq!(grep(&dir, json!({"pattern": "two\\nthree"})).await, "b.txt:2: two\nb.txt:3: three");
        assert_eq!(grep(&dir, json!({"pattern": "two", "path": "x.log"})).await, "x.log:1: two");
    }

    #[tokio::test]
    async fn patterns_are_never_options_and_errors_say_what_is_wrong() {
        let dir = folder(&[("a", b"-v foo( bar\n")]);
        assert_eq!(grep(&dir, json!({"pattern": "-v"})).await, "a:1: -v foo( bar");
        assert!(grep(&dir, json!({"pattern": "foo("})).await.contains("pattern is not valid"));
        assert_eq!(grep(&dir, json!({"pattern": "foo(", "literal": true})).await, "a:1: -v foo( bar");
        assert_eq!(grep(&dir, json!({"pattern": "zzz"})).await, "No matches for zzz in .");
        assert!(grep(&dir, json!({"pattern": "foo", "glob": "*.none"})).await.contains("No files to search"));
        assert!(grep(&dir, json!({"pattern": "foo", "path": "b"})).await.contains("does not exist"));
    }

    #[tokio::test]
    async fn it_stops_at_the_limit_and_goes_on_from_there() {
        let text: String = (1..=250).map(|n| format!("hit {n}\n")).collect();
        let dir = folder(&[("a", text.as_bytes())]);
        let first = grep(&dir, json!({"pattern": "hit"})).await;
        assert!(
            first.ends_with("a:100: hit 100\n[100 matches shown, there are more: go on with offset=100]"),
            "{first}"
        );
        let last = grep(&dir, json!({"pattern": "hit", "offset": 248, "context": 1})).await;
        assert_eq!(last, "a:249: hit 249\na:250: hit 250");
        assert_eq!(grep(&dir, json!({"pattern": "hit", "limit": 250})).await.lines().count(), 250);
        let past = grep(&dir, json!({"pattern": "hit", "offset": 999})).await;
        assert_eq!(past, "No matches past offset 999: there are 250 in all.");
        let some = grep(&dir, json!({"pattern": "hit", "limit": 1, "context": 1})).await;
        assert_eq!(some, "a:1: hit 1\n[1 matches shown, there are more: go on with offset=1]");
    }

    #[tokio::test]
    async fn long_lines_marks_and_binary_files() {
        let long = "x".repeat(100_000) + "HIT" + &"é".repeat(50_000);
        let dir = folder(&[
            ("a", b"\xef\xbb\xbfword one\nword\n"),
            ("b", b"bin\0 word\n"),
            ("c", long.as_bytes()),
            ("d", b"HIT\xff\n"),
        ]);
        assert_eq!(grep(&dir, json!({"pattern": "^word"})).await, "a:1: word one\na:2: word");
        let hits = grep(&dir, json!({"pattern": "HIT"})).await;
        assert!(hits.contains("HITéé") && hits.ends_with("d:1: HIT\u{fffd}") && hits.len() < 1000, "{hits}");
        assert_eq!(
            grep(&dir, json!({"pattern": "word", "path": "b"})).await,
            "b is a binary file; it was not searched."
        );
        let many = folder(&[("a", ("HIT".to_owned() + &"é".repeat(400) + "\n").repeat(500).as_bytes())]);
        let text = grep(&many, json!({"pattern": "HIT", "limit": 500})).await;
        assert!(text.len() < 52_000 && text.contains("50 KiB limit"), "{}", text.len());
    }

    #[tokio::test]
    async fn a_cancelled_search_ends() {
        let dir = folder(&[("a", b"x\n")]);
        let context = context(dir.path());
        context.cancel.cancel();
        let result = call(&Grep, &context, json!({"pattern": "x"})).await;
        assert!(matches!(result, Err(ToolError::Cancelled)));
        let output =
            call(&Grep, &super::super::testing::context(dir.path()), json!({"pattern": "x"})).await.expect("ran");
        assert_eq!(
            (output.summary.as_str(), output.view, text_of(&output.content).as_str()),
            ("1 match", Some(View::Matches), "a:1: x")
        );
    }
}
