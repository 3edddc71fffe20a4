//! The sandbox of commands (product.md, "Modes and review"): what they may write, and how the system holds them to it.
//!
//! [`fence`] says what may be written, from settings and surroundings alone; `landlock` (Linux) and `seatbelt` (macOS) put it
//! in force in the child. What neither stops: reading, Unix sockets, and changes of times and rights of files.

#[cfg(target_os = "linux")]
mod landlock;
mod seatbelt;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use process_wrap::tokio::{ChildWrapper, CommandWrap};

use crate::config::settings::Sandbox;
use crate::toolkit::Fence;

/// Where things are, all of them real paths.
#[derive(Debug, Clone)]
pub struct Grounds {
    /// The project's root.
    pub root: PathBuf,
    /// The person's home directory.
    pub home: Option<PathBuf>,
    /// Violin's own home: never writable for a command.
    pub own: PathBuf,
    /// The temporary folder.
    pub temp: PathBuf,
}

/// Looks up a variable of the environment.
type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Devices that shells and programs write to.
const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm", "/dev/ptmx"];

/// Caches of builds and packages, from the home directory. Folders that hold programs or configuration are not among
/// them: what is put there would run outside the sandbox later.
const CACHES: &[&str] = &[
    ".cache",
    ".cargo/registry",
    ".cargo/git",
    ".cargo/.package-cache",
    ".cargo/.package-cache-mutate",
    ".cargo/.global-cache",
    ".npm",
    ".pnpm-store",
    ".local/share/pnpm/store",
    ".yarn/berry/cache",
    ".bun/install/cache",
    "go/pkg",
    ".m2/repository",
    ".gradle/caches",
    ".gradle/daemon",
    ".gradle/native",
    ".gradle/wrapper",
    ".ivy2/cache",
    ".sbt/boot",
    ".nuget/packages",
    ".pub-cache/hosted",
    ".hex/packages",
    "Library/Caches",
];

/// Variables that name a cache, with what is written below it.
const VARIABLES: &[(&str, &[&str])] = &[
    ("XDG_CACHE_HOME", &[""]),
    ("CARGO_TARGET_DIR", &[""]),
    ("CARGO_HOME", &["registry", "git", ".package-cache", ".package-cache-mutate", ".global-cache"]),
    ("GOCACHE", &[""]),
    ("GOMODCACHE", &[""]),
    ("GOPATH", &["pkg"]),
    ("npm_config_cache", &[""]),
    ("PIP_CACHE_DIR", &[""]),
    ("UV_CACHE_DIR", &[""]),
    ("CCACHE_DIR", &[""]),
    ("SCCACHE_DIR", &[""]),
];

/// What commands are kept to.
///
/// # Errors
/// Why they cannot be kept in, in words for the person.
pub fn fence(settings: &Sandbox, grounds: &Grounds, env: Env<'_>) -> Result<Fence, String> {
    if !settings.enabled {
        return Err("it is off in the settings (sandbox.enabled)".to_owned());
    }
    let described = describe(settings, grounds, env)?;
    support(settings.network)?;
    Ok(described)
}

/// As [`fence`], without a look at what the system can do.
fn describe(settings: &Sandbox, grounds: &Grounds, env: Env<'_>) -> Result<Fence, String> {
    let Grounds { root, home, own, temp } = grounds;
    if home.as_ref().is_some_and(|home| home.starts_with(root)) {
        return Err("the project is the home directory or holds it, so that nothing would be kept in".to_owned());
    }
    if own.starts_with(root) {
        return Err("the project holds Violin's own files".to_owned());
    }
    let mut write = vec![root.clone(), temp.clone()];
    write.extend(git_directories(root));
    write.extend(DEVICES.iter().map(PathBuf::from));
    write.extend(home.iter().flat_map(|home| CACHES.iter().map(|cache| home.join(cache))));
    for (name, below) in VARIABLES {
        if let Some(value) = env(name).map(PathBuf::from).filter(|value| value.is_absolute()) {
            write.extend(below.iter().map(|below| value.join(below)));
        }
    }
    write.extend(named_paths(settings, grounds));
    // Whatever names it: nothing that holds the home directory or Violin's files is let be written.
    let holds_much = |path: &PathBuf| {
        let real = super::path::real(path);
        own.starts_with(&real) || real.starts_with(own) || home.as_ref().is_some_and(|home| home.starts_with(&real))
    };
    write.retain(|path| !holds_much(path));
    write.dedup();
    Ok(Fence { write, network: settings.network })
}

