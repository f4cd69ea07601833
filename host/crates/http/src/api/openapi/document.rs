//! Puts the document together from the table of routes, and holds it as it is sent, with the page that shows it.
//!
//! **Invariant:** both are made again only when the installed modules add other fields; every request in between gets the same
//! bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use serde_json::{Value, json};
use utoipa::openapi::extensions::{Extensions, ExtensionsBuilder};
use utoipa::openapi::info::{InfoBuilder, LicenseBuilder};
use utoipa::openapi::link::Link;
use utoipa::openapi::path::{OperationBuilder, Parameter, ParameterBuilder, PathItem, PathsBuilder};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{Schema, SchemaType, Type};
use utoipa::openapi::security::{
    ClientCredentials, Flow, HttpAuthScheme, HttpBuilder, OAuth2, Scopes, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::server::Server;
use utoipa::openapi::tag::{Tag as DocumentTag, TagBuilder};
use utoipa::openapi::{
    Components, ContentBuilder, HttpMethod, OpenApi, OpenApiBuilder, Ref, RefOr, Required, Response, ResponseBuilder,
    Responses,
};

use super::operation::{Answer, Example, Operation, Tag};
use super::refusal::{self, HEADERS};
use super::{batch, eligibility, group, individual, page, parameter, program, record, server, vocabulary};
use crate::api::access::Access;
use crate::api::conditional::tag_of;
use crate::api::endpoint::{BASE_PATH, Endpoint, scopes_on_offer};
use crate::api::middleware::answer::API_VERSION;
use crate::api::openapi::parameter::of_modules;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::scope::{Action, Scope};

/// The document of a server that clients know by that URL, with the fields that installed modules add.
#[must_use]
pub fn document(endpoints: &[Endpoint], public_url: &str, fields: &ExtensionFields) -> Value {
    let mut document = serde_json::to_value(model(endpoints, public_url, fields)).unwrap_or_default();
    complete(&mut document);
    if let Some(Value::Object(components)) = document.get_mut("components") {
        let told = HEADERS.iter().map(|(name, ..)| ((*name).to_owned(), json!(refusal::header(name))));
        components.insert("headers".to_owned(), told.collect());
    }
    document
}

/// What the model cannot say: it writes the members of links in its own spelling, and each header again wherever it stands.
fn complete(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(Value::Object(links)) = members.get_mut("links") {
                for link in links.values_mut().filter_map(Value::as_object_mut) {
                    if let Some(id) = link.remove("operation_id") {
                        link.insert("operationId".to_owned(), id);
                    }
                }
            }
            if let Some(Value::Object(told)) = members.get_mut("headers") {
                for (name, header) in told {
                    *header = json!({"$ref": format!("#/components/headers/{name}")});
                }
            }
            members.values_mut().for_each(complete);
        }
        Value::Array(items) => items.iter_mut().for_each(complete),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn model(endpoints: &[Endpoint], public_url: &str, fields: &ExtensionFields) -> OpenApi {
    let mut items: BTreeMap<String, PathItem> = BTreeMap::new();
    for endpoint in endpoints {
        let Some(path) = endpoint.paths.first() else { continue };
        let Some(method) = method(endpoint) else { continue };
        let made = PathItem::new(method, operation(endpoint, path, fields));
        match items.get_mut(path) {
            Some(item) => item.merge_operations(made),
            None => {
                items.insert(path.clone(), made);
            }
        }
    }
    let paths = items.into_iter().fold(PathsBuilder::new(), |paths, (path, item)| paths.path(path, item));
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("daftar")
                .version(API_VERSION)
                .description(Some(ABOUT))
                .license(Some(LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build())),
        )
        .servers(Some([Server::new(public_url)]))
        .tags(Some(Tag::ALL.map(tag)))
        .paths(paths)
        .components(Some(components(endpoints, public_url, fields)))
        .build()
}

/// What a reader needs to know before the first call.
const ABOUT: &str = "The register of a social protection programme: who is in it, in which household, on which programs, \
with whose consent.\n\nA client gets a token at `/api/v2/oauth/token` and sends it with each call. Coded values are written \
`<namespace>#<code>`; in a URL `#` is `%23`. Records are addressed by any of their identifiers, `<system>|<value>`.\n\n\
Unknown parameters are refused with 400, unknown members of a body with 422. In a request `null` is like absent. Each path \
has other spellings (`x-also-at`) that behave alike; a `$` in a path may be sent as `%24`.\n\nAn answer carries the state of \
the bucket that counted the call: `X-RateLimit-Limit`, `X-RateLimit-Remaining`, and the seconds until it is full again, \
`X-RateLimit-Reset`.";

