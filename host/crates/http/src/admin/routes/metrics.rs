//! `/metrics`

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::state::AppState;

/// The text format of Prometheus, version 0.0.4.
static CONTENT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Everything that is counted, as Prometheus reads it.
pub async fn page(State(app): State<AppState>) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE.clone())], app.metrics_page()).into_response()
}
