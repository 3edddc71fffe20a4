//! The loop: takes what comes, drains it, draws when something changed, and runs effects.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ratatui::layout::Rect;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::app::{AppState, Phase};
use super::effects::Runner;
use super::msg::{Done, Effect, Msg};
use super::sources::Sources;
use super::term::{self, Decoder, Input, Painter, Terminal};
use super::transcript::{Tone, Wanted};
use super::update::{self, update};
use super::{draw, layout};
use crate::agent::{Command, Delivery, Update};
use crate::event::Event;
use crate::home::Home;
use crate::message::UserMessage;
use crate::process::while_none_starts;
use crate::theme::Depth;

/// What the interface is started with.
#[derive(Debug)]
pub struct Options {
    /// Where Violin keeps its files.
    pub home: Home,
    /// The directory.
    pub cwd: PathBuf,
    /// What is sent first.
    pub initial_prompt: Option<UserMessage>,
    /// What stands in the prompt, to be sent or changed.
    pub draft: Option<String>,
    /// What was found at the first start, a line each: the person is asked whether to write it into models.json.
    pub found: Vec<String>,
    /// Where it starts.
    pub start: Start,
    /// The theme; `None` and `auto` follow the terminal.
    pub theme: Option<String>,
    /// Whether the mouse is taken.
    pub mouse: bool,
    /// How it is told that a run ended unseen.
    pub notify: Notify,
    /// The editor, where the settings name one.
    pub editor: Option<String>,
    /// What is told first.
    pub notices: Vec<String>,
    /// What the interface asks of the rest of the program.
    pub sources: Sources,
}

/// Where the interface starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Start {
    /// At the prompt.
    #[default]
    Prompt,
    /// In the list of sessions.
    ResumePicker,
}

/// How it is told that a run ended unseen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Notify {
    /// The terminal's bell.
    #[default]
    Bell,
    /// The terminal's own notification.
    Desktop,
    /// Not at all.
    Off,
}

/// How the interface was left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exit {
    /// The session's id; empty where there is none.
    pub session_id: String,
    /// Its name, or its first words.
    pub session_name: Option<String>,
    /// Whether there is anything in it to come back to.
    pub resumable: bool,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// Why the interface could not go on.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// The terminal cannot be used, or is gone.
    #[error("the terminal: {0}")]
    Terminal(#[from] io::Error),
}

/// Least time between two frames that a key or the end of something asks for.
const FRAME: Duration = Duration::from_millis(16);
/// Least time between two frames that only more of a stream asks for.
const STREAM_FRAME: Duration = Duration::from_millis(33);
/// Between two steps of the spinner.
const TICK: Duration = Duration::from_millis(100);
/// Between two looks at whether a job in the background was brought to the front.
const BACKGROUND: Duration = Duration::from_millis(250);
/// For so long updates wait for each other in the channel once some were taken, unless a frame is due before: nothing
/// is worth waking up for that cannot be drawn yet.
const HOLD: Duration = FRAME;
/// So many updates at once are a flood: while it lasts, code is shown plain, since it will have passed by the time that
/// it could be coloured.
const FLOOD: usize = 256;
const FLOOD_LASTS: Duration = Duration::from_millis(100);
/// Updates that are taken at once.
const BATCH: usize = 4096;

