//! `/Eligibility`

use std::sync::Arc;

use axum::Json;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde_json::{Map, Value};
use tokio::sync::mpsc::channel;

use super::record_search::{languages, selection};
use crate::api::access::{Auth, scope};
use crate::api::dto::eligibility::decision::SentDecision;
use crate::api::dto::eligibility::preview::{self as preview_body, PreviewParameters};
use crate::api::dto::eligibility::{self as body, decision, response};
use crate::api::dto::reader::Problems;
use crate::api::error::ApiResult;
use crate::api::extract::accept::asks_for_lines;
use crate::api::extract::body::{JsonObject, RECORD_BYTES_MAX};
use crate::api::extract::query::NoParameters;
use crate::api::lines::{self, Telling};
use crate::state::AppState;
use daftar_auth::decision_key::SealFault;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::record::RecordKind;
use daftar_service::codes::LanguagePreference;
use daftar_service::eligibility::check::check;
use daftar_service::eligibility::decision::{Sealer, not_authentic};
use daftar_service::eligibility::engine_of_body;
use daftar_service::eligibility::evaluate::{EXPLAINED_MAX, EvaluateRequest, Evaluated, evaluate as decide};
use daftar_service::eligibility::evidence::{BUNDLE_BYTES_MAX, sign};
use daftar_service::eligibility::preview::{Preview, PreviewEvent, PreviewRequest, prepare};
use daftar_service::{program, records};

/// Maximum number of events waiting to be sent; an event has some thousand subjects.
const WAITING_MAX: usize = 2;

/// Validates an expression.
pub async fn validate(
    call: Auth<scope::EligibilityRead>,
    _: NoParameters,
    JsonObject(members): JsonObject,
) -> ApiResult {
    checked(&call.ctx, &call.app, members).await
}

/// Handles a body of `$validate`.
pub async fn checked(ctx: &OpContext, app: &AppState, members: Map<String, Value>) -> ApiResult {
    let (expression, engine, subject) = Problems::of(|problems| body::read_validation(members, problems))?;
    let engine = engine_of_body(&app.engine, engine.as_deref())?;
    let checked = check(ctx, &app.registry, &engine, &expression, subject).await?;
    Ok(Json(response::validated(&checked)).into_response())
}

/// Evaluates a rule for stored and inline records.
pub async fn evaluate(
    call: Auth<scope::EligibilityRead>,
    _: NoParameters,
    JsonObject(members): JsonObject<RECORD_BYTES_MAX>,
) -> ApiResult {
    evaluated(&call.ctx, &call.app, members).await
}

/// Handles a body of `$evaluate`.
pub async fn evaluated(ctx: &OpContext, app: &AppState, members: Map<String, Value>) -> ApiResult {
    let Decided { names, evaluated, seal } = decided(ctx, app, members, false).await?;
    Ok(Json(response::evaluated(&names, &evaluated, seal)).into_response())
}

/// Returns the evidence bundle of an evaluation.
pub async fn evidence(
    call: Auth<scope::EligibilityRead>,
    _: NoParameters,
    JsonObject(members): JsonObject<RECORD_BYTES_MAX>,
) -> ApiResult {
    evidenced(&call.ctx, &call.app, members).await
}

/// Handles a body of `$evidence`: evaluates it like a body of `$evaluate`, and signs the inputs and the response.
pub async fn evidenced(ctx: &OpContext, app: &AppState, members: Map<String, Value>) -> ApiResult {
    let Decided { names, mut evaluated, seal } = decided(ctx, app, members, true).await?;
    let content = evaluated.evidence.take().ok_or_else(|| AppError::internal("a decision without its evidence"))?;
    let defect = |error: serde_json::Error| AppError::Internal(error.into());
    let response = serde_json::to_string(&response::evaluated(&names, &evaluated, seal)).map_err(defect)?;
    let content = content.complete(&names, &app.public_url, response);
    let bundle = sign(&app.decision_keys.load(), &content).map_err(defect)?;
    if bundle.len() > BUNDLE_BYTES_MAX {
        let message = format!("the evidence bundle would have more than {BUNDLE_BYTES_MAX} bytes; name fewer subjects");
        return Err(AppError::invalid("subjects", "too_many", message).into());
    }
    Ok(([(CONTENT_TYPE, "application/json")], bundle).into_response())
}

/// An evaluation with the names of its subjects and the seal of its decision.
struct Decided {
    names: Vec<String>,
    evaluated: Evaluated,
    seal: String,
}

