//! Fetches the records that the writes of a group may touch, in few statements, before the writes are planned.
//!
//! **Invariant:** everything that [`daftar_store::plan`] may request for the writes of the group is fetched: a record
//! that is not among it does not exist. The planner itself knows the results of earlier writes of the same group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deadpool_postgres::Transaction;

use daftar_domain::change::{ChangedRecord, Details};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::deployment::{Setting, SettingKey};
use daftar_domain::idempotency::{IdempotentRequest, RequestName};
use daftar_domain::identifier::{Identifier, IdentifierKey, IdentifierValue, SystemUri};
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_store::record::setting::{SettingKind, key_bytes};
use daftar_store::records::Records;
use daftar_store::{IdentifierOwner, Operation, RecordDetails, record};

use super::database::rows;
use super::failure::corrupt;
use super::group::{Broken, cause_of, fetch_into};
use super::rows::{column, decoded, kind_number, kind_of, name_cells, number, places, request_of, slot_cells};

/// Keys to fetch.
#[derive(Debug, Default)]
pub(super) struct KeyRequest {
    records: BTreeSet<(RecordKind, RecordId)>,
    identifiers: BTreeSet<(RecordKind, IdentifierKey)>,
    slots: BTreeSet<MembershipSlot>,
    clients: BTreeSet<ClientId>,
    requests: BTreeSet<RequestName>,
    settings: BTreeSet<SettingKey>,
}

impl KeyRequest {
    /// Adds the records that a write may touch.
    pub(super) fn add(&mut self, operations: &[Operation], request: Option<&IdempotentRequest>) {
        for operation in operations {
            match operation {
                Operation::Create(details) => self.add_any(None, details),
                Operation::Update(id, _, details) => self.add_any(Some(*id), details),
                Operation::CreateClient(client) | Operation::UpdateClient(client, _) => {
                    self.clients.insert(client.id.clone());
                }
                Operation::AddSetting(setting) => drop(self.settings.insert(setting.key())),
                _ => {}
            }
        }
        self.requests.extend(request.map(|request| request.name.clone()));
    }

    fn add_any(&mut self, id: Option<RecordId>, details: &RecordDetails) {
        match details {
            RecordDetails::Individual(details) => self.add_record(id, details),
            RecordDetails::Group(details) => self.add_record(id, details),
            RecordDetails::Program(details) => self.add_record(id, details),
            RecordDetails::Consent(details) => self.add_record(id, details),
            RecordDetails::ProgramMembership(details) => {
                self.add_record(id, details);
                self.add_slot(details.slot());
            }
        }
    }

    fn add_record<D: Details>(&mut self, id: Option<RecordId>, details: &D) {
        let id = id.filter(|id| id.pending_number().is_none());
        self.records.extend(id.map(|id| (D::KIND, id)));
        self.add_identifiers(D::KIND, &details.identifiers());
    }

    fn add_identifiers(&mut self, kind: RecordKind, identifiers: &[Identifier]) {
        self.identifiers.extend(identifiers.iter().map(|identifier| (kind, identifier.key.clone())));
    }

    /// A slot of records without a key yet is free.
    fn add_slot(&mut self, slot: MembershipSlot) {
        let is_pending = slot.program.pending_number().is_some() || slot.beneficiary.id.pending_number().is_some();
        if !is_pending {
            self.slots.insert(slot);
        }
    }

    /// Fetches all of it.
    pub(super) async fn fetch(mut self, transaction: &Transaction<'_>) -> Result<Records, Broken> {
        let mut found = Records::default();
        let outcomes = tokio::join!(
            fetch_into(&mut found.records, records(transaction, &self.records)),
            fetch_into(&mut found.owners, owners(transaction, &self.identifiers)),
            fetch_into(&mut found.open_memberships, open_memberships(transaction, &self.slots)),
            fetch_into(&mut found.clients, clients(transaction, &self.clients)),
            fetch_into(&mut found.remembered, requests(transaction, &self.requests)),
            fetch_into(&mut found.settings, settings(transaction, &self.settings)),
        );
        cause_of(<[_; 6]>::from(outcomes))?;
        // The current identifiers and slots of the records: mostly the same as after the write.
        let (identifiers_before, slots_before) = (self.identifiers.clone(), self.slots.clone());
        for record in found.records.values() {
            self.add_identifiers(record.place().0, &record.identifiers());
            if let ChangedRecord::ProgramMembership(membership) = record {
                self.add_slot(membership.details.slot());
            }
        }
        let former = self.identifiers.difference(&identifiers_before).cloned().collect();
        let left = self.slots.difference(&slots_before).copied().collect();
        let (mut owned, mut slots) = (BTreeMap::new(), BTreeMap::new());
        let outcomes = tokio::join!(
            fetch_into(&mut owned, owners(transaction, &former)),
            fetch_into(&mut slots, open_memberships(transaction, &left)),
        );
        cause_of(<[_; 2]>::from(outcomes))?;
        found.owners.extend(owned);
        found.open_memberships.extend(slots);
        Ok(found)
    }
}

type Found<K, V> = Result<BTreeMap<K, V>, Broken>;

async fn records(
    transaction: &Transaction<'_>,
    requested: &BTreeSet<(RecordKind, RecordId)>,
) -> Found<(RecordKind, RecordId), ChangedRecord> {
    if requested.is_empty() {
        return Ok(BTreeMap::new());
    }
    let (kinds, ids) = places(requested);
    let statement = "SELECT record.kind, record.id, record.value FROM unnest($1::smallint[], $2::bigint[]) AS asked (kind, id) \
                     JOIN daftar.record AS record ON record.kind = asked.kind AND record.id = asked.id";
    let mut found = BTreeMap::new();
    for row in rows(transaction, statement, &[&kinds, &ids]).await? {
        let (kind, id) = (kind_of(column(&row, 0)?)?, RecordId(number(&row, 1)?));
        found.insert((kind, id), decoded(kind, id, &row, 2)?);
    }
    Ok(found)
}

