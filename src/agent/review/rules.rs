//! Rules in the settings (formats.md, "settings.json"): `tool(pattern)`, deny before ask before allow.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::words::{Line, Word, base};
use crate::config::settings::Permissions;
use crate::toolkit::Risk;

/// The rules in force.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    deny: Vec<Rule>,
    ask: Vec<Rule>,
    allow: Vec<Rule>,
}

/// What the rules say of a call, with the rule that says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruled {
    /// It does not run.
    Deny(String),
    /// The person is asked.
    Ask(String),
    /// It runs.
    Allow(String),
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// What the call can do.
    pub risk: Risk,
    /// The command that it runs.
    pub command: Option<&'a str>,
    /// The path that it reads or writes, as it was given and made absolute.
    pub path: Option<&'a Path>,
    /// The same with symbolic links resolved.
    pub real: Option<&'a Path>,
    /// The project's root.
    pub root: &'a Path,
}

#[derive(Debug, Clone)]
struct Rule {
    text: String,
    tool: String,
    pattern: Pattern,
}

#[derive(Debug, Clone)]
enum Pattern {
    Any,
    /// Words of a command; `open`: more may follow.
    Words {
        words: Vec<String>,
        open: bool,
        paths: Paths,
    },
}

/// Globs of paths.
#[derive(Debug, Clone, Default)]
struct Paths {
    /// From the project's root.
    relative: GlobSet,
    /// From the file system's root.
    absolute: GlobSet,
    /// A name without a folder: at any depth.
    bare: GlobSet,
}

/// Whether words fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    No,
    /// That is only known when it runs.
    Perhaps,
    Yes,
}

impl Rules {
    /// The rules of the settings, and what is wrong with those that are none.
    pub fn of(permissions: &Permissions) -> (Self, Vec<String>) {
        let mut mistakes = Vec::new();
        let mut read = |name: &str, texts: &[String]| -> Vec<Rule> {
            let rules = texts.iter().filter_map(|text| match Rule::read(text) {
                Ok(rule) => Some(rule),
                Err(wrong) => {
                    mistakes.push(format!("settings.json: permissions.{name}: `{text}` is no rule: {wrong}"));
                    None
                }
            });
            rules.collect()
        };
        let (deny, ask, allow) =
            (read("deny", &permissions.deny), read("ask", &permissions.ask), read("allow", &permissions.allow));
        (Rules { deny, ask, allow }, mistakes)
    }

    /// Allows what a rule says from here on; a text that is no rule allows nothing.
    pub fn allow(&mut self, text: &str) {
        self.allow.extend(Rule::read(text).ok());
    }

    /// What they say of a call.
    pub fn look(&self, subject: Subject<'_>) -> Option<Ruled> {
        let line = subject.command.map(Line::read);
        let line = line.as_ref();
        // What may be denied once it runs cannot be let through unseen.
        let mut doubt = None;
        for rule in &self.deny {
            match rule.warns(subject, line) {
                Fit::Yes => return Some(Ruled::Deny(rule.text.clone())),
                Fit::Perhaps => doubt = Some(rule.text.clone()),
                Fit::No => {}
            }
        }
        let asks = self.ask.iter().find(|rule| rule.warns(subject, line) != Fit::No);
        if let Some(text) = doubt.or_else(|| asks.map(|rule| rule.text.clone())) {
            return Some(Ruled::Ask(text));
        }
        let whole = self.allow.iter().filter(|rule| rule.is_of(subject));
        match line {
            None => whole.clone().find(|rule| rule.allows_path(subject)).map(|rule| Ruled::Allow(rule.text.clone())),
            Some(line) => {
                if let Some(rule) = whole.clone().find(|rule| matches!(rule.pattern, Pattern::Any)) {
                    return Some(Ruled::Allow(rule.text.clone()));
                }
                if !line.plain || line.parts.is_empty() {
                    return None;
                }
                let mut last = None;
                for part in &line.parts {
                    last = Some(whole.clone().find(|rule| rule.fits_words(part, false) == Fit::Yes)?);
                }
                last.map(|rule| Ruled::Allow(rule.text.clone()))
            }
        }
    }
}

