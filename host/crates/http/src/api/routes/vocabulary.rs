//! `/Vocabulary` and `/ConceptGroup`

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::response::Response;
use daftar_api_types::public::concept_group::ExpandedConceptGroup;
use percent_encoding::utf8_percent_encode;
use serde_json::{Map, Value};

use crate::api::access::{Access, AccessArgument, Auth, scope};
use crate::api::conditional::{Reading, elsewhere};
use crate::api::dto::reader::Problems;
use crate::api::dto::vocabulary as body;
use crate::api::endpoint::BASE_PATH;
use crate::api::error::{ApiError, ApiResult, Problem};
use crate::api::extract::body::JsonObject;
use crate::api::extract::path::{CodePath, NamePath, NamespacePath, PATH_PART};
use crate::api::extract::query::Parameters;
use crate::api::routes::record_search::page_of;
use crate::state::AppState;
use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::context::OpContext;
use daftar_service::vocabulary::{
    self, CodeFilter, Edition, Parent, RequestedCode, SearchIn, SearchQuery, concept_group, concept_groups,
};

/// A permitted call, with the parts of its request that the response depends on.
pub struct Call {
    ctx: OpContext,
    app: AppState,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
}

impl FromRequestParts<AppState> for Call {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Self::Rejection> {
        let Auth { ctx, app, .. } = Auth::<scope::VocabularyRead>::from_request_parts(parts, app).await?;
        let (method, uri, headers) = (parts.method.clone(), parts.uri.clone(), parts.headers.clone());
        Ok(Self { ctx, app, method, uri, headers })
    }
}

impl AccessArgument for Call {
    const ACCESS: Access = Auth::<scope::VocabularyRead>::ACCESS;
}

impl Call {
    /// The parameters of its query, if all of them are known.
    fn parameters(&self, known: &[&str]) -> ApiResult<Parameters> {
        let parameters = Parameters::parse(self.uri.query().unwrap_or_default())?;
        parameters.expect_only(known)?;
        Ok(parameters)
    }

    /// Begins its response for that request body.
    fn reading(&self, requested: &[&str]) -> Reading {
        Reading::begin(&self.app, &self.method, &self.uri, &self.headers, requested)
    }
}

/// Lists vocabularies.
pub async fn list(call: Call) -> ApiResult {
    let parameters = call.parameters(&["domain", "_count", "_offset"])?;
    let domain = filled(&parameters, "domain")?;
    let page = parameters.page()?;
    let reading = call.reading(&[]);
    Ok(reading.response(|languages| {
        languages.add("en");
        let found = vocabulary::vocabularies(&call.ctx, &reading.generation, domain, page);
        let bodies = found.items.iter().map(|one| body::vocabulary(&reading.generation, one)).collect();
        page_of(
            bodies,
            found.total as u64,
            page,
            &format!("{}{BASE_PATH}/Vocabulary", call.app.public_url),
            &parameters,
        )
    }))
}

/// Describes one vocabulary.
pub async fn read(call: Call, NamespacePath(namespace): NamespacePath) -> ApiResult {
    let edition = edition(namespace, &call.parameters(&["version"])?)?;
    let reading = call.reading(&[]);
    let found = vocabulary::vocabulary(&call.ctx, &reading.generation, &edition)?;
    Ok(reading.response(|languages| {
        languages.add("en");
        body::vocabulary(&reading.generation, found)
    }))
}

/// Lists codes of a vocabulary.
pub async fn codes(call: Call, NamespacePath(namespace): NamespacePath) -> ApiResult {
    let parameters = call.parameters(&["version", "parent", "below", "include_deprecated", "_count", "_offset"])?;
    let parent = parameters.one("parent")?;
    let filter = CodeFilter {
        parent: parent.map(|text| if text.is_empty() { Parent::None } else { Parent::Code(text.to_owned()) }),
        below: filled(&parameters, "below")?.map(str::to_owned),
        with_deprecated: parameters.boolean("include_deprecated")?.unwrap_or(false),
    };
    let page = parameters.page()?;
    let edition = edition(namespace, &parameters)?;
    let reading = call.reading(&[]);
    let named: Vec<&str> = parent.into_iter().chain(filter.below.as_deref()).collect();
    let reading = reading.consulting_for(&call.app, &edition, || in_vocabulary(&edition.namespace, &named)).await?;
    let found = vocabulary::codes(&call.ctx, &reading.generation, &edition, &filter, page)?;
    Ok(reading.response(|reported_languages| {
        let concept = |concept: &_| body::concept(*concept, &reading.languages, None, reported_languages);
        let bodies = found.items.iter().map(concept).collect();
        page_of(bodies, found.total as u64, page, &url(&call, &edition.namespace, "/codes"), &parameters)
    }))
}

