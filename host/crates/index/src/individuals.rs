//! The individuals of a snapshot, and how a written record becomes columns, bitmaps, words and identifiers.
//!
//! **Invariant:** what a record set is known when it is written again: codes of columns from the columns, everything else from
//! [`Terms`], which the writer alone keeps; so no bit outlives the version of the record that set it.

use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bitmaps::Posting;
use super::blobs::Blobs;
use super::checkpoint::{CheckpointWriter, FramesOf, Loading, Section, join};
use super::chunk::RowValues;
use super::codes::{CodeAt, CodeIndex, CodeKey, Edits, ExtensionNumbers, apply_edits, note_edits, sorted_once};
use super::column::{Column, TextColumn};
use super::field_columns::FieldColumns;
use super::identifiers::{IdentifierHash, IdentifierHasher, IdentifierIndex};
use super::image::Teller;
use super::rows::{Place, Rows};
use super::stored::{self, Unsound};
use super::terms;
use super::tree::SharedTree;
use daftar_domain::address;
use daftar_domain::extension::Extension;
use daftar_domain::individual::{self, Individual, IndividualDetails, IndividualRecord};
use daftar_domain::person_name::{name_words, sort_text};
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::search::order::sortable;
use daftar_domain::search::phrase::PhraseField;
use daftar_domain::value::Values;

/// Rows by word, each under a letter that says what it is a word of, and by whole texts ([`PhraseField::term`]).
pub(super) type WordIndex = SharedTree<Arc<str>, Posting>;

/// What a word is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordKind {
    /// A word of the name.
    Name,
    /// A word of an address.
    Address,
}

impl WordKind {
    /// What a word, or the beginning of one, is kept under.
    pub(super) fn key(self, word: &str) -> String {
        let letter = match self {
            Self::Name => 'n',
            Self::Address => 'a',
        };
        format!("{letter}{word}")
    }
}

/// All individuals, cheap to copy.
#[derive(Debug, Clone, Default)]
pub(super) struct Individuals {
    /// Which record stands where.
    pub(super) rows: Rows,
    /// Rows by code.
    pub(super) codes: CodeIndex,
    /// Rows by word of the name and of addresses.
    pub(super) words: WordIndex,
    /// Rows by identifier.
    pub(super) identifiers: IdentifierIndex,
    /// Rows of records that say that they are not in use.
    pub(super) inactive: Posting,
    /// Names as they are put in order.
    pub(super) names: TextColumn,
    /// When records were last written, in milliseconds since 1970-01-01.
    pub(super) last_updated: Column<i64>,
    /// At which version each record is.
    pub(super) versions: Column<u32>,
    /// The fields that have columns.
    pub(super) columns: PersonColumns,
}

/// The columns of the fields of people.
pub(super) type PersonColumns = FieldColumns<IndividualRecord>;

/// What a row set beside the columns, to be cleared when the record is written again.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Terms {
    /// Codes that no column holds, sorted, each once.
    codes: Box<[CodeKey]>,
    /// What the words are kept under, sorted, each once, a line each.
    pub(super) words: Box<str>,
    /// Sorted, each once.
    pub(super) identifiers: Box<[IdentifierHash]>,
}

/// A record taken apart, ready to be written into the columns.
pub(super) struct Prepared {
    id: RecordId,
    pub(super) values: RowValues,
    pub(super) is_inactive: bool,
    pub(super) name: String,
    pub(super) last_updated: i64,
    pub(super) version: u32,
    pub(super) terms: Terms,
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
    pub(super) fn new(individual: &Individual, hasher: &IdentifierHasher, extensions: &ExtensionNumbers) -> Self {
        let details = &individual.details;
        let values = PersonColumns::values_of(details);
        let in_columns: Vec<CodeKey> = PersonColumns::codes_of(&values).collect();
        let every = details.every_code().into_iter();
        let every = every.map(|(field, value)| CodeKey { place: CodeAt::Field(field), number: value.number });
        let others = every.filter(|code| !in_columns.contains(code));
        let others = others.chain(extension_codes(&details.extension, extensions));
        let words = words_of_person(details);
        let terms = Terms {
            codes: sorted_once(others).into(),
            words: words.join("\n").into(),
            identifiers: sorted_once(details.identifiers.iter().map(|identifier| hasher.hash(&identifier.key))).into(),
        };
        Self {
            id: individual.id,
            values,
            is_inactive: details.get(individual::ACTIVE) == Some(false),
            name: details.get(individual::NAME).map(sort_text).unwrap_or_default(),
            last_updated: individual.meta.last_updated.as_millisecond(),
            version: version_cell(individual.meta.version),
            terms,
        }
    }

