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
//! **Invariant:** an operation names a record that an operation before it creates by [`RecordId::pending`]; such a key is never
//! stored.
//!
//! **Invariant:** instants are kept to the millisecond: what is finer is cut off when it is written, so that what a write
//! returns is what a later read gives.
//!
//! How the indexes and the store come together at start: open the store, read the records with
//! [`Store::scan_records`], then [`Store::attach_sink`]. Writes of records are refused until then, so that no change is
//! missed or told twice.

pub mod archive;
pub mod audit_log;
pub mod change_feed;
pub mod change_log;
mod error;
pub mod index;
pub mod meters;
pub mod numbering;
pub mod overlay;
pub mod partition;
pub mod plan;
pub mod record;
pub mod records;
pub mod segment;
pub mod shared;
#[cfg(any(test, feature = "testing"))]
pub mod suite;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod verify;
mod write;

use std::sync::Arc;

use jiff::Timestamp;

use daftar_domain::audit::AuditEntry;
use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery};
use daftar_domain::change::{Change, ChangedRecord, Details, Sequence};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use daftar_domain::deployment::Setting;
use daftar_domain::idempotency::{IdempotencyKey, RememberedRequest};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::PhotoReference;
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{Record, RecordId, RecordKind, VersionId};

use self::audit_log::{AuditRemoval, AuditRemoved};
use self::change_log::{HistoryMark, RegisterId, Touched};
pub use self::error::{BEFORE_FIRST_RELEASE, StoreError};
pub use self::write::{
    Committed, NewCodes, NumbersGiven, Operation, ReadSet, RecordDetails, Write, Written, changes_records,
};

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

/// The most records that carry or carried one identifier.
pub const IDENTIFIER_OWNERS_MAX: usize = 1_000;

/// The most records that one scan gives, whatever is asked.
pub const SCAN_RECORDS_MAX: usize = 10_000;

/// Is notified of every write of a record, in order, after it is on disk and before it is acknowledged. The index in memory implements it.
pub trait ChangeSink: Send + Sync + 'static {
    /// Takes the changes of one or more writes. Must not block on IO and must not panic.
    fn apply(&self, changes: &[Change]);
}

