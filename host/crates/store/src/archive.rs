//! A store as a backup sees it: everything that cannot be worked out of something else, as it stood after one write.
//!
//! Who carries an identifier, which membership is open and what the audit log can be searched by follow from the records and the
//! lines, and are made anew when a store is filled.
//!
//! **Invariant:** what is taken is what stood after one write, the [`Mark`]'s: nothing newer, nothing left out, however long the
//! taking lasts. Writes and reads go on meanwhile.
//!
//! **Invariant:** values cross in their stored forms (`record`), so that a backup reads as long as these do, whichever backend
//! wrote it and whichever takes it up.

mod walk;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::{self, Stream, StreamExt as _};

pub use self::walk::{Fixed, present_only, since, snapshot};
pub use super::record::setting::SettingKind;
use crate::StoreError;
use crate::audit_log::REMOVAL_PASSED_OVER_MAX;
use crate::change_log::RegisterId;
use crate::verify::RawValues;
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::idempotency::RequestName;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::PhotoDigest;
use daftar_domain::record::{RecordId, RecordKind, VersionId};

/// One thing that is kept.
#[derive(Clone, PartialEq, Eq)]
pub enum Entry {
    /// What the deployment decided about something.
    Setting {
        /// Of which kind.
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
        /// Where it stands.
        value: u64,
    },
    /// Some of the codes and vocabulary versions that have numbers.
    CodeTablePart {
        /// Which part, counted from 0.
        number: u64,
        /// Its stored form.
        value: Vec<u8>,
    },
    /// A request that was done.
    Request {
        /// Which one.
        name: RequestName,
        /// Its stored form.
        value: Vec<u8>,
    },
    /// A photo; before the first version of a record that has it. It may come again.
    Photo {
        /// What it is kept under.
        digest: PhotoDigest,
        /// The photo.
        bytes: Arc<[u8]>,
    },
    /// A record at one version. All versions of a record follow one another, the first one first.
    Version {
        /// Of which kind.
        kind: RecordKind,
        /// Its key.
        id: RecordId,
        /// Which version.
        version: VersionId,
        /// Whether this is how it stands.
        is_present: bool,
        /// Its stored form.
        value: Vec<u8>,
    },
    /// What one write touched.
    Change {
        /// Its place in the order of writes.
        sequence: Sequence,
        /// Its stored form.
        value: Vec<u8>,
    },
    /// Lines of the audit log that lie together.
    Audit {
        /// Their place in the log.
        number: u64,
        /// Their stored form.
        value: Vec<u8>,
    },
}

impl Entry {
    /// As what it is counted.
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

    /// About the memory that it takes.
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

/// Keeps what records say out of logs.
impl fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Entry({}, {} bytes)", self.kind().name(), self.bytes())
    }
}

/// The kinds of things that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ItemKind {
    /// People, as they stand.
    Individuals,
    /// Groups, as they stand.
    Groups,
    /// Programs, as they stand.
    Programs,
    /// Memberships, as they stand.
    ProgramMemberships,
    /// Consents, as they stand.
    Consents,
    /// Versions of records before the present ones.
    OlderVersions,
    /// Photos.
    Photos,
    /// Clients.
    Clients,
    /// What the deployment decided.
    Settings,
    /// Parts of the table of codes.
    CodeTableParts,
    /// Counters.
    Counters,
    /// Requests that were done.
    Requests,
    /// Writes.
    Changes,
    /// Values of the audit log, each with some lines.
    AuditValues,
}

impl ItemKind {
    /// As what records of that kind are counted.
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

    /// What it is called where it is told.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Individuals => "individuals",
            Self::Groups => "groups",
            Self::Programs => "programs",
            Self::ProgramMemberships => "program_memberships",
            Self::Consents => "consents",
            Self::OlderVersions => "older_versions",
            Self::Photos => "photos",
            Self::Clients => "clients",
            Self::Settings => "settings",
            Self::CodeTableParts => "code_table_parts",
            Self::Counters => "counters",
            Self::Requests => "requests",
            Self::Changes => "changes",
            Self::AuditValues => "audit_values",
        }
    }
}