    /// Every code in its place, sorted, each once.
    pub(super) fn codes(&self) -> Vec<CodeKey> {
        sorted_once(PersonColumns::codes_of(&self.values).chain(self.terms.codes.iter().copied()))
    }
}

impl Individuals {
    /// Writes records, each into a new row or the row that it has.
    pub(super) fn write(&mut self, all_terms: &mut Blobs, records: Vec<Prepared>) {
        let mut edits = IndexEdits::default();
        for prepared in records {
            self.write_row(all_terms, prepared, &mut edits);
        }
        apply_edits(&mut self.codes, edits.codes);
        apply_edits(&mut self.words, edits.words);
        self.identifiers.apply(edits.identifiers);
    }

    /// Writes the columns of a record and notes what has to change in the indexes.
    fn write_row(&mut self, all_terms: &mut Blobs, prepared: Prepared, edits: &mut IndexEdits) {
        let row = match self.rows.place(prepared.id) {
            Place::Known(row) | Place::New(row) => row,
            Place::Refused => {
                tracing::error!(
                    record.id = prepared.id.0,
                    "an individual came out of the order of creation; searches do not find it until the next start"
                );
                return;
            }
        };
        let terms: Terms = terms::of_row(all_terms, row);
        let old_codes = sorted_once(self.columns.codes_at(row).chain(terms.codes.iter().copied()));
        let new_codes = prepared.codes();
        note_edits(&mut edits.codes, row, &old_codes, &new_codes, |key| *key);
        let old_words: Vec<&str> = words_of(&terms.words).collect();
        let new_words: Vec<&str> = words_of(&prepared.terms.words).collect();
        note_edits(&mut edits.words, row, &old_words, &new_words, |word| Arc::from(*word));
        note_edits(&mut edits.identifiers, row, &terms.identifiers, &prepared.terms.identifiers, |hash| *hash);
        if prepared.is_inactive {
            self.inactive.insert(row);
        } else {
            self.inactive.remove(row);
        }
        self.names.set(row, sortable(&prepared.name));
        self.last_updated.set(row, Some(prepared.last_updated));
        self.versions.set(row, Some(prepared.version));
        self.columns.set(row, &prepared.values);
        terms::set_row(all_terms, row, &prepared.terms);
    }

