//! The store in PostgreSQL: one database, any number of processes.
//!
//! Records are stored in their stored forms, next to the rows of the search index. One task of each process writes
//! (`writer`): pending jobs form a group, a group is one transaction, and the transactions of all processes are
//! serialized, as each locks the same row first. Another task writes the audit entries of reads (`audit_writer`),
//! without that row. Reads take connections from a pool (`database`), one statement each.
//!
//! **Invariant:** only this crate uses the crates of the database.
//!
//! **Invariant:** an unavailable database only fails requests: once it is back, requests succeed without a restart.

mod archive;
mod attempt;
mod audit_log;
mod audit_row;
mod audit_writer;
mod change_feed;
mod codes;
mod connection;
mod copy;
mod database;
mod failure;
mod feed;
mod gather;
mod group;
pub mod index;
mod labels;
mod lock_waits;
mod lookups;
mod meters;
mod open;
mod options;
mod partitions;
mod put;
mod reader;
mod reporting;
mod rows;
mod shared;
mod state;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{Instrument, info_span};

use daftar_domain::audit::AuditEntry;
use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery};
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use daftar_domain::deployment::Setting;
use daftar_domain::idempotency::{IdempotencyKey, IdempotentRequest};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::PhotoReference;
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind, VersionId};

pub use self::archive::PostgresRefill;
use self::audit_log::Months;
use self::audit_writer::{AuditJob, AuditWriter};
pub use self::change_feed::PostgresChangeFeed;
use self::database::Database;
use self::failure::{Failure, Meaning};
pub use self::feed::{Channel, PostgresFeed};
use self::index::{IndexRepair, PostgresIndex};
use self::lookups::Lookups;
pub use self::meters::PostgresUsage;
pub use self::open::{OpenError, Prepared};
pub use self::options::{BulkLimits, PostgresOptions};
pub use self::partitions::PostgresPartitions;
pub use self::shared::PostgresShared;
use self::state::{Basis, State};
use self::writer::{Answer, JOBS_PER_GROUP_MAX, Job, QueuedJob, Writer};
use daftar_store::audit_log::{AuditBuffer, AuditRemoval, AuditRemoved, Waiting};
use daftar_store::change_log::{CHANGES_MAX, HistoryMark, RegisterId, Touched};
use daftar_store::meters::Meters;
use daftar_store::{
    ChangeSink, Committed, IdentifierOwner, Store, StoreError, StoredCodeTable, Write, changes_records,
};

/// Keys of advisory locks, each with one meaning for all processes of a database.
mod locks {
    /// Held while tables are changed: `daftar` in ASCII. The others are numbered from it.
    pub(super) const TABLES: i64 = 0x6461_6674_6172;
    /// Held while plugins or configuration are changed.
    pub(super) const TURN: i64 = TABLES + 1;
    /// Held while labels are inserted.
    pub(super) const LABELS: i64 = TABLES + 2;
}

/// Queues of the tasks that write.
#[derive(Clone)]
struct Jobs {
    writer: mpsc::Sender<QueuedJob>,
    audit: mpsc::Sender<AuditJob>,
}

/// A registry in a database.
pub struct PostgresStore {
    database: Arc<Database>,
    lookups: Lookups,
    register: RegisterId,
    /// Absent once the store is closed.
    jobs: Mutex<Option<Jobs>>,
    writers: Mutex<Option<[JoinHandle<()>; 2]>>,
    _months: Option<Months>,
    _repair: IndexRepair,
    audit: Arc<AuditBuffer>,
    /// True if the last attempt to write audit entries failed: no response that adds an entry is sent.
    lines_wait: Arc<AtomicBool>,
    sink: Arc<OnceLock<Arc<dyn ChangeSink>>>,
    last_sequence: Arc<AtomicU64>,
    meters: Arc<Meters>,
    feed: PostgresFeed,
    basis: Arc<Basis>,
    queue_writes_max: usize,
    write_wait: Duration,
}

