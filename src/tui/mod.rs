//! The full-screen interface.

pub mod term;
pub mod transcript;
