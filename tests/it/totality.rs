//! Any session file whatsoever loads, and gives a request that all four protocols accept.

use std::fs;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use violin::choice::Thinking;
use violin::context::conversation::Conversation;
use violin::home::Home;
use violin::message::{Message, UserMessage};
use violin::model::Model;
use violin::provider::anthropic::Messages;
use violin::provider::completions::Completions;
use violin::provider::google::Google;
use violin::provider::responses::Responses;
use violin::provider::{Credentials, Prefix, Protocol, Request, history};
use violin::session::{Body, Loaded, Session};

use crate::support::validate::faults;
use crate::support::wire::{APIS, Api};

fn one_of(values: Vec<Value>) -> BoxedStrategy<Value> {
    proptest::sample::select(values).boxed()
}

fn text() -> BoxedStrategy<Value> {
    one_of(vec![json!(""), json!(" \n"), json!("hello"), json!("日本\u{2028}\u{7}"), json!("x".repeat(3_000))])
}

fn call_id() -> BoxedStrategy<Value> {
    one_of(vec![json!("a"), json!("b"), json!(""), json!("call_1|fc_2"), json!("é".repeat(70))])
}

fn block() -> BoxedStrategy<Value> {
    let signature = one_of(vec![Value::Null, json!(""), json!("c2ln")]);
    let arguments = one_of(vec![json!({}), json!({"path": 5}), json!("{\"a\":1}"), json!(null), json!([1])]);
    prop_oneof![
        3 => text().prop_map(|text| json!({"type": "text", "text": text})),
        1 => Just(json!({"type": "image", "mime_type": "image/png", "data": "aGk="})),
        1 => (text(), signature.clone(), any::<bool>()).prop_map(|(text, signature, redacted)| {
            json!({"type": "thinking", "thinking": text, "signature": signature, "redacted": redacted})
        }),
        3 => (call_id(), arguments, signature).prop_map(|(id, arguments, signature)| {
            json!({"type": "tool_call", "id": id, "name": "read", "arguments": arguments, "signature": signature})
        }),
        1 => Just(json!({"type": "hologram", "x": 1})),
    ]
    .boxed()
}

fn content() -> BoxedStrategy<Value> {
    let blocks = proptest::collection::vec(block(), 0..4).prop_map(Value::Array);
    prop_oneof![1 => text(), 3 => blocks].boxed()
}

fn id() -> BoxedStrategy<Value> {
    prop_oneof![1 => Just(Value::Null), 9 => (0_u64..14).prop_map(Value::from)].boxed()
}

/// What an entry says beside its place.
fn body() -> BoxedStrategy<Value> {
    let reason = one_of(
        ["stop", "length", "tool_use", "refusal", "error", "aborted"].into_iter().map(Value::from).collect::<Vec<_>>(),
    );
    let usage = one_of(vec![Value::Null, json!({"input_tokens": u64::MAX, "output_tokens": 7}), json!({})]);
    let who = one_of(vec![json!("p"), json!("q"), json!("")]);
    let api = one_of(APIS.iter().map(|api| json!(api.name())).collect());
    prop_oneof![
        4 => content().prop_map(|content| json!({"role": "user", "content": content})),
        6 => (content(), reason, usage, who, api).prop_map(|(content, reason, usage, who, api)| {
            let mut answer = json!({"role": "assistant", "content": content, "stop_reason": reason, "provider": who,
                "model": "m", "api": api});
            if !usage.is_null() {
                answer["usage"] = usage;
            }
            answer
        }),
        6 => (call_id(), content(), any::<bool>()).prop_map(|(id, content, failed)| {
            json!({"role": "tool", "tool_call_id": id, "name": "read", "content": content, "is_error": failed})
        }),
        1 => (text(), id()).prop_map(|(text, kept)| json!({"type": "compaction", "summary": text, "first_kept_id": kept})),
        1 => id().prop_map(|before| {
            json!({"type": "custom", "plugin": "violin.shortened", "data": {"before": before}})
        }),
        1 => text().prop_map(|text| json!({"type": "branch_summary", "from_id": 3, "summary": text})),
        1 => text().prop_map(|text| json!({"type": "model_change", "model": text})),
        1 => text().prop_map(|text| json!({"type": "thinking_change", "level": text})),
        1 => id().prop_map(|target| json!({"type": "leaf", "target_id": target})),
        1 => id().prop_map(|target| json!({"type": "label", "target_id": target, "label": "here"})),
        1 => text().prop_map(|text| {
            json!({"type": "shell", "command": text, "output": text, "exit_code": null, "in_context": true})
        }),
        1 => one_of(vec![json!({"type": "hologram"}), json!({"role": "oracle", "content": "x"}), json!({"type": 5})]),
    ]
    .boxed()
}

