//! The four protocols with the real binary over real HTTP: switching among them, fallbacks, images, errors.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::home::TestHome;
use crate::support::server::{Asked, Piece, Server, Step};
use crate::support::validate::assert_valid;
use crate::support::wire::{APIS, Api, chunk, event};

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

/// Which protocol was spoken.
fn api_of(asked: &Asked) -> Api {
    match asked.path.as_str() {
        path if path.ends_with("/chat/completions") => Api::Chat,
        path if path.ends_with("/responses") => Api::Responses,
        path if path.ends_with("/messages") => Api::Messages,
        path if path.ends_with(":streamGenerateContent?alt=sse") => Api::Google,
        path => panic!("asked for {path}"),
    }
}

/// A provider for each protocol, of the protocol's name, with one model that thinks and sees.
fn all_four(server: &Server) -> TestHome {
    let home = TestHome::bare();
    let provider = |api: &Api| {
        let compat = match api {
            Api::Chat => json!({"reasoning_replay_field": "reasoning_content"}),
            Api::Google => json!({"thought_signatures": true}),
            Api::Responses | Api::Messages => json!({}),
        };
        let model = json!({"id": "mock", "contextWindow": 100_000, "maxTokens": 20_000, "reasoning": true, "input": ["text", "image"]});
        let provider = json!({"base_url": server.url(), "api": api.name(), "api_key": "sk-VIOLINTEST", "compat": compat, "models": [model]});
        (api.name().to_owned(), provider)
    };
    home.write_models(&Value::Object(APIS.iter().map(provider).collect()));
    home.write(".violin/agent/settings.json", &json!({"retry": {"base_delay_ms": 1}}).to_string());
    home
}

/// An image of one pixel.
const PIXEL: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 1, 0, 0, 0, 1, 8,
    2, 0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x08, 0xd7, 0x63, 0xf8, 0xcf, 0xc0, 0,
    0, 3, 1, 1, 0, 0x18, 0xdd, 0x8d, 0xb0, 0, 0, 0, 0, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

