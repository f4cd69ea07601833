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
//!
//! **Invariant:** no task ends by a panic without an effect that operators see. The tasks that write have state that a
//! panic loses, such as commits without a response: the store is not ready until the process is restarted. The others
//! (the change feed, the repair of index rows, the months of the audit log) start again after a pause.

mod archive;
mod attempt;
mod audit_log;
mod audit_row;
mod audit_writer;
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
mod port;
mod put;
mod reporting;
mod rows;
mod shared;
mod snapshots;
mod state;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{Instrument, info_span};

use daftar_domain::context::SystemClock;
use daftar_domain::idempotency::IdempotentRequest;
use daftar_domain::tasks::{not_restarted, restarted};

pub use self::archive::PostgresRefill;
use self::audit_log::Months;
use self::audit_writer::{AuditJob, AuditWriter};
use self::database::Database;
pub use self::feed::{Channel, PostgresFeed};
use self::index::{IndexRepair, PostgresIndex};
use self::lookups::Lookups;
pub use self::meters::PostgresUsage;
pub use self::open::{OpenError, Prepared};
pub use self::options::{BulkLimits, PostgresOptions};
pub use self::reporting::{ViewsError, ViewsOutcome};
pub use self::shared::PostgresShared;
pub use self::snapshots::PostgresSnapshots;
use self::state::{Basis, State};
use self::writer::{Answer, Job, QueuedJob, Writer};
use daftar_store::audit_log::AuditBuffer;
use daftar_store::change_log::RegisterId;
use daftar_store::meters::Meters;
use daftar_store::{ChangeSink, Committed, StoreError, Write, changes_records};

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
    /// See [`OpenError`]: it is unavailable, a newer daftar changed it, its tables cannot be created, or its register
    /// was caught up and not compared.
    pub async fn open(options: PostgresOptions) -> Result<Self, OpenError> {
        Self::open_tables(options, true).await
    }

    /// Opens an existing register in a database for verification, without creating or changing tables; also one that
    /// was caught up and not compared.
    ///
    /// # Errors
    /// As [`PostgresStore::open`], and if there is no register or its tables are of an older version.
    pub async fn open_existing(options: PostgresOptions) -> Result<Self, OpenError> {
        Self::open_tables(PostgresOptions { opens_not_compared: true, ..options }, false).await
    }

    /// Creates or upgrades the tables and views of a database, and opens no register. Waits about a minute for reports
    /// that use a view.
    ///
    /// # Errors
    /// As [`PostgresStore::open`]. Views that cannot be created are no error: see [`Prepared::views`].
    pub async fn prepare(options: PostgresOptions) -> Result<Prepared, OpenError> {
        let database = Database::new(&options)?;
        open::prepare(&database).await
    }

    async fn open_tables(options: PostgresOptions, makes_tables: bool) -> Result<Self, OpenError> {
        let database = Arc::new(Database::new(&options)?);
        let register = open::open(&database, makes_tables).await?;
        let unreadable =
            |error: StoreError| OpenError::Tables { place: database.place().to_owned(), reason: error.to_string() };
        if !options.opens_not_compared && !archive::is_compared(&database).await.map_err(unreadable)? {
            return Err(OpenError::NotCompared { place: database.place().to_owned() });
        }
        let (_, last) = database.last().await.map_err(unreadable)?;
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
        let writers = [
            tokio::spawn(not_restarted("writer", writer.run(waiting))),
            tokio::spawn(not_restarted("audit_writer", audit_writer.run(audit_waiting))),
        ];
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
            // A panic was logged when it occurred.
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

    /// Returns the queue of the task that writes audit entries.
    ///
    /// # Errors
    /// If the store is closed, or the task ended by a panic.
    fn audit_jobs(&self) -> Result<mpsc::Sender<AuditJob>, StoreError> {
        let jobs = self.jobs()?.audit;
        if jobs.is_closed() { Err(writer_gone()) } else { Ok(jobs) }
    }

    /// Checks that the tasks that write exist: after a panic they do not until the next start.
    ///
    /// # Errors
    /// If the store is closed, or one of them ended by a panic.
    fn check_tasks(&self) -> Result<(), StoreError> {
        self.audit_jobs()?;
        if self.jobs()?.writer.is_closed() { Err(writer_gone()) } else { Ok(()) }
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

/// Starts a background task that is started again after a panic.
fn supervise<F: Future<Output = ()> + Send + 'static>(
    name: &'static str,
    task: impl Fn() -> F + Send + Sync + 'static,
) -> JoinHandle<()> {
    tokio::spawn(restarted(name, Arc::new(SystemClock), task))
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
