//! models.json (formats.md, "models.json"): which models there are, and which one is meant.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::jsonc::{Document, LARGEST, Mistake, with_appended};
use super::secret;
use crate::choice::Thinking;
use crate::home::{read_text, replace_file};
use crate::model::{Compat, Cost, Model, Secret};

/// The `api` of a model that is a chain of others.
pub const FALLBACK: &str = "fallback";

/// Where a model's window is not told.
const DEFAULT_WINDOW: u64 = 128_000;

/// The models that are configured, in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct Models {
    /// All of them.
    pub models: Vec<Arc<Model>>,
    /// `provider/id` of the one that the file names as its default.
    pub default: Option<String>,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(Default, Serialize))]
struct WireProvider {
    #[serde(default, alias = "baseUrl")]
    base_url: Option<String>,
    api: Option<String>,
    #[serde(default, alias = "apiKey")]
    api_key: Option<String>,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default)]
    compat: Compat,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(Default, Serialize))]
struct WireModel {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    api: Option<String>,
    #[serde(default, alias = "baseUrl")]
    base_url: Option<String>,
    #[serde(default, alias = "contextWindow")]
    context_window: Option<u64>,
    #[serde(default, alias = "maxTokens")]
    max_tokens: Option<u64>,
    #[serde(default)]
    reasoning: bool,
    #[serde(default)]
    input: Option<Vec<String>>,
    #[serde(default)]
    cost: Option<Cost>,
    #[serde(default)]
    compat: Compat,
    #[serde(default, alias = "thinkingLevels")]
    thinking_levels: BTreeMap<Thinking, Option<String>>,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default)]
    chain: Vec<String>,
}

/// Why a word leads to no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// None is configured.
    #[error(
        "no model is configured: set a key such as ANTHROPIC_API_KEY or OPENAI_API_KEY, start a local server (Ollama, llama.cpp, LM Studio), or write ~/.violin/agent/models.json; `-m demo/demo` plays a scripted demo"
    )]
    NoModels,
    /// It is not among them.
    #[error("there is no model `{given}`{hint}; `violin models list` shows what there is")]
    Unknown {
        /// The word.
        given: String,
        /// The nearest one, as a clause.
        hint: String,
    },
    /// Several providers have it.
    #[error("`{given}` is offered by several providers: {found}; name one of these")]
    Several {
        /// The word.
        given: String,
        /// Their references.
        found: String,
    },
}

impl Models {
    /// The models of a file, and every mistake in it. `None`: there is no such file. A provider or model with a
    /// mistake is left out; the rest applies.
    pub fn read(path: &Path) -> (Option<Models>, Vec<Mistake>) {
        match Document::read(path) {
            Ok(Some(document)) => {
                let (models, mistakes) = Self::from_document(&document);
                (Some(models), mistakes)
            }
            Ok(None) => (None, Vec::new()),
            Err(mistake) => (Some(Models::default()), vec![mistake]),
        }
    }

    /// The models of a document, and every mistake in it.
    pub fn from_document(document: &Document) -> (Models, Vec<Mistake>) {
        let (mut models, mut mistakes) = (Models::default(), Vec::new());
        match document.value.get("default") {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => models.default = Some(text.clone()),
            Some(_) => mistakes.push(document.mistake(&["default"], "`default` names a model, as \"provider/model\"")),
        }
        let Some(providers) = document.value.get("providers").and_then(Value::as_object) else {
            mistakes.push(document.mistake(&["providers"], "`providers` is expected here: { \"name\": { … } }"));
            return (models, mistakes);
        };
        for (name, value) in providers {
            let wire: WireProvider = match document.read_as(&["providers", name], value) {
                Ok(wire) => wire,
                Err(mistake) => {
                    mistakes.push(mistake);
                    continue;
                }
            };
            let list = match value.get("models") {
                Some(Value::Array(list)) => list.as_slice(),
                None => &[],
                Some(_) => {
                    mistakes.push(
                        document.mistake(&["providers", name, "models"], "`models` is a list: [ { \"id\": … } ]"),
                    );
                    &[]
                }
            };
            for (index, value) in list.iter().enumerate() {
                let index = index.to_string();
                let at = ["providers", name.as_str(), "models", index.as_str()];
                match document.read_as(&at, value).and_then(|model| build(document, &at, name, &wire, model)) {
                    Ok(model) => models.models.push(Arc::new(model)),
                    Err(mistake) => mistakes.push(mistake),
                }
            }
        }
        models.link_chains(document, &mut mistakes);
        (models, mistakes)
    }

