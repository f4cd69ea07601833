//! Where records live: the port that every backend fills.
//!
//! **Invariant:** one use case is one [`Write`]: everything in it is on disk together before [`Store::commit`] returns, or
//! nothing of it is.
//!
//! **Invariant:** records are never physically deleted.
//!
//! **Invariant:** the operations of a write happen one after the other, and each sees what those before it did; an
//! identifier that one operation ends may be taken up by a later one of the same write, not by an earlier one.
//!
//! **Invariant:** instants are kept to the millisecond: what is finer is cut off when it is written, so that what a write
//! returns is what a later read gives.
//!
//! How the indexes and the store come together at start: open the store, read the records with [`Store::scan_individuals`]
//! and [`Store::scan_groups`], then [`Store::attach_sink`]. Writes of records are refused until then, so that no change is
//! missed or told twice.

pub mod memory;
mod numbering;
mod plan;
pub mod record;
pub mod sled;
#[cfg(test)]
mod suite;

use std::sync::Arc;

use jiff::Timestamp;

use crate::domain::audit::AuditEntry;
use crate::domain::change::{Change, ChangedRecord, Details, Sequence};
use crate::domain::client::{Client, ClientId};
use crate::domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use crate::domain::consent::ConsentDetails;
use crate::domain::deployment::{Setting, SettingKey};
use crate::domain::group::{Group, GroupDetails};
use crate::domain::identifier::IdentifierKey;
use crate::domain::individual::{Individual, IndividualDetails};
use crate::domain::program::ProgramDetails;
use crate::domain::program_membership::{MembershipSlot, ProgramMembershipDetails};
use crate::domain::record::{Record, RecordId, RecordKind, VersionId};
use crate::error::{AppError, Cause};

/// What a program, a membership or a consent is to say.
#[derive(Debug, Clone)]
pub enum RecordDetails {
    /// Of a program.
    Program(ProgramDetails),
    /// Of a place in a program.
    ProgramMembership(ProgramMembershipDetails),
    /// Of a consent.
    Consent(ConsentDetails),
}

/// One part of a use case.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Adds a person.
    CreateIndividual(IndividualDetails),
    /// Replaces what is said of a person, if it is still at that version.
    UpdateIndividual(RecordId, VersionId, IndividualDetails),
    /// Adds a group.
    CreateGroup(GroupDetails),
    /// Replaces what is said of a group, if it is still at that version.
    UpdateGroup(RecordId, VersionId, GroupDetails),
    /// Adds a program, a membership or a consent.
    Create(RecordDetails),
    /// Replaces what a program, a membership or a consent says, if it is still at that version.
    Update(RecordId, VersionId, RecordDetails),
    /// Adds a client; a conflict when the id is taken.
    CreateClient(Client),
    /// Replaces a client, if it was last changed at that instant. The `updated_at` that is stored always lies after it: where
    /// the client's own does not, it is the next millisecond.
    UpdateClient(Client, Timestamp),
    /// Adds what the deployment decided about something, or replaces what it decided before.
    PutSetting(Setting),
    /// Takes what the deployment decided about something out; nothing happens where it decided nothing.
    RemoveSetting(SettingKey),
}

/// One use case: written whole or not at all.
#[derive(Debug, Clone)]
pub struct Write {
    /// When; becomes `last_updated`.
    pub at: Timestamp,
    /// Which client writes.
    pub source: Option<ClientId>,
    /// What.
    pub operations: Vec<Operation>,
    /// The lines of the audit log that go with it.
    pub audit: Vec<AuditEntry>,
}

/// What became of one operation.
#[derive(Debug, Clone)]
pub enum Written {
    /// The person as stored.
    Individual(Arc<Individual>),
    /// The group as stored.
    Group(Arc<Group>),
    /// The program, membership or consent as stored.
    Record(ChangedRecord),
    /// The client as stored.
    Client(Arc<Client>),
    /// The setting that was put or taken out.
    Setting(SettingKey),
}

