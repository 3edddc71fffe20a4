//! What known hosts do otherwise than their protocol says. Data: a row for each, under what models.json says.

use crate::model::{Compat, Model, ThinkingFormat};

/// A row: the domains that it is for, and their quirks.
type Row = (&'static [&'static str], fn(&Model) -> Compat);

const HOSTS: &[Row] = &[
    (&["openai.com", "azure.com"], |model| Compat {
        max_tokens_field: some("max_completion_tokens"),
        developer_role: Some(model.reasoning),
        store: Some(true),
        prompt_cache_key: Some(true),
        ..Compat::default()
    }),
    (&["openrouter.ai"], |_| format(ThinkingFormat::Openrouter)),
    (&["deepseek.com"], |_| Compat { reasoning_replay_always: Some(true), ..replayed(ThinkingFormat::Deepseek) }),
    (&["z.ai", "bigmodel.cn"], |_| replayed(ThinkingFormat::Zai)),
    (&["aliyuncs.com"], |_| format(ThinkingFormat::Qwen)),
    (&["moonshot.ai", "moonshot.cn", "kimi.com"], |_| Compat {
        reasoning_replay_always: Some(true),
        ..replayed(ThinkingFormat::None)
    }),
    (&["together.xyz", "together.ai"], |_| format(ThinkingFormat::Together)),
    (&["mistral.ai"], |_| Compat { assistant_after_tool_result: Some(true), ..format(ThinkingFormat::None) }),
    (&["x.ai", "nvidia.com", "chutes.ai"], |_| format(ThinkingFormat::None)),
    (&["googleapis.com"], |model| Compat {
        tool_result_images: Some(is_gemini_3(&model.id)),
        thought_signatures: Some(is_gemini_3(&model.id)),
        // Vertex knows no ids of calls.
        call_ids: Some(!model.base_url.contains("aiplatform")),
        ..Compat::default()
    }),
];

/// The quirks of a model: its own, and below them those of its host.
pub fn quirks(model: &Model) -> Compat {
    let host = model.base_url.split("://").nth(1).and_then(|rest| rest.split(['/', ':']).next()).unwrap_or("");
    let is = |domain: &&str| host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let row = HOSTS.iter().find(|(domains, _)| domains.iter().any(is));
    model.compat.clone().or(row.map(|(_, quirks)| quirks(model)).unwrap_or_default())
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn format(format: ThinkingFormat) -> Compat {
    Compat { thinking_format: Some(format), ..Compat::default() }
}

/// Asked to think in this way, and given back what they thought.
fn replayed(thinking: ThinkingFormat) -> Compat {
    Compat { reasoning_replay_field: some("reasoning_content"), ..format(thinking) }
}

/// From Gemini 3 on, calls without a thought signature are refused, and results may hold images.
fn is_gemini_3(id: &str) -> bool {
    let version = id.rsplit('/').next().and_then(|name| name.strip_prefix("gemini-")).and_then(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse::<u32>().ok()
    });
    version.is_some_and(|version| version >= 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(base_url: &str, id: &str) -> Compat {
        let base = crate::provider::demo::model();
        quirks(&Model { base_url: base_url.into(), id: id.into(), reasoning: true, ..base })
    }

    #[test]
    fn hosts_are_known_by_their_domain_and_not_by_a_part_of_it() {
        assert_eq!(at("https://api.openai.com/v1", "x").developer_role, Some(true));
        assert_eq!(at("https://eu.api.x.ai/v1", "x").thinking_format, Some(ThinkingFormat::None));
        assert_eq!(at("https://myx.ai/v1", "x"), Compat::default());
        assert_eq!(at("http://127.0.0.1:8080/v1", "x"), Compat::default());
        let google = "https://generativelanguage.googleapis.com/v1beta";
        assert_eq!(at(google, "gemini-3-pro-preview").thought_signatures, Some(true));
        assert_eq!(at(google, "gemini-2.5-pro").thought_signatures, Some(false));
    }

    #[test]
    fn what_the_file_says_wins() {
        let compat = Compat { developer_role: Some(false), ..Compat::default() };
        let base = crate::provider::demo::model();
        let model = Model { base_url: "https://api.openai.com/v1".into(), compat, ..base };
        assert_eq!((quirks(&model).developer_role, quirks(&model).store), (Some(false), Some(true)));
    }
}
