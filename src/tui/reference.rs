//! The interface's reference in Markdown, made from its tables: keys, commands, theme tokens.

use std::fmt::Write as _;

use super::actions::ACTIONS;
use super::commands::SLASHES;
use super::keys::{Bindings, Scope};
use crate::theme::{Class, Token};

/// All of it.
pub fn markdown() -> String {
    let bindings = Bindings::default();
    let mut out = String::from("# Keys and commands\n\nThis page is made from the program's own tables.\n");
    for (scope, title) in [
        (Scope::Global, "Keys"),
        (Scope::Tree, "Keys of the tree pane"),
        (Scope::Output, "Keys of the output pane"),
        (Scope::List, "Keys of lists"),
    ] {
        let _ = write!(out, "\n## {title}\n\n| keys | what | name in keybindings.json |\n|---|---|---|\n");
        for action in ACTIONS.iter().filter(|action| action.scope == scope) {
            let keys = bindings.keys_of(action.name).replace('|', "\\|");
            let _ = writeln!(out, "| {keys} | {} | `{}` |", action.doc, action.name);
        }
    }
    out.push_str("\n## Commands\n\n| command | what |\n|---|---|\n");
    for slash in SLASHES {
        let argument = slash.argument.replace('|', "\\|");
        let command = format!("/{} {argument}", slash.name);
        let _ = writeln!(out, "| `{}` | {} |", command.trim_end(), slash.doc);
    }
    out.push_str("| `!command` | run a command; the model sees it and its output |\n");
    out.push_str("| `!!command` | run a command; the model does not see it |\n");
    let names = |names: Vec<&str>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let _ = write!(
        out,
        "\n## Themes\n\n`ui` tokens: {}.\n\n`syntax` scopes: {}.\n",
        names(Token::ALL.iter().map(|(_, name)| *name).collect()),
        names(Class::ALL.iter().map(|(_, scope)| *scope).collect()),
    );
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Run with `UPDATE_DOCS=1` to write the page anew.
    #[test]
    fn the_page_in_docs_is_the_tables() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/keys.md");
        let made = super::markdown();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(&path, &made).expect("written");
        }
        assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), made, "run with UPDATE_DOCS=1");
    }
}
