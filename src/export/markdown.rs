//! A session as Markdown.

use super::{Part, parts, title};
use crate::session::Loaded;
use crate::text::clean;

/// The session's branch as Markdown.
pub fn markdown(loaded: &Loaded) -> String {
    let mut out = format!("# {}\n\n`{}` in `{}`\n", title(loaded), clean(&loaded.header.id), clean(&loaded.header.cwd));
    for part in parts(loaded) {
        match part {
            Part::User { text, images } => {
                out.push_str(&format!("\n## You\n\n{}\n", clean(&text)));
                if !images.is_empty() {
                    out.push_str(&format!("\n({} images)\n", images.len()));
                }
            }
            Part::Answer(text) => out.push_str(&format!("\n{}\n", clean(&text))),
            Part::Thinking(text) => out.push_str(&format!("\n> {}\n", clean(&text).replace('\n', "\n> "))),
            Part::Call { name, arguments, output, failed } => {
                let mark = if failed { " (failed)" } else { "" };
                out.push_str(&format!("\n**{}**{mark}\n\n{}", clean(&name), fenced(&arguments)));
                if let Some(output) = output {
                    out.push_str(&format!("\n{}", fenced(&output)));
                }
            }
            Part::Note(text) => out.push_str(&format!("\n*{}*\n", clean(text.trim()))),
        }
    }
    out
}

/// A text in a fence that is longer than any in it.
fn fenced(text: &str) -> String {
    let text = clean(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}\n", text.trim_end())
}
