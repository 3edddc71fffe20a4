//! What goes wrong with a provider, and of which kind it is: the kind decides what happens next.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::event::ErrorKind;
use crate::text::{clean, head};

/// A failed model call.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", self.told())]
pub struct ProviderError {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// The provider's own words, cleaned of control sequences and cut; never a key.
    pub message: String,
    /// The provider's code or type for it; empty where it gave none.
    pub code: String,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// How long the provider wants to be left alone.
    pub retry_after: Option<Duration>,
}

impl ProviderError {
    /// An error of that kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        ProviderError { kind, message: message.into(), code: String::new(), status: None, retry_after: None }
    }

    /// A piece of a stream is not what the protocol says.
    pub fn unreadable(data: &str, error: &serde_json::Error) -> Self {
        let shown = clean(head(data, 200));
        Self::new(ErrorKind::Server, format!("the provider sent an event that cannot be read ({error}): {shown}"))
    }

    /// The message, and the code where the message does not name it.
    pub fn told(&self) -> String {
        match self.code.as_str() {
            "" => self.message.clone(),
            code if self.message.contains(code) => self.message.clone(),
            code => format!("{} ({code})", self.message),
        }
    }

    /// The connection failed or broke.
    pub fn network(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Network, message)
    }

    /// Whether the same call may work later.
    pub fn retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::RateLimit | ErrorKind::Overloaded | ErrorKind::Server | ErrorKind::Network)
    }

    /// Whether what a model thought before is refused: it was changed on the way, or belongs to another account,
    /// model or conversation. Without it the request may be taken.
    pub fn refuses_thinking(&self) -> bool {
        let text = self.told().to_lowercase();
        let names_it = ["thinking", "thought", "reasoning", "encrypted_content", "encrypted content"];
        let refuses = ["signature", "block", "invalid", "could not be", "modified", "required following item"];
        self.kind == ErrorKind::InvalidRequest && contains_any(&text, &names_it) && contains_any(&text, &refuses)
    }

    /// From the answer to a request that was not taken.
    pub fn from_response(status: u16, retry_after: Option<Duration>, body: &str) -> Self {
        let (message, code) = read_body(body);
        let message = if message.is_empty() { reason(status).to_owned() } else { message };
        let in_body = delay_in_body(body);
        let kind = match classify(Some(status), &code, &message) {
            // Google says "you exceeded your current quota" of a limit per minute too; then it says how long to wait.
            ErrorKind::Quota if in_body.is_some() && !body.contains("PerDay") => ErrorKind::RateLimit,
            kind => kind,
        };
        let retry_after = retry_after.or(in_body).or_else(|| delay_in_text(&message));
        ProviderError { kind, message, code, status: Some(status), retry_after }
    }

    /// From an error that came within a stream: its `error` value, whatever its form.
    pub fn from_stream(error: &Value) -> Self {
        let (message, code) = read_value(error);
        let message = if message.is_empty() { "the provider reported an error".to_owned() } else { message };
        let status = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let kind = match classify(status.filter(|code| (400..600).contains(code)), &code, &message) {
            // What broke in mid-stream is the stream, unless the words say otherwise.
            ErrorKind::InvalidRequest if code != "invalid_request_error" || is_transient(&message) => ErrorKind::Server,
            kind => kind,
        };
        let retry_after = delay_in_text(&message);
        ProviderError { kind, message, code, status, retry_after }
    }
}

/// Words that tell an overflow, in lower case. Each was seen of a real server.
const OVERFLOW: &[&str] = &[
    "prompt is too long",
    "prompt too long",
    "prompt exceeds max length",
    "request_too_large",
    "input is too long for requested model",
    "exceeds the context window",
    "exceed context window",
    "exceeded max context length",
    "maximum context length",
    "context window exceeded",
    "context window exceeds limit",
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size",
    "exceeds the maximum number of tokens",
    "maximum prompt length is",
    "reduce the length of the messages",
    "maximum allowed input length",
    "longer than the model's context length",
    "exceeds the available context size",
    "exceeds available context",
    "greater than the context length",
    "exceeded model token limit",
    "too large for model with",
    "context length exceeded",
    "string_above_max_length",
];

/// Words that tell a spent account, in lower case: waiting does not help.
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "exceeded your current quota",
    "quota exceeded",
    "billing",
    "credit balance",
    "out of credits",
    "insufficient balance",
    "insufficient credits",
    "available balance",
    "usage limit reached",
    "usagelimiterror",
    "out of budget",
    "payment required",
];

/// Words that tell a passing fault, in lower case.
const TRANSIENT: &[&str] = &[
    "overloaded",
    "server_busy",
    "at capacity",
    "high demand",
    "service unavailable",
    "server error",
    "server_error",
    "internal error",
    "internal_error",
    "upstream",
    "disconnected",
    "connection",
    "timeout",
    "timed out",
    "terminated",
    "try again",
    "retry your request",
    "loading model",
    "resourceexhausted",
];

