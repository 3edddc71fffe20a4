//! settings.json (formats.md, "settings.json"): the person's, and over it, key by key, the project's.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::jsonc::{Document, LARGEST, Mistake, with_value};
use crate::choice::{Mode, Thinking};
use crate::home::{read_text, replace_file};

/// What a person set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The model to begin with, as `provider/id`.
    pub model: Option<String>,
    /// How much it thinks.
    pub thinking: Thinking,
    /// What runs without a question.
    pub mode: Mode,
    /// A theme's name, or `auto`.
    pub theme: String,
    /// When and how the context is compacted.
    pub compaction: Compaction,
    /// When a failed model call is made again.
    pub retry: Retry,
    /// What ends a run.
    pub limits: Limits,
    /// The tools on offer.
    pub tools: Vec<String>,
    /// What is allowed, asked and denied, whatever the mode.
    pub permissions: Permissions,
    /// How commands are fenced in.
    pub sandbox: Sandbox,
    /// How files are kept for a rewind.
    pub checkpoints: Checkpoints,
    /// The shell for commands; `None`: bash, else sh.
    pub shell: Option<String>,
    /// The editor for Ctrl+G; `None`: `$VISUAL` or `$EDITOR`.
    pub editor: Option<String>,
    /// Whether the mouse is taken.
    pub mouse: bool,
    /// How the end of a run that nobody watches is told.
    pub notify: Notify,
}

/// Settings of compaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Compaction {
    /// Whether it happens by itself.
    pub enabled: bool,
    /// Tokens that are kept free for the answer.
    pub reserve_tokens: u64,
    /// About so many messages stay as they are.
    pub keep_recent_messages: usize,
    /// At most so many tokens of them.
    pub keep_recent_tokens: u64,
    /// Who writes the summary; `None`: the session's model.
    pub model: Option<String>,
}

/// Settings of retries and timeouts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retry {
    /// At most so many further tries.
    pub max_retries: u32,
    /// Before the first of them.
    pub base_delay_ms: u64,
    /// At most.
    pub max_delay_ms: u64,
    /// Until a connection stands.
    pub connect_timeout_ms: u64,
    /// Between two pieces of an answer.
    pub idle_timeout_ms: u64,
}

/// Settings of limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Model calls in a run; `None`: no limit in the interface, 200 without it.
    pub max_turns: Option<u32>,
    /// Tool calls of one answer that are run.
    pub max_tool_calls_per_turn: Option<u32>,
    /// US dollars in a run.
    pub max_cost_usd: Option<f64>,
    /// Seconds that a command may take unless it asks for more.
    pub bash_timeout_s: u64,
    /// Between SIGTERM and SIGKILL.
    pub kill_grace_ms: u64,
}

/// Rules of the form `tool(pattern)`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Permissions {
    /// These run.
    pub allow: Vec<String>,
    /// These are asked.
    pub ask: Vec<String>,
    /// These do not run.
    pub deny: Vec<String>,
}

/// Settings of the sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sandbox {
    /// Whether commands run in one.
    pub enabled: bool,
    /// Whether they reach the network.
    pub network: bool,
    /// Where else they may write.
    pub write_paths: Vec<String>,
}

/// Settings of file checkpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoints {
    /// Whether they are made.
    pub enabled: bool,
    /// Files larger than this are left out.
    pub max_file_mb: u64,
}

/// How the end of a run that nobody watches is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Notify {
    /// The terminal's bell.
    #[default]
    Bell,
    /// A notice of the desktop's.
    Desktop,
    /// Not at all.
    Off,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            model: None,
            thinking: Thinking::default(),
            mode: Mode::default(),
            theme: "auto".to_owned(),
            compaction: Compaction::default(),
            retry: Retry::default(),
            limits: Limits::default(),
            tools: ["read", "write", "edit", "bash", "grep", "glob"].map(str::to_owned).into(),
            permissions: Permissions::default(),
            sandbox: Sandbox::default(),
            checkpoints: Checkpoints::default(),
            shell: None,
            editor: None,
            mouse: true,
            notify: Notify::default(),
        }
    }
}

impl Default for Compaction {
    fn default() -> Self {
        Compaction {
            enabled: true,
            reserve_tokens: 16_384,
            keep_recent_messages: 10,
            keep_recent_tokens: 20_000,
            model: None,
        }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            max_retries: 5,
            base_delay_ms: 2_000,
            max_delay_ms: 60_000,
            connect_timeout_ms: 15_000,
            idle_timeout_ms: 300_000,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_turns: None,
            max_tool_calls_per_turn: None,
            max_cost_usd: None,
            bash_timeout_s: 600,
            kill_grace_ms: 2_000,
        }
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Sandbox { enabled: true, network: true, write_paths: Vec::new() }
    }
}

impl Default for Checkpoints {
    fn default() -> Self {
        Checkpoints { enabled: true, max_file_mb: 10 }
    }
}

impl Settings {
    /// The settings of these files, the later over the earlier, and every mistake in them. A key that is
    /// unknown or of the wrong type is left out; the rest applies.
    pub fn read(paths: &[&Path]) -> (Settings, Vec<Mistake>) {
        Self::read_with(paths, None)
    }

