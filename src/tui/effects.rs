//! Runs effects: everything that may block goes to a thread of its own and comes back as [`Done`].

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use tokio::sync::mpsc;

use super::clipboard::{self, Clipboard, SystemClipboard};
use super::highlight::Highlighter;
use super::images;
use super::keys::Bindings;
use super::list::best;
use super::msg::{Clip, Completion, Done, Effect};
use super::prompt::history;
use super::run::{Notify, Options};
use super::sources::Sources;
use super::transcript::Tone;
use super::update::complete::MOST;
use crate::home::Home;
use crate::process;
use crate::theme::{self, Theme};
use crate::watch::{Target, Watch};

/// Runs effects.
pub struct Runner {
    home: Home,
    cwd: PathBuf,
    sources: Sources,
    notify: Notify,
    editor: Option<String>,
    done: mpsc::Sender<Done>,
    highlighter: Highlighter,
    files: Arc<Mutex<Option<Listing>>>,
    clipboard: Arc<Mutex<SystemClipboard>>,
    watch: Option<Watch>,
    /// How many searches in sessions were begun: only the newest goes on.
    searches: Arc<AtomicU64>,
}

/// The project's files, and when they were listed.
#[derive(Clone)]
struct Listing {
    at: Instant,
    files: Arc<Vec<String>>,
}

/// A listing is taken anew when it is older than this.
const STALE: Duration = Duration::from_secs(5);
/// Files that are listed at most.
const FILES: usize = 400_000;
/// More than this does not go through a terminal's clipboard.
const OSC52: usize = 100_000;

impl Runner {
    /// One for these options.
    pub fn new(options: &Options, done: mpsc::Sender<Done>) -> Self {
        Runner {
            home: options.home.clone(),
            cwd: options.cwd.clone(),
            sources: options.sources.clone(),
            notify: options.notify,
            editor: options.editor.clone(),
            done,
            highlighter: Highlighter::new(),
            files: Arc::default(),
            clipboard: Arc::default(),
            watch: None,
            searches: Arc::default(),
        }
    }

    /// Begins to watch themes, bindings and models, and reads the bindings.
    pub fn watch(&mut self) {
        self.bindings();
        let targets = [
            Target::Folder(self.home.file("themes")),
            Target::File(self.home.agent("keybindings.json")),
            Target::File(self.home.agent("models.json")),
        ];
        if !targets.iter().any(|target| match target {
            Target::Folder(path) => path.is_dir(),
            Target::File(path) => path.parent().is_some_and(Path::is_dir),
        }) {
            return;
        }
        let done = self.done.clone();
        let watch = Watch::start(&targets, move |path| {
            let _ = done.blocking_send(Done::Changed(path.to_owned()));
        });
        match watch {
            Ok(watch) => self.watch = Some(watch),
            Err(error) => tracing::debug!(%error, "files are not watched"),
        }
    }

    fn bindings(&self) {
        let path = self.home.agent("keybindings.json");
        self.spawn(move || {
            let source = match crate::home::read_text(&path, 1 << 20) {
                Ok(source) => source,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => "{}".to_owned(),
                Err(error) => {
                    let text = format!("keybindings.json cannot be read ({error}); the bindings stay as they are");
                    return Some(Done::Toast(text, Tone::Error));
                }
            };
            Some(match Bindings::parse(&source) {
                Ok((bindings, problems)) => Done::Bindings(Box::new(bindings), problems),
                Err(error) => Done::Toast(error, Tone::Error),
            })
        });
    }

    fn spawn(&self, work: impl FnOnce() -> Option<Done> + Send + 'static) {
        let done = self.done.clone();
        tokio::task::spawn_blocking(move || {
            if let Some(brought) = work() {
                // A loop that ended takes nothing more.
                let _ = done.blocking_send(brought);
            }
        });
    }