/// Folders beside the project in which writes run too: the temporary folder, and what the settings name.
pub fn named(settings: &Sandbox, grounds: &Grounds) -> Vec<PathBuf> {
    let mut folders = vec![grounds.temp.clone()];
    folders.extend(named_paths(settings, grounds).map(|path| super::path::real(&path)));
    let Grounds { home, own, .. } = grounds;
    folders.retain(|path| !own.starts_with(path) && !home.as_ref().is_some_and(|home| home.starts_with(path)));
    folders
}

fn named_paths<'a>(settings: &'a Sandbox, grounds: &'a Grounds) -> impl Iterator<Item = PathBuf> + 'a {
    settings
        .write_paths
        .iter()
        .filter(|path| !path.trim().is_empty())
        .map(|path| super::path::resolve(&grounds.root, path))
}

/// Where git keeps a worktree's or a submodule's data, outside the project. A `.git` file is part of the project, and so may be
/// anybody's: what it names counts only where git's own data say the same of this project.
fn git_directories(root: &Path) -> Vec<PathBuf> {
    let file = root.join(".git");
    let plain = std::fs::symlink_metadata(&file).is_ok_and(|metadata| metadata.is_file());
    let named = || {
        let text = std::fs::read_to_string(&file).ok()?;
        Some(super::path::real(&root.join(text.strip_prefix("gitdir:")?.trim())))
    };
    let Some(dir) = plain.then(named).flatten().filter(|dir| dir.join("HEAD").is_file()) else { return Vec::new() };
    let linked = std::fs::read_to_string(dir.join("gitdir"))
        .is_ok_and(|text| super::path::real(Path::new(text.trim())) == super::path::real(&file));
    if linked {
        let Ok(common) = std::fs::read_to_string(dir.join("commondir")) else { return Vec::new() };
        let common = super::path::real(&dir.join(common.trim()));
        let is_git = common.join("objects").is_dir() && common.join("HEAD").is_file() && dir.starts_with(&common);
        return if is_git { vec![common] } else { Vec::new() };
    }
    let above = root.ancestors().skip(1).map(|above| above.join(".git/modules"));
    let submodule = above.into_iter().any(|modules| dir.starts_with(modules)) && dir.join("objects").is_dir();
    if submodule { vec![dir] } else { Vec::new() }
}

/// Whether this system can hold commands to a fence.
///
/// # Errors
/// Why not.
pub fn support(network: bool) -> Result<&'static str, String> {
    #[cfg(target_os = "linux")]
    return landlock::support(network);
    #[cfg(target_os = "macos")]
    {
        let _ = network;
        return match Path::new(seatbelt::PROGRAM).is_file() {
            true => Ok("sandbox-exec"),
            false => Err(format!("{} is not there", seatbelt::PROGRAM)),
        };
    }
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    {
        let _ = network;
        Err("this system has none that Violin knows".to_owned())
    }
}

/// The program that a command is started by, and what comes before the command's own arguments.
pub fn launcher(fence: Option<&Fence>, program: &Path) -> (PathBuf, Vec<OsString>) {
    #[cfg(target_os = "macos")]
    if let Some(fence) = fence {
        return (seatbelt::PROGRAM.into(), vec!["-p".into(), seatbelt::profile(fence).into(), program.into()]);
    }
    let _ = fence;
    (program.to_owned(), Vec::new())
}

