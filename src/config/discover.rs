//! First start: what can be used although nothing is configured (product.md, "First start").
//!
//! It knows which variables hold keys and where local servers listen; asking those servers is for whoever
//! has a connection.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::jsonc::Document;
use super::models::Models;

/// The providers and models that are known without any configuration.
const CATALOGUE: &str = include_str!("../../assets/providers.json");

/// A server that may run on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalServer {
    /// The name that its provider gets.
    pub name: &'static str,
    /// Where it listens unless it was told otherwise.
    pub base_url: &'static str,
}

/// Servers on this machine, at their default ports.
pub const LOCAL_SERVERS: &[LocalServer] = &[
    LocalServer { name: "ollama", base_url: "http://127.0.0.1:11434/v1" },
    LocalServer { name: "llama.cpp", base_url: "http://127.0.0.1:8080/v1" },
    LocalServer { name: "lmstudio", base_url: "http://127.0.0.1:1234/v1" },
];

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// A line for each provider: its name and where its key or its server is.
    pub lines: Vec<String>,
    /// Its entries, in the form of models.json.
    providers: Map<String, Value>,
}

impl Found {
    /// The known providers whose key is in the environment.
    pub fn in_environment(env: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut found = Found::default();
        for (name, provider) in catalogue() {
            let variable = provider["api_key"].as_str().and_then(|key| key.strip_prefix('$')).unwrap_or_default();
            if env(variable).is_some_and(|value| !value.trim().is_empty()) {
                found.lines.push(format!("{name}: the key in {variable}"));
                found.providers.insert(name, provider);
            }
        }
        found
    }

    /// Adds a local server, from the ids that its list of models gave.
    pub fn add_local(&mut self, server: LocalServer, ids: &[String]) {
        if ids.is_empty() {
            return;
        }
        let models: Vec<Value> = ids.iter().map(|id| json!({"id": id})).collect();
        let provider = json!({"base_url": server.base_url, "api": "openai-completions", "models": models});
        self.lines.push(format!("{}: {} models at {}", server.name, ids.len(), server.base_url));
        self.providers.insert(server.name.to_owned(), provider);
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.providers.is_empty()
    }

    /// models.json, as it would be written.
    pub fn document(&self) -> String {
        let value = json!({"providers": self.providers});
        let body = serde_json::to_string_pretty(&value).unwrap_or_default();
        format!("// Models of Violin: edit freely; comments and trailing commas are fine.\n{body}\n")
    }

    /// The models in it.
    pub fn models(&self) -> Models {
        let document = Document::parse(Path::new("models.json"), self.document());
        document.map(|document| Models::from_document(&document).0).unwrap_or_default()
    }
}

/// The names of the variables that are looked for.
pub fn variables() -> Vec<String> {
    let key = |(_, provider): (String, Value)| {
        provider["api_key"].as_str().and_then(|key| key.strip_prefix('$')).map(str::to_owned)
    };
    catalogue().into_iter().filter_map(key).collect()
}

/// What the catalogue knows of a model of a provider of that name.
pub(super) fn known_model(provider: &str, id: &str) -> Option<Value> {
    let models = catalogue().remove(provider)?.get_mut("models").map(Value::take)?;
    models.as_array()?.iter().find(|model| model["id"] == id).cloned()
}

fn catalogue() -> Map<String, Value> {
    let document = Document::parse(Path::new("providers.json"), CATALOGUE.to_owned());
    match document.ok().and_then(|mut document| document.value.get_mut("providers").map(Value::take)) {
        Some(Value::Object(providers)) => providers,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_has_no_mistakes() {
        let document = Document::parse(Path::new("providers.json"), CATALOGUE.to_owned()).expect("parses");
        let (models, mistakes) = Models::from_document(&document);
        assert!(mistakes.is_empty(), "{mistakes:?}");
        for model in &models.models {
            assert!(model.api_key.is_some() && model.context_window >= 100_000, "{}", model.reference());
            assert!(model.max_tokens.is_none_or(|max| max < model.context_window), "{}", model.reference());
        }
        assert!(variables().contains(&"ANTHROPIC_API_KEY".to_owned()));
    }

    #[test]
    fn keys_and_servers_are_found() {
        let mut found = Found::in_environment(&|name| (name == "GROQ_API_KEY").then(|| "k".to_owned()));
        found.add_local(LOCAL_SERVERS[0], &["qwen3:8b".to_owned()]);
        found.add_local(LOCAL_SERVERS[1], &[]);
        assert_eq!(found.lines.len(), 2);
        let models = found.models();
        assert!(models.select("qwen3:8b").is_ok() && models.models.iter().any(|model| model.provider == "groq"));
        assert!(!found.document().contains("\"k\""));
        assert!(Found::in_environment(&|_| None).is_empty());
    }
}
