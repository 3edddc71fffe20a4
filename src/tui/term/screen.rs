//! Puts frames on the terminal: only the cells that changed, in as few bytes as will do, each frame as one
//! synchronized write. It stands in the place of ratatui's own `Terminal`, which cannot scroll a region
//! together with its memory of it.

use std::fmt::Write as _;
use std::sync::Arc;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier};

use crate::text;

/// Rows that only moved since the last frame: the terminal can move them itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scrolled {
    /// The first row of the region.
    pub top: u16,
    /// The row after its last.
    pub bottom: u16,
    /// By how many rows they moved up.
    pub up: u16,
}

/// Cells of a row that lead somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The row.
    pub y: u16,
    /// The first column.
    pub from: u16,
    /// The column after the last.
    pub to: u16,
    /// The address, in plain characters.
    pub target: Arc<str>,
}

/// Turns frames into bytes.
#[derive(Debug)]
pub struct Painter {
    shown: Buffer,
    next: Buffer,
    caret: Option<Position>,
    /// Nothing is known of what the terminal shows.
    anew: bool,
    out: String,
    pen: Pen,
    /// Where the terminal was told that what follows leads.
    link: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Pen {
    fg: Color,
    bg: Color,
    modifier: Modifier,
    at: Option<(u16, u16)>,
}

const PLAIN: Pen = Pen { fg: Color::Reset, bg: Color::Reset, modifier: Modifier::empty(), at: None };

impl Painter {
    /// For a terminal of that size.
    pub fn new(area: Rect) -> Self {
        Painter {
            shown: Buffer::empty(area),
            next: Buffer::empty(area),
            caret: None,
            anew: true,
            out: String::new(),
            pen: PLAIN,
            link: None,
        }
    }

    /// Forgets what the terminal shows: the next frame is whole.
    pub fn forget(&mut self) {
        self.anew = true;
    }

    /// The area that is painted.
    pub fn area(&self) -> Rect {
        self.next.area
    }

    /// Another size.
    pub fn resize(&mut self, area: Rect) {
        if area != self.next.area {
            self.shown = Buffer::empty(area);
            self.next = Buffer::empty(area);
            self.anew = true;
        }
    }

    /// Draws a frame and gives the bytes for it; empty where nothing changed. `draw` fills an empty buffer
    /// and says where the caret stands. Cells that `links` names are sent as links.
    pub fn frame(
        &mut self,
        scrolled: Option<Scrolled>,
        links: &[Link],
        draw: impl FnOnce(&mut Buffer) -> Option<Position>,
    ) -> &str {
        self.next.reset();
        let caret = draw(&mut self.next);
        self.out.clear();
        self.out.push_str("\x1b[?2026h");
        let begun = self.out.len();
        self.pen = PLAIN;
        if self.anew {
            self.out.push_str("\x1b[0m\x1b[2J");
            self.shown.reset();
            self.pen.at = None;
        } else if let Some(scrolled) = scrolled {
            self.scroll(scrolled);
        }
        for y in 0..self.next.area.height {
            let first = links.partition_point(|link| link.y < y);
            let count = links[first..].partition_point(|link| link.y == y);
            self.row(y, &links[first..first + count]);
        }
        let painted = self.out.len() > begun;
        if painted {
            self.lead(None);
            self.style(&Cell::EMPTY);
        }
        if caret != self.caret || painted || self.anew {
            match caret {
                Some(Position { x, y }) => {
                    let _ = write!(self.out, "\x1b[{};{}H", y + 1, x + 1);
                    if self.caret.is_none() || self.anew {
                        self.out.push_str("\x1b[?25h");
                    }
                }
                None if self.caret.is_some() || self.anew => self.out.push_str("\x1b[?25l"),
                None => {}
            }
            self.caret = caret;
        }
        self.anew = false;
        std::mem::swap(&mut self.shown, &mut self.next);
        if self.out.len() == begun {
            return "";
        }
        self.out.push_str("\x1b[?2026l");
        &self.out
    }

    fn scroll(&mut self, scrolled: Scrolled) {
        let Scrolled { top, bottom, up } = scrolled;
        let (width, height) = (usize::from(self.shown.area.width), self.shown.area.height);
        if up == 0 || bottom > height || top >= bottom || up >= bottom - top {
            return;
        }
        let _ = write!(self.out, "\x1b[{};{}r\x1b[{up}S\x1b[r", top + 1, bottom);
        let cell = |row: u16| usize::from(row) * width;
        self.shown.content[cell(top)..cell(bottom)].rotate_left(cell(up));
        for cell in &mut self.shown.content[cell(bottom - up)..cell(bottom)] {
            cell.reset();
        }
        self.pen.at = None;
    }

    /// Says where what follows leads.
    fn lead(&mut self, target: Option<&Arc<str>>) {
        if self.link.as_ref() != target {
            let _ = write!(self.out, "\x1b]8;;{}\x1b\\", target.map_or("", |target| target));
            self.link = target.cloned();
        }
    }

