//! The individuals of a snapshot, and how a written record becomes columns, bitmaps, words and identifiers.
//!
//! **Invariant:** what a record set is known when it is written again: codes of columns from the columns, everything else from
//! [`Terms`], which the writer alone keeps; so no bit outlives the version of the record that set it.

use std::sync::Arc;

use super::bitmaps::Posting;
use super::chunk::{self, CODE_COLUMNS, Chunk, RowValues};
use super::codes::{CodeIndex, CodeKey, Edits, apply_edits, note_edits, sorted_once};
use super::identifiers::{IdentifierHash, IdentifierHasher, IdentifierIndex};
use super::rows::{Place, Rows};
use super::tree::SharedTree;
use crate::domain::calendar::days_since_epoch;
use crate::domain::individual::Individual;
use crate::domain::person_name::PersonName;
use crate::domain::record::RecordId;

/// Rows by word of the name.
pub(super) type WordIndex = SharedTree<Arc<str>, Posting>;

/// All individuals, cheap to copy.
#[derive(Debug, Clone, Default)]
pub(super) struct Individuals {
    /// Which record stands where.
    pub(super) rows: Rows,
    /// Rows by code.
    pub(super) codes: CodeIndex,
    /// Rows by word of the name.
    pub(super) words: WordIndex,
    /// Rows by identifier.
    pub(super) identifiers: IdentifierIndex,
    /// Rows of records that say that they are not in use.
    pub(super) inactive: Posting,
    chunks: Arc<Vec<Arc<Chunk>>>,
}

/// What a row set beside the columns, to be cleared when the record is written again.
#[derive(Debug, Default)]
pub(super) struct Terms {
    /// Codes that no column holds, sorted, each once.
    codes: Box<[CodeKey]>,
    /// The words of the name, sorted, each once, with a space between them.
    words: Box<str>,
    /// Sorted, each once.
    identifiers: Box<[IdentifierHash]>,
}

/// A record taken apart, ready to be written into the columns.
pub(super) struct Prepared {
    id: RecordId,
    values: RowValues,
    terms: Terms,
}

/// Changes of the indexes, collected over all records of a call.
#[derive(Default)]
struct IndexEdits {
    codes: Edits<CodeKey>,
    words: Edits<Arc<str>>,
    identifiers: Edits<IdentifierHash>,
}

impl Prepared {
    /// Takes a record apart. Needs nothing of the register, so that it can happen before the register is locked.
    pub(super) fn new(individual: &Individual, hasher: &IdentifierHasher) -> Self {
        let details = &individual.details;
        let mut values = RowValues {
            birth_date: details.birth_date.map(days_since_epoch),
            deceased_date: details.deceased_date.map(days_since_epoch),
            birth_date_estimated: details.birth_date_estimated,
            active: details.active,
            income_amount: details.income.map(|income| income.amount),
            ..RowValues::default()
        };
        let mut others = Vec::new();
        for (field, value) in details.every_code() {
            let column = CODE_COLUMNS.into_iter().position(|column| column == field);
            match column.and_then(|column| values.codes.get_mut(column)) {
                Some(cell @ None) => *cell = Some(value.number),
                Some(Some(number)) if *number == value.number => {}
                Some(Some(_)) | None => others.push(CodeKey { field: Some(field), number: value.number }),
            }
        }
        others.extend(details.extension.codes().map(|value| CodeKey { field: None, number: value.number }));
        let words = details.name.as_ref().map(PersonName::search_words).unwrap_or_default();
        let terms = Terms {
            codes: sorted_once(others).into(),
            words: words.join(" ").into(),
            identifiers: sorted_once(details.identifiers.iter().map(|identifier| hasher.hash(&identifier.key))).into(),
        };
        Self { id: individual.id, values, terms }
    }

    fn codes(&self) -> Vec<CodeKey> {
        let columns = CODE_COLUMNS.into_iter().zip(self.values.codes);
        let columns = columns.filter_map(|(field, number)| Some(CodeKey { field: Some(field), number: number? }));
        sorted_once(columns.chain(self.terms.codes.iter().copied()))
    }
}

impl Individuals {
    /// The chunk of a row, if any row of it has ever been written.
    pub(super) fn chunk(&self, chunk: usize) -> Option<&Chunk> {
        self.chunks.get(chunk).map(Arc::as_ref)
    }

    /// Writes records, each into a new row or the row that it has.
    pub(super) fn write(&mut self, all_terms: &mut Vec<Terms>, records: Vec<Prepared>) {
        let mut edits = IndexEdits::default();
        for prepared in records {
            self.write_row(all_terms, prepared, &mut edits);
        }
        apply_edits(&mut self.codes, edits.codes);
        apply_edits(&mut self.words, edits.words);
        self.identifiers.apply(edits.identifiers);
    }

    /// Writes the columns of a record and notes what has to change in the indexes.
    fn write_row(&mut self, all_terms: &mut Vec<Terms>, prepared: Prepared, edits: &mut IndexEdits) {
        let row = match self.rows.place(prepared.id) {
            Place::Known(row) => row,
            Place::New(row) => {
                all_terms.push(Terms::default());
                row
            }
            Place::Refused => {
                tracing::error!(
                    record.id = prepared.id.0,
                    "an individual came out of the order of creation; searches do not find it until the next start"
                );
                return;
            }
        };
        let Some(terms) = all_terms.get_mut(row as usize) else { return };
        let (at, slot) = chunk::split(row);
        let old_codes = self.codes_at(at, slot, terms);
        let new_codes = prepared.codes();
        note_edits(&mut edits.codes, row, &old_codes, &new_codes, |key| *key);
        let old_words: Vec<&str> = words_of(&terms.words).collect();
        let new_words: Vec<&str> = words_of(&prepared.terms.words).collect();
        note_edits(&mut edits.words, row, &old_words, &new_words, |word| Arc::from(*word));
        note_edits(&mut edits.identifiers, row, &terms.identifiers, &prepared.terms.identifiers, |hash| *hash);
        match prepared.values.active {
            Some(false) => self.inactive.insert(row),
            Some(true) | None => self.inactive.remove(row),
        }
        let chunks = Arc::make_mut(&mut self.chunks);
        while chunks.len() <= at {
            chunks.push(Arc::default());
        }
        if let Some(chunk) = chunks.get_mut(at) {
            Arc::make_mut(chunk).set(slot, &prepared.values);
        }
        *terms = prepared.terms;
    }

    fn codes_at(&self, chunk: usize, slot: usize, terms: &Terms) -> Vec<CodeKey> {
        let columns = self.chunk(chunk).into_iter().flat_map(|chunk| chunk.codes_at(slot));
        let columns = columns.map(|(field, number)| CodeKey { field: Some(field), number });
        sorted_once(columns.chain(terms.codes.iter().copied()))
    }
}

fn words_of(words: &str) -> impl Iterator<Item = &str> {
    words.split(' ').filter(|word| !word.is_empty())
}