/// traps.md B06, B21, B28, B30, B32, B33, B145: one session over all four and back, with thinking, parallel calls, an
/// image, an error result and an answer that is broken off.
#[test]
fn one_session_goes_over_all_four_protocols_and_back() {
    let server = Server::answering(|asked| {
        let api = api_of(asked);
        let body = asked.body.to_string();
        // Each leg asks for a word of its own: the last one that stands in the conversation is the one.
        let leg = body.rmatch_indices("leg-").next().map(|(at, _)| body[at + 4..at + 6].to_owned()).unwrap_or_default();
        if body.rfind("break-off") > body.rfind("leg-") {
            return Step {
                pieces: vec![
                    Piece::Bytes(
                        api.thinking_answer("unfinished", "Half", &[])
                            .split("Half")
                            .next()
                            .unwrap_or_default()
                            .as_bytes()
                            .to_vec(),
                    ),
                    Piece::Bytes(Vec::new()),
                    Piece::Hold,
                ],
                ..Step::stream("")
            };
        }
        if body.rfind(&format!("done-{leg}")).is_some() {
            return Step::stream(api.thinking_answer("so it is", &format!("fine {leg}"), &[]));
        }
        let long = "x".repeat(70);
        let calls = [
            ("call_1|fc_2", "read", json!({"path": "pixel.png"})),
            (long.as_str(), "bash", json!({"command": format!("echo done-{leg}")})),
            ("c3", "read", json!({"path": "nothing-there"})),
        ];
        // Ids of Messages and Gemini are short; those of the others are not always.
        let calls = match api {
            Api::Chat | Api::Responses => calls.to_vec(),
            Api::Messages | Api::Google => calls
                .into_iter()
                .enumerate()
                .map(|(at, (_, name, arguments))| (["a", "b", "c"][at], name, arguments))
                .collect(),
        };
        Step::stream(api.thinking_answer("let me see", "I look.", &calls))
    });
    let home = all_four(&server);
    fs::write(home.project().join("pixel.png"), PIXEL).expect("written");
    let tour = [
        Api::Chat,
        Api::Responses,
        Api::Messages,
        Api::Google,
        Api::Messages,
        Api::Responses,
        Api::Chat,
        Api::Google,
        Api::Chat,
    ];
    for (leg, api) in tour.iter().enumerate() {
        let model = format!("{}/mock", api.name());
        if leg == 3 || leg == 5 {
            let mut running = home.start(&["-c", "-m", &model, "--thinking", "high", "break-off"]);
            running.until("it thinks", |event| event["type"] == "thinking");
            running.signal("INT");
            assert_eq!(running.end().1, Some(130));
        }
        let prompt = format!("leg-{leg:02}");
        let image = home.project().join("pixel.png").display().to_string();
        let (events, status) = home.events(&["-c", "-m", &model, "--thinking", "high", "--image", &image, &prompt]);
        assert_eq!(status, 0, "{events:#?}");
        assert_eq!(events.last().expect("a result")["text"], format!("fine {leg:02}"));
        assert_eq!(of_type(&events, "tool_end").len(), 3);
    }
    for asked in server.asked() {
        assert_valid(api_of(&asked), &asked.body);
    }
    let last = server.asked().pop().expect("asked");
    assert_eq!(api_of(&last).results(&last.body).len(), 3 * tour.len());
    assert_eq!(api_of(&last).images(&last.body).len(), 2 * tour.len());
    // What a model thought goes back to it alone, and whole.
    for (api, marks) in [
        (Api::Responses, ["c2VjcmV0"].as_slice()),
        (Api::Messages, ["c2lnbmVk", "aGlkZGVu"].as_slice()),
        (Api::Google, ["Z2VtaW5p", "skip_thought_signature_validator"].as_slice()),
        (Api::Chat, ["reasoning_content"].as_slice()),
    ] {
        let own = server.asked().into_iter().rfind(|asked| api_of(asked) == api).expect("asked").body.to_string();
        for mark in marks {
            assert!(own.contains(mark), "{api:?} is not given back {mark}");
        }
        let foreign = ["c2VjcmV0", "c2lnbmVk", "aGlkZGVu", "Z2VtaW5p"].into_iter().filter(|mark| !marks.contains(mark));
        for mark in foreign {
            assert!(!own.contains(mark), "{api:?} is given {mark} of another");
        }
        assert!(!own.contains("unfinished"), "{api:?} is given a thought that was broken off");
    }
}

#[test]
fn images_go_in_with_a_message_and_with_a_result_on_all_four() {
    for api in APIS.iter().copied() {
        let server = Server::scripted([
            Step::stream(api.answer("", &[("c1", "read", json!({"path": "pixel.png"}))])),
            Step::stream(api.answer("A pixel.", &[])),
        ]);
        let home = TestHome::new(&server, api);
        fs::write(home.project().join("pixel.png"), PIXEL).expect("written");
        let image = home.project().join("pixel.png").display().to_string();
        assert_eq!(home.events(&["--image", &image, "what is it?"]).1, 0);
        let asked = server.asked();
        assert_eq!((api.images(&asked[0].body).len(), api.images(&asked[1].body).len()), (1, 2), "{api:?}");
        asked.iter().for_each(|asked| assert_valid(api, &asked.body));
        // A model that sees nothing is told so in words.
        let server = Server::scripted([
            Step::stream(api.answer("", &[("c1", "read", json!({"path": "pixel.png"}))])),
            Step::stream(api.answer("ok", &[])),
        ]);
        let blind = TestHome::with_model(&server, api, &json!({"input": ["text"]}));
        fs::write(blind.project().join("pixel.png"), PIXEL).expect("written");
        assert_eq!(blind.events(&["look"]).1, 0);
        let asked = server.asked();
        assert!(api.images(&asked[1].body).is_empty());
        asked.iter().for_each(|asked| assert_valid(api, &asked.body));
    }
}

fn best(first: &Server, second: &Server) -> TestHome {
    let home = TestHome::bare();
    let provider =
        |server: &Server, api: Api| json!({"base_url": server.url(), "api": api.name(), "models": [{"id": "m"}]});
    home.write_models(&json!({
        "best": {"api": "fallback", "models": [{"id": "coder", "chain": ["one/m", "two/m"]}]},
        "one": provider(first, Api::Chat), "two": provider(second, Api::Messages),
    }));
    home.write(".violin/agent/settings.json", &json!({"retry": {"base_delay_ms": 1}}).to_string());
    home
}

