//! What a run begins with: the directory, the session, the model.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::args::RunArgs;
use super::{Exit, demo};
use crate::agent::{Env, Loaded, Setup};
use crate::config::discover::{Found, LOCAL_SERVERS};
use crate::config::models::SelectError;
use crate::context::conversation::in_force;
use crate::model::Model;
use crate::provider::listing::model_ids;
use crate::provider::{Link, Timeouts};
use crate::session::{Session, SessionError, list};

/// Local servers that do not answer within this are not there.
const PROBE: Duration = Duration::from_millis(300);

/// Everything that the agent is started with.
pub struct Started {
    pub setup: Setup,
    pub loaded: Loaded,
    pub session: Session,
    pub model: Option<Arc<Model>>,
    /// What the person should know.
    pub notices: Vec<String>,
    /// What was found at the first start, to be written into models.json on a key press.
    pub found: Option<Found>,
}

/// The directory to work in.
pub fn directory(given: Option<&Path>) -> Result<PathBuf, Exit> {
    let here =
        std::env::current_dir().map_err(|error| Exit::usage(format!("the current directory is gone: {error}")))?;
    let Some(given) = given else { return Ok(here) };
    let dir = here.join(given);
    let real = dir.canonicalize().map_err(|error| Exit::usage(format!("-C {}: {error}", given.display())))?;
    if real.is_dir() { Ok(real) } else { Err(Exit::usage(format!("-C {} is no directory", given.display()))) }
}

/// Opens the session and chooses the model.
pub async fn start(mut setup: Setup, args: &RunArgs) -> Result<Started, Exit> {
    let mut notices = Vec::new();
    let asked_for_demo = matches!(args.model.as_deref(), Some("demo" | "demo/demo"));
    let found = first_start(&mut setup, asked_for_demo).await;
    let opens = args.session.is_some() || args.continue_newest || args.fork.is_some();
    if asked_for_demo && !opens {
        setup.cwd = demo::project()?;
    }
    let session = open(&mut setup, args, &mut notices)?;
    let mut loaded = setup.load();
    check_tools(&setup).await?;
    let of_session =
        session.as_ref().and_then(|session| in_force(session.tree()).0.or_else(|| session.header().model.clone()));
    let mut odd = Vec::new();
    let model = match loaded.choose_model(&setup, of_session.as_deref(), &mut odd) {
        Ok(model) => Some(model),
        Err(SelectError::NoModels) if !setup.headless && args.model.is_none() => {
            // Nothing to work with: the demo shows what it would be like, in a project of its own.
            if session.is_none() {
                setup.cwd = demo::project()?;
                loaded = setup.load();
            }
            Some(Arc::new(crate::provider::demo::model()))
        }
        Err(error) => {
            let mistakes: Vec<_> = loaded.notices.drain(..).collect();
            let told = mistakes.into_iter().chain([error.to_string()]).collect::<Vec<_>>();
            return Err(Exit::usage(told.join("\nviolin: ")));
        }
    };
    notices.append(&mut loaded.notices.clone());
    notices.append(&mut odd);
    let reference = model.as_ref().map(|model| model.reference());
    let session = match session {
        Some(session) => session,
        None if args.no_session => Session::ephemeral(&setup.cwd, reference),
        None => Session::new(&setup.home, &setup.cwd, reference),
    };
    Ok(Started { setup, loaded, session, model, notices, found: found.filter(|found| !found.is_empty()) })
}

/// Where there is no models.json, what the environment and this machine offer stands in for it.
async fn first_start(setup: &mut Setup, demo: bool) -> Option<Found> {
    if demo || setup.home.agent("models.json").exists() {
        return None;
    }
    let found = discover(&setup.env).await;
    setup.models = Some(found.models());
    Some(found)
}

/// Looks for keys in the environment and for servers on this machine.
pub async fn discover(env: &Env) -> Found {
    let mut found = Found::in_environment(&**env);
    let link = Link::new(Timeouts { connect: PROBE, idle: PROBE });
    let probes = LOCAL_SERVERS.iter().map(|server| {
        let link = link.clone();
        async move {
            let answer = link.get(&format!("{}/models", server.base_url), Vec::new(), PROBE).await;
            (server, answer.map(|answer| model_ids(&answer)).unwrap_or_default())
        }
    });
    for (server, ids) in futures::future::join_all(probes).await {
        found.add_local(*server, &ids);
    }
    found
}

async fn check_tools(setup: &Setup) -> Result<(), Exit> {
    let known = crate::tool::builtin(&Arc::default());
    let mut names: Vec<_> = known.iter().map(|tool| tool.name().to_owned()).collect();
    let given = || setup.overrides.tools.iter().flatten();
    if given().any(|name| !names.contains(name)) {
        // Only then are plugins worth waiting for. What is wrong with them is told when the agent loads them.
        drop(setup.plugins.load(&setup.cwd));
        setup.plugins.ready().await;
        names.extend(setup.plugins.tools().iter().map(|tool| tool.name().to_owned()));
    }
    match given().find(|name| !names.contains(name)) {
        Some(name) => Err(Exit::usage(format!("there is no tool `{name}`; there are {}", names.join(", ")))),
        None => Ok(()),
    }
}

/// Opens the session that the arguments name; `None`: a new one.
fn open(setup: &mut Setup, args: &RunArgs, notices: &mut Vec<String>) -> Result<Option<Session>, Exit> {
    let find = |given: &str| list::find(&setup.home, given).map_err(Exit::usage);
    let session = if let Some(given) = &args.fork {
        Session::fork(&setup.home, &find(given)?, None).map_err(failed)?
    } else if let Some(given) = &args.session {
        Session::open(&find(given)?).map_err(failed)?
    } else if args.continue_newest {
        match list::newest(&setup.home, &setup.cwd) {
            Some(path) => Session::open(&path).map_err(failed)?,
            None => {
                notices.push("there is no session of this directory yet; this is a new one".to_owned());
                return Ok(None);
            }
        }
    } else {
        return Ok(None);
    };
    let cwd = Path::new(&session.header().cwd);
    if cwd != setup.cwd && args.directory.is_none() {
        if cwd.is_dir() {
            if cwd.canonicalize().ok() != setup.cwd.canonicalize().ok() {
                notices.push(format!("this session works in {}", super::shown(cwd)));
            }
            setup.cwd = cwd.to_owned();
        } else {
            let gone = format!("this session's directory {} is gone", super::shown(cwd));
            if setup.headless {
                return Err(Exit::failed(format!("{gone}; name another with -C DIR")));
            }
            notices.push(format!("{gone}; it goes on in {}", super::shown(&setup.cwd)));
        }
    }
    Ok(Some(session))
}

fn failed(error: SessionError) -> Exit {
    Exit::failed(error)
}
