//! Every route of the admin listener.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{MethodRouter, delete, get, post};

use super::access::require_token;
use super::routes::{
    audit, backup, client, concept_group, consent, eligibility, export, identifier_system, import, local_code, metrics,
    plugin, plugin_use, program, upgrade_report, verification,
};
use crate::api::error::{ApiError, Problem};
use crate::api::middleware::answer::{answer, answer_administrator};
use crate::app::AppState;

/// Where the admin API begins.
pub const BASE_PATH: &str = "/admin/v1";

/// Where the metrics page is, on the admin listener and on its own.
pub const METRICS_PATH: &str = "/metrics";

/// Every path below [`BASE_PATH`], with what is done there. The tests walk it: none of these is on the public listener.
#[must_use]
pub fn routes() -> Vec<(&'static str, MethodRouter<AppState>)> {
    vec![
        ("/audit", get(audit::query)),
        ("/backup", post(backup::make)),
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
        ("/eligibility/validate", post(eligibility::validate)),
        ("/plugins", get(plugin::list).post(plugin::install)),
        ("/plugins/{name}", get(plugin_use::show).delete(plugin::remove)),
        ("/program-rules", get(program::broken_rules)),
        ("/programs", get(program::list).post(program::create)),
        ("/programs/{identifier}", get(program::show).patch(program::update)),
        ("/verification", get(verification::verify)),
    ]
}

/// The admin listener's router.
pub fn router(state: AppState) -> Router {
    let routes = routes().into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods));
    Router::new()
        .nest(BASE_PATH, routes)
        .route(METRICS_PATH, get(metrics::page))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(axum::middleware::from_fn_with_state(state.clone(), require_token))
        .layer(axum::middleware::from_fn_with_state(state.clone(), answer_administrator))
        .with_state(state)
}

/// The metrics listener's router: the metrics page and nothing else, without a token.
pub fn metrics_router(state: AppState) -> Router {
    Router::new()
        .route(METRICS_PATH, get(metrics::page))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(axum::middleware::from_fn_with_state(state.clone(), answer))
        .with_state(state)
}

async fn unknown_path() -> ApiError {
    Problem::new(StatusCode::NOT_FOUND, "there is nothing at this path of the admin API").into()
}

async fn unknown_method() -> ApiError {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this method is not offered here; the `Allow` header names what is")
        .into()
}
