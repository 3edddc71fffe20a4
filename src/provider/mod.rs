//! Providers: whoever answers. The wire protocol is code, one file each; the vendor that speaks it is data
//! ([`Model`]).
//!
//! A protocol ([`Protocol`]) only translates: a request into JSON, a stream of server-sent events into
//! [`StreamEvent`]s. [`link`] carries both over HTTP, [`history`] makes any conversation whatsoever one that a
//! protocol accepts, [`error`] classes what goes wrong and [`retry`] says when to try again. A new protocol is
//! one file and one line in [`PROVIDERS`].

pub mod anthropic;
pub mod completions;
pub mod demo;
pub mod error;
pub mod google;
pub mod history;
mod link;
pub mod listing;
mod prefix;
pub mod quirks;
pub mod responses;
pub mod retry;
pub mod sse;

use std::sync::Arc;

use futures::stream::BoxStream;
use serde_json::{Map, Value};

use crate::choice::Thinking;
use crate::message::stream::StreamEvent;
use crate::message::{Message, Usage};
use crate::model::{Model, Secret};

pub use error::ProviderError;
pub use link::{Link, Timeouts};
pub use prefix::Prefix;

use history::Turn;
use listing::Listing;

/// Everything that can answer, by the `api` of a model.
pub static PROVIDERS: &[&dyn Provider] =
    &[&completions::Completions, &responses::Responses, &anthropic::Messages, &google::Google, &demo::Demo];

/// Who speaks this `api`.
pub fn find(api: &str) -> Option<&'static dyn Provider> {
    PROVIDERS.iter().copied().find(|provider| provider.api() == api)
}

/// A stream of an answer. Dropping it ends the request.
pub type AnswerStream = BoxStream<'static, Result<StreamEvent, ProviderError>>;

/// Someone who answers.
pub trait Provider: Send + Sync {
    /// The `api` of the models that it answers for.
    fn api(&self) -> &'static str;

    /// Asks. Failures come as the stream's item; after one, and after [`StreamEvent::End`], it is over.
    fn stream(&self, link: &Link, request: Request) -> AnswerStream;

    /// Where it is asked which models it offers; `None`: nowhere.
    fn listing(&self, _model: &Model, _credentials: &Credentials) -> Option<Listing> {
        None
    }
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Request {
    /// Who is asked.
    pub model: Arc<Model>,
    /// The key and the headers, expanded.
    pub credentials: Credentials,
    /// The system prompt.
    pub system: Arc<str>,
    /// The tools on offer.
    pub tools: Arc<[ToolDefinition]>,
    /// The conversation; any sequence whatsoever.
    pub messages: Vec<Arc<Message>>,
    /// How much to think.
    pub thinking: Thinking,
    /// Of so many messages, from the first on, the thinking does not go back: the provider refused it.
    pub forget_thinking: usize,
    /// The most tokens that the answer may have, clamped to what is left of the window.
    pub max_tokens: Option<u64>,
    /// Tokens that are left of the window for the answer.
    pub room: u64,
    /// The session's id, for providers that keep their cache by it.
    pub session_id: Arc<str>,
}

/// A tool as a model is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

/// A key and headers, expanded and ready to be sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Credentials {
    /// The key; `None`: none is sent.
    pub api_key: Option<Secret>,
    /// Further headers.
    pub headers: Vec<(String, Secret)>,
}

impl Credentials {
    /// A text without the key and the headers' values in it.
    pub fn redact(&self, text: &str) -> String {
        let secrets = self.api_key.iter().chain(self.headers.iter().map(|(_, value)| value));
        // Short values, such as a version in a header, are no secrets and would take words out of the text.
        let secrets = secrets.map(Secret::reveal).filter(|secret| secret.len() >= 8);
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
    }
}

/// A wire protocol over HTTP and server-sent events. It is pure: no network, no clock.
pub trait Protocol: Send + Sync + 'static {
    /// The `api` of its models.
    const API: &'static str;

    /// The field of the request's body that holds the conversation. It stands last, so that a request begins
    /// with the bytes of the one before.
    const CONVERSATION: &'static str;

    /// What is appended to a `base_url` for the list of its models.
    const LIST: &'static str = "/models";

    /// What is appended to the model's `base_url`.
    fn path(&self, model: &Model) -> String;

    /// Headers, the key's among them.
    fn headers(&self, credentials: &Credentials) -> Vec<(&'static str, Secret)>;

    /// The body without the conversation.
    fn head(&self, request: &Request) -> Map<String, Value>;

    /// What stands in the conversation before its first turn.
    fn opening(&self, _request: &Request) -> Vec<Value> {
        Vec::new()
    }

    /// A turn of the conversation in the protocol's form; empty leaves it out. `place` tells the last one,
    /// where caches are marked.
    fn encode(&self, turn: &Turn<'_>, request: &Request, place: Place) -> Vec<Value>;

    /// A decoder for one answer.
    fn decoder(&self, request: &Request) -> Box<dyn Decoder>;
}

/// Where a turn stands in the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Others follow.
    Within,
    /// A turn of the person's follows.
    BeforeUser,
    /// It is the last one.
    Last,
}

/// Turns the events of one streamed answer into [`StreamEvent`]s.
pub trait Decoder: Send {
    /// Takes one server-sent event: its `event` field, empty where there is none, and its data.
    ///
    /// # Errors
    /// What the provider reports in the stream. Data that is no JSON is reported too.
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError>;

    /// Whether the answer is complete, so that the end of the stream need not be waited for long.
    fn complete(&self) -> bool;

    /// The stream is over; the last events, [`StreamEvent::End`] among them.
    ///
    /// # Errors
    /// Where the answer was cut off.
    fn finish(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError>;
}

impl<P: Protocol> Provider for P {
    fn api(&self) -> &'static str {
        P::API
    }

    fn stream(&self, link: &Link, request: Request) -> AnswerStream {
        link.stream(self, request)
    }

    fn listing(&self, model: &Model, credentials: &Credentials) -> Option<Listing> {
        let own = self.headers(credentials).into_iter().map(|(name, value)| (name.to_owned(), value));
        let headers = own.chain(credentials.headers.iter().cloned()).collect();
        Some((format!("{}{}", model.base_url, P::LIST), headers))
    }
}

/// What a usage costs, in US dollars; `None` where the model has no price.
pub fn price(model: &Model, usage: &Usage) -> Option<f64> {
    let cost = model.cost?;
    let million = 1e-6;
    let input = usage.input_tokens as f64 * cost.input + usage.cache_read_tokens as f64 * cost.cache_read;
    let rest = usage.cache_write_tokens as f64 * cost.cache_write + usage.output_tokens as f64 * cost.output;
    Some((input + rest) * million)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Cost;

    #[test]
    fn a_call_costs_what_the_table_says_cache_included() {
        let cost = Some(Cost { input: 2.0, output: 10.0, cache_read: 0.5, cache_write: 4.0 });
        let model = Model { cost, ..demo::model() };
        let usage = Usage {
            input_tokens: 100_000,
            output_tokens: 10_000,
            cache_read_tokens: 1_000_000,
            cache_write_tokens: 50_000,
            cost_usd: None,
        };
        let found = price(&model, &usage).expect("a price");
        assert!((found - (0.2 + 0.1 + 0.5 + 0.2)).abs() < 1e-9, "{found}");
        assert_eq!(price(&demo::model(), &usage), None);
    }
}
