//! Google Gemini: `streamGenerateContent`, as server-sent events.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::error::ProviderError;
use super::history::{AssistantTurn, IMAGES_BEHIND, ResultOf, Sent, Turn, sent};
use super::quirks::quirks;
use super::{Credentials, Decoder, Place, Protocol, Request};
use crate::event::ErrorKind;
use crate::message::stream::StreamEvent;
use crate::message::{Block, StopReason, Usage};
use crate::model::{Compat, Model, Secret};

/// The protocol.
#[derive(Debug)]
pub struct Google;

/// Stands for a thought signature where a call comes from another model (Google's own word for it).
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

impl Protocol for Google {
    const API: &'static str = "google-generative-ai";
    const CONVERSATION: &'static str = "contents";

    const LIST: &'static str = "/models?pageSize=1000";

    fn path(&self, model: &Model) -> String {
        let place = if model.id.contains('/') { "" } else { "models/" };
        format!("/{place}{}:streamGenerateContent?alt=sse", model.id)
    }

    fn headers(&self, credentials: &Credentials) -> Vec<(&'static str, Secret)> {
        credentials.api_key.iter().map(|key| ("x-goog-api-key", key.clone())).collect()
    }

    fn head(&self, request: &Request) -> Map<String, Value> {
        let compat = quirks(&request.model);
        let mut head = Map::new();
        if !request.system.is_empty() {
            head.insert("systemInstruction".into(), json!({"parts": [{"text": &*request.system}]}));
        }
        if !request.tools.is_empty() {
            let tool = |tool: &super::ToolDefinition| {
                let mut value = json!({"name": tool.name, "description": tool.description});
                if compat.json_schema_parameters == Some(false) {
                    value["parameters"] = plain_schema(&tool.parameters);
                } else {
                    value["parametersJsonSchema"] = tool.parameters.clone();
                }
                value
            };
            let declarations: Vec<_> = request.tools.iter().map(tool).collect();
            head.insert("tools".into(), json!([{"functionDeclarations": declarations}]));
        }
        let mut config = Map::new();
        if let Some(max) = request.max_tokens {
            config.insert("maxOutputTokens".into(), max.into());
        }
        if let Some(thinking) = think(request) {
            config.insert("thinkingConfig".into(), thinking);
        }
        if !config.is_empty() {
            head.insert("generationConfig".into(), config.into());
        }
        head
    }

    fn encode(&self, turn: &Turn<'_>, request: &Request, _place: Place) -> Vec<Value> {
        let compat = quirks(&request.model);
        let (role, parts) = match turn {
            Turn::User(message, _) => ("user", sent(&message.content, request.model.images).iter().map(part).collect()),
            Turn::Assistant(turn) => ("model", assistant(turn, &compat)),
            Turn::Results(results) => ("user", tool_results(results, &compat, request.model.images)),
        };
        if parts.is_empty() { Vec::new() } else { vec![json!({"role": role, "parts": parts})] }
    }

    fn decoder(&self, _request: &Request) -> Box<dyn Decoder> {
        Box::new(ChunkDecoder::default())
    }
}

/// How much to think: a budget of tokens, or, where the model's level has a name that is no number, that level.
fn think(request: &Request) -> Option<Value> {
    let model = &request.model;
    let effort = model.effort(request.thinking).filter(|_| model.reasoning)?;
    Some(match effort.budget() {
        Ok(0) if !effort.on() => json!({"thinkingBudget": 0}),
        Ok(budget) => json!({"includeThoughts": effort.on(), "thinkingBudget": budget}),
        Err(level) => json!({"includeThoughts": effort.on(), "thinkingLevel": level}),
    })
}

fn part(sent: &Sent<'_>) -> Value {
    match sent {
        Sent::Text(text) => json!({"text": text}),
        Sent::Image(mime, data) => json!({"inlineData": {"mimeType": mime, "data": data}}),
    }
}

