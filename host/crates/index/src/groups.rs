//! The groups of a snapshot: what they are found and put in order by, and who belongs to which.

use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bitmaps::Posting;
use super::blobs::Blobs;
use super::checkpoint::{CheckpointWriter, FramesOf, Loading, Section};
use super::chunk::RowValues;
use super::codes::{
    CodeAt, CodeIndex, CodeKey, Edits, ExtensionNumbers, apply_edits, difference, note_edits, sorted_once,
};
use super::column::{Column, TextColumn};
use super::field_columns::FieldColumns;
use super::identifiers::{IdentifierHash, IdentifierHasher, IdentifierIndex};
use super::image::Teller;
use super::individuals::{
    WordIndex, WordKind, extension_codes, load_words, store_words, version_cell, words_of, words_of_address,
};
use super::places::{Place as PlaceInGroup, Places};
use super::rows::{Place, Rows};
use super::seats;
use super::stored::Unsound;
use super::terms;
use super::tree::SharedTree;
use daftar_domain::group::{self, Group, GroupRecord, Member};
use daftar_domain::person_name::{search_phrase, search_words};
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::search::order::sortable;
use daftar_domain::search::phrase::PhraseField;

/// All groups, cheap to copy.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups {
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
    /// The fields that have columns.
    pub(super) columns: GroupColumns,
    /// When records were last written, in milliseconds since 1970-01-01.
    pub(super) last_updated: Column<i64>,
    /// At which version each record is.
    pub(super) versions: Column<u32>,
    /// A person and a group that names the person.
    pub(super) memberships: SharedTree<(RecordId, RecordId), ()>,
    /// Who belongs to it, as [`super::seats`] has it.
    pub(super) seats: Blobs,
}

/// The columns of the fields of groups.
pub(super) type GroupColumns = FieldColumns<GroupRecord>;

/// What a group set, to be cleared when it is written again. All lists are sorted and hold everything once.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Terms {
    pub(super) codes: Box<[CodeKey]>,
    /// What the words are kept under, a line each.
    pub(super) words: Box<str>,
    pub(super) identifiers: Box<[IdentifierHash]>,
    pub(super) members: Box<[RecordId]>,
}

/// A group taken apart, ready to be written.
pub(super) struct Prepared {
    id: RecordId,
    pub(super) terms: Terms,
    pub(super) name: String,
    pub(super) is_inactive: bool,
    pub(super) values: RowValues,
    pub(super) last_updated: i64,
    pub(super) version: u32,
    pub(super) members: Vec<Member>,
}

/// Changes of the indexes, collected over all records of a call.
#[derive(Default)]
struct IndexEdits {
    codes: Edits<CodeKey>,
    words: Edits<Arc<str>>,
    identifiers: Edits<IdentifierHash>,
}

impl Prepared {
    /// Takes a group apart.
    pub(super) fn new(group: &Group, hasher: &IdentifierHasher, extensions: &ExtensionNumbers) -> Self {
        let details = &group.details;
        let members: Vec<Member> = details.members().collect();
        let fields = details.every_code().into_iter();
        let codes = fields.map(|(field, value)| CodeKey { place: CodeAt::Field(field), number: value.number });
        let codes = codes.chain(extension_codes(&details.extension, extensions));
        let name = details.get(group::NAME).unwrap_or_default();
        let words = search_words(name).into_iter().map(|word| WordKind::Name.key(&word));
        let words = words.chain(details.items(group::ADDRESS).flat_map(words_of_address));
        let words = words.chain(PhraseField::terms(RecordKind::Group, details));
        let identifiers = details.identifiers.iter().map(|identifier| hasher.hash(&identifier.key));
        let terms = Terms {
            codes: sorted_once(codes).into(),
            words: sorted_once(words).join("\n").into(),
            identifiers: sorted_once(identifiers).into(),
            members: sorted_once(members.iter().map(|member| member.individual)).into(),
        };
        Self {
            id: group.id,
            terms,
            name: search_phrase(name),
            is_inactive: details.get(group::ACTIVE) == Some(false),
            values: GroupColumns::values_of(details),
            last_updated: group.meta.last_updated.as_millisecond(),
            version: version_cell(group.meta.version),
            members,
        }
    }
}

impl Groups {
    /// The groups that name a person as a member, ascending.
    pub(super) fn of(&self, individual: RecordId) -> Vec<RecordId> {
        let entries = self.memberships.from(&(individual, RecordId(0))).map(|(entry, ())| *entry);
        entries.take_while(|(member, _)| *member == individual).map(|(_, group)| group).collect()
    }

    /// Writes groups, each into a new row or the row that it has, and the places of their members.
    pub(super) fn write(
        &mut self,
        all_terms: &mut Blobs,
        records: Vec<Prepared>,
        (people, places): (&Rows, &mut Places),
    ) {
        let mut edits = IndexEdits::default();
        for prepared in records {
            self.write_row(all_terms, prepared, (people, places), &mut edits);
        }
        apply_edits(&mut self.codes, edits.codes);
        apply_edits(&mut self.words, edits.words);
        self.identifiers.apply(edits.identifiers);
    }

