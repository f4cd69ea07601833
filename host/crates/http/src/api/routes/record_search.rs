//! Searches of records: their common parameters and pages (`_count`, `_offset`, `_cursor`, `_sort`, `_elements`), and
//! the searches of `/Individual` and `/Group`. A cursor is the position of a client in the pages, sealed so that the
//! client cannot read it.
//!
//! **Invariant:** a cursor is valid only for the client, the search, its conditions and its order that it was issued
//! for; any other use is 400. It contains no data that the client was not shown, and its length reveals nothing about
//! its content.

use axum::Json;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use daftar_api_types::public::page::{Links, Page as PageBody};
use postcard::{from_bytes, to_stdvec};
use serde::{Deserialize, Serialize};

use crate::api::access::{Auth, scope};
use crate::api::dto::record as body;
use crate::api::elements::Elements;
use crate::api::endpoint::BASE_PATH;
use crate::api::error::{ApiResult, Problem};
use crate::api::extract::filters::{self, ENVELOPE, Filters, NamedFilter};
use crate::api::extract::query::{Parameters, reference};
use crate::api::routes::record::wanted;
use crate::state::AppState;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::record::RecordKind;
use daftar_domain::scope::Resource;
use daftar_domain::search::Page;
use daftar_domain::search::order::{Position, Start, Window, sort_fields};
use daftar_domain::subject::Subject;
use daftar_service::codes::LanguagePreference;
use daftar_service::eligibility::preview::SubjectSelection;
use daftar_service::group;
use daftar_service::individual::{self, GroupFilter};
use daftar_service::search::{FoundPage, Paging, check_fields};

/// A search whose own filters are not read yet.
pub struct Search<'c> {
    app: &'c AppState,
    ctx: &'c OpContext,
    kind: RecordKind,
    /// Every parameter.
    pub parameters: Parameters,
    /// Order and page.
    pub paging: Paging,
    elements: Option<Elements>,
}

impl<'c> Search<'c> {
    /// Reads the parameters of every search, and rejects unknown ones.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn read(
        (app, ctx): (&'c AppState, &'c OpContext),
        parameters: Parameters,
        kind: RecordKind,
        filters: &[&str],
    ) -> ApiResult<Self> {
        let known: Vec<&str> = filters.iter().copied().chain(ENVELOPE).collect();
        parameters.expect_only(&known)?;
        let sort = filters::sort(&parameters, sort_fields(kind))?;
        let page = parameters.page()?;
        let start = match parameters.one("_cursor")? {
            None => Start::Offset(page.offset),
            Some(_) if parameters.one("_offset")?.is_some() => {
                return Err(Problem::malformed("`_cursor` says where the page begins: leave `_offset` out").into());
            }
            Some(text) => Start::After(read_cursor(app, &cursor_purpose(ctx, kind, &parameters), text)?),
        };
        let elements = Elements::read(&parameters, kind)?;
        let paging = Paging { sort, window: Window { start, count: page.count } };
        Ok(Self { app, ctx, kind, parameters, paging, elements })
    }

    /// The selection of `_elements`.
    #[must_use]
    pub fn elements(&self) -> Option<&Elements> {
        self.elements.as_ref()
    }

    /// True if `_elements` names a field.
    #[must_use]
    pub fn names_element(&self, field: &str) -> bool {
        self.elements.is_some() && Elements::wants(self.elements.as_ref(), field)
    }

    /// The page as a response; `write` generates the body of a record.
    ///
    /// # Errors
    /// If a body or the cursor cannot be written.
    pub fn response<'p, R, B: Serialize>(&self, page: &'p FoundPage<R>, write: impl Fn(&'p R) -> B) -> ApiResult {
        let purpose = || cursor_purpose(self.ctx, self.kind, &self.parameters);
        let cursor = page.next.clone().map(|next| write_cursor(self.app, &purpose(), next));
        let links = self.links(cursor.transpose()?.as_deref());
        let offset = self.paging.window.passed();
        let bodies = page.records.iter().map(write);
        Ok(match &self.elements {
            None => {
                let data: Vec<B> = bodies.collect();
                Json(PageBody::new(data, page.total, offset, links)).into_response()
            }
            Some(elements) => {
                let data = bodies.map(|body| elements.keep(body)).collect::<Result<Vec<_>, _>>()?;
                Json(PageBody::new(data, page.total, offset, links)).into_response()
            }
        })
    }

    fn links(&self, next: Option<&str>) -> Links {
        let filters = self.parameters.encode_without(&["_count", "_offset", "_cursor"]);
        let separator = if filters.is_empty() { "" } else { "&" };
        let window = &self.paging.window;
        let link = |name: &str, value: &str| {
            let path = format!("{}{BASE_PATH}/{}", self.app.public_url, self.kind);
            format!("{path}?{filters}{separator}_count={}&{name}={value}", window.count)
        };
        let passed = window.passed();
        let this = match self.parameters.all("_cursor").next() {
            Some(cursor) => link("_cursor", cursor),
            None => link("_offset", &passed.to_string()),
        };
        let before = passed.saturating_sub(u64::from(window.count));
        let prev = (passed > 0).then(|| link("_offset", &before.to_string()));
        Links { this, next: next.map(|cursor| link("_cursor", cursor)), prev }
    }
}

