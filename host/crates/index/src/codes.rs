//! Which rows hold which code.

use super::bitmaps::Posting;
use super::extensions::{ExtensionNumber, ExtensionNumbers};
use super::stored::{Bytes, Stored, Unsound};
use super::tree::SharedTree;
use daftar_domain::code::CodeNumber;
use daftar_domain::vocabulary::CodedField;

/// Where a code stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CodeAt {
    /// In a field that every registry has.
    Field(CodedField),
    /// In a field that a module adds.
    Extension(ExtensionNumber),
}

/// A code in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CodeKey {
    /// Where it stands.
    pub(super) place: CodeAt,
    /// Which code.
    pub(super) number: CodeNumber,
}

impl Stored for CodeKey {
    fn put(&self, to: &mut Vec<u8>) {
        match self.place {
            CodeAt::Field(field) => {
                to.push(0);
                field.put(to);
            }
            CodeAt::Extension(number) => {
                to.push(1);
                number.put(to);
            }
        }
        self.number.put(to);
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        let place = match from.array()? {
            [0] => CodeAt::Field(CodedField::take(from)?),
            [1] => CodeAt::Extension(ExtensionNumber::take(from)?),
            _ => return Err(Unsound("a code stands in a place that is unknown")),
        };
        Ok(Self { place, number: CodeNumber::take(from)? })
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
