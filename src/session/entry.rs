//! The lines of a session file: its header and its entries (formats.md, "Session file").

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::event::{ChangeReason, CompactionTrigger, DecidedBy, Decision};
use crate::message::{AssistantMessage, Message, ToolMessage, UserMessage};
use crate::toolkit::Risk;

/// Names an entry within its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(pub u64);

/// The version that we write into the header of a session file.
pub const VERSION: u32 = 1;

/// The first line of a session file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Of the format; files of other tools may lack it.
    #[serde(default = "version")]
    pub version: u32,
    /// The session's id: `YYYYMMDD-HHMMSS-xxxxxxxx`.
    pub id: String,
    /// Unix seconds; read from seconds, milliseconds or an ISO time.
    #[serde(default, deserialize_with = "seconds")]
    pub created_at: i64,
    /// The directory that the session works in.
    pub cwd: String,
    /// `provider/id` of the first model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Of a fork or a clone, the id of the session that it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
}

/// A line after the header.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Unique in the file, and growing.
    pub id: EntryId,
    /// What it follows on; `None` for a root, and for labels, names and leaf moves.
    pub parent_id: Option<EntryId>,
    /// Unix milliseconds.
    pub timestamp: i64,
    /// What it says.
    pub body: Body,
}

/// What an entry says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Body {
    /// A message of the conversation.
    Message(Arc<Message>),
    /// Anything else.
    Record(Record),
}

/// An entry that is no message: `type` tells which.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    /// What came before on the path is summarised from here on.
    Compaction {
        /// What takes its place.
        summary: String,
        /// The first entry on the path that is still sent as it is; `None`: none before this one.
        #[serde(default)]
        first_kept_id: Option<EntryId>,
        /// By our own estimate.
        #[serde(default)]
        tokens_before: u64,
        /// By our own estimate.
        #[serde(default)]
        tokens_after: u64,
        /// How many messages stay as they are.
        #[serde(default)]
        kept_messages: u64,
        /// What made it happen.
        #[serde(default = "manual")]
        trigger: CompactionTrigger,
        /// Who wrote the summary.
        #[serde(default)]
        source: SummarySource,
    },
    /// What happened on a branch that was left.
    BranchSummary {
        /// The leaf of that branch.
        from_id: EntryId,
        /// The summary, which stands in the context.
        summary: String,
    },
    /// Another model from here on.
    ModelChange {
        /// `provider/id`.
        model: String,
        /// Why.
        #[serde(default = "by_user")]
        reason: ChangeReason,
    },
    /// Another thinking level from here on.
    ThinkingChange {
        /// `off`, `minimal`, `low`, `medium`, `high` or `xhigh`.
        level: String,
    },
    /// A name for one entry.
    Label {
        /// Which.
        target_id: EntryId,
        /// The name; `None` takes it away.
        #[serde(default)]
        label: Option<String>,
    },
    /// A name for the session.
    Name {
        /// The name; empty takes it away.
        name: String,
    },
    /// The leaf was moved here.
    Leaf {
        /// `None`: before the first entry.
        target_id: Option<EntryId>,
    },
    /// The state of the working tree before a user message, or after its run.
    Checkpoint {
        /// The commit in the private store.
        #[serde(rename = "ref")]
        reference: String,
        /// The user message.
        for_id: EntryId,
        /// It was taken at the end of the message's run.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        end: bool,
        /// At the end of a run: the checkpoint from its begin, before all that was said in it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        begun: Option<String>,
    },
    /// How a tool call was reviewed.
    Review {
        /// The call.
        tool_call_id: String,
        /// What it could do.
        risk: Risk,
        /// Whether it might.
        decision: Reviewed,
        /// Who said so.
        by: Reviewer,
        /// Why.
        #[serde(default)]
        reason: Option<String>,
    },
    /// A command of the person's own.
    Shell {
        /// The command.
        command: String,
        /// What it printed.
        output: String,
        /// Its exit code; `None` where a signal ended it.
        exit_code: Option<i32>,
        /// Whether the model gets it.
        in_context: bool,
    },
    /// Whatever a plugin keeps.
    Custom {
        /// Which plugin.
        plugin: String,
        /// What.
        data: Value,
    },
    /// A type that this version does not know. It keeps its place in the tree.
    #[serde(other)]
    Unknown,
}

/// Who wrote a summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SummarySource {
    /// A model.
    #[default]
    Model,
    /// Ourselves, since the model could not.
    Deterministic,
}

/// [`Decision`] as a file holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reviewed {
    /// The call ran.
    Allowed,
    /// It did not.
    Denied,
}

/// [`DecidedBy`] as a file holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reviewer {
    /// The mode in force.
    Mode,
    /// A rule.
    Rule,
    /// The person.
    Person,
    /// A plugin.
    Plugin,
}

impl From<Decision> for Reviewed {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Allowed => Reviewed::Allowed,
            Decision::Denied => Reviewed::Denied,
        }
    }
}

impl From<DecidedBy> for Reviewer {
    fn from(by: DecidedBy) -> Self {
        match by {
            DecidedBy::Mode => Reviewer::Mode,
            DecidedBy::Rule => Reviewer::Rule,
            DecidedBy::Person => Reviewer::Person,
            DecidedBy::Plugin => Reviewer::Plugin,
        }
    }
}

