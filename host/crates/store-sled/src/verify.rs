//! Looks through the database value by value, in the order of the keys.
//!
//! **Invariant:** reads past [`Health`](super::health::Health): what cannot be read here is a finding, and stops nothing.
//!
//! **Invariant:** what looks wrong while a server writes is looked at again by the writer's own thread, between two groups.

mod changes;
mod look;
mod photos;
mod records;
mod segments;
#[cfg(test)]
mod tests;
mod values;
mod walk;

use std::fs::File;
use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

use self::look::Look;
use self::walk::Walk;
use super::keys;
use super::mark::Acknowledged;
use super::reader::Reader;
use super::writer::Job;
use super::{OpenError, SledStore, open};
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::error::contain;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::verification::{Finding, Part, Remedy, VerificationEvent};
use daftar_store::change_log::{CHANGES_MAX, HistoryMark, Touched};
use daftar_store::verify::{LookAtRest, Pace, Verification};
use daftar_store::{SCAN_RECORDS_MAX, StoreError};

/// The longest pause between two pages.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// A folder that no server uses, opened to be looked through and for nothing else.
pub struct StoppedStore {
    database: ::sled::Db,
    /// That something that was acknowledged is gone.
    lost: Option<Finding>,
    /// Released last: fields are dropped in this order.
    _lock: File,
}

impl StoppedStore {
    /// Opens a folder in which there is a store already.
    ///
    /// # Errors
    /// See [`OpenError`]; also when there is none.
    pub fn open(path: &Path, cache_bytes: u64) -> Result<Self, OpenError> {
        let (database, lock) = open::open_existing(path, cache_bytes)?;
        let look = Look::new(&database);
        let held = contain(|| Acknowledged {
            sequence: look.last_number(&[keys::CHANGE]).unwrap_or_default(),
            audit: look.last_number(&[keys::AUDIT]).unwrap_or_default(),
            code_table_parts: look.last_number(&[keys::CODE_TABLE]).map_or(0, |last| last.saturating_add(1)),
        });
        let lost = open::check_acknowledged(path, &held.unwrap_or_default()).err();
        let lost = lost.map(|lost| finding(Part::Files, "the end of the database", lost.to_string(), Remedy::Restore));
        Ok(Self { database, lost, _lock: lock })
    }
}

/// Runs something while nothing is written, or right away where nothing is.
async fn at_rest(
    database: &::sled::Db,
    jobs: Option<&SyncSender<Job>>,
    run: impl FnOnce(&Look) + Send + 'static,
) -> Result<(), StoreError> {
    let look = Look::new(database);
    let guarded = move || {
        // The database is known to panic on files that it does not understand. Whoever asked hears nothing then.
        let _ = contain(|| run(&look));
    };
    let Some(jobs) = jobs else { return blocking(guarded).await };
    let (done, is_done) = oneshot::channel();
    let job = Job::Look(Box::new(move || {
        guarded();
        let _ = done.send(());
    }));
    let jobs = jobs.clone();
    // Waits for room in the queue like everybody who writes.
    if blocking(move || jobs.send(job).is_ok()).await? && is_done.await.is_ok() {
        return Ok(());
    }
    Err(StoreError::Failed("the thread that writes has stopped".into()))
}

async fn blocking<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(run).await.map_err(|error| StoreError::Failed(error.into()))
}

