//! What several tests share.

pub mod home;
pub mod server;
pub mod validate;
pub mod wire;
