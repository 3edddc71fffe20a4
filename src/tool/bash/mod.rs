//! `bash`: runs a command and gives its output, or starts it in the background.
//!
//! `shell` starts it, `family` knows and ends its processes, `capture` takes what it prints, `job` keeps what runs
//! in the background.

mod capture;
mod family;
mod job;
mod shell;

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::message::Block;
use crate::text;
use crate::toolkit::{Arguments, Risk, Tool, ToolContext, ToolError, ToolOutput, View};

pub use job::{JobReport, Jobs};

use capture::{Capture, Captured};
use family::Family;
use shell::Started;

/// How often live output is sent at most.
const LIVE: Duration = Duration::from_millis(50);

/// How long the pipe must be silent after the shell's end.
const IDLE: Duration = Duration::from_millis(100);

/// How long output is taken after the shell's end, however much a child in the background prints.
const AFTER: Duration = Duration::from_secs(1);

/// Longest timeout, in seconds.
const LONGEST: f64 = 7.0 * 24.0 * 3600.0;

/// The tool.
pub struct Bash {
    jobs: Arc<Jobs>,
}

impl Bash {
    /// One that keeps what runs in the background in `jobs`.
    pub fn new(jobs: Arc<Jobs>) -> Self {
        Bash { jobs }
    }
}

impl Tool for Bash {
    fn name(&self) -> &str {
        "bash"
    }

    fn description(&self) -> &str {
        "Run a bash command, without stdin or terminal. Long output is cut to its end, all of it is in a file. With background it returns at once; later output and the end are reported to you"
    }

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {
            "command": {"type": "string"},
            "timeout": {"type": "number", "description": "Seconds, default 600"},
            "background": {"type": "boolean"}},
            "required": ["command"]})
    }

    fn risk(&self) -> Risk {
        Risk::Command
    }

    fn title(&self, arguments: &Arguments) -> String {
        super::optional_text(arguments, "command").unwrap_or("?").to_owned()
    }

    fn fenced(&self) -> bool {
        true
    }

    fn preview(&self, _context: &ToolContext, arguments: &Arguments) -> Option<View> {
        let text = super::optional_text(arguments, "command")?.to_owned();
        Some(View::File { path: "command.sh".to_owned(), first_line: 1, text })
    }

    fn prepare(&self, mut arguments: Arguments) -> Arguments {
        super::rename(&mut arguments, &["cmd"], "command");
        super::rename(&mut arguments, &["run_in_background"], "background");
        arguments
    }

    fn run<'a>(&'a self, context: ToolContext, arguments: Arguments) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let command = super::text(&arguments, "command")?;
            if command.contains('\0') {
                return Err(ToolError::model("command: a NUL character cannot be passed to a shell."));
            }
            let timeout = timeout(&arguments)?;
            if context.cancel.is_cancelled() {
                return Err(ToolError::Cancelled);
            }
            let started = start(&context, command)?;
            if super::flag(&arguments, "background") {
                return self.jobs.start(&context, command, started, timeout);
            }
            let limit = timeout.unwrap_or(Duration::from_secs(context.shell.timeout_s));
            let (end, captured) = foreground(&context, started, limit).await;
            result(end, captured, limit)
        })
    }
}

fn timeout(arguments: &Arguments) -> Result<Option<Duration>, ToolError> {
    let Some(seconds) = arguments.get("timeout").and_then(Value::as_f64) else { return Ok(None) };
    match seconds > 0.0 {
        true => Ok(Some(Duration::from_secs_f64(seconds.min(LONGEST)))),
        false => Err(ToolError::model("timeout: must be more than 0 seconds; leave it out for the default.")),
    }
}

fn start(context: &ToolContext, command: &str) -> Result<Started, ToolError> {
    let program = shell::find(&context.shell)?;
    shell::start(&program, command, &context.cwd, &context.shell).map_err(|error| {
        let place = context.cwd.display();
        let why = match error.kind() {
            std::io::ErrorKind::ArgumentListTooLong => "it is too long; write it to a file and run that".to_owned(),
            _ if !context.cwd.is_dir() => format!("the directory {place} is gone"),
            _ => format!("{}: {error}", program.display()),
        };
        ToolError::model(format!("The command could not be started: {why}."))
    })
}

