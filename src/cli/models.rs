//! `violin models`: what is configured, and what can be asked.

use std::io::{self, Write};

use super::args::ModelsArgs;
use super::{Exit, runtime, start};
use crate::agent::Env;
use crate::config::Models;
use crate::config::models::ModelRow;
use crate::home::Home;
use crate::text;

/// Does what `violin models …` says.
pub fn run(home: &Home, env: Env, args: &ModelsArgs) -> Result<u8, Exit> {
    let (models, mistakes) = Models::read(&home.agent("models.json"));
    for mistake in &mistakes {
        let _ = writeln!(io::stderr(), "violin: {}", text::clean(&mistake.to_string()));
    }
    let (models, written) = match models {
        Some(models) => (models, true),
        None => (runtime()?.block_on(start::discover(&env)).models(), false),
    };
    let rows = ModelRow::all(&models, &*env);
    let mut out = io::stdout().lock();
    if args.json {
        for row in &rows {
            writeln!(out, "{}", serde_json::to_string(row).map_err(Exit::failed)?)?;
        }
    } else {
        let widest = rows.iter().map(|row| row.provider.len() + row.id.len() + 1).max().unwrap_or(0);
        for row in &rows {
            let reference = text::clean(&format!("{}/{}", row.provider, row.id));
            let state = row.reason.as_deref().unwrap_or("ready");
            writeln!(out, "{reference:<widest$}  {:>8}  {:<20}  {}", row.context_window, row.api, text::clean(state))?;
        }
        if !written && !rows.is_empty() {
            let _ = writeln!(
                io::stderr(),
                "violin: found in the environment and on this machine; models.json is not written yet"
            );
        }
    }
    if rows.is_empty() {
        return Err(Exit::usage(crate::config::models::SelectError::NoModels));
    }
    Ok(if mistakes.is_empty() { 0 } else { super::USAGE })
}
