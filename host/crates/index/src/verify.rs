//! Verifies the in-memory register against its records.
//!
//! Works on a range of rows at a time: counts all index entries of a row, then decomposes each record as when it is
//! written. All its entries must exist, and as many as were counted, so that none is missing and none is left over.
//!
//! **Invariant:** a check takes memory for one range of rows, however large the register is.

use std::borrow::Borrow;
use std::ops::Range;
use std::sync::Arc;

use super::about::{MembershipFields, terms_of_consent, terms_of_membership};
use super::bitmaps::{Posting, SEGMENT_ROWS, join};
use super::codes::{count_entries, sorted_once};
use super::places::Place;
use super::rows::Rows;
use super::subjects::{Prepared, Subjects, version_cell};
use super::tree::SharedTree;
use super::{Snapshot, members};
use daftar_domain::change::ChangedRecord;
use daftar_domain::consent::Consent;
use daftar_domain::group::{Group, GroupSummary, Member};
use daftar_domain::individual::Individual;
use daftar_domain::program_membership::ProgramMembership;
use daftar_domain::record::{RecordId, RecordKind, RecordType};
use daftar_domain::search::order::sortable;
use daftar_domain::subject::{Subject, SubjectReference};

/// The number of rows of one check.
pub const ROWS_PER_CHECK: u32 = SEGMENT_ROWS;

/// The problem of a row.
pub type RowProblem = &'static str;

const ABSENT: RowProblem = "the record is missing from the search index";
const LEFT_OVER: RowProblem = "the search index contains a record that is missing or unreadable";
const VALUES: RowProblem = "its columns contain other values than the record";
const CODES: RowProblem = "searches by code do not agree with the record";
const WORDS: RowProblem = "searches by word do not agree with the record";
const IDENTIFIERS: RowProblem = "searches by identifier do not agree with the record";
const MEMBERS: RowProblem = "its membership index entries do not agree with the record";
const SHOWN: RowProblem = "the records of its members show other values of it than the record";
const TERMS: RowProblem = "searches by its references do not agree with the record";
const COVERS: RowProblem = "its consent index entries do not agree with the consents";

/// The numbers of index entries of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    codes: u32,
    words: u32,
    identifiers: u32,
    members: u32,
    places: u32,
    covers: u32,
}

/// Rows of one kind that are being compared with their records.
pub struct RowCheck {
    snapshot: Arc<Snapshot>,
    kind: RecordKind,
    segment: u16,
    counted: Vec<Counts>,
    is_seen: Vec<bool>,
    problems: Vec<(RecordId, RowProblem)>,
}

impl Snapshot {
    /// Returns the number of rows of a kind; for programs, which are few and have no rows, the number of programs.
    #[must_use]
    pub fn row_count(&self, kind: RecordKind) -> u32 {
        let programs = || u32::try_from(self.about.programs.len()).unwrap_or(u32::MAX);
        self.rows(kind).map_or_else(programs, Rows::count)
    }

    /// Returns the records of a kind by row; `None` for programs, which have no rows.
    pub(super) fn rows(&self, kind: RecordKind) -> Option<&Rows> {
        match kind {
            RecordKind::Individual => Some(&self.individuals.rows),
            RecordKind::Group => Some(&self.groups.rows),
            RecordKind::Program => None,
            RecordKind::ProgramMembership => Some(&self.about.memberships.rows),
            RecordKind::Consent => Some(&self.about.consents.rows),
        }
    }

    fn row(&self, kind: RecordKind, id: RecordId) -> Option<u32> {
        match self.rows(kind) {
            Some(rows) => rows.find(id),
            None => u32::try_from(self.about.programs.keys().position(|known| *known == id)?).ok(),
        }
    }

    /// Returns the record of a row.
    #[must_use]
    pub fn record_at(&self, kind: RecordKind, row: u32) -> Option<RecordId> {
        match self.rows(kind) {
            Some(rows) => rows.id(row),
            None => self.about.programs.keys().nth(row as usize).copied(),
        }
    }

    /// Starts a check of the rows of a segment, [`ROWS_PER_CHECK`] rows from a multiple of it on.
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
    fn add(&mut self, each: impl FnOnce(&mut [u32]), into: fn(&mut Counts) -> &mut u32) {
        let mut counts = vec![0; self.counted.len()];
        each(&mut counts);
        for (counted, count) in self.counted.iter_mut().zip(counts) {
            *into(counted) = count;
        }
    }

