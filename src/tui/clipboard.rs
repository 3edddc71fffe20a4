//! The clipboard behind a small trait, so that tests need none.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Pixels as a clipboard gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pixels {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Four bytes a pixel.
    pub rgba: Vec<u8>,
}

/// A clipboard.
pub trait Clipboard {
    /// The text in it; `None` where there is none.
    ///
    /// # Errors
    /// Where the clipboard cannot be reached.
    fn text(&mut self) -> Result<Option<String>, String>;

    /// The image in it; `None` where there is none.
    ///
    /// # Errors
    /// Where the clipboard cannot be reached.
    fn image(&mut self) -> Result<Option<Pixels>, String>;

    /// Puts a text in.
    ///
    /// # Errors
    /// Where the clipboard cannot be reached.
    fn set_text(&mut self, text: &str) -> Result<(), String>;
}

/// The system's clipboard, opened when it is first needed and kept: X11 asks its owner for what was copied.
#[derive(Default)]
pub struct SystemClipboard {
    open: Option<arboard::Clipboard>,
}

impl SystemClipboard {
    fn open(&mut self) -> Result<&mut arboard::Clipboard, String> {
        if self.open.is_none() {
            let opened = arboard::Clipboard::new().map_err(|error| {
                format!("there is no clipboard here: {}", crate::text::first_line(&error.to_string()))
            })?;
            self.open = Some(opened);
        }
        self.open.as_mut().ok_or_else(|| "there is no clipboard here".to_owned())
    }
}

/// A clipboard that is slower than this is taken for one that hangs: a display that is reached and does not answer, a
/// program that copied something and is stopped.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Asks a clipboard, and waits no longer than is bearable for somebody who pressed a key.
///
/// # Errors
/// What `question` says; also where it takes too long, or an earlier one still does.
pub fn ask<C: Clipboard + Send + 'static, T: Send + 'static>(
    clipboard: &Arc<Mutex<C>>,
    question: impl FnOnce(&mut C) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (tell, told) = mpsc::sync_channel(1);
    let clipboard = clipboard.clone();
    // What hangs cannot be ended. Its thread goes with the process, which waits for none.
    std::thread::spawn(move || {
        let Ok(mut clipboard) = clipboard.lock() else { return };
        // Nobody may wait any more.
        let _ = tell.send(question(&mut clipboard));
    });
    told.recv_timeout(PATIENCE).unwrap_or_else(|_| Err("the clipboard does not answer".to_owned()))
}

fn found<T>(result: Result<T, arboard::Error>) -> Result<Option<T>, String> {
    match result {
        Ok(content) => Ok(Some(content)),
        Err(arboard::Error::ContentNotAvailable | arboard::Error::ConversionFailure) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

impl Clipboard for SystemClipboard {
    fn text(&mut self) -> Result<Option<String>, String> {
        found(self.open()?.get_text())
    }

    fn image(&mut self) -> Result<Option<Pixels>, String> {
        let image = found(self.open()?.get_image())?;
        Ok(image.map(|image| Pixels { width: image.width, height: image.height, rgba: image.bytes.into_owned() }))
    }

    fn set_text(&mut self, text: &str) -> Result<(), String> {
        self.open()?.set_text(text).map_err(|error| error.to_string())
    }
}
