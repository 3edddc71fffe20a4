//! Events of a response. Servers differ in what they send: ids or places or both, pieces or only the whole.

use serde::Deserialize;
use serde_json::Value;

use super::Kept;
use crate::message::stream::StreamEvent;
use crate::message::{StopReason, Usage};
use crate::provider::{Decoder, ProviderError};

/// Decodes one response.
#[derive(Debug, Default)]
pub(super) struct EventDecoder {
    /// The items of the response, in the order in which they came; the place is the slot.
    items: Vec<Item>,
    /// Text of a refusal came.
    refused: bool,
    end: Option<StopReason>,
}

#[derive(Debug)]
struct Item {
    kind: Kind,
    id: String,
    output_index: Option<u64>,
    call_id: String,
    /// Something of its content came.
    begun: bool,
    /// Which field its thinking came in: where several carry it, they carry the same.
    field: Option<Field>,
    named: bool,
    done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Call,
    /// A tool that ran at the provider.
    Foreign,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Summary,
    Open,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireEvent {
    #[serde(rename = "type")]
    kind: Option<String>,
    item_id: Option<String>,
    output_index: Option<u64>,
    summary_index: Option<u64>,
    delta: Option<Value>,
    text: Option<String>,
    refusal: Option<String>,
    arguments: Option<String>,
    item: Option<WireItem>,
    response: Option<WireResponse>,
    error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireItem {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<Value>,
    encrypted_content: Option<String>,
    content: Option<Vec<WirePart>>,
    summary: Option<Vec<WirePart>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WirePart {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    refusal: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireResponse {
    status: Option<String>,
    output: Vec<WireItem>,
    error: Option<Value>,
    incomplete_details: Option<Incomplete>,
    usage: Option<WireUsage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Incomplete {
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<OutputDetails>,
    cost: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Self {
        let (input, output) = (wire.input_tokens.unwrap_or(0), wire.output_tokens.unwrap_or(0));
        let details = wire.input_tokens_details.unwrap_or_default();
        let read = details.cached_tokens.unwrap_or(0).min(input);
        let write = details.cache_write_tokens.unwrap_or(0).min(input - read);
        let reasoning = wire.output_tokens_details.and_then(|details| details.reasoning_tokens).unwrap_or(0);
        // Some count reasoning apart: the total tells.
        let apart = wire.total_tokens.is_some_and(|total| total == input + output + reasoning);
        Usage {
            input_tokens: input - read - write,
            output_tokens: output + if apart { reasoning } else { 0 },
            cache_read_tokens: read,
            cache_write_tokens: write,
            cost_usd: wire.cost,
        }
    }
}

impl Decoder for EventDecoder {
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if data.trim() == "[DONE]" {
            return Ok(());
        }
        let event: WireEvent = serde_json::from_str(data).map_err(|error| ProviderError::unreadable(data, &error))?;
        let kind = event.kind.as_deref().unwrap_or(name).to_owned();
        match kind.strip_prefix("response.").unwrap_or(&kind) {
            "output_item.added" => {
                if let Some(item) = event.item {
                    self.open(&item, event.output_index, out);
                }
            }
            "output_item.done" => {
                if let Some(item) = event.item {
                    self.close(item, event.output_index, out);
                }
            }
            "output_text.delta" => self.text(&event, piece(&event.delta), out),
            "refusal.delta" => {
                self.refused = true;
                self.text(&event, piece(&event.delta), out);
            }
            "output_text.done" => self.whole_text(&event, event.text.clone(), out),
            "refusal.done" => {
                self.refused = true;
                self.whole_text(&event, event.refusal.clone(), out);
            }
            "reasoning_summary_part.added" => {
                let slot = self.slot(Kind::Thinking, &event);
                // Parts of a summary are paragraphs.
                if event.summary_index.is_some_and(|index| index > 0) && self.items[slot].begun {
                    self.think(&event, Field::Summary, "\n\n".to_owned(), out);
                }
            }
            "reasoning_summary_text.delta" => self.think(&event, Field::Summary, piece(&event.delta), out),
            "reasoning_text.delta" | "reasoning.delta" => self.think(&event, Field::Open, piece(&event.delta), out),
            "function_call_arguments.delta" => {
                let delta = piece(&event.delta);
                let slot = self.slot(Kind::Call, &event);
                self.items[slot].begun |= !delta.is_empty();
                out.push(StreamEvent::CallArguments { slot: number(slot), delta });
            }
            "function_call_arguments.done" => {
                if let Some(arguments) = event.arguments.clone().filter(|arguments| !arguments.is_empty()) {
                    let slot = self.slot(Kind::Call, &event);
                    self.items[slot].begun = true;
                    out.push(StreamEvent::CallFinal { slot: number(slot), arguments });
                }
            }
            "completed" | "done" | "incomplete" => {
                self.end(event.response.unwrap_or_default(), kind.ends_with("incomplete"), out);
            }
            "failed" => {
                let error = event.response.and_then(|response| response.error).or(event.error);
                return Err(ProviderError::from_stream(&error.unwrap_or(Value::Null)));
            }
            "error" => {
                // Some put the error beside the type, not below it.
                let whole = || serde_json::from_str::<Value>(data).map(without_type).unwrap_or(Value::Null);
                let error = event.error.filter(|error| !error.is_null()).unwrap_or_else(whole);
                return Err(ProviderError::from_stream(&error));
            }
            "cancelled" => return Err(ProviderError::network("the provider cancelled the answer")),
            _ => {
                // A server that fails before its first event sends a plain error object.
                if let Some(error) = event.error.filter(|error| kind.is_empty() && !error.is_null()) {
                    return Err(ProviderError::from_stream(&error));
                }
            }
        }
        Ok(())
    }

    fn complete(&self) -> bool {
        self.end.is_some()
    }

    fn finish(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let reason = self.end.ok_or_else(|| ProviderError::network("the answer was cut off in the middle"))?;
        out.push(StreamEvent::End(reason));
        Ok(())
    }
}

impl EventDecoder {
    /// An item begins.
    fn open(&mut self, item: &WireItem, output_index: Option<u64>, out: &mut Vec<StreamEvent>) -> usize {
        let kind = match item.kind.as_str() {
            "message" => Kind::Text,
            "reasoning" => Kind::Thinking,
            "function_call" => Kind::Call,
            _ => Kind::Foreign,
        };
        self.items.push(Item {
            kind,
            id: item.id.clone().unwrap_or_default(),
            output_index,
            call_id: item.call_id.clone().unwrap_or_default(),
            begun: false,
            field: None,
            named: false,
            done: false,
        });
        let slot = self.items.len() - 1;
        match kind {
            // Blocks stand in the order in which they began.
            Kind::Text => out.push(StreamEvent::Text { slot: number(slot), delta: String::new() }),
            Kind::Thinking => out.push(StreamEvent::Thinking { slot: number(slot), delta: String::new() }),
            Kind::Call => self.head_of_call(slot, item, out),
            Kind::Foreign => {}
        }
        slot
    }

    fn head_of_call(&mut self, slot: usize, item: &WireItem, out: &mut Vec<StreamEvent>) {
        let known = &mut self.items[slot];
        let id = item.call_id.clone().or_else(|| item.id.clone()).unwrap_or_default();
        let name = if known.named { String::new() } else { item.name.clone().unwrap_or_default() };
        known.named |= !name.is_empty();
        out.push(StreamEvent::CallStart { slot: number(slot), id, name });
    }

    /// An item is whole: what did not come in pieces is taken from it.
    fn close(&mut self, item: WireItem, output_index: Option<u64>, out: &mut Vec<StreamEvent>) {
        let found = self.find_whole(&item, output_index);
        let slot = found.unwrap_or_else(|| self.open(&item, output_index, out));
        self.items[slot].done = true;
        let begun = self.items[slot].begun;
        match self.items[slot].kind {
            Kind::Text => {
                let parts = item.content.unwrap_or_default();
                self.refused |= parts.iter().any(|part| part.kind == "refusal");
                if !begun {
                    let delta = parts.into_iter().filter_map(|part| part.text.or(part.refusal)).collect();
                    out.push(StreamEvent::Text { slot: number(slot), delta });
                }
            }
            Kind::Thinking => self.close_thinking(slot, item, out),
            Kind::Call => {
                if !self.items[slot].named {
                    self.head_of_call(slot, &item, out);
                }
                let arguments = match item.arguments {
                    Some(Value::String(text)) => text,
                    Some(Value::Null) | None => String::new(),
                    Some(object) => object.to_string(),
                };
                if !arguments.is_empty() {
                    out.push(StreamEvent::CallFinal { slot: number(slot), arguments });
                }
            }
            Kind::Foreign => {}
        }
    }

    fn close_thinking(&mut self, slot: usize, item: WireItem, out: &mut Vec<StreamEvent>) {
        let texts = |parts: Option<Vec<WirePart>>| {
            let texts = parts.unwrap_or_default().into_iter().filter_map(|part| part.text);
            texts.collect::<Vec<_>>().join("\n\n")
        };
        let (summary, content) = (texts(item.summary), texts(item.content));
        let open = match self.items[slot].field {
            Some(field) => field == Field::Open,
            None => summary.is_empty() && !content.is_empty(),
        };
        if !self.items[slot].begun {
            let delta = if open { content } else { summary };
            out.push(StreamEvent::Thinking { slot: number(slot), delta });
        }
        let encrypted_content = item.encrypted_content.filter(|content| !content.is_empty());
        if encrypted_content.is_none() && !open {
            // Nothing that the provider could do anything with.
            return;
        }
        let kept =
            Kept { id: item.id.unwrap_or_default(), open: open && encrypted_content.is_none(), encrypted_content };
        if let Ok(signature) = serde_json::to_string(&kept) {
            out.push(StreamEvent::Signature { slot: number(slot), signature, redacted: false });
        }
    }

    fn text(&mut self, event: &WireEvent, delta: String, out: &mut Vec<StreamEvent>) {
        if !delta.is_empty() {
            let slot = self.slot(Kind::Text, event);
            self.items[slot].begun = true;
            out.push(StreamEvent::Text { slot: number(slot), delta });
        }
    }

    fn whole_text(&mut self, event: &WireEvent, text: Option<String>, out: &mut Vec<StreamEvent>) {
        let slot = self.slot(Kind::Text, event);
        if !self.items[slot].begun {
            self.text(event, text.unwrap_or_default(), out);
        }
    }

    fn think(&mut self, event: &WireEvent, field: Field, delta: String, out: &mut Vec<StreamEvent>) {
        let slot = self.slot(Kind::Thinking, event);
        let item = &mut self.items[slot];
        if delta.is_empty() || *item.field.get_or_insert(field) != field {
            return;
        }
        item.begun = true;
        out.push(StreamEvent::Thinking { slot: number(slot), delta });
    }

    /// The item that a piece belongs to: by id, by place, or the last one of its kind; else a new one.
    fn slot(&mut self, kind: Kind, event: &WireEvent) -> usize {
        let id = event.item_id.as_deref().unwrap_or_default();
        let of_kind = |item: &Item| item.kind == kind;
        let by_id = (!id.is_empty()).then(|| self.items.iter().rposition(|item| of_kind(item) && item.id == id));
        let by_place = || {
            let place = event.output_index?;
            self.items.iter().rposition(|item| of_kind(item) && item.output_index == Some(place))
        };
        let last = || self.items.iter().rposition(|item| of_kind(item) && !item.done);
        by_id.flatten().or_else(by_place).or_else(last).unwrap_or_else(|| {
            self.items.push(Item {
                kind,
                id: id.to_owned(),
                output_index: event.output_index,
                call_id: String::new(),
                begun: false,
                field: None,
                named: false,
                done: false,
            });
            self.items.len() - 1
        })
    }

    /// The item that a whole one completes. Some proxies give it another id at its end.
    fn find_whole(&self, whole: &WireItem, output_index: Option<u64>) -> Option<usize> {
        let find = |wanted: &dyn Fn(&Item) -> bool| self.items.iter().rposition(|item| !item.done && wanted(item));
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let kind = match whole.kind.as_str() {
            "message" => Kind::Text,
            "reasoning" => Kind::Thinking,
            "function_call" => Kind::Call,
            _ => Kind::Foreign,
        };
        given(&whole.id)
            .and_then(|id| find(&|item| item.id == id))
            .or_else(|| output_index.and_then(|place| find(&|item| item.output_index == Some(place))))
            .or_else(|| given(&whole.call_id).and_then(|id| find(&|item| item.call_id == id)))
            .or_else(|| find(&|item| item.kind == kind))
    }

    fn end(&mut self, response: WireResponse, incomplete: bool, out: &mut Vec<StreamEvent>) {
        if self.items.is_empty() {
            for item in response.output {
                self.close(item, None, out);
            }
        }
        if let Some(usage) = response.usage {
            out.push(StreamEvent::Usage(usage.into()));
        }
        let cut = response.incomplete_details.and_then(|details| details.reason);
        let called = self.items.iter().any(|item| item.kind == Kind::Call);
        let reason = match cut.as_deref() {
            Some("content_filter") => StopReason::Refusal,
            _ if incomplete || response.status.as_deref() == Some("incomplete") => StopReason::Length,
            _ if called => StopReason::ToolUse,
            _ if self.refused => StopReason::Refusal,
            _ => StopReason::Stop,
        };
        self.end = Some(reason);
        out.push(StreamEvent::End(reason));
    }
}

fn number(slot: usize) -> u32 {
    u32::try_from(slot).unwrap_or(u32::MAX)
}

fn piece(delta: &Option<Value>) -> String {
    match delta {
        Some(Value::String(text)) => text.clone(),
        _ => String::new(),
    }
}

fn without_type(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.shift_remove("type");
        object.shift_remove("sequence_number");
    }
    value
}
