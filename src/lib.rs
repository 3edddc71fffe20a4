//! Violin, a coding agent in the terminal: one process, one binary.

pub mod agent;
pub mod choice;
pub mod cli;
pub mod config;
pub mod context;
pub mod event;
pub mod headless;
pub mod home;
pub mod message;
pub mod model;
pub mod provider;
pub mod session;
pub mod text;
pub mod theme;
pub mod tool;
pub mod toolkit;
pub mod tui;
pub mod watch;
