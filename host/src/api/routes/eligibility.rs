//! `/Eligibility`

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::api::access::{Auth, scope};
use crate::api::dto::eligibility as body;
use crate::api::dto::reader::Problems;
use crate::api::error::ApiError;
use crate::api::extract::body::{JsonObject, RECORD_BYTES_MAX};
use crate::app::AppState;
use crate::service::eligibility::evaluate::evaluate as decide;

/// Evaluates a rule on stored and inline records.
pub async fn evaluate(
    auth: Auth<scope::EligibilityRead>,
    State(app): State<AppState>,
    JsonObject(members): JsonObject<RECORD_BYTES_MAX>,
) -> Result<Response, ApiError> {
    let ctx = auth.into_context();
    let mut problems = Problems::default();
    let request = body::read(members, app.registry.vocabularies.current().extension_fields(), &mut problems);
    let request = problems.finish(request)?;
    let names = body::subject_names(&request);
    let evaluated = decide(&ctx, &app.registry, &app.engine, request).await?;
    Ok(Json(body::write(&names, &evaluated)).into_response())
}
