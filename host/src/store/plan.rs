//! What a write does, worked out before anything is written: checks, versions, keys, owners of identifiers.
//!
//! Both the embedded and the memory backend ask here, so that they agree; they differ in where the present state comes from
//! and where the outcome goes.
//!
//! **Invariant:** planning changes nothing but the [`Planner`] itself, and that only in [`Planner::accept`]: a write that
//! fails leaves no trace, not even a key used up.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::domain::audit::AuditEntry;
use crate::domain::change::{Change, ChangedRecord, Details, Sequence};
use crate::domain::client::{Client, ClientId};
use crate::domain::deployment::{Setting, SettingKey};
use crate::domain::group::{Group, GroupDetails};
use crate::domain::identifier::{Identifier, IdentifierKey};
use crate::domain::individual::{Individual, IndividualDetails};
use crate::domain::program::PROGRAMS_MAX;
use crate::domain::program_membership::{MembershipSlot, ProgramMembershipDetails};
use crate::domain::record::{Record, RecordId, RecordKind, RecordMeta, VersionId};

use super::record::client::client_as_stored;
use super::record::instant::as_stored;
use super::record::setting::setting_as_stored;
use super::{Committed, IDENTIFIER_OWNERS_MAX, IdentifierOwner, Operation, RecordDetails, StoreError, Write, Written};

/// The state that a write meets.
pub(super) trait Present {
    fn individual(&self, id: RecordId) -> Result<Option<Arc<Individual>>, StoreError>;
    fn group(&self, id: RecordId) -> Result<Option<Arc<Group>>, StoreError>;
    /// A program, membership or consent.
    fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError>;
    fn open_membership(&self, slot: MembershipSlot) -> Result<Option<RecordId>, StoreError>;
    fn owners(&self, kind: RecordKind, key: &IdentifierKey) -> Result<Vec<IdentifierOwner>, StoreError>;
    fn client(&self, id: &ClientId) -> Result<Option<Arc<Client>>, StoreError>;
}

/// The last keys and the last place in the order of writes that were given.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Last {
    pub individual: u64,
    pub group: u64,
    pub program: u64,
    pub membership: u64,
    pub consent: u64,
    pub sequence: Sequence,
}

/// What writes leave behind, each thing as it stands after them.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    pub individuals: BTreeMap<RecordId, Arc<Individual>>,
    pub groups: BTreeMap<RecordId, Arc<Group>>,
    /// Programs, memberships and consents.
    pub records: BTreeMap<(RecordKind, RecordId), ChangedRecord>,
    /// Which membership holds a slot; none, once it is closed.
    pub open_memberships: BTreeMap<MembershipSlot, Option<RecordId>>,
    pub owners: BTreeMap<(RecordKind, IdentifierKey), Vec<IdentifierOwner>>,
    pub clients: BTreeMap<ClientId, Arc<Client>>,
    /// Absent ones are taken out.
    pub settings: BTreeMap<SettingKey, Option<Arc<Setting>>>,
}

/// One write, worked out.
#[derive(Debug)]
pub(super) struct Planned {
    pub committed: Committed,
    pub at: Timestamp,
    pub changes: Vec<Change>,
    /// The records that the changes replace, as they were.
    pub replaced: Vec<ChangedRecord>,
    pub outcome: Outcome,
    pub audit: Vec<AuditEntry>,
    last: Last,
}

/// Plans writes one after the other, each on top of those accepted before it.
pub(super) struct Planner<'p, P> {
    present: &'p P,
    last: Last,
    accepted: Outcome,
}

impl<'p, P: Present> Planner<'p, P> {
    pub(super) fn new(present: &'p P, last: Last) -> Self {
        Self { present, last, accepted: Outcome::default() }
    }

    /// What was last given, accepted writes included.
    pub(super) fn last(&self) -> Last {
        self.last
    }

    /// Works a write out.
    ///
    /// # Errors
    /// The first conflict; nothing has changed then.
    pub(super) fn plan(&self, write: Write) -> Result<Planned, StoreError> {
        let mut draft = Draft {
            planner: self,
            at: as_stored(write.at),
            source: write.source,
            last: Last { sequence: self.last.sequence.next(), ..self.last },
            outcome: Outcome::default(),
            changes: Vec::with_capacity(write.operations.len()),
            replaced: Vec::new(),
        };
        let mut written = Vec::with_capacity(write.operations.len());
        for operation in write.operations {
            written.push(draft.perform(operation)?);
        }
        let audit = write.audit.into_iter().map(super::record::audit::entry_as_stored).collect();
        let Draft { at, last, outcome, changes, replaced, .. } = draft;
        let committed = Committed { sequence: last.sequence, written };
        Ok(Planned { committed, at, changes, replaced, outcome, audit, last })
    }

