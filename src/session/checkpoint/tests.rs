use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::*;
use crate::home::Home;

const LIMITS: Limits = Limits { file_bytes: 1 << 20, files: 1_000 };

struct Project {
    dir: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(dir.path().join("p")).expect("made");
        Project { dir }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("p")
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, bytes).expect("written");
    }

    fn open(&self) -> Checkpoints {
        Checkpoints::open(&Home::at(self.dir.path().join("home")), &self.root(), LIMITS).expect("git is there")
    }

    /// Everything in the project: kind, mode and content of each path.
    fn state(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        use std::os::unix::fs::PermissionsExt;
        fn walk(folder: &Path, out: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
            for entry in fs::read_dir(folder).expect("readable").flatten() {
                let path = entry.path();
                let metadata = fs::symlink_metadata(&path).expect("there");
                let mode = metadata.permissions().mode();
                if metadata.is_symlink() {
                    out.insert(
                        path.clone(),
                        (mode, fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()),
                    );
                } else if metadata.is_dir() {
                    out.insert(path.clone(), (mode, Vec::new()));
                    walk(&path, out);
                } else {
                    out.insert(path.clone(), (mode, fs::read(&path).expect("readable")));
                }
            }
        }
        let mut out = BTreeMap::new();
        walk(&self.root(), &mut out);
        out
    }
}

fn restore(checkpoints: &mut Checkpoints, target: &str) -> Plan {
    let plan = checkpoints.plan(target, None).expect("planned");
    checkpoints.apply(&plan).expect("applied");
    plan
}

#[cfg(unix)]
#[test]
fn every_kind_of_change_goes_back_and_forth() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};
    let project = Project::new();
    let root = project.root();
    let mut checkpoints = project.open();
    project.write("a.txt", b"one\r\ntwo\r\n");
    project.write("src/deep/b.rs", b"fn main() {}\n");
    project.write("run.sh", b"#!/bin/sh\n");
    project.write("latin", b"caf\xe9\n");
    project.write(".gitattributes", b"* text=auto eol=lf\n");
    fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o640)).expect("set");
    fs::write(root.join(std::ffi::OsStr::from_bytes(b"odd\xff \"name\"")), "odd").expect("written");
    symlink("a.txt", root.join("link")).expect("linked");
    fs::create_dir(root.join("empty")).expect("made");
    let first = checkpoints.take().expect("taken");
    let before = project.state();

    fs::remove_dir_all(root.join("src")).expect("removed");
    project.write("src", b"a file where a folder was");
    project.write("new/file", b"new");
    project.write("a.txt", b"changed");
    fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o755)).expect("set");
    fs::remove_file(root.join("link")).expect("removed");
    symlink("latin", root.join("link")).expect("linked");
    fs::rename(root.join("latin"), root.join("renamed")).expect("renamed");
    fs::remove_dir(root.join("empty")).expect("removed");
    let second = checkpoints.take().expect("taken");
    let after = project.state();
    assert_ne!(first.reference, second.reference);

    restore(&mut checkpoints, &first.reference);
    assert_eq!(project.state(), before);
    restore(&mut checkpoints, &second.reference);
    assert_eq!(project.state(), after);
    // Another process knows the same checkpoints.
    restore(&mut project.open(), &first.reference);
    assert_eq!(project.state(), before);
}

#[test]
fn ignored_files_nested_repositories_and_large_files_are_left_alone() {
    let project = Project::new();
    let root = project.root();
    project.write(".gitignore", b"target/\n*.log\n");
    project.write(".git/config", b"[core]\n");
    project.write("target/out", b"built");
    project.write("vendor/lib/.git/HEAD", b"ref");
    project.write("vendor/lib/code", b"theirs");
    project.write("big.bin", &vec![7; 2 << 20]);
    project.write("mine", b"1");
    let mut checkpoints = project.open();
    let first = checkpoints.take().expect("taken");
    assert!(first.left_out.iter().any(|text| text.starts_with("big.bin")), "{:?}", first.left_out);
    let manifest = checkpoints.manifest(&first.reference).expect("there");
    let paths: Vec<_> = manifest.items.keys().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
    assert_eq!(paths, [".gitignore", "mine", "vendor"]);

    project.write("mine", b"2");
    project.write("target/out", b"built again");
    project.write("vendor/lib/code", b"theirs, changed");
    project.write("big.bin", b"small now");
    project.write("a.log", b"log");
    restore(&mut checkpoints, &first.reference);
    let read = |path: &str| fs::read(root.join(path)).expect("there");
    assert_eq!((read("mine"), read("target/out")), (b"1".to_vec(), b"built again".to_vec()));
    assert_eq!((read("vendor/lib/code"), read("a.log")), (b"theirs, changed".to_vec(), b"log".to_vec()));
    assert_eq!(read(".git/config"), b"[core]\n");
}

