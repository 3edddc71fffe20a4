//! The full-screen interface.
//!
//! ```text
//! bytes → term::Decoder → Input ─┐
//! agent → Update ────────────────┼→ Msg → update::update(&mut AppState) → Vec<Effect> → effects::Runner → Done ─┐
//! effects → Done ────────────────┘                                          └→ Command → agent                 │
//!         ↑──────────────────────────────────────────────────────────────────────────────────────────────────┘
//! when dirty, after all that waits was taken:  layout::layout(&mut AppState)  then  draw::draw(&AppState, buffer)
//! ```
//!
//! `update` alone changes meaning, `layout` alone writes caches and hit boxes, `draw` only reads. What keys,
//! slash commands and lists do stands in tables ([`actions::ACTIONS`], [`commands::SLASHES`]); help and the
//! README are made from them. The interface knows the agent by its commands and updates, and the rest of the
//! program by [`sources::Sources`]; it never asks for a tool's name, only for the kind of a result's view.

pub mod actions;
pub mod app;
pub mod clipboard;
pub mod commands;
pub mod draw;
mod effects;
#[cfg(debug_assertions)]
mod fault;
pub mod highlight;
pub mod images;
pub mod keys;
pub mod layout;
pub mod list;
pub mod msg;
pub mod page;
pub mod pane;
pub mod plugins;
pub mod prompt;
pub mod reference;
pub mod review;
mod run;
pub mod sources;
pub mod term;
pub mod transcript;
pub mod tree;
pub mod update;
pub mod words;

pub use run::{Exit, Notify, Options, Start, TuiError, run};