impl Entry {
    /// Reads a line. `fallback_id` is taken where the line has no id of its own.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(line: &[u8], fallback_id: u64) -> Result<Self, String> {
        let head: Head = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        fn read<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, String> {
            serde_json::from_slice(line).map_err(|error| error.to_string())
        }
        let body = match (head.role, head.kind) {
            (Some(Role::User), _) => Body::Message(Arc::new(Message::User(read::<UserMessage>(line)?))),
            (Some(Role::Assistant), _) => Body::Message(Arc::new(Message::Assistant(read::<AssistantMessage>(line)?))),
            (Some(Role::Tool), _) => Body::Message(Arc::new(Message::Tool(read::<ToolMessage>(line)?))),
            (_, true) => Body::Record(read::<Record>(line)?),
            (Some(Role::Unknown), false) => Body::Record(Record::Unknown),
            (None, false) => return Err("it has neither a role nor a type".to_owned()),
        };
        let id = EntryId(head.id.unwrap_or(fallback_id));
        Ok(Entry { id, parent_id: head.parent_id, timestamp: head.timestamp, body })
    }

    /// The line for it, with its newline. JSON escapes every line break inside, so that it is one line.
    ///
    /// # Errors
    /// Where the entry cannot be written as JSON.
    pub fn to_line(&self) -> serde_json::Result<Vec<u8>> {
        #[derive(Serialize)]
        struct Line<'a> {
            id: EntryId,
            parent_id: Option<EntryId>,
            timestamp: i64,
            #[serde(flatten)]
            body: &'a Body,
        }
        let line = Line { id: self.id, parent_id: self.parent_id, timestamp: self.timestamp, body: &self.body };
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// The message, where it is one.
    pub fn message(&self) -> Option<&Arc<Message>> {
        match &self.body {
            Body::Message(message) => Some(message),
            Body::Record(_) => None,
        }
    }

    /// The record, where it is one.
    pub fn record(&self) -> Option<&Record> {
        match &self.body {
            Body::Message(_) => None,
            Body::Record(record) => Some(record),
        }
    }

    /// Whether it stands in the tree: labels, names and leaf moves do not.
    pub fn in_tree(&self) -> bool {
        !matches!(self.record(), Some(Record::Label { .. } | Record::Name { .. } | Record::Leaf { .. }))
    }
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    id: Option<u64>,
    #[serde(default)]
    parent_id: Option<EntryId>,
    #[serde(default, deserialize_with = "milliseconds")]
    timestamp: i64,
    #[serde(default)]
    role: Option<Role>,
    #[serde(default, rename = "type", deserialize_with = "is_text")]
    kind: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
    Tool,
    #[serde(other)]
    Unknown,
}

fn version() -> u32 {
    VERSION
}

fn manual() -> CompactionTrigger {
    CompactionTrigger::Manual
}

fn by_user() -> ChangeReason {
    ChangeReason::User
}

fn is_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Value::deserialize(deserializer)?.is_string())
}

/// Reads a time in seconds, milliseconds or as ISO text, as milliseconds; what is none of these is 0.
fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Number(number) => {
            let value = number.as_f64().unwrap_or(0.0);
            // Seconds reach this value in the year 5138; milliseconds passed it in 1973.
            (if value.abs() < 1e11 { value * 1000.0 } else { value }) as i64
        }
        Value::String(text) => text.parse::<jiff::Timestamp>().map_or(0, |time| time.as_millisecond()),
        _ => 0,
    })
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Ok(milliseconds(deserializer)? / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_specification_are_read_and_written_alike() {
        for line in [
            r#"{"id":1,"parent_id":null,"timestamp":1795984382000,"role":"user","content":"Help me read README.md"}"#,
            r#"{"id":4,"parent_id":3,"timestamp":1795984382000,"type":"model_change","model":"a/b","reason":"fallback"}"#,
            r#"{"id":5,"parent_id":null,"timestamp":1795984382000,"type":"leaf","target_id":null}"#,
            r#"{"id":6,"parent_id":4,"timestamp":1,"type":"checkpoint","ref":"abc","for_id":1,"end":true}"#,
        ] {
            let entry = Entry::parse(line.as_bytes(), 0).expect("reads");
            if entry.timestamp > 1000 {
                assert_eq!(String::from_utf8(entry.to_line().expect("writes")).expect("text"), format!("{line}\n"));
            }
        }
    }

    #[test]
    fn times_are_read_in_every_form() {
        for time in ["1795984382", "1795984382000", "\"2026-11-29T20:33:02Z\"", "1795984382.0"] {
            let line = format!(r#"{{"id":1,"timestamp":{time},"role":"user","content":"x"}}"#);
            assert_eq!(Entry::parse(line.as_bytes(), 0).expect("reads").timestamp, 1_795_984_382_000, "{time}");
        }
        let header = r#"{"id":"x","created_at":"2026-11-29T20:33:02Z","cwd":"/p"}"#;
        assert_eq!(serde_json::from_str::<Header>(header).expect("reads").created_at, 1_795_984_382);
    }

    #[test]
    fn an_unknown_type_keeps_its_place() {
        let entry = Entry::parse(br#"{"id":9,"parent_id":3,"type":"hologram","x":[1]}"#, 0).expect("reads");
        assert_eq!((entry.parent_id, entry.body), (Some(EntryId(3)), Body::Record(Record::Unknown)));
        assert!(Entry::parse(b"[1,2]", 0).is_err());
        assert!(Entry::parse(b"{\"id\":3}", 0).is_err());
    }

    #[test]
    fn line_breaks_of_every_kind_stay_within_the_line() {
        let text = "a\nb\r\u{2028}c\u{85}";
        let message = Arc::new(Message::User(UserMessage::text(text)));
        let entry = Entry { id: EntryId(1), parent_id: None, timestamp: 5, body: Body::Message(message) };
        let line = entry.to_line().expect("writes");
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(Entry::parse(&line, 0).expect("reads").body, entry.body);
    }
}
