//! Verification: reads everything that a store keeps, and reports what is wrong.
//!
//! The walk and the checks are here, once for every backend. A backend gives its values as they are ([`RawValues`]), and has checks of
//! its own for what only it has: keys, rows that searches read.
//!
//! **Invariant:** nothing is changed. What is written meanwhile is never reported as damage: what looks wrong while others write is
//! checked once more while no write is made.

mod changes;
mod records;
mod values;
mod walk;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;

use daftar_domain::change::ChangedRecord;
use daftar_domain::client::ClientId;
use daftar_domain::error::contain;
use daftar_domain::idempotency::RequestName;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::{PhotoDigest, PhotoReference};
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::verification::{Finding, Part, Remedy, VerificationEvent, number_name, record_name};

use self::walk::Walk;
use super::record::setting::SettingKind;
use super::{IdentifierOwner, SCAN_RECORDS_MAX, StoreError, record};

/// The longest pause between two pages.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// How much of the machine a verification run may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// All that it can.
    Fast,
    /// Half of one processor: a server uses the same store.
    Yielding,
}

/// The tables of a store, in the order in which they are verified: records are compared with codes and changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Parts of the table of codes, by number.
    Codes,
    /// What each write touched, by sequence number.
    Changes,
    /// Records of a kind as they are now, by key.
    Records(RecordKind),
    /// Older versions of records.
    History,
    /// Owners of identifiers.
    Identifiers,
    /// The open membership of each slot.
    OpenMemberships,
    /// Photos.
    Photos,
    /// Idempotency records.
    Requests,
    /// Values of the audit log, by number.
    Audit,
    /// Summaries of the audit log, by the number of the last value of each.
    AuditSummaries,
    /// What the deployment decided.
    Settings,
    /// Clients.
    Clients,
    /// Counters.
    Counters,
    /// Rows that searches read, where the backend has such.
    SearchRows,
    /// What else only this backend has.
    Others,
}

/// One value of a table, as it is stored.
pub enum RawValue {
    /// A numbered value: a part of the table of codes, a change, a value of the audit log or a summary of it.
    Numbered(u64, Vec<u8>),
    /// A record of the table's kind.
    Record(RecordId, Vec<u8>),
    /// An older version.
    Version(RecordKind, RecordId, VersionId),
    /// An identifier that has owners.
    Identifier(RecordKind, IdentifierKey),
    /// A slot of memberships.
    Slot(MembershipSlot),
    /// A photo, or one part of it: all parts of a photo follow one another.
    Photo(PhotoDigest),
    /// An idempotency record.
    Request(RequestName, Vec<u8>),
    /// A setting of a kind, under the bytes of its key.
    Setting(SettingKind, Vec<u8>, Vec<u8>),
    /// A client, under an id.
    Client(String, Vec<u8>),
    /// A counter, or why it cannot be read.
    Counter(String, Result<u64, StoreError>),
    /// A value that the backend checked by itself; with the finding where it is wrong.
    Checked(Option<Finding>),
    /// A numbered value, or a record of the table's kind, that is there and cannot be read.
    Refused(u64, Finding),
}

/// Some values of a table, one after the other.
#[derive(Default)]
pub struct RawPage {
    /// The values.
    pub values: Vec<RawValue>,
    /// Where the next page begins; absent at the end of the table. Of numbered values and of records it is the last number, in eight
    /// bytes of which the first counts most.
    pub next: Option<Vec<u8>>,
    /// Why the table cannot be read on.
    pub unreadable: Option<Finding>,
}

/// A page of a table of records that begins after that record.
#[must_use]
pub fn after_record(id: RecordId) -> Vec<u8> {
    id.0.to_be_bytes().to_vec()
}

/// The owners of an identifier, or why the stored value cannot be read.
pub type RawOwners = Result<Vec<IdentifierOwner>, StoreError>;

/// The membership that holds a slot, or why the stored value cannot be read.
pub type RawHolder = Result<Option<RecordId>, StoreError>;

