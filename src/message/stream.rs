//! What arrives while a model answers, and the one accumulator that folds it into a message.
//!
//! Every provider adapter turns its wire format into [`StreamEvent`]s; nothing above them sees a wire.

use serde_json::{Map, Value};

use super::{AssistantMessage, Block, StopReason, ToolCall, Usage};

/// One step of a streamed answer. `slot` names a block or a call within the answer: an adapter numbers
/// them as it likes, as long as one thing keeps one number; blocks stand in the order of their first event.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// More text of the answer.
    Text {
        /// Which text block.
        slot: u32,
        /// The new characters.
        delta: String,
    },
    /// More thinking.
    Thinking {
        /// Which thinking block.
        slot: u32,
        /// The new characters; may be empty, which makes the block.
        delta: String,
    },
    /// What must be sent back with a thinking block: it replaces what was there.
    Signature {
        /// Which thinking block.
        slot: u32,
        /// Opaque.
        signature: String,
        /// The provider withheld the text itself.
        redacted: bool,
    },
    /// A tool call begins, or more of its head is known.
    CallStart {
        /// Which call.
        slot: u32,
        /// Its id; empty where the provider sent none.
        id: String,
        /// The tool's name, or a further piece of it.
        name: String,
    },
    /// More of a call's arguments, as JSON text.
    CallArguments {
        /// Which call.
        slot: u32,
        /// The new characters.
        delta: String,
    },
    /// The whole arguments of a call, in place of what was streamed of them.
    CallFinal {
        /// Which call.
        slot: u32,
        /// All of the JSON text.
        arguments: String,
    },
    /// What must be sent back with a call.
    CallSignature {
        /// Which call.
        slot: u32,
        /// Opaque.
        signature: String,
    },
    /// Usage as far as it is known: it replaces what was there.
    Usage(Usage),
    /// The provider began anew within the stream: everything so far is void.
    Restart,
    /// The answer is complete.
    End(StopReason),
}

/// Folds [`StreamEvent`]s into an [`AssistantMessage`].
#[derive(Debug, Default)]
pub struct Accumulator {
    parts: Vec<Part>,
    usage: Option<Usage>,
    end: Option<StopReason>,
}

#[derive(Debug)]
enum Part {
    Text { slot: u32, text: String },
    Thinking { slot: u32, text: String, signature: Option<String>, redacted: bool },
    Call { slot: u32, id: String, name: String, arguments: String, signature: Option<String> },
}