impl PostgresStore {
    /// Opens a database, and creates its tables if they are missing. Any number of processes may.
    ///
    /// # Errors
    /// See [`OpenError`]: it is unavailable, a newer daftar changed it, or its tables cannot be created.
    pub async fn open(options: PostgresOptions) -> Result<Self, OpenError> {
        Self::open_tables(options, true).await
    }

    /// Opens an existing register in a database, without creating or changing tables.
    ///
    /// # Errors
    /// As [`PostgresStore::open`], and if there is no register or its tables are of an older version.
    pub async fn open_existing(options: PostgresOptions) -> Result<Self, OpenError> {
        Self::open_tables(options, false).await
    }

    /// Creates or upgrades the tables of a database, and opens no register.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    pub async fn prepare(options: PostgresOptions) -> Result<Prepared, OpenError> {
        let database = Database::new(&options)?;
        open::prepare(&database).await
    }

    async fn open_tables(options: PostgresOptions, makes_tables: bool) -> Result<Self, OpenError> {
        let database = Arc::new(Database::new(&options)?);
        let register = open::open(&database, makes_tables).await?;
        let unreadable =
            |error: StoreError| OpenError::Tables { place: database.place().to_owned(), reason: error.to_string() };
        let last = database.last_sequence().await.map_err(unreadable)?;
        let last_sequence = Arc::new(AtomicU64::new(last.0));
        let lines_wait = Arc::new(AtomicBool::new(false));
        let (audit, sink, meters) = (Arc::default(), Arc::new(OnceLock::new()), Arc::<Meters>::default());
        let basis = Arc::<Basis>::default();
        let months = if makes_tables { Some(Months::start(Arc::clone(&database)).await) } else { None };
        let audit_writer = AuditWriter::new(
            Arc::clone(&database),
            RegisterId::draw().0,
            Arc::clone(&audit),
            Arc::clone(&lines_wait),
            options.write_wait,
        );
        let writer = Writer {
            database: Arc::clone(&database),
            id: RegisterId::draw().0,
            meters: Arc::clone(&meters),
            sink: Arc::clone(&sink),
            last_sequence: Arc::clone(&last_sequence),
            state: State::new(Arc::clone(&basis)),
            group: 0,
            unresolved: None,
            write_wait: options.write_wait,
        };
        let queue_writes_max = options.queue_writes_max.max(1);
        let (jobs, waiting) = mpsc::channel(queue_writes_max);
        let (audit_jobs, audit_waiting) = mpsc::channel(queue_writes_max);
        let writers = [tokio::spawn(writer.run(waiting)), tokio::spawn(audit_writer.run(audit_waiting))];
        let feed = PostgresFeed::start(Arc::clone(&database));
        let repair =
            IndexRepair::start(Arc::clone(&database), feed.subscribe(Channel::Changes)).await.map_err(unreadable)?;
        let jobs = Mutex::new(Some(Jobs { writer: jobs, audit: audit_jobs }));
        let writers = Mutex::new(Some(writers));
        let write_wait = options.write_wait;
        Ok(Self {
            lookups: Lookups::new(Arc::clone(&database)),
            database,
            register,
            jobs,
            writers,
            _months: months,
            _repair: repair,
            audit,
            lines_wait,
            sink,
            last_sequence,
            meters,
            feed,
            basis,
            queue_writes_max,
            write_wait,
        })
    }

    /// Rejects new writes, writes pending ones, and closes the connections.
    pub async fn close(&self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner).take();
        for writer in writers.into_iter().flatten() {
            // The task itself has logged its panic.
            let _is_well = writer.await;
        }
        self.database.close();
    }

    /// Returns the search index.
    #[must_use]
    pub fn index(&self) -> PostgresIndex {
        PostgresIndex::new(Arc::clone(&self.database))
    }

    /// Returns the feed of changes by other processes.
    #[must_use]
    pub fn feed(&self) -> &PostgresFeed {
        &self.feed
    }

    fn jobs(&self) -> Result<Jobs, StoreError> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(writer_gone)
    }

    fn send(&self, job: Job) -> Result<(), StoreError> {
        let by = Instant::now() + self.write_wait;
        sent(&self.jobs()?.writer, QueuedJob { job, by })
    }

    /// Requests that pending audit entries are written, and waits for that.
    async fn write_audit(&self) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        sent(&self.jobs()?.audit, AuditJob::Write(Some(answer)))?;
        answered.await.unwrap_or_else(|_| Err(writer_gone()))
    }

    /// Sends a job to the writer and waits for its result.
    async fn ask<T>(&self, job: impl FnOnce(Answer<T>) -> Job) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let _waits = self.meters.wait();
        self.send(job(answer))?;
        answered.await.unwrap_or_else(|_| Err(writer_gone()))
    }

    async fn write(&self, write: Write, request: Option<Box<IdempotentRequest>>) -> Result<Committed, StoreError> {
        if self.sink.get().is_none() && changes_records(&write) {
            return Err(StoreError::NotReady);
        }
        let requested = Instant::now();
        let commit = self.ask(|answer| Job::Commit(Box::new(write), request, answer));
        let answer = commit.instrument(info_span!("store.commit")).await;
        self.meters.note_write(&answer, requested.elapsed());
        answer
    }
}