async fn walk(
    database: &::sled::Db,
    jobs: Option<&SyncSender<Job>>,
    pace: Pace,
    events: Sender<VerificationEvent>,
) -> Result<(), StoreError> {
    let shared = Arc::new(Mutex::new(Walk::default()));
    loop {
        let started = Instant::now();
        let (look, walk) = (Look::new(database), Arc::clone(&shared));
        let mut page = blocking(move || {
            let mut walk = walk.lock().unwrap_or_else(PoisonError::into_inner);
            let turned = contain(|| walk.page(&look));
            turned.unwrap_or_else(|_| walk.give_up_part("the database does not understand its own files there"))
        })
        .await?;
        let suspects = std::mem::take(&mut page.suspects);
        if !suspects.is_empty() {
            let (walk, found) = (Arc::clone(&shared), Arc::new(Mutex::new(Vec::new())));
            let into = Arc::clone(&found);
            at_rest(database, jobs, move |look| {
                let mut walk = walk.lock().unwrap_or_else(PoisonError::into_inner);
                let again = walk.look_again(look, &suspects);
                into.lock().unwrap_or_else(PoisonError::into_inner).extend(again);
            })
            .await?;
            page.findings.append(&mut found.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let progress = VerificationEvent::Progress { part: page.part, done: page.done, total: page.total };
        for event in page.findings.into_iter().map(VerificationEvent::Finding).chain([progress]) {
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

async fn readable(
    database: &::sled::Db,
    kind: RecordKind,
    after: RecordId,
    limit: usize,
) -> Result<(Vec<ChangedRecord>, Option<RecordId>), StoreError> {
    let look = Look::new(database);
    let read = move || contain(|| look.readable(kind, after, limit.min(SCAN_RECORDS_MAX)));
    blocking(read).await?.map_err(|_| StoreError::Failed("the database does not understand its own files".into()))
}

async fn records_at_rest(
    database: &::sled::Db,
    jobs: Option<&SyncSender<Job>>,
    kind: RecordKind,
    ids: Vec<RecordId>,
    look: LookAtRest,
) -> Result<(), StoreError> {
    at_rest(database, jobs, move |at| {
        let records: Vec<ChangedRecord> = ids.iter().filter_map(|id| at.readable_record(kind, *id)).collect();
        look(&records);
    })
    .await
}

#[async_trait::async_trait]
impl Verification for SledStore {
    async fn verify(&self, pace: Pace, events: Sender<VerificationEvent>) -> Result<(), StoreError> {
        walk(&self.reader.database, self.jobs.as_ref(), pace, events).await
    }

    async fn readable_records(
        &self,
        kind: RecordKind,
        after: RecordId,
        limit: usize,
    ) -> Result<(Vec<ChangedRecord>, Option<RecordId>), StoreError> {
        readable(&self.reader.database, kind, after, limit).await
    }

    async fn look_at_rest(&self, kind: RecordKind, ids: Vec<RecordId>, look: LookAtRest) -> Result<(), StoreError> {
        records_at_rest(&self.reader.database, self.jobs.as_ref(), kind, ids, look).await
    }
}

#[async_trait::async_trait]
impl Verification for StoppedStore {
    async fn verify(&self, pace: Pace, events: Sender<VerificationEvent>) -> Result<(), StoreError> {
        if let Some(lost) = self.lost.clone()
            && events.send(VerificationEvent::Finding(lost)).await.is_err()
        {
            return Ok(());
        }
        walk(&self.database, None, pace, events).await
    }

    async fn readable_records(
        &self,
        kind: RecordKind,
        after: RecordId,
        limit: usize,
    ) -> Result<(Vec<ChangedRecord>, Option<RecordId>), StoreError> {
        readable(&self.database, kind, after, limit).await
    }

    async fn look_at_rest(&self, kind: RecordKind, ids: Vec<RecordId>, look: LookAtRest) -> Result<(), StoreError> {
        records_at_rest(&self.database, None, kind, ids, look).await
    }
}

impl StoppedStore {
    /// Reads what the database says of its writes. Its health is its own: what cannot be read stops nothing.
    async fn follow<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let reader = Reader { database: self.database.clone(), health: Arc::default() };
        let contained = blocking(move || contain(|| read(&reader))).await?;
        contained.map_err(|_| StoreError::Failed("the database does not understand its own files".into()))?
    }
}

/// The order of writes, as [`daftar_store::Store`] tells it.
impl StoppedStore {
    /// What up to `limit` writes after that one touched, in their order.
    ///
    /// # Errors
    /// When the database fails, a value cannot be read, or a write is missing.
    pub async fn changes_after(&self, after: Sequence, limit: usize) -> Result<Vec<Touched>, StoreError> {
        self.follow(move |reader| reader.changes_after(after, limit.min(CHANGES_MAX))).await
    }

    /// The mark of the history up to that write; absent where that write was never made.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn history_mark(&self, at: Sequence) -> Result<Option<HistoryMark>, StoreError> {
        self.follow(move |reader| reader.history_mark(at)).await
    }
}

/// A finding.
fn finding(part: Part, place: impl Into<String>, problem: impl Into<String>, remedy: Remedy) -> Finding {
    Finding { part, place: place.into(), problem: problem.into(), remedy }
}