    /// Holds that the chains lead to models that there are, and gives each what the first of its chain can do.
    fn link_chains(&mut self, document: &Document, mistakes: &mut Vec<Mistake>) {
        let known = self.clone();
        self.models.retain_mut(|model| {
            if model.api != FALLBACK {
                return true;
            }
            let at = ["providers", model.provider.as_str(), "models"];
            let told = |text: String| document.mistake(&at, format!("the chain of `{}` {text}", model.id));
            let chain: Result<Vec<_>, _> = model.chain.iter().map(|name| known.select(name)).collect();
            match chain {
                Ok(chain) if chain.iter().any(|model| model.api == FALLBACK) => {
                    mistakes.push(told("holds another chain; name the models themselves".to_owned()));
                    false
                }
                Ok(chain) => match chain.first() {
                    Some(first) => {
                        let own = model.as_ref().clone();
                        *model = Arc::new(Model {
                            provider: own.provider,
                            id: own.id,
                            name: own.name,
                            api: own.api,
                            chain: own.chain,
                            base_url: String::new(),
                            api_key: None,
                            headers: Vec::new(),
                            ..first.as_ref().clone()
                        });
                        true
                    }
                    None => {
                        mistakes.push(told("is empty; write it as [\"provider/model\", …]".to_owned()));
                        false
                    }
                },
                Err(error) => {
                    mistakes.push(told(format!("is broken: {error}")));
                    false
                }
            }
        });
    }

    /// Whether a model can be asked: its key and headers can be had, or those of one of its chain.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn usable(&self, model: &Model, env: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
        if model.api != FALLBACK {
            return usable(model, env);
        }
        let each = model.chain.iter().filter_map(|name| self.select(name).ok()).map(|model| usable(&model, env));
        each.reduce(|one, two| one.or(two)).unwrap_or_else(|| Err("its chain is empty".to_owned()))
    }

    /// The model that a person means by `provider/id` or by an id that only one provider has.
    ///
    /// # Errors
    /// Where it is none, or several.
    pub fn select(&self, given: &str) -> Result<Arc<Model>, SelectError> {
        let exact = |model: &&Arc<Model>| match given.split_once('/') {
            Some((provider, id)) => model.provider == provider && model.id == id,
            None => false,
        };
        if let Some(model) = self.models.iter().find(exact) {
            return Ok(model.clone());
        }
        let named: Vec<_> = self.models.iter().filter(|model| model.id == given).collect();
        match named.as_slice() {
            [model] => Ok((*model).clone()),
            [] if self.models.is_empty() => Err(SelectError::NoModels),
            [] => {
                let references = self.models.iter().map(|model| model.reference());
                let nearest = references.map(|name| (strsim::damerau_levenshtein(&name, given), name)).min();
                let near = nearest.filter(|(distance, _)| *distance <= given.len() / 2);
                let hint = near.map(|(_, name)| format!(", did you mean `{name}`?")).unwrap_or_default();
                Err(SelectError::Unknown { given: given.to_owned(), hint })
            }
            several => {
                let found: Vec<_> = several.iter().map(|model| model.reference()).collect();
                Err(SelectError::Several { given: given.to_owned(), found: found.join(", ") })
            }
        }
    }

    /// The first model whose key can be had.
    pub fn first_usable(&self, env: &dyn Fn(&str) -> Option<String>) -> Option<Arc<Model>> {
        self.models.iter().find(|model| self.usable(model, env).is_ok()).or_else(|| self.models.first()).cloned()
    }
}

/// Whether a model's key and headers can be had, as far as can be told without running anything.
///
/// # Errors
/// The reason, in words.
pub fn usable(model: &Model, env: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    let mut secrets = model.api_key.iter().chain(model.headers.iter().map(|(_, value)| value));
    secrets.try_for_each(|secret| secret::check(secret, env)).map_err(|error| error.to_string())
}