    /// Lets later writes see this one.
    pub(super) fn accept(&mut self, planned: &Planned) {
        let Outcome { individuals, groups, records, open_memberships, owners, clients, settings } =
            planned.outcome.clone();
        self.accepted.individuals.extend(individuals);
        self.accepted.groups.extend(groups);
        self.accepted.records.extend(records);
        self.accepted.open_memberships.extend(open_memberships);
        self.accepted.owners.extend(owners);
        self.accepted.clients.extend(clients);
        self.accepted.settings.extend(settings);
        self.last = planned.last;
    }
}

/// A write that is being worked out.
struct Draft<'d, 'p, P> {
    planner: &'d Planner<'p, P>,
    at: Timestamp,
    source: Option<ClientId>,
    last: Last,
    outcome: Outcome,
    changes: Vec<Change>,
    replaced: Vec<ChangedRecord>,
}

impl<P: Present> Draft<'_, '_, P> {
    fn perform(&mut self, operation: Operation) -> Result<Written, StoreError> {
        match operation {
            Operation::CreateIndividual(details) => {
                self.last.individual = self.last.individual.saturating_add(1);
                self.put_individual(RecordId(self.last.individual), None, details)
            }
            Operation::UpdateIndividual(id, expected, details) => {
                let before = self.individual(id)?.ok_or(StoreError::NotFound(RecordKind::Individual))?;
                check_version(before.meta.version, expected)?;
                self.put_individual(id, Some(before), details)
            }
            Operation::CreateGroup(details) => {
                self.last.group = self.last.group.saturating_add(1);
                self.put_group(RecordId(self.last.group), None, details)
            }
            Operation::UpdateGroup(id, expected, details) => {
                let before = self.group(id)?.ok_or(StoreError::NotFound(RecordKind::Group))?;
                check_version(before.meta.version, expected)?;
                self.put_group(id, Some(before), details)
            }
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
            Operation::PutSetting(setting) => {
                let key = setting.key();
                self.outcome.settings.insert(key.clone(), Some(Arc::new(setting_as_stored(setting))));
                Ok(Written::Setting(key))
            }
            Operation::RemoveSetting(key) => {
                self.outcome.settings.insert(key.clone(), None);
                Ok(Written::Setting(key))
            }
        }
    }

    fn put_individual(
        &mut self,
        id: RecordId,
        before: Option<Arc<Individual>>,
        details: IndividualDetails,
    ) -> Result<Written, StoreError> {
        let carried = before.as_ref().map_or(&[][..], |record| &record.details.identifiers);
        self.claim(RecordKind::Individual, id, carried, &details.identifiers)?;
        let meta = self.meta(before.as_ref().map(|record| record.meta.version));
        let now = Arc::new(Individual { id, meta, details });
        self.outcome.individuals.insert(id, Arc::clone(&now));
        let record = ChangedRecord::Individual(Arc::clone(&now));
        self.changes.push(Change { sequence: self.last.sequence, record });
        self.replaced.extend(before.map(ChangedRecord::Individual));
        Ok(Written::Individual(now))
    }

    fn put_group(
        &mut self,
        id: RecordId,
        before: Option<Arc<Group>>,
        details: GroupDetails,
    ) -> Result<Written, StoreError> {
        let carried = before.as_ref().map_or(&[][..], |record| &record.details.identifiers);
        self.claim(RecordKind::Group, id, carried, &details.identifiers)?;
        let meta = self.meta(before.as_ref().map(|record| record.meta.version));
        let now = Arc::new(Group { id, meta, details });
        self.outcome.groups.insert(id, Arc::clone(&now));
        let record = ChangedRecord::Group(Arc::clone(&now));
        self.changes.push(Change { sequence: self.last.sequence, record });
        self.replaced.extend(before.map(ChangedRecord::Group));
        Ok(Written::Group(now))
    }

