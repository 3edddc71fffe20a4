//! Compaction over long runs: it cannot fail, and every request is one that a provider takes.

use std::fs;

use serde_json::{Value, json};

use crate::support::home::{TestHome, lines_of};
use crate::support::server::{Asked, Server, Step};
use crate::support::validate::faults;
use crate::support::wire::Api;

/// Tokens that fit, at four bytes each.
const WINDOW: usize = 32_000;
const TURNS: usize = 300;

/// traps.md B26.
const OVERFLOWS: &[&str] = &[
    "prompt too long; exceeded max context length by 100918 tokens",
    "Your input exceeds the context window of this model",
    "The prompt is too long: 267657, model maximum context length: 262143",
    "This model's maximum context length is 1048576 tokens. However, you requested 1057726 tokens",
    "prompt is too long: 210000 tokens > 200000 maximum",
];

/// An answer that tells truly how long the request was.
fn counted(asked: &Asked, answer: &str) -> Step {
    let tokens = format!("\"prompt_tokens\":{}", asked.bytes.len() / 4);
    Step::stream(answer.replace("\"prompt_tokens\":100", &tokens))
}

/// Runs a task of 300 tool calls against a server with a small window, which refuses a request now and then although it would
/// fit. `summary` answers when a summary is asked for.
fn long_run(summary: impl Fn() -> Step + Send + 'static) {
    let (mut turn, mut refused) = (0, 0);
    let server = Server::answering(move |asked| {
        if asked.body.get("tools").is_none() {
            return summary();
        }
        let overflow = |text: &str| Step::error(400, &json!({"error": {"message": text}}));
        if asked.bytes.len() / 4 > WINDOW {
            return overflow(OVERFLOWS[0]);
        }
        if turn % 60 == 59 && refused <= turn / 60 {
            refused += 1;
            return overflow(OVERFLOWS[refused % OVERFLOWS.len()]);
        }
        turn += 1;
        match turn > TURNS {
            true => counted(asked, &Api::Chat.answer("the task is done", &[])),
            false => {
                counted(asked, &Api::Chat.answer("", &[(&format!("c{turn}"), "read", json!({"path": "notes.txt"}))]))
            }
        }
    });
    let home = TestHome::with_model(&server, Api::Chat, &json!({"contextWindow": WINDOW, "maxTokens": 4000}));
    home.write(".violin/agent/AGENTS.md", "Rule one: use tabs.");
    fs::write(home.project().join("notes.txt"), "what is noted here, line by line\n".repeat(90)).expect("written");
    let (events, status) = home.events(&["--max-turns", "400", "do all of it, please"]);
    let last = events.last().expect("a result");
    assert_eq!(
        (status, &last["text"]),
        (0, &json!("the task is done")),
        "{:#?}",
        events.iter().rev().take(4).collect::<Vec<_>>()
    );

    let asked = server.asked();
    let mut accepted = 0;
    for request in &asked {
        let Some(_) = request.body.get("tools") else { continue };
        assert!(request.bytes.len() / 4 <= WINDOW, "{} bytes", request.bytes.len());
        let wrong = faults(Api::Chat, &request.body);
        assert!(wrong.is_empty(), "{wrong:#?}");
        let text = request.body["messages"].to_string();
        assert!(text.contains("Rule one: use tabs."), "the rules are in every request");
        assert!(text.contains("do all of it, please"), "the request is in every request");
        accepted += 1;
    }
    assert!(accepted > TURNS);
    // The file keeps everything.
    let lines = lines_of(&home.sessions()[0]);
    assert_eq!(lines.iter().filter(|line| line["role"] == "tool").count(), TURNS);
    let compactions: Vec<&Value> = lines.iter().filter(|line| line["type"] == "compaction").collect();
    assert!(!compactions.is_empty());
    for record in compactions {
        let kept = record["first_kept_id"].as_u64().expect("something is kept");
        let first = lines.iter().find(|line| line["id"] == kept).expect("it is there");
        assert_ne!(first["role"], "tool", "a result is never kept without its call");
    }
}

#[test]
fn a_long_run_with_a_small_window_comes_to_its_end() {
    long_run(|| Step::stream(Api::Chat.answer("## Goal\ndo all of it\n## Progress\nsome", &[])));
}

#[test]
fn it_does_so_too_when_every_summary_fails() {
    long_run(|| Step::error(400, &json!({"error": {"message": "no summaries today"}})));
}

/// traps.md B113.
#[test]
fn rules_that_fill_the_window_do_not_make_it_compact_for_ever() {
    let server = Server::answering(|_| Step::stream(Api::Chat.answer("fine", &[])));
    let home = TestHome::with_model(&server, Api::Chat, &json!({"contextWindow": 4000}));
    home.write(".violin/agent/AGENTS.md", &"Mind this rule. ".repeat(900));
    for (prompt, requests) in [("one", 1), ("two", 3)] {
        let arguments: &[&str] = if requests == 1 { &[prompt] } else { &["-c", prompt] };
        let (events, status) = home.events(arguments);
        assert_eq!((status, &events.last().expect("a result")["text"]), (0, &json!("fine")));
        assert!(server.asked().len() <= requests, "{} requests", server.asked().len());
    }
}

/// traps.md B120.
#[test]
fn compaction_that_is_switched_off_stays_off() {
    let overflow = json!({"error": {"message": OVERFLOWS[4]}});
    let mut first = true;
    let server = Server::answering(move |_| match std::mem::take(&mut first) {
        true => Step::stream(Api::Chat.answer("one", &[])),
        false => Step::error(400, &overflow),
    });
    let home = TestHome::new(&server, Api::Chat);
    home.write(".violin/agent/settings.json", &json!({"compaction": {"enabled": false}}).to_string());
    home.run(&["-p", "first"]);
    let (events, status) = home.events(&["-c", "second"]);
    let error = events.iter().find(|event| event["type"] == "error").expect("an error");
    assert_eq!((status, &error["kind"], server.asked().len()), (1, &json!("context_overflow"), 2));
    assert!(error["msg"].as_str().expect("text").contains("automatic compaction is off"), "{error}");
}

/// traps.md B117.
#[test]
fn a_long_prompt_is_compacted_for_before_it_is_sent() {
    let server = Server::answering(|asked| match asked.body.get("tools") {
        None => Step::stream(Api::Chat.answer("a summary", &[])),
        Some(_) => counted(asked, &Api::Chat.answer(&"an answer of some length. ".repeat(150), &[])),
    });
    let home = TestHome::with_model(&server, Api::Chat, &json!({"contextWindow": 20_000}));
    for round in 0..8 {
        let arguments: &[&str] = if round == 0 { &["-p", "go"] } else { &["-p", "-c", "go on"] };
        assert_eq!(home.run(arguments).status.code(), Some(0));
    }
    let before = server.asked().len();
    fs::write(home.project().join("paste.txt"), "pasted words ".repeat(3_000)).expect("written");
    let (events, status) = home.events(&["-c", "@paste.txt and now?"]);
    assert_eq!(status, 0);
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().expect("a type")).collect();
    let (compacted, asked) =
        (kinds.iter().position(|kind| *kind == "compaction"), kinds.iter().position(|kind| *kind == "turn_start"));
    assert!(compacted.is_some() && compacted < asked, "{kinds:?}");
    assert_eq!(server.asked().len(), before + 2);
    let (events, _) = home.events(&["-c", "a word"]);
    assert!(events.iter().all(|event| event["type"] != "compaction"), "no second compaction right after one");
}
