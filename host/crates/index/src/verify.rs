//! Holds the register in memory against the records that it is made of.
//!
//! A stretch of rows at a time: everything that leads to a row is counted, then each record is taken apart as when it is written, and
//! what it gives must be there, and as much of it as was counted. So nothing is missing and nothing is left over.
//!
//! **Invariant:** a check takes memory for one stretch of rows, however large the register is.

use std::ops::Range;
use std::sync::Arc;

use super::about::{MembershipFields, terms_of_consent, terms_of_membership};
use super::bitmaps::{SEGMENT_ROWS, join};
use super::codes::{CodeIndex, CodeKey, count_entries, sorted_once};
use super::individuals::{self, WordIndex, version_cell, words_of};
use super::places::Place;
use super::{Snapshot, groups, seats};
use daftar_domain::change::ChangedRecord;
use daftar_domain::consent::Consent;
use daftar_domain::group::Group;
use daftar_domain::individual::Individual;
use daftar_domain::program_membership::ProgramMembership;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::search::order::sortable;
use daftar_domain::subject::{Subject, SubjectReference};

/// The rows that one check is about.
pub const ROWS_PER_CHECK: u32 = SEGMENT_ROWS;

/// What is wrong with a row.
pub type RowProblem = &'static str;

const ABSENT: RowProblem = "searches do not know the record";
const LEFT_OVER: RowProblem = "searches know a record that is not there or cannot be read";
const VALUES: RowProblem = "its columns hold other values than the record";
const CODES: RowProblem = "searches by code do not agree with the record";
const WORDS: RowProblem = "searches by word do not agree with the record";
const IDENTIFIERS: RowProblem = "searches by identifier do not agree with the record";
const MEMBERS: RowProblem = "its members do not lead to it as the record says";
const TERMS: RowProblem = "searches by what it names do not agree with the record";
const COVERS: RowProblem = "what consents open of it does not agree with the consents";

/// How much leads to a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    codes: u32,
    words: u32,
    identifiers: u32,
    members: u32,
    places: u32,
    covers: u32,
}

/// Rows of one kind that are being held against their records.
pub struct RowCheck {
    snapshot: Arc<Snapshot>,
    kind: RecordKind,
    segment: u16,
    counted: Vec<Counts>,
    is_seen: Vec<bool>,
    problems: Vec<(RecordId, RowProblem)>,
}

impl Snapshot {
    /// How many rows there are of a kind; programs, which are few, have none and are compared by themselves.
    #[must_use]
    pub fn row_count(&self, kind: RecordKind) -> u32 {
        match kind {
            RecordKind::Individual => self.individuals.rows.count(),
            RecordKind::Group => self.groups.rows.count(),
            RecordKind::Program => u32::try_from(self.about.programs.len()).unwrap_or(u32::MAX),
            RecordKind::ProgramMembership => self.about.memberships.rows().count(),
            RecordKind::Consent => self.about.consents.rows().count(),
        }
    }

    fn row(&self, kind: RecordKind, id: RecordId) -> Option<u32> {
        match kind {
            RecordKind::Individual => self.individuals.rows.find(id),
            RecordKind::Group => self.groups.rows.find(id),
            RecordKind::Program => {
                self.about.programs.keys().position(|known| *known == id).and_then(|row| u32::try_from(row).ok())
            }
            RecordKind::ProgramMembership => self.about.memberships.row(id),
            RecordKind::Consent => self.about.consents.row(id),
        }
    }

    /// The record of a row.
    #[must_use]
    pub fn record_at(&self, kind: RecordKind, row: u32) -> Option<RecordId> {
        match kind {
            RecordKind::Individual => self.individuals.rows.id(row),
            RecordKind::Group => self.groups.rows.id(row),
            RecordKind::Program => self.about.programs.keys().nth(row as usize).copied(),
            RecordKind::ProgramMembership => self.about.memberships.rows().id(row),
            RecordKind::Consent => self.about.consents.rows().id(row),
        }
    }