    fn create(&mut self, details: RecordDetails) -> Result<Written, StoreError> {
        let last = match &details {
            RecordDetails::Program(_) if self.last.program >= PROGRAMS_MAX => {
                return Err(StoreError::LimitReached("the register has as many programs as it keeps"));
            }
            RecordDetails::Program(_) => &mut self.last.program,
            RecordDetails::ProgramMembership(_) => &mut self.last.membership,
            RecordDetails::Consent(_) => &mut self.last.consent,
        };
        *last = last.saturating_add(1);
        let id = RecordId(*last);
        match details {
            RecordDetails::Program(details) => self.put(id, None, details),
            RecordDetails::ProgramMembership(details) => self.put_membership(id, None, details),
            RecordDetails::Consent(details) => self.put(id, None, details),
        }
    }

    fn update(&mut self, id: RecordId, expected: VersionId, details: RecordDetails) -> Result<Written, StoreError> {
        match details {
            RecordDetails::Program(details) => {
                let before = self.at_version(id, expected)?;
                self.put(id, Some(before), details)
            }
            RecordDetails::ProgramMembership(details) => {
                let before = self.at_version(id, expected)?;
                self.put_membership(id, Some(before), details)
            }
            RecordDetails::Consent(details) => {
                let before = self.at_version(id, expected)?;
                self.put(id, Some(before), details)
            }
        }
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
        let now = D::any(Arc::new(Record { id, meta, details }));
        self.outcome.records.insert((D::KIND, id), now.clone());
        self.changes.push(Change { sequence: self.last.sequence, record: now.clone() });
        self.replaced.extend(before.map(D::any));
        Ok(Written::Record(now))
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
        if !details.status.is_open() {
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

    /// Enters the record as owner of its identifiers, and as a past owner of those that it no longer carries.
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
                    return Err(StoreError::LimitReached("too many records have carried one of the identifiers"));
                }
                None => owners.push(IdentifierOwner { id, is_open }),
            }
            // The one that it holds for comes first, so that a limit on a look-up never hides it.
            owners.sort_unstable_by_key(|owner| (!owner.is_open, owner.id));
            self.outcome.owners.insert((kind, key.clone()), owners);
        }
        Ok(())
    }

    fn individual(&self, id: RecordId) -> Result<Option<Arc<Individual>>, StoreError> {
        let drafted = self.outcome.individuals.get(&id);
        match drafted.or_else(|| self.planner.accepted.individuals.get(&id)) {
            Some(individual) => Ok(Some(Arc::clone(individual))),
            None => self.planner.present.individual(id),
        }
    }

    fn group(&self, id: RecordId) -> Result<Option<Arc<Group>>, StoreError> {
        match self.outcome.groups.get(&id).or_else(|| self.planner.accepted.groups.get(&id)) {
            Some(group) => Ok(Some(Arc::clone(group))),
            None => self.planner.present.group(id),
        }
    }

    fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError> {
        let drafted = self.outcome.records.get(&(kind, id));
        match drafted.or_else(|| self.planner.accepted.records.get(&(kind, id))) {
            Some(record) => Ok(Some(record.clone())),
            None => self.planner.present.record(kind, id),
        }
    }

    fn open_membership(&self, slot: MembershipSlot) -> Result<Option<RecordId>, StoreError> {
        let drafted = self.outcome.open_memberships.get(&slot);
        match drafted.or_else(|| self.planner.accepted.open_memberships.get(&slot)) {
            Some(holder) => Ok(*holder),
            None => self.planner.present.open_membership(slot),
        }
    }

    fn client(&self, id: &ClientId) -> Result<Option<Arc<Client>>, StoreError> {
        match self.outcome.clients.get(id).or_else(|| self.planner.accepted.clients.get(id)) {
            Some(client) => Ok(Some(Arc::clone(client))),
            None => self.planner.present.client(id),
        }
    }

    fn owners(&self, kind: RecordKind, key: &IdentifierKey) -> Result<Vec<IdentifierOwner>, StoreError> {
        let address = (kind, key.clone());
        match self.outcome.owners.get(&address).or_else(|| self.planner.accepted.owners.get(&address)) {
            Some(owners) => Ok(owners.clone()),
            None => self.planner.present.owners(kind, key),
        }
    }
}

fn check_version(actual: VersionId, expected: VersionId) -> Result<(), StoreError> {
    if actual == expected { Ok(()) } else { Err(StoreError::VersionMismatch { expected, actual }) }
}
