//! Makes any conversation whatsoever one that a protocol accepts.
//!
//! Total: orphaned calls get a result, results without a call are left out, what another model thought is
//! dropped, ids are made such that every protocol takes them and no two calls share one. The adapters then
//! only have to write down [`Turn`]s. Nothing is copied: turns borrow the messages.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use sha2::{Digest, Sha256};

use crate::home::hex;
use crate::message::{AssistantMessage, Block, Message, StopReason, ToolMessage, UserMessage};
use crate::model::Model;

/// A turn of the conversation, ready to be written down.
#[derive(Debug)]
pub enum Turn<'a> {
    /// Of the person's; it has content.
    User(&'a UserMessage, &'a Arc<Message>),
    /// Of the model's; it has something to say.
    Assistant(AssistantTurn<'a>),
    /// The results of the calls of the turn before, in the order of the calls; at least one.
    Results(Vec<ResultOf<'a>>),
}

/// An answer of a model's.
#[derive(Debug)]
pub struct AssistantTurn<'a> {
    /// The message.
    pub message: &'a AssistantMessage,
    /// It comes from the very model that is asked now: what only that model understands may go back.
    pub same_model: bool,
    /// The ids of its calls on the wire, in order; none where it was cut off and its calls are not sent.
    pub call_ids: Vec<Cow<'a, str>>,
    source: &'a Arc<Message>,
}

/// The result of one call.
#[derive(Debug)]
pub struct ResultOf<'a> {
    /// The call's id on the wire.
    pub id: Cow<'a, str>,
    /// The tool's name.
    pub name: &'a str,
    /// The result; `None`: there is none, because the call was interrupted.
    pub message: Option<&'a ToolMessage>,
    source: Option<&'a Arc<Message>>,
}

/// What the model is told of a call that has no result.
pub const INTERRUPTED: &str = "[interrupted: this call did not finish]";

/// What a result without any text says, since protocols refuse empty text.
pub const NO_OUTPUT: &str = "(no output)";

/// What stands in for images where the model takes none.
pub const IMAGE_OMITTED: &str = "(an image was here; this model takes no images)";

/// What stands before images that a protocol does not take in results, and that follow them.
pub const IMAGES_BEHIND: &str = "The images of the tool results above:";

/// A block that is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sent<'a> {
    /// Text, not blank.
    Text(&'a str),
    /// An image: type and base64.
    Image(&'a str, &'a str),
}

impl AssistantTurn<'_> {
    /// The blocks that go on the wire, with the wire ids of calls: no empty text, no thinking of another
    /// model, no calls of an answer that was cut off.
    pub fn blocks(&self) -> impl Iterator<Item = (&Block, Option<&str>)> {
        let mut ids = self.call_ids.iter();
        let cut_off = is_cut_off(self.message);
        self.message.content.iter().filter_map(move |block| match block {
            Block::Text { text } => (!text.trim().is_empty()).then_some((block, None)),
            Block::Thinking { .. } => (self.same_model && !cut_off).then_some((block, None)),
            Block::ToolCall(_) => ids.next().map(|id| (block, Some(id.as_ref()))),
            Block::Image { .. } | Block::Unknown => None,
        })
    }

    /// All text of it.
    pub fn text(&self) -> String {
        let texts = self.blocks().filter_map(|(block, _)| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl ResultOf<'_> {
    /// What is sent of the result: at least one block.
    pub fn content(&self, images: bool) -> Vec<Sent<'_>> {
        let Some(message) = self.message else { return vec![Sent::Text(INTERRUPTED)] };
        let sent = sent(&message.content, images);
        if sent.is_empty() { vec![Sent::Text(NO_OUTPUT)] } else { sent }
    }

    /// The text of the result, never empty.
    pub fn text(&self, images: bool) -> String {
        let content = self.content(images);
        let texts: Vec<_> =
            content.iter().filter_map(|s| if let Sent::Text(text) = s { Some(*text) } else { None }).collect();
        if texts.is_empty() { "(see the image)".to_owned() } else { texts.join("\n") }
    }

    /// Whether the call failed.
    pub fn is_error(&self) -> bool {
        self.message.is_none_or(|message| message.is_error)
    }
}

