//! The main job with the real binary over real HTTP: ask, run tools, answer, continue.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::home::{TestHome, lines_of};
use crate::support::server::{Asked, Piece, Server, Step};
use crate::support::validate::assert_valid;
use crate::support::wire::{APIS, Api, chunk, event};

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

fn alive(pattern: &str) -> bool {
    Command::new("pgrep").args(["-f", pattern]).status().expect("pgrep is there").success()
}

/// A marker that no other process has in its command line.
fn marker() -> String {
    format!("{}.{}", 1000 + std::process::id() % 1000, fastrand::u32(100_000..999_999))
}

#[test]
fn a_request_that_reads_edits_and_runs_leaves_file_session_and_events_right() {
    for api in APIS.iter().copied() {
        let server = Server::scripted([
            Step::stream(api.answer("Let me look.", &[("c1", "read", json!({"path": "cart.py"}))])),
            Step::stream(api.answer(
                "",
                &[(
                    "c2",
                    "edit",
                    json!({"path": "cart.py", "edits": [{"old_text": "a - b", "new_text": "max(a - b, 0)"}]}),
                )],
            )),
            Step::stream(api.answer("", &[("c3", "bash", json!({"command": "cat cart.py"}))])),
            Step::stream(api.answer("It is fixed.", &[])),
        ]);
        let home = TestHome::new(&server, api);
        fs::write(home.project().join("cart.py"), "def f(a, b):\r\n    return a - b\r\n").expect("written");
        let (events, status) = home.events(&["fix the cart"]);
        assert_eq!(status, 0, "{events:#?}");
        assert_eq!(
            fs::read(home.project().join("cart.py")).expect("there"),
            b"def f(a, b):\r\n    return max(a - b, 0)\r\n"
        );

        let kinds: Vec<_> = events
            .iter()
            .map(|event| event["type"].as_str().expect("a type"))
            .filter(|kind| *kind != "delta" && *kind != "tool_output")
            .collect();
        let lap = ["turn_start", "tool_start", "tool_review", "tool_end", "turn_end"];
        let expected = [&["user"][..], &lap, &lap, &lap, &["turn_start", "turn_end", "result"]].concat();
        assert_eq!(kinds, expected, "{api:?}");
        let result = events.last().expect("a result");
        assert_eq!(
            (&result["text"], &result["turns"], &result["aborted"]),
            (&json!("It is fixed."), &json!(4), &json!(false))
        );
        assert_eq!(result["usage_total"]["cache_read_tokens"], 40);
        let effect = &of_type(&events, "tool_end")[1]["effects"][0];
        assert_eq!((&effect["operation"], &effect["after"]["bytes"]), (&json!("edit"), &json!(40)));

        let lines = home.session();
        let (messages, records): (Vec<_>, Vec<_>) = lines[1..].iter().partition(|line| line.get("role").is_some());
        let roles: Vec<_> = messages.iter().map(|line| line["role"].as_str().expect("a role")).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "assistant", "tool", "assistant", "tool", "assistant"]);
        for pair in lines[1..].windows(2) {
            assert_eq!(pair[1]["parent_id"], pair[0]["id"]);
        }
        let kinds: Vec<_> = records.iter().map(|line| (line["type"].clone(), line["end"].clone())).collect();
        assert_eq!(kinds, [(json!("checkpoint"), Value::Null), (json!("checkpoint"), json!(true))]);
        let lines: Vec<&Value> = std::iter::once(&lines[0]).chain(messages).collect();
        assert_eq!(lines[2]["usage"]["input_tokens"], 90);
        assert_eq!((&lines[2]["provider"], &lines[2]["api"]), (&json!("mock"), &json!(api.name())));
        assert_eq!(lines[4]["content"][0]["name"], "edit");

        for asked in server.asked() {
            assert_valid(api, &asked.body);
            assert!(asked.bytes.len() < 20_000);
        }
        let last = server.asked().pop().expect("asked");
        assert_eq!(api.results(&last.body).len(), 3);
        // A request begins with the bytes of the one before it, so that the provider's cache holds.
        if api == Api::Chat {
            for pair in server.asked().windows(2) {
                let before = &pair[0].bytes[..pair[0].bytes.len() - 2];
                assert!(pair[1].bytes.starts_with(before), "the prefix changed");
            }
        }
    }
}

