//! What must be fast: decoding, sessions, edits, requests, start-up. `cargo bench` runs it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use divan::Bencher;
use divan::counter::BytesCount;
use serde_json::json;
use violin::context::conversation::Conversation;
use violin::home::Home;
use violin::message::{AssistantMessage, Block, Message, ToolCall, ToolMessage, UserMessage};
use violin::provider::completions::Completions;
use violin::provider::sse::{self, SseDecoder};
use violin::provider::{Credentials, Protocol, Request};
use violin::session::{Body, Loaded, Session, list};
use violin::toolkit::{LiveOutput, ToolContext};

fn main() {
    divan::main();
}

/// 20,000 deltas of chat completions.
fn burst() -> Vec<u8> {
    let mut out = String::new();
    for index in 0..20_000 {
        let delta = json!({"content": format!("w{:03}", index % 1000)});
        let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
        out.push_str(&format!("data: {chunk}\n\n"));
    }
    out.into_bytes()
}

fn request() -> Request {
    let model = violin::model::Model { api: Completions::API.to_owned(), ..violin::provider::demo::model() };
    Request {
        model: Arc::new(model),
        credentials: Credentials::default(),
        system: "".into(),
        tools: Arc::new([]),
        messages: Vec::new(),
        thinking: Default::default(),
        forget_thinking: 0,
        room: 8192,
        max_tokens: None,
        session_id: "s".into(),
    }
}

#[divan::bench]
fn sse_events(bencher: Bencher) {
    let bytes = burst();
    bencher.counter(BytesCount::of_slice(&bytes)).bench(|| sse::events(&bytes).len());
}

#[divan::bench]
fn chat_deltas(bencher: Bencher) {
    let bytes = burst();
    bencher.counter(BytesCount::of_slice(&bytes)).bench(|| {
        let (mut sse, mut decoder, mut out) = (SseDecoder::default(), Completions.decoder(&request()), Vec::new());
        for piece in bytes.chunks(16 * 1024) {
            sse.push(piece, &mut |name, data| decoder.event(name, data, &mut out)).expect("well formed");
        }
        out.len()
    });
}

/// A session of `laps` tool calls whose results have `size` bytes each.
fn session(home: &Home, laps: usize, size: usize) -> PathBuf {
    let mut session = Session::new(home, home.root(), None);
    let append = |session: &mut Session, message| drop(session.append(Body::Message(Arc::new(message))));
    append(&mut session, Message::User(UserMessage::text("read all of it")));
    let text = "a line of a larger file, such as an agent reads, with \"quotes\" in it\n".repeat(size / 70 + 1);
    for lap in 0..laps {
        let arguments = serde_json::Map::from_iter([("path".to_owned(), json!(format!("file-{lap}.txt")))]);
        let call = ToolCall { id: format!("c{lap}"), name: "read".into(), arguments, invalid: None, signature: None };
        let content = vec![Block::ToolCall(call)];
        append(&mut session, Message::Assistant(AssistantMessage { content, ..Default::default() }));
        let content = vec![Block::Text { text: text.clone() }];
        let result =
            ToolMessage { tool_call_id: format!("c{lap}"), name: "read".into(), content, ..Default::default() };
        append(&mut session, Message::Tool(result));
    }
    session.path().expect("kept").to_owned()
}

#[divan::bench(args = [(4_000, 300), (200, 10_000), (10_000, 10_000)], sample_count = 5)]
fn session_load(bencher: Bencher, (laps, size): (usize, usize)) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = session(&Home::at(dir.path()), laps, size);
    let bytes = fs::metadata(&path).expect("there").len();
    bencher.counter(BytesCount::new(bytes)).bench(|| Loaded::read(&path).expect("loads").tree.nodes().len());
}

#[divan::bench(sample_count = 5)]
fn session_load_50_000_deep(bencher: Bencher) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = session(&Home::at(dir.path()), 25_000, 10);
    bencher.bench(|| {
        let tree = Loaded::read(&path).expect("loads").tree;
        Conversation::default().messages(&tree).len()
    });
}

#[divan::bench]
fn session_append(bencher: Bencher) {
    let dir = tempfile::tempdir().expect("a folder");
    let mut session = Session::new(&Home::at(dir.path()), dir.path(), None);
    session.append(Body::Message(Arc::new(Message::User(UserMessage::text("go")))));
    let message = Arc::new(Message::User(UserMessage::text("x".repeat(1_000))));
    bencher.bench_local(|| session.append(Body::Message(message.clone())).id);
}

#[divan::bench(sample_count = 5)]
fn session_list_1_000(bencher: Bencher) {
    let dir = tempfile::tempdir().expect("a folder");
    let home = Home::at(dir.path());
    for _ in 0..1_000 {
        session(&home, 5, 500);
    }
    bencher.bench(|| list::list(&home, None).len());
}

