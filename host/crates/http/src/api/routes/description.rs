//! Descriptions of the server: the OpenAPI document and its page, the pages of error codes, metadata, the token
//! endpoint, liveness and readiness.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use daftar_api_types::public::eligibility::{EXPRESSION_BYTES_MAX, SUBJECTS_MAX};
use daftar_api_types::public::server::{
    AuthorizationServer, GrantType, Metadata, MetadataLimits, MetadataModule, MetadataOperation, MetadataParameter,
    MetadataResource, MetadataToken, RateLimit, ServerName,
};
use daftar_api_types::public::vocabulary::BATCH_CODES_MAX;
use utoipa::openapi::path::ParameterIn;

use crate::api::access::{HealthCall, PageCall, Public};
use crate::api::conditional::unless_cached;
use crate::api::endpoint::{BASE_PATH, Endpoint, scopes_on_offer};
use crate::api::error::{ApiResult, Problem};
use crate::api::extract::body::{BODY_BYTES_MAX, RECORD_BYTES_MAX};
use crate::api::extract::path::NamePath;
use crate::api::extract::query::{NoParameters, PageParameters};
use crate::api::middleware::response::API_VERSION;
use crate::api::openapi::document::TaggedBytes;
use crate::api::openapi::page::{self, CONTENT_SECURITY_POLICY};
use crate::api::openapi::parameter::{Parameter, of_modules};
use crate::state::AppState;
use daftar_auth::limits::{CLIENT_QUOTA_DEFAULT, Quota, TOKEN_QUOTA, UNAUTHENTICATED_QUOTA};
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::search::PAGE_COUNT_MAX;

/// The OpenAPI document.
pub async fn openapi(_: Public, State(app): State<AppState>, _: NoParameters, headers: HeaderMap) -> ApiResult {
    let generation = app.registry.vocabularies.current();
    let description = app.description.of(app.routes.endpoints(), generation.extension_fields());
    Ok(unless_cached(&headers, &description.document, "application/json"))
}

/// The page that shows the document.
pub async fn docs(_: PageCall, State(app): State<AppState>, _: PageParameters, headers: HeaderMap) -> ApiResult {
    let generation = app.registry.vocabularies.current();
    let description = app.description.of(app.routes.endpoints(), generation.extension_fields());
    page(&headers, &description.page)
}

/// The page that lists the error codes.
pub async fn error_list(_: PageCall, _: PageParameters, headers: HeaderMap) -> ApiResult {
    page(&headers, &TaggedBytes::new(page::error_list().into_bytes()))
}

/// The page about one error code.
pub async fn error_page(_: PageCall, NamePath(name): NamePath, _: PageParameters, headers: HeaderMap) -> ApiResult {
    let unknown = || Problem::new(ErrorCode::NotFound, "there is no such error code; `/docs/errors` lists all");
    let code = ErrorCode::parse(&name).ok_or_else(unknown)?;
    page(&headers, &TaggedBytes::new(page::error_page(code).into_bytes()))
}

/// Sends a page with its content security policy.
fn page(headers: &HeaderMap, cached: &TaggedBytes) -> ApiResult {
    let mut response = unless_cached(headers, cached, "text/html; charset=utf-8");
    let policy = HeaderValue::from_str(&CONTENT_SECURITY_POLICY);
    let policy = policy.map_err(|_| AppError::internal("the policy of the pages cannot be a header"))?;
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    // For browsers without support for `frame-ancestors`.
    response.headers_mut().insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    Ok(response)
}

/// The metadata of the server.
pub async fn metadata(_: Public, State(app): State<AppState>, _: NoParameters, headers: HeaderMap) -> ApiResult {
    let body = write(&app);
    Ok(unless_cached(&headers, &TaggedBytes::new(serde_json::to_vec(&body).unwrap_or_default()), "application/json"))
}

/// Liveness of the process.
pub async fn live(_: HealthCall) -> &'static str {
    "ok\n"
}

/// Readiness of the store; the body names each degraded part on a line.
pub async fn ready(_: HealthCall, State(app): State<AppState>) -> ApiResult<Cow<'static, str>> {
    match app.readiness() {
        Ok(degraded) if degraded.is_empty() => Ok(Cow::Borrowed("ok\n")),
        Ok(degraded) => Ok(Cow::Owned(degraded.iter().map(|part| format!("degraded: {part}\n")).collect())),
        Err(reason) => Err(Problem::new(ErrorCode::NotReady, reason).into()),
    }
}

/// The metadata of the token endpoint.
pub async fn authorization_server(_: Public, State(app): State<AppState>) -> Json<AuthorizationServer<'static>> {
    Json(AuthorizationServer {
        issuer: Cow::Owned(app.public_url.clone()),
        token_endpoint: Cow::Owned(format!("{}{BASE_PATH}/oauth/token", app.public_url)),
        token_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post"].map(Cow::Borrowed).into(),
        grant_types_supported: vec![GrantType::ClientCredentials],
        response_types_supported: Vec::new(),
        scopes_supported: scopes_on_offer(app.routes.endpoints()).iter().map(ToString::to_string).collect(),
    })
}

fn rate_limit(quota: Quota) -> RateLimit {
    RateLimit { per_minute: quota.per_minute, per_day: quota.per_day }
}

