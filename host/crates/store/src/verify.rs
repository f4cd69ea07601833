//! Verification: reads all data of a store, and reports damage.
//!
//! The walk and the checks are here, once for every backend. A backend provides its raw values ([`RawValues`]), and has
//! checks of its own for data that only it has: keys, search rows.
//!
//! **Invariant:** verification is read-only. Concurrent writes are never reported as damage: a suspected damage is
//! checked again while no write is executed.

mod changes;
mod records;
mod values;
mod walk;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;

use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::client::ClientId;
use daftar_domain::error::contain;
use daftar_domain::hexadecimal;
use daftar_domain::idempotency::RequestName;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::{PhotoDigest, PhotoReference};
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::verification::{Finding, Part, Remedy, VerificationEvent, number_name, record_name};

use self::walk::Walk;
use super::change_log::Touched;
use super::record::setting::SettingKind;
use super::{IdentifierOwner, SCAN_RECORDS_MAX, StoreError, blocking, record};

/// Maximum pause between two pages.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Resource usage of a verification run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Unlimited.
    Fast,
    /// Half of one processor: a server uses the same store.
    Yielding,
}

/// The tables of a store, in the order of their verification: records are compared with codes and changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Parts of the table of codes, by number.
    Codes,
    /// The records touched by each write, by sequence number.
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
    /// Settings of the deployment.
    Settings,
    /// Clients.
    Clients,
    /// Counters.
    Counters,
    /// Search rows, if the backend has them.
    SearchRows,
    /// Other data of a backend.
    Others,
}

/// A stored value of a table.
pub enum RawValue {
    /// A numbered value: a part of the table of codes, a change log entry, a value of the audit log or a summary of it.
    Numbered(u64, Vec<u8>),
    /// A record of the table's kind.
    Record(RecordId, Vec<u8>),
    /// An older version.
    Version(RecordKind, RecordId, VersionId),
    /// An identifier that has owners.
    Identifier(RecordKind, IdentifierKey),
    /// A slot of memberships.
    Slot(MembershipSlot),
    /// A photo, or a part of it: all parts of a photo are consecutive.
    Photo(PhotoDigest),
    /// An idempotency record.
    Request(RequestName, Vec<u8>),
    /// A setting of a kind, under the bytes of its key.
    Setting(SettingKind, Vec<u8>, Vec<u8>),
    /// A client, under an id.
    Client(String, Vec<u8>),
    /// A counter, or the error of reading it.
    Counter(String, Result<u64, StoreError>),
    /// A value that the backend has checked, with its finding if it is invalid.
    Checked(Option<Finding>),
    /// A numbered value, or a record of the table's kind, that exists but cannot be read.
    Refused(u64, Finding),
}

/// Consecutive values of a table.
#[derive(Default)]
pub struct RawPage {
    /// The values.
    pub values: Vec<RawValue>,
    /// Position of the next page; absent at the end of the table. For numbered values and records it is the last
    /// number, in eight bytes, big endian.
    pub next: Option<Vec<u8>>,
    /// Reason why the rest of the table cannot be read.
    pub unreadable: Option<Finding>,
}

/// A page of a table of records that begins after that record.
#[must_use]
pub fn after_record(id: RecordId) -> Vec<u8> {
    id.0.to_be_bytes().to_vec()
}

/// A page of the settings that begins after that key of a kind, for a backend without snapshots.
#[must_use]
pub fn after_setting(kind: SettingKind, key: &[u8]) -> Vec<u8> {
    [&[kind as u8], key].concat()
}

/// The owners of an identifier, or the error of reading them.
pub type RawOwners = Result<Vec<IdentifierOwner>, StoreError>;

/// The open membership of a slot, or the error of reading it.
pub type RawHolder = Result<Option<RecordId>, StoreError>;

