//! OpenAI Responses, without anything kept at the provider: reasoning comes encrypted and goes back with the
//! conversation.

mod decoder;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::history::{AssistantTurn, IMAGES_BEHIND, ResultOf, Sent, Turn, sent};
use super::quirks::quirks;
use super::{Credentials, Decoder, Place, Protocol, Request};
use crate::message::Block;
use crate::model::{Model, Secret};

use decoder::EventDecoder;

/// The protocol.
#[derive(Debug)]
pub struct Responses;

impl Protocol for Responses {
    const API: &'static str = "openai-responses";
    const CONVERSATION: &'static str = "input";

    fn path(&self, _model: &Model) -> String {
        "/responses".to_owned()
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
        head.insert("store".into(), false.into());
        if model.reasoning && compat.encrypted_reasoning != Some(false) {
            head.insert("include".into(), json!(["reasoning.encrypted_content"]));
        }
        if let Some(max) = request.max_tokens.filter(|_| compat.max_tokens_field.as_deref() != Some("none")) {
            head.insert("max_output_tokens".into(), max.into());
        }
        if compat.prompt_cache_key == Some(true) {
            head.insert("prompt_cache_key".into(), (*request.session_id).into());
        }
        if model.reasoning
            && compat.reasoning_effort != Some(false)
            && let Some(effort) = model.effort(request.thinking)
        {
            let reasoning = match (effort.on(), effort.name) {
                (true, _) => Some(json!({"effort": effort.named(), "summary": "auto"})),
                (false, Some(name)) => Some(json!({"effort": name})),
                // Few models take `none`, so that it must be named.
                (false, None) => None,
            };
            head.extend(reasoning.map(|reasoning| ("reasoning".to_owned(), reasoning)));
        }
        if !request.system.is_empty() {
            head.insert("instructions".into(), (*request.system).into());
        }
        if !request.tools.is_empty() {
            // Without a word, the provider takes schemas as strict ones, which ours are not.
            let strict = compat.strict_tools != Some(false);
            let tool = |tool: &super::ToolDefinition| {
                let mut value = json!({
                    "type": "function", "name": tool.name, "description": tool.description,
                    "parameters": tool.parameters,
                });
                if strict {
                    value["strict"] = false.into();
                }
                value
            };
            head.insert("tools".into(), request.tools.iter().map(tool).collect());
            if let Some(parallel) = compat.parallel_tool_calls {
                head.insert("parallel_tool_calls".into(), parallel.into());
            }
        }
        head
    }

    fn encode(&self, turn: &Turn<'_>, request: &Request, _place: Place) -> Vec<Value> {
        match turn {
            Turn::User(message, _) => vec![user(&sent(&message.content, request.model.images))],
            Turn::Assistant(turn) => assistant(turn),
            Turn::Results(results) => tool_results(results, request),
        }
    }

    fn decoder(&self, _request: &Request) -> Box<dyn Decoder> {
        Box::new(EventDecoder::default())
    }
}

/// What goes back with a thought: it is kept as JSON in [`Block::Thinking`]'s signature.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Kept {
    /// The item's id.
    #[serde(default)]
    id: String,
    /// The thought itself, for the provider alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encrypted_content: Option<String>,
    /// The thought was told openly, so that its text goes back as such.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    open: bool,
}

fn user(content: &[Sent<'_>]) -> Value {
    json!({"type": "message", "role": "user", "content": parts(content)})
}

fn parts(content: &[Sent<'_>]) -> Vec<Value> {
    let part = |sent: &Sent<'_>| match sent {
        Sent::Text(text) => json!({"type": "input_text", "text": text}),
        Sent::Image(mime, data) => {
            json!({"type": "input_image", "detail": "auto", "image_url": format!("data:{mime};base64,{data}")})
        }
    };
    content.iter().map(part).collect()
}

/// The items of an answer. No item but an open thought carries its id: the provider pairs items by their ids, and
/// what carries none is taken as it stands.
fn assistant(turn: &AssistantTurn<'_>) -> Vec<Value> {
    // What was said after a call goes before it: nothing may stand between calls and their outputs.
    let (mut said, mut called) = (Vec::new(), Vec::new());
    // A thought without an item behind it is refused.
    let mut thoughts = Vec::new();
    for (block, id) in turn.blocks() {
        match (block, id) {
            (Block::Text { text }, _) => {
                said.append(&mut thoughts);
                said.push(json!({"type": "message", "role": "assistant", "content": text}));
            }
            (Block::ToolCall(call), Some(id)) => {
                let arguments = Value::Object(call.arguments.clone()).to_string();
                called.append(&mut thoughts);
                called.push(json!({"type": "function_call", "call_id": id, "name": call.name, "arguments": arguments}));
            }
            (Block::Thinking { thinking, signature: Some(signature), .. }, _) => {
                thoughts.extend(reasoning(thinking, signature));
            }
            _ => {}
        }
    }
    said.append(&mut called);
    said
}

fn reasoning(thinking: &str, signature: &str) -> Option<Value> {
    let kept: Kept = serde_json::from_str(signature).ok()?;
    let text = |kind: &str| match thinking.is_empty() {
        true => json!([]),
        false => json!([{"type": kind, "text": thinking}]),
    };
    if let Some(encrypted) = kept.encrypted_content {
        return Some(json!({"type": "reasoning", "summary": text("summary_text"), "encrypted_content": encrypted}));
    }
    let open = kept.open && !thinking.is_empty();
    // Servers of open models want the whole item, as they sent it.
    open.then(|| json!({"type": "reasoning", "id": kept.id, "summary": [], "content": text("reasoning_text")}))
}

/// The results, images within them; where the server does not take these, they follow in a message of the user's.
fn tool_results(results: &[ResultOf<'_>], request: &Request) -> Vec<Value> {
    let images = request.model.images;
    let within = quirks(&request.model).tool_result_images != Some(false);
    let (mut out, mut behind) = (Vec::new(), Vec::new());
    for result in results {
        let content = result.content(images);
        let has_image = content.iter().any(|sent| matches!(sent, Sent::Image(..)));
        let output = if has_image && within { parts(&content).into() } else { Value::from(result.text(images)) };
        out.push(json!({"type": "function_call_output", "call_id": result.id, "output": output}));
        if !within {
            behind.extend(content.into_iter().filter(|sent| matches!(sent, Sent::Image(..))));
        }
    }
    if !behind.is_empty() {
        behind.insert(0, Sent::Text(IMAGES_BEHIND));
        out.push(user(&behind));
    }
    out
}
