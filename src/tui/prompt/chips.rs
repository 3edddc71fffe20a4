//! Chips: short marks in the prompt that stand for a long paste or an image.

use unicode_segmentation::UnicodeSegmentation;

use crate::message::{Block, UserMessage, text_of};

/// An image, ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// Such as `image/png`.
    pub mime_type: String,
    /// Base64 of the bytes.
    pub data: String,
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
}

/// What a mark stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum Chip {
    /// A text.
    Paste(String),
    /// An image.
    Image(Image),
}

/// All chips of a prompt. They stay while it is written, so that undo finds them again.
#[derive(Debug, Clone, Default)]
pub struct Chips {
    chips: Vec<(String, Chip)>,
    pastes: usize,
    images: usize,
}

impl Chips {
    /// Keeps a paste; its mark.
    pub fn add_paste(&mut self, text: String, lines: usize) -> String {
        self.pastes += 1;
        let size = if lines > 1 { format!("+{lines} lines") } else { format!("{} chars", text.chars().count()) };
        let mark = format!("[paste #{} {size}]", self.pastes);
        self.chips.push((mark.clone(), Chip::Paste(text)));
        mark
    }

    /// Keeps an image; its mark.
    pub fn add_image(&mut self, image: Image) -> String {
        self.images += 1;
        let size = if image.width > 0 { format!(" {}×{}", image.width, image.height) } else { String::new() };
        let mark = format!("[image #{}{size}]", self.images);
        self.chips.push((mark.clone(), Chip::Image(image)));
        mark
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Chips::default();
    }

    /// Whether a text holds the mark of an image.
    pub fn has_images(&self, text: &str) -> bool {
        self.chips.iter().any(|(mark, chip)| matches!(chip, Chip::Image(_)) && text.contains(mark.as_str()))
    }

    /// The marks in a line, as ranges of characters.
    pub fn spans(&self, line: &str) -> Vec<(usize, usize)> {
        if self.chips.is_empty() || !line.contains('[') {
            return Vec::new();
        }
        let mut spans = Vec::new();
        for (mark, _) in &self.chips {
            for (at, _) in line.match_indices(mark.as_str()) {
                let start = line[..at].chars().count();
                spans.push((start, start + mark.chars().count()));
            }
        }
        spans.sort_unstable();
        spans
    }

    /// What a reader takes for one character each: graphemes, and marks whole; as ranges of characters.
    pub fn units(&self, line: &str) -> Vec<(usize, usize)> {
        let spans = self.spans(line);
        let mut spans = spans.into_iter().peekable();
        let mut units: Vec<(usize, usize)> = Vec::new();
        let mut at = 0;
        for grapheme in line.graphemes(true) {
            let end = at + grapheme.chars().count();
            while spans.peek().is_some_and(|(_, to)| *to <= at) {
                spans.next();
            }
            match spans.peek() {
                // A character that begins or ends within a mark, as with an accent behind it, goes with it.
                Some((from, to)) if *from < end => match units.last_mut().filter(|last| last.1 > at) {
                    Some(last) => last.1 = last.1.max(end),
                    None => units.push((at.min(*from), end.max(*to))),
                },
                _ => units.push((at, end)),
            }
            at = end;
        }
        units
    }

    /// A text with pastes in place of their marks.
    pub fn expand(&self, text: &str) -> String {
        let mut out = String::new();
        self.parts(text, |part| match part {
            Part::Text(text) => out.push_str(text),
            Part::Chip(_, Chip::Paste(paste)) => out.push_str(paste),
            Part::Chip(mark, Chip::Image(_)) => out.push_str(mark),
        });
        out
    }

    /// The message that a text stands for; `None` where there is nothing in it.
    pub fn message(&self, text: &str) -> Option<UserMessage> {
        let mut content = Vec::new();
        let mut images = Vec::new();
        let mut said = String::new();
        self.parts(text, |part| match part {
            Part::Text(text) => said.push_str(text),
            Part::Chip(_, Chip::Paste(paste)) => said.push_str(paste),
            Part::Chip(mark, Chip::Image(image)) => {
                said.push_str(mark);
                images.push(Block::Image { mime_type: image.mime_type.clone(), data: image.data.clone() });
            }
        });
        let said = said.trim_end();
        if !said.trim().is_empty() {
            content.push(Block::Text { text: said.to_owned() });
        }
        content.append(&mut images);
        (!content.is_empty()).then_some(UserMessage { content })
    }

    /// The text of a message that comes back: its images become chips again.
    pub fn text_of(&mut self, message: &UserMessage) -> String {
        let mut text = text_of(&message.content);
        for block in &message.content {
            if let Block::Image { mime_type, data } = block {
                let image = Image { mime_type: mime_type.clone(), data: data.clone(), width: 0, height: 0 };
                // The old mark stands in the text and gets the image again.
                match find_mark(&text, &self.chips) {
                    Some(mark) => self.chips.push((mark, Chip::Image(image))),
                    None => {
                        let mark = self.add_image(image);
                        text = if text.is_empty() { mark } else { format!("{text} {mark}") };
                    }
                }
            }
        }
        self.images = self.images.max(self.chips.len());
        text
    }

    fn parts<'t>(&'t self, text: &'t str, mut take: impl FnMut(Part<'t>)) {
        let mut rest = text;
        loop {
            let next = self.chips.iter().filter_map(|(mark, chip)| Some((rest.find(mark.as_str())?, mark, chip)));
            let Some((at, mark, chip)) = next.min_by_key(|(at, ..)| *at) else {
                take(Part::Text(rest));
                return;
            };
            take(Part::Text(&rest[..at]));
            take(Part::Chip(mark, chip));
            rest = &rest[at + mark.len()..];
        }
    }
}

enum Part<'t> {
    Text(&'t str),
    Chip(&'t str, &'t Chip),
}

/// The first mark of an image in a text that no chip has.
fn find_mark(text: &str, chips: &[(String, Chip)]) -> Option<String> {
    let mut rest = text;
    while let Some(at) = rest.find("[image #") {
        let end = rest[at..].find(']').map(|end| at + end + 1)?;
        let mark = &rest[at..end];
        if mark.len() < 40 && !chips.iter().any(|(known, _)| known == mark) {
            return Some(mark.to_owned());
        }
        rest = &rest[end..];
    }
    None
}
