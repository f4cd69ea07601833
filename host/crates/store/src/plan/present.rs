//! What an operation meets: what those before it left, or else the writes accepted before, or else what is stored.

use std::sync::Arc;

use super::Present;
use super::draft::Draft;
use crate::{IdentifierOwner, StoreError};
use daftar_domain::change::ChangedRecord;
use daftar_domain::client::{Client, ClientId};
use daftar_domain::idempotency::{RememberedRequest, RequestName};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind};

impl<P: Present> Draft<'_, '_, P> {
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

    pub fn client(&self, id: &ClientId) -> Result<Option<Arc<Client>>, StoreError> {
        match self.outcome.clients.get(id).or_else(|| self.planner.accepted.clients.get(id)) {
            Some(client) => Ok(Some(Arc::clone(client))),
            None => self.planner.present.client(id),
        }
    }

    pub fn remembered(&self, name: &RequestName) -> Result<Option<Arc<RememberedRequest>>, StoreError> {
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
}