#[test]
fn the_next_morning_it_goes_on() {
    let server = Server::scripted(["one", "two"].map(|text| Step::stream(Api::Chat.answer(text, &[]))));
    let home = TestHome::new(&server, Api::Chat);
    assert_eq!(String::from_utf8_lossy(&home.run(&["-p", "first"]).stdout), "one\n");
    assert_eq!(String::from_utf8_lossy(&home.run(&["-p", "-c", "second"]).stdout), "two\n");
    let asked = server.asked();
    let texts: Vec<_> =
        asked[1].body["messages"].as_array().expect("messages")[1..].iter().map(|m| m["content"].clone()).collect();
    assert_eq!(texts, ["first", "one", "second"]);
    let messages = home.session().into_iter().filter(|line| line.get("role").is_some()).count();
    assert_eq!(messages, 4);
    assert_eq!(asked[0].header("authorization"), Some("Bearer sk-VIOLINTEST"));
}

/// traps.md B28 and B141.
#[test]
fn interrupted_in_a_command_nothing_is_left_running_and_the_next_request_is_valid() {
    for api in APIS.iter().copied() {
        let marker = marker();
        let sleep = json!({"command": format!("echo x >> log; sleep {marker}")});
        let server = Server::scripted([
            Step::stream(api.answer("", &[("c1", "bash", sleep.clone()), ("c2", "bash", sleep)])),
            Step::stream(api.answer("going on", &[])),
        ]);
        let home = TestHome::new(&server, api);
        let mut running = home.start(&["run it"]);
        running.until("the calls run", |event| event["type"] == "tool_review" && event["id"] == "c2");
        let log = home.project().join("log");
        while fs::read_to_string(&log).unwrap_or_default().lines().count() < 2 {
            std::thread::yield_now();
        }
        running.signal("INT");
        let (events, status) = running.end();
        assert_eq!(status, Some(130));
        assert_eq!(events.last().expect("a result")["aborted"], true);
        assert!(!alive(&format!("sleep {marker}")), "the command goes on");
        assert_eq!(String::from_utf8_lossy(&home.run(&["-p", "-c", "hi"]).stdout), "going on\n");
        let asked = server.asked();
        assert_valid(api, &asked[1].body);
        let results = api.results(&asked[1].body);
        assert!(results.len() == 2 && results.iter().all(|text| text.contains("interrupted")), "{results:?}");
        assert_eq!(fs::read_to_string(log).expect("there").lines().count(), 2, "nothing ran again");
    }
}

/// traps.md B145.
#[test]
fn interrupted_in_an_answer_the_text_is_kept_and_marked() {
    for api in APIS.iter().copied() {
        let server = Server::scripted([
            Step { pieces: vec![Piece::Bytes(api.begun("Half of an").into_bytes()), Piece::Hold], ..Step::stream("") },
            Step::stream(api.answer("whole", &[])),
        ]);
        let home = TestHome::new(&server, api);
        let mut running = home.start(&["say something"]);
        running.until("text came", |event| event["type"] == "delta");
        running.signal("INT");
        assert_eq!(running.end().1, Some(130));
        server.wait_gone(1);
        let lines = home.session();
        assert_eq!(
            (&lines[2]["stop_reason"], &lines[2]["content"][0]["text"]),
            (&json!("aborted"), &json!("Half of an"))
        );
        assert_eq!(String::from_utf8_lossy(&home.run(&["-p", "-c", "again"]).stdout), "whole\n");
        assert_valid(api, &server.asked()[1].body);
    }
}

