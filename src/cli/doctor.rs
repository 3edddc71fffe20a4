//! `violin doctor`: what works here, and what to do about the rest.

use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};

use serde::Serialize;

use super::args::DoctorArgs;
use super::{Exit, runtime, start};
use crate::agent::{Env, Overrides, Setup};
use crate::config::discover;
use crate::config::{Models, Settings};
use crate::home::{Home, private_dir};
use crate::text;

/// A row (formats.md, "--json rows").
#[derive(Debug, Serialize)]
struct Row {
    check: &'static str,
    ok: bool,
    detail: String,
    /// What to do; empty where nothing needs to be done.
    fix: String,
}

impl Row {
    fn good(check: &'static str, detail: impl Into<String>) -> Self {
        Row { check, ok: true, detail: detail.into(), fix: String::new() }
    }

    fn bad(check: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Row { check, ok: false, detail: detail.into(), fix: fix.into() }
    }
}

/// Does what `violin doctor` says.
pub fn run(home: &Home, env: Env, args: &DoctorArgs) -> Result<u8, Exit> {
    let mut rows = vec![terminal(&env), clipboard(&env)];
    rows.extend(models(home, &env));
    rows.push(servers(&env)?);
    rows.push(settings(home));
    rows.push(git());
    rows.push(sandbox(home, &env));
    rows.push(storage(home));
    let mut out = io::stdout().lock();
    for row in &rows {
        if args.json {
            writeln!(out, "{}", serde_json::to_string(row).map_err(Exit::failed)?)?;
            continue;
        }
        writeln!(out, "{} {:<10} {}", if row.ok { "✓" } else { "✗" }, row.check, text::clean(&row.detail))?;
        if !row.fix.is_empty() {
            writeln!(out, "  {:<10} → {}", "", text::clean(&row.fix))?;
        }
    }
    Ok(u8::from(rows.iter().any(|row| !row.ok && row.check == "models")))
}

fn terminal(env: &Env) -> Row {
    if !io::stdout().is_terminal() {
        return Row::good("terminal", "none here: only -p and --json work");
    }
    let name = env("TERM").unwrap_or_default();
    let colours = match env("COLORTERM").as_deref() {
        Some("truecolor" | "24bit") => "24-bit colour",
        _ if name.contains("256") => "256 colours",
        _ => "16 colours",
    };
    let size = crossterm::terminal::size().map(|(width, height)| format!("{width} × {height}")).unwrap_or_default();
    let detail = format!("{name}, {colours}, {size}");
    match name.as_str() {
        "" | "dumb" => Row::bad("terminal", detail, "set TERM to what the terminal is, such as xterm-256color"),
        _ if env("TMUX").is_some() => Row {
            fix: "in tmux, `set -g extended-keys on` lets Shift+Enter through and `set -g set-clipboard on` lets copies out".to_owned(),
            ..Row::good("terminal", format!("{detail}, in tmux"))
        },
        _ => Row::good("terminal", detail),
    }
}

fn clipboard(env: &Env) -> Row {
    let remote = env("SSH_TTY").or_else(|| env("SSH_CONNECTION")).is_some();
    let display =
        cfg!(any(target_os = "macos", windows)) || env("WAYLAND_DISPLAY").is_some() || env("DISPLAY").is_some();
    match (remote, display) {
        (true, _) => {
            Row::good("clipboard", "over SSH: copies go through the terminal (OSC 52); images cannot be pasted")
        }
        (false, true) => match arboard::Clipboard::new() {
            Ok(_) => Row::good("clipboard", "text and images"),
            Err(error) => Row::bad(
                "clipboard",
                format!("the display's cannot be reached: {error}"),
                "copies go through the terminal (OSC 52); attach images by path",
            ),
        },
        (false, false) => {
            Row::good("clipboard", "no display: copies go through the terminal (OSC 52); images are attached by path")
        }
    }
}

