//! The embedded store: one folder, one process.
//!
//! One tree contains everything under keys with prefixes (`keys`); one thread writes (`writer`), and another one syncs
//! and acknowledges (`committer`); every acknowledged write has been `fdatasync`ed (`disk`). Reads of single records run
//! in the calling thread, as they take a few microseconds; scans run in the threads for blocking work.
//!
//! **Invariant:** only this crate names the database crate.

mod archive;
mod audit_log;
mod committer;
mod database;
mod disk;
mod group;
mod health;
mod keys;
mod mark;
mod open;
mod reader;
mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod unfinished;
mod verify;
mod writer;

use std::fs::File;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::oneshot;
use tracing::{Instrument, info_span};

use daftar_domain::audit::AuditEntry;
use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery};
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use daftar_domain::context::is_dedicated_thread;
use daftar_domain::deployment::Setting;
use daftar_domain::error::{Panicked, contain};
use daftar_domain::field::FieldSet;
use daftar_domain::idempotency::{IdempotencyKey, IdempotentRequest};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::{PHOTO_BYTES_MAX, PhotoReference};
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_store::record::fields::Selection;
use daftar_store::record::setting::{SettingKind, SettingRange};

pub use self::archive::SledRefill;
use self::committer::{Committer, Completion, DiskCalls};
use self::database::Database;
use self::disk::FLUSH_LIMIT;
use self::health::Health;
pub use self::open::{FORMAT_VERSION, OpenError, SledOptions};
use self::reader::{Reader, contained, not_understood, number};
pub use self::verify::StoppedStore;
use self::writer::{Answer, Job, State, Writer};
use daftar_store::audit_log::{AuditBuffer, AuditRemoval, AuditRemoved, Waiting};
use daftar_store::change_log::{CHANGES_MAX, HistoryMark, RegisterId, Touched};
pub use daftar_store::meters::StoreRecorders;
use daftar_store::meters::{Meters, StoreUsage};
use daftar_store::plan::{Present, Recent};
use daftar_store::{
    ChangeSink, Committed, IdentifierOwner, SCAN_RECORDS_MAX, Store, StoreError, StoredCodeTable, Write, blocking,
    changes_records, record,
};

/// The most records that are read in the calling thread; more are read in a thread for blocking work.
const INLINE_READS_MAX: usize = 32;

/// The number of requests removed in one job of the writer.
const FORGOTTEN_AT_ONCE: usize = 256;

/// A register in a folder of its own.
pub struct SledStore {
    /// `None` only while the store is being dropped: other references last only as long as sending a job.
    jobs: Option<Arc<SyncSender<Job>>>,
    thread: Option<JoinHandle<()>>,
    reader: Reader,
    audit: Arc<AuditBuffer>,
    sink: Arc<OnceLock<Arc<dyn ChangeSink>>>,
    last_sequence: Arc<AtomicU64>,
    meters: Arc<Meters>,
    queue_writes_max: usize,
    /// Released last: fields are dropped in this order.
    _lock: File,
    /// The folder of a store for a test, removed at its end.
    #[cfg(any(test, feature = "testing"))]
    folder: Option<tempfile::TempDir>,
}

impl SledStore {
    /// Opens a folder; creates it, for its owner only, if it is missing.
    ///
    /// # Errors
    /// See [`OpenError`]: another process has it, a newer daftar wrote it, or it cannot be read.
    pub fn open(path: &Path, options: SledOptions) -> Result<Self, OpenError> {
        Self::open_calling(path, options, |database| DiskCalls {
            flush: Box::new(move || {
                database.tree().flush()?;
                Ok(database.check_written()?)
            }),
            flush_limit: FLUSH_LIMIT,
        })
    }

