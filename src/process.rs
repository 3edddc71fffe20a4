//! Starting programs so that the whole process can still be stopped by Ctrl+Z.
//!
//! On its way to a new program a parent waits in a state in which it cannot be stopped. A SIGTSTP to the process group that
//! comes just then stops the child before it has become the program, the parent waits for it, and the shell waits for
//! both, for ever. So nobody starts a program while the group is being stopped.

use std::io;
use std::process::{Child, Command};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

static STARTING: RwLock<()> = RwLock::new(());

/// A start takes milliseconds; longer than this nobody waits for it.
const PATIENCE: Duration = Duration::from_millis(300);

/// Starts a program.
///
/// # Errors
/// Those of the system.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    starting(|| command.spawn())
}

/// Does what starts a program, and nothing else.
pub fn starting<T>(start: impl FnOnce() -> T) -> T {
    let _held = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    start()
}

/// Does `stop` while no program is being started.
pub fn while_none_starts<T>(stop: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Ok(_held) = STARTING.try_write() {
            return stop();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    stop()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_stop_waits_for_a_start_but_not_for_ever() {
        let started = AtomicBool::new(false);
        let (begun, waits) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                starting(|| {
                    begun.send(()).expect("there");
                    std::thread::sleep(Duration::from_millis(30));
                    started.store(true, Ordering::SeqCst);
                });
            });
            waits.recv().expect("begun");
            assert!(while_none_starts(|| started.load(Ordering::SeqCst)));
        });
        let held = STARTING.read().expect("no panic");
        while_none_starts(|| ());
        drop(held);
    }
}
