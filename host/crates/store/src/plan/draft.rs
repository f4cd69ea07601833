//! A write during planning: each operation on top of the earlier ones.
//!
//! An operation sees the results of earlier operations, then the accepted writes, then the stored state. It refers to
//! records that earlier operations create by pending keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Last, Planned, Planner, Present};
use crate::record::client::client_as_stored;
use crate::record::instant::as_stored;
use crate::record::setting::setting_as_stored;
use crate::records::Records;
use crate::{Committed, IDENTIFIER_OWNERS_MAX, IdentifierOwner, Operation, RecordDetails, StoreError, Written};
use daftar_domain::audit::AuditEntry;
use daftar_domain::change::{Change, ChangedRecord, Details};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::code::CodedValue;
use daftar_domain::deployment::SettingKey;
use daftar_domain::idempotency::{IdempotentRequest, RequestName, StoredResponse};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::program::PROGRAMS_MAX;
use daftar_domain::program_membership::{MembershipSlot, ProgramMembershipDetails};
use daftar_domain::record::{Fields, Record, RecordId, RecordKind, RecordMeta, RecordType, VersionId};
use daftar_domain::value::{CodePlace, Reference, Translate};

/// A write during planning.
pub struct Draft<'d, 'p, P> {
    pub planner: &'d Planner<'p, P>,
    at: Timestamp,
    source: Option<ClientId>,
    pub last: Last,
    pub outcome: Records,
    changes: Vec<Change>,
    replaced: Vec<ChangedRecord>,
}

impl<'d, 'p, P: Present> Draft<'d, 'p, P> {
    /// A write before its first operation.
    pub fn new(planner: &'d Planner<'p, P>, at: Timestamp, source: Option<ClientId>, operations: usize) -> Self {
        Self {
            at,
            source,
            last: Last { sequence: planner.last.sequence.next(), ..planner.last },
            outcome: Records::default(),
            changes: Vec::with_capacity(operations),
            replaced: Vec::new(),
            planner,
        }
    }

    /// The planned write.
    pub fn finish(self, written: Vec<Written>, audit: Vec<AuditEntry>) -> Planned {
        let Self { at, last, outcome, changes, replaced, .. } = self;
        let committed = Committed { sequence: last.sequence, written };
        Planned { committed, at, changes, replaced, outcome, audit, last }
    }

    /// Plans an operation, on top of the earlier ones.
    pub fn perform(&mut self, operation: Operation) -> Result<Written, StoreError> {
        match operation {
            Operation::Create(details) => self.create(details),
            Operation::Update(id, expected, details) => self.update(id, expected, details),
            Operation::CreateClient(client) => {
                if self.client(&client.id)?.is_some() {
                    return Err(StoreError::ClientExists(client.id));
                }
                Ok(self.put_client(client))
            }
            Operation::UpdateClient(client, last_changed) => {
                let before = self.client(&client.id)?;
                let before = before.ok_or_else(|| StoreError::ClientNotFound(client.id.clone()))?;
                if before.updated_at != as_stored(last_changed) {
                    return Err(StoreError::ClientChanged(client.id));
                }
                // A third change could not distinguish two changes in one millisecond.
                let next_millisecond = before.updated_at.checked_add(SignedDuration::from_millis(1));
                let earliest = next_millisecond.unwrap_or(Timestamp::MAX);
                let updated_at = as_stored(client.updated_at).max(earliest);
                Ok(self.put_client(Client { updated_at, ..client }))
            }
            Operation::PutPhoto(photo) => {
                let digest = photo.reference().digest;
                self.outcome.photos.insert(digest, photo);
                Ok(Written::Photo(digest))
            }
            Operation::AddSetting(setting) => {
                if self.has_setting(&setting.key())? {
                    return Err(StoreError::Overtaken);
                }
                self.perform(Operation::PutSetting(setting))
            }
            Operation::PutSetting(setting) => {
                let key = setting.key();
                self.outcome.settings.insert(key.clone(), Some(Arc::new(setting_as_stored(setting))));
                Ok(Written::Setting(key))
            }
            Operation::RemoveSetting(key) => {
                self.outcome.settings.insert(key.clone(), None);
                Ok(Written::Setting(key))
            }
            Operation::NumberCodes(_) => Err(StoreError::Corrupt {
                what: "write",
                reason: "codes must be numbered before it is planned".to_owned(),
            }),
        }
    }