/// Runs the interface until it is left.
///
/// # Errors
/// Where the terminal cannot be used.
pub async fn run(
    options: Options,
    commands: mpsc::Sender<Command>,
    mut updates: mpsc::Receiver<Update>,
) -> Result<Exit, TuiError> {
    let terminal = Terminal::open(term::Options { mouse: options.mouse })?;
    // Before the terminal is taken: a signal that comes right after must give it back.
    let mut window = signal(SignalKind::window_change())?;
    let mut resumed = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    terminal.enter()?;
    term::restore_on_panic(&terminal);
    let (done_sender, mut done) = mpsc::channel(256);
    let mut ui = Ui::new(&options, terminal, done_sender);
    // The agent begins with where it stands; the first frame has it, where that does not take long.
    let patience = tokio::time::Instant::now() + FRAME;
    while let Ok(Some(update)) = tokio::time::timeout_at(patience, updates.recv()).await {
        let last = matches!(update, Update::Settings(_));
        ui.take(Msg::Update(update));
        if last {
            break;
        }
    }
    ui.frame()?;
    ui.start(&options)?;

    #[allow(deprecated, reason = "its successor is unsafe; an owned descriptor gives the safety that it asks for")]
    let keys = AsyncFd::with_interest(ui.terminal.input().try_clone()?, tokio::io::Interest::READABLE)?;
    let mut batch = Vec::with_capacity(64);
    let mut agent_gone = false;
    loop {
        ui.now();
        if ui.frame_at().is_some_and(|at| at <= ui.app.now) {
            // What waits is drawn along.
            while batch.len() < BATCH
                && let Ok(update) = updates.try_recv()
            {
                batch.push(update);
            }
            ui.take_updates(&mut batch);
            ui.frame()?;
        }
        if let Some(exit) = ui.exit.take() {
            // The agent ends what goes on by itself when its commands end.
            return Ok(exit);
        }
        let deadline = ui.deadline();
        if deadline.is_some_and(|at| at <= ui.app.now) {
            // Under a flood of updates the clock's own branch would never come.
            ui.expired()?;
        }
        tokio::select! {
            biased;
            ready = keys.readable(), if !ui.is_away() => {
                let mut ready = ready?;
                match ui.read_input()? {
                    Took::Some => {}
                    Took::All => ready.clear_ready(),
                    Took::Nothing => {
                        if ready.ready().is_read_closed() {
                            ui.leave(Some(1));
                        }
                        ready.clear_ready();
                    }
                }
            }
            _ = window.recv() => ui.resized(),
            _ = resumed.recv() => ui.resumed()?,
            _ = terminated.recv() => ui.leave(Some(15)),
            _ = hung_up.recv() => ui.leave(Some(1)),
            _ = interrupted.recv() => ui.leave(Some(2)),
            Some(brought) = done.recv() => {
                ui.take_done(brought)?;
                while let Ok(brought) = done.try_recv() {
                    ui.take_done(brought)?;
                }
            }
            permit = commands.reserve(), if !ui.outbox.is_empty() => {
                match (permit, ui.outbox.pop_front()) {
                    (Ok(permit), Some(command)) => permit.send(command),
                    _ => ui.outbox.clear(),
                }
            }
            count = updates.recv_many(&mut batch, BATCH), if !agent_gone && !ui.holds() => {
                agent_gone = count == 0;
                ui.now();
                ui.take_updates(&mut batch);
                if agent_gone {
                    ui.app.transcript.note("the agent ended; quit and start again", Tone::Error);
                    ui.app.dirty = true;
                }
            }
            () = sleep_until(deadline), if deadline.is_some() => ui.expired()?,
        }
    }
}

/// Whether it is only more of what already streams.
fn is_stream(update: &Update) -> bool {
    matches!(
        update,
        Update::Event(Event::Delta { .. } | Event::Thinking { .. } | Event::ToolOutput { .. }) | Update::ShellOutput(_)
    )
}

async fn sleep_until(deadline: Option<Instant>) {
    if let Some(deadline) = deadline {
        tokio::time::sleep_until(deadline.into()).await;
    }
}

struct Ui {
    app: AppState,
    terminal: Terminal,
    painter: Painter,
    decoder: Decoder,
    runner: Runner,
    outbox: VecDeque<Command>,
    exit: Option<Exit>,
    /// The terminal belongs to somebody else: an editor, or the shell.
    away: Away,
    urgent: bool,
    last_frame: Instant,
    frame_cost: Duration,
    last_tick: Instant,
    escape: Option<Instant>,
    look_at: Instant,
    /// Until when updates wait for each other.
    hold: Instant,
    /// Until when a flood is taken to last.
    flood: Instant,
    /// What was drawn last was not yet asked colours for.
    plain: bool,
    wanted: Vec<Wanted>,
    title: String,
}

/// How much of what was there was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Took {
    Nothing,
    Some,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Away {
    No,
    Editor,
    Suspended,
}

impl Ui {
    fn new(options: &Options, terminal: Terminal, done: mpsc::Sender<Done>) -> Self {
        let size = terminal.size();
        let env = |name: &str| std::env::var(name).ok();
        let theme = options.theme.clone().unwrap_or_else(|| "auto".to_owned());
        // What terminals say of themselves: foreground;background, as one of 16.
        let dark = env("COLORFGBG")
            .and_then(|value| value.rsplit(';').next()?.parse::<u8>().ok())
            .is_none_or(|n| n < 7 || n == 8);
        let folder = options.home.file("themes");
        let depth = Depth::from_env(env);
        let mut app = AppState::new(size, options.cwd.clone(), folder, depth, &theme, dark);
        app.theme.hyperlinks = Depth::hyperlinks(env);
        app.mouse_on = options.mouse;
        // Read here and not later, so that the first frame has its colours; it is one small file at most.
        let name = if theme == "auto" { super::app::automatic(depth, dark) } else { &theme };
        match crate::theme::Theme::load(name, &app.themes) {
            Ok(theme) => app.set_theme(theme),
            Err(error) => app.transcript.note(error, Tone::Warning),
        }
        if let Some(draft) = &options.draft {
            app.prompt.set_text(draft);
        }
        if !options.found.is_empty() {
            update::first_start(&mut app, &options.found);
        }
        for notice in &options.notices {
            app.transcript.note(notice.clone(), Tone::Warning);
        }
        let now = Instant::now();
        Ui {
            app,
            painter: Painter::new(Rect::new(0, 0, size.0, size.1)),
            terminal,
            decoder: Decoder::default(),
            runner: Runner::new(options, done),
            outbox: VecDeque::new(),
            exit: None,
            away: Away::No,
            urgent: false,
            last_frame: now - FRAME,
            frame_cost: Duration::ZERO,
            last_tick: now,
            escape: None,
            look_at: now,
            hold: now,
            flood: now,
            plain: false,
            wanted: Vec::new(),
            title: String::new(),
        }
    }

