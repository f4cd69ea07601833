//! `/Vocabulary` and `/ConceptGroup`

use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::response::Response;
use daftar_api_types::public::concept_group::ExpandedConceptGroup;
use percent_encoding::utf8_percent_encode;

use crate::api::access::{Auth, scope};
use crate::api::conditional::{Reading, elsewhere};
use crate::api::dto::reader::Problems;
use crate::api::dto::vocabulary as body;
use crate::api::endpoint::BASE_PATH;
use crate::api::error::{ApiError, Problem};
use crate::api::extract::body::JsonObject;
use crate::api::extract::path::{CodePath, NamePath, NamespacePath, PATH_PART};
use crate::api::extract::query::Parameters;
use crate::api::routes::record_search::page_of;
use crate::state::AppState;
use daftar_domain::code::{CodeUri, Namespace};
use daftar_service::vocabulary::{
    self, CodeFilter, Edition, Parent, SearchIn, SearchQuery, concept_group, concept_groups,
};

/// What of a request an answer depends on, beside who asks.
type Line = (Method, Uri, HeaderMap);

/// Lists vocabularies.
pub async fn list(
    auth: Auth<scope::VocabularyRead>,
    State(app): State<AppState>,
    (method, uri, headers): Line,
) -> Result<Response, ApiError> {
    let parameters = parameters(&uri, &["domain", "_count", "_offset"])?;
    let domain = filled(&parameters, "domain")?;
    let page = parameters.page()?;
    let ctx = auth.into_context();
    let reading = Reading::begin(&app, &method, &uri, &headers, &[]);
    Ok(reading.answer(|told| {
        told.add("en");
        let found = vocabulary::vocabularies(&ctx, &reading.generation, domain, page);
        let bodies = found.items.iter().map(|one| body::vocabulary(&reading.generation, one)).collect();
        page_of(bodies, found.total as u64, page, &format!("{}{BASE_PATH}/Vocabulary", app.public_url), &parameters)
    }))
}

/// Describes one vocabulary.
pub async fn read(
    auth: Auth<scope::VocabularyRead>,
    State(app): State<AppState>,
    NamespacePath(namespace): NamespacePath,
    (method, uri, headers): Line,
) -> Result<Response, ApiError> {
    let edition = edition(namespace, &parameters(&uri, &["version"])?)?;
    let ctx = auth.into_context();
    let reading = Reading::begin(&app, &method, &uri, &headers, &[]);
    let found = vocabulary::vocabulary(&ctx, &reading.generation, &edition)?;
    Ok(reading.answer(|told| {
        told.add("en");
        body::vocabulary(&reading.generation, found)
    }))
}

/// Lists codes of a vocabulary.
pub async fn codes(
    auth: Auth<scope::VocabularyRead>,
    State(app): State<AppState>,
    NamespacePath(namespace): NamespacePath,
    (method, uri, headers): Line,
) -> Result<Response, ApiError> {
    let parameters = parameters(&uri, &["version", "parent", "below", "include_deprecated", "_count", "_offset"])?;
    let parent = parameters.one("parent")?;
    let filter = CodeFilter {
        parent: parent.map(|text| if text.is_empty() { Parent::None } else { Parent::Code(text.to_owned()) }),
        below: filled(&parameters, "below")?.map(str::to_owned),
        with_deprecated: parameters.boolean("include_deprecated")?.unwrap_or(false),
    };
    let page = parameters.page()?;
    let edition = edition(namespace, &parameters)?;
    let ctx = auth.into_context();
    let reading = Reading::begin(&app, &method, &uri, &headers, &[]);
    let named: Vec<&str> = parent.into_iter().chain(filter.below.as_deref()).collect();
    let reading = reading.consulting_for(&app, &edition, || in_vocabulary(&edition.namespace, &named)).await?;
    let found = vocabulary::codes(&ctx, &reading.generation, &edition, &filter, page)?;
    Ok(reading.answer(|told| {
        let concept = |concept: &_| body::concept(*concept, &reading.languages, None, told);
        let bodies = found.items.iter().map(concept).collect();
        page_of(bodies, found.total as u64, page, &url(&app, &edition.namespace, "/codes"), &parameters)
    }))
}

