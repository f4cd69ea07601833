//! `GET /Individual`

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::record_search::{Search, Searchable};
use super::search::languages;
use crate::api::access::{Auth, scope};
use crate::api::dto::individual as body;
use crate::api::elements::INDIVIDUAL;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::filters::{self, CodedFilters};
use crate::api::extract::query::{Parameters, RawQuery};
use crate::state::AppState;
use daftar_domain::context::OpContext;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::RecordKind;
use daftar_domain::search::order::SortField;
use daftar_domain::vocabulary::CodedField;
use daftar_service::individual::{self, Beside, GroupFilter, SearchRequest};
use daftar_service::search::Paging;

/// The filters, beside those by code, each with the field of the record that it looks at; none, where everybody may look.
const FILTERS: [(&str, Option<&str>); 7] = [
    ("identifier", None),
    ("name", Some("name")),
    ("birth_date", Some("birth_date")),
    ("address", Some("address")),
    ("district", Some("address")),
    ("region", Some("address")),
    ("active", Some("active")),
];
/// The filters that look at groups.
const BY_GROUPS: [&str; 3] = ["group", "membership_role", "membership_role:below"];
/// What lies beside the records and a search does not give: a page of the largest photos would be half a gigabyte.
pub const BESIDE: [&str; 2] = ["photo", "group_membership"];
/// What people can be sorted by.
pub const SORTABLE: [SortField; 13] = [
    SortField::Name,
    SortField::BirthDate,
    SortField::DeceasedDate,
    SortField::Code(CodedField::Gender),
    SortField::Code(CodedField::MaritalStatus),
    SortField::Code(CodedField::Country),
    SortField::Code(CodedField::Religion),
    SortField::Code(CodedField::EthnoculturalStatus),
    SortField::Code(CodedField::Education),
    SortField::Code(CodedField::Occupation),
    SortField::Code(CodedField::EconomicActivity),
    SortField::Code(CodedField::PregnancyStatus),
    SortField::LastUpdated,
];

/// Searches individuals.
pub async fn search(
    auth: Auth<scope::IndividualRead>,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let ctx = auth.into_context();
    let generation = app.registry.vocabularies.current();
    let coded = CodedFilters::new(coded_fields(), generation.extension_fields());
    let coded_names = coded.names();
    let names = FILTERS.iter().map(|(name, _)| *name).chain(BY_GROUPS).chain(coded_names.iter().map(String::as_str));
    let names: Vec<&str> = names.collect();
    let of = Searchable { kind: RecordKind::Individual, filters: &names, sort: &SORTABLE, elements: INDIVIDUAL };
    let search = Search::read(&app, &ctx, &query, &of)?;
    if let Some(field) = BESIDE.into_iter().find(|field| search.names_element(field)) {
        let detail =
            format!("`_elements` names `{field}`, which a search does not give; it is given by reading one individual");
        return Err(Problem::malformed(detail).into());
    }
    let is_by_groups = search.parameters.names().any(|name| BY_GROUPS.contains(&name));
    let looked_at: Vec<String> = search.parameters.names().filter_map(|name| field_of(name, &coded)).collect();
    individual::check_search(&ctx, &looked_at, is_by_groups, &search.paging)?;
    let request = read_conditions(&search.parameters, &coded)?;
    let languages = languages(&app, &headers);
    let (page, codes) = individual::search(&ctx, &app.registry, languages, request, &search.paging).await?;
    let show = |value| codes.show(value);
    let (beside, fields) = (Beside::default(), codes.extension_fields());
    search.answer(&app, &ctx, &page, |seen| body::write(&seen.record, (&seen.fields, &beside), fields, &show))
}

fn coded_fields() -> impl Iterator<Item = CodedField> {
    let inside = [CodedField::AddressCountry, CodedField::IncomeCurrency];
    CodedField::individual_singles().chain(CodedField::individual_lists()).chain(inside)
}

/// The field of the record that a filter looks at.
fn field_of(name: &str, coded: &CodedFilters) -> Option<String> {
    let plain = FILTERS.iter().find(|(known, _)| *known == name).and_then(|(_, field)| *field);
    plain.map(str::to_owned).or_else(|| coded.field(name))
}

