//! Files that go with the conversation: a checkpoint before each message of the person's and after each run, and the way
//! back to one.
//!
//! A checkpoint is taken beside the model call and waited for before anything can change a file.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use tokio::task::JoinHandle;

use super::core::Core;
use super::protocol::{FileChange, RestorePreview, Update};
use crate::home::Home;
use crate::message::Message;
use crate::session::checkpoint::{Change, CheckpointError, Checkpoints, Limits, Plan, Taken};
use crate::session::{EntryId, Record, Tree};

/// Under this name a restore is kept in the session.
const RESTORE: &str = "violin.restore";

/// Files that are named in a notice; more are counted.
const NAMED: usize = 5;

/// The checkpoints of the session's project, and what is under way with them.
#[derive(Debug)]
pub struct Files {
    keeper: Arc<Mutex<Keeper>>,
    pending: Option<(EntryId, JoinHandle<Result<Taken, CheckpointError>>)>,
    /// The newest checkpoint, and the message that it was taken for.
    newest: Option<(EntryId, String)>,
    /// Something may have changed a file since the newest one.
    touched: bool,
    /// That they are off, or what they leave out, was told.
    told: bool,
}

/// Opened when the first one is taken, on the blocking pool.
#[derive(Debug)]
enum Keeper {
    Off,
    Closed(Box<(Home, std::path::PathBuf, Limits)>),
    Open(Box<Checkpoints>),
}

impl Keeper {
    fn get(&mut self) -> Result<&mut Checkpoints, CheckpointError> {
        if let Keeper::Closed(place) = self {
            let (home, cwd, limits) = place.as_ref();
            *self = Keeper::Open(Box::new(Checkpoints::open(home, cwd, *limits)?));
        }
        match self {
            Keeper::Open(checkpoints) => Ok(checkpoints),
            Keeper::Off | Keeper::Closed(_) => {
                Err(CheckpointError::Unsuitable("checkpoints are off in the settings".to_owned()))
            }
        }
    }
}

impl Files {
    /// The files of a directory.
    pub fn of(home: &Home, cwd: &Path, settings: &crate::config::settings::Checkpoints) -> Self {
        let limits = Limits { file_bytes: settings.max_file_mb.saturating_mul(1 << 20) };
        let keeper = match settings.enabled {
            true => Keeper::Closed(Box::new((home.clone(), cwd.to_owned(), limits))),
            false => Keeper::Off,
        };
        let keeper = Arc::new(Mutex::new(keeper));
        Files { keeper, pending: None, newest: None, touched: false, told: false }
    }

    fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Checkpoints) -> Result<T, CheckpointError> + Send + 'static,
    ) -> JoinHandle<Result<T, CheckpointError>> {
        let keeper = self.keeper.clone();
        tokio::task::spawn_blocking(move || work(keeper.lock().unwrap_or_else(PoisonError::into_inner).get()?))
    }

    fn is_off(&self) -> bool {
        self.keeper.try_lock().is_ok_and(|keeper| matches!(*keeper, Keeper::Off))
    }
}

/// Waits for work on the blocking pool.
async fn joined<T>(work: JoinHandle<Result<T, CheckpointError>>) -> Result<T, CheckpointError> {
    work.await.unwrap_or_else(|error| Err(CheckpointError::Git(error.to_string())))
}

impl Core {
    /// Begins a checkpoint of the files as they are before a message is acted on.
    pub(super) async fn begin_checkpoint(&mut self, message: EntryId) {
        self.finish_checkpoint().await;
        if !self.files.is_off() {
            self.files.pending = Some((message, self.files.work(Checkpoints::take)));
        }
    }

    /// Waits for the checkpoint that was begun, and keeps it in the session.
    pub(super) async fn finish_checkpoint(&mut self) {
        let Some((message, work)) = self.files.pending.take() else { return };
        match joined(work).await {
            Ok(taken) => self.keep_checkpoint(message, taken, false).await,
            Err(error) => self.checkpoints_failed(&error).await,
        }
    }

    /// Something may change a file from here on.
    pub(super) async fn before_changes(&mut self) {
        self.finish_checkpoint().await;
        self.files.touched = true;
    }

    /// Takes the checkpoint at the end of a run. Where nothing can have changed, the one from its begin is it.
    pub(super) async fn end_checkpoint(&mut self) {
        self.finish_checkpoint().await;
        let Some((message, reference)) = self.files.newest.clone() else { return };
        let taken = match std::mem::take(&mut self.files.touched) {
            true => joined(self.files.work(Checkpoints::take)).await,
            false => Ok(Taken { reference, left_out: Vec::new() }),
        };
        match taken {
            Ok(taken) => self.keep_checkpoint(message, taken, true).await,
            Err(error) => self.checkpoints_failed(&error).await,
        }
    }

