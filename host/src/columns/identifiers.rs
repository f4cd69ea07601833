//! Which rows an identifier belongs to, without keeping the identifier.
//!
//! **Invariant:** an identifier is known by 128 bits, two SipHash values under secret keys that are drawn at each start and never
//! leave the process. Nobody can look for two identifiers with the same bits without those keys, and among a thousand million
//! identifiers two meet by chance once in 10^20 registers; so a hit is not compared with the record again.

use std::hash::{BuildHasher, RandomState};

use super::codes::{Edit, Edits};
use super::tree::SharedTree;
use crate::domain::identifier::IdentifierKey;

/// What stands for an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IdentifierHash(u64, u64);

/// The secret keys of one process.
#[derive(Debug, Clone, Default)]
pub(super) struct IdentifierHasher(RandomState, RandomState);

impl IdentifierHasher {
    /// What stands for an identifier.
    pub(super) fn hash(&self, key: &IdentifierKey) -> IdentifierHash {
        IdentifierHash(self.0.hash_one(key), self.1.hash_one(key))
    }
}

/// Rows by identifier. A row appears under each of its identifiers, an identifier under each record that has or had it.
#[derive(Debug, Clone, Default)]
pub(super) struct IdentifierIndex {
    entries: SharedTree<(IdentifierHash, u32), ()>,
}

impl IdentifierIndex {
    /// The row of every entry, one for each identifier of a row.
    pub(super) fn every_row(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().map(|((_, row), ())| *row)
    }

    /// Whether a row has an identifier.
    pub(super) fn has(&self, hash: IdentifierHash, row: u32) -> bool {
        self.entries.get(&(hash, row)).is_some()
    }

    /// Makes many changes, in the order of the hashes.
    pub(super) fn apply(&mut self, mut edits: Edits<IdentifierHash>) {
        edits.sort_by_key(|(hash, _, _)| *hash);
        for (hash, row, edit) in edits {
            match edit {
                Edit::Set => self.entries.insert((hash, row), ()),
                Edit::Clear => self.entries.remove(&(hash, row)),
            }
        }
    }

    /// The rows that have an identifier, ascending.
    pub(super) fn rows(&self, hash: IdentifierHash) -> Vec<u32> {
        let entries = self.entries.from(&(hash, 0)).map(|(entry, ())| *entry);
        entries.take_while(|(at, _)| *at == hash).map(|(_, row)| row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_the_rows_of_each_identifier() {
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
        index.apply(vec![(first, 5, Edit::Clear)]);
        assert_eq!(index.rows(hash("urn:a:b|1")), [3, 9]);
    }
}
