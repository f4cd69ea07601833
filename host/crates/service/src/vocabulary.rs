//! Reads of vocabularies and concept groups by clients.
//!
//! No data here is personal data, so reads are not written into the audit log; a denial is, like every other denial.
//!
//! **Invariant:** a response uses one vocabulary snapshot: its counts, pages and codes are consistent.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::registry::Registry;
use daftar_domain::code::{CODE_BYTES_MAX, Code, CodeError, CodeUri, NAMESPACE_BYTES_MAX, Namespace};
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::hexadecimal;
use daftar_domain::search::Page;
use daftar_domain::vocabulary::ConceptStatus;
pub use daftar_vocabulary::{
    ConceptRef, DefinedBy, Found, FoundPage, Generation, Grade, Label, LanguagePreference, LookUpProblem, MatchedText,
    PackOrigin, PublishedGroup, SearchQuery, Vocabulary,
};
use daftar_vocabulary::{SearchOptions, search as search_vocabularies};

/// The requested codes of a vocabulary.
#[derive(Debug, Clone, Default)]
pub struct CodeFilter {
    /// Directly below that code, or at the top.
    pub parent: Option<Parent>,
    /// Anywhere below that code.
    pub below: Option<String>,
    /// Includes deprecated codes.
    pub with_deprecated: bool,
}

/// The requested parent of codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parent {
    /// No parent: the top.
    None,
    /// Below that code.
    Code(String),
}

/// Relation of two codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subsumption {
    /// Both are the same code.
    Equivalent,
    /// The second is below the first.
    Subsumes,
    /// The first is below the second.
    SubsumedBy,
    /// Neither is below the other.
    NotSubsumed,
}

/// A page of items with their total number.
#[derive(Debug)]
pub struct PageOf<T> {
    /// Total number of items.
    pub total: usize,
    /// The items of the page, in order.
    pub items: Vec<T>,
}

/// The active vocabularies, of one domain if one is named.
#[must_use]
pub fn vocabularies<'g>(
    _: &OpContext,
    generation: &'g Generation,
    domain: Option<&str>,
    page: Page,
) -> PageOf<&'g Vocabulary> {
    let of_domain = vocabularies_of(generation, domain);
    paged(of_domain.len(), of_domain.into_iter(), page)
}

/// A vocabulary in one of the available versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edition {
    /// The namespace of the vocabulary.
    pub namespace: Namespace,
    /// The version; the active one if absent.
    pub version: Option<String>,
}

/// The vocabulary of a namespace, in the active version or the previous one.
///
/// # Errors
/// [`AppError::NotThere`] with the closest namespace, or the available versions.
pub fn vocabulary<'g>(
    _: &OpContext,
    generation: &'g Generation,
    edition: &Edition,
) -> Result<&'g Vocabulary, AppError> {
    let active = generation.named(&edition.namespace).map_err(|problem| not_there("namespace", &problem))?;
    let Some(version) = &edition.version else { return Ok(active) };
    let earlier = generation.earlier(&edition.namespace).map(|earlier| &**earlier);
    let mut versions = [active].into_iter().chain(earlier);
    versions.find(|one| one.description().version == *version).ok_or_else(|| {
        let version_of = |vocabulary: &Vocabulary| format!("`{}`", vocabulary.description().version);
        let before = earlier.map(|earlier| format!(" and, before it, {}", version_of(earlier))).unwrap_or_default();
        let message =
            format!("`{}` is not here in that version, but in {}{before}", edition.namespace, version_of(active));
        AppError::NotThere(FieldProblem::new("version", "unknown_version", message))
    })
}

