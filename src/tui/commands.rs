//! Slash commands: one row for each, with its name, its words and its function; and the lists that they open.

use std::path::PathBuf;

use super::actions::{ACTIONS, set_mode};
use super::app::{AppState, LineFor, Overlay, automatic};
use super::keys::Scope;
use super::list::{Answer, Ask, Item, LineInput, List, Part, Subject};
use super::msg::Effect;
use super::page::PageLine;
use super::prompt::Way;
use super::sources::{ExtraKind, ModelChoice, SessionRow, SessionScope};
use super::transcript::{Tone, fill};
use super::words;
use crate::agent::{Command, Delivery};
use crate::choice::{Mode, Thinking};
use crate::message::{Message, text_of};
use crate::text;
use crate::theme::{Theme, Token};

/// A slash command.
pub struct Slash {
    /// Its name, without the slash.
    pub name: &'static str,
    /// What may follow it.
    pub argument: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Does it.
    pub run: fn(&mut AppState, &str, &mut Vec<Effect>),
}

impl std::fmt::Debug for Slash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! slashes {
    ($($name:literal $argument:literal $doc:literal $run:expr;)+) => {
        /// All slash commands.
        pub const SLASHES: &[Slash] = &[$(Slash { name: $name, argument: $argument, doc: $doc, run: $run }),+];
    };
}

type Effects = Vec<Effect>;

slashes! {
    "model" "[provider/id]" "choose a model" |app, argument, effects| match argument {
        "" => models(app, effects),
        name => effects.push(Effect::Command(Command::SetModel(name.to_owned()))),
    };
    "thinking" "[level]" "how much the model thinks" |app, argument, effects| match argument {
        "" => thinking(app),
        level => match level.parse() {
            Ok(level) => effects.push(Effect::Command(Command::SetThinking(level))),
            Err(error) => app.tell(format!("{error}"), Tone::Error),
        },
    };
    "mode" "[plan|ask|auto|yolo]" "what runs without a question" |app, argument, effects| match argument {
        "" => modes(app),
        mode => match mode.parse() {
            Ok(mode) => set_mode(app, mode, effects),
            Err(error) => app.tell(format!("{error}"), Tone::Error),
        },
    };
    "resume" "" "open another session" |app, _, effects| resume(app, effects);
    "new" "" "begin a new session" |_, _, effects| effects.push(Effect::Command(Command::NewSession));
    "name" "[name]" "name this session" |app, argument, effects| match argument {
        "" => app.open(Overlay::Line(LineInput::with(app.session.tree.name().unwrap_or("")), LineFor::Name)),
        name => effects.push(Effect::Command(Command::Name(name.to_owned()))),
    };
    "tree" "" "the session as a tree" |app, _, effects| super::actions::toggle_tree(app, effects);
    "fork" "" "a new session from an earlier message" |app, _, _| fork(app);
    "clone" "" "a new session from here" |_, _, effects| effects.push(Effect::Command(Command::Fork { to: None }));
    "compact" "[instructions]" "summarise what came before" |_, argument, effects| {
        let instructions = Some(argument.to_owned()).filter(|text| !text.is_empty());
        effects.push(Effect::Command(Command::Compact { instructions }));
    };
    "context" "" "what fills the window" |app, _, _| context(app);
    "copy" "" "copy the last answer" |app, _, effects| copy(app, effects);
    "undo" "[force]" "take back what the last run changed in files" |app, argument, effects| match argument {
        "" | "force" => effects.push(Effect::Command(Command::Undo { force: !argument.is_empty() })),
        _ => app.tell("/undo, or /undo force to overwrite also what somebody else has changed since", Tone::Warning),
    };
    "export" "[file]" "write the session as HTML or Markdown" |app, argument, effects| {
        let file = Some(argument.to_owned()).filter(|text| !text.is_empty());
        match app.session.path.clone() {
            Some(path) => effects.push(Effect::Export(path, file)),
            None => app.tell("this session is not kept in a file", Tone::Warning),
        }
    };
    "session" "" "this session: file, messages, tokens, cost" |app, _, _| session(app);
    "theme" "[name]" "choose a theme" |app, argument, effects| match argument {
        "" => effects.push(Effect::Themes),
        name => {
            app.theme_name = name.to_owned();
            let name_in_force = if name == "auto" { automatic(app.depth, app.dark) } else { name };
            effects.push(Effect::Theme(name_in_force.to_owned()));
            effects.push(Effect::Save("theme", name.into()));
        }
    };
    "settings" "" "change settings" |app, _, _| settings(app);
    "reload" "" "read settings, models, skills and plugins again" |app, _, effects| {
        app.tell("settings, models, rules, skills and plugins are read again", Tone::Quiet);
        effects.push(Effect::Command(Command::Reload));
        effects.push(Effect::Extras);
    };
    "init" "" "let the model write an AGENTS.md" |app, _, effects| super::update::submit::send_text(app, INIT, Delivery::Steer, effects);
    "plugins" "" "plugins: what they do and cost, on and off" |app, _, effects| super::plugins::open(app, effects);
    "hotkeys" "" "all key bindings" |app, _, _| help(app);
    "help" "" "all commands and key bindings" |app, _, _| help(app);
    "quit" "" "leave" |_, _, effects| effects.push(Effect::Quit);
}

