//! What a write does, worked out before anything is written: checks, versions, keys, owners of identifiers.
//!
//! Every backend and the overlay ask here, so that they agree; they differ in where the present state comes from and where the
//! outcome goes.
//!
//! **Invariant:** planning changes nothing but the [`Planner`] itself, and that only in [`Planner::accept`]: a write that
//! fails leaves no trace, not even a key used up.

mod draft;
mod recent;

use std::sync::Arc;

use jiff::Timestamp;

use self::draft::Draft;
pub use self::recent::{Place, Recent};
use daftar_domain::audit::AuditEntry;
use daftar_domain::change::{Change, ChangedRecord, Sequence};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::idempotency::{RememberedRequest, RequestName};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind};

use super::record::instant::as_stored;
use super::records::Records;
use super::{Committed, IdentifierOwner, StoreError, Write};

/// The state that a write meets, as the planner asks for it. A backend implements it by its reader or uses [`super::records::Records`] that
/// it has gathered before.
///
/// - Atomicity and order: everything that is read while a group of writes is planned stands as it did after the write before the group;
///   the planner itself knows what the writes of the group do.
/// - Durability: only what is on disk, or goes there before the group is acknowledged, may be read.
/// - A crash while a write is planned leaves nothing: planning changes nothing.
pub trait Present {
    /// The record with that key.
    ///
    /// # Errors
    /// When the store cannot be read, here and below.
    fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError>;
    /// The open membership of that beneficiary in that program.
    fn open_membership(&self, slot: MembershipSlot) -> Result<Option<RecordId>, StoreError>;
    /// The records that carry an identifier, or carried it.
    fn owners(&self, kind: RecordKind, key: &IdentifierKey) -> Result<Vec<IdentifierOwner>, StoreError>;
    /// The client with that id.
    fn client(&self, id: &ClientId) -> Result<Option<Arc<Client>>, StoreError>;
    /// The request that was done before under that name.
    fn remembered(&self, name: &RequestName) -> Result<Option<Arc<RememberedRequest>>, StoreError>;
}

/// The last keys and the last place in the order of writes that were given.
#[derive(Debug, Clone, Copy, Default)]
pub struct Last {
    /// The last key of an individual.
    pub individual: u64,
    /// The last key of a group.
    pub group: u64,
    /// The last key of a program.
    pub program: u64,
    /// The last key of a program membership.
    pub membership: u64,
    /// The last key of a consent.
    pub consent: u64,
    /// The last place in the order of writes.
    pub sequence: Sequence,
}

impl Last {
    /// Before the first record of a transaction: its records have keys that are not given yet.
    pub fn pending() -> Self {
        Self::all(RecordId::pending(0).0)
    }

    /// That key as the last one of every kind.
    pub fn all(key: u64) -> Self {
        let sequence = Sequence::default();
        Self { individual: key, group: key, program: key, membership: key, consent: key, sequence }
    }

    /// Gives that key of a kind, when it is beyond those given.
    pub fn raise(&mut self, kind: RecordKind, id: RecordId) {
        let last = match kind {
            RecordKind::Individual => &mut self.individual,
            RecordKind::Group => &mut self.group,
            RecordKind::Program => &mut self.program,
            RecordKind::ProgramMembership => &mut self.membership,
            RecordKind::Consent => &mut self.consent,
        };
        *last = id.0.max(*last);
    }

    /// The last key of that kind.
    pub fn key(&self, kind: RecordKind) -> u64 {
        match kind {
            RecordKind::Individual => self.individual,
            RecordKind::Group => self.group,
            RecordKind::Program => self.program,
            RecordKind::ProgramMembership => self.membership,
            RecordKind::Consent => self.consent,
        }
    }
}

/// One write, worked out.
#[derive(Debug)]
pub struct Planned {
    /// The answer to the client of the store.
    pub committed: Committed,
    /// When the write happens.
    pub at: Timestamp,
    /// The records as they are afterwards.
    pub changes: Vec<Change>,
    /// The records that the changes replace, as they were.
    pub replaced: Vec<ChangedRecord>,
    /// Everything that is stored.
    pub outcome: Records,
    /// The audit entries of the write.
    pub audit: Vec<AuditEntry>,
    last: Last,
}

/// Plans writes one after the other, each on top of those accepted before it.
pub struct Planner<'p, P> {
    present: &'p P,
    last: Last,
    accepted: Records,
    /// Where the writes are parts of one that comes later: from where it counts the records that it creates.
    origin: Option<Last>,
    /// What the writes before touched; none where that is looked at when the whole is written.
    recent: Option<&'p mut Recent>,
}

impl<'p, P: Present> Planner<'p, P> {
    /// A planner of whole writes, on top of the present state and the keys given last.
    pub fn new(present: &'p P, last: Last, recent: &'p mut Recent) -> Self {
        Self { present, last, accepted: Records::default(), origin: None, recent: Some(recent) }
    }

    /// A planner of writes that will be parts of one write: what they create gets keys as [`RecordId::pending`], from
    /// [`Last::pending`] on. What they rest on is not looked at.
    pub fn of_parts(present: &'p P, last: Last) -> Self {
        Self { present, last, accepted: Records::default(), origin: Some(Last::pending()), recent: None }
    }

    /// What was last given, accepted writes included.
    pub fn last(&self) -> Last {
        self.last
    }

    /// Works a write out.
    ///
    /// # Errors
    /// The first conflict; nothing has changed then.
    pub fn plan(&self, write: Write, request: Option<RememberedRequest>) -> Result<Planned, StoreError> {
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

    /// The request of that name, as the accepted writes leave it.
    pub fn remembered(&self, name: &RequestName) -> Result<Option<Arc<RememberedRequest>>, StoreError> {
        match self.accepted.remembered.get(name) {
            Some(request) => Ok(Some(Arc::clone(request))),
            None => self.present.remembered(name),
        }
    }

    /// Lets later writes see this one.
    pub fn accept(&mut self, planned: &Planned) {
        let mut outcome = planned.outcome.clone();
        // Nothing that is planned depends on photos.
        outcome.photos.clear();
        self.accepted.extend(outcome);
        self.last = planned.last;
        if let Some(recent) = self.recent.as_deref_mut() {
            recent.add(planned);
        }
    }
}
