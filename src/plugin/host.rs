//! The plugins that there are: loaded, reloaded when their files change, switched, granted, listed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::find::{Source, find};
use super::grants::{Grants, Permission};
use super::hooks::Hook;
use super::shared::{Origin, Shared, State, Told, World, words};
use super::worker::{self, Fault, Message, Seed, Work};
use crate::home::Home;
use crate::watch::{Target, Watch};

/// What waits for a plugin's thread. A plugin that lags so many events behind is switched off.
const MESSAGES: usize = 4096;

/// How often who waits looks whether the thread still moves.
const LOOK: Duration = Duration::from_millis(500);

/// Loading takes at most the limit of a call; a little longer is waited.
const LOADING: Duration = Duration::from_secs(12);

/// At the end, plugins get so long to hear the last events.
const HEARING: Duration = Duration::from_secs(2);

/// And their running commands so long to end.
const LAST: Duration = Duration::from_secs(4);

/// Editors write a file in several steps.
const SETTLE: Duration = Duration::from_millis(100);

/// A plugin and the way to its thread.
#[derive(Debug)]
pub(super) struct Plugin {
    pub(super) shared: Arc<Shared>,
    messages: mpsc::Sender<Message>,
}

/// What a list of plugins shows.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginRow {
    /// Its name.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Whose it is.
    pub origin: Origin,
    /// Its version.
    pub version: String,
    /// What it does.
    pub description: String,
    /// Whether it takes part.
    pub state: State,
    /// What it listens to.
    pub hooks: Vec<&'static str>,
    /// What it asks for.
    pub permissions: Vec<Permission>,
    /// Its tools.
    pub tools: Vec<String>,
    /// Its commands.
    pub commands: Vec<String>,
    /// How often it was called.
    pub calls: u64,
    /// How long that took.
    pub time: Duration,
    /// What went wrong last.
    pub last_error: Option<String>,
}

/// The plugins. Cheap to hold many times; without a plugin file it starts no thread and costs nothing.
#[derive(Debug)]
pub struct Host {
    home: Home,
    world: Arc<Mutex<World>>,
    plugins: Mutex<Vec<Arc<Plugin>>>,
    /// Whether a plugin has `on_event`, so that a delta costs nothing where none has.
    listens: AtomicBool,
    changes: Arc<watch::Sender<u64>>,
    told: Arc<Told>,
    watch: Mutex<Option<Watch>>,
    cancel: CancellationToken,
    /// Where their commands run: the runtime of who loads first, which is the agent.
    runtime: OnceLock<Handle>,
}

impl Host {
    /// A host without plugins yet.
    pub fn new(home: Home) -> Arc<Self> {
        Arc::new(Host {
            home,
            world: Arc::default(),
            plugins: Mutex::default(),
            listens: AtomicBool::new(false),
            changes: Arc::new(watch::Sender::new(0)),
            told: Arc::default(),
            watch: Mutex::default(),
            cancel: CancellationToken::new(),
            runtime: OnceLock::new(),
        })
    }

