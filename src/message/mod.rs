//! What a conversation is made of: messages, content blocks, tool calls, usage, stop reasons.
//!
//! Plain data, shaped as the session file stores it (formats.md, "Session file"). It knows no provider,
//! no screen and no disk. [`stream`] holds what arrives while a model answers, and the one accumulator
//! that folds it into an [`AssistantMessage`].

pub mod stream;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::toolkit::View;

/// One message of a conversation, in the form of the session file: `role` tells which.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    /// What the person said.
    User(UserMessage),
    /// What the model answered.
    Assistant(AssistantMessage),
    /// What a tool returned.
    Tool(ToolMessage),
}

/// A message of the person's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// Text and images, in order.
    #[serde(deserialize_with = "content", serialize_with = "short_content")]
    pub content: Vec<Block>,
}

/// An answer of a model's, whole or as far as it came.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Thinking, text and tool calls, in the order in which they came.
    #[serde(deserialize_with = "content")]
    pub content: Vec<Block>,
    /// Which provider of models.json answered; empty where the file does not tell.
    #[serde(default)]
    pub provider: String,
    /// The model's id; empty where the file does not tell.
    #[serde(default)]
    pub model: String,
    /// The wire protocol, such as `openai-completions`; empty where the file does not tell.
    #[serde(default)]
    pub api: String,
    /// The `fallback` model that the person chose and that this one answered for, as `provider/id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// What it used, where the provider told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why it ended.
    #[serde(default)]
    pub stop_reason: StopReason,
    /// With [`StopReason::Error`], what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The result of one tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolMessage {
    /// The [`ToolCall::id`] that this answers.
    pub tool_call_id: String,
    /// The tool's name.
    #[serde(default)]
    pub name: String,
    /// What the model gets: text and images.
    #[serde(deserialize_with = "content")]
    pub content: Vec<Block>,
    /// The call failed.
    #[serde(default)]
    pub is_error: bool,
    /// How long it ran.
    #[serde(default)]
    pub duration_ms: Option<u64>,
    /// The exit code, of tools that run a command.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// Receipts of the files that it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
    /// A few words for the person, such as `120 lines` or `+3 −1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// What the person sees where it is not the content itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<View>,
}

/// A piece of a message's content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text.
    Text {
        /// The text itself.
        text: String,
    },
    /// An image.
    Image {
        /// Such as `image/png`.
        mime_type: String,
        /// Base64 of the bytes.
        data: String,
    },
    /// What the model thought before it answered.
    Thinking {
        /// The thought, or a summary of it; empty where the provider hides it.
        #[serde(default)]
        thinking: String,
        /// What the provider wants back with it, opaque to us.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "not_empty")]
        signature: Option<String>,
        /// The provider withheld the text; `signature` carries its stead.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        redacted: bool,
    },
    /// A call of a tool.
    ToolCall(ToolCall),
    /// A block of a kind that this version does not know; it is shown to nobody and sent to nobody.
    #[serde(other)]
    Unknown,
}

/// A call of a tool, as the model asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within the session; the provider's own, or made up where it sent none.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, always a JSON object; empty where what came was not valid.
    #[serde(default, deserialize_with = "object")]
    pub arguments: Map<String, Value>,
    /// What came in place of a JSON object, with what is wrong with it. Such a call is never run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// What the provider wants back with the call (Gemini's thought signature), opaque to us.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "not_empty")]
    pub signature: Option<String>,
}

/// Tokens and money of one model call, or of several added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input without cache reads and writes.
    pub input_tokens: u64,
    /// Output, reasoning included, also where the provider counts that apart.
    pub output_tokens: u64,
    /// Input that came from the provider's cache.
    pub cache_read_tokens: u64,
    /// Input that was written to the provider's cache.
    pub cache_write_tokens: u64,
    /// US dollars; `None` where the model has no price.
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// All input, cached or not.
    pub fn input(&self) -> u64 {
        // A file may claim any number.
        self.input_tokens.saturating_add(self.cache_read_tokens).saturating_add(self.cache_write_tokens)
    }

    /// Everything that stands in the context window after this call.
    pub fn total(&self) -> u64 {
        self.input().saturating_add(self.output_tokens)
    }

    /// Adds another call's usage; the cost stays unknown only while all of them are.
    pub fn add(&mut self, other: &Usage) {
        for (sum, more) in [
            (&mut self.input_tokens, other.input_tokens),
            (&mut self.output_tokens, other.output_tokens),
            (&mut self.cache_read_tokens, other.cache_read_tokens),
            (&mut self.cache_write_tokens, other.cache_write_tokens),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (None, None) => None,
            (one, two) => Some(one.unwrap_or(0.0) + two.unwrap_or(0.0)),
        };
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The output limit cut it off.
    Length,
    /// It asked for tools.
    ToolUse,
    /// The model, or a filter of the provider's, refused.
    Refusal,
    /// It failed on the way.
    Error,
    /// The person interrupted it.
    Aborted,
    /// It was done; also what a reason that this version does not know is read as.
    #[default]
    #[serde(other)]
    Stop,
}

