//! Every route of the admin listener, with its response media types.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use super::resource::Routes;
use super::{client, consent, deployment, export, import, operation, plugin, program, rule_draft};
use crate::api::endpoint::HEALTH_PATHS;
use crate::api::error::{ApiError, ApiResult, Problem};
use crate::api::extract::accept::{LINES, check_offered};
use crate::api::extract::path::NamePath;
use crate::api::extract::query::NoParameters;
use crate::api::middleware::response::{RequestInfo, respond, respond_administrator};
use crate::api::routes::description;
use crate::api::routes::workbench::{serve_file, serve_page};
use crate::state::AppState;
use daftar_domain::audit::{Actor, AuditAction};
use daftar_domain::error_code::ErrorCode;

/// Base path of the admin API.
pub const BASE_PATH: &str = "/admin/v1";

/// Path of the metrics page, on the admin listener and on its own listener.
pub const METRICS_PATH: &str = "/metrics";

/// The text format of Prometheus, version 0.0.4.
static METRICS_TYPE: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Path of the workbench on the admin listener. The page detects by this path that the administrator signs in.
pub const WORKBENCH_PATH: &str = "/admin/workbench";

/// Every path below [`BASE_PATH`] with its handlers. The tests check that none of these is on the public listener.
#[must_use]
pub fn routes() -> Routes {
    let mut routes = vec![
        ("/export", get(export::export)),
        ("/import", post(import::import).delete(import::end)),
        ("/consents", get(consent::list).post(consent::create)),
        ("/consents/{consent_id}", get(consent::show)),
        ("/consents/{consent_id}/withdraw", post(consent::withdraw)),
        ("/eligibility/evaluate", post(program::evaluate)),
        ("/eligibility/evidence", post(program::evidence)),
        ("/eligibility/preview", post(program::preview)),
        ("/eligibility/validate", post(program::validate)),
        ("/program-rules", get(program::broken_rules)),
        ("/rule-drafts", get(rule_draft::search)),
        ("/rule-drafts/{draft_id}", get(rule_draft::show)),
        ("/rule-drafts/{draft_id}/accept", post(rule_draft::accept)),
        ("/rule-drafts/{draft_id}/reject", post(rule_draft::reject)),
        ("/programs", get(program::list).post(program::create)),
        ("/programs/{identifier}", get(program::show).patch(program::update)),
    ];
    routes.extend(client::routes());
    routes.extend(deployment::routes());
    routes.extend(plugin::routes());
    routes.extend(operation::routes());
    routes
}

/// Returns the media types of a successful response; none without a body. The metrics page is text for any `Accept`,
/// the fallback of every scraper.
fn offered(method: &Method, path: &str) -> &'static [&'static str] {
    match (method.as_str(), path) {
        ("POST", "/backup") => &[operation::BACKUP_CONTENT_TYPE],
        ("GET", "/export" | "/verification") | ("POST", "/import") => &[LINES],
        ("POST", "/eligibility/preview") => &["application/json", LINES],
        ("DELETE", "/clients/{id}" | "/identifier-systems/{uri}" | "/import" | "/plugins/{name}") => &[],
        (_, _) => &["application/json"],
    }
}

/// Rejects every request without the admin token.
pub async fn require_token(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let mut values = request.headers().get_all(header::AUTHORIZATION).iter();
    let presented = match (values.next(), values.next()) {
        (Some(only), None) => only.to_str().ok().and_then(|value| value.split_once(' ')),
        (_, _) => None,
    };
    let is_right = presented.is_some_and(|(scheme, token)| {
        scheme.eq_ignore_ascii_case("bearer") && app.admin_token.matches(token.trim().as_bytes())
    });
    if is_right {
        // Another process may have changed this state a moment ago.
        // The metrics page must also respond while the database is unavailable.
        if request.uri().path() != METRICS_PATH
            && let Err(error) = app.be_current_for_sure().await
        {
            return ApiError::from(error).into_response();
        }
        return next.run(request).await;
    }
    if let Some(info) = request.extensions().get::<RequestInfo>() {
        info.trail.set_caller(Actor::Unknown, AuditAction::Authenticate);
    }
    let code = if request.headers().contains_key(header::AUTHORIZATION) {
        ErrorCode::TokenInvalid
    } else {
        ErrorCode::TokenMissing
    };
    let detail = "the admin token is missing or invalid: send the content of `admin.token` of the data folder as `Authorization: Bearer <token>`";
    let problem = Problem::new(code, detail).with_header(header::WWW_AUTHENTICATE, "Bearer realm=\"daftar admin\"");
    ApiError::from(problem).into_response()
}

/// Rejects a request for an existing path whose `Accept` excludes the media types of its response.
async fn check_accept(path: &'static str, request: Request, next: Next) -> Response {
    match check_offered(request.headers(), offered(request.method(), path)) {
        Ok(()) => next.run(request).await,
        Err(problem) => ApiError::from(problem).into_response(),
    }
}

/// The admin listener's router. Only the workbench's page, its files, which are public, and the health probes need no
/// token: no client of the public listener can take the slots of this one.
pub fn router(state: AppState) -> Router {
    let routes = routes().into_iter().fold(Router::new(), |router, (path, methods)| {
        let check = from_fn(move |request, next| check_accept(path, request, next));
        router.route(path, methods.route_layer(check))
    });
    let [live_path, ready_path] = HEALTH_PATHS;
    Router::new()
        .nest(BASE_PATH, routes)
        .route(METRICS_PATH, get(metrics))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(from_fn_with_state(state.clone(), require_token))
        .route(live_path, get(description::live))
        .route(ready_path, get(description::ready))
        .route(WORKBENCH_PATH, get(workbench_page))
        .route(&format!("{WORKBENCH_PATH}/{{file}}"), get(workbench_file))
        .layer(from_fn_with_state(state.clone(), respond_administrator))
        .with_state(state)
}

/// The metrics listener's router: the metrics page and nothing else, without a token.
pub fn metrics_router(state: AppState) -> Router {
    Router::new()
        .route(METRICS_PATH, get(metrics))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(from_fn_with_state(state.clone(), respond))
        .with_state(state)
}

/// Returns all metrics in the format of Prometheus.
async fn metrics(State(app): State<AppState>) -> Response {
    ([(header::CONTENT_TYPE, METRICS_TYPE.clone())], app.program.metrics_page(&app)).into_response()
}

/// The workbench's page, which is the same for all clients: it requests its data with the admin token.
async fn workbench_page(_: NoParameters, headers: HeaderMap) -> ApiResult {
    serve_page(&headers)
}

/// A file that the page loads.
async fn workbench_file(NamePath(name): NamePath, _: NoParameters, headers: HeaderMap) -> ApiResult {
    serve_file(&headers, &name)
}

async fn unknown_path() -> ApiError {
    Problem::new(ErrorCode::UnknownPath, "there is nothing at this path of the admin API").into()
}

async fn unknown_method() -> ApiError {
    Problem::new(
        ErrorCode::MethodNotAllowed,
        "this method is not offered here; the `Allow` header lists the allowed methods",
    )
    .into()
}
