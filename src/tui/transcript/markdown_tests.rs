use super::*;

fn theme() -> Theme {
    Theme::built_in("violin-dark")
}

fn whole(text: &str, width: u16) -> (Vec<String>, Vec<Code>) {
    let mut flow = Flow::default();
    flow.settle(text, width, &theme(), true);
    (flow.rows.iter().map(|row| row.text().trim_end().to_owned()).collect(), flow.code)
}

fn streamed(text: &str, width: u16, step: usize) -> Vec<String> {
    let mut flow = Flow::default();
    let mut at = 0;
    while at < text.len() {
        at = text.ceil_char_boundary((at + step).min(text.len()));
        flow.settle(&text[..at], width, &theme(), false);
        flow.tail(&text[..at], width, &theme());
    }
    flow.settle(text, width, &theme(), true);
    flow.rows.iter().map(|row| row.text().trim_end().to_owned()).collect()
}

const SAMPLE: &str = "# Title\n\nA paragraph with **bold** and `code` and a [link](https://x.y/z).\n\n\
- one\n- two\n  - nested\n  - more\n- [x] done\n\n1. first\n2. second\n\n   still second\n\n> quoted\n> text\n\n\
```rust\nfn main() {\n\n    println!(\"hi\");\n}\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n---\n\nend ~~gone~~\n";

#[test]
fn all_kinds_of_blocks() {
    let (rows, code) = whole(SAMPLE, 60);
    insta::assert_snapshot!(rows.join("\n"));
    assert_eq!(code[0].language, "rust");
    assert_eq!(code[0].lines, ["fn main() {", "", "    println!(\"hi\");", "}"]);
}

#[test]
fn streaming_ends_in_what_the_whole_gives() {
    for width in [12, 40, 100] {
        let whole = whole(SAMPLE, width).0;
        for step in [1, 3, 7, 50] {
            assert_eq!(streamed(SAMPLE, width, step), whole, "width {width}, step {step}");
        }
    }
}

#[test]
fn a_fence_does_not_jump_when_it_closes() {
    let mut flow = Flow::default();
    let open = "text\n\n```py\nx = 1\ny = 2\n";
    flow.settle(open, 40, &theme(), false);
    let before: Vec<Row> = flow.rows.iter().cloned().chain(flow.tail(open, 40, &theme())).collect();
    let closed = format!("{open}```\n");
    flow.settle(&closed, 40, &theme(), true);
    assert_eq!(flow.rows, before);
}

/// traps.md B86: whatever it is, it is laid out in any width, and no row is wider than that.
#[test]
fn b86_hostile_markdown_is_bounded() {
    let begun = std::time::Instant::now();
    let long = format!("| a | b |\n|---|---|\n{}", "| cell 日本 | another cell |\n".repeat(5000));
    let row = |cell: &str| format!("|{}\n", cell.repeat(12));
    let wide = format!("{}{}{}", row("head|"), row("-|"), row("cell 日本|").repeat(100));
    let deep = format!("{} text", ">".repeat(500));
    let lists: String = (0..200).map(|n| format!("{}- x\n", "  ".repeat(n))).collect();
    let open = format!("```\n{}", "open 日本\n".repeat(1000));
    let texts = [long, wide, "x".repeat(200_000), "日".repeat(20_000), open, deep, lists];
    for text in texts.into_iter().chain(["*".repeat(5000), "[".repeat(5000), "`".repeat(5000)]) {
        for width in [1, 2, 5, 40, 200] {
            let (rows, _) = whole(&text, width);
            // Not even a margin and a character fit into less.
            let most = usize::from(width.max(6));
            let over = rows.iter().find(|row| text::width(row) > most);
            assert_eq!(over, None, "at {width}: {:?}", text::width(over.map_or("", |row| row)));
            // A row for each character would be the most there can be; blank rows part blocks.
            assert!(rows.len() <= 2 * text.chars().count() + 2, "{} rows at {width}", rows.len());
        }
    }
    // No measure of speed: only that nothing goes on for ever.
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

#[test]
fn b146_control_sequences_do_not_reach_a_row() {
    let text = "a\x1b]52;c;ZXZpbA==\x07b \x1b[2Jc `\x1b]0;x\x07`\n\n```\n\x1b[6n\n```\n[t](http://x\x1b[1m)";
    for row in whole(text, 60).0 {
        assert!(!row.chars().any(char::is_control), "{row:?}");
    }
}

proptest::proptest! {
    #[test]
    fn anything_lays_out(text in "[-#>*`|a日\n 1.~\\[\\]()]{0,120}", width in 1u16..50) {
        let all = whole(&text, width).0;
        proptest::prop_assert_eq!(streamed(&text, width, 2), all);
    }
}