    fn create(&mut self, details: RecordDetails) -> Result<Written, StoreError> {
        let kind = details.kind();
        // The keys of parts of a write do not count records.
        let is_count = kind == RecordKind::Program && self.planner.origin.is_none();
        if is_count && self.last.key(kind) >= PROGRAMS_MAX {
            return Err(StoreError::LimitReached("the register has the maximum number of programs"));
        }
        let id = RecordId(self.last.key(kind).saturating_add(1));
        self.last.raise(kind, id);
        match details {
            RecordDetails::Individual(details) => self.put(id, None, details),
            RecordDetails::Group(details) => self.put(id, None, details),
            RecordDetails::Program(details) => self.put(id, None, details),
            RecordDetails::ProgramMembership(details) => self.put_membership(id, None, details),
            RecordDetails::Consent(details) => self.put(id, None, details),
        }
    }

    fn update(&mut self, id: RecordId, expected: VersionId, details: RecordDetails) -> Result<Written, StoreError> {
        match details {
            RecordDetails::Individual(details) => self.replace(id, expected, details),
            RecordDetails::Group(details) => self.replace(id, expected, details),
            RecordDetails::Program(details) => self.replace(id, expected, details),
            RecordDetails::ProgramMembership(details) => {
                let before = self.at_version(id, expected)?;
                self.put_membership(id, Some(before), details)
            }
            RecordDetails::Consent(details) => self.replace(id, expected, details),
        }
    }

    fn replace<D: Details>(&mut self, id: RecordId, expected: VersionId, details: D) -> Result<Written, StoreError> {
        let before = self.at_version(id, expected)?;
        self.put(id, Some(before), details)
    }

    /// The record to replace, if it is still at that version.
    fn at_version<D: Details>(&self, id: RecordId, expected: VersionId) -> Result<Arc<Record<D>>, StoreError> {
        let before = self.record(D::KIND, id)?.and_then(D::of).ok_or(StoreError::NotFound(D::KIND))?;
        let actual = before.meta.version;
        if actual == expected { Ok(before) } else { Err(StoreError::VersionMismatch { expected, actual }) }
    }

    fn put<D: Details>(
        &mut self,
        id: RecordId,
        before: Option<Arc<Record<D>>>,
        details: D,
    ) -> Result<Written, StoreError> {
        let carried = before.as_ref().map(|record| record.details.identifiers()).unwrap_or_default();
        self.claim(D::KIND, id, &carried, &details.identifiers())?;
        let meta = self.meta(before.as_ref().map(|record| record.meta.version));
        drop(carried);
        let record = D::any(Arc::new(Record { id, meta, details }));
        self.outcome.records.insert((D::KIND, id), record.clone());
        self.changes.push(Change { sequence: self.last.sequence, record: record.clone() });
        self.replaced.extend(before.map(D::any));
        Ok(Written::Record(record))
    }

    /// Adds a membership, if no other one is open in its slot.
    fn put_membership(
        &mut self,
        id: RecordId,
        before: Option<Arc<Record<ProgramMembershipDetails>>>,
        details: ProgramMembershipDetails,
    ) -> Result<Written, StoreError> {
        let former = before.as_ref().map(|record| record.details.slot());
        if let Some(slot) = former.filter(|former| *former != details.slot()) {
            self.leave(slot, id)?;
        }
        if !details.status().is_open() {
            self.leave(details.slot(), id)?;
        } else if self.open_membership(details.slot())?.is_some_and(|holder| holder != id) {
            return Err(StoreError::MembershipOpen);
        } else {
            self.outcome.open_memberships.insert(details.slot(), Some(id));
        }
        self.put(id, before, details)
    }

