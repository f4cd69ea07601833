//! Every route of the admin listener, with what it answers in.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use super::access::{METRICS_PATH, require_token};
use super::resource::Routes;
use super::routes::{
    audit, backup, checkup, client, consent, deployment, eligibility, export, import, plugin, program, signing_key,
};
use crate::api::endpoint::HEALTH_PATHS;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::accept::{LINES, check_offered};
use crate::api::extract::path::NamePath;
use crate::api::extract::query::NoParameters;
use crate::api::middleware::answer::{answer, answer_administrator};
use crate::api::routes::description;
use crate::api::routes::workbench::{serve_file, serve_page};
use crate::state::AppState;
use daftar_domain::error_code::ErrorCode;

/// Where the admin API begins.
pub const BASE_PATH: &str = "/admin/v1";

/// The text format of Prometheus, version 0.0.4.
static METRICS_TYPE: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Where the workbench is on the admin listener. By this path the page knows whom it signs in.
pub const WORKBENCH_PATH: &str = "/admin/workbench";

/// Every path below [`BASE_PATH`] with its handlers. The tests walk it: none of these is on the public listener.
#[must_use]
pub fn routes() -> Routes {
    let mut routes = vec![
        ("/audit", get(audit::query)),
        ("/backup", post(backup::make)),
        ("/export", get(export::export)),
        ("/import", post(import::import).delete(import::end)),
        ("/consents", get(consent::list).post(consent::create)),
        ("/consents/{consent_id}", get(consent::show)),
        ("/consents/{consent_id}/withdraw", post(consent::withdraw)),
        ("/eligibility/evaluate", post(eligibility::evaluate)),
        ("/eligibility/preview", post(eligibility::preview)),
        ("/eligibility/validate", post(eligibility::validate)),
        ("/program-rules", get(program::broken_rules)),
        ("/programs", get(program::list).post(program::create)),
        ("/programs/{identifier}", get(program::show).patch(program::update)),
    ];
    routes.extend(checkup::routes());
    routes.extend(client::routes());
    routes.extend(deployment::routes());
    routes.extend(plugin::routes());
    routes.extend(signing_key::routes());
    routes
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
        .route(METRICS_PATH, get(metrics))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(from_fn_with_state(state.clone(), require_token))
        .route(live_path, get(description::live))
        .route(ready_path, get(description::ready))
        .route(WORKBENCH_PATH, get(workbench_page))
        .route(&format!("{WORKBENCH_PATH}/{{file}}"), get(workbench_file))
        .layer(from_fn_with_state(state.clone(), answer_administrator))
        .with_state(state)
}

/// The metrics listener's router: the metrics page and nothing else, without a token.
pub fn metrics_router(state: AppState) -> Router {
    Router::new()
        .route(METRICS_PATH, get(metrics))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(from_fn_with_state(state.clone(), answer))
        .with_state(state)
}

/// All metrics, as Prometheus reads them.
async fn metrics(State(app): State<AppState>) -> Response {
    ([(header::CONTENT_TYPE, METRICS_TYPE.clone())], app.metrics_page()).into_response()
}

/// The workbench's page, which is the same for all: it asks for its content with the admin token.
async fn workbench_page(_: NoParameters, headers: HeaderMap) -> Result<Response, ApiError> {
    serve_page(&headers)
}

/// A file that the page loads.
async fn workbench_file(NamePath(name): NamePath, _: NoParameters, headers: HeaderMap) -> Result<Response, ApiError> {
    serve_file(&headers, &name)
}

async fn unknown_path() -> ApiError {
    Problem::new(ErrorCode::UnknownPath, "there is nothing at this path of the admin API").into()
}

async fn unknown_method() -> ApiError {
    Problem::new(ErrorCode::MethodNotAllowed, "this method is not offered here; the `Allow` header names what is")
        .into()
}