/// Adds a model to a provider of models.json. Comments and everything else stay; what the catalogue knows of the model
/// is written with it. A model that is there already is left as it is.
///
/// # Errors
/// Where the file did not parse (it is not rewritten then), has no such provider, or cannot be written.
pub fn add(path: &Path, provider: &str, id: &str) -> Result<(), Mistake> {
    let wrong = |text: String| Mistake { path: path.to_owned(), place: None, text };
    let text = read_text(path, LARGEST).map_err(|error| wrong(format!("it cannot be read: {error}")))?;
    let document = Document::parse(path, text.clone())?;
    let known = document.value.get("providers").and_then(|providers| providers.get(provider));
    let known = known.ok_or_else(|| wrong(format!("there is no provider `{provider}` in it to add `{id}` to")))?;
    let there = known.get("models").and_then(Value::as_array);
    if there.into_iter().flatten().any(|model| model.get("id").and_then(Value::as_str) == Some(id)) {
        return Ok(());
    }
    let model = super::discover::known_model(provider, id).unwrap_or_else(|| serde_json::json!({"id": id}));
    let text = with_appended(path, &text, &["providers", provider, "models"], &model)?;
    replace_file(path, text.as_bytes()).map_err(|error| wrong(format!("`{id}` cannot be added: {error}")))
}

fn build(
    document: &Document,
    at: &[&str],
    provider: &str,
    wire: &WireProvider,
    model: WireModel,
) -> Result<Model, Mistake> {
    let mut headers = headers_of(document, &at[..2], &wire.headers)?;
    headers.extend(headers_of(document, at, &model.headers)?);
    let missing = |what: &str| document.mistake(at, format!("the provider `{provider}` needs `{what}`"));
    let api = model.api.or_else(|| wire.api.clone()).ok_or_else(|| missing("api"))?;
    let remote = api != FALLBACK;
    let base_url = match model.base_url.as_ref().or(wire.base_url.as_ref()) {
        Some(url) => base_url(url, &api)
            .ok_or_else(|| document.mistake(at, format!("`{url}` is no address; write it as https://host/v1")))?,
        None if remote => return Err(missing("base_url")),
        None => String::new(),
    };
    Ok(Model {
        provider: provider.to_owned(),
        name: model.name.unwrap_or_else(|| model.id.clone()),
        id: model.id,
        api,
        base_url,
        api_key: wire.api_key.clone().filter(|key| !key.is_empty()).map(Secret::new),
        headers,
        context_window: model.context_window.filter(|window| *window > 0).unwrap_or(DEFAULT_WINDOW),
        max_tokens: model.max_tokens.filter(|max| *max > 0),
        reasoning: model.reasoning,
        images: model.input.is_some_and(|kinds| kinds.iter().any(|kind| kind == "image")),
        cost: model.cost,
        compat: model.compat.or(wire.compat.clone()),
        thinking_levels: model.thinking_levels,
        chain: model.chain,
    })
}

fn headers_of(
    document: &Document,
    at: &[&str],
    headers: &Map<String, Value>,
) -> Result<Vec<(String, Secret)>, Mistake> {
    let read = |(name, value): (&String, &Value)| match value {
        Value::String(text) => Ok((name.clone(), Secret::new(text.as_str()))),
        _ => Err(document.mistake(&[at, &["headers", name]].concat(), format!("the header `{name}` is a text"))),
    };
    headers.iter().map(read).collect()
}

/// The address without a slash at its end; one without a path gets the protocol's own.
fn base_url(url: &str, api: &str) -> Option<String> {
    let (scheme, rest) = url.trim().split_once("://")?;
    if !matches!(scheme, "http" | "https") || rest.is_empty() || rest.starts_with('/') {
        return None;
    }
    let trimmed = rest.trim_end_matches('/');
    let path = match (trimmed.contains('/'), api) {
        (true, _) => "",
        (false, "google-generative-ai") => "/v1beta",
        (false, _) => "/v1",
    };
    Some(format!("{scheme}://{trimmed}{path}"))
}

/// A model, as lists show it (formats.md, "--json rows").
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelRow {
    /// The provider's name.
    pub provider: String,
    /// The model's id.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// The wire protocol.
    pub api: String,
    /// Tokens that fit.
    pub context_window: u64,
    /// Whether it can be asked.
    pub usable: bool,
    /// Why not.
    pub reason: Option<String>,
}

impl ModelRow {
    /// A row for each model.
    pub fn all(models: &Models, env: &dyn Fn(&str) -> Option<String>) -> Vec<Self> {
        models.models.iter().map(|model| Self::of(model, models.usable(model, env))).collect()
    }