/// What is sent of a content: no blank text, images only where the model takes them, one notice for a run of
/// images that it does not take.
pub fn sent(content: &[Block], images: bool) -> Vec<Sent<'_>> {
    let mut out: Vec<Sent<'_>> = Vec::with_capacity(content.len());
    for block in content {
        match block {
            Block::Text { text } if !text.trim().is_empty() => out.push(Sent::Text(text)),
            Block::Image { mime_type, data } if images => out.push(Sent::Image(mime_type, data)),
            Block::Image { .. } if out.last() != Some(&Sent::Text(IMAGE_OMITTED)) => {
                out.push(Sent::Text(IMAGE_OMITTED))
            }
            _ => {}
        }
    }
    out
}

/// The turns of a conversation, as `model` may be sent them; of the first `forget_thinking` messages as if they were
/// another model's.
pub fn turns<'a>(messages: &'a [Arc<Message>], model: &Model, forget_thinking: usize) -> Vec<Turn<'a>> {
    let mut out = Vec::with_capacity(messages.len());
    let mut used: HashSet<Cow<'a, str>> = HashSet::new();
    let mut index = 0;
    while index < messages.len() {
        let source = &messages[index];
        index += 1;
        match source.as_ref() {
            Message::User(message) => {
                if has_content(&message.content) {
                    out.push(Turn::User(message, source));
                }
            }
            // A result that no call before it wanted.
            Message::Tool(_) => {}
            Message::Assistant(message) => {
                let same_model = is_of(message, model) && index > forget_thinking;
                let (turn, results, deferred) = assistant(messages, &mut index, message, source, same_model, &mut used);
                if turn.blocks().next().is_some() {
                    out.push(Turn::Assistant(turn));
                }
                if !results.is_empty() {
                    out.push(Turn::Results(results));
                }
                out.extend(deferred);
            }
        }
    }
    // Some protocols want the person to speak first; where the begin of a file was lost, nobody does.
    if let (Some(Turn::Assistant(_) | Turn::Results(_)), Message::User(message)) = (out.first(), LOST.as_ref()) {
        out.insert(0, Turn::User(message, &LOST));
    }
    out
}

/// What stands before an answer that nothing comes before.
static LOST: LazyLock<Arc<Message>> =
    LazyLock::new(|| Arc::new(Message::User(UserMessage::text("(what was said before this is lost)"))));

/// An answer, the results of its calls, and the person's messages that stand among these: those go after
/// them. `index` moves to the next answer.
fn assistant<'a>(
    messages: &'a [Arc<Message>],
    index: &mut usize,
    message: &'a AssistantMessage,
    source: &'a Arc<Message>,
    same_model: bool,
    used: &mut HashSet<Cow<'a, str>>,
) -> (AssistantTurn<'a>, Vec<ResultOf<'a>>, Vec<Turn<'a>>) {
    let (mut found, mut deferred) = (HashMap::new(), Vec::new());
    let sends_calls = !is_cut_off(message) && message.tool_calls().next().is_some();
    while sends_calls && *index < messages.len() {
        let next = &messages[*index];
        match next.as_ref() {
            Message::Assistant(_) => break,
            Message::Tool(result) => {
                found.entry(result.tool_call_id.as_str()).or_insert((result, next));
            }
            Message::User(user) if has_content(&user.content) => deferred.push(Turn::User(user, next)),
            Message::User(_) => {}
        }
        *index += 1;
    }
    let (mut call_ids, mut results) = (Vec::new(), Vec::new());
    for call in message.tool_calls().filter(|_| sends_calls) {
        let id = unique(wire_id(&call.id), used);
        let result = found.remove(call.id.as_str());
        let (message, source) = (result.map(|(message, _)| message), result.map(|(_, source)| source));
        results.push(ResultOf { id: id.clone(), name: &call.name, message, source });
        call_ids.push(id);
    }
    (AssistantTurn { message, same_model, call_ids, source }, results, deferred)
}

