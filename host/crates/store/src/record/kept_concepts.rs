//! How codes of earlier versions of a vocabulary are stored: a few values for each vocabulary.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::code::{Code, Namespace};
use daftar_domain::deployment::KeptConcepts;
use daftar_domain::vocabulary::{Concept, ConceptStatus};

use super::parts::{StoredTextV1, texts, texts_as_stored};
use super::{StoredForm, Unreadable, decode_as};

/// Some kept codes of a vocabulary, version 1. All of them are inactive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredKeptConceptsV1 {
    namespace: String,
    part: u32,
    concepts: Vec<StoredConceptV1>,
}

impl StoredForm for StoredKeptConceptsV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "part of the kept codes";
}

/// A code without its status, which the form that it is part of says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredConceptV1 {
    code: String,
    is_selectable: bool,
    parents: Vec<String>,
    replaced_by: Option<String>,
    labels: Vec<StoredTextV1>,
    definitions: Vec<StoredTextV1>,
    aliases: Vec<String>,
    uri: Option<String>,
    properties: Vec<(String, String)>,
}

/// The bytes of kept codes.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(kept: &KeptConcepts) -> Result<Vec<u8>, StoreError> {
    super::encode(&StoredKeptConceptsV1 {
        namespace: kept.namespace.as_str().to_owned(),
        part: kept.part,
        concepts: kept.concepts.iter().map(StoredConceptV1::from).collect(),
    })
}

/// The kept codes that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(bytes: &[u8]) -> Result<KeptConcepts, StoreError> {
    decode_as(bytes, |stored: StoredKeptConceptsV1| {
        Ok(KeptConcepts {
            namespace: Namespace::parse(&stored.namespace).map_err(|_| Unreadable::field("namespace"))?,
            part: stored.part,
            concepts: super::parts::each(stored.concepts)?,
        })
    })
}

impl From<&Concept> for StoredConceptV1 {
    fn from(concept: &Concept) -> Self {
        let text = |code: &Code| code.as_str().to_owned();
        Self {
            code: text(&concept.code),
            is_selectable: concept.is_selectable,
            parents: concept.parents.iter().map(text).collect(),
            replaced_by: concept.replaced_by.as_ref().map(text),
            labels: texts_as_stored(&concept.labels),
            definitions: texts_as_stored(&concept.definitions),
            aliases: concept.aliases.clone(),
            uri: concept.uri.clone(),
            properties: concept.properties.clone(),
        }
    }
}

impl TryFrom<StoredConceptV1> for Concept {
    type Error = Unreadable;

    fn try_from(stored: StoredConceptV1) -> Result<Self, Unreadable> {
        let code = |text: &str| Code::parse(text).map_err(|_| Unreadable::field("code"));
        let parents: Result<Vec<Code>, Unreadable> = stored.parents.iter().map(|text| code(text)).collect();
        Ok(Self {
            code: code(&stored.code)?,
            status: ConceptStatus::Inactive,
            is_selectable: stored.is_selectable,
            parents: parents?,
            replaced_by: stored.replaced_by.as_deref().map(code).transpose()?,
            labels: texts(stored.labels),
            definitions: texts(stored.definitions),
            aliases: stored.aliases,
            uri: stored.uri,
            properties: stored.properties,
        })
    }
}
