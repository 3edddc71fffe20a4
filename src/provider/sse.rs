//! Server-sent events, decoded from bytes that come in any pieces (WHATWG HTML, "9.2.6 Interpreting an event
//! stream"). Ours, because the crates at hand copy the rest of a network chunk for each event in it, which
//! shows at 20,000 events a second.

use std::borrow::Cow;
use std::convert::Infallible;

/// An event larger than this is no answer of a model.
const LARGEST_EVENT: usize = 64 << 20;

/// Decodes a stream of server-sent events.
#[derive(Debug, Default)]
pub struct SseDecoder {
    /// A line that is not whole yet.
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
    /// The last byte was a CR, so that an LF that follows belongs to it.
    after_cr: bool,
    begun: bool,
}

/// A stream that cannot be decoded, or what the consumer of its events made of one.
#[derive(Debug, thiserror::Error)]
pub enum SseError<E> {
    /// An event is larger than any answer.
    #[error("the server sent an event of more than 64 MB")]
    TooLarge,
    /// The consumer failed.
    #[error(transparent)]
    Consumer(E),
}

impl SseDecoder {
    /// Takes the next bytes, and hands on each event that is whole: its name, empty where it has none, and
    /// its data.
    ///
    /// # Errors
    /// The consumer's own, and [`SseError::TooLarge`].
    pub fn push<E>(
        &mut self,
        mut bytes: &[u8],
        consumer: &mut impl FnMut(&str, &str) -> Result<(), E>,
    ) -> Result<(), SseError<E>> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                self.line.extend_from_slice(bytes);
                break;
            };
            self.after_cr = bytes[end] == b'\r';
            if self.line.is_empty() {
                self.take_line(&bytes[..end], consumer)?;
            } else {
                self.line.extend_from_slice(&bytes[..end]);
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, consumer)?;
            }
            bytes = &bytes[end + 1..];
        }
        if self.line.len() + self.data.len() > LARGEST_EVENT { Err(SseError::TooLarge) } else { Ok(()) }
    }

    /// The stream is over: an event that lacks its blank line is handed on too, since servers that are cut
    /// short after the last newline are common and the data itself tells whether it is whole.
    ///
    /// # Errors
    /// The consumer's own.
    pub fn finish<E>(&mut self, consumer: &mut impl FnMut(&str, &str) -> Result<(), E>) -> Result<(), SseError<E>> {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.take_line(&line, consumer)?;
        }
        self.dispatch(consumer)
    }

    fn take_line<E>(
        &mut self,
        line: &[u8],
        consumer: &mut impl FnMut(&str, &str) -> Result<(), E>,
    ) -> Result<(), SseError<E>> {
        let line = if std::mem::replace(&mut self.begun, true) {
            line
        } else {
            line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
        };
        if line.is_empty() {
            return self.dispatch(consumer);
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        // Valid text is told much faster than invalid text is mended.
        let value = std::str::from_utf8(value).map_or_else(|_| String::from_utf8_lossy(value), Cow::Borrowed);
        match field {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(&value);
            }
            b"event" => value.as_ref().clone_into(&mut self.name),
            // Comments, `id` and `retry` mean nothing to us.
            _ => {}
        }
        Ok(())
    }

    fn dispatch<E>(&mut self, consumer: &mut impl FnMut(&str, &str) -> Result<(), E>) -> Result<(), SseError<E>> {
        if std::mem::take(&mut self.has_data) {
            consumer(&self.name, &self.data).map_err(SseError::Consumer)?;
        }
        self.name.clear();
        self.data.clear();
        Ok(())
    }
}

/// All events of a whole stream, for tests and benchmarks.
pub fn events(bytes: &[u8]) -> Vec<(String, String)> {
    let (mut decoder, mut out) = (SseDecoder::default(), Vec::new());
    let mut consumer = |name: &str, data: &str| {
        out.push((name.to_owned(), data.to_owned()));
        Ok::<(), Infallible>(())
    };
    let _ = decoder.push(bytes, &mut consumer).and_then(|()| decoder.finish(&mut consumer));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(bytes: &[u8], size: usize) -> Vec<(String, String)> {
        let (mut decoder, mut out) = (SseDecoder::default(), Vec::new());
        let mut consumer = |name: &str, data: &str| {
            out.push((name.to_owned(), data.to_owned()));
            Ok::<(), Infallible>(())
        };
        for piece in bytes.chunks(size) {
            decoder.push(piece, &mut consumer).expect("small");
        }
        decoder.finish(&mut consumer).expect("small");
        out
    }

    #[test]
    fn every_cut_and_every_line_end_gives_the_same() {
        let plain = ": hi\ndata: {\"a\":\"北京🌍\"}\n\nevent: ping\ndata:x\ndata: y\nid: 3\n\n:\n\ndata: [DONE]\n\n";
        let expected = [("", "{\"a\":\"北京🌍\"}"), ("ping", "x\ny"), ("", "[DONE]")];
        let expected: Vec<_> = expected.map(|(n, d)| (n.to_owned(), d.to_owned())).into();
        let unfinished = plain.strip_suffix("\n\n").expect("ends so");
        for text in [plain, unfinished, &format!("\u{feff}{plain}")] {
            for form in [text.to_owned(), text.replace('\n', "\r\n"), text.replace('\n', "\r")] {
                for size in 1..=form.len() {
                    assert_eq!(cut(form.as_bytes(), size), expected, "{size} of {form:?}");
                }
            }
        }
    }

    #[test]
    fn an_event_without_data_is_none() {
        assert_eq!(events(b"event: a\n\ndata\n\n"), [(String::new(), String::new())]);
    }
}