fn sent<T>(to: &mpsc::Sender<T>, job: T) -> Result<(), StoreError> {
    to.try_send(job).map_err(|error| match error {
        mpsc::error::TrySendError::Full(_) => StoreError::Overloaded,
        mpsc::error::TrySendError::Closed(_) => writer_gone(),
    })
}

fn writer_gone() -> StoreError {
    StoreError::Failed("the task that writes has stopped".into())
}

#[async_trait::async_trait]
impl Store for PostgresStore {
    fn attach_sink(&self, sink: Arc<dyn ChangeSink>) -> Result<Sequence, StoreError> {
        self.sink.set(sink).map_err(|_| StoreError::SinkAttached)?;
        Ok(Sequence(self.last_sequence.load(Ordering::Acquire)))
    }

    fn readiness(&self) -> Result<(), StoreError> {
        if self.database.is_unavailable() && !self.feed.is_listening() {
            return Err(StoreError::Failed("the database does not respond".into()));
        }
        if self.sink.get().is_some() { Ok(()) } else { Err(StoreError::NotReady) }
    }

    fn writes_at_once(&self) -> usize {
        // A group is a dozen statements and a commit, of any size.
        (JOBS_PER_GROUP_MAX + JOBS_PER_GROUP_MAX / 2).min(self.queue_writes_max / 2).max(1)
    }

    async fn commit(&self, write: Write) -> Result<Committed, StoreError> {
        self.write(write, None).await
    }

    async fn commit_once(&self, write: Write, request: IdempotentRequest) -> Result<Committed, StoreError> {
        self.write(write, Some(Box::new(request))).await
    }

    async fn remembered(
        &self,
        client: &ClientId,
        key: &IdempotencyKey,
    ) -> Result<Vec<Arc<IdempotentRequest>>, StoreError> {
        self.database.requests_called(client, key).await
    }

    async fn remembered_count(&self, client: &ClientId) -> Result<u64, StoreError> {
        self.database.request_count(client).await
    }

    async fn forget_requests(&self, now: Timestamp) -> Result<u64, StoreError> {
        self.database.forget_requests(now).await
    }

    async fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError> {
        self.database.record(kind, id).await
    }

    async fn records(&self, kind: RecordKind, ids: &[RecordId]) -> Result<Vec<ChangedRecord>, StoreError> {
        self.database.records(kind, ids).await
    }

    async fn record_version(
        &self,
        kind: RecordKind,
        id: RecordId,
        version: VersionId,
    ) -> Result<Option<ChangedRecord>, StoreError> {
        self.database.record_version(kind, id, version).await
    }

