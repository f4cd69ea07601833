//! `/programs`, `/program-rules` and `/eligibility`: programs, and rules that the administrator evaluates with access
//! to all records. The audit log names the evaluated subjects, as for clients.

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

use crate::admin::resource::Administrator;
use crate::api::dto::eligibility::{self, response::diagnostics};
use crate::api::dto::reader::{Problems, count_value};
use crate::api::dto::record::patched;
use crate::api::dto::record::{self as body, WrittenProgramBody};
use crate::api::error::ApiResult;
use crate::api::extract::accept::IfMatch;
use crate::api::extract::body::{JsonObject, RECORD_BYTES_MAX};
use crate::api::extract::path::IdentifierPath;
use crate::api::extract::query::{NoParameters, Parameters};
use crate::api::routes::eligibility::{checked, evaluated, evidenced, previewed};
use crate::api::routes::program::read_conditions;
use crate::api::routes::record::tagged;
use crate::api::routes::record_search::page_of;
use crate::state::AppState;
use daftar_api_types::admin::ListBody;
use daftar_api_types::admin::operation::BrokenRuleBody;
use daftar_api_types::public::eligibility::SUBJECTS_MAX;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::field::FieldSet;
use daftar_domain::subject::Subject;
use daftar_service::eligibility::evaluate::sample;
use daftar_service::program::{self, WrittenProgram};
use daftar_service::records;
use daftar_service::search::Paging;

/// Parameters of a list of programs.
const LIST_PARAMETERS: [&str; 8] =
    ["identifier", "name", "active", "target_type", "status", "_last_updated", "_count", "_offset"];

/// Adds a program.
pub async fn create(call: Administrator, _: NoParameters, JsonObject(members): JsonObject) -> ApiResult {
    let details = Problems::of(|problems| body::read_program(members, problems))?;
    let written = program::create(&call.ctx, &call.app.registry, &call.app.engine, details).await?;
    Ok(response(StatusCode::CREATED, &written))
}

/// Lists the programs whose rules are no longer valid, with their problems.
pub async fn broken_rules(call: Administrator, _: NoParameters) -> ApiResult {
    let broken = program::broken_rules(&call.ctx, &call.app.registry, &call.app.engine).await?;
    let bodies = broken.iter().map(|rule| BrokenRuleBody {
        program: rule.program.clone(),
        eligibility: rule.expression.clone(),
        message: rule.message.clone(),
        diagnostics: diagnostics(&rule.diagnostics),
    });
    Ok(Json(ListBody { data: bodies.collect() }).into_response())
}

/// Searches programs; the filters are those of the public API.
pub async fn list(call: Administrator, parameters: Parameters) -> ApiResult {
    parameters.expect_only(&LIST_PARAMETERS)?;
    let conditions = read_conditions(&parameters)?;
    let page = parameters.page()?;
    let paging = Paging { sort: Vec::new(), window: page.into() };
    let found = program::search(&call.ctx, &call.app.registry, conditions, &paging).await?;
    let bodies = found.records.iter().map(|program| body::program(&program.record, &program.fields)).collect();
    let path = format!("{}/programs", crate::admin::router::BASE_PATH);
    Ok(Json(page_of(bodies, found.total, page, &path, &parameters)).into_response())
}

/// Shows one program.
pub async fn show(call: Administrator, _: NoParameters, IdentifierPath(key): IdentifierPath) -> ApiResult {
    let program = program::read(&call.ctx, &call.app.registry, &key).await?;
    Ok(tagged(StatusCode::OK, &program.record.meta, body::program(&program.record, &program.fields)))
}

/// Changes the fields that the body names; `null` removes a field (RFC 7396).
pub async fn update(
    call: Administrator,
    _: NoParameters,
    IdentifierPath(key): IdentifierPath,
    IfMatch(condition): IfMatch,
    JsonObject(patch): JsonObject,
) -> ApiResult {
    let change = || async {
        let before = program::read(&call.ctx, &call.app.registry, &key).await?.record;
        records::check_version(&condition, before.meta.version)?;
        let members = patched(body::program(&before, &FieldSet::All), patch.clone())?;
        let details = Problems::of(|problems| body::read_program(members, problems))?;
        program::replace(&call.ctx, &call.app.registry, &call.app.engine, &before, details).await
    };
    Ok(response(StatusCode::OK, &records::retried(&condition, change).await?))
}

