//! Completions under the prompt's cursor: commands after `/`, files after `@`, paths with Tab.

use crate::tui::app::AppState;
use crate::tui::commands::{SLASHES, extra_name};
use crate::tui::list::{Popup, PopupItem, best};
use crate::tui::msg::{Completion, Effect};
use crate::tui::update::submit::kind_name;

/// Items that a popup holds at most.
pub const MOST: usize = 50;

/// Brings the popup up to date after the prompt changed.
pub fn refresh(app: &mut AppState, effects: &mut Vec<Effect>) {
    let before = app.prompt.before_cursor();
    if app.prompt.cursor().0 == 0
        && let Some(query) = before.strip_prefix('/').filter(|query| !query.contains(char::is_whitespace))
    {
        let query = query.to_owned();
        commands(app, &query);
        return;
    }
    if let Some((_, query)) = file_under(before) {
        let query = query.to_owned();
        effects.push(Effect::Match { query, version: app.prompt.version, how: Completion::Project });
        return;
    }
    app.popup = None;
}

fn commands(app: &mut AppState, query: &str) {
    let built_in = SLASHES.iter().map(|slash| PopupItem {
        label: format!("/{}", slash.name),
        detail: slash.doc.to_owned(),
        insert: format!("/{}", slash.name),
    });
    let extras = app.extras.iter().map(|extra| {
        let name = extra_name(extra.kind, &extra.name);
        let detail = format!("{}: {}", kind_name(extra.kind), crate::text::visible(&extra.description));
        PopupItem { label: name.clone(), detail, insert: name }
    });
    let all: Vec<PopupItem> = built_in.chain(extras).collect();
    let mut items: Vec<PopupItem> = if query.is_empty() {
        all
    } else {
        let mut order = best(query, all.iter().map(|item| item.label.as_str()));
        // What begins with the query stands first, the exact name before all.
        order.sort_by_key(|index| {
            let name = &all[*index].label[1..];
            (name != query, !name.starts_with(query))
        });
        order.into_iter().map(|index| all[index].clone()).collect()
    };
    items.truncate(MOST);
    app.popup =
        (!items.is_empty()).then(|| Popup { version: app.prompt.version, column: 0, items, ..Popup::default() });
}

/// The name after an `@` that ends at the cursor, and the character at which the `@` stands.
pub fn file_under(before: &str) -> Option<(usize, &str)> {
    let at = before.rfind('@')?;
    let query = &before[at + 1..];
    let free = before[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || "([{<\"'、。「".contains(c));
    (free && !query.contains(char::is_whitespace)).then(|| (before[..at].chars().count(), query))
}

/// The path that ends at the cursor, and the character at which it begins.
pub fn path_under(before: &str) -> Option<(usize, String)> {
    let begun = before
        .rfind(|c: char| c.is_whitespace() || "\"'`(".contains(c))
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let word = &before[begun..];
    let is_path = word.contains('/') || word.starts_with('~') || word.starts_with('.');
    (is_path && !(begun == 0 && word.starts_with('/') && !word[1..].contains('/')))
        .then(|| (before[..begun].chars().count(), word.to_owned()))
}

/// Takes completions of files.
pub fn matched(app: &mut AppState, version: u64, items: Vec<String>) {
    if version != app.prompt.version || app.overlay.is_some() {
        return;
    }
    let before = app.prompt.before_cursor();
    let (column, mark) = match (file_under(before), path_under(before)) {
        (Some((column, _)), _) => (column, "@"),
        (None, Some((column, _))) => (column, ""),
        (None, None) => return,
    };
    let quoted = |path: &str| if path.contains(' ') { format!("{mark}\"{path}\"") } else { format!("{mark}{path}") };
    if mark.is_empty() && items.len() == 1 {
        let insert = quoted(&items[0]);
        app.prompt.replace_before(column, &insert);
        return;
    }
    let items: Vec<PopupItem> = items
        .into_iter()
        .map(|path| PopupItem { label: crate::text::visible(&path), detail: String::new(), insert: quoted(&path) })
        .collect();
    app.popup = (!items.is_empty()).then(|| Popup { version, column, items, ..Popup::default() });
    app.dirty = true;
}

/// Puts the chosen completion in. `send` tells whether Enter should go on and send: a command that needs
/// nothing more.
pub fn accept(app: &mut AppState) -> bool {
    let Some(popup) = app.popup.take() else { return false };
    let Some(item) = popup.items.get(popup.selected) else { return false };
    let command = item.insert.starts_with('/') && popup.column == 0;
    let folder = item.insert.ends_with('/') && !command;
    app.prompt.replace_before(popup.column, &item.insert);
    if !command && !folder {
        app.prompt.insert(" ");
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_under_the_cursor() {
        assert_eq!(file_under("see @src/ma"), Some((4, "src/ma")));
        assert_eq!(file_under("mail me@home"), None);
        assert_eq!(file_under("日本 @"), Some((3, "")));
        assert_eq!(path_under("cat src/m"), Some((4, "src/m".into())));
        assert_eq!(path_under("/model"), None);
        assert_eq!(path_under("cat ~/x"), Some((4, "~/x".into())));
        assert_eq!(path_under("word"), None);
    }
}
