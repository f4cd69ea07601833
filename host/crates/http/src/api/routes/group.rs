//! `/Group`

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::individual::{etag, located};
use super::search::languages;
use crate::api::access::{Auth, scope};
use crate::api::dto::merge::{named, patched};
use crate::api::dto::reader::Problems;
use crate::api::dto::record as body;
use crate::api::elements::Elements;
use crate::api::error::ApiError;
use crate::api::extract::accept::Conditions;
use crate::api::extract::body::JsonObject;
use crate::api::extract::path::IdentifierPath;
use crate::api::extract::query::{NoParameters, Parameters, RawQuery};
use crate::state::AppState;
use daftar_domain::error::AppError;
use daftar_domain::record::RecordKind;
use daftar_domain::scope::Resource;
use daftar_service::group;
use daftar_service::group::{GroupView, Wanted};
use daftar_service::written::Spoken;

/// Reads one group by identifier.
pub async fn read(
    auth: Auth<scope::GroupRead>,
    State(app): State<AppState>,
    IdentifierPath(key): IdentifierPath,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let parameters = Parameters::parse(&query)?;
    parameters.expect_only(&["_elements"])?;
    let elements = Elements::read(&parameters, RecordKind::Group)?;
    let ctx = auth.into_context();
    let wanted = wanted(elements.as_ref());
    let view = group::read(&ctx, &app.registry, languages(&app, &headers), &key, wanted).await?;
    let body = Elements::answer(elements.as_ref(), body::group(&view))?;
    Ok(([(header::ETAG, etag(&view.group.meta))], body).into_response())
}

/// Registers a group.
pub async fn create(
    auth: Auth<scope::GroupCreate>,
    State(app): State<AppState>,
    _: NoParameters,
    headers: HeaderMap,
    JsonObject(members): JsonObject,
) -> Result<Response, ApiError> {
    let ctx = auth.into_context();
    let mut problems = Problems::default();
    let draft = body::read_group(members, app.registry.vocabularies.current().extension_fields(), &mut problems);
    let draft = problems.finish(draft)?;
    let view = group::create(&ctx, &app.registry, languages(&app, &headers), draft).await?;
    Ok(answer(&app, StatusCode::CREATED, &view).await?)
}

/// Replaces what is said of a group.
pub async fn replace(
    auth: Auth<scope::GroupUpdate>,
    State(app): State<AppState>,
    IdentifierPath(key): IdentifierPath,
    Conditions { query, condition, headers }: Conditions,
    JsonObject(members): JsonObject,
) -> Result<Response, ApiError> {
    query.expect_only(&[])?;
    let ctx = auth.into_context();
    let spoken = Spoken::Whole(named(Resource::Group, &members));
    let mut problems = Problems::default();
    let draft = body::read_group(members, app.registry.vocabularies.current().extension_fields(), &mut problems);
    let draft = problems.finish(draft)?;
    let make = |_: &GroupView| Ok(draft.clone());
    let languages = languages(&app, &headers);
    let view = group::change(&ctx, &app.registry, languages, (&key, &condition), &spoken, &make).await?;
    Ok(answer(&app, StatusCode::OK, &view).await?)
}

/// Changes the fields that the body names; `null` takes one out (RFC 7396).
pub async fn patch(
    auth: Auth<scope::GroupUpdate>,
    State(app): State<AppState>,
    IdentifierPath(key): IdentifierPath,
    Conditions { query, condition, headers }: Conditions,
    JsonObject(patch): JsonObject,
) -> Result<Response, ApiError> {
    query.expect_only(&[])?;
    let ctx = auth.into_context();
    let spoken = Spoken::Named(named(Resource::Group, &patch));
    let make = |present: &GroupView| {
        let members = patched(body::group(present), patch.clone())?;
        let mut problems = Problems::default();
        let draft = body::read_group(members, present.codes.extension_fields(), &mut problems);
        problems.finish(draft)
    };
    let languages = languages(&app, &headers);
    let view = group::change(&ctx, &app.registry, languages, (&key, &condition), &spoken, &make).await?;
    Ok(answer(&app, StatusCode::OK, &view).await?)
}

/// Of whom besides the group an answer with these elements tells something.
pub(super) fn wanted(elements: Option<&Elements>) -> Wanted {
    Wanted {
        members: Elements::wants(elements, "member"),
        names_members: Elements::wants_part(elements, "member", "entity"),
        quantity: Elements::wants(elements, "quantity"),
        related: Elements::wants(elements, "relationship"),
        names_related: Elements::wants_part(elements, "relationship", "target"),
    }
}

/// The answer to a write of a group or of its members.
///
/// # Errors
/// When the store fails.
pub(in crate::api) async fn answer(app: &AppState, status: StatusCode, view: &GroupView) -> Result<Response, AppError> {
    let tag = [(header::ETAG, etag(&view.group.meta))];
    let location = located(app, status, RecordKind::Group, &view.group).await?;
    Ok((status, tag, location, Json(body::group(view))).into_response())
}
