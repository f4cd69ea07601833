//! `/Program`

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::individual::etag;
use super::record_search::{Search, Searchable};
use crate::api::access::{Auth, scope};
use crate::api::dto::field::words;
use crate::api::dto::record as body;
use crate::api::error::ApiError;
use crate::api::extract::filters;
use crate::api::extract::path::IdentifierPath;
use crate::api::extract::query::{Parameters, RawQuery};
use crate::state::AppState;
use daftar_domain::program::ProgramPhase;
use daftar_domain::record::RecordKind;
use daftar_domain::subject::Subject;
use daftar_service::program::{self, ProgramQuery};

const PHASES: &[(&str, ProgramPhase)] =
    &[("upcoming", ProgramPhase::Upcoming), ("current", ProgramPhase::Current), ("ended", ProgramPhase::Ended)];

/// Reads one program by identifier.
pub async fn read(
    auth: Auth<scope::ProgramRead>,
    State(app): State<AppState>,
    IdentifierPath(key): IdentifierPath,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    Parameters::parse(&query)?.expect_only(&[])?;
    let ctx = auth.into_context();
    let program = program::read(&ctx, &app.registry, &key).await?;
    let tag = [(header::ETAG, etag(&program.record.meta))];
    Ok((tag, Json(body::program(&program.record, &program.fields))).into_response())
}

/// The filters, each with the field of the record that it looks at; none, where everybody may look.
const FILTERS: [(&str, Option<&str>); 5] = [
    ("identifier", None),
    ("name", Some("name")),
    ("active", Some("active")),
    ("target_type", Some("target_type")),
    ("status", Some("period")),
];
/// Searches programs.
pub async fn search(
    auth: Auth<scope::ProgramSearch>,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let ctx = auth.into_context();
    let names = FILTERS.map(|(name, _)| name);
    let search = Search::read(&app, &ctx, &query, &Searchable { kind: RecordKind::Program, filters: &names })?;
    let field_of = |name: &str| FILTERS.iter().find(|(known, _)| *known == name)?.1.map(str::to_owned);
    let looked_at: Vec<String> = search.parameters.names().filter_map(field_of).collect();
    program::check_search(&ctx, &looked_at, &search.paging)?;
    let conditions = read_conditions(&search.parameters)?;
    let page = program::search(&ctx, &app.registry, conditions, &search.paging).await?;
    search.answer(&app, &ctx, &page, |program| body::program(&program.record, &program.fields))
}

/// The filters of a search.
///
/// # Errors
/// 400 naming the parameter.
pub fn read_conditions(parameters: &Parameters) -> Result<ProgramQuery, ApiError> {
    Ok(ProgramQuery {
        identifiers: filters::identifiers(parameters, "identifier")?,
        name_words: filters::words(parameters, "name")?,
        active: parameters.boolean("active")?,
        target_type: parameters.word("target_type", &words::<Subject>())?,
        phase: parameters.word("status", PHASES)?,
        last_updated: filters::last_updated(parameters)?,
    })
}
