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
use super::chunk::{self, CODE_COLUMNS, Chunk, RowValues};
use super::codes::{CodeAt, CodeIndex, CodeKey, Edits, ExtensionNumbers, apply_edits, note_edits, sorted_once};
use super::column::{Column, TextColumn};
use super::identifiers::{IdentifierHash, IdentifierHasher, IdentifierIndex};
use super::image::Teller;
use super::rows::{Place, Rows};
use super::stored::{self, Unsound};
use super::terms;
use super::tree::SharedTree;
use daftar_domain::address::Address;
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::extension::Extension;
use daftar_domain::individual::{Individual, IndividualDetails};
use daftar_domain::person_name::{PersonName, search_phrase};
use daftar_domain::record::{RecordId, VersionId};
use daftar_domain::search::order::sortable;

/// Rows by word, each under a letter that says what it is a word of.
pub(super) type WordIndex = SharedTree<Arc<str>, Posting>;

/// What a word is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordKind {
    /// A word of the name.
    Name,
    /// A word of an address.
    Address,
    /// The whole district of an address.
    District,
    /// The whole region of an address.
    Region,
}

impl WordKind {
    /// What a word, or the beginning of one, is kept under.
    pub(super) fn key(self, word: &str) -> String {
        let letter = match self {
            Self::Name => 'n',
            Self::Address => 'a',
            Self::District => 'd',
            Self::Region => 'r',
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
    chunks: Arc<Vec<Arc<Chunk>>>,
}

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
                Some(Some(_)) | None => others.push(CodeKey { place: CodeAt::Field(field), number: value.number }),
            }
        }
        others.extend(extension_codes(&details.extension, extensions));
        let words = words_of_person(details);
        let terms = Terms {
            codes: sorted_once(others).into(),
            words: words.join("\n").into(),
            identifiers: sorted_once(details.identifiers.iter().map(|identifier| hasher.hash(&identifier.key))).into(),
        };
        let name = details.name.as_ref().map(PersonName::sort_text).unwrap_or_default();
        let last_updated = individual.meta.last_updated.as_millisecond();
        Self { id: individual.id, values, name, last_updated, version: version_cell(individual.meta.version), terms }
    }

    /// Every code in its place, sorted, each once.
    pub(super) fn codes(&self) -> Vec<CodeKey> {
        let columns = CODE_COLUMNS.into_iter().zip(self.values.codes);
        let columns =
            columns.filter_map(|(field, number)| Some(CodeKey { place: CodeAt::Field(field), number: number? }));
        sorted_once(columns.chain(self.terms.codes.iter().copied()))
    }
}

impl Individuals {
    /// The chunk of a row, if any row of it has ever been written.
    pub(super) fn chunk(&self, chunk: usize) -> Option<&Chunk> {
        self.chunks.get(chunk).map(Arc::as_ref)
    }

