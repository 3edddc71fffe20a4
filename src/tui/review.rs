//! Calls that wait for the person's answer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::agent::{ReviewAnswer, ReviewRequest};

/// The calls that wait, the first of which is shown.
#[derive(Debug, Default)]
pub struct Reviews {
    waiting: VecDeque<ReviewRequest>,
    /// When the first of them came to be shown.
    since: Option<Instant>,
    /// Which answer is chosen.
    pub selected: usize,
    /// How far what it would change is scrolled.
    pub scroll: usize,
}

/// How long a question is taken for unseen.
const UNSEEN: Duration = Duration::from_millis(400);

/// An answer that is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The key that gives it.
    pub key: char,
    /// Its words.
    pub words: String,
}

impl Reviews {
    /// Takes a call.
    pub fn push(&mut self, request: ReviewRequest, now: Instant) {
        if self.waiting.is_empty() {
            self.since = Some(now);
        }
        self.waiting.push_back(request);
    }

    /// Whether the question is so new that a key was meant for the prompt: somebody who writes must not answer
    /// a question that they have not seen.
    pub fn is_new(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) < UNSEEN)
    }

    /// The call that is shown.
    pub fn first(&self) -> Option<&ReviewRequest> {
        self.waiting.front()
    }

    /// How many wait behind it.
    pub fn more(&self) -> usize {
        self.waiting.len().saturating_sub(1)
    }

    /// The answers to the call that is shown.
    pub fn offers(&self) -> Vec<Offer> {
        let Some(request) = self.first() else { return Vec::new() };
        let mut offers = vec![
            Offer { key: 'y', words: "yes, once".to_owned() },
            Offer { key: 's', words: "yes, for this session".to_owned() },
        ];
        if let Some(rule) = &request.rule {
            offers.push(Offer { key: 'a', words: format!("always: {}", crate::text::visible(rule)) });
        }
        offers.push(Offer { key: 'n', words: "no, and say why".to_owned() });
        offers
    }

    /// Answers the call that is shown.
    pub fn answer(&mut self, answer: ReviewAnswer) {
        if let Some(request) = self.waiting.pop_front() {
            // A run that ended meanwhile no longer listens.
            let _ = request.answer.send(answer);
        }
        self.selected = 0;
        self.scroll = 0;
    }

    /// Refuses all of them: a dropped answer counts as no.
    pub fn refuse_all(&mut self) {
        self.waiting.clear();
        self.selected = 0;
        self.scroll = 0;
    }
}
