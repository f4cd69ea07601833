//! `/ConceptGroup`

use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use daftar_api_types::public::concept_group::ExpandedConceptGroup;
use percent_encoding::utf8_percent_encode;

use super::search::page_of;
use crate::api::access::{Auth, scope};
use crate::api::conditional::Reading;
use crate::api::dto::vocabulary::concept_group as body;
use crate::api::endpoint::BASE_PATH;
use crate::api::error::ApiError;
use crate::api::extract::path::{NamePath, PATH_PART};
use crate::api::extract::query::{Parameters, RawQuery};
use crate::state::AppState;
use daftar_service::vocabulary::{concept_group, concept_groups};

/// Lists concept groups.
pub async fn list(
    auth: Auth<scope::VocabularyRead>,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
    (method, uri, headers): (Method, Uri, HeaderMap),
) -> Result<Response, ApiError> {
    let parameters = Parameters::parse(&query)?;
    parameters.expect_only(&["_count", "_offset"])?;
    let page = parameters.page()?;
    let ctx = auth.into_context();
    let reading = Reading::begin(&app, &method, &uri, &headers, &[]);
    Ok(reading.answer(|told| {
        let found = concept_groups(&ctx, &reading.generation, page);
        let groups = found.items.iter();
        let bodies = groups.map(|group| body::group(&reading.generation, group, &reading.languages, told)).collect();
        let path = format!("{}{BASE_PATH}/ConceptGroup", app.public_url);
        page_of(bodies, found.total as u64, page, &path, &parameters)
    }))
}

/// Reads one concept group with a page of its codes.
pub async fn read(
    auth: Auth<scope::VocabularyRead>,
    State(app): State<AppState>,
    NamePath(name): NamePath,
    RawQuery(query): RawQuery,
    (method, uri, headers): (Method, Uri, HeaderMap),
) -> Result<Response, ApiError> {
    let parameters = Parameters::parse(&query)?;
    parameters.expect_only(&["_count", "_offset"])?;
    let page = parameters.page()?;
    let ctx = auth.into_context();
    let reading = Reading::begin(&app, &method, &uri, &headers, &[]);
    let found = concept_group(&ctx, &reading.generation, &name, page)?;
    Ok(reading.answer(|told| {
        let (generation, languages) = (&reading.generation, &reading.languages);
        let group = body::group(generation, found.group, languages, told);
        let code = |uri: &_| body::code(generation, uri, languages, told);
        let codes = found.members.items.iter().map(code).collect();
        let name = utf8_percent_encode(&name, PATH_PART);
        let path = format!("{}{BASE_PATH}/ConceptGroup/{name}", app.public_url);
        let expansion = page_of(codes, found.members.total as u64, page, &path, &parameters);
        ExpandedConceptGroup { group, expansion }
    }))
}
