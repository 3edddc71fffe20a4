//! Sessions: conversations as trees, in append-only JSON Lines under `~/.violin/sessions`.

pub mod checkpoint;
mod entry;
pub mod list;
mod lock;
mod store;
mod tree;

pub use entry::{Body, Entry, EntryId, Header, Record, Reviewed, Reviewer, SummarySource, VERSION};
pub use lock::Holder;
pub use store::{Loaded, Session, SessionError};
pub use tree::{Node, Tree};
