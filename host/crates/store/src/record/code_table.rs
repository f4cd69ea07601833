//! How the table of codes is stored: what was numbered together is one value, or a few; none is ever written again.

use serde::{Deserialize, Serialize};

use crate::{StoreError, StoredCodeTable};
use daftar_domain::code::{CodeUri, Namespace};

use super::{Unreadable, decode_as};

/// The most codes, and the most editions, of one stored value: keeps it within some 10 kB.
pub const ENTRIES_PER_VALUE_MAX: usize = 500;

/// Codes and editions that got the next numbers, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCodeTableV1 {
    codes: Vec<StoredCodeRunV1>,
    editions: Vec<StoredEditionV1>,
}

/// Codes of one vocabulary with numbers one after the other.
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

/// The bytes of newly numbered codes and editions.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(added: &StoredCodeTable) -> Result<Vec<u8>, StoreError> {
    super::encode(&StoredCodeTableV1::from(added))
}

/// The same in values of bounded size, in the order of the numbers; none where nothing is numbered.
///
/// # Errors
/// [`StoreError::TooLarge`] when a version of a vocabulary is far too long.
pub fn encode_parts(added: &StoredCodeTable) -> Result<Vec<Vec<u8>>, StoreError> {
    let codes = added.codes.chunks(ENTRIES_PER_VALUE_MAX);
    let editions = added.editions.chunks(ENTRIES_PER_VALUE_MAX);
    let parts = codes
        .map(|codes| StoredCodeTable { codes: codes.to_vec(), editions: Vec::new() })
        .chain(editions.map(|editions| StoredCodeTable { codes: Vec::new(), editions: editions.to_vec() }));
    parts.map(|part| encode(&part)).collect()
}

/// The codes and editions that the bytes hold, in the order of their numbers.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
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