/// The codes of a vocabulary: all in the order of codes, children likewise, or all descendants of a code, parents
/// first.
///
/// # Errors
/// [`AppError::NotThere`] for the namespace, [`AppError::Invalid`] for an unknown code.
pub fn codes<'g>(
    ctx: &OpContext,
    generation: &'g Generation,
    edition: &Edition,
    filter: &CodeFilter,
    page: Page,
) -> Result<PageOf<ConceptRef<'g>>, AppError> {
    let vocabulary = vocabulary(ctx, generation, edition)?;
    let parent = match &filter.parent {
        None => None,
        Some(Parent::None) => Some(None),
        Some(Parent::Code(text)) => Some(Some(concept_in_use_or_not(generation, vocabulary, "parent", text)?)),
    };
    let below = filter.below.as_deref().map(|text| concept_in_use_or_not(generation, vocabulary, "below", text));
    let below = below.transpose()?;
    // A code that is not listed has no listed descendants.
    let is_unlisted = |concept: &ConceptRef<'_>| !std::ptr::eq(concept.vocabulary(), vocabulary);
    if parent.flatten().as_ref().is_some_and(is_unlisted) || below.as_ref().is_some_and(is_unlisted) {
        return Ok(PageOf { total: 0, items: Vec::new() });
    }
    let is_shown = |concept: &ConceptRef<'_>| filter.with_deprecated || concept.status() == ConceptStatus::Active;
    Ok(match (parent, below) {
        (None, None) if filter.with_deprecated => paged(vocabulary.concept_count(), vocabulary.concepts(), page),
        (None, None) => filtered(vocabulary.concepts(), is_shown, page),
        (Some(None), None) => filtered(vocabulary.roots(), is_shown, page),
        // A code at the top has no ancestors.
        (Some(None), Some(_)) => PageOf { total: 0, items: Vec::new() },
        (Some(Some(parent)), None) => filtered(parent.children(), is_shown, page),
        (Some(Some(parent)), Some(top)) => {
            filtered(parent.children(), |concept| is_shown(concept) && concept.is_below(top), page)
        }
        (None, Some(top)) if filter.with_deprecated => paged(top.descendant_count(), top.descendants(), page),
        (None, Some(top)) => filtered(top.descendants(), is_shown, page),
    })
}

/// Returns a code by its name, another name or another spelling; with a flag if it is not its name.
///
/// # Errors
/// [`AppError::Malformed`] for a text that cannot be a code, [`AppError::NotThere`] with the closest code.
pub fn code<'g>(
    ctx: &OpContext,
    generation: &'g Generation,
    edition: &Edition,
    code: &str,
) -> Result<(ConceptRef<'g>, bool), AppError> {
    let vocabulary = vocabulary(ctx, generation, edition)?;
    let code = Code::parse(code).map_err(|error| AppError::Malformed(format!("the code in the path: {error}")))?;
    let uri = CodeUri { namespace: edition.namespace.clone(), code };
    let found = if is_active(generation, vocabulary) {
        generation.look_up_by_any_name(&uri)
    } else {
        generation.look_up_earlier(vocabulary, &uri)
    };
    let (concept, _) = found.map_err(|problem| not_there("code", &problem))?;
    Ok((concept, concept.code() != uri.code.as_str()))
}

/// Scope of a search.
#[derive(Debug, Clone)]
pub enum SearchIn {
    /// In one vocabulary.
    Vocabulary(Edition),
    /// In all, or in those of one domain.
    All(Option<String>),
}

/// Searches codes. The first search of a vocabulary builds its index, outside the threads that serve requests.
///
/// # Errors
/// [`AppError::NotThere`] for the namespace.
pub async fn prepare_search(ctx: &OpContext, generation: &Arc<Generation>, place: &SearchIn) -> Result<(), AppError> {
    if searched(ctx, generation, place)?.iter().all(|vocabulary| vocabulary.is_search_ready()) {
        return Ok(());
    }
    let (generation, place, ctx) = (Arc::clone(generation), place.clone(), ctx.clone());
    let made = tokio::task::spawn_blocking(move || {
        let vocabularies = searched(&ctx, &generation, &place).unwrap_or_default();
        vocabularies.iter().for_each(|vocabulary| vocabulary.prepare_search());
    });
    made.await.map_err(AppError::of_task)
}

/// Searches codes whose vocabularies were prepared with [`prepare_search`].
///
/// # Errors
/// [`AppError::NotThere`] for the namespace.
pub fn search<'g>(
    ctx: &OpContext,
    generation: &'g Generation,
    place: &SearchIn,
    query: &SearchQuery,
    languages: &LanguagePreference,
    with_deprecated: bool,
    page: Page,
) -> Result<FoundPage<'g>, AppError> {
    let vocabularies = searched(ctx, generation, place)?;
    let options = SearchOptions {
        languages,
        with_inactive: with_deprecated,
        offset: usize::try_from(page.offset).unwrap_or(usize::MAX),
        count: page.count as usize,
    };
    Ok(search_vocabularies(&vocabularies, query, options))
}

