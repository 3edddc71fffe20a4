//! Violin, a coding agent in the terminal: one process, one binary.

pub mod agent;
pub mod choice;
pub mod event;
pub mod home;
pub mod message;
pub mod model;
pub mod session;
pub mod text;
pub mod theme;
pub mod toolkit;
pub mod tui;
pub mod watch;