    fn of(model: &Model, usable: Result<(), String>) -> Self {
        ModelRow {
            provider: model.provider.clone(),
            id: model.id.clone(),
            name: model.name.clone(),
            api: model.api.clone(),
            context_window: model.context_window,
            usable: usable.is_ok(),
            reason: usable.err(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Models, Vec<String>) {
        let document = Document::parse(Path::new("/x/models.json"), text.to_owned()).expect("parses");
        let (models, mistakes) = Models::from_document(&document);
        (models, mistakes.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn both_spellings_are_read() {
        let (models, mistakes) = read(
            r#"{"default": "a/x", "providers": {
              "a": {"baseUrl": "http://127.0.0.1:9", "api": "openai-completions", "apiKey": "k",
                "compat": {"maxTokensField": "max_completion_tokens"},
                "models": [{"id": "x", "contextWindow": 5, "maxTokens": 7, "input": ["text", "image"],
                  "cost": {"input": 1, "output": 2, "cacheRead": 3}, "compat": {"developer_role": true}}, {"id": "y"}]},
              "b": {"base_url": "https://h/api/", "api": "anthropic-messages", "models": [{"id": "x", "context_window": 6}]},
            }}"#,
        );
        assert!(mistakes.is_empty(), "{mistakes:?}");
        let x = models.select("a/x").expect("there");
        assert_eq!(
            (x.context_window, x.max_tokens, x.images, x.base_url.as_str()),
            (5, Some(7), true, "http://127.0.0.1:9/v1")
        );
        assert_eq!((x.cost.map(|c| c.cache_read), x.compat.developer_role), (Some(3.0), Some(true)));
        assert_eq!(x.compat.max_tokens_field.as_deref(), Some("max_completion_tokens"));
        assert_eq!(models.select("y").expect("unique").context_window, DEFAULT_WINDOW);
        assert_eq!(models.select("b/x").expect("there").base_url, "https://h/api");
        assert!(matches!(models.select("x"), Err(SelectError::Several { .. })));
        assert!(matches!(models.select("a/z"), Err(SelectError::Unknown { .. })));
        assert_eq!(format!("{:?}", x.api_key), "Some(***)");
    }

    #[test]
    fn ids_with_slashes_need_no_provider_when_they_are_unique() {
        let (models, _) = read(
            r#"{"providers": {"o": {"base_url": "http://h", "api": "openai-completions", "models": [{"id": "maker/model"}]}}}"#,
        );
        assert_eq!(models.select("maker/model").expect("there").reference(), "o/maker/model");
        assert_eq!(models.select("o/maker/model").expect("there").id, "maker/model");
    }

    #[test]
    fn one_mistake_does_not_take_the_rest() {
        let (models, mistakes) = read(
            "{\"providers\": {\n\"a\": {\"base_url\": 5, \"api\": \"x\"},\n\"b\": {\"base_url\": \"http://h\", \"api\": \"demo\",\n \"models\": [{\"name\": \"n\"}, {\"id\": \"ok\"}, {\"id\": \"w\", \"contextWindow\": \"big\"}]},\n\"c\": {\"api\": \"x\", \"models\": [{\"id\": \"u\"}]}}}",
        );
        assert_eq!(models.models.len(), 1);
        assert_eq!(mistakes.len(), 4, "{mistakes:?}");
        assert!(mistakes[0].starts_with("/x/models.json:2:"), "{mistakes:?}");
        assert!(mistakes[1].starts_with("/x/models.json:4:"), "{mistakes:?}");
        assert!(mistakes[3].contains("base_url"), "{mistakes:?}");
    }

    /// The schema that editors use knows exactly the keys that are read, in both spellings.
    #[test]
    fn the_schema_lists_what_is_read() {
        let schema: Value = serde_json::from_str(include_str!("../../assets/models.schema.json")).expect("JSON");
        let camel = |key: &str| {
            let mut parts = key.split('_');
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |word, part| word + &part[..1].to_uppercase() + &part[1..])
        };
        let read = |value: Value, extra: &[&str]| {
            let keys = value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
            let keys = keys.into_iter().chain(extra.iter().map(|key| (*key).to_owned()));
            keys.flat_map(|key| [camel(&key), key]).collect::<std::collections::BTreeSet<_>>()
        };
        let listed = |place: &str| {
            let properties = schema.pointer(place).and_then(Value::as_object).expect("properties");
            properties.keys().cloned().collect::<std::collections::BTreeSet<_>>()
        };
        let value = |wire: serde_json::Result<Value>| wire.expect("writes");
        let provider = read(value(serde_json::to_value(WireProvider::default())), &["models"]);
        assert_eq!(listed("/$defs/provider/properties"), provider);
        assert_eq!(listed("/$defs/model/properties"), read(value(serde_json::to_value(WireModel::default())), &[]));
        assert_eq!(listed("/$defs/compat/properties"), read(value(serde_json::to_value(Compat::default())), &[]));
        let cost = "/$defs/model/properties/cost/properties";
        assert_eq!(listed(cost), read(value(serde_json::to_value(Cost::default())), &[]));
        let apis = schema.pointer("/$defs/provider/properties/api/enum").and_then(Value::as_array).expect("a list");
        for provider in crate::provider::PROVIDERS.iter().filter(|provider| provider.api() != "demo") {
            assert!(apis.contains(&provider.api().into()), "{}", provider.api());
        }
        // Each key of the schema is really read in both spellings.
        for key in listed("/$defs/compat/properties") {
            let one = Map::from_iter([(key.clone(), Value::Null)]);
            assert!(serde_json::from_value::<Compat>(one.into()).is_ok(), "{key}");
        }
    }

    #[test]
    fn adding_a_model_keeps_what_a_person_wrote() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("models.json");
        let text = "{\n  // mine\n  \"providers\": {\n    \"anthropic\": {\"base_url\": \"http://h\", \"api\": \"anthropic-messages\", // here\n      \"models\": [\n        {\"id\": \"a\"}, // first\n      ]},\n    \"bare\": {\"base_url\": \"http://h\", \"api\": \"openai-responses\"}\n  }\n}\n";
        std::fs::write(&path, text).expect("written");
        for (provider, id) in [("anthropic", "b"), ("anthropic", "claude-opus-5-5"), ("anthropic", "a"), ("bare", "c")]
        {
            add(&path, provider, id).expect("added");
        }
        let (models, mistakes) = Models::read(&path);
        let models = models.expect("there");
        assert!(mistakes.is_empty(), "{mistakes:?}");
        let names: Vec<_> = models.models.iter().map(|model| model.reference()).collect();
        assert_eq!(names, ["anthropic/a", "anthropic/b", "anthropic/claude-opus-5-5", "bare/c"]);
        assert_eq!(models.models[2].context_window, 1_000_000);
        let kept = std::fs::read_to_string(&path).expect("there");
        assert!(["// mine", "// here", "// first"].iter().all(|comment| kept.contains(comment)), "{kept}");
        assert!(add(&path, "nobody", "x").is_err());
        std::fs::write(&path, "{\"providers\": }").expect("written");
        assert!(add(&path, "anthropic", "x").is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "{\"providers\": }");
    }

