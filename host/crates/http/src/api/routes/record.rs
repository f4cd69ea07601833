//! `/Individual` and `/Group`: read, register, replace and patch.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use percent_encoding::utf8_percent_encode;
use serde::Serialize;

use crate::api::access::{Auth, scope};
use crate::api::dto::reader::Problems;
use crate::api::dto::record::{self as body, named, patched};
use crate::api::elements::Elements;
use crate::api::endpoint::BASE_PATH;
use crate::api::error::ApiResult;
use crate::api::extract::accept::Conditions;
use crate::api::extract::body::{JsonObject, RECORD_BYTES_MAX};
use crate::api::extract::path::{IdentifierPath, PATH_PART};
use crate::api::extract::query::{NoParameters, Parameters};
use crate::api::middleware::shown::{self, ShownFields};
use crate::api::routes::record_search::languages;
use crate::state::AppState;
use daftar_domain::change::Details;
use daftar_domain::error::AppError;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::{Record, RecordKind, RecordMeta, VersionId};
use daftar_domain::scope::{Action, Resource};
use daftar_service::group::{self, GroupView};
use daftar_service::individual::{self, IndividualView};
use daftar_service::records;
use daftar_service::response_cache::SentBody;
use daftar_service::written::UpdateMode;

/// Reads one individual by identifier.
pub async fn read_individual(
    call: Auth<scope::IndividualRead>,
    IdentifierPath(key): IdentifierPath,
    parameters: Parameters,
    headers: HeaderMap,
) -> ApiResult {
    parameters.expect_only(&["_elements"])?;
    let elements = Elements::read(&parameters, RecordKind::Individual)?;
    if elements.is_none() {
        let body =
            individual::read_body(&call.ctx, &call.app.registry, languages(&call.app, &headers), &key, sent).await?;
        return Ok(as_sent(body));
    }
    let wants = |field| Elements::wants(elements.as_ref(), field);
    let wanted = individual::Includes {
        photo: wants("photo"),
        places: wants("group_membership"),
        related: wants("relationship"),
        names_related: Elements::wants_part(elements.as_ref(), "relationship", "target"),
    };
    let response = |view: &IndividualView| -> ApiResult {
        let body = Elements::response(elements.as_ref(), body::individual(view))?;
        Ok(([(header::ETAG, etag(&view.individual.meta))], body).into_response())
    };
    individual::read(&call.ctx, &call.app.registry, languages(&call.app, &headers), (&key, wanted), response).await
}

/// The body of an individual as it is sent.
fn sent(view: &IndividualView) -> ApiResult<SentBody> {
    let bytes: Arc<[u8]> =
        serde_json::to_vec(&body::individual(view)).map_err(|error| AppError::Internal(error.into()))?.into();
    let shown = shown::fields_of(&bytes).into();
    Ok(SentBody { version: view.individual.meta.version, bytes, shown, named: Arc::default() })
}

