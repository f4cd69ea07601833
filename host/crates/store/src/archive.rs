//! Snapshots of a store for backups: all data that cannot be derived from other data, at the state after one write.
//!
//! Owners of identifiers, open memberships and the search index of the audit log are derived from the records and the
//! audit entries, and rebuilt when a store is filled.
//!
//! **Invariant:** a snapshot contains exactly the state after one write, the [`Mark`]'s, however long it is read. Reads
//! and writes continue concurrently. What is deleted without history while it is read may be missing: old audit log
//! values and rule drafts. The last version of a rule draft that was created and deleted while it is read, which has no
//! content, may be added.
//!
//! **Invariant:** values are transferred in their stored forms (`record`), so that a backup is readable as long as
//! these are, independent of the backends that write and read it.

mod walk;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::{self, Stream, StreamExt as _};

pub use self::walk::{Fixed, PresentOnly, present_only, since, snapshot};
pub use super::record::setting::SettingKind;
use crate::StoreError;
use crate::audit_log::REMOVAL_PASSED_OVER_MAX;
use crate::change_log::RegisterId;
use crate::verify::RawValues;
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::config::StoreBackend;
use daftar_domain::idempotency::RequestName;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::PhotoDigest;
use daftar_domain::record::{RecordId, RecordKind, VersionId};

/// A stored item.
#[derive(Clone, PartialEq, Eq)]
pub enum Entry {
    /// A setting of the deployment.
    Setting {
        /// Its kind.
        kind: SettingKind,
        /// Its stored form.
        value: Vec<u8>,
    },
    /// A client.
    Client {
        /// Its stored form.
        value: Vec<u8>,
    },
    /// A counter.
    Counter {
        /// Its name.
        name: String,
        /// Its value.
        value: u64,
    },
    /// A part of the table of numbered codes and vocabulary versions.
    CodeTablePart {
        /// Number of the part, from 0.
        number: u64,
        /// Its stored form.
        value: Vec<u8>,
    },
    /// An idempotency record.
    Request {
        /// Its key.
        name: RequestName,
        /// Its stored form.
        value: Vec<u8>,
    },
    /// A photo, before the first version of a record that has it. May be repeated.
    Photo {
        /// Its key.
        digest: PhotoDigest,
        /// The photo.
        bytes: Arc<[u8]>,
    },
    /// A version of a record. All versions of a record are consecutive, in order.
    Version {
        /// Kind of the record.
        kind: RecordKind,
        /// Its key.
        id: RecordId,
        /// The version number.
        version: VersionId,
        /// True for the current version.
        is_present: bool,
        /// Its stored form.
        value: Vec<u8>,
    },
    /// The records changed by a write.
    Change {
        /// Its sequence number.
        sequence: Sequence,
        /// Its stored form.
        value: Vec<u8>,
    },
    /// A value of the audit log with consecutive entries.
    Audit {
        /// Its number in the log.
        number: u64,
        /// Their stored form.
        value: Vec<u8>,
    },
}

impl Entry {
    /// Kind of the item.
    #[must_use]
    pub fn kind(&self) -> ItemKind {
        match self {
            Self::Setting { .. } => ItemKind::Settings,
            Self::Client { .. } => ItemKind::Clients,
            Self::Counter { .. } => ItemKind::Counters,
            Self::CodeTablePart { .. } => ItemKind::CodeTableParts,
            Self::Request { .. } => ItemKind::Requests,
            Self::Photo { .. } => ItemKind::Photos,
            Self::Version { is_present: false, .. } => ItemKind::OlderVersions,
            Self::Version { kind, is_present: true, .. } => ItemKind::of_kind(*kind),
            Self::Change { .. } => ItemKind::Changes,
            Self::Audit { .. } => ItemKind::AuditValues,
        }
    }

    /// Approximate memory of the item, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let value = match self {
            Self::Setting { value, .. }
            | Self::Client { value }
            | Self::CodeTablePart { value, .. }
            | Self::Request { value, .. }
            | Self::Version { value, .. }
            | Self::Change { value, .. }
            | Self::Audit { value, .. } => value.len(),
            Self::Counter { name, .. } => name.len(),
            Self::Photo { bytes, .. } => bytes.len(),
        };
        value.saturating_add(size_of::<Self>())
    }
}