const INIT: &str = "Look at this project and write an AGENTS.md in its root for coding agents: what it is, how it is laid \
out, how to build, run and test it (commands that you have checked), its conventions. Short, concrete, nothing that the \
code itself says at once. Where an AGENTS.md is there already, improve it.";

/// What keys do, in a line: the first key of each action as it is bound now, and a word. Two actions are parted by a comma.
pub fn hint(app: &AppState, actions: &[(&str, &str)]) -> String {
    let parts = actions.iter().filter_map(|(names, word)| {
        let keys: String = names.split(',').filter_map(|name| app.bindings.short(name)).collect();
        (!keys.is_empty()).then(|| if word.is_empty() { keys } else { format!("{keys} {word}") })
    });
    parts.collect::<Vec<_>>().join(" · ")
}

/// The keys of a list in which one only takes something.
pub fn plain_hint(app: &AppState, word: &str) -> String {
    hint(app, &[("list.choose", word), ("list.close", "")])
}

/// Opens the list of models.
pub fn models(app: &mut AppState, effects: &mut Effects) {
    let hint = hint(
        app,
        &[
            ("list.choose", "this session"),
            ("list.default", "default"),
            ("list.less,list.more", "thinking"),
            ("list.offered", "more"),
            ("list.close", ""),
        ],
    );
    let mut list = List::new(Subject::Models(Vec::new()), "models", hint, Vec::new());
    list.loading = true;
    app.open(Overlay::List(Box::new(list)));
    effects.push(Effect::Models);
}

/// Asks the providers for models that models.json lacks.
pub fn offered(app: &mut AppState, effects: &mut Effects) {
    let hint = plain_hint(app, "add");
    let mut list = List::new(Subject::Offered(Vec::new()), "offered, not in models.json", hint, Vec::new());
    list.loading = true;
    app.open(Overlay::List(Box::new(list)));
    effects.push(Effect::Offered);
}

/// Fills the list of what providers offer.
pub fn take_offered(app: &mut AppState, offered: Vec<(String, String)>, failed: Vec<String>) {
    if let Some(first) = failed.first() {
        app.tell(first.clone(), Tone::Warning);
    }
    let items = offered.iter().map(|(provider, id)| plain_item(format!("{provider}/{id}"))).collect();
    let Some(Overlay::List(list)) = &mut app.overlay else { return };
    if matches!(list.subject, Subject::Offered(_)) {
        list.subject = Subject::Offered(offered);
        list.set_items(items);
        app.dirty = true;
    }
}

