//! How a concept group that the deployment defines is stored.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::code::CodeUri;
use daftar_domain::vocabulary::{ConceptGroup, Selection};

use super::parts::each;
use super::{StoredForm, Unreadable, decode_as};

/// A concept group, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredConceptGroupV1 {
    name: String,
    description: String,
    includes: Vec<StoredSelectionV1>,
    excludes: Vec<StoredSelectionV1>,
}

impl StoredForm for StoredConceptGroupV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "concept group";
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum StoredSelectionV1 {
    Code { namespace: String, code: String },
    DescendantsOf { namespace: String, code: String },
}

/// The bytes of a concept group.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(group: &ConceptGroup) -> Result<Vec<u8>, StoreError> {
    super::encode(&StoredConceptGroupV1 {
        name: group.name.clone(),
        description: group.description.clone(),
        includes: group.includes.iter().map(StoredSelectionV1::from).collect(),
        excludes: group.excludes.iter().map(StoredSelectionV1::from).collect(),
    })
}

/// The concept group that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(bytes: &[u8]) -> Result<ConceptGroup, StoreError> {
    decode_as(bytes, |stored: StoredConceptGroupV1| {
        Ok(ConceptGroup {
            name: stored.name,
            description: stored.description,
            includes: each(stored.includes)?,
            excludes: each(stored.excludes)?,
        })
    })
}

impl From<&Selection> for StoredSelectionV1 {
    fn from(selection: &Selection) -> Self {
        let parts = |uri: &CodeUri| (uri.namespace.as_str().to_owned(), uri.code.as_str().to_owned());
        match selection {
            Selection::Code(uri) => {
                let (namespace, code) = parts(uri);
                Self::Code { namespace, code }
            }
            Selection::DescendantsOf(uri) => {
                let (namespace, code) = parts(uri);
                Self::DescendantsOf { namespace, code }
            }
        }
    }
}

impl TryFrom<StoredSelectionV1> for Selection {
    type Error = Unreadable;

    fn try_from(stored: StoredSelectionV1) -> Result<Self, Unreadable> {
        let uri = |namespace: &str, code: &str| {
            CodeUri::from_parts(namespace, code).map_err(|_| Unreadable::field("selection"))
        };
        Ok(match stored {
            StoredSelectionV1::Code { namespace, code } => Self::Code(uri(&namespace, &code)?),
            StoredSelectionV1::DescendantsOf { namespace, code } => Self::DescendantsOf(uri(&namespace, &code)?),
        })
    }
}
