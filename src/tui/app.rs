//! Everything that the interface knows: one state, changed by `update` alone.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ratatui::layout::Rect;

use super::keys::Bindings;
use super::list::{List, Popup};
use super::page::{Page, PageLine};
use super::pane::Pane;
use super::prompt::Prompt;
use super::review::Reviews;
use super::sources::Extra;
use super::transcript::select::{Selection, Spot};
use super::transcript::{Look, Search, Tone, Transcript};
use crate::agent::{Activity, AgentSettings, Command, Queued};
use crate::choice::Mode;
use crate::message::Usage;
use crate::session::Tree;
use crate::theme::{Depth, Theme};

use super::msg::Effect;

/// The state.
#[derive(Debug)]
pub struct AppState {
    /// Columns and rows.
    pub size: (u16, u16),
    /// Where things were drawn, for the mouse.
    pub regions: Regions,
    /// The colours.
    pub theme: Theme,
    /// Counts changes of the theme.
    pub generation: u32,
    /// How many colours there are.
    pub depth: Depth,
    /// The theme that was asked for; `auto` follows the terminal.
    pub theme_name: String,
    /// Whether the terminal's background is dark, as far as it told.
    pub dark: bool,
    /// The key bindings.
    pub bindings: Bindings,
    /// What is wrong with those of the person's own, as it was told.
    pub binding_problems: Vec<String>,
    /// What was said and done.
    pub transcript: Transcript,
    /// What is being written.
    pub prompt: Prompt,
    /// Completions under the prompt's cursor.
    pub popup: Option<Popup>,
    /// The session.
    pub session: SessionView,
    /// What is in force.
    pub settings: AgentSettings,
    /// What the agent does.
    pub activity: Activity,
    /// How the run goes.
    pub run: Run,
    /// Messages that wait.
    pub queue: Vec<Queued>,
    /// The pane at the side.
    pub pane: Option<Pane>,
    /// What lies over everything.
    pub overlay: Option<Overlay>,
    /// What lies below it and comes back where nothing comes of it.
    pub below: Option<Overlay>,
    /// Calls that wait for an answer.
    pub reviews: Reviews,
    /// A line that tells something for a while.
    pub toast: Option<Toast>,
    /// Counts steps of the spinner.
    pub tick: u32,
    /// When the message that is being worked on came.
    pub now: Instant,
    /// What is selected with the mouse.
    pub selection: Option<Selection>,
    /// What the mouse is doing.
    pub mouse: Mouse,
    /// A search in the transcript.
    pub search: Option<Search>,
    /// Skills, templates and commands of plugins.
    pub extras: Vec<Extra>,
    /// The repository's branch and how many files changed.
    pub git: (Option<String>, usize),
    /// The directory.
    pub cwd: PathBuf,
    /// The directory for people.
    pub place: String,
    /// Where the person's themes stand.
    pub themes: PathBuf,
    /// Whether the window has the person's attention, where the terminal tells.
    pub focused: Option<bool>,
    /// Whether the mouse is ours.
    pub mouse_on: bool,
    /// When Ctrl+C was last pressed on an empty prompt.
    pub quit_armed: Option<Instant>,
    /// When Esc was last pressed on an empty prompt.
    pub escape_armed: Option<Instant>,
    /// A continuation in the tree that waits to know what would change.
    pub pending: Option<super::update::tree::Pending>,
    /// Whether something must be drawn.
    pub dirty: bool,
}

/// The session as the interface needs it.
#[derive(Debug, Default)]
pub struct SessionView {
    /// Its id.
    pub id: String,
    /// Its file.
    pub path: Option<PathBuf>,
    /// Its entries.
    pub tree: Tree,
    /// All that it has used.
    pub usage: Usage,
}

/// How a run goes.
#[derive(Debug, Default)]
pub struct Run {
    /// When it began.
    pub since: Option<Instant>,
    /// What it does, in a word.
    pub phase: Phase,
}