impl Rule {
    fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (tool, pattern) = match text.split_once('(') {
            None => (text, ""),
            Some((tool, rest)) => {
                (tool.trim(), rest.strip_suffix(')').ok_or("the closing parenthesis is missing")?.trim())
            }
        };
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if tool.is_empty() || !tool.chars().all(named) {
            return Err("it begins with a tool's name, such as bash(git push:*) or write(src/**)".to_owned());
        }
        let pattern = match pattern {
            "" | "*" | ":*" => Pattern::Any,
            pattern => {
                let (prefix, open) = match pattern.strip_suffix(":*").or_else(|| pattern.strip_suffix(" *")) {
                    Some(prefix) => (prefix, true),
                    None => (pattern, false),
                };
                let words = shlex::split(prefix).ok_or("its quotes do not match")?;
                Pattern::Words { words, open, paths: Paths::read(pattern).map_err(|error| error.to_string())? }
            }
        };
        Ok(Rule { text: text.to_owned(), tool: tool.to_owned(), pattern })
    }

    fn is_of(&self, subject: Subject<'_>) -> bool {
        self.tool == subject.tool || self.tool == "write" && subject.risk == Risk::Write
    }

    /// Whether the rule has to do with any part of the call.
    fn warns(&self, subject: Subject<'_>, line: Option<&Line>) -> Fit {
        if !self.is_of(subject) {
            return Fit::No;
        }
        let Pattern::Words { paths, .. } = &self.pattern else { return Fit::Yes };
        match line {
            None => {
                let any = [subject.path, subject.real].into_iter().flatten();
                match any.into_iter().any(|path| paths.warn(&lexical(path), subject.root)) {
                    true => Fit::Yes,
                    false => Fit::No,
                }
            }
            Some(line) => line.parts.iter().map(|part| self.warns_words(part)).max().unwrap_or(Fit::No),
        }
    }

    /// As [`Rule::fits_words`], with what a command is run by, such as `sudo`, passed over.
    fn warns_words(&self, part: &[Word]) -> Fit {
        let wrapped = part.first().and_then(Word::known).is_some_and(|word| WRAPPERS.contains(&base(word)));
        let starts = if wrapped { part.len().min(16) } else { 1 };
        (0..starts).map(|at| self.fits_words(&part[at..], true)).max().unwrap_or(Fit::No)
    }

    fn fits_words(&self, part: &[Word], loosely: bool) -> Fit {
        let Pattern::Words { words, open, .. } = &self.pattern else { return Fit::Yes };
        let mut fit = Fit::Yes;
        for (at, wanted) in words.iter().enumerate() {
            match part.get(at).map(Word::known) {
                None => return Fit::No,
                Some(None) => fit = Fit::Perhaps,
                Some(Some(word)) if word == wanted => {}
                Some(Some(word)) if loosely && at == 0 && base(word) == wanted => {}
                Some(Some(_)) => return Fit::No,
            }
        }
        if part.len() > words.len() && !open { Fit::No } else { fit }
    }

    fn allows_path(&self, subject: Subject<'_>) -> bool {
        match &self.pattern {
            Pattern::Any => true,
            Pattern::Words { paths, .. } => subject.real.is_some_and(|real| paths.allow(real, subject.root)),
        }
    }
}

/// Commands that run another, which is named behind them.
const WRAPPERS: &[&str] = &[
    "sudo", "doas", "env", "command", "builtin", "exec", "nohup", "nice", "time", "timeout", "xargs", "stdbuf",
    "setsid", "ionice", "watch", "find", "parallel", "strace", "unbuffer",
];

impl Paths {
    fn read(pattern: &str) -> Result<Self, globset::Error> {
        let expanded = match pattern.strip_prefix("~/") {
            Some(rest) => {
                let home = std::env::home_dir().unwrap_or_default();
                format!("{}/{rest}", globset::escape(&home.to_string_lossy()))
            }
            None => pattern.trim_start_matches("./").to_owned(),
        };
        let set = |globs: &[String]| -> Result<GlobSet, globset::Error> {
            let mut builder = GlobSetBuilder::new();
            for glob in globs {
                builder.add(GlobBuilder::new(glob).literal_separator(true).backslash_escape(true).build()?);
            }
            builder.build()
        };
        // A folder stands for what is in it too.
        let both = |glob: &str| [glob.to_owned(), format!("{}/**", glob.trim_end_matches('/'))];
        let none = GlobSet::empty();
        Ok(if expanded.starts_with('/') {
            Paths { absolute: set(&both(&expanded))?, ..Paths::default() }
        } else if expanded.contains('/') || pattern.starts_with("./") {
            Paths { relative: set(&both(&expanded))?, ..Paths::default() }
        } else {
            Paths { bare: set(&both(&format!("**/{expanded}")))?, relative: none.clone(), absolute: none }
        })
    }