#[test]
fn a_chain_moves_on_after_a_failure_and_says_so() {
    let errors = [
        (529, json!({"error": {"type": "overloaded_error", "message": "Overloaded"}})),
        (429, json!({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}})),
        (401, json!({"error": {"message": "no such key"}})),
    ];
    for (status, body) in errors {
        let first = Server::answering(move |_| Step::error(status, &body));
        let second = Server::answering(|_| Step::stream(Api::Messages.answer("here", &[])));
        let home = best(&first, &second);
        let (events, exit) = home.events(&["-m", "best/coder", "hi"]);
        assert_eq!((exit, &events.last().expect("a result")["text"]), (0, &json!("here")), "{events:#?}");
        let change = of_type(&events, "model_change")[0];
        assert_eq!((&change["model"], &change["reason"]), (&json!("two/m"), &json!("fallback")));
        assert!(
            of_type(&events, "notice")[0]["text"].as_str().expect("text").starts_with("one/m failed ("),
            "{events:#?}"
        );
        assert!(of_type(&events, "retry").is_empty());
        let lines = home.session();
        let record = lines.iter().find(|line| line["type"] == "model_change").expect("stored");
        assert_eq!((&record["model"], &record["reason"]), (&json!("two/m"), &json!("fallback")));
        let answer = lines.iter().rfind(|line| line["role"] == "assistant").expect("an answer");
        assert_eq!((&answer["provider"], &answer["via"]), (&json!("two"), &json!("best/coder")));
        // The chain stays chosen, and the next start begins with its first.
        home.events(&["-c", "again"]);
        assert_eq!((first.asked().len(), second.asked().len()), (2, 2));
    }
}

#[test]
fn a_chain_stays_where_something_was_said_and_ends_with_its_last() {
    let mut broken = true;
    let first = Server::answering(move |_| {
        if std::mem::take(&mut broken) {
            Step::stream(Api::Chat.begun("Hel"))
        } else {
            Step::stream(Api::Chat.answer("Hello", &[]))
        }
    });
    let second = Server::answering(|_| Step::error(500, &json!({"error": {"message": "down"}})));
    let home = best(&first, &second);
    let (events, status) = home.events(&["-m", "best/coder", "hi"]);
    assert_eq!((status, of_type(&events, "discard").len(), second.asked().len()), (0, 1, 0), "{events:#?}");

    let down = || Server::answering(|_| Step::error(500, &json!({"error": {"message": "down"}})));
    let (first, second) = (down(), down());
    let home = best(&first, &second);
    home.write(".violin/agent/settings.json", &json!({"retry": {"base_delay_ms": 1, "max_retries": 1}}).to_string());
    let (events, status) = home.events(&["-m", "best/coder", "hi"]);
    assert_eq!((status, first.asked().len(), second.asked().len()), (1, 2, 2), "{events:#?}");
}

