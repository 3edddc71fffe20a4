use super::*;

fn decode(pieces: &[&[u8]]) -> Vec<Input> {
    let mut decoder = Decoder::default();
    let mut out = Vec::new();
    let mut now = Instant::now();
    for piece in pieces {
        decoder.feed(piece, now, &mut out);
        now += Duration::from_millis(60);
        if decoder.patience().is_some_and(|patience| patience < Duration::from_millis(60)) {
            decoder.expire(now, &mut out);
        }
    }
    out
}

fn keys(pieces: &[&[u8]]) -> Vec<(KeyCode, KeyModifiers)> {
    decode(pieces)
        .into_iter()
        .map(|input| match input {
            Input::Key(key) => (key.code, key.modifiers),
            other => panic!("{other:?}"),
        })
        .collect()
}

const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;

/// traps.md B85.
#[test]
fn b85_a_split_mouse_report_types_nothing_and_a_lone_escape_is_a_key() {
    let inputs = decode(&[b"\x1b[<35;1", b"50;7M"]);
    assert!(matches!(inputs.as_slice(), [Input::Mouse(MouseEvent { column: 149, row: 6, .. })]), "{inputs:?}");
    assert_eq!(keys(&[b"\x1b", b"[<35;150;7M"]), [(KeyCode::Esc, NONE)]);
    assert_eq!(keys(&[b"\x1b"]), [(KeyCode::Esc, NONE)]);
}

/// traps.md B94.
#[test]
fn b94_every_form_of_a_new_line_is_told_apart_from_enter() {
    assert_eq!(keys(&[b"\x1b[13;2u"]), [(KeyCode::Enter, SHIFT)]);
    assert_eq!(keys(&[b"\x1b[27;2;13~"]), [(KeyCode::Enter, SHIFT)]);
    assert_eq!(keys(&[b"\x1b\r"]), [(KeyCode::Enter, KeyModifiers::ALT)]);
    assert_eq!(keys(&[b"\n"]), [(KeyCode::Char('j'), CTRL)]);
    assert_eq!(keys(&[b"\r"]), [(KeyCode::Enter, NONE)]);
}

/// traps.md B96.
#[test]
fn b96_the_base_layout_counts_only_for_other_scripts() {
    assert_eq!(keys(&[b"\x1b[107::118;5u"]), [(KeyCode::Char('k'), CTRL)]);
    assert_eq!(keys(&[b"\x1b[1089::99;5u"]), [(KeyCode::Char('c'), CTRL)]);
    assert_eq!(keys(&[b"\x1b[100;5:3u"]), []);
    assert_eq!(keys(&[b"\x1b[97:65;2u"]), [(KeyCode::Char('A'), SHIFT)]);
}

/// traps.md B90.
#[test]
fn b90_a_paste_without_brackets_does_not_submit() {
    assert_eq!(decode(&[b"one\rtwo\rthree"]), [Input::Paste("one\ntwo\nthree".into())]);
    let typed = decode(&[b"one\r"]);
    assert_eq!(typed[0], Input::Text("one".into()));
    assert_eq!(typed[1], key(KeyCode::Enter, NONE));
}

/// traps.md B92.
#[test]
fn b92_a_paste_is_one_block_however_it_is_cut() {
    let text = "x@y\n".repeat(256 * 1024);
    let mut whole = b"\x1b[200~".to_vec();
    whole.extend_from_slice(text.as_bytes());
    whole.extend_from_slice(PASTE_END);
    let begun = Instant::now();
    for size in [4096, 4099, whole.len() - 3] {
        let pieces: Vec<&[u8]> = whole.chunks(size).collect();
        assert_eq!(decode(&pieces), [Input::Paste(text.clone())], "in pieces of {size}");
    }
    assert!(begun.elapsed() < Duration::from_secs(3));
    let after = decode(&[b"\x1b[200~a\x1b[20", b"1~b"]);
    assert_eq!(after, [Input::Paste("a".into()), key(KeyCode::Char('b'), NONE)]);
}

#[test]
fn replies_and_focus_are_no_keys() {
    let inputs = decode(&[b"\x1b]11;rgb:1111/2222/ffff\x1b\\\x1b[?62;22c\x1b[?0u\x1bP>|x(1)\x1b\\\x1b[I"]);
    assert_eq!(inputs, [Input::Background(0x11, 0x22, 0xff), Input::Focus(true)]);
}

#[test]
fn characters_are_whole_however_they_are_cut() {
    assert_eq!(keys(&[b"\xe5\x8c", b"\x97"]), [(KeyCode::Char('北'), NONE)]);
    assert_eq!(keys(&[b"\xff", b"a"]), [(KeyCode::Char('a'), NONE)]);
}

