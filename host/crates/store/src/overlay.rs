//! A store on top of another one. A transaction combines several operations into one [`Write`]: their commits are
//! pending, visible to later operations, and go to the base store together. A dry run checks writes without executing
//! them: the effects of a file of records on a register.
//!
//! **Invariant:** nothing committed here is on disk before the complete transaction is; a failed operation leaves no
//! trace.
//!
//! **Invariant:** reads return the pending writes, and the base store for all other data. The dependencies of a change
//! are checked again when the transaction is written: by the version of each changed record, the owners of each
//! identifier, the open memberships, and the read set of each part.
//!
//! **Invariant:** a dry run never writes to the base store. A valid write returns [`StoreError::DryRun`], and the
//! identifiers and open memberships that it would use are reserved for later ones. Only these are stored, some tens of
//! bytes each, and the few programs.

mod port;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::plan::{Last, Planner};
use super::records::Records;
use super::{
    Committed, IDENTIFIER_OWNERS_MAX, IdentifierOwner, NewCodes, Operation, ReadSet, RecordDetails, Store, StoreError,
    Write, changes_records,
};
use daftar_domain::audit::AuditEntry;
use daftar_domain::change::{ChangedRecord, Details};
use daftar_domain::client::ClientId;
use daftar_domain::group::GroupDetails;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program_membership::{MembershipSlot, ProgramMembershipDetails};
use daftar_domain::record::{Record, RecordId, RecordKind, VersionId};
use daftar_domain::subject::SubjectReference;

/// First key of records in a dry run: no register ever has so many.
const FIRST_OF_DRY_RUN: u64 = 1 << 62;

/// True if a key belongs to a record of a dry run.
#[must_use]
pub fn is_of_dry_run(id: RecordId) -> bool {
    id.0 >= FIRST_OF_DRY_RUN && id.pending_number().is_none()
}

/// Pending writes on top of a store: of a transaction, or of a dry run.
pub struct Overlay {
    base: Arc<dyn Store>,
    is_dry_run: bool,
    state: Mutex<State>,
}

struct State {
    last: Last,
    /// Records read or changed by the writes; in a dry run the open memberships and the programs.
    records: Records,
    /// Owners of identifiers after a dry run.
    carriers: Carriers,
    versions: BTreeMap<(RecordKind, RecordId, VersionId), ChangedRecord>,
    operations: Vec<Operation>,
    /// Codes that are numbered with the transaction.
    new_codes: Vec<NewCodes>,
    audit: Vec<AuditEntry>,
    read_set: Vec<ReadSet>,
    part: usize,
    written: Vec<(usize, ChangedRecord)>,
    collision: Option<usize>,
}

/// The first owner of each identifier, by the hash of kind and identifier.
#[derive(Default)]
struct Carriers {
    hashers: (RandomState, RandomState),
    by_name: HashMap<u128, IdentifierOwner>,
}

impl Carriers {
    fn name(&self, kind: RecordKind, key: &IdentifierKey) -> u128 {
        let (high, low) = &self.hashers;
        u128::from(high.hash_one((kind, key))) << 64 | u128::from(low.hash_one((kind, key)))
    }

    fn get(&self, kind: RecordKind, key: &IdentifierKey) -> Option<IdentifierOwner> {
        self.by_name.get(&self.name(kind, key)).copied()
    }
}

impl Overlay {
    /// A transaction without pending writes.
    #[must_use]
    pub fn transaction(base: Arc<dyn Store>) -> Self {
        Self::on(base, false)
    }

    /// A dry run before its first write.
    #[must_use]
    pub fn dry_run(base: Arc<dyn Store>) -> Self {
        Self::on(base, true)
    }

    fn on(base: Arc<dyn Store>, is_dry_run: bool) -> Self {
        let state = State {
            last: if is_dry_run { Last::all(FIRST_OF_DRY_RUN) } else { Last::pending() },
            records: Records::default(),
            carriers: Carriers::default(),
            versions: BTreeMap::new(),
            operations: Vec::new(),
            new_codes: Vec::new(),
            audit: Vec::new(),
            read_set: Vec::new(),
            part: 0,
            written: Vec::new(),
            collision: None,
        };
        Self { base, is_dry_run, state: Mutex::new(state) }
    }

