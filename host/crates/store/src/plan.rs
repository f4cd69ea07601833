//! Planning of a write before anything is written: checks, versions, keys, owners of identifiers.
//!
//! Every backend and the overlay use it, so that they agree; they differ in the source of the current state and the
//! destination of the result.
//!
//! **Invariant:** planning changes only the [`Planner`] itself, and only in [`Planner::accept`]: a failed write leaves
//! no trace, not even a used key.

mod draft;
mod recent;

use std::sync::Arc;

use jiff::Timestamp;

use self::draft::Draft;
pub use self::recent::{Place, Recent};
use daftar_domain::audit::AuditEntry;
use daftar_domain::change::{Change, ChangedRecord, Sequence};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::deployment::SettingKey;
use daftar_domain::idempotency::{IdempotentRequest, RequestName};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind};

use super::record::instant::as_stored;
use super::records::Records;
use super::{Committed, IdentifierOwner, StoreError, Write};

/// The current state, as the planner requires it. A backend implements it by its reader or uses
/// [`super::records::Records`] read before.
///
/// - Atomicity and order: all reads while a group of writes is planned return the state after the write before the
///   group; the planner itself applies the writes of the group.
/// - Durability: only data that is on disk, or will be before the group is acknowledged, may be read.
/// - A crash during planning leaves no trace: planning changes nothing.
pub trait Present {
    /// The record with that key.
    ///
    /// # Errors
    /// If the store cannot be read, as for the other methods.
    fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError>;
    /// The open membership of that beneficiary in that program.
    fn open_membership(&self, slot: MembershipSlot) -> Result<Option<RecordId>, StoreError>;
    /// The records with that current or former identifier.
    fn owners(&self, kind: RecordKind, key: &IdentifierKey) -> Result<Vec<IdentifierOwner>, StoreError>;
    /// The client with that id.
    fn client(&self, id: &ClientId) -> Result<Option<Arc<Client>>, StoreError>;
    /// The idempotency record with that key.
    fn remembered(&self, name: &RequestName) -> Result<Option<Arc<IdempotentRequest>>, StoreError>;
    /// True if there is a setting with that key.
    fn has_setting(&self, key: &SettingKey) -> Result<bool, StoreError>;
}

/// The last assigned keys and sequence number.
#[derive(Debug, Clone, Copy, Default)]
pub struct Last {
    /// The last key of each kind of record, in the order of [`RecordKind::ALL`].
    pub keys: [u64; RecordKind::ALL.len()],
    /// The last sequence number.
    pub sequence: Sequence,
}

impl Last {
    /// The state before the first record of a transaction: its records have pending keys.
    pub fn pending() -> Self {
        Self::all(RecordId::pending(0).0)
    }

    /// The state with that last key for every kind.
    pub fn all(key: u64) -> Self {
        Self { keys: [key; RecordKind::ALL.len()], sequence: Sequence::default() }
    }

    /// Raises the last key of a kind to that key.
    pub fn raise(&mut self, kind: RecordKind, id: RecordId) {
        if let Some(last) = self.keys.get_mut(kind.place()) {
            *last = id.0.max(*last);
        }
    }

    /// The last key of that kind.
    pub fn key(&self, kind: RecordKind) -> u64 {
        self.keys.get(kind.place()).copied().unwrap_or_default()
    }
}

/// A planned write.
#[derive(Debug)]
pub struct Planned {
    /// The result for the caller of the store.
    pub committed: Committed,
    /// Timestamp of the write.
    pub at: Timestamp,
    /// The new state of the changed records.
    pub changes: Vec<Change>,
    /// The previous state of the changed records.
    pub replaced: Vec<ChangedRecord>,
    /// All data to store. Empty once the write is accepted.
    pub outcome: Records,
    /// The audit entries of the write.
    pub audit: Vec<AuditEntry>,
    last: Last,
}

impl Planned {
    /// The last keys, including those of the write.
    pub fn last(&self) -> Last {
        self.last
    }
}

/// Plans writes sequentially, each on top of the accepted ones.
pub struct Planner<'p, P> {
    present: &'p P,
    last: Last,
    accepted: Records,
    /// For parts of a later write: the last keys before the records that they create.
    origin: Option<Last>,
    /// The records touched by earlier writes; none if read sets are checked when the complete transaction is written.
    recent: Option<&'p mut Recent>,
}

impl<'p, P: Present> Planner<'p, P> {
    /// A planner of complete writes, on top of the current state and the last keys.
    pub fn new(present: &'p P, last: Last, recent: &'p mut Recent) -> Self {
        Self { present, last, accepted: Records::default(), origin: None, recent: Some(recent) }
    }

    /// A planner of parts of a later write: new records get keys as [`RecordId::pending`], from [`Last::pending`] on.
    /// Read sets are not checked.
    pub fn of_parts(present: &'p P, last: Last) -> Self {
        Self { present, last, accepted: Records::default(), origin: Some(Last::pending()), recent: None }
    }

    /// The last keys, including accepted writes.
    pub fn last(&self) -> Last {
        self.last
    }