    /// Runs one.
    pub fn run(&mut self, effect: Effect) {
        let sources = self.sources.clone();
        match effect {
            Effect::Models => self.spawn(move || Some(Done::Models((sources.models)()))),
            Effect::Sessions(scope) => {
                let done = self.done.clone();
                self.spawn(move || {
                    let rows = (sources.sessions)(scope);
                    let counted = rows.iter().all(|row| row.messages.is_some());
                    let _ = done.blocking_send(Done::Sessions(scope, rows));
                    (!counted).then(|| Done::Sessions(scope, (sources.counted_sessions)(scope)))
                });
            }
            Effect::SearchSessions(scope, query) => {
                // A search that is not wanted any more stops by itself.
                let (searches, own) = (self.searches.clone(), self.searches.fetch_add(1, Ordering::Relaxed) + 1);
                self.spawn(move || {
                    let stop = move || searches.load(Ordering::Relaxed) != own;
                    let found = (sources.search_sessions)(scope, &query, &stop);
                    (!stop()).then_some(Done::Found(query, found))
                });
            }
            Effect::Extras => self.spawn(move || Some(Done::Extras((sources.extras)()))),
            Effect::History => {
                let (path, cwd) = (self.home.file("history.jsonl"), self.cwd.clone());
                self.spawn(move || Some(Done::History(history::read(&path, &cwd))));
            }
            Effect::Remember(text) => {
                let (path, cwd) = (self.home.file("history.jsonl"), self.cwd.clone());
                self.spawn(move || {
                    let error = history::append(&path, &cwd, &text).err()?;
                    Some(Done::Toast(format!("the history is not kept: {error}"), Tone::Warning))
                });
            }
            Effect::Match { query, version, how } => self.complete(query, version, how),
            Effect::Edit(text) => {
                let editor = self.editor.clone();
                self.spawn(move || Some(Done::Edited(edit(editor, &text))));
            }
            Effect::Paste => {
                let clipboard = self.clipboard.clone();
                self.spawn(move || Some(Done::Pasted(paste(&clipboard))));
            }
            Effect::Attach(path, text) => self.spawn(move || Some(Done::Attached(images::read(&path), text))),
            Effect::Highlight(wanted) => {
                let done = self.done.clone();
                self.highlighter.ask(wanted, move |coloured| {
                    let _ = done.blocking_send(Done::Coloured(coloured));
                });
            }
            Effect::Theme(name) => {
                let folder = self.home.file("themes");
                self.spawn(move || Some(Done::Theme(Theme::load(&name, &folder).map(Box::new))));
            }
            Effect::Themes => {
                let folder = self.home.file("themes");
                self.spawn(move || Some(Done::Themes(theme::names(&folder))));
            }
            Effect::Git => {
                let cwd = self.cwd.clone();
                self.spawn(move || {
                    let (branch, changed) = git(&cwd)?;
                    Some(Done::Git(branch, changed))
                });
            }
            Effect::Expand(kind, name, argument, delivery) => {
                self.spawn(move || Some(Done::Expanded((sources.expand)(kind, &name, &argument), delivery)));
            }
            Effect::Save(key, value) => self.spawn(move || {
                let error = (sources.save_setting)(key, &value).err()?;
                Some(Done::Toast(format!("`{key}` was not saved: {error}"), Tone::Warning))
            }),
            Effect::Rename(path, name) => {
                self.spawn(move || Some(Done::SessionsChanged((sources.rename_session)(&path, &name))));
            }
            Effect::Delete(path) => {
                self.spawn(move || Some(Done::SessionsChanged((sources.delete_session)(&path))));
            }
            Effect::Bindings => self.bindings(),
            Effect::Plugins => self.spawn(move || Some(Done::Plugins((sources.plugins)()))),
            Effect::Plugin(act) => self.spawn(move || Some(Done::PluginActed((sources.plugin_act)(&act)))),
            Effect::Offered => self.spawn(move || {
                let (offered, failed) = (sources.offered)();
                Some(Done::Offered(offered, failed))
            }),
            Effect::AddModel(provider, id) => self.spawn(move || {
                Some(match (sources.add_model)(&provider, &id) {
                    Ok(()) => Done::Added(format!("{provider}/{id}")),
                    Err(error) => Done::Toast(error, Tone::Error),
                })
            }),
            Effect::WriteModels => self.spawn(move || {
                Some(match (sources.write_models)() {
                    Ok(written) => Done::Toast(format!("written: {written}"), Tone::Quiet),
                    Err(error) => Done::Toast(error, Tone::Error),
                })
            }),
            Effect::Export(path, file) => self.spawn(move || {
                Some(match (sources.export)(&path, file.as_deref()) {
                    Ok(written) => Done::Toast(format!("written: {written}"), Tone::Quiet),
                    Err(error) => Done::Toast(error, Tone::Error),
                })
            }),
            Effect::ReadLog(path) => self.spawn(move || {
                let text = read_log(&path);
                Some(Done::Log(path, text))
            }),
            // The loop itself runs these.
            Effect::Command(_)
            | Effect::Quit
            | Effect::Suspend
            | Effect::Repaint
            | Effect::Copy(_)
            | Effect::CopyThroughTerminal(_)
            | Effect::Notify(_)
            | Effect::Mouse(_)
            | Effect::Title(_) => {}
        }
    }