    /// Writes it to a checkpoint.
    pub(super) fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
        let Self { rows, codes, words, identifiers, inactive, names, last_updated, versions, columns } = self;
        rows.store(checkpoint.section(Section::PeopleRows)?)?;
        codes.store(checkpoint.section(Section::PeopleCodes)?)?;
        store_words(words, checkpoint.section(Section::PeopleWords)?)?;
        identifiers.store(checkpoint.section(Section::PeopleIdentifiers)?)?;
        checkpoint.section(Section::PeopleInactive)?.add(inactive)?;
        names.store(checkpoint.section(Section::PeopleNames)?)?;
        last_updated.store(checkpoint.section(Section::PeopleLastUpdated)?)?;
        versions.store(checkpoint.section(Section::PeopleVersions)?)?;
        columns.store(checkpoint.section(Section::PeopleColumns)?)
    }

    /// Reads it from a checkpoint.
    pub(super) fn load(checkpoint: &Loading<'_>) -> Result<Self, Unsound> {
        let (of_rows, indexes) = join(
            || {
                let rows = checkpoint.read(Section::PeopleRows, Rows::load)?;
                let names = |frames: &mut FramesOf<'_>| TextColumn::load(frames, rows.count());
                let names = checkpoint.read(Section::PeopleNames, names)?;
                let last_updated = checkpoint.read(Section::PeopleLastUpdated, Column::load)?;
                let versions = checkpoint.read(Section::PeopleVersions, Column::load)?;
                let columns = checkpoint.read(Section::PeopleColumns, PersonColumns::load)?;
                Ok((rows, names, (last_updated, versions), columns))
            },
            || {
                let words = checkpoint.read(Section::PeopleWords, load_words)?;
                let codes = checkpoint.read(Section::PeopleCodes, SharedTree::load)?;
                let identifiers = checkpoint.read(Section::PeopleIdentifiers, IdentifierIndex::load)?;
                let inactive = checkpoint.read(Section::PeopleInactive, |frames| frames.one())?;
                Ok((words, codes, identifiers, inactive))
            },
        )?;
        let (rows, names, (last_updated, versions), columns) = of_rows;
        let (words, codes, identifiers, inactive) = indexes;
        Ok(Self { rows, codes, words, identifiers, inactive, names, last_updated, versions, columns })
    }

    /// Tells what it holds, so that two can be compared.
    pub(super) fn tell(&self, teller: &mut Teller) {
        let Self { rows, codes, words, identifiers, inactive, names, last_updated, versions, columns } = self;
        teller.rows("individuals", rows);
        teller.postings("codes of individuals", codes.iter());
        teller.postings("words of individuals", words.iter().map(|(word, rows)| (&**word, rows)));
        teller.values("identifiers of individuals", identifiers.iter());
        teller.postings("individuals not in use", [(&(), inactive)]);
        teller.of_rows("names of individuals", rows, |row| names.get(row).map(<[u8]>::to_vec));
        teller.of_rows("last writes of individuals", rows, |row| last_updated.get(row));
        teller.of_rows("versions of individuals", rows, |row| versions.get(row));
        teller.of_rows("columns of individuals", rows, |row| columns.get(row));
    }
}

/// Writes words to a checkpoint.
pub(super) fn store_words(words: &WordIndex, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
    words.iter().try_for_each(|(word, rows)| checkpoint.add(&(&**word, rows)))
}

/// Reads words from a checkpoint.
pub(super) fn load_words(frames: &mut FramesOf<'_>) -> Result<WordIndex, Unsound> {
    let words = frames.each(|from| {
        let (word, rows): (&str, Posting) = stored::take(from)?;
        Ok((Arc::<str>::from(word), rows))
    })?;
    SharedTree::from_ascending(words)
}

/// A version as columns hold it: no record is written four thousand million times.
pub(super) fn version_cell(version: VersionId) -> u32 {
    u32::try_from(version.0).unwrap_or(u32::MAX - 1)
}

/// The words that a row set.
pub(super) fn words_of(words: &str) -> impl Iterator<Item = &str> {
    words.lines()
}

/// Every code that stands in a field of a module.
pub(super) fn extension_codes(extension: &Extension, extensions: &ExtensionNumbers) -> Vec<CodeKey> {
    let coded = extension.coded();
    let keys = coded.filter_map(|(path, value)| {
        Some(CodeKey { place: CodeAt::Extension(extensions.number(path)?), number: value.number })
    });
    keys.collect()
}

/// What the words of a person are kept under, sorted, each once.
fn words_of_person(details: &IndividualDetails) -> Vec<String> {
    let name = details.get(individual::NAME).map(name_words).unwrap_or_default();
    let of_name = name.iter().map(|word| WordKind::Name.key(word));
    let of_addresses = details.items(individual::ADDRESS).flat_map(words_of_address);
    sorted_once(of_name.chain(of_addresses).chain(PhraseField::terms(RecordKind::Individual, details)))
}

/// What the words of an address are kept under.
pub(super) fn words_of_address(address: &Values) -> Vec<String> {
    address::search_words(address).iter().map(|word| WordKind::Address.key(word)).collect()
}
