//! The stored JSON of records of every kind, as a database stores them for queries in SQL. It is generated from the
//! rows of the schema, as the binary form is ([`super::fields`]); the key is not in it.
//!
//! | member | how |
//! |---|---|
//! | `meta` | `version_id`: number; `last_updated`: RFC 3339 in UTC with milliseconds; `source`: the client, absent without one |
//! | `identifier` | the `system` and `value` of each, and its `period`, if any |
//! | a field | under its name in the API; a list is an array, a part an object |
//! | `extension` | by path, the `type` and `value` of each value; an array if the field has several |
//! | `revision` | the revision of the schema; absent if it is 1 |
//! | `unknown` | in any object: values of the binary form under unknown tags, by tag, in hexadecimal digits |
//!
//! | value | how |
//! |---|---|
//! | text | a string; `{"utf8": "…"}` with its bytes in hexadecimal digits if it contains U+0000, which `jsonb` rejects |
//! | number | a number; `"-0"` for the negative zero, which `jsonb` does not have |
//! | day | `"2026-11-24"` |
//! | word | the word |
//! | code | `uri`, `number`, `edition`, `edition_number`: only the numbers are decoded; the texts are for SQL queries |
//! | reference | `kind`, and `id`: the key of the record |
//! | name of a consent | a UUID |
//! | photo | `digest` in hexadecimal digits, and `length` |
//!
//! **Invariant:** decoding returns the encoded record, for any order of members, white space and notation of numbers.
//!
//! **Invariant:** data stored by a newer program survives a rewrite by this one: members of a later revision without a
//! row are preserved unchanged, under the tag [`MEMBERS`].

mod read;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;

use daftar_domain::change::ChangedRecord;
use daftar_domain::code::{CodeNumber, EditionNumber};
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::schema::Tag;

use self::read::decode_fields;
pub(super) use self::read::stored_members;
pub use self::read::{codes, decode_one};
pub use self::write::encode_one;
use super::VALUE_BYTES_MAX;
use super::fields::Selection;
use crate::{StoreError, StoredCodeTable};

/// The tag of members that this program does not know: an object of stored JSON. No field has it.
pub const MEMBERS: Tag = Tag(u16::MAX);

/// The members beside the fields of a record.
const META: &str = "meta";
const IDENTIFIER: &str = "identifier";
const EXTENSION: &str = "extension";
const REVISION: &str = "revision";
const UNKNOWN: &str = "unknown";

/// The texts of numbered codes and editions.
#[derive(Debug, Default)]
pub struct CodeNames {
    codes: Vec<Box<str>>,
    editions: Vec<Box<str>>,
}

impl CodeNames {
    /// Creates an empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self { codes: Vec::new(), editions: Vec::new() }
    }

    /// Adds newly numbered codes and editions, in the order of the numbers.
    pub fn apply(&mut self, numbered: &StoredCodeTable) {
        self.codes.extend(numbered.codes.iter().map(|uri| uri.to_string().into()));
        self.editions.extend(numbered.editions.iter().map(|(_, edition)| edition.as_str().into()));
    }

    /// Returns the number of codes and of editions.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.codes.len(), self.editions.len())
    }

    /// Removes all but the first ones, because the write with the others failed.
    pub fn truncate(&mut self, (codes, editions): (usize, usize)) {
        self.codes.truncate(codes);
        self.editions.truncate(editions);
    }

    /// Returns the URI of a code.
    #[must_use]
    pub fn uri(&self, number: CodeNumber) -> Option<&str> {
        self.codes.get(number.0 as usize).map(AsRef::as_ref)
    }

    fn edition(&self, number: EditionNumber) -> Option<&str> {
        self.editions.get(number.0 as usize).map(AsRef::as_ref)
    }
}

/// Encodes a record as JSON. A code whose number has no text is written as its number only: verification reports it.
///
/// # Errors
/// [`StoreError::TooLarge`] if the record exceeds the limit; [`StoreError::Corrupt`] if a value is not of its field.
pub fn encode(record: &ChangedRecord, names: &CodeNames) -> Result<Vec<u8>, StoreError> {
    let json = match record {
        ChangedRecord::Individual(record) => encode_one(record, names),
        ChangedRecord::Group(record) => encode_one(record, names),
        ChangedRecord::Program(record) => encode_one(record, names),
        ChangedRecord::ProgramMembership(record) => encode_one(record, names),
        ChangedRecord::Consent(record) => encode_one(record, names),
    }?;
    if json.len() > VALUE_BYTES_MAX {
        // Every store has the same limit, so that records can be moved: that of the binary form.
        super::encode_any(record)?;
    }
    Ok(json)
}

/// Decodes the record of that kind and key from stored JSON.
///
/// # Errors
/// [`StoreError::Corrupt`] if it cannot be read.
pub fn decode(kind: RecordKind, id: RecordId, json: &[u8]) -> Result<ChangedRecord, StoreError> {
    decode_selected(kind, id, json, None)
}

/// Decodes the selected fields of the record of that kind and key, without its identifiers; the complete record if
/// nothing is selected.
///
/// # Errors
/// [`StoreError::Corrupt`] if they cannot be read.
pub fn decode_selected(
    kind: RecordKind,
    id: RecordId,
    json: &[u8],
    selection: Option<&Selection>,
) -> Result<ChangedRecord, StoreError> {
    Ok(match kind {
        RecordKind::Individual => ChangedRecord::Individual(Arc::new(decode_fields(id, json, selection)?)),
        RecordKind::Group => ChangedRecord::Group(Arc::new(decode_fields(id, json, selection)?)),
        RecordKind::Program => ChangedRecord::Program(Arc::new(decode_fields(id, json, selection)?)),
        RecordKind::ProgramMembership => {
            ChangedRecord::ProgramMembership(Arc::new(decode_fields(id, json, selection)?))
        }
        RecordKind::Consent => ChangedRecord::Consent(Arc::new(decode_fields(id, json, selection)?)),
    })
}
