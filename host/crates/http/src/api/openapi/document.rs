//! Generates the document from the table of routes, and caches it as it is sent, with its page.
//!
//! **Invariant:** both are generated again only when the fields of installed modules change; all requests in between
//! get the same bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use serde_json::{Value, json};

use super::operation::{DocumentedResponse, EXAMPLES, Example, Operation, TAGS};
use super::parameter::{self, Parameter, of_modules};
use super::shape::Shape;
use super::{batch, eligibility, group, individual, page, program, record, refusal, rule_draft, server, vocabulary};
use crate::api::access::Access;
use crate::api::conditional::tag_of;
use crate::api::endpoint::{BASE_PATH, Endpoint, scopes_on_offer};
use crate::api::middleware::response::API_VERSION;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::scope::{Action, Scope};

/// The document of a server with that URL, with the fields of installed modules.
#[must_use]
pub fn document(endpoints: &[Endpoint], public_url: &str, fields: &ExtensionFields) -> Value {
    let mut paths: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    for endpoint in endpoints {
        let Some(path) = endpoint.paths.first() else { continue };
        let method = endpoint.method.as_str().to_ascii_lowercase();
        paths.entry(endpoint.documented_path()).or_default().insert(method, operation(endpoint, path, fields));
    }
    let tags = TAGS.map(|(_, name, about)| json!({"name": name, "description": about}));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "daftar", "version": API_VERSION, "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": public_url}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": shapes(fields),
            "responses": refusal::components().collect::<Value>(),
            "headers": refusal::headers(),
            "securitySchemes": schemes(public_url, endpoints),
        },
    })
}

/// The document as the documentation has it, indented: of a server without modules at an example address.
#[must_use]
pub fn published(endpoints: &[Endpoint]) -> String {
    let document = document(endpoints, "https://registry.example.org", &ExtensionFields::default());
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

/// Introduction for a reader before the first call.
const ABOUT: &str = "The register of a social protection programme: individuals, households, enrolments in programs and \
consents.\n\nA client gets a token at `/api/v2/oauth/token` and sends it with each call. Coded values are written \
`<namespace>#<code>`; in a URL `#` is `%23`. Records are addressed by any of their identifiers, `<system>|<value>`.\n\n\
Unknown parameters are 400, unknown members of a body 422. In a request `null` means absent. Each path \
has equivalent spellings (`x-also-at`); a `$` in a path may be sent as `%24`.\n\nA response contains the state of \
the bucket that counted the call: `X-RateLimit-Limit`, `X-RateLimit-Remaining`, and the seconds until it is full again, \
`X-RateLimit-Reset`.";

fn shapes(fields: &ExtensionFields) -> BTreeMap<String, Shape> {
    let shapes = [
        record::shapes(),
        record::part_shapes(),
        individual::shapes(fields),
        group::shapes(fields),
        program::program_shapes(),
        program::membership_shapes(),
        program::consent_shapes(),
        eligibility::shapes(fields),
        rule_draft::shapes(),
        vocabulary::shapes(),
        batch::shapes(),
        server::shapes(),
    ];
    let shapes = shapes.into_iter().flatten().map(|(name, shape)| match EXAMPLES.shapes.get(name.as_str()) {
        Some(example) => (name, shape.with("examples", vec![example.clone()])),
        None => (name, shape),
    });
    shapes.collect()
}

fn operation(endpoint: &Endpoint, path: &str, fields: &ExtensionFields) -> Value {
    let described = &endpoint.operation;
    let shown: Vec<Parameter> = parameters(path, described).chain(of_modules(described, fields)).collect();
    let also_at = endpoint.also_at();
    let tags: Vec<&str> = TAGS.iter().filter(|(tag, ..)| *tag == described.tag).map(|(_, name, _)| *name).collect();
    filled(json!({
        "operationId": described.id,
        "tags": tags,
        "summary": described.summary,
        "description": Some(&described.description).filter(|text| !text.is_empty()),
        "parameters": shown,
        "requestBody": request_body(described),
        "responses": responses(endpoint),
        "security": requirements(endpoint.access),
        "x-also-at": Some(also_at).filter(|paths| !paths.is_empty()),
    }))
}

/// An object without the members that are `null`.
fn filled(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.retain(|_, value| !value.is_null());
    }
    object
}

/// The parameters of an operation: those of its path, then its own, with the values of the first example.
pub fn parameters<'a>(path: &'a str, operation: &'a Operation) -> impl Iterator<Item = Parameter> + 'a {
    let of_path = path.split('/').filter_map(|part| part.strip_prefix('{')?.trim_start_matches('*').strip_suffix('}'));
    let of_path = of_path.filter_map(parameter::of_path);
    of_path.chain(operation.parameters.iter().cloned()).map(|parameter| {
        let given = |example: &'a Example| example.parameters.get(parameter.name.as_str());
        match operation.examples.iter().filter(|example| example.status < 400).find_map(given) {
            Some(value) => parameter.with_example(value),
            None => parameter,
        }
    })
}

