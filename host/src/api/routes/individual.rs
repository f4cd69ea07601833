//! `/Individual`

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use percent_encoding::utf8_percent_encode;

use super::search::{Envelope, languages};
use crate::api::access::{Auth, scope};
use crate::api::dto::individual as body;
use crate::api::dto::merge::patched;
use crate::api::dto::named::named;
use crate::api::dto::reader::Problems;
use crate::api::elements::{Elements, INDIVIDUAL};
use crate::api::error::{ApiError, Problem};
use crate::api::extract::body::{JsonObject, RECORD_BYTES_MAX};
use crate::api::extract::if_match::Conditions;
use crate::api::extract::path::{IdentifierPath, PATH_PART};
use crate::api::extract::query::{Parameters, RawQuery};
use crate::api::router::BASE_PATH;
use crate::app::AppState;
use crate::domain::calendar::parse_date;
use crate::domain::code::CodeUri;
use crate::domain::identifier::IdentifierKey;
use crate::domain::person_name::search_words;
use crate::domain::record::{RecordKind, RecordMeta};
use crate::domain::scope::{Action, Resource};
use crate::domain::search::{DateCondition, DateOperator};
use crate::domain::vocabulary::CodedField;
use crate::service::individual::{self, IndividualView, SearchRequest};
use crate::service::written::Spoken;

/// Reads one individual by identifier.
pub async fn read(
    auth: Auth<scope::IndividualRead>,
    State(app): State<AppState>,
    IdentifierPath(key): IdentifierPath,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let parameters = Parameters::parse(&query)?;
    parameters.expect_only(&["_elements"])?;
    let elements = Elements::read(&parameters, INDIVIDUAL)?;
    let ctx = auth.into_context();
    let view = individual::read(&ctx, &app.registry, languages(&app, &headers), &key).await?;
    let body = Elements::answer(elements.as_ref(), write(&view))?;
    Ok(([(header::ETAG, etag(&view.individual.meta))], body).into_response())
}

/// Registers an individual.
pub async fn create(
    auth: Auth<scope::IndividualCreate>,
    State(app): State<AppState>,
    headers: HeaderMap,
    JsonObject(members): JsonObject<RECORD_BYTES_MAX>,
) -> Result<Response, ApiError> {
    let ctx = auth.into_context();
    let mut problems = Problems::default();
    let draft = body::read(members, app.registry.vocabularies.current().extension_fields(), &mut problems);
    let draft = problems.finish(draft)?;
    let view = individual::create(&ctx, &app.registry, languages(&app, &headers), draft).await?;
    Ok(answer(&app, StatusCode::CREATED, &view))
}

/// Replaces what is said of an individual.
pub async fn replace(
    auth: Auth<scope::IndividualUpdate>,
    State(app): State<AppState>,
    IdentifierPath(key): IdentifierPath,
    Conditions { query, condition, headers }: Conditions,
    JsonObject(members): JsonObject<RECORD_BYTES_MAX>,
) -> Result<Response, ApiError> {
    query.expect_only(&[])?;
    let ctx = auth.into_context();
    let spoken = Spoken::Whole(named(Resource::Individual, &members));
    let mut problems = Problems::default();
    let draft = body::read(members, app.registry.vocabularies.current().extension_fields(), &mut problems);
    let draft = problems.finish(draft)?;
    let make = |_: &IndividualView| Ok(draft.clone());
    let languages = languages(&app, &headers);
    let view = individual::change(&ctx, &app.registry, languages, (&key, &condition), &spoken, &make).await?;
    Ok(answer(&app, StatusCode::OK, &view))
}

/// Changes the fields that the body names; `null` takes one out (RFC 7396).
pub async fn patch(
    auth: Auth<scope::IndividualUpdate>,
    State(app): State<AppState>,
    IdentifierPath(key): IdentifierPath,
    Conditions { query, condition, headers }: Conditions,
    JsonObject(patch): JsonObject<RECORD_BYTES_MAX>,
) -> Result<Response, ApiError> {
    query.expect_only(&[])?;
    let ctx = auth.into_context();
    let spoken = Spoken::Named(named(Resource::Individual, &patch));
    let make = |present: &IndividualView| {
        body::check_unseen(&patch, &ctx.fields(Resource::Individual, Action::Read), present.codes.extension_fields())?;
        let members = patched(write(present), patch.clone())?;
        let mut problems = Problems::default();
        let draft = body::read(members, present.codes.extension_fields(), &mut problems);
        problems.finish(draft)
    };
    let languages = languages(&app, &headers);
    let view = individual::change(&ctx, &app.registry, languages, (&key, &condition), &spoken, &make).await?;
    Ok(answer(&app, StatusCode::OK, &view))
}

/// The answer to a write.
pub(in crate::api) fn answer(app: &AppState, status: StatusCode, view: &IndividualView) -> Response {
    let tag = [(header::ETAG, etag(&view.individual.meta))];
    let location = located(app, status, RecordKind::Individual, &view.individual.details.identifiers);
    (status, tag, location, Json(write(view))).into_response()
}

fn write(view: &IndividualView) -> body::IndividualBody<'_> {
    body::write(&view.individual, &view.fields, view.codes.extension_fields(), &|value| view.codes.show(value))
}

/// Searches individuals.
pub async fn search(
    auth: Auth<scope::IndividualRead>,
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let parameters = Parameters::parse(&query)?;
    let request = read_conditions(&parameters)?;
    let page = parameters.page()?;
    let elements = Elements::read(&parameters, INDIVIDUAL)?;
    let ctx = auth.into_context();
    let found = individual::search(&ctx, &app.registry, languages(&app, &headers), request, page).await?;
    let show = |value| found.codes.show(value);
    let seen = found.individuals.iter();
    let bodies = seen.map(|seen| body::write(&seen.record, &seen.fields, found.codes.extension_fields(), &show));
    let path = format!("{}{BASE_PATH}/Individual", app.public_url);
    let Some(elements) = elements else {
        return Ok(Json(Envelope::new(bodies.collect(), found.total, page, &path, &parameters)).into_response());
    };
    let bodies: Result<Vec<_>, _> = bodies.map(|body| elements.keep(body)).collect();
    Ok(Json(Envelope::new(bodies?, found.total, page, &path, &parameters)).into_response())
}

