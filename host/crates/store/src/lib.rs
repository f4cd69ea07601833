//! Storage of records: the interface that every backend implements.
//!
//! **Invariant:** one operation is one [`Write`]: either all of it is on disk before [`Store::commit`] returns, or
//! nothing of it is written.
//!
//! **Invariant:** records are never physically deleted.
//!
//! **Invariant:** the operations of a write are executed sequentially, and each sees the effects of those before it; an
//! identifier that one operation ends may be used by a later one of the same write, not by an earlier one.
//!
//! **Invariant:** an operation refers to a record that an earlier operation creates by [`RecordId::pending`]; such a
//! key is never stored.
//!
//! **Invariant:** timestamps are stored in milliseconds: finer parts are truncated when they are written, so that a
//! write returns the same value as a later read.
//!
//! Connecting indexes and store at start: open the store, read the records with [`Store::scan_records`], then call
//! [`Store::attach_sink`]. Until then writes of records are rejected, so that no change is missed or reported twice.

pub mod archive;
pub mod audit_log;
mod blocking;
pub mod change_log;
mod error;
pub mod index;
pub mod meters;
pub mod numbering;
pub mod overlay;
pub mod plan;
pub mod record;
pub mod records;
pub mod segment;
pub mod shared;
pub mod snapshot;
#[cfg(any(test, feature = "testing"))]
pub mod suite;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod verify;
mod write;

use std::ops::RangeInclusive;
use std::sync::Arc;

use jiff::Timestamp;

use daftar_domain::audit::AuditEntry;
use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery};
use daftar_domain::change::{Change, ChangedRecord, Details, Sequence};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use daftar_domain::deployment::Setting;
use daftar_domain::field::FieldSet;
use daftar_domain::idempotency::{IdempotencyKey, IdempotentRequest};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::PhotoReference;
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{Record, RecordId, RecordKind, VersionId};

use self::audit_log::{AuditRemoval, AuditRemoved};
pub use self::blocking::blocking;
use self::change_log::{HistoryMark, RegisterId, Touched};
pub use self::error::{BEFORE_FIRST_RELEASE, StoreError};
use self::record::setting::{SettingKind, SettingRange};
pub use self::write::{
    Committed, NewCodes, NumbersGiven, Operation, ReadSet, RecordDetails, Write, Written, changes_records,
};

/// A record with a current or former identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentifierOwner {
    /// The record.
    pub id: RecordId,
    /// True if the identifier is current.
    pub is_open: bool,
}

/// Codes and vocabulary versions ever stored, by their numbers: item `i` has number `i`.
#[derive(Debug, Clone, Default)]
pub struct StoredCodeTable {
    /// The codes.
    pub codes: Vec<CodeUri>,
    /// The versions of vocabularies.
    pub editions: Vec<(Namespace, String)>,
}

/// Maximum number of records that currently or formerly have one identifier.
pub const IDENTIFIER_OWNERS_MAX: usize = 1_000;

/// Maximum number of records that one scan returns.
pub const SCAN_RECORDS_MAX: usize = 10_000;

/// Returns the range of these keys if they are ascending and close together, so that a scan of the range reads at most
/// as many other records.
#[must_use]
pub fn neighbours(ids: &[RecordId]) -> Option<RangeInclusive<RecordId>> {
    let (first, last) = (*ids.first()?, *ids.last()?);
    let span = last.0.checked_sub(first.0)?;
    let is_close = ids.len() > 2 && span < 2 * ids.len() as u64;
    (is_close && ids.is_sorted_by(|one, next| one < next)).then_some(first..=last)
}

/// Is notified by a store of every write of a record. The index in memory implements it, no backend does.
///
/// - Atomicity: one call contains all changes of a write, and may contain those of later ones.
/// - Order: that of the writes. A write is acknowledged after the call.
/// - Durability: the writes are on disk before the call.
/// - A crash loses the state that a receiver has in memory: it is read again before the receiver is attached.
pub trait ChangeSink: Send + Sync + 'static {
    /// Applies the changes of one or more writes. Must not block on IO and must not panic.
    fn apply(&self, changes: &[Change]);
}