    #[test]
    fn chains_lead_to_models_that_there_are() {
        let (models, mistakes) = read(
            r#"{"providers": {
              "best": {"api": "fallback", "models": [
                {"id": "coder", "chain": ["a/x", "a/y"]}, {"id": "none", "chain": []},
                {"id": "lost", "chain": ["a/z"]}, {"id": "round", "chain": ["best/coder"]}]},
              "a": {"base_url": "http://h", "api": "openai-completions", "api_key": "$NOPE",
                "models": [{"id": "x", "contextWindow": 9}, {"id": "y"}]}}}"#,
        );
        assert_eq!((models.models.len(), mistakes.len()), (3, 3), "{mistakes:?}");
        let coder = models.select("best/coder").expect("there");
        assert_eq!((coder.context_window, coder.api_key.is_none()), (9, true));
        assert_eq!(models.usable(&coder, &|_| None), Err("NOPE is not set".into()));
        assert_eq!(models.usable(&coder, &|_| Some("k".into())), Ok(()));
    }

    #[test]
    fn a_missing_key_is_named() {
        let (models, _) = read(
            r#"{"providers": {
              "a": {"base_url": "http://h", "api": "x", "api_key": "$NOPE", "models": [{"id": "a"}]},
              "b": {"base_url": "http://h", "api": "x", "models": [{"id": "b"}]}}}"#,
        );
        let env = |_: &str| None;
        assert_eq!(usable(&models.models[0], &env), Err("NOPE is not set".into()));
        assert_eq!(models.first_usable(&env).map(|model| model.id.clone()), Some("b".into()));
    }
}
