//! Files that go with the conversation: a checkpoint before each message of the person's and after each run, and the way
//! back to one.
//!
//! A checkpoint is taken beside the model call and waited for before anything can change a file.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use tokio::task::JoinHandle;

use super::core::Core;
use super::protocol::{FileChange, Place, RestorePreview, Update};
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
    /// The checkpoint from the begin of the run that goes on.
    begun: Option<String>,
    /// What they leave out was told.
    told_left_out: bool,
    /// That there are none was told.
    told_failure: bool,
}

/// Opened when the first one is taken, on the blocking pool.
#[derive(Debug)]
enum Keeper {
    Off,
    Closed(Box<(Home, std::path::PathBuf, Limits)>),
    Open(Box<Checkpoints>),
    /// There are too many files: looking at them again would be as slow as the first time.
    TooMany(String),
}

impl Keeper {
    fn get(&mut self) -> Result<&mut Checkpoints, CheckpointError> {
        if let Keeper::Closed(place) = self {
            let (home, cwd, limits) = place.as_ref();
            *self = Keeper::Open(Box::new(Checkpoints::open(home, cwd, *limits)?));
        }
        match self {
            Keeper::Open(checkpoints) => Ok(checkpoints),
            Keeper::TooMany(reason) => Err(CheckpointError::TooMany(reason.clone())),
            Keeper::Off | Keeper::Closed(_) => {
                Err(CheckpointError::Unsuitable("checkpoints are off in the settings".to_owned()))
            }
        }
    }
}

impl Files {
    /// The files of a directory.
    pub fn of(home: &Home, cwd: &Path, settings: &crate::config::settings::Checkpoints) -> Self {
        let limits = Limits { file_bytes: settings.max_file_mb.saturating_mul(1 << 20), ..Limits::default() };
        let keeper = match settings.enabled {
            true => Keeper::Closed(Box::new((home.clone(), cwd.to_owned(), limits))),
            false => Keeper::Off,
        };
        let keeper = Arc::new(Mutex::new(keeper));
        let (pending, newest, begun) = (None, None, None);
        Files { keeper, pending, newest, touched: false, begun, told_left_out: false, told_failure: false }
    }

    /// A new run begins.
    pub(super) fn begin_run(&mut self) {
        self.begun = None;
    }

    fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Checkpoints) -> Result<T, CheckpointError> + Send + 'static,
    ) -> JoinHandle<Result<T, CheckpointError>> {
        let keeper = self.keeper.clone();
        tokio::task::spawn_blocking(move || {
            let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
            let done = keeper.get().and_then(work);
            if let Err(CheckpointError::TooMany(reason)) = &done {
                *keeper = Keeper::TooMany(reason.clone());
            }
            done
        })
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
        let begun = match end {
            true => self.files.begun.take(),
            false => {
                self.files.begun.get_or_insert_with(|| reference.clone());
                None
            }
        };
        self.append_record(Record::Checkpoint { reference, for_id, end, begun }).await;
        if !left_out.is_empty() && !std::mem::replace(&mut self.files.told_left_out, true) {
            let text = format!("not kept for a rewind, because they are large: {}", named(&left_out));
            self.bus.notice(text).await;
        }
    }

    async fn checkpoints_failed(&mut self, error: &CheckpointError) {
        self.files.newest = None;
        if !std::mem::replace(&mut self.files.told_failure, true) {
            self.bus.notice(error.to_string()).await;
        }
    }

    /// Tells what going to a place in the tree would change in files.
    pub(super) async fn preview_restore(&mut self, to: Place) {
        let preview = match self.restore_plan(to).await {
            Ok(plan) => preview(to, &plan),
            Err(error) => RestorePreview { to, unavailable: Some(error), ..Default::default() },
        };
        self.bus.send(Update::RestorePreview(preview)).await;
    }

    async fn restore_plan(&mut self, to: Place) -> Result<Plan, String> {
        let tree = self.session.tree();
        let target = files_at(tree, to).ok_or_else(|| why_none(tree, to))?;
        let known = last_known(tree);
        let plan = self.files.work(move |checkpoints| checkpoints.plan(&target, known.as_deref()));
        joined(plan).await.map_err(|error| error.to_string())
    }

    /// Puts the files back as they were at a place in the tree; what the person should know of it.
    ///
    /// # Errors
    /// Why not, in a sentence.
    pub(super) async fn restore_files(&mut self, to: Place, force: bool) -> Result<String, String> {
        match self.restore_plan(to).await {
            Ok(plan) => self.apply(plan, force).await,
            Err(error) => Err(format!("the files stay as they are: {error}")),
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
            Ok(plan) => {
                let told = self.apply(plan, force).await.unwrap_or_else(|why_not| why_not);
                self.bus.notice(told).await;
            }
            Err(error) => self.bus.notice(error.to_string()).await,
        }
    }

    async fn apply(&mut self, plan: Plan, force: bool) -> Result<String, String> {
        if !plan.conflicts.is_empty() && !force {
            let paths: Vec<_> = plan.conflicts.iter().map(|path| shown(path)).collect();
            return Err(format!(
                "nothing was restored: {} changed since the last run; say yes to overwrite (`/undo force`)",
                named(&paths)
            ));
        }
        let count = plan.changes.len();
        let before = plan.before.clone();
        let work = self.files.work(move |checkpoints| {
            checkpoints.apply(&plan)?;
            checkpoints.take()
        });
        let taken = joined(work).await.map_err(|error| format!("not all files could be restored: {error}"))?;
        let data = json!({"ref": taken.reference, "before": before});
        self.append_record(Record::Custom { plugin: RESTORE.to_owned(), data }).await;
        Ok(format!("{count} {} restored; /undo takes it back", if count == 1 { "file" } else { "files" }))
    }
}

