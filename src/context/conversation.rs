//! The conversation that a model is sent: the path from the root to the leaf of a session's tree, with what a
//! compaction summarised left out.
//!
//! Total: any tree whatsoever gives a list of messages. What a protocol needs beyond that, such as a result for
//! each call, is seen to where the request is written (`provider::history`).

use std::collections::HashMap;
use std::sync::Arc;

use crate::event::ChangeReason;
use crate::message::{Block, Message, ToolMessage, UserMessage};
use crate::session::{Body, Entry, EntryId, Record, Tree};
use crate::text;

/// Under this name a session keeps that older tool results are sent shortened (product.md, "Context": the first layer of
/// compaction). Its data names the first entry, `before`, that is still sent whole.
pub const SHORTENED: &str = "violin.shortened";

/// A tool result of at most so many bytes is never shortened.
const SHORT: usize = 2_000;

/// So much of its begin, and of its end, is kept.
const KEPT: usize = 600;

/// What stands before a summary, for the model.
const SUMMARY_HEAD: &str = "The conversation so far was summarised to save room. This is history, not a request:";

/// Builds conversations. What it makes of records that are no messages is kept, so that an unchanged conversation
/// is made of the very same messages each time, and need not be written down anew.
#[derive(Debug, Default)]
pub struct Conversation {
    made: HashMap<EntryId, Arc<Message>>,
    shortened: HashMap<EntryId, Arc<Message>>,
}

impl Conversation {
    /// The messages from the root to the leaf.
    pub fn messages(&mut self, tree: &Tree) -> Vec<Arc<Message>> {
        let path = tree.path(tree.leaf());
        let entries: Vec<&Arc<Entry>> = path.iter().map(|index| &tree.nodes()[*index].entry).collect();
        let compaction = entries.iter().rposition(|entry| matches!(entry.record(), Some(Record::Compaction { .. })));
        let whole_from = whole_from(&entries);
        let mut out = Vec::with_capacity(entries.len());
        let rest =
            match compaction {
                None => &entries[..],
                Some(at) => {
                    let compacted = entries[at];
                    if let Some(Record::Compaction { summary, first_kept_id, .. }) = compacted.record() {
                        out.push(self.user(compacted.id, || {
                            format!("{SUMMARY_HEAD}\n\n<summary>\n{}\n</summary>", summary.trim())
                        }));
                        let kept = first_kept_id.and_then(|id| entries[..at].iter().position(|entry| entry.id == id));
                        for (index, entry) in entries.iter().enumerate().take(at).skip(kept.unwrap_or(at)) {
                            out.extend(self.message(entry, index >= whole_from));
                        }
                    }
                    &entries[at + 1..]
                }
            };
        let skipped = entries.len() - rest.len();
        for (index, entry) in rest.iter().enumerate() {
            out.extend(self.message(entry, index + skipped >= whole_from));
        }
        out
    }

    fn message(&mut self, entry: &Entry, whole: bool) -> Option<Arc<Message>> {
        match &entry.body {
            Body::Message(message) if !whole && is_long(message) => {
                Some(self.shortened.entry(entry.id).or_insert_with(|| shortened(message, entry.id)).clone())
            }
            Body::Message(message) => Some(message.clone()),
            Body::Record(Record::BranchSummary { summary, .. }) => {
                let text = || {
                    format!(
                        "Another branch of this conversation was left. What happened there:\n\n<summary>\n{}\n</summary>",
                        summary.trim()
                    )
                };
                Some(self.user(entry.id, text))
            }
            Body::Record(Record::Shell { command, output, exit_code, in_context: true }) => {
                Some(self.user(entry.id, || {
                    let code = match exit_code {
                        Some(0) => String::new(),
                        Some(code) => format!("\n[exit code {code}]"),
                        None => "\n[killed]".to_owned(),
                    };
                    format!("I ran `{command}`:\n\n```\n{}{code}\n```", output.trim_end())
                }))
            }
            Body::Record(_) => None,
        }
    }

    fn user(&mut self, id: EntryId, text: impl FnOnce() -> String) -> Arc<Message> {
        self.made.entry(id).or_insert_with(|| Arc::new(Message::User(UserMessage::text(text())))).clone()
    }
}

/// The index of the first entry on a path whose tool result is sent whole.
fn whole_from(entries: &[&Arc<Entry>]) -> usize {
    let before = entries.iter().rev().find_map(|entry| match entry.record() {
        Some(Record::Custom { plugin, data }) if plugin == SHORTENED => data["before"].as_u64().map(EntryId),
        _ => None,
    });
    before.and_then(|id| entries.iter().position(|entry| entry.id == id)).unwrap_or(0)
}

/// Whether a message is a tool result that is worth being shortened.
pub fn is_long(message: &Message) -> bool {
    let long = |block: &Block| match block {
        Block::Text { text } => text.len() > SHORT,
        Block::Image { .. } => true,
        _ => false,
    };
    matches!(message, Message::Tool(result) if result.content.iter().any(long))
}