/// Fills the list of models.
pub fn take_models(app: &mut AppState, models: Vec<ModelChoice>) {
    let items = models.iter().map(model_item).collect();
    let current = app.settings.model.as_ref().map(|model| model.reference());
    let at = models.iter().position(|model| Some(format!("{}/{}", model.provider, model.id)) == current);
    let Some(Overlay::List(list)) = &mut app.overlay else { return };
    if matches!(list.subject, Subject::Models(_)) {
        let first = list.loading;
        list.subject = Subject::Models(models);
        list.set_items(items);
        if first && let Some(at) = at {
            list.selected = at;
        }
        app.dirty = true;
    }
}

fn model_item(model: &ModelChoice) -> Item {
    let name = text::visible(&format!("{}/{}", model.provider, model.id));
    let marks = format!("{} {}", if model.images { "▣" } else { " " }, if model.reasoning { "✦" } else { " " });
    let price = model.cost.map_or("–".to_owned(), |cost| format!("${} / ${}", cost.input, cost.output));
    let dim = |text: String| Part::new(text, Token::Dim);
    let right = match &model.reason {
        Some(reason) if !model.usable => vec![Part::new(text::visible(reason), Token::Warning)],
        _ => {
            vec![dim(marks), dim(format!("  {:>6}", words::count(model.context_window))), dim(format!("  {price:>14}"))]
        }
    };
    let mut left = vec![Part::new(name.clone(), if model.usable { Token::Text } else { Token::Dim })];
    if !model.name.is_empty() && model.name != model.id {
        left.push(Part::new(format!("  {}", text::visible(&model.name)), Token::Dim));
    }
    Item { search: format!("{name} {}", model.name), left, right }
}

fn plain_item(text: impl Into<String>) -> Item {
    let text = text::visible(&text.into());
    Item { search: text.clone(), left: vec![Part::plain(text)], right: Vec::new() }
}

fn thinking(app: &mut AppState) {
    let items = Thinking::ALL.iter().map(|level| plain_item(level.name())).collect();
    let mut list = List::new(Subject::Thinking, "thinking", plain_hint(app, "take"), items);
    list.selected = Thinking::ALL.iter().position(|level| *level == app.settings.thinking).unwrap_or(0);
    app.open(Overlay::List(Box::new(list)));
}

fn modes(app: &mut AppState) {
    let words = |mode: &Mode| match mode {
        Mode::Plan => "only what changes nothing",
        Mode::Ask => "asks before writes and commands",
        Mode::Auto => "writes in the project and sandboxed commands run; asks for the rest",
        Mode::Yolo => "everything runs",
    };
    let item = |mode: &Mode| {
        let left = vec![Part::plain(format!("{:<6}", mode.name())), Part::new(words(mode), Token::Dim)];
        Item { left, ..plain_item(mode.name()) }
    };
    let hint = plain_hint(app, "take");
    let mut list = List::new(Subject::Modes, "mode", hint, Mode::ALL.iter().map(item).collect());
    list.selected = Mode::ALL.iter().position(|mode| *mode == app.settings.mode).unwrap_or(0);
    app.open(Overlay::List(Box::new(list)));
}

/// Opens the list of sessions.
pub fn resume(app: &mut AppState, effects: &mut Effects) {
    let hint = hint(
        app,
        &[
            ("list.choose", "open"),
            ("list.scope", "all directories"),
            ("list.rename", "rename"),
            ("list.delete", "delete"),
            ("list.close", ""),
        ],
    );
    let mut list = List::new(Subject::Sessions(SessionScope::Here, Vec::new()), "sessions", hint, Vec::new());
    list.loading = true;
    app.open(Overlay::List(Box::new(list)));
    effects.push(Effect::Sessions(SessionScope::Here));
}

