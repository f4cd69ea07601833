//! `/plugin-reports`

use axum::Json;
use axum::extract::{Request, State};

use crate::admin::access::Administrator;
use crate::admin::dto::upgrade_report::UpgradeReportBody;
use crate::api::error::ApiError;
use crate::api::extract::body::read_bounded;
use crate::app::AppState;
use crate::service::plugin::PACKAGE_BYTES_MAX;

/// Says what installing the component that is the body would mean; changes nothing.
pub async fn report(
    Administrator(_): Administrator,
    State(app): State<AppState>,
    request: Request,
) -> Result<Json<UpgradeReportBody>, ApiError> {
    let bytes = read_bounded(request, PACKAGE_BYTES_MAX).await?;
    Ok(Json(UpgradeReportBody::from(app.plugins.report(bytes).await?)))
}