fn preview(to: Place, plan: &Plan) -> RestorePreview {
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

fn is_user(tree: &Tree, index: usize) -> bool {
    matches!(tree.nodes()[index].entry.message().map(AsRef::as_ref), Some(Message::User(_)))
}

/// The newest message of the person's on the path to a node.
fn last_user(tree: &Tree, index: usize) -> Option<EntryId> {
    let mut path = std::iter::successors(Some(index), |at| tree.nodes()[*at].parent);
    path.find(|at| is_user(tree, *at)).map(|at| tree.nodes()[at].entry.id)
}

/// All checkpoints of messages that are in the tree, in the order of the file: their name, the message, whether they are
/// from the end of its run.
fn checkpoints(tree: &Tree) -> Vec<(&str, EntryId, bool)> {
    let all = tree.nodes().iter().filter_map(|node| match node.entry.record() {
        Some(Record::Checkpoint { reference, for_id, end, .. }) => Some((reference.as_str(), *for_id, *end)),
        _ => None,
    });
    all.filter(|(_, for_id, _)| tree.find(*for_id).is_some()).collect()
}

/// The checkpoint of the files at a place in the tree: before the message that is sent anew; else at the end of the run that
/// the place belongs to, or, where that run has no end, before the message that follows; before the first entry, the first
/// one of all.
fn files_at(tree: &Tree, place: Place) -> Option<String> {
    let all = checkpoints(tree);
    let found = |for_id: EntryId, at_end: bool| {
        // A run that was gone on with has a later end.
        all.iter().rev().find(|(_, id, end)| *id == for_id && *end == at_end).map(|(reference, ..)| *reference)
    };
    if let Some(before) = place.anew.and_then(|message| found(message, false)) {
        return Some(before.to_owned());
    }
    let Some(leaf) = place.leaf else {
        return all.iter().find(|(_, _, end)| !end).map(|(reference, ..)| (*reference).to_owned());
    };
    let index = tree.find(leaf)?;
    let at_end = last_user(tree, index).and_then(|user| found(user, true));
    // Whether nothing but the place's own run lies between it and a message.
    let follows = |message: EntryId| {
        let mut at = tree.find(message).and_then(|user| tree.nodes()[user].parent);
        while let Some(above) = at {
            if above == index {
                return true;
            }
            at = if is_user(tree, above) { None } else { tree.nodes()[above].parent };
        }
        false
    };
    let following = || all.iter().find(|(_, message, end)| !end && follows(*message)).map(|(reference, ..)| *reference);
    at_end.or_else(following).map(str::to_owned)
}

/// Why there is no checkpoint at a place.
fn why_none(tree: &Tree, place: Place) -> String {
    let user = place.leaf.and_then(|id| tree.find(id)).and_then(|index| last_user(tree, index));
    let begun = user.is_some_and(|user| checkpoints(tree).iter().any(|(_, message, end)| *message == user && !end));
    match begun {
        true => "the run there was cut off (its process was killed), so that nobody knows how it left the files; those from before its message can be had".to_owned(),
        false => "no checkpoint of the files was taken at that place".to_owned(),
    }
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
        Some(Record::Checkpoint { end: true, begun: Some(begun), .. }) => Some(begun.clone()),
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
        let at = |id: Option<u64>| files_at(&tree, Place { leaf: id.map(EntryId), anew: None });
        assert_eq!(at(None).as_deref(), Some("aa"));
        for id in [3, 4] {
            assert_eq!(at(Some(id)).as_deref(), Some("bb"), "{id}");
        }
        assert_eq!(at(Some(7)), None, "the run was killed, and nobody knows how it left the files");
        let told = why_none(&tree, Place { leaf: Some(EntryId(7)), anew: None });
        assert!(told.contains("was cut off"), "{told}");
        assert_eq!((last_known(&tree).as_deref(), undo_target(&tree).as_deref()), (Some("bb"), Some("cc")));
        // A message that is sent anew has the files from right before it, not those from the end of the run before.
        let anew = Place { leaf: Some(EntryId(4)), anew: Some(EntryId(5)) };
        assert_eq!(files_at(&tree, anew).as_deref(), Some("cc"));
    }

    #[test]
    fn a_run_that_was_killed_has_the_files_that_the_next_message_found() {
        let next = [
            r#"{"id":8,"parent_id":7,"type":"thinking_change","level":"low"}"#,
            r#"{"id":9,"parent_id":8,"role":"user","content":"three"}"#,
            r#"{"id":10,"parent_id":9,"type":"checkpoint","ref":"dd","for_id":9}"#,
            r#"{"id":11,"parent_id":10,"type":"checkpoint","ref":"ee","for_id":9,"end":true,"begun":"dd"}"#,
        ];
        let tree = tree(&[LINES, &next].concat());
        for id in [6, 7, 8] {
            let place = Place { leaf: Some(EntryId(id)), anew: None };
            assert_eq!(files_at(&tree, place).as_deref(), Some("dd"), "{id}");
        }
        assert_eq!(undo_target(&tree).as_deref(), Some("dd"));
    }

    #[test]
    fn a_restore_is_what_is_known_and_undone_next() {
        let restore =
            r#"{"id":8,"parent_id":7,"type":"custom","plugin":"violin.restore","data":{"ref":"dd","before":"ee"}}"#;
        let tree = tree(&[LINES, &[restore]].concat());
        assert_eq!((last_known(&tree).as_deref(), undo_target(&tree).as_deref()), (Some("dd"), Some("ee")));
    }
}