    /// Writes the columns and members of a group and notes what has to change in the indexes.
    fn write_row(
        &mut self,
        all_terms: &mut Blobs,
        prepared: Prepared,
        (people, places): (&Rows, &mut Places),
        edits: &mut IndexEdits,
    ) {
        let row = match self.rows.place(prepared.id) {
            Place::Known(row) | Place::New(row) => row,
            Place::Refused => {
                tracing::error!(
                    record.id = prepared.id.0,
                    "a group came out of the order of creation; its members do not lead to it until the next start"
                );
                return;
            }
        };
        let terms: Terms = terms::of_row(all_terms, row);
        note_edits(&mut edits.codes, row, &terms.codes, &prepared.terms.codes, |key| *key);
        let (old_words, new_words): (Vec<_>, Vec<_>) =
            (words_of(&terms.words).collect(), words_of(&prepared.terms.words).collect());
        note_edits(&mut edits.words, row, &old_words, &new_words, |word| Arc::from(*word));
        note_edits(&mut edits.identifiers, row, &terms.identifiers, &prepared.terms.identifiers, |hash| *hash);
        for member in difference(&terms.members, &prepared.terms.members) {
            self.memberships.remove(&(*member, prepared.id));
        }
        for member in difference(&prepared.terms.members, &terms.members) {
            self.memberships.insert((*member, prepared.id), ());
        }
        write_places(places, people, row, &terms.members, &prepared);
        self.seats.set(row, &seats::of_members(people, &prepared.members));
        if prepared.is_inactive {
            self.inactive.insert(row);
        } else {
            self.inactive.remove(row);
        }
        self.names.set(row, sortable(&prepared.name));
        self.columns.set(row, &prepared.values);
        self.last_updated.set(row, Some(prepared.last_updated));
        self.versions.set(row, Some(prepared.version));
        terms::set_row(all_terms, row, &prepared.terms);
    }

    /// Writes it to a checkpoint.
    pub(super) fn store(&self, checkpoint: &mut CheckpointWriter<'_>) -> io::Result<()> {
        let Self { rows, codes, words, identifiers, inactive, names, .. } = self;
        let Self { columns, last_updated, versions, memberships, seats, .. } = self;
        rows.store(checkpoint.section(Section::GroupRows)?)?;
        codes.store(checkpoint.section(Section::GroupCodes)?)?;
        store_words(words, checkpoint.section(Section::GroupWords)?)?;
        identifiers.store(checkpoint.section(Section::GroupIdentifiers)?)?;
        checkpoint.section(Section::GroupInactive)?.add(inactive)?;
        names.store(checkpoint.section(Section::GroupNames)?)?;
        columns.store(checkpoint.section(Section::GroupColumns)?)?;
        last_updated.store(checkpoint.section(Section::GroupLastUpdated)?)?;
        versions.store(checkpoint.section(Section::GroupVersions)?)?;
        memberships.store(checkpoint.section(Section::GroupMembers)?)?;
        seats.store(checkpoint.section(Section::GroupSeats)?)
    }

    /// Reads it from a checkpoint.
    pub(super) fn load(checkpoint: &Loading<'_>) -> Result<Self, Unsound> {
        let rows = checkpoint.read(Section::GroupRows, Rows::load)?;
        let names = |frames: &mut FramesOf<'_>| TextColumn::load(frames, rows.count());
        Ok(Self {
            codes: checkpoint.read(Section::GroupCodes, SharedTree::load)?,
            words: checkpoint.read(Section::GroupWords, load_words)?,
            identifiers: checkpoint.read(Section::GroupIdentifiers, IdentifierIndex::load)?,
            inactive: checkpoint.read(Section::GroupInactive, |frames| frames.one())?,
            names: checkpoint.read(Section::GroupNames, names)?,
            columns: checkpoint.read(Section::GroupColumns, GroupColumns::load)?,
            last_updated: checkpoint.read(Section::GroupLastUpdated, Column::load)?,
            versions: checkpoint.read(Section::GroupVersions, Column::load)?,
            memberships: checkpoint.read(Section::GroupMembers, SharedTree::load)?,
            seats: checkpoint.read(Section::GroupSeats, Blobs::load)?,
            rows,
        })
    }

    /// Tells what it holds, so that two can be compared.
    pub(super) fn tell(&self, teller: &mut Teller) {
        let Self { rows, codes, words, identifiers, inactive, names, .. } = self;
        teller.rows("groups", rows);
        teller.postings("codes of groups", codes.iter());
        teller.postings("words of groups", words.iter().map(|(word, rows)| (&**word, rows)));
        teller.values("identifiers of groups", identifiers.iter());
        teller.postings("groups not in use", [(&(), inactive)]);
        teller.of_rows("names of groups", rows, |row| names.get(row).map(<[u8]>::to_vec));
        let columns = |row| (self.columns.get(row), self.last_updated.get(row));
        teller.of_rows("columns of groups", rows, columns);
        teller.of_rows("versions of groups", rows, |row| self.versions.get(row));
        teller.values("members of groups", self.memberships.iter().map(|(entry, ())| *entry));
        teller.of_rows("seats of groups", rows, |row| self.seats.get(row).to_vec());
    }
}

/// Gives the members of a group the places that they have now.
fn write_places(places: &mut Places, people: &Rows, group: u32, before: &[RecordId], prepared: &Prepared) {
    for member in before {
        if let Some(row) = people.find(*member) {
            places.clear(row, group);
        }
    }
    let mut members: Vec<&Member> = prepared.members.iter().collect();
    members.sort_by_key(|member| member.individual);
    for of_person in members.chunk_by(|one, other| one.individual == other.individual) {
        if let Some(row) = of_person.first().and_then(|member| people.find(member.individual)) {
            places.set(row, of_person.iter().filter_map(|member| PlaceInGroup::of(member, group)));
        }
    }
}