fn tag(tag: Tag) -> DocumentTag {
    let (name, description) = tag.described();
    TagBuilder::new().name(name).description(Some(description)).build()
}

fn method(endpoint: &Endpoint) -> Option<HttpMethod> {
    Some(match endpoint.method.as_str() {
        "GET" => HttpMethod::Get,
        "POST" => HttpMethod::Post,
        "PUT" => HttpMethod::Put,
        "PATCH" => HttpMethod::Patch,
        "DELETE" => HttpMethod::Delete,
        _ => return None,
    })
}

fn components(endpoints: &[Endpoint], public_url: &str, fields: &ExtensionFields) -> Components {
    let mut components = Components::new();
    let shapes = [
        record::shapes(),
        record::part_shapes(),
        individual::shapes(fields),
        group::shapes(fields),
        program::program_shapes(),
        program::membership_shapes(),
        program::consent_shapes(),
        eligibility::shapes(fields),
        vocabulary::shapes(),
        batch::shapes(),
        server::shapes(),
    ];
    components.schemas.extend(shapes.into_iter().flatten());
    components.responses.extend(refusal::components());
    components.security_schemes.extend(schemes(public_url, endpoints));
    components
}

fn operation(endpoint: &Endpoint, path: &str, fields: &ExtensionFields) -> OperationBuilder {
    let told = &endpoint.operation;
    let shown: Vec<Parameter> = parameters(path, told).chain(of_modules(told, fields)).collect();
    let mut builder = OperationBuilder::new()
        .operation_id(Some(told.id))
        .tag(told.tag.described().0)
        .summary(Some(told.summary))
        .parameters(Some(shown))
        .request_body(told.body.as_ref().map(|_| request_body(told)))
        .responses(responses(endpoint))
        .securities(Some(requirements(endpoint.access)))
        .extensions(also_at(endpoint));
    if !told.description.is_empty() {
        builder = builder.description(Some(told.description.as_str()));
    }
    builder
}

/// The other spellings of a path.
fn also_at(endpoint: &Endpoint) -> Option<Extensions> {
    let told = endpoint.also_at();
    (!told.is_empty()).then(|| ExtensionsBuilder::new().add("x-also-at", told).build())
}

/// The parameters of an operation: those of its path, then its own, with the values of the first example.
pub fn parameters<'a>(path: &'a str, told: &'a Operation) -> impl Iterator<Item = Parameter> + 'a {
    let of_path = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let of_path = of_path.filter_map(parameter::of_path);
    of_path.chain(told.parameters.iter().cloned()).map(|parameter| {
        let given = |example: &Example| {
            example.parameters.iter().find(|(name, _)| *name == parameter.name).map(|(_, value)| value.clone())
        };
        match told.examples.iter().filter(|example| example.status < 400).find_map(given) {
            Some(value) => ParameterBuilder::from(parameter.clone()).example(Some(valued(&parameter, value))).build(),
            None => parameter,
        }
    })
}

/// The text of a parameter as the value that its shape has.
fn valued(parameter: &Parameter, text: String) -> Value {
    let of = match &parameter.schema {
        Some(RefOr::T(Schema::Array(_))) => return json!([text]),
        Some(RefOr::T(Schema::Object(object))) => &object.schema_type,
        _ => return text.into(),
    };
    let is = |kind: Type| *of == SchemaType::Type(kind);
    let value = if is(Type::Integer) || is(Type::Boolean) { serde_json::from_str(&text).ok() } else { None };
    value.unwrap_or_else(|| text.into())
}

fn request_body(told: &Operation) -> RequestBody {
    let Some(body) = &told.body else { return RequestBody::new() };
    let mut builder = RequestBodyBuilder::new().description(Some(body.description)).required(Some(Required::True));
    let shown = told.examples.iter().filter_map(|example| Some((example.name, example, example.body.as_ref()?)));
    let shown: Vec<_> = shown
        .map(|(name, example, value)| {
            let shown = utoipa::openapi::example::ExampleBuilder::new().summary(example.summary);
            (name, RefOr::T(shown.value(Some(value.clone())).build()))
        })
        .collect();
    for media_type in body.media_types {
        let content = ContentBuilder::new().schema(Some(body.shape.clone())).examples_from_iter(shown.clone());
        builder = builder.content(*media_type, content.build());
    }
    builder.build()
}

