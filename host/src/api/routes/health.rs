//! Whether the server lives and can serve.

use axum::extract::State;
use axum::http::StatusCode;

use crate::api::access::HealthCall;
use crate::api::error::{ApiError, Problem};
use crate::app::AppState;

/// The process answers.
pub async fn live(_: HealthCall) -> &'static str {
    "ok\n"
}

/// The store answers and an eligibility engine is there.
pub async fn ready(_: HealthCall, State(app): State<AppState>) -> Result<&'static str, ApiError> {
    match app.readiness().await {
        Ok(()) => Ok("ok\n"),
        Err(reason) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, reason).into()),
    }
}
