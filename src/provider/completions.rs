//! OpenAI chat completions, and the many servers that speak it more or less.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::error::ProviderError;
use super::history::{AssistantTurn, ResultOf, Sent, Turn, sent};
use super::{Decoder, Place, Protocol, Request};
use crate::choice::Thinking;
use crate::event::ErrorKind;
use crate::message::stream::StreamEvent;
use crate::message::{Block, StopReason, Usage};
use crate::model::{AssistantContent, Compat, Model, Secret, ThinkingFormat};

/// The protocol.
#[derive(Debug)]
pub struct Completions;

impl Protocol for Completions {
    const API: &'static str = "openai-completions";
    const CONVERSATION: &'static str = "messages";

    fn path(&self, _model: &Model) -> String {
        "/chat/completions".to_owned()
    }

    fn headers(&self, request: &Request) -> Vec<(&'static str, Secret)> {
        let bearer = |key: &Secret| ("authorization", Secret::new(format!("Bearer {}", key.reveal())));
        request.credentials.api_key.iter().map(bearer).collect()
    }

    fn head(&self, request: &Request) -> Map<String, Value> {
        let model = &request.model;
        let compat = quirks(model);
        let mut head = Map::new();
        head.insert("model".into(), model.id.as_str().into());
        head.insert("stream".into(), true.into());
        if compat.stream_options.unwrap_or(true) {
            head.insert("stream_options".into(), json!({"include_usage": true}));
        }
        if let Some(max) = request.max_tokens {
            let field = compat.max_tokens_field.clone().unwrap_or_else(|| "max_tokens".to_owned());
            head.insert(field, max.into());
        }
        if compat.store.is_some() {
            head.insert("store".into(), false.into());
        }
        if model.reasoning {
            think(&mut head, request, &compat);
        }
        if !request.tools.is_empty() {
            let tool = |tool: &super::ToolDefinition| {
                let mut function = json!({
                    "name": tool.name, "description": tool.description, "parameters": tool.parameters,
                });
                if compat.strict_tools == Some(true) {
                    function["strict"] = false.into();
                }
                json!({"type": "function", "function": function})
            };
            head.insert("tools".into(), request.tools.iter().map(tool).collect());
            if let Some(parallel) = compat.parallel_tool_calls {
                head.insert("parallel_tool_calls".into(), parallel.into());
            }
        }
        head
    }

    fn opening(&self, request: &Request) -> Vec<Value> {
        if request.system.is_empty() {
            return Vec::new();
        }
        let role = if quirks(&request.model).developer_role == Some(true) { "developer" } else { "system" };
        vec![json!({"role": role, "content": &*request.system})]
    }

    fn encode(&self, turn: &Turn<'_>, request: &Request, _place: Place) -> Vec<Value> {
        match turn {
            Turn::User(message, _) => {
                vec![json!({"role": "user", "content": content(&sent(&message.content, request.model.images))})]
            }
            Turn::Assistant(turn) => assistant(turn, request),
            Turn::Results(results) => tool_results(results, request),
        }
    }

    fn decoder(&self, _request: &Request) -> Box<dyn Decoder> {
        Box::new(ChunkDecoder::default())
    }
}

/// The quirks of a model: its own, and below them those of its host.
pub fn quirks(model: &Model) -> Compat {
    let host = model.base_url.split("://").nth(1).and_then(|rest| rest.split(['/', ':']).next()).unwrap_or("");
    let is = |domain: &str| host == domain || host.ends_with(&format!(".{domain}"));
    let some = |text: &str| Some(text.to_owned());
    let format = |format| Compat { thinking_format: Some(format), ..Compat::default() };
    let base = if is("openai.com") {
        Compat {
            max_tokens_field: some("max_completion_tokens"),
            developer_role: Some(model.reasoning),
            store: Some(false),
            ..Compat::default()
        }
    } else if is("openrouter.ai") {
        format(ThinkingFormat::Openrouter)
    } else if is("deepseek.com") {
        Compat { reasoning_replay_field: some("reasoning_content"), ..format(ThinkingFormat::Deepseek) }
    } else if is("z.ai") || is("bigmodel.cn") {
        Compat { reasoning_replay_field: some("reasoning_content"), ..format(ThinkingFormat::Zai) }
    } else if is("aliyuncs.com") {
        format(ThinkingFormat::Qwen)
    } else if is("moonshot.ai") || is("moonshot.cn") || is("kimi.com") {
        Compat { reasoning_replay_field: some("reasoning_content"), ..format(ThinkingFormat::None) }
    } else if is("x.ai") || is("together.xyz") || is("mistral.ai") || is("nvidia.com") || is("chutes.ai") {
        format(ThinkingFormat::None)
    } else {
        Compat::default()
    };
    model.compat.clone().or(base)
}