/// What a run does.
#[derive(Debug, Default, Clone, PartialEq)]
pub enum Phase {
    /// It waits for the model.
    #[default]
    Waiting,
    /// The model thinks.
    Thinking,
    /// The model writes.
    Writing,
    /// Tools run.
    Tools,
    /// A failed call will be made again.
    Retry {
        /// Counted from 1.
        attempt: u32,
        /// When.
        at: Instant,
        /// Why it failed.
        reason: String,
    },
}

/// A line that tells something for a while.
#[derive(Debug, Clone)]
pub struct Toast {
    /// The text.
    pub text: String,
    /// How loud.
    pub tone: Tone,
    /// Until when.
    pub until: Instant,
}

/// What lies over everything.
#[derive(Debug)]
pub enum Overlay {
    /// A list to choose from.
    List(Box<List>),
    /// Text to read.
    Page(Page),
    /// A line to write.
    Line(super::list::LineInput, LineFor),
    /// A question with a few answers.
    Ask(super::list::Ask),
}

/// What a line is written for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineFor {
    /// A search in the transcript.
    Search,
    /// The label of an entry.
    Label(crate::session::EntryId),
    /// The name of the session.
    Name,
    /// The name of another session.
    Rename(PathBuf),
    /// A filter of the tree pane.
    TreeFilter,
    /// Why a call is refused.
    Refusal,
}

/// What the mouse is doing.
#[derive(Debug, Default)]
pub struct Mouse {
    /// Where the button went down.
    pub down: Option<Spot>,
    /// Whether a drag goes by words, after a double click, or by lines, after a triple one.
    pub clicks: u8,
    /// When and where the last click was, and how many there were.
    pub click: Option<(Instant, u16, u16, u8)>,
}

/// Where things were drawn.
#[derive(Debug, Default, Clone, Copy)]
pub struct Regions {
    /// The whole screen.
    pub screen: Rect,
    /// The line at the top.
    pub header: Rect,
    /// The transcript.
    pub transcript: Rect,
    /// The pane at the side, or in the transcript's place.
    pub pane: Rect,
    /// What goes on.
    pub status: Rect,
    /// Messages that wait.
    pub queue: Rect,
    /// A question.
    pub review: Rect,
    /// The prompt with its border.
    pub prompt: Rect,
    /// The prompt's text.
    pub text: Rect,
    /// The line at the bottom.
    pub footer: Rect,
    /// What lies over everything.
    pub overlay: Rect,
    /// What is emptied around it.
    pub cleared: Rect,
    /// Completions.
    pub popup: Rect,
    /// The mark that leads back to the transcript's end.
    pub mark: Rect,
    /// Whether the pane stands beside the transcript.
    pub side_by_side: bool,
    /// Whether there is room for anything at all.
    pub usable: bool,
}

/// The theme that suits a terminal.
pub fn automatic(depth: Depth, dark: bool) -> &'static str {
    match (depth, dark) {
        (Depth::Ansi16, _) => "violin-16",
        (_, true) => "violin-dark",
        (_, false) => "violin-light",
    }
}

/// How long a toast stays.
const TOAST: Duration = Duration::from_secs(4);

impl AppState {
    /// The state before anything came.
    pub fn new(size: (u16, u16), cwd: PathBuf, themes: PathBuf, depth: Depth, theme_name: &str, dark: bool) -> Self {
        let built_in = if theme_name == "auto" { automatic(depth, dark) } else { theme_name };
        AppState {
            size,
            regions: Regions::default(),
            theme: Theme::built_in(built_in).at_depth(depth),
            generation: 0,
            depth,
            theme_name: theme_name.to_owned(),
            dark,
            bindings: Bindings::default(),
            binding_problems: Vec::new(),
            transcript: Transcript::default(),
            prompt: Prompt::default(),
            popup: None,
            session: SessionView::default(),
            settings: AgentSettings::default(),
            activity: Activity::Idle,
            run: Run::default(),
            queue: Vec::new(),
            pane: None,
            overlay: None,
            below: None,
            reviews: Reviews::default(),
            toast: None,
            tick: 0,
            now: Instant::now(),
            selection: None,
            mouse: Mouse::default(),
            search: None,
            extras: Vec::new(),
            git: (None, 0),
            place: crate::home::tilde(&cwd),
            cwd,
            themes,
            focused: None,
            mouse_on: true,
            quit_armed: None,
            escape_armed: None,
            pending: None,
            dirty: true,
        }
    }