    /// What is done after the first frame, so that nothing holds it up.
    fn start(&mut self, options: &Options) -> io::Result<()> {
        self.terminal.ask()?;
        let effects = [update::agent::title(&self.app), Effect::History, Effect::Extras, Effect::Git];
        self.runner.watch();
        for effect in effects {
            self.effect(effect);
        }
        if let Some(message) = &options.initial_prompt {
            let mut effects = Vec::new();
            update::submit::send_message(&mut self.app, message.clone(), Delivery::Steer, &mut effects);
            for effect in effects {
                self.effect(effect);
            }
        }
        if options.start == Start::ResumePicker {
            let mut effects = Vec::new();
            super::commands::resume(&mut self.app, &mut effects);
            for effect in effects {
                self.effect(effect);
            }
        }
        Ok(())
    }

    fn now(&mut self) {
        self.app.now = Instant::now();
    }

    fn holds(&self) -> bool {
        self.hold > self.app.now
    }

    fn is_away(&self) -> bool {
        self.away != Away::No
    }

    fn take(&mut self, msg: Msg) {
        for effect in update(&mut self.app, msg) {
            self.effect(effect);
        }
    }

    fn take_updates(&mut self, batch: &mut Vec<Update>) {
        if !batch.is_empty() {
            self.hold = self.app.now + HOLD;
        }
        if batch.len() >= FLOOD {
            self.flood = self.app.now + FLOOD_LASTS;
        }
        for update in batch.drain(..) {
            self.urgent |= !is_stream(&update);
            self.take(Msg::Update(update));
        }
    }

    fn take_done(&mut self, done: Done) -> io::Result<()> {
        if matches!(done, Done::Edited(_)) && self.away == Away::Editor {
            self.away = Away::No;
            self.terminal.enter()?;
            self.resized();
            self.painter.forget();
        }
        // Colours can wait for the next piece of text.
        self.urgent |= !matches!(done, Done::Coloured(_));
        self.take(Msg::Done(done));
        Ok(())
    }

    /// Reads what is there.
    fn read_input(&mut self) -> io::Result<Took> {
        let mut buffer = [0; 16 * 1024];
        let mut inputs = Vec::new();
        let mut took = Took::Nothing;
        loop {
            match rustix::io::read(self.terminal.input(), &mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    took = Took::All;
                    self.now();
                    self.decoder.feed(&buffer[..count], self.app.now, &mut inputs);
                    // Keys that come as fast as they can must not keep the rest waiting.
                    if inputs.len() > 512 {
                        took = Took::Some;
                        break;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::IO) => return Ok(Took::Nothing),
                Err(error) => return Err(error.into()),
            }
        }
        self.escape = self.decoder.patience().map(|patience| self.app.now + patience);
        self.take_inputs(inputs);
        Ok(took)
    }

    fn take_inputs(&mut self, inputs: Vec<Input>) {
        for input in inputs {
            self.urgent = true;
            self.take(Msg::Input(input));
        }
    }

    fn resized(&mut self) {
        let (width, height) = self.terminal.size();
        self.painter.resize(Rect::new(0, 0, width, height));
        // Whatever the terminal did with its cells meanwhile, the next frame is whole.
        self.painter.forget();
        self.urgent = true;
        self.take(Msg::Resize(width, height));
    }

    /// After `fg` the terminal is taken again; after `bg` it stays untouched until it is ours.
    fn resumed(&mut self) -> io::Result<()> {
        if self.away == Away::Editor || !self.terminal.in_foreground() {
            return Ok(());
        }
        self.terminal.leave();
        self.terminal.enter()?;
        self.away = Away::No;
        self.resized();
        Ok(())
    }

    fn leave(&mut self, signal: Option<i32>) {
        let tree = &self.app.session.tree;
        self.exit = Some(Exit {
            session_id: self.app.session.id.clone(),
            session_name: tree.name().map(str::to_owned),
            // What could not be saved cannot be come back to.
            resumable: !tree.is_empty() && self.app.session.path.as_deref().is_some_and(std::path::Path::exists),
            signal,
        });
    }