    fn allow(&self, real: &Path, root: &Path) -> bool {
        let inside = real.strip_prefix(root).ok();
        self.absolute.is_match(real)
            || inside.is_some_and(|path| self.relative.is_match(path) || self.bare.is_match(path))
    }

    /// As [`Paths::allow`], and a bare name anywhere.
    fn warn(&self, path: &Path, root: &Path) -> bool {
        self.allow(path, root) || self.bare.is_match(path)
    }
}

/// `.` and `..` taken out, without a look at the disk.
fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// Programs whose first argument says what they do.
const WITH_SUBCOMMANDS: &[&str] = &[
    "git", "cargo", "npm", "pnpm", "yarn", "bun", "go", "make", "docker", "kubectl", "pip", "uv", "poetry", "rustup",
    "gh", "brew", "dotnet", "gradle", "mvn", "just", "mix", "composer", "bundle", "rake", "deno",
];

/// Programs that only look, whatever their arguments.
const LOOKING: &[&str] = &[
    "ls", "cat", "head", "tail", "wc", "pwd", "echo", "which", "grep", "rg", "stat", "du", "df", "file", "diff",
    "date", "uname", "printf", "true", "basename", "dirname", "realpath",
];

/// The rule that would allow a command: its program with its subcommand, or the very command where that would allow too
/// much. `None` where no rule can.
pub fn rule_for_command(tool: &str, command: &str) -> Option<String> {
    let line = Line::read(command);
    if !line.plain {
        return None;
    }
    let rules = line.parts.iter().map(|part| {
        let first = part.first()?.known()?;
        let second = part.get(1).and_then(Word::known);
        let subcommand =
            |word: &str| word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == ':');
        Some(match second {
            Some(second) if WITH_SUBCOMMANDS.contains(&first) && subcommand(second) && !second.starts_with('-') => {
                format!("{first} {second}:*")
            }
            _ if LOOKING.contains(&first) => format!("{first}:*"),
            _ => {
                let words: Option<Vec<&str>> = part.iter().map(Word::known).collect();
                shlex::try_join(words?).ok()?
            }
        })
    });
    let mut rules: Vec<String> = rules.collect::<Option<_>>()?;
    rules.dedup();
    match rules.as_slice() {
        [only] if !only.contains(['(', ')', '\n']) => Some(format!("{tool}({only})")),
        _ => None,
    }
}