impl Accumulator {
    /// Takes one event.
    pub fn push(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Text { slot, delta } => self.text(*slot).push_str(delta),
            StreamEvent::Thinking { slot, delta } => self.thinking(*slot).0.push_str(delta),
            StreamEvent::Signature { slot, signature, redacted } => {
                let (_, kept, withheld) = self.thinking(*slot);
                *kept = Some(signature.clone());
                *withheld = *redacted;
            }
            StreamEvent::CallStart { slot, id, name } => {
                let call = self.call(*slot);
                if call.id.is_empty() {
                    call.id.push_str(id);
                }
                call.name.push_str(name);
            }
            StreamEvent::CallArguments { slot, delta } => self.call(*slot).arguments.push_str(delta),
            StreamEvent::CallFinal { slot, arguments } => arguments.clone_into(self.call(*slot).arguments),
            StreamEvent::CallSignature { slot, signature } => {
                *self.call(*slot).signature = Some(signature.clone());
            }
            StreamEvent::Usage(usage) => self.usage = Some(*usage),
            StreamEvent::Restart => *self = Accumulator::default(),
            StreamEvent::End(reason) => self.end = Some(*reason),
        }
    }

    /// Whether anything came that a person could have seen or that would be lost.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether the provider said that the answer is complete.
    pub fn ended(&self) -> Option<StopReason> {
        self.end
    }

    /// Usage as far as it is known.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The message as far as it came. Empty blocks that nobody wants back are left out; a call without an
    /// id gets one that is unique in the session, because it begins with `prefix`. Calls that are there
    /// make the reason `tool_use`, whatever the provider called it, unless the answer was cut off.
    pub fn finish(self, prefix: &str) -> AssistantMessage {
        let mut content = Vec::new();
        for (index, part) in self.parts.into_iter().enumerate() {
            match part {
                Part::Text { text, .. } if text.is_empty() => {}
                Part::Text { text, .. } => content.push(Block::Text { text }),
                Part::Thinking { text, signature: None, .. } if text.is_empty() => {}
                Part::Thinking { text, signature, redacted, .. } => {
                    content.push(Block::Thinking { thinking: text, signature, redacted });
                }
                Part::Call { id, name, arguments, signature, .. } => {
                    let id = if id.is_empty() { format!("{prefix}_{index}") } else { id };
                    let (arguments, invalid) = parse_arguments(&arguments);
                    content.push(Block::ToolCall(ToolCall { id, name, arguments, invalid, signature }));
                }
            }
        }
        let calls = content.iter().any(|block| matches!(block, Block::ToolCall(_)));
        let stop_reason = match self.end {
            Some(StopReason::Stop | StopReason::ToolUse) if calls => StopReason::ToolUse,
            Some(StopReason::ToolUse) => StopReason::Stop,
            Some(reason) => reason,
            None => StopReason::Error,
        };
        AssistantMessage { content, usage: self.usage, stop_reason, ..AssistantMessage::default() }
    }

    fn text(&mut self, wanted: u32) -> &mut String {
        let found = self.parts.iter().rposition(|part| matches!(part, Part::Text { slot, .. } if *slot == wanted));
        let index = found.unwrap_or_else(|| {
            self.parts.push(Part::Text { slot: wanted, text: String::new() });
            self.parts.len() - 1
        });
        match &mut self.parts[index] {
            Part::Text { text, .. } => text,
            _ => unreachable!("the index was found as a text"),
        }
    }

    fn thinking(&mut self, wanted: u32) -> (&mut String, &mut Option<String>, &mut bool) {
        let found = self.parts.iter().rposition(|part| matches!(part, Part::Thinking { slot, .. } if *slot == wanted));
        let index = found.unwrap_or_else(|| {
            let (text, signature) = (String::new(), None);
            self.parts.push(Part::Thinking { slot: wanted, text, signature, redacted: false });
            self.parts.len() - 1
        });
        match &mut self.parts[index] {
            Part::Thinking { text, signature, redacted, .. } => (text, signature, redacted),
            _ => unreachable!("the index was found as thinking"),
        }
    }

    fn call(&mut self, wanted: u32) -> CallPart<'_> {
        let found = self.parts.iter().rposition(|part| matches!(part, Part::Call { slot, .. } if *slot == wanted));
        let index = found.unwrap_or_else(|| {
            let (id, name, arguments) = (String::new(), String::new(), String::new());
            self.parts.push(Part::Call { slot: wanted, id, name, arguments, signature: None });
            self.parts.len() - 1
        });
        match &mut self.parts[index] {
            Part::Call { id, name, arguments, signature, .. } => CallPart { id, name, arguments, signature },
            _ => unreachable!("the index was found as a call"),
        }
    }
}

struct CallPart<'a> {
    id: &'a mut String,
    name: &'a mut String,
    arguments: &'a mut String,
    signature: &'a mut Option<String>,
}

/// The arguments of a call from their JSON text. What is no object comes back as none, with a sentence for
/// the model on what is wrong and where. Raw control characters inside strings and stray escapes, which
/// models do write, are mended first; nothing that is incomplete is.
fn parse_arguments(text: &str) -> (Map<String, Value>, Option<String>) {
    if text.trim().is_empty() {
        return (Map::new(), None);
    }
    let first = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(map)) => return (map, None),
        Ok(Value::Null) => return (Map::new(), None),
        // Some gateways encode the object once more, as a string.
        Ok(Value::String(inner)) => match serde_json::from_str(&inner) {
            Ok(Value::Object(map)) => return (map, None),
            _ => "the arguments are a string, not a JSON object".to_owned(),
        },
        Ok(other) => format!("the arguments are {}, not a JSON object", kind(&other)),
        Err(error) => match serde_json::from_str(&mend(text)) {
            Ok(Value::Object(map)) => return (map, None),
            _ => format!("the arguments are not valid JSON: {error}"),
        },
    };
    let shown = crate::text::head(text, 400);
    (Map::new(), Some(format!("{first}. They came as: {shown}")))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "a list",
        Value::Number(_) => "a number",
        Value::Bool(_) => "a boolean",
        _ => "something else",
    }
}

