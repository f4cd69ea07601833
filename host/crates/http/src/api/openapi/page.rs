//! The page that shows the document, and those about error codes: plain HTML without scripts, and nothing from elsewhere.
//!
//! **Invariant:** every text of the document is escaped; the page's policy lets nothing run and nothing load but its own style.

pub mod errors;
mod schemas;

use std::fmt::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use schemas::{shape, write_schemas};

const STYLE: &str = include_str!("page/style.css");
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// What the page may load: the style inside it.
pub static CONTENT_SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    let digest = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// The page of a document.
#[must_use]
pub fn page(document: &Value) -> String {
    let title = at(document, &["info", "title"]);
    let version = at(document, &["info", "version"]);
    let (title, version) = (escaped(title), escaped(version));
    let mut html = head(
        &format!("{title} API {version}"),
        &format!("{title} API <small>{version}</small>"),
        "<a href=\"openapi.json\">openapi.json</a> · <a href=\"metadata\">metadata</a> · <a href=\"docs/errors\">error codes</a>",
    );
    html.push_str("<nav aria-label=\"Contents\"><ul>");
    for tag in list(document, "tags") {
        let name = text(tag, "name");
        let _ = write!(html, "<li><a href=\"#{}\">{}</a></li>", anchor(name), escaped(name));
    }
    html.push_str("<li><a href=\"#scopes\">Scopes</a></li><li><a href=\"#schemas\">Schemas</a></li></ul></nav><main>");
    for paragraph in at(document, &["info", "description"]).split("\n\n") {
        let _ = write!(html, "<p>{}</p>", prose(paragraph));
    }
    for tag in list(document, "tags") {
        write_tag(&mut html, document, tag);
    }
    write_scopes(&mut html, document);
    write_schemas(&mut html, document);
    html.push_str("</main></body></html>\n");
    html
}

/// The beginning of a page, up to its contents; each part is HTML already.
fn head(title: &str, heading: &str, links: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title><style>{STYLE}</style></head><body><header><h1>{heading}</h1><p>{links}</p></header>"
    )
}

fn write_tag(html: &mut String, document: &Value, tag: &Value) {
    let name = text(tag, "name");
    let _ = write!(
        html,
        "<section id=\"{}\"><h2>{}</h2><p>{}</p>",
        anchor(name),
        escaped(name),
        prose(text(tag, "description"))
    );
    let Some(paths) = document.get("paths").and_then(Value::as_object) else { return };
    for (path, item) in paths {
        for method in METHODS {
            let Some(operation) = item.get(method) else { continue };
            if list(operation, "tags").any(|of| of.as_str() == Some(name)) {
                write_operation(html, document, method, path, operation);
            }
        }
    }
    html.push_str("</section>");
}

fn write_operation(html: &mut String, document: &Value, method: &str, path: &str, operation: &Value) {
    let _ = write!(
        html,
        "<details id=\"{id}\"><summary><b class=\"{method}\">{upper}</b> <code>{path}</code> <span>{summary}</span></summary>",
        id = escaped(text(operation, "operationId")),
        upper = method.to_ascii_uppercase(),
        path = escaped(path),
        summary = escaped(text(operation, "summary")),
    );
    if !text(operation, "description").is_empty() {
        let _ = write!(html, "<p>{}</p>", prose(text(operation, "description")));
    }
    let scopes = list(operation, "security").filter_map(|one| one.as_object()?.values().next()?.as_array());
    let scopes: Vec<&str> = scopes.flatten().filter_map(Value::as_str).collect();
    if !scopes.is_empty() {
        let scopes: Vec<String> = scopes.iter().map(|scope| format!("<code>{}</code>", escaped(scope))).collect();
        let _ = write!(html, "<p>Scope: {}</p>", scopes.join(" or "));
    }
    write_parameters(html, operation);
    if let Some(body) = operation.get("requestBody") {
        let _ = write!(html, "<h3>Request body</h3><p>{}</p>", prose(text(body, "description")));
        write_contents(html, body);
    }
    html.push_str("<h3>Answers</h3><dl>");
    for (status, response) in members(operation, "responses") {
        let response = resolved(document, response);
        let _ = write!(html, "<dt><code>{}</code></dt><dd>{}", escaped(status), prose(text(response, "description")));
        for (media_type, content) in members(response, "content") {
            let shape = content.get("schema").map(shape).unwrap_or_default();
            let _ = write!(html, "<br><small>{}: {shape}</small>", escaped(media_type));
        }
        html.push_str("</dd>");
    }
    html.push_str("</dl></details>");
}