/// Relation of two codes of a vocabulary.
///
/// # Errors
/// [`AppError::NotThere`] for the namespace, [`AppError::Invalid`] for an unknown code.
pub fn subsumes(
    ctx: &OpContext,
    generation: &Generation,
    edition: &Edition,
    a: &str,
    b: &str,
) -> Result<Subsumption, AppError> {
    let vocabulary = vocabulary(ctx, generation, edition)?;
    let first = concept_in_use_or_not(generation, vocabulary, "a", a);
    let second = concept_in_use_or_not(generation, vocabulary, "b", b);
    let (first, second) = match (first, second) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(AppError::Invalid(mut problems)), Err(AppError::Invalid(more))) => {
            problems.extend(more);
            return Err(AppError::Invalid(problems));
        }
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let (first, second) = generation.side_by_side(first, second);
    Ok(if first == second {
        Subsumption::Equivalent
    } else if second.is_below(first) {
        Subsumption::Subsumes
    } else if first.is_below(second) {
        Subsumption::SubsumedBy
    } else {
        Subsumption::NotSubsumed
    })
}

/// Prepares the indexes that searches of the active vocabularies need; for a thread without a deadline.
pub fn prepare_all_searches(registry: &Registry) {
    registry.vocabularies.current().vocabularies().for_each(|vocabulary| vocabulary.prepare_search());
}

fn searched<'g>(
    ctx: &OpContext,
    generation: &'g Generation,
    place: &SearchIn,
) -> Result<Vec<&'g Vocabulary>, AppError> {
    match place {
        SearchIn::Vocabulary(edition) => Ok(vec![vocabulary(ctx, generation, edition)?]),
        SearchIn::All(domain) => Ok(vocabularies_of(generation, domain.as_deref())),
    }
}

fn vocabularies_of<'g>(generation: &'g Generation, domain: Option<&str>) -> Vec<&'g Vocabulary> {
    let is_of_domain = |vocabulary: &&Vocabulary| {
        domain.is_none_or(|domain| vocabulary.description().domain.eq_ignore_ascii_case(domain))
    };
    generation.vocabularies().map(|vocabulary| &**vocabulary).filter(is_of_domain).collect()
}

/// True for the version of its vocabulary that codes in records refer to.
#[must_use]
pub fn is_active(generation: &Generation, vocabulary: &Vocabulary) -> bool {
    generation.vocabulary(vocabulary.namespace()).is_some_and(|active| std::ptr::eq(&raw const **active, vocabulary))
}

/// A code named by a parameter, alone or with the namespace from the path.
fn concept_in_use_or_not<'g>(
    generation: &'g Generation,
    vocabulary: &'g Vocabulary,
    parameter: &str,
    text: &str,
) -> Result<ConceptRef<'g>, AppError> {
    let namespace = vocabulary.namespace();
    let malformed = |error: CodeError| AppError::Malformed(format!("`{parameter}`: {error}"));
    // A URI with an unencoded `#` is truncated to the namespace, and parses as a URI without a code.
    let uri = if text.contains(['#', '|']) || text == namespace.as_str() {
        let uri = CodeUri::parse(text).map_err(malformed)?;
        if uri.namespace != *namespace {
            let message = format!("`{uri}` is a code of another vocabulary; a code of `{namespace}` is needed");
            return Err(AppError::invalid(parameter, "wrong_vocabulary", message));
        }
        uri
    } else {
        CodeUri { namespace: namespace.clone(), code: Code::parse(text).map_err(malformed)? }
    };
    let found = if is_active(generation, vocabulary) {
        generation.look_up(&uri)
    } else {
        generation.look_up_earlier(vocabulary, &uri).map(|(concept, _)| concept)
    };
    found.map_err(|problem| AppError::invalid(parameter, problem.reason(), problem.to_string()))
}

fn not_there(field: &str, problem: &LookUpProblem) -> AppError {
    AppError::NotThere(FieldProblem::new(field, problem.reason(), problem.to_string()))
}

/// A page of items, of `total`.
fn paged<T>(total: usize, items: impl Iterator<Item = T>, page: Page) -> PageOf<T> {
    let offset = usize::try_from(page.offset).unwrap_or(usize::MAX);
    PageOf { total, items: items.skip(offset).take(page.count as usize).collect() }
}

