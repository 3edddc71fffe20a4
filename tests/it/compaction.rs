//! Compaction over long runs: it cannot fail, and every request is one that a provider takes.

use std::fs;

use serde_json::{Value, json};

use crate::support::home::{TestHome, lines_of};
use crate::support::pty::Pty;
use crate::support::server::{Asked, Piece, Server, Step};
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

/// What `/context` says is used, in tokens.
fn used(pty: &mut Pty) -> f64 {
    pty.enter("/context");
    pty.wait_for("context: ");
    let screen = pty.screen();
    let words = screen.split("context: ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
    let (number, unit) = words.strip_suffix('k').map_or((words, 1.0), |number| (number, 1000.0));
    pty.send("\x1b");
    pty.wait("the page is closed", |screen| !screen.contains("context: "));
    number.parse::<f64>().unwrap_or_else(|_| panic!("{words} is no number")) * unit
}

fn contents(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().expect("messages").iter();
    messages.map(|message| message["content"].as_str().expect("text").to_owned()).collect()
}

/// traps.md B121, and what the person sees of a compaction.
#[test]
fn what_is_typed_during_a_compaction_is_delivered_after_it() {
    let mut summaries = 0;
    let server = Server::answering(move |asked| match asked.body.get("tools") {
        None => {
            summaries += 1;
            Step { pieces: vec![Piece::Hold], ..Step::stream("") }
                .then(Piece::Bytes(Api::Chat.answer(&format!("## Goal\nsummary {summaries}"), &[]).into_bytes()))
        }
        Some(_) => {
            let users = asked.body["messages"].as_array().expect("messages").iter();
            let count = users.filter(|message| message["role"] == "user").count();
            let words = if count == 1 { "some words ".repeat(2_000) } else { String::new() };
            counted(asked, &Api::Chat.answer(&format!("{words}answer {count}"), &[]))
        }
    });
    let home = TestHome::new(&server, Api::Chat);
    home.write(".violin/agent/settings.json", &json!({"compaction": {"keep_recent_messages": 1}}).to_string());
    let mut pty = Pty::start(&home, &[]);
    let idle = |pty: &Pty| pty.wait("the run is over", |screen| !screen.contains("esc to interrupt"));
    pty.wait_for("F1 help");
    for (prompt, answer) in [("say one", "answer 1"), ("say two", "answer 2")] {
        pty.enter(prompt);
        pty.wait_for(answer);
        idle(&pty);
    }
    let before = used(&mut pty);

    // Esc leaves everything as it was.
    pty.enter("/compact");
    server.wait_holding(1);
    pty.send("\x1b");
    server.wait_gone(1);
    pty.wait_for("nothing was changed");
    idle(&pty);
    assert!(lines_of(&home.sessions()[0]).iter().all(|line| line["type"] != "compaction"));

    pty.enter("/compact look at the carts");
    server.wait_holding(2);
    pty.enter("say three");
    pty.wait_for("1 queued");
    pty.enter("say four");
    pty.wait_for("2 queued");
    pty.send("a draft");
    pty.wait_for("a draft");
    server.release();
    let asked = server.wait_asked(6);
    pty.wait("both were answered", |screen| !screen.contains("queued") && screen.contains("say four"));
    idle(&pty);
    pty.wait_for("a draft");
    let summary = contents(&asked[3].body);
    assert!(summary[1].contains("look at the carts") && summary[1].contains("say one"), "{summary:?}");
    let (three, four) = (contents(&asked[4].body), contents(&asked[5].body));
    assert!(three[1].contains("summary 2") && !three.iter().any(|text| text == "say one"), "{three:?}");
    assert_eq!(
        (three.last().map(String::as_str), four.last().map(String::as_str)),
        (Some("say three"), Some("say four"))
    );
    for request in &asked {
        let wrong = faults(Api::Chat, &request.body);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
    pty.send("\x03");
    let record = lines_of(&home.sessions()[0]).into_iter().find(|line| line["type"] == "compaction").expect("stored");
    assert_eq!((&record["kept_messages"], &record["trigger"]), (&json!(1), &json!("manual")));

    // The next one updates the summary that is there.
    pty.enter("/compact");
    server.wait_holding(3);
    server.release();
    pty.wait("it is said what is kept", |screen| {
        screen.contains("context compacted: ") && screen.contains("the last message is kept")
    });
    idle(&pty);
    assert!(used(&mut pty) < before);
    let again = contents(&server.asked()[6].body);
    assert!(again[1].contains("<previous-summary>\n## Goal\nsummary 2"), "{again:?}");
    pty.enter("say five");
    let asked = server.wait_asked(8);
    let five = contents(&asked[7].body);
    assert!(
        five[1].contains("summary 3") && five.iter().filter(|text| text.contains("<summary>")).count() == 1,
        "{five:?}"
    );
}
