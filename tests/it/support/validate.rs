//! Refuses requests that the real APIs would refuse: unknown fields, wrong order, orphans, empty text.

use std::collections::HashSet;

use serde_json::Value;

use super::wire::Api;

/// What is wrong with a request; empty where nothing is.
pub fn faults(api: Api, body: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    match api {
        Api::Chat => chat(body, &mut faults),
        Api::Messages => messages(body, &mut faults),
    }
    faults
}

/// Fails the test where a request is not valid.
pub fn assert_valid(api: Api, body: &Value) {
    let faults = faults(api, body);
    assert!(faults.is_empty(), "{api:?} would refuse this: {faults:#?}\n{body:#}");
}

fn only(value: &Value, place: &str, known: &[&str], faults: &mut Vec<String>) {
    for key in value.as_object().into_iter().flat_map(|map| map.keys()) {
        if !known.contains(&key.as_str()) {
            faults.push(format!("{place}: unknown field `{key}`"));
        }
    }
}

fn text(value: &Value, place: &str, faults: &mut Vec<String>) {
    if value.as_str().is_none_or(|text| text.trim().is_empty()) {
        faults.push(format!("{place}: text that is missing or empty"));
    }
}

fn id(value: &Value, place: &str, faults: &mut Vec<String>) -> String {
    let id = value.as_str().unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if id.is_empty() || id.len() > 64 || !id.chars().all(fits) {
        faults.push(format!("{place}: the id {value} is not taken"));
    }
    id.to_owned()
}

fn chat(body: &Value, faults: &mut Vec<String>) {
    only(
        body,
        "request",
        &[
            "model",
            "messages",
            "stream",
            "stream_options",
            "max_tokens",
            "max_completion_tokens",
            "tools",
            "parallel_tool_calls",
            "store",
            "reasoning_effort",
        ],
        faults,
    );
    let mut open: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    for (index, message) in body["messages"].as_array().into_iter().flatten().enumerate() {
        let place = format!("messages[{index}]");
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" && !open.is_empty() {
            faults.push(format!("{place}: the calls {open:?} have no result before it"));
            open.clear();
        }
        match role {
            "system" | "developer" => {
                only(message, &place, &["role", "content"], faults);
                text(&message["content"], &place, faults);
                if index > 0 {
                    faults.push(format!("{place}: a system message that is not the first"));
                }
            }
            "user" => {
                only(message, &place, &["role", "content"], faults);
                match &message["content"] {
                    Value::Array(parts) if !parts.is_empty() => {
                        for part in parts {
                            match part["type"].as_str() {
                                Some("text") => text(&part["text"], &place, faults),
                                Some("image_url") => {
                                    let url = part["image_url"]["url"].as_str().unwrap_or_default();
                                    if !url.starts_with("data:image/") {
                                        faults.push(format!("{place}: an image that is none"));
                                    }
                                }
                                _ => faults.push(format!("{place}: an unknown part")),
                            }
                        }
                    }
                    content => text(content, &place, faults),
                }
            }
            "assistant" => {
                only(message, &place, &["role", "content", "tool_calls", "reasoning_content"], faults);
                let calls = message["tool_calls"].as_array();
                if calls.is_none() || !message["content"].is_null() {
                    text(&message["content"], &place, faults);
                }
                for call in calls.into_iter().flatten() {
                    only(call, &place, &["id", "type", "function"], faults);
                    let id = id(&call["id"], &place, faults);
                    if !seen.insert(id.clone()) {
                        faults.push(format!("{place}: the id {id} stands twice"));
                    }
                    open.push(id);
                    let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
                    if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
                        faults.push(format!("{place}: arguments that are no object: {arguments}"));
                    }
                }
            }
            "tool" => {
                only(message, &place, &["role", "tool_call_id", "content"], faults);
                text(&message["content"], &place, faults);
                let id = id(&message["tool_call_id"], &place, faults);
                match open.iter().position(|known| *known == id) {
                    Some(at) => drop(open.remove(at)),
                    None => faults.push(format!("{place}: a result without a call: {id}")),
                }
            }
            role => faults.push(format!("{place}: the role `{role}`")),
        }
    }
    if !open.is_empty() {
        faults.push(format!("the calls {open:?} have no result"));
    }
}

fn messages(body: &Value, faults: &mut Vec<String>) {
    only(body, "request", &["model", "messages", "stream", "max_tokens", "tools", "system", "thinking"], faults);
    if body["max_tokens"].as_u64().is_none_or(|max| max == 0) {
        faults.push("max_tokens is required".to_owned());
    }
    let mut wanted: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    let mut marks = usize::from(body["system"].to_string().contains("cache_control"));
    for (index, message) in body["messages"].as_array().into_iter().flatten().enumerate() {
        let place = format!("messages[{index}]");
        only(message, &place, &["role", "content"], faults);
        let role = message["role"].as_str().unwrap_or_default();
        if index == 0 && role != "user" {
            faults.push(format!("{place}: the first message must be the user's"));
        }
        let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        if blocks.is_empty() {
            faults.push(format!("{place}: no content"));
        }
        let mut answered = Vec::new();
        for block in blocks {
            marks += usize::from(block.get("cache_control").is_some());
            match (role, block["type"].as_str().unwrap_or_default()) {
                (_, "text") => text(&block["text"], &place, faults),
                ("user", "image") => {}
                ("user", "tool_result") => {
                    only(block, &place, &["type", "tool_use_id", "content", "is_error", "cache_control"], faults);
                    answered.push(id(&block["tool_use_id"], &place, faults));
                    for part in block["content"].as_array().into_iter().flatten() {
                        if part["type"] == "text" {
                            text(&part["text"], &place, faults);
                        } else if block["is_error"] == true {
                            faults.push(format!("{place}: an error result with something that is no text"));
                        }
                    }
                }
                ("assistant", "tool_use") => {
                    only(block, &place, &["type", "id", "name", "input"], faults);
                    if !block["input"].is_object() {
                        faults.push(format!("{place}: input that is no object"));
                    }
                }
                ("assistant", "thinking") => {
                    only(block, &place, &["type", "thinking", "signature"], faults);
                    text(&block["signature"], &place, faults);
                }
                ("assistant", "redacted_thinking") => text(&block["data"], &place, faults),
                (role, kind) => faults.push(format!("{place}: a `{kind}` of the {role}'s")),
            }
        }
        let mut left = std::mem::take(&mut wanted);
        for id in answered {
            match left.iter().position(|known| *known == id) {
                Some(at) => drop(left.remove(at)),
                None => faults.push(format!("{place}: a result without a call right before it: {id}")),
            }
        }
        if !left.is_empty() {
            faults.push(format!("{place}: the calls {left:?} have no result in it"));
        }
        for block in blocks.iter().filter(|block| role == "assistant" && block["type"] == "tool_use") {
            let id = id(&block["id"], &place, faults);
            if !seen.insert(id.clone()) {
                faults.push(format!("{place}: the id {id} stands twice"));
            }
            wanted.push(id);
        }
    }
    if !wanted.is_empty() {
        faults.push(format!("the calls {wanted:?} have no result"));
    }
    if marks > 4 {
        faults.push(format!("{marks} cache marks, and at most 4 are taken"));
    }
}
