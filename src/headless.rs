//! Without a screen: one prompt in, the final answer or the event stream out.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::{mpsc, oneshot};

use crate::agent::{Command, Delivery, Handle, Update};
use crate::event::{ErrorKind, Event};
use crate::message::UserMessage;

/// What goes to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The final answer.
    Answer,
    /// Every event, one JSON object a line.
    Events,
}

/// How the run came out, as an exit status tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Done,
    /// It failed, or a limit cut it.
    Failed,
    /// A mistake in the configuration, such as a key that is not set or an address that points elsewhere.
    Misconfigured,
    /// SIGINT.
    Interrupted,
    /// SIGTERM or SIGHUP.
    Terminated,
    /// What was printed to is gone.
    OutputGone,
}

impl Outcome {
    /// The exit status (formats.md, "Command line").
    pub fn status(self) -> u8 {
        match self {
            Outcome::Done => 0,
            Outcome::Failed | Outcome::OutputGone => 1,
            Outcome::Misconfigured => 2,
            Outcome::Interrupted => 130,
            Outcome::Terminated => 143,
        }
    }
}

/// Runs a prompt to the end. Notices and the error go to `err`, and nothing but the answer or the events to `out`: as
/// they are where a program reads them, without control sequences where that is a terminal.
pub async fn run(
    handle: Handle,
    prompt: UserMessage,
    output: Output,
    out: impl Write + IsTerminal + AsFd,
    err: impl Write,
) -> Outcome {
    let Handle { commands, mut updates, task } = handle;
    let _ = commands.send(Command::Prompt { message: prompt, delivery: Delivery::Steer }).await;
    let shown = out.is_terminal();
    let mut reader_gone = std::pin::pin!(reader_gone(out.as_fd().try_clone_to_owned()));
    let mut run = Run { output, out, err, shown, failed: false, misconfigured: false, gone: false };
    let mut signals = Signals::new();
    let mut stopped = None;
    loop {
        tokio::select! {
            update = updates.recv() => match update {
                Some(Update::Event(event)) => {
                    let last = matches!(event, Event::Result { .. });
                    if run.take(&event).is_err() {
                        run.gone = true;
                        interrupt(&commands).await;
                    }
                    if last {
                        break;
                    }
                }
                // Dropping the answer means no: there is nobody to ask.
                Some(_) => {}
                None => {
                    run.failed = true;
                    break;
                }
            },
            // Who started it may be gone while nothing is there to be written, which would tell.
            () = &mut reader_gone, if !run.gone => {
                run.gone = true;
                interrupt(&commands).await;
            }
            outcome = signals.next() => {
                if stopped.replace(outcome).is_some() {
                    // Asked twice: at once.
                    return outcome;
                }
                interrupt(&commands).await;
            }
        }
    }
    drop(commands);
    drop(updates);
    let _ = task.await;
    match stopped {
        Some(outcome) => outcome,
        None if run.gone => Outcome::OutputGone,
        None if run.misconfigured => Outcome::Misconfigured,
        None if run.failed => Outcome::Failed,
        None => Outcome::Done,
    }
}

/// Ends when nobody can read any more what is written to `out`.
async fn reader_gone(out: io::Result<OwnedFd>) {
    let (tell, told) = oneshot::channel();
    // A thread that only waits, and goes with the process. The runtime's own watch would make the pipe non-blocking for
    // everybody who has it.
    std::thread::spawn(move || {
        let Ok(out) = out else { return };
        let mut watched = [PollFd::new(&out, PollFlags::empty())];
        loop {
            match poll(&mut watched, None) {
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
        if watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            // Where the run is over, nobody listens.
            let _ = tell.send(());
        }
    });
    if told.await.is_err() {
        std::future::pending().await
    }
}

async fn interrupt(commands: &mpsc::Sender<Command>) {
    let _ = commands.send(Command::Interrupt).await;
}

struct Run<O, E> {
    output: Output,
    out: O,
    err: E,
    /// `out` is a terminal.
    shown: bool,
    failed: bool,
    misconfigured: bool,
    gone: bool,
}

impl<O: Write, E: Write> Run<O, E> {
    fn take(&mut self, event: &Event) -> io::Result<()> {
        self.failed |= matches!(event, Event::Error { .. });
        self.misconfigured |= matches!(event, Event::Error { kind: ErrorKind::Config, .. });
        match self.output {
            Output::Events if !self.gone && self.shown => {
                // JSON escapes most of what a terminal obeys, but not all.
                writeln!(self.out, "{}", crate::text::visible(&serde_json::to_string(event)?))
            }
            Output::Events if !self.gone => {
                serde_json::to_writer(&mut self.out, event)?;
                self.out.write_all(b"\n")?;
                self.out.flush()
            }
            Output::Events => Ok(()),
            Output::Answer => {
                self.tell(event);
                match event {
                    Event::Result { text, .. } if !text.is_empty() && !self.gone => {
                        let text = if self.shown { Cow::from(crate::text::clean(text)) } else { Cow::from(text) };
                        let end = if text.ends_with('\n') { "" } else { "\n" };
                        write!(self.out, "{text}{end}")?;
                        self.out.flush()
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// What a person at a terminal should know beside the answer. A closed standard error is no failure.
    fn tell(&mut self, event: &Event) {
        let line = match event {
            Event::Notice { text } => format!("violin: {text}"),
            Event::Retry { attempt, delay_ms, reason } => {
                format!("violin: {reason}; try {} in {:.1} s", attempt + 1, *delay_ms as f64 / 1000.0)
            }
            Event::Error { msg, kind: ErrorKind::Limit } => format!("violin: {msg}"),
            Event::Error { msg, .. } => format!("violin: error: {msg}"),
            _ => return,
        };
        let _ = writeln!(self.err, "{}", crate::text::clean(&line));
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: Option<tokio::signal::unix::Signal>,
    terminate: Option<tokio::signal::unix::Signal>,
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        // Where no handler can be set, the signal ends the process as it always did.
        let listen = |kind| signal(kind).ok();
        Signals {
            interrupt: listen(SignalKind::interrupt()),
            terminate: listen(SignalKind::terminate()),
            hangup: listen(SignalKind::hangup()),
        }
    }

    async fn next(&mut self) -> Outcome {
        async fn of(signal: &mut Option<tokio::signal::unix::Signal>) {
            match signal {
                Some(signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
        }
        tokio::select! {
            () = of(&mut self.interrupt) => Outcome::Interrupted,
            () = of(&mut self.terminate) => Outcome::Terminated,
            () = of(&mut self.hangup) => Outcome::Terminated,
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Self {
        Signals
    }

    async fn next(&mut self) -> Outcome {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Outcome::Interrupted
    }
}
