//! Which rows hold which code.

use super::bitmaps::Posting;
use super::tree::SharedTree;
use crate::domain::code::CodeNumber;
use crate::domain::vocabulary::CodedField;

/// A code in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CodeKey {
    /// Where it stands.
    pub(super) field: CodedField,
    /// Which code.
    pub(super) number: CodeNumber,
}

/// Rows by code in use; a code that no record holds any more has no entry.
pub(super) type CodeIndex = SharedTree<CodeKey, Posting>;

/// Rows by something that records hold.
pub(super) trait PostingIndex<K> {
    /// Notes that a row holds it.
    fn set(&mut self, key: K, row: u32);
    /// Notes that a row no longer holds it.
    fn clear(&mut self, key: &K, row: u32);
}

impl<K: Ord + Clone> PostingIndex<K> for SharedTree<K, Posting> {
    fn set(&mut self, key: K, row: u32) {
        match self.get_mut(&key) {
            Some(posting) => posting.insert(row),
            None => self.insert(key, Posting::of(row)),
        }
    }

    fn clear(&mut self, key: &K, row: u32) {
        let Some(posting) = self.get_mut(key) else { return };
        posting.remove(row);
        if posting.is_empty() {
            self.remove(key);
        }
    }
}

/// The postings of these codes in whatever field.
pub(super) fn postings_of<'a>(index: &'a CodeIndex, numbers: &'a [CodeNumber]) -> impl Iterator<Item = &'a Posting> {
    let keys = numbers.iter().flat_map(|number| CodedField::ALL.map(|field| CodeKey { field, number: *number }));
    keys.filter_map(|key| index.get(&key))
}

/// What of the one sorted list is not in the other.
pub(super) fn difference<'a, T: Ord>(of: &'a [T], without: &'a [T]) -> impl Iterator<Item = &'a T> {
    of.iter().filter(|item| without.binary_search(item).is_err())
}

/// A sorted list in which everything occurs once.
pub(super) fn sorted_once<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    items.sort_unstable();
    items.dedup();
    items
}
