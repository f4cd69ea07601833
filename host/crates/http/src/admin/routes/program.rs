//! `/programs`

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::admin::access::Administrator;
use crate::api::dto::eligibility::answer::diagnostics;
use crate::api::dto::reader::Problems;
use crate::api::dto::record::patched;
use crate::api::dto::record::{self as body, WrittenProgramBody};
use crate::api::error::ApiError;
use crate::api::extract::accept::IfMatch;
use crate::api::extract::body::JsonObject;
use crate::api::extract::path::IdentifierPath;
use crate::api::extract::query::{NoParameters, Parameters, RawQuery};
use crate::api::routes::program::read_conditions;
use crate::api::routes::record::etag;
use crate::api::routes::record_search::page_of;
use crate::state::AppState;
use daftar_api_types::admin::ListBody;
use daftar_api_types::admin::operation::BrokenRuleBody;
use daftar_domain::field::FieldSet;
use daftar_service::program::{self, WrittenProgram, rules};
use daftar_service::records;
use daftar_service::search::Paging;

/// What a list of programs takes.
const LIST_PARAMETERS: [&str; 8] =
    ["identifier", "name", "active", "target_type", "status", "_last_updated", "_count", "_offset"];

/// Adds a program.
pub async fn create(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    JsonObject(members): JsonObject,
) -> Result<Response, ApiError> {
    let mut problems = Problems::default();
    let details = body::read_program(members, &mut problems);
    let details = problems.finish(details)?;
    let written = program::create(&ctx, &app.registry, &app.engine, details).await?;
    Ok(answer(StatusCode::CREATED, &written))
}

/// Lists the programs whose rules are not valid any more, with what is wrong with them.
pub async fn broken_rules(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
) -> Result<Response, ApiError> {
    let broken = rules::broken(&ctx, &app.registry, &app.engine).await?;
    let bodies = broken.iter().map(|rule| BrokenRuleBody {
        program: rule.program.clone(),
        eligibility: rule.expression.clone(),
        message: rule.message.clone(),
        diagnostics: diagnostics(&rule.diagnostics),
    });
    Ok(Json(ListBody { data: bodies.collect() }).into_response())
}

/// Searches programs; the filters are those of the public API.
pub async fn list(
    Administrator(ctx): Administrator,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let parameters = Parameters::parse(&query)?;
    parameters.expect_only(&LIST_PARAMETERS)?;
    let conditions = read_conditions(&parameters)?;
    let page = parameters.page()?;
    let paging = Paging { sort: Vec::new(), window: page.into() };
    let found = program::search(&ctx, &app.registry, conditions, &paging).await?;
    let bodies = found.records.iter().map(|program| body::program(&program.record, &program.fields)).collect();
    let path = format!("{}/programs", crate::admin::router::BASE_PATH);
    Ok(Json(page_of(bodies, found.total, page, &path, &parameters)).into_response())
}

/// Shows one program.
pub async fn show(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    IdentifierPath(key): IdentifierPath,
) -> Result<Response, ApiError> {
    let program = program::read(&ctx, &app.registry, &key).await?;
    let tag = [(header::ETAG, etag(&program.record.meta))];
    Ok((tag, Json(body::program(&program.record, &program.fields))).into_response())
}

/// Changes the fields that the body names; `null` takes one out (RFC 7396).
pub async fn update(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    IdentifierPath(key): IdentifierPath,
    IfMatch(condition): IfMatch,
    JsonObject(patch): JsonObject,
) -> Result<Response, ApiError> {
    let change = || async {
        let before = program::read(&ctx, &app.registry, &key).await?.record;
        records::check_version(&condition, before.meta.version)?;
        let members = patched(body::program(&before, &FieldSet::All), patch.clone())?;
        let mut problems = Problems::default();
        let details = body::read_program(members, &mut problems);
        let details = problems.finish(details)?;
        program::replace(&ctx, &app.registry, &app.engine, &before, details).await
    };
    Ok(answer(StatusCode::OK, &records::retried(&condition, change).await?))
}

fn answer(status: StatusCode, written: &WrittenProgram) -> Response {
    let tag = etag(&written.program.meta);
    (status, [(header::ETAG, tag)], Json(WrittenProgramBody::new(&written.program, &written.warnings))).into_response()
}