/// What became of a write.
#[derive(Debug, Clone)]
pub struct Committed {
    /// Its place in the order of writes.
    pub sequence: Sequence,
    /// One for each operation, in order.
    pub written: Vec<Written>,
}

impl Committed {
    /// The record that the first operation wrote, where it is of that kind.
    #[must_use]
    pub fn first<D: Details>(self) -> Option<Arc<Record<D>>> {
        match self.written.into_iter().next() {
            Some(Written::Record(record)) => D::of(record),
            Some(Written::Individual(_) | Written::Group(_) | Written::Client(_) | Written::Setting(_)) | None => None,
        }
    }
}

/// A record that carries or carried an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentifierOwner {
    /// The record.
    pub id: RecordId,
    /// Whether the identifier still holds.
    pub is_open: bool,
}

/// Codes and vocabulary versions ever stored, by their numbers: entry `i` has number `i`.
#[derive(Debug, Clone, Default)]
pub struct StoredCodeTable {
    /// The codes.
    pub codes: Vec<CodeUri>,
    /// The versions of vocabularies.
    pub editions: Vec<(Namespace, String)>,
}

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another record of the same kind has an open identifier of that system and value.
    #[error("an identifier of system `{}` is in use", .0.system)]
    IdentifierInUse(IdentifierKey),
    /// The record was written since.
    #[error("the record is at version {actual}, not {expected}")]
    VersionMismatch {
        /// What the writer expected.
        expected: VersionId,
        /// What is stored.
        actual: VersionId,
    },
    /// The beneficiary has a membership in the program that is open.
    #[error("the beneficiary has an open membership in this program already")]
    MembershipOpen,
    /// There is no record of that key.
    #[error("no such {0}")]
    NotFound(RecordKind),
    /// A client of that id exists already.
    #[error("the client `{0}` exists")]
    ClientExists(ClientId),
    /// There is no client of that id.
    #[error("no client `{0}`")]
    ClientNotFound(ClientId),
    /// The client was changed meanwhile.
    #[error("the client `{0}` was changed meanwhile")]
    ClientChanged(ClientId),
    /// There are as many of something as the store keeps; says of what.
    #[error("{0}")]
    LimitReached(&'static str),
    /// One thing takes more room than the store gives to one. Nothing was written.
    #[error("the {what} is stored in at most {bytes_max} bytes, and this one takes more: make it smaller")]
    TooLarge {
        /// What kind of value.
        what: &'static str,
        /// What it may take.
        bytes_max: usize,
    },
    /// More writes wait than the store takes. Nothing of this one was done.
    #[error("too many writes are waiting")]
    Overloaded,
    /// Records cannot be written before [`Store::attach_sink`]. Nothing was done.
    #[error("the store takes no records before its indexes are filled")]
    NotReady,
    /// [`Store::attach_sink`] was called a second time.
    #[error("the store tells its changes to somebody already")]
    SinkAttached,
    /// A stored value cannot be read; names the key's kind, never its content.
    #[error("a stored {what} cannot be read: {reason}")]
    Corrupt {
        /// What kind of value.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// The disk or the database failed, or the store stopped after a failure. Nothing is written until it is reopened.
    #[error("the store failed")]
    Failed(#[source] Cause),
}

impl From<StoreError> for AppError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::IdentifierInUse(key) => Self::IdentifierInUse { system: key.system.to_string() },
            StoreError::VersionMismatch { expected, actual } => Self::VersionMismatch { expected, actual },
            StoreError::NotFound(kind) => Self::NotFound(kind),
            StoreError::ClientNotFound(id) => Self::UnknownClient(id),
            StoreError::ClientExists(_) | StoreError::ClientChanged(_) | StoreError::MembershipOpen => {
                Self::Conflict(error.to_string())
            }
            StoreError::LimitReached(what) => Self::Conflict(what.to_owned()),
            StoreError::TooLarge { .. } => Self::invalid("", "too_large", error.to_string()),
            StoreError::Overloaded => Self::Busy,
            StoreError::NotReady => Self::Unavailable(error.into()),
            StoreError::Corrupt { .. } | StoreError::SinkAttached => Self::Internal(error.into()),
            StoreError::Failed(cause) => Self::Unavailable(cause),
        }
    }
}