/// Fills the list of sessions.
pub fn take_sessions(app: &mut AppState, scope: SessionScope, rows: Vec<SessionRow>) {
    let now = jiff::Timestamp::now().as_second();
    let items = rows.iter().map(|row| session_item(scope, row, now)).collect();
    let Some(Overlay::List(list)) = &mut app.overlay else { return };
    if matches!(list.subject, Subject::Sessions(..)) {
        let chosen = match (&list.subject, list.chosen()) {
            (Subject::Sessions(_, before), Some(at)) => before.get(at).map(|row| row.path.clone()),
            _ => None,
        };
        let at = rows.iter().position(|row| Some(&row.path) == chosen.as_ref());
        let everywhere = scope == SessionScope::Everywhere;
        list.title = if everywhere { "sessions of all directories" } else { "sessions of this directory" }.to_owned();
        list.subject = Subject::Sessions(scope, rows);
        // What the search in the background found stays, and so does the choice, when the counts come in.
        let shown = std::mem::take(&mut list.shown);
        list.set_items(items);
        if !list.query.text().is_empty() && !shown.is_empty() {
            let count = list.items.len();
            list.add(shown.into_iter().filter(|item| *item < count));
        }
        if let Some(row) = at.and_then(|at| list.shown.iter().position(|item| *item == at)) {
            list.selected = row;
        }
        app.dirty = true;
    }
}

/// Looks for what was typed in what was said in sessions, beside their names.
pub fn search_sessions(app: &AppState, effects: &mut Effects) {
    let Some(Overlay::List(list)) = &app.overlay else { return };
    let query = list.query.text();
    if let Subject::Sessions(scope, _) = &list.subject
        && query.trim().chars().count() >= 3
    {
        effects.push(Effect::SearchSessions(*scope, query));
    }
}

/// Shows sessions in which the query was said.
pub fn take_found(app: &mut AppState, query: &str, files: &[PathBuf]) {
    let Some(Overlay::List(list)) = &mut app.overlay else { return };
    if let Subject::Sessions(_, rows) = &list.subject
        && list.query.text() == query
    {
        let at: std::collections::HashMap<&PathBuf, usize> =
            rows.iter().enumerate().map(|(index, row)| (&row.path, index)).collect();
        let found: Vec<usize> = files.iter().filter_map(|file| at.get(file).copied()).collect();
        list.add(found.into_iter());
    }
}

fn session_item(scope: SessionScope, row: &SessionRow, now: i64) -> Item {
    let first = text::visible(text::head(text::first_line(&row.first_message), 300));
    let mut left = Vec::new();
    if scope == SessionScope::Everywhere {
        let place = crate::home::tilde(std::path::Path::new(&row.cwd));
        left.push(Part::new(format!("{}  ", text::ellipsis_start(&text::visible(&place), 24)), Token::Dim));
    }
    match &row.name {
        Some(name) => {
            left.push(Part::plain(text::visible(name)).bold());
            left.push(Part::new(format!("  {first}"), Token::Dim));
        }
        None => left.push(Part::plain(first.clone())),
    }
    let cost = row.cost_usd.map_or(String::new(), words::dollars);
    let messages = row.messages.map_or("…".to_owned(), |count| count.to_string());
    let dim = |text: String| Part::new(text, Token::Dim);
    let right = vec![
        dim(format!("{messages:>4} msg")),
        dim(format!("  {cost:>7}")),
        dim(format!("  {:>4}", words::ago(row.updated_at, now))),
    ];
    let search = format!("{} {} {} {}", row.name.as_deref().unwrap_or(""), row.first_message, row.cwd, row.id);
    Item { search, left, right }
}

/// Opens the list of themes, which shows each as one goes over it.
pub fn take_themes(app: &mut AppState, names: Vec<String>) {
    let items = names.iter().map(|name| plain_item(name.as_str())).collect();
    let at = names.iter().position(|name| *name == app.theme.name).unwrap_or(0);
    let before = Box::new(app.theme.clone());
    let hint = hint(app, &[("list.choose", "take"), ("list.close", "go back")]);
    let mut list = List::new(Subject::Themes(names, before), "themes", hint, items);
    list.selected = at;
    app.open(Overlay::List(Box::new(list)));
}

/// Shows what the choice stands for, where that can be seen.
pub fn preview(app: &mut AppState) {
    let Some(Overlay::List(list)) = &app.overlay else { return };
    if let (Subject::Themes(names, _), Some(at)) = (&list.subject, list.chosen())
        && let Ok(theme) = Theme::load(&names[at], &app.themes)
    {
        app.set_theme(theme);
    }
}

