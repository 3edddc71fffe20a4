//! `violin plugins`: what there is, and what it is allowed.

use std::io::{self, Write};
use std::sync::Arc;

use serde_json::json;

use super::args::{PluginsAction, PluginsArgs};
use super::{Exit, print_json, runtime, shown, start};
use crate::home::Home;
use crate::plugin::{Host, Origin, PluginRow, State, World};

/// Does what `violin plugins` says.
pub fn run(home: &Home, args: &PluginsArgs) -> Result<u8, Exit> {
    let cwd = start::directory(None)?;
    let host = Host::new(home.clone());
    let runtime = runtime()?;
    runtime.block_on(async {
        host.enter(World { cwd: cwd.clone(), outputs: home.outputs_of("plugins"), ..World::default() });
        let unread = host.load(&cwd);
        host.ready().await;
        for notice in &unread {
            let _ = writeln!(io::stderr(), "violin: {}", crate::text::clean(notice));
        }
        let status = match &args.action {
            Some(PluginsAction::Allow { name }) => allow(&host, name),
            None | Some(PluginsAction::List) => list(&host, args.json),
        };
        host.shut_down().await;
        status
    })
}

fn allow(host: &Arc<Host>, name: &str) -> Result<u8, Exit> {
    let allowed = host.allow(name).map_err(Exit::usage)?;
    let mut out = io::stdout().lock();
    if allowed.is_empty() {
        writeln!(out, "{name} asks for nothing")?;
    }
    for permission in allowed {
        writeln!(out, "{name} may {} ({permission}), as its file stands now", permission.what())?;
    }
    Ok(0)
}

fn list(host: &Arc<Host>, as_json: bool) -> Result<u8, Exit> {
    let rows = host.rows();
    if as_json {
        for row in &rows {
            print_json(&as_value(row))?;
        }
        return Ok(0);
    }
    let mut out = io::stdout().lock();
    if rows.is_empty() {
        writeln!(out, "there are no plugins; files ending in .lua in ~/.violin/plugins are taken for such")?;
    }
    for row in &rows {
        let visible = crate::text::visible;
        let name = format!("{} {}", row.name, row.version);
        writeln!(out, "{:<24} {:<10} {}", name.trim_end(), state(&row.state), visible(&row.description))?;
        let mut detail = |label: &str, text: String| match text.is_empty() {
            true => Ok(()),
            false => writeln!(out, "  {label:<12} {}", visible(&text)),
        };
        detail("file", shown(&row.path))?;
        detail("hooks", row.hooks.join(", "))?;
        let permissions: Vec<&str> = row.permissions.iter().map(|permission| permission.name()).collect();
        detail("permissions", permissions.join(", "))?;
        detail("tools", row.tools.join(", "))?;
        detail("commands", row.commands.iter().map(|name| format!("/{name}")).collect::<Vec<_>>().join(", "))?;
        detail("error", row.last_error.clone().unwrap_or_default())?;
    }
    Ok(0)
}

fn state(state: &State) -> &'static str {
    match state {
        State::Loading => "loading",
        State::Active => "active",
        State::Waiting => "waiting",
        State::Off => "off",
        State::Failed => "failed",
    }
}

fn as_value(row: &PluginRow) -> serde_json::Value {
    json!({
        "name": row.name, "version": row.version, "description": row.description, "path": row.path,
        "origin": match row.origin { Origin::Own => "own", Origin::Project => "project" },
        "state": state(&row.state), "hooks": row.hooks, "permissions": row.permissions,
        "tools": row.tools, "commands": row.commands, "error": row.last_error,
    })
}
