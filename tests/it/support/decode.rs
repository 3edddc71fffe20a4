//! A stream of bytes, decoded as an answer is, in any pieces.

use std::sync::Arc;

use violin::message::AssistantMessage;
use violin::message::stream::{Accumulator, StreamEvent};
use violin::provider::anthropic::Messages;
use violin::provider::completions::Completions;
use violin::provider::google::Google;
use violin::provider::responses::Responses;
use violin::provider::sse::{SseDecoder, SseError};
use violin::provider::{Credentials, Decoder, Protocol, ProviderError, Request};

/// A request with nothing in it.
pub fn request(api: &str) -> Request {
    let model = violin::model::Model { api: api.to_owned(), ..violin::provider::demo::model() };
    Request {
        model: Arc::new(model),
        credentials: Credentials::default(),
        system: "".into(),
        tools: Arc::new([]),
        messages: Vec::new(),
        thinking: Default::default(),
        forget_thinking: 0,
        max_tokens: None,
        room: 8192,
        session_id: "s".into(),
    }
}

fn decoder(api: &str) -> Option<Box<dyn Decoder>> {
    match api {
        "openai-completions" => Some(Completions.decoder(&request(api))),
        "openai-responses" => Some(Responses.decoder(&request(api))),
        "anthropic-messages" => Some(Messages.decoder(&request(api))),
        "google-generative-ai" => Some(Google.decoder(&request(api))),
        _ => None,
    }
}

/// What came of it, and the error where there was one.
pub fn decode(api: &str, pieces: &[&[u8]]) -> (AssistantMessage, Option<ProviderError>) {
    let mut decoder = decoder(api).expect("a known api");
    let (mut sse, mut accumulator, mut out) = (SseDecoder::default(), Accumulator::default(), Vec::new());
    let mut error = None;
    for piece in pieces {
        if let Err(SseError::Consumer(failed)) = sse.push(piece, &mut |name, data| decoder.event(name, data, &mut out))
        {
            error = Some(failed);
            break;
        }
    }
    let ended = |out: &[StreamEvent]| out.iter().any(|event| matches!(event, StreamEvent::End(_)));
    if error.is_none() && !ended(&out) {
        let _ = sse.finish(&mut |name, data| decoder.event(name, data, &mut out));
        if !ended(&out) {
            error = decoder.finish(&mut out).err();
        }
    }
    out.iter().for_each(|event| accumulator.push(event));
    (accumulator.finish("call"), error)
}

/// What comes of a stream wherever it is cut in two (of a long one, at a sample of the borders) or to single bytes;
/// every cut must give the same.
pub fn decode_cut_anywhere(api: &str, stream: &str) -> (AssistantMessage, Option<ProviderError>) {
    let bytes = stream.as_bytes();
    let whole = decode(api, &[bytes]);
    for cut in (1..bytes.len()).step_by(bytes.len() / 150 + 1) {
        let (one, two) = bytes.split_at(cut);
        assert_eq!(decode(api, &[one, two]), whole, "cut at {cut}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(decode(api, &single), whole, "byte by byte");
    let crlf = stream.replace('\n', "\r\n");
    for size in [1, 2, 3] {
        let pieces: Vec<&[u8]> = crlf.as_bytes().chunks(size).collect();
        assert_eq!(decode(api, &pieces), whole, "CRLF in pieces of {size}");
    }
    whole
}