fn response(status: StatusCode, written: &WrittenProgram) -> Response {
    tagged(status, &written.program.meta, WrittenProgramBody::new(&written.program, &written.warnings))
}

/// Reports the problems of an expression; the body is that of `$validate`.
pub async fn validate(call: Administrator, _: NoParameters, JsonObject(members): JsonObject) -> ApiResult {
    checked(&call.ctx, &call.app, members).await
}

/// Evaluates a rule; the body is that of `$evaluate`, or has `sample`, a number of records to select, instead of
/// `subjects`.
pub async fn evaluate(
    call: Administrator,
    _: NoParameters,
    JsonObject(members): JsonObject<RECORD_BYTES_MAX>,
) -> ApiResult {
    let members = with_sample(&call, members).await?;
    evaluated(&call.ctx, &call.app, members).await
}

/// Returns the evidence bundle of an evaluation; the body is that of `$evaluate`.
pub async fn evidence(
    call: Administrator,
    _: NoParameters,
    JsonObject(members): JsonObject<RECORD_BYTES_MAX>,
) -> ApiResult {
    let members = with_sample(&call, members).await?;
    evidenced(&call.ctx, &call.app, members).await
}

/// Returns a body with `subjects` in place of `sample`.
async fn with_sample(call: &Administrator, mut members: Map<String, Value>) -> Result<Map<String, Value>, AppError> {
    if let Some(wanted) = members.remove("sample").filter(|wanted| !wanted.is_null()) {
        let picked = pick(&call.ctx, &call.app, &members, wanted).await?;
        members.insert("subjects".to_owned(), Value::Array(picked.into_iter().map(Value::String).collect()));
    }
    Ok(members)
}

/// Counts over the complete register; the body is that of `$preview`.
pub async fn preview(
    call: Administrator,
    _: NoParameters,
    headers: HeaderMap,
    JsonObject(members): JsonObject,
) -> ApiResult {
    previewed(&call.ctx, &call.app, &headers, members).await
}

/// Returns references to the requested number of records, of the kind of `subject` in the body.
async fn pick(
    ctx: &OpContext,
    app: &AppState,
    members: &Map<String, Value>,
    wanted: Value,
) -> Result<Vec<String>, AppError> {
    let mut problems = Problems::default();
    let count = count_value("sample", &wanted, &mut problems);
    if count.is_some_and(|count| usize::try_from(count).is_ok_and(|count| count > SUBJECTS_MAX)) {
        problems.add("sample", "too_many", format!("at most {SUBJECTS_MAX} records are picked"));
    }
    if members.get("subjects").is_some_and(|subjects| !subjects.is_null()) {
        problems.add("sample", "contradiction", "a body names `subjects` or a `sample`, not both");
    }
    let named = match members.get("program").cloned() {
        Some(program) => {
            eligibility::read_program(&mut Map::from_iter([("program".to_owned(), program)]), &mut problems)
        }
        None => None,
    };
    // Problems of `subject` are reported when the rest of the body is read.
    let reported = members.get("subject").and_then(Value::as_str);
    let reported =
        Subject::ALL.into_iter().find(|subject| Some(subject.name()) == reported).unwrap_or(Subject::Individual);
    let count = problems.finish(count)?.unwrap_or(1);
    let subject = match named {
        Some(key) => program::rule_of(ctx, &app.registry, &app.engine, &key, None).await?.subject,
        None => reported,
    };
    let picked = sample(&app.registry, subject, count).await?;
    if picked.is_empty() {
        let message = format!("the register has no records of type `{}` to pick from", subject.name());
        return Err(AppError::invalid("sample", "no_records", message));
    }
    Ok(picked)
}
