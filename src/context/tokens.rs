//! How much of the window things take, by our own estimate: a quarter of their bytes, which is near for code and
//! English, and on the safe side for scripts of three bytes a character.

use crate::message::{Block, Message};

/// What an image takes.
const IMAGE: u64 = 1_200;

/// What a message takes beside its content.
const OVERHEAD: u64 = 6;

/// Of a text.
pub fn of_text(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}

/// Of a message.
pub fn of_message(message: &Message) -> u64 {
    OVERHEAD + message.content().iter().map(of_block).sum::<u64>()
}

fn of_block(block: &Block) -> u64 {
    match block {
        Block::Text { text } => of_text(text),
        Block::Image { .. } => IMAGE,
        Block::Thinking { thinking, signature, .. } => of_text(thinking) + signature.as_deref().map_or(0, of_text),
        Block::ToolCall(call) => {
            let arguments: u64 = call.arguments.iter().map(|(key, value)| of_text(key) + of_value(value)).sum();
            of_text(&call.name) + arguments + OVERHEAD
        }
        Block::Unknown => 0,
    }
}

fn of_value(value: &serde_json::Value) -> u64 {
    match value {
        serde_json::Value::String(text) => of_text(text),
        serde_json::Value::Array(list) => list.iter().map(of_value).sum(),
        serde_json::Value::Object(map) => map.iter().map(|(key, value)| of_text(key) + of_value(value)).sum(),
        _ => 1,
    }
}