/// Describes one code.
pub async fn code(
    auth: Auth<scope::VocabularyRead>,
    State(app): State<AppState>,
    CodePath(namespace, code): CodePath,
    (method, uri, headers): Line,
) -> Result<Response, ApiError> {
    let edition = edition(namespace, &parameters(&uri, &["version"])?)?;
    let ctx = auth.into_context();
    let reading = Reading::begin(&app, &method, &uri, &headers, &[]);
    let asked = || CodeUri::from_parts(edition.namespace.as_str(), &code).into_iter().collect();
    let reading = reading.consulting_for(&app, &edition, asked).await?;
    let (concept, is_alias) = vocabulary::code(&ctx, &reading.generation, &edition, &code)?;
    let asked_as = is_alias.then_some(code.as_str());
    let mut response = reading.answer(|told| body::concept(concept, &reading.languages, asked_as, told));
    if is_alias {
        let code = utf8_percent_encode(concept.code(), PATH_PART).to_string();
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let location = url(&app, &edition.namespace, "/codes/") + &code + &query;
        response.headers_mut().extend(location.parse().ok().map(|value| (header::CONTENT_LOCATION, value)));
    }
    Ok(response)
}

/// Searches one vocabulary.
pub async fn search(
    auth: Auth<scope::VocabularyRead>,
    State(app): State<AppState>,
    NamespacePath(namespace): NamespacePath,
    line: Line,
) -> Result<Response, ApiError> {
    let path = url(&app, &namespace, "/search");
    find(auth, &app, line, &["q", "version", "include_deprecated", "_count", "_offset"], path, Some(namespace)).await
}

/// Searches all vocabularies.
pub async fn search_all(
    auth: Auth<scope::VocabularyRead>,
    State(app): State<AppState>,
    line: Line,
) -> Result<Response, ApiError> {
    let path = format!("{}{BASE_PATH}/Vocabulary/$search", app.public_url);
    find(auth, &app, line, &["q", "domain", "include_deprecated", "_count", "_offset"], path, None).await
}

async fn find(
    auth: Auth<scope::VocabularyRead>,
    app: &AppState,
    (method, uri, headers): Line,
    known: &[&str],
    path: String,
    namespace: Option<Namespace>,
) -> Result<Response, ApiError> {
    let parameters = parameters(&uri, known)?;
    let text = parameters.one("q")?.ok_or_else(|| Problem::malformed("`q` is missing: it says what to search for"))?;
    let query =
        SearchQuery::parse(text).map_err(|error| Problem::malformed(format!("`q` cannot be searched for: {error}")))?;
    let with_deprecated = parameters.boolean("include_deprecated")?.unwrap_or(false);
    let place = match namespace {
        Some(namespace) => SearchIn::Vocabulary(edition(namespace, &parameters)?),
        None => SearchIn::All(filled(&parameters, "domain")?.map(str::to_owned)),
    };
    let page = parameters.page()?;
    let ctx = auth.into_context();
    let reading = Reading::begin(app, &method, &uri, &headers, &[]);
    vocabulary::prepare_search(&ctx, &reading.generation, &place).await?;
    // A wrong namespace was refused above, so that it is never answered with 304.
    if let Some(unchanged) = reading.unchanged() {
        return Ok(unchanged);
    }
    let (generation, languages) = (&reading.generation, &reading.languages);
    let found = vocabulary::search(&ctx, generation, &place, &query, languages, with_deprecated, page)?;
    Ok(reading.answer(|told| {
        let bodies = found.found.iter().map(|found| body::found(*found, languages, told)).collect();
        page_of(bodies, found.total as u64, page, &path, &parameters)
    }))
}

/// Says how two codes stand to each other.
pub async fn subsumes(
    auth: Auth<scope::VocabularyRead>,
    State(app): State<AppState>,
    NamespacePath(namespace): NamespacePath,
    (method, uri, headers): Line,
) -> Result<Response, ApiError> {
    let parameters = parameters(&uri, &["version", "a", "b"])?;
    let (Some(a), Some(b)) = (filled(&parameters, "a")?, filled(&parameters, "b")?) else {
        return Err(Problem::malformed("`a` and `b` are needed: the two codes to compare").into());
    };
    let edition = edition(namespace, &parameters)?;
    let ctx = auth.into_context();
    let reading = Reading::begin(&app, &method, &uri, &headers, &[]);
    let reading = reading.consulting_for(&app, &edition, || in_vocabulary(&edition.namespace, &[a, b])).await?;
    let outcome = vocabulary::subsumes(&ctx, &reading.generation, &edition, a, b)?;
    Ok(reading.answer(|_| body::subsumption(outcome, &edition.namespace, a, b)))
}

