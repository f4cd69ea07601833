//! `/signing-keys`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use crate::admin::access::Administrator;
use crate::admin::dto::ListBody;
use crate::admin::dto::signing_key::{SigningKeyBody, read_rotation};
use crate::api::dto::reader::Problems;
use crate::api::error::ApiError;
use crate::api::extract::body::JsonObject;
use crate::api::extract::query::NoParameters;
use crate::state::AppState;

/// Lists the keys whose tokens and decisions are accepted, by use, the one that signs first.
pub async fn list(_: NoParameters, State(app): State<AppState>) -> Json<ListBody<SigningKeyBody>> {
    let now = app.clock.now();
    Json(ListBody { data: app.signing_keys.list().iter().map(|key| SigningKeyBody::new(key, now)).collect() })
}

/// Lets a new key sign. One of tokens that is replaced is accepted for `overlap_s` seconds more, as long as its tokens are good where it is
/// not given; one of decisions stays accepted.
pub async fn rotate(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    JsonObject(members): JsonObject,
) -> Result<(StatusCode, Json<ListBody<SigningKeyBody>>), ApiError> {
    let mut problems = Problems::default();
    let rotation = read_rotation(members, &mut problems);
    let (usage, overlap_s) = problems.finish(rotation)?;
    let keys = app.signing_keys.rotate(&ctx, usage, overlap_s).await?;
    let now = app.clock.now();
    Ok((StatusCode::CREATED, Json(ListBody { data: keys.iter().map(|key| SigningKeyBody::new(key, now)).collect() })))
}
