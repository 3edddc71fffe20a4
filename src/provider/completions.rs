//! OpenAI chat completions, and the many servers that speak it more or less.

mod decoder;

use serde_json::{Map, Value, json};

use super::history::{AssistantTurn, IMAGES_BEHIND, ResultOf, Sent, Turn, sent};
use super::quirks::quirks;
use super::{Credentials, Decoder, Place, Protocol, Request};
use crate::message::Block;
use crate::model::{AssistantContent, Compat, Model, Secret, ThinkingFormat};

use decoder::ChunkDecoder;

/// The protocol.
#[derive(Debug)]
pub struct Completions;

impl Protocol for Completions {
    const API: &'static str = "openai-completions";
    const CONVERSATION: &'static str = "messages";

    fn path(&self, _model: &Model) -> String {
        "/chat/completions".to_owned()
    }

    fn headers(&self, credentials: &Credentials) -> Vec<(&'static str, Secret)> {
        let bearer = |key: &Secret| ("authorization", Secret::new(format!("Bearer {}", key.reveal())));
        credentials.api_key.iter().map(bearer).collect()
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
            if field != "none" {
                head.insert(field, max.into());
            }
        }
        if compat.store == Some(true) {
            head.insert("store".into(), false.into());
        }
        if compat.prompt_cache_key == Some(true) {
            head.insert("prompt_cache_key".into(), (*request.session_id).into());
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

    fn encode(&self, turn: &Turn<'_>, request: &Request, place: Place) -> Vec<Value> {
        match turn {
            Turn::User(message, _) => {
                vec![json!({"role": "user", "content": content(&sent(&message.content, request.model.images))})]
            }
            Turn::Assistant(turn) => assistant(turn, request),
            Turn::Results(results) => tool_results(results, request, place),
        }
    }

    fn decoder(&self, _request: &Request) -> Box<dyn Decoder> {
        Box::new(ChunkDecoder::default())
    }
}

/// Asks for thinking, in the server's own way.
fn think(head: &mut Map<String, Value>, request: &Request, compat: &Compat) {
    let Some(effort) = request.model.effort(request.thinking) else { return };
    let (on, named) = (effort.on(), effort.named());
    match compat.thinking_format.unwrap_or(ThinkingFormat::Openai) {
        ThinkingFormat::Openai => {
            let off_is_named = on || effort.name.is_some();
            if off_is_named && compat.reasoning_effort != Some(false) {
                head.insert("reasoning_effort".into(), named.into());
            }
        }
        ThinkingFormat::Openrouter => {
            let named = if on || effort.name.is_some() { named } else { "none" };
            head.insert("reasoning".into(), json!({"effort": named}));
        }
        ThinkingFormat::Together => {
            head.insert("reasoning".into(), json!({"enabled": on}));
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
    let mut text = turn.text();
    if text.is_empty() && calls.is_empty() {
        return Vec::new();
    }
    if compat.thinking_as_text == Some(true) && !thoughts.is_empty() {
        text = format!("<think>\n{}\n</think>\n{text}", thoughts.join("\n"));
    }
    let content = match (text.is_empty(), compat.assistant_content.unwrap_or(AssistantContent::Null)) {
        (false, _) => Some(text.into()),
        (true, AssistantContent::Null) => Some(Value::Null),
        (true, AssistantContent::Empty) => Some("".into()),
        (true, AssistantContent::String) => None,
    };
    message.extend(content.map(|content| ("content".to_owned(), content)));
    // Without the field a server that thinks refuses calls of its own or of another model's.
    let always = compat.reasoning_replay_always == Some(true) && request.model.reasoning && !calls.is_empty();
    if let Some(field) = compat.reasoning_replay_field.filter(|_| !thoughts.is_empty() || always) {
        message.insert(field, thoughts.join("\n").into());
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    vec![Value::Object(message)]
}

/// The results, and behind them, as a message of the user's, the images that stood in them: the protocol
/// takes only text in results.
fn tool_results(results: &[ResultOf<'_>], request: &Request, place: Place) -> Vec<Value> {
    let compat = quirks(&request.model);
    let images = request.model.images;
    let mut out = Vec::new();
    let mut behind = Vec::new();
    for result in results {
        let mut message = json!({"role": "tool", "tool_call_id": result.id, "content": result.text(images)});
        if compat.tool_result_name == Some(true) {
            message["name"] = result.name.into();
        }
        out.push(message);
        behind.extend(result.content(images).into_iter().filter(|sent| matches!(sent, Sent::Image(..))));
    }
    let before_user = !behind.is_empty() || place == Place::BeforeUser;
    if before_user && compat.assistant_after_tool_result == Some(true) {
        out.push(json!({"role": "assistant", "content": "I have the results."}));
    }
    if !behind.is_empty() {
        behind.insert(0, Sent::Text(IMAGES_BEHIND));
        out.push(json!({"role": "user", "content": content(&behind)}));
    }
    out
}
