//! Anthropic Messages.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::error::ProviderError;
use super::history::{self, AssistantTurn, ResultOf, Sent, Turn, sent};
use super::quirks::quirks;
use super::{Credentials, Decoder, Place, Protocol, Request};
use crate::event::ErrorKind;
use crate::message::stream::StreamEvent;
use crate::message::{AssistantMessage, Block, Message, StopReason, Usage};
use crate::model::{Model, Secret};

/// The protocol.
#[derive(Debug)]
pub struct Messages;

/// The protocol wants a limit; this is asked for where the model has none of its own.
const DEFAULT_MAX_TOKENS: u64 = 8192;

/// An answer must have room beside the thinking.
const LEAST_ANSWER: u64 = 1024;

impl Protocol for Messages {
    const API: &'static str = "anthropic-messages";
    const CONVERSATION: &'static str = "messages";

    const LIST: &'static str = "/models?limit=1000";

    fn path(&self, _model: &Model) -> String {
        "/messages".to_owned()
    }

    fn headers(&self, credentials: &Credentials) -> Vec<(&'static str, Secret)> {
        let key = credentials.api_key.iter().map(|key| ("x-api-key", key.clone()));
        key.chain([("anthropic-version", Secret::new("2023-06-01"))]).collect()
    }

    fn head(&self, request: &Request) -> Map<String, Value> {
        let mark = caches(request).then(|| json!({"type": "ephemeral"}));
        let max_tokens = request.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS.min(request.room)).max(1);
        let mut head = Map::new();
        head.insert("model".into(), request.model.id.as_str().into());
        head.insert("max_tokens".into(), max_tokens.into());
        head.insert("stream".into(), true.into());
        if request.model.reasoning {
            think(&mut head, request, max_tokens);
        }
        if !request.tools.is_empty() {
            let tool = |tool: &super::ToolDefinition| json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters});
            head.insert("tools".into(), request.tools.iter().map(tool).collect());
        }
        if !request.system.is_empty() {
            let mut block = json!({"type": "text", "text": &*request.system});
            // One mark here holds the tools too, which stand before the system prompt in the provider's order.
            if let Some(mark) = mark {
                block["cache_control"] = mark;
            }
            head.insert("system".into(), json!([block]));
        }
        head
    }

    fn encode(&self, turn: &Turn<'_>, request: &Request, place: Place) -> Vec<Value> {
        let images = request.model.images;
        let (role, mut content) = match turn {
            Turn::User(message, _) => ("user", sent(&message.content, images).iter().map(block).collect()),
            Turn::Assistant(turn) => ("assistant", assistant(turn, request)),
            Turn::Results(results) => ("user", tool_results(results, images)),
        };
        if place == Place::Last
            && role == "user"
            && caches(request)
            && let Some(last) = content.last_mut()
        {
            last["cache_control"] = json!({"type": "ephemeral"});
        }
        if content.is_empty() { Vec::new() } else { vec![json!({"role": role, "content": content})] }
    }

    fn decoder(&self, _request: &Request) -> Box<dyn Decoder> {
        Box::new(EventDecoder::default())
    }
}

fn caches(request: &Request) -> bool {
    quirks(&request.model).cache_control.unwrap_or(true)
}

/// Asks for thinking: with a budget, or, where the model's level has a name that is no number, with an effort.
fn think(head: &mut Map<String, Value>, request: &Request, max_tokens: u64) {
    let Some(effort) = request.model.effort(request.thinking) else { return };
    let budget = match effort.budget() {
        Ok(budget) => budget,
        Err(name) => {
            // Newer models hide what they think unless a summary is asked for.
            head.insert("thinking".into(), json!({"type": "adaptive", "display": "summarized"}));
            head.insert("output_config".into(), json!({"effort": name}));
            return;
        }
    };
    // The limit holds both; where they do not fit, the thinking gives way.
    let budget = budget.min(max_tokens.saturating_sub(LEAST_ANSWER));
    if budget >= 1024 && !within_foreign_calls(request) {
        head.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": budget}));
    }
}

/// Whether the results of calls go back that were made without signed thinking, by another model or with thinking
/// off: in the middle of such calls thinking with a budget cannot begin.
fn within_foreign_calls(request: &Request) -> bool {
    if !matches!(request.messages.last().map(|last| last.as_ref()), Some(Message::Tool(_))) {
        return false;
    }
    let answers = request.messages.iter().enumerate().rev().filter_map(|(index, message)| match message.as_ref() {
        Message::Assistant(answer) => Some((index, answer)),
        _ => None,
    });
    let signed = |block: &Block| matches!(block, Block::Thinking { signature: Some(_), .. });
    let own = |(index, answer): (usize, &AssistantMessage)| {
        index >= request.forget_thinking && history::is_of(answer, &request.model) && answer.content.iter().any(signed)
    };
    answers.take(1).any(|answer| !own(answer))
}

