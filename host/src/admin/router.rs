//! Every route of the admin listener.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{delete, get, post};

use super::access::require_token;
use super::routes::{
    audit, client, concept_group, consent, identifier_system, local_code, metrics, plugin, plugin_use, program,
    upgrade_report,
};
use crate::api::error::{ApiError, Problem};
use crate::api::middleware::answer::{answer, answer_administrator};
use crate::app::AppState;

/// Where the admin API begins.
pub const BASE_PATH: &str = "/admin/v1";

/// Where the metrics page is, on the admin listener and on its own.
pub const METRICS_PATH: &str = "/metrics";

/// The admin listener's router.
pub fn router(state: AppState) -> Router {
    let routes = Router::new()
        .route("/audit", get(audit::query))
        .route("/clients", get(client::list).post(client::create))
        .route("/clients/{id}", get(client::show).patch(client::set))
        .route("/clients/{id}/disable", post(client::disable))
        .route("/clients/{id}/enable", post(client::enable))
        .route("/clients/{id}/grants", post(client::grant))
        .route("/clients/{id}/grants/{scope}", delete(client::revoke))
        .route("/concept-groups", get(concept_group::list))
        .route("/concept-groups/{name}", get(concept_group::show).put(concept_group::set).delete(concept_group::reset))
        .route("/identifier-systems", get(identifier_system::list).post(identifier_system::add))
        .route("/identifier-systems/{uri}", delete(identifier_system::remove))
        .route("/local-codes", get(local_code::list).post(local_code::add))
        .route("/local-codes/{code}", get(local_code::show).patch(local_code::update))
        .route("/local-codes/{code}/deprecate", post(local_code::deprecate))
        .route("/plugin-reports", post(upgrade_report::report))
        .route("/consents", get(consent::list).post(consent::create))
        .route("/consents/{consent_id}", get(consent::show))
        .route("/consents/{consent_id}/withdraw", post(consent::withdraw))
        .route("/plugins", get(plugin::list).post(plugin::install))
        .route("/plugins/{name}", get(plugin_use::show).delete(plugin::remove))
        .route("/programs", get(program::list).post(program::create))
        .route("/programs/{identifier}", get(program::show).patch(program::update));
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
