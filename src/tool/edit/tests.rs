//! Byte-exact tests of `edit`, with real files.

use super::super::testing::{call, context, said};
use super::*;
use crate::toolkit::DiffLine;
use std::time::Instant;

/// Edits a file that holds `before`; gives what was said and the bytes after.
async fn edited(before: impl AsRef<[u8]>, edits: Value) -> (bool, String, Vec<u8>) {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("file");
    fs::write(&file, before).expect("written");
    let edit = Edit::new(Arc::default());
    let result = call(&edit, &context(dir.path()), json!({"path": "file", "edits": edits})).await;
    (result.is_ok(), said(&result), fs::read(&file).expect("read"))
}

/// Edits one place; the call must work.
async fn one(before: impl AsRef<[u8]>, old: &str, new: &str) -> (String, Vec<u8>) {
    let (ok, text, after) = edited(before, json!([{"old_text": old, "new_text": new}])).await;
    assert!(ok, "{text}");
    (text, after)
}

/// Edits one place; the call must be refused and the file untouched.
async fn refused(before: impl AsRef<[u8]>, old: &str, new: &str) -> String {
    let (ok, text, after) = edited(before.as_ref(), json!([{"old_text": old, "new_text": new}])).await;
    assert!(!ok, "{text}");
    assert_eq!(after, before.as_ref());
    text
}

#[tokio::test]
async fn line_endings_are_those_of_the_file() {
    let (text, after) = one("a\r\nb\r\nc\r\n", "b\nc", "B\nC").await;
    assert_eq!(after, b"a\r\nB\r\nC\r\n");
    assert!(text.starts_with("1 replacements in file\n") && text.contains("line 2 but for line endings"), "{text}");
    assert_eq!(one("a\r\nb\r\nc\r\n", "b\nc\n", "B\nC\n").await.1, b"a\r\nB\r\nC\r\n");
    assert_eq!(one("a\r\nb\r\n", "b", "x\ny").await.1, b"a\r\nx\r\ny\r\n");
    assert_eq!(one("a\r\nb\nc\r\n", "b\nc", "x\ny").await.1, b"a\r\nx\ny\r\n");
    assert_eq!(one("a\r\nb\r\n", "\nb", "\nB").await.1, b"a\r\nB\r\n");
    assert_eq!(one("a\nb\n", "a\r\nb", "x\r\ny").await.1, b"x\ny\n");
    assert_eq!(one("a\rb\rc", "b\nc", "x\ny").await.1, b"a\rx\ry");
    assert_eq!(one("a\r\nb\nc\n", "a\r\nb\n", "a\r\nB\n").await.1, b"a\r\nB\nc\n");
}

#[tokio::test]
async fn a_byte_order_mark_stays() {
    assert_eq!(one(b"\xef\xbb\xbfhello\n", "hello", "hello2").await.1, b"\xef\xbb\xbfhello2\n");
    assert_eq!(one(b"\xef\xbb\xbfhello\n", "\u{feff}hello", "x").await.1, b"\xef\xbb\xbfx\n");
}

#[tokio::test]
async fn bytes_that_are_no_text_survive() {
    let before = b"const x = 1;\n// caf\xe9\n\x80\xff\0\n";
    assert_eq!(one(before, "x = 1", "x = 2").await.1, b"const x = 2;\n// caf\xe9\n\x80\xff\0\n");
    let (_, after) = one(b"x  \n// caf\xe9 \xe2\x80\x9cq\xe2\x80\x9d\n", "x\n// ", "y\n// ").await;
    assert_eq!(after, b"y\n// caf\xe9 \xe2\x80\x9cq\xe2\x80\x9d\n");
    let wide: Vec<u8> = "x = 1\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(refused([b"\xff\xfe", &wide[..]].concat(), "x = 1", "x = 2").await.contains("UTF-16"));
    assert!(refused(b"caf\xe9\n", "caf\u{fffd}", "x").await.contains("no UTF-8"));
}

#[tokio::test]
async fn typographic_characters_are_matched_but_never_written() {
    assert_eq!(one("x '%s' y", "'%s'", "‘%s’").await.1, "x ‘%s’ y".as_bytes());
    let (text, after) = one("say “Hi” – “you”\n", "\"Hi\" -", "'Ho' —").await;
    assert_eq!(after, "say 'Ho' — “you”\n".as_bytes());
    assert!(text.contains("look-alike"), "{text}");
    // The exact one wins over one that only looks alike.
    assert_eq!(one("“a” \"a\"", "\"a\"", "b").await.1, "“a” b".as_bytes());
    assert!(refused("“a” „a‟", "\"a\"", "b").await.contains("occurs 2 times"));
}

