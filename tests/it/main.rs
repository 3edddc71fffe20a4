//! Integration tests: one binary, so that it is linked once.

mod compaction;
mod conformance;
mod layout;
mod main_job;
mod screen;
mod support;
mod terminal;
