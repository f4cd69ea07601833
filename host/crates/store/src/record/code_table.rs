//! Stored form of the table of codes: codes numbered together are one value, or a few; values are never rewritten.

use serde::{Deserialize, Serialize};

use crate::{StoreError, StoredCodeTable};
use daftar_domain::code::{CodeUri, Namespace};

use super::{Unreadable, decode_as};

/// Maximum number of codes, and of vocabulary versions, in a stored value: it stays within some 10 kB.
pub const ENTRIES_PER_VALUE_MAX: usize = 500;

/// Codes and vocabulary versions with consecutive new numbers, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCodeTableV1 {
    codes: Vec<StoredCodeRunV1>,
    editions: Vec<StoredEditionV1>,
}

/// Codes of one vocabulary with consecutive numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredCodeRunV1 {
    namespace: String,
    codes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredEditionV1 {
    namespace: String,
    version: String,
}

/// Encodes newly numbered codes and vocabulary versions.
///
/// # Errors
/// [`StoreError::TooLarge`] if they exceed the limit.
pub fn encode(added: &StoredCodeTable) -> Result<Vec<u8>, StoreError> {
    super::encode(&StoredCodeTableV1::from(added))
}

/// Encodes them as values of limited size, in the order of the numbers; none without new numbers.
///
/// # Errors
/// [`StoreError::TooLarge`] if a version of a vocabulary is far too long.
pub fn encode_parts(added: &StoredCodeTable) -> Result<Vec<Vec<u8>>, StoreError> {
    let codes = added.codes.chunks(ENTRIES_PER_VALUE_MAX);
    let editions = added.editions.chunks(ENTRIES_PER_VALUE_MAX);
    let parts = codes
        .map(|codes| StoredCodeTable { codes: codes.to_vec(), editions: Vec::new() })
        .chain(editions.map(|editions| StoredCodeTable { codes: Vec::new(), editions: editions.to_vec() }));
    parts.map(|part| encode(&part)).collect()
}

/// Decodes codes and vocabulary versions, in the order of their numbers.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub fn decode(bytes: &[u8]) -> Result<StoredCodeTable, StoreError> {
    decode_as(bytes, |stored: StoredCodeTableV1| StoredCodeTable::try_from(stored))
}

impl From<&StoredCodeTable> for StoredCodeTableV1 {
    fn from(added: &StoredCodeTable) -> Self {
        let runs = added.codes.chunk_by(|one, next| one.namespace == next.namespace);
        let codes = runs.filter_map(|run| {
            let namespace = run.first()?.namespace.as_str().to_owned();
            Some(StoredCodeRunV1 { namespace, codes: run.iter().map(|uri| uri.code.as_str().to_owned()).collect() })
        });
        let editions = added.editions.iter().map(|(namespace, version)| StoredEditionV1 {
            namespace: namespace.as_str().to_owned(),
            version: version.clone(),
        });
        Self { codes: codes.collect(), editions: editions.collect() }
    }
}

impl TryFrom<StoredCodeTableV1> for StoredCodeTable {
    type Error = Unreadable;

    fn try_from(stored: StoredCodeTableV1) -> Result<Self, Unreadable> {
        let mut table = Self::default();
        for run in &stored.codes {
            for code in &run.codes {
                let uri = CodeUri::from_parts(&run.namespace, code).map_err(|_| Unreadable::field("code"))?;
                table.codes.push(uri);
            }
        }
        for edition in stored.editions {
            let namespace = Namespace::parse(&edition.namespace).map_err(|_| Unreadable::field("namespace"))?;
            table.editions.push((namespace, edition.version));
        }
        Ok(table)
    }
}
