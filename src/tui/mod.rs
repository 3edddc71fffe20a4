//! The full-screen interface.

pub mod actions;
pub mod app;
pub mod commands;
pub mod draw;
pub mod highlight;
pub mod keys;
pub mod layout;
pub mod list;
pub mod msg;
pub mod pane;
pub mod prompt;
pub mod review;
pub mod sources;
pub mod term;
pub mod transcript;
pub mod tree;
pub mod update;
pub mod words;