/// What a search asks for whose parameters are filters and those `others`.
///
/// # Errors
/// 400 that names a parameter that there is not, or a value that cannot be read.
pub fn request(app: &AppState, parameters: &Parameters, others: &[&str]) -> Result<SearchRequest, ApiError> {
    let generation = app.registry.vocabularies.current();
    let coded = CodedFilters::new(coded_fields(), generation.extension_fields());
    let coded_names = coded.names();
    let names = FILTERS.iter().map(|(name, _)| *name).chain(BY_GROUPS).chain(coded_names.iter().map(String::as_str));
    let names: Vec<&str> = names.chain(["_last_updated"]).chain(others.iter().copied()).collect();
    parameters.expect_only(&names)?;
    read_conditions(parameters, &coded)
}

/// What a client asks for by the filters of a search alone, each of which it may look at.
///
/// # Errors
/// 400 as [`request`], and 403 naming a field.
pub fn filter(app: &AppState, ctx: &OpContext, parameters: &Parameters) -> Result<SearchRequest, ApiError> {
    let request = request(app, parameters, &[])?;
    let coded = CodedFilters::new(coded_fields(), app.registry.vocabularies.current().extension_fields());
    let looked_at: Vec<String> = parameters.names().filter_map(|name| field_of(name, &coded)).collect();
    let is_by_groups = parameters.names().any(|name| BY_GROUPS.contains(&name));
    individual::check_search(ctx, &looked_at, is_by_groups, &Paging::default())?;
    Ok(request)
}

/// The filters of a search.
fn read_conditions(parameters: &Parameters, coded: &CodedFilters) -> Result<SearchRequest, ApiError> {
    let mut groups = Vec::new();
    for text in parameters.all("group") {
        groups.push(match text {
            "none" => GroupFilter::None,
            text => GroupFilter::Identifier(group(text)?),
        });
    }
    Ok(SearchRequest {
        identifiers: filters::identifiers(parameters, "identifier")?,
        texts: filters::texts(parameters)?,
        birth_date: filters::days(parameters, "birth_date")?,
        codes: coded.read(parameters)?,
        active: parameters.boolean("active")?,
        groups,
        roles: filters::codes(parameters, "membership_role")?,
        last_updated: filters::last_updated(parameters)?,
    })
}

/// A group as `system|value`, or as other records refer to it.
fn group(text: &str) -> Result<IdentifierKey, ApiError> {
    Ok(crate::api::extract::query::reference("group", text, &[RecordKind::Group])?.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::extension::ExtensionFields;

    #[test]
    fn every_filter_it_reads_is_known() {
        let coded = CodedFilters::new(coded_fields(), &ExtensionFields::default());
        let parameters = Parameters::parse("gender=urn%3Aiso%3Astd%3Aiso%3A5218%232&languages=urn%3Ax%7Cfr&address.country=urn%3Ay%23FR&occupation:below=urn%3Az%231&name=Jos%C3%A9&birth_date=ge2000-01-01&birth_date=lt2001-01-01&identifier=urn%3Aa%7C1&active=true&group=none&group=Group/urn%3Aa%7C1&membership_role=urn%3Ar%23head&region=Nord-Est&address=rue+12").unwrap();
        let request = read_conditions(&parameters, &coded).unwrap();
        assert_eq!(request.codes.len(), 4);
        assert_eq!(
            request.codes.iter().filter(|filter| filter.reach == daftar_service::search::Reach::Below).count(),
            1
        );
        assert_eq!(request.texts.name_words, ["jose"]);
        assert_eq!(request.texts.address_words, ["rue", "12"]);
        assert_eq!(request.texts.regions, ["nord est"]);
        assert_eq!(request.birth_date.len(), 2);
        assert_eq!((request.groups.len(), request.roles.len(), request.identifiers.len()), (2, 1, 1));
        assert_eq!(request.active, Some(true));
        for wrong in ["gender=urn%3Aiso%3Astd%3Aiso%3A5218", "identifier=urn%3Aa", "name=--", "active=yes", "group=x"] {
            assert!(read_conditions(&Parameters::parse(wrong).unwrap(), &coded).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_it_sorts_by_are_fields_of_the_record_that_are_granted_by_the_same_name() {
        let fields = daftar_domain::field::fields_of(daftar_domain::scope::Resource::Individual);
        for key in SORTABLE.iter().filter_map(|key| key.field()) {
            assert!(fields.contains(&key), "{key}");
        }
    }
}
