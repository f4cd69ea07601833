//! `/Eligibility`

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

use crate::api::access::{Auth, scope};
use crate::api::dto::eligibility::{self as body, answer, decision, validation};
use crate::api::dto::reader::Problems;
use crate::api::error::ApiError;
use crate::api::extract::body::{JsonObject, RECORD_BYTES_MAX};
use crate::api::extract::query::NoParameters;
use crate::app::AppState;
use crate::context::OpContext;
use crate::domain::record::RecordKind;
use crate::service::eligibility::check::check;
use crate::service::eligibility::evaluate::evaluate as decide;
use crate::service::{program, records};

/// Says what is wrong with an expression.
pub async fn validate(
    auth: Auth<scope::EligibilityRead>,
    State(app): State<AppState>,
    _: NoParameters,
    JsonObject(members): JsonObject,
) -> Result<Response, ApiError> {
    checked(&auth.into_context(), &app, members).await
}

/// Answers a body of `$validate`.
pub async fn checked(ctx: &OpContext, app: &AppState, members: Map<String, Value>) -> Result<Response, ApiError> {
    let mut problems = Problems::default();
    let request = validation::read(members, &mut problems);
    let (expression, subject) = problems.finish(request)?;
    let checked = check(ctx, &app.registry, &app.engine, &expression, subject).await?;
    Ok(Json(validation::ValidatedBody::from(&checked)).into_response())
}

/// Evaluates a rule on stored and inline records.
pub async fn evaluate(
    auth: Auth<scope::EligibilityRead>,
    State(app): State<AppState>,
    _: NoParameters,
    JsonObject(members): JsonObject<RECORD_BYTES_MAX>,
) -> Result<Response, ApiError> {
    evaluated(&auth.into_context(), &app, members).await
}

/// Answers a body of `$evaluate`.
pub async fn evaluated(ctx: &OpContext, app: &AppState, mut members: Map<String, Value>) -> Result<Response, ApiError> {
    let mut problems = Problems::default();
    let repeated = decision::read(&mut members, &mut problems);
    let program = match body::read_program(&mut members, &mut problems) {
        Some(key) => {
            let reference = records::reference(RecordKind::Program, &key);
            let then = repeated.as_ref().and_then(|decision| decision.versions.get(&reference).copied());
            Some(program::rule_of(ctx, &app.registry, &key, then).await?)
        }
        None => None,
    };
    let fields = app.registry.vocabularies.current();
    let request = body::read(members, program.as_ref(), repeated, fields.extension_fields(), &mut problems);
    let request = problems.finish(request)?;
    let names = answer::subject_names(&request);
    let evaluated = decide(ctx, &app.registry, &app.engine, request).await?;
    Ok(Json(answer::write(&names, &evaluated)).into_response())
}