    async fn scan_records(
        &self,
        kind: RecordKind,
        after: RecordId,
        limit: usize,
    ) -> Result<Vec<ChangedRecord>, StoreError> {
        self.database.scan_records(kind, after, limit).await
    }

    async fn photo(&self, reference: PhotoReference) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.database.photo(reference).await
    }

    async fn open_membership(&self, slot: MembershipSlot) -> Result<Option<RecordId>, StoreError> {
        self.database.open_membership(slot).await
    }

    async fn identifier_owners(
        &self,
        kind: RecordKind,
        key: &IdentifierKey,
        limit: usize,
    ) -> Result<Vec<IdentifierOwner>, StoreError> {
        self.lookups.owners(kind, key, limit).await
    }

    async fn clients(&self) -> Result<Vec<Client>, StoreError> {
        self.database.clients().await
    }

    async fn settings(&self) -> Result<Vec<Setting>, StoreError> {
        self.database.settings().await
    }

    async fn code_table(&self) -> Result<StoredCodeTable, StoreError> {
        self.database.code_table().await
    }

    async fn number_codes(
        &self,
        codes: Vec<CodeUri>,
        editions: Vec<(Namespace, String)>,
    ) -> Result<(Vec<CodeNumber>, Vec<EditionNumber>), StoreError> {
        self.ask(|answer| Job::Number(codes, editions, answer)).await
    }

    async fn append_audit(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        // When the database is available again, pending entries are written before new ones are accepted.
        let lines_wait = self.lines_wait.load(Ordering::Acquire);
        if lines_wait && (self.database.is_unavailable() || self.write_audit().await.is_err()) {
            // The task that writes them has logged the reason.
            return Err(Failure::new(Meaning::Unreachable, "the audit log cannot be written now").into());
        }
        let hint = match self.audit.add(entries)? {
            Waiting::First => AuditJob::Waits,
            Waiting::Full => AuditJob::Write(None),
            Waiting::More => return Ok(()),
        };
        match sent(&self.jobs()?.audit, hint) {
            // The task has pending work, and writes the entries along with it.
            Ok(()) | Err(StoreError::Overloaded) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn audit(&self, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.write_audit().await?;
        self.database.audit(limit).await
    }

    async fn audit_page(
        &self,
        query: AuditQuery,
        before: AuditPosition,
        bounds: AuditBounds,
    ) -> Result<AuditPage, StoreError> {
        self.write_audit().await?;
        self.database.audit_page(&query, before, bounds).await
    }

    async fn remove_audit(&self, removal: AuditRemoval) -> Result<Option<AuditRemoved>, StoreError> {
        if let Some(removed) = self.database.drop_audit_month(&removal).await? {
            return Ok(Some(removed));
        }
        let old = self.database.audit_older_than(&removal).await?;
        if old.is_empty() {
            return Ok(None);
        }
        self.ask(|answer| Job::RemoveAudit(Box::new((old, removal)), answer)).await
    }

    async fn register_id(&self) -> Result<RegisterId, StoreError> {
        Ok(self.register)
    }

    async fn changes_after(&self, after: Sequence, limit: usize) -> Result<Vec<Touched>, StoreError> {
        self.database.changes_after(after, limit.min(CHANGES_MAX)).await
    }

    async fn history_mark(&self, at: Sequence) -> Result<Option<HistoryMark>, StoreError> {
        self.database.history_mark(self.register, at).await
    }

    async fn raise_counter(&self, name: &str, value: u64) -> Result<(), StoreError> {
        self.database.raise_counter(name, value).await
    }

    async fn counter(&self, name: &str) -> Result<Option<u64>, StoreError> {
        self.database.counter(name).await
    }

    async fn counters(&self, prefix: &str) -> Result<Vec<(String, u64)>, StoreError> {
        self.database.counters(prefix).await
    }

    async fn remove_counters(&self, prefix: &str) -> Result<(), StoreError> {
        self.database.remove_counters(prefix).await
    }
}