/// The raw values of a store: an unreadable value is a finding, and does not stop the verification.
///
/// - Atomicity: a backend with snapshots returns the values of one. Another one returns each value at the time it is
///   read; inside [`RawValues::at_rest`] all values are of one state.
/// - Order: the pages of a table are in the order of its keys; settings are in the order of their kinds. Only tables of
///   records and of numbered values may be begun in the middle, and settings of a backend without snapshots. A backend
///   with snapshots reads the pages of one other table at a time.
/// - Durability: read-only.
/// - A crash of the process ends the reading without a trace. After a crash of a database the values are incomplete, and
///   [`RawValues::failure`] returns the reason: the caller reports it, and no damage.
///
/// Calls may wait for a disk or a database: they belong on threads for blocking work.
pub trait RawValues: Send + Sync + 'static {
    /// The reason why no more values can be read, if it is no damage: the connection to the database was lost.
    fn failure(&self) -> Option<StoreError> {
        None
    }

    /// Findings before any value was read.
    fn beforehand(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// True if concurrent writes are invisible.
    fn is_snapshot(&self) -> bool {
        false
    }

    /// Up to which number values of the audit log may be missing without a removal, as the numbers of a database, and at
    /// least how many there are up to that number.
    fn audit_gaps(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Returns up to `limit` values of a table from a page's `next` position; fewer if they exceed about a mebibyte.
    fn page(&self, table: Table, after: Option<&[u8]>, limit: usize) -> RawPage;

    /// The last number of a table of records or of numbered values.
    fn last_number(&self, table: Table) -> Option<u64>;

    /// The stored value of a record.
    ///
    /// # Errors
    /// The finding that it cannot be read, as for every other call.
    fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<Vec<u8>>, Finding>;

    /// True if the record exists.
    ///
    /// # Errors
    /// See [`RawValues::record`].
    fn has_record(&self, kind: RecordKind, id: RecordId) -> Result<bool, Finding>;

    /// The stored values of the records with those keys, in order; missing ones are left out.
    ///
    /// # Errors
    /// See [`RawValues::record`].
    fn records(&self, kind: RecordKind, ids: &[RecordId]) -> Result<Vec<(RecordId, Vec<u8>)>, Finding>;

    /// Up to `limit` earlier versions of a record after that version, in order; fewer if they exceed about a mebibyte,
    /// and none only if there are none.
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

    /// The open membership of a slot.
    ///
    /// # Errors
    /// See [`RawValues::record`].
    fn holder(&self, slot: MembershipSlot) -> Result<Option<RawHolder>, Finding>;

    /// True if the photo has the length in its reference; absent if there is no such photo.
    ///
    /// # Errors
    /// See [`RawValues::record`].
    fn has_length(&self, photo: PhotoReference) -> Result<Option<bool>, Finding>;

    /// The bytes of a photo.
    ///
    /// # Errors
    /// See [`RawValues::record`].
    fn photo(&self, digest: PhotoDigest) -> Result<Option<Vec<u8>>, Finding>;

    /// The finding for an invalid photo, if any.
    fn inspect_photo(&self, digest: PhotoDigest) -> Option<Finding>;

    /// True if the client exists.
    ///
    /// # Errors
    /// See [`RawValues::record`].
    fn has_client(&self, id: &ClientId) -> Result<bool, Finding>;

    /// One numbered value.
    ///
    /// # Errors
    /// See [`RawValues::record`].
    fn numbered(&self, table: Table, number: u64) -> Result<Option<Vec<u8>>, Finding>;

    /// Runs a check without concurrent writes, and returns after it; a snapshot needs no protection. If the database
    /// panics the check ends early.
    ///
    /// # Errors
    /// If the store has stopped.
    fn at_rest(&self, check: AtRest) -> Result<(), StoreError>;
}

/// A check without concurrent writes. Must not write, wait or take long.
pub type AtRest = Box<dyn FnOnce(&dyn RawValues) + Send>;

/// Verifies all values of a store and reports its findings; suspected damage is checked again without concurrent
/// writes. Takes limited memory: four bytes a record, and the size of a few hundred values. Ends early if the receiver
/// of the events is closed.
///
/// # Errors
/// If the store cannot be read at all. A single unreadable value is a finding.
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
            checked.unwrap_or_else(|_| walk.give_up_part("the database files are corrupt there"))
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
            page.findings.append(&mut found.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let progress = VerificationEvent::Progress { part: page.part, done: page.done, total: page.total };
        // A store without search rows has no such part.
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

/// Returns up to `limit` records of a kind with keys after `after`, by key, without unreadable ones, which [`verify`]
/// reports. Also returns the last key of the page; none at the end.
///
/// # Errors
/// If the database fails.
pub async fn readable_records(
    values: &Arc<dyn RawValues>,
    kind: RecordKind,
    after: RecordId,
    limit: usize,
) -> Result<(Vec<ChangedRecord>, Option<RecordId>), StoreError> {
    let (failure, values) = (values, Arc::clone(values));
    let read = move || {
        contain(|| {
            let (mut records, mut last) = (Vec::new(), None);
            let after = after_record(after);
            for value in values.page(Table::Records(kind), Some(&after), limit.min(SCAN_RECORDS_MAX)).values {
                match value {
                    RawValue::Record(id, bytes) => {
                        last = Some(id);
                        records.extend(record::decode_any(kind, id, &bytes).ok());
                    }
                    RawValue::Refused(number, _) => last = Some(RecordId(number)),
                    _ => {}
                }
            }
            (records, last)
        })
    };
    let read = blocking(read).await?.map_err(|_| StoreError::Failed("the database files are corrupt".into()))?;
    failure.failure().map_or(Ok(read), Err)
}

/// Returns the records touched by up to `limit` writes after that one, as [`super::Store::changes_after`] does; fewer
/// only at the end, or if the values exceed about a mebibyte.
///
/// # Errors
/// If the database fails, a value cannot be read, or a write is missing.
pub async fn changes_after(
    values: &Arc<dyn RawValues>,
    after: Sequence,
    limit: usize,
) -> Result<Vec<Touched>, StoreError> {
    let values = Arc::clone(values);
    let read = move || {
        let page = values.page(Table::Changes, Some(&after.0.to_be_bytes()), limit);
        if let Some(error) = values.failure() {
            return Err(error);
        }
        let corrupt = |reason: String| StoreError::Corrupt { what: "order of writes", reason };
        let mut changes = Vec::with_capacity(page.values.len());
        let mut expected = after.next();
        for value in page.values {
            let (number, value) = match value {
                RawValue::Numbered(number, value) => (number, value),
                RawValue::Refused(_, finding) | RawValue::Checked(Some(finding)) => {
                    return Err(corrupt(finding.problem));
                }
                _ => continue,
            };
            if number != expected.0 {
                return Err(corrupt("a write is missing".to_owned()));
            }
            changes.push(Touched { sequence: expected, records: record::change::touched(&value)? });
            expected = expected.next();
        }
        page.unreadable.map_or(Ok(changes), |finding| Err(corrupt(finding.problem)))
    };
    blocking(move || contain(read)).await?.map_err(|_| StoreError::Failed("the database files are corrupt".into()))?
}

/// Returns the readable records with those keys, in order.
///
/// # Errors
/// If the database fails.
pub async fn readable_by_key(
    values: &Arc<dyn RawValues>,
    kind: RecordKind,
    ids: Vec<RecordId>,
) -> Result<Vec<ChangedRecord>, StoreError> {
    let (failure, values) = (values, Arc::clone(values));
    let read = move || match values.records(kind, &ids) {
        Ok(found) => found.iter().filter_map(|(id, bytes)| record::decode_any(kind, *id, bytes).ok()).collect(),
        Err(_) => ids.iter().filter_map(|id| readable_record(&*values, kind, *id)).collect::<Vec<_>>(),
    };
    let read = blocking(move || contain(read)).await?;
    let read = read.map_err(|_| StoreError::Failed("the database files are corrupt".into()))?;
    failure.failure().map_or(Ok(read), Err)
}

/// Passes on the readable records with those keys, without concurrent writes.
///
/// # Errors
/// If the database fails.
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
    let (failure, values) = (values, Arc::clone(values));
    blocking(move || values.at_rest(Box::new(check))).await??;
    failure.failure().map_or(Ok(()), Err)
}

/// The record with that key, if it exists and can be read.
fn readable_record(values: &dyn RawValues, kind: RecordKind, id: RecordId) -> Option<ChangedRecord> {
    let bytes = values.record(kind, id).ok()??;
    record::decode_any(kind, id, &bytes).ok()
}

/// The name of a record: its first identifier, or its number.
fn name(values: &dyn RawValues, kind: RecordKind, id: RecordId) -> String {
    readable_record(values, kind, id).map_or_else(|| number_name(kind, id), |record| record_name(&record))
}

/// A finding.
pub fn finding(part: Part, place: impl Into<String>, problem: impl Into<String>, remedy: Remedy) -> Finding {
    Finding { part, place: place.into(), problem: problem.into(), remedy }
}

/// The finding for a stored value that cannot be decoded, with its remedy.
pub fn undecodable(part: Part, place: impl Into<String>, error: &StoreError) -> Finding {
    let reason = match error {
        StoreError::Corrupt { what, reason } => format!("the stored {what} cannot be read: {reason}"),
        other => other.to_string(),
    };
    let is_newer = ["its version is", "was stored under revision"].iter().any(|message| reason.contains(message));
    let remedy = if is_newer { Remedy::UseNewer } else { Remedy::Restore };
    finding(part, place, reason, remedy)
}

/// The name of a photo in findings.
#[must_use]
pub fn photo_name(digest: PhotoDigest) -> String {
    format!("the photo with the digest {}…", hexadecimal::encode(digest.0.iter().take(8)))
}

/// The finding for a value that the database cannot read.
pub fn unreadable(error: &dyn std::fmt::Display) -> Finding {
    finding(Part::Files, "the database", format!("a value cannot be read: {error}"), Remedy::Restore)
}
