//! A session as one HTML page: no script, nothing loaded from elsewhere.
//!
//! Everything that a person, a model or a tool wrote is escaped; Markdown is rendered with its raw HTML as text and with
//! links to the web and to mail alone. The page's own policy forbids scripts and requests, should anything slip through.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag};

use super::{Part, parts, title};
use crate::session::Loaded;
use crate::text::clean;

const STYLE: &str = "
:root { color-scheme: light dark; --dim: #6b7280; --line: #d1d5db; --soft: #f3f4f6; --mark: #2563eb; --bad: #b91c1c; }
@media (prefers-color-scheme: dark) { :root { --dim: #9ca3af; --line: #374151; --soft: #1f2430; --mark: #7aa2f7; --bad: #f7768e; } }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
header { border-bottom: 1px solid var(--line); margin-bottom: 1.5rem; } h1 { font-size: 1.3rem; margin: 0 0 .2rem; }
.dim { color: var(--dim); font-size: .85rem; } .user { border-left: 3px solid var(--mark); padding-left: .8rem; margin: 1.6rem 0 1rem; white-space: pre-wrap; }
.thinking { color: var(--dim); font-style: italic; white-space: pre-wrap; } .note { color: var(--dim); white-space: pre-wrap; }
pre { background: var(--soft); padding: .6rem .8rem; overflow-x: auto; border-radius: 6px; font-size: .85rem; line-height: 1.4; white-space: pre-wrap; word-break: break-word; }
details { margin: .4rem 0; } summary { cursor: pointer; font-family: ui-monospace, monospace; font-size: .85rem; } .bad > summary { color: var(--bad); }
table { border-collapse: collapse; } td, th { border: 1px solid var(--line); padding: .2rem .5rem; } img { max-width: 100%; }
";

/// The session's branch as a page.
pub fn html(loaded: &Loaded) -> String {
    let title = escape(&title(loaded));
    let (id, cwd) = (escape(&clean(&loaded.header.id)), escape(&clean(&loaded.header.cwd)));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>{STYLE}</style></head>\n<body>\n\
         <header><h1>{title}</h1><p class=\"dim\">{id} · {cwd}</p></header>\n"
    );
    for part in parts(loaded) {
        match part {
            Part::User { text, images } => {
                out.push_str(&format!("<div class=\"user\">{}</div>\n", shown(&text)));
                images.iter().filter_map(|(mime, data)| image(mime, data)).for_each(|image| out.push_str(&image));
            }
            Part::Answer(text) => out.push_str(&format!("<div class=\"answer\">{}</div>\n", rendered(&text))),
            Part::Thinking(text) => out.push_str(&format!(
                "<details><summary>thinking</summary><div class=\"thinking\">{}</div></details>\n",
                shown(&text)
            )),
            Part::Call { name, arguments, output, failed } => {
                let class = if failed { " class=\"bad\"" } else { "" };
                let head = crate::text::ellipsis(crate::text::first_line(&clean(&arguments)), 90);
                let output = output.map(|output| format!("<pre>{}</pre>", shown(&output))).unwrap_or_default();
                out.push_str(&format!(
                    "<details{class}><summary>{} {}</summary><pre>{}</pre>{output}</details>\n",
                    shown(&name),
                    escape(&head),
                    shown(&arguments)
                ));
            }
            Part::Note(text) => out.push_str(&format!("<p class=\"note\">{}</p>\n", shown(text.trim()))),
        }
    }
    out.push_str("</body></html>\n");
    out
}

fn shown(text: &str) -> String {
    escape(&clean(text))
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Markdown as HTML: raw HTML is text, links lead to the web or to mail, images are their descriptions.
fn rendered(text: &str) -> String {
    let text = clean(text);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let events = Parser::new_ext(&text, options).map(|event| match event {
        Event::Html(html) | Event::InlineHtml(html) => Event::Text(html),
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
            let dest_url = if is_safe(&dest_url) { dest_url } else { CowStr::Borrowed("") };
            Event::Start(Tag::Link { link_type, dest_url, title, id })
        }
        Event::Start(Tag::Image { .. }) => Event::Start(Tag::Emphasis),
        Event::End(pulldown_cmark::TagEnd::Image) => Event::End(pulldown_cmark::TagEnd::Emphasis),
        event => event,
    });
    let mut out = String::with_capacity(text.len() * 2);
    pulldown_cmark::html::push_html(&mut out, events);
    out
}

fn is_safe(address: &str) -> bool {
    let lower = address.trim().to_ascii_lowercase();
    ["http://", "https://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme))
}

/// An image, where its type and its data are what they should be.
fn image(mime: &str, data: &str) -> Option<String> {
    let known = matches!(mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp");
    let base64 = data.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    (known && base64).then(|| format!("<p><img alt=\"image\" src=\"data:{mime};base64,{data}\"></p>\n"))
}
