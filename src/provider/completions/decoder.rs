//! Chunks of chat completions, as the many servers really send them.

use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::event::ErrorKind;
use crate::message::stream::StreamEvent;
use crate::message::{StopReason, Usage};
use crate::provider::{Decoder, ProviderError};

/// Decodes `chat.completion.chunk`s.
#[derive(Debug, Default)]
pub(super) struct ChunkDecoder {
    calls: Vec<OpenCall>,
    finish: Option<StopReason>,
    done: bool,
    /// Text of a refusal came.
    refused: bool,
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

enum Content {
    Text(String),
    /// Mistral streams thinking and text as parts.
    Parts(Vec<Value>),
}

/// By hand, since `untagged` copies each delta once more before it looks at it.
impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrParts;
        impl<'de> Visitor<'de> for TextOrParts {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or parts")
            }

            fn visit_str<E>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<Content, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(parts)).map(Content::Parts)
            }
        }
        deserializer.deserialize_any(TextOrParts)
    }
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
        let chunk: Chunk = serde_json::from_str(data).map_err(|error| ProviderError::unreadable(data, &error))?;
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
            Some(StopReason::Stop) if self.refused => out.push(StreamEvent::End(StopReason::Refusal)),
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
        let refusal = delta.refusal.unwrap_or_default();
        self.refused |= !refusal.is_empty();
        self.text(refusal, out);
        for call in delta.tool_calls.into_iter().flatten() {
            self.call(call, out);
        }
    }

    fn think(&mut self, delta: String, out: &mut Vec<StreamEvent>) {
        if !delta.is_empty() {
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
