//! What a prompt on the command line is made of: standard input, the words, `@file` words, images.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use super::Exit;
use crate::home::open_regular;
use crate::message::{Block, UserMessage};
use crate::tool::{image, path};

/// Standard input is read to this; a prompt is shorter.
const MOST_INPUT: u64 = 16 << 20;

/// A file that is attached as text is read to this.
const MOST_TEXT: u64 = 1 << 20;

/// Whether keys can be read: from standard input or, where that is something else, from the terminal itself.
pub fn has_terminal() -> bool {
    io::stdin().is_terminal() || std::fs::OpenOptions::new().read(true).write(true).open("/dev/tty").is_ok()
}

/// What stands on standard input, where it is no terminal.
pub fn standard_input() -> Result<Option<String>, Exit> {
    if io::stdin().is_terminal() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    io::stdin().lock().take(MOST_INPUT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_INPUT {
        return Err(Exit::usage("standard input is longer than 16 MB, which no model takes"));
    }
    let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
    Ok((!text.is_empty()).then_some(text))
}

/// The message of the command line, and what should be told about it; `None`: there is nothing in it.
pub fn prompt(
    cwd: &Path,
    piped: Option<String>,
    words: &str,
    images: &[PathBuf],
) -> Result<Option<(UserMessage, Vec<String>)>, Exit> {
    let (mut attached, mut content, mut notices) = (Vec::new(), Vec::new(), Vec::new());
    for word in words.split_whitespace().filter_map(|word| word.strip_prefix('@')).filter(|word| !word.is_empty()) {
        let file = path::resolve(cwd, word);
        match path::existing(&file).filter(|file| file.is_file()) {
            Some(file) => attach(&file, &mut attached, &mut content)?,
            None => notices.push(format!("there is no file `{word}`; `@{word}` stays as it is")),
        }
    }
    for file in images {
        let file = cwd.join(file);
        let bytes = read(&file, image::MOST_BYTES)?;
        let image = image::prepare(&bytes).map_err(|error| Exit::usage(format!("{}: {error}", file.display())))?;
        content.push(image.block());
    }
    let parts = piped.into_iter().chain(attached).chain((!words.trim().is_empty()).then(|| words.to_owned()));
    let text = parts.collect::<Vec<_>>().join("\n\n");
    if text.is_empty() && content.is_empty() {
        return Ok(None);
    }
    if !text.is_empty() {
        content.insert(0, Block::Text { text });
    }
    Ok(Some((UserMessage { content }, notices)))
}

fn attach(file: &Path, texts: &mut Vec<String>, images: &mut Vec<Block>) -> Result<(), Exit> {
    let bytes = read(file, image::MOST_BYTES)?;
    if image::sniff(&bytes).is_some() {
        let image = image::prepare(&bytes).map_err(|error| Exit::usage(format!("{}: {error}", file.display())))?;
        images.push(image.block());
        return Ok(());
    }
    if bytes.len() as u64 > MOST_TEXT {
        return Err(Exit::usage(format!(
            "{} is larger than 1 MB; name it without the @ and the model reads what it needs",
            file.display()
        )));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Exit::usage(format!("{} is neither text nor an image", file.display())))?;
    texts.push(format!("<file path=\"{}\">\n{}\n</file>", file.display(), text.trim_end()));
    Ok(())
}

fn read(file: &Path, most: u64) -> Result<Vec<u8>, Exit> {
    let cannot = |error: io::Error| Exit::usage(format!("{} cannot be read: {error}", file.display()));
    let opened = open_regular(file).map_err(cannot)?;
    let mut bytes = Vec::new();
    opened.take(most + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > most {
        return Err(Exit::usage(format!("{} is too large", file.display())));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::text_of;

    #[test]
    fn input_files_and_words_stand_in_order() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("a.txt"), "inside\n").expect("written");
        let (message, notices) =
            prompt(dir.path(), Some("piped".into()), "see @a.txt and @nobody", &[]).expect("read").expect("something");
        let text = text_of(&message.content);
        assert!(
            text.starts_with("piped\n\n<file path=") && text.ends_with("inside\n</file>\n\nsee @a.txt and @nobody"),
            "{text}"
        );
        assert_eq!(notices.len(), 1);
        assert!(prompt(dir.path(), None, " ", &[]).expect("read").is_none());
        assert!(prompt(dir.path(), None, "x", &["a.txt".into()]).is_err(), "a text is no image");
    }
}