#[test]
fn what_somebody_else_changed_is_a_conflict_and_a_restore_can_be_undone() {
    let project = Project::new();
    let mut checkpoints = project.open();
    project.write("a", b"1");
    project.write("b", b"1");
    let start = checkpoints.take().expect("taken");
    project.write("a", b"2");
    let end = checkpoints.take().expect("taken");
    project.write("b", b"by hand");
    let plan = checkpoints.plan(&start.reference, Some(&end.reference)).expect("planned");
    assert_eq!((plan.changes.len(), plan.conflicts.clone()), (2, vec![b"b".to_vec()]));
    checkpoints.apply(&plan).expect("applied");
    assert_eq!(fs::read(project.root().join("b")).expect("there"), b"1");
    restore(&mut checkpoints, &plan.before);
    assert_eq!(fs::read(project.root().join("b")).expect("there"), b"by hand");
    assert_eq!(fs::read(project.root().join("a")).expect("there"), b"2");
}

#[test]
fn an_unchanged_tree_needs_no_new_checkpoint() {
    let project = Project::new();
    project.write("a", b"1");
    let mut checkpoints = project.open();
    let first = checkpoints.take().expect("taken");
    // Files that are only just written are looked at again, since clocks tick.
    let mut again = checkpoints.take().expect("taken");
    while checkpoints.cache.known_count() == 0 {
        again = checkpoints.take().expect("taken");
    }
    assert_eq!(checkpoints.take().expect("taken").reference, again.reference);
    assert_eq!(
        checkpoints.manifest(&first.reference).expect("there"),
        checkpoints.manifest(&again.reference).expect("there")
    );
}

#[cfg(unix)]
#[test]
fn a_link_does_not_lead_a_restore_out_of_the_project() {
    let project = Project::new();
    let outside = project.dir.path().join("outside");
    fs::create_dir(&outside).expect("made");
    project.write("d/file", b"1");
    let mut checkpoints = project.open();
    let first = checkpoints.take().expect("taken");
    fs::remove_dir_all(project.root().join("d")).expect("removed");
    std::os::unix::fs::symlink(&outside, project.root().join("d")).expect("linked");
    let plan = checkpoints.plan(&first.reference, None).expect("planned");
    checkpoints.apply(&plan).expect("the link goes, the folder comes");
    assert!(fs::read_dir(&outside).expect("there").next().is_none());
    assert_eq!(fs::read(project.root().join("d/file")).expect("there"), b"1");
}

#[test]
fn a_tree_of_too_many_files_is_refused() {
    let project = Project::new();
    for name in ["a", "b", "c"] {
        project.write(name, b"1");
    }
    let home = Home::at(project.dir.path().join("home"));
    let mut checkpoints =
        Checkpoints::open(&home, &project.root(), Limits { files: 2, ..LIMITS }).expect("git is there");
    let Err(CheckpointError::TooMany(told)) = checkpoints.take() else { panic!("refused") };
    assert!(told.starts_with("there are more than 2 files in "), "{told}");
}

#[test]
fn names_that_are_no_checkpoints_are_refused() {
    let project = Project::new();
    let mut checkpoints = project.open();
    for name in ["", "HEAD", "0123456789012345678901234567890123456789", "--help"] {
        assert!(matches!(checkpoints.plan(name, None), Err(CheckpointError::Missing(_))), "{name}");
    }
}
