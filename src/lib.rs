//! Violin, a coding agent in the terminal: one process, one binary.
//!
//! # The map
//!
//! Each floor imports only floors below it; nothing below floor 4 knows a terminal. `tests/it/layout.rs` holds this.
//!
//! | floor | modules | what |
//! |---|---|---|
//! | 0 | [`message`], [`event`], [`toolkit`], [`model`], [`choice`], [`home`], [`text`] | plain data that everybody names: messages, the event stream, what a tool is, what a model is; where files are; text on a terminal |
//! | 1 | [`config`], [`session`], [`provider`], [`theme`], [`watch`] | files under `~/.violin`; conversations as trees on disk, and the working tree's checkpoints; wire protocols over HTTP; themes; file watching. They do not know each other |
//! | 2 | [`tool`], [`context`], [`plugin`] | the six tools and the sandbox of commands; rules, skills, templates, the system prompt, the conversation built from the tree; Lua plugins |
//! | 3 | [`agent`] | the loop: runs, turns, calls, review, compaction |
//! | 4 | [`tui`], [`headless`], [`export`] | the front ends: they know the agent by its commands and updates alone; sessions written out for people |
//! | 5 | [`cli`] | arguments, the choice of a front end, exit statuses |
//!
//! # The path of data
//!
//! ```text
//! person → tui | headless → agent::Command → agent task → session.append → provider stream → StreamEvent → accumulator
//!                                               └ tool calls → review → run → session.append ┐                │
//! tui | headless | --json ← agent::Update (events, entries, state) ←─────────────────────────┴────────────────┘
//! ```
//!
//! # The rules
//!
//! - An entry is on disk before its event is told. Channels are bounded and awaited: a slow reader slows the stream.
//! - Every wait ends at a cancelled token; dropping a provider's stream ends its request.
//! - A file that orchestrates only routes. A thing's name stands in one file and one line of a table: tools in
//!   [`tool`], protocols in [`provider::PROVIDERS`], key actions, slash commands and panes in [`tui`].
//! - Text from models, tools, files and sessions passes [`text::clean`] before it reaches a terminal.

pub mod agent;
pub mod choice;
pub mod cli;
pub mod config;
pub mod context;
pub mod event;
pub mod export;
pub mod headless;
pub mod home;
pub mod message;
pub mod model;
pub mod plugin;
pub mod provider;
pub mod session;
pub mod text;
pub mod theme;
pub mod tool;
pub mod toolkit;
pub mod tui;
pub mod watch;
