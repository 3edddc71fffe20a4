//! The full-screen interface, supplied with what it asks of the rest of the program.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::args::RunArgs;
use super::start::{self, Started};
use super::{Exit, attach};
use crate::agent::{self, Setup};
use crate::config::discover::Found;
use crate::config::models::usable;
use crate::config::settings;
use crate::context::{skills, templates};
use crate::export;
use crate::home::{Home, replace_file};
use crate::plugin::examples;
use crate::provider::demo::{NAME, PROMPT};
use crate::session::{Body, Loaded, Record, Session, list};
use crate::tui::plugins::PluginAct;
use crate::tui::sources::{Extra, ExtraKind, ModelChoice, SessionRow, SessionScope, Sources};
use crate::tui::{Notify, Options, Start, run as run_screen};

/// Runs the interface until it is left.
pub fn run(runtime: &tokio::runtime::Runtime, setup: Setup, args: &RunArgs) -> Result<u8, Exit> {
    let piped = attach::standard_input()?;
    let prompt = attach::prompt(&setup.cwd, piped, &args.prompt.join(" "), &args.images)?;
    let (initial_prompt, told) = prompt.map_or((None, Vec::new()), |(message, told)| (Some(message), told));
    let Started { setup, loaded, session, model, mut notices, found } = runtime.block_on(start::start(setup, args))?;
    notices.extend(told);
    let demo = model.as_ref().is_some_and(|model| model.provider == NAME);
    let options = Options {
        home: setup.home.clone(),
        cwd: setup.cwd.clone(),
        draft: (demo && initial_prompt.is_none() && session.tree().is_empty()).then(|| PROMPT.to_owned()),
        initial_prompt,
        found: found.as_ref().map(|found| found.lines.clone()).unwrap_or_default(),
        start: if args.resume { Start::ResumePicker } else { Start::Prompt },
        theme: Some(loaded.settings.theme.clone()),
        mouse: loaded.settings.mouse,
        notify: match loaded.settings.notify {
            settings::Notify::Bell => Notify::Bell,
            settings::Notify::Desktop => Notify::Desktop,
            settings::Notify::Off => Notify::Off,
        },
        editor: loaded.settings.editor.clone(),
        notices,
        sources: sources(&setup, found),
    };
    let agent::Handle { commands, updates, task } = agent::spawn(setup, loaded, session, model);
    // The interface has a runtime of its own, on this thread: on the agent's, each of its timers would wake the worker.
    let screen = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::failed)?;
    let exit = screen.block_on(run_screen(options, commands, updates));
    // The agent ends what goes on, and itself, now that nobody can command it.
    let _ = runtime.block_on(task);
    let exit = exit.map_err(Exit::failed)?;
    if exit.resumable {
        let name = exit.session_name.unwrap_or_default();
        let mut out = io::stdout();
        // Where the terminal is gone there is nobody to tell.
        let _ =
            writeln!(out, "{}\nviolin -s {}", crate::text::ellipsis(&crate::text::visible(&name), 76), exit.session_id);
    }
    Ok(match exit.signal {
        None => 0,
        Some(signal) => u8::try_from(128 + signal).unwrap_or(super::FAILED),
    })
}

