//! Executes queries on the register in its in-memory index.
//!
//! **Invariant:** a query sees every write that was acknowledged before it began. The embedded store notifies the index
//! of a write once the write is on disk, and acknowledges it when the index has applied it.

use std::collections::BTreeMap;
use std::sync::Arc;

use daftar_domain::change::Sequence;
use daftar_domain::code::CodeNumber;
use daftar_domain::consent::Opened;
use daftar_domain::group::GroupSummary;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program::Program;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::scope::Resource;
use daftar_domain::search::order::Window;
use daftar_domain::search::{
    ConsentTerm, Found, KindCondition, MembershipConditions, MembershipTerm, Page, Sorting, SubjectQuery,
};
use daftar_domain::subject::SubjectReference;
use daftar_index::{Columns, RowLimits, SearchLimits, Snapshot};
use daftar_store::StoreError;
use daftar_store::index::{Index, RecordCounts, Sees};

/// The in-memory index of the register, which the store notifies of every write before the write is acknowledged.
pub struct MemoryIndex(pub Arc<Columns>);

/// The limits of a search of a resource; absent if all records are visible to the client.
fn limits(snapshot: &Snapshot, resource: Resource, sees: Option<Sees<'_>>) -> Option<Arc<RowLimits>> {
    sees.map(|Sees { filter, day }| snapshot.consented(resource, filter, day))
}

#[async_trait::async_trait]
impl Index for MemoryIndex {
    async fn sequence(&self) -> Result<Sequence, StoreError> {
        Ok(self.0.sequence())
    }

    async fn search_subjects(
        &self,
        query: &SubjectQuery,
        sees: Option<Sees<'_>>,
        sorting: Sorting<'_>,
        window: &Window,
    ) -> Result<Found, StoreError> {
        let snapshot = self.0.snapshot();
        let records = limits(&snapshot, query.kind().record_kind().resource(), sees);
        let groups = match query.of_kind {
            KindCondition::Individuals(_) => limits(&snapshot, Resource::Group, sees),
            KindCondition::Groups(_) => None,
        };
        let limits = SearchLimits { records: records.as_deref(), groups: groups.as_deref() };
        Ok(snapshot.search(query, limits, sorting, window))
    }

    async fn search_memberships(
        &self,
        conditions: &MembershipConditions,
        sees: Option<Sees<'_>>,
        sorting: Sorting<'_>,
        window: &Window,
    ) -> Result<Found, StoreError> {
        let snapshot = self.0.snapshot();
        let memberships = limits(&snapshot, Resource::ProgramMembership, sees);
        let limits = SearchLimits { records: memberships.as_deref(), groups: None };
        Ok(snapshot.search_memberships(conditions, limits, sorting, window))
    }

    async fn memberships(&self, conditions: &[Vec<MembershipTerm>], page: Page) -> Result<Found, StoreError> {
        Ok(self.0.snapshot().memberships(conditions, page))
    }

    async fn consents(&self, conditions: &[Vec<ConsentTerm>], page: Page) -> Result<Found, StoreError> {
        Ok(self.0.snapshot().consents(conditions, page))
    }

    fn candidate(&self, kind: RecordKind, key: &IdentifierKey) -> Option<RecordId> {
        self.0.snapshot().only_carrier(kind, key)
    }

    async fn groups_of(&self, individual: RecordId) -> Result<Vec<RecordId>, StoreError> {
        Ok(self.0.snapshot().groups_of(individual))
    }

    fn group_of(&self, individual: RecordId, group: RecordId) -> Option<GroupSummary> {
        self.0.snapshot().group_of(individual, group)
    }

    async fn programs(&self) -> Result<Vec<Arc<Program>>, StoreError> {
        Ok(self.0.snapshot().programs().cloned().collect())
    }

    async fn opened(
        &self,
        resource: Resource,
        subjects: &[SubjectReference],
        Sees { filter, day }: Sees<'_>,
    ) -> Result<Vec<Option<Opened>>, StoreError> {
        let snapshot = self.0.snapshot();
        Ok(subjects.iter().map(|subject| snapshot.opened(resource, *subject, filter, day)).collect())
    }

    async fn beneficiaries(&self, memberships: &[RecordId]) -> Result<Vec<Option<SubjectReference>>, StoreError> {
        let snapshot = self.0.snapshot();
        Ok(memberships.iter().map(|membership| snapshot.beneficiary(*membership)).collect())
    }

    async fn records_using(&self, numbers: &[CodeNumber]) -> Result<u64, StoreError> {
        Ok(self.0.snapshot().records_using(numbers))
    }

    async fn records_by_code(&self, numbers: &[CodeNumber]) -> Result<BTreeMap<CodeNumber, u64>, StoreError> {
        let snapshot = self.0.snapshot();
        let counted = numbers.iter().map(|number| (*number, snapshot.records_using(&[*number])));
        Ok(counted.filter(|(_, records)| *records > 0).collect())
    }

    async fn holders_of(
        &self,
        numbers: &[CodeNumber],
        limit: usize,
    ) -> Result<(Vec<RecordId>, Vec<RecordId>), StoreError> {
        Ok(self.0.snapshot().holders_of(numbers, limit))
    }

    async fn record_counts(&self) -> Result<RecordCounts, StoreError> {
        let snapshot = self.0.snapshot();
        Ok(RecordCounts { individuals: snapshot.individual_count(), groups: snapshot.group_count() })
    }
}
