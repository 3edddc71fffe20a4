//! What a model is: where it is asked, over which protocol, what it takes and what it costs. Plain data;
//! models.json is read into it by `config`, and the adapters in `provider` act on it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::choice::Thinking;
use crate::event::ModelLabel;

/// A model that can be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The provider's name in models.json.
    pub provider: String,
    /// The id that the provider knows it by.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// The wire protocol, such as `openai-completions`, or `fallback` or `demo`.
    pub api: String,
    /// Where it is asked, without a slash at the end; a path is always there.
    pub base_url: String,
    /// The key as the file gives it: `$NAME`, `!command` or the key itself. `None`: none is sent.
    pub api_key: Option<Secret>,
    /// Headers as the file gives them, unexpanded.
    pub headers: Vec<(String, Secret)>,
    /// Tokens that fit.
    pub context_window: u64,
    /// The most tokens that an answer may have; `None`: none is sent.
    pub max_tokens: Option<u64>,
    /// Whether it can think.
    pub reasoning: bool,
    /// Whether it takes images.
    pub images: bool,
    /// Its price; `None` where unknown.
    pub cost: Option<Cost>,
    /// What its server does otherwise than the protocol says.
    pub compat: Compat,
    /// What each thinking level is called on the wire; `None`: the level is not offered.
    pub thinking_levels: BTreeMap<Thinking, Option<String>>,
    /// Of a `fallback` model, the models to try in order, as `provider/id`.
    pub chain: Vec<String>,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// Input that no cache held.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input from the cache.
    #[serde(alias = "cacheRead")]
    pub cache_read: f64,
    /// Input written to the cache.
    #[serde(alias = "cacheWrite")]
    pub cache_write: f64,
}

macro_rules! compat {
    ($($(#[doc = $doc:literal])+ $(#[serde($alias:meta)])? $field:ident: $kind:ty,)+) => {
        /// What a server does otherwise than its protocol says (formats.md, models.json). `None` leaves it to the
        /// default of the host.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Compat {
            $($(#[doc = $doc])+ $(#[serde($alias)])? pub $field: Option<$kind>,)+
        }

        impl Compat {
            /// These quirks, with those of `base` where they say nothing.
            pub fn or(self, base: Compat) -> Compat {
                Compat { $($field: self.$field.or(base.$field),)+ }
            }
        }
    };
}

compat! {
    /// `max_tokens` or `max_completion_tokens`; `none` sends no limit at all.
    #[serde(alias = "maxTokensField")]
    max_tokens_field: String,
    /// The system prompt has the role `developer`.
    #[serde(alias = "developerRole")]
    developer_role: bool,
    /// `stream_options` with `include_usage` is sent.
    #[serde(alias = "streamOptions")]
    stream_options: bool,
    /// Tools are sent with `strict: false`, for servers that would otherwise be strict.
    #[serde(alias = "strictTools")]
    strict_tools: bool,
    /// `store: false` is sent.
    store: bool,
    /// `reasoning_effort` is sent.
    #[serde(alias = "reasoningEffort")]
    reasoning_effort: bool,
    /// How thinking is asked for.
    #[serde(alias = "thinkingFormat")]
    thinking_format: ThinkingFormat,
    /// The field in which thinking goes back to the same model, such as `reasoning_content`.
    #[serde(alias = "reasoningReplayField")]
    reasoning_replay_field: String,
    /// That field stands in every answer with calls, empty where there is no thinking.
    #[serde(alias = "reasoningReplayAlways")]
    reasoning_replay_always: bool,
    /// Thinking goes back to the same model as text within `<think>` marks.
    #[serde(alias = "thinkingAsText")]
    thinking_as_text: bool,
    /// Tool results carry the tool's name.
    #[serde(alias = "toolResultName")]
    tool_result_name: bool,
    /// Images may stand in tool results; otherwise they follow in a message of the user's.
    #[serde(alias = "toolResultImages")]
    tool_result_images: bool,
    /// Between a tool result and a message of the user's an answer must stand.
    #[serde(alias = "assistantAfterToolResult")]
    assistant_after_tool_result: bool,
    /// The content of an answer that is only tool calls.
    #[serde(alias = "assistantContent")]
    assistant_content: AssistantContent,
    /// `parallel_tool_calls` is sent with this value.
    #[serde(alias = "parallelToolCalls")]
    parallel_tool_calls: bool,
    /// Cache marks are sent.
    #[serde(alias = "cacheControl")]
    cache_control: bool,
    /// The session's id is sent as `prompt_cache_key`.
    #[serde(alias = "promptCacheKey")]
    prompt_cache_key: bool,
    /// Responses: encrypted reasoning is asked for.
    #[serde(alias = "encryptedReasoning")]
    encrypted_reasoning: bool,
    /// Anthropic: thinking without a signature goes back with an empty one.
    #[serde(alias = "emptySignature")]
    empty_signature: bool,
    /// Google: tools are described by `parametersJsonSchema`; otherwise by `parameters`, cleaned.
    #[serde(alias = "jsonSchemaParameters")]
    json_schema_parameters: bool,
    /// Google: calls and their results carry ids.
    #[serde(alias = "callIds")]
    call_ids: bool,
    /// Google: a call without a thought signature is refused, so that a stand-in is sent.
    #[serde(alias = "thoughtSignatures")]
    thought_signatures: bool,
}

/// How a server of chat completions is asked to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingFormat {
    /// `reasoning_effort`.
    Openai,
    /// `reasoning: {effort}`.
    Openrouter,
    /// `thinking: {type}`.
    Deepseek,
    /// `enable_thinking`.
    Qwen,
    /// `thinking: {type}` of Z.ai.
    Zai,
    /// `chat_template_kwargs: {enable_thinking}`.
    ChatTemplate,
    /// `reasoning: {enabled}`.
    Together,
    /// Not at all.
    None,
}

/// The content of an answer that is only tool calls, on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssistantContent {
    /// Left out where it is empty.
    String,
    /// `null`.
    Null,
    /// An empty string.
    Empty,
}

impl Model {
    /// `provider/id`.
    pub fn reference(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }

    /// A thinking level as this model offers it: one that it lacks becomes the next higher one that it has, else the
    /// next lower. `None`: nothing is said of thinking.
    pub fn effort(&self, wanted: Thinking) -> Option<Effort<'_>> {
        let offered = |level: Thinking| match self.thinking_levels.get(&level) {
            Some(named) => named.is_some(),
            // Few models have it, so that it must be named.
            None => level != Thinking::Xhigh,
        };
        let level = if offered(wanted) {
            wanted
        } else if wanted == Thinking::Off {
            return None;
        } else {
            let levels = || Thinking::ALL.iter().copied().filter(|level| *level != Thinking::Off && offered(*level));
            levels().find(|level| *level > wanted).or_else(|| levels().rfind(|level| *level < wanted))?
        };
        let name = self.thinking_levels.get(&level).and_then(Option::as_deref);
        Some(Effort { level, name })
    }

    /// For events.
    pub fn label(&self) -> ModelLabel {
        ModelLabel { id: self.id.clone(), provider: self.provider.clone(), label: self.name.clone() }
    }
}

