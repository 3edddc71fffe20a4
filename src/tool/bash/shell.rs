//! Starting a shell: which one, with what around it.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessSession};
use tokio::net::unix::pipe;

use crate::toolkit::{ShellSettings, ToolError};

use super::super::{path, sandbox};

/// The variable by which the processes of a call are found again.
pub const MARKER: &str = "VIOLIN_CALL";

/// What a command finds in its environment, so that nothing in it waits for a person.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("AI_AGENT", "violin"),
    ("TERM", "dumb"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", ""),
    ("EDITOR", "true"),
    ("VISUAL", "true"),
    ("GIT_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("DEBIAN_FRONTEND", "noninteractive"),
];

/// A shell that runs.
pub struct Started {
    /// The shell itself. Only it is waited for.
    pub child: Box<dyn ChildWrapper>,
    /// Its process id, which is that of its group and its session too.
    pub pid: i32,
    /// What it and its children print, in order.
    pub output: pipe::Receiver,
    /// The value of [`MARKER`] in its environment.
    pub marker: String,
}

/// The shell to use.
///
/// # Errors
/// For the model: there is none.
pub fn find(settings: &ShellSettings) -> Result<PathBuf, ToolError> {
    look(settings.program.as_deref(), Path::new("/bin/bash"), std::env::var_os("PATH").as_deref())
}

fn look(program: Option<&str>, bash: &Path, search: Option<&OsStr>) -> Result<PathBuf, ToolError> {
    let on_path = |name: &str| {
        let folders = search.map(std::env::split_paths).into_iter().flatten();
        folders.map(|folder| folder.join(name)).find(|file| file.is_file())
    };
    if let Some(program) = program.filter(|program| !program.trim().is_empty()) {
        let found = match program.contains('/') {
            true => Some(path::resolve(Path::new("/"), program)).filter(|file| file.is_file()),
            false => on_path(program),
        };
        let missing = || ToolError::model(format!("The shell {program} of the settings was not found. Tell the user."));
        return found.ok_or_else(missing);
    }
    let bash = Some(bash.to_owned()).filter(|file| file.is_file());
    bash.or_else(|| on_path("bash")).or_else(|| on_path("sh")).ok_or_else(|| {
        ToolError::model(
            "There is no shell: neither bash nor sh is on PATH. Commands cannot be run here; tell the user.",
        )
    })
}

/// Starts `command`: in a session of its own without a terminal, standard input empty, standard output and
/// error in one pipe. It is no login shell, which would read profiles each time.
///
/// # Errors
/// Those of starting a program.
pub fn start(program: &Path, command: &str, cwd: &Path, settings: &ShellSettings) -> io::Result<Started> {
    let (reader, writer) = io::pipe()?;
    let marker = format!("{:016x}", fastrand::u64(..));
    let (program, before) = sandbox::launcher(settings.fence.as_deref(), program);
    let mut wrap = CommandWrap::with_new(&program, |shell| {
        shell.args(before).arg("-c");
        if command.starts_with(['-', '+']) {
            shell.arg("--");
        }
        shell.arg(command).current_dir(cwd).stdin(Stdio::null());
        shell.envs(ENVIRONMENT.iter().copied());
        shell.envs(settings.env.iter().map(|(name, value)| (name, value)));
        shell.env(MARKER, &marker);
    });
    let errors = writer.try_clone()?;
    wrap.command_mut().stdout(writer).stderr(errors);
    wrap.wrap(ProcessSession);
    let started = match &settings.fence {
        None => wrap.spawn()?,
        Some(fence) => sandbox::spawn(fence, &mut wrap)?,
    };
    // The wrapper would wait for the whole group; a child in the background must not be waited for.
    let child = started.into_inner();
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or_else(|| io::Error::other("no process id"))?;
    let output = pipe::Receiver::from_owned_fd(reader.into())?;
    Ok(Started { child, pid, output, marker })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_are_looked_for_in_order() {
        let dir = tempfile::tempdir().expect("a folder");
        let (bash, sh) = (dir.path().join("bash"), dir.path().join("sh"));
        let none = Path::new("/none/bash");
        let search = Some(dir.path().as_os_str());
        assert!(look(None, none, search).is_err_and(|error| error.to_string().contains("no shell")));
        std::fs::write(&sh, "").expect("written");
        assert_eq!(look(None, none, search).expect("found"), sh);
        std::fs::write(&bash, "").expect("written");
        assert_eq!(look(None, none, search).expect("found"), bash);
        assert_eq!(look(None, &sh, None).expect("found"), sh);
        assert_eq!(look(Some("sh"), &bash, search).expect("found"), sh);
        assert!(look(Some("fish"), &bash, search).is_err_and(|error| error.to_string().contains("fish")));
    }
}
