//! Linux: Landlock. A ruleset holds for the thread that takes it and for what that starts, for ever; so a thread of its
//! own takes it, starts the command and ends.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError,
};
use process_wrap::tokio::{ChildWrapper, CommandWrap};

use crate::toolkit::Fence;

/// The first version that also stops a file from being cut short (Linux 6.2).
const FILES: ABI = ABI::V3;

/// The first version that knows TCP (Linux 6.7).
const NETWORK: ABI = ABI::V4;

/// Whether the kernel can. It is asked once.
pub fn support(network: bool) -> Result<&'static str, String> {
    static FOUND: OnceLock<(bool, bool)> = OnceLock::new();
    let (files, tcp) = *FOUND.get_or_init(|| (empty(true).is_ok(), empty(false).is_ok()));
    match (files, network || tcp) {
        (true, true) => Ok("Landlock"),
        (true, false) => Err("this kernel's Landlock cannot keep commands off the network (sandbox.network is false; Linux 6.7 or later can)".to_owned()),
        (false, _) => Err("this kernel has no Landlock that would do (Linux 6.2 or later with `landlock` among its security modules has)".to_owned()),
    }
}

/// A ruleset that allows nothing, so that the kernel tells whether it knows all of it.
fn empty(network: bool) -> Result<RulesetCreated, RulesetError> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let mut ruleset = ruleset.handle_access(AccessFs::from_write(FILES))?;
    if !network {
        ruleset = ruleset.handle_access(AccessNet::from_all(NETWORK))?;
    }
    ruleset.create()
}

/// Takes the fence for this thread and all that it starts.
fn restrict(fence: &Fence) -> Result<(), RulesetError> {
    let mut ruleset = empty(fence.network)?;
    let folder = AccessFs::from_write(FILES);
    let file = folder & AccessFs::from_file(FILES);
    for path in &fence.write {
        // What is not there cannot be written, and need not be allowed.
        let Ok(opened) = PathFd::new(path) else { continue };
        let access = if Path::is_dir(path) { folder } else { file };
        ruleset = ruleset.add_rule(PathBeneath::new(opened, access))?;
    }
    ruleset.restrict_self()?;
    Ok(())
}

/// Starts a command within the fence.
pub fn spawn(fence: &Fence, command: &mut CommandWrap) -> io::Result<Box<dyn ChildWrapper>> {
    let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("fenced".to_owned()).spawn_scoped(scope, || {
            let _entered = runtime.enter();
            restrict(fence)
                .map_err(|error| io::Error::other(format!("the sandbox could not be put in force: {error}")))?;
            command.spawn()
        })?;
        thread.join().map_err(|_| io::Error::other("the thread that starts it failed"))?
    })
}
