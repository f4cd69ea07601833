//! `/rule-drafts`

use axum::http::StatusCode;

use crate::admin::resource::Administrator;
use crate::api::dto::reader::Problems;
use crate::api::dto::rule_draft as body;
use crate::api::error::ApiResult;
use crate::api::extract::body::JsonObject;
use crate::api::extract::path::IdPath;
use crate::api::extract::query::{NoParameters, Parameters};
use crate::api::routes::rule_draft::{list, query, response};
use daftar_domain::error::AppError;
use daftar_domain::rule_draft::RuleDraftRecord;
use daftar_service::rule_draft;

/// Lists the drafts of all organizations, newest first.
pub async fn search(call: Administrator, parameters: Parameters) -> ApiResult {
    let (query, page) = (query(&parameters)?, parameters.page()?);
    let found = rule_draft::search(&call.ctx, &call.app.registry, &query, page).await?;
    Ok(list(&found, page, &parameters, &format!("{}/rule-drafts", crate::admin::router::BASE_PATH)))
}

/// Shows one draft.
pub async fn show(call: Administrator, _: NoParameters, IdPath(id): IdPath<RuleDraftRecord>) -> ApiResult {
    Ok(response(StatusCode::OK, &*rule_draft::read(&call.ctx, &call.app.registry, id).await?))
}

/// Writes the rule of a draft to its program.
pub async fn accept(
    call: Administrator,
    _: NoParameters,
    IdPath(id): IdPath<RuleDraftRecord>,
    JsonObject(members): JsonObject,
) -> ApiResult {
    let version = Problems::of(|problems| body::read_acceptance(members, problems))?;
    let version = version.ok_or_else(unread)?;
    let accepted = rule_draft::accept(&call.ctx, &call.app.registry, &call.app.engine, (id, version)).await?;
    Ok(response(StatusCode::OK, &accepted))
}

/// Rejects a draft.
pub async fn reject(
    call: Administrator,
    _: NoParameters,
    IdPath(id): IdPath<RuleDraftRecord>,
    JsonObject(members): JsonObject,
) -> ApiResult {
    let rejection = Problems::of(|problems| body::read_rejection(members, problems))?;
    let (version, reason) = rejection.ok_or_else(unread)?;
    Ok(response(StatusCode::OK, &*rule_draft::reject(&call.ctx, &call.app.registry, (id, version), reason).await?))
}

fn unread() -> AppError {
    AppError::internal("a body was neither read nor rejected")
}