fn block(sent: &Sent<'_>) -> Value {
    match sent {
        Sent::Text(text) => json!({"type": "text", "text": text}),
        Sent::Image(mime, data) => {
            json!({"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}})
        }
    }
}

fn assistant(turn: &AssistantTurn<'_>, request: &Request) -> Vec<Value> {
    let unsigned = quirks(&request.model).empty_signature == Some(true);
    let encode = |(block, id): (&Block, Option<&str>)| match (block, id) {
        (Block::Text { text }, _) => Some(json!({"type": "text", "text": text})),
        (Block::Thinking { signature: Some(data), redacted: true, .. }, _) => {
            Some(json!({"type": "redacted_thinking", "data": data}))
        }
        // Without its signature a thought is refused.
        (Block::Thinking { thinking, signature: Some(signature), .. }, _) => {
            Some(json!({"type": "thinking", "thinking": thinking, "signature": signature}))
        }
        (Block::Thinking { thinking, .. }, _) if unsigned && !thinking.trim().is_empty() => {
            Some(json!({"type": "thinking", "thinking": thinking, "signature": ""}))
        }
        (Block::ToolCall(call), Some(id)) => {
            Some(json!({"type": "tool_use", "id": id, "name": call.name, "input": call.arguments}))
        }
        _ => None,
    };
    turn.blocks().filter_map(encode).collect()
}

/// All results in one message. Images of failed calls go behind them, since an error result takes only text.
fn tool_results(results: &[ResultOf<'_>], images: bool) -> Vec<Value> {
    let mut behind = Vec::new();
    let mut out = Vec::new();
    for result in results {
        let (kept, moved): (Vec<_>, Vec<_>) =
            result.content(images).into_iter().partition(|sent| !result.is_error() || matches!(sent, Sent::Text(_)));
        let mut value = json!({"type": "tool_result", "tool_use_id": result.id});
        value["content"] = match kept.is_empty() {
            true => json!([{"type": "text", "text": "(see the image)"}]),
            false => kept.iter().map(block).collect(),
        };
        if result.is_error() {
            value["is_error"] = true.into();
        }
        behind.extend(moved.iter().map(block));
        out.push(value);
    }
    out.extend(behind);
    out
}

/// Decodes the events of one message.
#[derive(Debug, Default)]
struct EventDecoder {
    message_id: Option<String>,
    usage: WireUsage,
    /// Blocks of tools that run at the provider, by index.
    skipped: HashSet<u32>,
    /// What a tool call's block held when it began: used where no pieces follow.
    inputs: HashMap<u32, (Value, bool)>,
    stop: Option<StopReason>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireEvent {
    MessageStart {
        message: WireMessage,
    },
    ContentBlockStart {
        index: u32,
        content_block: WireBlock,
    },
    ContentBlockDelta {
        index: u32,
        delta: WireDelta,
    },
    ContentBlockStop {
        index: u32,
    },
    MessageDelta {
        delta: WireStop,
        #[serde(default)]
        usage: Option<WireUsage>,
    },
    MessageStop,
    Error {
        error: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct WireMessage {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireBlock {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: Option<String>,
    },
    RedactedThinking {
        #[serde(default)]
        data: String,
    },
    ToolUse {
        #[serde(default)]
        id: String,
        #[serde(default)]
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireDelta {
    TextDelta {
        text: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct WireStop {
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct WireUsage {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
}

impl WireUsage {
    /// Takes what a later report says; what it leaves out stays.
    fn update(&mut self, later: WireUsage) -> Usage {
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        self.cache_read_input_tokens = later.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens = later.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        Usage {
            input_tokens: self.input_tokens.unwrap_or(0),
            output_tokens: self.output_tokens.unwrap_or(0),
            cache_read_tokens: self.cache_read_input_tokens.unwrap_or(0),
            cache_write_tokens: self.cache_creation_input_tokens.unwrap_or(0),
            cost_usd: None,
        }
    }
}

impl Decoder for EventDecoder {
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if data.trim() == "[DONE]" {
            return Ok(());
        }
        let event: WireEvent = serde_json::from_str(data).map_err(|error| ProviderError::unreadable(data, &error))?;
        match event {
            WireEvent::MessageStart { message } => self.start(message, out),
            WireEvent::ContentBlockStart { index, content_block } => self.block(index, content_block, out),
            WireEvent::ContentBlockDelta { index, delta } if !self.skipped.contains(&index) => {
                self.delta(index, delta, out);
            }
            WireEvent::ContentBlockDelta { .. } => {}
            WireEvent::ContentBlockStop { index } => {
                if let Some((input, false)) = self.inputs.remove(&index) {
                    out.push(StreamEvent::CallFinal { slot: index, arguments: input.to_string() });
                }
            }
            WireEvent::MessageDelta { delta, usage } => {
                if let Some(usage) = usage {
                    out.push(StreamEvent::Usage(self.usage.update(usage)));
                }
                if let Some(reason) = delta.stop_reason {
                    self.stop = Some(stop_reason(&reason)?);
                }
            }
            WireEvent::MessageStop => self.finish(out)?,
            WireEvent::Error { error } => return Err(ProviderError::from_stream(&error)),
            WireEvent::Other if name == "error" => {
                let value: Value = serde_json::from_str(data).unwrap_or(Value::Null);
                return Err(ProviderError::from_stream(value.get("error").unwrap_or(&value)));
            }
            WireEvent::Other => {}
        }
        Ok(())
    }

    fn complete(&self) -> bool {
        self.stop.is_some()
    }

    fn finish(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let reason = self.stop.ok_or_else(|| ProviderError::network("the answer was cut off in the middle"))?;
        out.push(StreamEvent::End(reason));
        Ok(())
    }
}

impl EventDecoder {
    /// A second start is a gateway that tried anew; a repeat of the same one changes nothing.
    fn start(&mut self, message: WireMessage, out: &mut Vec<StreamEvent>) {
        let id = message.id.unwrap_or_default();
        match &self.message_id {
            Some(first) if *first == id => return,
            Some(_) => {
                *self = EventDecoder::default();
                out.push(StreamEvent::Restart);
            }
            None => {}
        }
        self.message_id = Some(id);
        if let Some(usage) = message.usage {
            out.push(StreamEvent::Usage(self.usage.update(usage)));
        }
    }

    fn block(&mut self, slot: u32, block: WireBlock, out: &mut Vec<StreamEvent>) {
        match block {
            WireBlock::Text { text } => out.push(StreamEvent::Text { slot, delta: text }),
            WireBlock::Thinking { thinking, signature } => {
                out.push(StreamEvent::Thinking { slot, delta: thinking });
                if let Some(signature) = signature.filter(|signature| !signature.is_empty()) {
                    out.push(StreamEvent::Signature { slot, signature, redacted: false });
                }
            }
            WireBlock::RedactedThinking { data } => {
                out.push(StreamEvent::Signature { slot, signature: data, redacted: true });
            }
            WireBlock::ToolUse { id, name, input } => {
                out.push(StreamEvent::CallStart { slot, id, name });
                if input.as_object().is_some_and(|input| !input.is_empty()) {
                    self.inputs.insert(slot, (input, false));
                }
            }
            WireBlock::Other => {
                self.skipped.insert(slot);
            }
        }
    }

    fn delta(&mut self, slot: u32, delta: WireDelta, out: &mut Vec<StreamEvent>) {
        out.push(match delta {
            WireDelta::TextDelta { text } => StreamEvent::Text { slot, delta: text },
            WireDelta::ThinkingDelta { thinking } => StreamEvent::Thinking { slot, delta: thinking },
            WireDelta::SignatureDelta { signature } => StreamEvent::Signature { slot, signature, redacted: false },
            WireDelta::InputJsonDelta { partial_json } => {
                if let Some((_, streamed)) = self.inputs.get_mut(&slot).filter(|_| !partial_json.is_empty()) {
                    *streamed = true;
                }
                StreamEvent::CallArguments { slot, delta: partial_json }
            }
            WireDelta::Other => return,
        });
    }
}

fn stop_reason(reason: &str) -> Result<StopReason, ProviderError> {
    Ok(match reason {
        "max_tokens" => StopReason::Length,
        "tool_use" => StopReason::ToolUse,
        "refusal" | "sensitive" => StopReason::Refusal,
        "model_context_window_exceeded" => {
            return Err(ProviderError::new(ErrorKind::ContextOverflow, "the model's context window is exceeded"));
        }
        _ => StopReason::Stop,
    })
}