/// traps.md B26: over each protocol, one compaction and one more try.
#[test]
fn an_overflow_is_compacted_on_all_four() {
    let bodies = [
        (
            Api::Chat,
            json!({"error": {"code": 400, "message": "the request exceeds the available context size", "type": "exceed_context_size_error"}}),
        ),
        (
            Api::Responses,
            json!({"error": {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model"}}),
        ),
        (
            Api::Messages,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
        ),
        (
            Api::Google,
            json!([{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}}]),
        ),
    ];
    for (api, overflow) in bodies {
        let text = |text: &str| Step::stream(api.answer(text, &[]));
        let server = Server::scripted([text("one"), Step::error(400, &overflow), text("## Goal\nfix it"), text("two")]);
        let home = TestHome::new(&server, api);
        home.write(".violin/agent/settings.json", &json!({"compaction": {"keep_recent_messages": 1}}).to_string());
        home.run(&["-p", "first"]);
        let (events, status) = home.events(&["-c", "second"]);
        assert_eq!((status, &events.last().expect("a result")["text"]), (0, &json!("two")), "{events:#?}");
        assert_eq!(of_type(&events, "compaction")[0]["trigger"], "overflow");
        server.asked().iter().for_each(|asked| assert_valid(api, &asked.body));
    }
}

#[test]
fn a_refusal_is_told_on_all_four() {
    let refusals = [
        (Api::Chat, chunk(&json!({"content": "No."}), json!("content_filter")) + "data: [DONE]\n\n"),
        (
            Api::Responses,
            event("response.refusal.delta", json!({"item_id": "m", "delta": "No."}))
                + &event("response.completed", json!({"response": {"status": "completed"}})),
        ),
        (
            Api::Messages,
            Api::Messages.begun("No.")
                + &event("message_delta", json!({"delta": {"stop_reason": "refusal"}}))
                + &event("message_stop", json!({})),
        ),
        (
            Api::Google,
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"No.\"}]},\"finishReason\":\"SAFETY\"}]}\n\n"
                .to_owned(),
        ),
    ];
    for (api, stream) in refusals {
        let server = Server::scripted([Step::stream(stream), Step::stream(api.answer("ok", &[]))]);
        let home = TestHome::new(&server, api);
        let (events, status) = home.events(&["hi"]);
        assert!(
            status == 1 && of_type(&events, "error")[0]["msg"].as_str().expect("text").contains("refused"),
            "{events:#?}"
        );
        let lines = home.session();
        let answer = lines.iter().rfind(|line| line["role"] == "assistant").expect("an answer");
        assert_eq!(answer["stop_reason"], "refusal");
        assert_eq!(home.events(&["-c", "then this"]).1, 0);
        assert_valid(api, &server.asked()[1].body);
    }
}

/// traps.md B12, B13, B14: an answer that breaks is asked for again and shown once, also while the server holds the
/// connection open.
#[test]
fn errors_and_cut_offs_are_retried_on_all_four() {
    let failing = |api: Api| match api {
        Api::Chat => "data: {\"error\":{\"message\":\"upstream error\",\"code\":502}}\n\n".to_owned(),
        Api::Responses => event(
            "response.failed",
            json!({"response": {"status": "failed", "error": {"code": "server_error", "message": "MARK"}}}),
        ),
        Api::Messages => event("error", json!({"error": {"type": "overloaded_error", "message": "Overloaded"}})),
        Api::Google => {
            "data: {\"error\":{\"code\":503,\"message\":\"MARK\",\"status\":\"UNAVAILABLE\"}}\n\n".to_owned()
        }
    };
    for api in APIS.iter().copied() {
        let held = Step::stream(api.begun("Hel") + &failing(api)).then(Piece::Hold);
        let cut = Step::stream(api.begun("Hel")).then(Piece::Cut);
        let short = Step::stream(api.begun("Hel"));
        let server = Server::scripted([held, cut, short, Step::stream(api.answer("Hello", &[]))]);
        let home = TestHome::new(&server, api);
        let (events, status) = home.events(&["hi"]);
        assert_eq!((status, &events.last().expect("a result")["text"]), (0, &json!("Hello")), "{events:#?}");
        assert_eq!((of_type(&events, "discard").len(), of_type(&events, "retry").len()), (3, 3), "{api:?}");
        if matches!(api, Api::Responses | Api::Google) {
            assert!(of_type(&events, "retry")[0]["reason"].as_str().expect("text").contains("MARK"));
        }
        assert!(!fs::read_to_string(&home.sessions()[0]).expect("there").contains("Hel\""));
    }
}

/// traps.md B16.
#[test]
fn keep_alives_count_and_silence_ends() {
    for (api, keep_alive) in [(Api::Chat, ": keepalive\n\n".to_owned()), (Api::Messages, event("ping", json!({})))] {
        let mut pieces = Vec::new();
        for _ in 0..4 {
            pieces.push(Piece::Pause(Duration::from_millis(300)));
            pieces.push(Piece::Bytes(keep_alive.clone().into_bytes()));
        }
        pieces.push(Piece::Bytes(api.answer("there", &[]).into_bytes()));
        let server =
            Server::scripted([Step { pieces, ..Step::stream("") }, Step::stream(api.begun("Hel")).then(Piece::Hold)]);
        let home = TestHome::new(&server, api);
        let retry = json!({"retry": {"base_delay_ms": 1, "max_retries": 0, "idle_timeout_ms": 900}});
        home.write(".violin/agent/settings.json", &retry.to_string());
        let (events, status) = home.events(&["hi"]);
        assert_eq!((status, &events.last().expect("a result")["text"]), (0, &json!("there")), "{events:#?}");
        let (events, status) = home.events(&["hi"]);
        let error = of_type(&events, "error")[0];
        assert!(status == 1 && error["msg"].as_str().expect("text").contains("silent for 0.9 s"), "{error}");
    }
}

/// traps.md B25, and B24 for waits that are bearable.
#[test]
fn a_token_rate_is_waited_for_and_not_compacted() {
    let body =
        json!({"error": {"message": "Rate limit reached for x on tokens per min (TPM): Limit 30000, Used 29000"}});
    for header in [
        Some(("retry-after-ms", "2")),
        Some(("retry-after", "0")),
        Some(("retry-after", "Sun, 29 Nov 2015 20:00:30 GMT")),
        None,
    ] {
        let limited = Step::error(429, &body);
        let limited = header.into_iter().fold(limited, |step, (name, value)| step.header(name, value));
        let server = Server::scripted([limited, Step::stream(Api::Chat.answer("ok", &[]))]);
        let home = TestHome::new(&server, Api::Chat);
        let (events, status) = home.events(&["hi"]);
        assert_eq!(
            (status, of_type(&events, "retry").len(), of_type(&events, "compaction").len()),
            (0, 1, 0),
            "{events:#?}"
        );
        let delay = of_type(&events, "retry")[0]["delay_ms"].as_u64().expect("a number");
        assert!(delay <= 2, "{delay}");
    }
}

/// traps.md B36 and a spent account: asked once, told plainly, the key never shown.
#[test]
fn what_waiting_does_not_mend_is_asked_once_on_all_four() {
    for api in APIS.iter().copied() {
        for (status, code, told) in [
            (401, "invalid_api_key", "key in models.json"),
            (429, "insufficient_quota", "account is spent"),
            (402, "x", "account is spent"),
        ] {
            let body = json!({"error": {"message": "no: sk-VIOLINTEST", "code": code, "type": code}});
            let server = Server::answering(move |_| Step::error(status, &body));
            let home = TestHome::new(&server, api);
            let output = home.run(&["-p", "hi"]);
            let shown = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!((output.status.code(), server.asked().len()), (Some(1), 1), "{shown}");
            assert!(shown.contains("mock") && shown.contains(told) && !shown.contains("VIOLINTEST"), "{shown}");
            let asked = &server.asked()[0];
            assert!(!asked.path.contains("VIOLINTEST"), "a key in an address");
            let header = match api {
                Api::Chat | Api::Responses => "authorization",
                Api::Messages => "x-api-key",
                Api::Google => "x-goog-api-key",
            };
            assert!(asked.header(header).is_some_and(|value| value.ends_with("sk-VIOLINTEST")));
        }
    }
}

/// traps.md B37.
#[test]
fn the_output_limit_is_clamped_to_what_is_left() {
    for api in APIS.iter().copied() {
        let server = Server::scripted([Step::stream(api.answer("ok", &[]))]);
        let home = TestHome::with_model(&server, api, &json!({"contextWindow": 6000, "maxTokens": 5900}));
        let long = "word ".repeat(2000);
        assert_eq!(home.events(&[&long]).1, 0);
        let body = &server.asked()[0].body;
        let asked = match api {
            Api::Chat => &body["max_tokens"],
            Api::Responses => &body["max_output_tokens"],
            Api::Messages => &body["max_tokens"],
            Api::Google => &body["generationConfig"]["maxOutputTokens"],
        };
        let asked = asked.as_u64().expect("a limit");
        assert!((256..3500).contains(&asked), "{api:?}: {asked}");
    }
}

/// traps.md B32.
#[test]
fn reasoning_that_was_broken_off_is_left_out_whole() {
    let begun = Api::Responses.thinking_answer("half", "", &[]);
    let begun = begun.split("event: response.completed").next().expect("a begin").to_owned();
    let server =
        Server::scripted([Step::stream(begun).then(Piece::Hold), Step::stream(Api::Responses.answer("ok", &[]))]);
    let home = TestHome::with_model(&server, Api::Responses, &json!({"reasoning": true}));
    let mut running = home.start(&["think"]);
    running.until("it thinks", |event| event["type"] == "thinking");
    running.signal("INT");
    assert_eq!(running.end().1, Some(130));
    assert_eq!(home.events(&["-c", "go on"]).1, 0);
    let body = &server.asked()[1].body;
    assert_valid(Api::Responses, body);
    assert!(!body.to_string().contains("c2VjcmV0"), "{body:#}");
}

/// traps.md B34: what a narrow server refuses can be left out.
#[test]
fn quirks_are_switched_by_data() {
    let compat = json!({"developer_role": false, "stream_options": false, "strict_tools": false, "store": false,
        "reasoning_effort": false, "max_tokens_field": "none", "prompt_cache_key": false, "assistant_content": "empty"});
    let server = Server::answering(|asked| {
        let narrow = asked
            .body
            .as_object()
            .expect("an object")
            .keys()
            .all(|key| ["model", "stream", "messages", "tools"].contains(&key.as_str()));
        let plain =
            asked.body["messages"].as_array().expect("messages").iter().all(|message| message["content"].is_string());
        match (narrow && plain, Api::Chat.results(&asked.body).len()) {
            (false, _) => Step::error(400, &json!({"error": {"message": "extra fields"}})),
            (true, 0) => Step::stream(Api::Chat.answer("", &[("c", "glob", json!({"pattern": "*"}))])),
            (true, _) => Step::stream(Api::Chat.answer("ok", &[])),
        }
    });
    let home =
        TestHome::with_model(&server, Api::Chat, &json!({"reasoning": true, "maxTokens": 100, "compat": compat}));
    let (events, status) = home.events(&["go"]);
    assert_eq!(status, 0, "{events:#?}");

    let compat = json!({"developer_role": true, "store": true, "max_tokens_field": "max_completion_tokens", "strict_tools": true,
        "tool_result_name": true, "parallel_tool_calls": false, "prompt_cache_key": true, "assistant_after_tool_result": true});
    let server = Server::scripted([
        Step::stream(Api::Chat.answer("", &[("c", "glob", json!({"pattern": "*"}))])),
        Step::stream(Api::Chat.answer("ok", &[])),
        Step::stream(Api::Chat.answer("ok", &[])),
    ]);
    let home =
        TestHome::with_model(&server, Api::Chat, &json!({"reasoning": true, "maxTokens": 100, "compat": compat}));
    home.events(&["go"]);
    let body = &server.asked()[1].body;
    assert_eq!(
        (&body["store"], &body["max_completion_tokens"], &body["parallel_tool_calls"]),
        (&json!(false), &json!(100), &json!(false))
    );
    assert_eq!((&body["messages"][0]["role"], &body["messages"][3]["name"]), (&json!("developer"), &json!("glob")));
    assert_eq!((&body["tools"][0]["function"]["strict"], &body["reasoning_effort"]), (&json!(false), &json!("medium")));
    assert!(body["prompt_cache_key"].is_string());
}

/// A request begins with what the one before held, so that the provider's cache holds.
#[test]
fn requests_begin_with_the_bytes_of_the_one_before() {
    for api in APIS.iter().copied() {
        let calls = |n: usize| {
            Step::stream(api.thinking_answer("hm", "", &[(&format!("c{n}"), "glob", json!({"pattern": "*"}))]))
        };
        let server = Server::scripted([calls(1), calls(2), calls(3), Step::stream(api.answer("ok", &[]))]);
        let home = TestHome::new(&server, api);
        assert_eq!(home.events(&["go"]).1, 0);
        let mark = ",\"cache_control\":{\"type\":\"ephemeral\"}";
        let texts: Vec<_> =
            server.asked().iter().map(|asked| String::from_utf8_lossy(&asked.bytes).replace(mark, "")).collect();
        assert_eq!(texts.len(), 4);
        for pair in texts.windows(2) {
            let before = pair[0].strip_suffix("]}").expect("the conversation stands last");
            assert!(pair[1].starts_with(before), "{api:?}: the prefix changed");
        }
    }
}

/// traps.md B30: a provider that refuses what was thought before does not end the session.
#[test]
fn refused_thoughts_are_left_out_and_the_session_goes_on() {
    let refusals = [
        (Api::Messages, "messages.1.content.0: Invalid `signature` in `thinking` block", "c2lnbmVk"),
        (Api::Responses, "The encrypted content could not be verified (invalid_encrypted_content)", "c2VjcmV0"),
        (Api::Google, "Thought signature is not valid: invalid", "Z2VtaW5p"),
    ];
    for (api, message, mark) in refusals {
        let body = json!({"error": {"type": "invalid_request_error", "message": message}});
        let server = Server::answering(move |asked| match asked.body.to_string().contains(mark) {
            true => Step::error(400, &body),
            false if api.results(&asked.body).is_empty() => {
                Step::stream(api.thinking_answer("hm", "", &[("c1", "glob", json!({"pattern": "*"}))]))
            }
            false => Step::stream(api.answer("ok", &[])),
        });
        let home =
            TestHome::with_model(&server, api, &json!({"reasoning": true, "compat": {"thought_signatures": true}}));
        let (events, status) = home.events(&["go"]);
        assert_eq!((status, server.asked().len()), (0, 3), "{events:#?}");
        assert!(of_type(&events, "notice")[0]["text"].as_str().expect("text").contains("thought before"));
        assert_valid(api, &server.asked()[2].body);
    }
}

#[test]
fn providers_are_asked_what_they_offer() {
    let offering = |body: Value| {
        Server::answering(move |_| Step {
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            ..Step::stream(body.to_string())
        })
    };
    let open = offering(json!({"data": [{"id": "a"}, {"id": "b"}]}));
    let google = offering(json!({"models": [{"name": "models/g", "displayName": "G"}]}));
    let claude = offering(json!({"data": [{"type": "model", "id": "c"}], "has_more": false}));
    let refused = Server::answering(|_| Step::error(401, &json!({"error": {"message": "bad key sk-VIOLINTEST"}})));
    let home = TestHome::bare();
    let provider = |server: &Server, api: Api, id: &str| json!({"base_url": server.url(), "api": api.name(), "api_key": "sk-VIOLINTEST", "models": [{"id": id}]});
    home.write_models(&json!({
        "open": provider(&open, Api::Chat, "a"), "google": provider(&google, Api::Google, "g"),
        "claude": provider(&claude, Api::Messages, "old"), "refused": provider(&refused, Api::Responses, "x"),
        "gone": {"base_url": "http://127.0.0.1:9", "api": "openai-completions", "models": [{"id": "x"}]},
        "unset": {"base_url": "http://127.0.0.1:9", "api": "openai-completions", "api_key": "$NOT_SET", "models": [{"id": "x"}]},
        "best": {"api": "fallback", "models": [{"id": "coder", "chain": ["open/a"]}]},
    }));
    let output = home.run(&["models", "check", "--json"]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
    let row = |name: &str| rows.iter().find(|row| row["provider"] == name).expect("a row");
    assert_eq!((output.status.code(), rows.len()), (Some(1), 6), "{shown}");
    assert_eq!((&row("open")["ok"], &row("open")["new"]), (&json!(true), &json!(["b"])));
    assert_eq!((&row("google")["ok"], &row("google")["new"]), (&json!(true), &json!([])));
    assert_eq!((&row("claude")["missing"], &row("claude")["new"]), (&json!(["old"]), &json!(["c"])));
    assert!(row("refused")["detail"].as_str().expect("text").contains("HTTP 401"));
    assert!(row("gone")["detail"].as_str().expect("text").contains("cannot connect"));
    assert_eq!(row("unset")["detail"], "NOT_SET is not set");
    assert!(!shown.contains("VIOLINTEST"), "{shown}");
    assert_eq!(google.asked()[0].header("x-goog-api-key"), Some("sk-VIOLINTEST"));
    assert!(!google.asked()[0].path.contains("VIOLINTEST"));
    assert_eq!(claude.asked()[0].path, "/v1/models?limit=1000");
    let shown = String::from_utf8_lossy(&home.run(&["models", "check"]).stdout).into_owned();
    assert!(
        shown.contains("ok    open: 2 models offered, 1 configured") && shown.contains("not in models.json: b"),
        "{shown}"
    );
}
