//! A panic on purpose, for the test that it gives the terminal back whole. No release build has it.

use super::app::AppState;

/// Panics where the prompt holds what `VIOLIN_TEST_PANIC` says.
pub fn provoke(app: &AppState) {
    let wanted = std::env::var("VIOLIN_TEST_PANIC").unwrap_or_default();
    assert!(wanted.is_empty() || app.prompt.text() != wanted, "a panic on purpose");
}