fn models(home: &Home, env: &Env) -> Vec<Row> {
    let path = home.agent("models.json");
    let (models, mistakes) = Models::read(&path);
    let mut rows: Vec<_> = mistakes
        .iter()
        .map(|mistake| Row::bad("models", mistake.to_string(), "mend the file; the rest of it applies"))
        .collect();
    let Some(models) = models else {
        let set: Vec<_> = discover::variables().into_iter().filter(|name| env(name).is_some()).collect();
        rows.push(if set.is_empty() {
            let names = discover::variables().join(", ");
            Row::bad(
                "models",
                "no models.json, and no key in the environment",
                format!("set one of {names}, or start a local server; `violin -m demo/demo` shows a scripted demo"),
            )
        } else {
            Row::good("models", format!("no models.json; the keys in {} are used", set.join(", ")))
        });
        return rows;
    };
    let ready = models.models.iter().filter(|model| models.usable(model, &**env).is_ok()).count();
    let lacking = models
        .models
        .iter()
        .filter_map(|model| models.usable(model, &**env).err().map(|reason| format!("{}: {reason}", model.provider)));
    let mut lacking: Vec<_> = lacking.collect();
    lacking.dedup();
    let detail = format!("{ready} of {} models can be asked", models.models.len());
    rows.push(match (ready, lacking.is_empty()) {
        (0, _) => Row::bad("models", detail, format!("{}; see {}", lacking.join("; "), super::shown(&path))),
        (_, true) => Row::good("models", detail),
        (_, false) => Row { fix: lacking.join("; "), ..Row::good("models", detail) },
    });
    rows
}

fn servers(env: &Env) -> Result<Row, Exit> {
    let found = runtime()?.block_on(start::discover(env));
    let local: Vec<_> = found.lines.iter().filter(|line| line.contains("://")).cloned().collect();
    Ok(match local.is_empty() {
        true => Row::good("servers", "none on the default ports of Ollama, llama.cpp and LM Studio"),
        false => Row::good("servers", local.join("; ")),
    })
}

fn settings(home: &Home) -> Row {
    let path = home.agent("settings.json");
    let (_, mistakes) = Settings::read(&[&path]);
    match mistakes.first() {
        None => Row::good("settings", if path.exists() { super::shown(&path) } else { "the defaults".to_owned() }),
        Some(first) => Row::bad(
            "settings",
            format!("{first} ({} in all)", mistakes.len()),
            "mend the file; the rest of it applies",
        ),
    }
}

fn git() -> Row {
    let output = Command::new("git").arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => {
            Row::good("git", String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        _ => Row::bad("git", "the git program is not found", "install git"),
    }
}

/// Whether commands in `auto` run in a sandbox here.
fn sandbox(home: &Home, env: &Env) -> Row {
    let settings = Settings::read(&[&home.agent("settings.json")]).0;
    let cwd = std::env::current_dir().unwrap_or_default();
    let setup = Setup {
        home: home.clone(),
        cwd,
        overrides: Overrides::default(),
        env: env.clone(),
        models: None,
        headless: true,
        plugins: crate::plugin::Host::new(home.clone()),
    };
    let system = system();
    match setup.sandbox(&settings) {
        Ok(kind) if settings.sandbox.network => {
            Row::good("sandbox", format!("{system}: commands in `auto` write only in the project ({kind})"))
        }
        Ok(kind) => Row::good(
            "sandbox",
            format!("{system}: commands in `auto` write only in the project, and use no TCP ({kind})"),
        ),
        Err(why) => Row::bad(
            "sandbox",
            format!("{system}: {why}"),
            "`auto` asks for every command here; rules in settings.json (permissions.allow) let known ones run",
        ),
    }
}

fn system() -> String {
    #[cfg(target_os = "linux")]
    return format!("Linux {}", rustix::system::uname().release().to_string_lossy());
    #[cfg(not(target_os = "linux"))]
    return std::env::consts::OS.to_owned();
}

fn storage(home: &Home) -> Row {
    let root = home.root();
    let tried =
        private_dir(root).and_then(|()| tempfile::Builder::new().prefix(".doctor-").tempfile_in(root).map(drop));
    match tried {
        Ok(()) => Row::good("storage", super::shown(root)),
        Err(error) => Row::bad(
            "storage",
            format!("{} cannot be written: {error}", super::shown(root)),
            "sessions are kept in memory only until this is mended",
        ),
    }
}
