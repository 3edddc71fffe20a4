//! What happens in a run: the one stream of events that the interface, `--json` and plugins listen to.
//!
//! An event serializes to exactly the line that `--json` prints (formats.md, "Event stream"). Fields that
//! only the interface needs are skipped there.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::message::{Effect, StopReason, Usage};
use crate::toolkit::{Risk, View};

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// A model call begins.
    TurnStart {
        /// Counted from 0 within the run.
        turn: u32,
        /// The session's id.
        session_id: String,
        /// Who is asked.
        model: ModelLabel,
        /// What stands in the window, by our own estimate.
        context: ContextUsage,
    },
    /// More of the answer.
    Delta {
        /// The new characters.
        text: String,
    },
    /// More of the thinking.
    Thinking {
        /// The new characters.
        text: String,
    },
    /// A message of the person's went in.
    User {
        /// Its text.
        text: String,
        /// How it came.
        source: UserSource,
        /// How many images came with it.
        #[serde(skip_serializing_if = "is_zero")]
        images: usize,
        /// Its entry in the session.
        #[serde(skip)]
        entry: Option<u64>,
    },
    /// A call is about to be reviewed and run.
    ToolStart {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
        /// Its arguments.
        args: Map<String, Value>,
        /// What it is about, in a line.
        #[serde(skip)]
        title: String,
    },
    /// A call was reviewed.
    ToolReview {
        /// The call's id.
        id: String,
        /// What it can do.
        risk: Risk,
        /// Whether it may.
        decision: Decision,
        /// Who said so.
        by: DecidedBy,
        /// Why.
        reason: Option<String>,
    },
    /// Output of a call that runs.
    ToolOutput {
        /// The call's id.
        id: String,
        /// The new characters; SGR colours may stand in them.
        text: String,
    },
    /// A call ended.
    ToolEnd {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
        /// Whether it did what was asked.
        ok: bool,
        /// What the model gets.
        output: String,
        /// Receipts of the files that changed.
        effects: Vec<Effect>,
        /// How long it ran.
        duration_ms: u64,
        /// The exit code, of a command.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// A few words for the person.
        #[serde(skip)]
        summary: String,
        /// For the person, where it is not the output itself.
        #[serde(skip)]
        view: Option<View>,
        /// Its entry in the session.
        #[serde(skip)]
        entry: Option<u64>,
    },
    /// A model call and the calls that it asked for are over. It follows every `turn_start`.
    TurnEnd {
        /// As in `turn_start`.
        turn: u32,
        /// What the model call used; `None` where it failed or did not tell.
        usage: Option<Usage>,
        /// Why the answer ended.
        #[serde(skip)]
        stop_reason: StopReason,
        /// The answer's entry in the session.
        #[serde(skip)]
        entry: Option<u64>,
    },
    /// What was streamed since `turn_start` was cut off and will come anew.
    Discard,
    /// Another model answers from here on.
    ModelChange {
        /// `provider/id`.
        model: String,
        /// Why.
        reason: ChangeReason,
    },
    /// Something that the person should know.
    Notice {
        /// A sentence.
        text: String,
    },
    /// A failed model call will be made again.
    Retry {
        /// Counted from 1.
        attempt: u32,
        /// How long until then.
        delay_ms: u64,
        /// Why it failed.
        reason: String,
    },
    /// The context was compacted.
    Compaction {
        /// What made it happen.
        trigger: CompactionTrigger,
        /// Before, by our own estimate.
        tokens_before: u64,
        /// After, by our own estimate.
        tokens_after: u64,
        /// How many messages stay as they are.
        kept_messages: u64,
        /// The summary that took the place of what was there.
        #[serde(skip)]
        summary: String,
        /// Its entry in the session.
        #[serde(skip)]
        entry: Option<u64>,
    },
    /// The run failed.
    Error {
        /// What happened and what to do.
        msg: String,
        /// What kind of failure it is.
        kind: ErrorKind,
    },
    /// The run is over; always the last event of a run.
    Result {
        /// The last text that there was.
        text: String,
        /// How many model calls there were.
        turns: u32,
        /// Whether it was interrupted.
        aborted: bool,
        /// The session's id.
        session_id: String,
        /// All of the run's usage.
        usage_total: Usage,
    },
}

/// Who is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ModelLabel {
    /// The model's id.
    pub id: String,
    /// Its provider.
    pub provider: String,
    /// Its name for people.
    pub label: String,
}

/// How full the window is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ContextUsage {
    /// Tokens that stand in it.
    pub tokens: u64,
    /// Tokens that fit.
    pub window: u64,
    /// The share in percent, to one decimal.
    pub usage_pct: f64,
}

impl ContextUsage {
    /// From two counts.
    pub fn new(tokens: u64, window: u64) -> Self {
        let share = if window == 0 { 0.0 } else { tokens as f64 * 100.0 / window as f64 };
        ContextUsage { tokens, window, usage_pct: (share * 10.0).round() / 10.0 }
    }
}

/// How a message of the person's came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UserSource {
    /// It began the run.
    Prompt,
    /// It was sent while the run went on, and went in at the next model call.
    Steer,
    /// It waited for the run's end.
    FollowUp,
    /// A command of the person's own.
    Shell,
}

/// The outcome of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The call runs.
    Allowed,
    /// It does not; the model is told why.
    Denied,
}

/// Who decided a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// The mode in force.
    Mode,
    /// A rule in the settings.
    Rule,
    /// The person, asked.
    Person,
    /// A plugin.
    Plugin,
}

/// Why the model changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeReason {
    /// The person chose it.
    User,
    /// The one before it failed.
    Fallback,
}

/// What made a compaction happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionTrigger {
    /// The person asked for it.
    Manual,
    /// The next request would have come too near the window's end.
    Threshold,
    /// The provider said that the request was too long.
    Overflow,
}

/// The kinds of failure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The key is missing or was refused.
    Auth,
    /// Too many requests.
    RateLimit,
    /// The provider has no capacity now.
    Overloaded,
    /// No credit, or a spending limit.
    Quota,
    /// The provider failed.
    Server,
    /// The request is longer than the model takes.
    ContextOverflow,
    /// The provider refused the request itself.
    InvalidRequest,
    /// The provider was not reached, or the connection broke.
    Network,
    /// A mistake in a file of the person's.
    Config,
    /// The session cannot be read or written.
    Session,
    /// A limit that the person set was reached.
    Limit,
    /// A fault of our own.
    Internal,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_fixed_form() {
        let start = Event::ToolStart { id: "c".into(), name: "read".into(), args: Map::new(), title: "x".into() };
        assert_eq!(
            serde_json::to_string(&start).expect("writes"),
            r#"{"type":"tool_start","id":"c","name":"read","args":{}}"#
        );
        let review = Event::ToolReview {
            id: "c".into(),
            risk: Risk::ReadOnly,
            decision: Decision::Allowed,
            by: DecidedBy::Mode,
            reason: None,
        };
        assert_eq!(
            serde_json::to_string(&review).expect("writes"),
            r#"{"type":"tool_review","id":"c","risk":"read_only","decision":"allowed","by":"mode","reason":null}"#
        );
        assert_eq!(ContextUsage::new(5400, 128_000).usage_pct, 4.2);
    }
}