/// Keeps the content of records out of logs.
impl fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Entry({}, {} bytes)", self.kind().name(), self.bytes())
    }
}

daftar_domain::named_enum! {
    /// Kinds of items, for counts.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ItemKind {
        /// Current individuals.
        Individuals = "individuals",
        /// Current groups.
        Groups = "groups",
        /// Current programs.
        Programs = "programs",
        /// Current memberships.
        ProgramMemberships = "program_memberships",
        /// Current consents.
        Consents = "consents",
        /// Earlier versions of records.
        OlderVersions = "older_versions",
        /// Photos.
        Photos = "photos",
        /// Clients.
        Clients = "clients",
        /// Settings of the deployment.
        Settings = "settings",
        /// Parts of the table of codes.
        CodeTableParts = "code_table_parts",
        /// Counters.
        Counters = "counters",
        /// Idempotency records.
        Requests = "requests",
        /// Entries of the change log.
        Changes = "changes",
        /// Values of the audit log, each with several entries.
        AuditValues = "audit_values",
    }
}

impl ItemKind {
    /// Kind of the current records of that kind.
    #[must_use]
    pub fn of_kind(kind: RecordKind) -> Self {
        match kind {
            RecordKind::Individual => Self::Individuals,
            RecordKind::Group => Self::Groups,
            RecordKind::Program => Self::Programs,
            RecordKind::ProgramMembership => Self::ProgramMemberships,
            RecordKind::Consent => Self::Consents,
        }
    }
}

/// The write that a snapshot contains as its last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The id of the register.
    pub register: RegisterId,
    /// Its sequence number, which is also the number of writes.
    pub sequence: Sequence,
    /// The last key of each kind of record, which is also the number of records.
    pub records: [(RecordKind, u64); 5],
}

/// Reads a complete store: for backups, migration and incremental migration into another store, and verification. Every
/// backend implements it.
///
/// - Atomicity: a [`Snapshot`] is exactly the state after one write, its [`Mark`]'s, however long it is read; reads and
///   writes continue concurrently, and wait no longer for it than for another write.
/// - Order: settings (rule drafts first), clients, counters, parts of the table of codes, idempotency records, records
///   by kind and key (each after its photos, with its versions in order), change log, audit log. Numbered items are in
///   the order of their numbers.
/// - Durability: read-only. The items of a snapshot are on disk in the source store.
/// - A crash ends the snapshot without a trace.
#[async_trait::async_trait]
pub trait Archive: Send + Sync + 'static {
    /// Begins a snapshot of all items.
    ///
    /// # Errors
    /// If the store fails or a value cannot be read.
    async fn snapshot(&self) -> Result<Snapshot, StoreError>;

    /// Returns the last values of this store, and its values at the last numbers of the other store.
    ///
    /// # Errors
    /// If the store fails.
    async fn ends(&self, held: &Held) -> Result<Ends, StoreError>;

    /// Begins a snapshot of the changes since another store was filled from this one, in time proportional to the
    /// changes: unchanged records are not read. In the order of a complete snapshot it contains
    /// - all settings, clients, counters and idempotency records;
    /// - parts of the table of codes and entries of the change log after those of the other store;
    /// - every record changed by these writes, with all its versions and their photos;
    /// - the oldest values of the audit log, [`OLDEST_AUDIT`] of those in the other store, then the one that reports
    ///   the last removal before it, then the newer ones.
    ///
    /// # Errors
    /// If the store fails or a value cannot be read; [`StoreError::LimitReached`] if too many records were changed.
    async fn since(&self, held: &Held) -> Result<Snapshot, StoreError>;

    /// Returns the raw values for verification.
    ///
    /// # Errors
    /// If the store cannot be read at all.
    async fn raw_values(&self) -> Result<Arc<dyn RawValues>, StoreError>;
}

/// The items of a snapshot, in steps.
type Steps = Pin<Box<dyn Stream<Item = Result<Vec<Entry>, StoreError>> + Send>>;

