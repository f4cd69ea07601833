//! `/clients`

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use crate::admin::access::Administrator;
use crate::admin::dto::grant::read_grant;
use crate::admin::dto::secret::{RotatedBody, SecretAges, read_overlap};
use crate::admin::dto::{ClientBody, ListBody, NewClientBody, read_changes, read_client};
use crate::api::dto::reader::Problems;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::body::JsonObject;
use crate::api::extract::query::NoParameters;
use crate::state::AppState;
use daftar_domain::client::ClientId;
use daftar_domain::error::AppError;
use daftar_domain::scope::Scope;

/// Registers a client.
pub async fn create(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    JsonObject(members): JsonObject,
) -> Result<(StatusCode, Json<NewClientBody>), ApiError> {
    let mut problems = Problems::default();
    let new = read_client(members, app.registry.vocabularies.current().extension_fields(), &mut problems);
    let Some(new) = problems.finish(new)? else {
        return Err(AppError::internal("a client was neither read nor refused").into());
    };
    let (client, secret) = app.clients.create(&ctx, new).await?;
    Ok((StatusCode::CREATED, Json(NewClientBody::new(&client, &secret, SecretAges::now(&app)))))
}

/// Lists all clients.
pub async fn list(_: NoParameters, State(app): State<AppState>) -> Json<ListBody<ClientBody>> {
    let ages = SecretAges::now(&app);
    Json(ListBody { data: app.clients.list().iter().map(|client| ClientBody::new(client, ages)).collect() })
}

/// Shows one client.
pub async fn show(
    _: NoParameters,
    State(app): State<AppState>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<ClientBody>, ApiError> {
    let client = app.clients.show(&client_id(id)?)?;
    Ok(Json(ClientBody::new(&client, SecretAges::now(&app))))
}

/// Changes the settings that the body names; `null` takes one out.
pub async fn set(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    JsonObject(members): JsonObject,
) -> Result<Json<ClientBody>, ApiError> {
    let mut problems = Problems::default();
    let changes = read_changes(members, &mut problems);
    let changes = problems.finish(changes)?;
    let client = app.clients.set(&ctx, &client_id(id)?, changes).await?;
    Ok(Json(ClientBody::new(&client, SecretAges::now(&app))))
}

/// Disables a client.
pub async fn disable(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<ClientBody>, ApiError> {
    let client = app.clients.disable(&ctx, &client_id(id)?).await?;
    Ok(Json(ClientBody::new(&client, SecretAges::now(&app))))
}

/// Lets a disabled client in again.
pub async fn enable(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<ClientBody>, ApiError> {
    let client = app.clients.enable(&ctx, &client_id(id)?).await?;
    Ok(Json(ClientBody::new(&client, SecretAges::now(&app))))
}

/// Gives a client another secret, which is told this once; the older ones stay good for `overlap_s` seconds, 0 where it is not
/// given.
pub async fn rotate_secret(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    JsonObject(members): JsonObject,
) -> Result<Json<RotatedBody>, ApiError> {
    let mut problems = Problems::default();
    let overlap_s = read_overlap(members, &mut problems);
    let overlap_s = problems.finish(overlap_s)?;
    let rotated = app.clients.rotate_secret(&ctx, &client_id(id)?, overlap_s).await?;
    Ok(Json(RotatedBody::new(&rotated, SecretAges::now(&app))))
}

/// Grants a scope, on some fields or on all.
pub async fn grant(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    JsonObject(members): JsonObject,
) -> Result<Json<ClientBody>, ApiError> {
    let mut problems = Problems::default();
    let grant = read_grant(members, app.registry.vocabularies.current().extension_fields(), &mut problems);
    let Some((scope, fields)) = problems.finish(grant)? else {
        return Err(AppError::internal("a scope was neither read nor refused").into());
    };
    let client = app.clients.grant(&ctx, &client_id(id)?, scope, fields).await?;
    Ok(Json(ClientBody::new(&client, SecretAges::now(&app))))
}

/// Revokes a scope.
pub async fn revoke(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<ClientBody>, ApiError> {
    let Path((id, scope)) = path.map_err(unreadable)?;
    let scope = Scope::parse(&scope).map_err(|error| Problem::malformed(error.to_string()))?;
    let client = app.clients.revoke(&ctx, &parse_client_id(&id)?, scope).await?;
    Ok(Json(ClientBody::new(&client, SecretAges::now(&app))))
}

fn client_id(path: Result<Path<String>, PathRejection>) -> Result<ClientId, ApiError> {
    let Path(text) = path.map_err(unreadable)?;
    parse_client_id(&text)
}

fn parse_client_id(text: &str) -> Result<ClientId, ApiError> {
    ClientId::parse(text).map_err(|error| Problem::malformed(error.to_string()).into())
}

/// What is answered to a path that is not text.
pub(super) fn unreadable(_: PathRejection) -> ApiError {
    Problem::malformed("the path is not percent-encoded UTF-8").into()
}