/// The write after which everything stood as it is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The register's own id.
    pub register: RegisterId,
    /// Its place in the order of writes; there are as many writes.
    pub sequence: Sequence,
    /// How many records of each kind there are: those with keys up to that number.
    pub records: [(RecordKind, u64); 5],
}

/// Reads a store whole: for backups, moves into another store, to bring another store up to this one, and for verification. Every backend
/// implements it.
///
/// - Atomicity: a [`Snapshot`] is what stood after one write, its [`Mark`]'s. Nothing newer is in it and nothing is left out, however long
///   it is read; writes and reads continue, and wait no longer for it than for another write.
/// - Order: settings, clients, counters, parts of the table of codes, requests, records by kind and key (each with its versions from the
///   first on and its photos before them), writes, values of the audit log. What has a number comes in the order of its numbers.
/// - Durability: nothing is changed. What a snapshot gives is on disk in the store that it is taken of.
/// - A crash ends the snapshot, and leaves nothing behind.
#[async_trait::async_trait]
pub trait Archive: Send + Sync + 'static {
    /// Begins a snapshot of everything.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn snapshot(&self) -> Result<Snapshot, StoreError>;

    /// What it has at the ends of what the other one holds.
    ///
    /// # Errors
    /// When the store fails.
    async fn ends(&self, held: &Held) -> Result<Ends, StoreError>;

    /// Begins a snapshot of what was written since another store was filled from this one, in proportion to how much that is: nothing that
    /// stood before is walked through. In the order of a whole snapshot come
    /// - settings, clients, counters and requests, all of them;
    /// - parts of the table of codes and writes behind those that are held;
    /// - every record that these writes touched, with all its versions and their photos;
    /// - of the audit log the oldest values, [`OLDEST_AUDIT`] of those that are held, then the one that tells of the last removal
    ///   before it, then those behind.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read; [`StoreError::LimitReached`] when too many records were written.
    async fn since(&self, held: &Held) -> Result<Snapshot, StoreError>;

    /// All values as they are, to be verified.
    ///
    /// # Errors
    /// When the store cannot be read at all.
    async fn raw_values(&self) -> Result<Arc<dyn RawValues>, StoreError>;
}

/// The entries of a snapshot, some at a time.
type Steps = Pin<Box<dyn Stream<Item = Result<Vec<Entry>, StoreError>> + Send>>;

/// A store, or a backup's file, as it stood after one write, read step by step.
pub struct Snapshot {
    mark: Mark,
    /// Absent after a failure.
    steps: Option<Steps>,
}

impl Snapshot {
    /// As it stood after that write. `next` takes the source and gives it back with the next entries; none at the end.
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

    /// Which write.
    #[must_use]
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// The next entries, some hundred kilobytes; none at the end. Memory does not grow with the register, only with how many records are
    /// changed while it is read.
    ///
    /// # Errors
    /// When the store fails, a value cannot be read or is missing, more records are changed meanwhile than can be kept apart, or it
    /// failed before.
    pub async fn next(&mut self) -> Result<Vec<Entry>, StoreError> {
        let steps = self.steps.as_mut().ok_or_else(|| StoreError::Failed("the snapshot failed before".into()))?;
        let step = steps.next().await.transpose();
        if step.is_err() {
            self.steps = None;
        }
        Ok(step?.unwrap_or_default())
    }
}

/// Fills an empty store with what another one held, or brings a store that was filled before up to it. Every backend implements it for
/// an empty store; PostgreSQL for the other as well.
///
/// - Atomicity: what is put counts when it is finished. A database then has all of it in one transaction; a folder that is not
///   finished is marked by its caller, and no server opens it.
/// - Order: entries come in the order of a [`Snapshot`].
/// - Durability: everything is on disk when [`Refill::finish`] returns.
/// - A crash before that leaves a database as it was, and a folder that has to be removed.
#[async_trait::async_trait]
pub trait Refill: Send {
    /// Names the write after which everything that is put stood; before anything is put. A store that can be brought up later keeps it.
    fn note_origin(&mut self, _mark: &Mark) {}

