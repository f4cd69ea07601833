//! A snapshot of the register, and its queries.

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
use daftar_domain::consent::{ConsentFilter, Opened};
use daftar_domain::group::{GroupRecord, GroupSummary};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::individual::IndividualRecord;
use daftar_domain::program::Program;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::scope::Resource;
use daftar_domain::search::{ConsentTerm, Found, MembershipTerm, Page};
use daftar_domain::subject::{Subject, SubjectReference};

/// A consistent, immutable view of the register.
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
    /// Shows the number of records, never their content.
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

    /// Returns the individual or group that has or had an identifier, by its hash; `None` if there is none, or more than
    /// one.
    #[must_use]
    pub fn only_carrier(&self, kind: RecordKind, key: &IdentifierKey) -> Option<RecordId> {
        let (identifiers, rows) = match kind {
            RecordKind::Individual => (&self.individuals.identifiers, &self.individuals.rows),
            RecordKind::Group => (&self.groups.identifiers, &self.groups.rows),
            RecordKind::Program | RecordKind::ProgramMembership | RecordKind::Consent => return None,
        };
        rows.id(identifiers.only_row(self.hasher.hash(key))?)
    }

    /// Returns every group that names the person as a member, active or not, in the order of their keys.
    #[must_use]
    pub fn groups_of(&self, individual: RecordId) -> Vec<RecordId> {
        self.members.groups_of(individual)
    }

    /// Returns a group as the record of an individual shows it, with the memberships of that individual; `None` if the
    /// group has no row. Complete only in a register with everything that searches read.
    #[must_use]
    pub fn group_of(&self, individual: RecordId, group: RecordId) -> Option<GroupSummary> {
        let row = self.groups.rows.find(group)?;
        self.members.summaries.get(row, |member| member == individual)
    }

    /// Returns every program, in the order of their keys.
    pub fn programs(&self) -> impl Iterator<Item = &Arc<Program>> {
        self.about.programs.values()
    }

    /// Returns the memberships that have one term of each list: their number, and those of the page, in the order of
    /// their keys. Without a list, every membership matches.
    #[must_use]
    pub fn memberships(&self, conditions: &[Vec<MembershipTerm>], page: Page) -> Found {
        self.about.memberships.search(conditions, page)
    }

    /// Returns the consents that have one term of each list, as [`Snapshot::memberships`] does.
    #[must_use]
    pub fn consents(&self, conditions: &[Vec<ConsentTerm>], page: Page) -> Found {
        self.about.consents.search(conditions, page)
    }

    /// Returns a client's access on a day to the record of an individual or group, or to its program memberships;
    /// `None` without a consent.
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

    /// Returns the records of one kind that consents cover for a client on a day, with the visible fields.
    #[must_use]
    pub fn consented(&self, resource: Resource, filter: &ConsentFilter, day: Date) -> Arc<RowLimits> {
        self.covers.limits(resource, filter, day)
    }

    /// Returns the beneficiary of a membership.
    #[must_use]
    pub fn beneficiary(&self, membership: RecordId) -> Option<SubjectReference> {
        self.covers.beneficiary(membership)
    }

    /// Returns the number of individuals and groups that have at least one of these codes in any field.
    #[must_use]
    pub fn records_using(&self, numbers: &[CodeNumber]) -> u64 {
        let [individuals, groups] = self.rows_using(numbers);
        individuals.len().saturating_add(groups.len())
    }

    /// Returns the rows of individuals and of groups that have at least one of these codes.
    fn rows_using(&self, numbers: &[CodeNumber]) -> [RowSet; 2] {
        let codes = [&self.individuals.codes, &self.groups.codes];
        codes.map(|codes| RowSet::union(postings_of(codes, &self.extensions, numbers)))
    }

    /// Returns these individuals and groups, each in the order of their keys, at most `limit` in total.
    #[must_use]
    pub fn holders_of(&self, numbers: &[CodeNumber], limit: usize) -> (Vec<RecordId>, Vec<RecordId>) {
        let [individuals, groups] = self.rows_using(numbers);
        let individuals = individuals.rows().filter_map(|row| self.individuals.rows.id(row)).take(limit);
        let individuals: Vec<RecordId> = individuals.collect();
        let groups = groups.rows().filter_map(|row| self.groups.rows.id(row));
        let groups = groups.take(limit.saturating_sub(individuals.len())).collect();
        (individuals, groups)
    }

    /// Returns the number of individuals.
    #[must_use]
    pub fn individual_count(&self) -> u64 {
        u64::from(self.individuals.rows.count())
    }

    /// Returns the number of groups.
    #[must_use]
    pub fn group_count(&self) -> u64 {
        u64::from(self.groups.rows.count())
    }

    /// Returns the row of an individual.
    #[must_use]
    pub fn row_of(&self, individual: RecordId) -> Option<u32> {
        self.individuals.rows.find(individual)
    }

    /// Returns the row of a group.
    #[must_use]
    pub fn group_row_of(&self, group: RecordId) -> Option<u32> {
        self.groups.rows.find(group)
    }

    /// Returns the greatest key of a kind that has a row.
    #[must_use]
    pub fn last_of(&self, kind: Subject) -> Option<RecordId> {
        let rows = self.rows(kind.record_kind())?;
        rows.id(rows.count().checked_sub(1)?)
    }

    /// Returns the recorded values of one field of individuals by row; `None` if the field has no column. A row without
    /// a value, or past the last row, is marked as invalid; its value is undefined.
    #[must_use]
    pub fn gather(&self, path: &str, rows: &[u32]) -> Option<Gathered> {
        gather::gather(&self.individuals.columns, path, rows)
    }
}
