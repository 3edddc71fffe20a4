use std::time::Instant;

use super::row::wrap;
use super::select::{Selection, Spot};
use super::*;
use crate::event::Event;
use crate::theme::Theme;

fn look(theme: &Theme, width: u16) -> Look<'_> {
    Look { theme, generation: 0, width, tick: 0, now: Instant::now() }
}

fn theme() -> Theme {
    Theme::built_in("violin-dark")
}

/// A transcript of one block, laid out.
fn of(kind: Kind, width: u16) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(kind, None);
    transcript.layout(look(&theme(), width), 200);
    transcript
}

fn answer(text: &str, width: u16) -> Transcript {
    of(Kind::Answer { text: text.into(), live: false }, width)
}

fn user(text: &str, width: u16) -> Transcript {
    of(Kind::User { text: text.into(), images: Vec::new() }, width)
}

/// The cell of a row at which a text begins.
fn spot(transcript: &Transcript, what: &str) -> Spot {
    let found = transcript.view.iter().find_map(|place| {
        let row = transcript.blocks[place.block].row(place.row)?;
        let text = row.text();
        let at = text.find(what)?;
        Some(Spot { place: *place, column: crate::text::width(&text[..at]) as u16 })
    });
    found.unwrap_or_else(|| panic!("{what:?} is not shown"))
}

fn dragged(transcript: &mut Transcript, width: u16, from: Spot, to: Spot) -> String {
    transcript.selected(&Selection::drag(from, to), look(&theme(), width))
}

fn all(transcript: &mut Transcript, width: u16) -> String {
    let from = Spot { place: transcript.view[0], column: 0 };
    let to = Spot { place: *transcript.view.last().expect("rows"), column: u16::MAX - 1 };
    dragged(transcript, width, from, to)
}

const TEXTS: &[&str] = &[
    "one two three four five six seven\nverylongwordthatdoesnotfit日本語日本語 end",
    "two  blanks   and    more     of them",
    "日本語テキスト、日本語テキスト。日本語テキスト",
    "combining: e\u{301}a\u{308}o\u{302} and a\u{330}b क्षि end",
    "a 👩‍👩‍👧‍👦 b ♻️ c 🇨🇳 d 🥲🏻 e ❤️ f 👩‍🔬👩‍🔬👩‍🔬👩‍🔬👩‍🔬",
    "nothing-but-one-word-that-is-longer-than-the-line/and/goes/on.rs",
    "",
];

#[test]
fn what_is_dragged_over_comes_back_as_it_was_before_wrapping() {
    for text in TEXTS {
        for width in [8, 11, 16, 40, 200] {
            let mut transcript = user(text, width);
            if !text.is_empty() {
                assert_eq!(all(&mut transcript, width), *text, "at {width}");
            }
        }
    }
}

#[test]
fn code_comes_back_with_its_blanks() {
    let code = "fn main() {\n    let text = \"a  b\";  \n\n    println!(\"{text}\");\n}";
    for width in [9, 14, 20, 80] {
        let mut transcript = answer(&format!("```rust\n{code}\n```"), width);
        assert_eq!(all(&mut transcript, width), code, "at {width}");
    }
}

#[test]
fn a_drag_takes_the_cells_at_both_ends_along_in_either_direction() {
    let width = 12;
    let mut transcript = user("alpha beta 日本語 gamma", width);
    let (from, to) = (spot(&transcript, "beta"), spot(&transcript, "語"));
    for (from, to) in [(from, to), (to, from)] {
        assert_eq!(dragged(&mut transcript, width, from, to), "beta 日本語");
    }
    // The second cell of a wide character stands for it as well as the first.
    let half = |spot: Spot| Spot { column: spot.column + 1, ..spot };
    let wide = spot(&transcript, "日");
    assert_eq!(dragged(&mut transcript, width, half(wide), half(to)), "日本語");
}

#[test]
fn a_drag_over_several_blocks_keeps_them_apart() {
    let mut transcript = Transcript::default();
    transcript.push(Kind::User { text: "ask".into(), images: Vec::new() }, None);
    transcript.push(Kind::Answer { text: "- one\n- two".into(), live: false }, None);
    transcript.layout(look(&theme(), 40), 20);
    assert_eq!(all(&mut transcript, 40), "ask\n\none\ntwo");
}