#[tokio::test]
async fn wide_forms_and_trailing_blanks_are_passed_over() {
    let before = "\tkeep\u{a0}this  \n（テスト）\t\nnext \u{3000}\nlast  \n";
    let (_, after) = one(before, "(テスト)\nnext", "(x)\nnew").await;
    assert_eq!(after, "\tkeep\u{a0}this  \n(x)\nnew \u{3000}\nlast  \n".as_bytes());
    // Composed and decomposed forms are the same text.
    assert_eq!(one("cafe\u{301} x", "caf\u{e9} x", "tea").await.1, b"tea");
    // Half of a character is no match.
    assert!(refused("a…b", "a..", "x").await.contains("not found"));
    // Blanks at the end of the old text match only at the end of a line.
    assert_eq!(one("foo+1\nfoo\n", "foo  ", "bar").await.1, b"foo+1\nbar\n");
}

#[tokio::test]
async fn indentation_is_passed_over_and_taken_from_the_file() {
    let before = "class A:\n\tdef f(self):\n\t\tpass\n\n\tx = 1\n";
    let (text, after) =
        one(before, "def f(self):\n    pass\n", "def f(self):\n    if x:\n        return\n    pass\n").await;
    let right = "class A:\n\tdef f(self):\n\t\tif x:\n\t\t\treturn\n\t\tpass\n\n\tx = 1\n";
    assert_eq!(String::from_utf8(after).expect("text"), right);
    assert!(text.contains("but for indentation"), "{text}");
    let before = "{\n        a();\n        b();\n}\n";
    let (_, after) = one(before, "    a();\n    b();", "    a();\n    c() {\n      d();\n    }").await;
    assert_eq!(
        String::from_utf8(after).expect("text"),
        "{\n        a();\n        c() {\n          d();\n        }\n}\n"
    );
}

#[tokio::test]
async fn equal_candidates_are_refused_with_their_lines() {
    let before = "if a:\n  x()\n  y()\nif b:\n    x()\n    y()\n";
    let text = refused(before, "      x()\n      y()", "z()").await;
    assert!(text.contains("occurs 2 times in file (not exactly") && text.contains("at lines 2, 5"), "{text}");
    let text = refused("a\nb\na\n", "a", "c").await;
    assert!(text.contains("occurs 2 times in file, at lines 1, 3"), "{text}");
    assert!(refused("aaa", "aa", "b").await.contains("occurs 2 times"));
    // A block of another shape is no match.
    assert!(refused("if a:\n  x()\ny()\n", "if a:\n    x()\n    y()", "z").await.contains("not found"));
}

#[tokio::test]
async fn what_is_not_found_says_so_and_shows_what_is_near() {
    assert!(refused("", "x", "y").await.contains("file is empty"));
    let text = refused("fn a() {}\nlet count = 1;\n", "let counts = 1;", "x").await;
    assert!(text.contains("was not found") && text.contains("2\tlet count = 1;"), "{text}");
    assert!(refused("x", "", "y").await.contains("is empty"));
    assert!(refused("x", "x", "x").await.contains("the same"));
    assert!(refused("x y", "x  ", "x").await.contains("not found"));
    assert!(refused("x\u{a0}y", "x y", "x\u{a0}y").await.contains("already holds"));
}

#[tokio::test]
async fn all_edits_apply_to_the_original_or_none() {
    let edits = json!([{"old_text": "a", "new_text": "b"}, {"old_text": "b\n", "new_text": "c\n"}]);
    assert_eq!(edited("a\nb\n", edits).await.2, b"b\nc\n");
    let edits = json!([{"old_text": "a", "new_text": "b"}, {"old_text": "zzz", "new_text": "c"}]);
    let (ok, text, after) = edited("a\nb\n", edits).await;
    assert!(!ok && text.contains("edits[1].old_text was not found"), "{text}");
    assert_eq!(after, b"a\nb\n");
    let edits = json!([{"old_text": "bc", "new_text": "x"}, {"old_text": "ab", "new_text": "y"}]);
    let (ok, text, after) = edited("abc", edits).await;
    assert!(!ok && text.contains("edits[0] and edits[1] overlap"), "{text}");
    assert_eq!(after, b"abc");
}

#[tokio::test]
async fn ends_without_newline_and_literal_escapes_stay() {
    assert_eq!(one("a\nb", "b", "c").await.1, b"a\nc");
    assert_eq!(one("a\nb", "b\n", "c\n").await.1, b"a\nc");
    assert_eq!(one("a\nb", "b", "x\\n\\ty").await.1, b"a\nx\\n\\ty");
}