    /// Whether something goes on that Esc would interrupt.
    pub fn is_busy(&self) -> bool {
        self.activity != Activity::Idle
    }

    /// Whether something moves by itself.
    pub fn moves(&self) -> bool {
        self.is_busy() || self.toast.is_some()
    }

    /// What laying out the transcript needs to know.
    pub fn look(&self) -> Look<'_> {
        Look {
            theme: &self.theme,
            generation: self.generation,
            width: self.regions.transcript.width,
            tick: self.tick,
            now: self.now,
        }
    }

    /// Tells something for a while.
    pub fn tell(&mut self, text: impl Into<String>, tone: Tone) {
        let text = crate::text::visible(crate::text::first_line(&text.into()));
        self.toast = Some(Toast { text, tone, until: self.now + TOAST });
        self.dirty = true;
    }

    /// Takes a theme.
    pub fn set_theme(&mut self, theme: Theme) {
        let hyperlinks = self.theme.hyperlinks;
        self.theme = theme.at_depth(self.depth);
        self.theme.hyperlinks = hyperlinks;
        self.generation += 1;
        self.dirty = true;
    }

    /// Whether the pane takes keys: the tree always, the output while nothing is being written.
    pub fn pane_has_keys(&self) -> bool {
        match &self.pane {
            Some(Pane::Tree(_)) => true,
            Some(Pane::Output(_)) => self.prompt.is_empty(),
            None => false,
        }
    }

    /// Whether the person may not see what happens now: another window has the focus, or the terminal does not
    /// tell and it took long.
    pub fn is_unseen(&self) -> bool {
        let long = self.run.since.is_some_and(|since| self.now.duration_since(since) > Duration::from_secs(15));
        self.focused.map_or(long, |focused| !focused)
    }

    /// Asks for the next mode that is entered without a question.
    pub fn next_mode(&self) -> Mode {
        match self.settings.mode {
            Mode::Plan => Mode::Ask,
            Mode::Ask => Mode::Auto,
            Mode::Auto | Mode::Yolo => Mode::Plan,
        }
    }

    /// Whether the model in force takes images; unknown counts as yes.
    pub fn takes_images(&self) -> bool {
        self.settings.model.as_ref().is_none_or(|model| model.images)
    }

    /// Opens an overlay.
    pub fn open(&mut self, overlay: Overlay) {
        self.popup = None;
        self.overlay = Some(overlay);
        self.below = None;
        self.dirty = true;
    }

    /// Opens an overlay over the one that is there, which comes back where nothing comes of the new one.
    pub fn open_over(&mut self, overlay: Overlay) {
        let below = self.overlay.take();
        self.open(overlay);
        self.below = below;
    }

    /// Opens a page of text.
    pub fn open_page(&mut self, title: impl Into<String>, rows: Vec<super::transcript::Row>) {
        self.open(Overlay::Page(Page::of_rows(title, rows)));
    }

    /// Opens a page of lines that are laid out for the width that there is.
    pub fn open_lines(&mut self, title: impl Into<String>, lines: Vec<PageLine>) {
        self.open(Overlay::Page(Page::of_lines(title, lines)));
    }

    /// Interrupts what goes on.
    pub fn interrupt(&mut self, effects: &mut Vec<Effect>) {
        self.reviews.refuse_all();
        effects.push(Effect::Command(Command::Interrupt));
    }
}