/// Starts a command of [`launcher`]'s that is kept to a fence.
///
/// # Errors
/// Where the fence cannot be put in force (nothing is started then), or the program cannot be started.
pub fn spawn(fence: &Fence, command: &mut CommandWrap) -> io::Result<Box<dyn ChildWrapper>> {
    #[cfg(target_os = "linux")]
    return landlock::spawn(fence, command);
    #[cfg(target_os = "macos")]
    {
        let _ = fence;
        command.spawn()
    }
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    {
        let _ = (fence, command);
        Err(io::Error::other("there is no sandbox on this system"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn grounds(root: &str) -> Grounds {
        let path = PathBuf::from;
        Grounds {
            root: path(root),
            home: Some(path("/home/me")),
            own: path("/home/me/.violin"),
            temp: path("/var/tmp/x"),
        }
    }

    fn write(settings: &Sandbox, root: &str, variables: &[(&str, &str)]) -> Vec<String> {
        let env = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let fence = describe(settings, &grounds(root), &env).expect("a fence");
        fence.write.iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn a_fence_holds_the_project_temporary_files_and_caches() {
        let settings =
            Sandbox { write_paths: vec!["/srv/data".into(), "../sibling".into(), " ".into()], ..Sandbox::default() };
        let got = write(
            &settings,
            "/home/me/p",
            &[("CARGO_HOME", "/c"), ("GOCACHE", "relative"), ("CARGO_TARGET_DIR", "/t")],
        );
        for path in ["/home/me/p", "/var/tmp/x", "/dev/null", "/home/me/.cache", "/c/registry", "/t/", "/srv/data"] {
            assert!(got.iter().any(|known| known == path), "{path} in {got:?}");
        }
        assert!(got.iter().any(|path| path.ends_with("sibling")));
        for path in ["/home/me", "/home/me/.cargo", "/home/me/.cargo/bin", "/c", "/", "relative", "/home/me/.ssh"] {
            assert!(!got.iter().any(|known| known == path), "{path} in {got:?}");
        }
    }

    #[test]
    fn what_holds_the_home_directory_is_never_let_be_written() {
        let settings = Sandbox {
            write_paths: ["/", "/home", "~", "/home/me/.violin/agent"].map(str::to_owned).into(),
            ..Sandbox::default()
        };
        let got =
            write(&settings, "/home/me/p", &[("XDG_CACHE_HOME", "/home/me"), ("CARGO_TARGET_DIR", "/home/me/.violin")]);
        for path in
            ["/", "/home", "/home/me", "/home/me/", "/home/me/.violin", "/home/me/.violin/", "/home/me/.violin/agent"]
        {
            assert!(!got.iter().any(|known| known == path), "{path} in {got:?}");
        }
        for root in ["/home/me", "/home", "/"] {
            assert!(describe(&Sandbox::default(), &grounds(root), &|_| None).is_err(), "{root}");
        }
        let off = Sandbox { enabled: false, ..Sandbox::default() };
        assert!(fence(&off, &grounds("/p"), &|_| None).is_err_and(|why| why.contains("sandbox.enabled")));
    }

    #[test]
    fn a_git_file_opens_only_what_points_back() {
        let dir = tempfile::tempdir().expect("a folder");
        let base = dir.path().canonicalize().expect("real");
        let (root, main) = (base.join("tree"), base.join("main/.git"));
        fs::create_dir_all(&root).expect("made");
        fs::create_dir_all(main.join("worktrees/tree")).expect("made");
        fs::create_dir_all(main.join("objects")).expect("made");
        for file in ["HEAD", "worktrees/tree/HEAD"] {
            fs::write(main.join(file), "ref: x").expect("written");
        }
        fs::write(main.join("worktrees/tree/commondir"), "../..\n").expect("written");
        let link = format!("gitdir: {}\n", main.join("worktrees/tree").display());
        fs::write(root.join(".git"), link).expect("written");
        assert!(git_directories(&root).is_empty(), "nothing points back");
        fs::write(main.join("worktrees/tree/gitdir"), root.join(".git").display().to_string()).expect("written");
        assert_eq!(git_directories(&root), std::slice::from_ref(&main));
        // A repository that names somebody else's folder.
        let secret = base.join("ssh");
        fs::create_dir_all(secret.join("objects")).expect("made");
        fs::write(secret.join("HEAD"), "").expect("written");
        fs::write(root.join(".git"), format!("gitdir: {}", secret.display())).expect("written");
        assert!(git_directories(&root).is_empty());
    }
}