    /// Releases a slot, if that membership is in it.
    fn leave(&mut self, slot: MembershipSlot, id: RecordId) -> Result<(), StoreError> {
        if self.open_membership(slot)? == Some(id) {
            self.outcome.open_memberships.insert(slot, None);
        }
        Ok(())
    }

    fn put_client(&mut self, client: Client) -> Written {
        let client = Arc::new(client_as_stored(client));
        self.outcome.clients.insert(client.id.clone(), Arc::clone(&client));
        Written::Client(client)
    }

    fn meta(&self, before: Option<VersionId>) -> RecordMeta {
        let version = before.map_or(VersionId::FIRST, VersionId::next);
        RecordMeta { version, last_updated: self.at, source: self.source.clone() }
    }

    /// Adds the record as owner of its identifiers, and as former owner of the identifiers that it lost.
    fn claim(
        &mut self,
        kind: RecordKind,
        id: RecordId,
        before: &[Identifier],
        now: &[Identifier],
    ) -> Result<(), StoreError> {
        let mut open_by_key: BTreeMap<&IdentifierKey, bool> =
            before.iter().map(|identifier| (&identifier.key, false)).collect();
        for identifier in now {
            *open_by_key.entry(&identifier.key).or_insert(false) |= identifier.is_open();
        }
        for (key, is_open) in open_by_key {
            let mut owners = self.owners(kind, key)?;
            if is_open && owners.iter().any(|owner| owner.is_open && owner.id != id) {
                return Err(StoreError::IdentifierInUse(key.clone()));
            }
            let is_full = owners.len() >= IDENTIFIER_OWNERS_MAX;
            match owners.iter_mut().find(|owner| owner.id == id) {
                Some(owner) if owner.is_open == is_open => continue,
                Some(owner) => owner.is_open = is_open,
                None if is_full => {
                    return Err(StoreError::LimitReached("too many records have had one of the identifiers"));
                }
                None => owners.push(IdentifierOwner { id, is_open }),
            }
            // The current owner is first, so that a limit on a lookup never hides it.
            owners.sort_unstable_by_key(|owner| (!owner.is_open, owner.id));
            self.outcome.owners.insert((kind, key.clone()), owners);
        }
        Ok(())
    }

    pub fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError> {
        let drafted = self.outcome.records.get(&(kind, id));
        match drafted.or_else(|| self.planner.accepted.records.get(&(kind, id))) {
            Some(record) => Ok(Some(record.clone())),
            None => self.planner.present.record(kind, id),
        }
    }

    pub fn open_membership(&self, slot: MembershipSlot) -> Result<Option<RecordId>, StoreError> {
        let drafted = self.outcome.open_memberships.get(&slot);
        match drafted.or_else(|| self.planner.accepted.open_memberships.get(&slot)) {
            Some(holder) => Ok(*holder),
            None => self.planner.present.open_membership(slot),
        }
    }

    fn has_setting(&self, key: &SettingKey) -> Result<bool, StoreError> {
        match self.outcome.settings.get(key).or_else(|| self.planner.accepted.settings.get(key)) {
            Some(setting) => Ok(setting.is_some()),
            None => self.planner.present.has_setting(key),
        }
    }

    pub fn client(&self, id: &ClientId) -> Result<Option<Arc<Client>>, StoreError> {
        match self.outcome.clients.get(id).or_else(|| self.planner.accepted.clients.get(id)) {
            Some(client) => Ok(Some(Arc::clone(client))),
            None => self.planner.present.client(id),
        }
    }

    pub fn remembered(&self, name: &RequestName) -> Result<Option<Arc<IdempotentRequest>>, StoreError> {
        match self.outcome.remembered.get(name) {
            Some(request) => Ok(Some(Arc::clone(request))),
            None => self.planner.remembered(name),
        }
    }

