//! `GET /Group`

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::group::wanted;
use super::record_search::{Search, Searchable};
use super::search::languages;
use crate::api::access::{Auth, scope};
use crate::api::dto::record as body;
use crate::api::error::ApiError;
use crate::api::extract::filters::{self, Filters, NamedFilter};
use crate::api::extract::query::{Parameters, RawQuery, reference};
use crate::state::AppState;
use daftar_domain::context::OpContext;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::RecordKind;
use daftar_service::group::{self, GroupSearchRequest};
use daftar_service::search::Paging;

/// The filters beside those on days, on whole texts and by code.
const FILTERS: [NamedFilter; 5] = [
    ("identifier", None),
    ("name", Some("name")),
    ("active", Some("active")),
    ("member", Some("member")),
    ("address", Some("address")),
];

/// Searches groups.
pub async fn search(
    auth: Auth<scope::GroupRead>,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let ctx = auth.into_context();
    let known = filters_of(&app);
    let names = known.names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let search = Search::read(&app, &ctx, &query, &Searchable { kind: RecordKind::Group, filters: &names })?;
    group::check_search(&ctx, &known.looked_at(&search.parameters), &search.paging)?;
    let request = read_conditions(&search.parameters, &known)?;
    let paging = (&search.paging, wanted(search.elements()));
    let page = group::search(&ctx, &app.registry, languages(&app, &headers), request, paging).await?;
    search.answer(&app, &ctx, &page, body::group)
}

fn filters_of(app: &AppState) -> Filters {
    Filters::new(RecordKind::Group, &FILTERS, app.registry.vocabularies.current().extension_fields())
}

/// What a client asks for by the filters of a search alone, each of which it may look at.
///
/// # Errors
/// 400 that names a parameter that there is not, or a value that cannot be read, and 403 naming a field.
pub fn filter(app: &AppState, ctx: &OpContext, parameters: &Parameters) -> Result<GroupSearchRequest, ApiError> {
    let known = filters_of(app);
    let names = known.names();
    let names: Vec<&str> = names.iter().map(String::as_str).chain(["_last_updated"]).collect();
    parameters.expect_only(&names)?;
    group::check_search(ctx, &known.looked_at(parameters), &Paging::default())?;
    read_conditions(parameters, &known)
}

/// The filters of a search.
fn read_conditions(parameters: &Parameters, known: &Filters) -> Result<GroupSearchRequest, ApiError> {
    Ok(GroupSearchRequest {
        identifiers: filters::identifiers(parameters, "identifier")?,
        texts: known.texts(parameters)?,
        dates: known.dates(parameters)?,
        codes: known.codes(parameters)?,
        active: parameters.boolean("active")?,
        members: parameters.all("member").map(member).collect::<Result<_, _>>()?,
        last_updated: filters::last_updated(parameters)?,
    })
}

/// A person as `system|value`, or as a group refers to it.
fn member(text: &str) -> Result<IdentifierKey, ApiError> {
    Ok(reference("member", text, &[RecordKind::Individual])?.1)
}
