//! What a person chooses by name: the thinking level and the mode.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How much a model thinks before it answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Thinking {
    /// Not at all, where the model lets one choose.
    Off,
    /// As little as it can.
    Minimal,
    /// A little.
    Low,
    /// As its maker sees fit.
    #[default]
    Medium,
    /// Much.
    High,
    /// As much as it can.
    Xhigh,
}

/// What runs without a question (product.md, "Modes and review").
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Only what changes nothing.
    Plan,
    /// Everything else is asked.
    Ask,
    /// Writes inside the project run, commands run in a sandbox, the rest is asked.
    #[default]
    Auto,
    /// Everything.
    Yolo,
}

/// A name that stands for none of the choices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no {what}; choose one of {names}")]
pub struct UnknownName {
    given: String,
    what: &'static str,
    names: String,
}

macro_rules! named {
    ($type:ty, $what:literal, [$($name:literal => $value:path),+ $(,)?]) => {
        impl $type {
            /// All of them, in the order in which they are offered.
            pub const ALL: &[$type] = &[$($value),+];

            /// The name in files, on the command line and on the screen.
            pub fn name(self) -> &'static str {
                match self { $($value => $name),+ }
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;
            fn from_str(given: &str) -> Result<Self, UnknownName> {
                let names = [$($name),+].join(", ");
                Self::ALL.iter().copied().find(|choice| choice.name() == given)
                    .ok_or_else(|| UnknownName { given: given.to_owned(), what: $what, names })
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

named!(Thinking, "thinking level", [
    "off" => Thinking::Off,
    "minimal" => Thinking::Minimal,
    "low" => Thinking::Low,
    "medium" => Thinking::Medium,
    "high" => Thinking::High,
    "xhigh" => Thinking::Xhigh,
]);

named!(Mode, "mode", [
    "plan" => Mode::Plan,
    "ask" => Mode::Ask,
    "auto" => Mode::Auto,
    "yolo" => Mode::Yolo,
]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for level in Thinking::ALL {
            assert_eq!(level.name().parse(), Ok(*level));
            assert_eq!(serde_json::to_value(level).expect("writes"), level.name());
        }
        let error = "fast".parse::<Mode>().expect_err("unknown").to_string();
        assert_eq!(error, "`fast` is no mode; choose one of plan, ask, auto, yolo");
    }
}
