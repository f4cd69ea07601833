//! The individuals or groups of a snapshot, and the conversion of a record to columns, bitmaps, words and identifiers.
//!
//! **Invariant:** an update of a record clears every bit of the previous version: codes in columns are read from the
//! columns, all others from [`Terms`], which only the writer has.

use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bitmaps::Posting;
use super::blobs::Blobs;
use super::checkpoint::{CheckpointWriter, Loading, Stored, join};
use super::chunk::RowValues;
use super::codes::{CodeAt, CodeIndex, CodeKey, Edit, Edits, WordEdits, apply_edits, note_edits, sorted_once};
use super::column::{Column, TextColumn};
use super::field_columns::FieldColumns;
use super::identifiers::{IdentifierHash, IdentifierIndex};
use super::prepared::Preparer;
use super::rows::Rows;
use super::stored::{self, Corrupt};
use super::terms;
use super::tree::SharedTree;
use daftar_domain::address;
use daftar_domain::group::{self, Group};
use daftar_domain::individual::{self, Individual};
use daftar_domain::person_name::{name_words, search_phrase, search_words, sort_text};
use daftar_domain::record::{Fields, Record, RecordId, RecordType, VersionId};
use daftar_domain::search::order::sortable;
use daftar_domain::search::phrase::PhraseField;
use daftar_domain::value::{Key, List, Part};

/// Rows by word with a prefix letter for its [`WordKind`], and by whole texts ([`PhraseField::term`]).
pub(super) type WordIndex = SharedTree<Arc<str>, Posting>;

/// The source of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordKind {
    /// A word of the name.
    Name,
    /// A word of an address.
    Address,
}

impl WordKind {
    /// Returns the key of a word or of a prefix.
    pub(super) fn key(self, word: &str) -> String {
        let letter = match self {
            Self::Name => 'n',
            Self::Address => 'a',
        };
        format!("{letter}{word}")
    }
}

/// All records of one kind, individuals or groups, cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Subjects<R> {
    /// The record of each row.
    pub(super) rows: Rows,
    /// Rows by code.
    pub(super) codes: CodeIndex,
    /// Rows by word of the name and of addresses.
    pub(super) words: WordIndex,
    /// Rows by identifier.
    pub(super) identifiers: IdentifierIndex,
    /// Rows of inactive records.
    pub(super) inactive: Posting,
    /// Names in their sort form.
    pub(super) names: TextColumn,
    /// Time of the last update, in milliseconds since 1970-01-01.
    pub(super) last_updated: Column<i64>,
    /// The version of each record.
    pub(super) versions: Column<u32>,
    /// The fields that have columns.
    pub(super) columns: FieldColumns<R>,
}

impl<R> Default for Subjects<R> {
    fn default() -> Self {
        Self {
            rows: Rows::default(),
            codes: CodeIndex::default(),
            words: WordIndex::default(),
            identifiers: IdentifierIndex::default(),
            inactive: Posting::default(),
            names: TextColumn::default(),
            last_updated: Column::default(),
            versions: Column::default(),
            columns: FieldColumns::default(),
        }
    }
}

/// The index entries of a row that are not in columns, to be cleared by the next update of the record.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Terms {
    /// Codes without a column, sorted, each once.
    codes: Box<[CodeKey]>,
    /// The keys of the words, sorted, each once, one per line.
    pub(super) words: Box<str>,
    /// Sorted, each once.
    pub(super) identifiers: Box<[IdentifierHash]>,
}

/// A decomposed record, ready to be written into the columns.
pub(super) struct Prepared {
    id: RecordId,
    pub(super) values: RowValues,
    pub(super) is_inactive: bool,
    pub(super) name: String,
    pub(super) last_updated: i64,
    pub(super) version: u32,
    pub(super) terms: Terms,
    contents: Contents,
}

/// Changes of the indexes, collected from all records of a call.
#[derive(Default)]
struct IndexEdits {
    codes: Edits<CodeKey>,
    words: WordEdits,
    identifiers: Edits<IdentifierHash>,
}

