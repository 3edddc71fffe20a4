//! Answers as the protocols write them.

use serde_json::{Value, json};

/// A tool call: its id, the tool, the arguments.
pub type Call<'a> = (&'a str, &'a str, Value);

/// A protocol that tests speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    Chat,
    Messages,
}

/// All of them.
pub const APIS: &[Api] = &[Api::Chat, Api::Messages];

impl Api {
    /// The name in models.json.
    pub fn name(self) -> &'static str {
        match self {
            Api::Chat => "openai-completions",
            Api::Messages => "anthropic-messages",
        }
    }

    /// A whole answer: some text and some calls.
    pub fn answer(self, text: &str, calls: &[Call<'_>]) -> String {
        self.begun(text) + &self.rest(text, calls)
    }

    /// The begin of an answer, as far as its text.
    pub fn begun(self, text: &str) -> String {
        match self {
            Api::Chat => {
                let content =
                    if text.is_empty() { String::new() } else { chunk(&json!({"content": text}), Value::Null) };
                chunk(&json!({"role": "assistant", "content": null}), Value::Null) + &content
            }
            Api::Messages => {
                let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 90, "output_tokens": 1}});
                let mut out = event("message_start", json!({"message": message}));
                if !text.is_empty() {
                    out += &event(
                        "content_block_start",
                        json!({"index": 0, "content_block": {"type": "text", "text": ""}}),
                    );
                    out += &event(
                        "content_block_delta",
                        json!({"index": 0, "delta": {"type": "text_delta", "text": text}}),
                    );
                    out += &event("content_block_stop", json!({"index": 0}));
                }
                out
            }
        }
    }

    /// The rest of an answer behind its text.
    pub fn rest(self, text: &str, calls: &[Call<'_>]) -> String {
        let called = !calls.is_empty();
        match self {
            Api::Chat => {
                let mut out = String::new();
                for (index, (id, name, arguments)) in calls.iter().enumerate() {
                    let function = json!({"name": name, "arguments": arguments.to_string()});
                    let call = json!({"index": index, "id": id, "type": "function", "function": function});
                    out += &chunk(&json!({"tool_calls": [call]}), Value::Null);
                }
                out += &chunk(&json!({}), json!(if called { "tool_calls" } else { "stop" }));
                let usage = json!({"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105, "prompt_tokens_details": {"cached_tokens": 10}});
                out + &format!("data: {}\n\ndata: [DONE]\n\n", json!({"choices": [], "usage": usage}))
            }
            Api::Messages => {
                let mut out = String::new();
                for (index, (id, name, arguments)) in calls.iter().enumerate() {
                    let index = index + usize::from(!text.is_empty());
                    let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                    out += &event("content_block_start", json!({"index": index, "content_block": block}));
                    let delta = json!({"type": "input_json_delta", "partial_json": arguments.to_string()});
                    out += &event("content_block_delta", json!({"index": index, "delta": delta}));
                    out += &event("content_block_stop", json!({"index": index}));
                }
                let reason = if called { "tool_use" } else { "end_turn" };
                let usage = json!({"input_tokens": 90, "cache_read_input_tokens": 10, "output_tokens": 5});
                out += &event("message_delta", json!({"delta": {"stop_reason": reason}, "usage": usage}));
                out + &event("message_stop", json!({}))
            }
        }
    }

    /// The texts of the results that a request carries, in order.
    pub fn results(self, body: &Value) -> Vec<String> {
        let messages = body["messages"].as_array().expect("messages");
        match self {
            Api::Chat => {
                let results = messages.iter().filter(|message| message["role"] == "tool");
                results.map(|message| message["content"].as_str().expect("text").to_owned()).collect()
            }
            Api::Messages => {
                let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
                let results = blocks.filter(|block| block["type"] == "tool_result");
                results.map(|block| block["content"][0]["text"].as_str().expect("text").to_owned()).collect()
            }
        }
    }
}

/// A chunk of chat completions.
pub fn chunk(delta: &Value, finish: Value) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
}

/// An event of Messages.
pub fn event(name: &str, mut fields: Value) -> String {
    fields["type"] = name.into();
    format!("event: {name}\ndata: {fields}\n\n")
}