    fn open_calling(
        path: &Path,
        options: SledOptions,
        calls: impl FnOnce(Database) -> DiskCalls,
    ) -> Result<Self, OpenError> {
        let open::OpenFolder { database, mut mark, unfinished, register, lock } =
            open::open(path, options.cache_bytes)?;
        let reader = Reader { database, health: Arc::new(Health::default()) };
        let database_error =
            |error: StoreError| OpenError::Database { path: path.to_owned(), reason: error.to_string() };
        match open::check_copied(path, &reader) {
            Err(OpenError::NotCompared(_)) if options.opens_not_compared => {}
            checked => checked?,
        }
        let state = contain(|| State::read(&reader)).unwrap_or_else(|Panicked| Err(not_understood()));
        let state = state.map_err(database_error)?;
        open::check_acknowledged(path, &state.acknowledged())?;
        mark.write_durably(state.acknowledged()).map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        let last_sequence = Arc::new(AtomicU64::new(state.last.sequence.0));
        let (audit, sink) = (Arc::new(AuditBuffer::default()), Arc::new(OnceLock::new()));
        let meters = Arc::new(Meters::default());
        let completion = Completion {
            health: Arc::clone(&reader.health),
            meters: Arc::clone(&meters),
            sink: Arc::clone(&sink),
            last_sequence: Arc::clone(&last_sequence),
            disk: calls(reader.database.clone()),
            mark,
        };
        let not_started = |source| OpenError::Io { path: path.to_owned(), source };
        let writer = Writer {
            reader: reader.clone(),
            audit: Arc::clone(&audit),
            unfinished,
            register,
            recent: Recent::after(state.last.sequence),
            committer: Committer::start(completion, state.acknowledged()).map_err(not_started)?,
            state,
        };
        let queue_writes_max = options.queue_writes_max.max(1);
        let (jobs, waiting) = sync_channel(queue_writes_max);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(&waiting))
            .map_err(not_started)?;
        let (jobs, thread) = (Some(Arc::new(jobs)), Some(thread));
        Ok(Self {
            jobs,
            thread,
            reader,
            audit,
            sink,
            last_sequence,
            meters,
            queue_writes_max,
            _lock: lock,
            #[cfg(any(test, feature = "testing"))]
            folder: None,
        })
    }

    fn send(&self, job: Job) -> Result<(), StoreError> {
        let Some(jobs) = &self.jobs else { return Err(writer_gone()) };
        jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Overloaded,
            TrySendError::Disconnected(_) => writer_gone(),
        })
    }

    /// Sends the writer a job and waits for its result.
    async fn ask<T>(&self, job: impl FnOnce(Answer<T>) -> Job) -> Result<T, StoreError> {
        self.reader.health.check()?;
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

    /// Reads in a thread for blocking work.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // Data that another thread allocates is more expensive to free.
        if is_dedicated_thread() {
            return self.read_here(read);
        }
        let reader = self.reader.clone();
        blocking(move || contained(&reader, read)).instrument(info_span!("store.read")).await?
    }

    /// Reads a few values in the calling thread.
    fn read_here<T>(&self, read: impl FnOnce(&Reader) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let _span = info_span!("store.read").entered();
        contained(&self.reader, read)
    }

    /// Records durations from now on.
    pub fn record_with(&self, recorders: StoreRecorders) {
        self.meters.record_with(recorders);
    }

    /// Returns the metrics. Checks the sizes of the files.
    #[must_use]
    pub fn usage(&self) -> StoreUsage {
        StoreUsage {
            is_sound: self.reader.health.check().is_ok(),
            disk_bytes: self.reader.database.tree().size_on_disk().ok(),
            ..self.meters.usage(&self.audit, &self.last_sequence, self.queue_writes_max)
        }
    }
}

fn writer_gone() -> StoreError {
    StoreError::Failed("the writer thread has stopped".into())
}

impl Drop for SledStore {
    /// Waits until the writer has written all its jobs.
    fn drop(&mut self) {
        drop(self.jobs.take());
        // A panic of the thread was logged by the thread itself.
        let _ = self.thread.take().map(JoinHandle::join);
        self.reader.let_go();
    }
}

#[async_trait::async_trait]
impl Store for SledStore {
    fn attach_sink(&self, sink: Arc<dyn ChangeSink>) -> Result<Sequence, StoreError> {
        self.sink.set(sink).map_err(|_| StoreError::SinkAttached)?;
        Ok(Sequence(self.last_sequence.load(Ordering::Acquire)))
    }