/// The filters of a search, beside `_count` and `_offset`.
fn read_conditions(parameters: &Parameters) -> Result<SearchRequest, ApiError> {
    let coded =
        || CodedField::individual_singles().chain(CodedField::individual_lists()).chain([CodedField::AddressCountry]);
    let mut known = vec!["identifier", "name", "birth_date", "active", "_count", "_offset", "_elements"];
    known.extend(coded().map(CodedField::path));
    parameters.expect_only(&known)?;
    let mut request = SearchRequest { active: parameters.boolean("active")?, ..SearchRequest::default() };
    for text in parameters.all("identifier") {
        let key = IdentifierKey::parse(text);
        request.identifiers.push(key.map_err(|error| Problem::malformed(format!("`identifier`: {error}")))?);
    }
    for text in parameters.all("name") {
        let words = search_words(text);
        if words.is_empty() {
            return Err(Problem::malformed("`name` holds no word to search for").into());
        }
        request.name_words.extend(words);
    }
    for text in parameters.all("birth_date") {
        request.birth_date.push(date_condition("birth_date", text)?);
    }
    for field in coded() {
        for text in parameters.all(field.path()) {
            let code = CodeUri::parse(text);
            let code = code.map_err(|error| Problem::malformed(format!("`{}`: {error}", field.path())))?;
            request.codes.push((field, code));
        }
    }
    Ok(request)
}

fn date_condition(name: &str, text: &str) -> Result<DateCondition, ApiError> {
    let operators = [
        ("eq", DateOperator::Equal),
        ("ne", DateOperator::NotEqual),
        ("gt", DateOperator::After),
        ("ge", DateOperator::OnOrAfter),
        ("lt", DateOperator::Before),
        ("le", DateOperator::OnOrBefore),
    ];
    let prefixed =
        operators.iter().find_map(|(prefix, operator)| text.strip_prefix(prefix).map(|rest| (*operator, rest)));
    let (operator, day) = prefixed.unwrap_or((DateOperator::Equal, text));
    match parse_date(day) {
        Ok(date) => Ok(DateCondition { operator, date }),
        Err(error) => {
            let detail =
                format!("`{name}` is a date, perhaps after eq, ne, gt, ge, lt or le, such as `ge2000-01-31`: {error}");
            Err(Problem::malformed(detail).into())
        }
    }
}

/// The entity tag of a record: its version.
#[must_use]
pub fn etag(meta: &RecordMeta) -> String {
    format!("\"{}\"", meta.version)
}

/// Where a record is, for an answer that says that something was made.
#[must_use]
pub fn located(
    app: &AppState,
    status: StatusCode,
    kind: RecordKind,
    identifiers: &[crate::domain::identifier::Identifier],
) -> AppendHeaders<Option<(HeaderName, String)>> {
    let is_made = status == StatusCode::CREATED;
    AppendHeaders(is_made.then(|| (header::LOCATION, location(app, kind, identifiers))))
}

/// The URL of a record, by its first identifier.
#[must_use]
pub fn location(app: &AppState, kind: RecordKind, identifiers: &[crate::domain::identifier::Identifier]) -> String {
    let key = identifiers.first().map(|identifier| identifier.key.reveal()).unwrap_or_default();
    format!("{}{BASE_PATH}/{kind}/{}", app.public_url, path_part(&key))
}

/// A text as one part of a path.
#[must_use]
pub fn path_part(text: &str) -> String {
    utf8_percent_encode(text, PATH_PART).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_date_operator() {
        for (text, operator) in [
            ("2000-01-31", DateOperator::Equal),
            ("eq2000-01-31", DateOperator::Equal),
            ("ne2000-01-31", DateOperator::NotEqual),
            ("gt2000-01-31", DateOperator::After),
            ("ge2000-01-31", DateOperator::OnOrAfter),
            ("lt2000-01-31", DateOperator::Before),
            ("le2000-01-31", DateOperator::OnOrBefore),
        ] {
            let condition = date_condition("birth_date", text).unwrap();
            assert_eq!(condition.operator, operator);
            assert_eq!(condition.date.to_string(), "2000-01-31");
        }
        for wrong in ["sa2000-01-31", "2000", "ge", "ge 2000-01-31", ""] {
            assert!(date_condition("birth_date", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_filter_it_reads_is_known() {
        let parameters = Parameters::parse("gender=urn%3Aiso%3Astd%3Aiso%3A5218%232&languages=urn%3Ax%7Cfr&address.country=urn%3Ay%23FR&name=Jos%C3%A9&birth_date=ge2000-01-01&birth_date=lt2001-01-01&identifier=urn%3Aa%7C1&active=true").unwrap();
        let request = read_conditions(&parameters).unwrap();
        assert_eq!(request.codes.len(), 3);
        assert_eq!(request.name_words, ["jose"]);
        assert_eq!(request.birth_date.len(), 2);
        assert_eq!(request.identifiers.len(), 1);
        assert_eq!(request.active, Some(true));
        for wrong in ["gender=urn%3Aiso%3Astd%3Aiso%3A5218", "identifier=urn%3Aa", "name=--", "active=yes", "group=x"] {
            assert!(read_conditions(&Parameters::parse(wrong).unwrap()).is_err(), "{wrong}");
        }
    }
}