fn as_sent(body: SentBody) -> Response {
    let mut response = Response::new(Body::from(Bytes::from_owner(body.bytes)));
    response.extensions_mut().insert(ShownFields(body.shown));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(tag) = HeaderValue::from_str(&tag_of(body.version)) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// Registers an individual.
pub async fn create_individual(
    call: Auth<scope::IndividualCreate>,
    _: NoParameters,
    headers: HeaderMap,
    JsonObject(members): JsonObject<RECORD_BYTES_MAX>,
) -> ApiResult {
    let generation = call.app.registry.vocabularies.current();
    let draft = Problems::of(|problems| body::read_individual(members, generation.extension_fields(), problems))?;
    let view = individual::create(&call.ctx, &call.app.registry, languages(&call.app, &headers), draft).await?;
    Ok(individual_answer(&call.app, StatusCode::CREATED, &view).await?)
}

/// Replaces an individual.
pub async fn replace_individual(
    call: Auth<scope::IndividualUpdate>,
    IdentifierPath(key): IdentifierPath,
    Conditions { condition, languages }: Conditions,
    JsonObject(members): JsonObject<RECORD_BYTES_MAX>,
) -> ApiResult {
    let spoken = UpdateMode::Replace(named(Resource::Individual, &members));
    let generation = call.app.registry.vocabularies.current();
    let draft = Problems::of(|problems| body::read_individual(members, generation.extension_fields(), problems))?;
    let make = |_: &IndividualView| Ok(draft.clone());
    let view = individual::change(&call.ctx, &call.app.registry, languages, (&key, &condition), &spoken, &make).await?;
    Ok(individual_answer(&call.app, StatusCode::OK, &view).await?)
}

/// Changes the named fields; `null` removes a field (RFC 7396).
pub async fn patch_individual(
    call: Auth<scope::IndividualUpdate>,
    IdentifierPath(key): IdentifierPath,
    Conditions { condition, languages }: Conditions,
    JsonObject(patch): JsonObject<RECORD_BYTES_MAX>,
) -> ApiResult {
    let spoken = UpdateMode::Merge(named(Resource::Individual, &patch));
    let make = |present: &IndividualView| {
        body::check_unseen(
            &patch,
            &call.ctx.fields(Resource::Individual, Action::Read),
            present.codes.extension_fields(),
        )?;
        let members = patched(body::individual(present), patch.clone())?;
        Problems::of(|problems| body::read_individual(members, present.codes.extension_fields(), problems))
    };
    let view = individual::change(&call.ctx, &call.app.registry, languages, (&key, &condition), &spoken, &make).await?;
    Ok(individual_answer(&call.app, StatusCode::OK, &view).await?)
}

/// The response to a write.
///
/// # Errors
/// If the store fails.
pub(in crate::api) async fn individual_answer(
    app: &AppState,
    status: StatusCode,
    view: &IndividualView,
) -> Result<Response, AppError> {
    written(app, status, &view.individual, || body::individual(view)).await
}

/// The entity tag of a record: its version.
#[must_use]
pub fn etag(meta: &RecordMeta) -> String {
    tag_of(meta.version)
}

/// A record as a response, with its entity tag.
pub fn tagged(status: StatusCode, meta: &RecordMeta, body: impl Serialize) -> Response {
    (status, [(header::ETAG, etag(meta))], Json(body)).into_response()
}

fn tag_of(version: VersionId) -> String {
    format!("\"{version}\"")
}

/// The response to a write of a record, with its URL if it is new; `body` generates the body.
async fn written<D: Details, B: Serialize>(
    app: &AppState,
    status: StatusCode,
    record: &Record<D>,
    body: impl FnOnce() -> B,
) -> Result<Response, AppError> {
    let tag = [(header::ETAG, etag(&record.meta))];
    let mut location = None;
    if status == StatusCode::CREATED {
        let identifiers = record.details.identifiers();
        let key = records::found_by(&*app.registry.store, D::KIND, record.id, &identifiers).await?;
        location = Some((header::LOCATION, location_of(app, D::KIND, &key)));
    }
    Ok((status, tag, AppendHeaders(location), Json(body())).into_response())
}

/// The URL of a record by that identifier.
pub(super) fn location_of(app: &AppState, kind: RecordKind, key: &IdentifierKey) -> String {
    format!("{}{BASE_PATH}/{kind}/{}", app.public_url, path_part(&key.reveal()))
}

/// A text as one path segment.
#[must_use]
pub fn path_part(text: &str) -> String {
    utf8_percent_encode(text, PATH_PART).to_string()
}

/// Reads one group by identifier.
pub async fn read_group(
    call: Auth<scope::GroupRead>,
    IdentifierPath(key): IdentifierPath,
    parameters: Parameters,
    headers: HeaderMap,
) -> ApiResult {
    parameters.expect_only(&["_elements"])?;
    let elements = Elements::read(&parameters, RecordKind::Group)?;
    let wanted = wanted(elements.as_ref());
    let view = group::read(&call.ctx, &call.app.registry, languages(&call.app, &headers), &key, wanted).await?;
    let body = Elements::response(elements.as_ref(), body::group(&view))?;
    Ok(([(header::ETAG, etag(&view.group.meta))], body).into_response())
}

/// Registers a group.
pub async fn create_group(
    call: Auth<scope::GroupCreate>,
    _: NoParameters,
    headers: HeaderMap,
    JsonObject(members): JsonObject,
) -> ApiResult {
    let generation = call.app.registry.vocabularies.current();
    let draft = Problems::of(|problems| body::read_group(members, generation.extension_fields(), problems))?;
    let view = group::create(&call.ctx, &call.app.registry, languages(&call.app, &headers), draft).await?;
    Ok(group_answer(&call.app, StatusCode::CREATED, &view).await?)
}

/// Replaces a group.
pub async fn replace_group(
    call: Auth<scope::GroupUpdate>,
    IdentifierPath(key): IdentifierPath,
    Conditions { condition, languages }: Conditions,
    JsonObject(members): JsonObject,
) -> ApiResult {
    let spoken = UpdateMode::Replace(named(Resource::Group, &members));
    let generation = call.app.registry.vocabularies.current();
    let draft = Problems::of(|problems| body::read_group(members, generation.extension_fields(), problems))?;
    let make = |_: &GroupView| Ok(draft.clone());
    let view = group::change(&call.ctx, &call.app.registry, languages, (&key, &condition), &spoken, &make).await?;
    Ok(group_answer(&call.app, StatusCode::OK, &view).await?)
}

/// Changes the named fields; `null` removes a field (RFC 7396).
pub async fn patch_group(
    call: Auth<scope::GroupUpdate>,
    IdentifierPath(key): IdentifierPath,
    Conditions { condition, languages }: Conditions,
    JsonObject(patch): JsonObject,
) -> ApiResult {
    let spoken = UpdateMode::Merge(named(Resource::Group, &patch));
    let make = |present: &GroupView| {
        let members = patched(body::group(present), patch.clone())?;
        Problems::of(|problems| body::read_group(members, present.codes.extension_fields(), problems))
    };
    let view = group::change(&call.ctx, &call.app.registry, languages, (&key, &condition), &spoken, &make).await?;
    Ok(group_answer(&call.app, StatusCode::OK, &view).await?)
}

/// The related records that a response with these elements requires.
pub(super) fn wanted(elements: Option<&Elements>) -> group::Includes {
    group::Includes {
        members: Elements::wants(elements, "member"),
        names_members: Elements::wants_part(elements, "member", "entity"),
        quantity: Elements::wants(elements, "quantity"),
        related: Elements::wants(elements, "relationship"),
        names_related: Elements::wants_part(elements, "relationship", "target"),
    }
}

/// The response to a write of a group or of its members.
///
/// # Errors
/// If the store fails.
pub(in crate::api) async fn group_answer(
    app: &AppState,
    status: StatusCode,
    view: &GroupView,
) -> Result<Response, AppError> {
    written(app, status, &view.group, || body::group(view)).await
}