#[test]
fn a_double_click_takes_a_word_also_where_it_is_wrapped() {
    let cases: &[(&str, &str, &str)] = &[
        ("one two three", "two", "two"),
        ("see src/cart/total.rs, and", "cart", "src/cart/total.rs"),
        ("It works now. Really", "now", "now"),
        ("run --all-features", "all", "all-features"),
        ("https://example.org/a?b=1 and", "org", "https://example.org/a?b=1"),
        ("das ist e\u{301}tage zwei", "tage", "e\u{301}tage"),
        ("x 日本語 y", "本", "日本語"),
        ("a 👩‍🔬 b", "👩‍🔬", "👩‍🔬"),
        ("fn total(&self)", "total", "total"),
        ("a_long_name_that_is_wrapped_in_the_middle x", "a_l", "a_long_name_that_is_wrapped_in_the_middle"),
    ];
    for (text, click, word) in cases {
        for width in [14, 60] {
            let mut transcript = user(text, width);
            // Where it is wrapped within the word that is clicked, any part of it will do.
            let selection = transcript.word_around(spot(&transcript, click)).expect("a word");
            assert_eq!(transcript.selected(&selection, look(&theme(), width)), *word, "{text} at {width}");
        }
    }
}

#[test]
fn a_triple_click_takes_the_line() {
    let text = "one two three four five six seven\nverylongwordthatdoesnotfit日本語日本語 end";
    let mut transcript = user(text, 16);
    for (click, line) in [("four", 0), ("end", 1), ("very", 1)] {
        let selection = transcript.line_around(spot(&transcript, click)).expect("a line");
        let expected = text.lines().nth(line).expect("a line");
        assert_eq!(transcript.selected(&selection, look(&theme(), 16)), expected);
    }
    assert_eq!(transcript.word_around(Spot { place: transcript.view[0], column: 90 }), None, "there is no word");
}

/// The text of each hit, and whether it goes over more than one row.
fn found(transcript: &mut Transcript, query: &str, width: u16) -> Vec<(String, bool)> {
    let theme = theme();
    let search = Search::new(query, transcript, look(&theme, width));
    let hits = search.hits().to_vec();
    let text = |transcript: &mut Transcript, hit: &search::Hit| {
        let selection = Selection { from: hit.from, to: hit.to };
        (transcript.selected(&selection, look(&theme, width)), hit.from.place != hit.to.place)
    };
    hits.iter().map(|hit| text(transcript, hit)).collect()
}

#[test]
fn a_search_finds_what_is_shown_whatever_its_case() {
    let mut transcript = answer("İstanbul is BIG, big", 40);
    assert_eq!(found(&mut transcript, "big", 40), [("BIG".to_owned(), false), ("big".to_owned(), false)]);
    assert_eq!(found(&mut transcript, "nothing such", 40), []);
    assert_eq!(found(&mut transcript, "", 40), []);
}

#[test]
fn a_hit_may_go_over_the_end_of_a_row() {
    let text = "the quick brown fox jumps over the lazy dog";
    for width in [10, 13, 17, 21, 80] {
        let mut transcript = user(text, width);
        let hits = found(&mut transcript, "brown FOX jumps over", width);
        assert_eq!(hits, [("brown fox jumps over".to_owned(), width < 40)], "at {width}");
    }
    let mut transcript = user("a_long_name_that_is_wrapped", 12);
    assert_eq!(found(&mut transcript, "name_that", 12), [("name_that".to_owned(), true)]);
    let mut transcript = user("日本語テキスト日本語テキスト", 11);
    assert_eq!(found(&mut transcript, "ト日本", 11).len(), 1);
}

#[test]
fn a_search_looks_at_what_markdown_shows_and_not_at_its_marks() {
    let width = 60;
    let text = "**bold** and `code` in a [link](https://x.org) &amp; more\n\n> quoted *well* said";
    let mut transcript = answer(text, width);
    for query in ["bold and code in", "& more", "quoted well said", "https://x.org"] {
        assert_eq!(found(&mut transcript, query, width).len(), 1, "{query}");
    }
    for query in ["**", "amp;", "▏"] {
        assert_eq!(found(&mut transcript, query, width), [], "{query}");
    }
    // However it is composed.
    let mut transcript = answer("caf\u{e9} cafe\u{301}", width);
    assert_eq!(found(&mut transcript, "cafe\u{301}", width).len(), 2);
    assert_eq!(found(&mut transcript, "caf\u{e9}", width).len(), 2);
}

