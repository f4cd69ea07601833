//! Decisions: the inputs that a response depended on, written and read back.

use std::borrow::Cow;
use std::collections::BTreeMap;

use daftar_api_types::public::eligibility::{self as body, DECISION_TEXT_BYTES_MAX};
use serde_json::{Map, Value};

use crate::api::dto::reader::{ObjectReader, Problems};
use daftar_domain::code::NAMESPACE_BYTES_MAX;
use daftar_domain::error::AppError;
use daftar_domain::identifier::REFERENCE_BYTES_MAX;
use daftar_domain::record::VersionId;
use daftar_service::eligibility::decision::{Decision, UsedVocabulary, VERSIONS_MAX};

/// Maximum number of vocabularies in a decision.
const VOCABULARIES_MAX: usize = 1_000;
/// Maximum length of the name of a record, in bytes: that of a membership named by its beneficiary.
const NAME_BYTES_MAX: usize = REFERENCE_BYTES_MAX + 100;

/// A decision with its seal for the client of the request.
#[must_use]
pub fn write(decision: &Decision, seal: String) -> body::Decision<'_> {
    let vocabularies = decision.vocabularies.iter().map(|used| body::UsedVocabulary {
        namespace: Cow::Borrowed(&used.namespace),
        version: Cow::Borrowed(&used.version),
        digest: Cow::Borrowed(&used.digest),
    });
    let versions = decision.versions.iter().map(|(reference, version)| body::ReadVersion {
        reference: Cow::Borrowed(reference),
        version_id: Cow::Owned(version.to_string()),
    });
    body::Decision {
        expression_digest: Cow::Borrowed(&decision.expression_digest),
        engine: Cow::Borrowed(&decision.engine),
        vocabularies: vocabularies.collect(),
        concept_groups: Cow::Borrowed(&decision.concept_groups),
        schema: Cow::Borrowed(&decision.schema),
        as_of: Cow::Owned(decision.as_of.to_string()),
        versions: versions.collect(),
        visibility: decision.is_by_consent.then_some(body::Visibility::Consent),
        seal: Cow::Owned(seal),
    }
}

/// A decision that a client sent back: not trusted until its seal is verified.
#[derive(Debug, Clone)]
pub struct SentDecision {
    /// Its contents.
    pub decision: Decision,
    /// Its seal; empty if absent.
    pub seal: String,
}

/// Removes the decision from a body that repeats an evaluation.
pub fn read(members: &mut Map<String, Value>, problems: &mut Problems) -> Option<SentDecision> {
    let value = members.remove("decision").filter(|value| !value.is_null())?;
    // Separate problems, because an incomplete decision is none.
    let mut own = Problems::default();
    let mut reader = ObjectReader::at("decision".to_owned(), value, &mut own);
    let sent = read_members(&mut reader, &mut own);
    reader.finish(&mut own);
    match own.finish(sent) {
        Ok(sent) => sent,
        Err(AppError::Invalid(own)) => {
            problems.extend(own);
            None
        }
        Err(_) => None,
    }
}

fn read_members(reader: &mut ObjectReader, problems: &mut Problems) -> Option<SentDecision> {
    let expression_digest = word(reader, "expression_digest", problems);
    let engine = word(reader, "engine", problems);
    let concept_groups = word(reader, "concept_groups", problems);
    let schema = word(reader, "schema", problems);
    let as_of = reader.date("as_of", problems);
    let as_of = reader.needed("as_of", as_of, WHOLE, problems);
    let visibility = reader.word("visibility", &[("consent", true)], problems);
    let seal = match reader.take("seal") {
        Some(Value::String(seal)) => seal,
        None | Some(_) => String::new(),
    };
    let vocabularies = list(reader, "vocabularies", VOCABULARIES_MAX, read_vocabulary, problems);
    let versions = list(reader, "versions", VERSIONS_MAX, read_version, problems);
    let mut vocabularies = vocabularies?;
    vocabularies.sort_unstable();
    let decision = Decision {
        expression_digest: expression_digest?,
        engine: engine?,
        vocabularies,
        concept_groups: concept_groups?,
        schema: schema?,
        as_of: as_of?,
        versions: read_once(reader, versions?, problems)?,
        is_by_consent: visibility.unwrap_or(false),
    };
    Some(SentDecision { decision, seal })
}

/// The versions by reference; none if a reference is repeated.
fn read_once(
    reader: &ObjectReader,
    versions: Vec<(String, VersionId)>,
    problems: &mut Problems,
) -> Option<BTreeMap<String, VersionId>> {
    let count = versions.len();
    let by_reference: BTreeMap<String, VersionId> = versions.into_iter().collect();
    if by_reference.len() == count {
        return Some(by_reference);
    }
    problems.add(reader.path_of("versions"), "duplicate", "a decision names each record once");
    None
}

fn read_vocabulary(path: String, item: Value, problems: &mut Problems) -> Option<UsedVocabulary> {
    let mut reader = ObjectReader::at(path, item, problems);
    let namespace = text(&mut reader, "namespace", NAMESPACE_BYTES_MAX, problems);
    let (version, digest) = (word(&mut reader, "version", problems), word(&mut reader, "digest", problems));
    reader.finish(problems);
    Some(UsedVocabulary { namespace: namespace?, version: version?, digest: digest? })
}

fn read_version(path: String, item: Value, problems: &mut Problems) -> Option<(String, VersionId)> {
    let mut reader = ObjectReader::at(path, item, problems);
    let reference = text(&mut reader, "reference", NAME_BYTES_MAX, problems);
    let version = word(&mut reader, "version_id", problems);
    let path = reader.path_of("version_id");
    reader.finish(problems);
    let version = version?;
    // Must be formatted as it was sent: `01` was never sent.
    let version = version.parse::<u64>().ok().filter(|number| *number > 0 && number.to_string() == version);
    if version.is_none() {
        problems.add(path, "invalid_version", "a version must be a whole number from 1, as a text");
    }
    Some((reference?, VersionId(version?)))
}

fn word(reader: &mut ObjectReader, name: &'static str, problems: &mut Problems) -> Option<String> {
    text(reader, name, DECISION_TEXT_BYTES_MAX, problems)
}

fn text(reader: &mut ObjectReader, name: &'static str, bytes_max: usize, problems: &mut Problems) -> Option<String> {
    let text = reader.text(name, bytes_max, problems);
    reader.needed(name, text, WHOLE, problems)
}

/// The items of a list; none if one of them cannot be read.
fn list<T>(
    reader: &mut ObjectReader,
    name: &'static str,
    items_max: usize,
    read: impl Fn(String, Value, &mut Problems) -> Option<T>,
    problems: &mut Problems,
) -> Option<Vec<T>> {
    let items = reader.list(name, items_max, problems);
    let items = reader.needed(name, items, WHOLE, problems).unwrap_or_default();
    let values: Vec<Option<T>> = items.into_iter().map(|(path, item)| read(path, item, problems)).collect();
    values.into_iter().collect()
}

/// The problem of a member that is missing.
const WHOLE: &str = "a decision must be sent back complete, as it was received";
