//! How the version that a vocabulary had before the installed one is stored: a few values for each vocabulary.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::code::Namespace;
use daftar_domain::deployment::EarlierVersion;
use daftar_domain::vocabulary::{Completeness, Concept, ConceptStatus, VocabularyDescription};

use super::kept_concepts::StoredConceptV1;
use super::{StoredForm, Unreadable, decode_as};

/// Some codes of an earlier version, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredEarlierVersionV1 {
    description: StoredDescriptionV1,
    part: u32,
    parts: u32,
    /// Whether each may be used in new records of that version, and what it is.
    concepts: Vec<(bool, StoredConceptV1)>,
}

impl StoredForm for StoredEarlierVersionV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "part of an earlier version";
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredDescriptionV1 {
    namespace: String,
    name: String,
    domain: String,
    version: String,
    source: String,
    licence: String,
    attribution: String,
    default_language: String,
    languages: Vec<String>,
    is_hierarchical: bool,
    completeness: StoredCompletenessV1,
    is_open: bool,
    is_system: bool,
    is_extensible: bool,
    concept_count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum StoredCompletenessV1 {
    Full,
    Fragment,
    Empty,
}

/// The bytes of a part of an earlier version.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(earlier: &EarlierVersion) -> Result<Vec<u8>, StoreError> {
    super::encode(&StoredEarlierVersionV1 {
        description: StoredDescriptionV1::from(&earlier.description),
        part: earlier.part,
        parts: earlier.parts,
        concepts: earlier
            .concepts
            .iter()
            .map(|concept| (concept.status == ConceptStatus::Active, StoredConceptV1::from(concept)))
            .collect(),
    })
}

/// The part of an earlier version that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(bytes: &[u8]) -> Result<EarlierVersion, StoreError> {
    decode_as(bytes, |stored: StoredEarlierVersionV1| {
        let concepts = stored.concepts.into_iter().map(|(is_active, concept)| {
            let status = if is_active { ConceptStatus::Active } else { ConceptStatus::Inactive };
            Ok(Concept { status, ..Concept::try_from(concept)? })
        });
        Ok(EarlierVersion {
            description: VocabularyDescription::try_from(stored.description)?,
            part: stored.part,
            parts: stored.parts,
            concepts: concepts.collect::<Result<_, Unreadable>>()?,
        })
    })
}

impl From<&VocabularyDescription> for StoredDescriptionV1 {
    fn from(description: &VocabularyDescription) -> Self {
        Self {
            namespace: description.namespace.as_str().to_owned(),
            name: description.name.clone(),
            domain: description.domain.clone(),
            version: description.version.clone(),
            source: description.source.clone(),
            licence: description.licence.clone(),
            attribution: description.attribution.clone(),
            default_language: description.default_language.clone(),
            languages: description.languages.clone(),
            is_hierarchical: description.is_hierarchical,
            completeness: match description.completeness {
                Completeness::Full => StoredCompletenessV1::Full,
                Completeness::Fragment => StoredCompletenessV1::Fragment,
                Completeness::Empty => StoredCompletenessV1::Empty,
            },
            is_open: description.is_open,
            is_system: description.is_system,
            is_extensible: description.is_extensible,
            concept_count: description.concept_count,
        }
    }
}

impl TryFrom<StoredDescriptionV1> for VocabularyDescription {
    type Error = Unreadable;

    fn try_from(stored: StoredDescriptionV1) -> Result<Self, Unreadable> {
        Ok(Self {
            namespace: Namespace::parse(&stored.namespace).map_err(|_| Unreadable::field("namespace"))?,
            name: stored.name,
            domain: stored.domain,
            version: stored.version,
            source: stored.source,
            licence: stored.licence,
            attribution: stored.attribution,
            default_language: stored.default_language,
            languages: stored.languages,
            is_hierarchical: stored.is_hierarchical,
            completeness: match stored.completeness {
                StoredCompletenessV1::Full => Completeness::Full,
                StoredCompletenessV1::Fragment => Completeness::Fragment,
                StoredCompletenessV1::Empty => Completeness::Empty,
            },
            is_open: stored.is_open,
            is_system: stored.is_system,
            is_extensible: stored.is_extensible,
            concept_count: stored.concept_count,
        })
    }
}