/// The filters of groups other than those on days, on complete texts and by code.
const GROUP_FILTERS: [NamedFilter; 5] = [
    ("identifier", None),
    ("name", Some("name")),
    ("active", Some("active")),
    ("member", Some("member")),
    ("address", Some("address")),
];
/// The filters of individuals other than those on days, on complete texts and by code.
const INDIVIDUAL_FILTERS: [NamedFilter; 4] =
    [("identifier", None), ("name", Some("name")), ("address", Some("address")), ("active", Some("active"))];
/// The filters that check groups.
const BY_GROUPS: [&str; 3] = ["group", "membership_role", "membership_role:below"];
/// Members stored outside the records, which a search omits: a page of the largest photos would be half a gigabyte.
pub const EXTRA_ELEMENTS: [&str; 2] = ["photo", "group_membership"];

/// The filters of individuals or of groups.
struct SubjectFilters {
    subject: Subject,
    filters: Filters,
    /// The names of the parameters.
    names: Vec<String>,
}

impl SubjectFilters {
    fn new(app: &AppState, subject: Subject) -> Self {
        let (named, by_groups): (&[NamedFilter], &[&str]) = match subject {
            Subject::Individual => (&INDIVIDUAL_FILTERS, &BY_GROUPS),
            Subject::Group => (&GROUP_FILTERS, &[]),
        };
        let generation = app.registry.vocabularies.current();
        let filters = Filters::new(subject.record_kind(), named, generation.extension_fields());
        let mut names = filters.names();
        names.extend(by_groups.iter().map(|name| (*name).to_owned()));
        Self { subject, filters, names }
    }

    /// Reads the parameters of a search of these subjects.
    fn search<'c>(&self, call: (&'c AppState, &'c OpContext), parameters: Parameters) -> ApiResult<Search<'c>> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        Search::read(call, parameters, self.subject.record_kind(), &names)
    }

    /// Rejects parameters that are neither filters nor `others`.
    fn expect_only(&self, parameters: &Parameters, others: &[&str]) -> ApiResult<()> {
        let names = self.names.iter().map(String::as_str).chain(["_last_updated"]).chain(others.iter().copied());
        parameters.expect_only(&names.collect::<Vec<&str>>())
    }

    /// Checks that the client may use every field that a search filters or sorts by.
    fn check(&self, ctx: &OpContext, parameters: &Parameters, paging: &Paging) -> ApiResult<()> {
        let filtered = self.filters.inspected(parameters);
        if self.subject == Subject::Individual {
            let is_by_groups = parameters.names().any(|name| BY_GROUPS.contains(&name));
            individual::check_search(ctx, &filtered, is_by_groups, paging)?;
        } else {
            check_fields(ctx, Resource::Group, &filtered, &paging.sort)?;
        }
        Ok(())
    }
}

/// Searches groups.
pub async fn search_groups(call: Auth<scope::GroupRead>, parameters: Parameters, headers: HeaderMap) -> ApiResult {
    let known = SubjectFilters::new(&call.app, Subject::Group);
    let search = known.search((&call.app, &call.ctx), parameters)?;
    known.check(&call.ctx, &search.parameters, &search.paging)?;
    let request = read_group_conditions(&search.parameters, &known.filters)?;
    let paging = (&search.paging, wanted(search.elements()));
    let page = group::search(&call.ctx, &call.app.registry, languages(&call.app, &headers), request, paging).await?;
    search.response(&page, body::group)
}

/// The filters of a search of groups.
fn read_group_conditions(parameters: &Parameters, known: &Filters) -> ApiResult<group::SearchRequest> {
    let members = parameters.all("member").map(|text| Ok(reference("member", text, &[RecordKind::Individual])?.1));
    let members = members.collect::<ApiResult<_>>()?;
    Ok(group::SearchRequest { common: known.conditions(parameters)?, members })
}