/// A registry's storage: records of every kind and what is kept beside them, the audit log, and the order of writes. Both backends implement
/// it, and [`overlay::Overlay`] on top of either; `store/suite.rs` is this contract as tests.
///
/// - Atomicity: a [`Write`] is made whole or not at all, with its audit entries, the request that is remembered with it, and everything
///   that follows from its records (owners of identifiers, open memberships). Every other call makes its change whole or not at all,
///   except [`Store::append_audit`], whose entries may be written apart, and [`Store::forget_requests`], which may forget some.
/// - Order: writes have one order, in which they are numbered from 1 without a gap and the [`ChangeSink`] is notified of them. A read sees
///   every write that was acknowledged to this process before the read began. Reads that belong together are not of one state; a
///   [`archive::Snapshot`] is.
/// - Durability: what is acknowledged is on disk, except the entries of [`Store::append_audit`], which follow within
///   [`audit_log::AUDIT_DELAY`].
/// - A crash leaves every acknowledged change, of the others each whole or none of it, and may lose entries of
///   [`Store::append_audit`] that were not on disk yet. No record becomes older by it.
///
/// The overlay of a transaction acknowledges what is on disk only when the whole is written; that of a dry run changes nothing.
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

    /// How many writes of one import are worth having on their way at once: up to two groups of what is written together, so that one
    /// is worked out while the other is told of. A write of somebody else waits behind so many at most.
    fn writes_at_once(&self) -> usize {
        256
    }

    /// The writes that are kept back on top of a store, where this is the store of a transaction: no index knows them.
    fn pending_writes(&self) -> Option<&overlay::Overlay> {
        None
    }

    /// Writes one use case durably.
    ///
    /// # Errors
    /// A conflict, [`StoreError::LimitReached`], [`StoreError::TooLarge`], [`StoreError::Overloaded`] and
    /// [`StoreError::NotReady`] leave everything as it was; [`StoreError::Failed`] stops all writes, and whether this one
    /// will be found after reopening is not known.
    async fn commit(&self, write: Write) -> Result<Committed, StoreError>;

    /// Writes one use case durably, and with it how the request that asked for it was answered. Its records may be named by
    /// [`RecordId::pending`].
    ///
    /// # Errors
    /// As [`Store::commit`]; [`StoreError::AlreadyDone`] when a request of that name is remembered still.
    async fn commit_once(&self, write: Write, request: RememberedRequest) -> Result<Committed, StoreError>;

    /// What is remembered of the requests that a client called so: of the whole, and of entries done each by itself. Some may be
    /// remembered longer than they are kept.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn remembered(
        &self,
        client: &ClientId,
        key: &IdempotencyKey,
    ) -> Result<Vec<Arc<RememberedRequest>>, StoreError>;

    /// How many requests of a client are remembered.
    ///
    /// # Errors
    /// When the store fails.
    async fn remembered_count(&self, client: &ClientId) -> Result<u64, StoreError>;

    /// Forgets the requests that are not kept any more, and says how many these were.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn forget_requests(&self, now: Timestamp) -> Result<u64, StoreError>;

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

    /// Up to `limit` records of a kind with keys after `after`, by key, [`SCAN_RECORDS_MAX`] at most. Keys count up from 1 without a gap.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn scan_records(
        &self,
        kind: RecordKind,
        after: RecordId,
        limit: usize,
    ) -> Result<Vec<ChangedRecord>, StoreError>;

    /// The photo that a record has; none where it was never put.
    ///
    /// # Errors
    /// When the store fails or the photo cannot be read.
    async fn photo(&self, reference: PhotoReference) -> Result<Option<Arc<[u8]>>, StoreError>;

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

    /// Looks through the lines of the audit log before a place, newest first.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn audit_page(
        &self,
        query: AuditQuery,
        before: AuditPosition,
        bounds: AuditBounds,
    ) -> Result<AuditPage, StoreError>;

    /// Removes some of the oldest stored values of the audit log, none of whose lines is young enough to stay, and tells of it, in one
    /// write. Nothing when there is nothing more to remove. What one value holds is removed together, once all of it is old enough. What
    /// stays is passed over, up to [`audit_log::REMOVAL_PASSED_OVER_MAX`] values.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn remove_audit(&self, removal: AuditRemoval) -> Result<Option<AuditRemoved>, StoreError>;

    /// The register's own id.
    ///
    /// # Errors
    /// When the store fails.
    async fn register_id(&self) -> Result<RegisterId, StoreError>;

    /// What up to `limit` writes after that one touched, in their order, [`change_log::CHANGES_MAX`] at most.
    ///
    /// # Errors
    /// When the store fails, a value cannot be read, or a write is missing.
    async fn changes_after(&self, after: Sequence, limit: usize) -> Result<Vec<Touched>, StoreError>;

    /// The mark of the history up to that write; absent where that write was never made.
    ///
    /// # Errors
    /// When the store fails.
    async fn history_mark(&self, at: Sequence) -> Result<Option<HistoryMark>, StoreError>;

    /// Raises a named counter to at least `value`, durably; it never goes down. Used for the day counts of rate limits.
    ///
    /// # Errors
    /// When the store fails.
    async fn raise_counter(&self, name: &str, value: u64) -> Result<(), StoreError>;

    /// The counter of exactly that name; nothing where it was never raised.
    ///
    /// # Errors
    /// When the store fails.
    async fn counter(&self, name: &str) -> Result<Option<u64>, StoreError>;

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

/// The reads of one kind of record, by the type of its details.
impl dyn Store + '_ {
    /// The record with that key: see [`Store::record`].
    ///
    /// # Errors
    /// When the store fails or the value cannot be read.
    pub async fn find<D: Details>(&self, id: RecordId) -> Result<Option<Arc<Record<D>>>, StoreError> {
        Ok(self.record(D::KIND, id).await?.and_then(D::of))
    }

    /// The records with those keys: see [`Store::records`].
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    pub async fn find_all<D: Details>(&self, ids: &[RecordId]) -> Result<Vec<Arc<Record<D>>>, StoreError> {
        Ok(self.records(D::KIND, ids).await?.into_iter().filter_map(D::of).collect())
    }

    /// A record as it stood at that version: see [`Store::record_version`].
    ///
    /// # Errors
    /// When the store fails or the value cannot be read.
    pub async fn find_version<D: Details>(
        &self,
        id: RecordId,
        version: VersionId,
    ) -> Result<Option<Arc<Record<D>>>, StoreError> {
        Ok(self.record_version(D::KIND, id, version).await?.and_then(D::of))
    }

    /// Records with keys after `after`: see [`Store::scan_records`].
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    pub async fn scan<D: Details>(&self, after: RecordId, limit: usize) -> Result<Vec<Arc<Record<D>>>, StoreError> {
        Ok(self.scan_records(D::KIND, after, limit).await?.into_iter().filter_map(D::of).collect())
    }
}
