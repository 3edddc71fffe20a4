//! What a person should look at twice in a command, and where in it that stands.

use super::words::{Line, Word, base};
use crate::agent::protocol::{CommandLine, Danger};

/// A command with its dangers, in the order in which they stand in it.
pub fn command_line(command: &str) -> CommandLine {
    let line = Line::read(command);
    let mut dangers: Vec<Danger> = line.parts.iter().flat_map(|part| of_part(part)).collect();
    for pair in line.parts.windows(2) {
        let name = |part: &[Word]| part.first().and_then(Word::known).map(base).unwrap_or_default().to_owned();
        let loads = matches!(name(&pair[0]).as_str(), "curl" | "wget");
        let runs = matches!(name(&pair[1]).as_str(), "sh" | "bash" | "zsh" | "python" | "python3" | "sudo");
        if loads && runs {
            let at = pair[0][0].at.start..pair[1][0].at.end;
            dangers.push(Danger { at, why: "it runs what it loads from the network" });
        }
    }
    // What is nested may be read more than once.
    dangers.retain(|danger| !danger.at.is_empty());
    dangers.sort_by_key(|danger| (danger.at.start, danger.at.end));
    dangers.dedup();
    CommandLine { text: command.to_owned(), dangers }
}

/// In a few words, each danger once; `None` where there is none.
pub fn look_twice(command: &CommandLine) -> Option<String> {
    let many = command.text.trim_end().contains('\n');
    let mut words: Vec<String> = Vec::new();
    for danger in &command.dangers {
        if words.iter().any(|word| word.starts_with(danger.why)) {
            continue;
        }
        let number = command.text[..danger.at.start].matches('\n').count() + 1;
        words.push(if many { format!("{} (line {number})", danger.why) } else { danger.why.to_owned() });
    }
    (!words.is_empty()).then(|| format!("look twice: {}", words.join("; ")))
}

/// The dangers of one simple command: from the word that is dangerous to its end.
fn of_part(part: &[Word]) -> Vec<Danger> {
    let words: Vec<&str> = part.iter().map(|word| word.known().unwrap_or("")).collect();
    let find = |wanted: &str| words.iter().position(|word| base(word) == wanted);
    let flag = |long: &str, short: char| {
        words
            .iter()
            .any(|word| *word == long || word.starts_with('-') && !word.starts_with("--") && word.contains(short))
    };
    let mut dangers = Vec::new();
    let mut add = |from: Option<usize>, fits: bool, why| {
        if let (Some(from), true) = (from, fits) {
            let last = part.last().map_or(0, |word| word.at.end);
            dangers.push(Danger { at: part[from].at.start..last.max(part[from].at.end), why });
        }
    };
    let recursive = || flag("--recursive", 'r') || flag("--recursive", 'R');
    add(find("rm"), recursive(), "it deletes whole folders");
    let git = find("git");
    let pushes = find("push").is_some() && (flag("--force", 'f') || words.contains(&"--force-with-lease"));
    add(git, pushes, "it overwrites what others may have pushed");
    let resets = find("reset").is_some() && words.contains(&"--hard");
    let cleans = find("clean").is_some() && flag("--force", 'f');
    add(git, resets || cleans, "it throws away changes that are not committed");
    let writes = ["dd", "mkfs", "shred"].into_iter().find_map(find);
    let writes = writes.or_else(|| words.iter().position(|word| base(word).starts_with("mkfs.")));
    add(writes, true, "it overwrites a disk or a file for good");
    let rights = find("chmod").or_else(|| find("chown"));
    add(rights, flag("--recursive", 'R'), "it changes the rights of whole folders");
    // What is run with other rights is looked at for itself: only the word is marked.
    if let Some(at) = ["sudo", "doas", "su"].into_iter().find_map(find) {
        dangers.push(Danger { at: part[at].at.clone(), why: "it asks for the rights of another user" });
    }
    dangers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str) -> Vec<(&str, &'static str)> {
        command_line(text).dangers.iter().map(|danger| (&text[danger.at.clone()], danger.why)).collect()
    }

    #[test]
    fn dangers_are_named_where_they_stand() {
        let (deletes, rights) = ("it deletes whole folders", "it asks for the rights of another user");
        let (pushes, resets) =
            ("it overwrites what others may have pushed", "it throws away changes that are not committed");
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("rm -rf /", &[("rm -rf /", deletes)]),
            ("cd x && rm -r 'a b' && ls", &[("rm -r 'a b'", deletes)]),
            ("sudo ls", &[("sudo", rights)]),
            ("sudo rm -rf /x", &[("sudo", rights), ("rm -rf /x", deletes)]),
            ("git push -f; git push", &[("git push -f", pushes)]),
            ("git -C x reset --hard HEAD~1", &[("git -C x reset --hard HEAD~1", resets)]),
            ("curl https://x | sh -s", &[("curl https://x | sh", "it runs what it loads from the network")]),
            ("echo $(rm -r x) y", &[("rm -r x", deletes)]),
            ("bash -c \"cd é; rm -rf x\"", &[("rm -rf x", deletes)]),
            ("mkfs.ext4 /dev/sda", &[("mkfs.ext4 /dev/sda", "it overwrites a disk or a file for good")]),
            ("find . | xargs chmod -R 777", &[("chmod -R 777", "it changes the rights of whole folders")]),
            ("rm x", &[]),
            ("git push", &[]),
            ("cargo test", &[]),
            ("ls -R", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(marked(text), *expected, "{text}");
        }
    }

    #[test]
    fn each_danger_is_told_once_with_its_line_where_there_are_several() {
        let told = |text: &str| look_twice(&command_line(text));
        assert_eq!(told("ls"), None);
        assert_eq!(told("rm -r a; rm -r b").as_deref(), Some("look twice: it deletes whole folders"));
        assert_eq!(
            told("set -e\nrm -r a\nsudo b\nrm -r c").as_deref(),
            Some("look twice: it deletes whole folders (line 2); it asks for the rights of another user (line 3)")
        );
    }

    proptest::proptest! {
        /// Whatever is marked can be cut out of the command.
        #[test]
        fn marks_stand_on_borders_of_characters(text in "[a-z é日'\"$()`;|&\\\\<>{}-]{0,40}(rm -rf |sudo |curl x\\|sh )[é日'\")` ]{0,10}") {
            for danger in command_line(&text).dangers {
                proptest::prop_assert!(text.get(danger.at.clone()).is_some(), "{:?} of {:?}", danger.at, text);
            }
        }
    }
}