/// Whether an answer comes from that very model, so that what only it understands may go back.
pub fn is_of(message: &AssistantMessage, model: &Model) -> bool {
    message.provider == model.provider && message.model == model.id && message.api == model.api
}

/// An answer that was cut off: of it only the text is sent, since its calls were never run and its thinking
/// lacks the signature that a provider would want.
fn is_cut_off(message: &AssistantMessage) -> bool {
    matches!(message.stop_reason, StopReason::Error | StopReason::Aborted)
}

fn has_content(content: &[Block]) -> bool {
    content.iter().any(|block| match block {
        Block::Text { text } => !text.trim().is_empty(),
        Block::Image { .. } => true,
        _ => false,
    })
}

/// The longest id that every protocol takes.
const LONGEST_ID: usize = 64;

/// An id that every protocol takes: `[A-Za-z0-9_-]`, at most 64. What does not fit is made to, with a few
/// digits of its hash so that two ids stay two.
fn wire_id(id: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !id.is_empty() && id.len() <= LONGEST_ID && id.chars().all(fits) {
        return Cow::Borrowed(id);
    }
    let kept: String = id.chars().map(|c| if fits(c) { c } else { '_' }).take(40).collect();
    Cow::Owned(format!("{kept}_{}", &hex(&Sha256::digest(id.as_bytes()))[..12]))
}

fn unique<'a>(id: Cow<'a, str>, used: &mut HashSet<Cow<'a, str>>) -> Cow<'a, str> {
    let mut chosen = id.clone();
    let mut count = 1;
    while !used.insert(chosen.clone()) {
        count += 1;
        let room = LONGEST_ID - 8;
        chosen = Cow::Owned(format!("{}-{count}", crate::text::head(&id, room)));
    }
    chosen
}

/// What a turn was made of: two turns with equal keys are written down alike for one model.
#[derive(Debug, Clone)]
pub struct TurnKey {
    sources: Vec<Arc<Message>>,
    shape: u64,
}

impl PartialEq for TurnKey {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape
            && self.sources.len() == other.sources.len()
            && self.sources.iter().zip(&other.sources).all(|(one, two)| Arc::ptr_eq(one, two))
    }
}