    fn readiness(&self) -> Result<(), StoreError> {
        self.reader.health.check()?;
        if self.sink.get().is_some() { Ok(()) } else { Err(StoreError::NotReady) }
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
        self.read_here(|reader| {
            let found = reader.database.scan_prefix(keys::requests_called(client, key));
            found.map(|item| reader.request(item).map(Arc::new)).collect()
        })
    }

    async fn remembered_count(&self, client: &ClientId) -> Result<u64, StoreError> {
        let requests = keys::requests_of(client);
        self.read(move |reader| {
            let found = reader.database.scan_prefix(requests);
            found.map(|item| reader.next(item).map(|_| 1)).sum()
        })
        .await
    }

    async fn forget_requests(&self, now: Timestamp) -> Result<u64, StoreError> {
        let mut forgotten = 0;
        let mut names = self.read(move |reader| reader.expired_requests_at(now)).await?;
        while !names.is_empty() {
            // A few at a time: concurrent writes wait.
            let later = names.split_off(names.len().min(FORGOTTEN_AT_ONCE));
            forgotten += self.ask(|answer| Job::Forget(names, now, answer)).await?;
            names = later;
        }
        Ok(forgotten)
    }

    async fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError> {
        self.read_here(|reader| reader.record(kind, id))
    }

    async fn records(&self, kind: RecordKind, ids: &[RecordId]) -> Result<Vec<ChangedRecord>, StoreError> {
        self.records_with(kind, ids, &FieldSet::All).await
    }

    async fn records_with(
        &self,
        kind: RecordKind,
        ids: &[RecordId],
        fields: &FieldSet,
    ) -> Result<Vec<ChangedRecord>, StoreError> {
        let selection = Selection::of(kind, fields);
        if ids.len() <= INLINE_READS_MAX {
            return self.read_here(|reader| reader.records(kind, ids, selection.as_ref()));
        }
        let ids = ids.to_vec();
        self.read(move |reader| reader.records(kind, &ids, selection.as_ref())).await
    }

    async fn record_version(
        &self,
        kind: RecordKind,
        id: RecordId,
        version: VersionId,
    ) -> Result<Option<ChangedRecord>, StoreError> {
        self.read_here(|reader| {
            let present = reader.record(kind, id)?;
            if present.as_ref().is_none_or(|present| present.place().2 == version) {
                return Ok(present);
            }
            let earlier = reader.get(&keys::history(kind, id, version))?;
            earlier.map(|bytes| record::decode_any(kind, id, &bytes)).transpose()
        })
    }

    async fn scan_records(
        &self,
        kind: RecordKind,
        after: RecordId,
        limit: usize,
    ) -> Result<Vec<ChangedRecord>, StoreError> {
        let limit = limit.min(SCAN_RECORDS_MAX);
        let range =
            (Bound::Excluded(keys::record(kind, after)), Bound::Included(keys::record(kind, RecordId(u64::MAX))));
        self.read(move |reader| {
            let mut records = Vec::with_capacity(limit.min(1024));
            for item in reader.database.range(range).take(limit) {
                let (key, value) = reader.next(item)?;
                records.push(record::decode_any(kind, RecordId(number(&key)?), &value)?);
            }
            Ok(records)
        })
        .await
    }

    async fn photo(&self, reference: PhotoReference) -> Result<Option<Arc<[u8]>>, StoreError> {
        // Allocated in the calling thread: memory freed by a blocking thread is returned to the system only when that
        // thread runs again, which may take long.
        let memory = Vec::with_capacity(PHOTO_BYTES_MAX.min(reference.length as usize));
        let photo = self.read(move |reader| {
            let parts = reader.database.scan_prefix(keys::photo_prefix(reference.digest));
            let parts = parts.map(|item| reader.next(item).map(|(_, value)| value));
            let bytes = record::photo::decode_into(memory, parts)?;
            Ok((bytes.len() == reference.length as usize).then_some(bytes))
        });
        Ok(photo.await?.map(Arc::from))
    }

    async fn open_membership(&self, slot: MembershipSlot) -> Result<Option<RecordId>, StoreError> {
        self.read_here(|reader| reader.open_membership(slot))
    }

    async fn identifier_owners(
        &self,
        kind: RecordKind,
        key: &IdentifierKey,
        limit: usize,
    ) -> Result<Vec<IdentifierOwner>, StoreError> {
        let mut owners = self.read_here(|reader| reader.owners(kind, key))?;
        owners.truncate(limit);
        Ok(owners)
    }