/// Opens the list of prompts of before.
pub fn history(app: &mut AppState) {
    let mut texts: Vec<String> = app.prompt.history.texts().iter().rev().cloned().collect();
    let mut seen = std::collections::HashSet::new();
    texts.retain(|text| seen.insert(text.clone()));
    let item =
        |text: &String| Item { search: text.clone(), ..plain_item(text::head(&text.replace('\n', " ⏎ "), 400)) };
    let items = texts.iter().map(item).collect();
    let hint = plain_hint(app, "take");
    app.open(Overlay::List(Box::new(List::new(Subject::History(texts), "history", hint, items))));
}

fn fork(app: &mut AppState) {
    let tree = &app.session.tree;
    let mut targets = Vec::new();
    let mut items = Vec::new();
    for index in tree.path(tree.leaf()).into_iter().rev() {
        let node = &tree.nodes()[index];
        if let Some(Message::User(user)) = node.entry.message().map(|message| &**message) {
            targets.push(Some(node.entry.id));
            items.push(plain_item(text::head(text::first_line(&text_of(&user.content)), 400)));
        }
    }
    app.open(Overlay::List(Box::new(List::new(
        Subject::Fork(targets),
        "fork after which message",
        plain_hint(app, "fork"),
        items,
    ))));
}

fn settings(app: &mut AppState) {
    let model = app.settings.model.as_ref().map_or("none".to_owned(), |model| model.reference());
    let values = [
        ("theme", app.theme_name.clone()),
        ("mode", app.settings.mode.name().to_owned()),
        ("thinking", app.settings.thinking.name().to_owned()),
        ("model", model),
        ("mouse", if app.mouse_on { "on" } else { "off: the terminal has it" }.to_owned()),
    ];
    let item = |(name, value): (&str, String)| {
        let left = vec![Part::plain(format!("{name:<10}")), Part::new(text::visible(&value), Token::Dim)];
        Item { left, ..plain_item(name) }
    };
    let items = values.into_iter().map(item).collect();
    app.open(Overlay::List(Box::new(List::new(Subject::Settings, "settings", plain_hint(app, "change"), items))));
}

/// The page of all commands and bindings.
pub fn help(app: &mut AppState) {
    let head = |words: &str| PageLine::Words(Part::new(words, Token::Heading).bold());
    let pair = |left: String, right: &str| PageLine::Pair(Part::new(left, Token::Accent), Part::plain(right));
    let mut lines = Vec::new();
    for (scope, title) in [
        (Scope::Global, "keys"),
        (Scope::Tree, "keys of the tree"),
        (Scope::Output, "keys of the output"),
        (Scope::List, "keys of lists"),
    ] {
        lines.push(head(title));
        for action in ACTIONS.iter().filter(|action| action.scope == scope) {
            let keys = app.bindings.keys_of(action.name);
            let keys = if keys.is_empty() { format!("({})", action.name) } else { keys };
            lines.push(pair(keys, action.doc));
        }
        lines.push(PageLine::Blank);
    }
    lines.push(head("commands"));
    for slash in SLASHES {
        lines.push(pair(format!("/{} {}", slash.name, slash.argument).trim_end().to_owned(), slash.doc));
    }
    for extra in &app.extras {
        lines.push(pair(extra_name(extra.kind, &extra.name), &text::visible(&extra.description)));
    }
    lines.push(pair("!command".to_owned(), "run a command; the model sees it and its output"));
    lines.push(pair("!!command".to_owned(), "run a command; the model does not see it"));
    lines.push(pair("@file".to_owned(), "name a file of the project"));
    lines.push(PageLine::Blank);
    let words = "bindings: ~/.violin/agent/keybindings.json, such as {\"pane.tree\": [\"ctrl+t\", \"f2\"]}";
    lines.push(PageLine::Words(Part::new(words, Token::Dim)));
    app.open_lines("help", lines);
}

