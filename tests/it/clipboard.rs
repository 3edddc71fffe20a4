//! The clipboard of a real X server, where this machine has one to start: Xvfb, and xclip as the other program.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;

use crate::support::home::TestHome;
use crate::support::pty::Pty;
use crate::support::server::{PATIENCE, Server, Step};
use crate::support::wire::Api;

/// A display of the test's own, ended with it.
struct Display {
    server: Child,
    name: String,
    /// What was put into its clipboard, which lasts as long as who put it there.
    owners: Vec<Child>,
}

impl Display {
    /// `None`, and told, where there is nothing to start.
    fn start() -> Option<Self> {
        let there = |program: &str| Command::new(program).arg("-version").stderr(Stdio::null()).output().is_ok();
        if !there("Xvfb") || !there("xclip") {
            println!("1 test of the clipboard skipped: it needs Xvfb and xclip");
            return None;
        }
        let mut command = Command::new("Xvfb");
        command.args(["-displayfd", "1", "-screen", "0", "640x480x24", "-nolisten", "tcp"]);
        let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
        let mut name = String::new();
        BufReader::new(server.stdout.take().expect("piped")).read_line(&mut name).expect("readable");
        let display = Display { server, name: format!(":{}", name.trim()), owners: Vec::new() };
        if name.trim().is_empty() {
            println!("1 test of the clipboard skipped: Xvfb does not start here");
            return None;
        }
        Some(display)
    }

    fn xclip(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("xclip");
        command.env("DISPLAY", &self.name).args(["-selection", "clipboard"]).args(arguments);
        command
    }

    fn put(&mut self, kind: &[&str], bytes: &[u8]) {
        let mut command = self.xclip(&[&["-quiet", "-i"], kind].concat());
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
        child.stdin.take().expect("piped").write_all(bytes).expect("taken");
        self.owners.push(child);
        self.until("it is there", kind, |held| held == bytes);
    }

    /// Waits until the clipboard holds what is wanted.
    fn until(&self, what: &str, kind: &[&str], wanted: impl Fn(&[u8]) -> bool) {
        let begun = std::time::Instant::now();
        loop {
            let output = self.xclip(&[&["-o"], kind].concat()).output().expect("run");
            if wanted(&output.stdout) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}: {:?}", output.stdout);
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        for child in self.owners.iter_mut().chain([&mut self.server]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One red pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

#[test]
fn images_and_texts_are_pasted_and_answers_copied() {
    let Some(mut display) = Display::start() else { return };
    let server = Server::scripted([Step::stream(Api::Chat.answer("A red pixel 赤.", &[]))]);
    let home = TestHome::new(&server, Api::Chat);
    let png = base64::engine::general_purpose::STANDARD.decode(PIXEL).expect("base64");
    let mut pty = Pty::with(&home, &[], &[("DISPLAY", &display.name)]);
    pty.wait_for("F1 help");
    display.put(&["-t", "image/png"], &png);
    pty.send("\x16");
    pty.wait_for("[image #1 1×1]");
    // xclip answers the question for an image with its text.
    display.put(&[], "what is 何".as_bytes());
    pty.send("\x16");
    pty.wait_for("what is 何");
    pty.send("\r");
    pty.wait_for("A red pixel");
    pty.wait_for("[image PNG 1×1");
    let parts =
        server.asked()[0].body["messages"].as_array().expect("messages").last().expect("one")["content"].clone();
    assert!(parts.to_string().contains("data:image/png;base64,"), "{parts}");
    pty.send("\x1bc");
    pty.wait_for("copied 14 characters");
    display.until("the answer is there", &[], |held| held == "A red pixel 赤.".as_bytes());
    pty.send("\x04");
    assert!(pty.end().0.success());
}

/// A display that is named and not there, as in a multiplexer that outlived it.
#[test]
fn without_the_display_that_is_named_the_terminal_takes_the_text() {
    let server = Server::scripted([Step::stream(Api::Chat.answer("An answer.", &[]))]);
    let home = TestHome::new(&server, Api::Chat);
    let mut pty = Pty::with(&home, &[], &[("DISPLAY", ":4242")]);
    pty.wait_for("F1 help");
    pty.enter("go");
    pty.wait_for("An answer.");
    pty.send("\x1bc");
    pty.wait_for("through the terminal");
    let log = String::from_utf8_lossy(&pty.raw()).into_owned();
    assert!(log.contains("\x1b]52;c;QW4gYW5zd2VyLg=="), "{log:?}");
    pty.send("\x16");
    pty.wait_for("there is no clipboard here");
    pty.send("\x04");
    assert!(pty.end().0.success());
}