/// Describes one code.
pub async fn code(call: Call, CodePath(namespace, code): CodePath) -> ApiResult {
    let edition = edition(namespace, &call.parameters(&["version"])?)?;
    let reading = call.reading(&[]);
    let requested = || CodeUri::from_parts(edition.namespace.as_str(), &code).into_iter().collect();
    let reading = reading.consulting_for(&call.app, &edition, requested).await?;
    let (concept, is_alias) = vocabulary::code(&call.ctx, &reading.generation, &edition, &code)?;
    let requested_code = is_alias.then_some(code.as_str());
    let mut response = reading
        .response(|reported_languages| body::concept(concept, &reading.languages, requested_code, reported_languages));
    if is_alias {
        let code = utf8_percent_encode(concept.code(), PATH_PART).to_string();
        let query = call.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let location = url(&call, &edition.namespace, "/codes/") + &code + &query;
        response.headers_mut().extend(location.parse().ok().map(|value| (header::CONTENT_LOCATION, value)));
    }
    Ok(response)
}

/// Searches one vocabulary.
pub async fn search(call: Call, NamespacePath(namespace): NamespacePath) -> ApiResult {
    let path = url(&call, &namespace, "/search");
    find(call, &["q", "version", "include_deprecated", "_count", "_offset"], path, Some(namespace)).await
}

/// Searches all vocabularies.
pub async fn search_all(call: Call) -> ApiResult {
    let path = format!("{}{BASE_PATH}/Vocabulary/$search", call.app.public_url);
    find(call, &["q", "domain", "include_deprecated", "_count", "_offset"], path, None).await
}

async fn find(call: Call, known: &[&str], path: String, namespace: Option<Namespace>) -> ApiResult {
    let parameters = call.parameters(known)?;
    let text = parameters.one("q")?.ok_or_else(|| Problem::malformed("`q` is missing: it says what to search for"))?;
    let query =
        SearchQuery::parse(text).map_err(|error| Problem::malformed(format!("`q` cannot be searched for: {error}")))?;
    let with_deprecated = parameters.boolean("include_deprecated")?.unwrap_or(false);
    let place = match namespace {
        Some(namespace) => SearchIn::Vocabulary(edition(namespace, &parameters)?),
        None => SearchIn::All(filled(&parameters, "domain")?.map(str::to_owned)),
    };
    let page = parameters.page()?;
    let reading = call.reading(&[]);
    vocabulary::prepare_search(&call.ctx, &reading.generation, &place).await?;
    // An invalid namespace was rejected above, so that it never returns 304.
    if let Some(unchanged) = reading.unchanged() {
        return Ok(unchanged);
    }
    let (generation, languages) = (&reading.generation, &reading.languages);
    let found = vocabulary::search(&call.ctx, generation, &place, &query, languages, with_deprecated, page)?;
    Ok(reading.response(|reported_languages| {
        let bodies = found.found.iter().map(|found| body::found(*found, languages, reported_languages)).collect();
        page_of(bodies, found.total as u64, page, &path, &parameters)
    }))
}

/// Returns the relation of two codes.
pub async fn subsumes(call: Call, NamespacePath(namespace): NamespacePath) -> ApiResult {
    let parameters = call.parameters(&["version", "a", "b"])?;
    let (Some(a), Some(b)) = (filled(&parameters, "a")?, filled(&parameters, "b")?) else {
        return Err(Problem::malformed("`a` and `b` are required: the two codes to compare").into());
    };
    let edition = edition(namespace, &parameters)?;
    let reading = call.reading(&[]);
    let reading = reading.consulting_for(&call.app, &edition, || in_vocabulary(&edition.namespace, &[a, b])).await?;
    let outcome = vocabulary::subsumes(&call.ctx, &reading.generation, &edition, a, b)?;
    Ok(reading.response(|_| body::subsumption(outcome, &edition.namespace, a, b)))
}