/// The rule that would allow a write: the folder within the project, or that file alone.
pub fn rule_for_path(real: &Path, root: &Path, whole_folder: bool) -> String {
    let escaped = |path: &Path| globset::escape(&path.to_string_lossy());
    match real.strip_prefix(root) {
        Ok(inside) if whole_folder => match inside.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            Some(folder) => format!("write({}/**)", escaped(folder)),
            None => format!("write(./{})", escaped(inside)),
        },
        Ok(inside) => format!("write(./{})", escaped(inside)),
        Err(_) => format!("write({})", escaped(real)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(deny: &[&str], ask: &[&str], allow: &[&str]) -> Rules {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let (rules, mistakes) = Rules::of(&Permissions { deny: own(deny), ask: own(ask), allow: own(allow) });
        assert!(mistakes.is_empty(), "{mistakes:?}");
        rules
    }

    fn command<'a>(text: &'a str) -> Subject<'a> {
        let root = Path::new("/p");
        Subject { tool: "bash", risk: Risk::Command, command: Some(text), path: None, real: None, root }
    }

    fn write<'a>(tool: &'a str, path: &'a str) -> Subject<'a> {
        let path = Path::new(path);
        Subject { tool, risk: Risk::Write, command: None, path: Some(path), real: Some(path), root: Path::new("/p") }
    }

    fn verdict(ruled: Option<Ruled>) -> &'static str {
        match ruled {
            Some(Ruled::Deny(_)) => "deny",
            Some(Ruled::Ask(_)) => "ask",
            Some(Ruled::Allow(_)) => "allow",
            None => "-",
        }
    }

    #[test]
    fn every_part_of_a_command_must_be_allowed() {
        let rules = rules(&[], &[], &["bash(cargo test:*)", "bash(git status)", "bash(ls:*)"]);
        let cases = [
            ("cargo test", "allow"),
            ("cargo test --all -- x", "allow"),
            ("cargo testify", "-"),
            ("cargo", "-"),
            ("git status", "allow"),
            ("git status -s", "-"),
            ("cargo test && git status | ls -la", "allow"),
            ("cargo test; rm -rf x", "-"),
            ("cargo test > x", "-"),
            ("cargo test 2>&1", "allow"),
            ("cargo test $(rm x)", "-"),
            ("FOO=1 cargo test", "-"),
            ("/tmp/cargo test", "-"),
            ("cargo test &\nrm x", "-"),
            ("ls `rm x`", "-"),
            ("", "-"),
        ];
        for (text, expected) in cases {
            assert_eq!(verdict(rules.look(command(text))), expected, "{text}");
        }
        assert_eq!(verdict(super::Rules::default().look(command("ls"))), "-");
    }

    #[test]
    fn denied_commands_are_found_wherever_they_hide() {
        let rules = rules(&["bash(git push:*)", "bash(rm -rf:*)"], &["bash(make deploy)"], &["bash"]);
        let cases = [
            ("git push origin", "deny"),
            ("ls && git push", "deny"),
            ("sudo -E /usr/bin/git push", "deny"),
            ("echo $(git push)", "deny"),
            ("bash -c 'git push'", "deny"),
            ("GIT_DIR=x git push", "deny"),
            ("find . | xargs rm -rf", "deny"),
            ("$X push", "ask"),
            ("git $X", "ask"),
            ("make deploy", "ask"),
            ("git pull", "allow"),
            ("anything > goes", "allow"),
        ];
        for (text, expected) in cases {
            assert_eq!(verdict(rules.look(command(text))), expected, "{text}");
        }
    }

    #[test]
    fn globs_are_of_the_project_and_bare_names_of_any_depth() {
        let rules =
            rules(&["write(.env*)", "write(secrets/**)"], &["edit(src/main.rs)"], &["write(src/**)", "write(/x/y)"]);
        let cases = [
            ("write", "/p/.env", "deny"),
            ("edit", "/p/a/b/.env.local", "deny"),
            ("write", "/elsewhere/.env", "deny"),
            ("write", "/p/x/../.env", "deny"),
            ("write", "/p/secrets/a/b", "deny"),
            ("edit", "/p/src/main.rs", "ask"),
            ("write", "/p/src/main.rs", "allow"),
            ("edit", "/p/src/a/b.rs", "allow"),
            ("write", "/q/src/a", "-"),
            ("write", "/x/y", "allow"),
            ("write", "/p/other", "-"),
        ];
        for (tool, path, expected) in cases {
            assert_eq!(verdict(rules.look(write(tool, path))), expected, "{tool} {path}");
        }
    }

    #[test]
    fn what_is_no_rule_is_told() {
        for text in ["bash(", "(x)", "write(a[)", "ba sh", "bash('x)"] {
            let (_, mistakes) = Rules::of(&Permissions { deny: vec![text.to_owned()], ..Permissions::default() });
            assert_eq!(mistakes.len(), 1, "{text}");
        }
    }

    #[test]
    fn suggestions_allow_what_was_asked_and_little_more() {
        let cases = [
            ("cargo test --all", Some("bash(cargo test:*)")),
            ("cargo test a && cargo test b", Some("bash(cargo test:*)")),
            ("git -c x=y push", Some("bash(git -c 'x=y' push)")),
            ("rm -rf target", Some("bash(rm -rf target)")),
            ("ls -la | wc -l", None),
            ("ls -la", Some("bash(ls:*)")),
            ("echo $X", None),
            ("python3 'a b.py'", Some("bash(python3 'a b.py')")),
        ];
        for (text, expected) in cases {
            let rule = rule_for_command("bash", text);
            assert_eq!(rule.as_deref(), expected, "{text}");
            if let Some(rule) = rule {
                assert_eq!(verdict(rules(&[], &[], &[&rule]).look(command(text))), "allow", "{text}");
            }
        }
        for (path, whole, expected) in [
            ("/p/src/a.rs", true, "write(src/**)"),
            ("/p/a.rs", true, "write(./a.rs)"),
            ("/p/.git/config", false, "write(./.git/config)"),
            ("/x/a[1]", false, "write(/x/a[[]1[]])"),
        ] {
            let rule = rule_for_path(Path::new(path), Path::new("/p"), whole);
            assert_eq!(rule, expected);
            assert_eq!(verdict(rules(&[], &[], &[&rule]).look(write("write", path))), "allow", "{path}");
        }
    }
}
