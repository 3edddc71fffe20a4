//! Sessions: conversations as trees, in append-only JSON Lines under `~/.violin/sessions`.

mod entry;
mod tree;

pub use entry::{Body, Entry, EntryId, Header, Record, Reviewed, Reviewer, SummarySource, VERSION};
pub use tree::{Node, Tree};