fn write_parameters(html: &mut String, operation: &Value) {
    if list(operation, "parameters").next().is_none() {
        return;
    }
    html.push_str("<h3>Parameters</h3><dl>");
    for parameter in list(operation, "parameters") {
        let needed = if parameter.get("required") == Some(&Value::Bool(true)) { ", needed" } else { "" };
        let shape = parameter.get("schema").map(shape).unwrap_or_default();
        let _ = write!(
            html,
            "<dt><code>{}</code> <small>in {}{needed}: {shape}</small></dt><dd>{}</dd>",
            escaped(text(parameter, "name")),
            escaped(text(parameter, "in")),
            prose(text(parameter, "description")),
        );
    }
    html.push_str("</dl>");
}

/// The shapes of a body, and the examples of the first of its media types.
fn write_contents(html: &mut String, body: &Value) {
    for (at, (media_type, content)) in members(body, "content").enumerate() {
        let shape = content.get("schema").map(shape).unwrap_or_default();
        let _ = write!(html, "<p><small>{}: {shape}</small></p>", escaped(media_type));
        if at > 0 {
            continue;
        }
        for (_, example) in members(content, "examples") {
            let value = example.get("value").and_then(|value| serde_json::to_string_pretty(value).ok());
            let _ = write!(
                html,
                "<figure><figcaption>{}</figcaption><pre tabindex=\"0\">{}</pre></figure>",
                escaped(text(example, "summary")),
                escaped(&value.unwrap_or_default())
            );
        }
    }
}

fn write_scopes(html: &mut String, document: &Value) {
    html.push_str("<section id=\"scopes\"><h2>Scopes</h2><p>What a client may be granted. <code>all</code> covers the other actions of its resource.</p><dl class=\"short\">");
    let flow = ["components", "securitySchemes", "client_credentials", "flows", "clientCredentials"];
    let flow = flow.iter().try_fold(document, |value, name| value.get(name)).unwrap_or(&Value::Null);
    for (scope, description) in members(flow, "scopes") {
        let described = escaped(description.as_str().unwrap_or_default());
        let _ = write!(html, "<dt><code>{}</code></dt><dd>{described}</dd>", escaped(scope));
    }
    html.push_str("</dl></section>");
}

/// What a `$ref` leads to, or the value itself.
fn resolved<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let leads = value.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
    leads.and_then(|path| document.pointer(path)).unwrap_or(value)
}

fn at<'d>(value: &'d Value, path: &[&str]) -> &'d str {
    path.iter().try_fold(value, |value, name| value.get(name)).and_then(Value::as_str).unwrap_or_default()
}

fn text<'d>(value: &'d Value, name: &str) -> &'d str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'d>(value: &'d Value, name: &str) -> impl Iterator<Item = &'d Value> + use<'d> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn members<'d>(value: &'d Value, name: &str) -> impl Iterator<Item = (&'d String, &'d Value)> + use<'d> {
    value.get(name).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// A name as the anchor of a section.
fn anchor(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' }).collect()
}

/// A text that cannot be mistaken for HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// A text in which what stands between backticks is code.
fn prose(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(at, part)| if at % 2 == 1 { format!("<code>{}</code>", escaped(part)) } else { escaped(part) })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn escapes_every_text_of_the_document() {
        let hostile = "<script>alert('x')</script>\"&";
        let page = page(&json!({
            "info": {"title": hostile, "version": hostile, "description": hostile},
            "tags": [{"name": hostile, "description": hostile}],
            "paths": {hostile: {"get": {
                "operationId": hostile, "tags": [hostile], "summary": hostile, "description": hostile,
                "security": [{"client_credentials": [hostile, "other"]}],
                "parameters": [{"name": hostile, "in": hostile, "description": hostile, "schema": {"type": hostile, "pattern": hostile}}],
                "requestBody": {"description": hostile, "content": {hostile: {
                    "schema": {"$ref": hostile}, "examples": {"one": {"summary": hostile, "value": {hostile: hostile}}},
                }}},
                "responses": {hostile: {"description": hostile, "content": {hostile: {"schema": {"enum": [hostile]}}}}},
            }}},
            "components": {"schemas": {hostile: {"description": hostile, "properties": {hostile: {"description": hostile}}}}},
        }));
        assert!(!page.contains("<script"), "{page}");
        assert!(!page.contains("alert('x')"), "{page}");
        assert!(page.contains("&lt;script&gt;"));
    }

    #[test]
    fn shows_code_between_backticks() {
        assert_eq!(prose("a `b<c>` d"), "a <code>b&lt;c&gt;</code> d");
    }

    #[test]
    fn names_the_digest_of_its_style() {
        let digest = STANDARD.encode(Sha256::digest(STYLE));
        assert!(CONTENT_SECURITY_POLICY.contains(&format!("style-src 'sha256-{digest}'")));
        assert!(!CONTENT_SECURITY_POLICY.contains("unsafe"));
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"), "the style loads nothing");
    }
}