    /// Counts all index entries of the rows.
    fn count(&mut self) {
        let (snapshot, kind, at) = (Arc::clone(&self.snapshot), self.kind, self.segment);
        match kind {
            RecordKind::Individual => self.count_subjects(&snapshot.individuals),
            RecordKind::Group => {
                self.count_subjects(&snapshot.groups);
                let named = snapshot.members.named.iter().map(|((_, group), ())| *group);
                let rows = named.filter_map(|group| snapshot.groups.rows.find(group));
                self.add(|counts| count_rows(rows, at, counts), |row| &mut row.members);
                let people = 0..snapshot.places.row_count();
                let rows = people.flat_map(|row| snapshot.places.of(row)).map(|place| place.group);
                self.add(|counts| count_rows(rows, at, counts), |row| &mut row.places);
            }
            RecordKind::ProgramMembership => {
                let terms = &snapshot.about.memberships.postings;
                self.add(|counts| count_entries(terms, at, counts), |row| &mut row.words);
            }
            RecordKind::Consent => {
                let terms = &snapshot.about.consents.postings;
                self.add(|counts| count_entries(terms, at, counts), |row| &mut row.words);
            }
            RecordKind::Program => {}
        }
        self.add(|counts| snapshot.covers.count(kind, at, counts), |row| &mut row.covers);
    }

    fn count_subjects<R>(&mut self, subjects: &Subjects<R>) {
        let at = self.segment;
        self.add(|counts| count_entries(&subjects.codes, at, counts), |row| &mut row.codes);
        self.add(|counts| count_entries(&subjects.words, at, counts), |row| &mut row.words);
        let rows = subjects.identifiers.every_row();
        self.add(|counts| count_rows(rows, at, counts), |row| &mut row.identifiers);
    }

    /// Compares a record with its row. Ignores records of other rows.
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

    /// Returns the records of the rows that differ, each with its problem, including rows whose records were not seen.
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

/// Returns the number of keys if the row has all of them.
fn holds_all<K, Q>(index: &SharedTree<K, Posting>, wanted: &[&Q], row: u32) -> Option<u32>
where
    K: Ord + Clone + Borrow<Q>,
    Q: Ord + ?Sized,
{
    let is_found = |key: &&Q| index.get(*key).is_some_and(|posting| posting.contains(row));
    wanted.iter().all(is_found).then(|| length(wanted.len()))
}

/// Expected numbers of index entries of a row, or its problem.
impl Snapshot {
    fn individual_counts(&self, record: &Individual, row: u32) -> Result<Counts, RowProblem> {
        let prepared = Prepared::of_individual(record, &self.preparer());
        let subject = SubjectReference { kind: Subject::Individual, id: record.id };
        self.subject_counts(&self.individuals, &prepared, subject, row)
    }

    fn subject_counts<R: RecordType>(
        &self,
        index: &Subjects<R>,
        prepared: &Prepared,
        subject: SubjectReference,
        row: u32,
    ) -> Result<Counts, RowProblem> {
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
        let (codes, words) = (prepared.codes::<R>(), prepared.terms.words.lines().collect::<Vec<_>>());
        Ok(Counts {
            codes: holds_all(&index.codes, &codes.iter().collect::<Vec<_>>(), row).ok_or(CODES)?,
            words: holds_all(&index.words, &words, row).ok_or(WORDS)?,
            identifiers: length(hashes.len()),
            covers: self.covered(R::KIND, subject, row)?,
            ..Counts::default()
        })
    }

    fn covered(&self, kind: RecordKind, subject: SubjectReference, row: u32) -> Result<u32, RowProblem> {
        self.covers.expected(kind, subject, row).map(length).ok_or(COVERS)
    }

    fn group_counts(&self, record: &Group, row: u32) -> Result<Counts, RowProblem> {
        let prepared = Prepared::of_group(record, &self.preparer());
        let subject = SubjectReference { kind: Subject::Group, id: record.id };
        let counts = self.subject_counts(&self.groups, &prepared, subject, row)?;
        let members: Vec<Member> = record.details.members().collect();
        let named = members::named_by(&members);
        if !named.iter().all(|member| self.members.named.get(&(*member, record.id)).is_some()) {
            return Err(MEMBERS);
        }
        let mut places = 0_usize;
        for member in &members {
            let person = self.individuals.rows.find(member.individual);
            let Some((person, place)) = person.zip(Place::of(member, row)) else { continue };
            if !self.places.of(person).any(|known| known == place) {
                return Err(MEMBERS);
            }
            places = places.saturating_add(1);
        }
        if self.members.seats.get(row) != members::roles_of(&self.individuals.rows, &members) {
            return Err(MEMBERS);
        }
        if self.members.summaries.get(row, |_| true).as_ref() != Some(&GroupSummary::of(&record.details)) {
            return Err(SHOWN);
        }
        Ok(Counts { members: length(named.len()), places: length(places), ..counts })
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
        let words = holds_all(&self.about.memberships.postings, &terms.iter().collect::<Vec<_>>(), row);
        let covers = self.covered(RecordKind::ProgramMembership, beneficiary, row);
        Ok(Counts { words: words.ok_or(TERMS)?, covers: covers?, ..Counts::default() })
    }

    fn consent_counts(&self, record: &Consent, row: u32) -> Result<Counts, RowProblem> {
        if !self.covers.knows(record) {
            return Err(COVERS);
        }
        let terms = sorted_once(terms_of_consent(record));
        let words = holds_all(&self.about.consents.postings, &terms.iter().collect::<Vec<_>>(), row);
        Ok(Counts { words: words.ok_or(TERMS)?, ..Counts::default() })
    }
}
