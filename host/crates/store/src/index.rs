//! Queries on the register beyond single records: searches, memberships, and access by consent.
//!
//! The embedded backend answers from the register in memory, PostgreSQL from its indexes. Both return the same results.
//!
//! **Invariant:** under [`Sees`] a search behaves as if invisible records did not exist, no condition on an invisible
//! field matched, and such a field had no value for sorting: for totals and pages alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::civil::Date;

use daftar_domain::change::Sequence;
use daftar_domain::code::CodeNumber;
use daftar_domain::consent::{ConsentFilter, Opened};
use daftar_domain::group::GroupSummary;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program::Program;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::scope::Resource;
use daftar_domain::search::order::Window;
use daftar_domain::search::{ConsentTerm, Found, MembershipConditions, MembershipTerm, Page, Sorting, SubjectQuery};
use daftar_domain::subject::SubjectReference;

use super::StoreError;

/// The visible part of the register for a client whose legal basis is consent.
#[derive(Debug, Clone, Copy)]
pub struct Sees<'a> {
    /// The consents that grant access.
    pub filter: &'a ConsentFilter,
    /// The day on which they must be valid.
    pub day: Date,
}

/// Number of records of the kinds with counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordCounts {
    /// People.
    pub individuals: u64,
    /// Groups.
    pub groups: u64,
}

/// Search index of the register. The embedded backend implements it by the register in memory, PostgreSQL by its
/// indexes.
///
/// - Atomicity: a result is of one state of the register, with each write complete or absent. Two results may be of two
///   states.
/// - Order: a result includes every write that was acknowledged by this process before the query.
/// - Durability: read-only. A result may include a write that is on disk and not acknowledged yet.
/// - After a crash the index is rebuilt from the records, independent of its state before.
#[async_trait::async_trait]
pub trait Index: Send + Sync + 'static {
    /// Returns the last write that results include at least: the baseline of a write's read set.
    ///
    /// # Errors
    /// If the store fails.
    async fn sequence(&self) -> Result<Sequence, StoreError>;

    /// Returns the individuals or groups that match every condition: their number, and a page. A condition on
    /// memberships of individuals counts only groups that the client sees.
    ///
    /// # Errors
    /// If the store fails.
    async fn search_subjects(
        &self,
        query: &SubjectQuery,
        sees: Option<Sees<'_>>,
        sorting: Sorting<'_>,
        window: &Window,
    ) -> Result<Found, StoreError>;

    /// Returns the memberships that match every condition: their number, and a page.
    ///
    /// # Errors
    /// If the store fails.
    async fn search_memberships(
        &self,
        conditions: &MembershipConditions,
        sees: Option<Sees<'_>>,
        sorting: Sorting<'_>,
        window: &Window,
    ) -> Result<Found, StoreError>;

    /// Returns the memberships that have at least one term of each list: their number, and a page in the order of their
    /// keys. Without lists all memberships match.
    ///
    /// # Errors
    /// If the store fails.
    async fn memberships(&self, conditions: &[Vec<MembershipTerm>], page: Page) -> Result<Found, StoreError>;

    /// Returns the consents that have at least one term of each list, as [`Index::memberships`] does.
    ///
    /// # Errors
    /// If the store fails.
    async fn consents(&self, conditions: &[Vec<ConsentTerm>], page: Page) -> Result<Found, StoreError>;

    /// Returns the record of a kind that has or had the identifier, if an index in memory has exactly one: a candidate
    /// only. Not every record with the identifier must be in memory yet, and the hash of another identifier may be the
    /// same, so the caller reads the record and compares.
    fn candidate(&self, _kind: RecordKind, _key: &IdentifierKey) -> Option<RecordId> {
        None
    }

    /// Returns every group with the individual as a current or former member, in the order of their keys.
    ///
    /// # Errors
    /// If the store fails.
    async fn groups_of(&self, individual: RecordId) -> Result<Vec<RecordId>, StoreError>;

    /// Returns a group as the record of an individual shows it, with the memberships of that individual, if an index in
    /// memory has it; otherwise the caller reads the record of the group.
    fn group_of(&self, _individual: RecordId, _group: RecordId) -> Option<GroupSummary> {
        None
    }

    /// Returns every program, in the order of their keys.
    ///
    /// # Errors
    /// If the store fails.
    async fn programs(&self) -> Result<Vec<Arc<Program>>, StoreError>;

    /// Returns for each of these subjects the consent that grants a client access to its record, or to its memberships
    /// in programs, in order; none without such a consent.
    ///
    /// # Errors
    /// If the store fails.
    async fn opened(
        &self,
        resource: Resource,
        subjects: &[SubjectReference],
        sees: Sees<'_>,
    ) -> Result<Vec<Option<Opened>>, StoreError>;

    /// Returns the beneficiary of each of these memberships, in order; none for a missing one.
    ///
    /// # Errors
    /// If the store fails.
    async fn beneficiaries(&self, memberships: &[RecordId]) -> Result<Vec<Option<SubjectReference>>, StoreError>;

    /// Returns the number of individuals and groups that currently contain at least one of these codes in any field.
    ///
    /// # Errors
    /// If the store fails.
    async fn records_using(&self, numbers: &[CodeNumber]) -> Result<u64, StoreError>;

    /// Returns the number of records that currently contain each of these codes in any field, without unused codes.
    ///
    /// # Errors
    /// If the store fails.
    async fn records_by_code(&self, numbers: &[CodeNumber]) -> Result<BTreeMap<CodeNumber, u64>, StoreError>;

    /// Returns the individuals and groups that contain at least one of these codes, each in the order of their keys, at
    /// most `limit` in total.
    ///
    /// # Errors
    /// If the store fails.
    async fn holders_of(
        &self,
        numbers: &[CodeNumber],
        limit: usize,
    ) -> Result<(Vec<RecordId>, Vec<RecordId>), StoreError>;

    /// Number of individuals and groups.
    ///
    /// # Errors
    /// If the store fails.
    async fn record_counts(&self) -> Result<RecordCounts, StoreError>;
}
