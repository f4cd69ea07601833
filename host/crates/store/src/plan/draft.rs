//! One write on its way to being planned: each operation on top of those before it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Last, Outcome, Planned, Planner, Present};
use crate::record::client::client_as_stored;
use crate::record::instant::as_stored;
use crate::record::setting::setting_as_stored;
use crate::{Committed, Operation, RecordDetails, StoreError, Written};
use daftar_domain::audit::AuditEntry;
use daftar_domain::change::{Change, ChangedRecord, Details};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::program::PROGRAMS_MAX;
use daftar_domain::program_membership::{MembershipSlot, ProgramMembershipDetails};
use daftar_domain::record::{Record, RecordId, RecordMeta, VersionId};

/// A write that is being worked out.
pub struct Draft<'d, 'p, P> {
    pub planner: &'d Planner<'p, P>,
    at: Timestamp,
    source: Option<ClientId>,
    pub last: Last,
    pub outcome: Outcome,
    changes: Vec<Change>,
    replaced: Vec<ChangedRecord>,
}

impl<'d, 'p, P: Present> Draft<'d, 'p, P> {
    /// A write of which nothing is worked out yet.
    pub fn new(planner: &'d Planner<'p, P>, at: Timestamp, source: Option<ClientId>, operations: usize) -> Self {
        Self {
            at,
            source,
            last: Last { sequence: planner.last.sequence.next(), ..planner.last },
            outcome: Outcome::default(),
            changes: Vec::with_capacity(operations),
            replaced: Vec::new(),
            planner,
        }
    }

    /// The write, worked out.
    pub fn finish(self, written: Vec<Written>, audit: Vec<AuditEntry>) -> Planned {
        let Self { at, last, outcome, changes, replaced, .. } = self;
        let committed = Committed { sequence: last.sequence, written };
        Planned { committed, at, changes, replaced, outcome, audit, last }
    }

    /// Works one operation out, on top of those before it.
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
                // Two changes of one millisecond would look alike to a third one.
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
                reason: "numbers of codes are given before it is planned".to_owned(),
            }),
        }
    }

    fn create(&mut self, details: RecordDetails) -> Result<Written, StoreError> {
        let last = match &details {
            RecordDetails::Individual(_) => &mut self.last.individual,
            RecordDetails::Group(_) => &mut self.last.group,
            // The keys of parts of a write are no counts.
            RecordDetails::Program(_) if self.planner.origin.is_none() && self.last.program >= PROGRAMS_MAX => {
                return Err(StoreError::LimitReached("the register has as many programs as it keeps"));
            }
            RecordDetails::Program(_) => &mut self.last.program,
            RecordDetails::ProgramMembership(_) => &mut self.last.membership,
            RecordDetails::Consent(_) => &mut self.last.consent,
        };
        *last = last.saturating_add(1);
        let id = RecordId(*last);
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

    /// The record to be replaced, if it is still at that version.
    fn at_version<D: Details>(&self, id: RecordId, expected: VersionId) -> Result<Arc<Record<D>>, StoreError> {
        let before = self.record(D::KIND, id)?.and_then(D::of).ok_or(StoreError::NotFound(D::KIND))?;
        check_version(before.meta.version, expected)?;
        Ok(before)
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

    /// Puts a membership, if no other one is open in its slot.
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

    /// Frees a slot, if that membership holds it.
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
}

fn check_version(actual: VersionId, expected: VersionId) -> Result<(), StoreError> {
    if actual == expected { Ok(()) } else { Err(StoreError::VersionMismatch { expected, actual }) }
}
