//! Fetches what a write needs of the real store before it is worked out.

use super::Overlay;
use crate::records::Records;
use crate::{IDENTIFIER_OWNERS_MAX, Operation, RecordDetails, Store, StoreError};
use daftar_domain::change::{ChangedRecord, Details};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program_membership::{MembershipSlot, ProgramMembershipDetails};
use daftar_domain::record::RecordId;

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

impl Overlay {
    /// What is there now of all that the operations meet.
    pub(super) async fn gather(&self, operations: &[Operation]) -> Result<Records, StoreError> {
        let mut found = Records::default();
        for operation in operations {
            match operation {
                Operation::Create(details) => self.gather_any(&mut found, None, details).await?,
                Operation::Update(id, _, details) => self.gather_any(&mut found, Some(*id), details).await?,
                Operation::CreateClient(_)
                | Operation::UpdateClient(..)
                | Operation::PutPhoto(_)
                | Operation::PutSetting(_)
                | Operation::RemoveSetting(_)
                | Operation::NumberCodes(_) => {}
            }
        }
        Ok(found)
    }

    async fn gather_any(
        &self,
        found: &mut Records,
        id: Option<RecordId>,
        details: &RecordDetails,
    ) -> Result<(), StoreError> {
        match details {
            RecordDetails::Individual(details) => self.gather_for(found, id, details).await,
            RecordDetails::Group(details) => self.gather_for(found, id, details).await,
            RecordDetails::Program(details) => self.gather_for(found, id, details).await,
            RecordDetails::Consent(details) => self.gather_for(found, id, details).await,
            RecordDetails::ProgramMembership(details) => {
                self.gather_for(found, id, details).await?;
                let before = id.and_then(|id| found.get::<ProgramMembershipDetails>(id));
                let slots = [Some(details.slot()), before.map(|before| before.details.slot())];
                for slot in slots.into_iter().flatten() {
                    let holder = self.open_membership(slot).await?;
                    found.open_memberships.insert(slot, holder);
                }
                Ok(())
            }
        }
    }

    /// The record to be changed, and who carries the identifiers that it has and is to have.
    async fn gather_for<D: Details>(
        &self,
        found: &mut Records,
        id: Option<RecordId>,
        details: &D,
    ) -> Result<(), StoreError> {
        let before = match id {
            Some(id) => self.record(D::KIND, id).await?,
            None => None,
        };
        let former = before.as_ref().map(ChangedRecord::identifiers).unwrap_or_default();
        let identifiers = details.identifiers();
        let keys: Vec<IdentifierKey> =
            former.iter().chain(identifiers.iter()).map(|identifier| identifier.key.clone()).collect();
        for key in keys {
            let owners = self.identifier_owners(D::KIND, &key, IDENTIFIER_OWNERS_MAX).await?;
            found.owners.insert((D::KIND, key), owners);
        }
        found.by_kind.extend(before.map(|before| ((before.place().0, before.place().1), before)));
        Ok(())
    }
}

/// Whether the program or the beneficiary is still to be written.
pub(super) fn is_pending(slot: MembershipSlot) -> bool {
    slot.program.pending_number().is_some() || slot.beneficiary.id.pending_number().is_some()
}
