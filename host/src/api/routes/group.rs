//! `/Group`

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::individual::{etag, location};
use super::search::languages;
use crate::api::access::{Auth, scope};
use crate::api::dto::group::{self as body, ShownMember};
use crate::api::dto::reader::Problems;
use crate::api::dto::shared::ReceiptBody;
use crate::api::error::ApiError;
use crate::api::extract::body::JsonObject;
use crate::api::extract::path::IdentifierPath;
use crate::api::extract::query::{Parameters, RawQuery};
use crate::app::AppState;
use crate::domain::record::{RecordId, RecordKind};
use crate::domain::scope::{Action, Resource, Scope};
use crate::service::group::{self, GroupView};
use crate::service::individual::reference;

/// Reads one group by identifier.
pub async fn read(
    auth: Auth<scope::GroupRead>,
    State(app): State<AppState>,
    IdentifierPath(key): IdentifierPath,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    Parameters::parse(&query)?.expect_only(&[])?;
    let ctx = auth.into_context();
    let view = group::read(&ctx, &app.registry, languages(&app, &headers), &key).await?;
    Ok(([(header::ETAG, etag(&view.group.meta))], Json(write(&view))).into_response())
}

/// Registers a group.
pub async fn create(
    auth: Auth<scope::GroupCreate>,
    State(app): State<AppState>,
    headers: HeaderMap,
    JsonObject(members): JsonObject,
) -> Result<Response, ApiError> {
    let ctx = auth.into_context();
    let mut problems = Problems::default();
    let draft = body::read(members, app.registry.vocabularies.current().extension_fields(), &mut problems);
    let draft = problems.finish(draft)?;
    let view = group::create(&ctx, &app.registry, languages(&app, &headers), draft).await?;
    let location = location(&app, RecordKind::Group, &view.group.details.identifiers);
    let headers = [(header::ETAG, etag(&view.group.meta)), (header::LOCATION, location)];
    // An answer holds no more than a read would give this client.
    if !ctx.scopes.covers(Scope::new(Resource::Group, Action::Read)) {
        let receipt = ReceiptBody::new("Group", &view.group.details.identifiers, &view.group.meta);
        return Ok((StatusCode::CREATED, headers, Json(receipt)).into_response());
    }
    Ok((StatusCode::CREATED, headers, Json(write(&view))).into_response())
}

fn write(view: &GroupView) -> body::GroupBody<'_> {
    let show = |value| view.codes.show(value);
    body::write(&view.group, view.today, view.codes.extension_fields(), &show, &|id| shown_member(view, id))
}

fn shown_member(view: &GroupView, id: RecordId) -> Option<ShownMember> {
    let details = &view.members.get(&id)?.details;
    let identifier =
        details.identifiers.iter().find(|identifier| identifier.is_open()).or(details.identifiers.first())?;
    let display = details.name.as_ref().map(crate::domain::person_name::PersonName::display);
    Some(ShownMember { reference: reference(&identifier.key), display: display.filter(|_| view.shows_names) })
}
