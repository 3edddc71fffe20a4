//! What several tests share.

pub mod decode;
pub mod home;
// The tests of the interface use more of it.
#[allow(dead_code)]
pub mod pty;
pub mod server;
pub mod validate;
pub mod wire;
