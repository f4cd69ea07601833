//! `GET /Group`

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::group::{wanted, write};
use super::record_search::{Search, Searchable};
use super::search::languages;
use crate::api::access::{Auth, scope};
use crate::api::elements::GROUP;
use crate::api::error::ApiError;
use crate::api::extract::filters::{self, CodedFilters};
use crate::api::extract::query::{Parameters, RawQuery, reference};
use crate::state::AppState;
use daftar_domain::context::OpContext;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::RecordKind;
use daftar_domain::search::order::SortField;
use daftar_domain::vocabulary::CodedField;
use daftar_service::group::{self, GroupSearchRequest};
use daftar_service::search::Paging;

/// The filters, beside those by code, each with the field of the record that it looks at; none, where everybody may look.
const FILTERS: [(&str, Option<&str>); 7] = [
    ("identifier", None),
    ("name", Some("name")),
    ("active", Some("active")),
    ("member", Some("member")),
    ("address", Some("address")),
    ("district", Some("address")),
    ("region", Some("address")),
];
/// The fields that groups are searched by code in.
const CODED: [CodedField; 3] = [CodedField::GroupType, CodedField::HousingType, CodedField::AddressCountry];
/// What groups can be sorted by.
pub const SORTABLE: [SortField; 4] = [
    SortField::Name,
    SortField::Code(CodedField::GroupType),
    SortField::Code(CodedField::HousingType),
    SortField::LastUpdated,
];

/// Searches groups.
pub async fn search(
    auth: Auth<scope::GroupRead>,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let ctx = auth.into_context();
    let generation = app.registry.vocabularies.current();
    let coded = CodedFilters::new(CODED, generation.extension_fields());
    let coded_names = coded.names();
    let names = FILTERS.iter().map(|(name, _)| *name).chain(coded_names.iter().map(String::as_str));
    let names: Vec<&str> = names.collect();
    let of = Searchable { kind: RecordKind::Group, filters: &names, sort: &SORTABLE, elements: GROUP };
    let search = Search::read(&app, &ctx, &query, &of)?;
    let looked_at = looked_at(&search.parameters, &coded);
    group::check_search(&ctx, &looked_at, &search.paging)?;
    let request = read_conditions(&search.parameters, &coded)?;
    let paging = (&search.paging, wanted(search.elements()));
    let page = group::search(&ctx, &app.registry, languages(&app, &headers), request, paging).await?;
    search.answer(&app, &ctx, &page, write)
}

/// What a client asks for by the filters of a search alone, each of which it may look at.
///
/// # Errors
/// 400 that names a parameter that there is not, or a value that cannot be read, and 403 naming a field.
pub fn filter(app: &AppState, ctx: &OpContext, parameters: &Parameters) -> Result<GroupSearchRequest, ApiError> {
    let coded = CodedFilters::new(CODED, app.registry.vocabularies.current().extension_fields());
    let coded_names = coded.names();
    let names = FILTERS.iter().map(|(name, _)| *name).chain(coded_names.iter().map(String::as_str));
    let names: Vec<&str> = names.chain(["_last_updated"]).collect();
    parameters.expect_only(&names)?;
    group::check_search(ctx, &looked_at(parameters, &coded), &Paging::default())?;
    read_conditions(parameters, &coded)
}

/// The fields of the record that filters look at.
fn looked_at(parameters: &Parameters, coded: &CodedFilters) -> Vec<String> {
    let field_of = |name: &str| {
        let plain = FILTERS.iter().find(|(known, _)| *known == name).and_then(|(_, field)| *field);
        plain.map(str::to_owned).or_else(|| coded.field(name))
    };
    parameters.names().filter_map(field_of).collect()
}

/// The filters of a search.
fn read_conditions(parameters: &Parameters, coded: &CodedFilters) -> Result<GroupSearchRequest, ApiError> {
    Ok(GroupSearchRequest {
        identifiers: filters::identifiers(parameters, "identifier")?,
        texts: filters::texts(parameters)?,
        codes: coded.read(parameters)?,
        active: parameters.boolean("active")?,
        members: parameters.all("member").map(member).collect::<Result<_, _>>()?,
        last_updated: filters::last_updated(parameters)?,
    })
}

/// A person as `system|value`, or as a group refers to it.
fn member(text: &str) -> Result<IdentifierKey, ApiError> {
    Ok(reference("member", text, &[RecordKind::Individual])?.1)
}
