//! The conversation as it was last written down, so that the next request only writes what is new.
//!
//! A session of 2 MB would otherwise be serialised anew for each tool call.

use super::history::{Turn, TurnKey};
use super::{Place, Protocol, Request};

/// What was written for the last request.
#[derive(Debug, Default)]
pub struct Prefix {
    /// Whom it was written for: another model may be written to otherwise.
    written_for: String,
    /// Each turn, and where it stood: it may have been written for its neighbour.
    keys: Vec<(TurnKey, Place)>,
    /// Where each turn ends in `bytes`.
    ends: Vec<usize>,
    /// The turns as JSON, each followed by a comma.
    bytes: Vec<u8>,
}

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
    ) -> serde_json::Result<Vec<u8>> {
        let model = &request.model;
        let written_for =
            format!("{}\n{}\n{}\n{:?}\n{}", P::API, model.reference(), model.base_url, model.compat, model.images);
        if written_for != self.written_for {
            *self = Prefix { written_for, ..Prefix::default() };
        }
        let (last, within) = match turns.split_last() {
            Some((last, within)) => (Some(last), within),
            None => (None, turns),
        };
        if let Some(last) = last {
            self.advance(protocol, request, within, last)?;
        }

        let mut body = serde_json::to_vec(&protocol.head(request))?;
        body.pop();
        body.reserve(self.bytes.len() + 16 * 1024);
        if body.len() > 1 {
            body.push(b',');
        }
        serde_json::to_writer(&mut body, P::CONVERSATION)?;
        body.extend_from_slice(b":[");
        for item in protocol.opening(request) {
            serde_json::to_writer(&mut body, &item)?;
            body.push(b',');
        }
        body.extend_from_slice(&self.bytes);
        for item in last.iter().flat_map(|turn| protocol.encode(turn, request, Place::Last)) {
            serde_json::to_writer(&mut body, &item)?;
            body.push(b',');
        }
        if body.last() == Some(&b',') {
            body.pop();
        }
        body.extend_from_slice(b"]}");
        Ok(body)
    }

    /// Keeps what is written as it would be written again, and adds the rest.
    fn advance<P: Protocol>(
        &mut self,
        protocol: &P,
        request: &Request,
        turns: &[Turn<'_>],
        last: &Turn<'_>,
    ) -> serde_json::Result<()> {
        let place = |index: usize| match turns.get(index + 1).unwrap_or(last) {
            Turn::User(..) => Place::BeforeUser,
            Turn::Assistant(_) | Turn::Results(_) => Place::Within,
        };
        let keys: Vec<_> = turns.iter().enumerate().map(|(index, turn)| (turn.key(), place(index))).collect();
        let same = self.keys.iter().zip(&keys).take_while(|(one, two)| one == two).count();
        self.keys.truncate(same);
        self.ends.truncate(same);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
        for (turn, key) in turns.iter().zip(keys).skip(same) {
            for item in protocol.encode(turn, request, key.1) {
                serde_json::to_writer(&mut self.bytes, &item)?;
                self.bytes.push(b',');
            }
            self.keys.push(key);
            self.ends.push(self.bytes.len());
        }
        Ok(())
    }
}
