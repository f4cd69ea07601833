//! The members of a group, one at a time, and an individual's memberships in groups.

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Map, Value};

use super::record::{group_answer, location_of};
use crate::api::access::{Auth, scope};
use crate::api::dto::member::{HistoryBody, PlaceBody, read_member, read_member_patch, read_removal};
use crate::api::dto::reader::Problems;
use crate::api::error::ApiResult;
use crate::api::extract::accept::Conditions;
use crate::api::extract::body::JsonObject;
use crate::api::extract::path::{IdentifierPath, MemberPath};
use crate::api::extract::query::Parameters;
use crate::api::routes::record_search::{languages, page_of};
use daftar_domain::error::AppError;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::RecordKind;
use daftar_service::codes::CodeView;
use daftar_service::group::history::membership_history;
use daftar_service::group::members::{MemberChange, change_member, places_of};

/// Adds a member to a group.
pub async fn add(
    call: Auth<scope::GroupUpdate>,
    IdentifierPath(key): IdentifierPath,
    conditions: Conditions,
    JsonObject(members): JsonObject,
) -> ApiResult {
    let change = MemberChange::Add(whole(members, read_member)?);
    changed(call, &key, conditions, (StatusCode::CREATED, change)).await
}

/// Ends a membership in a group.
pub async fn remove(
    call: Auth<scope::GroupUpdate>,
    IdentifierPath(key): IdentifierPath,
    conditions: Conditions,
    JsonObject(members): JsonObject,
) -> ApiResult {
    let (individual, last_day) = whole(members, read_removal)?;
    let change = MemberChange::Remove { individual, last_day };
    changed(call, &key, conditions, (StatusCode::OK, change)).await
}

/// Changes the named fields of a membership; `null` removes a field (RFC 7396).
pub async fn patch(
    call: Auth<scope::GroupUpdate>,
    MemberPath(key, individual): MemberPath,
    conditions: Conditions,
    JsonObject(members): JsonObject,
) -> ApiResult {
    let change = whole(members, |path, item, problems| Some(read_member_patch(path, item, individual, problems)))?;
    changed(call, &key, conditions, (StatusCode::OK, change)).await
}

/// Changes a member, and responds with the group.
async fn changed(
    Auth { ctx, app, .. }: Auth<scope::GroupUpdate>,
    key: &IdentifierKey,
    Conditions { condition, languages }: Conditions,
    (status, change): (StatusCode, MemberChange),
) -> ApiResult {
    let view = change_member(&ctx, &app.registry, languages, (key, &condition), &change).await?;
    Ok(group_answer(&app, status, &view).await?)
}

/// Reads a body that is one member.
fn whole<T>(
    members: Map<String, Value>,
    read: impl FnOnce(String, Value, &mut Problems) -> Option<T>,
) -> Result<T, AppError> {
    let read = Problems::of(|problems| read(String::new(), Value::Object(members), problems))?;
    read.ok_or_else(|| AppError::internal("a member was neither read nor rejected"))
}

/// Lists the membership changes of a group.
pub async fn history(
    call: Auth<scope::GroupRead>,
    IdentifierPath(key): IdentifierPath,
    (parameters, headers): (Parameters, HeaderMap),
) -> ApiResult {
    parameters.expect_only(&["_count", "_offset"])?;
    let page = parameters.page()?;
    let found = membership_history(&call.ctx, &call.app.registry, languages(&call.app, &headers), &key, page).await?;
    let bodies = found.entries.iter().filter_map(|entry| HistoryBody::new(entry, &found)).collect();
    let path = format!("{}/membership-history", location_of(&call.app, RecordKind::Group, &key));
    Ok(Json(page_of(bodies, found.total, page, &path, &parameters)).into_response())
}

/// Lists an individual's memberships in groups.
pub async fn groups(
    call: Auth<scope::IndividualRead>,
    IdentifierPath(key): IdentifierPath,
    (parameters, headers): (Parameters, HeaderMap),
) -> ApiResult {
    parameters.expect_only(&["_count", "_offset"])?;
    let page = parameters.page()?;
    let found = places_of(&call.ctx, &call.app.registry, &key, page).await?;
    let codes = CodeView::new(call.app.registry.vocabularies.current(), languages(&call.app, &headers));
    let bodies = found.places.iter().filter_map(|place| PlaceBody::new(place, &codes)).collect();
    let path = format!("{}/groups", location_of(&call.app, RecordKind::Individual, &key));
    Ok(Json(page_of(bodies, found.total, page, &path, &parameters)).into_response())
}