    /// The bytes that tell the person something through the terminal.
    pub fn notification(&self, text: &str) -> String {
        let text = crate::text::visible(text);
        match self.notify {
            Notify::Bell => "\x07".to_owned(),
            Notify::Desktop => format!("\x1b]9;violin: {text}\x07"),
            Notify::Off => String::new(),
        }
    }

    /// Copies a text; the bytes that must go to the terminal for it.
    pub fn copy(&self, text: &str) -> String {
        let remote = ["SSH_TTY", "SSH_CONNECTION"].iter().any(|name| std::env::var_os(name).is_some());
        let display = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
        let chars = text.chars().count();
        if !remote && (display || cfg!(target_os = "macos")) {
            let (clipboard, text) = (self.clipboard.clone(), text.to_owned());
            self.spawn(move || {
                let wanted = text.clone();
                let result = clipboard::ask(&clipboard, move |clipboard| clipboard.set_text(&wanted));
                Some(match result {
                    Ok(()) => Done::Toast(format!("copied {chars} characters"), Tone::Quiet),
                    Err(error) => Done::Uncopied(text, error),
                })
            });
            return String::new();
        }
        self.copy_through_terminal(text)
    }

    /// The bytes that ask the terminal to put a text into its clipboard.
    pub fn copy_through_terminal(&self, text: &str) -> String {
        let chars = text.chars().count();
        let sent = text.len() <= OSC52;
        let done = self.done.clone();
        let words = if sent {
            format!("copied {chars} characters through the terminal")
        } else {
            "too much for the terminal's clipboard".to_owned()
        };
        let _ = done.try_send(Done::Toast(words, if sent { Tone::Quiet } else { Tone::Warning }));
        if sent { osc52(text, std::env::var_os("TMUX").is_some()) } else { String::new() }
    }

    fn complete(&self, query: String, version: u64, how: Completion) {
        let (cwd, files) = (self.cwd.clone(), self.files.clone());
        self.spawn(move || {
            let items = match how {
                Completion::Path => paths(&cwd, &query),
                Completion::Project => {
                    let kept = files.lock().ok().and_then(|kept| kept.clone());
                    let listing = match kept.filter(|listing| listing.at.elapsed() < STALE) {
                        Some(listing) => listing,
                        None => {
                            let listing = Listing { at: Instant::now(), files: Arc::new(list(&cwd)) };
                            if let Ok(mut kept) = files.lock() {
                                *kept = Some(listing.clone());
                            }
                            listing
                        }
                    };
                    matches(&listing.files, &query)
                }
            };
            Some(Done::Matches { version, items })
        });
    }
}

/// The sequence that puts a text into the terminal's clipboard; tmux must be told to pass it on.
fn osc52(text: &str, tmux: bool) -> String {
    let data = base64::engine::general_purpose::STANDARD.encode(text);
    let plain = format!("\x1b]52;c;{data}\x07");
    if tmux { format!("{plain}\x1bPtmux;\x1b{plain}\x1b\\") } else { plain }
}

fn matches(files: &[String], query: &str) -> Vec<String> {
    if query.is_empty() {
        let mut shallow: Vec<&String> = files.iter().collect();
        shallow.sort_by_key(|path| path.matches('/').count());
        return shallow.into_iter().take(MOST).cloned().collect();
    }
    best(query, files.iter().map(String::as_str)).into_iter().take(MOST).map(|index| files[index].clone()).collect()
}