#[test]
fn a_search_keeps_up_with_what_comes_and_with_the_width() {
    let theme = theme();
    let mut transcript = Transcript::default();
    transcript.note("needle one", Tone::Quiet);
    transcript.event(Event::Delta { text: "a nee".into() }, Instant::now());
    transcript.layout(look(&theme, 40), 20);
    let mut search = Search::new("needle", &mut transcript, look(&theme, 40));
    assert_eq!((search.hits().len(), search.at()), (1, 0));
    transcript.event(Event::Delta { text: "dle and a needle".into() }, Instant::now());
    search.refresh(&mut transcript, look(&theme, 40));
    assert_eq!((search.hits().len(), search.at()), (3, 0));
    assert!(search.step(true));
    let at = search.current().expect("a hit");
    search.refresh(&mut transcript, look(&theme, 12));
    assert_eq!((search.hits().len(), search.at()), (3, 1));
    assert_eq!(search.current().expect("a hit").from.place.block, at.from.place.block);
    assert!(search.step(false) && search.step(false));
    assert_eq!(search.at(), 2, "it goes round");
    transcript.truncate(1);
    search.refresh(&mut transcript, look(&theme, 12));
    assert_eq!((search.hits().len(), search.at()), (1, 0));
    assert!(
        search.in_row(Place { block: 0, row: 0 }).count() == 1
            && search.in_row(Place { block: 1, row: 0 }).count() == 0
    );
}

#[test]
fn a_search_in_an_answer_that_streams_finds_what_a_fresh_one_does() {
    let theme = theme();
    let mut transcript = Transcript::default();
    let mut search = Search::new("needle in", &mut transcript, look(&theme, 24));
    for n in 0..120 {
        let more = match n % 10 {
            0 => "\n\n",
            3 => "nee",
            4 => "dle ",
            5 => "in a ",
            7 => "```\nneedle in code\n```\n",
            _ => "some more words ",
        };
        transcript.event(Event::Delta { text: more.into() }, Instant::now());
        search.refresh(&mut transcript, look(&theme, 24));
        let fresh = Search::new("needle in", &mut transcript, look(&theme, 24));
        assert_eq!(search.hits(), fresh.hits(), "after {n}");
    }
    transcript.settle();
    search.refresh(&mut transcript, look(&theme, 24));
    assert_eq!(search.hits(), Search::new("needle in", &mut transcript, look(&theme, 24)).hits());
    assert!(search.hits().len() > 20, "{}", search.hits().len());
}

proptest::proptest! {
    /// What is left out without a look shows nothing of what is searched.
    #[test]
    fn what_is_passed_over_holds_nothing(text in "[abAB*_` é日\n-]{0,60}", query in "[abé日 ]{1,6}") {
        let width = 20;
        let mut transcript = answer(&text, width);
        let found = !found(&mut transcript, &query, width).is_empty();
        // The same text in a block that is never passed over.
        let mut live = Transcript::default();
        live.event(Event::Delta { text: text.clone() }, Instant::now());
        live.event(Event::Delta { text: "\n\n".into() }, Instant::now());
        live.layout(look(&theme(), width), 100);
        let looked = !Search::new(&query, &mut live, look(&theme(), width)).hits().is_empty();
        proptest::prop_assert_eq!(found, looked);
    }

    /// Whatever is cut out of a text is found in it, and what is found reads as it was searched.
    #[test]
    fn every_piece_of_a_text_is_found(
        words in proptest::collection::vec("[a-z日本é👩]{1,9}", 1..14),
        from: proptest::sample::Index,
        length in 1usize..20,
        width in 8u16..50,
    ) {
        let text = words.join(" ");
        let characters: Vec<char> = text.chars().collect();
        let from = from.index(characters.len());
        let piece: String = characters[from..(from + length).min(characters.len())].iter().collect();
        proptest::prop_assume!(!piece.trim().is_empty() && piece.trim() == piece);
        let mut transcript = user(&text, width);
        let hits = found(&mut transcript, &piece, width);
        proptest::prop_assert!(!hits.is_empty());
        for (hit, _) in hits {
            proptest::prop_assert_eq!(hit, piece.clone());
        }
    }

    /// Any two cells of any text: what is between them is a part of it.
    #[test]
    fn a_drag_gives_a_part_of_the_text(
        text in "[a-z日本é👩 ]{1,60}",
        cells in proptest::array::uniform4(0u16..40),
        width in 6u16..40,
    ) {
        let mut transcript = user(&text, width);
        let rows = transcript.view.len() as u16;
        let place = |n: u16| transcript.view[usize::from(n % rows)];
        let from = Spot { place: place(cells[0]), column: cells[1] };
        let to = Spot { place: place(cells[2]), column: cells[3] };
        let piece = dragged(&mut transcript, width, from, to);
        proptest::prop_assert!(text.contains(&piece), "{:?} in {:?}", piece, text);
    }
}

#[test]
fn rows_know_which_blanks_were_left_out() {
    let rows = wrap(&[Span::new("one   two", Default::default())], &[], &[], 6, row::Wrap::Words);
    assert_eq!((rows[1].text().as_str(), rows[1].join), ("two", row::Join::Blank(3)));
}