/// A page of the selected items, counted during the iteration.
fn filtered<T>(items: impl Iterator<Item = T>, is_wanted: impl Fn(&T) -> bool, page: Page) -> PageOf<T> {
    let offset = usize::try_from(page.offset).unwrap_or(usize::MAX);
    let end = offset.saturating_add(page.count as usize);
    let mut found = PageOf { total: 0, items: Vec::new() };
    for item in items.filter(is_wanted) {
        if (offset..end).contains(&found.total) {
            found.items.push(item);
        }
        found.total += 1;
    }
    found
}

/// Maximum number of unknown codes of one request for which the server searches a suggestion. A search takes up to 1
/// ms. In a batch of unknown codes the mapping is invalid, for which a hundred suggestions are sufficient evidence.
const SEARCHES_MAX: usize = 100;
/// Maximum length of an invalid text that is repeated in the response, in bytes.
const SHOWN_BYTES_MAX: usize = NAMESPACE_BYTES_MAX + CODE_BYTES_MAX + 1;

/// A code as the client wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedCode {
    /// As one string.
    Uri(String),
    /// As two strings.
    Parts {
        /// The namespace.
        namespace: String,
        /// The code.
        code: String,
    },
}

impl RequestedCode {
    /// Another value in place of the code.
    #[must_use]
    pub fn code(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&str, &str) {
        match self {
            Self::Uri(text) => text.split_once(['#', '|']).unwrap_or((text, "")),
            Self::Parts { namespace, code } => (namespace, code),
        }
    }

    fn parse(&self) -> Result<CodeUri, CodeError> {
        match self {
            Self::Uri(text) => CodeUri::parse(text),
            Self::Parts { namespace, code } => CodeUri::from_parts(namespace, code),
        }
    }
}

/// The validated code, or the reason for its rejection.
#[derive(Debug)]
pub struct Answer<T> {
    /// The code's URI, or the beginning of an invalid value.
    pub uri: String,
    /// The result.
    pub outcome: Result<T, Refused>,
}

/// Reason for the rejection of a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The stable name of the reason.
    pub reason: &'static str,
    /// One sentence that describes a valid value.
    pub message: String,
    /// The closest valid code.
    pub suggestion: Option<String>,
}

/// A code that exists.
#[derive(Debug, Clone, Copy)]
pub struct LookedUp<'g> {
    /// The code.
    pub concept: ConceptRef<'g>,
    /// True if it was requested by another name, or in another spelling of an open vocabulary.
    pub is_alias: bool,
}

/// The codes that can be parsed.
#[must_use]
pub fn readable(requested: &[RequestedCode]) -> Vec<CodeUri> {
    requested.iter().filter_map(|requested| requested.parse().ok()).collect()
}

/// Results of the validation of codes for new records, in their order.
pub fn validate<'g>(
    _: &OpContext,
    generation: &'g Generation,
    requested: &[RequestedCode],
) -> Vec<Answer<ConceptRef<'g>>> {
    answers(generation, requested, |uri| generation.check_code(uri))
}

/// Results of the validation of codes, in their order.
pub fn lookup<'g>(_: &OpContext, generation: &'g Generation, requested: &[RequestedCode]) -> Vec<Answer<LookedUp<'g>>> {
    answers(generation, requested, |uri| {
        let (concept, _) = generation.look_up_by_any_name(uri)?;
        Ok(LookedUp { concept, is_alias: concept.code() != uri.code.as_str() })
    })
}

fn answers<T>(
    generation: &Generation,
    requested: &[RequestedCode],
    decide: impl Fn(&CodeUri) -> Result<T, LookUpProblem>,
) -> Vec<Answer<T>> {
    let mut searches_left = SEARCHES_MAX;
    let mut decide_within = |uri: &CodeUri| {
        let absent = generation.plainly_absent(uri);
        match absent {
            Some(problem) if searches_left == 0 => return Err(problem),
            Some(_) => searches_left -= 1,
            None => {}
        }
        decide(uri)
    };
    requested.iter().map(|requested| answer(requested, &mut decide_within)).collect()
}