    fn row(&mut self, y: u16, links: &[Link]) {
        let width = self.next.area.width;
        let start = usize::from(y) * usize::from(width);
        let cells = &self.next.content[start..start + usize::from(width)];
        // Most rows are as they were.
        if *cells == self.shown.content[start..start + usize::from(width)] {
            return;
        }
        let blank_from = cells.iter().rposition(|cell| *cell != Cell::EMPTY).map_or(0, |at| at + 1) as u16;
        let mut x = 0;
        // Cells that a wide character covered before, or covers now, cannot be trusted.
        let mut doubtful = 0;
        while x < width {
            let at = start + usize::from(x);
            let cells = cell_width(&self.next.content[at]).max(1);
            if doubtful == 0 && self.next.content[at] == self.shown.content[at] {
                x += cells;
                continue;
            }
            if x >= blank_from && width - x > 4 {
                let end = start + usize::from(width);
                if doubtful > 0 || self.shown.content[at..end].iter().any(|cell| *cell != Cell::EMPTY) {
                    self.move_to(x, y);
                    self.lead(None);
                    self.style(&Cell::EMPTY);
                    self.out.push_str("\x1b[K");
                }
                return;
            }
            let before = cell_width(&self.shown.content[at]);
            doubtful = doubtful.max(before).max(cells).saturating_sub(cells);
            self.move_to(x, y);
            let cell = self.next.content[at].clone();
            let link = links.iter().find(|link| link.from <= x && x < link.to);
            self.lead(link.map(|link| &link.target));
            self.style(&cell);
            let symbol = cell.symbol();
            let simple = symbol.len() == 1 || (symbol.chars().nth(1).is_none() && !is_half_flag(symbol));
            if !simple {
                // Terminals differ in how wide they draw it: clear what it may cover, and measure anew after it.
                for _ in 0..cells {
                    self.out.push(' ');
                }
                let _ = write!(self.out, "\x1b[{}G", x + 1);
            }
            self.out.push_str(symbol);
            // What a terminal that does not join it may have drawn over is drawn again.
            doubtful = doubtful.max(reach(symbol).saturating_sub(cells));
            x += cells;
            self.pen.at = if simple && x < width { Some((x, y)) } else { None };
        }
    }

    fn move_to(&mut self, x: u16, y: u16) {
        match self.pen.at {
            Some(at) if at == (x, y) => {}
            Some((_, row)) if row == y => {
                let _ = write!(self.out, "\x1b[{}G", x + 1);
            }
            _ => {
                let _ = write!(self.out, "\x1b[{};{}H", y + 1, x + 1);
            }
        }
        self.pen.at = Some((x, y));
    }

    fn style(&mut self, cell: &Cell) {
        let (mut fg, mut bg, mut modifier) = (self.pen.fg, self.pen.bg, self.pen.modifier);
        if (fg, bg, modifier) == (cell.fg, cell.bg, cell.modifier) {
            return;
        }
        self.out.push_str("\x1b[");
        let begun = self.out.len();
        if !(modifier - cell.modifier).is_empty() || (cell.fg, cell.bg) == (Color::Reset, Color::Reset) {
            self.out.push('0');
            (fg, bg, modifier) = (Color::Reset, Color::Reset, Modifier::empty());
        }
        for (flag, code) in [
            (Modifier::BOLD, '1'),
            (Modifier::DIM, '2'),
            (Modifier::ITALIC, '3'),
            (Modifier::UNDERLINED, '4'),
            (Modifier::REVERSED, '7'),
            (Modifier::CROSSED_OUT, '9'),
        ] {
            if (cell.modifier - modifier).contains(flag) {
                self.part(begun);
                self.out.push(code);
            }
        }
        if fg != cell.fg {
            self.part(begun);
            colour(&mut self.out, cell.fg, 30);
        }
        if bg != cell.bg {
            self.part(begun);
            colour(&mut self.out, cell.bg, 40);
        }
        self.out.push('m');
        (self.pen.fg, self.pen.bg, self.pen.modifier) = (cell.fg, cell.bg, cell.modifier);
    }