/// Asks for thinking, in the server's own way.
fn think(head: &mut Map<String, Value>, request: &Request, compat: &Compat) {
    let level = request.thinking;
    let named = match request.model.thinking_levels.get(&level) {
        Some(None) => return,
        Some(Some(name)) => Some(name.clone()),
        None if level == Thinking::Off => None,
        None => Some(level.name().to_owned()),
    };
    let on = level != Thinking::Off;
    match compat.thinking_format.unwrap_or(ThinkingFormat::Openai) {
        ThinkingFormat::Openai => {
            if let Some(effort) = named.filter(|_| compat.reasoning_effort != Some(false)) {
                head.insert("reasoning_effort".into(), effort.into());
            }
        }
        ThinkingFormat::Openrouter => {
            let effort = named.unwrap_or_else(|| "none".to_owned());
            head.insert("reasoning".into(), json!({"effort": effort}));
        }
        ThinkingFormat::Deepseek | ThinkingFormat::Zai => {
            head.insert("thinking".into(), json!({"type": if on { "enabled" } else { "disabled" }}));
        }
        ThinkingFormat::Qwen => {
            head.insert("enable_thinking".into(), on.into());
        }
        ThinkingFormat::ChatTemplate => {
            head.insert("chat_template_kwargs".into(), json!({"enable_thinking": on}));
        }
        ThinkingFormat::None => {}
    }
}

/// Content as a plain string, which every server takes, unless there are images in it.
fn content(blocks: &[Sent<'_>]) -> Value {
    if blocks.iter().all(|block| matches!(block, Sent::Text(_))) {
        let texts = blocks.iter().filter_map(|block| if let Sent::Text(text) = block { Some(*text) } else { None });
        return texts.collect::<Vec<_>>().join("\n").into();
    }
    let part = |block: &Sent<'_>| match block {
        Sent::Text(text) => json!({"type": "text", "text": text}),
        Sent::Image(mime, data) => {
            json!({"type": "image_url", "image_url": {"url": format!("data:{mime};base64,{data}")}})
        }
    };
    blocks.iter().map(part).collect()
}