/// The project's files and folders; what git ignores is left out.
fn list(cwd: &Path) -> Vec<String> {
    let walk = ignore::WalkBuilder::new(cwd)
        .hidden(false)
        .require_git(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    let mut files = Vec::new();
    for entry in walk.flatten().skip(1) {
        let Ok(path) = entry.path().strip_prefix(cwd) else { continue };
        // A name that is no text cannot be typed either.
        let Some(path) = path.to_str() else { continue };
        let folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        files.push(if folder { format!("{path}/") } else { path.to_owned() });
        if files.len() >= FILES {
            break;
        }
    }
    files
}

/// What a path that is half typed can become.
fn paths(cwd: &Path, typed: &str) -> Vec<String> {
    let (folder, start) = typed.rfind('/').map_or(("", typed), |at| typed.split_at(at + 1));
    let real = match folder.strip_prefix("~/") {
        Some(rest) => std::env::home_dir().unwrap_or_default().join(rest),
        None => cwd.join(folder),
    };
    let Ok(entries) = std::fs::read_dir(real) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let shown = name.starts_with(start) && (start.starts_with('.') || !name.starts_with('.'));
            let folder = if entry.path().is_dir() { "/" } else { "" };
            shown.then(|| format!("{name}{folder}"))
        })
        .collect();
    names.sort();
    names.truncate(MOST);
    names.into_iter().map(|name| format!("{folder}{name}")).collect()
}

fn edit(editor: Option<String>, text: &str) -> Result<String, String> {
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let command = editor.or_else(|| env("VISUAL")).or_else(|| env("EDITOR")).unwrap_or_else(|| "nano".to_owned());
    let words = shlex::split(&command).filter(|words| !words.is_empty()).ok_or("the editor's command does not read")?;
    let file = tempfile::Builder::new().prefix("violin-prompt-").suffix(".md").tempfile().map_err(|e| e.to_string())?;
    std::fs::write(file.path(), text).map_err(|error| error.to_string())?;
    let status = std::process::Command::new(&words[0]).args(&words[1..]).arg(file.path()).status();
    match status {
        Ok(status) if status.success() => std::fs::read_to_string(file.path()).map_err(|error| error.to_string()),
        Ok(status) => Err(format!("`{command}` ended with {status}; the prompt is as it was")),
        Err(error) => Err(format!("`{command}`: {error}")),
    }
}

/// What a clipboard holds: an image before a text.
fn paste(clipboard: &Arc<Mutex<impl Clipboard + Send + 'static>>) -> Result<Clip, String> {
    // Only what the clipboard itself takes counts against its patience.
    let (text, image) = clipboard::ask(clipboard, |clipboard| {
        let image = clipboard.image();
        if matches!(image, Ok(Some(_))) {
            return Ok((None, image));
        }
        // Some owners answer the question for an image with what is none: no reason to do without their text.
        Ok((clipboard.text()?, image))
    })?;
    match (text, image) {
        (_, Ok(Some(pixels))) => images::of_pixels(pixels.width, pixels.height, pixels.rgba).map(Clip::Image),
        (Some(text), _) if !text.is_empty() => Ok(Clip::Text(text)),
        (_, Err(error)) => Err(error),
        (_, Ok(_)) => Err("the clipboard holds neither an image nor a text".to_owned()),
    }
}

fn git(cwd: &Path) -> Option<(Option<String>, usize)> {
    let mut command = std::process::Command::new("git");
    command
        .args([
            "-c",
            "core.fsmonitor=false",
            "--no-optional-locks",
            "status",
            "--porcelain",
            "--branch",
            "--ignore-submodules=all",
        ])
        .current_dir(cwd)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null());
    let output = process::spawn(&mut command).ok()?.wait_with_output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let head = lines.next()?.strip_prefix("## ")?;
    let head = head.strip_prefix("No commits yet on ").unwrap_or(head);
    let branch = head.split("...").next().unwrap_or(head).to_owned();
    Some((Some(branch), lines.count()))
}