/// What a command came to, for who is no model.
#[derive(Debug)]
pub struct Plain {
    /// What it printed, cut as it is for a model.
    pub output: String,
    /// `None`: it was ended.
    pub exit_code: Option<i32>,
    /// It was ended because its time was up.
    pub timed_out: bool,
}

/// Runs a command as the tool does.
///
/// # Errors
/// Where it could not be started, or was interrupted.
pub async fn run_plain(context: &ToolContext, command: &str, limit: Duration) -> Result<Plain, ToolError> {
    if command.contains('\0') {
        return Err(ToolError::model("a NUL character cannot be passed to a shell"));
    }
    if context.cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    let started = start(context, command)?;
    let (end, captured) = foreground(context, started, limit).await;
    let (exit_code, timed_out) = match end {
        End::Cancelled => return Err(ToolError::Cancelled),
        End::TimedOut => (None, true),
        End::Lost(_) => (None, false),
        End::Exited(status) => (described(status).2, false),
    };
    Ok(Plain { output: captured.text, exit_code, timed_out })
}

/// How a command came to its end.
enum End {
    /// By itself.
    Exited(ExitStatus),
    /// Its time was up.
    TimedOut,
    /// The person interrupted it.
    Cancelled,
    /// The system does not tell what became of it.
    Lost(String),
}

async fn foreground(context: &ToolContext, started: Started, limit: Duration) -> (End, Captured) {
    let Started { mut child, pid, mut output, marker } = started;
    let mut family = Family::of(pid, &format!("{}={marker}", shell::MARKER));
    let mut capture = Capture::new(&context.outputs, &context.call_id);
    let end = watch(context, &mut *child, &mut family, &mut output, &mut capture, limit).await;
    match &end {
        End::Exited(_) => {
            let more = Instant::now() + AFTER;
            let open = drain(&mut output, &mut capture, more).await;
            // What the command left in the background lives on. Without a reader its first output would kill it.
            family.release();
            if open {
                tokio::spawn(discard(output));
            }
        }
        End::TimedOut | End::Cancelled | End::Lost(_) => {
            let grace = Duration::from_millis(context.shell.kill_grace_ms);
            // Its last words are taken meanwhile; with a full pipe it could not even end.
            let mut ending = std::pin::pin!(family.end(grace));
            let mut buffer = vec![0; 64 * 1024];
            let mut open = true;
            loop {
                tokio::select! {
                    () = &mut ending => break,
                    read = output.read(&mut buffer), if open => match read {
                        Ok(0) | Err(_) => open = false,
                        Ok(read) => capture.push(&buffer[..read]),
                    },
                }
            }
            let soon = Instant::now() + AFTER;
            let _ = timeout_at(soon, child.wait()).await;
            drain(&mut output, &mut capture, soon).await;
        }
    }
    if let Some(text) = capture.last_live() {
        send(context, text, Instant::now() + AFTER).await;
    }
    (end, capture.finish())
}

/// Waits for the shell's end, and takes and passes on its output meanwhile.
async fn watch(
    context: &ToolContext,
    child: &mut dyn process_wrap::tokio::ChildWrapper,
    family: &mut Family,
    output: &mut pipe::Receiver,
    capture: &mut Capture,
    limit: Duration,
) -> End {
    let deadline = Instant::now() + limit;
    let mut wait = child.wait();
    let mut buffer = vec![0; 64 * 1024];
    let mut open = true;
    let mut flush = Instant::now();
    let (mut look, mut pause) = (Instant::now() + LIVE, LIVE);
    loop {
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => return End::Cancelled,
            () = sleep_until(deadline) => return End::TimedOut,
            () = sleep_until(flush), if capture.has_live() => {
                if let Some(text) = capture.live() {
                    send(context, text, deadline).await;
                }
                flush = Instant::now() + LIVE;
            }
            // Before the output: a child in the background that prints without end must not hide the shell's end.
            status = &mut wait => return match status {
                Ok(status) => End::Exited(status),
                Err(error) => End::Lost(error.to_string()),
            },
            read = output.read(&mut buffer), if open => match read {
                Ok(0) | Err(_) => open = false,
                Ok(read) => capture.push(&buffer[..read]),
            },
            () = sleep_until(look) => {
                family.observe();
                pause = (pause * 2).min(Duration::from_secs(5));
                look = Instant::now() + pause;
            }
        }
    }
}

