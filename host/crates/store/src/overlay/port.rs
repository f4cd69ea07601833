//! Reads of an overlay: pending writes, and the base store for all other data.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Overlay, is_pending};
use crate::record::setting::{SettingKind, SettingRange};
use daftar_domain::audit::AuditEntry;
use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery};
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use daftar_domain::deployment::Setting;
use daftar_domain::idempotency::{IdempotencyKey, IdempotentRequest};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::PhotoReference;
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind, VersionId};

use crate::audit_log::{AuditRemoval, AuditRemoved};
use crate::change_log::{HistoryMark, RegisterId, Touched};
use crate::{ChangeSink, Committed, IdentifierOwner, Store, StoreError, StoredCodeTable, Write};

impl Overlay {
    /// True if any of these records was read or written here.
    fn has_seen(&self, kind: RecordKind, ids: &[RecordId]) -> bool {
        let state = self.state();
        ids.iter().any(|id| id.pending_number().is_some() || state.records.records.contains_key(&(kind, *id)))
    }
}

#[async_trait::async_trait]
impl Store for Overlay {
    fn attach_sink(&self, _: Arc<dyn ChangeSink>) -> Result<Sequence, StoreError> {
        Err(StoreError::SinkAttached)
    }

    fn readiness(&self) -> Result<(), StoreError> {
        self.base.readiness()
    }

    fn writes_at_once(&self) -> usize {
        self.base.writes_at_once()
    }

    fn pending_writes(&self) -> Option<&Overlay> {
        (!self.is_dry_run).then_some(self)
    }

    async fn commit(&self, write: Write) -> Result<Committed, StoreError> {
        let found = self.gather(&write.operations).await?;
        if self.is_dry_run { self.check(write, found) } else { self.keep_back(write, found) }
    }

    async fn commit_once(&self, write: Write, _: IdempotentRequest) -> Result<Committed, StoreError> {
        if self.is_dry_run { self.commit(write).await } else { Err(super::no_part("it is a request of its own")) }
    }

    async fn remembered(
        &self,
        client: &ClientId,
        key: &IdempotencyKey,
    ) -> Result<Vec<Arc<IdempotentRequest>>, StoreError> {
        self.base.remembered(client, key).await
    }

    async fn remembered_count(&self, client: &ClientId) -> Result<u64, StoreError> {
        self.base.remembered_count(client).await
    }

    async fn forget_requests(&self, now: Timestamp) -> Result<u64, StoreError> {
        if self.is_dry_run { Ok(0) } else { self.base.forget_requests(now).await }
    }

    async fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError> {
        let seen = self.state().records.records.get(&(kind, id)).cloned();
        if seen.is_some() || id.pending_number().is_some() {
            return Ok(seen);
        }
        self.base.record(kind, id).await
    }