#[test]
fn a_process_that_is_killed_loses_nothing_that_was_finished() {
    let lap = |asked: &Asked| {
        let results = Api::Chat.results(&asked.body).len();
        match results {
            50.. => Step::stream(Api::Chat.answer("done", &[])),
            n => Step::stream(
                Api::Chat.answer("", &[(&format!("c{n}"), "bash", json!({"command": format!("echo {n} >> log")}))]),
            ),
        }
    };
    let server = Server::answering(lap);
    let home = TestHome::new(&server, Api::Chat);
    for round in 0..10 {
        let seen = server.asked().len();
        let arguments: &[&str] = if round == 0 { &["count"] } else { &["-c", "go on"] };
        let running = home.start(arguments);
        let target = seen + 1 + fastrand::usize(0..4);
        server.wait_asked(target);
        running.signal("KILL");
        drop(running.end());
        let finished = home.sessions();
        let before = lines_of_whole(&finished[0]);
        let results = before.iter().filter(|line| line["role"] == "tool").count();
        let ran = fs::read_to_string(home.project().join("log")).unwrap_or_default().lines().count();
        // What ran and whose result was not stored when the process died is told as interrupted, and made again.
        // Each time that is at most one; its command may still be writing.
        assert!(results <= ran && ran <= results + round + 1, "{results} results of {ran} runs");
    }
    let (events, status) = home.events(&["-c", "finish"]);
    assert_eq!((status, &events.last().expect("a result")["text"]), (0, &json!("done")));
    for asked in server.asked() {
        assert_valid(Api::Chat, &asked.body);
    }
    assert_eq!(home.sessions().len(), 1);
    assert!(lines_of(&home.sessions()[0]).len() > 100);
}

/// The whole lines of a session whose last one may be torn.
fn lines_of_whole(path: &std::path::Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("readable");
    text.split_inclusive('\n').filter_map(|line| serde_json::from_str(line.strip_suffix('\n')?).ok()).collect()
}

/// traps.md B12 and B13.
#[test]
fn a_stream_that_breaks_is_asked_again_and_shown_once() {
    let overloaded = json!({"error": {"type": "overloaded_error", "message": "Overloaded"}});
    let cut = json!({"error": {"message": "stream error: stream disconnected before completion", "type": "invalid_request_error"}});
    let cases = [
        (Api::Messages, Api::Messages.begun("Hel") + &event("error", overloaded)),
        (Api::Chat, Api::Chat.begun("Hel") + &format!("data: {cut}\n\n")),
        (Api::Chat, Api::Chat.begun("Hel")),
    ];
    for (api, broken) in cases {
        let server = Server::scripted([Step::stream(broken), Step::stream(api.answer("Hello", &[]))]);
        let home = TestHome::new(&server, api);
        let (events, status) = home.events(&["hi"]);
        assert_eq!(status, 0);
        let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().expect("a type")).collect();
        assert_eq!(kinds, ["user", "turn_start", "delta", "discard", "retry", "delta", "turn_end", "result"]);
        assert_eq!(events.last().expect("a result")["text"], "Hello");
        assert!(!fs::read_to_string(&home.sessions()[0]).expect("there").contains("Hel\""));
    }
}