    /// As [`Settings::read`], with a trusted project's file, as path and text, over the others. It adds to the rules in
    /// place of replacing them, and cannot enter `yolo`: that takes a yes each time.
    pub fn read_with(paths: &[&Path], project: Option<(&Path, &str)>) -> (Settings, Vec<Mistake>) {
        let mut mistakes = Vec::new();
        let mut merged = serde_json::to_value(Settings::default()).unwrap_or_default();
        let known = merged.clone();
        for path in paths {
            match Document::read(path) {
                Ok(Some(document)) => {
                    let kept = sift(&document, &known, &mut mistakes);
                    merge(&mut merged, kept);
                }
                Ok(None) => {}
                Err(mistake) => mistakes.push(mistake),
            }
        }
        match project.map(|(path, text)| Document::parse(path, text.to_owned())) {
            Some(Ok(document)) => {
                let mut kept = sift(&document, &known, &mut mistakes);
                if kept.get("mode").is_some_and(|mode| mode == Mode::Yolo.name()) {
                    kept.shift_remove("mode");
                    mistakes
                        .push(document.mistake(&["mode"], "a project cannot enter `yolo`; use --mode yolo or /mode"));
                }
                if let Some(Value::Object(rules)) = kept.get_mut("permissions") {
                    for (name, list) in rules {
                        let own = merged.pointer(&format!("/permissions/{name}")).and_then(Value::as_array);
                        if let (Some(own), Value::Array(list)) = (own, list) {
                            list.splice(0..0, own.iter().cloned());
                        }
                    }
                }
                merge(&mut merged, kept);
            }
            Some(Err(mistake)) => mistakes.push(mistake),
            None => {}
        }
        // Each value was read once already, so that this cannot fail.
        (serde_json::from_value(merged).unwrap_or_default(), mistakes)
    }
}

/// Sets one value in a settings file, named by its keys, such as `["compaction", "enabled"]`. The person's comments and
/// other keys stay, and a symbolic link stays one.
///
/// # Errors
/// Where the file did not parse (it is not rewritten then) or cannot be written.
pub fn save(path: &Path, keys: &[&str], value: &Value) -> Result<(), Mistake> {
    let text = match read_text(path, LARGEST) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(cannot(path, &error)),
    };
    let text = with_value(path, &text, keys, value)?;
    replace_file(path, text.as_bytes()).map_err(|error| cannot(path, &error))
}

fn cannot(path: &Path, error: &std::io::Error) -> Mistake {
    Mistake { path: path.to_owned(), place: None, text: format!("the setting cannot be saved: {error}") }
}

/// What of a document can be used: known keys whose values are of the right type.
fn sift(document: &Document, known: &Value, mistakes: &mut Vec<Mistake>) -> Map<String, Value> {
    let mut kept = Map::new();
    let Some(object) = document.value.as_object() else {
        mistakes.push(document.mistake(&[], "settings are an object: { … }"));
        return kept;
    };
    for (key, value) in object {
        match (known.get(key), value) {
            (None, _) if key == "$schema" => {}
            (None, _) => mistakes.push(unknown(document, &[key], known)),
            (Some(section @ Value::Object(_)), Value::Object(inner)) => {
                let mut part = Map::new();
                for (name, value) in inner {
                    if section.get(name).is_none() {
                        mistakes.push(unknown(document, &[key, name], section));
                    } else if fits(document, &[key, name], value, mistakes) {
                        part.insert(name.clone(), value.clone());
                    }
                }
                kept.insert(key.clone(), part.into());
            }
            (Some(Value::Object(_)), _) => {
                mistakes.push(document.mistake(&[key], format!("`{key}` is an object: {{ … }}")))
            }
            (Some(_), value) => {
                if fits(document, &[key], value, mistakes) {
                    kept.insert(key.clone(), value.clone());
                }
            }
        }
    }
    kept
}

/// Whether the settings with this one value can be read.
fn fits(document: &Document, keys: &[&str], value: &Value, mistakes: &mut Vec<Mistake>) -> bool {
    let nested =
        keys.iter().rev().fold(value.clone(), |inner, key| Value::Object(Map::from_iter([((*key).to_owned(), inner)])));
    match document.read_as::<Settings>(&[], &nested) {
        Ok(_) => true,
        Err(mistake) => {
            mistakes.push(mistake);
            false
        }
    }
}

fn unknown(document: &Document, keys: &[&str], known: &Value) -> Mistake {
    let key = keys.last().copied().unwrap_or_default();
    let names = known.as_object().into_iter().flat_map(Map::keys);
    let nearest = names.map(|name| (strsim::damerau_levenshtein(name, key), name)).min();
    let hint = match nearest {
        Some((distance, name)) if distance <= 3 => format!("; did you mean `{name}`?"),
        _ => String::new(),
    };
    document.mistake(keys, format!("`{}` is no setting{hint}", keys.join(".")))
}