/// A tool result with the middle of its long texts cut out, and a pointer to where all of it is.
pub fn shortened(message: &Message, id: EntryId) -> Arc<Message> {
    let Message::Tool(result) = message else { return Arc::new(message.clone()) };
    let shorten = |block: &Block| match block {
        Block::Text { text } if text.len() > SHORT => {
            let (head, tail) = (text::head(text, KEPT), text::tail(text, KEPT));
            let cut = text.len() - head.len() - tail.len();
            Block::Text {
                text: format!(
                    "{head}\n[… {cut} bytes cut to save room; do it again to see them (entry {}) …]\n{tail}",
                    id.0
                ),
            }
        }
        Block::Image { mime_type, .. } => {
            Block::Text { text: format!("[an image ({mime_type}) was here; read it again to see it]") }
        }
        block => block.clone(),
    };
    let content = result.content.iter().map(shorten).collect();
    Arc::new(Message::Tool(ToolMessage { content, view: None, effects: Vec::new(), ..result.clone() }))
}

/// The model and the thinking level in force at the leaf, as its path tells: the last change, or the last answer.
pub fn in_force(tree: &Tree) -> (Option<String>, Option<String>) {
    let (mut model, mut thinking) = (None, None);
    for index in tree.path(tree.leaf()) {
        match &tree.nodes()[index].entry.body {
            // Who answers for a chain is no choice of the person's.
            Body::Record(Record::ModelChange { reason: ChangeReason::Fallback, .. }) => {}
            Body::Record(Record::ModelChange { model: changed, .. }) => model = Some(changed.clone()),
            Body::Record(Record::ThinkingChange { level }) => thinking = Some(level.clone()),
            Body::Message(message) => {
                if let Message::Assistant(answer) = message.as_ref() {
                    if let Some(chain) = &answer.via {
                        model = Some(chain.clone());
                    } else if !answer.provider.is_empty() && !answer.model.is_empty() {
                        model = Some(format!("{}/{}", answer.provider, answer.model));
                    }
                }
            }
            Body::Record(_) => {}
        }
    }
    (model, thinking)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::text_of;

    fn tree(lines: &[&str]) -> Tree {
        let mut tree = Tree::default();
        for line in lines {
            tree.push(Arc::new(Entry::parse(line.as_bytes(), 0).expect("reads")));
        }
        tree
    }

    const LINES: &[&str] = &[
        r#"{"id":1,"parent_id":null,"role":"user","content":"one"}"#,
        r#"{"id":2,"parent_id":1,"role":"assistant","content":"two","provider":"p","model":"a/b"}"#,
        r#"{"id":3,"parent_id":2,"type":"shell","command":"ls","output":"x\n","exit_code":2,"in_context":true}"#,
        r#"{"id":4,"parent_id":3,"type":"shell","command":"pwd","output":"y","exit_code":0,"in_context":false}"#,
        r#"{"id":5,"parent_id":4,"role":"user","content":"three"}"#,
        r#"{"id":6,"parent_id":5,"type":"thinking_change","level":"high"}"#,
        r#"{"id":7,"parent_id":6,"type":"compaction","summary":"S","first_kept_id":3}"#,
        r#"{"id":8,"parent_id":7,"role":"user","content":"four"}"#,
    ];

    #[test]
    fn a_compaction_takes_the_place_of_what_it_summarised() {
        let tree = tree(LINES);
        let mut conversation = Conversation::default();
        let messages = conversation.messages(&tree);
        let texts: Vec<_> = messages.iter().map(|message| text_of(message.content())).collect();
        assert!(texts[0].contains("<summary>\nS\n</summary>"));
        assert_eq!(texts[1], "I ran `ls`:\n\n```\nx\n[exit code 2]\n```");
        assert_eq!(texts[2..], ["three", "four"]);
        let again = conversation.messages(&tree);
        assert!(messages.iter().zip(&again).all(|(one, two)| Arc::ptr_eq(one, two)));
    }

    #[test]
    fn older_results_are_shortened_and_newer_ones_whole() {
        let result = |id: u64, parent: u64| {
            format!(
                r#"{{"id":{id},"parent_id":{parent},"role":"tool","tool_call_id":"c","content":"{}"}}"#,
                "日".repeat(2_000)
            )
        };
        let user = r#"{"id":1,"parent_id":null,"role":"user","content":"one"}"#;
        let record = r#"{"id":4,"parent_id":3,"type":"custom","plugin":"violin.shortened","data":{"before":3}}"#;
        let tree = tree(&[user, &result(2, 1), &result(3, 2), record]);
        let mut conversation = Conversation::default();
        let messages = conversation.messages(&tree);
        let lengths: Vec<_> = messages.iter().map(|message| text_of(message.content()).len()).collect();
        assert!(lengths[1] < 1_400 && lengths[2] == 6_000, "{lengths:?}");
        let again = conversation.messages(&tree);
        assert!(messages.iter().zip(&again).all(|(one, two)| Arc::ptr_eq(one, two)));
    }

    #[test]
    fn what_is_in_force_comes_from_the_path() {
        assert_eq!(in_force(&tree(LINES)), (Some("p/a/b".into()), Some("high".into())));
        let back = [LINES, &[r#"{"id":9,"type":"leaf","target_id":1}"#]].concat();
        assert_eq!(in_force(&tree(&back)), (None, None));
    }
}
