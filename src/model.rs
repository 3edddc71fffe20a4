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

/// What a server does otherwise than its protocol says (formats.md, models.json). `None` leaves it to the
/// default of the host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Compat {
    /// `max_tokens` or `max_completion_tokens`.
    #[serde(alias = "maxTokensField")]
    pub max_tokens_field: Option<String>,
    /// The system prompt has the role `developer`.
    #[serde(alias = "developerRole")]
    pub developer_role: Option<bool>,
    /// `stream_options` with `include_usage` is sent.
    #[serde(alias = "streamOptions")]
    pub stream_options: Option<bool>,
    /// Tools are sent with `strict`.
    #[serde(alias = "strictTools")]
    pub strict_tools: Option<bool>,
    /// `store: false` is sent.
    pub store: Option<bool>,
    /// `reasoning_effort` is sent.
    #[serde(alias = "reasoningEffort")]
    pub reasoning_effort: Option<bool>,
    /// How thinking is asked for.
    #[serde(alias = "thinkingFormat")]
    pub thinking_format: Option<ThinkingFormat>,
    /// The field in which thinking goes back to the same model, such as `reasoning_content`.
    #[serde(alias = "reasoningReplayField")]
    pub reasoning_replay_field: Option<String>,
    /// Tool results carry the tool's name.
    #[serde(alias = "toolResultName")]
    pub tool_result_name: Option<bool>,
    /// The content of an answer that is only tool calls.
    #[serde(alias = "assistantContent")]
    pub assistant_content: Option<AssistantContent>,
    /// `parallel_tool_calls` is sent.
    #[serde(alias = "parallelToolCalls")]
    pub parallel_tool_calls: Option<bool>,
    /// Cache marks are sent.
    #[serde(alias = "cacheControl")]
    pub cache_control: Option<bool>,
}

impl Compat {
    /// These quirks, with those of `base` where they say nothing.
    pub fn or(self, base: Compat) -> Compat {
        Compat {
            max_tokens_field: self.max_tokens_field.or(base.max_tokens_field),
            developer_role: self.developer_role.or(base.developer_role),
            stream_options: self.stream_options.or(base.stream_options),
            strict_tools: self.strict_tools.or(base.strict_tools),
            store: self.store.or(base.store),
            reasoning_effort: self.reasoning_effort.or(base.reasoning_effort),
            thinking_format: self.thinking_format.or(base.thinking_format),
            reasoning_replay_field: self.reasoning_replay_field.or(base.reasoning_replay_field),
            tool_result_name: self.tool_result_name.or(base.tool_result_name),
            assistant_content: self.assistant_content.or(base.assistant_content),
            parallel_tool_calls: self.parallel_tool_calls.or(base.parallel_tool_calls),
            cache_control: self.cache_control.or(base.cache_control),
        }
    }
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

    /// For events.
    pub fn label(&self) -> ModelLabel {
        ModelLabel { id: self.id.clone(), provider: self.provider.clone(), label: self.name.clone() }
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