/// The storage of a registry: records of every kind and their related data, the audit log, and the change log. Both
/// backends implement it, and [`overlay::Overlay`] on top of either; `store/suite.rs` is this contract as tests.
///
/// - Atomicity: a [`Write`] is executed completely or not at all, with its audit entries, its idempotency record, and
///   all data derived from its records (owners of identifiers, open memberships). So is every other call, except
///   [`Store::append_audit`], whose entries may be written separately, and [`Store::forget_requests`], which may delete
///   some.
/// - Order: writes are ordered and numbered from 1 without gaps, and the [`ChangeSink`] is notified in this order. A
///   read sees every write that was acknowledged to this process before the read began. Several reads may see different
///   states; an [`archive::Snapshot`] is consistent.
/// - Durability: an acknowledged write is on disk, except the entries of [`Store::append_audit`], which follow within
///   [`audit_log::AUDIT_DELAY`].
/// - A crash preserves every acknowledged change, and each other one completely or not at all. It may lose entries of
///   [`Store::append_audit`] that were not on disk. No record returns to an earlier version.
///
/// The overlay of a transaction acknowledges durability only when the complete transaction is written; that of a dry
/// run changes nothing.
#[async_trait::async_trait]
pub trait Store: Send + Sync + 'static {
    /// Attaches the receiver of changes, and returns the last write before. Writes of records are rejected until then.
    ///
    /// # Errors
    /// [`StoreError::SinkAttached`] the second time.
    fn attach_sink(&self, sink: Arc<dyn ChangeSink>) -> Result<Sequence, StoreError>;

    /// Checks that the store accepts writes, without disk access.
    ///
    /// # Errors
    /// [`StoreError::Failed`] with the first failure, if it does not, and [`StoreError::NotReady`] before
    /// [`Store::attach_sink`].
    fn readiness(&self) -> Result<(), StoreError>;

    /// Useful number of concurrent writes of an import: up to two groups that are written together, so that one is
    /// computed while the other is synced. A write of another client waits behind that many at most.
    fn writes_at_once(&self) -> usize {
        256
    }

    /// The overlay with pending writes, if this is the store of a transaction: no index contains them.
    fn pending_writes(&self) -> Option<&overlay::Overlay> {
        None
    }

    /// Executes a write durably.
    ///
    /// # Errors
    /// A conflict, [`StoreError::LimitReached`], [`StoreError::TooLarge`], [`StoreError::Overloaded`] and
    /// [`StoreError::NotReady`] change nothing. [`StoreError::Failed`] stops all writes; the result of this one is
    /// unknown until the store is reopened.
    async fn commit(&self, write: Write) -> Result<Committed, StoreError>;

    /// Executes a write durably, together with its idempotency record. That may refer to records by
    /// [`RecordId::pending`].
    ///
    /// # Errors
    /// As [`Store::commit`]; [`StoreError::AlreadyDone`] if a request with that key is still stored.
    async fn commit_once(&self, write: Write, request: IdempotentRequest) -> Result<Committed, StoreError>;

    /// Returns the idempotency records of a client with that key: of a complete request, and of independent entries.
    /// Some may be stored longer than required.
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    async fn remembered(
        &self,
        client: &ClientId,
        key: &IdempotencyKey,
    ) -> Result<Vec<Arc<IdempotentRequest>>, StoreError>;

    /// Returns the number of idempotency records of a client.
    ///
    /// # Errors
    /// If the store fails.
    async fn remembered_count(&self, client: &ClientId) -> Result<u64, StoreError>;

    /// Deletes expired idempotency records, and returns their number.
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    async fn forget_requests(&self, now: Timestamp) -> Result<u64, StoreError>;

    /// Returns the record of that kind and key.
    ///
    /// # Errors
    /// If the store fails or the value cannot be read.
    async fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError>;

    /// Returns the records of one kind with those keys, in order; missing ones are left out.
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    async fn records(&self, kind: RecordKind, ids: &[RecordId]) -> Result<Vec<ChangedRecord>, StoreError>;

    /// Returns the records of one kind with those keys as [`Self::records`] does, of which the caller requires only
    /// some fields: identifiers and other fields may be absent.
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    async fn records_with(
        &self,
        kind: RecordKind,
        ids: &[RecordId],
        _fields: &FieldSet,
    ) -> Result<Vec<ChangedRecord>, StoreError> {
        self.records(kind, ids).await
    }

    /// Returns the current or an earlier version of a record.
    ///
    /// # Errors
    /// If the store fails or the value cannot be read.
    async fn record_version(
        &self,
        kind: RecordKind,
        id: RecordId,
        version: VersionId,
    ) -> Result<Option<ChangedRecord>, StoreError>;

    /// Returns up to `limit` records of a kind with keys after `after`, by key, at most [`SCAN_RECORDS_MAX`]. Keys
    /// count from 1 without gaps.
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    async fn scan_records(
        &self,
        kind: RecordKind,
        after: RecordId,
        limit: usize,
    ) -> Result<Vec<ChangedRecord>, StoreError>;

    /// Returns the photo of a record; none if it was never stored.
    ///
    /// # Errors
    /// If the store fails or the photo cannot be read.
    async fn photo(&self, reference: PhotoReference) -> Result<Option<Arc<[u8]>>, StoreError>;

    /// Returns the open membership of that beneficiary in that program.
    ///
    /// # Errors
    /// If the store fails or the value cannot be read.
    async fn open_membership(&self, slot: MembershipSlot) -> Result<Option<RecordId>, StoreError>;

    /// Returns the records of a kind that currently or formerly have the identifier, at most `limit`: the current owner
    /// first, then by key.
    ///
    /// # Errors
    /// If the store fails.
    async fn identifier_owners(
        &self,
        kind: RecordKind,
        key: &IdentifierKey,
        limit: usize,
    ) -> Result<Vec<IdentifierOwner>, StoreError>;

    /// Returns every client.
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    async fn clients(&self) -> Result<Vec<Client>, StoreError>;

    /// Returns all settings of the deployment, each kind by its keys; see [`SettingKind::OF_DEPLOYMENT`].
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    async fn settings(&self) -> Result<Vec<Setting>, StoreError>;

    /// Returns the settings of a kind in a range, by key.
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    async fn settings_of(&self, kind: SettingKind, range: SettingRange<'_>) -> Result<Vec<Setting>, StoreError>;

    /// Returns the number of settings of a kind whose keys begin with those bytes.
    ///
    /// # Errors
    /// If the store fails.
    async fn setting_count(&self, kind: SettingKind, prefix: &[u8]) -> Result<u64, StoreError>;

    /// Returns the table of codes and vocabulary versions.
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    async fn code_table(&self) -> Result<StoredCodeTable, StoreError>;

    /// Returns the number of codes in the table.
    ///
    /// # Errors
    /// As [`Store::code_table`].
    async fn code_count(&self) -> Result<u64, StoreError> {
        Ok(self.code_table().await?.codes.len() as u64)
    }

    /// Assigns numbers to unnumbered codes and vocabulary versions, durably, and returns all requested numbers, in
    /// order.
    ///
    /// # Errors
    /// If the store fails.
    async fn number_codes(
        &self,
        codes: Vec<CodeUri>,
        editions: Vec<(Namespace, String)>,
    ) -> Result<(Vec<CodeNumber>, Vec<EditionNumber>), StoreError>;

    /// Appends audit entries that belong to no write: of reads and denied requests. May return before they are on disk.
    ///
    /// # Errors
    /// If the store fails.
    async fn append_audit(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError>;

    /// Searches the entries of the audit log before a position, newest first.
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    async fn audit_page(
        &self,
        query: AuditQuery,
        before: AuditPosition,
        bounds: AuditBounds,
    ) -> Result<AuditPage, StoreError>;

    /// Removes some of the oldest values of the audit log, all of whose entries are old enough, and reports the
    /// removal, in one write; returns nothing if there is none. The entries of a value are removed together. Younger
    /// values are skipped, up to [`audit_log::REMOVAL_PASSED_OVER_MAX`].
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    async fn remove_audit(&self, removal: AuditRemoval) -> Result<Option<AuditRemoved>, StoreError>;

    /// Returns the id of the register.
    ///
    /// # Errors
    /// If the store fails.
    async fn register_id(&self) -> Result<RegisterId, StoreError>;

    /// Returns the changes of up to `limit` writes after that one, in order, at most [`change_log::CHANGES_MAX`].
    ///
    /// # Errors
    /// If the store fails, a value cannot be read, or a write is missing.
    async fn changes_after(&self, after: Sequence, limit: usize) -> Result<Vec<Touched>, StoreError>;

    /// Returns the mark of the history up to that write; none if there is no such write.
    ///
    /// # Errors
    /// If the store fails.
    async fn history_mark(&self, at: Sequence) -> Result<Option<HistoryMark>, StoreError>;

    /// Raises a named counter to at least `value`, durably; it never decreases. Used for daily counts of rate limits.
    ///
    /// # Errors
    /// If the store fails.
    async fn raise_counter(&self, name: &str, value: u64) -> Result<(), StoreError>;

    /// Returns the counter with that name; none if it was never raised.
    ///
    /// # Errors
    /// If the store fails.
    async fn counter(&self, name: &str) -> Result<Option<u64>, StoreError>;

    /// Returns every counter whose name begins with `prefix`, and its value.
    ///
    /// # Errors
    /// If the store fails.
    async fn counters(&self, prefix: &str) -> Result<Vec<(String, u64)>, StoreError>;

    /// Removes every counter whose name begins with `prefix`.
    ///
    /// # Errors
    /// If the store fails.
    async fn remove_counters(&self, prefix: &str) -> Result<(), StoreError>;
}

/// Reads of one kind of record, by the type of its details.
impl dyn Store + '_ {
    /// Returns the record with that key: see [`Store::record`].
    ///
    /// # Errors
    /// If the store fails or the value cannot be read.
    pub async fn find<D: Details>(&self, id: RecordId) -> Result<Option<Arc<Record<D>>>, StoreError> {
        Ok(self.record(D::KIND, id).await?.and_then(D::of))
    }

    /// Returns the records with those keys: see [`Store::records`].
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    pub async fn find_all<D: Details>(&self, ids: &[RecordId]) -> Result<Vec<Arc<Record<D>>>, StoreError> {
        Ok(self.records(D::KIND, ids).await?.into_iter().filter_map(D::of).collect())
    }

    /// Returns some fields of the records with those keys: see [`Store::records_with`].
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    pub async fn find_fields<D: Details>(
        &self,
        ids: &[RecordId],
        fields: &FieldSet,
    ) -> Result<Vec<Arc<Record<D>>>, StoreError> {
        Ok(self.records_with(D::KIND, ids, fields).await?.into_iter().filter_map(D::of).collect())
    }

    /// Returns a version of a record: see [`Store::record_version`].
    ///
    /// # Errors
    /// If the store fails or the value cannot be read.
    pub async fn find_version<D: Details>(
        &self,
        id: RecordId,
        version: VersionId,
    ) -> Result<Option<Arc<Record<D>>>, StoreError> {
        Ok(self.record_version(D::KIND, id, version).await?.and_then(D::of))
    }

    /// Returns records with keys after `after`: see [`Store::scan_records`].
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    pub async fn scan<D: Details>(&self, after: RecordId, limit: usize) -> Result<Vec<Arc<Record<D>>>, StoreError> {
        Ok(self.scan_records(D::KIND, after, limit).await?.into_iter().filter_map(D::of).collect())
    }
}
