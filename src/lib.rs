//! Violin, a coding agent in the terminal: one process, one binary.

pub mod event;
pub mod home;
pub mod message;
pub mod text;
pub mod tool;
pub mod toolkit;
