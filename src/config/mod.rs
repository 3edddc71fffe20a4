//! What a person configures: models, settings, keys. It reads and writes files and asks nobody.

pub mod discover;
pub mod jsonc;
pub mod models;
pub mod secret;
pub mod settings;
pub mod trust;

pub use jsonc::Mistake;
pub use models::Models;
pub use settings::Settings;
