//! Every route of the admin listener, with what it answers in.

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};

use super::access::{METRICS_PATH, require_token};
use super::routes::{
    audit, backup, checkup, client, concept_group, consent, eligibility, export, identifier_system, import, local_code,
    metrics, plugin, plugin_use, program, signing_key, upgrade_report, verification, workbench,
};
use crate::api::endpoint::HEALTH_PATHS;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::accept::{LINES, check_offered};
use crate::api::middleware::answer::{answer, answer_administrator};
use crate::api::routes::health;
use crate::state::AppState;

/// Where the admin API begins.
pub const BASE_PATH: &str = "/admin/v1";

/// Where the workbench is on the admin listener. By this path the page knows whom it signs in.
pub const WORKBENCH_PATH: &str = "/admin/workbench";

/// Every path below [`BASE_PATH`], with what is done there. The tests walk it: none of these is on the public listener.
#[must_use]
pub fn routes() -> Vec<(&'static str, MethodRouter<AppState>)> {
    vec![
        ("/audit", get(audit::query)),
        ("/backup", post(backup::make)),
        ("/checkup", get(checkup::look)),
        ("/clients", get(client::list).post(client::create)),
        ("/clients/{id}", get(client::show).patch(client::set)),
        ("/clients/{id}/disable", post(client::disable)),
        ("/clients/{id}/enable", post(client::enable)),
        ("/clients/{id}/rotate-secret", post(client::rotate_secret)),
        ("/clients/{id}/grants", post(client::grant)),
        ("/clients/{id}/grants/{scope}", delete(client::revoke)),
        ("/concept-groups", get(concept_group::list)),
        ("/concept-groups/{name}", get(concept_group::show).put(concept_group::set).delete(concept_group::reset)),
        ("/identifier-systems", get(identifier_system::list).post(identifier_system::add)),
        ("/identifier-systems/{uri}", delete(identifier_system::remove)),
        ("/export", get(export::export)),
        ("/import", post(import::import).delete(import::end)),
        ("/local-codes", get(local_code::list).post(local_code::add)),
        ("/local-codes/{code}", get(local_code::show).patch(local_code::update)),
        ("/local-codes/{code}/deprecate", post(local_code::deprecate)),
        ("/plugin-reports", post(upgrade_report::report)),
        ("/consents", get(consent::list).post(consent::create)),
        ("/consents/{consent_id}", get(consent::show)),
        ("/consents/{consent_id}/withdraw", post(consent::withdraw)),
        ("/eligibility/evaluate", post(eligibility::evaluate)),
        ("/eligibility/preview", post(eligibility::preview)),
        ("/eligibility/validate", post(eligibility::validate)),
        ("/plugins", get(plugin::list).post(plugin::install)),
        ("/plugins/{name}", get(plugin_use::show).delete(plugin::remove)),
        ("/program-rules", get(program::broken_rules)),
        ("/programs", get(program::list).post(program::create)),
        ("/programs/{identifier}", get(program::show).patch(program::update)),
        ("/signing-keys", get(signing_key::list).post(signing_key::rotate)),
        ("/verification", get(verification::verify)),
    ]
}

/// The media types that a call is answered in when it succeeds; none where there is no body. The metrics page is text whatever is
/// asked, which is what every scraper falls back on.
fn offered(method: &Method, path: &str) -> &'static [&'static str] {
    match (method.as_str(), path) {
        ("POST", "/backup") => &[backup::CONTENT_TYPE],
        ("GET", "/export" | "/verification") | ("POST", "/import") => &[LINES],
        ("POST", "/eligibility/preview") => &["application/json", LINES],
        ("DELETE", "/identifier-systems/{uri}" | "/import" | "/plugins/{name}") => &[],
        (_, _) => &["application/json"],
    }
}

/// Stops a request for something that is there, and that its client does not take in the form in which it is.
async fn check_accept(path: &'static str, request: Request, next: Next) -> Response {
    match check_offered(request.headers(), offered(request.method(), path)) {
        Ok(()) => next.run(request).await,
        Err(problem) => ApiError::from(problem).into_response(),
    }
}

/// The admin listener's router. Without the token there are the workbench's page and its files, which are the same for all, and the
/// probes of health: no client of the public listener can take the slots of this one.
pub fn router(state: AppState) -> Router {
    let routes = routes().into_iter().fold(Router::new(), |router, (path, methods)| {
        let check = from_fn(move |request, next| check_accept(path, request, next));
        router.route(path, methods.route_layer(check))
    });
    let [live_path, ready_path] = HEALTH_PATHS;
    Router::new()
        .nest(BASE_PATH, routes)
        .route(METRICS_PATH, get(metrics::page))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(from_fn_with_state(state.clone(), require_token))
        .route(live_path, get(health::live))
        .route(ready_path, get(health::ready))
        .route(WORKBENCH_PATH, get(workbench::page))
        .route(&format!("{WORKBENCH_PATH}/{{file}}"), get(workbench::file))
        .layer(from_fn_with_state(state.clone(), answer_administrator))
        .with_state(state)
}

/// The metrics listener's router: the metrics page and nothing else, without a token.
pub fn metrics_router(state: AppState) -> Router {
    Router::new()
        .route(METRICS_PATH, get(metrics::page))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(from_fn_with_state(state.clone(), answer))
        .with_state(state)
}

async fn unknown_path() -> ApiError {
    Problem::new(StatusCode::NOT_FOUND, "there is nothing at this path of the admin API").into()
}

async fn unknown_method() -> ApiError {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this method is not offered here; the `Allow` header names what is")
        .into()
}
