//! `GET /Individual`

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::record_search::{Search, Searchable};
use super::search::languages;
use crate::api::access::{Auth, scope};
use crate::api::dto::record as body;
use crate::api::elements::Elements;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::filters::{self, Filters, NamedFilter};
use crate::api::extract::query::{Parameters, RawQuery};
use crate::state::AppState;
use daftar_domain::context::OpContext;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::RecordKind;
use daftar_service::individual::{self, GroupFilter, SearchRequest};
use daftar_service::search::Paging;

/// The filters beside those on days, on whole texts and by code.
const FILTERS: [NamedFilter; 4] =
    [("identifier", None), ("name", Some("name")), ("address", Some("address")), ("active", Some("active"))];
/// The filters that look at groups.
const BY_GROUPS: [&str; 3] = ["group", "membership_role", "membership_role:below"];
/// What lies beside the records and a search does not give: a page of the largest photos would be half a gigabyte.
pub const BESIDE: [&str; 2] = ["photo", "group_membership"];

/// Searches individuals.
pub async fn search(
    auth: Auth<scope::IndividualRead>,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let ctx = auth.into_context();
    let known = filters_of(&app);
    let names = known.names();
    let names: Vec<&str> = names.iter().map(String::as_str).chain(BY_GROUPS).collect();
    let search = Search::read(&app, &ctx, &query, &Searchable { kind: RecordKind::Individual, filters: &names })?;
    if let Some(field) = BESIDE.into_iter().find(|field| search.names_element(field)) {
        let detail =
            format!("`_elements` names `{field}`, which a search does not give; it is given by reading one individual");
        return Err(Problem::malformed(detail).into());
    }
    let is_by_groups = search.parameters.names().any(|name| BY_GROUPS.contains(&name));
    individual::check_search(&ctx, &known.looked_at(&search.parameters), is_by_groups, &search.paging)?;
    let request = read_conditions(&search.parameters, &known)?;
    let languages = languages(&app, &headers);
    let elements = search.elements();
    let are_related_wanted =
        (Elements::wants(elements, "relationship"), Elements::wants_part(elements, "relationship", "target"));
    let paging = (&search.paging, are_related_wanted);
    let found = individual::search(&ctx, &app.registry, languages, request, paging).await?;
    search.answer(&app, &ctx, &found.page, |seen| body::found_individual(&found, seen))
}

fn filters_of(app: &AppState) -> Filters {
    Filters::new(RecordKind::Individual, &FILTERS, app.registry.vocabularies.current().extension_fields())
}

/// What a search asks for whose parameters are filters and those `others`.
///
/// # Errors
/// 400 that names a parameter that there is not, or a value that cannot be read.
pub fn request(app: &AppState, parameters: &Parameters, others: &[&str]) -> Result<SearchRequest, ApiError> {
    let known = filters_of(app);
    let names = known.names();
    let names = names.iter().map(String::as_str).chain(BY_GROUPS).chain(["_last_updated"]);
    let names: Vec<&str> = names.chain(others.iter().copied()).collect();
    parameters.expect_only(&names)?;
    read_conditions(parameters, &known)
}

/// What a client asks for by the filters of a search alone, each of which it may look at.
///
/// # Errors
/// 400 as [`request`], and 403 naming a field.
pub fn filter(app: &AppState, ctx: &OpContext, parameters: &Parameters) -> Result<SearchRequest, ApiError> {
    let request = request(app, parameters, &[])?;
    let looked_at = filters_of(app).looked_at(parameters);
    let is_by_groups = parameters.names().any(|name| BY_GROUPS.contains(&name));
    individual::check_search(ctx, &looked_at, is_by_groups, &Paging::default())?;
    Ok(request)
}

/// The filters of a search.
fn read_conditions(parameters: &Parameters, known: &Filters) -> Result<SearchRequest, ApiError> {
    let mut groups = Vec::new();
    for text in parameters.all("group") {
        groups.push(match text {
            "none" => GroupFilter::None,
            text => GroupFilter::Identifier(group(text)?),
        });
    }
    Ok(SearchRequest {
        identifiers: filters::identifiers(parameters, "identifier")?,
        texts: known.texts(parameters)?,
        dates: known.dates(parameters)?,
        codes: known.codes(parameters)?,
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
    use daftar_domain::search::order::sort_fields;
    use daftar_domain::search::phrase::PhraseField;

    #[test]
    fn every_filter_it_reads_is_known() {
        let known = Filters::new(RecordKind::Individual, &FILTERS, &ExtensionFields::default());
        let parameters = Parameters::parse("gender=urn%3Aiso%3Astd%3Aiso%3A5218%232&languages=urn%3Ax%7Cfr&address.country=urn%3Ay%23FR&occupation:below=urn%3Az%231&name=Jos%C3%A9&birth_date=ge2000-01-01&birth_date=lt2001-01-01&identifier=urn%3Aa%7C1&active=true&group=none&group=Group/urn%3Aa%7C1&membership_role=urn%3Ar%23head&region=Nord-Est&address=rue+12").unwrap();
        let request = read_conditions(&parameters, &known).unwrap();
        assert_eq!(request.codes.len(), 4);
        assert_eq!(
            request.codes.iter().filter(|filter| filter.reach == daftar_service::search::Reach::Below).count(),
            1
        );
        assert_eq!(request.texts.name_words, ["jose"]);
        assert_eq!(request.texts.address_words, ["rue", "12"]);
        assert_eq!(
            request.texts.phrases,
            [(PhraseField::find(RecordKind::Individual, "region").unwrap(), "nord est".to_owned())]
        );
        assert_eq!(request.dates["birth_date"].len(), 2);
        assert_eq!((request.groups.len(), request.roles.len(), request.identifiers.len()), (2, 1, 1));
        assert_eq!(request.active, Some(true));
        for wrong in ["gender=urn%3Aiso%3Astd%3Aiso%3A5218", "identifier=urn%3Aa", "name=--", "active=yes", "group=x"] {
            assert!(read_conditions(&Parameters::parse(wrong).unwrap(), &known).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_it_sorts_by_are_fields_of_the_record_that_are_granted_by_the_same_name() {
        let fields = daftar_domain::field::fields_of(daftar_domain::scope::Resource::Individual);
        for key in sort_fields(RecordKind::Individual).iter().filter_map(|key| key.field()) {
            assert!(fields.contains(&key), "{key}");
        }
    }
}