fn assistant(turn: &AssistantTurn<'_>, compat: &Compat) -> Vec<Value> {
    let mut out = Vec::new();
    // Of calls that were made together only the first carries a signature.
    let signed = |block: &Block| matches!(block, Block::ToolCall(call) if call.signature.is_some());
    let has_signature = turn.same_model && turn.blocks().any(|(block, _)| signed(block));
    let mut missing = compat.thought_signatures == Some(true) && !has_signature;
    for (block, id) in turn.blocks() {
        match (block, id) {
            (Block::Text { text }, _) => out.push(json!({"text": text})),
            // A signature that came behind a text, without a thought of its own.
            (Block::Thinking { thinking, signature: Some(signature), .. }, _) if thinking.is_empty() => {
                out.push(json!({"text": "", "thoughtSignature": signature}));
            }
            (Block::Thinking { thinking, signature: Some(signature), .. }, _) => {
                out.push(json!({"text": thinking, "thought": true, "thoughtSignature": signature}));
            }
            (Block::ToolCall(call), Some(id)) => {
                let mut function = json!({"name": call.name, "args": call.arguments});
                if compat.call_ids != Some(false) {
                    function["id"] = id.into();
                }
                let mut value = json!({"functionCall": function});
                let own = call.signature.as_deref().filter(|_| turn.same_model);
                if let Some(signature) = own.or(std::mem::take(&mut missing).then_some(NO_SIGNATURE)) {
                    value["thoughtSignature"] = signature.into();
                }
                out.push(value);
            }
            _ => {}
        }
    }
    // A signature or a thought alone is no answer.
    let says = |value: &Value| {
        value.get("functionCall").is_some()
            || value.get("thought").is_none() && value["text"].as_str().is_some_and(|text| !text.is_empty())
    };
    if out.iter().any(says) { out } else { Vec::new() }
}

