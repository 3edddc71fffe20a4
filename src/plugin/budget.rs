//! How long a call into a plugin may take, seen from both sides: the plugin's thread asks whether it may go on, and who waits
//! for it asks whether it still moves.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// The time of one call (formats.md, "Plugins"); what a command of `violin.run` takes does not count.
pub const LIMIT: Duration = Duration::from_secs(5);

/// Behind the limit, so long is waited for a thread that should have noticed by itself.
const GRACE: Duration = Duration::from_secs(5);

/// No call goes on.
const IDLE: u64 = u64::MAX;

/// Why a call may not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Its time is up.
    Time,
    /// The person interrupted.
    Cancelled,
}

/// The time of a plugin's calls.
#[derive(Debug)]
pub struct Budget {
    begun: Instant,
    /// Milliseconds since `begun`.
    deadline: AtomicU64,
    cancel: Mutex<CancellationToken>,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { begun: Instant::now(), deadline: AtomicU64::new(IDLE), cancel: Mutex::default() }
    }
}

impl Budget {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(IDLE - 1)
    }

    /// A call begins.
    pub fn begin(&self, cancel: CancellationToken) {
        *self.cancel.lock().unwrap_or_else(PoisonError::into_inner) = cancel;
        self.deadline.store(self.now() + LIMIT.as_millis() as u64, Ordering::Relaxed);
    }

    /// It is over.
    pub fn end(&self) {
        self.deadline.store(IDLE, Ordering::Relaxed);
    }

    /// The token of the call that goes on.
    pub fn cancel(&self) -> CancellationToken {
        self.cancel.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives a call more time.
    pub fn extend(&self, by: Duration) {
        let more = |deadline: u64| (deadline != IDLE).then(|| deadline.saturating_add(by.as_millis() as u64));
        // Between two calls there is nothing to give time to.
        let _ = self.deadline.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// Takes time away again that was given and not used.
    pub fn shorten(&self, by: Duration) {
        let less = |deadline: u64| (deadline != IDLE).then(|| deadline.saturating_sub(by.as_millis() as u64));
        let _ = self.deadline.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Whether the call that goes on may go on.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), Stop> {
        if self.now() > self.deadline.load(Ordering::Relaxed) {
            return Err(Stop::Time);
        }
        match self.cancel.lock().unwrap_or_else(PoisonError::into_inner).is_cancelled() {
            true => Err(Stop::Cancelled),
            false => Ok(()),
        }
    }

    /// Whether the call goes on so long behind its limit that its thread is given up.
    pub fn is_lost(&self) -> bool {
        let deadline = self.deadline.load(Ordering::Relaxed);
        deadline != IDLE && self.now() > deadline.saturating_add(GRACE.as_millis() as u64)
    }
}