    async fn records(&self, kind: RecordKind, ids: &[RecordId]) -> Result<Vec<ChangedRecord>, StoreError> {
        if !self.has_seen(kind, ids) {
            return self.base.records(kind, ids).await;
        }
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            found.extend(self.record(kind, *id).await?);
        }
        Ok(found)
    }

    async fn record_version(
        &self,
        kind: RecordKind,
        id: RecordId,
        version: VersionId,
    ) -> Result<Option<ChangedRecord>, StoreError> {
        let made = self.state().versions.get(&(kind, id, version)).cloned();
        if made.is_some() || id.pending_number().is_some() {
            return Ok(made);
        }
        self.base.record_version(kind, id, version).await
    }

    async fn scan_records(
        &self,
        kind: RecordKind,
        after: RecordId,
        limit: usize,
    ) -> Result<Vec<ChangedRecord>, StoreError> {
        self.base.scan_records(kind, after, limit).await
    }

    async fn photo(&self, reference: PhotoReference) -> Result<Option<Arc<[u8]>>, StoreError> {
        let made = self.state().records.photos.get(&reference.digest).map(|photo| Arc::clone(photo.bytes()));
        if made.is_some() {
            return Ok(made);
        }
        self.base.photo(reference).await
    }

    async fn open_membership(&self, slot: MembershipSlot) -> Result<Option<RecordId>, StoreError> {
        let seen = self.state().records.open_memberships.get(&slot).copied();
        match seen {
            Some(holder) => Ok(holder),
            None if is_pending(slot) => Ok(None),
            None => self.base.open_membership(slot).await,
        }
    }

    async fn identifier_owners(
        &self,
        kind: RecordKind,
        key: &IdentifierKey,
        limit: usize,
    ) -> Result<Vec<IdentifierOwner>, StoreError> {
        let seen = {
            let state = self.state();
            let carrier = || state.carriers.get(kind, key).map(|owner| vec![owner]);
            state.records.owners.get(&(kind, key.clone())).cloned().or_else(carrier)
        };
        let Some(mut owners) = seen else { return self.base.identifier_owners(kind, key, limit).await };
        owners.truncate(limit);
        Ok(owners)
    }

    async fn clients(&self) -> Result<Vec<Client>, StoreError> {
        self.base.clients().await
    }

    async fn settings(&self) -> Result<Vec<Setting>, StoreError> {
        self.base.settings().await
    }

    async fn settings_of(&self, kind: SettingKind, range: SettingRange<'_>) -> Result<Vec<Setting>, StoreError> {
        self.base.settings_of(kind, range).await
    }

    async fn setting_count(&self, kind: SettingKind, prefix: &[u8]) -> Result<u64, StoreError> {
        self.base.setting_count(kind, prefix).await
    }

    async fn code_table(&self) -> Result<StoredCodeTable, StoreError> {
        let mut table = self.base.code_table().await?;
        let state = self.state();
        table.codes.extend(state.new_codes.iter().flat_map(|new| new.codes.iter().cloned()));
        Ok(table)
    }

    async fn number_codes(
        &self,
        codes: Vec<CodeUri>,
        editions: Vec<(Namespace, String)>,
    ) -> Result<(Vec<CodeNumber>, Vec<EditionNumber>), StoreError> {
        self.base.number_codes(codes, editions).await
    }

    async fn append_audit(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        if self.is_dry_run { Ok(()) } else { self.base.append_audit(entries).await }
    }

    async fn audit_page(
        &self,
        query: AuditQuery,
        before: AuditPosition,
        bounds: AuditBounds,
    ) -> Result<AuditPage, StoreError> {
        self.base.audit_page(query, before, bounds).await
    }

    async fn remove_audit(&self, removal: AuditRemoval) -> Result<Option<AuditRemoved>, StoreError> {
        if self.is_dry_run { Ok(None) } else { self.base.remove_audit(removal).await }
    }

    async fn register_id(&self) -> Result<RegisterId, StoreError> {
        self.base.register_id().await
    }

    async fn changes_after(&self, after: Sequence, limit: usize) -> Result<Vec<Touched>, StoreError> {
        self.base.changes_after(after, limit).await
    }

    async fn history_mark(&self, at: Sequence) -> Result<Option<HistoryMark>, StoreError> {
        self.base.history_mark(at).await
    }

    async fn raise_counter(&self, name: &str, value: u64) -> Result<(), StoreError> {
        if self.is_dry_run { Ok(()) } else { self.base.raise_counter(name, value).await }
    }

    async fn counter(&self, name: &str) -> Result<Option<u64>, StoreError> {
        let raised = {
            let state = self.state();
            let counters = state.new_codes.iter().flat_map(|new| &new.counters);
            counters.filter(|(raised, _)| raised == name).map(|(_, value)| *value).max()
        };
        match raised {
            Some(value) => Ok(Some(value)),
            None => self.base.counter(name).await,
        }
    }

    async fn counters(&self, prefix: &str) -> Result<Vec<(String, u64)>, StoreError> {
        self.base.counters(prefix).await
    }

    async fn remove_counters(&self, prefix: &str) -> Result<(), StoreError> {
        if self.is_dry_run { Ok(()) } else { self.base.remove_counters(prefix).await }
    }
}
