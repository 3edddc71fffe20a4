//! Streams as odd servers send them (traps.md, a), cut at every border.

use serde_json::{Value, json};
use violin::event::ErrorKind;
use violin::message::{AssistantMessage, Block, StopReason, text_of};

use crate::support::decode::{decode, decode_cut_anywhere};
use crate::support::wire::{APIS, Api, chunk, event, parts};

/// The answer, which must be whole.
fn answer(api: Api, stream: &str) -> AssistantMessage {
    let (message, error) = decode_cut_anywhere(api.name(), stream);
    assert_eq!(error, None);
    message
}

fn calls(message: &AssistantMessage) -> Vec<(String, Value)> {
    message.tool_calls().map(|call| (call.id.clone(), Value::Object(call.arguments.clone()))).collect()
}

fn thinking(message: &AssistantMessage) -> String {
    let texts = message.content.iter().filter_map(|block| match block {
        Block::Thinking { thinking, .. } => Some(thinking.as_str()),
        _ => None,
    });
    texts.collect()
}

/// A piece of a call, of which what is null is left out.
fn tc(index: Value, id: Value, name: Value, arguments: &str) -> Value {
    let mut call =
        json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    for key in ["index", "id"] {
        if call[key].is_null() {
            call.as_object_mut().expect("an object").remove(key);
        }
    }
    if call["function"]["name"].is_null() {
        call["function"].as_object_mut().expect("an object").remove("name");
    }
    call
}

fn deltas(pieces: &[&[Value]]) -> String {
    let out = pieces.iter().map(|calls| chunk(&json!({"tool_calls": calls}), Value::Null));
    out.collect::<String>() + &chunk(&json!({}), json!("tool_calls")) + "data: [DONE]\n\n"
}

/// traps.md B01.
#[test]
fn characters_cut_by_a_chunk_stay_whole() {
    let text = "北京🌍 é\u{2028}";
    for api in APIS.iter().copied() {
        let message = answer(api, &api.answer(text, &[("c1", "write", json!({"path": text}))]));
        assert_eq!((text_of(&message.content).as_str(), calls(&message)[0].1["path"].as_str()), (text, Some(text)));
        assert_eq!(message.stop_reason, StopReason::ToolUse);
        let usage = message.usage.expect("told");
        assert_eq!((usage.input_tokens, usage.cache_read_tokens, usage.output_tokens), (90, 10, 5), "{api:?}");
    }
}

/// traps.md B02, B04, B05, B06.
#[test]
fn pieces_of_calls_find_their_call() {
    let none = || Value::Null;
    let without_id =
        deltas(&[&[tc(json!(0), none(), json!("ls"), "")], &[tc(json!(0), none(), none(), "{\"path\":\".\"}")]]);
    assert_eq!(calls(&answer(Api::Chat, &without_id)), [("call_0".into(), json!({"path": "."}))]);

    let mut pieces = vec![vec![tc(json!(0), json!("c1"), json!("ls"), "")]];
    pieces.extend(["{\"pa", "th\"", ":", "\"a", "\"}"].map(|piece| vec![tc(json!(0), none(), none(), piece)]));
    let pieces: Vec<&[Value]> = pieces.iter().map(Vec::as_slice).collect();
    assert_eq!(calls(&answer(Api::Chat, &deltas(&pieces))), [("c1".into(), json!({"path": "a"}))]);

    let two = [("c1".to_owned(), json!({"path": "1"})), ("c2".to_owned(), json!({"path": "2"}))];
    let at_once = deltas(&[&[
        tc(none(), json!("c1"), json!("ls"), "{\"path\":\"1\"}"),
        tc(none(), json!("c2"), json!("ls"), "{\"path\":\"2\"}"),
    ]]);
    let in_turn = deltas(&[
        &[tc(none(), json!("c1"), json!("ls"), "{\"path\":\"1\"}")],
        &[tc(none(), json!("c2"), json!("ls"), "{\"path\"")],
        &[tc(none(), none(), none(), ":\"2\"}")],
    ]);
    let interleaved = deltas(&[
        &[tc(json!(0), json!("c1"), json!("ls"), "")],
        &[tc(json!(1), json!("c2"), json!("ls"), "")],
        &[tc(json!(0), none(), none(), "{\"path\"")],
        &[tc(json!(1), none(), none(), "{\"path\":")],
        &[tc(json!(0), none(), none(), ":\"1\"}")],
        &[tc(json!(1), none(), none(), "\"2\"}")],
    ]);
    for stream in [at_once, in_turn, interleaved] {
        assert_eq!(calls(&answer(Api::Chat, &stream)), two, "{stream}");
    }
}

