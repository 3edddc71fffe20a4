//! Calls that wait for the person's answer.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use ratatui::style::{Modifier, Style};

use super::transcript::block::LineClasses;
use super::transcript::row::{Row, Span, Wrap, with, wrap};
use super::transcript::tool::{Extent, view_rows};
use super::transcript::{CodeOf, Wanted};
use crate::agent::{CommandLine, ReviewAnswer, ReviewRequest};
use crate::text;
use crate::theme::{Theme, Token};

/// The calls that wait, the first of which is shown.
#[derive(Debug, Default)]
pub struct Reviews {
    waiting: VecDeque<ReviewRequest>,
    /// When the first of them came to be shown.
    since: Option<Instant>,
    /// Which answer is chosen.
    pub selected: usize,
    /// How far what it would change is scrolled.
    pub scroll: usize,
    /// What the dialog shows of the first.
    pub dialog: Dialog,
    /// Counts the calls that were shown.
    number: u64,
    /// The colours of the first one's command, a line each, once they have come.
    classes: Vec<LineClasses>,
    asked: bool,
}

/// What the dialog shows: why it is asked, and what would be done.
#[derive(Debug, Default)]
pub struct Dialog {
    /// Whether the call's title stands above.
    pub titled: bool,
    /// Why it is asked.
    pub reason: Vec<Row>,
    /// What would be done, all of it.
    pub body: Vec<Row>,
    /// How many rows of it are shown at once.
    pub shown: usize,
    key: Option<(u16, u16, u32, bool)>,
}

/// How long a question is taken for unseen.
const UNSEEN: Duration = Duration::from_millis(400);

/// An answer that is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The key that gives it.
    pub key: char,
    /// Its words.
    pub words: String,
}

impl Reviews {
    /// Takes a call.
    pub fn push(&mut self, request: ReviewRequest, now: Instant) {
        if self.waiting.is_empty() {
            self.since = Some(now);
        }
        self.waiting.push_back(request);
    }

    /// Whether the question is so new that a key was meant for the prompt: somebody who writes must not answer
    /// a question that they have not seen.
    pub fn is_new(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) < UNSEEN)
    }

    /// The call that is shown.
    pub fn first(&self) -> Option<&ReviewRequest> {
        self.waiting.front()
    }

    /// How many wait behind it.
    pub fn more(&self) -> usize {
        self.waiting.len().saturating_sub(1)
    }

    /// The answers to the call that is shown.
    pub fn offers(&self) -> Vec<Offer> {
        let Some(request) = self.first() else { return Vec::new() };
        let mut offers = vec![
            Offer { key: 'y', words: "yes, once".to_owned() },
            Offer { key: 's', words: "yes, for this session".to_owned() },
        ];
        if let Some(rule) = &request.rule {
            offers.push(Offer { key: 'a', words: format!("always: {}", text::visible(rule)) });
        }
        offers.push(Offer { key: 'n', words: "no, and say why".to_owned() });
        offers
    }

    /// Answers the call that is shown.
    pub fn answer(&mut self, answer: ReviewAnswer) {
        if let Some(request) = self.waiting.pop_front() {
            // A run that ended meanwhile no longer listens.
            let _ = request.answer.send(answer);
        }
        self.turn();
    }

    /// Refuses all of them: a dropped answer counts as no.
    pub fn refuse_all(&mut self) {
        self.waiting.clear();
        self.turn();
    }

    /// Another call is shown from here on.
    fn turn(&mut self) {
        self.selected = 0;
        self.scroll = 0;
        self.number += 1;
        self.dialog = Dialog::default();
        self.classes.clear();
        self.asked = false;
    }

    /// Scrolls what would be done.
    pub fn scroll_by(&mut self, rows: isize) {
        let last = self.dialog.body.len().saturating_sub(self.dialog.shown);
        self.scroll = self.scroll.saturating_add_signed(rows).min(last);
    }

    /// The command of the call that is shown, where it wants colours.
    pub fn wanted(&mut self, out: &mut Vec<Wanted>) {
        let Some(command) = self.waiting.front().and_then(|request| request.command.as_ref()) else { return };
        if !std::mem::replace(&mut self.asked, true) {
            let lines = command.text.split('\n').map(str::to_owned).collect();
            let of = CodeOf::Review(self.number);
            out.push(Wanted { of, piece: 0, language: "bash".to_owned(), from: 0, lines, last: true });
        }
    }

    /// Takes colours that came; `false` where they are of a call that is gone.
    pub fn colour(&mut self, number: u64, lines: Vec<LineClasses>) -> bool {
        if number != self.number {
            return false;
        }
        self.classes = lines;
        true
    }

    /// Lays the dialog out for a screen of that size; how many rows it takes.
    pub fn lay(&mut self, width: u16, height: u16, theme: &Theme, generation: u32) -> u16 {
        let offers = self.offers().len();
        let Some(request) = self.waiting.front() else { return 0 };
        let dialog = &mut self.dialog;
        let most = usize::from(height) * 2 / 3;
        let key = (width, height, generation, self.classes.is_empty());
        if dialog.key != Some(key) {
            *dialog = Dialog { key: Some(key), titled: request.command.is_none(), ..Dialog::default() };
            if let Some(command) = &request.command {
                dialog.body.extend(command_rows(command, &self.classes, width, theme));
            }
            if let Some(view) = &request.view {
                dialog.body.extend(view_rows(view, "", width, theme, Extent::All, &mut Vec::new()));
            }
            let room = most.saturating_sub(1 + usize::from(dialog.titled) + offers);
            let kept = room.saturating_sub(dialog.body.len().min(3)).clamp(1, 4);
            dialog.reason = reason_rows(request, width, kept, theme);
            dialog.shown = dialog.body.len().min(usize::from(height / 3)).min(room.saturating_sub(dialog.reason.len()));
        }
        self.scroll = self.scroll.min(dialog.body.len().saturating_sub(dialog.shown));
        let rows = 1 + usize::from(dialog.titled) + dialog.reason.len() + dialog.shown + offers;
        rows.min(most) as u16
    }
}