    /// Begins to hold the rows of a segment, [`ROWS_PER_CHECK`] rows from a multiple of it on, against their records.
    #[must_use]
    pub fn check_rows(self: &Arc<Self>, kind: RecordKind, segment: u16) -> RowCheck {
        let rows = rows_of(segment, self.row_count(kind));
        let length = rows.end.saturating_sub(rows.start) as usize;
        let mut check = RowCheck {
            snapshot: Arc::clone(self),
            kind,
            segment,
            counted: vec![Counts::default(); length],
            is_seen: vec![false; length],
            problems: Vec::new(),
        };
        check.count();
        check
    }
}

fn rows_of(segment: u16, count: u32) -> Range<u32> {
    let first = join(segment, 0).min(count);
    first..first.saturating_add(ROWS_PER_CHECK).min(count)
}

impl RowCheck {
    fn add(&mut self, each: impl FnOnce(&Snapshot, u16, &mut [u32]), into: fn(&mut Counts) -> &mut u32) {
        let mut counts = vec![0; self.counted.len()];
        each(&self.snapshot, self.segment, &mut counts);
        for (counted, count) in self.counted.iter_mut().zip(counts) {
            *into(counted) = count;
        }
    }

    /// Counts everything that leads to the rows.
    fn count(&mut self) {
        let kind = self.kind;
        match kind {
            RecordKind::Individual => {
                self.add(
                    |snapshot, at, counts| count_entries(&snapshot.individuals.codes, at, counts),
                    |row| &mut row.codes,
                );
                self.add(
                    |snapshot, at, counts| count_entries(&snapshot.individuals.words, at, counts),
                    |row| &mut row.words,
                );
                let identifiers = |snapshot: &Snapshot, at, counts: &mut [u32]| {
                    count_rows(snapshot.individuals.identifiers.every_row(), at, counts);
                };
                self.add(identifiers, |row| &mut row.identifiers);
            }
            RecordKind::Group => {
                self.add(
                    |snapshot, at, counts| count_entries(&snapshot.groups.codes, at, counts),
                    |row| &mut row.codes,
                );
                self.add(
                    |snapshot, at, counts| count_entries(&snapshot.groups.words, at, counts),
                    |row| &mut row.words,
                );
                let identifiers = |snapshot: &Snapshot, at, counts: &mut [u32]| {
                    count_rows(snapshot.groups.identifiers.every_row(), at, counts);
                };
                self.add(identifiers, |row| &mut row.identifiers);
                let members = |snapshot: &Snapshot, at, counts: &mut [u32]| {
                    let groups = snapshot.groups.memberships.iter().map(|((_, group), ())| *group);
                    count_rows(groups.filter_map(|group| snapshot.groups.rows.find(group)), at, counts);
                };
                self.add(members, |row| &mut row.members);
                let places = |snapshot: &Snapshot, at, counts: &mut [u32]| {
                    let people = 0..snapshot.places.row_count();
                    count_rows(people.flat_map(|row| snapshot.places.of(row)).map(|place| place.group), at, counts);
                };
                self.add(places, |row| &mut row.places);
            }
            RecordKind::ProgramMembership => {
                let terms = |snapshot: &Snapshot, at, counts: &mut [u32]| {
                    count_entries(snapshot.about.memberships.postings(), at, counts);
                };
                self.add(terms, |row| &mut row.words);
            }
            RecordKind::Consent => {
                let terms = |snapshot: &Snapshot, at, counts: &mut [u32]| {
                    count_entries(snapshot.about.consents.postings(), at, counts)
                };
                self.add(terms, |row| &mut row.words);
            }
            RecordKind::Program => {}
        }
        self.add(|snapshot, at, counts| snapshot.covers.count(kind, at, counts), |row| &mut row.covers);
    }

