//! Catching up a folder with the later writes of the register that it was filled from.
//!
//! **Invariant:** until the end the folder has the mark of an unfinished copy with the state before. Every step can be
//! repeated, so an interrupted run is completed by another one.

use std::collections::{BTreeMap, BTreeSet};

use daftar_domain::change::ChangedRecord;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_store::archive::{ApplyReport, Entry, Held, ItemKind, OLDEST_AUDIT};
use daftar_store::plan::Present as _;
use daftar_store::{IdentifierOwner, StoreError, record};

use super::super::keys;
use super::super::reader::{Reader, corrupt, number};
use super::refill::Filling;

/// The keys of items that the source sends all of.
const SENT_WHOLE: [u8; 4] = [keys::SETTING, keys::CLIENT, keys::COUNTER, keys::REQUEST];

/// The contents of a folder that is being caught up, and the changes to them.
pub(super) struct Known {
    pub(super) held: Held,
    /// The keys of items that the source did not send so far, of those that it sends all of.
    unseen: BTreeSet<Vec<u8>>,
    /// Received values of the part of the audit log that is stored already; none once they were compared.
    old_audit: Option<BTreeMap<u64, Vec<u8>>>,
    /// Keys of identifiers that a second record has: the first one gave it up, and is received later.
    contested: BTreeSet<Vec<u8>>,
    /// Memberships that lost their slot to another one: they are closed, and received later.
    displaced: Vec<(MembershipSlot, RecordId)>,
    report: ApplyReport,
}

impl Known {
    /// Reads the names of items. Removes what an interrupted run added to the audit log, whose summaries are made in
    /// its order.
    pub(super) fn read(reader: &Reader, held: Held, is_complete: bool) -> Result<Self, StoreError> {
        let mut unseen = BTreeSet::new();
        for prefix in SENT_WHOLE {
            for key in reader.database.tree().scan_prefix([prefix]).keys() {
                unseen.insert(key.map_err(|error| reader.health.fail("scanning", &error))?.to_vec());
            }
        }
        if !is_complete {
            for prefix in [keys::AUDIT, keys::AUDIT_SEGMENT] {
                let later = keys::by_number(prefix, held.audit.saturating_add(1))..=keys::by_number(prefix, u64::MAX);
                for key in reader.database.tree().range(later).keys() {
                    let removed = key.and_then(|key| reader.database.remove(&key));
                    removed.map_err(|error| reader.health.fail("removing", &error))?;
                }
            }
        }
        Ok(Self {
            held,
            unseen,
            old_audit: Some(BTreeMap::new()),
            contested: BTreeSet::new(),
            displaced: Vec::new(),
            report: ApplyReport::default(),
        })
    }
}

impl Filling {
    /// Keeps the values of the audit log that are stored already, and returns the other entries.
    pub(super) fn without_old_audit(&mut self, entries: Vec<Entry>) -> Result<Vec<Entry>, StoreError> {
        let mut new = Vec::with_capacity(entries.len());
        for entry in entries {
            let Some(known) = &mut self.known else {
                new.push(entry);
                continue;
            };
            match (entry, &mut known.old_audit) {
                (Entry::Audit { number, value }, Some(old_audit)) if number <= known.held.audit => {
                    old_audit.insert(number, value);
                }
                (Entry::Audit { number, .. }, None) if number <= known.held.audit => {
                    return Err(corrupt("audit log", "an old value comes after a new one"));
                }
                (entry @ Entry::Audit { .. }, Some(_)) => {
                    self.settle_old_audit()?;
                    new.push(entry);
                }
                (entry, _) => new.push(entry),
            }
        }
        Ok(new)
    }

    /// Writes a value, and counts it if it is new or changed.
    pub(super) fn write(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), StoreError> {
        if let Some(known) = &mut self.known {
            known.unseen.remove(&key);
            if self.reader.get(&key)?.is_some_and(|there| *there == *value) {
                return Ok(());
            }
            if let Some(kind) = kind_of(&key) {
                *known.report.written.entry(kind).or_default() += 1;
            }
        }
        self.insert(key, value).map(drop)
    }

    /// Writes the owner of an identifier that other records may have, or have had.
    pub(super) fn own_again(&mut self, key: Vec<u8>, owner: IdentifierOwner) -> Result<(), StoreError> {
        let stored = self.reader.get(&key)?;
        let mut owners = stored.map_or_else(|| Ok(Vec::new()), |stored| record::identifier::decode(&stored))?;
        owners.retain(|other| other.id != owner.id);
        owners.push(owner);
        owners.sort_unstable_by_key(|owner| (!owner.is_open, owner.id));
        if let Some(known) = self.known.as_mut().filter(|_| has_two_holders(&owners)) {
            known.contested.insert(key.clone());
        }
        self.insert(key, record::identifier::encode(&owners)?).map(drop)
    }

    /// Removes a record from the owners of identifiers that no version of it has: an interrupted run may have written
    /// a version that the source lost since.
    pub(super) fn disown(
        &mut self,
        kind: RecordKind,
        id: RecordId,
        carried: &BTreeMap<IdentifierKey, bool>,
    ) -> Result<(), StoreError> {
        if self.known.is_none() {
            return Ok(());
        }
        let Some(before) = self.reader.record(kind, id)? else { return Ok(()) };
        for identifier in before.identifiers().iter().filter(|identifier| !carried.contains_key(&identifier.key)) {
            let mut owners = self.reader.owners(kind, &identifier.key)?;
            owners.retain(|owner| owner.id != id);
            let key = keys::identifier(kind, &identifier.key);
            if owners.is_empty() {
                self.remove([key])?;
            } else {
                self.insert(key, record::identifier::encode(&owners)?)?;
            }
        }
        Ok(())
    }

