//! Fetches what a write needs of the real store before it is worked out.

use super::Staged;
use crate::domain::change::{ChangedRecord, Details};
use crate::domain::identifier::IdentifierKey;
use crate::domain::program_membership::{MembershipSlot, ProgramMembershipDetails};
use crate::domain::record::{RecordId, RecordKind};
use crate::store::{IDENTIFIER_OWNERS_MAX, Operation, RecordDetails, StoreError};

/// The slot that a membership is to take or to leave.
pub(super) fn slot_of(operation: &Operation) -> Option<MembershipSlot> {
    match operation {
        Operation::Create(RecordDetails::ProgramMembership(details))
        | Operation::Update(_, _, RecordDetails::ProgramMembership(details)) => Some(details.slot()),
        Operation::Create(_)
        | Operation::Update(..)
        | Operation::CreateClient(_)
        | Operation::UpdateClient(..)
        | Operation::PutPhoto(_)
        | Operation::PutSetting(_)
        | Operation::RemoveSetting(_)
        | Operation::NumberCodes(_) => None,
    }
}

impl Staged {
    pub(super) async fn gather(&self, operations: &[Operation]) -> Result<(), StoreError> {
        for operation in operations {
            match operation {
                Operation::Create(details) => self.gather_any(None, details).await?,
                Operation::Update(id, _, details) => self.gather_any(Some(*id), details).await?,
                Operation::CreateClient(_)
                | Operation::UpdateClient(..)
                | Operation::PutPhoto(_)
                | Operation::PutSetting(_)
                | Operation::RemoveSetting(_)
                | Operation::NumberCodes(_) => {}
            }
        }
        Ok(())
    }

    async fn gather_any(&self, id: Option<RecordId>, details: &RecordDetails) -> Result<(), StoreError> {
        match details {
            RecordDetails::Individual(details) => self.gather_for(id, details).await,
            RecordDetails::Group(details) => self.gather_for(id, details).await,
            RecordDetails::Program(details) => self.gather_for(id, details).await,
            RecordDetails::Consent(details) => self.gather_for(id, details).await,
            RecordDetails::ProgramMembership(details) => {
                self.gather_for(id, details).await?;
                self.gather_slot(details.slot()).await?;
                let before = match id {
                    Some(id) => self.gather_record(RecordKind::ProgramMembership, id).await?,
                    None => None,
                };
                let Some(before) = before.and_then(ProgramMembershipDetails::of) else { return Ok(()) };
                self.gather_slot(before.details.slot()).await
            }
        }
    }

    /// The record to be changed, and who carries the identifiers that it has and is to have.
    async fn gather_for<D: Details>(&self, id: Option<RecordId>, details: &D) -> Result<(), StoreError> {
        let before = match id {
            Some(id) => self.gather_record(D::KIND, id).await?.and_then(D::of),
            None => None,
        };
        let former = before.as_ref().map(|record| record.details.identifiers()).unwrap_or_default();
        let identifiers = details.identifiers();
        let keys: Vec<IdentifierKey> =
            former.iter().chain(identifiers.iter()).map(|identifier| identifier.key.clone()).collect();
        for key in keys {
            let address = (D::KIND, key);
            if !self.state().records.owners.contains_key(&address) {
                let owners = self.base.identifier_owners(D::KIND, &address.1, IDENTIFIER_OWNERS_MAX).await?;
                self.state().records.owners.entry(address).or_insert(owners);
            }
        }
        Ok(())
    }

    async fn gather_record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError> {
        let seen = self.state().records.by_kind.get(&(kind, id)).cloned();
        if seen.is_some() || id.pending_number().is_some() {
            return Ok(seen);
        }
        let found = self.base.record(kind, id).await?;
        if let Some(found) = &found {
            self.state().records.by_kind.entry((kind, id)).or_insert_with(|| found.clone());
        }
        Ok(found)
    }

    async fn gather_slot(&self, slot: MembershipSlot) -> Result<(), StoreError> {
        let is_seen = self.state().records.open_memberships.contains_key(&slot);
        if is_seen || is_pending(slot) {
            return Ok(());
        }
        let holder = self.base.open_membership(slot).await?;
        self.state().records.open_memberships.entry(slot).or_insert(holder);
        Ok(())
    }
}

/// Whether the program or the beneficiary is still to be written.
pub(super) fn is_pending(slot: MembershipSlot) -> bool {
    slot.program.pending_number().is_some() || slot.beneficiary.id.pending_number().is_some()
}