    /// Holds a record against its row. One whose row is none of these is passed over.
    pub fn see(&mut self, record: &ChangedRecord) {
        let (kind, id, _) = record.place();
        let Some(row) = self.snapshot.row(kind, id) else {
            self.problems.push((id, ABSENT));
            return;
        };
        let Some(slot) = row.checked_sub(join(self.segment, 0)).map(|slot| slot as usize) else { return };
        let Some(counted) = self.counted.get(slot).copied() else { return };
        if let Some(is_seen) = self.is_seen.get_mut(slot) {
            *is_seen = true;
        }
        let snapshot = Arc::clone(&self.snapshot);
        let expected = match record {
            ChangedRecord::Individual(record) => snapshot.individual_counts(record, row),
            ChangedRecord::Group(record) => snapshot.group_counts(record, row),
            ChangedRecord::ProgramMembership(record) => snapshot.membership_counts(record, row),
            ChangedRecord::Consent(record) => snapshot.consent_counts(record, row),
            ChangedRecord::Program(record) => match snapshot.about.programs.get(&id) {
                Some(known) if known == record => Ok(Counts::default()),
                Some(_) | None => Err(VALUES),
            },
        };
        if let Some(problem) = expected.map_or_else(Some, |expected| differs(expected, counted)) {
            self.problems.push((id, problem));
        }
    }

    /// The records of the rows that do not agree, and what is wrong with each. Rows whose records were not seen are told of, too.
    #[must_use]
    pub fn end(mut self) -> Vec<(RecordId, RowProblem)> {
        let first = join(self.segment, 0);
        for (row, is_seen) in (first..).zip(&self.is_seen) {
            let left_over = self.snapshot.record_at(self.kind, row).filter(|_| !is_seen);
            self.problems.extend(left_over.map(|id| (id, LEFT_OVER)));
        }
        self.problems
    }
}

fn count_rows(rows: impl Iterator<Item = u32>, segment: u16, counts: &mut [u32]) {
    let first = join(segment, 0);
    for row in rows {
        let slot = row.checked_sub(first).map(|slot| slot as usize);
        if let Some(count) = slot.and_then(|slot| counts.get_mut(slot)) {
            *count = count.saturating_add(1);
        }
    }
}

fn differs(expected: Counts, counted: Counts) -> Option<RowProblem> {
    let pairs = [
        (expected.codes, counted.codes, CODES),
        (expected.words, counted.words, WORDS),
        (expected.identifiers, counted.identifiers, IDENTIFIERS),
        (expected.members, counted.members, MEMBERS),
        (expected.places, counted.places, MEMBERS),
        (expected.covers, counted.covers, COVERS),
    ];
    pairs.into_iter().find(|(expected, counted, _)| expected != counted).map(|(_, _, problem)| problem)
}

fn length(list: usize) -> u32 {
    u32::try_from(list).unwrap_or(u32::MAX)
}

fn holds_words(index: &WordIndex, words: &str, row: u32) -> Result<u32, RowProblem> {
    let is_found = |word: &str| index.get(word).is_some_and(|posting| posting.contains(row));
    if words_of(words).all(is_found) { Ok(length(words_of(words).count())) } else { Err(WORDS) }
}

fn holds_codes(index: &CodeIndex, codes: &[CodeKey], row: u32) -> Result<u32, RowProblem> {
    let is_found = |code: &CodeKey| index.get(code).is_some_and(|posting| posting.contains(row));
    if codes.iter().all(is_found) { Ok(length(codes.len())) } else { Err(CODES) }
}

/// What leads to a row where it agrees with its record, and otherwise what is wrong.
impl Snapshot {
    fn individual_counts(&self, record: &Individual, row: u32) -> Result<Counts, RowProblem> {
        let prepared = individuals::Prepared::new(record, &self.hasher, &self.extensions);
        let index = &self.individuals;
        let is_same = index.columns.get(row) == prepared.values
            && index.names.get(row) == sortable(&prepared.name).map(str::as_bytes)
            && index.last_updated.get(row) == Some(prepared.last_updated)
            && index.versions.get(row) == Some(prepared.version)
            && index.inactive.contains(row) == prepared.is_inactive;
        if !is_same {
            return Err(VALUES);
        }
        let hashes = &prepared.terms.identifiers;
        if !hashes.iter().all(|hash| index.identifiers.has(*hash, row)) {
            return Err(IDENTIFIERS);
        }
        Ok(Counts {
            codes: holds_codes(&index.codes, &prepared.codes(), row)?,
            words: holds_words(&index.words, &prepared.terms.words, row)?,
            identifiers: length(hashes.len()),
            covers: self.covered(RecordKind::Individual, Subject::Individual, record.id, row)?,
            ..Counts::default()
        })
    }

