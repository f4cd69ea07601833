//! The HTML page of the document, and the pages of error codes, without scripts and external resources.
//!
//! **Invariant:** every text of the document is escaped; the page's policy permits nothing but its own style.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use daftar_domain::error_code::{ErrorCode, ErrorEntry};

const STYLE: &str = include_str!("page/style.css");
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Content security policy: permits the inline style alone.
pub static CONTENT_SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    let digest = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// The page of a document.
#[must_use]
pub fn page(document: &Value) -> String {
    let info = document.get("info").unwrap_or(&Value::Null);
    let (title, version) = (escaped(text(info, "title")), escaped(text(info, "version")));
    let mut html = head(
        &format!("{title} API {version}"),
        &format!("{title} API <small>{version}</small>"),
        "<a href=\"/docs/\">documentation</a> · <a href=\"/openapi.json\">openapi.json</a> · <a href=\"/metadata\">metadata</a> · <a href=\"/docs/errors\">error codes</a>",
    );
    html.push_str("<nav aria-label=\"Contents\"><ul>");
    for tag in list(document, "tags") {
        let name = text(tag, "name");
        let _ = write!(html, "<li><a href=\"#{}\">{}</a></li>", anchor(name), escaped(name));
    }
    html.push_str("<li><a href=\"#scopes\">Scopes</a></li><li><a href=\"#schemas\">Schemas</a></li></ul></nav><main>");
    for paragraph in text(info, "description").split("\n\n") {
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

/// The beginning of a page, up to its contents; each argument is HTML already.
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

/// The shapes of a body, and the examples of its first media type.
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
    let flow = document.pointer("/components/securitySchemes/client_credentials/flows/clientCredentials");
    for (scope, description) in members(flow.unwrap_or(&Value::Null), "scopes") {
        let described = escaped(description.as_str().unwrap_or_default());
        let _ = write!(html, "<dt><code>{}</code></dt><dd>{described}</dd>", escaped(scope));
    }
    html.push_str("</dl></section>");
}

/// Target of a `$ref`, or the value itself.
fn resolved<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let leads = value.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
    leads.and_then(|path| document.pointer(path)).unwrap_or(value)
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

/// A text with HTML escaped.
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

/// A text with parts in backticks formatted as code.
fn prose(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(at, part)| if at % 2 == 1 { format!("<code>{}</code>", escaped(part)) } else { escaped(part) })
        .collect()
}

const ABOUT: &str = "The body of every failed call is `application/problem+json` (RFC 9457). Its `code` is one of these. A code keeps its name, its status and its meaning; `detail` is for people and may change. The token endpoint responds with the codes of RFC 6749 instead.";

/// The page that lists every code.
#[must_use]
pub fn error_list() -> String {
    let mut html =
        head("Error codes", "Error codes", "<a href=\"/docs/\">Documentation</a> · <a href=\"/docs/api\">API</a>");
    let statuses: Vec<&[ErrorCode]> =
        ErrorCode::ALL.chunk_by(|one, next| one.entry().status == next.entry().status).collect();
    html.push_str("<nav aria-label=\"Contents\"><ul>");
    for status in statuses.iter().filter_map(|codes| codes.first()).map(|code| code.entry().status) {
        let _ = write!(html, "<li><a href=\"#status-{status}\">{}</a></li>", status_named(status));
    }
    let _ = write!(html, "</ul></nav><main><p>{}</p>", prose(ABOUT));
    for codes in statuses {
        let Some(status) = codes.first().map(|code| code.entry().status) else { continue };
        let _ = write!(html, "<section id=\"status-{status}\"><h2>{}</h2><dl>", status_named(status));
        for ErrorEntry { name, meaning, .. } in codes.iter().map(|code| code.entry()) {
            let _ =
                write!(html, "<dt><a href=\"errors/{name}\"><code>{name}</code></a></dt><dd>{}</dd>", prose(meaning));
        }
        html.push_str("</dl></section>");
    }
    html.push_str("</main></body></html>\n");
    html
}

