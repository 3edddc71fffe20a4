use super::*;
use crate::message::text_of;

fn with_text(text: &str) -> Prompt {
    let mut prompt = Prompt::default();
    prompt.insert(text);
    prompt
}

/// traps.md B98.
#[test]
fn b98_graphemes_are_moved_over_and_deleted_whole() {
    let text = "क्ष👨‍👩‍👧‍👦é";
    let mut prompt = with_text(text);
    let count = text.graphemes(true).count();
    for _ in 0..count {
        assert!(prompt.step(Way::Back));
        let before = prompt.before_cursor().len();
        assert!(text.grapheme_indices(true).any(|(at, _)| at == before));
    }
    assert!(!prompt.step(Way::Back));
    prompt.to_line_end(Way::On);
    prompt.delete(Way::Back);
    assert_eq!(prompt.text(), "क्ष👨‍👩‍👧‍👦");
    prompt.delete(Way::Back);
    assert_eq!(prompt.text(), "क्ष");
    prompt.to_line_end(Way::Back);
    prompt.delete(Way::On);
    assert!(text.starts_with("क्ष") && prompt.text().graphemes(true).count() < 2);
}

/// traps.md B98.
#[test]
fn b98_a_word_is_killed_and_not_the_line() {
    let mut prompt = with_text("日本語テスト foo");
    prompt.kill_word(Way::Back);
    assert_eq!(prompt.text(), "日本語テスト ");
    prompt.kill_word(Way::Back);
    assert_ne!(prompt.text(), "");
    prompt.to_end(Way::On);
    prompt.yank();
    assert_eq!(prompt.text(), "日本語テスト foo");
}

/// traps.md B93.
#[test]
fn b93_a_paste_is_sent_whole_whatever_was_done_around_it() {
    let paste: String = (0..50).map(|n| format!("line {n}\n")).collect();
    let mut prompt = with_text("see ");
    prompt.paste(&paste);
    assert_eq!(prompt.text(), "see [paste #1 +50 lines]");
    prompt.step(Way::Back);
    assert_eq!(prompt.before_cursor(), "see ");
    prompt.insert("this: ");
    prompt.to_line_end(Way::Back);
    prompt.undo();
    prompt.redo();
    let message = prompt.take().expect("a message");
    assert_eq!(text_of(&message.content), format!("see this: {}", paste.trim_end()));
    assert!(prompt.is_empty());
    assert!(prompt.take().is_none());
}

/// traps.md B92.
#[test]
fn b92_backspace_takes_a_chip_whole() {
    let mut prompt = Prompt::default();
    prompt.paste(&"x".repeat(1001));
    assert_eq!(prompt.text(), "[paste #1 1001 chars]");
    prompt.delete(Way::Back);
    assert!(prompt.is_empty());
    prompt.undo();
    assert_eq!(text_of(&prompt.take().expect("a message").content), "x".repeat(1001));
}

#[test]
fn images_go_with_the_message_and_come_back() {
    let mut prompt = with_text("look: ");
    prompt.attach(chips::Image { mime_type: "image/png".into(), data: "AAAA".into(), width: 12, height: 7 });
    assert_eq!(prompt.text(), "look: [image #1 12×7]");
    let message = prompt.take().expect("a message");
    assert_eq!(message.content.len(), 2);
    prompt.insert("more");
    prompt.give_back(std::slice::from_ref(&message));
    assert_eq!(prompt.text(), "look: [image #1 12×7]\n\nmore");
    assert_eq!(prompt.take().expect("a message").content[1], message.content[1]);
}

#[test]
fn kills_in_a_row_come_back_as_one() {
    let mut prompt = with_text("one two three");
    prompt.kill_word(Way::Back);
    prompt.kill_word(Way::Back);
    assert_eq!(prompt.text(), "one ");
    prompt.yank();
    assert_eq!(prompt.text(), "one two three");
    prompt.kill_line(Way::Back);
    prompt.yank();
    prompt.yank_earlier();
    assert_eq!(prompt.text(), "two three");
}

/// traps.md B97.
#[test]
fn b97_the_caret_counts_wide_characters() {
    let mut prompt = with_text("日本x");
    prompt.layout(20);
    prompt.place(3);
    assert_eq!(prompt.caret(), Position { x: 5, y: 0 });
    prompt.step(Way::Back);
    prompt.step(Way::Back);
    prompt.place(3);
    assert_eq!(prompt.caret(), Position { x: 2, y: 0 });
}