/// Outputs that are shown whole; of longer ones the end.
const LOG: u64 = 8 * 1024 * 1024;

fn read_log(path: &Path) -> Result<String, String> {
    use std::io::{Read, Seek, SeekFrom};
    let read = || -> std::io::Result<String> {
        let mut file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::clipboard::Pixels;
    use super::*;

    fn held<C: Clipboard>(clipboard: C) -> Arc<Mutex<C>> {
        Arc::new(Mutex::new(clipboard))
    }

    struct Fake(Option<Pixels>, Option<String>);

    impl Clipboard for Fake {
        fn text(&mut self) -> Result<Option<String>, String> {
            Ok(self.1.clone())
        }
        fn image(&mut self) -> Result<Option<Pixels>, String> {
            Ok(self.0.take())
        }
        fn set_text(&mut self, _text: &str) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn an_image_comes_before_a_text() {
        let pixels = Pixels { width: 2, height: 1, rgba: vec![255; 8] };
        let clip = paste(&held(Fake(Some(pixels), Some("x".into())))).expect("reads");
        assert!(matches!(clip, Clip::Image(image) if (image.width, image.height) == (2, 1)));
        assert!(matches!(paste(&held(Fake(None, Some("x".into())))), Ok(Clip::Text(_))));
        assert!(paste(&held(Fake(None, None))).is_err());
    }

    /// What answers the question for an image with what is none.
    struct Odd(Option<String>);

    impl Clipboard for Odd {
        fn text(&mut self) -> Result<Option<String>, String> {
            Ok(self.0.clone())
        }
        fn image(&mut self) -> Result<Option<Pixels>, String> {
            Err("incorrect type".to_owned())
        }
        fn set_text(&mut self, _text: &str) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn an_image_that_cannot_be_had_does_not_hide_a_text() {
        assert!(matches!(paste(&held(Odd(Some("x".into())))), Ok(Clip::Text(_))));
        assert_eq!(paste(&held(Odd(None))).expect_err("nothing"), "incorrect type");
    }

    /// A display that is reached and does not answer, until the test is over.
    struct Silent(std::sync::mpsc::Receiver<()>);

    impl Clipboard for Silent {
        fn text(&mut self) -> Result<Option<String>, String> {
            Ok(None)
        }
        fn image(&mut self) -> Result<Option<Pixels>, String> {
            let _ = self.0.recv();
            Ok(None)
        }
        fn set_text(&mut self, _text: &str) -> Result<(), String> {
            Ok(())
        }
    }

    /// traps.md B132: silence is told too, and once it is over, the clipboard is asked again.
    #[test]
    fn a_clipboard_that_hangs_is_told_of_and_may_answer_again() {
        let (end, over) = std::sync::mpsc::channel();
        let silent = held(Silent(over));
        assert_eq!(paste(&silent).expect_err("hangs"), "the clipboard does not answer");
        drop(end);
        let copied = clipboard::ask(&silent, |clipboard| clipboard.set_text("x"));
        assert_eq!(copied, Ok(()));
    }

    /// traps.md B138.
    #[test]
    fn b138_tmux_passes_the_clipboard_on() {
        assert_eq!(osc52("hi", false), "\x1b]52;c;aGk=\x07");
        assert!(osc52("hi", true).ends_with("\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\"));
    }

    #[test]
    fn files_and_paths_are_found() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(dir.path().join("src/deep")).expect("made");
        std::fs::write(dir.path().join("src/main.rs"), "").expect("written");
        std::fs::write(dir.path().join("src/x.log"), "").expect("written");
        std::fs::write(dir.path().join(".gitignore"), "*.log\n").expect("written");
        let files = list(dir.path());
        assert!(files.contains(&"src/main.rs".to_owned()) && files.contains(&"src/deep/".to_owned()));
        assert!(!files.iter().any(|file| file.ends_with(".log")));
        assert_eq!(matches(&files, "main")[0], "src/main.rs");
        assert_eq!(paths(dir.path(), "src/m"), ["src/main.rs"]);
        assert_eq!(paths(dir.path(), "sr"), ["src/"]);
    }
}
