//! The index of rows by code, and the numbers of the coded extension fields of modules.
//!
//! **Invariant:** an extension field keeps its number while the process runs, and in its checkpoints; there are as many
//! numbers as fields in which any record ever had a code.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use super::bitmaps::Posting;
use super::stored::Corrupt;
use super::tree::SharedTree;
use daftar_domain::code::CodeNumber;
use daftar_domain::manifest::ExtensionPath;
use daftar_domain::search::CodedPlace;
use daftar_domain::vocabulary::CodedField;

/// The field of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum CodeAt {
    /// A built-in field.
    Field(CodedField),
    /// An extension field of a module.
    Extension(ExtensionNumber),
}

/// A code in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct CodeKey {
    /// The field.
    pub(super) place: CodeAt,
    /// The code.
    pub(super) number: CodeNumber,
}

/// The number of an extension field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct ExtensionNumber(u16);

/// The numbers of all extension fields, shared by clones.
#[derive(Debug, Clone, Default)]
pub(super) struct ExtensionNumbers(Arc<RwLock<BTreeMap<ExtensionPath, ExtensionNumber>>>);

impl ExtensionNumbers {
    /// Returns the number of a field, assigning one if it has none; `None` if the numbers are used up.
    pub(super) fn number(&self, path: &ExtensionPath) -> Option<ExtensionNumber> {
        if let Some(number) = self.find(path) {
            return Some(number);
        }
        let mut numbers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let next = ExtensionNumber(u16::try_from(numbers.len()).ok()?);
        Some(*numbers.entry(path.clone()).or_insert(next))
    }

    /// Returns the number of a field, if any record ever had a code in it.
    pub(super) fn find(&self, path: &ExtensionPath) -> Option<ExtensionNumber> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(path).copied()
    }

    /// Returns the field key; `None` if no record has a code in the field.
    pub(super) fn place(&self, place: &CodedPlace) -> Option<CodeAt> {
        match place {
            CodedPlace::Field(field) => Some(CodeAt::Field(*field)),
            CodedPlace::Extension(path) => self.find(path).map(CodeAt::Extension),
        }
    }

    /// Returns every field, in the order of the numbers.
    pub(super) fn paths(&self) -> Vec<ExtensionPath> {
        let numbers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut paths: Vec<_> = numbers.iter().map(|(path, number)| (*number, path.clone())).collect();
        paths.sort_unstable();
        paths.into_iter().map(|(_, path)| path).collect()
    }

    /// Restores the numbers: each field has its index.
    pub(super) fn of_paths(paths: Vec<ExtensionPath>) -> Result<Self, Corrupt> {
        let numbers = Self::default();
        for (path, at) in paths.iter().zip(0_u16..) {
            if numbers.number(path) != Some(ExtensionNumber(at)) {
                return Err(Corrupt("a field of a module has two numbers"));
            }
        }
        Ok(numbers)
    }

    /// Returns every assigned number.
    pub(super) fn every(&self) -> Vec<ExtensionNumber> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().copied().collect()
    }
}

/// Rows by code; a code without records has no entry.
pub(super) type CodeIndex = SharedTree<CodeKey, Posting>;

/// The change of a row in an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit {
    /// The row has the key now.
    Set,
    /// The row no longer has the key.
    Clear,
}

/// Changes of an index: key, row and edit. The order matters if the same key of a row changes twice.
pub(super) type Edits<K> = Vec<(K, u32, Edit)>;

/// Applies changes grouped by key in ascending order: far fewer and shorter steps through the tree than one by one.
pub(super) fn apply_edits<K: Ord + Clone>(index: &mut SharedTree<K, Posting>, mut edits: Edits<K>) {
    edits.sort_by(|left, right| left.0.cmp(&right.0));
    for edits in edits.chunk_by(|left, right| left.0 == right.0) {
        let Some((key, _, _)) = edits.first() else { continue };
        edit_key(index, key, edits.iter().map(|(_, row, edit)| (*row, *edit)));
    }
}

/// Applies the changes of one key.
fn edit_key<K: Ord + Clone>(
    index: &mut SharedTree<K, Posting>,
    key: &K,
    edits: impl Iterator<Item = (u32, Edit)> + Clone,
) {
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

fn edit_posting(posting: &mut Posting, edits: impl Iterator<Item = (u32, Edit)> + Clone) {
    let are_set = edits.clone().all(|(_, edit)| edit == Edit::Set);
    if are_set && edits.clone().is_sorted_by(|one, next| one.0 < next.0) {
        return posting.extend(edits.map(|(row, _)| row));
    }
    for (row, edit) in edits {
        match edit {
            Edit::Set => posting.insert(row),
            Edit::Clear => posting.remove(row),
        }
    }
}

/// Changes of an index of words, by word. Most words occur in many records, so that grouping them by hash is cheaper
/// than sorting all of them.
#[derive(Debug, Default)]
pub(super) struct WordEdits(HashMap<Arc<str>, Vec<(u32, Edit)>>);

impl WordEdits {
    /// Records the edits that replace the old sorted words of a row by the new ones.
    pub(super) fn note(&mut self, row: u32, old: &[&str], new: &[&str]) {
        difference(old, new).for_each(|word| self.add(word, row, Edit::Clear));
        difference(new, old).for_each(|word| self.add(word, row, Edit::Set));
    }

    fn add(&mut self, word: &str, row: u32, edit: Edit) {
        match self.0.get_mut(word) {
            Some(edits) => edits.push((row, edit)),
            None => drop(self.0.insert(Arc::from(word), vec![(row, edit)])),
        }
    }

    /// Applies the changes, in the order of the words.
    pub(super) fn apply(self, index: &mut SharedTree<Arc<str>, Posting>) {
        let mut edits: Vec<_> = self.0.into_iter().collect();
        edits.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        for (word, edits) in edits {
            edit_key(index, &word, edits.into_iter());
        }
    }
}

/// Counts, for each row of a segment, the entries of an index that contain it.
pub(super) fn count_entries<K: Ord + Clone>(index: &SharedTree<K, Posting>, segment: u16, counts: &mut [u32]) {
    for (_, posting) in index.iter() {
        for low in posting.segment(segment).iter().flat_map(|rows| rows.iter()) {
            if let Some(count) = counts.get_mut(low as usize) {
                *count = count.saturating_add(1);
            }
        }
    }
}

/// Records the edits that replace the old sorted list of a row by the new one.
pub(super) fn note_edits<T: Ord, K>(edits: &mut Edits<K>, row: u32, old: &[T], new: &[T], key: impl Fn(&T) -> K) {
    edits.extend(difference(old, new).map(|item| (key(item), row, Edit::Clear)));
    edits.extend(difference(new, old).map(|item| (key(item), row, Edit::Set)));
}

/// Returns the postings of these codes in any field.
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

/// Returns the items of one sorted list that are not in the other.
pub(super) fn difference<'a, T: Ord>(of: &'a [T], without: &'a [T]) -> impl Iterator<Item = &'a T> {
    of.iter().filter(|item| without.binary_search(item).is_err())
}

/// Returns a sorted list without duplicates.
pub(super) fn sorted_once<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    items.sort_unstable();
    items.dedup();
    items
}