    /// Every chunk.
    pub(super) fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

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
        let (at, slot) = chunk::split(row);
        let old_codes = self.codes_at(at, slot, &terms);
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
        self.names.set(row, sortable(&prepared.name));
        self.last_updated.set(row, Some(prepared.last_updated));
        self.versions.set(row, Some(prepared.version));
        let chunks = Arc::make_mut(&mut self.chunks);
        while chunks.len() <= at {
            chunks.push(Arc::default());
        }
        if let Some(chunk) = chunks.get_mut(at) {
            Arc::make_mut(chunk).set(slot, &prepared.values);
        }
        terms::set_row(all_terms, row, &prepared.terms);
    }

    /// Writes it to a checkpoint.
    pub(super) fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
        let Self { rows, codes, words, identifiers, inactive, names, last_updated, versions, chunks } = self;
        rows.store(checkpoint.section(Section::PeopleRows)?)?;
        codes.store(checkpoint.section(Section::PeopleCodes)?)?;
        store_words(words, checkpoint.section(Section::PeopleWords)?)?;
        identifiers.store(checkpoint.section(Section::PeopleIdentifiers)?)?;
        checkpoint.section(Section::PeopleInactive)?.add(inactive)?;
        names.store(checkpoint.section(Section::PeopleNames)?)?;
        last_updated.store(checkpoint.section(Section::PeopleLastUpdated)?)?;
        versions.store(checkpoint.section(Section::PeopleVersions)?)?;
        let columns = checkpoint.section(Section::PeopleColumns)?;
        chunks.iter().try_for_each(|chunk| columns.add(&**chunk))
    }

    /// Reads it from a checkpoint.
    pub(super) fn load(checkpoint: &Loading<'_>) -> Result<Self, Unsound> {
        let (columns, indexes) = join(
            || {
                let rows = checkpoint.read(Section::PeopleRows, Rows::load)?;
                let names = |frames: &mut FramesOf<'_>| TextColumn::load(frames, rows.count());
                let names = checkpoint.read(Section::PeopleNames, names)?;
                let last_updated = checkpoint.read(Section::PeopleLastUpdated, Column::load)?;
                let versions = checkpoint.read(Section::PeopleVersions, Column::load)?;
                let chunks = |frames: &mut FramesOf<'_>| frames.each(|from| stored::take::<Chunk>(from).map(Arc::new));
                let chunks = checkpoint.read(Section::PeopleColumns, chunks)?;
                Ok((rows, names, (last_updated, versions), Arc::new(chunks)))
            },
            || {
                let words = checkpoint.read(Section::PeopleWords, load_words)?;
                let codes = checkpoint.read(Section::PeopleCodes, SharedTree::load)?;
                let identifiers = checkpoint.read(Section::PeopleIdentifiers, IdentifierIndex::load)?;
                let inactive = checkpoint.read(Section::PeopleInactive, |frames| frames.one())?;
                Ok((words, codes, identifiers, inactive))
            },
        )?;
        let (rows, names, (last_updated, versions), chunks) = columns;
        let (words, codes, identifiers, inactive) = indexes;
        Ok(Self { rows, codes, words, identifiers, inactive, names, last_updated, versions, chunks })
    }

    /// Tells what it holds, so that two can be compared.
    pub(super) fn tell(&self, teller: &mut Teller) {
        let Self { rows, codes, words, identifiers, inactive, names, last_updated, versions, chunks: _ } = self;
        teller.rows("individuals", rows);
        teller.postings("codes of individuals", codes.iter());
        teller.postings("words of individuals", words.iter().map(|(word, rows)| (&**word, rows)));
        teller.values("identifiers of individuals", identifiers.iter());
        teller.postings("individuals not in use", [(&(), inactive)]);
        teller.of_rows("names of individuals", rows, |row| names.get(row).map(<[u8]>::to_vec));
        teller.of_rows("last writes of individuals", rows, |row| last_updated.get(row));
        teller.of_rows("versions of individuals", rows, |row| versions.get(row));
        teller.of_rows("columns of individuals", rows, |row| {
            let (chunk, slot) = chunk::split(row);
            self.chunk(chunk).map(|chunk| chunk.get(slot)).unwrap_or_default()
        });
    }

    fn codes_at(&self, chunk: usize, slot: usize, terms: &Terms) -> Vec<CodeKey> {
        let columns = self.chunk(chunk).into_iter().flat_map(|chunk| chunk.codes_at(slot));
        let columns = columns.map(|(field, number)| CodeKey { place: CodeAt::Field(field), number });
        sorted_once(columns.chain(terms.codes.iter().copied()))
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
    let name = details.name.as_ref().map(PersonName::search_words).unwrap_or_default();
    let mut words: Vec<String> = name.iter().map(|word| WordKind::Name.key(word)).collect();
    for address in details.address.iter().flatten() {
        words.extend(words_of_address(address));
    }
    sorted_once(words)
}

/// What the words of an address are kept under.
pub(super) fn words_of_address(address: &Address) -> Vec<String> {
    let mut words: Vec<String> = address.search_words().into_iter().map(|word| WordKind::Address.key(&word)).collect();
    for (kind, part) in [(WordKind::District, &address.district), (WordKind::Region, &address.region)] {
        let phrase = part.as_deref().map(search_phrase).filter(|phrase| !phrase.is_empty());
        words.extend(phrase.map(|phrase| kind.key(&phrase)));
    }
    words
}