/// traps.md B36.
#[test]
fn a_refused_key_is_asked_once_and_never_shown() {
    let body =
        json!({"error": {"message": "Incorrect API key provided: sk-VIOLINTEST", "type": "invalid_request_error"}});
    let server = Server::answering(move |_| Step::error(401, &body));
    let home = TestHome::new(&server, Api::Chat);
    let output = home.run(&["-p", "hi"]);
    assert_eq!((output.status.code(), server.asked().len()), (Some(1), 1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("mock") && told.contains("key in models.json"), "{told}");
    assert!(!told.contains("sk-VIOLINTEST"), "{told}");
    assert!(output.stdout.is_empty());
}

/// traps.md B24.
#[test]
fn without_a_person_a_long_wait_is_a_failure_that_names_it() {
    let body = json!({"error": {"message": "slow down"}});
    let server = Server::answering(move |_| Step::error(429, &body).header("retry-after", "3600"));
    let home = TestHome::new(&server, Api::Chat);
    let (events, status) = home.events(&["hi"]);
    let error = of_type(&events, "error")[0];
    assert_eq!((status, &error["kind"]), (1, &json!("rate_limit")));
    assert!(error["msg"].as_str().expect("text").contains("3600 s"), "{error}");
    assert_eq!(of_type(&events, "turn_end")[0]["usage"], Value::Null);
}

/// traps.md B26.
#[test]
fn an_overflow_is_compacted_and_asked_once_more() {
    let overflow = json!({"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}});
    let text = |text: &str| Step::stream(Api::Chat.answer(text, &[]));
    let server = Server::scripted([text("one"), Step::error(400, &overflow), text("## Goal\nfix it"), text("two")]);
    let home = TestHome::new(&server, Api::Chat);
    home.write(".violin/agent/AGENTS.md", "Always use tabs.");
    home.write(".violin/agent/settings.json", &json!({"compaction": {"keep_recent_messages": 1}}).to_string());
    home.run(&["-p", "first"]);
    let (events, status) = home.events(&["-c", "second"]);
    assert_eq!((status, &events.last().expect("a result")["text"]), (0, &json!("two")));
    assert_eq!(of_type(&events, "compaction")[0]["trigger"], "overflow");
    let asked = server.asked();
    assert!(asked[2].body.get("tools").is_none(), "the summary is asked without tools");
    let last = &asked[3].body;
    let texts: Vec<_> =
        last["messages"].as_array().expect("messages").iter().map(|m| m["content"].as_str().expect("text")).collect();
    assert!(texts[0].contains("Always use tabs.") && texts[1].contains("## Goal\nfix it"), "{texts:?}");
    assert_eq!(texts[2..], ["second"]);
    assert_valid(Api::Chat, last);
    let record = lines_of(&home.sessions()[0]).into_iter().find(|line| line["type"] == "compaction").expect("stored");
    assert_eq!((&record["source"], &record["trigger"]), (&json!("model"), &json!("overflow")));
}

#[test]
fn a_second_overflow_is_a_plain_error() {
    let overflow = json!({"error": {"message": "too long", "code": "context_length_exceeded"}});
    let server = Server::answering(move |asked| match asked.body.get("tools") {
        Some(_) if asked.body["messages"].as_array().expect("messages").len() > 2 => Step::error(400, &overflow),
        Some(_) => Step::stream(Api::Chat.answer("one", &[])),
        None => Step::error(400, &overflow),
    });
    let home = TestHome::new(&server, Api::Chat);
    home.write(".violin/agent/settings.json", &json!({"compaction": {"keep_recent_messages": 1}}).to_string());
    home.run(&["-p", "first"]);
    let (events, status) = home.events(&["-c", "second"]);
    assert_eq!((status, &of_type(&events, "error")[0]["kind"]), (1, &json!("context_overflow")));
    assert!(
        of_type(&events, "notice")
            .iter()
            .all(|notice| !notice["text"].as_str().expect("text").contains("empty answer"))
    );
    assert_eq!(of_type(&events, "compaction").len(), 1);
    // The summary overflows at every size, so that a digest takes its place.
    let record = lines_of(&home.sessions()[0]).into_iter().find(|line| line["type"] == "compaction").expect("stored");
    assert_eq!(record["source"], "deterministic");
}

/// traps.md B72 and the loop of product.md.
#[test]
fn parallel_calls_answer_in_order_and_bad_ones_are_told() {
    let calls = [
        ("c1", "bash", json!({"command": "sleep 0.3; echo slow"})),
        ("c2", "bash", json!({"command": "false"})),
        ("c3", "fly", json!({})),
        ("c4", "read", json!({"pth": "x"})),
        ("c5", "read", json!({"path": "n", "limit": "1"})),
    ];
    for api in APIS.iter().copied() {
        let server = Server::scripted([Step::stream(api.answer("", &calls)), Step::stream(api.answer("ok", &[]))]);
        let home = TestHome::new(&server, api);
        fs::write(home.project().join("n"), "1\n2\n").expect("written");
        let (events, status) = home.events(&["go"]);
        assert_eq!(status, 0);
        let ended: Vec<_> =
            of_type(&events, "tool_end").iter().map(|event| event["id"].as_str().expect("an id").to_owned()).collect();
        assert_eq!(ended.last().map(String::as_str), Some("c1"), "the slow one ends last: {ended:?}");
        let body = &server.asked()[1].body;
        assert_valid(api, body);
        let results = api.results(body);
        assert!(results[0].starts_with("slow"), "{results:?}");
        assert!(results[1].contains("[exit code 1]") && results[2].contains("no tool `fly`"), "{results:?}");
        assert!(results[3].contains("path") && results[4].starts_with('1'), "{results:?}");
    }
}

/// traps.md B08 and B160.
#[test]
fn calls_that_are_cut_off_or_broken_never_run() {
    let broken = chunk(
        &json!({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "write", "arguments": "{\"path\":\"a.txt\",\"content\":\"line1\n"}}]}),
        json!("tool_calls"),
    );
    let cut = chunk(
        &json!({"tool_calls": [{"index": 0, "id": "c2", "function": {"name": "bash", "arguments": "{}"}}]}),
        json!("length"),
    );
    let server = Server::scripted([
        Step::stream(broken + "data: [DONE]\n\n"),
        Step::stream(cut + "data: [DONE]\n\n"),
        Step::stream(Api::Chat.answer("ok", &[])),
    ]);
    let home = TestHome::new(&server, Api::Chat);
    let (_, status) = home.events(&["go"]);
    assert_eq!((status, home.project().join("a.txt").exists()), (0, false));
    let body = &server.asked()[2].body;
    assert_valid(Api::Chat, body);
    let results = Api::Chat.results(body);
    assert!(results[0].contains("not valid JSON") && results[1].contains("cut off by the output limit"), "{results:?}");
}

