//! A store in which writes are checked and not made: what a file of records would do to a register.
//!
//! **Invariant:** nothing that is committed here reaches the real store. A write that could be made is answered with
//! [`StoreError::Rehearsed`], and what it would give out (identifiers, open memberships) is taken for those after it.
//!
//! **Invariant:** of what would be made only the names are kept, some tens of bytes each, and programs, which are few.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::{
    ChangeSink, Committed, IdentifierOwner, Operation, RecordDetails, Store, StoreError, StoredCodeTable, Write,
};
use crate::domain::audit::AuditEntry;
use crate::domain::change::{ChangedRecord, Details, Sequence};
use crate::domain::client::{Client, ClientId};
use crate::domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use crate::domain::deployment::Setting;
use crate::domain::idempotency::{IdempotencyKey, RememberedRequest};
use crate::domain::identifier::{Identifier, IdentifierKey};
use crate::domain::photo::PhotoReference;
use crate::domain::program::Program;
use crate::domain::program_membership::MembershipSlot;
use crate::domain::record::{Record, RecordId, RecordKind, RecordMeta, VersionId};

/// Keys of records that would be made begin here: no register ever holds so many.
const FIRST: u64 = 1 << 62;

/// Whether a key is of a record that would be made.
#[must_use]
pub fn is_rehearsed(id: RecordId) -> bool {
    id.0 >= FIRST && id.pending_number().is_none()
}

/// Checks writes on top of a store.
pub struct Rehearsal {
    base: Arc<dyn Store>,
    hashers: (RandomState, RandomState),
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    made: u64,
    /// Who would carry an identifier, by the hash of kind and identifier.
    carriers: HashMap<u128, RecordId>,
    slots: HashSet<MembershipSlot>,
    programs: HashMap<RecordId, Arc<Program>>,
}

