//! The conversation as it was last written down, so that the next request only writes what is new.
//!
//! A session of 2 MB would otherwise be serialised anew for each tool call.

use bytes::{BufMut, Bytes, BytesMut};

use super::history::{Turn, TurnKey};
use super::{Place, Protocol, Request};

/// What was written for the last request.
#[derive(Debug, Default)]
pub struct Prefix {
    /// Whom it was written for: another model may be written to otherwise.
    written_for: String,
    /// Each turn, and where it stood: it may have been written for its neighbour.
    keys: Vec<(TurnKey, Place)>,
    /// Where each turn ends, with its comma, counted from the first one's begin.
    ends: Vec<usize>,
    /// Where the first turn begins in `body`.
    begin: usize,
    /// The whole request. Once it was sent nobody else has it, and the next one is written over its end: a copy of 2 MB
    /// would cost more than all else that is done for a request.
    body: Bytes,
}

/// Room for what comes new with a request.
const ROOM: usize = 64 * 1024;

impl Prefix {
    /// The body of a request: head, opening, and all turns.
    ///
    /// # Errors
    /// Where something cannot be written as JSON.
    pub fn body<P: Protocol>(
        &mut self,
        protocol: &P,
        request: &Request,
        turns: &[Turn<'_>],
    ) -> serde_json::Result<Bytes> {
        let model = &request.model;
        let written_for =
            format!("{}\n{}\n{}\n{:?}\n{}", P::API, model.reference(), model.base_url, model.compat, model.images);
        // Taken, so that nothing half-written stays behind a failure.
        let mut before = std::mem::take(self);
        if written_for != before.written_for {
            before = Prefix { written_for, ..Prefix::default() };
        }
        let Prefix { written_for, mut keys, mut ends, begin, body } = before;

        let places = turns.iter().skip(1).map(|next| match next {
            Turn::User(..) => Place::BeforeUser,
            Turn::Assistant(_) | Turn::Results(_) => Place::Within,
        });
        let new: Vec<_> = turns.iter().map(Turn::key).zip(places).collect();
        let same = keys.iter().zip(&new).take_while(|(one, two)| one == two).count();
        keys.truncate(same);
        ends.truncate(same);

        let opening = opening(protocol, request)?;
        let mut body = reopen(body, begin, &opening, ends.last().copied().unwrap_or(0));
        let begin = opening.len();
        for (turn, key) in turns.iter().zip(new).skip(same) {
            write(&mut body, protocol.encode(turn, request, key.1))?;
            keys.push(key);
            ends.push(body.len() - begin);
        }
        if let Some(last) = turns.last() {
            write(&mut body, protocol.encode(last, request, Place::Last))?;
        }
        if body.last() == Some(&b',') {
            body.truncate(body.len() - 1);
        }
        body.put_slice(b"]}");
        let body = body.freeze();
        *self = Prefix { written_for, keys, ends, begin, body: body.clone() };
        Ok(body)
    }
}

/// What stands before the first turn.
fn opening<P: Protocol>(protocol: &P, request: &Request) -> serde_json::Result<BytesMut> {
    let mut out = BytesMut::new();
    serde_json::to_writer((&mut out).writer(), &protocol.head(request))?;
    out.truncate(out.len() - 1);
    if out.len() > 1 {
        out.put_u8(b',');
    }
    serde_json::to_writer((&mut out).writer(), P::CONVERSATION)?;
    out.put_slice(b":[");
    write(&mut out, protocol.opening(request))?;
    Ok(out)
}

/// The request before, with a new opening and `kept` bytes of its turns.
fn reopen(before: Bytes, begin: usize, opening: &[u8], kept: usize) -> BytesMut {
    let mut body = match before.try_into_mut() {
        Ok(mut body) if begin == opening.len() => {
            body.truncate(begin + kept);
            body[..begin].copy_from_slice(opening);
            body
        }
        other => {
            let before = other.map_or_else(|shared| shared, BytesMut::freeze);
            let mut copy = BytesMut::with_capacity(opening.len() + kept + ROOM);
            copy.put_slice(opening);
            copy.put_slice(&before[begin..begin + kept]);
            copy
        }
    };
    if kept > 0 {
        // The request may have ended there.
        body[opening.len() + kept - 1] = b',';
    }
    body
}

/// Writes items, each followed by a comma.
fn write(out: &mut BytesMut, items: Vec<serde_json::Value>) -> serde_json::Result<()> {
    for item in items {
        serde_json::to_writer((&mut *out).writer(), &item)?;
        out.put_u8(b',');
    }
    Ok(())
}
