//! A home and a project of a test's own, and the real binary run in them.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::server::Server;
use super::wire::Api;

/// A home with a models.json, and an empty project.
pub struct TestHome {
    dir: TempDir,
}

/// A process that is ended with the test.
pub struct Running {
    pub child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl TestHome {
    /// Without any configuration.
    pub fn bare() -> Self {
        let dir = tempfile::Builder::new().prefix("violin-test-").tempdir().expect("a folder");
        for folder in ["home", "project", "tmp"] {
            fs::create_dir(dir.path().join(folder)).expect("made");
        }
        let home = TestHome { dir };
        // Where commands cannot run in a sandbox, nothing that runs one could go on without a question.
        if violin::tool::sandbox::support(true).is_err() {
            home.write(".violin/agent/settings.json", &json!({"mode": "yolo"}).to_string());
        }
        home
    }

    /// With a model `mock/mock` that `server` answers for, with a window of 100,000 tokens.
    pub fn new(server: &Server, api: Api) -> Self {
        Self::with_model(server, api, &json!({"contextWindow": 100_000, "input": ["text", "image"]}))
    }

    /// With such a model, whose fields are given.
    pub fn with_model(server: &Server, api: Api, fields: &Value) -> Self {
        let home = Self::bare();
        let mut model = fields.clone();
        model["id"] = "mock".into();
        home.write_models(&json!({"mock": {
            "base_url": server.url(), "api": api.name(), "api_key": "sk-VIOLINTEST", "models": [model],
        }}));
        home.write_settings(json!({}));
        home
    }

    pub fn write_models(&self, providers: &Value) {
        self.write(".violin/agent/models.json", &json!({"providers": providers}).to_string());
    }

    /// Writes settings, with what all tests need.
    pub fn write_settings(&self, mut settings: Value) {
        settings["retry"] = json!({"base_delay_ms": 1});
        if settings.get("mode").is_none() && violin::tool::sandbox::support(true).is_err() {
            settings["mode"] = "yolo".into();
        }
        self.write(".violin/agent/settings.json", &settings.to_string());
    }

    /// Writes a file below the home.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.home().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    /// The binary, with nothing of the environment but what it needs.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_violin"));
        command.args(arguments).current_dir(self.project()).env_clear().stdin(Stdio::null());
        for (name, value) in self.environment() {
            command.env(name, value);
        }
        command
    }

    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let path = std::env::var("PATH").unwrap_or_default();
        vec![
            ("PATH", path),
            ("HOME", self.home().display().to_string()),
            ("TMPDIR", self.dir.path().join("tmp").display().to_string()),
            ("TERM", "xterm-256color".to_owned()),
            ("COLORTERM", "truecolor".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
        ]
    }

    /// Runs to the end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("started")
    }

    /// Runs to the end with `--json`: the events and the exit status.
    pub fn events(&self, arguments: &[&str]) -> (Vec<Value>, i32) {
        let output = self.run(&[&["--json"], arguments].concat());
        let text = String::from_utf8(output.stdout).expect("text");
        let events = text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
        (events, output.status.code().expect("it exited"))
    }

    /// Starts with `--json`.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(&[&["--json"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        Running { child, lines }
    }

    /// The session files, oldest first.
    pub fn sessions(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = walk(&self.home().join(".violin/sessions"));
        found.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        found.sort();
        found
    }

    /// The lines of the only session, the header first.
    pub fn session(&self) -> Vec<Value> {
        let sessions = self.sessions();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        lines_of(&sessions[0])
    }
}

impl Running {
    /// Reads events until one fits.
    pub fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.lines.read_line(&mut line).expect("readable");
            assert!(read > 0, "the stream ended before {what}");
            let event: Value = serde_json::from_str(&line).expect("an event");
            if fits(&event) {
                return event;
            }
        }
    }

    /// Reads the rest and waits for the end: the events and the exit status.
    pub fn end(mut self) -> (Vec<Value>, Option<i32>) {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).expect("readable");
        let status = self.child.wait().expect("it ends");
        (rest.lines().map(|line| serde_json::from_str(line).expect("an event")).collect(), status.code())
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("sent");
        assert!(sent.success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a session file that are whole.
pub fn lines_of(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("readable");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.flat_map(|entry| if entry.path().is_dir() { walk(&entry.path()) } else { vec![entry.path()] }).collect()
}