/// The data of its records that a register contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Contents {
    /// Everything that searches and rules read.
    #[default]
    All,
    /// Only the data that rules read: the regions of addresses, but no names, words, identifiers or other codes.
    Rules,
}

impl Prepared {
    /// Decomposes an individual. Reads nothing of the register, so that it can be done before the register is locked.
    pub(super) fn of_individual(person: &Individual, preparer: &Preparer) -> Self {
        let name = || person.details.get(individual::NAME);
        let words = || name().map(name_words).unwrap_or_default();
        let sorted = || name().map(sort_text).unwrap_or_default();
        Self::new(person, words, sorted, person.details.get(individual::ACTIVE), individual::ADDRESS, preparer)
    }

    /// Decomposes a group, without its members.
    pub(super) fn of_group(group: &Group, preparer: &Preparer) -> Self {
        let name = group.details.get(group::NAME).unwrap_or_default();
        let (words, sorted) = (|| search_words(name), || search_phrase(name));
        Self::new(group, words, sorted, group.details.get(group::ACTIVE), group::ADDRESS, preparer)
    }

    fn new<R: RecordType>(
        record: &Record<Fields<R>>,
        name_words: impl Fn() -> Vec<String>,
        name: impl Fn() -> String,
        active: Option<bool>,
        addresses: Key<List<Part>>,
        preparer: &Preparer,
    ) -> Self {
        let details = &record.details;
        let values = FieldColumns::<R>::values_of(details);
        let phrases = PhraseField::terms(R::KIND, details);
        let (name, terms) = match preparer.contents {
            Contents::Rules => (String::new(), Terms { words: lines(phrases), ..Terms::default() }),
            Contents::All => {
                let in_columns: Vec<CodeKey> = FieldColumns::<R>::codes_of(&values).collect();
                let every = details.every_code().into_iter();
                let every = every.map(|(field, value)| CodeKey { place: CodeAt::Field(field), number: value.number });
                let others = every.filter(|code| !in_columns.contains(code));
                let of_modules = details.extension.coded().filter_map(|(path, value)| {
                    let place = CodeAt::Extension(preparer.extensions.number(path)?);
                    Some(CodeKey { place, number: value.number })
                });
                let of_name = name_words().into_iter().map(|word| WordKind::Name.key(&word));
                let of_addresses = details.items(addresses).flat_map(address::search_words);
                let of_addresses = of_addresses.map(|word| WordKind::Address.key(&word));
                let identifiers = details.identifiers.iter().map(|identifier| preparer.hasher.hash(&identifier.key));
                let terms = Terms {
                    codes: sorted_once(others.chain(of_modules)).into(),
                    words: lines(of_name.chain(of_addresses).chain(phrases)),
                    identifiers: sorted_once(identifiers).into(),
                };
                (name(), terms)
            }
        };
        Self {
            id: record.id,
            values,
            is_inactive: active == Some(false),
            name,
            last_updated: record.meta.last_updated.as_millisecond(),
            version: version_cell(record.meta.version),
            terms,
            contents: preparer.contents,
        }
    }

    /// Returns every code with its field, sorted, each once.
    pub(super) fn codes<R: RecordType>(&self) -> Vec<CodeKey> {
        sorted_once(FieldColumns::<R>::codes_of(&self.values).chain(self.terms.codes.iter().copied()))
    }
}

impl<R: RecordType> Subjects<R> {
    /// Writes records, each into its row or a new one. New identifiers are added to `unsorted` if it is given.
    pub(super) fn write(
        &mut self,
        all_terms: &mut Blobs,
        records: Vec<Prepared>,
        unsorted: Option<&mut Vec<(IdentifierHash, u32)>>,
    ) {
        let mut edits = IndexEdits::default();
        for prepared in records {
            self.write_row(all_terms, prepared, &mut edits);
        }
        apply_edits(&mut self.codes, edits.codes);
        edits.words.apply(&mut self.words);
        let are_new = edits.identifiers.iter().all(|(_, _, edit)| *edit == Edit::Set);
        match unsorted {
            Some(unsorted) if are_new => unsorted.extend(edits.identifiers.iter().map(|(hash, row, _)| (*hash, *row))),
            Some(unsorted) => {
                self.identifiers.add(std::mem::take(unsorted));
                self.identifiers.apply(edits.identifiers);
            }
            None => self.identifiers.apply(edits.identifiers),
        }
    }