/// Describes a server.
#[must_use]
pub fn write(app: &AppState) -> Metadata<'static> {
    let base_url = format!("{}{BASE_PATH}", app.public_url);
    let generation = app.registry.vocabularies.current();
    let (resources, operations) = sorted(app.routes.endpoints(), generation.extension_fields());
    Metadata {
        server: ServerName::Daftar,
        version: Cow::Borrowed(env!("CARGO_PKG_VERSION")),
        api_version: Cow::Borrowed(API_VERSION),
        openapi: Cow::Owned(format!("{base_url}/openapi.json")),
        docs: Cow::Owned(format!("{base_url}/docs")),
        token: MetadataToken {
            endpoint: Cow::Owned(format!("{base_url}/oauth/token")),
            grant_types: vec![GrantType::ClientCredentials],
            lifetime_s: app.config.token.lifetime_s,
            metadata: Cow::Owned(format!("{}/.well-known/oauth-authorization-server", app.public_url)),
            scopes: scopes_on_offer(app.routes.endpoints()).iter().map(ToString::to_string).collect(),
        },
        base_url: Cow::Owned(base_url),
        resources,
        operations,
        modules: modules(app),
        limits: MetadataLimits {
            page_items: PAGE_COUNT_MAX,
            body_bytes: BODY_BYTES_MAX,
            record_bytes: RECORD_BYTES_MAX,
            codes_of_a_batch: BATCH_CODES_MAX,
            subjects_of_a_rule: SUBJECTS_MAX,
            expression_bytes: EXPRESSION_BYTES_MAX,
            token_calls: rate_limit(TOKEN_QUOTA),
            public_calls: rate_limit(UNAUTHENTICATED_QUOTA),
            client_calls: rate_limit(CLIENT_QUOTA_DEFAULT),
        },
    }
}

/// Separates operations on a resource from others.
fn sorted(
    endpoints: &[Endpoint],
    fields: &ExtensionFields,
) -> (Vec<MetadataResource<'static>>, Vec<MetadataOperation<'static>>) {
    let mut resources: BTreeMap<String, MetadataResource<'static>> = BTreeMap::new();
    let mut others = Vec::new();
    for endpoint in endpoints {
        let Some(path) = endpoint.paths.first() else { continue };
        let operation = operation(endpoint, path);
        let Some(kind) = resource_of(path) else {
            others.push(operation);
            continue;
        };
        let resource = resources.entry(kind.to_owned()).or_default();
        resource.kind = Cow::Owned(kind.to_owned());
        for spelling in endpoint.paths.iter().filter_map(|path| Some(format!("{BASE_PATH}/{}", first_part(path)?))) {
            if !resource.paths.contains(&spelling) {
                resource.paths.push(spelling);
            }
        }
        if *path == format!("{BASE_PATH}/{kind}") && endpoint.method == axum::http::Method::GET {
            resource.search_parameters = conditions(endpoint, fields);
        }
        resource.operations.push(operation);
    }
    (resources.into_values().collect(), others)
}

/// `Individual` of `/api/v2/Individual/{identifier}`: resources begin with a capital letter.
fn resource_of(path: &str) -> Option<&str> {
    let first = first_part(path)?;
    first.starts_with(|letter: char| letter.is_ascii_uppercase()).then_some(first)
}

/// `individuals` of `/api/v2/individuals/{identifier}`.
fn first_part(path: &str) -> Option<&str> {
    path.strip_prefix(BASE_PATH)?.strip_prefix('/')?.split('/').next()
}

fn operation(endpoint: &Endpoint, path: &str) -> MetadataOperation<'static> {
    MetadataOperation {
        id: Cow::Borrowed(endpoint.operation.id),
        method: Cow::Owned(endpoint.method.to_string()),
        path: Cow::Owned(path.to_owned()),
        also_at: endpoint.also_at().into_iter().map(str::to_owned).collect(),
        summary: Cow::Borrowed(endpoint.operation.summary),
        scopes: endpoint.scopes().iter().map(ToString::to_string).collect(),
    }
}

/// The parameters of a search, with those of installed modules.
fn conditions(endpoint: &Endpoint, fields: &ExtensionFields) -> Vec<MetadataParameter<'static>> {
    let own = endpoint.operation.parameters.iter().filter(|one| one.parameter_in == ParameterIn::Query);
    let body = |one: Parameter| MetadataParameter {
        name: Cow::Owned(one.name),
        description: Cow::Owned(one.description),
        repeatable: one.explode == Some(true),
    };
    own.cloned().chain(of_modules(&endpoint.operation, fields)).map(body).collect()
}

/// The installed and active modules.
fn modules(app: &AppState) -> Vec<MetadataModule<'static>> {
    let generation = app.registry.vocabularies.current();
    let brought = |name: &str| {
        let all = generation.vocabularies().map(|vocabulary| &vocabulary.description().namespace);
        let of_module = all.filter(|namespace| generation.pack_of(namespace).is_some_and(|pack| pack.plugin == name));
        of_module.map(ToString::to_string).collect()
    };
    let installed = app.plugins.list();
    let modules = installed.iter().map(|plugin| plugin.manifest()).map(|manifest| MetadataModule {
        vocabularies: brought(&manifest.name.to_string()),
        extension_fields: manifest.extension_fields.iter().map(|field| field.path.to_string()).collect(),
        kind: Cow::Borrowed(manifest.kind.name()),
        version: Cow::Owned(manifest.version.to_string()),
        name: Cow::Owned(manifest.name.to_string()),
    });
    modules.collect()
}