#[test]
fn the_same_failing_call_is_pointed_out_and_then_stopped() {
    let server =
        Server::answering(|_| Step::stream(Api::Chat.answer("", &[("c", "read", json!({"path": "nothing"}))])));
    let home = TestHome::new(&server, Api::Chat);
    let (events, status) = home.events(&["go"]);
    assert_eq!((status, &of_type(&events, "error")[0]["kind"], server.asked().len()), (1, &json!("limit"), 6));
    assert!(of_type(&events, "tool_end")[2]["output"].as_str().expect("text").contains("failed 3 times in a row"));
    let (events, status) = home.events(&["--max-turns", "2", "go"]);
    assert_eq!((status, &events.last().expect("a result")["turns"]), (1, &json!(2)));
}

#[test]
fn plan_mode_denies_what_changes() {
    let calls = [("c1", "write", json!({"path": "a", "content": "x"})), ("c2", "glob", json!({"pattern": "*"}))];
    let server =
        Server::scripted([Step::stream(Api::Chat.answer("", &calls)), Step::stream(Api::Chat.answer("ok", &[]))]);
    let home = TestHome::new(&server, Api::Chat);
    let (events, _) = home.events(&["--mode", "plan", "go"]);
    assert!(!home.project().join("a").exists());
    let review = of_type(&events, "tool_review")[0];
    assert_eq!(
        (&review["decision"], &review["by"], &review["risk"]),
        (&json!("denied"), &json!("mode"), &json!("write"))
    );
    assert!(Api::Chat.results(&server.asked()[1].body)[0].contains("plan"));
}

