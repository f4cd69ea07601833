//! Records in maps: the records that a transaction has read and written, and the database records that writes depend
//! on.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::plan::Present;
use super::{IdentifierOwner, StoreError};
use daftar_domain::change::{ChangedRecord, Details};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::deployment::{Setting, SettingKey};
use daftar_domain::idempotency::{IdempotentRequest, RequestName};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::{Photo, PhotoDigest};
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{Record, RecordId, RecordKind};

/// Records, owners of identifiers, open memberships, clients, idempotency records, photos and settings: their current
/// state, or the state after writes.
#[derive(Debug, Clone, Default)]
pub struct Records {
    /// The records, by kind and key.
    pub records: BTreeMap<(RecordKind, RecordId), ChangedRecord>,
    /// The open membership of each beneficiary in each program; none, once it is closed.
    pub open_memberships: BTreeMap<MembershipSlot, Option<RecordId>>,
    /// The records with each current or former identifier.
    pub owners: BTreeMap<(RecordKind, IdentifierKey), Vec<IdentifierOwner>>,
    /// The clients.
    pub clients: BTreeMap<ClientId, Arc<Client>>,
    /// The idempotency records, by their keys.
    pub remembered: BTreeMap<RequestName, Arc<IdempotentRequest>>,
    /// The photos, by digest.
    pub photos: BTreeMap<PhotoDigest, Photo>,
    /// The settings of the deployment; none for removed ones.
    pub settings: BTreeMap<SettingKey, Option<Arc<Setting>>>,
}

impl Records {
    /// The record with that key.
    pub fn get<D: Details>(&self, id: RecordId) -> Option<Arc<Record<D>>> {
        self.records.get(&(D::KIND, id)).cloned().and_then(D::of)
    }

    /// Adds data that was read for planning, unless it is known already.
    pub fn add_missing(&mut self, found: Self) {
        let Self { records, open_memberships, owners, .. } = found;
        for (place, record) in records {
            self.records.entry(place).or_insert(record);
        }
        for (slot, holder) in open_memberships {
            self.open_memberships.entry(slot).or_insert(holder);
        }
        for (key, owners) in owners {
            self.owners.entry(key).or_insert(owners);
        }
    }

    /// Applies the state after a later write.
    pub fn extend(&mut self, later: Self) {
        let Self { records, open_memberships, owners, clients, remembered, photos, settings } = later;
        self.records.extend(records);
        self.open_memberships.extend(open_memberships);
        self.owners.extend(owners);
        self.clients.extend(clients);
        self.remembered.extend(remembered);
        self.photos.extend(photos);
        self.settings.extend(settings);
    }
}

impl Present for Records {
    fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError> {
        Ok(self.records.get(&(kind, id)).cloned())
    }

    fn open_membership(&self, slot: MembershipSlot) -> Result<Option<RecordId>, StoreError> {
        Ok(self.open_memberships.get(&slot).copied().flatten())
    }

    fn owners(&self, kind: RecordKind, key: &IdentifierKey) -> Result<Vec<IdentifierOwner>, StoreError> {
        Ok(self.owners.get(&(kind, key.clone())).cloned().unwrap_or_default())
    }

    fn client(&self, id: &ClientId) -> Result<Option<Arc<Client>>, StoreError> {
        Ok(self.clients.get(id).cloned())
    }

    fn remembered(&self, name: &RequestName) -> Result<Option<Arc<IdempotentRequest>>, StoreError> {
        Ok(self.remembered.get(name).cloned())
    }

    fn has_setting(&self, key: &SettingKey) -> Result<bool, StoreError> {
        Ok(self.settings.get(key).is_some_and(Option::is_some))
    }
}
