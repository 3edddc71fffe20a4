//! The full-screen interface.

pub mod highlight;
pub mod term;
pub mod transcript;
pub mod words;
