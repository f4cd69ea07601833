//! `/checkup`

use axum::Json;
use axum::extract::State;

use crate::admin::access::Administrator;
use crate::admin::dto::checkup::CheckupBody;
use crate::api::error::ApiError;
use crate::api::extract::query::NoParameters;
use crate::state::AppState;

/// Looks at how the server is set up, and changes nothing.
pub async fn look(
    Administrator(_): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
) -> Result<Json<CheckupBody>, ApiError> {
    Ok(Json(app.checkup().await?.into()))
}
