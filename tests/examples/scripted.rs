//! The full-screen interface with a scripted agent behind it: to look at it, and to measure it, without a model.
//!
//! `cargo run --example scripted`, then send `text N [RATE]`, `tools`, `ask`, `long N`, or anything else.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use violin::agent::{
    Activity, AgentSettings, Command, CommandLine, Danger, Delivery, Queued, ReviewRequest, SessionState, Update,
};
use violin::choice::{Mode, Thinking};
use violin::event::{ContextUsage, Event, ModelLabel, UserSource};
use violin::home::Home;
use violin::message::{StopReason, Usage, text_of};
use violin::model::{Compat, Cost, Model};
use violin::session::{Entry, Header, Tree};
use violin::toolkit::{DiffLine, Hunk, Risk, View};
use violin::tui::sources::{ModelChoice, Sources};
use violin::tui::{Notify, Options, Start, run};

fn settings() -> AgentSettings {
    let model = Model {
        provider: "bench".into(),
        id: "mock".into(),
        name: "Mock".into(),
        api: "openai-completions".into(),
        base_url: String::new(),
        api_key: None,
        headers: Vec::new(),
        context_window: 200_000,
        max_tokens: None,
        reasoning: true,
        images: true,
        cost: Some(Cost { input: 2.5, output: 10.0, ..Cost::default() }),
        compat: Compat::default(),
        thinking_levels: Default::default(),
        chain: Vec::new(),
    };
    AgentSettings {
        model: Some(Arc::new(model)),
        thinking: Thinking::High,
        mode: Mode::Auto,
        context: ContextUsage::new(76_000, 200_000),
        context_parts: vec![
            ("system prompt".into(), 900),
            ("messages".into(), 40_000),
            ("tool results".into(), 35_100),
        ],
    }
}

struct Script {
    updates: mpsc::Sender<Update>,
    tree: Tree,
}

impl Script {
    async fn event(&self, event: Event) {
        let _ = self.updates.send(Update::Event(event)).await;
    }

    async fn append(&mut self, json: serde_json::Value) {
        let id = self.tree.next_id().0;
        let mut line = json;
        line["id"] = id.into();
        line["parent_id"] = self.tree.leaf_id().map(|id| id.0).into();
        line["timestamp"] = 1_795_984_382_000_i64.into();
        if let Ok(entry) = Entry::parse(line.to_string().as_bytes(), id) {
            let entry = Arc::new(entry);
            self.tree.push(entry.clone());
            let _ = self.updates.send(Update::Appended(entry)).await;
        }
    }

    async fn turn(&mut self, said: &str) {
        self.append(serde_json::json!({"role": "user", "content": said})).await;
        let entry = self.tree.leaf_id().map(|id| id.0);
        self.event(Event::User { text: said.into(), source: UserSource::Prompt, images: 0, entry }).await;
        let model = ModelLabel { id: "mock".into(), provider: "bench".into(), label: "Mock".into() };
        let context = ContextUsage::new(76_000, 200_000);
        self.event(Event::TurnStart { turn: 0, session_id: "20261130-000000-00000000".into(), model, context }).await;
        let mut words = said.split_whitespace();
        match words.next() {
            Some("text") => {
                let count: usize = words.next().and_then(|n| n.parse().ok()).unwrap_or(1000);
                let rate: Option<u64> = words.next().and_then(|n| n.parse().ok());
                self.text(count, rate).await;
            }
            Some("long") => {
                let count: usize = words.next().and_then(|n| n.parse().ok()).unwrap_or(100_000);
                for part in 0..count / 100 {
                    let text: String =
                        (0..100).map(|n| format!("line {} of a long answer\n", part * 100 + n)).collect();
                    self.event(Event::Delta { text }).await;
                    if part % 20 == 19 {
                        self.event(Event::Thinking { text: "on".into() }).await;
                    }
                }
            }
            Some("ask") => self.ask().await,
            _ => self.tools().await,
        }
        let usage = Usage {
            input_tokens: 5000,
            output_tokens: 2100,
            cache_read_tokens: 36_000,
            cache_write_tokens: 0,
            cost_usd: Some(0.31),
        };
        self.append(serde_json::json!({"role": "assistant", "content": "I'll look at the test first."})).await;
        self.event(Event::TurnEnd { turn: 0, usage: Some(usage), stop_reason: StopReason::Stop, entry: None }).await;
        self.event(Event::Result {
            text: "done".into(),
            turns: 1,
            aborted: false,
            session_id: String::new(),
            usage_total: usage,
        })
        .await;
    }

