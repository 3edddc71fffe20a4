//! Pictures of screens for the README: a buffer as SVG. Only tests need it.

use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

use crate::text;

const CELL: (f32, f32) = (8.4, 18.0);
/// What a terminal's own colours look like, on a dark ground and on a light one.
const ANSI: [&str; 9] =
    ["#24262b", "#d0605a", "#5f9a50", "#b08a2a", "#5a86c8", "#a070c0", "#4f9a9a", "#a8abb2", "#7a7f88"];

/// A buffer as a picture, on a dark or a light ground.
pub fn svg(buffer: &Buffer, dark: bool) -> String {
    let (ground, ink) = if dark { ("#16181d", "#d7dae0") } else { ("#fbfbf9", "#24262b") };
    let (columns, rows) = (f32::from(buffer.area.width), f32::from(buffer.area.height));
    let (width, height) = (columns * CELL.0 + 24.0, rows * CELL.1 + 24.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\">\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{ground}\"/>\n"
    );
    for y in 0..buffer.area.height {
        let mut x = 0;
        let top = 12.0 + f32::from(y) * CELL.1;
        while x < buffer.area.width {
            let first = &buffer[(x, y)];
            let begun = x;
            let mut run = String::new();
            while x < buffer.area.width {
                let cell = &buffer[(x, y)];
                // Fonts differ in how wide a wide character is: each is put into its cells by itself.
                let wide = text::width(cell.symbol()) > 1;
                let same = (cell.fg, cell.bg, cell.modifier) == (first.fg, first.bg, first.modifier);
                if !same || (wide && !run.is_empty()) {
                    break;
                }
                run.push_str(cell.symbol());
                x += text::width(cell.symbol()).max(1) as u16;
                if wide {
                    break;
                }
            }
            let (mut fg, mut bg) = (hex(first.fg), hex(first.bg));
            if first.modifier.contains(Modifier::REVERSED) {
                (fg, bg) = (Some(bg.unwrap_or(ground.to_owned())), Some(fg.unwrap_or(ink.to_owned())));
            }
            let left = 12.0 + f32::from(begun) * CELL.0;
            let cells = f32::from(x - begun) * CELL.0;
            if let Some(bg) = bg {
                let _ = writeln!(
                    out,
                    "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{cells:.1}\" height=\"{}\" fill=\"{bg}\"/>",
                    CELL.1
                );
            }
            if run.trim().is_empty() {
                continue;
            }
            let mut style = String::new();
            for (flag, attribute) in [
                (Modifier::BOLD, " font-weight=\"bold\""),
                (Modifier::ITALIC, " font-style=\"italic\""),
                (Modifier::UNDERLINED, " text-decoration=\"underline\""),
                (Modifier::DIM, " opacity=\"0.6\""),
            ] {
                if first.modifier.contains(flag) {
                    style.push_str(attribute);
                }
            }
            let escaped = run.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let _ = writeln!(
                out,
                "<text x=\"{left:.1}\" y=\"{:.1}\" textLength=\"{cells:.1}\" lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\" fill=\"{}\"{style}>{escaped}</text>",
                top + 13.5,
                fg.unwrap_or(ink.to_owned())
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

fn hex(colour: Color) -> Option<String> {
    match colour {
        Color::Reset => None,
        Color::Rgb(r, g, b) => Some(format!("#{r:02x}{g:02x}{b:02x}")),
        Color::Indexed(index) => ANSI.get(usize::from(index)).map(|colour| (*colour).to_owned()),
        Color::Red => hex(Color::Indexed(1)),
        Color::Green => hex(Color::Indexed(2)),
        Color::Yellow => hex(Color::Indexed(3)),
        Color::Blue => hex(Color::Indexed(4)),
        Color::Magenta => hex(Color::Indexed(5)),
        Color::Cyan => hex(Color::Indexed(6)),
        _ => None,
    }
}