fn assistant(turn: &AssistantTurn<'_>, request: &Request) -> Vec<Value> {
    let compat = quirks(&request.model);
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    let (mut calls, mut thoughts) = (Vec::new(), Vec::new());
    for (block, id) in turn.blocks() {
        match (block, id) {
            (Block::ToolCall(call), Some(id)) => {
                let arguments = Value::Object(call.arguments.clone()).to_string();
                calls.push(json!({
                    "id": id, "type": "function", "function": {"name": call.name, "arguments": arguments},
                }));
            }
            (Block::Thinking { thinking, .. }, _) if !thinking.is_empty() => thoughts.push(thinking.as_str()),
            _ => {}
        }
    }
    let text = turn.text();
    if text.is_empty() && calls.is_empty() {
        return Vec::new();
    }
    let content = match (text.is_empty(), compat.assistant_content.unwrap_or(AssistantContent::Null)) {
        (false, _) => Some(text.into()),
        (true, AssistantContent::Null) => Some(Value::Null),
        (true, AssistantContent::Empty) => Some("".into()),
        (true, AssistantContent::String) => None,
    };
    message.extend(content.map(|content| ("content".to_owned(), content)));
    if let Some(field) = compat.reasoning_replay_field.filter(|_| !thoughts.is_empty()) {
        message.insert(field, thoughts.join("\n").into());
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    vec![Value::Object(message)]
}

/// The results, and behind them, as a message of the user's, the images that stood in them: the protocol
/// takes only text in results.
fn tool_results(results: &[ResultOf<'_>], request: &Request) -> Vec<Value> {
    let named = quirks(&request.model).tool_result_name == Some(true);
    let mut out = Vec::new();
    let mut images = Vec::new();
    for result in results {
        let mut message = json!({
            "role": "tool", "tool_call_id": result.id, "content": result.text(request.model.images),
        });
        if named {
            message["name"] = result.name.into();
        }
        out.push(message);
        images.extend(result.content(request.model.images).into_iter().filter(|s| matches!(s, Sent::Image(..))));
    }
    if !images.is_empty() {
        let mut blocks = vec![Sent::Text("The images of the tool results above:")];
        blocks.extend(images);
        out.push(json!({"role": "user", "content": content(&blocks)}));
    }
    out
}

/// Decodes `chat.completion.chunk`s.
#[derive(Debug, Default)]
struct ChunkDecoder {
    calls: Vec<OpenCall>,
    finish: Option<StopReason>,
    done: bool,
    thinking: bool,
}

#[derive(Debug)]
struct OpenCall {
    index: Option<u64>,
    id: String,
    named: bool,
    has_arguments: bool,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    object: Option<String>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    reasoning_text: Option<String>,
    #[serde(default)]
    reasoning_details: Option<Vec<Value>>,
    #[serde(default)]
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    /// Mistral streams thinking and text as parts.
    Parts(Vec<Value>),
}

#[derive(Deserialize)]
struct CallDelta {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionDelta>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    total_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    completion_tokens_details: Option<CompletionDetails>,
    #[serde(default)]
    prompt_cache_hit_tokens: Option<u64>,
    #[serde(default)]
    cached_tokens: Option<u64>,
    #[serde(default)]
    cost: Option<f64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
    #[serde(default)]
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Self {
        let details = wire.prompt_tokens_details.as_ref();
        let prompt = wire.prompt_tokens.unwrap_or(0);
        let completion = wire.completion_tokens.unwrap_or(0);
        let read = details
            .and_then(|details| details.cached_tokens)
            .or(wire.prompt_cache_hit_tokens)
            .or(wire.cached_tokens)
            .unwrap_or(0)
            .min(prompt);
        let write = details.and_then(|details| details.cache_write_tokens).unwrap_or(0).min(prompt - read);
        let reasoning = wire.completion_tokens_details.and_then(|details| details.reasoning_tokens).unwrap_or(0);
        // Some count reasoning apart: the total tells.
        let apart = wire.total_tokens.is_some_and(|total| total == prompt + completion + reasoning);
        Usage {
            input_tokens: prompt - read - write,
            output_tokens: completion + if apart { reasoning } else { 0 },
            cache_read_tokens: read,
            cache_write_tokens: write,
            cost_usd: wire.cost,
        }
    }
}

impl Decoder for ChunkDecoder {
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if data.trim() == "[DONE]" {
            self.done = true;
            return self.finish(out);
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(|error| {
            let shown = crate::text::clean(crate::text::head(data, 200));
            ProviderError::new(
                ErrorKind::Server,
                format!("the provider sent a chunk that cannot be read ({error}): {shown}"),
            )
        })?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(ProviderError::from_stream(&error));
        }
        if name == "error" || chunk.object.as_deref() == Some("error") {
            let value = serde_json::from_str(data).unwrap_or(Value::Null);
            return Err(ProviderError::from_stream(&value));
        }
        for choice in chunk.choices.unwrap_or_default().into_iter().take(1) {
            if let Some(delta) = choice.delta {
                self.delta(delta, out);
            }
            if let Some(usage) = choice.usage {
                out.push(StreamEvent::Usage(usage.into()));
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.finish = Some(stop_reason(&reason)?);
            }
        }
        if let Some(usage) = chunk.usage {
            out.push(StreamEvent::Usage(usage.into()));
        }
        Ok(())
    }

    fn complete(&self) -> bool {
        self.finish.is_some()
    }

    fn finish(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        match self.finish {
            Some(reason) => out.push(StreamEvent::End(reason)),
            None if self.done => out.push(StreamEvent::End(StopReason::Stop)),
            None => return Err(ProviderError::network("the answer was cut off in the middle")),
        }
        Ok(())
    }
}

impl ChunkDecoder {
    fn delta(&mut self, delta: Delta, out: &mut Vec<StreamEvent>) {
        // Where several fields carry the thinking, they carry the same.
        let fields = [delta.reasoning_content, delta.reasoning, delta.reasoning_text];
        let thinking = fields.into_iter().flatten().find(|text| !text.is_empty());
        let thinking = thinking.unwrap_or_else(|| {
            let text = |value: &Value| {
                let field = value.get("text").or_else(|| value.get("summary"));
                field.and_then(Value::as_str).map(str::to_owned)
            };
            delta.reasoning_details.iter().flatten().filter_map(text).collect()
        });
        self.think(thinking, out);
        match delta.content {
            Some(Content::Text(text)) => self.text(text, out),
            Some(Content::Parts(parts)) => parts.iter().for_each(|part| self.part(part, out)),
            None => {}
        }
        self.text(delta.refusal.unwrap_or_default(), out);
        for call in delta.tool_calls.into_iter().flatten() {
            self.call(call, out);
        }
    }

    fn think(&mut self, delta: String, out: &mut Vec<StreamEvent>) {
        if !delta.is_empty() {
            self.thinking = true;
            out.push(StreamEvent::Thinking { slot: 0, delta });
        }
    }

    fn text(&mut self, delta: String, out: &mut Vec<StreamEvent>) {
        if !delta.is_empty() {
            out.push(StreamEvent::Text { slot: 0, delta });
        }
    }

    fn part(&mut self, part: &Value, out: &mut Vec<StreamEvent>) {
        let text = |value: &Value| value.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
        match part.get("type").and_then(Value::as_str) {
            Some("thinking") => match part.get("thinking") {
                Some(Value::Array(pieces)) => self.think(pieces.iter().map(text).collect(), out),
                Some(Value::String(piece)) => self.think(piece.clone(), out),
                _ => {}
            },
            Some("text") => self.text(text(part), out),
            _ => {}
        }
    }

    fn call(&mut self, delta: CallDelta, out: &mut Vec<StreamEvent>) {
        let id = delta.id.unwrap_or_default();
        let (name, arguments) = match delta.function {
            Some(function) => (function.name.unwrap_or_default(), function.arguments),
            None => (String::new(), None),
        };
        let slot = self.slot(delta.index, &id, &name);
        let call = &mut self.calls[slot];
        if call.id.is_empty() {
            call.id.clone_from(&id);
        }
        // Some servers send the name again with every piece.
        let name = if call.named { String::new() } else { name };
        call.named |= !name.is_empty();
        let slot = u32::try_from(slot).unwrap_or(u32::MAX);
        if !id.is_empty() || !name.is_empty() {
            out.push(StreamEvent::CallStart { slot, id, name });
        }
        let delta = match arguments {
            Some(Value::String(text)) => text,
            Some(Value::Null) | None => String::new(),
            // Servers with another native form send the object itself.
            Some(object) => object.to_string(),
        };
        if !delta.is_empty() {
            call.has_arguments = true;
            out.push(StreamEvent::CallArguments { slot, delta });
        }
    }

    /// Which call a piece belongs to: a known id or index leads to its call, a new id begins one, a piece
    /// with neither goes on with the last.
    fn slot(&mut self, index: Option<u64>, id: &str, name: &str) -> usize {
        let by_id = (!id.is_empty())
            .then(|| {
                self.calls
                    .iter()
                    .rposition(|call| call.id == id && (index.is_none() || call.index.is_none() || call.index == index))
            })
            .flatten();
        let by_index = index.and_then(|wanted| {
            self.calls
                .iter()
                .rposition(|call| call.index == Some(wanted) && (id.is_empty() || call.id.is_empty() || call.id == id))
        });
        let last = || {
            let call = self.calls.last()?;
            let another = !name.is_empty() && call.named && call.has_arguments;
            (index.is_none() && id.is_empty() && !another).then(|| self.calls.len() - 1)
        };
        by_id.or(by_index).or_else(last).unwrap_or_else(|| {
            let id = id.to_owned();
            self.calls.push(OpenCall { index, id, named: false, has_arguments: false });
            self.calls.len() - 1
        })
    }
}

fn stop_reason(reason: &str) -> Result<StopReason, ProviderError> {
    Ok(match reason {
        "length" | "max_tokens" => StopReason::Length,
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "content_filter" | "refusal" | "sensitive" => StopReason::Refusal,
        "model_context_window_exceeded" => {
            return Err(ProviderError::new(ErrorKind::ContextOverflow, "the model's context window is exceeded"));
        }
        "error" | "network_error" => {
            return Err(ProviderError::new(
                ErrorKind::Server,
                format!("the provider ended the answer with `{reason}`"),
            ));
        }
        _ => StopReason::Stop,
    })
}