#[tokio::test]
async fn every_form_of_the_arguments_is_taken() {
    for arguments in [
        json!({"path": "f", "edits": "[{\"old_text\": \"a\", \"new_text\": \"b\"}]"}),
        json!({"path": "f", "edits": {"oldText": "a", "newText": "b"}}),
        json!({"file_path": "f", "old_string": "a", "new_string": "b"}),
        json!({"path": "f", "oldText": "a", "newText": "b", "edits": null}),
        json!({"path": "f", "edits": ["{\"oldText\": \"a\", \"newText\": \"b\"}"], "stray": 1}),
    ] {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("f"), "a").expect("written");
        let result = call(&Edit::new(Arc::default()), &context(dir.path()), arguments.clone()).await;
        assert!(result.is_ok(), "{arguments}: {}", said(&result));
        assert_eq!(fs::read(dir.path().join("f")).expect("read"), b"b");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let result = call(&Edit::new(Arc::default()), &context(dir.path()), json!({"path": "f", "edits": [{}]})).await;
    assert_eq!(said(&result), "edits[0].old_text: missing\nedits[0].new_text: missing");
}

#[cfg(unix)]
#[tokio::test]
async fn modes_links_and_read_only_files() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("file");
    let edit = Edit::new(Arc::default());
    std::os::unix::fs::symlink("file", dir.path().join("link")).expect("linked");
    let ask = |old: &str, new: &str| json!({"path": "link", "old_text": old, "new_text": new});
    for mode in [0o755, 0o644, 0o600] {
        fs::write(&file, "a").expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("set");
        call(&edit, &context(dir.path()), ask("a", "b")).await.expect("edited");
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, mode);
        assert!(fs::symlink_metadata(dir.path().join("link")).expect("there").is_symlink());
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).expect("set");
    assert!(said(&call(&edit, &context(dir.path()), ask("b", "c")).await).contains("read-only"));
    assert_eq!(fs::read(&file).expect("read"), b"b");
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_edited_as_it_is_now() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("file");
    let seen: Arc<Seen> = Arc::default();
    fs::write(&file, "a\n").expect("written");
    let read = super::super::read::Read::new(seen.clone());
    call(&read, &context(dir.path()), json!({"path": "file"})).await.expect("read");
    fs::write(&file, "a\noutside\n").expect("written");
    let edit = Edit::new(seen);
    let result = call(&edit, &context(dir.path()), json!({"path": "file", "old_text": "a", "new_text": "b"})).await;
    assert!(said(&result).contains("had changed since you last read it"));
    assert_eq!(fs::read(&file).expect("read"), b"b\noutside\n");
    let result = call(&edit, &context(dir.path()), json!({"path": "file", "old_text": "b\n", "new_text": "c\n"})).await;
    assert_eq!(said(&result), "1 replacements in file");
}

#[tokio::test]
async fn it_leaves_a_receipt_and_a_diff_and_previews_without_writing() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("file"), "a\nb\nc\n").expect("written");
    let edit = Edit::new(Arc::default());
    let arguments = json!({"path": "file", "edits": [{"old_text": "b", "new_text": "x"}]});
    let Value::Object(map) = arguments.clone() else { panic!("no object") };
    let preview = edit.preview(&context(dir.path()), &map);
    assert_eq!(fs::read(dir.path().join("file")).expect("read"), b"a\nb\nc\n");
    let output = call(&edit, &context(dir.path()), arguments).await.expect("edited");
    assert_eq!(output.view, preview);
    assert_eq!(output.summary, "+1 −1");
    let Some(View::Diff { hunks, .. }) = output.view else { panic!("no diff") };
    let line = |text: &str| text.to_owned();
    let right = [
        DiffLine::Context(line("a")),
        DiffLine::Removed(line("b")),
        DiffLine::Added(line("x")),
        DiffLine::Context(line("c")),
    ];
    assert_eq!(hunks[0].lines, right);
    assert_eq!(output.effects[0].before, files::state(b"a\nb\nc\n"));
    assert_eq!(output.effects[0].after, files::state(b"a\nx\nc\n"));
    let missing = call(&edit, &context(dir.path()), json!({"path": "flie", "old_text": "a", "new_text": "b"})).await;
    assert!(said(&missing).contains("Did you mean: file?"));
}

#[test]
fn a_large_file_is_matched_fast() {
    let mut large = "some line of text that is like any other\n".repeat(250_000);
    large.push_str("the “one” line\n");
    large.push_str(&"another line of text like any other one\n".repeat(1000));
    let time = |old: &str| {
        let begin = Instant::now();
        let wanted = [Wanted { old, new: "x" }];
        let result = matched("file", large.as_bytes(), &wanted).map(|(splices, _)| {
            let change = diff::of_splices(large.as_bytes(), &splices);
            assert_eq!(change.hunks.len(), 1);
        });
        (result.is_ok(), begin.elapsed())
    };
    let (exact, tolerant, none) = (time("the “one” line"), time("the \"one\" line"), time("the two lines"));
    println!("10 MB: exact {:?}, tolerant {:?}, not found {:?}", exact.1, tolerant.1, none.1);
    assert!(exact.0 && tolerant.0 && !none.0);
}
