//! The way to a provider: HTTP, its timeouts, and the stream of events that comes back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use futures::stream::{self, StreamExt};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::timeout;

use super::error::{ProviderError, retry_after};
use super::prefix::Prefix;
use super::sse::{SseDecoder, SseError};
use super::{AnswerStream, Credentials, Decoder, Protocol, Request, history};
use crate::event::ErrorKind;
use crate::message::Usage;
use crate::message::stream::StreamEvent;
use crate::model::{Model, Secret};

/// How long a provider may be silent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timeouts {
    /// Until the connection stands.
    pub connect: Duration,
    /// Between two pieces of an answer; keep-alives count.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { connect: Duration::from_secs(15), idle: Duration::from_secs(300) }
    }
}

/// After an answer is complete, the connection is given so long to end by itself.
const AFTER_THE_END: Duration = Duration::from_millis(500);

/// Of an error's body so much is read.
const LONGEST_ERROR: usize = 256 * 1024;

/// The way to a provider. Cheap to make: an HTTP client is built for the first request.
#[derive(Clone, Default)]
pub struct Link {
    timeouts: Timeouts,
    clients: Arc<Clients>,
    prefix: Arc<Mutex<Prefix>>,
}

#[derive(Default)]
struct Clients {
    /// For this machine, in plain HTTP and past any proxy: reads no certificates.
    local: OnceLock<reqwest::Client>,
    /// For everything else.
    remote: OnceLock<reqwest::Client>,
}

impl Link {
    /// A link with these timeouts.
    pub fn new(timeouts: Timeouts) -> Self {
        Link { timeouts, ..Link::default() }
    }

    /// Asks over a protocol.
    pub(super) fn stream<P: Protocol>(&self, protocol: &P, request: Request) -> AnswerStream {
        let turns = history::turns(&request.messages, &request.model, request.forget_thinking);
        let body = self.prefix.lock().unwrap_or_else(PoisonError::into_inner).body(protocol, &request, &turns);
        let body = match body {
            Ok(body) => body,
            Err(error) => return fail(ProviderError::new(ErrorKind::Internal, error.to_string())),
        };
        let url = format!("{}{}", request.model.base_url, protocol.path(&request.model));
        tracing::debug!(url, bytes = body.len(), messages = request.messages.len(), "asked");
        let decoder = protocol.decoder(&request);
        let prepared = headers(protocol, &request).and_then(|headers| {
            let client = self.clients.for_url(&url, self.timeouts)?;
            Ok(client.post(&url).headers(headers).body(body))
        });
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return fail(error),
        };
        let answer = Answer {
            state: State::Asking(prepared),
            sse: SseDecoder::default(),
            decoder,
            ready: VecDeque::new(),
            idle: self.timeouts.idle,
            model: request.model,
            credentials: request.credentials,
        };
        stream::unfold(answer, |mut answer| async move { answer.next().await.map(|item| (item, answer)) }).boxed()
    }

    /// A plain GET of JSON, for lists of models. `within` bounds all of it.
    ///
    /// # Errors
    /// As for an answer.
    pub async fn get(
        &self,
        url: &str,
        headers: Vec<(String, Secret)>,
        within: Duration,
    ) -> Result<serde_json::Value, ProviderError> {
        let map = header_map(headers.iter().map(|(name, value)| (name.as_str(), value.reveal())))?;
        let request = self.clients.for_url(url, self.timeouts)?.get(url).headers(map);
        let whole = async {
            let response = request.send().await.map_err(|error| network(&error))?;
            let status = response.status().as_u16();
            let body = response.text().await.map_err(|error| network(&error))?;
            if !(200..300).contains(&status) {
                return Err(ProviderError::from_response(status, None, &body));
            }
            serde_json::from_str(&body)
                .map_err(|_| ProviderError::new(ErrorKind::Server, "the server did not answer with JSON"))
        };
        timeout(within, whole)
            .await
            .unwrap_or_else(|_| Err(ProviderError::network(format!("no answer within {} ms", within.as_millis()))))
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("timeouts", &self.timeouts).finish_non_exhaustive()
    }
}

