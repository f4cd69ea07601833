//! What is asked of the register beyond single records: searches, who belongs where, what consents open.
//!
//! The embedded backend answers from the register in memory, PostgreSQL from its indexes. Both give the same answers.
//!
//! **Invariant:** under [`Sees`] a search gives what it would give if the other records were not there, no condition held on a field
//! that may not be looked at, and such a field had no value to be put in order by: totals and pages alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::civil::Date;

use daftar_domain::change::Sequence;
use daftar_domain::code::CodeNumber;
use daftar_domain::consent_filter::{ConsentFilter, Opened};
use daftar_domain::program::Program;
use daftar_domain::record::RecordId;
use daftar_domain::scope::Resource;
use daftar_domain::search::found::{Found, Sorting};
use daftar_domain::search::order::Window;
use daftar_domain::search::terms::{ConsentTerm, MembershipConditions, MembershipTerm};
use daftar_domain::search::{GroupQuery, IndividualQuery, Page};
use daftar_domain::subject::SubjectReference;

use super::StoreError;

/// What a client sees of the register whose legal basis is consent.
#[derive(Debug, Clone, Copy)]
pub struct Sees<'a> {
    /// By which consents.
    pub filter: &'a ConsentFilter,
    /// On which day.
    pub day: Date,
}

/// How many records there are of the kinds that are counted together with searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordCounts {
    /// People.
    pub individuals: u64,
    /// Groups.
    pub groups: u64,
}

/// The register as it is searched. The embedded backend implements it by the register in memory, PostgreSQL by its indexes.
///
/// - Atomicity: an answer is of one state of the register; a write is in it whole or not at all. Two answers may be of two states.
/// - Order: an answer holds every write that was acknowledged by this process before it was asked for.
/// - Durability: nothing is changed. An answer may hold a write that is on disk and not acknowledged yet.
/// - After a crash the index is what the records say, whatever it held before.
#[async_trait::async_trait]
pub trait Index: Send + Sync + 'static {
    /// The last write that answers take into account at least: what a write rests on that was decided by them.
    ///
    /// # Errors
    /// When the store fails.
    async fn sequence(&self) -> Result<Sequence, StoreError>;

    /// The people that meet every condition: how many, and those of the page. A condition on places counts the groups that are there
    /// for the client.
    ///
    /// # Errors
    /// When the store fails.
    async fn search_individuals(
        &self,
        query: &IndividualQuery,
        sees: Option<Sees<'_>>,
        sorting: Sorting<'_>,
        window: &Window,
    ) -> Result<Found, StoreError>;

    /// The groups that meet every condition: how many, and those of the page.
    ///
    /// # Errors
    /// When the store fails.
    async fn search_groups(
        &self,
        query: &GroupQuery,
        sees: Option<Sees<'_>>,
        sorting: Sorting<'_>,
        window: &Window,
    ) -> Result<Found, StoreError>;

    /// The memberships that meet every condition: how many, and those of the page.
    ///
    /// # Errors
    /// When the store fails.
    async fn search_memberships(
        &self,
        conditions: &MembershipConditions,
        sees: Option<Sees<'_>>,
        sorting: Sorting<'_>,
        window: &Window,
    ) -> Result<Found, StoreError>;

    /// The memberships that hold one term of each list: how many, and those of the page, in the order of their keys. No list at all:
    /// every membership.
    ///
    /// # Errors
    /// When the store fails.
    async fn memberships(&self, conditions: &[Vec<MembershipTerm>], page: Page) -> Result<Found, StoreError>;

    /// The consents that hold one term of each list, as [`Index::memberships`] does.
    ///
    /// # Errors
    /// When the store fails.
    async fn consents(&self, conditions: &[Vec<ConsentTerm>], page: Page) -> Result<Found, StoreError>;

    /// Every group that names the person as a member, in use or not, in the order of their keys.
    ///
    /// # Errors
    /// When the store fails.
    async fn groups_of(&self, individual: RecordId) -> Result<Vec<RecordId>, StoreError>;

    /// Every program, in the order of their keys.
    ///
    /// # Errors
    /// When the store fails.
    async fn programs(&self) -> Result<Vec<Arc<Program>>, StoreError>;

    /// What opens the record of each of these people and groups, or its memberships in programs, to a client, in the order asked;
    /// nothing where no consent does.
    ///
    /// # Errors
    /// When the store fails.
    async fn opened(
        &self,
        resource: Resource,
        subjects: &[SubjectReference],
        sees: Sees<'_>,
    ) -> Result<Vec<Option<Opened>>, StoreError>;

    /// Whose each of these memberships is, in the order asked; nothing for one that is not there.
    ///
    /// # Errors
    /// When the store fails.
    async fn beneficiaries(&self, memberships: &[RecordId]) -> Result<Vec<Option<SubjectReference>>, StoreError>;

    /// How many records, individuals and groups, hold at least one of these codes now, in whatever field.
    ///
    /// # Errors
    /// When the store fails.
    async fn records_using(&self, numbers: &[CodeNumber]) -> Result<u64, StoreError>;

    /// How many records hold each of these codes now, in whatever field; codes that none holds are left out.
    ///
    /// # Errors
    /// When the store fails.
    async fn records_by_code(&self, numbers: &[CodeNumber]) -> Result<BTreeMap<CodeNumber, u64>, StoreError>;

    /// Which individuals and which groups hold at least one of these codes, each in the order of their keys, at most `limit` in all.
    ///
    /// # Errors
    /// When the store fails.
    async fn holders_of(
        &self,
        numbers: &[CodeNumber],
        limit: usize,
    ) -> Result<(Vec<RecordId>, Vec<RecordId>), StoreError>;

    /// How many people and groups there are.
    ///
    /// # Errors
    /// When the store fails.
    async fn record_counts(&self) -> Result<RecordCounts, StoreError>;
}