fn line() -> BoxedStrategy<String> {
    let entry = (id(), id(), body()).prop_map(|(id, parent, mut body)| {
        if !id.is_null() {
            body["id"] = id;
        }
        body["parent_id"] = parent;
        body.to_string()
    });
    let rubbish =
        proptest::sample::select(vec!["", "[]", "{\"id\":3,\"par", "null", "{}", "\u{0}"]).prop_map(str::to_owned);
    prop_oneof![20 => entry, 1 => rubbish].boxed()
}

fn model(api: Api, images: bool) -> Model {
    Model {
        provider: "p".into(),
        id: "m".into(),
        api: api.name().into(),
        reasoning: true,
        images,
        max_tokens: Some(16_000),
        ..violin::provider::demo::model()
    }
}

fn written(api: Api, request: &Request) -> Value {
    let turns = history::turns(&request.messages, &request.model, request.forget_thinking);
    let mut prefix = Prefix::default();
    fn body<P: Protocol>(protocol: &P, prefix: &mut Prefix, request: &Request, turns: &[history::Turn<'_>]) -> Vec<u8> {
        prefix.body(protocol, request, turns).expect("writes").to_vec()
    }
    let bytes = match api {
        Api::Chat => body(&Completions, &mut prefix, request, &turns),
        Api::Responses => body(&Responses, &mut prefix, request, &turns),
        Api::Messages => body(&Messages, &mut prefix, request, &turns),
        Api::Google => body(&Google, &mut prefix, request, &turns),
    };
    serde_json::from_slice(&bytes).expect("JSON")
}

fn messages_of(session: &Session) -> Vec<Arc<Message>> {
    Conversation::default().messages(session.tree())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_file_gives_requests_that_all_protocols_take(
        lines in proptest::collection::vec(line(), 0..30),
        torn in any::<bool>(),
        images in any::<bool>(),
        level in proptest::sample::select(Thinking::ALL),
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("any.jsonl");
        let header = json!({"version": 1, "id": "any", "created_at": 1, "cwd": dir.path()}).to_string();
        let end = if torn { "" } else { "\n" };
        let text = format!("{header}\n{}{end}", lines.join("\n"));
        fs::write(&path, &text).expect("written");
        let mut session = Session::open(&path).expect("any file opens");
        let before = session.tree().nodes().len();
        session.append(Body::Message(Arc::new(Message::User(UserMessage::text("go on")))));
        let messages = messages_of(&session);
        for api in APIS.iter().copied() {
            let request = Request {
                model: Arc::new(model(api, images)),
                credentials: Credentials::default(),
                system: "be good".into(),
                tools: Arc::new([]),
                messages: messages.clone(),
                thinking: level,
                forget_thinking: 0,
                room: 8_192,
                max_tokens: Some(16_000),
                session_id: "s".into(),
            };
            let body = written(api, &request);
            let wrong = faults(api, &body);
            prop_assert!(wrong.is_empty(), "{api:?} would refuse this: {wrong:#?}\n{body:#}\n{text}");
        }
        drop(session);
        // Nothing of the file is lost, what was added is there, and a fork says the very same.
        prop_assert!(fs::read_to_string(&path).expect("there").starts_with(&text));
        let again = Loaded::read(&path).expect("loads");
        prop_assert_eq!(again.tree.nodes().len(), before + 1);
        let fork = Session::fork(&Home::at(dir.path().join("home")), &path, None).expect("forked");
        prop_assert_eq!(&messages_of(&fork), &messages);
        let fork = Loaded::read(fork.path().expect("kept")).expect("loads");
        prop_assert!(fork.notices.is_empty(), "{:?}", fork.notices);
        prop_assert_eq!(Conversation::default().messages(&fork.tree), messages);
    }
}