fn answer<T>(requested: &RequestedCode, decide: impl FnOnce(&CodeUri) -> Result<T, LookUpProblem>) -> Answer<T> {
    match requested.parse() {
        Ok(uri) => Answer { outcome: decide(&uri).map_err(Refused::from), uri: uri.to_string() },
        Err(error) => {
            let (namespace, code) = requested.parts();
            let is_too_long = namespace.len() > NAMESPACE_BYTES_MAX || code.len() > CODE_BYTES_MAX;
            let reason = if is_too_long { "too_long" } else { "malformed" };
            let written = match requested {
                RequestedCode::Uri(text) => shown(text),
                RequestedCode::Parts { namespace, code } => shown(&format!("{namespace}#{code}")),
            };
            Answer { uri: written, outcome: Err(Refused { reason, message: error.to_string(), suggestion: None }) }
        }
    }
}

impl From<LookUpProblem> for Refused {
    fn from(problem: LookUpProblem) -> Self {
        Self {
            reason: problem.reason(),
            message: problem.to_string(),
            suggestion: problem.suggestion().map(str::to_owned),
        }
    }
}

/// The beginning of a rejected text.
fn shown(text: &str) -> String {
    let end = text.floor_char_boundary(SHOWN_BYTES_MAX);
    let beginning = text.get(..end).unwrap_or_default();
    if end < text.len() { format!("{beginning}…") } else { beginning.to_owned() }
}

/// A concept group with a page of its codes.
#[derive(Debug)]
pub struct GroupPage<'g> {
    /// The group.
    pub group: &'g PublishedGroup,
    /// Codes that definitely belong to it.
    pub members: PageOf<CodeUri>,
}

/// The concept groups, by name.
#[must_use]
pub fn concept_groups<'g>(_: &OpContext, generation: &'g Generation, page: Page) -> PageOf<&'g PublishedGroup> {
    let groups = generation.concept_groups();
    paged(groups.len(), groups, page)
}

/// The concept group of a name, with a page of its codes.
///
/// # Errors
/// [`AppError::NotThere`] with the closest name.
pub fn concept_group<'g>(
    _: &OpContext,
    generation: &'g Generation,
    name: &str,
    page: Page,
) -> Result<GroupPage<'g>, AppError> {
    let group = generation.concept_group(name).ok_or_else(|| {
        let problem = generation.unknown_group(name);
        AppError::NotThere(FieldProblem::new("name", problem.code(), problem.to_string()))
    })?;
    let members = group.members().filter_map(|number| generation.table().uri(number));
    // A set is counted by its ranges; numbers past the page are never checked.
    let total = group.member_count();
    Ok(GroupPage { group, members: paged(total, members, page) })
}

/// Changed when the response format for the same codes changes.
const FORM: &str = concat!("daftar codes 1 ", env!("CARGO_PKG_VERSION"));
/// Number of reported bytes of the digest.
const REPORTED_BYTES: usize = 16;

/// Digest of all inputs of a response.
pub struct Fingerprint(Sha256);

impl Fingerprint {
    /// Starts with the published vocabularies and the requested languages.
    #[must_use]
    pub fn of(generation: &Generation, languages: &LanguagePreference) -> Self {
        let mut fingerprint = Self(Sha256::new());
        fingerprint.text(FORM);
        fingerprint.bytes(generation.digest().as_bytes());
        for pack in generation.packs() {
            fingerprint.text(&pack.plugin);
            fingerprint.text(&pack.version);
            // The snapshot does not contain responses of an open vocabulary's pack for a code.
            fingerprint.text(&pack.digest);
        }
        // The definer of a group is not part of its content, and the labels of an absent vocabulary's codes are known
        // only after the codes were numbered.
        for group in generation.concept_groups() {
            fingerprint.text(match group.defined_by() {
                DefinedBy::None => "",
                DefinedBy::Deployment => "deployment",
                DefinedBy::Plugin(plugin) => plugin,
            });
        }
        for version in generation.earlier_versions() {
            fingerprint.bytes(version.digest().as_bytes());
        }
        fingerprint.bytes(&generation.code_count().to_be_bytes());
        for range in languages.ranges() {
            fingerprint.text(range);
        }
        fingerprint
    }

    /// Adds an input. Each is preceded by its length, so that two inputs cannot be confused with others.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// The digest, as hexadecimal digits.
    #[must_use]
    pub fn finish(self) -> String {
        hexadecimal::encode(self.0.finalize().iter().take(REPORTED_BYTES))
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }
}
