//! The body of `/metadata`, made from the table of routes and what each of them says of itself.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::openapi::path::ParameterIn;

use crate::api::endpoint::{BASE_PATH, Endpoint, scopes_on_offer};
use crate::api::extract::body::{BODY_BYTES_MAX, RECORD_BYTES_MAX};
use crate::api::middleware::answer::API_VERSION;
use crate::state::AppState;
use daftar_auth::limits::{CLIENT_QUOTA_DEFAULT, Quota, TOKEN_QUOTA, UNAUTHENTICATED_QUOTA};
use daftar_domain::search::PAGE_COUNT_MAX;
use daftar_service::eligibility::evaluate::{EXPRESSION_BYTES_MAX, SUBJECTS_MAX};
use daftar_service::vocabulary::BATCH_CODES_MAX;

/// What the server offers.
#[derive(Debug, Serialize)]
pub struct MetadataBody {
    server: &'static str,
    version: &'static str,
    api_version: &'static str,
    base_url: String,
    openapi: String,
    docs: String,
    token: TokenBody,
    resources: Vec<ResourceBody>,
    operations: Vec<OperationBody>,
    modules: Vec<ModuleBody>,
    limits: LimitsBody,
}

#[derive(Debug, Serialize)]
struct TokenBody {
    endpoint: String,
    grant_types: [&'static str; 1],
    lifetime_s: u64,
    metadata: String,
    scopes: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct ResourceBody {
    #[serde(rename = "type")]
    kind: String,
    paths: Vec<String>,
    operations: Vec<OperationBody>,
    search_parameters: Vec<ParameterBody>,
}

#[derive(Debug, Serialize)]
struct OperationBody {
    id: &'static str,
    method: String,
    path: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also_at: Vec<String>,
    summary: &'static str,
    scopes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ParameterBody {
    name: String,
    description: String,
    repeatable: bool,
}

#[derive(Debug, Serialize)]
struct ModuleBody {
    name: String,
    version: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    vocabularies: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    extension_fields: Vec<String>,
}

#[derive(Debug, Serialize)]
struct LimitsBody {
    page_items: u32,
    body_bytes: usize,
    record_bytes: usize,
    codes_of_a_batch: usize,
    subjects_of_a_rule: usize,
    expression_bytes: usize,
    token_calls: BucketBody,
    public_calls: BucketBody,
    client_calls: BucketBody,
}

#[derive(Debug, Serialize)]
struct BucketBody {
    per_minute: u32,
    per_day: u32,
}

impl From<Quota> for BucketBody {
    fn from(quota: Quota) -> Self {
        Self { per_minute: quota.per_minute, per_day: quota.per_day }
    }
}

/// Describes a server.
#[must_use]
pub fn write(app: &AppState) -> MetadataBody {
    let base_url = format!("{}{BASE_PATH}", app.public_url);
    let (resources, operations) = sorted(app.routes.endpoints());
    MetadataBody {
        server: "daftar",
        version: env!("CARGO_PKG_VERSION"),
        api_version: API_VERSION,
        openapi: format!("{base_url}/openapi.json"),
        docs: format!("{base_url}/docs"),
        token: TokenBody {
            endpoint: format!("{base_url}/oauth/token"),
            grant_types: ["client_credentials"],
            lifetime_s: app.config.token.lifetime_s,
            metadata: format!("{}/.well-known/oauth-authorization-server", app.public_url),
            scopes: scopes_on_offer(app.routes.endpoints()).iter().map(ToString::to_string).collect(),
        },
        base_url,
        resources,
        operations,
        modules: modules(app),
        limits: LimitsBody {
            page_items: PAGE_COUNT_MAX,
            body_bytes: BODY_BYTES_MAX,
            record_bytes: RECORD_BYTES_MAX,
            codes_of_a_batch: BATCH_CODES_MAX,
            subjects_of_a_rule: SUBJECTS_MAX,
            expression_bytes: EXPRESSION_BYTES_MAX,
            token_calls: TOKEN_QUOTA.into(),
            public_calls: UNAUTHENTICATED_QUOTA.into(),
            client_calls: CLIENT_QUOTA_DEFAULT.into(),
        },
    }
}

/// What is about a resource, and what is not.
fn sorted(endpoints: &[Endpoint]) -> (Vec<ResourceBody>, Vec<OperationBody>) {
    let mut resources: BTreeMap<String, ResourceBody> = BTreeMap::new();
    let mut others = Vec::new();
    for endpoint in endpoints {
        let Some(path) = endpoint.paths.first() else { continue };
        let operation = operation(endpoint, path);
        let Some(kind) = resource_of(path) else {
            others.push(operation);
            continue;
        };
        let resource = resources.entry(kind.to_owned()).or_default();
        kind.clone_into(&mut resource.kind);
        for spelling in endpoint.paths.iter().filter_map(|path| Some(format!("{BASE_PATH}/{}", first_part(path)?))) {
            if !resource.paths.contains(&spelling) {
                resource.paths.push(spelling);
            }
        }
        if *path == format!("{BASE_PATH}/{kind}") && endpoint.method == axum::http::Method::GET {
            resource.search_parameters = conditions(endpoint);
        }
        resource.operations.push(operation);
    }
    (resources.into_values().collect(), others)
}

/// `Individual` of `/api/v2/Individual/{identifier}`: resources are written with a capital.
fn resource_of(path: &str) -> Option<&str> {
    let first = first_part(path)?;
    first.starts_with(|letter: char| letter.is_ascii_uppercase()).then_some(first)
}

/// `individuals` of `/api/v2/individuals/{identifier}`.
fn first_part(path: &str) -> Option<&str> {
    path.strip_prefix(BASE_PATH)?.strip_prefix('/')?.split('/').next()
}

fn operation(endpoint: &Endpoint, path: &str) -> OperationBody {
    OperationBody {
        id: endpoint.operation.id,
        method: endpoint.method.to_string(),
        path: path.to_owned(),
        also_at: endpoint.also_at().into_iter().map(str::to_owned).collect(),
        summary: endpoint.operation.summary,
        scopes: endpoint.scopes().iter().map(ToString::to_string).collect(),
    }
}

fn conditions(endpoint: &Endpoint) -> Vec<ParameterBody> {
    let of_query = endpoint.operation.parameters.iter().filter(|one| one.parameter_in == ParameterIn::Query);
    let body = |one: &utoipa::openapi::path::Parameter| ParameterBody {
        name: one.name.clone(),
        description: one.description.clone().unwrap_or_default(),
        repeatable: one.explode == Some(true),
    };
    of_query.map(body).collect()
}

/// What is installed and in force.
fn modules(app: &AppState) -> Vec<ModuleBody> {
    let generation = app.registry.vocabularies.current();
    let brought = |name: &str| {
        let all = generation.vocabularies().map(|vocabulary| &vocabulary.description().namespace);
        let of_module = all.filter(|namespace| generation.pack_of(namespace).is_some_and(|pack| pack.plugin == name));
        of_module.map(ToString::to_string).collect()
    };
    let installed = app.plugins.list();
    let modules = installed.iter().map(|plugin| plugin.manifest()).map(|manifest| ModuleBody {
        vocabularies: brought(&manifest.name.to_string()),
        extension_fields: manifest.extension_fields.iter().map(|field| field.path.to_string()).collect(),
        kind: manifest.kind.as_str(),
        version: manifest.version.to_string(),
        name: manifest.name.to_string(),
    });
    modules.collect()
}
