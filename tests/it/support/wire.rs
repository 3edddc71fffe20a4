//! Answers as the protocols write them.

use serde_json::{Value, json};

/// A tool call: its id, the tool, the arguments.
pub type Call<'a> = (&'a str, &'a str, Value);

/// A protocol that tests speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    Chat,
    Responses,
    Messages,
    Google,
}

/// All of them.
pub const APIS: &[Api] = &[Api::Chat, Api::Responses, Api::Messages, Api::Google];

impl Api {
    /// The name in models.json.
    pub fn name(self) -> &'static str {
        match self {
            Api::Chat => "openai-completions",
            Api::Responses => "openai-responses",
            Api::Messages => "anthropic-messages",
            Api::Google => "google-generative-ai",
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
            Api::Responses => {
                let mut out = event("response.created", json!({"response": {"id": "resp_1", "status": "in_progress"}}));
                if !text.is_empty() {
                    let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []});
                    out += &event("response.output_item.added", json!({"output_index": 0, "item": item}));
                    out += &event(
                        "response.output_text.delta",
                        json!({"output_index": 0, "item_id": "msg_1", "content_index": 0, "delta": text}),
                    );
                }
                out
            }
            Api::Google => match text {
                "" => String::new(),
                text => parts(&json!([{"text": text}]), Value::Null),
            },
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
            Api::Responses => {
                let mut out = String::new();
                if !text.is_empty() {
                    let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
                    let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": content});
                    out += &event("response.output_item.done", json!({"output_index": 0, "item": item}));
                }
                for (index, (id, name, arguments)) in calls.iter().enumerate() {
                    let index = index + usize::from(!text.is_empty());
                    let item_id = format!("fc_{id}");
                    let mut item =
                        json!({"type": "function_call", "id": item_id, "call_id": id, "name": name, "arguments": ""});
                    out += &event("response.output_item.added", json!({"output_index": index, "item": item}));
                    let arguments = arguments.to_string();
                    let place = json!({"output_index": index, "item_id": item_id, "delta": arguments});
                    out += &event("response.function_call_arguments.delta", place);
                    item["arguments"] = arguments.into();
                    out += &event("response.output_item.done", json!({"output_index": index, "item": item}));
                }
                let usage = json!({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 10}, "output_tokens": 5, "total_tokens": 105});
                out + &event("response.completed", json!({"response": {"status": "completed", "usage": usage}}))
            }
            Api::Google => {
                let call = |(id, name, arguments): &Call<'_>| json!({"functionCall": {"id": id, "name": name, "args": arguments}});
                let calls: Vec<Value> = calls.iter().map(call).collect();
                parts(&calls.into(), json!("STOP"))
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
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let texts: Vec<Value> = match self {
            Api::Chat => {
                let results = list(&body["messages"]).into_iter().filter(|message| message["role"] == "tool");
                results.map(|message| message["content"].clone()).collect()
            }
            Api::Responses => {
                let results = list(&body["input"]).into_iter().filter(|item| item["type"] == "function_call_output");
                let text = |item: Value| match &item["output"] {
                    Value::Array(parts) => parts[0]["text"].clone(),
                    text => text.clone(),
                };
                results.map(text).collect()
            }
            Api::Messages => {
                let blocks = list(&body["messages"]).into_iter().flat_map(|message| list(&message["content"]));
                let results = blocks.filter(|block| block["type"] == "tool_result");
                results.map(|block| block["content"][0]["text"].clone()).collect()
            }
            Api::Google => {
                let parts = list(&body["contents"]).into_iter().flat_map(|content| list(&content["parts"]));
                let responses = parts.filter_map(|part| part.get("functionResponse").cloned());
                let text = |found: Value| {
                    let response = &found["response"];
                    response.get("output").or_else(|| response.get("error")).cloned().unwrap_or_default()
                };
                responses.map(text).collect()
            }
        };
        texts.iter().map(|text| text.as_str().expect("text").to_owned()).collect()
    }

    /// The images that a request carries, as base64, in order.
    pub fn images(self, body: &Value) -> Vec<String> {
        fn walk(value: &Value, out: &mut Vec<String>) {
            match value {
                Value::Array(list) => list.iter().for_each(|value| walk(value, out)),
                Value::Object(map) => {
                    for (key, value) in map {
                        match (key.as_str(), value) {
                            ("url" | "image_url", Value::String(url)) => {
                                out.extend(url.split_once(";base64,").map(|(_, data)| data.to_owned()));
                            }
                            ("source" | "inlineData", source) => {
                                out.extend(source["data"].as_str().map(str::to_owned));
                            }
                            (_, value) => walk(value, out),
                        }
                    }
                }
                _ => {}
            }
        }
        let mut out = Vec::new();
        walk(body, &mut out);
        out
    }

    /// An answer that thinks, says something and calls.
    pub fn thinking_answer(self, thinking: &str, text: &str, calls: &[Call<'_>]) -> String {
        match self {
            Api::Chat => chunk(&json!({"reasoning_content": thinking}), Value::Null) + &self.answer(text, calls),
            Api::Responses => {
                let item = json!({"type": "reasoning", "id": "rs_1", "summary": []});
                let mut out = event("response.output_item.added", json!({"output_index": 90, "item": item}));
                let delta = json!({"output_index": 90, "item_id": "rs_1", "summary_index": 0, "delta": thinking});
                out += &event("response.reasoning_summary_text.delta", delta);
                let summary = json!([{"type": "summary_text", "text": thinking}]);
                let item =
                    json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "c2VjcmV0"});
                out += &event("response.output_item.done", json!({"output_index": 90, "item": item}));
                out + &self.answer(text, calls)
            }
            Api::Messages => {
                let mut out = self.begun("");
                let begins = json!({"index": 90, "content_block": {"type": "thinking", "thinking": ""}});
                out += &event("content_block_start", begins);
                for delta in [
                    json!({"type": "thinking_delta", "thinking": thinking}),
                    json!({"type": "signature_delta", "signature": "c2lnbmVk"}),
                ] {
                    out += &event("content_block_delta", json!({"index": 90, "delta": delta}));
                }
                let begins = json!({"index": 91, "content_block": {"type": "redacted_thinking", "data": "aGlkZGVu"}});
                out += &event("content_block_start", begins);
                out + &self.answer(text, calls)
            }
            Api::Google => {
                let mut out = parts(&json!([{"text": thinking, "thought": true}]), Value::Null) + &self.begun(text);
                for (at, (id, name, arguments)) in calls.iter().enumerate() {
                    let mut call = json!({"functionCall": {"id": id, "name": name, "args": arguments}});
                    if at == 0 {
                        call["thoughtSignature"] = "Z2VtaW5p".into();
                    }
                    out += &parts(&json!([call]), Value::Null);
                }
                out + &self.rest(text, &[])
            }
        }
    }
}

/// A chunk of Gemini.
pub fn parts(parts: &Value, finish: Value) -> String {
    let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
    if !finish.is_null() {
        candidate["finishReason"] = finish;
    }
    let usage = json!({"promptTokenCount": 100, "cachedContentTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 105});
    format!("data: {}\n\n", json!({"candidates": [candidate], "usageMetadata": usage}))
}

/// A chunk of chat completions.
pub fn chunk(delta: &Value, finish: Value) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
}

/// An event of Messages or Responses.
pub fn event(name: &str, mut fields: Value) -> String {
    fields["type"] = name.into();
    format!("event: {name}\ndata: {fields}\n\n")
}
