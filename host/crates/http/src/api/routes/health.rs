//! Whether the server lives and can serve.

use std::borrow::Cow;

use axum::extract::State;

use crate::api::access::HealthCall;
use crate::api::error::{ApiError, Problem};
use crate::state::AppState;
use daftar_domain::error_code::ErrorCode;

/// The process answers.
pub async fn live(_: HealthCall) -> &'static str {
    "ok\n"
}

/// The store answers; the body names what is degraded, a line each.
pub async fn ready(_: HealthCall, State(app): State<AppState>) -> Result<Cow<'static, str>, ApiError> {
    match app.readiness() {
        Ok(degraded) if degraded.is_empty() => Ok(Cow::Borrowed("ok\n")),
        Ok(degraded) => Ok(Cow::Owned(degraded.iter().map(|part| format!("degraded: {part}\n")).collect())),
        Err(reason) => Err(Problem::new(ErrorCode::NotReady, reason).into()),
    }
}
