//! From a key to its echo, through the real binary in a real terminal: a session of 100,000 lines is open and an answer
//! streams into it at 5,000 deltas a second. `cargo bench --bench echo` prints how long keys took.

#[allow(dead_code, reason = "the tests' support; a bench needs a part of it")]
#[path = "../it/support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use support::home::TestHome;
use support::pty::Pty;
use violin::home::Home;
use violin::message::{AssistantMessage, Block, Message, UserMessage};
use violin::session::{Body, Session};

const LINES: usize = 100_000;
const RATE: usize = 5_000;
const KEYS: usize = 400;
/// Between two keys; no multiple of the time between two frames, so that keys come at any moment of one.
const BETWEEN: Duration = Duration::from_millis(23);

const PAGE: &str = "## Section\n\nSome words with `code` and **bold**, long enough to be wrapped in a terminal of that \
    width, as most are.\n\n- one\n- two\n\n```rust\nfn add(left: u64, right: u64) -> u64 {\n    left + right\n}\n```\n\n";

fn main() {
    let flood = Arc::new(Flood::default());
    let port = flood.clone().serve();
    let home = TestHome::bare();
    home.write_models(&json!({"mock": {
        "base_url": format!("http://127.0.0.1:{port}/v1"), "api": "openai-completions", "api_key": "sk-bench",
        "models": [{"id": "mock", "contextWindow": 100_000_000}],
    }}));
    home.write_settings(json!({}));
    long_session(&home);
    let mut pty = Pty::start(&home, &["-c"]);
    pty.wait_for("the last line");

    report("idle", &mut echoes(&mut pty, KEYS / 4));
    pty.enter("go");
    pty.wait_for("Section");
    let (begun, before) = (Instant::now(), flood.sent.load(Ordering::Relaxed));
    let mut times = echoes(&mut pty, KEYS);
    let sent = flood.sent.load(Ordering::Relaxed) - before;
    report(&format!("{:.0} deltas/s", sent as f64 / begun.elapsed().as_secs_f64()), &mut times);
    flood.over.store(true, Ordering::Relaxed);
}

/// A session of so many lines, as the program itself would have written it.
fn long_session(home: &TestHome) {
    let cwd = home.project().canonicalize().expect("there");
    let mut session = Session::new(&Home::at(home.home().join(".violin")), &cwd, Some("mock/mock".to_owned()));
    let pages = LINES / PAGE.lines().count() / 10;
    for page in 0..=pages {
        let text = if page == pages { "the last line".to_owned() } else { PAGE.repeat(10) };
        session.append(Body::Message(Arc::new(Message::User(UserMessage::text("go on")))));
        let content = vec![Block::Text { text }];
        let answer = AssistantMessage { content, ..AssistantMessage::default() };
        session.append(Body::Message(Arc::new(Message::Assistant(answer))));
    }
}

/// Types keys, one after the other; how long each took to show.
fn echoes(pty: &mut Pty, count: usize) -> Vec<Duration> {
    let mut times = Vec::with_capacity(count);
    let mut typed = String::new();
    for key in 0..count {
        if typed.len() == 60 {
            pty.send("\x15");
            let gone = std::mem::take(&mut typed);
            pty.wait("the prompt is empty", |screen| !screen.contains(&gone));
        }
        let letter = ["z", "q", "x"][key % 3];
        typed.push_str(letter);
        thread::sleep(BETWEEN);
        let begun = Instant::now();
        pty.send(letter);
        pty.wait("the key shows", |screen| screen.contains(&format!("> {typed}")));
        times.push(begun.elapsed());
    }
    pty.send("\x15");
    times
}

fn report(name: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    println!("echo, {name}: median {:.2} ms, 99 % {:.2} ms, most {:.2} ms", at(50), at(99), at(100));
}

/// A server that streams without end.
#[derive(Default)]
struct Flood {
    sent: AtomicUsize,
    over: AtomicBool,
}

impl Flood {
    fn serve(self: Arc<Self>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // The client goes at the end, with the stream still open.
                let _ = self.answer(&stream);
            }
        });
        port
    }

    fn answer(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line)?;
            if let Some((_, value)) =
                line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        reader.read_exact(&mut vec![0; length])?;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
        let deltas: Vec<Vec<u8>> = PAGE.as_bytes().chunks(4).map(chunk).collect();
        let (begun, mut count) = (Instant::now(), 0);
        while !self.over.load(Ordering::Relaxed) {
            let due = (begun.elapsed().as_secs_f64() * RATE as f64) as usize;
            for index in count..due {
                stream.write_all(&deltas[index % deltas.len()])?;
            }
            count = due.max(count);
            self.sent.store(count, Ordering::Relaxed);
            thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
}

/// One delta as an HTTP chunk.
fn chunk(text: &[u8]) -> Vec<u8> {
    let delta = json!({"content": String::from_utf8_lossy(text)});
    let event = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "mock",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let data = format!("data: {event}\n\n");
    format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()
}