#[test]
fn rows_wrap_at_words_and_the_cursor_keeps_its_column() {
    let mut prompt = with_text("hello wide world\nab\nanother one");
    assert_eq!(prompt.layout(12), 4);
    assert!(prompt.step_row(Way::Back));
    assert_eq!(prompt.cursor(), (1, 2));
    prompt.layout(12);
    assert!(prompt.step_row(Way::Back) && prompt.step_row(Way::Back));
    assert!(!prompt.step_row(Way::Back));
    for width in 1..20 {
        prompt.layout(width);
        for height in 1..4 {
            prompt.place(height);
        }
    }
}

#[test]
fn history_keeps_the_draft() {
    let mut prompt = with_text("draft");
    prompt.history.push("before");
    assert!(prompt.recall(Way::Back));
    assert_eq!(prompt.text(), "before");
    assert!(!prompt.recall(Way::Back));
    assert!(prompt.recall(Way::On));
    assert_eq!(prompt.text(), "draft");
}

/// traps.md B98: wherever it is wrapped, and whatever is typed, pasted, killed and taken back around it, the cursor stands
/// at the edge of a character or of a mark, and rows are cut there.
fn whole(prompt: &Prompt) -> Result<(), String> {
    let (row, column) = prompt.cursor();
    let edges = |line: usize| -> Vec<usize> {
        let units = prompt.chips.units(&prompt.area.lines()[line]);
        units.iter().map(|(_, end)| *end).chain([0]).collect()
    };
    if !edges(row).contains(&column) {
        return Err(format!("the cursor is inside a character: {column} of {:?}", prompt.line()));
    }
    let cut = prompt.visual.iter().find(|visual| !edges(visual.line).contains(&visual.start));
    cut.map_or(Ok(()), |visual| Err(format!("a row begins inside a character: {visual:?}")))
}

/// traps.md B98.
#[test]
fn what_joins_under_the_cursor_is_one_character_from_then_on() {
    let mut prompt = with_text("🇳👩");
    prompt.to_line_end(Way::Back);
    prompt.insert("🇨");
    whole(&prompt).expect("behind the flag");
    prompt.insert("!");
    assert_eq!(prompt.text(), "🇨🇳!👩");
    // A joiner that is left alone joins what comes before it.
    let mut prompt = with_text("x\u{200d}👩");
    prompt.to_line_end(Way::Back);
    prompt.insert("👨");
    whole(&prompt).expect("at an edge");
    let mut prompt = with_text("日本語 👨\u{200d}👩\u{200d}👧 e\u{301}क्ष");
    for width in 1..16 {
        prompt.layout(width);
        whole(&prompt).expect("rows are cut at edges");
    }
    prompt.kill_line(Way::Back);
    assert!(prompt.is_empty());
    prompt.yank();
    prompt.to_line_end(Way::Back);
    prompt.kill_line(Way::On);
    assert!(prompt.is_empty());
}

/// traps.md B93: a mark stands for its text also after another prompt was recalled in its place and that was undone.
#[test]
fn a_mark_outlives_a_recall_that_is_undone() {
    let paste: String = (0..50).map(|n| format!("line {n}\n")).collect();
    let mut prompt = with_text("see ");
    prompt.history.push("before");
    prompt.paste(&paste);
    let draft = prompt.text();
    assert!(prompt.recall(Way::Back));
    assert_eq!(prompt.text(), "before");
    for _ in 0..3 {
        if prompt.text() != draft {
            prompt.undo();
        }
    }
    assert_eq!(prompt.text(), draft);
    let message = prompt.take().expect("a message");
    assert_eq!(text_of(&message.content), format!("see {}", paste.trim_end()));
}

proptest::proptest! {
    #[test]
    fn any_editing_leaves_whole_text(actions in proptest::collection::vec(0u8..20, 0..60)) {
        let mut prompt = Prompt::default();
        for action in actions {
            match action {
                0 => prompt.insert("日"),
                1 => prompt.insert("a b"),
                2 => prompt.insert("\n"),
                3 => prompt.paste(&"z\n".repeat(12)),
                4 => prompt.delete(Way::Back),
                5 => prompt.delete(Way::On),
                6 => { prompt.step(Way::Back); }
                7 => prompt.step_word(Way::Back),
                8 => prompt.kill_word(Way::On),
                9 => prompt.kill_line(Way::Back),
                10 => prompt.yank(),
                11 => prompt.undo(),
                12 => prompt.redo(),
                13 => prompt.insert("🇨"),
                14 => prompt.insert("\u{301}"),
                15 => prompt.insert("\u{200d}"),
                16 => prompt.insert("👩"),
                17 => prompt.to_line_end(Way::Back),
                18 => prompt.insert("क्ष"),
                _ => { prompt.step_row(Way::Back); }
            }
            prompt.layout(7);
            prompt.place(2);
            proptest::prop_assert_eq!(whole(&prompt), Ok(()));
        }
        prompt.expanded();
    }
}