/// Tests for many codes whether new records may contain them.
pub async fn validate(call: Call, JsonObject(members): JsonObject) -> ApiResult {
    let response = |ctx: &OpContext, reading: &Reading, requested: &[RequestedCode]| {
        reading.response(|languages| {
            languages.add("en");
            body::validities(vocabulary::validate(ctx, &reading.generation, requested))
        })
    };
    of_codes(call, members, response).await
}

/// Describes many codes.
pub async fn lookup(call: Call, JsonObject(members): JsonObject) -> ApiResult {
    let response = |ctx: &OpContext, reading: &Reading, requested: &[RequestedCode]| {
        reading.response(|reported_languages| {
            let responses = vocabulary::lookup(ctx, &reading.generation, requested);
            body::looked_up(responses, requested, &reading.languages, reported_languages)
        })
    };
    of_codes(call, members, response).await
}

/// Handles a body with a list of codes.
async fn of_codes(
    call: Call,
    members: Map<String, Value>,
    response: fn(&OpContext, &Reading, &[RequestedCode]) -> Response,
) -> ApiResult {
    call.parameters(&[])?;
    let requested = Problems::of(|problems| body::read_codes(members, problems))?;
    let reading = call.reading(&body::code_texts(&requested));
    let reading = reading.consulting(&call.app, || vocabulary::readable(&requested)).await?;
    Ok(elsewhere(move || response(&call.ctx, &reading, &requested)).await?)
}

/// The codes that parameters name, alone or with their namespace.
fn in_vocabulary(namespace: &Namespace, texts: &[&str]) -> Vec<CodeUri> {
    let named = |text: &&str| match text.contains('#') {
        true => CodeUri::parse(text).ok(),
        false => CodeUri::from_parts(namespace.as_str(), text).ok(),
    };
    texts.iter().filter_map(named).collect()
}

/// The vocabulary of the path, in the version that a parameter names.
fn edition(namespace: Namespace, parameters: &Parameters) -> ApiResult<Edition> {
    Ok(Edition { namespace, version: filled(parameters, "version")?.map(str::to_owned) })
}

/// A parameter that is not empty if it is present.
fn filled<'p>(parameters: &'p Parameters, name: &'p str) -> ApiResult<Option<&'p str>> {
    match parameters.one(name)? {
        Some("") => Err(Problem::malformed(format!("the parameter `{name}` is empty; leave it out instead")).into()),
        given => Ok(given),
    }
}

fn url(call: &Call, namespace: &Namespace, rest: &str) -> String {
    let namespace = utf8_percent_encode(namespace.as_str(), PATH_PART);
    format!("{}{BASE_PATH}/Vocabulary/{namespace}{rest}", call.app.public_url)
}

/// Lists concept groups.
pub async fn list_groups(call: Call) -> ApiResult {
    let parameters = call.parameters(&["_count", "_offset"])?;
    let page = parameters.page()?;
    let reading = call.reading(&[]);
    Ok(reading.response(|reported_languages| {
        let found = concept_groups(&call.ctx, &reading.generation, page);
        let groups = found.items.iter();
        let bodies = groups
            .map(|group| body::group(&reading.generation, group, &reading.languages, reported_languages))
            .collect();
        let path = format!("{}{BASE_PATH}/ConceptGroup", call.app.public_url);
        page_of(bodies, found.total as u64, page, &path, &parameters)
    }))
}

/// Reads one concept group with a page of its codes.
pub async fn read_group(call: Call, NamePath(name): NamePath) -> ApiResult {
    let parameters = call.parameters(&["_count", "_offset"])?;
    let page = parameters.page()?;
    let reading = call.reading(&[]);
    let found = concept_group(&call.ctx, &reading.generation, &name, page)?;
    Ok(reading.response(|reported_languages| {
        let (generation, languages) = (&reading.generation, &reading.languages);
        let group = body::group(generation, found.group, languages, reported_languages);
        let code = |uri: &_| body::group_code(generation, uri, languages, reported_languages);
        let codes = found.members.items.iter().map(code).collect();
        let name = utf8_percent_encode(&name, PATH_PART);
        let path = format!("{}{BASE_PATH}/ConceptGroup/{name}", call.app.public_url);
        let expansion = page_of(codes, found.members.total as u64, page, &path, &parameters);
        ExpandedConceptGroup { group, expansion }
    }))
}
