//! The stored JSON of records of every kind: what a database that people ask in SQL keeps of them. The rows of the schema drive it, as they
//! drive the binary form ([`super::fields`]); the key is not in it.
//!
//! | member | how |
//! |---|---|
//! | `meta` | `version_id`: number; `last_updated`: RFC 3339 in UTC with milliseconds; `source`: the client, absent where there is none |
//! | `identifier` | of each its `system` and `value`, and its `period` where it has one |
//! | a field | under its name in bodies; a list is an array, a part an object |
//! | `extension` | by path, of each value its `type` and `value`; an array where the field has several |
//! | `revision` | the revision of the schema; absent where it is 1 |
//! | `unknown` | in any object: what the binary form keeps under tags that this program does not know, by tag, in hexadecimal digits |
//!
//! | value | how |
//! |---|---|
//! | text | a string; `{"utf8": "…"}` with its bytes in hexadecimal digits where it has U+0000, which `jsonb` refuses |
//! | number | a number; `"-0"` for the negative zero, which `jsonb` does not have |
//! | day | `"2026-11-24"` |
//! | word | the word |
//! | code | `uri`, `number`, `edition`, `edition_number`: the numbers count, and the texts are for people and SQL |
//! | reference | `kind`, and `id`: the key of the record |
//! | name of a consent | a UUID |
//! | photo | `digest` in hexadecimal digits, and `length` |
//!
//! **Invariant:** what is read is what was written, whatever order of members, white space and notation of numbers the database chose.
//!
//! **Invariant:** what a newer program stored outlives a rewrite by this one: members of a later revision without a row are kept as they are,
//! under the tag [`MEMBERS`].

mod read;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;

use daftar_domain::change::ChangedRecord;
use daftar_domain::code::{CodeNumber, EditionNumber};
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::schema::Tag;

pub(super) use self::read::kept_members;
pub use self::read::{codes, decode_one};
pub use self::write::encode_one;
use super::VALUE_BYTES_MAX;
use crate::{StoreError, StoredCodeTable};

/// The tag under which members are kept that this program does not know: an object of stored JSON. No field has it.
pub const MEMBERS: Tag = Tag(u16::MAX);

/// What stands beside the fields of a record.
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
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self { codes: Vec::new(), editions: Vec::new() }
    }

    /// Applies what has numbers, in the order of the numbers.
    pub fn apply(&mut self, numbered: &StoredCodeTable) {
        self.codes.extend(numbered.codes.iter().map(|uri| uri.to_string().into()));
        self.editions.extend(numbered.editions.iter().map(|(_, edition)| edition.as_str().into()));
    }

    /// How many codes and editions have numbers.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.codes.len(), self.editions.len())
    }

    /// Forgets all but the first, as what was applied with the others was not written.
    pub fn truncate(&mut self, (codes, editions): (usize, usize)) {
        self.codes.truncate(codes);
        self.editions.truncate(editions);
    }

    /// The URI of a code.
    #[must_use]
    pub fn uri(&self, number: CodeNumber) -> Option<&str> {
        self.codes.get(number.0 as usize).map(AsRef::as_ref)
    }

    fn edition(&self, number: EditionNumber) -> Option<&str> {
        self.editions.get(number.0 as usize).map(AsRef::as_ref)
    }
}

/// The stored JSON of a record. A code whose number has no text is written by its number alone: verification reports it.
///
/// # Errors
/// [`StoreError::TooLarge`] when the record is too large for any store; [`StoreError::Corrupt`] when a value has not the shape of its field.
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

/// The record of that kind and key that stored JSON says.
///
/// # Errors
/// [`StoreError::Corrupt`] when it cannot be read.
pub fn decode(kind: RecordKind, id: RecordId, json: &[u8]) -> Result<ChangedRecord, StoreError> {
    Ok(match kind {
        RecordKind::Individual => ChangedRecord::Individual(Arc::new(decode_one(id, json)?)),
        RecordKind::Group => ChangedRecord::Group(Arc::new(decode_one(id, json)?)),
        RecordKind::Program => ChangedRecord::Program(Arc::new(decode_one(id, json)?)),
        RecordKind::ProgramMembership => ChangedRecord::ProgramMembership(Arc::new(decode_one(id, json)?)),
        RecordKind::Consent => ChangedRecord::Consent(Arc::new(decode_one(id, json)?)),
    })
}