    async fn clients(&self) -> Result<Vec<Client>, StoreError> {
        self.read(|reader| {
            let found = reader.database.scan_prefix([keys::CLIENT]);
            found.map(|item| record::client::decode(&reader.next(item)?.1)).collect()
        })
        .await
    }

    async fn settings(&self) -> Result<Vec<Setting>, StoreError> {
        self.read(Reader::settings).await
    }

    async fn settings_of(&self, kind: SettingKind, range: SettingRange<'_>) -> Result<Vec<Setting>, StoreError> {
        let (prefix, after, limit) = (range.prefix.to_vec(), range.after.to_vec(), range.limit);
        self.read(move |reader| reader.settings_of(kind, SettingRange { prefix: &prefix, after: &after, limit })).await
    }

    async fn setting_count(&self, kind: SettingKind, prefix: &[u8]) -> Result<u64, StoreError> {
        let prefix = keys::settings(kind, prefix);
        self.read(move |reader| {
            reader.database.scan_prefix(prefix).try_fold(0, |count, item| reader.next(item).map(|_| count + 1))
        })
        .await
    }

    async fn code_table(&self) -> Result<StoredCodeTable, StoreError> {
        Ok(self.read(Reader::code_table).await?.0)
    }

    async fn number_codes(
        &self,
        codes: Vec<CodeUri>,
        editions: Vec<(Namespace, String)>,
    ) -> Result<(Vec<CodeNumber>, Vec<EditionNumber>), StoreError> {
        self.ask(|answer| Job::Number(codes, editions, answer)).await
    }

    async fn append_audit(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        self.reader.health.check()?;
        let hint = match self.audit.add(entries)? {
            Waiting::First => Job::AuditWaits,
            Waiting::Full => Job::WriteAudit(None),
            Waiting::More => return Ok(()),
        };
        match self.send(hint) {
            // The writer has work waiting, and adds the entries to it.
            Ok(()) | Err(StoreError::Overloaded) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn audit_page(
        &self,
        query: AuditQuery,
        before: AuditPosition,
        bounds: AuditBounds,
    ) -> Result<AuditPage, StoreError> {
        self.ask(|answer| Job::WriteAudit(Some(answer))).await?;
        self.read(move |reader| reader.audit_page(&query, before, bounds)).await
    }

    async fn remove_audit(&self, removal: AuditRemoval) -> Result<Option<AuditRemoved>, StoreError> {
        let (before, reported) = (removal.before, removal.reported.map(|reported| reported.at));
        let old = self.read(move |reader| reader.audit_older_than(before, reported)).await?;
        if old.numbers.is_empty() {
            return Ok(None);
        }
        self.ask(|answer| Job::RemoveAudit(Box::new((old, removal)), answer)).await.map(Some)
    }

    async fn register_id(&self) -> Result<RegisterId, StoreError> {
        self.read(Reader::register_id).await
    }

    async fn changes_after(&self, after: Sequence, limit: usize) -> Result<Vec<Touched>, StoreError> {
        self.read(move |reader| reader.changes_after(after, limit.min(CHANGES_MAX))).await
    }

    async fn history_mark(&self, at: Sequence) -> Result<Option<HistoryMark>, StoreError> {
        self.read(move |reader| reader.history_mark(at)).await
    }

    async fn raise_counter(&self, name: &str, value: u64) -> Result<(), StoreError> {
        let name = name.to_owned();
        self.ask(|answer| Job::RaiseCounter(name, value, answer)).await
    }

    async fn counter(&self, name: &str) -> Result<Option<u64>, StoreError> {
        self.read_here(|reader| reader.counter(name))
    }

    async fn counters(&self, prefix: &str) -> Result<Vec<(String, u64)>, StoreError> {
        let prefix = prefix.to_owned();
        self.read(move |reader| reader.counters(&prefix)).await
    }

    async fn remove_counters(&self, prefix: &str) -> Result<(), StoreError> {
        let prefix = prefix.to_owned();
        self.ask(|answer| Job::RemoveCounters(prefix, answer)).await
    }
}