    /// Writes entries, in the order in which they were read.
    ///
    /// # Errors
    /// When the store fails, or a value cannot be read or kept.
    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), StoreError>;

    /// Ends it, and says what it changed of what was there before: nothing where that was empty.
    ///
    /// # Errors
    /// When the store fails, or does not stand after the write that was named. A store that is brought up is as it was then; but where the
    /// connection was lost at the very end everything may be there.
    async fn finish(self: Box<Self>) -> Result<ApplyReport, StoreError>;
}

/// The identifiers of the record whose versions come to a [`Refill`], and whether each holds at the version that came last.
#[derive(Debug, Default)]
pub struct Carried(Option<(RecordKind, RecordId, BTreeMap<IdentifierKey, bool>)>);

impl Carried {
    /// Notes the identifiers of a version. With the present one it returns all that the record is an owner of, and whether each holds.
    ///
    /// # Errors
    /// When the present version of the record before is missing.
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

    /// Checks that no version is missing at the end.
    ///
    /// # Errors
    /// When the present version of the last record is missing.
    pub fn finish(&self) -> Result<(), StoreError> {
        if self.0.is_none() {
            return Ok(());
        }
        Err(StoreError::Corrupt { what: "record", reason: "its present version is missing".to_owned() })
    }
}

/// How many of the oldest values of the audit log are told of whatever else was written. A removal takes old values and passes over
/// [`REMOVAL_PASSED_OVER_MAX`] at most, one more being the line that tells of it: of those behind so many that are there none is gone.
pub const OLDEST_AUDIT: usize = REMOVAL_PASSED_OVER_MAX + 1;

/// The most records that are told of as written since: their names take some hundred megabytes.
const WRITTEN_SINCE_MAX: usize = 2_000_000;

/// What is told where more were written.
fn too_many_written() -> StoreError {
    StoreError::LimitReached(
        "more records were written since than can be caught up: fill an empty database from a new backup, and catch up soon after it",
    )
}

/// What a store holds of the one that it was filled from: everything up to these numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Whose.
    pub register: RegisterId,
    /// The last write.
    pub sequence: Sequence,
    /// How many parts the table of codes has.
    pub code_table_parts: u64,
    /// The last value of the audit log.
    pub audit: u64,
    /// The value of the audit log that tells of the last removal: it is written again with each step of that.
    pub removal: Option<u64>,
}

/// Where a store stands, and what it holds at the ends of what another one holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// The register's own id.
    pub register: RegisterId,
    /// The last write.
    pub sequence: Sequence,
    /// How many parts the table of codes has.
    pub code_table_parts: u64,
    /// The last value of the audit log.
    pub audit: u64,
    /// The digest of what is stored of the write that is the other one's last.
    pub change: Option<[u8; 32]>,
    /// The digest of the value of the audit log that is the other one's last; nothing where it was removed.
    pub audit_value: Option<[u8; 32]>,
}

/// What was brought.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApplyReport {
    /// How many things of each kind are new or changed.
    pub written: BTreeMap<ItemKind, u64>,
    /// How many things of each kind were taken out.
    pub taken_out: BTreeMap<ItemKind, u64>,
}

impl ApplyReport {
    /// Whether there was nothing to bring.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.taken_out.is_empty()
    }
}

/// A store that was filled before, and is to be brought up to the one that it was filled from. No client writes to it until that is over.
pub struct CatchUp {
    /// What it holds.
    pub held: Held,
    /// What it has there at its own ends.
    pub ends: Ends,
    /// Writes the changes made since.
    pub refill: Box<dyn Refill>,
}