impl Rehearsal {
    /// Nothing committed yet.
    #[must_use]
    pub fn on(base: Arc<dyn Store>) -> Self {
        Self { base, hashers: Default::default(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is made after everything that can fail.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self, kind: RecordKind, key: &IdentifierKey) -> u128 {
        let (high, low) = &self.hashers;
        u128::from(high.hash_one((kind, key))) << 64 | u128::from(low.hash_one((kind, key)))
    }

    /// Checks that identifiers are free for a record, and takes them.
    async fn claim(
        &self,
        kind: RecordKind,
        own: Option<RecordId>,
        identifiers: &[Identifier],
    ) -> Result<RecordId, StoreError> {
        for identifier in identifiers.iter().filter(|identifier| identifier.is_open()) {
            let owners = self.identifier_owners(kind, &identifier.key, usize::MAX).await?;
            if owners.iter().any(|owner| owner.is_open && Some(owner.id) != own) {
                return Err(StoreError::IdentifierInUse(identifier.key.clone()));
            }
        }
        let mut state = self.state();
        let id = own.unwrap_or_else(|| {
            state.made = state.made.saturating_add(1);
            RecordId(FIRST.saturating_add(state.made))
        });
        for identifier in identifiers {
            let name = self.name(kind, &identifier.key);
            state.carriers.insert(name, id);
        }
        Ok(id)
    }

    async fn perform(&self, operation: Operation) -> Result<(), StoreError> {
        match operation {
            Operation::Create(details) => self.create(details).await,
            Operation::Update(id, version, details) => match details {
                RecordDetails::Individual(details) => self.replace(id, version, &details).await,
                RecordDetails::Group(details) => self.replace(id, version, &details).await,
                RecordDetails::Program(details) => self.replace(id, version, &details).await,
                RecordDetails::ProgramMembership(details) => self.replace(id, version, &details).await,
                RecordDetails::Consent(details) => self.replace(id, version, &details).await,
            },
            // A rehearsal gives no number: nothing of it is there afterwards.
            Operation::PutPhoto(_) | Operation::NumberCodes(_) => Ok(()),
            Operation::CreateClient(_)
            | Operation::UpdateClient(..)
            | Operation::PutSetting(_)
            | Operation::RemoveSetting(_) => Err(StoreError::Corrupt {
                what: "part of a rehearsal",
                reason: "it changes something else than records".to_owned(),
            }),
        }
    }

    async fn create(&self, details: RecordDetails) -> Result<(), StoreError> {
        match details {
            RecordDetails::Individual(details) => self.put(None, &details).await.map(drop),
            RecordDetails::Group(details) => self.put(None, &details).await.map(drop),
            RecordDetails::Program(details) => {
                let id = self.put(None, &details).await?;
                let meta = RecordMeta { version: VersionId::FIRST, last_updated: Timestamp::UNIX_EPOCH, source: None };
                self.state().programs.insert(id, Arc::new(Record { id, meta, details }));
                Ok(())
            }
            RecordDetails::ProgramMembership(details) => {
                let slot = Some(details.slot()).filter(|_| details.status.is_open());
                if let Some(slot) = slot
                    && self.open_membership(slot).await?.is_some()
                {
                    return Err(StoreError::MembershipOpen);
                }
                self.put(None, &details).await?;
                self.state().slots.extend(slot);
                Ok(())
            }
            RecordDetails::Consent(details) => self.put(None, &details).await.map(drop),
        }
    }

    async fn put<D: Details>(&self, own: Option<RecordId>, details: &D) -> Result<RecordId, StoreError> {
        let identifiers = details.identifiers().into_owned();
        self.claim(D::KIND, own, &identifiers).await
    }

    async fn replace<D: Details>(&self, id: RecordId, expected: VersionId, details: &D) -> Result<(), StoreError> {
        let present = self.record(D::KIND, id).await?.ok_or(StoreError::NotFound(D::KIND))?;
        let (_, _, actual) = present.place();
        if actual != expected {
            return Err(StoreError::VersionMismatch { expected, actual });
        }
        self.put(Some(id), details).await.map(drop)
    }
}

#[async_trait::async_trait]
impl Store for Rehearsal {
    fn attach_sink(&self, _: Arc<dyn ChangeSink>) -> Result<Sequence, StoreError> {
        Err(StoreError::SinkAttached)
    }

    fn readiness(&self) -> Result<(), StoreError> {
        self.base.readiness()
    }

    fn writes_at_once(&self) -> usize {
        self.base.writes_at_once()
    }

    async fn commit(&self, write: Write) -> Result<Committed, StoreError> {
        for operation in write.operations {
            self.perform(operation).await?;
        }
        Err(StoreError::Rehearsed)
    }

    async fn commit_once(&self, write: Write, _: RememberedRequest) -> Result<Committed, StoreError> {
        self.commit(write).await
    }

    async fn remembered(
        &self,
        client: &ClientId,
        key: &IdempotencyKey,
    ) -> Result<Vec<Arc<RememberedRequest>>, StoreError> {
        self.base.remembered(client, key).await
    }

    async fn remembered_count(&self, client: &ClientId) -> Result<u64, StoreError> {
        self.base.remembered_count(client).await
    }

    async fn forget_requests(&self, _: Timestamp) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError> {
        let program = self.state().programs.get(&id).cloned().filter(|_| kind == RecordKind::Program);
        match program {
            Some(program) => Ok(Some(ChangedRecord::Program(program))),
            None => self.base.record(kind, id).await,
        }
    }

    async fn records(&self, kind: RecordKind, ids: &[RecordId]) -> Result<Vec<ChangedRecord>, StoreError> {
        self.base.records(kind, ids).await
    }

    async fn record_version(
        &self,
        kind: RecordKind,
        id: RecordId,
        version: VersionId,
    ) -> Result<Option<ChangedRecord>, StoreError> {
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
        self.base.photo(reference).await
    }

    async fn open_membership(&self, slot: MembershipSlot) -> Result<Option<RecordId>, StoreError> {
        if self.state().slots.contains(&slot) {
            return Ok(Some(RecordId(FIRST)));
        }
        self.base.open_membership(slot).await
    }

    async fn identifier_owners(
        &self,
        kind: RecordKind,
        key: &IdentifierKey,
        limit: usize,
    ) -> Result<Vec<IdentifierOwner>, StoreError> {
        let carrier = self.state().carriers.get(&self.name(kind, key)).copied();
        match carrier {
            Some(id) => Ok(vec![IdentifierOwner { id, is_open: true }]),
            None => self.base.identifier_owners(kind, key, limit).await,
        }
    }

    async fn clients(&self) -> Result<Vec<Client>, StoreError> {
        self.base.clients().await
    }

    async fn settings(&self) -> Result<Vec<Setting>, StoreError> {
        self.base.settings().await
    }

    async fn code_table(&self) -> Result<StoredCodeTable, StoreError> {
        self.base.code_table().await
    }

    async fn number_codes(
        &self,
        codes: Vec<CodeUri>,
        editions: Vec<(Namespace, String)>,
    ) -> Result<(Vec<CodeNumber>, Vec<EditionNumber>), StoreError> {
        self.base.number_codes(codes, editions).await
    }

    async fn append_audit(&self, _: Vec<AuditEntry>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn audit(&self, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.base.audit(limit).await
    }

    async fn raise_counter(&self, _: &str, _: u64) -> Result<(), StoreError> {
        Ok(())
    }

    async fn counter(&self, name: &str) -> Result<Option<u64>, StoreError> {
        self.base.counter(name).await
    }

    async fn counters(&self, prefix: &str) -> Result<Vec<(String, u64)>, StoreError> {
        self.base.counters(prefix).await
    }

    async fn remove_counters(&self, _: &str) -> Result<(), StoreError> {
        Ok(())
    }
}