    /// What was waited for by the clock.
    fn expired(&mut self) -> io::Result<()> {
        self.now();
        let now = self.app.now;
        if self.away == Away::Suspended {
            self.look_at = now + BACKGROUND;
            self.resumed()?;
        }
        if self.escape.is_some_and(|at| at <= now) {
            self.escape = None;
            let mut inputs = Vec::new();
            self.decoder.expire(now, &mut inputs);
            self.take_inputs(inputs);
        }
        if self.tick_at().is_some_and(|at| at <= now) {
            self.last_tick = now;
            self.take(Msg::Tick);
        }
        self.colour_if_due();
        Ok(())
    }

    fn tick_at(&self) -> Option<Instant> {
        if self.app.is_busy() {
            // While text streams the frames come anyway.
            let pace = if self.app.run.phase == Phase::Writing { TICK * 2 } else { TICK };
            return Some(self.last_tick + pace);
        }
        self.app.toast.as_ref().map(|toast| toast.until)
    }

    fn frame_at(&self) -> Option<Instant> {
        if !self.app.dirty || self.is_away() {
            return None;
        }
        let least = if self.urgent { FRAME } else { STREAM_FRAME };
        // Where frames are dear, they take at most a quarter of the time.
        Some(self.last_frame + least.max(self.frame_cost * 4))
    }

    fn deadline(&self) -> Option<Instant> {
        // A shell that brings a running job to the front tells nobody: it has to be looked at. While the process
        // is stopped it costs nothing.
        let look = (self.away == Away::Suspended).then_some(self.look_at);
        let hold = self.holds().then_some(self.hold);
        let colour = self.plain.then_some(self.flood);
        [self.frame_at(), self.tick_at(), self.escape, look, hold, colour].into_iter().flatten().min()
    }

    fn frame(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        self.app.now = begun;
        #[cfg(debug_assertions)]
        super::fault::provoke(&self.app);
        let scrolled = layout::layout(&mut self.app);
        let app = &self.app;
        let links = draw::links(app);
        let bytes = self.painter.frame(scrolled, &links, |buffer| draw::draw(app, buffer));
        if !bytes.is_empty() {
            self.terminal.write(bytes)?;
        }
        self.app.dirty = false;
        self.urgent = false;
        self.last_frame = begun;
        self.frame_cost = begun.elapsed();
        self.plain = true;
        self.colour_if_due();
        Ok(())
    }

    /// Asks for the colours of what was drawn.
    fn colour_if_due(&mut self) {
        if !self.plain || self.flood > self.app.now {
            return;
        }
        self.plain = false;
        let mut wanted = std::mem::take(&mut self.wanted);
        self.app.transcript.wanted(&mut wanted);
        self.app.reviews.wanted(&mut wanted);
        for wanted in wanted.drain(..) {
            self.runner.run(Effect::Highlight(wanted));
        }
        self.wanted = wanted;
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Command(command) => self.outbox.push_back(command),
            Effect::Quit => self.leave(None),
            Effect::Suspend => self.suspend(),
            Effect::Repaint => self.painter.forget(),
            Effect::Edit(text) => {
                self.terminal.leave();
                self.away = Away::Editor;
                self.runner.run(Effect::Edit(text));
            }
            Effect::Mouse(on) => {
                if let Err(error) = self.terminal.set_mouse(on) {
                    tracing::debug!(%error, "the mouse could not be switched");
                }
            }
            Effect::Title(title) => {
                if *title != *self.title {
                    self.title = title.to_string();
                    self.write(&format!("\x1b]0;{title}\x07"));
                }
            }
            Effect::Notify(text) => {
                let bytes = self.runner.notification(&text);
                self.write(&bytes);
            }
            Effect::Copy(text) => {
                let bytes = self.runner.copy(&text);
                self.write(&bytes);
            }
            Effect::CopyThroughTerminal(text) => {
                let bytes = self.runner.copy_through_terminal(&text);
                self.write(&bytes);
            }
            other => self.runner.run(other),
        }
    }

    /// Writes between two frames; where the terminal is gone, the next frame tells.
    fn write(&self, bytes: &str) {
        if !bytes.is_empty()
            && self.away == Away::No
            && let Err(error) = self.terminal.write(bytes)
        {
            tracing::debug!(%error, "the terminal took no bytes");
        }
    }

    fn suspend(&mut self) {
        self.terminal.leave();
        self.away = Away::Suspended;
        self.look_at = Instant::now() + BACKGROUND;
        // The whole group stops, so that a shell that stands between us and the terminal gets it back.
        let stop = || rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
        if let Err(error) = while_none_starts(stop) {
            tracing::debug!(%error, "could not stop");
            self.away = Away::No;
            let _ = self.terminal.enter();
            self.painter.forget();
        }
    }
}
