//! Integration tests: one binary, so that it is linked once.

mod conformance;
mod control;
mod layout;
mod main_job;
mod screen;
mod support;