/// Words that tell a limit on rate, in lower case.
const RATE: &[&str] = &["rate limit", "rate_limit", "ratelimit", "too many requests", "tokens per min", "throttl"];

fn contains_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

fn is_transient(message: &str) -> bool {
    contains_any(&message.to_lowercase(), TRANSIENT)
}

/// The kind of an error from its status, its code or type, and its words. Rate and quota come before overflow,
/// because their texts speak of tokens too.
pub fn classify(status: Option<u16>, code: &str, message: &str) -> ErrorKind {
    let text = format!("{code} {message}").to_lowercase();
    let quota = contains_any(&text, QUOTA);
    match status {
        Some(401 | 403) => return ErrorKind::Auth,
        Some(402) => return ErrorKind::Quota,
        Some(429) if quota => return ErrorKind::Quota,
        Some(429) => return ErrorKind::RateLimit,
        Some(413) => return ErrorKind::ContextOverflow,
        Some(529 | 503) => return ErrorKind::Overloaded,
        _ => {}
    }
    if contains_any(&text, RATE) {
        return if quota { ErrorKind::Quota } else { ErrorKind::RateLimit };
    }
    // Google: "The input token count (N) exceeds the maximum number of tokens allowed (M)."
    let google = text.contains("input token count") && text.contains("exceeds the maximum");
    if contains_any(&text, OVERFLOW) || google {
        return ErrorKind::ContextOverflow;
    }
    if quota {
        return ErrorKind::Quota;
    }
    match status {
        Some(408 | 409 | 425) => ErrorKind::Server,
        Some(500..=599) => ErrorKind::Server,
        _ if text.contains("overloaded") => ErrorKind::Overloaded,
        _ if text.contains("authentication") || text.contains("invalid_api_key") => ErrorKind::Auth,
        None if contains_any(&text, TRANSIENT) => ErrorKind::Server,
        _ => ErrorKind::InvalidRequest,
    }
}

/// The message and the code (or type) of an error body: JSON of any of the usual forms, or text.
fn read_body(body: &str) -> (String, String) {
    let value = match serde_json::from_str::<Value>(body) {
        // Google answers with a list of one.
        Ok(Value::Array(mut list)) if !list.is_empty() => list.swap_remove(0),
        Ok(value) => value,
        Err(_) if body.trim_start().starts_with('<') => return (html_title(body), String::new()),
        Err(_) => return (shown(body), String::new()),
    };
    match value.get("error") {
        Some(error @ (Value::Object(_) | Value::String(_))) => read_value(error),
        _ => read_value(&value),
    }
}

fn read_value(error: &Value) -> (String, String) {
    let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
    let message = error.as_str().map(str::to_owned).or_else(|| text("message")).or_else(|| text("detail"));
    // Gateways put the real error, as text, into the metadata.
    let inner = error.pointer("/metadata/raw").and_then(Value::as_str);
    let message = match (message, inner) {
        (Some(message), Some(inner)) => format!("{message}: {inner}"),
        (message, _) => message.unwrap_or_else(|| if error.is_object() { error.to_string() } else { String::new() }),
    };
    let code = text("code").or_else(|| text("type")).or_else(|| text("status")).unwrap_or_default();
    (shown(&message), shown(&code))
}

fn html_title(body: &str) -> String {
    let title = body.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    shown(title.unwrap_or("the server answered with a page of HTML"))
}

fn shown(text: &str) -> String {
    let cleaned = clean(text.trim());
    let cut = head(&cleaned, 2000);
    if cut.len() < cleaned.len() { format!("{cut}…") } else { cleaned }
}

fn reason(status: u16) -> &'static str {
    match status {
        401 | 403 => "the key was refused",
        404 => "there is nothing at this address",
        413 => "the request is too large",
        429 => "too many requests",
        500..=599 => "the server failed",
        _ => "the request was refused",
    }
}