/// The values of a store as they are, read without trust: what the backend cannot read is a finding, and stops nothing.
///
/// - Atomicity: a backend with snapshots gives the values of one. Another one gives each value as it is when it is read; inside
///   [`RawValues::at_rest`] all of one state.
/// - Order: a table's pages come in the order of its keys. Only tables of records and of numbered values may be begun in the middle.
/// - Durability: nothing is changed.
///
/// Calls may wait for a disk or a database: they belong on threads for blocking work.
pub trait RawValues: Send + Sync + 'static {
    /// Why nothing more can be read, where that is no damage: the connection to the database was lost.
    fn failure(&self) -> Option<StoreError> {
        None
    }

    /// What was wrong before any value was read.
    fn beforehand(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// Whether nothing that is written after the values were begun is among them.
    fn is_snapshot(&self) -> bool {
        false
    }

    /// Whether numbers of the audit log may be missing though nothing was removed.
    fn audit_has_gaps(&self) -> bool {
        false
    }

    /// Up to `limit` values of a table, from where another page says that the next one begins; fewer where they are about a mebibyte.
    fn page(&self, table: Table, after: Option<&[u8]>, limit: usize) -> RawPage;

    /// The greatest number of a table of records or of numbered values.
    fn last_number(&self, table: Table) -> Option<u64>;

    /// The stored value of a record.
    ///
    /// # Errors
    /// The finding that it cannot be read; so for every other call.
    fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<Vec<u8>>, Finding>;

    /// Whether there is a record.
    ///
    /// # Errors
    /// See [`RawValues::record`].
    fn has_record(&self, kind: RecordKind, id: RecordId) -> Result<bool, Finding>;

    /// The stored values of the records of those keys, in their order; one that does not exist is left out.
    ///
    /// # Errors
    /// See [`RawValues::record`].
    fn records(&self, kind: RecordKind, ids: &[RecordId]) -> Result<Vec<(RecordId, Vec<u8>)>, Finding>;

    /// Up to `limit` older versions of a record after that version, in their order; fewer where they are about a mebibyte, and none only
    /// where there are none.
    ///
    /// # Errors
    /// See [`RawValues::record`].
    fn versions(
        &self,
        kind: RecordKind,
        id: RecordId,
        after: VersionId,
        limit: usize,
    ) -> Result<Vec<(VersionId, Vec<u8>)>, Finding>;

    /// The owners of an identifier.
    ///
    /// # Errors
    /// See [`RawValues::record`].
    fn owners(&self, kind: RecordKind, key: &IdentifierKey) -> Result<Option<RawOwners>, Finding>;

    /// The membership that holds a slot.
    ///
    /// # Errors
    /// See [`RawValues::record`].
    fn holder(&self, slot: MembershipSlot) -> Result<Option<RawHolder>, Finding>;

    /// Whether the photo that a record refers to has the length that the record says; absent where there is no such photo.
    ///
    /// # Errors
    /// See [`RawValues::record`].
    fn has_length(&self, photo: PhotoReference) -> Result<Option<bool>, Finding>;

    /// The bytes of a photo.
    ///
    /// # Errors
    /// See [`RawValues::record`].
    fn photo(&self, digest: PhotoDigest) -> Result<Option<Vec<u8>>, Finding>;

    /// What is wrong with the bytes of a photo.
    fn inspect_photo(&self, digest: PhotoDigest) -> Option<Finding>;

    /// Whether there is a client.
    ///
    /// # Errors
    /// See [`RawValues::record`].
    fn has_client(&self, id: &ClientId) -> Result<bool, Finding>;

    /// One numbered value.
    ///
    /// # Errors
    /// See [`RawValues::record`].
    fn numbered(&self, table: Table, number: u64) -> Result<Option<Vec<u8>>, Finding>;

    /// Runs a check while nothing is written, and returns after it; values of a snapshot are checked as they are. Where the database panics
    /// the check ends early.
    ///
    /// # Errors
    /// When the store has stopped.
    fn at_rest(&self, check: AtRest) -> Result<(), StoreError>;
}

/// A check of values while nothing is written. Must not write, wait or take long.
pub type AtRest = Box<dyn FnOnce(&dyn RawValues) + Send>;

