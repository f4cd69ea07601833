//! `/Group`

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::individual::{etag, located};
use super::search::languages;
use crate::api::access::{Auth, scope};
use crate::api::dto::group::{self as body, ShownEntity};
use crate::api::dto::merge::patched;
use crate::api::dto::named::named;
use crate::api::dto::reader::Problems;
use crate::api::elements::{Elements, GROUP};
use crate::api::error::ApiError;
use crate::api::extract::body::JsonObject;
use crate::api::extract::if_match::Conditions;
use crate::api::extract::path::IdentifierPath;
use crate::api::extract::query::{NoParameters, Parameters, RawQuery};
use crate::state::AppState;
use daftar_domain::error::AppError;
use daftar_domain::group::GroupDetails;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::scope::Resource;
use daftar_service::group::{self, GroupView, Wanted};
use daftar_service::individual::reference;
use daftar_service::records;
use daftar_service::visibility::Seen;
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
    let elements = Elements::read(&parameters, GROUP)?;
    let ctx = auth.into_context();
    let wanted = wanted(elements.as_ref());
    let view = group::read(&ctx, &app.registry, languages(&app, &headers), &key, wanted).await?;
    let body = Elements::answer(elements.as_ref(), write(&view))?;
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
    let draft = body::read(members, app.registry.vocabularies.current().extension_fields(), &mut problems);
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
    let draft = body::read(members, app.registry.vocabularies.current().extension_fields(), &mut problems);
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
        let members = patched(write(present), patch.clone())?;
        let mut problems = Problems::default();
        let draft = body::read(members, present.codes.extension_fields(), &mut problems);
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
    Ok((status, tag, location, Json(write(view))).into_response())
}

/// The body of a group.
pub(super) fn write(view: &GroupView) -> body::GroupBody<'_> {
    let show = |value| view.codes.show(value);
    let fields = view.codes.extension_fields();
    let show_member = |id| shown_among(&view.members, id);
    let show_group = |id| view.related.get(&id).and_then(shown_group);
    body::write((&view.group, &view.fields), view.quantity, fields, &show, &show_member, &show_group)
}

/// How another group is shown.
fn shown_group(Seen { record, fields }: &Seen<GroupDetails>) -> Option<ShownEntity> {
    let reference = records::reference(RecordKind::Group, records::called(&record.details.identifiers)?);
    Some(ShownEntity { reference, display: record.details.name.clone().filter(|_| fields.allows("name")) })
}

/// How one of these people is shown as a member.
pub(super) fn shown_among(members: &HashMap<RecordId, Seen<IndividualDetails>>, id: RecordId) -> Option<ShownEntity> {
    let Seen { record, fields } = members.get(&id)?;
    let name = record.details.name.as_ref().filter(|_| fields.allows("name"));
    let reference = reference(records::called(&record.details.identifiers)?);
    Some(ShownEntity { reference, display: name.map(daftar_domain::person_name::PersonName::display) })
}
