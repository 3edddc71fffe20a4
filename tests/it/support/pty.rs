//! The real binary in a real pty, its screen parsed by a real terminal parser.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};

use super::home::TestHome;
use super::server::PATIENCE;

/// What the program has sent.
struct Sent {
    parser: vt100::Parser,
    /// Every byte, as it came.
    raw: Vec<u8>,
    closed: bool,
}

/// A terminal with the program in it.
pub struct Pty {
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    sent: Arc<(Mutex<Sent>, Condvar)>,
    /// The terminal's settings before the program began.
    before: String,
    /// Reads what the program sends, until the terminal is gone or `hung_up`.
    reader: Option<thread::JoinHandle<()>>,
    hung_up: Arc<AtomicBool>,
}

/// All of a terminal's settings, to be compared.
fn settings_of(master: &(dyn MasterPty + Send)) -> String {
    format!("{:?}", master.get_termios().expect("settings"))
}

impl Pty {
    /// Starts the binary in a terminal of 100 × 30.
    pub fn start(home: &TestHome, arguments: &[&str]) -> Self {
        Self::open(home, arguments, &[], 100, 30)
    }

    /// Starts the binary with more in its environment.
    pub fn with(home: &TestHome, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::open(home, arguments, variables, 100, 30)
    }

    /// Starts a shell with job control.
    pub fn shell(home: &TestHome) -> Self {
        Self::program("sh", home, &["-i"], &[("PS1", "ready> "), ("HISTFILE", "/dev/null")], 100, 30)
    }

    fn open(home: &TestHome, arguments: &[&str], variables: &[(&str, &str)], columns: u16, rows: u16) -> Self {
        Self::program(env!("CARGO_BIN_EXE_violin"), home, arguments, variables, columns, rows)
    }

    fn program(
        program: &str,
        home: &TestHome,
        arguments: &[&str],
        variables: &[(&str, &str)],
        columns: u16,
        rows: u16,
    ) -> Self {
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).expect("a pty");
        let before = settings_of(&*pair.master);
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.cwd(home.project());
        command.env_clear();
        for (name, value) in home.environment() {
            command.env(name, value);
        }
        for (name, value) in variables {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).expect("started");
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().expect("a reader");
        let parser = vt100::Parser::new(rows, columns, 1000);
        let sent = Arc::new((Mutex::new(Sent { parser, raw: Vec::new(), closed: false }), Condvar::new()));
        let shared = sent.clone();
        let hung_up = Arc::new(AtomicBool::new(false));
        let gone = hung_up.clone();
        let reader = thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            loop {
                let read = reader.read(&mut buffer).unwrap_or(0);
                let mut sent = lock(&shared.0);
                sent.closed = read == 0;
                sent.parser.process(&buffer[..read]);
                sent.raw.extend_from_slice(&buffer[..read]);
                shared.1.notify_all();
                if read == 0 || gone.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        let reader = Some(reader);
        let writer = pair.master.take_writer().expect("a writer");
        Pty { master: pair.master, writer, child, sent, before, reader, hung_up }
    }

    /// Types bytes.
    pub fn send(&mut self, bytes: &str) {
        self.writer.write_all(bytes.as_bytes()).and_then(|()| self.writer.flush()).expect("typed");
    }

    /// Types a line, waits until it shows, and sends it.
    pub fn enter(&mut self, line: &str) {
        self.send(line);
        let line = line.to_owned();
        self.wait(&format!("`{line}` shows"), move |screen| screen.contains(&line));
        self.send("\r");
    }

    /// The screen as text.
    pub fn screen(&self) -> String {
        lock(&self.sent.0).parser.screen().contents()
    }

    /// Every byte that the program sent.
    pub fn raw(&self) -> Vec<u8> {
        lock(&self.sent.0).raw.clone()
    }

    /// Waits until the screen is as wanted.
    pub fn wait(&self, what: &str, wanted: impl Fn(&str) -> bool) {
        let sent = lock(&self.sent.0);
        let done = |sent: &mut Sent| !wanted(&sent.parser.screen().contents()) && !sent.closed;
        let (sent, late) = self.sent.1.wait_timeout_while(sent, PATIENCE, done).expect("no panic");
        let screen = sent.parser.screen().contents();
        assert!(!late.timed_out() && wanted(&screen), "waited in vain until {what}; the screen was:\n{screen}");
    }

