//! Recorded streams of real providers are understood exactly, however they are cut.
//!
//! The folder comes from `VIOLIN_STREAMS` (`API/NAME.jsonl` beside `API/NAME.expect.json`). Without it the
//! test says how many protocols it skipped; with it an empty folder fails.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use violin::message::{AssistantMessage, Block, StopReason};
use violin::provider::ProviderError;

use crate::support::decode::decode;

/// The stream as it would come over the wire.
fn framed(api: &str, lines: &str, line_end: &str, close: &str) -> Vec<u8> {
    let mut out = String::new();
    for line in lines.lines() {
        let value: Value = serde_json::from_str(line).expect("a recorded line is JSON");
        if let Some(name) = value["type"].as_str().filter(|_| api != "openai-completions") {
            out.push_str(&format!("event: {name}{line_end}"));
        }
        out.push_str(&format!("data: {line}{line_end}{line_end}"));
    }
    out.push_str(close);
    out.into_bytes()
}

fn understood((message, error): &(AssistantMessage, Option<ProviderError>)) -> Value {
    let joined = |wanted: fn(&Block) -> Option<&str>| message.content.iter().filter_map(wanted).collect::<String>();
    let calls: Vec<_> = message.tool_calls().map(|c| json!({"name": c.name, "arguments": c.arguments})).collect();
    let reason = if error.is_some() { StopReason::Error } else { message.stop_reason };
    json!({
        "thinking": joined(|block| if let Block::Thinking { thinking, .. } = block { Some(thinking) } else { None }),
        "text": joined(|block| if let Block::Text { text } = block { Some(text) } else { None }),
        "tool_calls": calls,
        "stop_reason": reason,
        "usage": message.usage,
        "error": error.as_ref().map(|error| error.message.clone()),
    })
}

/// Only what the expectation names is compared.
fn mismatch(expected: &Value, found: &Value) -> Option<String> {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => expected.iter().find_map(|(key, value)| {
            mismatch(value, found.get(key).unwrap_or(&Value::Null)).map(|told| format!("{key}: {told}"))
        }),
        _ if expected == found => None,
        _ => Some(format!("expected {expected}, found {found}")),
    }
}

fn streams() -> Option<PathBuf> {
    std::env::var_os("VIOLIN_STREAMS").map(PathBuf::from)
}

fn recorded(folder: &Path, api: &str) -> Vec<(PathBuf, String, Value)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.join(api)).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|ext| ext == "jsonl") {
            let expected = fs::read_to_string(path.with_extension("expect.json")).expect("an expectation");
            let lines = fs::read_to_string(&path).expect("readable");
            found.push((path, lines, serde_json::from_str(&expected).expect("JSON")));
        }
    }
    found.sort_by(|one, two| one.0.cmp(&two.0));
    found
}

const APIS: &[&str] = &["openai-completions", "openai-responses", "anthropic-messages", "google-generative-ai"];

/// Cuts in two are sampled so that about so many bytes are decoded for one stream.
const SAMPLED: usize = 120_000;

#[test]
fn recorded_streams_are_understood_exactly() {
    let Some(folder) = streams() else {
        println!("VIOLIN_STREAMS is not set: {} protocols skipped", APIS.len());
        return;
    };
    let (mut count, mut wrong) = (0, Vec::new());
    for api in APIS {
        let cases = recorded(&folder, api);
        assert!(!cases.is_empty(), "no streams of {api} in {}", folder.display());
        for (path, lines, expected) in cases {
            let done = if *api == "openai-completions" { "data: [DONE]\n\n" } else { "" };
            let whole = framed(api, &lines, "\n", done);
            count += 1;
            let plain = understood(&decode(api, &[&whole]));
            if let Some(told) = mismatch(&expected, &plain) {
                wrong.push(format!("{}: {told}", path.display()));
            }
            // However it is framed and cut, it is the same.
            let crlf = framed(api, &lines, "\r\n", ": bye\r\n");
            let size = whole.len();
            let cuts = (SAMPLED / size).clamp(2, size);
            let near_the_end = (0..cuts.min(16)).map(|back| size - 1 - back);
            for cut in (0..size).step_by((size / cuts).max(1)).chain(near_the_end) {
                let (one, two) = whole.split_at(cut);
                assert_eq!(understood(&decode(api, &[one, two])), plain, "{} cut at {cut}", path.display());
            }
            for piece in [1, 7, 4096] {
                let pieces: Vec<&[u8]> = crlf.chunks(piece).collect();
                assert_eq!(understood(&decode(api, &pieces)), plain, "{} in pieces of {piece}", path.display());
            }
            let mut random = fastrand::Rng::with_seed(size as u64);
            let mut rest = whole.as_slice();
            let mut pieces = Vec::new();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(random.usize(1..=rest.len().min(300)));
                pieces.push(piece);
                rest = after;
            }
            assert_eq!(understood(&decode(api, &pieces)), plain, "{} in random pieces", path.display());
        }
    }
    assert!(wrong.is_empty(), "{} of {count} streams are not understood:\n{}", wrong.len(), wrong.join("\n"));
    println!("{count} recorded streams understood");
}