    async fn keep_checkpoint(&mut self, for_id: EntryId, taken: Taken, end: bool) {
        let Taken { reference, left_out } = taken;
        self.files.newest = Some((for_id, reference.clone()));
        self.append_record(Record::Checkpoint { reference, for_id, end }).await;
        if !left_out.is_empty() && !std::mem::replace(&mut self.files.told, true) {
            let text = format!("not kept for a rewind, because they are large: {}", named(&left_out));
            self.bus.notice(text).await;
        }
    }

    async fn checkpoints_failed(&mut self, error: &CheckpointError) {
        self.files.newest = None;
        if !std::mem::replace(&mut self.files.told, true) {
            self.bus.notice(error.to_string()).await;
        }
    }

    /// Tells what going to a place in the tree would change in files.
    pub(super) async fn preview_restore(&mut self, to: Option<EntryId>) {
        let preview = match self.restore_plan(to).await {
            Ok(plan) => preview(to, &plan),
            Err(error) => RestorePreview { to, unavailable: Some(error), ..Default::default() },
        };
        self.bus.send(Update::RestorePreview(preview)).await;
    }

    async fn restore_plan(&mut self, to: Option<EntryId>) -> Result<Plan, String> {
        let tree = self.session.tree();
        let target = files_at(tree, to).ok_or("no checkpoint of the files was taken at that place")?;
        let known = last_known(tree);
        let plan = self.files.work(move |checkpoints| checkpoints.plan(&target, known.as_deref()));
        joined(plan).await.map_err(|error| error.to_string())
    }

    /// Puts the files back as they were at a place in the tree; whether it was done.
    pub(super) async fn restore_files(&mut self, to: Option<EntryId>, force: bool) -> bool {
        match self.restore_plan(to).await {
            Ok(plan) => self.apply(plan, force).await,
            Err(error) => {
                self.bus.notice(format!("the files stay as they are: {error}")).await;
                false
            }
        }
    }

    /// Takes back what the last run changed in files, or the last restore.
    pub(super) async fn undo(&mut self, force: bool) {
        let tree = self.session.tree();
        let Some(target) = undo_target(tree) else {
            return self.bus.notice("there is nothing to undo: no run of this session has a checkpoint").await;
        };
        let known = last_known(tree);
        let plan = self.files.work(move |checkpoints| checkpoints.plan(&target, known.as_deref()));
        match joined(plan).await {
            Ok(plan) if plan.changes.is_empty() => self.bus.notice("there is nothing to undo: no file differs").await,
            Ok(plan) => drop(self.apply(plan, force).await),
            Err(error) => self.bus.notice(error.to_string()).await,
        }
    }

    async fn apply(&mut self, plan: Plan, force: bool) -> bool {
        if !plan.conflicts.is_empty() && !force {
            let paths: Vec<_> = plan.conflicts.iter().map(|path| shown(path)).collect();
            let text = format!(
                "nothing was restored: {} changed since the last run; say yes to overwrite (`/undo force`)",
                named(&paths)
            );
            self.bus.notice(text).await;
            return false;
        }
        let count = plan.changes.len();
        let before = plan.before.clone();
        let work = self.files.work(move |checkpoints| {
            checkpoints.apply(&plan)?;
            checkpoints.take()
        });
        match joined(work).await {
            Ok(taken) => {
                let data = json!({"ref": taken.reference, "before": before});
                self.append_record(Record::Custom { plugin: RESTORE.to_owned(), data }).await;
                self.bus
                    .notice(format!(
                        "{count} {} restored; /undo takes it back",
                        if count == 1 { "file" } else { "files" }
                    ))
                    .await;
                true
            }
            Err(error) => {
                self.bus.notice(format!("not all files could be restored: {error}")).await;
                false
            }
        }
    }
}

fn preview(to: Option<EntryId>, plan: &Plan) -> RestorePreview {
    let kind = |change: &Change| match change {
        Change::Create(_) => FileChange::Created,
        Change::Modify(_) => FileChange::Modified,
        Change::Delete(_) => FileChange::Deleted,
    };
    RestorePreview {
        to,
        unavailable: None,
        changes: plan.changes.iter().map(|(path, change)| (shown(path), kind(change))).collect(),
        conflicts: plan.conflicts.iter().map(|path| shown(path)).collect(),
    }
}

fn shown(path: &[u8]) -> String {
    crate::text::visible(&String::from_utf8_lossy(path))
}

fn named(names: &[String]) -> String {
    let (head, rest) = names.split_at(names.len().min(NAMED));
    match rest.len() {
        0 => head.join(", "),
        more => format!("{} and {more} more", head.join(", ")),
    }
}

