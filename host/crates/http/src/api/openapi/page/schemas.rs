//! Shapes of values, as the page tells them.

use std::fmt::Write as _;

use serde_json::Value;

use super::{anchor, escaped, members, prose, text};

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

/// How deep objects inside objects are shown.
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

/// A shape in a few words, with a link where it has a name.
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
    let mut told = escaped(&kinds.join(" or "));
    if let Some(items) = schema.get("items") {
        let _ = write!(told, " of {}", shape(items));
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
        let _ = write!(told, ", {word}{}{unit}", escaped(&value));
    }
    told
}