#[test]
fn configuration_mistakes_exit_with_2_before_any_request() {
    let home = TestHome::bare();
    let output = home.run(&["-p", "hi"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && told.contains("-m demo/demo"), "{told}");
    home.write_models(&json!({"a": {"base_url": "http://127.0.0.1:1", "api": "openai-completions", "api_key": "$NOT_SET_HERE", "models": [{"id": "x"}]}}));
    let output = home.run(&["-p", "hi"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("NOT_SET_HERE is not set"), "{told}");
    assert_eq!(home.run(&["-p", "-m", "nothing/there", "hi"]).status.code(), Some(2));
    assert_eq!(home.run(&["hi"]).status.code(), Some(2), "no terminal");
    assert_eq!(home.run(&["--tools", "fly", "-p", "hi"]).status.code(), Some(2));
}

#[test]
fn sessions_can_be_listed_shown_forked_and_deleted() {
    let server = Server::answering(|_| Step::stream(Api::Chat.answer("fine", &[])));
    let home = TestHome::new(&server, Api::Chat);
    home.run(&["-p", "about carts"]);
    let list = home.run(&["sessions", "list", "--json"]);
    let row: Value = serde_json::from_slice(&list.stdout).expect("one row");
    assert_eq!((&row["messages"], &row["first_message"]), (&json!(2), &json!("about carts")));
    let id = row["id"].as_str().expect("an id");
    let shown = home.run(&["sessions", "show", &id[id.len() - 8..]]);
    assert_eq!(String::from_utf8_lossy(&shown.stdout), "> about carts\n\nfine\n\n");
    let before = fs::read(&home.sessions()[0]).expect("there");
    assert_eq!(home.run(&["-p", "--fork", id, "more"]).status.code(), Some(0));
    assert_eq!(
        fs::read(home.sessions().iter().find(|path| path.to_string_lossy().contains(id)).expect("there"))
            .expect("there"),
        before
    );
    assert_eq!(home.sessions().len(), 2);
    assert_eq!(home.run(&["sessions", "delete", id]).status.code(), Some(2), "nobody said yes");
    assert_eq!(home.run(&["sessions", "delete", "--yes", id]).status.code(), Some(0));
    assert_eq!(home.sessions().len(), 1);
    assert_eq!(home.run(&["-p", "--no-session", "x"]).status.code(), Some(0));
    assert_eq!(home.sessions().len(), 1);
}

#[test]
fn a_session_that_somebody_writes_is_refused() {
    let held = Step { pieces: vec![Piece::Hold], ..Step::stream("") };
    let server = Server::scripted([held]);
    let home = TestHome::new(&server, Api::Chat);
    let running = home.start(&["wait"]);
    server.wait_holding(1);
    let pid = running.child.id().to_string();
    let output = home.run(&["-p", "-c", "me too"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && told.contains(&pid), "{told}");
    running.signal("TERM");
    assert_eq!(running.end().1, Some(143));
}

#[test]
fn a_minimal_session_of_another_tool_loads_and_goes_on() {
    for api in APIS.iter().copied() {
        let server = Server::scripted([Step::stream(api.answer("ok", &[]))]);
        let home = TestHome::new(&server, api);
        let cwd = home.project().display().to_string();
        let path = home.project().join("old.jsonl");
        let lines = [
            json!({"id": "old", "created_at": 1_795_984_381, "cwd": cwd}),
            json!({"id": 1, "parent_id": null, "timestamp": 1_795_984_382, "role": "user", "content": "do"}),
            json!({"id": 2, "parent_id": 1, "timestamp": 1_795_984_383, "role": "assistant", "content": [{"type": "tool_call", "id": "call_1|fc_2", "name": "bash", "arguments": {"command": 5}}]}),
        ];
        fs::write(&path, lines.map(|line| format!("{line}\n")).concat()).expect("written");
        let output = home.run(&["-p", "-s", &path.to_string_lossy(), "hi"]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{}", String::from_utf8_lossy(&output.stderr));
        assert_valid(api, &server.asked()[0].body);
        assert_eq!(lines_of(&path).iter().filter(|line| line.get("role").is_some()).count(), 4);
    }
}

#[test]
fn prompt_and_definitions_stay_under_a_thousand_tokens() {
    let server = Server::scripted([Step::stream(Api::Chat.answer("ok", &[]))]);
    let home = TestHome::new(&server, Api::Chat);
    home.run(&["-p", "hi"]);
    let body = &server.asked()[0].body;
    let system = body["messages"][0]["content"].as_str().expect("text").len();
    let tools = body["tools"].to_string().len();
    assert!(system + tools < 4_000, "{system} + {tools} characters");
}
