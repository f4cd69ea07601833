//! `/Program`

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::individual::etag;
use super::search::Envelope;
use crate::api::access::{Auth, scope};
use crate::api::dto::eligibility::SUBJECTS;
use crate::api::dto::program as body;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::path::IdentifierPath;
use crate::api::extract::query::{Parameters, RawQuery};
use crate::api::router::BASE_PATH;
use crate::app::AppState;
use crate::domain::identifier::IdentifierKey;
use crate::domain::person_name::search_words;
use crate::domain::program::ProgramPhase;
use crate::service::program::{self, ProgramQuery};

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
    Ok((tag, Json(body::write(&program.record, &program.fields))).into_response())
}

/// Searches programs.
pub async fn search(
    auth: Auth<scope::ProgramSearch>,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let parameters = Parameters::parse(&query)?;
    let conditions = read_conditions(&parameters)?;
    let page = parameters.page()?;
    let ctx = auth.into_context();
    let found = program::search(&ctx, &app.registry, conditions, page).await?;
    let bodies = found.programs.iter().map(|program| body::write(&program.record, &program.fields)).collect();
    let path = format!("{}{BASE_PATH}/Program", app.public_url);
    Ok(Json(Envelope::new(bodies, found.total, page, &path, &parameters)).into_response())
}

/// The filters of a search, beside `_count` and `_offset`.
pub fn read_conditions(parameters: &Parameters) -> Result<ProgramQuery, ApiError> {
    parameters.expect_only(&["identifier", "name", "active", "target_type", "status", "_count", "_offset"])?;
    let mut query = ProgramQuery { active: parameters.boolean("active")?, ..ProgramQuery::default() };
    for text in parameters.all("identifier") {
        let key = IdentifierKey::parse(text);
        query.identifiers.push(key.map_err(|error| Problem::malformed(format!("`identifier`: {error}")))?);
    }
    for text in parameters.all("name") {
        let words = search_words(text);
        if words.is_empty() {
            return Err(Problem::malformed("`name` holds no word to search for").into());
        }
        query.name_words.extend(words);
    }
    query.target_type = parameters.word("target_type", SUBJECTS)?;
    query.phase = parameters.word("status", PHASES)?;
    Ok(query)
}
