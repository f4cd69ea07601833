//! Rows by the codes that they hold, and the numbers of the fields of modules that codes are in.
//!
//! **Invariant:** a field of a module keeps its number as long as the process runs, and in its checkpoints; there are as many numbers as
//! fields that any record ever held a code in.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use super::bitmaps::Posting;
use super::stored::Unsound;
use super::tree::SharedTree;
use daftar_domain::code::CodeNumber;
use daftar_domain::manifest::ExtensionPath;
use daftar_domain::search::CodedPlace;
use daftar_domain::vocabulary::CodedField;

/// Where a code stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum CodeAt {
    /// In a field that every registry has.
    Field(CodedField),
    /// In a field that a module adds.
    Extension(ExtensionNumber),
}

/// A code in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct CodeKey {
    /// Where it stands.
    pub(super) place: CodeAt,
    /// Which code.
    pub(super) number: CodeNumber,
}

/// The number of a field that a module adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct ExtensionNumber(u16);

/// The numbers of all fields that modules add. Copies share them.
#[derive(Debug, Clone, Default)]
pub(super) struct ExtensionNumbers(Arc<RwLock<BTreeMap<ExtensionPath, ExtensionNumber>>>);

impl ExtensionNumbers {
    /// The number of a field, a new one where it has none yet; none, where the numbers are used up.
    pub(super) fn number(&self, path: &ExtensionPath) -> Option<ExtensionNumber> {
        if let Some(number) = self.find(path) {
            return Some(number);
        }
        let mut numbers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let next = ExtensionNumber(u16::try_from(numbers.len()).ok()?);
        Some(*numbers.entry(path.clone()).or_insert(next))
    }

    /// The number of a field, if any record ever held a code in it.
    pub(super) fn find(&self, path: &ExtensionPath) -> Option<ExtensionNumber> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(path).copied()
    }

    /// Where a code stands; none, where no record holds one there.
    pub(super) fn place(&self, place: &CodedPlace) -> Option<CodeAt> {
        match place {
            CodedPlace::Field(field) => Some(CodeAt::Field(*field)),
            CodedPlace::Extension(path) => self.find(path).map(CodeAt::Extension),
        }
    }

    /// Every field in the order of the numbers.
    pub(super) fn paths(&self) -> Vec<ExtensionPath> {
        let numbers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut paths: Vec<_> = numbers.iter().map(|(path, number)| (*number, path.clone())).collect();
        paths.sort_unstable();
        paths.into_iter().map(|(_, path)| path).collect()
    }

    /// The fields have the numbers of their places.
    pub(super) fn of_paths(paths: Vec<ExtensionPath>) -> Result<Self, Unsound> {
        let numbers = Self::default();
        for (path, at) in paths.iter().zip(0_u16..) {
            if numbers.number(path) != Some(ExtensionNumber(at)) {
                return Err(Unsound("a field of a module has two numbers"));
            }
        }
        Ok(numbers)
    }

    /// Every number that is given.
    pub(super) fn every(&self) -> Vec<ExtensionNumber> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().copied().collect()
    }
}

/// Rows by code in use; a code that no record holds any more has no entry.
pub(super) type CodeIndex = SharedTree<CodeKey, Posting>;

/// What happens to a row in an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit {
    /// The row holds it now.
    Set,
    /// The row no longer holds it.
    Clear,
}

/// Changes of an index: of what, in which row. The order counts where the same thing changes twice in a row.
pub(super) type Edits<K> = Vec<(K, u32, Edit)>;

/// Makes many changes, key by key in ascending order: far fewer and nearer steps through the tree than one by one.
pub(super) fn apply_edits<K: Ord + Clone>(index: &mut SharedTree<K, Posting>, mut edits: Edits<K>) {
    edits.sort_by(|left, right| left.0.cmp(&right.0));
    for edits in edits.chunk_by(|left, right| left.0 == right.0) {
        let Some((key, _, _)) = edits.first() else { continue };
        match index.get_mut(key) {
            Some(posting) => {
                edit_posting(posting, edits);
                if posting.is_empty() {
                    index.remove(key);
                }
            }
            None => {
                let mut posting = Posting::default();
                edit_posting(&mut posting, edits);
                if !posting.is_empty() {
                    index.insert(key.clone(), posting);
                }
            }
        }
    }
}

fn edit_posting<K>(posting: &mut Posting, edits: &[(K, u32, Edit)]) {
    for (_, row, edit) in edits {
        match edit {
            Edit::Set => posting.insert(*row),
            Edit::Clear => posting.remove(*row),
        }
    }
}

/// Counts for each row of a segment how many entries of an index lead to it.
pub(super) fn count_entries<K: Ord + Clone>(index: &SharedTree<K, Posting>, segment: u16, counts: &mut [u32]) {
    for (_, posting) in index.iter() {
        for low in posting.segment(segment).iter().flat_map(|rows| rows.iter()) {
            if let Some(count) = counts.get_mut(low as usize) {
                *count = count.saturating_add(1);
            }
        }
    }
}

/// Notes what has to change so that a row holds the one sorted list instead of the other.
pub(super) fn note_edits<T: Ord, K>(edits: &mut Edits<K>, row: u32, old: &[T], new: &[T], key: impl Fn(&T) -> K) {
    edits.extend(difference(old, new).map(|item| (key(item), row, Edit::Clear)));
    edits.extend(difference(new, old).map(|item| (key(item), row, Edit::Set)));
}

/// The postings of these codes in whatever field.
pub(super) fn postings_of<'a>(
    index: &'a CodeIndex,
    extensions: &ExtensionNumbers,
    numbers: &'a [CodeNumber],
) -> impl Iterator<Item = &'a Posting> {
    let fields = CodedField::ALL.into_iter().map(CodeAt::Field);
    let places: Vec<CodeAt> = fields.chain(extensions.every().into_iter().map(CodeAt::Extension)).collect();
    let keys = numbers
        .iter()
        .flat_map(move |number| places.clone().into_iter().map(|place| CodeKey { place, number: *number }));
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