/// Escapes raw control characters within strings and doubles backslashes that begin no valid escape.
fn mend(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut inside = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                inside = !inside;
                out.push(c);
            }
            '\\' if inside => {
                let rest = &text[at + 1..];
                let unicode = rest.strip_prefix('u').and_then(|hex| hex.get(..4));
                let whole = unicode.is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
                match rest.chars().next() {
                    Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => {
                        out.push(c);
                        out.extend(chars.next().map(|(_, next)| next));
                    }
                    Some('u') if whole => out.push(c),
                    _ => out.push_str("\\\\"),
                }
            }
            c if inside && u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call_of(arguments: &str) -> ToolCall {
        let mut accumulator = Accumulator::default();
        accumulator.push(&StreamEvent::CallStart { slot: 0, id: String::new(), name: "write".into() });
        accumulator.push(&StreamEvent::CallArguments { slot: 0, delta: arguments.into() });
        accumulator.push(&StreamEvent::End(StopReason::Stop));
        let message = accumulator.finish("call_7");
        assert_eq!(message.stop_reason, StopReason::ToolUse);
        message.tool_calls().next().expect("a call").clone()
    }

    #[test]
    fn broken_arguments_are_kept_apart_and_told() {
        let call = call_of("{\"path\":\"a.txt\",\"content\":\"line1\n");
        assert!(call.arguments.is_empty());
        let told = call.invalid.expect("told");
        assert!(told.contains("not valid JSON") && told.contains("line1"), "{told}");
        assert_eq!(call.id, "call_7_0");
    }

    #[test]
    fn raw_newlines_and_stray_escapes_are_mended() {
        let call = call_of("{\"path\":\"a\",\"content\":\"x\ny \\usepackage \\d\"}");
        assert_eq!(call.invalid, None);
        assert_eq!(call.arguments["content"], "x\ny \\usepackage \\d");
    }

    #[test]
    fn interleaved_calls_stay_apart_and_in_order() {
        let mut accumulator = Accumulator::default();
        for (slot, id) in [(0, "a"), (1, "b")] {
            accumulator.push(&StreamEvent::CallStart { slot, id: id.into(), name: "read".into() });
        }
        for (slot, delta) in [(0, "{\"path\""), (1, "{\"path\":"), (0, ":\"1\"}"), (1, "\"2\"}")] {
            accumulator.push(&StreamEvent::CallArguments { slot, delta: delta.into() });
        }
        accumulator.push(&StreamEvent::End(StopReason::ToolUse));
        let message = accumulator.finish("x");
        let found: Vec<_> = message.tool_calls().map(|c| (c.id.as_str(), c.arguments["path"].clone())).collect();
        assert_eq!(found, [("a", "1".into()), ("b", "2".into())]);
    }

    #[test]
    fn a_restart_voids_what_came_before() {
        let mut accumulator = Accumulator::default();
        accumulator.push(&StreamEvent::Text { slot: 0, delta: "first".into() });
        accumulator.push(&StreamEvent::Restart);
        accumulator.push(&StreamEvent::Text { slot: 0, delta: "second".into() });
        accumulator.push(&StreamEvent::End(StopReason::Stop));
        assert_eq!(super::super::text_of(&accumulator.finish("x").content), "second");
    }

    #[test]
    fn an_answer_without_an_end_is_an_error() {
        let mut accumulator = Accumulator::default();
        accumulator.push(&StreamEvent::Text { slot: 0, delta: "half".into() });
        assert_eq!(accumulator.finish("x").stop_reason, StopReason::Error);
    }
}