/// How a further command is written.
pub fn extra_name(kind: ExtraKind, name: &str) -> String {
    match kind {
        ExtraKind::Skill => format!("/skill:{}", text::visible(name)),
        ExtraKind::Template | ExtraKind::Plugin => format!("/{}", text::visible(name)),
    }
}

fn context(app: &mut AppState) {
    let context = app.settings.context;
    let mut parts = app.settings.context_parts.clone();
    let used: u64 = parts.iter().map(|(_, tokens)| tokens).sum();
    let window = context.window.max(1);
    parts.push(("free".to_owned(), window.saturating_sub(used.max(context.tokens))));
    let last = parts.len() - 1;
    let line = |(index, (name, tokens)): (usize, &(String, u64))| {
        let share = *tokens as f64 / window as f64;
        let words = format!("{:>6} {:>5.1}%", words::count(*tokens), share * 100.0);
        PageLine::Meter { name: text::visible(name), words, share, free: index == last }
    };
    let lines = parts.iter().enumerate().map(line).collect();
    let title = format!("context: {} of {} tokens", words::count(context.tokens), words::count(context.window));
    app.open_lines(title, lines);
}

fn session(app: &mut AppState) {
    let usage = app.session.usage;
    let tree = &app.session.tree;
    let messages = tree.nodes().iter().filter(|node| node.entry.message().is_some()).count();
    let path = app.session.path.as_deref().map_or("not kept".to_owned(), crate::home::tilde);
    let input = format!(
        "{} · from the cache {} · to the cache {}",
        words::count(usage.input_tokens),
        words::count(usage.cache_read_tokens),
        words::count(usage.cache_write_tokens)
    );
    let lines: Vec<(&str, String)> = vec![
        ("name", tree.name().unwrap_or("–").to_owned()),
        ("id", app.session.id.clone()),
        ("file", path),
        ("directory", app.place.clone()),
        ("messages", format!("{messages} in {} entries", tree.nodes().len())),
        ("input", input),
        ("output", words::count(usage.output_tokens)),
        ("cost", usage.cost_usd.map_or("unknown".to_owned(), words::dollars)),
    ];
    let line =
        |(name, value): (&str, String)| PageLine::Pair(Part::new(name, Token::Dim), Part::plain(text::visible(&value)));
    app.open_lines("session", lines.into_iter().map(line).collect());
}

/// Copies the last answer.
pub fn copy(app: &mut AppState, effects: &mut Effects) {
    match fill::last_answer(&app.transcript) {
        Some(text) => effects.push(Effect::Copy(text.to_string())),
        None => app.tell("there is no answer yet", Tone::Quiet),
    }
}

/// Takes what is chosen in a list.
pub fn choose(app: &mut AppState, effects: &mut Effects) {
    let Some(Overlay::List(list)) = app.overlay.take() else { return };
    let Some(at) = list.chosen() else {
        app.overlay = Some(Overlay::List(list));
        return;
    };
    let command = |command| Effect::Command(command);
    match list.subject {
        Subject::Models(models) => {
            let model = &models[at];
            if !model.usable {
                let why = model.reason.clone().unwrap_or_else(|| "it cannot be asked now".to_owned());
                app.tell(format!("{}/{}: {why}", model.provider, model.id), Tone::Warning);
            }
            effects.push(command(Command::SetModel(format!("{}/{}", model.provider, model.id))));
        }
        Subject::Offered(offered) => {
            let (provider, id) = offered[at].clone();
            effects.push(Effect::AddModel(provider, id));
        }
        Subject::Sessions(_, rows) => effects.push(command(Command::OpenSession(rows[at].path.clone()))),
        Subject::Themes(names, _) => {
            let name = names[at].clone();
            app.theme_name.clone_from(&name);
            effects.push(Effect::Theme(name.clone()));
            effects.push(Effect::Save("theme", name.into()));
        }
        Subject::History(texts) => app.prompt.set_text(&texts[at]),
        Subject::Thinking => effects.push(command(Command::SetThinking(Thinking::ALL[at]))),
        Subject::Modes => set_mode(app, Mode::ALL[at], effects),
        Subject::Fork(targets) => effects.push(command(Command::Fork { to: targets[at] })),
        Subject::Plugins(plugins) => super::plugins::choose(app, &plugins[at]),
        Subject::Settings => match at {
            0 => effects.push(Effect::Themes),
            1 => modes(app),
            2 => thinking(app),
            3 => models_from_settings(app, effects),
            _ => {
                app.mouse_on = !app.mouse_on;
                effects.push(Effect::Mouse(app.mouse_on));
                effects.push(Effect::Save("mouse", app.mouse_on.into()));
            }
        },
    }
    app.dirty = true;
}