/// The picker of 10,000 sessions: at a glance when nothing is known of them yet, and once they were listed.
#[divan::bench(args = [false, true], sample_count = 5)]
fn session_glance_10_000(bencher: Bencher, listed: bool) {
    let dir = tempfile::tempdir().expect("a folder");
    let home = Home::at(dir.path());
    for _ in 0..10_000 {
        session(&home, 5, 500);
    }
    if listed {
        list::list(&home, None);
    }
    bencher.bench(|| list::glance(&home, None).len());
}

/// Writing the 200th request of a session of 2 MB, of which only the last lap is new.
#[divan::bench]
fn request_of_2_mb(bencher: Bencher) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = session(&Home::at(dir.path()), 200, 10_000);
    let tree = Loaded::read(&path).expect("loads").tree;
    let messages = Conversation::default().messages(&tree);
    let mut prefix = violin::provider::Prefix::default();
    let mut request = Request { messages, ..request() };
    let mut write = |request: &Request| {
        let turns = violin::provider::history::turns(&request.messages, &request.model, 0);
        prefix.body(&Completions, request, &turns).expect("writes").len()
    };
    let last = request.messages.len() - 2;
    let (all, before) = (request.messages.clone(), request.messages[..last].to_vec());
    bencher.bench_local(|| {
        request.messages.clone_from(&before);
        write(&request);
        request.messages.clone_from(&all);
        write(&request)
    });
}

#[divan::bench(args = [100_000, 10_000_000], sample_count = 10)]
fn edit(bencher: Bencher, size: usize) {
    let dir = tempfile::tempdir().expect("a folder");
    let text: String = (0..size / 40).map(|line| format!("line {line:>8} of a file that is edited\n")).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let tools = violin::tool::builtin(&Arc::default());
    let tool = tools.get("edit").expect("there");
    let context = ToolContext {
        call_id: "c".into(),
        cwd: dir.path().to_owned(),
        cancel: Default::default(),
        live: LiveOutput::none(),
        outputs: dir.path().join("outputs"),
        images: false,
        shell: Arc::default(),
    };
    let old = format!("line {:>8} of a file", size / 80);
    bencher.with_inputs(|| fs::write(dir.path().join("f.txt"), &text).expect("written")).bench_local_values(|()| {
        let arguments = json!({"path": "f.txt", "edits": [{"old_text": old, "new_text": "changed"}]});
        let arguments = arguments.as_object().expect("an object").clone();
        runtime.block_on(tool.run(context.clone(), arguments)).expect("edited").effects.len()
    });
}

#[divan::bench(sample_count = 30)]
fn start_version(bencher: Bencher) {
    bencher.bench(|| {
        let status = Command::new(env!("CARGO_BIN_EXE_violin")).arg("--version").stdout(Stdio::null()).status();
        assert!(status.expect("started").success());
    });
}

/// What plugins cost: one turn with a call, whose hooks do nothing, and one event for which nobody listens.
mod plugins {
    use std::sync::Arc;

    use divan::Bencher;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;
    use violin::event::{CompactionTrigger, Event};
    use violin::home::Home;
    use violin::plugin::{EndedCall, Host};
    use violin::toolkit::{Arguments, Risk};

    const NOTHING: &str = "return { on_agent_start = function() end, on_context = function() end, on_tool_start = function() end, \
        on_tool_end = function() end, on_session_before_compact = function() end, on_event = function() end }";

    fn host(runtime: &tokio::runtime::Runtime, plugin: &str) -> (tempfile::TempDir, Arc<Host>) {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(dir.path().join("plugins")).expect("made");
        std::fs::write(dir.path().join("plugins/a.lua"), plugin).expect("written");
        let host = Host::new(Home::at(dir.path()));
        runtime.block_on(async {
            host.load(dir.path());
            host.ready().await;
        });
        (dir, host)
    }

    #[divan::bench]
    fn a_turn_of_hooks_that_do_nothing(bencher: Bencher) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("built");
        let (_dir, host) = host(&runtime, NOTHING);
        let arguments = Arguments::from_iter([("command".to_owned(), json!("ls"))]);
        let content = "a line of output\n".repeat(100);
        bencher.bench(|| {
            runtime.block_on(async {
                let cancel = CancellationToken::new();
                host.agent_start(json!({"prompt": "x"}), &cancel).await;
                host.context(json!({}), &cancel).await;
                host.tool_start("bash", "c", Risk::Command, &arguments, &cancel).await;
                let call = EndedCall {
                    tool: "bash",
                    id: "c",
                    arguments: &arguments,
                    content: &content,
                    is_error: false,
                    exit_code: Some(0),
                    effects: &[],
                };
                host.tool_end(call, &cancel).await;
                host.before_compact(CompactionTrigger::Manual, &cancel).await;
            });
        });
    }

    #[divan::bench]
    fn a_delta_without_on_event(bencher: Bencher) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("built");
        let (_dir, host) = host(&runtime, "return { on_tool_start = function() end }");
        let event = Event::Delta { text: "some text".into() };
        bencher.bench(|| host.tell(&event));
    }
}