/// traps.md B09, B10, B18.
#[test]
fn usage_and_ends_in_all_their_places() {
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12});
    let told = |extra: Value| format!("data: {extra}\n\n");
    let text = chunk(&json!({"content": "hi"}), json!(""));
    let stop = chunk(&json!({}), json!("stop"));
    for extra in
        [json!({"choices": [], "usage": usage}), json!({"choices": null, "usage": usage}), json!({"usage": usage})]
    {
        let message = answer(Api::Chat, &format!("{text}{stop}{}", told(extra)));
        assert_eq!((text_of(&message.content).as_str(), message.usage.map(|usage| usage.total())), ("hi", Some(12)));
    }
    let inside = told(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage}]}));
    assert_eq!(answer(Api::Chat, &(text.clone() + &inside)).usage.map(|usage| usage.total()), Some(12));
    let called = chunk(&json!({"tool_calls": [tc(json!(0), json!("c1"), json!("ls"), "{}")]}), json!(""));
    assert_eq!(answer(Api::Chat, &(called + &stop)).stop_reason, StopReason::ToolUse);
    let apart = json!({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 19, "completion_tokens_details": {"reasoning_tokens": 7}});
    let message = answer(Api::Chat, &(text + &stop + &told(json!({"choices": [], "usage": apart}))));
    assert_eq!(message.usage.map(|usage| usage.output_tokens), Some(9));
}

