//! `fallback` models: a chain, of which the next one answers where one fails before it has said anything.
//!
//! The model that a person chose stays chosen; who answers for it is told in the transcript and in the session, and
//! after a while the first of the chain is tried again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::core::{Core, RunError};
use crate::config::models::FALLBACK;
use crate::event::{ChangeReason, ErrorKind, Event};
use crate::model::Model;
use crate::session::Record;

/// After so long the first of a chain is tried again.
const COMES_BACK_AFTER: Duration = Duration::from_secs(300);

/// Which of a chain answers.
#[derive(Debug, Default)]
pub struct Standing {
    /// The chain's own reference: the choice of another model begins anew.
    chain: String,
    /// The place in the chain.
    at: usize,
    /// Since when it is not the first.
    left: Option<Instant>,
}

impl Standing {
    /// The place in this chain that answers.
    fn of(&self, chain: &Model) -> usize {
        if self.chain == chain.reference() { self.at } else { 0 }
    }

    fn move_to(&mut self, chain: &Model, at: usize, now: Instant) {
        *self = Standing { chain: chain.reference(), at, left: (at > 0).then_some(now) };
    }

    /// Whether the first is to be tried again.
    fn is_over(&self, now: Instant) -> bool {
        self.left.is_some_and(|left| now.duration_since(left) >= COMES_BACK_AFTER)
    }
}

/// Whether another model may do what this one failed to.
fn another_may_help(kind: ErrorKind) -> bool {
    match kind {
        ErrorKind::Auth
        | ErrorKind::RateLimit
        | ErrorKind::Overloaded
        | ErrorKind::Quota
        | ErrorKind::Server
        | ErrorKind::InvalidRequest
        | ErrorKind::Network
        | ErrorKind::Config => true,
        // A conversation that is too long is compacted, and the others are no faults of a model.
        ErrorKind::ContextOverflow | ErrorKind::Session | ErrorKind::Limit | ErrorKind::Internal => false,
    }
}

impl Core {
    /// The model that answers: the chosen one, or, where that is a chain, the one whose turn it is.
    ///
    /// # Errors
    /// Where there is none.
    pub(super) fn model(&self) -> Result<Arc<Model>, RunError> {
        let chosen = self.model.clone().ok_or_else(|| {
            RunError::new(ErrorKind::Config, crate::config::models::SelectError::NoModels.to_string())
        })?;
        if chosen.api != FALLBACK {
            return Ok(chosen);
        }
        let name = chosen.chain.get(self.standing.of(&chosen)).or(chosen.chain.first());
        let name = name.ok_or_else(|| {
            let text =
                format!("the chain of {} in models.json is empty: name its models in `chain`", chosen.reference());
            RunError::new(ErrorKind::Config, text)
        })?;
        self.loaded.select(name).map_err(|error| {
            let text = format!("{error}; the chain of {} in models.json names it", chosen.reference());
            RunError::new(ErrorKind::Config, text)
        })
    }

    /// The chain that answers, where the chosen model is one.
    pub(super) fn chain(&self) -> Option<Arc<Model>> {
        self.model.clone().filter(|model| model.api == FALLBACK)
    }

    /// Moves on in the chain after a failure; `false`: there is no chain, it is at its end, or another model would
    /// not help.
    pub(super) async fn move_on(&mut self, kind: ErrorKind, reason: &str) -> bool {
        let Some(chain) = self.chain().filter(|_| another_may_help(kind)) else { return false };
        let at = self.standing.of(&chain);
        let (Some(failed), Some(next)) = (chain.chain.get(at), chain.chain.get(at + 1)) else { return false };
        let text = format!("{failed} failed ({reason}); {next} goes on");
        self.stand_at(&chain, at + 1, text).await;
        true
    }

    /// Goes back to the first of the chain where it has been left long enough.
    pub(super) async fn come_back(&mut self) {
        if let Some(chain) = self.chain().filter(|_| self.standing.is_over(Instant::now())) {
            self.begin_anew(&chain).await;
        }
    }

    /// Begins the chain anew after all of it failed and was waited for.
    pub(super) async fn begin_anew(&mut self, chain: &Model) {
        if self.standing.of(chain) > 0 {
            let first = chain.chain.first().cloned().unwrap_or_default();
            self.stand_at(chain, 0, format!("{first} is tried again")).await;
        }
    }

    async fn stand_at(&mut self, chain: &Model, at: usize, text: String) {
        self.standing.move_to(chain, at, Instant::now());
        let model = chain.chain.get(at).cloned().unwrap_or_default();
        let reason = ChangeReason::Fallback;
        self.append_record(Record::ModelChange { model: model.clone(), reason }).await;
        self.bus.emit(Event::ModelChange { model, reason }).await;
        self.bus.notice(text).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_chain_comes_back_after_a_while() {
        let chain = Model { chain: vec!["a/x".into(), "b/y".into()], ..crate::provider::demo::model() };
        let other = Model { id: "other".into(), ..chain.clone() };
        let (mut standing, start) = (Standing::default(), Instant::now());
        assert!(!standing.is_over(start));
        standing.move_to(&chain, 1, start);
        assert_eq!((standing.of(&chain), standing.of(&other)), (1, 0));
        assert!(!standing.is_over(start + Duration::from_secs(299)));
        assert!(standing.is_over(start + Duration::from_secs(300)));
        standing.move_to(&chain, 0, start);
        assert!(!standing.is_over(start + Duration::from_secs(900)));
    }
}