impl Turn<'_> {
    /// The turn's key. It keeps the messages alive, so that an address is never mistaken for another's.
    pub fn key(&self) -> TurnKey {
        let mut hasher = DefaultHasher::new();
        let sources = match self {
            Turn::User(_, source) => vec![(*source).clone()],
            Turn::Assistant(turn) => {
                (1, turn.same_model, &turn.call_ids).hash(&mut hasher);
                vec![turn.source.clone()]
            }
            Turn::Results(results) => {
                2.hash(&mut hasher);
                for result in results {
                    (&result.id, result.source.is_some(), result.name).hash(&mut hasher);
                }
                results.iter().filter_map(|result| result.source.cloned()).collect()
            }
        };
        TurnKey { sources, shape: hasher.finish() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::message::ToolCall;
    use serde_json::Map;

    pub(crate) fn model() -> Model {
        Model {
            provider: "p".into(),
            id: "m".into(),
            name: "M".into(),
            api: "openai-completions".into(),
            base_url: "http://127.0.0.1:1/v1".into(),
            api_key: None,
            headers: Vec::new(),
            context_window: 1000,
            max_tokens: None,
            reasoning: true,
            images: true,
            cost: None,
            compat: Default::default(),
            thinking_levels: Default::default(),
            chain: Vec::new(),
        }
    }

    pub(crate) fn user(text: &str) -> Arc<Message> {
        Arc::new(Message::User(UserMessage::text(text)))
    }

    pub(crate) fn result(id: &str, text: &str) -> Arc<Message> {
        let content = vec![Block::Text { text: text.into() }];
        Arc::new(Message::Tool(ToolMessage {
            tool_call_id: id.into(),
            name: "read".into(),
            content,
            ..Default::default()
        }))
    }

    pub(crate) fn call(id: &str) -> Block {
        let (id, name) = (id.to_owned(), "read".to_owned());
        Block::ToolCall(ToolCall { id, name, arguments: Map::new(), invalid: None, signature: None })
    }

    pub(crate) fn answer(content: Vec<Block>, stop_reason: StopReason) -> Arc<Message> {
        Arc::new(Message::Assistant(AssistantMessage {
            content,
            provider: "p".into(),
            model: "m".into(),
            api: "openai-completions".into(),
            stop_reason,
            ..Default::default()
        }))
    }

    fn shape(messages: &[Arc<Message>]) -> Vec<String> {
        let describe = |turn: &Turn<'_>| match turn {
            Turn::User(message, _) => format!("user {}", crate::message::text_of(&message.content)),
            Turn::Assistant(turn) => format!("assistant {} {:?}", turn.text(), turn.call_ids),
            Turn::Results(results) => {
                let texts: Vec<_> = results.iter().map(|r| format!("{}={}", r.id, r.text(true))).collect();
                format!("results {}", texts.join(","))
            }
        };
        turns(messages, &model(), 0).iter().map(describe).collect()
    }

    /// traps.md B28 and B29.
    #[test]
    fn orphans_are_answered_and_strays_left_out() {
        let messages = [
            user("go"),
            result("stray", "x"),
            answer(vec![call("a"), call("b"), call("c")], StopReason::ToolUse),
            result("c", "three"),
            user("steer"),
            result("a", "one"),
            answer(vec![call("d")], StopReason::ToolUse),
        ];
        let expected = [
            "user go".to_owned(),
            "assistant  [\"a\", \"b\", \"c\"]".to_owned(),
            format!("results a=one,b={INTERRUPTED},c=three"),
            "user steer".to_owned(),
            "assistant  [\"d\"]".to_owned(),
            format!("results d={INTERRUPTED}"),
        ];
        assert_eq!(shape(&messages), expected);
    }

    /// traps.md B145.
    #[test]
    fn of_an_answer_that_was_cut_off_only_the_text_goes_back() {
        let half = vec![Block::Text { text: "half".into() }, call("a")];
        let messages =
            [user("go"), answer(half, StopReason::Aborted), answer(vec![call("b")], StopReason::Error), user("on")];
        assert_eq!(shape(&messages), ["user go", "assistant half []", "user on"]);
    }

    /// traps.md B33.
    #[test]
    fn ids_fit_every_protocol_and_stay_apart() {
        let long = "x".repeat(70);
        let messages = [
            user("go"),
            answer(vec![call("call_1|fc_2"), call(&long), call("")], StopReason::ToolUse),
            result("call_1|fc_2", "one"),
            answer(vec![call("call_0")], StopReason::ToolUse),
            answer(vec![call("call_0")], StopReason::ToolUse),
        ];
        let all = turns(&messages, &model(), 0);
        let mut seen = HashSet::new();
        for turn in &all {
            if let Turn::Results(results) = turn {
                for result in results {
                    assert!(result.id.len() <= 64 && seen.insert(result.id.to_string()), "{}", result.id);
                    assert!(result.id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')));
                }
            }
        }
        assert_eq!(seen.len(), 5);
        let Turn::Results(results) = &all[2] else { panic!("results follow") };
        assert_eq!(results[0].text(true), "one");
    }

    #[test]
    fn keys_tell_what_would_be_written_otherwise() {
        let (one, two) = (answer(vec![call("a")], StopReason::ToolUse), result("a", "x"));
        let whole = [user("go"), one.clone(), two];
        let cut = [user("go"), one];
        let (whole, cut) = (turns(&whole, &model(), 0), turns(&cut, &model(), 0));
        assert_eq!(whole[1].key(), cut[1].key());
        assert_ne!(whole[2].key(), cut[2].key());
    }

    #[test]
    fn somebody_speaks_before_the_model() {
        let messages = [result("a", "x"), answer(vec![call("a")], StopReason::ToolUse)];
        assert!(shape(&messages)[0].starts_with("user (what was said"), "{:?}", shape(&messages));
        assert!(shape(&messages[..1]).is_empty());
    }
}
