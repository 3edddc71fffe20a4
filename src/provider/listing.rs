//! What a provider itself says that it offers.

use std::time::Duration;

use serde_json::Value;

use super::{Credentials, Link, ProviderError, find};
use crate::event::ErrorKind;
use crate::model::{Model, Secret};

/// Where a list of models is asked for, and with which headers.
pub type Listing = (String, Vec<(String, Secret)>);

/// The ids that the provider of `model` offers; `within` bounds the whole of it.
///
/// # Errors
/// As for an answer; also where its protocol has no lists.
pub async fn offered(
    link: &Link,
    model: &Model,
    credentials: &Credentials,
    within: Duration,
) -> Result<Vec<String>, ProviderError> {
    let listing = find(&model.api).and_then(|provider| provider.listing(model, credentials));
    let (url, headers) = listing.ok_or_else(|| {
        ProviderError::new(ErrorKind::Config, format!("`{}` has no list of models to ask for", model.api))
    })?;
    let answer = link.get(&url, headers, within).await.map_err(|mut error| {
        error.message = credentials.redact(&error.message);
        error
    })?;
    Ok(model_ids(&answer))
}

/// The ids in a list of models, in whichever form it comes.
pub fn model_ids(answer: &Value) -> Vec<String> {
    let list = answer.get("data").or_else(|| answer.get("models")).and_then(Value::as_array);
    let id = |model: &Value| {
        let id = model.get("id").or_else(|| model.get("name")).and_then(Value::as_str)?;
        Some(id.strip_prefix("models/").unwrap_or(id).to_owned())
    };
    list.or(answer.as_array()).into_iter().flatten().filter_map(id).collect()
}
