//! How many colours a terminal has, and the nearest of them.

use ratatui::style::Color;

/// How many colours the terminal shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// None: `NO_COLOR`, or a terminal that is `dumb`.
    None,
    /// The terminal's own 16.
    Ansi16,
    /// The 256 of xterm.
    Ansi256,
    /// 24 bits.
    True,
}

/// The levels of a channel in the colour cube of xterm.
const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// What the 16 colours usually look like.
const ANSI: [(u8, u8, u8); 16] = [
    (0, 0, 0),
    (205, 49, 49),
    (13, 188, 121),
    (229, 229, 16),
    (36, 114, 200),
    (188, 63, 188),
    (17, 168, 205),
    (229, 229, 229),
    (102, 102, 102),
    (241, 76, 76),
    (35, 209, 139),
    (245, 245, 67),
    (59, 142, 234),
    (214, 112, 214),
    (41, 184, 219),
    (255, 255, 255),
];

impl Depth {
    /// From the environment; `get` reads a variable.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| get(name).filter(|value| !value.is_empty());
        let term = set("TERM").unwrap_or_default();
        if set("NO_COLOR").is_some() || term == "dumb" {
            return Depth::None;
        }
        let colours = set("COLORTERM").unwrap_or_default();
        if colours == "truecolor" || colours == "24bit" || term.ends_with("-direct") || set("WT_SESSION").is_some() {
            return Depth::True;
        }
        if term.starts_with("xterm-kitty") || term.starts_with("alacritty") || term.starts_with("xterm-ghostty") {
            return Depth::True;
        }
        if term.contains("256color") { Depth::Ansi256 } else { Depth::Ansi16 }
    }

    /// Whether the terminal shows links (OSC 8), as far as its environment tells: those that do not know them may print their
    /// addresses as text.
    pub fn hyperlinks(get: impl Fn(&str) -> Option<String>) -> bool {
        let set = |name: &str| get(name).filter(|value| !value.is_empty());
        let number = |name: &str| set(name).and_then(|value| value.parse::<u32>().ok()).unwrap_or(0);
        let program = set("TERM_PROGRAM").unwrap_or_default();
        let version = set("TERM_PROGRAM_VERSION").unwrap_or_default();
        match program.as_str() {
            // tmux passes them on since 3.4.
            "tmux" => version.trim_end_matches(char::is_alphabetic).parse::<f32>().is_ok_and(|version| version >= 3.4),
            "iTerm.app" | "WezTerm" | "vscode" | "ghostty" => set("TMUX").is_none(),
            _ => {
                let term = set("TERM").unwrap_or_default();
                let known = ["xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm"];
                let kin =
                    set("WT_SESSION").is_some() || set("KONSOLE_VERSION").is_some() || number("VTE_VERSION") >= 5000;
                set("TMUX").is_none() && (kin || known.iter().any(|name| term.starts_with(name)))
            }
        }
    }

    /// The nearest colour that there is; `None` where there are none.
    pub fn nearest(self, colour: Color) -> Option<Color> {
        match (self, colour) {
            (Depth::None, _) => None,
            (Depth::Ansi256, Color::Rgb(r, g, b)) => Some(Color::Indexed(nearest_256(r, g, b))),
            (Depth::Ansi16, Color::Rgb(r, g, b)) => Some(Color::Indexed(nearest_16(r, g, b))),
            (Depth::Ansi16, Color::Indexed(index @ 16..)) => {
                let (r, g, b) = rgb_of(index);
                Some(Color::Indexed(nearest_16(r, g, b)))
            }
            (_, colour) => Some(colour),
        }
    }
}

fn distance(one: (u8, u8, u8), two: (u8, u8, u8)) -> u32 {
    let part = |a: u8, b: u8, weight: u32| weight * u32::from(a.abs_diff(b)).pow(2);
    // The eye sees green best and blue least.
    part(one.0, two.0, 3) + part(one.1, two.1, 4) + part(one.2, two.2, 2)
}

fn rgb_of(index: u8) -> (u8, u8, u8) {
    match index {
        0..=15 => ANSI[usize::from(index)],
        16..=231 => {
            let index = index - 16;
            let level = |n: u8| LEVELS[usize::from(n % 6)];
            (level(index / 36), level(index / 6), level(index))
        }
        232.. => {
            let grey = 8 + 10 * (index - 232);
            (grey, grey, grey)
        }
    }
}

fn nearest_256(r: u8, g: u8, b: u8) -> u8 {
    // The first 16 look different everywhere, so that only the fixed ones are taken.
    (16..=255).min_by_key(|index| distance(rgb_of(*index), (r, g, b))).unwrap_or(16)
}

fn nearest_16(r: u8, g: u8, b: u8) -> u8 {
    (0..16).min_by_key(|index| distance(rgb_of(*index), (r, g, b))).unwrap_or(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(variables: &[(&str, &str)]) -> Depth {
        Depth::from_env(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_environment_tells_the_depth() {
        assert_eq!(depth(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]), Depth::True);
        assert_eq!(depth(&[("TERM", "xterm-256color")]), Depth::Ansi256);
        assert_eq!(depth(&[("TERM", "xterm")]), Depth::Ansi16);
        assert_eq!(depth(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]), Depth::None);
        assert_eq!(depth(&[("TERM", "xterm"), ("NO_COLOR", "")]), Depth::Ansi16);
        assert_eq!(depth(&[("TERM", "dumb")]), Depth::None);
    }

    #[test]
    fn the_nearest_colour_is_near() {
        assert_eq!(Depth::Ansi256.nearest(Color::Rgb(255, 0, 0)), Some(Color::Indexed(196)));
        assert_eq!(Depth::Ansi256.nearest(Color::Rgb(128, 128, 128)), Some(Color::Indexed(244)));
        assert_eq!(Depth::Ansi16.nearest(Color::Rgb(250, 250, 250)), Some(Color::Indexed(15)));
        assert_eq!(Depth::Ansi16.nearest(Color::Indexed(3)), Some(Color::Indexed(3)));
        assert_eq!(Depth::None.nearest(Color::Red), None);
    }
}