    async fn text(&self, count: usize, rate: Option<u64>) {
        const WORDS: [&str; 8] = ["the ", "quick ", "brown ", "fox ", "jumps ", "over ", "**lazy** ", "dogs "];
        for n in 0..count {
            let mut text = WORDS[n % WORDS.len()].to_owned();
            if n % 60 == 59 {
                text.push_str("\n\n");
            }
            self.event(Event::Delta { text }).await;
            if let Some(rate) = rate {
                tokio::time::sleep(Duration::from_micros(1_000_000 / rate)).await;
            }
        }
        self.event(Event::Delta { text: "\n\nBENCH DONE".into() }).await;
    }

    #[allow(clippy::too_many_arguments, reason = "each is a field of the event")]
    async fn call(
        &mut self,
        id: &str,
        name: &str,
        title: &str,
        output: &str,
        ok: bool,
        summary: &str,
        view: Option<View>,
    ) {
        let (id, name) = (id.to_owned(), name.to_owned());
        let args = serde_json::Map::new();
        self.event(Event::ToolStart { id: id.clone(), name: name.clone(), args, title: title.into() }).await;
        for line in output.lines().take(40) {
            self.event(Event::ToolOutput { id: id.clone(), text: format!("{line}\n") }).await;
            tokio::time::sleep(Duration::from_millis(8)).await;
        }
        self.event(Event::ToolEnd {
            id,
            name,
            ok,
            output: output.into(),
            effects: Vec::new(),
            duration_ms: 3200,
            exit_code: Some(i32::from(!ok)),
            summary: summary.into(),
            view,
            entry: None,
        })
        .await;
    }