    /// What plugins tell the person.
    pub fn told(&self) -> &Told {
        &self.told
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Plugin>>> {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn all(&self) -> Vec<Arc<Plugin>> {
        self.lock().clone()
    }

    /// Those that take part in a moment, in order.
    pub(super) fn with(&self, hook: Hook) -> Vec<Arc<Plugin>> {
        let takes_part = |plugin: &&Arc<Plugin>| {
            let facts = plugin.shared.facts();
            facts.state == State::Active && facts.info.hooks.contains(&hook)
        };
        self.lock().iter().filter(takes_part).cloned().collect()
    }

    /// Where plugins run from here on.
    pub fn enter(&self, world: World) {
        *self.world.lock().unwrap_or_else(PoisonError::into_inner) = world;
    }

    /// Looks for plugins anew: what has the same content stays as it is, the rest is loaded on threads of its own. Returns what
    /// could not be read. It must be called within a runtime.
    pub fn load(&self, cwd: &Path) -> Vec<String> {
        let (sources, notices) = find(&self.home, cwd);
        let mut plugins = self.lock();
        let mut known = std::mem::take(&mut *plugins);
        for source in sources {
            let same = known.iter().position(|plugin| {
                let shared = &plugin.shared;
                shared.hash == source.hash && shared.file == source.file && shared.origin == source.origin
            });
            let plugin = match same {
                Some(at) => known.swap_remove(at),
                None => self.start(source),
            };
            plugins.push(plugin);
        }
        drop(plugins);
        if !known.is_empty() {
            self.changed();
        }
        notices
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn runtime(&self) -> &Handle {
        self.runtime.get_or_init(Handle::current)
    }

    /// Begins to load a plugin.
    fn start(&self, source: Source) -> Arc<Plugin> {
        let Source { file, origin, path, hash, text } = source;
        let (sender, messages) = mpsc::channel(MESSAGES);
        let shared = Arc::new(Shared::new(file, origin, path, hash, self.told.clone()));
        let seed = Seed {
            shared: shared.clone(),
            text,
            messages,
            world: self.world.clone(),
            changes: self.changes.clone(),
            runtime: self.runtime().clone(),
            home: self.home.clone(),
            cancel: self.cancel.clone(),
        };
        if let Err(error) = worker::start(seed) {
            shared.fail(&format!("it has no thread: {error}"));
        }
        Arc::new(Plugin { shared, messages: sender })
    }

    /// Tells of changes of what plugins there are.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether a plugin sends something along with model calls.
    pub fn injects(&self) -> bool {
        !self.with(Hook::Context).is_empty()
    }

    /// Whether a plugin looks at results.
    pub fn looks_at_results(&self) -> bool {
        !self.with(Hook::ToolEnd).is_empty()
    }

    /// Counts the changes of what plugins there are.
    pub fn generation(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Waits until all plugins are loaded, or failed at it. Two of one name, tool or command: the later one is off.
    pub async fn ready(&self) {
        let mut changes = self.changes.subscribe();
        let loading = || self.lock().iter().any(|plugin| plugin.shared.facts().state == State::Loading);
        let loaded = async {
            while loading() {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(LOADING, loaded).await.is_err() {
            for plugin in self.all() {
                if plugin.shared.facts().state == State::Loading {
                    self.fail(&plugin, "it does not finish loading");
                }
            }
        }
        self.settle_names();
        let listens = !self.with(Hook::Event).is_empty();
        self.listens.store(listens, Ordering::Relaxed);
    }

    fn settle_names(&self) {
        if self.lock().is_empty() {
            return;
        }
        let mut names: Vec<String> = Vec::new();
        let builtin = crate::tool::builtin(&Arc::default());
        for plugin in self.all() {
            let (info, active) = {
                let facts = plugin.shared.facts();
                (facts.info.clone(), !matches!(facts.state, State::Failed | State::Loading))
            };
            if !active {
                continue;
            }
            let own = std::iter::once(format!("plugin {}", info.name))
                .chain(info.tools.iter().map(|tool| format!("tool {}", tool.name)))
                .chain(info.commands.keys().map(|name| format!("command {name}")));
            let own: Vec<String> = own.collect();
            let is_builtin = info.tools.iter().find(|tool| builtin.get(&tool.name).is_some());
            let wrong = match (is_builtin, own.iter().find(|name| names.contains(name))) {
                (Some(tool), _) => Some(format!("its tool `{}` has the name of one of Violin's own", tool.name)),
                (None, Some(name)) => Some(format!("there is another {name} already")),
                (None, None) => None,
            };
            match wrong {
                Some(wrong) => self.fail(&plugin, &wrong),
                None => names.extend(own),
            }
        }
    }

    /// Switches a plugin off that failed, and tells so.
    pub(super) fn fail(&self, plugin: &Plugin, what: &str) {
        plugin.shared.fail(what);
        self.changed();
    }

    /// Asks a plugin and waits, until it answers, `cancel` is cancelled, or its thread is given up.
    pub(super) async fn ask(
        &self,
        plugin: &Plugin,
        work: Work,
        cancel: &CancellationToken,
    ) -> Result<serde_json::Value, Fault> {
        let (reply, mut answer) = oneshot::channel();
        let message = Message::Ask { work, cancel: cancel.clone(), reply };
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Fault::Interrupted),
            sent = plugin.messages.send(message) => sent.map_err(|_| Fault::Gone)?,
        }
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer.unwrap_or(Err(Fault::Gone)),
                () = cancel.cancelled() => return Err(Fault::Interrupted),
                () = tokio::time::sleep(LOOK) => {
                    if plugin.shared.budget.is_lost() {
                        self.fail(plugin, "it does not come back from a call");
                        return Err(Fault::Gone);
                    }
                }
            }
        }
    }

    /// Whether a plugin listens to events.
    pub fn listens(&self) -> bool {
        self.listens.load(Ordering::Relaxed)
    }

    /// Tells an event to those that listen. It never waits.
    pub fn tell(&self, event: &crate::event::Event) {
        if !self.listens() {
            return;
        }
        let Ok(value) = serde_json::to_value(event) else { return };
        let value = Arc::new(value);
        for plugin in self.with(Hook::Event) {
            // Waiting here would hold up the run.
            if let Err(mpsc::error::TrySendError::Full(_)) = plugin.messages.try_send(Message::Event(value.clone())) {
                self.fail(&plugin, "its on_event cannot keep up with the events");
            }
        }
    }

    /// The commands of plugins that take part, with what they do.
    pub fn commands(&self) -> Vec<(String, String)> {
        let mut commands = Vec::new();
        for plugin in self.all() {
            let facts = plugin.shared.facts();
            if facts.state == State::Active {
                commands.extend(facts.info.commands.iter().map(|(name, what)| (name.clone(), what.clone())));
            }
        }
        commands
    }

    /// All plugins, for people.
    pub fn rows(&self) -> Vec<PluginRow> {
        let row = |plugin: &Arc<Plugin>| {
            let shared = &plugin.shared;
            let facts = shared.facts();
            PluginRow {
                name: facts.info.name.clone(),
                path: shared.path.clone(),
                origin: shared.origin,
                version: facts.info.version.clone(),
                description: facts.info.description.clone(),
                state: facts.state.clone(),
                hooks: facts.info.hooks.iter().map(|hook| hook.name()).collect(),
                permissions: facts.info.permissions.clone(),
                tools: facts.info.tools.iter().map(|tool| tool.name.clone()).collect(),
                commands: facts.info.commands.keys().cloned().collect(),
                calls: facts.calls,
                time: facts.time,
                last_error: facts.last_error.clone(),
            }
        };
        self.lock().iter().map(row).collect()
    }

    fn named(&self, name: &str) -> Option<Arc<Plugin>> {
        self.lock().iter().find(|plugin| plugin.shared.name() == name).cloned()
    }

    /// Grants a plugin, as its content stands now, what it asks for; what that was.
    ///
    /// # Errors
    /// Where there is no such plugin, or the grant cannot be kept.
    pub fn allow(&self, name: &str) -> Result<Vec<Permission>, String> {
        let plugin = self.named(name).ok_or_else(|| self.unknown(name))?;
        let wanted = plugin.shared.facts().info.permissions.clone();
        Grants::allow(&self.home, &plugin.shared.hash, name, &wanted)
            .map_err(|error| format!("plugin-grants.json was not changed: {error}; mend it or remove it"))?;
        let mut facts = plugin.shared.facts();
        if facts.state == State::Waiting {
            facts.state = State::Active;
        }
        drop(facts);
        self.changed();
        Ok(wanted)
    }

    /// Switches a plugin on or off for this session; one that failed is loaded anew.
    ///
    /// # Errors
    /// Where there is no such plugin, or it waits for permissions.
    pub fn switch(&self, name: &str, on: bool, cwd: &Path) -> Result<(), String> {
        let plugin = self.named(name).ok_or_else(|| self.unknown(name))?;
        let mut facts = plugin.shared.facts();
        match (on, &facts.state) {
            (true, State::Off) => {
                let granted = Grants::read(&self.home).has(&plugin.shared.hash, &facts.info.permissions);
                facts.state = if granted { State::Active } else { State::Waiting };
            }
            (true, State::Failed) => {
                drop(facts);
                self.lock().retain(|known| !Arc::ptr_eq(known, &plugin));
                self.load(cwd);
                return Ok(());
            }
            (true, State::Waiting) => {
                return Err(format!("`{name}` waits for permissions: {}", words(&facts.info.permissions)));
            }
            (false, State::Active | State::Waiting) => facts.state = State::Off,
            _ => {}
        }
        drop(facts);
        self.changed();
        Ok(())
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<String> = self.lock().iter().map(|plugin| plugin.shared.name()).collect();
        let known =
            if known.is_empty() { "there are none".to_owned() } else { format!("there are {}", known.join(", ")) };
        format!("there is no plugin `{}`; {known}", crate::text::visible(name))
    }

    /// Loads plugins again as their files change, while `self` lives.
    pub fn watch(self: &Arc<Self>, cwd: &Path) {
        let folders = [self.home.file("plugins"), cwd.join(".violin/plugins")];
        let (there, missing): (Vec<PathBuf>, Vec<PathBuf>) = folders.into_iter().partition(|folder| folder.is_dir());
        // A folder that is not there yet is watched for from the one above it.
        let missing: Vec<PathBuf> =
            missing.into_iter().filter(|folder| folder.parent().is_some_and(Path::is_dir)).collect();
        let mut kept = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = None;
        let targets: Vec<Target> =
            there.into_iter().map(Target::Folder).chain(missing.iter().cloned().map(Target::File)).collect();
        if targets.is_empty() {
            return;
        }
        // One that waits is enough: the files are read anew whatever changed.
        let (changed, mut changes) = mpsc::channel::<()>(1);
        let awaited = missing.clone();
        let watch = Watch::start(&targets, move |path| {
            if path.extension().is_some_and(|extension| extension == "lua")
                || awaited.iter().any(|folder| folder == path)
            {
                let _ = changed.try_send(());
            }
        });
        match watch {
            Ok(watch) => *kept = Some(watch),
            Err(error) => return tracing::warn!(%error, "plugins are not watched"),
        }
        let (host, cwd) = (Arc::downgrade(self), cwd.to_owned());
        self.runtime().spawn(async move {
            while changes.recv().await.is_some() {
                tokio::time::sleep(SETTLE).await;
                let _ = changes.try_recv();
                let Some(host) = host.upgrade() else { return };
                if missing.iter().any(|folder| folder.is_dir()) {
                    // This ends with the watch that it belongs to; the new one looks at the folder itself.
                    host.watch(&cwd);
                }
                host.reload(&cwd).await;
            }
        });
    }

    /// Looks for plugins anew, waits for them, and tells the person what came of it.
    pub async fn reload(&self, cwd: &Path) {
        let before: Vec<String> = self.all().iter().map(|plugin| plugin.shared.hash.clone()).collect();
        let mut notices = self.load(cwd);
        self.ready().await;
        for plugin in self.all() {
            let facts = plugin.shared.facts();
            if !before.contains(&plugin.shared.hash) && facts.state == State::Active {
                notices.push(format!("the plugin `{}` was loaded", facts.info.name));
            }
        }
        for notice in notices {
            self.told.push(notice);
        }
    }

    /// Lets plugins hear what was told, ends what they do, and waits for their commands to end.
    pub async fn shut_down(&self) {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).take();
        let plugins = std::mem::take(&mut *self.lock());
        for plugin in &plugins {
            if tokio::time::timeout(HEARING, plugin.rest()).await.is_err() {
                break;
            }
        }
        self.cancel.cancel();
        for plugin in &plugins {
            if tokio::time::timeout(LAST, plugin.rest()).await.is_err() {
                break;
            }
        }
    }
}

impl Plugin {
    /// Waits until its thread has done all that it was given.
    async fn rest(&self) {
        let (reply, answer) = oneshot::channel();
        let cancel = CancellationToken::new();
        // What is cancelled before it begins is only answered.
        cancel.cancel();
        let work = Work::Hook(Hook::Event, serde_json::Value::Null);
        if self.messages.send(Message::Ask { work, cancel, reply }).await.is_ok() {
            let _ = answer.await;
        }
    }
}
