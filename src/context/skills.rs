//! Skills: folders with a SKILL.md. A model is told of their names, what they are for and where they are; it
//! reads them when it needs them.

use std::path::{Path, PathBuf};

use super::front_matter;
use super::read_text;
use crate::home::Home;
use crate::text;

/// A skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// What it is called by.
    pub name: String,
    /// What it is for, in a line.
    pub description: String,
    /// Its SKILL.md.
    pub path: PathBuf,
    /// A model is not told of it.
    pub hidden: bool,
}

/// The longest description that goes into the prompt, in bytes.
const LONGEST_DESCRIPTION: usize = 1024;

/// The skills of a project and of the person, and what was wrong with some. The project wins where two have one
/// name.
pub fn discover(home: &Home, cwd: &Path) -> (Vec<Skill>, Vec<String>) {
    let (mut skills, mut notices): (Vec<Skill>, Vec<String>) = (Vec::new(), Vec::new());
    let mut seen = Vec::new();
    for folder in [cwd.join(".agent/skills"), cwd.join(".agents/skills"), home.agent("skills")] {
        let mut folders: Vec<_> =
            std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
        folders.sort();
        for folder in folders {
            let path = folder.join("SKILL.md");
            if !path.is_file() {
                continue;
            }
            // Links may lead to one skill by several ways.
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            if seen.contains(&real) {
                continue;
            }
            seen.push(real);
            match read(&folder, path, &mut notices) {
                Some(skill) => match skills.iter().find(|known| known.name == skill.name) {
                    Some(known) => notices.push(format!(
                        "the skill `{}` stands twice; {} is used, {} is not",
                        skill.name,
                        known.path.display(),
                        skill.path.display()
                    )),
                    None => skills.push(skill),
                },
                None => continue,
            }
        }
    }
    (skills, notices)
}

fn read(folder: &Path, path: PathBuf, notices: &mut Vec<String>) -> Option<Skill> {
    let text = match read_text(&path) {
        Ok(text) => text,
        Err(error) => {
            notices.push(format!("the skill {} is left out: {error}", path.display()));
            return None;
        }
    };
    let parted = front_matter::part(&text);
    if parted.lenient {
        notices.push(format!("the front matter of {} is no valid YAML; it was read line by line", path.display()));
    }
    let folder_name = || folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = parted.matter.name.unwrap_or_else(folder_name);
    let Some(description) = parted.matter.description else {
        notices.push(format!("the skill {} is left out: it has no description", path.display()));
        return None;
    };
    let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let description = text::head(&description, LONGEST_DESCRIPTION).to_owned();
    Some(Skill { name: text::clean(&name), description: text::clean(&description), path, hidden: parted.matter.hidden })
}

/// A skill's text as it is put before a message by `/skill:NAME`.
///
/// # Errors
/// Where its file cannot be read any more.
pub fn invoke(skill: &Skill, argument: &str) -> std::io::Result<String> {
    let text = read_text(&skill.path)?;
    let body = front_matter::part(&text).body.trim().to_owned();
    let place = skill.path.parent().unwrap_or(&skill.path).display().to_string();
    let head = format!("<skill name=\"{}\" directory=\"{place}\">\n{body}\n</skill>", skill.name);
    Ok(if argument.trim().is_empty() { head } else { format!("{head}\n\n{}", argument.trim()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, name: &str, description: &str) {
        std::fs::create_dir_all(path).expect("made");
        let description = if description.is_empty() { String::new() } else { format!("description: {description}\n") };
        std::fs::write(path.join("SKILL.md"), format!("---\nname: {name}\n{description}---\nDo it.\n"))
            .expect("written");
    }

    /// traps.md B125: a linked folder of skills, a linked skill and a linked SKILL.md load once each, and a cycle ends.
    /// traps.md B126: below a skill nothing is looked for, so that no file that ignores is needed.
    #[cfg(unix)]
    #[test]
    fn links_lead_to_skills_once_and_the_project_wins() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().expect("a folder");
        let (home, cwd) = (Home::at(dir.path().join("home")), dir.path().join("project"));
        write(&home.agent("skills/deploy"), "deploy", "global");
        write(&home.agent("skills/plain"), "plain", "");
        write(&dir.path().join("elsewhere/real"), "real", "linked");
        write(&dir.path().join("elsewhere/real/node_modules/deep"), "deep", "never");
        write(&cwd.join(".agent/skills/deploy"), "deploy", "project: ours");
        symlink(dir.path().join("elsewhere/real"), cwd.join(".agent/skills/one")).expect("linked");
        symlink(dir.path().join("elsewhere/real"), cwd.join(".agent/skills/two")).expect("linked");
        symlink("..", cwd.join(".agent/skills/loop")).expect("linked");
        // A SKILL.md that is a link itself, in a folder of its own; and one that leads to itself.
        write(&dir.path().join("kept"), "file", "a linked file");
        std::fs::create_dir_all(cwd.join(".agent/skills/file")).expect("made");
        symlink(dir.path().join("kept/SKILL.md"), cwd.join(".agent/skills/file/SKILL.md")).expect("linked");
        std::fs::create_dir_all(cwd.join(".agent/skills/self")).expect("made");
        symlink("SKILL.md", cwd.join(".agent/skills/self/SKILL.md")).expect("linked");
        std::fs::create_dir_all(cwd.join(".agents")).expect("made");
        symlink(dir.path().join("elsewhere"), cwd.join(".agents/skills")).expect("linked");
        let (skills, notices) = discover(&home, &cwd);
        let found: Vec<_> = skills.iter().map(|s| (s.name.as_str(), s.description.as_str())).collect();
        assert_eq!(found, [("deploy", "project: ours"), ("file", "a linked file"), ("real", "linked")]);
        assert!(
            notices.iter().any(|n| n.contains("stands twice")) && notices.iter().any(|n| n.contains("no description"))
        );
        assert!(invoke(&skills[0], "now").expect("read").ends_with("Do it.\n</skill>\n\nnow"));
    }
}