    /// Waits until what was sent, byte by byte, is as wanted.
    pub fn wait_sent(&self, what: &str, wanted: impl Fn(&[u8]) -> bool) {
        let sent = lock(&self.sent.0);
        let done = |sent: &mut Sent| !wanted(&sent.raw) && !sent.closed;
        let (sent, _) = self.sent.1.wait_timeout_while(sent, PATIENCE, done).expect("no panic");
        assert!(wanted(&sent.raw), "waited in vain until {what}; the screen was:\n{}", sent.parser.screen().contents());
    }

    /// Waits a moment for the screen to be as wanted; it may be too early for that.
    pub fn soon(&self, wanted: impl Fn(&str) -> bool) {
        let sent = lock(&self.sent.0);
        let done = |sent: &mut Sent| !wanted(&sent.parser.screen().contents()) && !sent.closed;
        let waited = self.sent.1.wait_timeout_while(sent, std::time::Duration::from_millis(50), done);
        assert!(!waited.expect("no panic").0.closed, "the program ended");
    }

    /// Waits until a text shows.
    pub fn wait_for(&self, text: &str) {
        self.wait(&format!("`{text}` shows"), |screen| screen.contains(text));
    }

    /// All of the terminal's settings, and those from before the program began.
    pub fn settings(&self) -> (String, String) {
        (settings_of(&*self.master), self.before.clone())
    }

    /// The characters whose background is not the terminal's own, row by row.
    pub fn marked(&self) -> Vec<String> {
        self.characters(|cell| cell.bgcolor() != vt100::Color::Default)
    }

    /// The characters that are underlined, row by row.
    pub fn underlined(&self) -> Vec<String> {
        self.characters(vt100::Cell::underline)
    }

    /// Rows and columns.
    pub fn size(&self) -> (u16, u16) {
        lock(&self.sent.0).parser.screen().size()
    }

    fn characters(&self, which: impl Fn(&vt100::Cell) -> bool) -> Vec<String> {
        let sent = lock(&self.sent.0);
        let screen = sent.parser.screen();
        let (rows, columns) = screen.size();
        let row = |y| {
            let cells = (0..columns).filter_map(|x| screen.cell(y, x)).filter(|cell| which(cell));
            // What was never written has no character.
            cells
                .map(|cell| if cell.has_contents() || cell.is_wide_continuation() { cell.contents() } else { " " })
                .collect::<String>()
        };
        (0..rows).map(row).filter(|text| !text.is_empty()).collect()
    }

    /// The terminal vanishes, as when its window is closed; how the program ended.
    pub fn vanish(mut self) -> ExitStatus {
        self.hung_up.store(true, Ordering::SeqCst);
        // The reader looks at that when something comes: a key makes the program draw.
        self.send("x");
        self.reader.take().expect("a reader").join().expect("it only reads");
        let Pty { child, master, writer, .. } = &mut self;
        *writer = Box::new(std::io::sink());
        *master = native_pty_system().openpty(PtySize::default()).expect("a pty").master;
        let begun = std::time::Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("a status") {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "it goes on without a terminal");
            thread::yield_now();
        }
    }

    /// Whether the program runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a status").is_none()
    }

    /// Changes the terminal's size.
    pub fn resize(&self, columns: u16, rows: u16) {
        // The parser panics where something wraps in a single row or a wide character comes into a single column, as
        // what was on its way when the size changed may.
        lock(&self.sent.0).parser.screen_mut().set_size(rows.max(2), columns.max(2));
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        self.master.resize(size).expect("resized");
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.process_id().expect("it runs")
    }

    /// Waits until the program has ended: its exit status, and all that it sent.
    pub fn end(mut self) -> (ExitStatus, Vec<u8>) {
        let status = self.child.wait().expect("it ends");
        let sent = lock(&self.sent.0);
        let open = |sent: &mut Sent| !sent.closed;
        let (sent, _) = self.sent.1.wait_timeout_while(sent, PATIENCE, open).expect("no panic");
        (status, sent.raw.clone())
    }
}

/// A test that fails while it holds the lock must not hide its own words behind another panic.
fn lock(sent: &Mutex<Sent>) -> MutexGuard<'_, Sent> {
    sent.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}
