//! Integration tests: one binary, so that it is linked once.

mod clipboard;
mod compaction;
mod conformance;
mod control;
mod durable;
mod layout;
mod leaving;
mod link;
mod main_job;
mod plugins;
mod pointer;
mod providers;
mod rewind;
mod screen;
mod streams;
mod support;
mod terminal;
mod totality;
mod traps_input;
mod traps_safety;
mod traps_screen;