/// Receipt of a change to one file (formats.md, `violin.effect.v1`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Always `violin.effect.v1`.
    pub schema: String,
    /// `write` or `edit`.
    pub operation: String,
    /// As the model named it.
    pub path: String,
    /// The real path.
    pub resolved_path: String,
    /// The file before.
    pub before: FileState,
    /// The file after.
    pub after: FileState,
}

/// A file at one moment, as a receipt keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// Whether it was there.
    pub exists: bool,
    /// Its size in bytes; 0 where it was not there.
    pub bytes: u64,
    /// Lower-case hexadecimal; `None` where it was not there.
    pub sha256: Option<String>,
}

impl Message {
    /// The content blocks, whoever spoke.
    pub fn content(&self) -> &[Block] {
        match self {
            Message::User(message) => &message.content,
            Message::Assistant(message) => &message.content,
            Message::Tool(message) => &message.content,
        }
    }
}

impl UserMessage {
    /// A message of text alone.
    pub fn text(text: impl Into<String>) -> Self {
        UserMessage { content: vec![Block::Text { text: text.into() }] }
    }
}

impl AssistantMessage {
    /// The tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }
}

/// The text blocks of a content, joined by newlines.
pub fn text_of(content: &[Block]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Reads a content that is a string, a list of blocks, or nothing.
fn content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Block>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Content {
        Text(String),
        Blocks(Vec<Block>),
        Nothing(()),
    }
    Ok(match Content::deserialize(deserializer)? {
        Content::Text(text) => vec![Block::Text { text }],
        Content::Blocks(blocks) => blocks,
        Content::Nothing(()) => Vec::new(),
    })
}

/// Writes a content that is one text as a plain string, which is shorter and what people grep for.
fn short_content<S: serde::Serializer>(content: &[Block], serializer: S) -> Result<S::Ok, S::Error> {
    match content {
        [Block::Text { text }] => text.serialize(serializer),
        blocks => blocks.serialize(serializer),
    }
}

/// An empty signature is none: no provider takes it back.
fn not_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty()))
}

/// Reads arguments that should be an object; anything else counts as none.
fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Object(map) => map,
        _ => Map::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimal_lines_of_other_tools_are_read() {
        let line = r#"{"role":"assistant","content":[{"type":"text","text":"hi"},{"type":"chart","x":1},
            {"type":"tool_call","id":"c","name":"read","arguments":null}],"stop_reason":"pause"}"#;
        let Message::Assistant(message) = serde_json::from_str(line).expect("reads") else { panic!("role") };
        assert_eq!(text_of(&message.content), "hi");
        assert_eq!(message.content[1], Block::Unknown);
        assert_eq!(message.tool_calls().count(), 1);
        assert_eq!(message.stop_reason, StopReason::Stop);
    }

    #[test]
    fn a_text_stays_a_plain_string_on_disk() {
        let message = Message::User(UserMessage::text("fix it"));
        let line = serde_json::to_string(&message).expect("writes");
        assert_eq!(line, r#"{"role":"user","content":"fix it"}"#);
        assert_eq!(serde_json::from_str::<Message>(&line).expect("reads"), message);
    }

    #[test]
    fn usage_keeps_an_unknown_cost_apart_from_none() {
        let mut sum = Usage::default();
        sum.add(&Usage { input_tokens: 5, ..Usage::default() });
        assert_eq!(sum.cost_usd, None);
        sum.add(&Usage { cost_usd: Some(0.5), ..Usage::default() });
        assert_eq!(sum.cost_usd, Some(0.5));
    }
}