fn request_body(operation: &Operation) -> Option<Value> {
    let body = operation.body.as_ref()?;
    let examples = operation.examples.iter().filter_map(|Example { name, summary, body, .. }| {
        body.as_ref().map(|body| (*name, json!({"summary": summary, "value": body})))
    });
    let content = filled(json!({"schema": body.shape, "examples": some(examples)}));
    let content: Value = body.media_types.iter().map(|media_type| (*media_type, content.clone())).collect();
    Some(json!({"description": body.description, "required": true, "content": content}))
}

fn responses(endpoint: &Endpoint) -> BTreeMap<String, Value> {
    let described = &endpoint.operation;
    let replies = described.responses.iter().map(|reply| (reply.status, response(reply, endpoint.access)));
    let takes_path = endpoint.paths.iter().any(|path| path.contains('{'));
    let refusals = refusal::statuses_of(described, endpoint.access, takes_path).into_iter().map(|status| {
        let name = refusal::refusal_name(status, endpoint.access);
        (status, json!({"$ref": format!("#/components/responses/{name}")}))
    });
    replies.chain(refusals).map(|(status, response)| (status.to_string(), response)).collect()
}

fn response(reply: &DocumentedResponse, access: Access) -> Value {
    let content = reply.bodies.iter().map(|(media_type, shape)| (*media_type, json!({"schema": shape})));
    let headers = refusal::of_every_answer(access).iter().chain(&reply.headers).copied();
    let links = reply.links.iter().map(|link| {
        let parameters: Value = link.parameters.iter().copied().collect();
        (link.name, json!({"operationId": link.operation, "parameters": parameters}))
    });
    filled(json!({
        "description": reply.description,
        "content": some(content),
        "headers": refusal::header_references(headers),
        "links": some(links),
    }))
}

/// An object of those members; none if there are no members.
fn some<'n>(members: impl Iterator<Item = (&'n str, Value)>) -> Option<Value> {
    let mut members = members.peekable();
    members.peek().is_some().then(|| members.collect())
}

/// The name of the scheme of access tokens.
const TOKENS: &str = "client_credentials";
/// The name of the scheme of client id and secret, at the token endpoint.
const SECRET: &str = "client_secret_basic";

/// The authentication schemes.
fn schemes(public_url: &str, endpoints: &[Endpoint]) -> Value {
    let scopes = scopes_on_offer(endpoints).into_iter().map(|scope| (scope.to_string(), describe(scope)));
    json!({
        TOKENS: {
            "type": "oauth2",
            "description": "An access token for client credentials, sent as `Authorization: Bearer <token>`.",
            "flows": {"clientCredentials": {
                "tokenUrl": format!("{public_url}{BASE_PATH}/oauth/token"),
                "scopes": scopes.collect::<Value>(),
            }},
        },
        SECRET: {
            "type": "http",
            "scheme": "basic",
            "description": "Client id and secret, each form-urlencoded (RFC 6749, section 2.3.1). They may be sent in the body instead.",
        },
    })
}

/// The description of a scope.
fn describe(scope: Scope) -> String {
    let resource = scope.resource.name();
    match scope.action {
        Action::All => format!("every action on {resource}"),
        Action::Read | Action::Search | Action::Create | Action::Update | Action::Delete => {
            format!("{} {resource}", scope.action.name())
        }
    }
}

/// The alternative authentication requirements of a caller.
fn requirements(access: Access) -> Vec<Value> {
    match access {
        Access::Scopes(accepted) => accepted.iter().map(|scope| json!({TOKENS: [scope.to_string()]})).collect(),
        Access::AnyClient => vec![json!({TOKENS: []})],
        Access::Token => vec![json!({SECRET: []}), json!({})],
        Access::Public | Access::Health => Vec::new(),
    }
}

/// Bytes with their entity tag.
#[derive(Debug, Clone)]
pub struct TaggedBytes {
    /// The bytes.
    pub bytes: Bytes,
    /// The tag, in quotation marks.
    pub tag: String,
}

impl TaggedBytes {
    /// Those bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { tag: tag_of(&bytes), bytes }
    }
}

/// Description of a server.
#[derive(Debug)]
pub struct Description {
    /// The document.
    pub document: TaggedBytes,
    /// The page that shows the document.
    pub page: TaggedBytes,
    fields: ExtensionFields,
}

/// Generates and caches the description of a server.
#[derive(Debug)]
pub struct ServedDescription {
    public_url: String,
    made: Mutex<Option<Arc<Description>>>,
}

impl ServedDescription {
    /// For a server with that URL.
    #[must_use]
    pub fn new(public_url: String) -> Self {
        Self { public_url, made: Mutex::default() }
    }

    /// The description of those endpoints, which never change, with the fields of installed modules.
    #[must_use]
    pub fn of(&self, endpoints: &[Endpoint], fields: &ExtensionFields) -> Arc<Description> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = made.as_ref().filter(|made| made.fields == *fields) {
            return Arc::clone(made);
        }
        let document = document(endpoints, &self.public_url, fields);
        let description = Arc::new(Description {
            page: TaggedBytes::new(page::page(&document).into_bytes()),
            document: TaggedBytes::new(serde_json::to_vec(&document).unwrap_or_default()),
            fields: fields.clone(),
        });
        *made = Some(Arc::clone(&description));
        description
    }
}
