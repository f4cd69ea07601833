//! `/RuleDraft`

use axum::Json;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::api::access::{Auth, scope};
use crate::api::conditional::holds;
use crate::api::dto::reader::Problems;
use crate::api::dto::rule_draft as body;
use crate::api::endpoint::BASE_PATH;
use crate::api::error::{ApiResult, Problem};
use crate::api::extract::accept::IfMatch;
use crate::api::extract::body::JsonObject;
use crate::api::extract::path::IdPath;
use crate::api::extract::query::{NoParameters, Parameters, reference};
use crate::api::routes::record_search::page_of;
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::record::RecordKind;
use daftar_domain::rule_draft::{DraftContent, DraftStatus, RuleDraft, RuleDraftRecord};
use daftar_domain::search::Page;
use daftar_service::rule_draft::{self, DraftPage, DraftQuery};
use serde_json::{Map, Value};

/// The states of drafts in lists.
const STATUSES: &[(&str, DraftStatus)] =
    &[("open", DraftStatus::Open), ("accepted", DraftStatus::Accepted), ("rejected", DraftStatus::Rejected)];

/// Adds a draft.
pub async fn create(
    call: Auth<scope::EligibilityCreate>,
    _: NoParameters,
    JsonObject(members): JsonObject,
) -> ApiResult {
    let content = content(members)?;
    let draft = rule_draft::create(&call.ctx, &call.app.registry, &*call.app.ids, content).await?;
    let location = format!("{}{BASE_PATH}/RuleDraft/{}", call.app.public_url, draft.id);
    Ok(([(header::LOCATION, location)], response(StatusCode::CREATED, &draft)).into_response())
}

/// Reads a draft.
pub async fn read(
    call: Auth<scope::EligibilityRead>,
    IdPath(id): IdPath<RuleDraftRecord>,
    _: NoParameters,
    headers: HeaderMap,
) -> ApiResult {
    let draft = rule_draft::read(&call.ctx, &call.app.registry, id).await?;
    if holds(&headers, &tag_of(&draft)) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag_of(&draft))]).into_response());
    }
    Ok(response(StatusCode::OK, &draft))
}

/// Lists drafts, newest first.
pub async fn search(call: Auth<scope::EligibilityRead>, parameters: Parameters) -> ApiResult {
    let (query, page) = (query(&parameters)?, parameters.page()?);
    let found = rule_draft::search(&call.ctx, &call.app.registry, &query, page).await?;
    Ok(list(&found, page, &parameters, &format!("{}{BASE_PATH}/RuleDraft", call.app.public_url)))
}

/// Lists the versions of a draft, newest first.
pub async fn history(
    call: Auth<scope::EligibilityRead>,
    IdPath(id): IdPath<RuleDraftRecord>,
    parameters: Parameters,
) -> ApiResult {
    parameters.expect_only(&["_count", "_offset"])?;
    let page = parameters.page()?;
    let versions = rule_draft::history(&call.ctx, &call.app.registry, id, page).await?;
    Ok(list(&versions, page, &parameters, &format!("{}{BASE_PATH}/RuleDraft/{id}/history", call.app.public_url)))
}

/// Replaces a draft.
pub async fn replace(
    call: Auth<scope::EligibilityCreate>,
    IdPath(id): IdPath<RuleDraftRecord>,
    (_, IfMatch(condition), headers): (NoParameters, IfMatch, HeaderMap),
    JsonObject(members): JsonObject,
) -> ApiResult {
    let content = content(members)?;
    if !headers.contains_key(header::IF_MATCH) {
        let detail = "`If-Match` is required: send the `ETag` of the version that you have read";
        return Err(Problem::new(ErrorCode::PreconditionRequired, detail).into());
    }
    let draft = rule_draft::replace(&call.ctx, &call.app.registry, (id, &condition), content).await?;
    Ok(response(StatusCode::OK, &draft))
}

/// Deletes a draft.
pub async fn delete(
    call: Auth<scope::EligibilityCreate>,
    IdPath(id): IdPath<RuleDraftRecord>,
    _: NoParameters,
    IfMatch(condition): IfMatch,
) -> ApiResult {
    rule_draft::delete(&call.ctx, &call.app.registry, id, &condition).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn content(members: Map<String, Value>) -> Result<DraftContent, AppError> {
    let content = Problems::of(|problems| body::read(members, problems))?;
    content.ok_or_else(|| AppError::internal("a rule draft was neither read nor rejected"))
}

/// Reads the filters of a list.
///
/// # Errors
/// 400 naming the parameter.
pub fn query(parameters: &Parameters) -> ApiResult<DraftQuery> {
    parameters.expect_only(&["program", "author", "status", "name", "_count", "_offset"])?;
    let program = parameters.one("program")?;
    let program = program.map(|text| reference("program", text, &[RecordKind::Program])).transpose()?;
    Ok(DraftQuery {
        program: program.map(|(_, key)| key),
        author: parameters.filled("author")?.map(str::to_owned),
        status: parameters.word("status", STATUSES)?,
        name: parameters.filled("name")?.map(str::to_owned),
    })
}

/// The response with a page of drafts.
#[must_use]
pub fn list(found: &DraftPage, page: Page, parameters: &Parameters, path: &str) -> Response {
    let bodies = found.drafts.iter().map(|draft| body::Listed(draft)).collect();
    Json(page_of(bodies, found.total, page, path, parameters)).into_response()
}

/// The response with a draft.
#[must_use]
pub fn response(status: StatusCode, draft: &RuleDraft) -> Response {
    (status, [(header::ETAG, tag_of(draft))], Json(body::written(draft))).into_response()
}

fn tag_of(draft: &RuleDraft) -> String {
    format!("\"{}\"", draft.version)
}
