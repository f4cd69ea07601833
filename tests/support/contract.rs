//! Checks responses against the OpenAPI document.
//!
//! **Invariant:** for every request of a test to the public listener, status, media type, headers and body of the response are among
//! those documented for that operation, and a documented header on which a client depends is present; otherwise the test
//! fails.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use daftar::api::endpoint::Endpoint;
use daftar::api::openapi::document::document;
use daftar::api::router::endpoints;
use daftar::domain::extension::ExtensionFields;
use jsonschema::Validator;
use serde_json::{Value, json};

use super::http::Response;

/// The document that responses are checked against.
static CONTRACT: LazyLock<Contract> = LazyLock::new(Contract::new);

/// Headers that a response has only if they are documented.
const DOCUMENTED_HEADERS: [&str; 10] = [
    "etag",
    "location",
    "content-location",
    "content-language",
    "vary",
    "www-authenticate",
    "retry-after",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
];

/// Headers that a response always has if they are documented for its status.
const NEEDED: [&str; 2] = ["location", "retry-after"];

struct Contract {
    document: Value,
    endpoints: Vec<Endpoint>,
    /// By the shape's own text.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

/// True if a response may lack an address: a membership without an identifier of its own is addressed by its
/// beneficiary and program, which not every client may see, and a replayed record may no longer be visible to the
/// client.
fn may_lack_location(response: &Response) -> bool {
    let body: Value = serde_json::from_slice(response.bytes()).unwrap_or_default();
    let is_bare = body["type"] == "ProgramMembership" && (body["beneficiary"].is_null() || body["program"].is_null());
    is_bare || response.header("idempotency-replayed").is_some()
}

/// Fails the test if such a response to that request is not documented.
#[track_caller]
pub fn hold(method: &str, target: &str, response: &Response) {
    if let Err(problem) = CONTRACT.check(method, target, response) {
        let (status, text) = (response.status, String::from_utf8_lossy(response.bytes()));
        panic!("{method} {target}: the document does not tell of this answer: {problem}\n{status} {text}");
    }
}

/// The document, with the objects that modules extend left open.
#[must_use]
pub fn api_document() -> &'static Value {
    &CONTRACT.document
}

impl Contract {
    fn new() -> Self {
        let endpoints = endpoints();
        let mut document = document(&endpoints, "http://127.0.0.1", &ExtensionFields::default());
        open_extensions(&mut document);
        Self { document, endpoints, validators: Mutex::default() }
    }

    fn check(&self, method: &str, target: &str, response: &Response) -> Result<(), String> {
        // No route matched: another listener has the path, or the path has other methods.
        let is_of_route = response.status < 400 || method == "HEAD" || response.json()["instance"].is_string();
        let is_of_token = response.header("content-type") == Some("application/json");
        if response.status == 405 || !(is_of_route || is_of_token) {
            return Ok(());
        }
        let Some(operation) = self.operation(method, target) else { return Ok(()) };
        let status = response.status.to_string();
        let documented = &operation["responses"][status.as_str()];
        if documented.is_null() {
            return Err(format!("no status {status}"));
        }
        let documented = self.resolved(documented);
        let known: Vec<String> = documented["headers"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.to_ascii_lowercase())
            .collect();
        let undocumented = DOCUMENTED_HEADERS
            .iter()
            .find(|name| response.header(name).is_some() && !known.iter().any(|one| one == **name));
        if let Some(name) = undocumented {
            return Err(format!("no header `{name}`"));
        }
        let is_reported = |name: &&&str| known.iter().any(|one| one == **name);
        // A 403 has a challenge if another token would help, and none if a field is not granted.
        let challenge = (response.status == 401).then_some(&"www-authenticate");
        let is_needed = |name: &&&str| **name != "location" || !may_lack_location(response);
        let needed = NEEDED.iter().chain(challenge).filter(is_reported).filter(is_needed);
        if let Some(name) = needed.into_iter().find(|name| response.header(name).is_none()) {
            return Err(format!("the header `{name}` is documented and missing"));
        }
        let Some(contents) = documented["content"].as_object() else {
            return if response.bytes().is_empty() { Ok(()) } else { Err("no body".to_owned()) };
        };
        // A replayed record may no longer be visible to the client; then only the status is returned.
        let is_replayed = response.header("idempotency-replayed").is_some() && response.bytes().is_empty();
        if method == "HEAD" || is_replayed {
            return Ok(());
        }
        let media_type = response.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
        let content = contents.get(media_type).ok_or_else(|| format!("no media type `{media_type}`"))?;
        if media_type == super::http::LINES {
            return response.lines().iter().try_for_each(|line| self.matches(&content["schema"], line));
        }
        if !media_type.ends_with("json") {
            return Ok(());
        }
        self.matches(&content["schema"], &response.json())
    }

    /// The operation that a request calls; none on the admin listener and for unknown paths.
    fn operation(&self, method: &str, target: &str) -> Option<&Value> {
        let path = target.split(['?', '#']).next()?;
        let requested = if method == "HEAD" { "GET" } else { method };
        let matching =
            |endpoint: &&Endpoint| endpoint.method == requested && endpoint.paths.iter().any(|route| fits(route, path));
        // A route with literal segments takes precedence over one with parameters.
        let endpoint =
            self.endpoints.iter().filter(matching).min_by_key(|endpoint| endpoint.paths[0].matches('{').count())?;
        Some(&self.document["paths"][&endpoint.documented_path()][endpoint.method.as_str().to_ascii_lowercase()])
    }

    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        let leads = value["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
        leads.map_or(value, |path| self.document.pointer(path).unwrap_or_else(|| panic!("`{path}` leads nowhere")))
    }

    /// Tests whether a value matches that schema.
    fn matches(&self, shape: &Value, value: &Value) -> Result<(), String> {
        let validator = self.validator(shape);
        let problems: Vec<String> = validator
            .iter_errors(value)
            .take(5)
            .map(|error| format!("{} at `{}`", error, error.instance_path()))
            .collect();
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    }

    fn validator(&self, shape: &Value) -> Arc<Validator> {
        let mut validators = self.validators.lock().expect("nothing panics while it holds the lock");
        let made = validators.entry(shape.to_string()).or_insert_with(|| {
            let whole = json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "components": {"schemas": self.document["components"]["schemas"]},
                "allOf": [shape],
            });
            let options = jsonschema::options().should_validate_formats(true);
            Arc::new(options.build(&whole).unwrap_or_else(|error| panic!("the shape is none ({error}): {shape}")))
        });
        Arc::clone(made)
    }
}

/// Tests whether a value matches that schema of the document.
///
/// # Errors
/// A description of the mismatch.
pub fn matches(shape: &Value, value: &Value) -> Result<(), String> {
    CONTRACT.matches(shape, value)
}

/// Tests whether a path matches that route.
fn fits(route: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (route.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            // The rest of the path.
            (Some(wanted), Some(given)) if wanted.starts_with("{*") => return !given.is_empty(),
            (Some(wanted), Some(given)) if wanted == given || (wanted.starts_with('{') && !given.is_empty()) => {}
            _ => return false,
        }
    }
}

/// Tests install modules with fields of their own.
fn open_extensions(document: &mut Value) {
    if let Some(properties) = document.get_mut("properties").and_then(Value::as_object_mut)
        && let Some(extension) = properties.get_mut("extension")
    {
        *extension = json!({});
    }
    match document {
        Value::Object(members) => members.values_mut().for_each(open_extensions),
        Value::Array(items) => items.iter_mut().for_each(open_extensions),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
