//! Response bodies for snapshots: values that differ between runs are redacted.

use daftar::domain::error_code::ERROR_PAGES_PATH;
use serde_json::Value;

/// Members with random texts.
const RANDOM: [&str; 6] = ["request_id", "client_id", "client_secret", "access_token", "source", "seal"];
/// Members with digests of contents that change with a release.
const DIGESTS: [&str; 5] = ["expression_digest", "engine", "concept_groups", "schema", "digest"];

/// Returns the value with random names and digests replaced by their members' names.
#[must_use]
pub fn redacted(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(members.iter().map(|(name, value)| member(name, value)).collect()),
        Value::Array(items) => Value::Array(items.iter().map(redacted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn member(name: &String, value: &Value) -> (String, Value) {
    // The port of the server differs between runs.
    if let Some((_, page)) = value.as_str().filter(|_| name == "type").and_then(|uri| uri.split_once(ERROR_PAGES_PATH))
    {
        return (name.clone(), Value::String(format!("[public_url]{ERROR_PAGES_PATH}{page}")));
    }
    let is_hidden = value.is_string() && (RANDOM.contains(&name.as_str()) || DIGESTS.contains(&name.as_str()));
    (name.clone(), if is_hidden { Value::String(format!("[{name}]")) } else { redacted(value) })
}

/// Returns the field and code of every problem in a 422 response.
#[must_use]
pub fn errors(problem: &Value) -> Vec<(String, String)> {
    let errors = problem["errors"].as_array().unwrap_or_else(|| panic!("no `errors`: {problem}"));
    let text = |error: &Value, name: &str| error[name].as_str().expect("a text").to_owned();
    errors.iter().map(|error| (text(error, "field"), text(error, "code"))).collect()
}
