//! `violin.store`: what a plugin keeps for a session, in `plugin-data/SESSION/PLUGIN.json`.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::home::{Home, replace_file};

/// Most bytes that a plugin keeps for one session.
const MOST: usize = 1 << 20;

/// What one plugin keeps for one session.
#[derive(Debug, Default)]
pub struct Store {
    /// Where it is kept; `None`: the session is not on disk, and neither is this.
    path: Option<PathBuf>,
    values: Map<String, Value>,
}

impl Store {
    /// What is kept. A file that does not hold what we wrote is an error, and stays as it is.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn open(home: &Home, session: Option<&str>, plugin: &str) -> Result<Self, String> {
        let Some(session) = session else { return Ok(Store::default()) };
        let path = home.plugin_data_of(session).join(format!("{plugin}.json"));
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => "{}".to_owned(),
            Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
        };
        match serde_json::from_str(&text) {
            Ok(values) => Ok(Store { path: Some(path), values }),
            Err(error) => Err(format!("{} does not hold what was stored: {error}", path.display())),
        }
    }

    /// A value.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Keeps a value; `null` takes it away.
    ///
    /// # Errors
    /// Where it is too much, or cannot be written; the value before stays then.
    pub fn set(&mut self, key: String, value: Value) -> Result<(), String> {
        let mut values = self.values.clone();
        match value {
            Value::Null => drop(values.shift_remove(&key)),
            value => drop(values.insert(key, value)),
        }
        let text = serde_json::to_string(&values).map_err(|error| error.to_string())?;
        if text.len() > MOST {
            return Err("a plugin keeps at most 1 MiB for a session".to_owned());
        }
        if let Some(path) = &self.path {
            replace_file(path, text.as_bytes()).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        self.values = values;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_kept_for_the_session() {
        let dir = tempfile::tempdir().expect("a folder");
        let home = Home::at(dir.path());
        let mut store = Store::open(&home, Some("one"), "p").expect("opens");
        store.set("a".into(), json!([1, 2])).expect("kept");
        store.set("b".into(), json!("x")).expect("kept");
        store.set("b".into(), Value::Null).expect("taken away");
        let again = Store::open(&home, Some("one"), "p").expect("opens");
        assert_eq!((again.get("a"), again.get("b")), (Some(&json!([1, 2])), None));
        assert!(Store::open(&home, Some("two"), "p").expect("opens").get("a").is_none());
        let much = Value::String("x".repeat(MOST));
        assert!(store.set("c".into(), much).is_err() && store.get("c").is_none());
        fs::write(dir.path().join("plugin-data/one/p.json"), "{broken").expect("written");
        assert!(Store::open(&home, Some("one"), "p").is_err());
        let mut bare = Store::open(&home, None, "p").expect("opens");
        bare.set("a".into(), json!(1)).expect("kept");
        assert_eq!(bare.get("a"), Some(&json!(1)));
    }
}
