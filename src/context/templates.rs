//! Prompt templates: `prompts/NAME.md`, run as `/NAME`.

use std::path::{Path, PathBuf};

use super::front_matter;
use super::read_text;
use crate::home::Home;
use crate::text;

/// A template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// What it is called by: the file's name.
    pub name: String,
    /// What it is for, in a line.
    pub description: String,
    /// Its file.
    pub path: PathBuf,
}

/// The templates of the project and of the person; the project's win.
pub fn discover(home: &Home, cwd: &Path) -> Vec<Template> {
    let mut templates: Vec<Template> = Vec::new();
    for folder in [cwd.join(".violin/prompts"), home.agent("prompts")] {
        let mut paths: Vec<_> = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let known = templates.iter().any(|template| template.name == name);
            if path.extension().is_none_or(|extension| extension != "md") || known {
                continue;
            }
            let Ok(text) = read_text(&path) else { continue };
            let parted = front_matter::part(&text);
            let description = parted.matter.description.unwrap_or_else(|| text::first_line(parted.body).to_owned());
            let description = text::clean(text::head(&description, 200));
            templates.push(Template { name: text::clean(&name), description, path });
        }
    }
    templates
}

/// A template's text with its arguments in place.
///
/// # Errors
/// Where its file cannot be read any more.
pub fn invoke(template: &Template, arguments: &str) -> std::io::Result<String> {
    let text = read_text(&template.path)?;
    Ok(fill(front_matter::part(&text).body.trim(), arguments))
}

/// Puts arguments in: `$1` to `$9` one each (words, quoted as in a shell), `$@` and `$ARGUMENTS` all of them as they
/// were typed. What is put in is not looked at again.
fn fill(body: &str, arguments: &str) -> String {
    let words = shlex::split(arguments).unwrap_or_else(|| arguments.split_whitespace().map(str::to_owned).collect());
    let mut out = String::with_capacity(body.len() + arguments.len());
    let mut rest = body;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let digit = after.chars().next().and_then(|c| c.to_digit(10)).filter(|digit| *digit > 0);
        rest = if let Some(digit) = digit {
            out.push_str(words.get(digit as usize - 1).map_or("", String::as_str));
            &after[1..]
        } else if let Some(after) = after.strip_prefix("ARGUMENTS").or_else(|| after.strip_prefix('@')) {
            out.push_str(arguments.trim());
            after
        } else {
            out.push('$');
            after
        };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_go_where_they_belong_and_are_not_looked_at_again() {
        assert_eq!(
            fill("Fix $1 in $2, not $3: $@ ($ARGUMENTS) for $5 and $x", "\"a $1\" b"),
            "Fix a $1 in b, not : \"a $1\" b (\"a $1\" b) for  and $x"
        );
        assert_eq!(fill("$1", "it's"), "it's");
    }

    #[test]
    fn the_projects_templates_win() {
        let dir = tempfile::tempdir().expect("a folder");
        let (home, cwd) = (Home::at(dir.path().join("home")), dir.path().join("project"));
        for (folder, text) in
            [(cwd.join(".violin/prompts"), "---\ndescription: ours\n---\nDo $1"), (home.agent("prompts"), "theirs")]
        {
            std::fs::create_dir_all(&folder).expect("made");
            std::fs::write(folder.join("review.md"), text).expect("written");
        }
        let templates = discover(&home, &cwd);
        assert_eq!((templates.len(), templates[0].description.as_str()), (1, "ours"));
        assert_eq!(invoke(&templates[0], "this").expect("read"), "Do this");
    }
}
