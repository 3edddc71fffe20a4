//! Refuses requests that the real APIs would refuse: unknown fields, wrong order, orphans, empty text.

use std::collections::HashSet;

use serde_json::Value;

use super::wire::Api;

/// What is wrong with a request; empty where nothing is.
pub fn faults(api: Api, body: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    match api {
        Api::Chat => chat(body, &mut faults),
        Api::Responses => responses(body, &mut faults),
        Api::Messages => messages(body, &mut faults),
        Api::Google => google(body, &mut faults),
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
            "prompt_cache_key",
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
    only(
        body,
        "request",
        &["model", "messages", "stream", "max_tokens", "tools", "system", "thinking", "output_config"],
        faults,
    );
    thinking_fits(body, faults);
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

/// A budget leaves room for the answer, and thinking does not begin in the middle of calls.
fn thinking_fits(body: &Value, faults: &mut Vec<String>) {
    let thinking = &body["thinking"];
    if thinking.is_null() {
        return;
    }
    let budget = thinking["budget_tokens"].as_u64();
    if thinking["type"] == "enabled"
        && budget.is_none_or(|budget| budget < 1024 || Some(budget) >= body["max_tokens"].as_u64())
    {
        faults.push(format!("a thinking budget of {budget:?} beside max_tokens of {}", body["max_tokens"]));
    }
    let list = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let answers_calls = list.last().is_some_and(|last| last["content"][0]["type"] == "tool_result");
    let answer = list.iter().rfind(|message| message["role"] == "assistant");
    let first = answer.map(|answer| answer["content"][0]["type"].as_str().unwrap_or_default()).unwrap_or_default();
    if answers_calls && !first.ends_with("thinking") {
        faults.push(format!("thinking is on, and the calls being answered begin with `{first}`"));
    }
}

fn responses(body: &Value, faults: &mut Vec<String>) {
    let known = [
        "model",
        "input",
        "stream",
        "store",
        "include",
        "max_output_tokens",
        "reasoning",
        "instructions",
        "tools",
        "parallel_tool_calls",
        "prompt_cache_key",
    ];
    only(body, "request", &known, faults);
    if body["store"] != false {
        faults.push("nothing is to be kept at the provider".to_owned());
    }
    for tool in body["tools"].as_array().into_iter().flatten() {
        only(tool, "tools", &["type", "name", "description", "parameters", "strict"], faults);
    }
    let (mut open, mut seen): (Vec<String>, HashSet<String>) = Default::default();
    let items = body["input"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, item) in items.iter().enumerate() {
        let place = format!("input[{index}]");
        let kind = item["type"].as_str().unwrap_or_default();
        if matches!(kind, "message" | "reasoning") && !open.is_empty() {
            faults.push(format!("{place}: the calls {open:?} have no output before it"));
            open.clear();
        }
        match (kind, item["role"].as_str()) {
            ("message", Some("user")) => {
                only(item, &place, &["type", "role", "content"], faults);
                input_parts(&item["content"], &place, faults);
            }
            ("message", Some("assistant")) => {
                only(item, &place, &["type", "role", "content"], faults);
                text(&item["content"], &place, faults);
            }
            ("reasoning", None) => {
                only(item, &place, &["type", "id", "summary", "encrypted_content", "content"], faults);
                if !item["summary"].is_array() {
                    faults.push(format!("{place}: reasoning without a summary"));
                }
                if item.get("encrypted_content").is_none() && item.get("content").is_none() {
                    faults.push(format!("{place}: reasoning that the provider does not have"));
                }
                let next = items[index + 1..].iter().find(|item| item["type"] != "reasoning");
                if next.is_none_or(|next| next["type"] != "function_call" && next["role"] != "assistant") {
                    faults.push(format!("{place}: reasoning without an item behind it"));
                }
            }
            ("function_call", None) => {
                only(item, &place, &["type", "call_id", "name", "arguments"], faults);
                let id = id(&item["call_id"], &place, faults);
                if !seen.insert(id.clone()) {
                    faults.push(format!("{place}: the id {id} stands twice"));
                }
                open.push(id);
                let arguments = item["arguments"].as_str().unwrap_or_default();
                if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
                    faults.push(format!("{place}: arguments that are no object: {arguments}"));
                }
            }
            ("function_call_output", None) => {
                only(item, &place, &["type", "call_id", "output"], faults);
                match &item["output"] {
                    parts @ Value::Array(_) => input_parts(parts, &place, faults),
                    output => text(output, &place, faults),
                }
                let id = id(&item["call_id"], &place, faults);
                match open.iter().position(|known| *known == id) {
                    Some(at) => drop(open.remove(at)),
                    None => faults.push(format!("{place}: an output without a call: {id}")),
                }
            }
            (kind, role) => faults.push(format!("{place}: a `{kind}` of {role:?}")),
        }
    }
    if !open.is_empty() {
        faults.push(format!("the calls {open:?} have no output"));
    }
}

fn input_parts(parts: &Value, place: &str, faults: &mut Vec<String>) {
    let parts = parts.as_array().map(Vec::as_slice).unwrap_or_default();
    if parts.is_empty() {
        faults.push(format!("{place}: no content"));
    }
    for part in parts {
        match part["type"].as_str() {
            Some("input_text") => {
                only(part, place, &["type", "text"], faults);
                text(&part["text"], place, faults);
            }
            Some("input_image") => {
                only(part, place, &["type", "image_url", "detail"], faults);
                if !part["image_url"].as_str().is_some_and(|url| url.starts_with("data:image/")) {
                    faults.push(format!("{place}: an image that is none"));
                }
            }
            kind => faults.push(format!("{place}: a part {kind:?}")),
        }
    }
}

fn google(body: &Value, faults: &mut Vec<String>) {
    only(body, "request", &["systemInstruction", "tools", "generationConfig", "contents"], faults);
    only(&body["generationConfig"], "generationConfig", &["maxOutputTokens", "thinkingConfig"], faults);
    for tool in body["tools"][0]["functionDeclarations"].as_array().into_iter().flatten() {
        only(tool, "tools", &["name", "description", "parameters", "parametersJsonSchema"], faults);
    }
    let mut wanted: Vec<(Value, Value)> = Vec::new();
    for (index, content) in body["contents"].as_array().into_iter().flatten().enumerate() {
        let place = format!("contents[{index}]");
        only(content, &place, &["role", "parts"], faults);
        let role = content["role"].as_str().unwrap_or_default();
        if index == 0 && role != "user" {
            faults.push(format!("{place}: the first must be the user's"));
        }
        let parts = content["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
        if parts.is_empty() {
            faults.push(format!("{place}: no parts"));
        }
        let (mut called, mut answered) = (Vec::new(), Vec::new());
        for part in parts {
            only(
                part,
                &place,
                &["text", "thought", "thoughtSignature", "inlineData", "functionCall", "functionResponse"],
                faults,
            );
            let kinds = ["text", "inlineData", "functionCall", "functionResponse"];
            if kinds.iter().filter(|kind| part.get(**kind).is_some()).count() != 1 {
                faults.push(format!("{place}: a part of several kinds or none"));
            }
            if part.get("text").is_some() && part.get("thoughtSignature").is_none() {
                text(&part["text"], &place, faults);
            }
            if let Some(call) = part.get("functionCall") {
                only(call, &place, &["id", "name", "args"], faults);
                if role != "model" || !call["args"].is_object() {
                    faults.push(format!("{place}: a call of the {role}'s, or arguments that are no object"));
                }
                called.push((call["id"].clone(), call["name"].clone()));
            }
            if let Some(response) = part.get("functionResponse") {
                only(response, &place, &["id", "name", "response", "parts"], faults);
                if role != "user" || !response["response"].is_object() {
                    faults.push(format!("{place}: a response of the {role}'s, or one that is no object"));
                }
                answered.push((response["id"].clone(), response["name"].clone()));
            }
        }
        let left = std::mem::replace(&mut wanted, called);
        if left != answered {
            faults.push(format!("{place}: the calls {left:?} are answered by {answered:?}"));
        }
    }
    if !wanted.is_empty() {
        faults.push(format!("the calls {wanted:?} have no response"));
    }
}