/// What the interface may ask, as closures. Each reads the files anew, so that a change in them shows at once.
fn sources(setup: &Setup, found: Option<Found>) -> Sources {
    let (home, cwd) = (setup.home.clone(), setup.cwd.clone());
    let at = move || (home.clone(), cwd.clone());
    let asked = setup.clone();
    let models = Arc::new(move || {
        let loaded = asked.load();
        let env = asked.env.clone();
        loaded.models.models.iter().map(|model| choice(model, &*env)).collect()
    });
    let place = at.clone();
    let counted_sessions = Arc::new(move |scope| {
        let (home, cwd) = place();
        let rows = list::list(&home, (scope == SessionScope::Here).then_some(cwd.as_path()));
        rows.into_iter().map(|row| session_row(row, true)).collect()
    });
    let place = at.clone();
    let sessions = Arc::new(move |scope| {
        let (home, cwd) = place();
        let rows = list::glance(&home, (scope == SessionScope::Here).then_some(cwd.as_path()));
        rows.into_iter().map(|glance| session_row(glance.row, glance.whole)).collect()
    });
    let place = at.clone();
    let search_sessions = Arc::new(move |scope, query: &str, stop: &dyn Fn() -> bool| {
        let (home, cwd) = place();
        list::search(&home, (scope == SessionScope::Here).then_some(cwd.as_path()), query, stop)
    });
    let place = at.clone();
    let host = setup.plugins.clone();
    let extras = Arc::new(move || {
        let (home, cwd) = place();
        let mut extras = extras(&home, &cwd);
        let own = host.commands().into_iter();
        extras.extend(own.map(|(name, description)| Extra { kind: ExtraKind::Plugin, name, description }));
        extras
    });
    let place = at.clone();
    let expand = Arc::new(move |kind, name: &str, argument: &str| {
        let (home, cwd) = place();
        expand(&home, &cwd, kind, name, argument)
    });
    let place = at.clone();
    let save_setting = Arc::new(move |key: &str, value: &Value| {
        let path = place().0.agent("settings.json");
        let keys: Vec<&str> = key.split('.').collect();
        settings::save(&path, &keys, value).map_err(|mistake| mistake.to_string())
    });
    let rename_session = Arc::new(|path: &Path, name: &str| {
        let mut session = Session::open(path).map_err(|error| error.to_string())?;
        session.append(Body::Record(Record::Name { name: name.trim().to_owned() }));
        session.problem().map_or(Ok(()), |problem| Err(problem.to_owned()))
    });
    let delete_session =
        Arc::new(move |path: &Path| super::sessions::remove(&at().0, path).map(drop).map_err(|exit| exit.message));
    let host = setup.plugins.clone();
    let plugins = Arc::new(move || host.rows());
    let asked = setup.clone();
    let plugin_act = Arc::new(move |act: &PluginAct| plugin_act(&asked, act));
    let asked = setup.clone();
    let offered = Arc::new(move || super::models::offered(&asked.load().models, &asked.env));
    let file = setup.home.agent("models.json");
    let add_model = Arc::new(move |provider: &str, id: &str| {
        crate::config::models::add(&file, provider, id).map_err(|mistake| mistake.to_string())
    });
    let models_file = setup.home.agent("models.json");
    let write_models = Arc::new(move || {
        let document = found.as_ref().map(Found::document).unwrap_or_default();
        if models_file.exists() {
            return Err(format!("{} is there already", super::shown(&models_file)));
        }
        replace_file(&models_file, document.as_bytes()).map_err(|error| error.to_string())?;
        Ok(super::shown(&models_file))
    });
    let folder = setup.cwd.clone();
    let export = Arc::new(move |session: &Path, file: Option<&str>| {
        let loaded = Loaded::read(session).map_err(|error| error.to_string())?;
        export::write(&loaded, &folder, file).map(|path| super::shown(&path)).map_err(|error| error.to_string())
    });
    Sources {
        models,
        sessions,
        counted_sessions,
        search_sessions,
        extras,
        expand,
        save_setting,
        rename_session,
        delete_session,
        plugins,
        plugin_act,
        offered,
        add_model,
        write_models,
        export,
    }
}

/// Does something about a plugin.
fn plugin_act(setup: &Setup, act: &PluginAct) -> Result<String, String> {
    let host = &setup.plugins;
    let told = match act {
        PluginAct::Switch { name, on } => {
            host.switch(name, *on, &setup.cwd)?;
            format!("{name} is {}", if *on { "on" } else { "off for this session" })
        }
        PluginAct::Allow(name) => {
            let allowed = host.allow(name)?;
            let words: Vec<&str> = allowed.iter().map(|permission| permission.name()).collect();
            format!("{name} may {}, as its file stands now", words.join(", "))
        }
        PluginAct::Install(name) => {
            let path = examples::install(&setup.home, name).map_err(|error| error.to_string())?;
            host.load(&setup.cwd);
            host.watch(&setup.cwd);
            format!("installed: {}", super::shown(&path))
        }
    };
    tokio::runtime::Handle::current().block_on(host.ready());
    Ok(told)
}

fn choice(model: &crate::model::Model, env: &dyn Fn(&str) -> Option<String>) -> ModelChoice {
    let usable = usable(model, env);
    ModelChoice {
        provider: model.provider.clone(),
        id: model.id.clone(),
        name: model.name.clone(),
        context_window: model.context_window,
        cost: model.cost,
        images: model.images,
        reasoning: model.reasoning,
        usable: usable.is_ok(),
        reason: usable.err(),
    }
}

fn session_row(row: list::SessionRow, counted: bool) -> SessionRow {
    SessionRow {
        id: row.id,
        path: row.path,
        cwd: row.cwd,
        name: row.name,
        first_message: row.first_message,
        messages: counted.then_some(row.messages),
        updated_at: row.updated_at,
        cost_usd: row.cost_usd,
    }
}

fn extras(home: &Home, cwd: &Path) -> Vec<Extra> {
    let skill =
        |skill: skills::Skill| Extra { kind: ExtraKind::Skill, name: skill.name, description: skill.description };
    let template = |template: templates::Template| Extra {
        kind: ExtraKind::Template,
        name: template.name,
        description: template.description,
    };
    let skills = skills::discover(home, cwd).0.into_iter().map(skill);
    skills.chain(templates::discover(home, cwd).into_iter().map(template)).collect()
}

fn expand(home: &Home, cwd: &Path, kind: ExtraKind, name: &str, argument: &str) -> Result<String, String> {
    let gone = || format!("there is no `{name}` any more");
    let read = |text: io::Result<String>| text.map_err(|error| format!("`{name}` cannot be read: {error}"));
    match kind {
        ExtraKind::Skill => {
            let skills = skills::discover(home, cwd).0;
            let skill = skills.iter().find(|skill| skill.name == name).ok_or_else(gone)?;
            read(skills::invoke(skill, argument))
        }
        ExtraKind::Template => {
            let templates = templates::discover(home, cwd);
            let template = templates.iter().find(|template| template.name == name).ok_or_else(gone)?;
            read(templates::invoke(template, argument))
        }
        ExtraKind::Plugin => Err(format!("/{name} stands for no text: its plugin runs it")),
    }
}
