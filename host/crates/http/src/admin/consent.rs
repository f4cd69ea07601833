//! `/consents`

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::admin::resource::Administrator;
use crate::api::dto::reader::Problems;
use crate::api::dto::record as body;
use crate::api::error::{ApiResult, Problem};
use crate::api::extract::accept::IfMatch;
use crate::api::extract::body::JsonObject;
use crate::api::extract::path::IdPath;
use crate::api::extract::query::{NoParameters, Parameters, subject_reference};
use crate::api::routes::record::tagged;
use crate::api::routes::record_search::page_of;
use daftar_domain::consent::ConsentRecord;
use daftar_domain::organization::Organization;
use daftar_service::consent::{self, ConsentQuery, ConsentView};

/// Records a consent.
pub async fn create(call: Administrator, _: NoParameters, JsonObject(members): JsonObject) -> ApiResult {
    let id = consent::new_id(&*call.app.ids)?;
    let draft = Problems::of(|problems| body::read_consent(id, members, problems))?;
    let view = consent::create(&call.ctx, &call.app.registry, draft).await?;
    Ok(response(StatusCode::CREATED, &view))
}

/// Searches consents by their subject and recipient.
pub async fn list(call: Administrator, parameters: Parameters) -> ApiResult {
    parameters.expect_only(&["subject", "grantee", "_count", "_offset"])?;
    let mut conditions = ConsentQuery::default();
    for text in parameters.all("subject") {
        conditions.subjects.push(subject_reference("subject", text)?);
    }
    if let Some(text) = parameters.one("grantee")? {
        let grantee = Organization::parse(text);
        conditions.grantee = Some(grantee.map_err(|error| Problem::malformed(format!("`grantee`: {error}")))?);
    }
    let page = parameters.page()?;
    let found = consent::search(&call.ctx, &call.app.registry, conditions, page).await?;
    let bodies = found.consents.iter().map(body::consent).collect();
    let path = format!("{}/consents", crate::admin::router::BASE_PATH);
    Ok(Json(page_of(bodies, found.total, page, &path, &parameters)).into_response())
}

/// Shows one consent.
pub async fn show(call: Administrator, _: NoParameters, IdPath(id): IdPath<ConsentRecord>) -> ApiResult {
    Ok(response(StatusCode::OK, &consent::read(&call.ctx, &call.app.registry, id).await?))
}

/// Withdraws a consent.
pub async fn withdraw(
    call: Administrator,
    _: NoParameters,
    IdPath(id): IdPath<ConsentRecord>,
    IfMatch(condition): IfMatch,
) -> ApiResult {
    Ok(response(StatusCode::OK, &consent::withdraw(&call.ctx, &call.app.registry, id, &condition).await?))
}

fn response(status: StatusCode, view: &ConsentView) -> Response {
    tagged(status, &view.consent.meta, body::consent(view))
}