    pub fn owners(&self, kind: RecordKind, key: &IdentifierKey) -> Result<Vec<IdentifierOwner>, StoreError> {
        let address = (kind, key.clone());
        match self.outcome.owners.get(&address).or_else(|| self.planner.accepted.owners.get(&address)) {
            Some(owners) => Ok(owners.clone()),
            None => self.planner.present.owners(kind, key),
        }
    }

    /// The operation with the keys of the records that earlier operations have created.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if no earlier operation has created the record.
    pub fn settle(&self, operation: Operation) -> Result<Operation, StoreError> {
        Ok(match operation {
            Operation::Create(details) => Operation::Create(self.details_settled(details)?),
            Operation::Update(id, version, details) => {
                let details = self.details_settled(details)?;
                Operation::Update(self.key(details.kind(), id)?, version, details)
            }
            _ => operation,
        })
    }

    /// Adds the idempotency record, with the keys of its records.
    ///
    /// # Errors
    /// [`StoreError::AlreadyDone`] if one with that key is still stored.
    pub fn remember(&mut self, request: IdempotentRequest) -> Result<(), StoreError> {
        let request = IdempotentRequest { at: as_stored(request.at), ..request };
        if self.remembered(&request.name)?.is_some_and(|earlier| earlier.is_stored_at(request.at)) {
            return Err(StoreError::AlreadyDone);
        }
        let settled = |answer: StoredResponse| {
            let given = |(kind, id, version)| Ok::<_, StoreError>((kind, self.key(kind, id)?, version));
            Ok(StoredResponse { record: answer.record.map(given).transpose()?, ..answer })
        };
        let responses: Result<Vec<_>, StoreError> = request.responses.into_iter().map(settled).collect();
        let request = IdempotentRequest { responses: responses?, ..request };
        self.outcome.remembered.insert(request.name.clone(), Arc::new(request));
        Ok(())
    }

    fn details_settled(&self, details: RecordDetails) -> Result<RecordDetails, StoreError> {
        Ok(match details {
            RecordDetails::Individual(details) => RecordDetails::Individual(self.fields_settled(details)?),
            RecordDetails::Group(details) => RecordDetails::Group(self.fields_settled(details)?),
            RecordDetails::Program(details) => RecordDetails::Program(self.fields_settled(details)?),
            RecordDetails::ProgramMembership(details) => {
                RecordDetails::ProgramMembership(self.fields_settled(details)?)
            }
            RecordDetails::Consent(details) => RecordDetails::Consent(self.fields_settled(details)?),
        })
    }

    fn fields_settled<T: RecordType>(&self, fields: Fields<T>) -> Result<Fields<T>, StoreError> {
        let is_settled = fields.references().iter().all(|reference| reference.id.pending_number().is_none());
        if is_settled {
            return Ok(fields);
        }
        let mut settling = Settling { draft: self, refused: None };
        let fields = fields.translate(&mut settling);
        settling.refused.map_or(Ok(fields), Err)
    }

    fn key(&self, kind: RecordKind, id: RecordId) -> Result<RecordId, StoreError> {
        let Some(number) = id.pending_number() else { return Ok(id) };
        let origin = self.planner.origin.unwrap_or(self.planner.last);
        let given = origin.key(kind).saturating_add(number);
        if number == 0 || given > self.last.key(kind) {
            return Err(StoreError::NotFound(kind));
        }
        Ok(RecordId(given))
    }
}

/// Replaces the pending keys in the references of an operation.
struct Settling<'s, 'd, 'p, P> {
    draft: &'s Draft<'d, 'p, P>,
    /// The first error.
    refused: Option<StoreError>,
}

impl<P: Present> Translate<CodedValue, RecordId> for Settling<'_, '_, '_, P> {
    type Code = CodedValue;
    type Id = RecordId;

    fn code(&mut self, _: CodePlace<'_>, _: &str, code: CodedValue) -> CodedValue {
        code
    }

    fn reference(&mut self, _: &str, reference: Reference) -> Reference {
        match self.draft.key(reference.kind, reference.id) {
            Ok(id) => Reference { id, ..reference },
            Err(error) => {
                self.refused.get_or_insert(error);
                reference
            }
        }
    }
}