/// A store, or a backup file, at the state after one write, read step by step.
pub struct Snapshot {
    mark: Mark,
    /// Absent after a failure.
    steps: Option<Steps>,
}

impl Snapshot {
    /// A snapshot at that write. `next` consumes the source and returns it with the next items; none at the end.
    pub fn new<S, F>(mark: Mark, source: S, next: impl Fn(S) -> F + Send + 'static) -> Self
    where
        S: Send + 'static,
        F: Future<Output = Result<(S, Vec<Entry>), StoreError>> + Send + 'static,
    {
        let steps = stream::try_unfold((source, next), |(source, next)| async move {
            let (source, entries) = next(source).await?;
            Ok((!entries.is_empty()).then_some((entries, (source, next))))
        });
        Self { mark, steps: Some(Box::pin(steps)) }
    }

    /// The last write of the snapshot.
    #[must_use]
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Returns the next items, some hundred kilobytes; none at the end. Memory grows only with the number of records
    /// that are changed during the snapshot and with the settings, but not with the versions of rule drafts: one draft
    /// is in memory at a time.
    ///
    /// # Errors
    /// If the store fails, a value cannot be read or is missing, too many records are changed during the snapshot, or
    /// an earlier call failed.
    pub async fn next(&mut self) -> Result<Vec<Entry>, StoreError> {
        let steps = self.steps.as_mut().ok_or_else(|| StoreError::Failed("the snapshot failed before".into()))?;
        let step = steps.next().await.transpose();
        if step.is_err() {
            self.steps = None;
        }
        Ok(step?.unwrap_or_default())
    }
}

/// Fills an empty store from a snapshot, or updates a store that was filled before. Every backend implements both.
///
/// - Atomicity: items become visible when the refill is finished. A database writes all in one transaction; an
///   unfinished folder has a mark ([`Origin`]), and no server opens it.
/// - Order: items arrive in the order of a [`Snapshot`].
/// - Durability: everything is on disk when [`Refill::finish`] returns.
/// - A crash before that leaves a database unchanged. A folder that was being filled must be deleted, and one that was
///   being updated must be updated again.
#[async_trait::async_trait]
pub trait Refill: Send {
    /// Records the snapshot's mark, before [`Refill::finish`]; without it the store cannot be updated later.
    fn note_origin(&mut self, mark: &Mark);

    /// Writes items, in the order in which they were read. A store may write some of them later; a call without items
    /// returns when all items so far are written.
    ///
    /// # Errors
    /// If the store fails, or a value, also one of an earlier call, cannot be read or stored.
    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), StoreError>;

    /// Makes [`Refill::finish`] mark an updated store as not compared with its source. `note_compared` of the backend
    /// removes the mark, after a comparison without differences. Until then no server opens the store, and each
    /// further update has to be compared completely.
    fn require_comparison(&mut self) {}

    /// Finishes the refill and returns the changes to existing items; empty for a store that was empty.
    ///
    /// # Errors
    /// If the store fails, or its last write is not the recorded mark. An updated database is unchanged then, unless the
    /// connection was lost during the final commit: its result is unknown.
    async fn finish(self: Box<Self>) -> Result<ApplyReport, StoreError>;
}

/// Current and former identifiers of the record whose versions a [`Refill`] receives.
#[derive(Debug, Default)]
pub struct Carried(Option<(RecordKind, RecordId, BTreeMap<IdentifierKey, bool>)>);

impl Carried {
    /// Adds the identifiers of a version. For the current version it returns all identifiers of the record, each with
    /// true if it is still valid.
    ///
    /// # Errors
    /// If the previous record has no current version.
    pub fn see(
        &mut self,
        record: &ChangedRecord,
        is_present: bool,
    ) -> Result<BTreeMap<IdentifierKey, bool>, StoreError> {
        let (kind, id, _) = record.place();
        if self.0.as_ref().is_some_and(|(of, at, _)| (*of, *at) != (kind, id)) {
            self.finish()?;
        }
        let mut carried = self.0.take().map(|(_, _, carried)| carried).unwrap_or_default();
        carried.values_mut().for_each(|is_open| *is_open = false);
        for identifier in record.identifiers().iter() {
            *carried.entry(identifier.key.clone()).or_insert(false) |= identifier.is_open();
        }
        if is_present {
            return Ok(carried);
        }
        self.0 = Some((kind, id, carried));
        Ok(BTreeMap::new())
    }