/// Searches individuals.
pub async fn search_individuals(
    call: Auth<scope::IndividualRead>,
    parameters: Parameters,
    headers: HeaderMap,
) -> ApiResult {
    let known = SubjectFilters::new(&call.app, Subject::Individual);
    let search = known.search((&call.app, &call.ctx), parameters)?;
    if let Some(field) = EXTRA_ELEMENTS.into_iter().find(|field| search.names_element(field)) {
        let detail =
            format!("`_elements` names `{field}`, which a search does not give; it is given by reading one individual");
        return Err(Problem::malformed(detail).into());
    }
    known.check(&call.ctx, &search.parameters, &search.paging)?;
    let request = read_individual_conditions(&search.parameters, &known.filters)?;
    let languages = languages(&call.app, &headers);
    let elements = search.elements();
    let are_related_wanted =
        (Elements::wants(elements, "relationship"), Elements::wants_part(elements, "relationship", "target"));
    let paging = (&search.paging, are_related_wanted);
    let found = individual::search(&call.ctx, &call.app.registry, languages, request, paging).await?;
    search.response(&found.page, |seen| body::found_individual(&found, seen))
}

/// Reads a search request for individuals whose parameters are filters and `others`.
///
/// # Errors
/// 400 naming an unknown parameter, or an invalid value.
pub fn individual_request(
    app: &AppState,
    parameters: &Parameters,
    others: &[&str],
) -> ApiResult<individual::SearchRequest> {
    let known = SubjectFilters::new(app, Subject::Individual);
    known.expect_only(parameters, others)?;
    read_individual_conditions(parameters, &known.filters)
}

/// Reads the search of a client from filters alone, and checks its permission for each.
///
/// # Errors
/// 400 naming an unknown parameter or an invalid value, and 403 naming a field.
pub fn selection(
    app: &AppState,
    ctx: &OpContext,
    subject: Subject,
    parameters: &Parameters,
) -> ApiResult<SubjectSelection> {
    let known = SubjectFilters::new(app, subject);
    known.expect_only(parameters, &[])?;
    known.check(ctx, parameters, &Paging::default())?;
    Ok(match subject {
        Subject::Individual => SubjectSelection::Individuals(read_individual_conditions(parameters, &known.filters)?),
        Subject::Group => SubjectSelection::Groups(read_group_conditions(parameters, &known.filters)?),
    })
}

/// The filters of a search of individuals.
fn read_individual_conditions(parameters: &Parameters, known: &Filters) -> ApiResult<individual::SearchRequest> {
    let mut groups = Vec::new();
    for text in parameters.all("group") {
        groups.push(match text {
            "none" => GroupFilter::None,
            text => GroupFilter::Identifier(reference("group", text, &[RecordKind::Group])?.1),
        });
    }
    let roles = filters::codes(parameters, "membership_role")?;
    Ok(individual::SearchRequest { common: known.conditions(parameters)?, groups, roles })
}

/// A page of a list with its links; `path` is the list's URL without a query.
#[must_use]
pub fn page_of<T>(data: Vec<T>, total: u64, page: Page, path: &str, parameters: &Parameters) -> PageBody<T> {
    let filters = parameters.encode_without(&["_count", "_offset"]);
    let link = |offset: u64| {
        let separator = if filters.is_empty() { "" } else { "&" };
        format!("{path}?{filters}{separator}_count={}&_offset={offset}", page.count)
    };
    let after = page.offset.saturating_add(u64::from(page.count));
    let links = Links {
        this: link(page.offset),
        next: (after < total).then(|| link(after)),
        prev: (page.offset > 0).then(|| link(page.offset.saturating_sub(u64::from(page.count)))),
    };
    PageBody::new(data, total, page.offset, links)
}

/// The preferred languages of the client.
#[must_use]
pub fn languages(app: &AppState, headers: &HeaderMap) -> LanguagePreference {
    // A list may be sent in several headers.
    let given = headers.get_all(header::ACCEPT_LANGUAGE).iter().filter_map(|value| value.to_str().ok());
    let wanted = given.collect::<Vec<_>>().join(",");
    let wanted = if wanted.is_empty() { &app.config.vocabulary.default_language } else { &wanted };
    LanguagePreference::parse(wanted)
}

/// The parameters that may differ between pages.
const FREE: [&str; 4] = ["_cursor", "_count", "_offset", "_elements"];

/// The sealed format. Another format has another version; cursors of earlier versions are rejected.
#[derive(Serialize, Deserialize)]
enum CursorForm {
    V1(Position),
}

