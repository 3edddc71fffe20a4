//! The review gate: whether a call may run.

use crate::choice::Mode;
use crate::event::{DecidedBy, Decision};
use crate::toolkit::Risk;

/// The outcome of a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// Whether the call runs.
    pub decision: Decision,
    /// Who said so.
    pub by: DecidedBy,
    /// Why, for the model and the person.
    pub reason: Option<String>,
}

/// What a mode says of a call. Until there are questions and a sandbox, all modes but `plan` run what is asked.
pub fn by_mode(mode: Mode, risk: Risk) -> Review {
    match (mode, risk) {
        (_, Risk::ReadOnly) | (Mode::Ask | Mode::Auto | Mode::Yolo, _) => {
            Review { decision: Decision::Allowed, by: DecidedBy::Mode, reason: None }
        }
        (Mode::Plan, Risk::Write | Risk::Command) => Review {
            decision: Decision::Denied,
            by: DecidedBy::Mode,
            reason: Some(
                "the mode is `plan`, in which nothing is changed or run; describe what you would do".to_owned(),
            ),
        },
    }
}

/// What a person should know of a mode that does not yet do all it will.
pub fn notice(mode: Mode) -> Option<&'static str> {
    match mode {
        Mode::Plan | Mode::Yolo => None,
        Mode::Ask => Some("mode ask: this version cannot ask yet, so that every call runs; use plan to change nothing"),
        Mode::Auto => Some("mode auto: commands run without a sandbox in this version; use plan to change nothing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_only_looks() {
        for mode in Mode::ALL {
            for risk in [Risk::ReadOnly, Risk::Write, Risk::Command] {
                let denied = *mode == Mode::Plan && risk != Risk::ReadOnly;
                assert_eq!(by_mode(*mode, risk).decision == Decision::Denied, denied, "{mode} {risk:?}");
            }
        }
    }
}