    /// Writes the columns of a record and records the changes of the indexes.
    fn write_row(&mut self, all_terms: &mut Blobs, prepared: Prepared, edits: &mut IndexEdits) {
        let Some(row) = self.rows.place(R::KIND, prepared.id) else { return };
        let terms: Terms = terms::of_row(all_terms, row);
        if prepared.contents == Contents::All {
            let old_codes = sorted_once(self.columns.codes_at(row).chain(terms.codes.iter().copied()));
            note_edits(&mut edits.codes, row, &old_codes, &prepared.codes::<R>(), |key| *key);
            self.names.set(row, sortable(&prepared.name));
            self.last_updated.set(row, Some(prepared.last_updated));
        }
        let old_words: Vec<&str> = terms.words.lines().collect();
        let new_words: Vec<&str> = prepared.terms.words.lines().collect();
        edits.words.note(row, &old_words, &new_words);
        note_edits(&mut edits.identifiers, row, &terms.identifiers, &prepared.terms.identifiers, |hash| *hash);
        if prepared.is_inactive {
            self.inactive.insert(row);
        } else {
            self.inactive.remove(row);
        }
        self.versions.set(row, Some(prepared.version));
        self.columns.set(row, &prepared.values);
        terms::set_row(all_terms, row, &prepared.terms);
    }
}

/// Number of sections of a checkpoint for the records of one kind.
pub(super) const PARTS: u8 = 9;

impl<R: RecordType> Stored for Subjects<R> {
    fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
        let Self { rows, codes, words, identifiers, inactive, names, last_updated, versions, columns } = self;
        rows.store(checkpoint)?;
        codes.store(checkpoint)?;
        checkpoint.values(words.iter().map(|(word, rows)| (&**word, rows)))?;
        identifiers.store(checkpoint)?;
        checkpoint.one(inactive)?;
        names.store(checkpoint)?;
        last_updated.store(checkpoint)?;
        versions.store(checkpoint)?;
        columns.store(checkpoint)
    }

    fn load(checkpoint: &mut Loading<'_>) -> Result<Self, Corrupt> {
        let (mut of_rows, mut of_indexes) = (checkpoint.fork(1), checkpoint.fork(4));
        let ((rows, names, last_updated, versions, columns), (codes, words, identifiers, inactive)) = join(
            || {
                let rows = Rows::load(&mut of_rows)?;
                of_rows.end()?;
                let names = TextColumn::load(checkpoint, rows.count())?;
                let (last_updated, versions) = (Column::load(checkpoint)?, Column::load(checkpoint)?);
                Ok((rows, names, last_updated, versions, FieldColumns::load(checkpoint)?))
            },
            || {
                let codes = SharedTree::load(&mut of_indexes)?;
                let words = load_words(&mut of_indexes)?;
                let identifiers = IdentifierIndex::load(&mut of_indexes)?;
                let inactive = of_indexes.one()?;
                of_indexes.end().map(|()| (codes, words, identifiers, inactive))
            },
        )?;
        Ok(Self { rows, codes, words, identifiers, inactive, names, last_updated, versions, columns })
    }
}

/// Reads words from a checkpoint.
fn load_words(checkpoint: &mut Loading<'_>) -> Result<WordIndex, Corrupt> {
    let words = checkpoint.each(|from| {
        let (word, rows): (&str, Posting) = stored::take(from)?;
        Ok((Arc::<str>::from(word), rows))
    })?;
    SharedTree::from_ascending(words)
}

/// Returns the words sorted, each once, one per line.
fn lines(words: impl Iterator<Item = String>) -> Box<str> {
    sorted_once(words).join("\n").into()
}

/// Returns a version as a cell: no record has more than four thousand million versions.
pub(super) fn version_cell(version: VersionId) -> u32 {
    u32::try_from(version.0).unwrap_or(u32::MAX - 1)
}