fn responses(endpoint: &Endpoint) -> Responses {
    let told = &endpoint.operation;
    let mut responses = Responses::new();
    for answer in &told.answers {
        responses.responses.insert(answer.status.to_string(), RefOr::T(response(answer, endpoint.access)));
    }
    let takes_path = endpoint.paths.iter().any(|path| path.contains('{'));
    for status in refusal::statuses_of(told, endpoint.access, takes_path) {
        let name = refusal::refusal_name(status, endpoint.access);
        responses.responses.insert(status.to_string(), RefOr::Ref(Ref::from_response_name(name)));
    }
    responses
}

fn response(answer: &Answer, access: Access) -> Response {
    let mut builder = ResponseBuilder::new().description(answer.description);
    for (media_type, shape) in &answer.bodies {
        builder = builder.content(*media_type, ContentBuilder::new().schema(Some(shape.clone())).build());
    }
    for name in refusal::of_every_answer(access).iter().chain(&answer.headers) {
        builder = builder.header(*name, refusal::header(name));
    }
    for told in &answer.links {
        let link = told
            .parameters
            .iter()
            .fold(Link::builder().operation_id(told.operation), |link, (name, value)| link.parameter(*name, *value));
        builder = builder.link(told.name, link.build());
    }
    builder.build()
}

/// The name of the scheme of access tokens.
const TOKENS: &str = "client_credentials";
/// The name of the scheme of client id and secret, at the token endpoint.
const SECRET: &str = "client_secret_basic";

/// The ways to prove who calls.
pub fn schemes(public_url: &str, endpoints: &[Endpoint]) -> [(String, SecurityScheme); 2] {
    let scopes: Scopes =
        scopes_on_offer(endpoints).into_iter().map(|scope| (scope.to_string(), describe(scope))).collect();
    let flow = ClientCredentials::new(format!("{public_url}{BASE_PATH}/oauth/token"), scopes);
    let description = "An access token for client credentials, sent as `Authorization: Bearer <token>`.";
    let tokens = OAuth2::with_description([Flow::ClientCredentials(flow)], description);
    let secret = HttpBuilder::new().scheme(HttpAuthScheme::Basic).description(Some(
        "Client id and secret, each form-urlencoded (RFC 6749, section 2.3.1). They may stand in the body instead.",
    ));
    [(TOKENS.to_owned(), SecurityScheme::OAuth2(tokens)), (SECRET.to_owned(), SecurityScheme::Http(secret.build()))]
}

/// What a scope allows.
#[must_use]
pub fn describe(scope: Scope) -> String {
    let resource = scope.resource.name();
    match scope.action {
        Action::All => format!("every action on {resource}"),
        Action::Read | Action::Search | Action::Create | Action::Update | Action::Delete => {
            format!("{} {resource}", scope.action.name())
        }
    }
}

/// What a caller must have: one of these.
#[must_use]
pub fn requirements(access: Access) -> Vec<SecurityRequirement> {
    match access {
        Access::Scopes(accepted) => {
            accepted.iter().map(|scope| SecurityRequirement::new(TOKENS, [scope.to_string()])).collect()
        }
        Access::AnyClient => vec![SecurityRequirement::new(TOKENS, [""; 0])],
        Access::Token => vec![SecurityRequirement::new(SECRET, [""; 0]), SecurityRequirement::default()],
        Access::Public | Access::Health => Vec::new(),
    }
}

/// Bytes with their entity tag.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The bytes.
    pub bytes: Bytes,
    /// The tag, in quotation marks.
    pub tag: String,
}

impl Kept {
    /// Those bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { tag: tag_of(&bytes), bytes }
    }
}

/// What describes a server.
#[derive(Debug)]
pub struct Description {
    /// The document.
    pub document: Kept,
    /// The page that shows it.
    pub page: Kept,
    fields: ExtensionFields,
}

/// Makes the description of a server and keeps it.
#[derive(Debug)]
pub struct ServedDescription {
    public_url: String,
    made: Mutex<Option<Arc<Description>>>,
}

impl ServedDescription {
    /// Of a server that clients know by that URL.
    #[must_use]
    pub fn new(public_url: String) -> Self {
        Self { public_url, made: Mutex::default() }
    }

    /// The description of those endpoints, the same for the whole life of a server, with the fields that installed modules add.
    #[must_use]
    pub fn of(&self, endpoints: &[Endpoint], fields: &ExtensionFields) -> Arc<Description> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = made.as_ref().filter(|made| made.fields == *fields) {
            return Arc::clone(made);
        }
        let document = document(endpoints, &self.public_url, fields);
        let description = Arc::new(Description {
            page: Kept::new(page::page(&document).into_bytes()),
            document: Kept::new(serde_json::to_vec(&document).unwrap_or_default()),
            fields: fields.clone(),
        });
        *made = Some(Arc::clone(&description));
        description
    }
}