/// The most records that carry or carried one identifier.
pub const IDENTIFIER_OWNERS_MAX: usize = 1_000;

/// The most records that one scan gives, whatever is asked.
pub const SCAN_RECORDS_MAX: usize = 10_000;

/// Hears of every write of a record, in order, after it is on disk and before it is acknowledged.
pub trait ChangeSink: Send + Sync + 'static {
    /// Takes the changes of one or more writes. Must not block on IO and must not panic.
    fn apply(&self, changes: &[Change]);
}

/// A registry's storage. Every backend behaves the same; `store/suite.rs` says how.
#[async_trait::async_trait]
pub trait Store: Send + Sync + 'static {
    /// Names who hears of changes from now on, and says which write was the last one before. Writes of records are refused
    /// until this is done.
    ///
    /// # Errors
    /// [`StoreError::SinkAttached`] the second time.
    fn attach_sink(&self, sink: Arc<dyn ChangeSink>) -> Result<Sequence, StoreError>;

    /// Whether the store still takes writes; asks no disk.
    ///
    /// # Errors
    /// [`StoreError::Failed`] with the first failure, when it does not, and [`StoreError::NotReady`] before
    /// [`Store::attach_sink`].
    fn readiness(&self) -> Result<(), StoreError>;

    /// Writes one use case durably.
    ///
    /// # Errors
    /// A conflict, [`StoreError::LimitReached`], [`StoreError::TooLarge`], [`StoreError::Overloaded`] and
    /// [`StoreError::NotReady`] leave everything as it was; [`StoreError::Failed`] stops all writes, and whether this one
    /// will be found after reopening is not known.
    async fn commit(&self, write: Write) -> Result<Committed, StoreError>;

    /// The person of that key.
    ///
    /// # Errors
    /// When the store fails or the value cannot be read.
    async fn individual(&self, id: RecordId) -> Result<Option<Arc<Individual>>, StoreError>;

    /// The persons of those keys, in the order asked; one that does not exist is left out.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn individuals(&self, ids: &[RecordId]) -> Result<Vec<Arc<Individual>>, StoreError>;

    /// The group of that key.
    ///
    /// # Errors
    /// When the store fails or the value cannot be read.
    async fn group(&self, id: RecordId) -> Result<Option<Arc<Group>>, StoreError>;

    /// A person as the record stood at that version, the present one or an older one.
    ///
    /// # Errors
    /// When the store fails or the value cannot be read.
    async fn individual_version(&self, id: RecordId, version: VersionId)
    -> Result<Option<Arc<Individual>>, StoreError>;

    /// A group as the record stood at that version, the present one or an older one.
    ///
    /// # Errors
    /// When the store fails or the value cannot be read.
    async fn group_version(&self, id: RecordId, version: VersionId) -> Result<Option<Arc<Group>>, StoreError>;

    /// The record of that kind and key.
    ///
    /// # Errors
    /// When the store fails or the value cannot be read.
    async fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError>;

    /// The records of those keys, all of one kind, in the order asked; one that does not exist is left out.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn records(&self, kind: RecordKind, ids: &[RecordId]) -> Result<Vec<ChangedRecord>, StoreError>;

    /// A record as it stood at that version, the present one or an older one.
    ///
    /// # Errors
    /// When the store fails or the value cannot be read.
    async fn record_version(
        &self,
        kind: RecordKind,
        id: RecordId,
        version: VersionId,
    ) -> Result<Option<ChangedRecord>, StoreError>;

    /// Up to `limit` records of a kind with keys after `after`, by key, [`SCAN_RECORDS_MAX`] at most.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn scan_records(
        &self,
        kind: RecordKind,
        after: RecordId,
        limit: usize,
    ) -> Result<Vec<ChangedRecord>, StoreError>;

    /// The membership that holds the slot now: the one of that beneficiary in that program that is open.
    ///
    /// # Errors
    /// When the store fails or the value cannot be read.
    async fn open_membership(&self, slot: MembershipSlot) -> Result<Option<RecordId>, StoreError>;

    /// Every record of a kind that carries or carried the identifier, at most `limit`: the one that it still holds for
    /// first, then by key.
    ///
    /// # Errors
    /// When the store fails.
    async fn identifier_owners(
        &self,
        kind: RecordKind,
        key: &IdentifierKey,
        limit: usize,
    ) -> Result<Vec<IdentifierOwner>, StoreError>;

    /// Up to `limit` persons with keys after `after`, by key, [`SCAN_RECORDS_MAX`] at most: how the indexes are built.
    /// Keys count up from 1 without a gap.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn scan_individuals(&self, after: RecordId, limit: usize) -> Result<Vec<Arc<Individual>>, StoreError>;

    /// Up to `limit` groups with keys after `after`, by key, [`SCAN_RECORDS_MAX`] at most.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn scan_groups(&self, after: RecordId, limit: usize) -> Result<Vec<Arc<Group>>, StoreError>;

    /// Every client.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn clients(&self) -> Result<Vec<Client>, StoreError>;

    /// Everything that the deployment decided, each kind by its keys.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn settings(&self) -> Result<Vec<Setting>, StoreError>;

    /// The table of codes and vocabulary versions.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn code_table(&self) -> Result<StoredCodeTable, StoreError>;

    /// Gives numbers to codes and editions that have none yet, durably, and returns the numbers of all, in the order asked.
    ///
    /// # Errors
    /// When the store fails.
    async fn number_codes(
        &self,
        codes: Vec<CodeUri>,
        editions: Vec<(Namespace, String)>,
    ) -> Result<(Vec<CodeNumber>, Vec<EditionNumber>), StoreError>;

    /// Adds lines to the audit log that belong to no write: reads and refusals. May return before they are on disk.
    ///
    /// # Errors
    /// When the store fails.
    async fn append_audit(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError>;

    /// Up to `limit` lines of the audit log, newest first.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn audit(&self, limit: usize) -> Result<Vec<AuditEntry>, StoreError>;

    /// Raises a named counter to at least `value`, durably; it never goes down. Used for the day counts of rate limits.
    ///
    /// # Errors
    /// When the store fails.
    async fn raise_counter(&self, name: &str, value: u64) -> Result<(), StoreError>;

    /// Every counter whose name begins with `prefix`, and its value.
    ///
    /// # Errors
    /// When the store fails.
    async fn counters(&self, prefix: &str) -> Result<Vec<(String, u64)>, StoreError>;

    /// Removes every counter whose name begins with `prefix`.
    ///
    /// # Errors
    /// When the store fails.
    async fn remove_counters(&self, prefix: &str) -> Result<(), StoreError>;
}

