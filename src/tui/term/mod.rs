//! The terminal itself: bytes in become [`Input`]s, frames go out as few bytes as they can, and whatever was
//! switched on is switched off again on every way out. Nothing here knows what is shown.

mod guard;
mod input;
mod screen;

pub use guard::{Options, Terminal, restore_on_panic};
pub use input::{Decoder, Input};
pub use screen::{Link, Painter, Scrolled};
