//! One model call: asked, streamed, retried, cancelled.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;

use super::core::{Core, RunError};
use super::plugins::inject;
use crate::event::{ErrorKind, Event};
use crate::message::stream::{Accumulator, StreamEvent};
use crate::message::{AssistantMessage, Block, Message, StopReason};
use crate::model::Model;
use crate::provider::{self, AnswerStream, ProviderError, Request};

/// How a model call came out.
#[derive(Debug)]
pub enum Answer {
    /// The model answered, to the end or up to the output limit.
    Whole(AssistantMessage),
    /// The person interrupted it; what had come.
    Interrupted(AssistantMessage),
    /// The request was longer than the model takes.
    Overflow(ProviderError),
    /// It failed for good; what had come.
    Failed(RunError, AssistantMessage),
}

/// How one try of a model call came out.
enum Try {
    Whole(AssistantMessage),
    Interrupted(Accumulator),
    Failed(ProviderError, Accumulator),
}

/// Without a person to wait, a longer wait than this is a failure.
const LONGEST_SILENT_WAIT: Duration = Duration::from_secs(60);

/// Of the window, so much is left free between what we count and what the provider might.
const MARGIN: u64 = 512;

/// An answer needs at least so much.
const LEAST_ANSWER: u64 = 256;

impl Core {
    /// Asks the model, and asks again where that may help. `call_prefix` begins the ids of calls that come without one.
    pub(super) async fn ask(&mut self, call_prefix: &str) -> Answer {
        let (policy, chain) = (self.loaded.retry(), self.chain());
        let mut attempt = 1;
        let injection = self.injection().await;
        loop {
            let request = match self.request().await {
                Ok(mut request) => {
                    inject(&mut request, &injection);
                    request
                }
                Err(error) if self.move_on(error.kind, &error.message).await => continue,
                Err(error) => return Answer::Failed(error, AssistantMessage::default()),
            };
            let model = request.model.clone();
            let signed = |message: AssistantMessage| signed(message, &model, chain.as_deref());
            let finish = |accumulator: Accumulator, stop_reason| {
                let mut message = accumulator.finish(call_prefix);
                message.stop_reason = stop_reason;
                // Calls that may be cut off are not kept: they were never run.
                message.content.retain(|block| !matches!(block, Block::ToolCall(_)));
                signed(message)
            };
            let (error, sofar) = match self.try_once(&request, call_prefix).await {
                Try::Whole(message) => return Answer::Whole(signed(message)),
                Try::Interrupted(sofar) => return Answer::Interrupted(finish(sofar, StopReason::Aborted)),
                Try::Failed(error, _) if error.kind == ErrorKind::ContextOverflow => return Answer::Overflow(error),
                Try::Failed(error, sofar) => (error, sofar),
            };
            if error.refuses_thinking() && request.forget_thinking < request.messages.len() {
                self.forget_thinking = request.messages.last().cloned();
                self.bus.notice(format!("{} refused what was thought before; it goes on without it", model.name)).await;
                continue;
            }
            if sofar.is_empty() && self.move_on(error.kind, &error.told()).await {
                continue;
            }
            let delay = policy.delay(attempt, &error, fastrand::f64());
            let too_long = |delay: &Duration| self.setup.headless && *delay > LONGEST_SILENT_WAIT;
            let Some(delay) = delay.filter(|delay| !too_long(delay)) else {
                let failure = describe(&error, &model, delay);
                let mut message = finish(sofar, StopReason::Error);
                message.error = Some(failure.message.clone());
                return Answer::Failed(failure, message);
            };
            if !sofar.is_empty() {
                self.bus.emit(Event::Discard).await;
            }
            let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            self.bus.emit(Event::Retry { attempt, delay_ms, reason: error.told() }).await;
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    return Answer::Interrupted(finish(Accumulator::default(), StopReason::Aborted));
                }
                () = tokio::time::sleep(delay) => {}
            }
            attempt += 1;
            if let Some(chain) = chain.as_ref().filter(|_| sofar.is_empty()) {
                self.begin_anew(chain).await;
            }
        }
    }

    /// The request for the next model call.
    pub(super) async fn request(&mut self) -> Result<Request, RunError> {
        let model = self.model()?;
        let credentials = self.credentials(&model).await?;
        let messages = self.conversation.messages(self.session.tree());
        let forgotten = self.forget_thinking.as_ref();
        let forget_thinking =
            forgotten.and_then(|last| messages.iter().rposition(|message| Arc::ptr_eq(message, last)));
        let forget_thinking = forget_thinking.map_or(0, |index| index + 1);
        let room = self.room(&model, &messages);
        // The model's own limit, clamped to what is left of its window.
        let max_tokens = model.max_tokens.map(|max| max.min(room));
        Ok(Request {
            model,
            credentials,
            system: self.system.clone(),
            tools: self.definitions.clone(),
            messages,
            thinking: self.thinking,
            forget_thinking,
            max_tokens,
            room,
            session_id: self.session.header().id.as_str().into(),
        })
    }

    /// What is left of the model's window for an answer.
    fn room(&self, model: &Model, messages: &[Arc<Message>]) -> u64 {
        let used = self.count(messages);
        model.context_window.saturating_sub(used + used / 20 + MARGIN).max(LEAST_ANSWER)
    }

    async fn try_once(&self, request: &Request, call_prefix: &str) -> Try {
        let mut accumulator = Accumulator::default();
        let mut stream = match open(&self.link, request) {
            Ok(stream) => stream,
            Err(error) => return Try::Failed(error, accumulator),
        };
        loop {
            let next = tokio::select! {
                biased;
                // Dropping the stream ends the request.
                () = self.cancel.cancelled() => return Try::Interrupted(accumulator),
                next = stream.next() => next,
            };
            let event = match next {
                Some(Ok(event)) => event,
                Some(Err(error)) => return Try::Failed(error, accumulator),
                None => {
                    return Try::Failed(ProviderError::network("the answer was cut off in the middle"), accumulator);
                }
            };
            accumulator.push(&event);
            match event {
                StreamEvent::Text { delta, .. } if !delta.is_empty() => {
                    self.bus.emit(Event::Delta { text: delta }).await;
                }
                StreamEvent::Thinking { delta, .. } if !delta.is_empty() => {
                    self.bus.emit(Event::Thinking { text: delta }).await;
                }
                StreamEvent::Restart => self.bus.emit(Event::Discard).await,
                StreamEvent::End(_) => return Try::Whole(accumulator.finish(call_prefix)),
                _ => {}
            }
        }
    }
}

