//! The transcript.
pub mod markdown;
pub mod row;
pub mod table;
