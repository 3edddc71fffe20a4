//! Integration tests: one binary, so that it is linked once.

mod compaction;
mod conformance;
mod control;
mod layout;
mod link;
mod main_job;
mod providers;
mod screen;
mod streams;
mod support;
mod terminal;