    /// Returns the slot of an open membership, which the caller writes. In a folder with contents it is written here,
    /// and the slot that the membership had before is freed.
    pub(super) fn slot_to_hold(&mut self, record: &ChangedRecord) -> Result<Option<MembershipSlot>, StoreError> {
        let (_, id, _) = record.place();
        let slot = open_slot(record);
        let Some(known) = &mut self.known else { return Ok(slot) };
        if !matches!(record, ChangedRecord::ProgramMembership(_)) {
            return Ok(None);
        }
        let before = self.reader.record(RecordKind::ProgramMembership, id)?;
        let before = before.as_ref().and_then(open_slot).filter(|before| slot != Some(*before));
        let mut written = Vec::new();
        if let Some(before) = before
            && self.reader.open_membership(before)? == Some(id)
        {
            written.push((before, None));
        }
        if let Some(slot) = slot {
            let other = self.reader.open_membership(slot)?.filter(|other| *other != id);
            known.displaced.extend(other.map(|other| (slot, other)));
            written.push((slot, Some(id)));
        }
        for (slot, holder) in written {
            self.insert(keys::open_membership(slot), record::open_membership::encode(holder)?)?;
        }
        Ok(None)
    }

    /// Removes values that the source removed from its audit log, and writes their report; once, before new values.
    fn settle_old_audit(&mut self) -> Result<(), StoreError> {
        let Some(known) = &mut self.known else { return Ok(()) };
        let Some(old_audit) = known.old_audit.take() else { return Ok(()) };
        // If fewer were received, there are no others.
        let up_to = old_audit.keys().nth(OLDEST_AUDIT.saturating_sub(1)).copied().unwrap_or(known.held.audit);
        let mut removed = Vec::new();
        let range = keys::by_number(keys::AUDIT, 0)..=keys::by_number(keys::AUDIT, up_to);
        for key in self.reader.database.tree().range(range).keys() {
            let number = number(&key.map_err(|error| self.reader.health.fail("scanning", &error))?)?;
            if !old_audit.contains_key(&number) {
                removed.push(number);
            }
        }
        if let Some(last) = removed.last() {
            *known.report.taken_out.entry(ItemKind::AuditValues).or_default() += removed.len() as u64;
            let summaries = keys::by_number(keys::AUDIT_SEGMENT, 0)..=keys::by_number(keys::AUDIT_SEGMENT, *last);
            let summaries = self.reader.database.tree().range(summaries).keys();
            let summaries: Vec<Vec<u8>> = summaries
                .map(|key| key.map(|key| key.to_vec()))
                .collect::<Result<_, _>>()
                .map_err(|error| self.reader.health.fail("scanning", &error))?;
            let values = removed.iter().map(|number| keys::by_number(keys::AUDIT, *number));
            self.remove(values.chain(summaries))?;
        }
        for (number, value) in old_audit {
            self.write(keys::by_number(keys::AUDIT, number), value)?;
        }
        Ok(())
    }

    /// Removes items that the source did not send, checks that no unique value has two holders, and returns the changes.
    pub(super) fn finish_catch_up(&mut self) -> Result<ApplyReport, StoreError> {
        self.settle_old_audit()?;
        let Some(mut known) = self.known.take() else { return Ok(ApplyReport::default()) };
        for key in &known.unseen {
            if let Some(kind) = kind_of(key) {
                *known.report.taken_out.entry(kind).or_default() += 1;
            }
        }
        self.remove(known.unseen)?;
        for key in known.contested {
            let stored = self.reader.get(&key)?;
            if stored
                .is_some_and(|stored| record::identifier::decode(&stored).is_ok_and(|owners| has_two_holders(&owners)))
            {
                return Err(corrupt("record", "another record has the same open identifier"));
            }
        }
        for (slot, id) in known.displaced {
            let displaced = self.reader.record(RecordKind::ProgramMembership, id)?;
            if displaced.as_ref().and_then(open_slot) == Some(slot) {
                return Err(corrupt("record", "another membership is open in the same program"));
            }
        }
        Ok(known.report)
    }
}

fn has_two_holders(owners: &[IdentifierOwner]) -> bool {
    owners.iter().filter(|owner| owner.is_open).count() > 1
}

/// The slot of an open membership; none for other records.
fn open_slot(record: &ChangedRecord) -> Option<MembershipSlot> {
    match record {
        ChangedRecord::ProgramMembership(membership) if membership.details.status().is_open() => {
            Some(membership.details.slot())
        }
        _ => None,
    }
}

/// The kind of the item with that key; none for a key that is derived from others, or for a further part of a photo.
fn kind_of(key: &[u8]) -> Option<ItemKind> {
    match *key.first()? {
        keys::SETTING => Some(ItemKind::Settings),
        keys::CLIENT => Some(ItemKind::Clients),
        keys::COUNTER => Some(ItemKind::Counters),
        keys::CODE_TABLE => Some(ItemKind::CodeTableParts),
        keys::REQUEST => Some(ItemKind::Requests),
        keys::PHOTO => keys::read::photo_of(key).filter(|(_, part)| *part == 0).map(|_| ItemKind::Photos),
        keys::HISTORY => Some(ItemKind::OlderVersions),
        keys::RECORD => keys::read::record_of(key).map(|(kind, _)| ItemKind::of_kind(kind)),
        keys::CHANGE => Some(ItemKind::Changes),
        keys::AUDIT => Some(ItemKind::AuditValues),
        _ => None,
    }
}