/// Says of many codes whether new records may hold them.
pub async fn validate(
    auth: Auth<scope::VocabularyRead>,
    State(app): State<AppState>,
    (method, uri, headers): Line,
    JsonObject(members): JsonObject,
) -> Result<Response, ApiError> {
    parameters(&uri, &[])?;
    let asked = Problems::of(|problems| body::read_codes(members, problems))?;
    let ctx = auth.into_context();
    let reading = Reading::begin(&app, &method, &uri, &headers, &body::code_texts(&asked));
    let reading = reading.consulting(&app, || vocabulary::readable(&asked)).await?;
    let make = move || {
        reading.answer(|told| {
            told.add("en");
            body::validities(vocabulary::validate(&ctx, &reading.generation, &asked))
        })
    };
    Ok(elsewhere(make).await?)
}

/// Describes many codes.
pub async fn lookup(
    auth: Auth<scope::VocabularyRead>,
    State(app): State<AppState>,
    (method, uri, headers): Line,
    JsonObject(members): JsonObject,
) -> Result<Response, ApiError> {
    parameters(&uri, &[])?;
    let asked = Problems::of(|problems| body::read_codes(members, problems))?;
    let ctx = auth.into_context();
    let reading = Reading::begin(&app, &method, &uri, &headers, &body::code_texts(&asked));
    let reading = reading.consulting(&app, || vocabulary::readable(&asked)).await?;
    let make = move || {
        reading.answer(|told| {
            let answers = vocabulary::lookup(&ctx, &reading.generation, &asked);
            body::looked_up(answers, &asked, &reading.languages, told)
        })
    };
    Ok(elsewhere(make).await?)
}

/// The codes that parameters name, alone or with their namespace.
fn in_vocabulary(namespace: &Namespace, texts: &[&str]) -> Vec<CodeUri> {
    let named = |text: &&str| match text.contains('#') {
        true => CodeUri::parse(text).ok(),
        false => CodeUri::from_parts(namespace.as_str(), text).ok(),
    };
    texts.iter().filter_map(named).collect()
}

/// The parameters of a query, if all of them are known.
fn parameters(uri: &Uri, known: &[&str]) -> Result<Parameters, ApiError> {
    let parameters = Parameters::parse(uri.query().unwrap_or_default())?;
    parameters.expect_only(known)?;
    Ok(parameters)
}

/// The vocabulary of the path, in the version that a parameter names.
fn edition(namespace: Namespace, parameters: &Parameters) -> Result<Edition, ApiError> {
    Ok(Edition { namespace, version: filled(parameters, "version")?.map(str::to_owned) })
}

/// A parameter that says something if it is there.
fn filled<'p>(parameters: &'p Parameters, name: &'p str) -> Result<Option<&'p str>, ApiError> {
    match parameters.one(name)? {
        Some("") => Err(Problem::malformed(format!("the parameter `{name}` is empty; leave it out instead")).into()),
        given => Ok(given),
    }
}

fn url(app: &AppState, namespace: &Namespace, rest: &str) -> String {
    let namespace = utf8_percent_encode(namespace.as_str(), PATH_PART);
    format!("{}{BASE_PATH}/Vocabulary/{namespace}{rest}", app.public_url)
}

/// Lists concept groups.
pub async fn list_groups(
    auth: Auth<scope::VocabularyRead>,
    State(app): State<AppState>,
    (method, uri, headers): Line,
) -> Result<Response, ApiError> {
    let parameters = parameters(&uri, &["_count", "_offset"])?;
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
pub async fn read_group(
    auth: Auth<scope::VocabularyRead>,
    State(app): State<AppState>,
    NamePath(name): NamePath,
    (method, uri, headers): Line,
) -> Result<Response, ApiError> {
    let parameters = parameters(&uri, &["_count", "_offset"])?;
    let page = parameters.page()?;
    let ctx = auth.into_context();
    let reading = Reading::begin(&app, &method, &uri, &headers, &[]);
    let found = concept_group(&ctx, &reading.generation, &name, page)?;
    Ok(reading.answer(|told| {
        let (generation, languages) = (&reading.generation, &reading.languages);
        let group = body::group(generation, found.group, languages, told);
        let code = |uri: &_| body::group_code(generation, uri, languages, told);
        let codes = found.members.items.iter().map(code).collect();
        let name = utf8_percent_encode(&name, PATH_PART);
        let path = format!("{}{BASE_PATH}/ConceptGroup/{name}", app.public_url);
        let expansion = page_of(codes, found.members.total as u64, page, &path, &parameters);
        ExpandedConceptGroup { group, expansion }
    }))
}