/// How much a model is asked to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort<'a> {
    /// The level.
    pub level: Thinking,
    /// What models.json calls it on the wire: a word, or a number of tokens.
    pub name: Option<&'a str>,
}

impl<'a> Effort<'a> {
    /// Whether the model thinks at all.
    pub fn on(&self) -> bool {
        self.level != Thinking::Off
    }

    /// The name on the wire: the model's own, else the level's.
    pub fn named(&self) -> &'a str {
        self.name.unwrap_or_else(|| self.level.name())
    }

    /// Tokens to think with.
    ///
    /// # Errors
    /// The word, where one is named in place of a number.
    pub fn budget(&self) -> Result<u64, &'a str> {
        match self.name {
            Some(name) => name.parse().map_err(|_| name),
            None => Ok(match self.level {
                Thinking::Off => 0,
                Thinking::Minimal => 1024,
                Thinking::Low => 2048,
                Thinking::Medium => 8192,
                Thinking::High | Thinking::Xhigh => 16384,
            }),
        }
    }
}

/// A text that must not be seen: it shows as `***` wherever it is printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps it.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_not_offered_becomes_the_next_one_up_else_down() {
        let base = crate::provider::demo::model();
        let with = |levels: &[(Thinking, Option<&str>)]| {
            let thinking_levels = levels.iter().map(|(level, name)| (*level, name.map(str::to_owned))).collect();
            Model { thinking_levels, ..base.clone() }
        };
        let plain = with(&[]);
        assert_eq!(plain.effort(Thinking::Xhigh).map(|effort| effort.level), Some(Thinking::High));
        assert_eq!(plain.effort(Thinking::Low).map(|effort| effort.budget()), Some(Ok(2048)));
        let named = with(&[(Thinking::Off, None), (Thinking::Low, None), (Thinking::Xhigh, Some("max"))]);
        assert_eq!(named.effort(Thinking::Off), None);
        assert_eq!(named.effort(Thinking::Low).map(|effort| effort.level), Some(Thinking::Medium));
        assert_eq!(named.effort(Thinking::Xhigh).map(|effort| effort.budget()), Some(Err("max")));
        let number = with(&[(Thinking::High, Some("30000"))]);
        assert_eq!(number.effort(Thinking::High).map(|effort| effort.budget()), Some(Ok(30_000)));
    }
}