    /// The base store.
    #[must_use]
    pub fn base(&self) -> &Arc<dyn Store> {
        &self.base
    }

    /// Assigns the following commits to that part of the transaction.
    pub fn begin_part(&self, part: usize) {
        self.state().part = part;
    }

    /// The records written by a part, in their state after it, in order.
    #[must_use]
    pub fn written_by(&self, part: usize) -> Vec<ChangedRecord> {
        let state = self.state();
        state.written.iter().filter(|(of, _)| *of == part).map(|(_, record)| record.clone()).collect()
    }

    /// The current state of the groups written here that have or had the individual as a member.
    #[must_use]
    pub fn groups_of(&self, individual: RecordId) -> Vec<RecordId> {
        let is_named = |group: &GroupDetails| group.members().any(|one| one.individual == individual);
        let groups = self.now(GroupDetails::of).into_iter();
        groups.filter(|group| is_named(&group.details)).map(|group| group.id).collect()
    }

    /// The memberships of a subject that were written here.
    #[must_use]
    pub fn memberships_of(&self, subject: SubjectReference) -> Vec<RecordId> {
        let memberships = self.now(ProgramMembershipDetails::of).into_iter();
        memberships.filter(|one| one.details.beneficiary() == subject).map(|one| one.id).collect()
    }

    /// The beneficiary of that membership, if it was written here.
    #[must_use]
    pub fn beneficiary_of(&self, membership: RecordId) -> Option<SubjectReference> {
        let memberships = self.now(ProgramMembershipDetails::of).into_iter();
        memberships.filter(|one| one.id == membership).map(|one| one.details.beneficiary()).next()
    }

    /// The current state of the records of a kind that were written here, in the order of their first write.
    fn now<D>(&self, of: impl Fn(ChangedRecord) -> Option<Arc<Record<D>>>) -> Vec<Arc<Record<D>>> {
        let state = self.state();
        let mut seen = HashSet::new();
        let places = state.written.iter().map(|(_, record)| (record.place().0, record.place().1));
        let places = places.filter(|place| seen.insert(*place));
        places.filter_map(|place| state.records.records.get(&place).cloned().and_then(&of)).collect()
    }

    /// The part whose record has the identifier or the open membership that caused the last conflict.
    #[must_use]
    pub fn collided_with(&self) -> Option<usize> {
        self.state().collision
    }

