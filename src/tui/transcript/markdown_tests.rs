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

#[test]
fn b86_hostile_markdown_is_bounded() {
    let begun = std::time::Instant::now();
    let table =
        format!("|{}\n|{}\n{}", "h|".repeat(12), "-|".repeat(12), format!("|{}\n", "cell|".repeat(12)).repeat(1000));
    let deep = format!("{} text", ">".repeat(500));
    let lists: String = (0..200).map(|n| format!("{}- x\n", "  ".repeat(n))).collect();
    for text in [table, "x".repeat(200_000), "```\nopen".to_owned(), deep, lists, "*".repeat(5000), "[".repeat(5000)] {
        for width in [1, 2, 5, 40, 200] {
            let (rows, _) = whole(&text, width);
            if width > 30 {
                assert!(rows.iter().all(|row| text::width(row) <= usize::from(width)));
            }
        }
    }
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
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