/// `Retry-After` and its kin, from headers: seconds, milliseconds or a date.
pub fn retry_after(header: impl Fn(&str) -> Option<String>, now: SystemTime) -> Option<Duration> {
    if let Some(ms) = header("retry-after-ms").and_then(|value| value.trim().parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    let value = header("retry-after")?;
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// Google's `RetryInfo` in an error body.
fn delay_in_body(body: &str) -> Option<Duration> {
    let rest = body.split("\"retryDelay\"").nth(1)?;
    let value = rest.split('"').nth(1)?;
    Duration::try_from_secs_f64(value.strip_suffix('s')?.parse().ok()?).ok()
}

/// "Please try again in 1.5s", "in 320ms", "Please retry in 12s".
fn delay_in_text(message: &str) -> Option<Duration> {
    let rest = ["try again in ", "retry in "].iter().find_map(|words| message.split(words).nth(1))?;
    let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let value: f64 = rest[..digits].parse().ok()?;
    let unit = rest[digits..].trim_start();
    let seconds = match unit {
        unit if unit.starts_with("ms") => value / 1000.0,
        unit if unit.starts_with('s') => value,
        unit if unit.starts_with('m') => value * 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// traps.md B26.
    #[test]
    fn every_overflow_is_known() {
        for text in [
            "prompt too long; exceeded max context length by 100918 tokens",
            "Your input exceeds the context window of this model",
            "The prompt is too long: 267657, model maximum context length: 262143",
            "This model's maximum context length is 1048576 tokens. However, you requested 1057726",
            "prompt is too long: 210000 tokens > 200000 maximum",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        ] {
            let body = serde_json::json!({"error": {"message": text}}).to_string();
            assert_eq!(ProviderError::from_response(400, None, &body).kind, ErrorKind::ContextOverflow, "{text}");
        }
        let coded = r#"{"error":{"message":"no","code":"context_length_exceeded"}}"#;
        assert_eq!(ProviderError::from_response(400, None, coded).kind, ErrorKind::ContextOverflow);
        assert_eq!(ProviderError::from_response(413, None, "").kind, ErrorKind::ContextOverflow);
        let llama = r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}"#;
        assert_eq!(ProviderError::from_response(400, None, llama).kind, ErrorKind::ContextOverflow);
    }

    /// traps.md B25.
    #[test]
    fn a_token_rate_is_no_overflow() {
        let body = r#"{"error":{"message":"Rate limit reached for x in organization y on tokens per min (TPM): Limit 30000, Used 29000. Please try again in 1.5s."}}"#;
        let error = ProviderError::from_response(429, None, body);
        assert_eq!((error.kind, error.retry_after), (ErrorKind::RateLimit, Some(Duration::from_millis(1500))));
    }

    #[test]
    fn a_spent_account_is_not_retried() {
        let body = r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota"}}"#;
        let error = ProviderError::from_response(429, None, body);
        assert!(error.kind == ErrorKind::Quota && !error.retryable());
        assert!(!ProviderError::from_response(401, None, "").retryable());
        assert!(!ProviderError::from_response(400, None, "{\"error\":\"bad field\"}").retryable());
    }

    /// traps.md B12 and B13.
    #[test]
    fn errors_in_a_stream_are_classed_by_their_words() {
        let overloaded = serde_json::json!({"type": "overloaded_error", "message": "Overloaded"});
        assert_eq!(ProviderError::from_stream(&overloaded).kind, ErrorKind::Overloaded);
        let cut = serde_json::json!({"type": "invalid_request_error",
            "message": "stream error: stream disconnected before completion"});
        assert!(ProviderError::from_stream(&cut).retryable());
        let bad = serde_json::json!({"type": "invalid_request_error", "message": "unknown field"});
        assert!(!ProviderError::from_stream(&bad).retryable());
    }

    #[test]
    fn retry_after_is_read_in_all_forms() {
        let now = httpdate::parse_http_date("Sun, 29 Nov 2026 20:00:00 GMT").expect("a date");
        let read = |name: &'static str, value: &'static str| {
            retry_after(move |wanted| (wanted == name).then(|| value.to_owned()), now)
        };
        assert_eq!(read("retry-after", "3600"), Some(Duration::from_secs(3600)));
        assert_eq!(read("retry-after", "1.5"), Some(Duration::from_millis(1500)));
        assert_eq!(read("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(read("retry-after", "Sun, 29 Nov 2026 20:00:30 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(read("retry-after", "-1"), None);
        let google = r#"[{"error":{"message":"x","details":[{"retryDelay": "34s"}]}}]"#;
        assert_eq!(ProviderError::from_response(429, None, google).retry_after, Some(Duration::from_secs(34)));
        let minute = r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"quotaId":"RequestsPerMinute"},{"retryDelay": "34s"}]}}"#;
        assert_eq!(ProviderError::from_response(429, None, minute).kind, ErrorKind::RateLimit);
        let day = minute.replace("PerMinute", "PerDay");
        assert_eq!(ProviderError::from_response(429, None, &day).kind, ErrorKind::Quota);
    }

    #[test]
    fn what_is_shown_is_clean_and_short() {
        let body = format!("{{\"error\":{{\"message\":\"a\\u001b]0;pwn\\u0007b{}\"}}}}", "x".repeat(5000));
        let message = ProviderError::from_response(400, None, &body).message;
        assert!(message.starts_with("abx") && message.len() < 2010);
        let page = ProviderError::from_response(502, None, "<html><head><title>502 Bad Gateway</title></head>");
        assert_eq!((page.message.as_str(), page.kind), ("502 Bad Gateway", ErrorKind::Server));
    }
}