fn fail(error: ProviderError) -> AnswerStream {
    stream::iter([Err(error)]).boxed()
}

impl Clients {
    fn for_url(&self, url: &str, timeouts: Timeouts) -> Result<reqwest::Client, ProviderError> {
        let parsed = reqwest::Url::parse(url)
            .map_err(|error| ProviderError::new(ErrorKind::Config, format!("`{url}` is no address: {error}")))?;
        let local = parsed.scheme() == "http" && parsed.host_str().is_some_and(is_loopback);
        let cell = if local { &self.local } else { &self.remote };
        if let Some(client) = cell.get() {
            return Ok(client.clone());
        }
        let roots = if local { rustls::RootCertStore::empty() } else { roots() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| ProviderError::new(ErrorKind::Internal, error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .connect_timeout(timeouts.connect)
            // An answer that redirects would take the key to another host.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("violin/", env!("CARGO_PKG_VERSION")));
        if local {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| ProviderError::new(ErrorKind::Config, chain(&error)))?;
        Ok(cell.get_or_init(|| client).clone())
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The system's certificates (also those of `SSL_CERT_FILE`), or, where it has none, Mozilla's.
fn roots() -> rustls::RootCertStore {
    let mut store = rustls::RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if store.is_empty() {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    store
}

fn headers<P: Protocol>(protocol: &P, request: &Request) -> Result<HeaderMap, ProviderError> {
    let own = protocol.headers(&request.credentials);
    let own = own.iter().map(|(name, value)| (*name, value.reveal()));
    let extra = request.credentials.headers.iter().map(|(name, value)| (name.as_str(), value.reveal()));
    let fixed = [("content-type", "application/json"), ("accept", "text/event-stream")];
    header_map(fixed.into_iter().chain(own).chain(extra))
}

fn header_map<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Result<HeaderMap, ProviderError> {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        let bad =
            |what: &str| ProviderError::new(ErrorKind::Config, format!("{what} of the header `{name}` cannot be sent"));
        let key = HeaderName::try_from(name).map_err(|_| bad("the name"))?;
        // The value itself may be a key, and is not shown.
        let mut value = HeaderValue::try_from(value).map_err(|_| bad("the value"))?;
        value.set_sensitive(true);
        map.insert(key, value);
    }
    Ok(map)
}

/// An answer as it comes.
struct Answer {
    state: State,
    sse: SseDecoder,
    decoder: Box<dyn Decoder>,
    ready: VecDeque<Result<StreamEvent, ProviderError>>,
    idle: Duration,
    model: Arc<Model>,
    credentials: Credentials,
}

enum State {
    Asking(reqwest::RequestBuilder),
    Reading(reqwest::Response),
    Over,
}

impl Answer {
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                if matches!(item, Err(_) | Ok(StreamEvent::End(_))) {
                    self.state = State::Over;
                    self.ready.clear();
                }
                return Some(item);
            }
            if let Err(mut error) = self.advance().await? {
                // Some providers say the key that they refuse.
                error.message = self.credentials.redact(&error.message);
                self.ready.push_back(Err(error));
            }
        }
    }

    /// Reads on; `None`: it is over.
    async fn advance(&mut self) -> Option<Result<(), ProviderError>> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Over => None,
            State::Asking(request) => Some(self.ask(request).await),
            State::Reading(response) => Some(self.read(response).await),
        }
    }

    async fn ask(&mut self, request: reqwest::RequestBuilder) -> Result<(), ProviderError> {
        let sent = timeout(self.idle, request.send()).await.map_err(|_| self.silent())?;
        let mut response = sent.map_err(|error| network(&error))?;
        let status = response.status();
        tracing::debug!(status = status.as_u16(), "answered");
        if status.is_success() {
            self.state = State::Reading(response);
            return Ok(());
        }
        let header = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let after = retry_after(header, SystemTime::now());
        let mut body = Vec::new();
        // What of the body does not come is not worth more waiting: the status tells enough.
        while let Ok(Ok(Some(chunk))) = timeout(Duration::from_secs(10), response.chunk()).await {
            body.extend_from_slice(&chunk);
            if body.len() > LONGEST_ERROR {
                break;
            }
        }
        let code = status.as_u16();
        if status.is_redirection() {
            let text =
                format!("the server answered {code} and points elsewhere; set its base_url to the final address");
            return Err(ProviderError { status: Some(code), ..ProviderError::new(ErrorKind::Config, text) });
        }
        Err(ProviderError::from_response(code, after, &String::from_utf8_lossy(&body)))
    }

    async fn read(&mut self, mut response: reqwest::Response) -> Result<(), ProviderError> {
        let complete = self.decoder.complete();
        let wait = if complete { self.idle.min(AFTER_THE_END) } else { self.idle };
        let mut out = Vec::new();
        let read = match timeout(wait, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                let read = self.sse.push(&chunk, &mut |name, data| self.decoder.event(name, data, &mut out));
                self.state = State::Reading(response);
                read.map_err(consumed)
            }
            Ok(Ok(None)) => self.finish(&mut out),
            Ok(Err(_)) | Err(_) if complete => self.finish(&mut out),
            Ok(Err(error)) => Err(network(&error)),
            Err(_) => Err(self.silent()),
        };
        for event in out {
            self.hand_on(event);
        }
        if read.is_err() {
            self.state = State::Over;
        }
        read
    }

    fn finish(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        self.sse.finish(&mut |name, data| self.decoder.event(name, data, out)).map_err(consumed)?;
        if out.iter().any(|event| matches!(event, StreamEvent::End(_))) {
            return Ok(());
        }
        self.decoder.finish(out)
    }

    /// Makes an event ready. Text that came in one piece is handed on in one.
    fn hand_on(&mut self, event: StreamEvent) {
        let event = match (event, self.ready.back_mut()) {
            (StreamEvent::Text { slot, delta }, Some(Ok(StreamEvent::Text { slot: same, delta: sofar })))
            | (StreamEvent::Thinking { slot, delta }, Some(Ok(StreamEvent::Thinking { slot: same, delta: sofar })))
                if slot == *same =>
            {
                return sofar.push_str(&delta);
            }
            (StreamEvent::Usage(usage), _) if usage.cost_usd.is_none() => {
                StreamEvent::Usage(Usage { cost_usd: super::price(&self.model, &usage), ..usage })
            }
            (event, _) => event,
        };
        self.ready.push_back(Ok(event));
    }

    fn silent(&self) -> ProviderError {
        ProviderError::network(format!("the provider was silent for {} s", self.idle.as_secs_f64()))
    }
}

fn consumed(error: SseError<ProviderError>) -> ProviderError {
    match error {
        SseError::Consumer(error) => error,
        error @ SseError::TooLarge => ProviderError::new(ErrorKind::Server, error.to_string()),
    }
}

/// A connection's failure in words. The address may hold a key in its query, so it is left out.
fn network(error: &reqwest::Error) -> ProviderError {
    let host = error.url().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    let what = match error {
        error if error.is_connect() => format!("cannot connect to {host}"),
        error if error.is_timeout() => format!("{host} did not answer in time"),
        _ => format!("the connection to {host} broke"),
    };
    let cause = innermost(error);
    ProviderError::network(if cause.is_empty() { what } else { format!("{what}: {cause}") })
}

fn innermost(error: &reqwest::Error) -> String {
    let mut source = std::error::Error::source(error);
    let mut text = String::new();
    while let Some(inner) = source {
        text = inner.to_string();
        source = inner.source();
    }
    text
}

fn chain(error: &reqwest::Error) -> String {
    let cause = innermost(error);
    if cause.is_empty() { error.to_string() } else { format!("{error}: {cause}") }
}
