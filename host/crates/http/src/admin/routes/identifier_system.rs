//! `/identifier-systems`

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::client::unreadable;
use crate::admin::access::Administrator;
use crate::admin::dto::ListBody;
use crate::admin::dto::identifier_system::{IdentifierSystemBody, read};
use crate::api::dto::reader::Problems;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::body::JsonObject;
use crate::api::extract::query::NoParameters;
use crate::state::AppState;
use daftar_domain::error::AppError;
use daftar_domain::identifier::SystemUri;
use daftar_service::identifier_system;

/// Lists what identifiers may be of: the codes of the ID types, and what is registered.
pub async fn list(_: NoParameters, State(app): State<AppState>) -> Json<ListBody<IdentifierSystemBody>> {
    let id_types = app.registry.vocabularies.current().identifier_systems();
    let id_types = id_types.into_iter().map(|id_type| IdentifierSystemBody::of_id_type(id_type.uri));
    let registered = identifier_system::list(&app.vocabulary_publisher);
    Json(ListBody { data: id_types.chain(registered.iter().map(IdentifierSystemBody::from)).collect() })
}

/// Registers a system.
pub async fn add(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    JsonObject(members): JsonObject,
) -> Result<(StatusCode, Json<IdentifierSystemBody>), ApiError> {
    let mut problems = Problems::default();
    let uri = read(members, &mut problems);
    let uri = problems.finish(uri)?.ok_or_else(|| AppError::internal("a system was neither read nor refused"))?;
    let system = identifier_system::add(&ctx, &app.vocabulary_publisher, uri).await?;
    Ok((StatusCode::CREATED, Json(IdentifierSystemBody::from(&system))))
}

/// Takes a system out; identifiers of it that records carry stay.
pub async fn remove(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    uri: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let Path(uri) = uri.map_err(unreadable)?;
    let uri = SystemUri::parse(&uri).map_err(|error| Problem::malformed(error.to_string()))?;
    identifier_system::remove(&ctx, &app.vocabulary_publisher, &uri).await?;
    Ok(StatusCode::NO_CONTENT)
}