/// Whether a write makes changes that a [`ChangeSink`] must hear of.
fn changes_records(write: &Write) -> bool {
    write.operations.iter().any(|operation| match operation {
        Operation::CreateIndividual(_)
        | Operation::UpdateIndividual(..)
        | Operation::CreateGroup(_)
        | Operation::UpdateGroup(..)
        | Operation::Create(_)
        | Operation::Update(..) => true,
        Operation::CreateClient(_)
        | Operation::UpdateClient(..)
        | Operation::PutSetting(_)
        | Operation::RemoveSetting(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_large_is_the_requests_fault_and_too_many_a_conflict() {
        let too_large = StoreError::TooLarge { what: "individual", bytes_max: 1_048_576 };
        let error = AppError::from(too_large);
        let sentence = "the individual is stored in at most 1048576 bytes, and this one takes more: make it smaller";
        assert_eq!(error.to_string(), sentence);
        let AppError::Invalid(problems) = error else { panic!("wrong error: {error}") };
        assert_eq!(problems.iter().map(|problem| problem.code).collect::<Vec<_>>(), ["too_large"]);

        let error = AppError::from(StoreError::LimitReached("too many owners"));
        assert!(matches!(&error, AppError::Conflict(what) if what == "too many owners"), "{error}");
    }
}