/// The checkpoint of the files at a place in the tree: at the end of the run that the place belongs to, or, where that run
/// has no end, before the message that follows; before the first entry, the first one of all.
fn files_at(tree: &Tree, leaf: Option<EntryId>) -> Option<String> {
    let checkpoints = tree.nodes().iter().filter_map(|node| match node.entry.record() {
        Some(Record::Checkpoint { reference, for_id, end }) => Some((reference, *for_id, *end)),
        _ => None,
    });
    let mut checkpoints = checkpoints.filter(|(_, for_id, _)| tree.find(*for_id).is_some());
    let is_user =
        |index: &usize| matches!(tree.nodes()[*index].entry.message().map(AsRef::as_ref), Some(Message::User(_)));
    let Some(leaf) = leaf else {
        return checkpoints.find(|(_, _, end)| !end).map(|(reference, ..)| reference.clone());
    };
    let index = tree.find(leaf)?;
    let all: Vec<_> = checkpoints.collect();
    // Newer ones first: a run that was gone on with has a later end.
    let of = |for_id: EntryId, at_end: bool| {
        all.iter()
            .rev()
            .find(|(_, id, end)| *id == for_id && *end == at_end)
            .map(|(reference, ..)| (*reference).clone())
    };
    let last_user = tree.path(Some(index)).into_iter().rev().find(is_user).map(|user| tree.nodes()[user].entry.id);
    let at_end = last_user.and_then(|user| of(user, true));
    let following = || {
        let next = tree.nodes()[index].children.iter().find(|child| is_user(child))?;
        of(tree.nodes()[*next].entry.id, false)
    };
    at_end.or_else(following)
}

/// The checkpoint of the files as they were last known to be by our own doing.
fn last_known(tree: &Tree) -> Option<String> {
    tree.nodes().iter().rev().find_map(|node| match node.entry.record() {
        Some(Record::Checkpoint { reference, end: true, .. }) => Some(reference.clone()),
        Some(Record::Custom { plugin, data }) if plugin == RESTORE => Some(data["ref"].as_str()?.to_owned()),
        _ => None,
    })
}

/// What an undo goes back to: before the last restore, or before the last run.
fn undo_target(tree: &Tree) -> Option<String> {
    let mut nodes = tree.nodes().iter().rev();
    nodes.find_map(|node| match node.entry.record() {
        Some(Record::Checkpoint { reference, end: false, .. }) => Some(reference.clone()),
        Some(Record::Custom { plugin, data }) if plugin == RESTORE => Some(data["before"].as_str()?.to_owned()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Entry;

    fn tree(lines: &[&str]) -> Tree {
        let mut tree = Tree::default();
        for line in lines {
            tree.push(Arc::new(Entry::parse(line.as_bytes(), 0).expect("reads")));
        }
        tree
    }

    const LINES: &[&str] = &[
        r#"{"id":1,"parent_id":null,"role":"user","content":"one"}"#,
        r#"{"id":2,"parent_id":1,"type":"checkpoint","ref":"aa","for_id":1}"#,
        r#"{"id":3,"parent_id":2,"role":"assistant","content":"did one"}"#,
        r#"{"id":4,"parent_id":3,"type":"checkpoint","ref":"bb","for_id":1,"end":true}"#,
        r#"{"id":5,"parent_id":4,"role":"user","content":"two"}"#,
        r#"{"id":6,"parent_id":5,"type":"checkpoint","ref":"cc","for_id":5}"#,
        r#"{"id":7,"parent_id":6,"role":"assistant","content":"did two"}"#,
    ];

    #[test]
    fn a_place_in_the_tree_leads_to_its_files() {
        let tree = tree(LINES);
        let at = |id: Option<u64>| files_at(&tree, id.map(EntryId));
        assert_eq!(at(None).as_deref(), Some("aa"));
        for id in [3, 4] {
            assert_eq!(at(Some(id)).as_deref(), Some("bb"), "{id}");
        }
        assert_eq!(at(Some(7)), None, "the run was killed, and nobody knows how it left the files");
        assert_eq!((last_known(&tree).as_deref(), undo_target(&tree).as_deref()), (Some("bb"), Some("cc")));
    }

    #[test]
    fn a_restore_is_what_is_known_and_undone_next() {
        let restore =
            r#"{"id":8,"parent_id":7,"type":"custom","plugin":"violin.restore","data":{"ref":"dd","before":"ee"}}"#;
        let tree = tree(&[LINES, &[restore]].concat());
        assert_eq!((last_known(&tree).as_deref(), undo_target(&tree).as_deref()), (Some("dd"), Some("ee")));
    }
}