/// Verifies all values of a store and reports what it finds: what seems invalid while others write only if it is so while no write is
/// made, too. Takes bounded memory: four bytes a record, and what a few hundred values take. Ends early where the receiver of the events is
/// closed.
///
/// # Errors
/// When the store cannot be read at all. A single value that cannot be read is a finding.
pub async fn verify(
    values: Arc<dyn RawValues>,
    pace: Pace,
    events: Sender<VerificationEvent>,
) -> Result<(), StoreError> {
    for finding in values.beforehand() {
        if events.send(VerificationEvent::Finding(finding)).await.is_err() {
            return Ok(());
        }
    }
    let shared = Arc::new(Mutex::new(Walk::default()));
    loop {
        let started = Instant::now();
        let (read, walk) = (Arc::clone(&values), Arc::clone(&shared));
        let mut page = blocking(move || {
            let mut walk = walk.lock().unwrap_or_else(PoisonError::into_inner);
            let checked = contain(|| walk.page(&*read));
            checked.unwrap_or_else(|_| walk.give_up_part("the database does not understand its own files there"))
        })
        .await?;
        if let Some(error) = values.failure() {
            return Err(error);
        }
        let suspects = std::mem::take(&mut page.suspects);
        if !suspects.is_empty() {
            let (walk, found) = (Arc::clone(&shared), Arc::new(Mutex::new(Vec::new())));
            let into = Arc::clone(&found);
            let again = move |values: &dyn RawValues| {
                let mut walk = walk.lock().unwrap_or_else(PoisonError::into_inner);
                let again = walk.check_again(values, &suspects);
                into.lock().unwrap_or_else(PoisonError::into_inner).extend(again);
            };
            at_rest(&values, again).await?;
            if let Some(error) = values.failure() {
                return Err(error);
            }
            page.findings.append(&mut found.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let progress = VerificationEvent::Progress { part: page.part, done: page.done, total: page.total };
        // A store without rows for searches has no such part.
        let progress = (page.part != Part::Indexes || page.done > 0).then_some(progress);
        for event in page.findings.into_iter().map(VerificationEvent::Finding).chain(progress) {
            if events.send(event).await.is_err() {
                return Ok(());
            }
        }
        if page.is_last {
            return Ok(());
        }
        match pace {
            Pace::Fast => {}
            Pace::Yielding => tokio::time::sleep(started.elapsed().min(PAUSE_MAX)).await,
        }
    }
}

/// Up to `limit` records of a kind with keys after `after`, by key; those that cannot be read are left out, as [`verify`] names them.
/// Returns the key of the last one that was passed, too; none where there is none after.
///
/// # Errors
/// When the database fails.
pub async fn readable_records(
    values: &Arc<dyn RawValues>,
    kind: RecordKind,
    after: RecordId,
    limit: usize,
) -> Result<(Vec<ChangedRecord>, Option<RecordId>), StoreError> {
    let values = Arc::clone(values);
    let read = move || {
        contain(|| {
            let (mut records, mut last) = (Vec::new(), None);
            let after = after_record(after);
            for value in values.page(Table::Records(kind), Some(&after), limit.min(SCAN_RECORDS_MAX)).values {
                let RawValue::Record(id, bytes) = value else { continue };
                last = Some(id);
                records.extend(record::decode_any(kind, id, &bytes).ok());
            }
            (records, last)
        })
    };
    blocking(read).await?.map_err(|_| StoreError::Failed("the database does not understand its own files".into()))
}

/// Hands over the records of those keys, as far as they can be read, while nothing is written.
///
/// # Errors
/// When the database fails.
pub async fn records_at_rest(
    values: &Arc<dyn RawValues>,
    kind: RecordKind,
    ids: Vec<RecordId>,
    check: impl FnOnce(&[ChangedRecord]) + Send + 'static,
) -> Result<(), StoreError> {
    let check = move |values: &dyn RawValues| {
        let records: Vec<ChangedRecord> = ids.iter().filter_map(|id| readable_record(values, kind, *id)).collect();
        check(&records);
    };
    at_rest(values, check).await
}

async fn at_rest(
    values: &Arc<dyn RawValues>,
    check: impl FnOnce(&dyn RawValues) + Send + 'static,
) -> Result<(), StoreError> {
    let values = Arc::clone(values);
    blocking(move || values.at_rest(Box::new(check))).await?
}

/// The record of a key, if it is there and can be read.
fn readable_record(values: &dyn RawValues, kind: RecordKind, id: RecordId) -> Option<ChangedRecord> {
    let bytes = values.record(kind, id).ok()??;
    record::decode_any(kind, id, &bytes).ok()
}

/// What a record is called: by its first identifier, else by its number.
fn name(values: &dyn RawValues, kind: RecordKind, id: RecordId) -> String {
    readable_record(values, kind, id).map_or_else(|| number_name(kind, id), |record| record_name(&record))
}

/// A finding.
pub fn finding(part: Part, place: impl Into<String>, problem: impl Into<String>, remedy: Remedy) -> Finding {
    Finding { part, place: place.into(), problem: problem.into(), remedy }
}

/// The finding that a stored value cannot be decoded, and what to do about it.
pub fn undecodable(part: Part, place: impl Into<String>, error: &StoreError) -> Finding {
    let reason = match error {
        StoreError::Corrupt { what, reason } => format!("the stored {what} cannot be read: {reason}"),
        other => other.to_string(),
    };
    let is_newer = ["its version is", "was stored under revision"].iter().any(|said| reason.contains(said));
    let remedy = if is_newer { Remedy::UseNewer } else { Remedy::Restore };
    finding(part, place, reason, remedy)
}

/// The finding that the database cannot read a value.
pub fn unreadable(error: &dyn std::fmt::Display) -> Finding {
    finding(Part::Files, "the database", format!("a value cannot be read: {error}"), Remedy::Restore)
}

/// Runs something on a thread for blocking work.
///
/// # Errors
/// When the thread panicked.
pub async fn blocking<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(run).await.map_err(|error| StoreError::Failed(error.into()))
}