/// The purpose that a cursor of a search is sealed for.
fn cursor_purpose(ctx: &OpContext, kind: RecordKind, parameters: &Parameters) -> Vec<u8> {
    let client = ctx.client().map(ToString::to_string).unwrap_or_default();
    format!("{client}\n{kind}\n{}", parameters.sorted_without(&FREE)).into_bytes()
}

/// Writes a cursor.
///
/// # Errors
/// If it cannot be sealed.
fn write_cursor(app: &AppState, purpose: &[u8], position: Position) -> Result<String, AppError> {
    let message = to_stdvec(&CursorForm::V1(position)).map_err(|error| AppError::Internal(error.into()))?;
    let sealed = app.cursors.seal(purpose, &message);
    sealed.map_err(|error| AppError::Internal(error.into()))
}

/// Reads a cursor that was written for the same client and search.
///
/// # Errors
/// 400 for any other text.
fn read_cursor(app: &AppState, purpose: &[u8], text: &str) -> ApiResult<Position> {
    let message = app.cursors.open(purpose, text);
    let Some(Ok(CursorForm::V1(position))) = message.map(|message| from_bytes(&message)) else {
        let detail = "`_cursor` is not one that this server gave this client for this search: follow `links.next` as it is, with \
            the same filters and the same `_sort`, or begin again without `_cursor`";
        return Err(AppError::InvalidCursor(detail).into());
    };
    Ok(position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::extension::ExtensionFields;
    use daftar_domain::search::order::sort_fields;
    use daftar_domain::search::phrase::PhraseField;

    #[test]
    fn every_filter_it_reads_is_known() {
        let known = Filters::new(RecordKind::Individual, &INDIVIDUAL_FILTERS, &ExtensionFields::default());
        let parameters = Parameters::parse("gender=urn%3Aiso%3Astd%3Aiso%3A5218%232&languages=urn%3Ax%7Cfr&address.country=urn%3Ay%23FR&occupation:below=urn%3Az%231&name=Jos%C3%A9&birth_date=ge2000-01-01&birth_date=lt2001-01-01&identifier=urn%3Aa%7C1&active=true&group=none&group=Group/urn%3Aa%7C1&membership_role=urn%3Ar%23head&region=Nord-Est&address=rue+12").unwrap();
        let request = read_individual_conditions(&parameters, &known).unwrap();
        assert_eq!(request.common.codes.len(), 4);
        assert_eq!(
            request.common.codes.iter().filter(|filter| filter.reach == daftar_service::search::Reach::Below).count(),
            1
        );
        assert_eq!(request.common.texts.name_words, ["jose"]);
        assert_eq!(request.common.texts.address_words, ["rue", "12"]);
        assert_eq!(
            request.common.texts.phrases,
            [(PhraseField::find(RecordKind::Individual, "region").unwrap(), "nord est".to_owned())]
        );
        assert_eq!(request.common.dates["birth_date"].len(), 2);
        assert_eq!((request.groups.len(), request.roles.len(), request.common.identifiers.len()), (2, 1, 1));
        assert_eq!(request.common.active, Some(true));
        for wrong in ["gender=urn%3Aiso%3Astd%3Aiso%3A5218", "identifier=urn%3Aa", "name=--", "active=yes", "group=x"] {
            assert!(read_individual_conditions(&Parameters::parse(wrong).unwrap(), &known).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sort_keys_are_record_fields_with_the_same_name_in_grants() {
        let fields = daftar_domain::field::fields_of(daftar_domain::scope::Resource::Individual);
        for key in sort_fields(RecordKind::Individual).iter().filter_map(|key| key.field()) {
            assert!(fields.contains(&key), "{key}");
        }
    }
}

#[cfg(test)]
mod search_tests {
    use super::*;

    #[test]
    fn links_keep_the_filters_and_stop_at_the_ends() {
        let parameters = Parameters::parse("gender=urn%3Ax%232&_count=2&_offset=2").unwrap();
        let page = Page { offset: 2, count: 2 };
        let envelope = page_of(vec![1, 2], 5, page, "https://h/p", &parameters);
        let text = serde_json::to_value(&envelope).unwrap();
        assert_eq!(text["links"]["self"], "https://h/p?gender=urn%3Ax%232&_count=2&_offset=2");
        assert_eq!(text["links"]["next"], "https://h/p?gender=urn%3Ax%232&_count=2&_offset=4");
        assert_eq!(text["links"]["prev"], "https://h/p?gender=urn%3Ax%232&_count=2&_offset=0");
        let last = page_of(vec![1], 5, Page { offset: 4, count: 2 }, "https://h/p", &parameters);
        assert_eq!(serde_json::to_value(&last).unwrap()["links"]["next"], serde_json::Value::Null);
    }
}