    fn part(&mut self, begun: usize) {
        if self.out.len() > begun {
            self.out.push(';');
        }
    }
}

fn cell_width(cell: &Cell) -> u16 {
    match cell.symbol() {
        symbol if symbol.len() == 1 => 1,
        symbol => text::width(symbol).min(8) as u16,
    }
}

/// Half of a flag whose other half is still to come, say: some terminals draw it over two cells.
fn is_half_flag(symbol: &str) -> bool {
    symbol.starts_with(|c| ('\u{1f1e6}'..='\u{1f1ff}').contains(&c))
}

/// How many cells a symbol takes on a terminal that draws each of its characters for itself.
fn reach(symbol: &str) -> u16 {
    if symbol.len() == 1 {
        1
    } else if is_half_flag(symbol) {
        2
    } else {
        symbol.chars().map(|c| text::width(c.encode_utf8(&mut [0; 4]))).sum::<usize>() as u16
    }
}

fn colour(out: &mut String, colour: Color, base: u8) {
    let index = match colour {
        Color::Reset => {
            let _ = write!(out, "{}", base + 9);
            return;
        }
        Color::Rgb(r, g, b) => {
            let _ = write!(out, "{};2;{r};{g};{b}", base + 8);
            return;
        }
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 8,
        Color::LightRed => 9,
        Color::LightGreen => 10,
        Color::LightYellow => 11,
        Color::LightBlue => 12,
        Color::LightMagenta => 13,
        Color::LightCyan => 14,
        Color::White => 15,
        Color::Indexed(index) => index,
    };
    let _ = match index {
        0..=7 => write!(out, "{}", base + index),
        8..=15 => write!(out, "{}", base + 60 + index - 8),
        _ => write!(out, "{};5;{index}", base + 8),
    };
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    fn write(buffer: &mut Buffer, lines: &[&str]) {
        for (y, line) in lines.iter().enumerate().take(usize::from(buffer.area.height)) {
            buffer.set_stringn(0, y as u16, line, usize::from(buffer.area.width), Style::new());
        }
    }

    fn shows(parser: &vt100::Parser) -> Vec<String> {
        parser.screen().rows(0, parser.screen().size().1).map(|row| row.trim_end().to_owned()).collect()
    }

    #[test]
    fn frames_bring_the_terminal_to_what_was_drawn() {
        let mut painter = Painter::new(Rect::new(0, 0, 12, 4));
        let mut parser = vt100::Parser::new(4, 12, 0);
        let frames: &[&[&str]] = &[
            &["hello", "日本語", "", "end"],
            &["hel", "a本語日本", "x", "end"],
            &["", "abc", "日", ""],
            &["日本語日本語", "日本語日本語", "日本語日本語", "日本語日本語"],
            &["aa本a日本a", "", "xxxxxxxxxxxx", "日本語日本語"],
            &[],
        ];
        for lines in frames {
            let bytes = painter.frame(None, &[], |buffer| {
                write(buffer, lines);
                Some(Position { x: 3, y: 1 })
            });
            assert_eq!(bytes.matches("\x1b[?2026h").count(), bytes.matches("\x1b[?2026l").count());
            parser.process(bytes.as_bytes());
            let wanted: Vec<String> = (0..4).map(|y| lines.get(y).copied().unwrap_or("").to_owned()).collect();
            assert_eq!(shows(&parser), wanted);
            assert_eq!(parser.screen().cursor_position(), (1, 3));
        }
    }

    /// traps.md B76: after whatever terminals draw in different widths, the next cell is named and not counted on.
    #[test]
    fn what_terminals_measure_differently_shifts_nothing() {
        for symbol in ["♻\u{fe0f}", "❤\u{fe0f}", "👩\u{200d}🔬", "🥲🏻", "🇨", "🇨🇳", "e\u{301}", "क्ष"]
        {
            let mut painter = Painter::new(Rect::new(0, 0, 9, 1));
            let bytes = painter.frame(None, &[], |buffer| {
                write(buffer, &[&format!("{symbol}│")]);
                None
            });
            let column = text::width(symbol) + 1;
            assert!(bytes.contains(&format!("{symbol}\x1b[1;{column}H│")), "{bytes:?}");
        }
    }

    #[test]
    fn nothing_is_sent_where_nothing_changed() {
        let mut painter = Painter::new(Rect::new(0, 0, 10, 2));
        painter.frame(None, &[], |buffer| {
            write(buffer, &["one"]);
            None
        });
        let again = painter.frame(None, &[], |buffer| {
            write(buffer, &["one"]);
            None
        });
        assert_eq!(again, "");
    }

    #[test]
    fn a_scrolled_region_costs_only_its_new_rows() {
        let mut painter = Painter::new(Rect::new(0, 0, 10, 5));
        let mut parser = vt100::Parser::new(5, 10, 0);
        let first = ["head", "a1111111", "b2222222", "c3333333", "foot"];
        parser.process(
            painter
                .frame(None, &[], |buffer| {
                    write(buffer, &first);
                    None
                })
                .as_bytes(),
        );
        let second = ["head", "b2222222", "c3333333", "d4444444", "foot"];
        let bytes = painter.frame(Some(Scrolled { top: 1, bottom: 4, up: 1 }), &[], |buffer| {
            write(buffer, &second);
            None
        });
        assert!(!bytes.contains("c3") && bytes.contains("d4444444"), "{bytes:?}");
        parser.process(bytes.as_bytes());
        assert_eq!(shows(&parser), second);
    }

    #[test]
    fn styles_are_carried_over() {
        let mut painter = Painter::new(Rect::new(0, 0, 6, 1));
        let bytes = painter.frame(None, &[], |buffer| {
            buffer.set_string(0, 0, "ab", Style::new().fg(Color::Rgb(1, 2, 3)).add_modifier(Modifier::BOLD));
            buffer.set_string(2, 0, "cd", Style::new().fg(Color::Rgb(1, 2, 3)));
            buffer.set_string(4, 0, "e", Style::new().bg(Color::Indexed(9)));
            None
        });
        assert!(bytes.contains("\x1b[1;38;2;1;2;3mab\x1b[0;38;2;1;2;3mcd\x1b[39;101me\x1b[0m"), "{bytes:?}");
    }
}
