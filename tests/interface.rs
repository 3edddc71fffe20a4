//! The interface in a real pseudo terminal, with the scripted agent of `examples/scripted.rs` behind it.
#![cfg(unix)]

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

struct Session {
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    bytes: Receiver<Vec<u8>>,
    log: Vec<u8>,
    parser: vt100::Parser,
    _home: tempfile::TempDir,
}

fn scripted() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("the target folder");
    folder.join("examples/scripted")
}

impl Session {
    fn start() -> Self {
        let size = PtySize { rows: 30, cols: 100, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).expect("a pseudo terminal");
        let home = tempfile::tempdir().expect("a folder");
        let mut command = CommandBuilder::new(scripted());
        command.env("VIOLIN_HOME", home.path());
        command.env("TERM", "xterm-256color");
        command.env_remove("NO_COLOR");
        command.env_remove("TMUX");
        command.env_remove("DISPLAY");
        command.env_remove("WAYLAND_DISPLAY");
        command.cwd(home.path());
        let child = pair.slave.spawn_command(command).expect("starts");
        let mut reader = pair.master.try_clone_reader().expect("a reader");
        let writer = pair.master.take_writer().expect("a writer");
        let (sender, bytes) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let parser = vt100::Parser::new(30, 100, 0);
        let mut session = Session { master: pair.master, writer, child, bytes, log: Vec::new(), parser, _home: home };
        session.until("the prompt", |screen| screen.contains("bench/mock") && screen.contains("> "));
        session
    }

    fn screen(&self) -> String {
        self.parser.screen().contents()
    }

    /// Waits for a condition of the screen.
    fn until(&mut self, what: &str, holds: impl Fn(&str) -> bool) {
        let limit = Instant::now() + Duration::from_secs(20);
        while !holds(&self.screen()) {
            let left = limit.saturating_duration_since(Instant::now());
            match self.bytes.recv_timeout(left) {
                Ok(bytes) => {
                    self.parser.process(&bytes);
                    self.log.extend_from_slice(&bytes);
                }
                Err(_) => panic!("{what} never came:\n{}", self.screen()),
            }
        }
    }

    fn send(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).expect("written");
        self.writer.flush().expect("written");
    }

    /// Waits for the end; all that was written.
    fn end(mut self) -> (u32, String) {
        let status = self.child.wait().expect("ends");
        // The reader ends with the terminal; what it had is still to come.
        drop(self.writer);
        drop(self.master);
        while let Ok(bytes) = self.bytes.recv_timeout(Duration::from_secs(5)) {
            self.log.extend_from_slice(&bytes);
        }
        (status.exit_code(), String::from_utf8_lossy(&self.log).into_owned())
    }
}

fn at(log: &str, what: &str) -> usize {
    log.find(what).unwrap_or_else(|| panic!("{what:?} is missing in {log:?}"))
}

fn given_back(log: &str) {
    assert!(at(log, "\x1b[?1049h") < at(log, "\x1b[>5u"), "flags are pushed on the alternate screen");
    assert!(at(log, "\x1b[<u") < at(log, "\x1b[?1049l"), "and popped before it is left");
    for switch in ["?2004", "?1004", "?1000", "?1002", "?1006", "?2026"] {
        let (on, off) = (format!("\x1b[{switch}h"), format!("\x1b[{switch}l"));
        assert!(log.rfind(&on).is_none_or(|on| log.rfind(&off).is_some_and(|off| on < off)), "{switch} stays on");
    }
    assert!(log.rfind("\x1b[?25h") > log.rfind("\x1b[?25l"), "the cursor stays hidden");
}

#[test]
fn quitting_gives_the_terminal_back() {
    let mut session = Session::start();
    let cooked = |session: &Session| session.master.get_termios().expect("modes").local_flags.bits();
    let raw = cooked(&session);
    session.send("\x04");
    let limit = Instant::now() + Duration::from_secs(10);
    while session.child.try_wait().expect("status").is_none() && Instant::now() < limit {
        std::thread::yield_now();
    }
    assert_ne!(cooked(&session), raw, "the modes are back");
    let (code, log) = session.end();
    assert_eq!(code, 0);
    given_back(&log);
}

#[test]
fn signals_give_the_terminal_back() {
    for signal in [Signal::TERM, Signal::HUP] {
        let mut session = Session::start();
        let pid = session.child.process_id().and_then(|id| Pid::from_raw(id as i32)).expect("an id");
        kill_process(pid, signal).expect("sent");
        session.until("the end", |screen| screen.contains("signal: Some"));
        let (_, log) = session.end();
        given_back(&log);
    }
}

#[test]
fn a_message_goes_out_and_its_answer_comes_in() {
    let mut session = Session::start();
    session.send("fix the cart");
    session.until("the text", |screen| screen.contains("> fix the cart"));
    session.send("\r");
    session.until("the answer", |screen| screen.contains("The test passes now."));
    let screen = session.screen();
    assert!(screen.contains("edit   src/cart.rs") && screen.contains("never below zero"), "{screen}");
    session.send("\x04");
    let (_, log) = session.end();
    assert_eq!(log.matches("\x1b[?2026h").count() + 1, log.matches("\x1b[?2026l").count(), "frames are whole");
}

#[test]
fn escape_interrupts_and_what_was_queued_comes_back() {
    let mut session = Session::start();
    session.send("text 100000 200");
    session.until("the text", |screen| screen.contains("> text 100000 200"));
    session.send("\r");
    session.until("the run", |screen| screen.contains("writing"));
    session.send("and then");
    session.until("the text", |screen| screen.contains("> and then"));
    session.send("\t");
    session.until("the queue", |screen| screen.contains("1 queued"));
    session.send("\x1b");
    session.until("the interruption", |screen| screen.contains("interrupted") && screen.contains("> and then"));
    session.send("\x03");
    session.until("an empty prompt", |screen| !screen.contains("and then"));
    session.send("\x04");
    session.end();
}

#[test]
fn b78_resizes_while_it_streams_do_no_harm() {
    let mut session = Session::start();
    session.send("text 100000 2000");
    session.until("the text", |screen| screen.contains("> text"));
    session.send("\r");
    session.until("the run", |screen| screen.contains("writing"));
    for (cols, rows) in [(1, 1), (2, 1), (1, 5), (80, 1), (300, 2), (40, 12), (160, 50), (100, 30)] {
        session.master.resize(PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }).expect("resized");
        std::thread::yield_now();
    }
    session.send("still here");
    session.until("the prompt", |screen| screen.contains("> still here"));
    session.send("\x03\x1b");
    session.until("the end", |screen| screen.contains("interrupted"));
    session.send("\x04");
    session.end();
}

#[test]
fn the_mouse_copies_whole_lines_through_the_terminal() {
    let mut session = Session::start();
    session.send("hello");
    session.until("the text", |screen| screen.contains("> hello"));
    session.send("\r");
    session.until("the answer", |screen| screen.contains("The test passes now."));
    let rows: Vec<String> = session.parser.screen().rows(0, 100).collect();
    let row = rows.iter().position(|row| row.contains("1. The test passes")).expect("the row") + 1;
    session.send(&format!("\x1b[<0;5;{row}M\x1b[<32;20;{row}M\x1b[<0;20;{row}m"));
    session.until("the notice", |screen| screen.contains("copied"));
    let log = String::from_utf8_lossy(&session.log).into_owned();
    // "The test passes "
    assert!(log.contains("\x1b]52;c;VGhlIHRlc3QgcGFzc2Vz"), "{log:?}");
    session.send("\x04");
    session.end();
}