    async fn tools(&mut self) {
        self.event(Event::Thinking { text: "The person wants the cart fixed.\nI should look first.".into() }).await;
        self.event(Event::Delta { text: "I'll look at the test first. 日本語 👩‍🔬 ♻️ ❤️\n".into() }).await;
        let code = "pub fn total(&self) -> u32 {\n    // the sum\n    let total: u32 = self.items.iter().sum();\n    total - self.discount\n}\n";
        let file = View::File { path: "src/cart.rs".into(), first_line: 38, text: code.into() };
        self.call("c1", "read", "src/cart.rs", code, true, "120 lines", Some(file)).await;
        let out: String = (0..44).map(|n| format!("test cart::case_{n} ... \x1b[32mok\x1b[0m\n")).collect();
        let out = format!("{out}test cart::total ... \x1b[31mFAILED\x1b[0m\n");
        let view = Some(View::Terminal { text: String::new(), log: None });
        self.call("c2", "bash", "cargo test cart", &out, false, "", view).await;
        let hunk = Hunk {
            old_start: 40,
            new_start: 40,
            lines: vec![
                DiffLine::Context("  let total: u32 = self.items.iter().sum();".into()),
                DiffLine::Removed("  total - self.discount".into()),
                DiffLine::Added("  total.saturating_sub(self.discount)".into()),
                DiffLine::Context("}".into()),
            ],
        };
        let view = Some(View::Diff { path: "src/cart.rs".into(), hunks: vec![hunk] });
        self.call("c3", "edit", "src/cart.rs", "", true, "+1 −1", view).await;
        let end = "The total **underflowed** when the discount was larger than the sum:\n\n```rust\nfn total(&self) -> u32 {\n    // never below zero\n    self.sum().saturating_sub(self.discount)\n}\n```\n\n| case | before | after |\n|---|--:|--:|\n| discount > sum | panic | 0 |\n| 日本語 | 1 | 1 |\n\n1. The test passes now.\n2. See [the docs](https://doc.rust-lang.org/std/primitive.u32.html).\n";
        for piece in end.split_inclusive(' ') {
            self.event(Event::Delta { text: piece.into() }).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn ask(&self) {
        let (answer, answered) = oneshot::channel();
        let request = ReviewRequest {
            call_id: "q".into(),
            name: "bash".into(),
            title: "rm -rf target/ && cargo build".into(),
            risk: Risk::Command,
            reason: "look twice: it deletes whole folders · it leaves the sandbox".into(),
            command: Some(CommandLine {
                text: "rm -rf target/ && cargo build".into(),
                dangers: vec![Danger { at: 0..14, why: "it deletes whole folders" }],
            }),
            view: None,
            rule: Some("bash(cargo build:*)".into()),
            answer,
        };
        let _ = self.updates.send(Update::Review(request)).await;
        let words = format!("The answer was {:?}.", answered.await.ok());
        self.event(Event::Delta { text: words }).await;
    }
}

async fn agent(mut commands: mpsc::Receiver<Command>, updates: mpsc::Sender<Update>) {
    let header = Header {
        version: 1,
        id: "20261130-000000-00000000".into(),
        created_at: 0,
        cwd: "/".into(),
        model: None,
        parent_session: None,
    };
    let state = SessionState {
        header,
        path: Some(PathBuf::from("/tmp/x.jsonl")),
        tree: Tree::default(),
        usage: Usage::default(),
        notices: Vec::new(),
    };
    let mut script = Script { updates: updates.clone(), tree: Tree::default() };
    let _ = updates.send(Update::Session(Box::new(state))).await;
    while let Some(command) = commands.recv().await {
        match command {
            Command::Prompt { message, .. } => {
                let _ = updates.send(Update::Activity(Activity::Running)).await;
                let said = text_of(&message.content);
                let mut queue: Vec<Queued> = Vec::new();
                let interrupted = {
                    let turn = script.turn(&said);
                    tokio::pin!(turn);
                    loop {
                        tokio::select! {
                            () = &mut turn => break false,
                            command = commands.recv() => match command {
                                Some(Command::Prompt { message, delivery }) => {
                                    queue.push(Queued { message, delivery });
                                    let _ = updates.send(Update::Queue(queue.clone())).await;
                                }
                                Some(Command::Interrupt) | None => break true,
                                Some(_) => {}
                            },
                        }
                    }
                };
                if interrupted {
                    script
                        .event(Event::TurnEnd { turn: 0, usage: None, stop_reason: StopReason::Aborted, entry: None })
                        .await;
                }
                let back = queue.into_iter().map(|queued| queued.message).collect();
                let _ = updates.send(Update::Queue(Vec::new())).await;
                let _ = updates.send(Update::Returned(back)).await;
                let _ = updates.send(Update::Activity(Activity::Idle)).await;
            }
            Command::SetMode(mode) => {
                let _ = updates.send(Update::Settings(Box::new(AgentSettings { mode, ..settings() }))).await;
            }
            Command::Shell { command, .. } => {
                let _ = updates.send(Update::Activity(Activity::Shell)).await;
                let _ = updates.send(Update::ShellOutput(format!("you ran {command}\n"))).await;
                let _ = updates.send(Update::Activity(Activity::Idle)).await;
            }
            Command::PreviewRestore { to } => {
                let preview = violin::agent::RestorePreview { to, ..Default::default() };
                let _ = updates.send(Update::RestorePreview(preview)).await;
            }
            _ => {}
        }
    }
    let _ = Delivery::Steer;
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let Ok(runtime) = runtime else { return };
    let home = std::env::var("VIOLIN_HOME").unwrap_or_else(|_| "/tmp/violin-scripted".into());
    let mut sources = Sources::empty();
    sources.models = Arc::new(|| {
        let model = |provider: &str, id: &str, usable: bool| ModelChoice {
            provider: provider.into(),
            id: id.into(),
            name: id.to_uppercase(),
            context_window: 200_000,
            cost: Some(Cost { input: 2.5, output: 10.0, ..Cost::default() }),
            images: true,
            reasoning: usable,
            usable,
            reason: (!usable).then(|| "ANTHROPIC_API_KEY is not set".into()),
        };
        vec![model("bench", "mock", true), model("openai", "gpt-5", true), model("anthropic", "claude-opus", false)]
    });
    let options = Options {
        home: Home::at(home),
        cwd: std::env::current_dir().unwrap_or_default(),
        initial_prompt: None,
        draft: None,
        found: Vec::new(),
        start: Start::Prompt,
        theme: std::env::var("VIOLIN_THEME").ok(),
        mouse: true,
        notify: Notify::Bell,
        editor: None,
        notices: Vec::new(),
        sources,
    };
    let exit = runtime.block_on(async {
        let (command_sender, commands) = mpsc::channel(64);
        let (updates, update_receiver) = mpsc::channel(1024);
        let _ = updates.try_send(Update::Settings(Box::new(settings())));
        tokio::spawn(agent(commands, updates));
        run(options, command_sender, update_receiver).await
    });
    runtime.shutdown_background();
    println!("{exit:?}");
}