fn merge(base: &mut Value, over: Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(base @ Value::Object(_)), Value::Object(inner)) => merge(base, inner),
            (_, value) => base[&key] = value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> (Settings, Vec<String>) {
        let dir = tempfile::tempdir().expect("a folder");
        let paths: Vec<_> = texts
            .iter()
            .enumerate()
            .map(|(index, text)| {
                let path = dir.path().join(format!("{index}.json"));
                std::fs::write(&path, text).expect("written");
                path
            })
            .collect();
        let paths: Vec<&Path> = paths.iter().map(std::path::PathBuf::as_path).collect();
        let (settings, mistakes) = Settings::read(&paths);
        (settings, mistakes.iter().map(|mistake| mistake.text.clone()).collect())
    }

    #[test]
    fn the_schema_lists_what_is_read() {
        fn same(place: &str, schema: &Value, read: &Value) {
            let Some(read) = read.as_object() else { return };
            let listed = schema["properties"].as_object().unwrap_or_else(|| panic!("no properties of {place}"));
            let mut names: Vec<_> = listed.keys().filter(|key| *key != "$schema").collect();
            let mut keys: Vec<_> = read.keys().collect();
            names.sort();
            keys.sort();
            assert_eq!(names, keys, "{place}");
            for (key, value) in read {
                same(key, &listed[key], value);
            }
        }
        let schema: Value = serde_json::from_str(include_str!("../../assets/settings.schema.json")).expect("JSON");
        same("settings", &schema, &serde_json::to_value(Settings::default()).expect("writes"));
    }

    #[test]
    fn the_project_overrides_key_by_key() {
        let (settings, mistakes) = read(&[
            r#"{"model": "a/b", "limits": {"max_turns": 3, "bash_timeout_s": 5}}"#,
            r#"{"thinking": "high", "limits": {"max_turns": 9}}"#,
        ]);
        assert!(mistakes.is_empty(), "{mistakes:?}");
        assert_eq!((settings.model.as_deref(), settings.thinking), (Some("a/b"), Thinking::High));
        assert_eq!((settings.limits.max_turns, settings.limits.bash_timeout_s), (Some(9), 5));
    }

    #[test]
    fn a_project_adds_rules_and_never_enters_yolo() {
        let dir = tempfile::tempdir().expect("a folder");
        let own = dir.path().join("s.json");
        std::fs::write(&own, r#"{"permissions": {"deny": ["bash(rm:*)"]}, "theme": "a"}"#).expect("written");
        let project = r#"{"permissions": {"deny": [], "allow": ["bash"]}, "mode": "yolo", "theme": "b"}"#;
        let (settings, mistakes) = Settings::read_with(&[&own], Some((Path::new("/p/.violin/settings.json"), project)));
        assert_eq!((settings.permissions.deny.len(), settings.permissions.allow.len()), (1, 1));
        assert_eq!((settings.mode, settings.theme.as_str(), mistakes.len()), (Mode::Auto, "b", 1));
    }

    #[test]
    fn the_rest_applies_where_one_thing_is_wrong() {
        let (settings, mistakes) = read(&[
            "{\n  \"thinkng\": \"low\",\n  \"mouse\": \"no\", \"theme\": \"x\",\n  \"retry\": {\"max_retry\": 1, \"base_delay_ms\": 7}, \"mode\": \"quick\"}",
        ]);
        assert_eq!((settings.theme.as_str(), settings.mouse, settings.retry.base_delay_ms), ("x", true, 7));
        assert_eq!(mistakes.len(), 4, "{mistakes:?}");
        assert_eq!(mistakes[0], "`thinkng` is no setting; did you mean `thinking`?");
        assert_eq!(mistakes[2], "`retry.max_retry` is no setting; did you mean `max_retries`?");
    }

    /// traps.md B130.
    #[test]
    fn files_that_are_no_settings_are_told_and_left_alone() {
        let (settings, mistakes) = read(&["[1]", "{\"theme\": }", "null"]);
        assert_eq!(settings, Settings::default());
        assert_eq!(mistakes.len(), 2, "{mistakes:?}");
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("s.json");
        std::fs::write(&path, "{\"theme\": }").expect("written");
        assert!(save(&path, &["theme"], &"dark".into()).is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "{\"theme\": }");
        #[cfg(target_os = "linux")]
        assert_eq!(Settings::read(&[Path::new("/dev/zero")]).1.len(), 1);
    }

    /// traps.md B129.
    #[cfg(unix)]
    #[test]
    fn saving_goes_through_a_link_and_keeps_what_was_edited_outside() {
        let dir = tempfile::tempdir().expect("a folder");
        let (real, link) = (dir.path().join("real.json"), dir.path().join("settings.json"));
        std::fs::write(&real, "{\"mouse\": false}").expect("written");
        std::os::unix::fs::symlink("real.json", &link).expect("linked");
        save(&link, &["theme"], &"dark".into()).expect("saved");
        assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());
        let (settings, _) = Settings::read(&[&real]);
        assert_eq!((settings.theme.as_str(), settings.mouse), ("dark", false));
    }
}
