//! A scripted HTTP server on loopback: it answers each request with the next step of its script, in chunks,
//! with pauses and cut-offs as the script says, and keeps what it was asked.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// How long a test waits for a condition before it fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// One answer.
#[derive(Debug, Clone)]
pub struct Step {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub pieces: Vec<Piece>,
}

/// A piece of an answer's body.
#[derive(Debug, Clone)]
pub enum Piece {
    /// Sent as one HTTP chunk.
    Bytes(Vec<u8>),
    /// Nothing more is sent until the test calls [`Server::release`], or the client goes.
    Hold,
    /// So long nothing is sent.
    Pause(Duration),
    /// The connection breaks.
    Cut,
}

impl Step {
    /// A stream of server-sent events.
    pub fn stream(body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
        Step { status: 200, headers, pieces: vec![Piece::Bytes(body.into())] }
    }

    /// An error with a JSON body.
    pub fn error(status: u16, body: &Value) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Step { status, headers, pieces: vec![Piece::Bytes(body.to_string().into_bytes())] }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn then(mut self, piece: Piece) -> Self {
        self.pieces.push(piece);
        self
    }
}

/// What was asked.
#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
    pub bytes: Vec<u8>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

type Script = dyn FnMut(&Asked) -> Step + Send;

struct State {
    script: Box<Script>,
    asked: Vec<Asked>,
    released: usize,
    holding: usize,
    gone: usize,
}

/// The server. It lives as long as the test's process; its threads end with their connections.
#[derive(Clone)]
pub struct Server {
    state: Arc<(Mutex<State>, Condvar)>,
    port: u16,
}

impl Server {
    /// Answers with these steps in turn, then with errors.
    pub fn scripted(steps: impl IntoIterator<Item = Step>) -> Self {
        let mut steps: VecDeque<Step> = steps.into_iter().collect();
        let over = json!({"error": {"message": "the script is over", "type": "invalid_request_error"}});
        Self::answering(move |_| steps.pop_front().unwrap_or_else(|| Step::error(400, &over)))
    }

    /// Answers each request with what `script` makes of it.
    pub fn answering(script: impl FnMut(&Asked) -> Step + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = State { script: Box::new(script), asked: Vec::new(), released: 0, holding: 0, gone: 0 };
        let server = Server { state: Arc::new((Mutex::new(state), Condvar::new())), port };
        let accepting = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // Without it each answer waits 40 ms for an acknowledgement that the client delays.
                let _ = stream.set_nodelay(true);
                let serving = accepting.clone();
                thread::spawn(move || serving.serve(&stream));
            }
        });
        server
    }

    /// The base URL, with `/v1`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().expect("no panic while it was held")
    }

    fn wait(&self, what: &str, mut done: impl FnMut(&State) -> bool) {
        let state = self.lock();
        let (state, late) = self.state.1.wait_timeout_while(state, PATIENCE, |state| !done(state)).expect("no panic");
        assert!(!late.timed_out(), "waited in vain until {what}; asked so far: {}", state.asked.len());
    }

    /// All that was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.lock().asked.clone()
    }

    /// Waits until it was asked so often, and gives all that was asked.
    pub fn wait_asked(&self, count: usize) -> Vec<Asked> {
        self.wait(&format!("{count} requests came"), |state| state.asked.len() >= count);
        self.asked()
    }

    /// Waits until an answer stands at a [`Piece::Hold`] for the `count`-th time.
    pub fn wait_holding(&self, count: usize) {
        self.wait("an answer is held", |state| state.holding >= count);
    }

    /// Waits until the client has left a held answer for the `count`-th time.
    pub fn wait_gone(&self, count: usize) {
        self.wait("the client is gone", |state| state.gone >= count);
    }

    /// Lets one held answer go on.
    pub fn release(&self) {
        self.lock().released += 1;
        self.state.1.notify_all();
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some(asked) = read_request(&mut reader, stream) {
            let step = {
                let mut state = self.lock();
                let step = (state.script)(&asked);
                state.asked.push(asked);
                self.state.1.notify_all();
                step
            };
            if self.answer(stream, step).is_none() {
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
    }

    fn answer(&self, mut stream: &TcpStream, step: Step) -> Option<()> {
        let mut head = format!("HTTP/1.1 {} X\r\ntransfer-encoding: chunked\r\n", step.status);
        for (name, value) in &step.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).ok()?;
        for piece in step.pieces {
            match piece {
                Piece::Bytes(bytes) if bytes.is_empty() => {}
                Piece::Bytes(bytes) => {
                    let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat();
                    stream.write_all(&chunk).ok()?;
                }
                Piece::Hold => self.hold(stream)?,
                Piece::Pause(time) => thread::sleep(time),
                Piece::Cut => return None,
            }
        }
        stream.write_all(b"0\r\n\r\n").ok()
    }

    fn hold(&self, stream: &TcpStream) -> Option<()> {
        let mut state = self.lock();
        state.holding += 1;
        self.state.1.notify_all();
        loop {
            if state.released > 0 {
                state.released -= 1;
                return Some(());
            }
            let waited = self.state.1.wait_timeout(state, Duration::from_millis(20)).expect("no panic");
            state = waited.0;
            if is_gone(stream) {
                state.gone += 1;
                self.state.1.notify_all();
                return None;
            }
        }
    }
}

fn is_gone(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    let gone = match stream.peek(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    };
    stream.set_nonblocking(false).expect("a socket");
    gone
}

fn read_request(reader: &mut BufReader<&TcpStream>, mut stream: &TcpStream) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut headers, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        let (name, value) = (name.to_lowercase(), value.trim().to_owned());
        if name == "content-length" {
            length = value.parse().ok()?;
        }
        if name == "expect" {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
        }
        headers.push((name, value));
    }
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes).ok()?;
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Some(Asked { path, headers, body, bytes })
}
