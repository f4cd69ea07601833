//! `/local-codes`

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::client::unreadable;
use crate::admin::access::Administrator;
use crate::admin::dto::ListBody;
use crate::admin::dto::local_code::{LocalCodeBody, read_change, read_deprecation, read_new};
use crate::api::dto::reader::Problems;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::body::JsonObject;
use crate::api::extract::query::NoParameters;
use crate::state::AppState;
use daftar_domain::code::CodeUri;
use daftar_domain::error::AppError;
use daftar_service::local_code;

/// Lists all local codes.
pub async fn list(_: NoParameters, State(app): State<AppState>) -> Result<Json<ListBody<LocalCodeBody>>, ApiError> {
    Ok(Json(ListBody {
        data: local_code::list(&app.vocabulary_publisher).await?.iter().map(LocalCodeBody::from).collect(),
    }))
}

/// Adds a local code.
pub async fn add(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    JsonObject(members): JsonObject,
) -> Result<(StatusCode, Json<LocalCodeBody>), ApiError> {
    let mut problems = Problems::default();
    let new = read_new(members, &mut problems);
    let Some(new) = problems.finish(new)? else {
        return Err(AppError::internal("a local code was neither read nor refused").into());
    };
    let added = local_code::add(&ctx, &app.vocabulary_publisher, new).await?;
    Ok((StatusCode::CREATED, Json(LocalCodeBody::from(&added))))
}

/// Shows one local code.
pub async fn show(
    _: NoParameters,
    State(app): State<AppState>,
    uri: Result<Path<String>, PathRejection>,
) -> Result<Json<LocalCodeBody>, ApiError> {
    Ok(Json(LocalCodeBody::from(&local_code::show(&app.vocabulary_publisher, &code(uri)?).await?)))
}

/// Changes what a local code is called or how its values look.
pub async fn update(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    uri: Result<Path<String>, PathRejection>,
    JsonObject(members): JsonObject,
) -> Result<Json<LocalCodeBody>, ApiError> {
    let uri = code(uri)?;
    let mut problems = Problems::default();
    let change = read_change(members, &mut problems);
    let change = problems.finish(change)?;
    Ok(Json(LocalCodeBody::from(&local_code::update(&ctx, &app.vocabulary_publisher, &uri, change).await?)))
}

/// Sets a local code aside.
pub async fn deprecate(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    uri: Result<Path<String>, PathRejection>,
    JsonObject(members): JsonObject,
) -> Result<Json<LocalCodeBody>, ApiError> {
    let uri = code(uri)?;
    let mut problems = Problems::default();
    let successor = read_deprecation(members, &mut problems);
    let successor = problems.finish(successor)?;
    Ok(Json(LocalCodeBody::from(&local_code::deprecate(&ctx, &app.vocabulary_publisher, &uri, successor).await?)))
}

fn code(path: Result<Path<String>, PathRejection>) -> Result<CodeUri, ApiError> {
    let Path(text) = path.map_err(unreadable)?;
    CodeUri::parse(&text).map_err(|error| Problem::malformed(error.to_string()).into())
}