    /// Checks that the last record is complete.
    ///
    /// # Errors
    /// If the last record has no current version.
    pub fn finish(&self) -> Result<(), StoreError> {
        if self.0.is_none() {
            return Ok(());
        }
        Err(StoreError::Corrupt { what: "record", reason: "its current version is missing".to_owned() })
    }
}

/// Number of the oldest audit log values in an incremental snapshot. A removal deletes old values and skips at most
/// [`REMOVAL_PASSED_OVER_MAX`], plus the one that reports it: behind so many existing values none was deleted.
pub const OLDEST_AUDIT: usize = REMOVAL_PASSED_OVER_MAX + 1;

/// Maximum number of changed records in an incremental snapshot: their keys take some hundred megabytes.
const WRITTEN_SINCE_MAX: usize = 2_000_000;

/// The error for more changed records.
fn too_many_written() -> StoreError {
    StoreError::LimitReached(
        "too many records were written since: fill an empty store from a new backup, and catch up soon after it",
    )
}

/// The state of a store that was filled from another one: everything up to these numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The id of the source register.
    pub register: RegisterId,
    /// The last write.
    pub sequence: Sequence,
    /// Number of parts of the table of codes.
    pub code_table_parts: u64,
    /// The last value of the audit log.
    pub audit: u64,
    /// Number of values of the audit log up to that one: numbers of a database have gaps. 0 if it is not known.
    pub audit_values: u64,
    /// The audit log value that reports the last removal: each step of a removal rewrites it.
    pub removal: Option<u64>,
}

impl Held {
    /// Compares the state with the last numbers that are stored now; describes the difference.
    #[must_use]
    pub fn written_since(&self, sequence: Sequence, code_table_parts: u64, audit: u64) -> Option<String> {
        if (sequence, code_table_parts, audit) == (self.sequence, self.code_table_parts, self.audit) {
            return None;
        }
        let ends = |sequence: Sequence, audit: u64| format!("write {} and value {audit} of the audit log", sequence.0);
        let (now, moved) = (ends(sequence, audit), ends(self.sequence, self.audit));
        Some(format!("it is at {now}, and the data that was moved ends at {moved}"))
    }
}

/// The state of the copy of a register in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It is being filled.
    Filling,
    /// It was filled, and is being caught up from that state.
    CatchingUp(Held),
    /// It was caught up to that state, and has not been compared with its source since.
    CaughtUp(Held),
    /// It was filled up to that state.
    Filled(Held),
}

/// The last values of a store, and its values at the last numbers of another store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// The id of the register.
    pub register: RegisterId,
    /// The last write.
    pub sequence: Sequence,
    /// Number of parts of the table of codes.
    pub code_table_parts: u64,
    /// The last value of the audit log.
    pub audit: u64,
    /// The digest of this store's change log entry for the other store's last write.
    pub change: Option<[u8; 32]>,
    /// The digest of this store's audit log value with the other store's last number; none if it was removed.
    pub audit_value: Option<[u8; 32]>,
}

/// Changes of an incremental refill.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApplyReport {
    /// Number of new or changed items by kind.
    pub written: BTreeMap<ItemKind, u64>,
    /// Number of removed items by kind.
    pub taken_out: BTreeMap<ItemKind, u64>,
}

impl ApplyReport {
    /// True if there were no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.taken_out.is_empty()
    }
}

/// A store that was filled before, to be updated from its source. No client writes to it until the update is finished.
pub struct CatchUp {
    /// Its backend; the source has the other one.
    pub backend: StoreBackend,
    /// Its state.
    pub held: Held,
    /// Its values at its own last numbers.
    pub ends: Ends,
    /// True if an earlier update was interrupted, which may have written later values, or was not compared to the end.
    pub was_interrupted: bool,
    /// Writes the changes made since.
    pub refill: Box<dyn Refill>,
}
