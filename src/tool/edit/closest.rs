//! The lines of a file that come nearest to a text that is not in it.

/// Lines longer than this are not compared.
const LONGEST: usize = 300;

/// Most lines that are compared with care.
const MOST_COMPARED: usize = 4000;

/// Most lines that are shown.
const MOST_SHOWN: usize = 12;

/// Below this likeness (0 to 1) nothing is shown.
const LEAST: f64 = 0.55;

/// The nearest lines with their numbers, `NUMBER\tLINE` each; `None` where nothing comes near.
pub fn lines(bytes: &[u8], wanted: &str) -> Option<String> {
    let wanted: Vec<&str> = wanted.lines().collect();
    // The line that says the most is looked for.
    let (anchor, line) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len().min(LONGEST))?;
    let line = line.trim();
    if line.is_empty() {
        return None;
    }
    let line = crate::text::head(line, LONGEST);
    let file: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let profile = Profile::of(line.as_bytes());
    let mut near: Vec<(usize, u32)> = file
        .iter()
        .enumerate()
        .filter(|(_, candidate)| candidate.len() <= 2 * LONGEST)
        .map(|(number, candidate)| (number, profile.distance(&Profile::of(candidate.trim_ascii()))))
        .filter(|(_, distance)| *distance as usize <= line.len())
        .collect();
    near.sort_by_key(|(number, distance)| (*distance, *number));
    near.truncate(MOST_COMPARED);
    let text = |number: usize| file.get(number).map(|line| String::from_utf8_lossy(line));
    let mut best: Vec<(f64, usize)> = near
        .into_iter()
        .filter_map(|(number, _)| Some((strsim::normalized_levenshtein(text(number)?.trim(), line), number)))
        .filter(|(likeness, _)| *likeness >= LEAST)
        .collect();
    best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    best.truncate(20);
    // Among places whose one line comes equally near, the lines around it decide.
    let around = |at: usize| -> f64 {
        let begin = at.wrapping_sub(anchor);
        let each = wanted.iter().take(30).enumerate().map(|(index, line)| match text(begin.wrapping_add(index)) {
            Some(other) if other.len() <= LONGEST => strsim::normalized_levenshtein(other.trim(), line.trim()),
            _ => 0.0,
        });
        each.sum()
    };
    let (_, at) = best
        .into_iter()
        .map(|(likeness, at)| (likeness + around(at), at))
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
    let begin = at.saturating_sub(anchor.min(MOST_SHOWN / 2)).saturating_sub(1);
    let end = (begin + wanted.len() + 2).min(begin + MOST_SHOWN).max(at + 1).min(file.len());
    let shown = (begin..end).filter_map(|number| {
        let line = text(number)?;
        Some(format!("{}\t{}", number + 1, crate::text::head(line.trim_end_matches('\r'), LONGEST)))
    });
    Some(shown.collect::<Vec<_>>().join("\n"))
}

/// How often groups of bytes stand in a line: a quick bound on how near two lines can be.
struct Profile([u16; 32]);

impl Profile {
    fn of(line: &[u8]) -> Self {
        let mut counts = [0u16; 32];
        for byte in line {
            let slot = &mut counts[usize::from(byte & 31)];
            *slot = slot.saturating_add(1);
        }
        Profile(counts)
    }

    fn distance(&self, other: &Profile) -> u32 {
        self.0.iter().zip(other.0).map(|(a, b)| u32::from(a.abs_diff(b))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_place_is_shown_with_numbers() {
        let file = b"fn one() {\n    let total = 1;\n}\n\nfn two() {\n    let total = 2;\n    done();\n}\n";
        let shown = lines(file, "    let totals = 2;\n    finish();").expect("near");
        assert!(shown.contains("6\t    let total = 2;\n7\t    done();"), "{shown}");
        assert_eq!(lines(file, "entirely different words here"), None);
        assert_eq!(lines(b"", "x"), None);
        assert_eq!(lines(file, "\n\n"), None);
    }

    #[test]
    fn long_files_and_odd_bytes_are_no_trouble() {
        let mut file = "some line that is like every other line\n".repeat(100_000).into_bytes();
        file.extend_from_slice(b"the on\xe9 that is wanted\n");
        assert!(lines(&file, "the one that is wanted").expect("near").contains("100001\t"));
    }
}
