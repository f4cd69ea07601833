//! The register at one moment, and what is asked of it.

use std::fmt;
use std::sync::Arc;

use jiff::civil::Date;

use super::about::About;
use super::bitmaps::RowSet;
use super::codes::{ExtensionNumbers, postings_of};
use super::consent_index::ConsentIndex;
use super::gather::{self, Gathered};
use super::identifiers::IdentifierHasher;
use super::limits::RowLimits;
use super::members::Members;
use super::places::Places;
use super::prepared::Preparer;
use super::subjects::{Contents, Subjects};
use daftar_domain::code::CodeNumber;
use daftar_domain::consent_filter::{ConsentFilter, Opened};
use daftar_domain::group::GroupRecord;
use daftar_domain::individual::IndividualRecord;
use daftar_domain::program::Program;
use daftar_domain::record::RecordId;
use daftar_domain::scope::Resource;
use daftar_domain::search::Page;
use daftar_domain::search::found::Found;
use daftar_domain::search::terms::{ConsentTerm, MembershipTerm};
use daftar_domain::subject::{Subject, SubjectReference};

/// The register at one moment.
#[derive(Clone)]
pub struct Snapshot {
    pub(super) hasher: IdentifierHasher,
    pub(super) extensions: ExtensionNumbers,
    pub(super) individuals: Subjects<IndividualRecord>,
    pub(super) groups: Subjects<GroupRecord>,
    pub(super) members: Members,
    pub(super) places: Places,
    pub(super) about: About,
    pub(super) covers: ConsentIndex,
}

impl fmt::Debug for Snapshot {
    /// Shows how much there is, none of it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Snapshot");
        shown
            .field("individuals", &self.individual_count())
            .field("groups", &self.group_count())
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Returns the preparer of records for a register with everything that searches read.
    pub(super) fn preparer(&self) -> Preparer {
        let (hasher, extensions) = (self.hasher.clone(), self.extensions.clone());
        Preparer { hasher, extensions, contents: Contents::All }
    }

    /// Every group that names the person as a member, in use or not, in the order of their keys.
    #[must_use]
    pub fn groups_of(&self, individual: RecordId) -> Vec<RecordId> {
        self.members.groups_of(individual)
    }

    /// Every program, in the order of their keys.
    pub fn programs(&self) -> impl Iterator<Item = &Arc<Program>> {
        self.about.programs.values()
    }

    /// The program of that key.
    #[must_use]
    pub fn program(&self, id: RecordId) -> Option<&Arc<Program>> {
        self.about.programs.get(&id)
    }

    /// The memberships that hold one term of each list: how many, and those of the page, in the order of their keys. No list
    /// at all: every membership.
    #[must_use]
    pub fn memberships(&self, conditions: &[Vec<MembershipTerm>], page: Page) -> Found {
        self.about.memberships.search(conditions, page)
    }

    /// The consents that hold one term of each list, as [`Snapshot::memberships`] does.
    #[must_use]
    pub fn consents(&self, conditions: &[Vec<ConsentTerm>], page: Page) -> Found {
        self.about.consents.search(conditions, page)
    }

    /// What opens the record of a person or a group, or its memberships in programs, to a client on a day; nothing where no
    /// consent does.
    #[must_use]
    pub fn opened(
        &self,
        resource: Resource,
        subject: SubjectReference,
        filter: &ConsentFilter,
        day: Date,
    ) -> Option<Opened> {
        self.covers.opened(resource, subject, filter, day)
    }

    /// All of one kind of record that consents open to a client on a day, and what of them.
    #[must_use]
    pub fn consented(&self, resource: Resource, filter: &ConsentFilter, day: Date) -> Arc<RowLimits> {
        self.covers.limits(resource, filter, day)
    }

    /// Whose a membership is.
    #[must_use]
    pub fn beneficiary(&self, membership: RecordId) -> Option<SubjectReference> {
        self.covers.beneficiary(membership)
    }

    /// How many records, individuals and groups, hold at least one of these codes now, in whatever field.
    #[must_use]
    pub fn records_using(&self, numbers: &[CodeNumber]) -> u64 {
        let [individuals, groups] = self.rows_using(numbers);
        individuals.len().saturating_add(groups.len())
    }

    /// The rows of individuals and of groups that hold at least one of these codes.
    fn rows_using(&self, numbers: &[CodeNumber]) -> [RowSet; 2] {
        let codes = [&self.individuals.codes, &self.groups.codes];
        codes.map(|codes| RowSet::union(postings_of(codes, &self.extensions, numbers)))
    }

    /// Which individuals and which groups those are, each in the order of their keys, at most `limit` in all.
    #[must_use]
    pub fn holders_of(&self, numbers: &[CodeNumber], limit: usize) -> (Vec<RecordId>, Vec<RecordId>) {
        let [individuals, groups] = self.rows_using(numbers);
        let individuals = individuals.rows().filter_map(|row| self.individuals.rows.id(row)).take(limit);
        let individuals: Vec<RecordId> = individuals.collect();
        let groups = groups.rows().filter_map(|row| self.groups.rows.id(row));
        let groups = groups.take(limit.saturating_sub(individuals.len())).collect();
        (individuals, groups)
    }

    /// Number of individuals.
    #[must_use]
    pub fn individual_count(&self) -> u64 {
        u64::from(self.individuals.rows.count())
    }

    /// Number of groups.
    #[must_use]
    pub fn group_count(&self) -> u64 {
        u64::from(self.groups.rows.count())
    }

    /// The row of an individual.
    #[must_use]
    pub fn row_of(&self, individual: RecordId) -> Option<u32> {
        self.individuals.rows.find(individual)
    }

    /// The row of a group.
    #[must_use]
    pub fn group_row_of(&self, group: RecordId) -> Option<u32> {
        self.groups.rows.find(group)
    }

    /// The greatest key of a kind that has a row.
    #[must_use]
    pub fn last_of(&self, kind: Subject) -> Option<RecordId> {
        let rows = self.rows(kind.record_kind())?;
        rows.id(rows.count().checked_sub(1)?)
    }

    /// The values of one field of individuals by row, as recorded. Absent where the schema gives the field of that path no column; a
    /// row without a value, or past the last, is not valid and has a value that means nothing.
    #[must_use]
    pub fn gather(&self, path: &str, rows: &[u32]) -> Option<Gathered> {
        gather::gather(&self.individuals.columns, path, rows)
    }
}
