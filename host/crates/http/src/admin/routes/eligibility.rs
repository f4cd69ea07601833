//! `/eligibility`: rules tried out by the administrator, who sees everything. Who was looked at is audited as for clients.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use daftar_api_types::public::eligibility::SUBJECTS_MAX;
use serde_json::{Map, Value};

use crate::admin::access::Administrator;
use crate::api::dto::eligibility as body;
use crate::api::dto::reader::{ObjectReader, Problems};
use crate::api::error::ApiError;
use crate::api::extract::body::{JsonObject, RECORD_BYTES_MAX};
use crate::api::extract::query::NoParameters;
use crate::api::routes::eligibility::{checked, evaluated, previewed};
use crate::state::AppState;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::subject::Subject;
use daftar_service::eligibility::evaluate::sample;
use daftar_service::program;

/// Says what is wrong with an expression; the body is that of `$validate`.
pub async fn validate(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    JsonObject(members): JsonObject,
) -> Result<Response, ApiError> {
    checked(&ctx, &app, members).await
}

/// Evaluates a rule; the body is that of `$evaluate`, or has `sample`, a number of records to pick, in place of `subjects`.
pub async fn evaluate(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    JsonObject(mut members): JsonObject<RECORD_BYTES_MAX>,
) -> Result<Response, ApiError> {
    if let Some(wanted) = members.remove("sample").filter(|wanted| !wanted.is_null()) {
        let picked = pick(&ctx, &app, &members, wanted).await?;
        members.insert("subjects".to_owned(), Value::Array(picked.into_iter().map(Value::String).collect()));
    }
    evaluated(&ctx, &app, members).await
}

/// Counts over the whole register; the body is that of `$preview`.
pub async fn preview(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    headers: HeaderMap,
    JsonObject(members): JsonObject,
) -> Result<Response, ApiError> {
    previewed(&ctx, &app, &headers, members).await
}

/// References to as many records as are wanted, of the kind that the rest of the body is about.
async fn pick(
    ctx: &OpContext,
    app: &AppState,
    members: &Map<String, Value>,
    wanted: Value,
) -> Result<Vec<String>, AppError> {
    let mut problems = Problems::default();
    let mut reader = ObjectReader::root(Map::from_iter([("sample".to_owned(), wanted)]));
    let count = reader.count("sample", &mut problems);
    if count.is_some_and(|count| usize::try_from(count).is_ok_and(|count| count > SUBJECTS_MAX)) {
        problems.add("sample", "too_many", format!("at most {SUBJECTS_MAX} records are picked"));
    }
    if members.get("subjects").is_some_and(|subjects| !subjects.is_null()) {
        problems.add("sample", "contradiction", "a body names `subjects` or a `sample`, not both");
    }
    let named = match members.get("program").cloned() {
        Some(program) => body::read_program(&mut Map::from_iter([("program".to_owned(), program)]), &mut problems),
        None => None,
    };
    // What is wrong with `subject` is told when the rest of the body is read.
    let told = members.get("subject").and_then(Value::as_str);
    let told = Subject::ALL.into_iter().find(|subject| Some(subject.name()) == told).unwrap_or(Subject::Individual);
    let count = problems.finish(count)?.unwrap_or(1);
    let subject = match named {
        Some(key) => program::rule_of(ctx, &app.registry, &key, None).await?.subject,
        None => told,
    };
    let picked = sample(&app.registry, subject, count).await?;
    if picked.is_empty() {
        let message = format!("the register has no records of type `{}` to pick from", subject.name());
        return Err(AppError::invalid("sample", "nobody", message));
    }
    Ok(picked)
}
