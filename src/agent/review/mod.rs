//! The review gate: whether a call may run (product.md, "Modes and review").
//!
//! [`decide`] is the whole of it: from what a call is to what becomes of it, without a look at anything else. `words` reads
//! command lines, `rules` the person's rules, `danger` tells what to look at twice, `place` tells where a path lies, `ground` holds all that, `ask` puts the question.

mod ask;
mod danger;
mod ground;
mod place;
mod rules;
mod words;

pub use ask::{Answered, Grants, Pass, Passage, put};
pub use danger::command_line;
pub use ground::Ground;
pub use place::Place;
pub use rules::{Ruled, Rules};

use crate::choice::Mode;
use crate::event::DecidedBy;
use crate::toolkit::Risk;

/// What the gate looks at.
#[derive(Debug, Clone)]
pub struct Case<'a> {
    /// The mode in force.
    pub mode: Mode,
    /// What the call can do.
    pub risk: Risk,
    /// What the rules say of it.
    pub ruled: Option<&'a Ruled>,
    /// The person allowed the same for this session.
    pub granted: bool,
    /// Why a plugin wants it asked.
    pub wish: Option<&'a str>,
    /// Where it writes.
    pub place: &'a Place,
    /// Whether a command runs in a sandbox; else why not.
    pub sandbox: Result<(), &'a str>,
}

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Allow {
        /// Who says so.
        by: DecidedBy,
        /// Why, where it is not the mode alone.
        reason: Option<String>,
    },
    /// The person is asked.
    Ask {
        /// Why.
        reason: String,
    },
    /// It does not run.
    Deny {
        /// Who says so.
        by: DecidedBy,
        /// Why, for the model and the person.
        reason: String,
    },
}

/// Decides: a denying rule first, then the mode `plan`, then `yolo`, then what asks, then what allows, then the mode.
pub fn decide(case: &Case<'_>) -> Verdict {
    let deny = |by, reason: String| Verdict::Deny { by, reason };
    let ask = |reason: String| Verdict::Ask { reason };
    if let Some(Ruled::Deny(rule)) = case.ruled {
        return deny(DecidedBy::Rule, format!("the rule `{rule}` in the user's settings denies it"));
    }
    let looks = case.risk == Risk::ReadOnly;
    if case.mode == Mode::Plan && !looks {
        let reason = "the mode is `plan`, in which nothing is changed or run; describe what you would do";
        return deny(DecidedBy::Mode, reason.to_owned());
    }
    if case.mode == Mode::Yolo {
        return Verdict::Allow { by: DecidedBy::Mode, reason: None };
    }
    if case.granted {
        return Verdict::Allow { by: DecidedBy::Person, reason: Some("allowed for this session".to_owned()) };
    }
    if let Some(wish) = case.wish {
        return ask(wish.to_owned());
    }
    match case.ruled {
        Some(Ruled::Ask(rule)) => return ask(format!("the rule `{rule}` asks")),
        Some(Ruled::Allow(rule)) => {
            return Verdict::Allow { by: DecidedBy::Rule, reason: Some(format!("the rule `{rule}`")) };
        }
        Some(Ruled::Deny(_)) | None => {}
    }
    match (case.mode, case.risk) {
        (_, Risk::ReadOnly) | (Mode::Yolo, _) => Verdict::Allow { by: DecidedBy::Mode, reason: None },
        (Mode::Plan | Mode::Ask, _) => ask(format!("the mode `{}` asks", case.mode)),
        (Mode::Auto, Risk::Write) => match case.place {
            Place::Inside => Verdict::Allow { by: DecidedBy::Mode, reason: None },
            Place::Guarded(what) => ask(format!("{what} can run programs or change what Violin may do")),
            Place::Outside(why) => ask(why.clone()),
        },
        (Mode::Auto, Risk::Command) => match case.sandbox {
            Ok(()) => Verdict::Allow { by: DecidedBy::Mode, reason: None },
            Err(why) => ask(format!("no sandbox: {why}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(verdict: &Verdict) -> &'static str {
        match verdict {
            Verdict::Allow { by: DecidedBy::Mode, .. } => "run",
            Verdict::Allow { by: DecidedBy::Rule, .. } => "rule",
            Verdict::Allow { .. } => "granted",
            Verdict::Ask { .. } => "ask",
            Verdict::Deny { by: DecidedBy::Rule, .. } => "ruled",
            Verdict::Deny { .. } => "plan",
        }
    }

    /// mode × what it does × rule × sandbox → what becomes of it.
    #[test]
    fn the_table() {
        use Risk::{Command, ReadOnly, Write};
        let deny = Ruled::Deny("r".into());
        let asks = Ruled::Ask("r".into());
        let allow = Ruled::Allow("r".into());
        let (inside, guarded, outside) =
            (Place::Inside, Place::Guarded(".git".into()), Place::Outside("it is outside".into()));
        let rules = [None, Some(&deny), Some(&asks), Some(&allow)];
        let none = Err("none here");
        // Each row: what it does, then per mode (plan, ask, auto, yolo) what becomes of it with no rule, a denying, an
        // asking, an allowing one.
        type Row<'a> = (Risk, &'a Place, Result<(), &'a str>, [[&'a str; 4]; 4]);
        let looks = ["run", "ruled", "ask", "rule"];
        let plan = ["plan", "ruled", "plan", "plan"];
        let asked = ["ask", "ruled", "ask", "rule"];
        let runs = ["run", "ruled", "ask", "rule"];
        let yolo = ["run", "ruled", "run", "run"];
        let table: &[Row<'_>] = &[
            (ReadOnly, &inside, Ok(()), [looks, looks, looks, yolo]),
            (ReadOnly, &outside, none, [looks, looks, looks, yolo]),
            (Write, &inside, Ok(()), [plan, asked, runs, yolo]),
            (Write, &inside, none, [plan, asked, runs, yolo]),
            (Write, &guarded, Ok(()), [plan, asked, asked, yolo]),
            (Write, &outside, Ok(()), [plan, asked, asked, yolo]),
            (Command, &outside, Ok(()), [plan, asked, runs, yolo]),
            (Command, &outside, none, [plan, asked, asked, yolo]),
        ];
        for (risk, place, sandbox, rows) in table {
            for (mode, row) in Mode::ALL.iter().zip(rows) {
                for (ruled, expected) in rules.iter().zip(row) {
                    let case = Case {
                        mode: *mode,
                        risk: *risk,
                        ruled: *ruled,
                        granted: false,
                        wish: None,
                        place,
                        sandbox: *sandbox,
                    };
                    assert_eq!(word(&decide(&case)), *expected, "{case:?}");
                    let granted = decide(&Case { granted: true, ..case.clone() });
                    let never = matches!(ruled, Some(Ruled::Deny(_))) || *mode == Mode::Plan && *risk != ReadOnly;
                    assert_eq!(matches!(granted, Verdict::Allow { .. }), !never, "{case:?}");
                    let wished = decide(&Case { wish: Some("why"), ..case.clone() });
                    assert_eq!(
                        word(&wished),
                        if never {
                            *expected
                        } else if *mode == Mode::Yolo {
                            "run"
                        } else {
                            "ask"
                        }
                    );
                }
            }
        }
    }
}
