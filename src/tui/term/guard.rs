//! Takes the terminal and gives it back: raw mode, alternate screen, keyboard flags, mouse, paste brackets.
//! What is pushed on the alternate screen is popped before it is left.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::termios::{self, OptionalActions, SpecialCodeIndex, Termios};

/// What is asked of a terminal.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Mouse reports.
    pub mouse: bool,
}

/// The terminal while it is ours; dropped, it is given back.
#[derive(Debug)]
pub struct Terminal {
    input: OwnedFd,
    shared: Arc<Shared>,
    options: Options,
}

/// What giving back needs; the panic hook holds it too.
#[derive(Debug)]
struct Shared {
    input: OwnedFd,
    output: OwnedFd,
    before: Mutex<Option<Termios>>,
    taken: AtomicBool,
}

/// Alternate screen first: keyboard flags are kept for each screen apart. 5: keys that are ambiguous
/// otherwise, and what the base layout has in their place.
/// Without wrapping: a character that is drawn wider than it was counted must not reach into the next row.
const ENTER: &str = "\x1b[?1049h\x1b[?7l\x1b[>5u\x1b[>4;1m\x1b[?2004h\x1b[?1004h\x1b[?25l";
const MOUSE: &str = "\x1b[?1000h\x1b[?1002h\x1b[?1006h";
const LEAVE: &str = "\x1b[?2026l\x1b[r\x1b[0m\x1b[?1006l\x1b[?1002l\x1b[?1000l\x1b[?1004l\x1b[?2004l\x1b[>4m\x1b[<u\x1b[?25h\x1b[?7h\x1b[?1049l";
/// Asks for the background's colour. Terminals that do not know it say nothing.
const ASK: &str = "\x1b]11;?\x1b\\";

impl Terminal {
    /// Opens the terminal without touching it.
    ///
    /// # Errors
    /// Where there is none.
    pub fn open(options: Options) -> io::Result<Self> {
        let tty = || std::fs::File::options().read(true).write(true).open("/dev/tty").map(OwnedFd::from);
        let stdin = io::stdin();
        let input = if termios::isatty(&stdin) { stdin.as_fd().try_clone_to_owned()? } else { tty()? };
        let stdout = io::stdout();
        let output = if termios::isatty(&stdout) { stdout.as_fd().try_clone_to_owned()? } else { tty()? };
        let shared =
            Shared { input: input.try_clone()?, output, before: Mutex::new(None), taken: AtomicBool::new(false) };
        Ok(Terminal { input, shared: Arc::new(shared), options })
    }

    /// Takes it.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn enter(&self) -> io::Result<()> {
        let before = termios::tcgetattr(&self.input)?;
        let mut raw = before.clone();
        raw.make_raw();
        // A read gives what is there and never waits: readiness is told by the runtime.
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        if let Ok(mut kept) = self.shared.before.lock() {
            *kept = Some(before);
        }
        self.shared.taken.store(true, Ordering::SeqCst);
        termios::tcsetattr(&self.input, OptionalActions::Now, &raw)?;
        self.write(ENTER)?;
        if self.options.mouse {
            self.write(MOUSE)?;
        }
        Ok(())
    }

    /// Asks for what helps to choose a theme; the answer comes as input.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn ask(&self) -> io::Result<()> {
        self.write(ASK)
    }

    /// Gives it back; again is no error.
    pub fn leave(&self) {
        self.shared.give_back();
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// Those of the terminal: it may be gone.
    pub fn write(&self, text: &str) -> io::Result<()> {
        self.shared.write(text)
    }

    /// Switches mouse reports, so that the terminal's own selection works while they are off.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn set_mouse(&mut self, on: bool) -> io::Result<()> {
        self.options.mouse = on;
        self.write(if on { MOUSE } else { "\x1b[?1006l\x1b[?1002l\x1b[?1000l" })
    }

    /// Columns and rows.
    pub fn size(&self) -> (u16, u16) {
        termios::tcgetwinsize(&self.shared.output).map_or((80, 24), |size| (size.ws_col, size.ws_row))
    }

    /// What keys are read from.
    pub fn input(&self) -> &OwnedFd {
        &self.input
    }

    /// Whether this process may use it now: not after `bg`.
    pub fn in_foreground(&self) -> bool {
        termios::tcgetpgrp(&self.input).is_ok_and(|group| group == rustix::process::getpgrp())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Shared {
    fn write(&self, text: &str) -> io::Result<()> {
        let mut bytes = text.as_bytes();
        while !bytes.is_empty() {
            match rustix::io::write(&self.output, bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn give_back(&self) {
        if !self.taken.swap(false, Ordering::SeqCst) {
            return;
        }
        let _ = self.write(LEAVE);
        // A panic elsewhere may have poisoned it: the terminal is given back all the same.
        let mut kept = self.before.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(before) = kept.take() {
            // Flush: what was typed meanwhile must not reach the shell.
            let _ = termios::tcsetattr(&self.input, OptionalActions::Flush, &before);
        }
    }
}

/// From now on a panic gives the terminal back before it is reported.
pub fn restore_on_panic(terminal: &Terminal) {
    let shared = terminal.shared.clone();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // A tool's or a provider's panic is an error result, and the interface stays up; its thread is not ours.
        if std::thread::current().name() == Some("main") {
            shared.give_back();
            let _ = io::stdout().flush();
            before(info);
        } else if !shared.taken.load(Ordering::SeqCst) {
            before(info);
        } else {
            tracing::error!("{info}");
        }
    }));
}