/// traps.md B17.
#[test]
fn thinking_in_any_field_is_shown_once() {
    let fields = [
        json!({"reasoning": "hm"}),
        json!({"reasoning_content": "hm"}),
        json!({"reasoning_text": "hm"}),
        json!({"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}),
        json!({"reasoning": "hm", "reasoning_content": "hm", "reasoning_details": [{"text": "hm"}]}),
        json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
    ];
    for delta in fields {
        let message = answer(Api::Chat, &(chunk(&delta, Value::Null) + &Api::Chat.answer("yes", &[])));
        assert_eq!((thinking(&message).as_str(), text_of(&message.content).as_str()), ("hm", "yes"), "{delta}");
    }
    for api in APIS.iter().copied() {
        let message = answer(api, &api.thinking_answer("hm", "yes", &[("c1", "ls", json!({}))]));
        assert_eq!((thinking(&message).as_str(), text_of(&message.content).as_str()), ("hm", "yes"), "{api:?}");
        assert_eq!(calls(&message).len(), 1);
    }
}

/// traps.md B12, B13, B14: reported errors end the answer at once, with the provider's words and code.
#[test]
fn errors_in_a_stream_end_it() {
    let begun = |api: Api| api.begun("Hel");
    let cases = [
        (
            Api::Chat,
            "data: {\"error\":{\"message\":\"MARK\",\"code\":\"server_error\"}}\n\n".to_owned(),
            ErrorKind::Server,
        ),
        (
            Api::Responses,
            event(
                "response.failed",
                json!({"response": {"status": "failed", "error": {"code": "server_error", "message": "MARK"}}}),
            ),
            ErrorKind::Server,
        ),
        (
            Api::Responses,
            event("error", json!({"code": "rate_limit_exceeded", "message": "MARK"})),
            ErrorKind::RateLimit,
        ),
        (
            Api::Messages,
            event("error", json!({"error": {"type": "overloaded_error", "message": "MARK"}})),
            ErrorKind::Overloaded,
        ),
        (
            Api::Google,
            "data: {\"error\":{\"code\":503,\"message\":\"MARK\",\"status\":\"UNAVAILABLE\"}}\n\n".to_owned(),
            ErrorKind::Overloaded,
        ),
        (
            Api::Google,
            "data: {\"candidates\":[{\"finishReason\":\"MALFORMED_FUNCTION_CALL\",\"finishMessage\":\"MARK\"}]}\n\n"
                .to_owned(),
            ErrorKind::Server,
        ),
    ];
    for (api, failing, kind) in cases {
        let (message, error) = decode_cut_anywhere(api.name(), &(begun(api) + &failing));
        let error = error.expect("reported");
        assert!(error.kind == kind && error.told().contains("MARK"), "{api:?}: {error:?}");
        assert_eq!(message.stop_reason, StopReason::Error);
    }
    let (_, error) = decode(Api::Chat.name(), &[b"data: {\"choices\": [{\"delta\"\n\n"]);
    assert!(error.expect("reported").retryable());
}

#[test]
fn an_answer_without_its_end_is_an_error() {
    for api in APIS.iter().copied() {
        let (message, error) = decode_cut_anywhere(api.name(), &api.begun("Hel"));
        assert_eq!(
            (error.map(|error| error.kind), text_of(&message.content).as_str()),
            (Some(ErrorKind::Network), "Hel")
        );
    }
}

/// traps.md B21.
#[test]
fn refusals_and_odd_reasons_are_known() {
    let reason =
        |reason: &str| event("message_delta", json!({"delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}}));
    let stop = event("message_stop", json!({}));
    for (name, wanted) in
        [("refusal", StopReason::Refusal), ("sensitive", StopReason::Refusal), ("pause_turn", StopReason::Stop)]
    {
        let message = answer(Api::Messages, &(Api::Messages.begun("x") + &reason(name) + &stop));
        assert_eq!(message.stop_reason, wanted);
        let usage = message.usage.expect("told");
        assert_eq!((usage.input_tokens, usage.output_tokens), (90, 7), "what is left out stays");
    }
    let refused = chunk(&json!({"refusal": "I can't"}), Value::Null) + &chunk(&json!({}), json!("stop"));
    assert_eq!(answer(Api::Chat, &refused).stop_reason, StopReason::Refusal);
    let refused = event("response.refusal.delta", json!({"item_id": "m", "delta": "I can't"}))
        + &event("response.completed", json!({"response": {"status": "completed"}}));
    let message = answer(Api::Responses, &refused);
    assert_eq!((message.stop_reason, text_of(&message.content).as_str()), (StopReason::Refusal, "I can't"));
    let filtered = json!({"response": {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}});
    assert_eq!(answer(Api::Responses, &event("response.incomplete", filtered)).stop_reason, StopReason::Refusal);
    assert_eq!(answer(Api::Google, &parts(&json!([]), json!("SAFETY"))).stop_reason, StopReason::Refusal);
    let blocked = "data: {\"promptFeedback\":{\"blockReason\":\"OTHER\"}}\n\n";
    assert_eq!(answer(Api::Google, blocked).stop_reason, StopReason::Refusal);
}

/// traps.md B26: an overflow that is told within the stream.
#[test]
fn overflows_in_a_stream_are_known() {
    let window = chunk(&json!({}), json!("model_context_window_exceeded"));
    let reason = event("message_delta", json!({"delta": {"stop_reason": "model_context_window_exceeded"}}));
    let failed = json!({"response": {"error": {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model"}}});
    let google = "data: {\"error\":{\"code\":400,\"status\":\"INVALID_ARGUMENT\",\"message\":\"The input token count (9) exceeds the maximum number of tokens allowed (8).\"}}\n\n";
    for (api, stream) in [
        (Api::Chat, window),
        (Api::Messages, Api::Messages.begun("") + &reason),
        (Api::Responses, event("response.failed", failed)),
        (Api::Google, google.to_owned()),
    ] {
        let (_, error) = decode_cut_anywhere(api.name(), &stream);
        assert_eq!(error.map(|error| error.kind), Some(ErrorKind::ContextOverflow), "{api:?}");
    }
}

/// traps.md B22 and B158.
#[test]
fn calls_of_responses_are_joined_whatever_the_server_leaves_out() {
    let added = |id: Value, index: Value| {
        let item = json!({"type": "function_call", "id": id, "call_id": "call_1", "name": "ls", "arguments": ""});
        event("response.output_item.added", json!({"output_index": index, "item": item}))
    };
    let done = |id: Value, index: Value, arguments: &str| {
        let item =
            json!({"type": "function_call", "id": id, "call_id": "call_1", "name": "ls", "arguments": arguments});
        event("response.output_item.done", json!({"output_index": index, "item": item}))
    };
    let piece = |id: Value, index: Value, delta: &str| {
        event("response.function_call_arguments.delta", json!({"item_id": id, "output_index": index, "delta": delta}))
    };
    let completed = event("response.completed", json!({"response": {"status": "completed"}}));
    let (none, args) = (Value::Null, "{\"path\":\"a\"}");
    let only_done = event("response.function_call_arguments.done", json!({"item_id": "fc_1", "arguments": args}));
    let streams = [
        // Only the whole arguments.
        added(json!("fc_1"), json!(0)) + &only_done,
        // No place, as llama.cpp sends it.
        added(json!("fc_1"), none.clone())
            + &piece(json!("fc_1"), none.clone(), "{\"path\":")
            + &piece(json!("fc_1"), none.clone(), "\"a\"}"),
        // No id.
        added(none.clone(), json!(0)) + &piece(none.clone(), json!(0), args) + &done(none.clone(), json!(0), args),
        // The id changes on the way.
        added(json!("fc_1"), json!(0)) + &piece(json!("fc_2"), json!(0), args) + &done(json!("fc_3"), json!(0), args),
        added(json!("fc_1"), none.clone())
            + &piece(json!("fc_2"), none.clone(), args)
            + &done(json!("fc_3"), none.clone(), args),
        // Only the whole item.
        done(json!("fc_1"), json!(0), args),
        String::new(),
    ];
    for stream in streams {
        let completed = if stream.is_empty() {
            // Only the whole response.
            let item = json!({"type": "function_call", "call_id": "call_1", "name": "ls", "arguments": args});
            event("response.completed", json!({"response": {"status": "completed", "output": [item]}}))
        } else {
            completed.clone()
        };
        let message = answer(Api::Responses, &(stream.clone() + &completed));
        assert_eq!(calls(&message), [("call_1".into(), json!({"path": "a"}))], "{stream}");
        assert_eq!(message.tool_calls().next().map(|call| call.name.as_str()), Some("ls"));
    }
    let two = |id: &str, call: &str| {
        let item = json!({"type": "function_call", "id": id, "call_id": call, "name": "ls", "arguments": "{}"});
        event("response.output_item.added", json!({"item": item}))
            + &event("response.output_item.done", json!({"item": item}))
    };
    let message = answer(Api::Responses, &(two("fc_1", "c1") + &two("fc_2", "c2") + &completed));
    assert_eq!(calls(&message), [("c1".into(), json!({})), ("c2".into(), json!({}))]);
}

/// traps.md B159.
#[test]
fn a_gateway_that_began_anew_is_taken_at_its_last_word() {
    let start = |id: &str| event("message_start", json!({"message": {"id": id, "usage": {"input_tokens": 5}}}));
    let text = |text: &str| {
        event("content_block_start", json!({"index": 0, "content_block": {"type": "text", "text": ""}}))
            + &event("content_block_delta", json!({"index": 0, "delta": {"type": "text_delta", "text": text}}))
    };
    let end = event("message_delta", json!({"delta": {"stop_reason": "end_turn"}})) + &event("message_stop", json!({}));
    let anew = start("a") + &text("first") + &start("b") + &text("second") + &end;
    assert_eq!(text_of(&answer(Api::Messages, &anew).content), "second");
    let repeated = start("a") + &start("a") + &text("first") + &end;
    assert_eq!(text_of(&answer(Api::Messages, &repeated).content), "first");
}

#[test]
fn thought_signatures_are_kept_where_they_came() {
    let stream = parts(
        &json!([{"text": "hm", "thought": true}, {"text": "Look", "thoughtSignature": "c2ln"}]),
        Value::Null,
    ) + &parts(
        &json!([{"functionCall": {"name": "ls", "args": {}}, "thoughtSignature": "Y2FsbA=="}, {"functionCall": {"name": "ls"}}]),
        Value::Null,
    ) + &parts(&json!([{"text": ""}]), json!("STOP"));
    let message = answer(Api::Google, &stream);
    let signatures: Vec<_> = message.tool_calls().map(|call| call.signature.as_deref()).collect();
    assert_eq!(signatures, [Some("Y2FsbA=="), None]);
    let kinds: Vec<_> = message
        .content
        .iter()
        .map(|block| match block {
            Block::Text { text } => text.clone(),
            Block::Thinking { thinking, signature, .. } => format!("{thinking}/{signature:?}"),
            Block::ToolCall(call) => call.id.clone(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["hm/None", "Look", "/Some(\"c2ln\")", "call_3", "call_4"]);
}