/// Takes what is still in the pipe, until it is silent or `until` has come; returns whether it is still open.
async fn drain(output: &mut pipe::Receiver, capture: &mut Capture, until: Instant) -> bool {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let idle = (Instant::now() + IDLE).min(until);
        match timeout_at(idle, output.read(&mut buffer)).await {
            Ok(Ok(0) | Err(_)) => return false,
            Ok(Ok(read)) => capture.push(&buffer[..read]),
            Err(_) => return true,
        }
        if Instant::now() >= until {
            return true;
        }
    }
}

async fn discard(mut output: pipe::Receiver) {
    let mut buffer = vec![0; 64 * 1024];
    while output.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}

/// Sends live output. A slow receiver slows the command, but neither its timeout nor its cancellation.
async fn send(context: &ToolContext, text: String, until: Instant) {
    tokio::select! {
        () = context.live.send(text) => {}
        () = context.cancel.cancelled() => {}
        () = sleep_until(until) => {}
    }
}

fn result(end: End, captured: Captured, limit: Duration) -> Result<ToolOutput, ToolError> {
    let (note, summary, exit_code) = match end {
        End::Cancelled if captured.text.is_empty() => return Err(ToolError::Cancelled),
        End::Cancelled => ("[interrupted]".to_owned(), "interrupted".to_owned(), None),
        End::TimedOut => {
            let limit = limit.as_secs_f64();
            (format!("[timed out after {limit} s]"), format!("timed out after {limit} s"), None)
        }
        End::Lost(why) => (format!("[its exit code is not known: {why}]"), "exit unknown".to_owned(), None),
        End::Exited(status) => described(status),
    };
    let mut body = captured.text;
    if !note.is_empty() {
        if !body.is_empty() && !body.ends_with('\n') {
            body.push('\n');
        }
        body.push_str(&note);
    } else if body.is_empty() {
        body.push_str("(no output)");
    }
    let view = View::Terminal { text: captured.coloured.unwrap_or_default(), log: captured.log };
    let content = vec![Block::Text { text: body }];
    let is_error = !note.is_empty();
    Ok(ToolOutput { content, is_error, summary, view: Some(view), exit_code, ..ToolOutput::default() })
}

/// A shell's end: the line for the model, the words for the person, the code. Both are empty where all is well.
fn described(status: ExitStatus) -> (String, String, Option<i32>) {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(0), _) => (String::new(), String::new(), Some(0)),
        (Some(code), _) => (format!("[exit code {code}]"), format!("exit {code}"), Some(code)),
        (None, Some(signal)) => {
            let name = signal_name(signal);
            (format!("[killed by {name}]"), name, Some(128 + signal))
        }
        (None, None) => ("[its exit code is not known]".to_owned(), "exit unknown".to_owned(), None),
    }
}

fn signal_name(signal: i32) -> String {
    use rustix::process::Signal;
    let names = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    let name = names.iter().find(|(known, _)| known.as_raw() == signal).map(|(_, name)| (*name).to_owned());
    name.unwrap_or_else(|| format!("signal {signal}"))
}

/// A command in one short line.
fn short(command: &str) -> String {
    text::ellipsis(&text::clean(text::first_line(command)), 80)
}

#[cfg(test)]
mod tests;