/// Opens a stream of the answer to a request.
pub(super) fn open(link: &provider::Link, request: &Request) -> Result<AnswerStream, ProviderError> {
    let api = &request.model.api;
    let provider = provider::find(api).ok_or_else(|| {
        let known: Vec<_> = provider::PROVIDERS.iter().map(|provider| provider.api()).collect();
        let text = format!(
            "this version does not speak `{api}` (the `api` of {} in models.json); it speaks {}",
            request.model.reference(),
            known.join(", ")
        );
        ProviderError::new(ErrorKind::Config, text)
    })?;
    Ok(provider.stream(link, request.clone()))
}

fn signed(mut message: AssistantMessage, model: &Model, chain: Option<&Model>) -> AssistantMessage {
    message.via = chain.map(Model::reference);
    message.provider.clone_from(&model.provider);
    message.model.clone_from(&model.id);
    message.api.clone_from(&model.api);
    message
}

/// What happened and what to do about it.
pub(super) fn describe(error: &ProviderError, model: &Model, delay: Option<Duration>) -> RunError {
    let who = &model.provider;
    let advice = match error.kind {
        ErrorKind::Auth => match &model.api_key {
            Some(key) if key.reveal().starts_with('$') => {
                format!("check the key in {}", key.reveal().trim_start_matches('$').trim_matches(['{', '}']))
            }
            Some(key) if key.reveal().starts_with('!') => {
                "check the command that gives the key in models.json".to_owned()
            }
            Some(_) => "check the key in models.json".to_owned(),
            None => "it wants a key: set api_key for it in models.json".to_owned(),
        },
        ErrorKind::Quota => "the account is spent: add credit, or choose another model".to_owned(),
        ErrorKind::RateLimit | ErrorKind::Overloaded => match delay {
            Some(delay) => format!("it asks to wait {} s; try again then, or choose another model", delay.as_secs()),
            None => "try again later, or choose another model".to_owned(),
        },
        ErrorKind::Network => format!("check the connection and the address {}", model.base_url),
        ErrorKind::Server => "try again, or choose another model".to_owned(),
        ErrorKind::ContextOverflow => "compact the conversation with /compact, or start a new one".to_owned(),
        ErrorKind::InvalidRequest | ErrorKind::Config => "check the model in models.json".to_owned(),
        ErrorKind::Session | ErrorKind::Limit | ErrorKind::Internal => "try again".to_owned(),
    };
    let status = error.status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
    RunError::new(error.kind, format!("{who}: {}{status}; {advice}", error.told().trim_end_matches('.')))
}