    /// Plans a write.
    ///
    /// # Errors
    /// The first conflict; nothing has changed then.
    pub fn plan(&self, write: Write, request: Option<IdempotentRequest>) -> Result<Planned, StoreError> {
        if let Some(recent) = self.recent.as_deref() {
            recent.check(&write.read_set)?;
        }
        let mut draft = Draft::new(self, as_stored(write.at), write.source, write.operations.len());
        let mut written = Vec::with_capacity(write.operations.len());
        for operation in write.operations {
            let operation = draft.settle(operation)?;
            written.push(draft.perform(operation)?);
        }
        if let Some(request) = request {
            draft.remember(request)?;
        }
        let audit = write.audit.into_iter().map(super::record::audit::entry_as_stored).collect();
        Ok(draft.finish(written, audit))
    }

    /// The idempotency record with that key, including accepted writes.
    pub fn remembered(&self, name: &RequestName) -> Result<Option<Arc<IdempotentRequest>>, StoreError> {
        match self.accepted.remembered.get(name) {
            Some(request) => Ok(Some(Arc::clone(request))),
            None => self.present.remembered(name),
        }
    }

    /// Makes this write visible to later ones. Takes its outcome, which the caller has stored.
    pub fn accept(&mut self, planned: &mut Planned) {
        let mut outcome = std::mem::take(&mut planned.outcome);
        // Planning does not depend on photos.
        outcome.photos.clear();
        self.accepted.extend(outcome);
        self.last = planned.last;
        if let Some(recent) = self.recent.as_deref_mut() {
            recent.add(planned);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;
    use daftar_domain::extension::Extension;
    use daftar_domain::idempotency::IdempotencyKey;
    use daftar_domain::identifier::Identifier;
    use daftar_domain::individual::IndividualDetails;
    use daftar_domain::program::{PROGRAMS_MAX, ProgramDetails};
    use daftar_domain::program_membership::{self, MembershipStatus, ProgramMembershipDetails};
    use daftar_domain::record::VersionId;
    use daftar_domain::value::{Reference, Values};

    fn write(operations: Vec<Operation>) -> Write {
        Write { at: Timestamp::UNIX_EPOCH, source: None, operations, audit: Vec::new(), read_set: Vec::new() }
    }

    fn person() -> IndividualDetails {
        let identifier = Identifier { key: IdentifierKey::parse("urn:x:a|1").unwrap(), period: None };
        IndividualDetails::new(vec![identifier], Values::default(), Extension::default())
    }

    #[test]
    fn only_programs_are_limited_and_only_in_complete_writes() {
        let (present, mut recent) = (Records::default(), Recent::default());
        let planner = Planner::new(&present, Last::all(PROGRAMS_MAX), &mut recent);
        let program = || write(vec![Operation::create(ProgramDetails::default())]);
        assert!(matches!(planner.plan(program(), None), Err(StoreError::LimitReached(_))));
        planner.plan(write(vec![Operation::create(person())]), None).unwrap();
        Planner::of_parts(&present, Last::pending()).plan(program(), None).unwrap();
    }

    #[test]
    fn unchanged_owners_are_not_written_again() {
        let (present, mut recent) = (Records::default(), Recent::default());
        let mut planner = Planner::new(&present, Last::default(), &mut recent);
        let mut created = planner.plan(write(vec![Operation::create(person())]), None).unwrap();
        assert_eq!(created.outcome.owners.len(), 1);
        planner.accept(&mut created);
        let update = write(vec![Operation::update(RecordId(1), VersionId::FIRST, person())]);
        assert!(planner.plan(update, None).unwrap().outcome.owners.is_empty());
    }

    #[test]
    fn a_membership_that_moves_releases_its_slot() {
        let membership = |program: u64| {
            let reference = |kind, id| Reference { kind, id: RecordId(id) };
            ProgramMembershipDetails::default()
                .with(program_membership::PROGRAM, reference(RecordKind::Program, program))
                .with(program_membership::BENEFICIARY, reference(RecordKind::Individual, 1))
                .with(program_membership::STATUS, MembershipStatus::Enrolled)
        };
        let (present, mut recent) = (Records::default(), Recent::default());
        let mut planner = Planner::new(&present, Last::default(), &mut recent);
        let mut created = planner.plan(write(vec![Operation::create(membership(1))]), None).unwrap();
        planner.accept(&mut created);
        let update = write(vec![Operation::update(RecordId(1), VersionId::FIRST, membership(2))]);
        let moved = planner.plan(update, None).unwrap().outcome.open_memberships;
        let holders = [1, 2].map(|program| moved.get(&membership(program).slot()).copied());
        assert_eq!(holders, [Some(None), Some(Some(RecordId(1)))]);
    }

    #[test]
    fn the_time_of_an_idempotency_record_is_stored_in_milliseconds() {
        let (present, mut recent) = (Records::default(), Recent::default());
        let planner = Planner::new(&present, Last::default(), &mut recent);
        let client = ClientId::parse("c").unwrap();
        let name = RequestName { client, key: IdempotencyKey::parse("k").unwrap(), part: 0 };
        let at = Timestamp::from_microsecond(1_999).unwrap();
        let request = IdempotentRequest { name: name.clone(), digest: [0; 32], at, responses: Vec::new() };
        let planned = planner.plan(write(Vec::new()), Some(request)).unwrap();
        assert_eq!(planned.outcome.remembered[&name].at, Timestamp::from_millisecond(1).unwrap());
    }
}
