//! Lua plugins (formats.md, "Plugins"): hooks around the loop, and tools and commands of their own.
//!
//! [`Host`] holds them. Each has a thread and a Lua state of its own (`worker`), a state that bounds memory and time
//! (`sandbox` with `prelude.lua`, `pattern`, `budget`), and the table `violin` (`api`, `store`, `value`). What there is
//! tells `find`, what they may do `grants`. Nothing here knows the loop, a provider or the screen.

mod api;
mod budget;
pub mod examples;
mod find;
mod grants;
mod hooks;
mod host;
mod moments;
mod pattern;
mod sandbox;
mod shared;
mod store;
mod tool;
mod value;
mod worker;

#[cfg(test)]
mod host_tests;

pub use grants::Permission;
pub use host::{Host, PluginRow};
pub use moments::{Blocked, CommandOutcome, Ended, EndedCall, Injection, Started};
pub use shared::{Origin, State, Told, World};