fn models_from_settings(app: &mut AppState, effects: &mut Effects) {
    models(app, effects);
}

/// Makes the chosen model the default.
pub fn make_default(app: &mut AppState, effects: &mut Effects) {
    let Some(Overlay::List(list)) = &app.overlay else { return };
    if let (Subject::Models(models), Some(at)) = (&list.subject, list.chosen()) {
        let reference = format!("{}/{}", models[at].provider, models[at].id);
        effects.push(Effect::Save("model", reference.clone().into()));
        effects.push(Effect::Save("thinking", app.settings.thinking.name().into()));
        effects.push(Effect::Command(Command::SetModel(reference)));
        app.overlay = None;
    }
}

/// In the list of models, another thinking level.
pub fn thinking_step(app: &mut AppState, way: Way, effects: &mut Effects) {
    let Some(Overlay::List(list)) = &app.overlay else { return };
    if !matches!(list.subject, Subject::Models(_)) {
        return;
    }
    let at = Thinking::ALL.iter().position(|level| *level == app.settings.thinking).unwrap_or(0);
    let next = match way {
        Way::Back => at.saturating_sub(1),
        Way::On => (at + 1).min(Thinking::ALL.len() - 1),
    };
    app.settings.thinking = Thinking::ALL[next];
    effects.push(Effect::Command(Command::SetThinking(Thinking::ALL[next])));
}

/// In the list of sessions, this directory or all.
pub fn scope(app: &mut AppState, effects: &mut Effects) {
    let Some(Overlay::List(list)) = &mut app.overlay else { return };
    if let Subject::Sessions(scope, _) = &list.subject {
        let other = match scope {
            SessionScope::Here => SessionScope::Everywhere,
            SessionScope::Everywhere => SessionScope::Here,
        };
        list.loading = true;
        effects.push(Effect::Sessions(other));
    }
}

fn chosen_session(app: &AppState) -> Option<(PathBuf, String)> {
    let Some(Overlay::List(list)) = &app.overlay else { return None };
    let Subject::Sessions(_, rows) = &list.subject else { return None };
    let row = &rows[list.chosen()?];
    Some((row.path.clone(), row.name.clone().unwrap_or_else(|| text::first_line(&row.first_message).to_owned())))
}

/// In the list of sessions, names the chosen one.
pub fn rename(app: &mut AppState) {
    if let Some((path, name)) = chosen_session(app) {
        app.open_over(Overlay::Line(LineInput::with(&name), LineFor::Rename(path)));
    }
}

/// In the list of sessions, deletes the chosen one after a question.
pub fn delete(app: &mut AppState) {
    if let Some((path, name)) = chosen_session(app) {
        let question = format!("Delete the session “{}” for good?", text::ellipsis(&text::visible(&name), 60));
        let yes = Answer { key: 'y', words: "delete it".into(), effects: vec![Effect::Delete(path)] };
        let no = Answer { key: 'n', words: "keep it".into(), effects: Vec::new() };
        app.open_over(Overlay::Ask(Ask::new(vec![question], vec![yes, no])));
    }
}

/// Closes a list.
pub fn close(app: &mut AppState, _effects: &mut Effects) {
    if app.popup.take().is_some() {
        return;
    }
    if let Some(Overlay::List(list)) = app.overlay.take()
        && let Subject::Themes(_, before) = list.subject
    {
        app.theme = *before;
        app.generation += 1;
    }
}
