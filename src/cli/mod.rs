//! The command line (formats.md, "Command line"): arguments, the choice of a front end, exit statuses.

mod args;
mod attach;
mod demo;
mod doctor;
mod gc;
mod log;
mod models;
mod plugins;
mod sessions;
mod start;
mod trust;
mod tui;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use crate::agent::{self, Env, Overrides, Setup};
use crate::event::ErrorKind;
use crate::headless::{self, Output};
use crate::home::Home;
use crate::plugin::Host;

use args::{Cli, RunArgs, Subcommand};

/// Usage or configuration.
const USAGE: u8 = 2;

/// The run failed.
const FAILED: u8 = 1;

/// Why nothing could be begun, and the exit status for it.
#[derive(Debug)]
struct Exit {
    status: u8,
    message: String,
}

impl Exit {
    fn usage(message: impl std::fmt::Display) -> Self {
        Exit { status: USAGE, message: message.to_string() }
    }

    fn failed(message: impl std::fmt::Display) -> Self {
        Exit { status: FAILED, message: message.to_string() }
    }
}

impl From<io::Error> for Exit {
    fn from(error: io::Error) -> Self {
        Exit::failed(error)
    }
}

/// Does what the command line says.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::read(arguments.collect()) {
        Ok(cli) => cli,
        Err(error) => {
            let status = u8::try_from(error.exit_code()).unwrap_or(USAGE);
            // Where help cannot be printed there is nobody to tell it.
            let _ = error.print();
            return ExitCode::from(status);
        }
    };
    match dispatch(cli) {
        Ok(status) => ExitCode::from(status),
        Err(exit) => {
            let _ = writeln!(io::stderr(), "violin: {}", crate::text::clean(&exit.message));
            ExitCode::from(exit.status)
        }
    }
}

fn dispatch(cli: Cli) -> Result<u8, Exit> {
    let home = Home::from_env().ok_or_else(|| Exit::usage("there is no home directory; set HOME or VIOLIN_HOME"))?;
    if let Some(wrong) = log::start(&home) {
        let _ = writeln!(io::stderr(), "violin: {}", crate::text::clean(&wrong));
    }
    let env: Env = Arc::new(|name: &str| std::env::var(name).ok());
    match cli.subcommand {
        None => run(home, env, cli.run),
        Some(Subcommand::Sessions(sessions)) => sessions::run(&home, &sessions),
        Some(Subcommand::Models(models)) => models::run(&home, env, &models),
        Some(Subcommand::Trust(args)) => trust::run(&home, &args),
        Some(Subcommand::Plugins(args)) => plugins::run(&home, &args),
        Some(Subcommand::Doctor(doctor)) => doctor::run(&home, env, &doctor),
        Some(Subcommand::Gc(args)) => gc::run(&home, &args),
        Some(Subcommand::Completions(completions)) => args::completions(&completions),
    }
}

/// The runtime that everything asynchronous runs on. One worker is enough: what takes time waits for others or runs on
/// the blocking pool, and the interface has the main thread. With two, each piece of an answer would wake another
/// thread on its way from the connection to the agent, which costs more than all that is done with it.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

fn run(home: Home, env: Env, args: RunArgs) -> Result<u8, Exit> {
    let headless = args.print || args.json;
    let screen = io::stdout().is_terminal() && attach::has_terminal();
    if !headless && !screen {
        return Err(Exit::usage("there is no terminal; give a prompt with -p (or --json) to run without one"));
    }
    let cwd = start::directory(args.directory.as_deref())?;
    let plugins = Host::new(home.clone());
    let setup = Setup { home, cwd, overrides: overrides(&args), env, models: None, headless, plugins };
    let runtime = runtime()?;
    let _entered = runtime.enter();
    if headless { run_headless(&runtime, setup, &args) } else { tui::run(&runtime, setup, &args) }
}

fn overrides(args: &RunArgs) -> Overrides {
    Overrides {
        model: args.model.clone(),
        thinking: args.thinking,
        mode: args.mode,
        tools: match args.no_tools {
            true => Some(Vec::new()),
            false => args.tools.clone(),
        },
        system_prompt: args.system_prompt.clone(),
        append_system_prompt: args.append_system_prompt.clone(),
        max_turns: args.max_turns,
    }
}

fn run_headless(runtime: &tokio::runtime::Runtime, setup: Setup, args: &RunArgs) -> Result<u8, Exit> {
    let output = if args.json { Output::Events } else { Output::Answer };
    let piped = attach::standard_input()?;
    let prompt = attach::prompt(&setup.cwd, piped, &args.prompt.join(" "), &args.images);
    let prepared = prompt.and_then(|prompt| match prompt {
        Some((prompt, notices)) => Ok((prompt, notices)),
        None => Err(Exit::usage("there is no prompt; give one behind -p, or on standard input")),
    });
    let (prompt, told) = prepared?;
    let started = runtime.block_on(start::start(setup, args));
    let (setup, loaded, session, model, notices) = match started {
        Ok(started) => (started.setup, started.loaded, started.session, started.model, started.notices),
        Err(exit) => return Err(report(exit, output)),
    };
    for notice in told.iter().chain(&notices) {
        let _ = writeln!(io::stderr(), "violin: {}", crate::text::clean(notice));
    }
    let outcome = runtime.block_on(async {
        let handle = agent::spawn(setup, loaded, session, model);
        headless::run(handle, prompt, output, io::stdout().lock(), io::stderr()).await
    });
    Ok(outcome.status())
}

/// A failure before the run, as the event stream tells it.
fn report(exit: Exit, output: Output) -> Exit {
    if output == Output::Events {
        let kind = if exit.status == USAGE { ErrorKind::Config } else { ErrorKind::Session };
        let error = crate::event::Event::Error { msg: exit.message.clone(), kind };
        let result = crate::event::Event::Result {
            text: String::new(),
            turns: 0,
            aborted: false,
            session_id: String::new(),
            usage_total: Default::default(),
        };
        for event in [error, result] {
            if let Ok(line) = serde_json::to_string(&event) {
                let _ = writeln!(io::stdout(), "{line}");
            }
        }
    }
    exit
}

/// Prints a line of JSON.
fn print_json(value: &impl serde::Serialize) -> Result<(), Exit> {
    let line = serde_json::to_string(value).map_err(Exit::failed)?;
    writeln!(io::stdout(), "{line}")?;
    Ok(())
}

/// Asks a yes or no at the terminal; no where there is none.
fn confirmed(question: &str) -> bool {
    if !io::stdin().is_terminal() {
        return false;
    }
    let mut answer = String::new();
    let asked = write!(io::stderr(), "{question} [y/N] ").and_then(|()| io::stdin().read_line(&mut answer));
    asked.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// A path for people.
fn shown(path: &Path) -> String {
    crate::text::visible(&crate::home::tilde(path))
}
