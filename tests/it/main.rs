//! Integration tests: one binary, so that it is linked once.

mod conformance;
mod link;
mod main_job;
mod providers;
mod streams;
mod support;