#[test]
fn cursor_and_function_keys() {
    assert_eq!(keys(&[b"\x1b[A\x1bOB\x1b[1;5C"]), [(KeyCode::Up, NONE), (KeyCode::Down, NONE), (KeyCode::Right, CTRL)]);
    assert_eq!(
        keys(&[b"\x1bOP\x1b[15~\x1b[24~"]),
        [(KeyCode::F(1), NONE), (KeyCode::F(5), NONE), (KeyCode::F(12), NONE)]
    );
    assert_eq!(keys(&[b"\x1b[Z\x1b[3~"]), [(KeyCode::BackTab, SHIFT), (KeyCode::Delete, NONE)]);
}

proptest::proptest! {
    #[test]
    fn nothing_that_comes_panics(pieces in proptest::collection::vec(proptest::collection::vec(0u8..=255, 0..24), 0..12)) {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        decode(&pieces);
    }
}

/// Keys with Alt begin as replies do: Alt+_ once swallowed whatever was typed after it.
#[test]
fn a_key_with_alt_is_no_reply_that_never_ends() {
    for key in [b']', b'P', b'_', b'^', b'X', b'[', b'O', b'n', b'\\'] {
        let alt = (KeyCode::Char(char::from(key)), KeyModifiers::ALT);
        let mut decoder = Decoder::default();
        let mut out = Vec::new();
        let now = Instant::now();
        decoder.feed(&[0x1b, key], now, &mut out);
        if decoder.patience().is_some() {
            decoder.expire(now, &mut out);
        }
        decoder.feed(b"a", now, &mut out);
        let pressed = |input: &Input| match input {
            Input::Key(key) => (key.code, key.modifiers),
            other => panic!("{other:?}"),
        };
        assert_eq!(out.iter().map(pressed).collect::<Vec<_>>(), [alt, (KeyCode::Char('a'), NONE)]);
    }
    // Typed fast, in one read.
    assert_eq!(keys(&[b"\x1b_z"]), [(KeyCode::Char('_'), KeyModifiers::ALT), (KeyCode::Char('z'), NONE)]);
    // A reply that breaks off types nothing, and what follows counts.
    let mut decoder = Decoder::default();
    let mut out = Vec::new();
    let now = Instant::now();
    decoder.feed(b"\x1b]11;rgb:00", now, &mut out);
    assert_eq!(decoder.patience(), Some(REPLY));
    decoder.expire(now, &mut out);
    decoder.feed(b"b", now, &mut out);
    assert_eq!(out, [key(KeyCode::Char('b'), NONE)]);
    // One that comes in pieces is one.
    assert_eq!(decode(&[b"\x1b]11;rgb:ff", b"ff/0000/0000\x1b", b"\\"]), [Input::Background(255, 0, 0)]);
}

/// Every key that something is bound to comes in, as far as terminals without enhancements send it.
#[test]
fn every_bound_key_of_old_terminals_comes_in_and_leaves_nothing_behind() {
    for action in crate::tui::actions::ACTIONS {
        for name in action.keys {
            let (rest, alt) = name.strip_prefix("alt+").map_or((*name, false), |rest| (rest, true));
            let (rest, ctrl) = rest.strip_prefix("ctrl+").map_or((rest, false), |rest| (rest, true));
            let mut letters = rest.chars();
            let (Some(letter), None) = (letters.next(), letters.next()) else { continue };
            let byte = match (ctrl, letter) {
                (false, letter) => letter as u8,
                (true, 'a'..='z' | '_') => letter.to_ascii_uppercase() as u8 - 0x40,
                // Terminals without enhancements have no code for these.
                (true, _) => continue,
            };
            let bytes = if alt { vec![0x1b, byte] } else { vec![byte] };
            let mut decoder = Decoder::default();
            let mut out = Vec::new();
            let now = Instant::now();
            decoder.feed(&bytes, now, &mut out);
            decoder.expire(now, &mut out);
            let [Input::Key(event)] = out.as_slice() else { panic!("{name}: {out:?}") };
            let chord = crate::tui::keys::Chord::of(event);
            let bound = crate::tui::keys::Bindings::default().find(action.scope, chord).map(|action| action.name);
            // Enter, Tab, Backspace and Ctrl+J, I, H share their codes.
            let shared = ctrl && matches!(letter, 'h' | 'i' | 'm');
            assert!(bound == Some(action.name) || shared, "{name}: {chord}, {bound:?}");
            assert!(decoder.patience().is_none(), "{name}");
        }
    }
}