/// The page about one code.
#[must_use]
pub fn error_page(code: ErrorCode) -> String {
    let ErrorEntry { name, status, meaning, remedy } = code.entry();
    let links = "<a href=\"/docs/errors\">Error codes</a> · <a href=\"/docs/api\">API</a>";
    let mut html = head(&format!("Error code {name}"), &format!("<code>{name}</code>"), links);
    html.push_str("<nav aria-label=\"Codes of the same status\"><ul>");
    for other in ErrorCode::ALL.iter().map(|code| code.entry()).filter(|other| other.status == status) {
        let current = if other.name == name { " aria-current=\"page\"" } else { "" };
        let _ = write!(html, "<li><a href=\"{0}\"{current}>{0}</a></li>", other.name);
    }
    let _ = writeln!(
        html,
        "</ul></nav><main><h2>Status</h2><p>{}</p><h2>Meaning</h2><p>{}</p><h2>What to do</h2><p>{}</p></main></body></html>",
        status_named(status),
        prose(meaning),
        prose(remedy)
    );
    html
}

/// A status with its name.
fn status_named(status: u16) -> String {
    let name = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    escaped(&format!("{status} {}", name.unwrap_or_default()))
}

/// Every named shape with its members.
pub fn write_schemas(html: &mut String, document: &Value) {
    html.push_str("<section id=\"schemas\"><h2>Schemas</h2>");
    let components = document.get("components").unwrap_or(&Value::Null);
    for (name, schema) in members(components, "schemas") {
        let _ = write!(
            html,
            "<details id=\"schema-{}\"><summary><code>{}</code> <span>{}</span></summary>",
            anchor(name),
            escaped(name),
            prose(text(schema, "description"))
        );
        write_members(html, schema, 0);
        if schema.get("properties").is_none() {
            let _ = write!(html, "<p>{}</p>", shape(schema));
        }
        html.push_str("</details>");
    }
    html.push_str("</section>");
}

/// Maximum depth of nested objects on the page.
const DEPTH_MAX: usize = 6;

fn write_members(html: &mut String, schema: &Value, depth: usize) {
    if schema.get("properties").is_none() || depth > DEPTH_MAX {
        return;
    }
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)));
    html.push_str("<dl>");
    for (name, member) in members(schema, "properties") {
        let needed = if is_required(name) { ", always there" } else { "" };
        let _ = write!(
            html,
            "<dt><code>{}</code> <small>{}{needed}</small></dt><dd>{}",
            escaped(name),
            shape(member),
            prose(text(member, "description"))
        );
        write_members(html, member, depth + 1);
        if let Some(items) = member.get("items") {
            write_members(html, items, depth + 1);
        }
        html.push_str("</dd>");
    }
    html.push_str("</dl>");
}

/// A short description of a shape, with a link if it has a name.
pub fn shape(schema: &Value) -> String {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let name = name.rsplit('/').next().unwrap_or_default();
        return format!("<a href=\"#schema-{}\">{}</a>", anchor(name), escaped(name));
    }
    if let Some(choices) = ["anyOf", "oneOf"].iter().find_map(|of| schema.get(*of)?.as_array()) {
        return choices.iter().map(shape).collect::<Vec<_>>().join(" or ");
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words = words.iter().map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned));
        return words.map(|word| format!("<code>{}</code>", escaped(&word))).collect::<Vec<_>>().join(" or ");
    }
    let kinds = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(kind)) => vec![kind.as_str()],
        _ => return "anything".to_owned(),
    };
    let mut reported = escaped(&kinds.join(" or "));
    if let Some(items) = schema.get("items") {
        let _ = write!(reported, " of {}", shape(items));
    }
    for (name, word, unit) in [
        ("format", "", ""),
        ("minimum", "from ", ""),
        ("maximum", "to ", ""),
        ("minLength", "at least ", " characters"),
        ("maxLength", "at most ", " characters"),
        ("minItems", "at least ", " items"),
        ("maxItems", "at most ", " items"),
        ("default", "else ", ""),
    ] {
        let value = match schema.get(name) {
            None | Some(Value::Null) => continue,
            Some(Value::String(value)) => value.clone(),
            Some(value) => value.to_string(),
        };
        let _ = write!(reported, ", {word}{}{unit}", escaped(&value));
    }
    reported
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

#[cfg(test)]
mod errors_tests {
    use super::*;

    #[test]
    fn the_list_links_every_code_and_each_page_matches_the_table() {
        let list = error_list();
        for code in ErrorCode::ALL {
            let ErrorEntry { name, status, meaning, remedy } = code.entry();
            assert!(list.contains(&format!("href=\"errors/{name}\"")), "{name}");
            assert!(list.contains(&format!("id=\"status-{status}\"")) && list.contains(&prose(meaning)), "{name}");
            let page = error_page(*code);
            assert!(page.contains(&format!("<h1><code>{name}</code></h1>")), "{page}");
            assert!(page.contains(&prose(meaning)) && page.contains(&prose(remedy)), "{page}");
        }
    }
}