/// Why it is asked, in at most that many rows.
fn reason_rows(request: &ReviewRequest, width: u16, most: usize, theme: &Theme) -> Vec<Row> {
    if request.reason.is_empty() {
        return Vec::new();
    }
    let dangerous = request.command.as_ref().is_some_and(|command| !command.dangers.is_empty());
    let style = theme.style(if dangerous { Token::Warning } else { Token::Dim });
    let gutter = [Span::new(" ", Style::new())];
    let width = width.saturating_sub(1).max(2);
    let words = text::visible(&request.reason);
    let mut rows = wrap(&[Span::new(words.clone(), style)], &gutter, &gutter, width, Wrap::Words);
    if rows.len() > most {
        rows.truncate(most.saturating_sub(1));
        let before: usize = rows.iter().map(|row| text::width(&row.slice(0, u16::MAX)) + 1).sum();
        let rest: String = words.chars().skip(before.min(words.chars().count())).collect();
        let rest = text::ellipsis(rest.trim_start(), usize::from(width).saturating_sub(1));
        rows.push(Row { gutter: 1, ..Row::new(vec![gutter[0].clone(), Span::new(rest, style)]) });
    }
    rows
}

/// A command, in colours as they came, with its dangers marked.
fn command_rows(command: &CommandLine, classes: &[LineClasses], width: u16, theme: &Theme) -> Vec<Row> {
    let danger = with(theme.style(Token::Error), Modifier::BOLD | Modifier::UNDERLINED);
    let rest = [Span::new("   ", Style::new())];
    let mut first = [Span::new(" $ ", theme.style(Token::Accent))];
    let mut rows = Vec::new();
    let mut begun = 0;
    for (number, line) in command.text.split('\n').enumerate() {
        let whole = begun..begun + line.len();
        let marks: Vec<Range<usize>> = command
            .dangers
            .iter()
            .map(|danger| danger.at.start.max(whole.start)..danger.at.end.min(whole.end))
            .filter(|mark| mark.start < mark.end)
            .map(|mark| mark.start - begun..mark.end - begun)
            .collect();
        let classes = classes.get(number).map_or(&[][..], |classes| classes);
        let mut borders: Vec<usize> = marks.iter().flat_map(|mark| [mark.start, mark.end]).collect();
        borders.extend(classes.iter().map(|(end, _)| *end as usize));
        borders.push(line.len());
        borders.sort_unstable();
        borders.dedup();
        let mut spans = Vec::new();
        let mut from = 0;
        for to in borders {
            // What came from another thread is not trusted to stand on a border of characters.
            let Some(piece) = line.get(from..to).filter(|piece| !piece.is_empty()) else { continue };
            let class = classes.iter().find(|(end, _)| from < *end as usize).and_then(|(_, class)| *class);
            let mut style = class.map_or(Style::new(), |class| theme.class(class));
            if marks.iter().any(|mark| mark.contains(&from)) {
                style = style.patch(danger);
            }
            // Nothing of a command is left out, however it would show: all of it would run.
            spans.push(Span::new(text::visible(piece), style));
            from = to;
        }
        rows.extend(wrap(&spans, &first, &rest, width.saturating_sub(1).max(4), Wrap::Anywhere));
        first = rest.clone();
        begun = whole.end + 1;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Danger;
    use crate::tui::highlight;

    fn asked(text: &str, dangers: &[&str]) -> Reviews {
        let marks = dangers.iter().map(|part| {
            let at = text.find(part).expect("it stands there");
            Danger { at: at..at + part.len(), why: "it bites" }
        });
        let command = CommandLine { text: text.to_owned(), dangers: marks.collect() };
        let request = ReviewRequest {
            call_id: "c".into(),
            name: "bash".into(),
            title: text.into(),
            risk: crate::toolkit::Risk::Command,
            reason: "a reason ".repeat(30),
            command: Some(command),
            view: None,
            rule: None,
            answer: tokio::sync::oneshot::channel().0,
        };
        let mut reviews = Reviews::default();
        reviews.push(request, Instant::now());
        reviews
    }

    /// What is marked as dangerous in the rows, row by row.
    fn marked(reviews: &Reviews) -> Vec<String> {
        let rows = reviews.dialog.body.iter().map(|row| {
            let dangerous = row.spans.iter().filter(|span| span.style.add_modifier.contains(Modifier::UNDERLINED));
            dangerous.map(|span| span.text.as_str()).collect::<String>()
        });
        rows.filter(|text| !text.is_empty()).collect()
    }

    fn colour(reviews: &mut Reviews) {
        let mut wanted = Vec::new();
        reviews.wanted(&mut wanted);
        assert_eq!(wanted.len(), 1);
        let mut coloured = highlight::coloured(&wanted);
        let lines = coloured.remove(0).lines;
        let CodeOf::Review(number) = wanted[0].of else { panic!("not a review's") };
        assert!(reviews.colour(number, lines));
        assert!(!reviews.colour(number + 1, Vec::new()), "colours of another call");
        reviews.wanted(&mut wanted);
        assert_eq!(wanted.len(), 1, "once is enough");
    }

    #[test]
    fn dangers_are_marked_in_place_before_and_after_the_colours_come() {
        let theme = Theme::built_in("violin-dark");
        let mut reviews = asked("echo \"é\" && rm -rf build\nsudo make", &["rm -rf build", "sudo"]);
        for width in [80, 18] {
            reviews.lay(width, 40, &theme, 0);
            assert_eq!(marked(&reviews).concat(), "rm -rf buildsudo", "at {width}");
        }
        colour(&mut reviews);
        reviews.lay(80, 40, &theme, 0);
        assert_eq!(marked(&reviews), ["rm -rf build", "sudo"]);
        let first = &reviews.dialog.body[0];
        let string = first.spans.iter().find(|span| span.text.contains('é')).expect("the string");
        assert_eq!(string.style, theme.class(crate::theme::Class::String));
    }

    #[test]
    fn every_character_of_a_command_shows() {
        let theme = Theme::built_in("violin-dark");
        let text = "a\tb\x1b[2Jc\r\u{202e}d 日本 👩\u{200d}🔬";
        let mut reviews = asked(text, &[]);
        reviews.lay(80, 40, &theme, 0);
        assert_eq!(reviews.dialog.body[0].slice(0, 200), text::visible(text));
    }

    #[test]
    fn the_dialog_leaves_room_for_its_answers_and_its_body_at_any_size() {
        let theme = Theme::built_in("violin-dark");
        let mut reviews = asked(&"make all; ".repeat(60), &[]);
        for (width, height) in [(20, 6), (40, 12), (80, 24), (160, 50), (300, 100), (20, 100), (300, 5)] {
            let rows = usize::from(reviews.lay(width, height, &theme, 0));
            let dialog = &reviews.dialog;
            assert!(rows <= usize::from(height) * 2 / 3, "{width}x{height}");
            if height >= 12 {
                assert!(dialog.shown > 0, "{width}x{height}");
                assert_eq!(rows, 1 + dialog.reason.len() + dialog.shown + 3, "{width}x{height}");
            }
        }
        reviews.lay(40, 24, &theme, 0);
        reviews.scroll_by(1000);
        assert_eq!(reviews.scroll, reviews.dialog.body.len() - reviews.dialog.shown);
        reviews.scroll_by(-1000);
        assert_eq!(reviews.scroll, 0);
    }
}
