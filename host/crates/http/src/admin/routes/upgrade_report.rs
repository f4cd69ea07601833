//! `/plugin-reports`

use axum::Json;
use axum::extract::{Request, State};

use super::plugin::signature_of;
use crate::admin::access::Administrator;
use crate::admin::dto::upgrade_report::UpgradeReportBody;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::body::read_bounded;
use crate::api::extract::query::{Parameters, RawQuery};
use crate::state::AppState;
use daftar_service::plugin::{Downgrade, PACKAGE_BYTES_MAX, PluginOffer, RECORDS_TOLD_MAX, UnsignedPlugins};

/// Says what installing the component that is the body would mean; changes nothing. `records` is how many of the records that
/// it would touch are named.
pub async fn report(
    Administrator(ctx): Administrator,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Json<UpgradeReportBody>, ApiError> {
    let parameters = Parameters::parse(&query)?;
    parameters.expect_only(&["records"])?;
    let records = match parameters.one("records")? {
        None => 0,
        Some(text) => count(text)?,
    };
    let signature = signature_of(request.headers())?;
    let bytes = read_bounded(request, PACKAGE_BYTES_MAX).await?;
    // Nothing is installed, so nobody needs to vouch for it; a signature that does not fit is told all the same.
    let (unsigned, downgrade) = (UnsignedPlugins::Allowed, Downgrade::Allowed);
    let offer = PluginOffer { bytes, signature, unsigned, downgrade };
    Ok(Json(UpgradeReportBody::from(app.plugins.report(&ctx, offer, records).await?)))
}

fn count(text: &str) -> Result<usize, ApiError> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let count = text.parse().ok().filter(|count| is_number && *count <= RECORDS_TOLD_MAX);
    count.ok_or_else(|| Problem::malformed(format!("`records` is a whole number from 0 to {RECORDS_TOLD_MAX}")).into())
}