/// All results in one message. Images stand in them where the model takes that, else behind them.
fn tool_results(results: &[ResultOf<'_>], compat: &Compat, images: bool) -> Vec<Value> {
    let within = compat.tool_result_images == Some(true);
    let (mut out, mut behind) = (Vec::new(), Vec::new());
    for result in results {
        let key = if result.is_error() { "error" } else { "output" };
        let mut response = json!({"name": result.name, "response": {key: result.text(images)}});
        if compat.call_ids != Some(false) {
            response["id"] = result.id.as_ref().into();
        }
        let content = result.content(images);
        let pictures: Vec<_> = content.iter().filter(|sent| matches!(sent, Sent::Image(..))).map(part).collect();
        if within && !pictures.is_empty() {
            response["parts"] = pictures.into();
        } else {
            behind.extend(pictures);
        }
        out.push(json!({"functionResponse": response}));
    }
    if !behind.is_empty() {
        out.push(json!({"text": IMAGES_BEHIND}));
        out.extend(behind);
    }
    out
}

/// A JSON Schema with only what the older field for it takes.
fn plain_schema(schema: &Value) -> Value {
    const TAKEN: &[&str] = &[
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "items",
        "maxItems",
        "minItems",
        "properties",
        "required",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "pattern",
        "anyOf",
        "default",
    ];
    match schema {
        Value::Object(map) => {
            let mut out = Map::new();
            for (key, value) in map.iter().filter(|(key, _)| TAKEN.contains(&key.as_str())) {
                let value = match (key.as_str(), value) {
                    ("properties", Value::Object(properties)) => {
                        properties.iter().map(|(name, schema)| (name.clone(), plain_schema(schema))).collect()
                    }
                    ("items", value) => plain_schema(value),
                    ("anyOf", Value::Array(list)) => list.iter().map(plain_schema).collect(),
                    (_, value) => value.clone(),
                };
                out.insert(key.clone(), value);
            }
            Value::Object(out)
        }
        other => other.clone(),
    }
}

/// Decodes chunks of one answer.
#[derive(Debug, Default)]
struct ChunkDecoder {
    /// The block that is being written.
    open: Option<(Kind, u32)>,
    slots: u32,
    called: bool,
    end: Option<StopReason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    #[serde(default)]
    candidates: Option<Vec<Candidate>>,
    #[serde(default)]
    prompt_feedback: Option<Feedback>,
    #[serde(default)]
    usage_metadata: Option<WireUsage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    #[serde(default)]
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    parts: Option<Vec<Part>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    #[serde(default)]
    thought_signature: Option<String>,
    #[serde(default)]
    function_call: Option<FunctionCall>,
}

#[derive(Deserialize)]
struct FunctionCall {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    args: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireUsage {
    #[serde(default)]
    prompt_token_count: u64,
    #[serde(default)]
    cached_content_token_count: u64,
    #[serde(default)]
    candidates_token_count: u64,
    #[serde(default)]
    thoughts_token_count: u64,
    #[serde(default)]
    tool_use_prompt_token_count: u64,
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Self {
        let read = wire.cached_content_token_count.min(wire.prompt_token_count);
        Usage {
            input_tokens: wire.prompt_token_count - read + wire.tool_use_prompt_token_count,
            output_tokens: wire.candidates_token_count + wire.thoughts_token_count,
            cache_read_tokens: read,
            cache_write_tokens: 0,
            cost_usd: None,
        }
    }
}

impl Decoder for ChunkDecoder {
    fn event(&mut self, _name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if data.trim() == "[DONE]" {
            return Ok(());
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(|error| ProviderError::unreadable(data, &error))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(ProviderError::from_stream(&error));
        }
        if let Some(usage) = chunk.usage_metadata {
            out.push(StreamEvent::Usage(usage.into()));
        }
        let blocked = chunk.prompt_feedback.and_then(|feedback| feedback.block_reason);
        if blocked.is_some_and(|reason| !reason.is_empty()) {
            self.end = Some(StopReason::Refusal);
        }
        for candidate in chunk.candidates.unwrap_or_default().into_iter().take(1) {
            for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
                self.part(part, out);
            }
            if let Some(reason) = candidate.finish_reason {
                self.end = Some(stop_reason(&reason, candidate.finish_message.as_deref())?);
            }
        }
        Ok(())
    }

    fn complete(&self) -> bool {
        self.end.is_some()
    }

    fn finish(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let reason = match self.end {
            Some(StopReason::Stop) if self.called => StopReason::ToolUse,
            Some(reason) => reason,
            None => return Err(ProviderError::network("the answer was cut off in the middle")),
        };
        out.push(StreamEvent::End(reason));
        Ok(())
    }
}

impl ChunkDecoder {
    fn part(&mut self, part: Part, out: &mut Vec<StreamEvent>) {
        if let Some(call) = part.function_call {
            return self.call(call, part.thought_signature, out);
        }
        let delta = part.text.unwrap_or_default();
        let kind = if part.thought { Kind::Thinking } else { Kind::Text };
        if !delta.is_empty() {
            let slot = self.slot(kind);
            out.push(match kind {
                Kind::Text => StreamEvent::Text { slot, delta },
                Kind::Thinking => StreamEvent::Thinking { slot, delta },
            });
        }
        if let Some(signature) = part.thought_signature.filter(|signature| !signature.is_empty()) {
            // A signature of a text is kept as a thought without words behind it.
            let slot = match self.open {
                Some((Kind::Thinking, slot)) if part.thought => slot,
                _ => self.next(),
            };
            out.push(StreamEvent::Signature { slot, signature, redacted: false });
            self.open = None;
        }
    }

    fn call(&mut self, call: FunctionCall, signature: Option<String>, out: &mut Vec<StreamEvent>) {
        let slot = self.next();
        self.open = None;
        self.called = true;
        out.push(StreamEvent::CallStart { slot, id: call.id.unwrap_or_default(), name: call.name });
        if let Some(arguments) = call.args.filter(|arguments| !arguments.is_null()) {
            out.push(StreamEvent::CallArguments { slot, delta: arguments.to_string() });
        }
        if let Some(signature) = signature.filter(|signature| !signature.is_empty()) {
            out.push(StreamEvent::CallSignature { slot, signature });
        }
    }

    fn slot(&mut self, kind: Kind) -> u32 {
        match self.open {
            Some((open, slot)) if open == kind => slot,
            _ => {
                let slot = self.next();
                self.open = Some((kind, slot));
                slot
            }
        }
    }

    fn next(&mut self) -> u32 {
        self.slots += 1;
        self.slots
    }
}

fn stop_reason(reason: &str, message: Option<&str>) -> Result<StopReason, ProviderError> {
    Ok(match reason {
        "MAX_TOKENS" => StopReason::Length,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "LANGUAGE"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT" => StopReason::Refusal,
        // The next try mostly does better.
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE" => {
            let told = message.map(|message| format!(": {}", crate::text::clean(message))).unwrap_or_default();
            let text = format!("the model wrote a call that its provider could not read ({reason}){told}");
            return Err(ProviderError::new(ErrorKind::Server, text));
        }
        _ => StopReason::Stop,
    })
}
