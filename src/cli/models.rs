//! `violin models`: what is configured, what can be asked, and what the providers themselves offer.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::args::{ModelsAction, ModelsArgs};
use super::{Exit, runtime, start};
use crate::agent::Env;
use crate::config::models::{FALLBACK, ModelRow, SelectError};
use crate::config::{Models, secret};
use crate::home::Home;
use crate::model::Model;
use crate::provider::{Credentials, Link, Timeouts, listing};
use crate::text;

/// A provider that has not answered within this is reported so.
const PATIENCE: Duration = Duration::from_secs(10);

/// So many new models are named on the screen; `--json` gives all.
const SHOWN: usize = 8;

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
    if models.models.is_empty() {
        return Err(Exit::usage(SelectError::NoModels));
    }
    let failed = match args.action {
        Some(ModelsAction::Check) => check(&models, &env, args.json)?,
        None | Some(ModelsAction::List) => {
            list(&models, &env, args.json)?;
            if !written && !args.json {
                let text = "found in the environment and on this machine; models.json is not written yet";
                let _ = writeln!(io::stderr(), "violin: {text}");
            }
            false
        }
    };
    Ok(if !mistakes.is_empty() { super::USAGE } else { u8::from(failed) })
}

fn list(models: &Models, env: &Env, json: bool) -> Result<(), Exit> {
    let rows = ModelRow::all(models, &**env);
    let mut out = io::stdout().lock();
    let widest = rows.iter().map(|row| row.provider.len() + row.id.len() + 1).max().unwrap_or(0);
    for row in &rows {
        if json {
            writeln!(out, "{}", serde_json::to_string(row).map_err(Exit::failed)?)?;
            continue;
        }
        let reference = text::clean(&format!("{}/{}", row.provider, row.id));
        let state = row.reason.as_deref().unwrap_or("ready");
        writeln!(out, "{reference:<widest$}  {:>8}  {:<20}  {}", row.context_window, row.api, text::clean(state))?;
    }
    Ok(())
}

/// What came of asking one provider.
#[derive(Debug, Serialize)]
struct Checked {
    provider: String,
    api: String,
    ok: bool,
    /// What went wrong, or how many models it offers.
    detail: String,
    /// Models of the file that it does not offer.
    missing: Vec<String>,
    /// Models that it offers and the file lacks.
    new: Vec<String>,
}

/// Asks each provider at once what it offers.
fn ask(models: &Models, env: &Env) -> io::Result<Vec<Checked>> {
    // A provider may have models at several addresses; each is asked once.
    let mut asked: Vec<Arc<Model>> = Vec::new();
    for model in models.models.iter().filter(|model| model.api != FALLBACK) {
        let same = |known: &Arc<Model>| known.provider == model.provider && known.base_url == model.base_url;
        if !asked.iter().any(same) {
            asked.push(model.clone());
        }
    }
    let link = Link::new(Timeouts { connect: PATIENCE, idle: PATIENCE });
    let checks = asked.iter().map(|model| check_one(models, model, &link, env));
    Ok(runtime()?.block_on(futures::future::join_all(checks)))
}

/// What providers offer and models.json lacks, as provider and id, and what went wrong with some of them.
pub fn offered(models: &Models, env: &Env) -> (Vec<(String, String)>, Vec<String>) {
    let rows = match ask(models, env) {
        Ok(rows) => rows,
        Err(error) => return (Vec::new(), vec![error.to_string()]),
    };
    let failed = rows.iter().filter(|row| !row.ok).map(|row| format!("{}: {}", row.provider, row.detail)).collect();
    let new = |row: &Checked| row.new.iter().map(|id| (row.provider.clone(), id.clone())).collect::<Vec<_>>();
    (rows.iter().flat_map(new).collect(), failed)
}

/// Asks each provider and tells; `true`: one of them failed.
fn check(models: &Models, env: &Env, json: bool) -> Result<bool, Exit> {
    let rows = ask(models, env)?;
    let mut out = io::stdout().lock();
    for row in &rows {
        if json {
            writeln!(out, "{}", serde_json::to_string(row).map_err(Exit::failed)?)?;
            continue;
        }
        let mark = if row.ok { "ok  " } else { "FAIL" };
        writeln!(out, "{mark}  {}: {}", text::clean(&row.provider), text::clean(&row.detail))?;
        for (what, ids) in [("not offered", &row.missing), ("not in models.json", &row.new)] {
            if !ids.is_empty() {
                let more = ids.len().saturating_sub(SHOWN);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let named = ids.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
                writeln!(out, "      {what}: {}{more}", text::clean(&named))?;
            }
        }
    }
    Ok(rows.iter().any(|row| !row.ok))
}

async fn check_one(models: &Models, model: &Arc<Model>, link: &Link, env: &Env) -> Checked {
    let offered = match credentials(model, env).await {
        Ok(credentials) => {
            let offered = listing::offered(link, model, &credentials, PATIENCE).await;
            offered.map_err(|error| match error.status {
                Some(status) => format!("{} (HTTP {status})", error.told()),
                None => error.told(),
            })
        }
        Err(reason) => Err(reason),
    };
    let of_it = |known: &&Arc<Model>| known.provider == model.provider && known.base_url == model.base_url;
    let configured: Vec<_> = models.models.iter().filter(of_it).map(|known| known.id.clone()).collect();
    let without = |ids: &[String], of: &[String]| ids.iter().filter(|id| !of.contains(id)).cloned().collect::<Vec<_>>();
    let (ok, detail, missing, new) = match offered {
        Ok(ids) => {
            let (missing, new) = (without(&configured, &ids), without(&ids, &configured));
            (true, format!("{} models offered, {} configured", ids.len(), configured.len()), missing, new)
        }
        Err(reason) => (false, reason, Vec::new(), Vec::new()),
    };
    Checked { provider: model.provider.clone(), api: model.api.clone(), ok, detail, missing, new }
}

/// A model's key and headers, or why they cannot be had.
async fn credentials(model: &Model, env: &Env) -> Result<Credentials, String> {
    let api_key = match &model.api_key {
        Some(text) => Some(secret::resolve(text, &**env).await.map_err(|error| error.to_string())?),
        None => None,
    };
    let mut headers = Vec::new();
    for (name, text) in &model.headers {
        headers.push((name.clone(), secret::resolve(text, &**env).await.map_err(|error| error.to_string())?));
    }
    Ok(Credentials { api_key, headers })
}