/// Evaluates a body of `$evaluate`.
async fn decided(
    ctx: &OpContext,
    app: &AppState,
    mut members: Map<String, Value>,
    evidence: bool,
) -> Result<Decided, AppError> {
    let mut problems = Problems::default();
    let sealer = Sealer::new(ctx, &app.decision_keys);
    // Before any other member is used, including the version of a program's rule.
    let sent = decision::read(&mut members, &mut problems);
    if let Some(sent) = &sent {
        check_authentic(app, &sealer, sent).await?;
    }
    let repeated = sent.as_ref().map(|sent| sent.decision.clone());
    let program = match body::read_program(&mut members, &mut problems) {
        Some(key) => {
            let reference = records::reference(RecordKind::Program, &key);
            let then = repeated.as_ref().and_then(|decision| decision.versions.get(&reference).copied());
            Some(program::rule_of(ctx, &app.registry, &app.engine, &key, then).await?)
        }
        None => None,
    };
    let engine = body::read_engine(&mut members, program.as_ref(), &mut problems);
    let fields = app.registry.vocabularies.current();
    let request = body::read(members, program.as_ref(), repeated, fields.extension_fields(), &mut problems);
    if evidence && request.subjects.len() > EXPLAINED_MAX {
        let message = format!("an evidence bundle is about at most {EXPLAINED_MAX} subjects");
        problems.add("subjects", "too_many", message);
    }
    let request = EvaluateRequest { evidence, ..problems.finish(request)? };
    let engine = match program {
        Some(program) => program.engine,
        None => engine_of_body(&app.engine, engine.as_deref())?,
    };
    let names = response::subject_names(&request);
    let evaluated = decide(ctx, &app.registry, &engine, request).await?;
    // A repeated decision has the same seal, even if the key was replaced since.
    let same = sent.filter(|sent| sent.decision == evaluated.decision);
    let seal = same.map_or_else(|| sealer.seal(&evaluated.decision), |sent| sent.seal);
    Ok(Decided { names, evaluated, seal })
}

/// Checks that a decision sent back was issued to this client or its organization.
async fn check_authentic(app: &AppState, sealer: &Sealer, sent: &SentDecision) -> Result<(), AppError> {
    let SentDecision { decision, seal } = sent;
    let verified = match sealer.verify(decision, seal) {
        // Another server of this register may have sealed it with a new key.
        Err(SealFault::UnknownKey) if app.look_for_signing_key().await => sealer.verify(decision, seal),
        other => other,
    };
    verified.map_err(|_| not_authentic())
}

/// Evaluates a rule for all individuals or groups that match a search.
pub async fn preview(
    call: Auth<scope::EligibilityRead>,
    _: NoParameters,
    headers: HeaderMap,
    JsonObject(members): JsonObject,
) -> ApiResult {
    previewed(&call.ctx, &call.app, &headers, members).await
}

/// Handles a body of `$preview`: with one JSON object, or with lines if the request accepts them.
///
/// # Errors
/// As the API reports them.
pub async fn previewed(ctx: &OpContext, app: &AppState, headers: &HeaderMap, members: Map<String, Value>) -> ApiResult {
    let is_streamed = asks_for_lines(headers);
    let requested = Problems::of(|problems| preview_body::read(members, is_streamed, problems))?;
    let requested = requested.ok_or_else(|| AppError::internal("a body that is right asks for nothing"))?;
    let PreviewParameters { expression, compare, engine, subject, filter, sample, tells_subjects, as_of } = requested;
    let engine = engine_of_body(&app.engine, engine.as_deref())?;
    let among = selection(app, ctx, subject, &filter)?;
    let request = PreviewRequest { expression, compare, among, sample, as_of, is_streamed, tells_subjects };
    let ready = prepare(ctx, &app.registry, &engine, &app.previews, request).await?;
    let (languages, sealer) = (languages(app, headers), Sealer::new(ctx, &app.decision_keys));
    if !is_streamed {
        let preview = ready.run(None).await?;
        return Ok(Json(preview_body::previewed(&preview, &languages, &sealer)).into_response());
    }
    let (events, reported) = channel(WAITING_MAX);
    let lines =
        Lines { languages, sealer, public_url: app.public_url.clone(), request_id: Arc::clone(&ctx.request_id) };
    Ok(lines::response(&app.spools, &ctx.actor, ready.run(Some(events)), reported, lines))
}

/// Reports a preview as lines.
struct Lines {
    languages: LanguagePreference,
    sealer: Sealer,
    public_url: String,
    request_id: Arc<str>,
}

impl Telling for Lines {
    type Event = PreviewEvent;
    type End = Result<Preview, AppError>;

    fn lines(&mut self, event: PreviewEvent) -> Option<Vec<u8>> {
        Some(preview_body::event_lines(&event))
    }

    fn last(&mut self, end: Self::End) -> Vec<u8> {
        preview_body::last_line(end, (&self.languages, &self.sealer), (&self.public_url, &self.request_id))
    }
}