async fn owners(
    transaction: &Transaction<'_>,
    requested: &BTreeSet<(RecordKind, IdentifierKey)>,
) -> Found<(RecordKind, IdentifierKey), Vec<IdentifierOwner>> {
    if requested.is_empty() {
        return Ok(BTreeMap::new());
    }
    let row = requested.iter().map(|(kind, key)| (kind_number(*kind), key.system.as_str(), key.value.as_str()));
    let (kinds, systems, values): (Vec<i16>, Vec<&str>, Vec<&str>) = row.collect();
    let statement = "SELECT identifier.kind, identifier.system, identifier.value, identifier.id, identifier.is_open \
                     FROM unnest($1::smallint[], $2::text[], $3::text[]) AS asked (kind, system, value) \
                     JOIN daftar.identifier AS identifier ON identifier.kind = asked.kind \
                     AND identifier.system = asked.system AND identifier.value = asked.value";
    let mut found: BTreeMap<_, Vec<IdentifierOwner>> = BTreeMap::new();
    for row in rows(transaction, statement, &[&kinds, &systems, &values]).await? {
        let unreadable = || corrupt("identifier", "it is invalid");
        let system = SystemUri::parse(column(&row, 1)?).map_err(|_| unreadable())?;
        let value = IdentifierValue::parse(column(&row, 2)?).map_err(|_| unreadable())?;
        let owner = IdentifierOwner { id: RecordId(number(&row, 3)?), is_open: column(&row, 4)? };
        found.entry((kind_of(column(&row, 0)?)?, IdentifierKey { system, value })).or_default().push(owner);
    }
    for owners in found.values_mut() {
        owners.sort_unstable_by_key(|owner| (!owner.is_open, owner.id));
    }
    Ok(found)
}

async fn open_memberships(
    transaction: &Transaction<'_>,
    requested: &BTreeSet<MembershipSlot>,
) -> Found<MembershipSlot, Option<RecordId>> {
    if requested.is_empty() {
        return Ok(BTreeMap::new());
    }
    let (programs, kinds, beneficiaries): (Vec<_>, Vec<_>, Vec<_>) = requested.iter().map(slot_cells).collect();
    let places: Vec<i64> = (0..).take(requested.len()).collect();
    let statement = "SELECT asked.place, slot.membership \
                     FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[]) AS asked (program, kind, id, place) \
                     JOIN daftar.open_membership AS slot ON slot.program = asked.program \
                     AND slot.beneficiary_kind = asked.kind AND slot.beneficiary = asked.id";
    let slots: Vec<MembershipSlot> = requested.iter().copied().collect();
    let mut found = BTreeMap::new();
    for row in rows(transaction, statement, &[&programs, &kinds, &beneficiaries, &places]).await? {
        let slot = usize::try_from(number(&row, 0)?).ok().and_then(|place| slots.get(place));
        let slot = slot.ok_or_else(|| corrupt("open membership", "it is of a slot that was not requested"))?;
        found.insert(*slot, Some(RecordId(number(&row, 1)?)));
    }
    Ok(found)
}

async fn clients(transaction: &Transaction<'_>, requested: &BTreeSet<ClientId>) -> Found<ClientId, Arc<Client>> {
    if requested.is_empty() {
        return Ok(BTreeMap::new());
    }
    let ids: Vec<&str> = requested.iter().map(ClientId::as_str).collect();
    let statement = "SELECT value FROM daftar.client WHERE id = ANY($1)";
    let mut found = BTreeMap::new();
    for row in rows(transaction, statement, &[&ids]).await? {
        let client = record::client::decode(column(&row, 0)?)?;
        found.insert(client.id.clone(), Arc::new(client));
    }
    Ok(found)
}

async fn settings(
    transaction: &Transaction<'_>,
    requested: &BTreeSet<SettingKey>,
) -> Found<SettingKey, Option<Arc<Setting>>> {
    let mut found = BTreeMap::new();
    for key in requested {
        let (kind, bytes) = (SettingKind::of(key), key_bytes(key));
        let statement = "SELECT value FROM daftar.setting WHERE kind = $1 AND key = $2";
        for row in rows(transaction, statement, &[&(kind as i16), &bytes]).await? {
            found.insert(key.clone(), Some(Arc::new(record::setting::decode(kind, column(&row, 0)?)?)));
        }
    }
    Ok(found)
}

async fn requests(
    transaction: &Transaction<'_>,
    requested: &BTreeSet<RequestName>,
) -> Found<RequestName, Arc<IdempotentRequest>> {
    if requested.is_empty() {
        return Ok(BTreeMap::new());
    }
    let (clients, keys, parts): (Vec<_>, Vec<_>, Vec<_>) = requested.iter().map(name_cells).collect();
    let statement = "SELECT request.client, request.key, request.part, request.value \
                     FROM unnest($1::text[], $2::text[], $3::integer[]) AS asked (client, key, part) \
                     JOIN daftar.request AS request ON request.client = asked.client \
                     AND request.key = asked.key AND request.part = asked.part";
    let mut found = BTreeMap::new();
    for row in rows(transaction, statement, &[&clients, &keys, &parts]).await? {
        let request = request_of(&row)?;
        found.insert(request.name.clone(), request);
    }
    Ok(found)
}