    fn covered(&self, kind: RecordKind, subject: Subject, id: RecordId, row: u32) -> Result<u32, RowProblem> {
        let covers = self.covers.expected(kind, SubjectReference { kind: subject, id }, row);
        covers.map(length).ok_or(COVERS)
    }

    fn group_counts(&self, record: &Group, row: u32) -> Result<Counts, RowProblem> {
        let prepared = groups::Prepared::new(record, &self.hasher, &self.extensions);
        let index = &self.groups;
        let is_same = index.names.get(row) == sortable(&prepared.name).map(str::as_bytes)
            && index.last_updated.get(row) == Some(prepared.last_updated)
            && index.versions.get(row) == Some(prepared.version)
            && index.columns.get(row) == prepared.values
            && index.inactive.contains(row) == prepared.is_inactive;
        if !is_same {
            return Err(VALUES);
        }
        let hashes = &prepared.terms.identifiers;
        if !hashes.iter().all(|hash| index.identifiers.has(*hash, row)) {
            return Err(IDENTIFIERS);
        }
        let members = &prepared.terms.members;
        if !members.iter().all(|member| index.memberships.get(&(*member, record.id)).is_some()) {
            return Err(MEMBERS);
        }
        let mut places = 0_usize;
        for member in &prepared.members {
            let person = self.individuals.rows.find(member.individual);
            let Some((person, place)) = person.zip(Place::of(member, row)) else { continue };
            if !self.places.of(person).any(|known| known == place) {
                return Err(MEMBERS);
            }
            places = places.saturating_add(1);
        }
        if index.seats.get(row) != seats::of_members(&self.individuals.rows, &prepared.members) {
            return Err(MEMBERS);
        }
        Ok(Counts {
            codes: holds_codes(&index.codes, &prepared.terms.codes, row)?,
            words: holds_words(&index.words, &prepared.terms.words, row)?,
            identifiers: length(hashes.len()),
            members: length(members.len()),
            places: length(places),
            covers: self.covered(RecordKind::Group, Subject::Group, record.id, row)?,
        })
    }

    fn membership_counts(&self, record: &ProgramMembership, row: u32) -> Result<Counts, RowProblem> {
        let (details, columns) = (&record.details, &self.about.of_memberships);
        let beneficiary = details.beneficiary();
        let is_same = columns.fields.get(row) == MembershipFields::values_of(details)
            && columns.last_updated.get(row) == Some(record.meta.last_updated.as_millisecond())
            && columns.versions.get(row) == Some(version_cell(record.meta.version))
            && self.covers.beneficiary(record.id) == Some(beneficiary);
        if !is_same {
            return Err(VALUES);
        }
        let terms = sorted_once(terms_of_membership(record));
        let postings = self.about.memberships.postings();
        if !terms.iter().all(|term| postings.get(term).is_some_and(|posting| posting.contains(row))) {
            return Err(TERMS);
        }
        let covers = self.covered(RecordKind::ProgramMembership, beneficiary.kind, beneficiary.id, row)?;
        Ok(Counts { words: length(terms.len()), covers, ..Counts::default() })
    }

    fn consent_counts(&self, record: &Consent, row: u32) -> Result<Counts, RowProblem> {
        if !self.covers.knows(record) {
            return Err(COVERS);
        }
        let terms = sorted_once(terms_of_consent(record));
        let postings = self.about.consents.postings();
        if !terms.iter().all(|term| postings.get(term).is_some_and(|posting| posting.contains(row))) {
            return Err(TERMS);
        }
        Ok(Counts { words: length(terms.len()), ..Counts::default() })
    }
}
