//! `/Eligibility`

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::api::access::{Auth, scope};
use crate::api::dto::eligibility as body;
use crate::api::dto::reader::Problems;
use crate::api::error::ApiError;
use crate::api::extract::body::{JsonObject, RECORD_BYTES_MAX};
use crate::api::extract::query::NoParameters;
use crate::app::AppState;
use crate::service::eligibility::evaluate::evaluate as decide;
use crate::service::program;

/// Evaluates a rule on stored and inline records.
pub async fn evaluate(
    auth: Auth<scope::EligibilityRead>,
    State(app): State<AppState>,
    _: NoParameters,
    JsonObject(mut members): JsonObject<RECORD_BYTES_MAX>,
) -> Result<Response, ApiError> {
    let ctx = auth.into_context();
    let mut problems = Problems::default();
    let program = match body::read_program(&mut members, &mut problems) {
        Some(key) => Some(program::rule_of(&ctx, &app.registry, &key).await?),
        None => None,
    };
    let fields = app.registry.vocabularies.current();
    let request = body::read(members, program.as_ref(), fields.extension_fields(), &mut problems);
    let request = problems.finish(request)?;
    let names = body::subject_names(&request);
    let evaluated = decide(&ctx, &app.registry, &app.engine, request).await?;
    Ok(Json(body::write(&names, &evaluated)).into_response())
}
