//! What several tests share.

pub mod decode;
pub mod home;
pub mod pty;
pub mod server;
pub mod validate;
pub mod wire;
