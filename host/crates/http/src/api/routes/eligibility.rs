//! `/Eligibility`

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

use crate::api::access::{Auth, scope};
use crate::api::dto::eligibility::decision::SentDecision;
use crate::api::dto::eligibility::{self as body, answer, decision};
use crate::api::dto::reader::Problems;
use crate::api::error::ApiError;
use crate::api::extract::body::{JsonObject, RECORD_BYTES_MAX};
use crate::api::extract::query::NoParameters;
use crate::state::AppState;
use daftar_auth::decision_key::SealFault;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::record::RecordKind;
use daftar_service::eligibility::check::check;
use daftar_service::eligibility::evaluate::evaluate as decide;
use daftar_service::eligibility::seal::{Sealer, not_authentic};
use daftar_service::{program, records};

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
    let request = body::read_validation(members, &mut problems);
    let (expression, subject) = problems.finish(request)?;
    let checked = check(ctx, &app.registry, &app.engine, &expression, subject).await?;
    Ok(Json(answer::validated(&checked)).into_response())
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
    let sealer = Sealer::new(ctx, &app.decision_keys);
    // Before anything of it counts, the version of a program's rule among it.
    let sent = decision::read(&mut members, &mut problems);
    if let Some(sent) = &sent {
        check_authentic(app, &sealer, sent).await?;
    }
    let repeated = sent.as_ref().map(|sent| sent.decision.clone());
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
    // The same answer again has the same seal, also where the key was replaced since.
    let same = sent.filter(|sent| sent.decision == evaluated.decision);
    let seal = same.map_or_else(|| sealer.seal(&evaluated.decision), |sent| sent.seal);
    Ok(Json(answer::evaluated(&names, &evaluated, seal)).into_response())
}

/// Checks that this client or its organization was given a decision that was sent back.
async fn check_authentic(app: &AppState, sealer: &Sealer, sent: &SentDecision) -> Result<(), AppError> {
    let SentDecision { decision, seal } = sent;
    let verified = match sealer.verify(decision, seal) {
        // Another server of this register may have sealed it with a key that is new.
        Err(SealFault::UnknownKey) if app.look_for_signing_key().await => sealer.verify(decision, seal),
        other => other,
    };
    verified.map_err(|_| not_authentic())
}