    /// Takes all pending writes as one write.
    #[must_use]
    pub fn take(&self, at: Timestamp, source: Option<ClientId>) -> Write {
        let mut state = self.state();
        let (mut operations, audit) = (std::mem::take(&mut state.operations), std::mem::take(&mut state.audit));
        operations.extend(std::mem::take(&mut state.new_codes).into_iter().map(Operation::NumberCodes));
        Write { at, source, operations, audit, read_set: std::mem::take(&mut state.read_set) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is made after everything that can fail.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the current state of all records that the operations depend on.
    async fn gather(&self, operations: &[Operation]) -> Result<Records, StoreError> {
        let mut found = Records::default();
        for operation in operations {
            match operation {
                Operation::Create(details) => self.gather_any(&mut found, None, details).await?,
                Operation::Update(id, _, details) => self.gather_any(&mut found, Some(*id), details).await?,
                _ => {}
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

    /// Reads the record to change, and the owners of its current and new identifiers.
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
        found.records.extend(before.map(|before| ((before.place().0, before.place().1), before)));
        Ok(())
    }

    /// Checks a write on top of earlier ones; `found` contains all data that it requires of the base store.
    fn check(&self, mut write: Write, mut found: Records) -> Result<Committed, StoreError> {
        // A dry run assigns no numbers: nothing of it remains.
        drop(write.take_new_codes());
        let mut state = self.state();
        // Other writes may have been checked since the data was read.
        for ((kind, key), owners) in &mut found.owners {
            if let Some(owner) = state.carriers.get(*kind, key) {
                *owners = vec![owner];
            }
        }
        for (slot, holder) in &mut found.open_memberships {
            if let Some(now) = state.records.open_memberships.get(slot) {
                *holder = *now;
            }
        }
        let planned = Planner::of_parts(&found, state.last).plan(write, None)?;
        state.last = planned.last();
        let Records { records, open_memberships, owners, clients, settings, .. } = planned.outcome;
        if !clients.is_empty() || !settings.is_empty() {
            return Err(no_part("it changes data other than records"));
        }
        for ((kind, key), owners) in owners {
            let name = state.carriers.name(kind, &key);
            state.carriers.by_name.extend(owners.first().map(|owner| (name, *owner)));
        }
        state.records.open_memberships.extend(open_memberships);
        let programs = records.into_iter().filter(|((kind, _), _)| *kind == RecordKind::Program);
        state.records.records.extend(programs);
        Err(StoreError::DryRun)
    }

    /// Computes a write on top of pending ones; `found` contains all data that it requires of the base store.
    fn keep_back(&self, mut write: Write, found: Records) -> Result<Committed, StoreError> {
        if !changes_records(&write) {
            return Err(no_part("it changes data other than records"));
        }
        // The transaction checks when it is written that the numbers are the next ones.
        let new_codes = write.take_new_codes();
        let mut state = self.state();
        state.records.add_missing(found);
        state.collision = None;
        let planner = Planner::of_parts(&state.records, state.last);
        let planned = match planner.plan(write.clone(), None) {
            Ok(planned) => planned,
            Err(error) => {
                state.collision = state.collision_of(&write, &error);
                return Err(error);
            }
        };
        state.last = planned.last();
        for change in &planned.changes {
            state.versions.insert(change.record.place(), change.record.clone());
        }
        let part = state.part;
        state.written.extend(planned.changes.iter().map(|change| (part, change.record.clone())));
        state.records.extend(planned.outcome);
        state.operations.extend(write.operations);
        state.new_codes.extend(new_codes);
        state.audit.extend(write.audit);
        state.read_set.extend(write.read_set);
        Ok(planned.committed)
    }
}

/// The slot that a membership enters or leaves.
fn slot_of(operation: &Operation) -> Option<MembershipSlot> {
    match operation {
        Operation::Create(RecordDetails::ProgramMembership(details))
        | Operation::Update(_, _, RecordDetails::ProgramMembership(details)) => Some(details.slot()),
        _ => None,
    }
}

/// True if the program or the beneficiary is not written yet.
fn is_pending(slot: MembershipSlot) -> bool {
    slot.program.pending_number().is_some() || slot.beneficiary.id.pending_number().is_some()
}

/// The error for an operation that an overlay does not support, which is a defect.
fn no_part(reason: &str) -> StoreError {
    StoreError::Corrupt { what: "part of a transaction", reason: reason.to_owned() }
}

impl State {
    /// The part that wrote the record with which a write conflicts, if any.
    fn collision_of(&self, write: &Write, error: &StoreError) -> Option<usize> {
        if let StoreError::IdentifierInUse(key) = error {
            return self.part_that_carries(key);
        }
        if !matches!(error, StoreError::MembershipOpen) {
            return None;
        }
        let mut slots = write.operations.iter().filter_map(slot_of);
        let holder = slots.find_map(|slot| self.records.open_memberships.get(&slot).copied().flatten())?;
        self.part_that_wrote(RecordKind::ProgramMembership, holder)
    }

    fn part_that_carries(&self, key: &IdentifierKey) -> Option<usize> {
        let kinds = [RecordKind::Individual, RecordKind::Group, RecordKind::ProgramMembership];
        kinds.into_iter().find_map(|kind| {
            let owners = self.records.owners.get(&(kind, key.clone()))?;
            let holder = owners.iter().find(|owner| owner.is_open)?;
            self.part_that_wrote(kind, holder.id)
        })
    }

    fn part_that_wrote(&self, kind: RecordKind, id: RecordId) -> Option<usize> {
        let of_record = |record: &ChangedRecord| (record.place().0, record.place().1) == (kind, id);
        self.written.iter().rev().find(|(_, record)| of_record(record)).map(|(part, _)| *part)
    }
}
