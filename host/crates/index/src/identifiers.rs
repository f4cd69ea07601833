//! The index of rows by identifier, without storing the identifiers.
//!
//! **Invariant:** an identifier is stored as 128 bits, its SipHash under a secret key that is generated when the
//! register is read from its records and exists only in memory and in checkpoints. Collisions cannot be searched for
//! without that key, and among a thousand million identifiers two collide by chance once in 10^20 registers; so a search
//! does not compare a match with the record again. A read of one record does.

use std::hash::Hasher as _;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use siphasher::sip128::{Hasher128 as _, SipHasher24};

use super::checkpoint::stored_fields;
use super::codes::{Edit, Edits};
use super::tree::SharedTree;
use daftar_domain::identifier::IdentifierKey;

/// The hash of an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IdentifierHash([u8; 16]);

/// The secret key.
#[derive(Clone)]
pub(super) struct IdentifierHasher(SipHasher24);

impl Default for IdentifierHasher {
    /// Generates a key.
    fn default() -> Self {
        Self::of_key(rand::random())
    }
}

impl IdentifierHasher {
    /// Creates a hasher from a key.
    pub(super) fn of_key(key: [u8; 16]) -> Self {
        Self(SipHasher24::new_with_key(&key))
    }

    /// Returns the key.
    pub(super) fn key(&self) -> [u8; 16] {
        self.0.key()
    }

    /// Hashes an identifier.
    pub(super) fn hash(&self, key: &IdentifierKey) -> IdentifierHash {
        let mut hasher = self.0;
        hasher.write(key.system.as_str().as_bytes());
        // A system has no zero byte, so that different identifiers have different bytes.
        hasher.write(&[0]);
        hasher.write(key.value.as_str().as_bytes());
        IdentifierHash(hasher.finish128().as_bytes())
    }
}

impl Serialize for IdentifierHash {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for IdentifierHash {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // All bytes in one call: a register has more identifiers than people.
        let bytes = <&[u8]>::deserialize(from)?;
        bytes.try_into().map(Self).map_err(|_| D::Error::custom("an identifier has 16 bytes"))
    }
}

/// Rows by identifier. A row appears under each of its identifiers, an identifier under each record that has or had it.
#[derive(Debug, Clone, Default)]
pub(super) struct IdentifierIndex {
    pub(super) entries: SharedTree<(IdentifierHash, u32), ()>,
}

stored_fields!(IdentifierIndex { entries });

impl IdentifierIndex {
    /// Returns the row of every entry, one for each identifier of a row.
    pub(super) fn every_row(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().map(|((_, row), ())| *row)
    }

    /// Returns true if a row has an identifier.
    pub(super) fn has(&self, hash: IdentifierHash, row: u32) -> bool {
        self.entries.get(&(hash, row)).is_some()
    }

    /// Applies changes, in the order of the hashes.
    pub(super) fn apply(&mut self, mut edits: Edits<IdentifierHash>) {
        edits.sort_by_key(|(hash, _, _)| *hash);
        for (hash, row, edit) in edits {
            match edit {
                Edit::Set => self.entries.insert((hash, row), ()),
                Edit::Clear => self.entries.remove(&(hash, row)),
            }
        }
    }

    /// Adds entries in any order. An empty index is built of all at once.
    pub(super) fn add(&mut self, mut entries: Vec<(IdentifierHash, u32)>) {
        entries.sort_unstable();
        entries.dedup();
        if self.entries.iter().next().is_some() {
            return entries.into_iter().for_each(|entry| self.entries.insert(entry, ()));
        }
        // The entries ascend.
        self.entries =
            SharedTree::from_ascending(entries.into_iter().map(|entry| (entry, ())).collect()).unwrap_or_default();
    }

    /// Returns the rows that have an identifier, ascending.
    pub(super) fn rows(&self, hash: IdentifierHash) -> Vec<u32> {
        self.each_row(hash).collect()
    }

    /// Returns the row that has an identifier; `None` if no row has it, or more than one.
    pub(super) fn only_row(&self, hash: IdentifierHash) -> Option<u32> {
        let mut rows = self.each_row(hash);
        rows.next().filter(|_| rows.next().is_none())
    }

    fn each_row(&self, hash: IdentifierHash) -> impl Iterator<Item = u32> + '_ {
        let entries = self.entries.from(&(hash, 0)).map(|(entry, ())| *entry);
        entries.take_while(move |(at, _)| *at == hash).map(|(_, row)| row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_rows_of_each_identifier() {
        let hasher = IdentifierHasher::default();
        let hash = |text: &str| hasher.hash(&IdentifierKey::parse(text).unwrap());
        let mut index = IdentifierIndex::default();
        let first = hash("urn:a:b|1");
        index.apply(vec![
            (first, 5, Edit::Set),
            (hash("urn:a:b|2"), 4, Edit::Set),
            (first, 3, Edit::Set),
            (first, 8, Edit::Set),
            (first, 9, Edit::Set),
            (first, 8, Edit::Clear),
        ]);
        assert_eq!(index.rows(hash("urn:a:b|1")), [3, 5, 9]);
        assert_eq!(index.rows(hash("urn:a:b|2")), [4]);
        assert!(index.rows(hash("urn:a:c|1")).is_empty());
        let only = |text: &str| index.only_row(hash(text));
        assert_eq!([only("urn:a:b|1"), only("urn:a:b|2"), only("urn:a:c|1")], [None, Some(4), None]);
        index.apply(vec![(first, 5, Edit::Clear)]);
        assert_eq!(index.rows(hash("urn:a:b|1")), [3, 9]);
    }

    #[test]
    fn the_parts_of_an_identifier_are_hashed_with_a_zero_byte_between_them() {
        let hasher = IdentifierHasher::of_key([5; 16]);
        let whole = SipHasher24::new_with_key(&[5; 16]).hash(b"urn:a:b\x001|2");
        assert_eq!(hasher.hash(&IdentifierKey::parse("urn:a:b|1|2").unwrap()), IdentifierHash(whole.as_bytes()));
    }
}
