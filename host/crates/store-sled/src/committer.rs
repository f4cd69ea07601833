//! The committer thread: completes the groups that the writer has applied, while the writer works on the next one.
//!
//! A group is flushed to disk, passed to the sink, and acknowledged. The writer is notified as soon as it is on disk,
//! and applies the next group from then on; it plans that one before.
//!
//! **Invariant:** groups are completed one at a time, in the order in which they were applied.
//!
//! **Invariant:** a group is applied only when the one before is on disk. So at most one applied group can be lost, and
//! nothing that was planned on top of it is written.
//!
//! **Invariant:** the writer does not wait without a limit for a flush that syncs nothing: after a failed write the
//! database may block forever.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use daftar_domain::change::Change;
use daftar_domain::error::{Panicked, contain};
use daftar_store::archive::Fixed;
use daftar_store::meters::Meters;
use daftar_store::{ChangeSink, StoreError};

use super::archive;
use super::disk;
use super::group::Answers;
use super::health::{Health, PanicGuard};
use super::mark::{Acknowledged, Mark};
use super::reader::Reader;
use super::sync;
use super::writer::{Answer, Assigned};

/// The calls that bring an applied group to disk. Replaceable in tests: disks do not fail on request.
pub(super) struct DiskCalls {
    /// Brings the buffers of the database to disk. May block forever after a failed write.
    pub(super) flush: Box<dyn FnMut() -> ::sled::Result<()> + Send>,
    /// The time limit of a flush, while no file is being synced.
    pub(super) flush_limit: Duration,
}

/// A group that the database contains and that may not be on disk yet.
pub(super) struct Applied {
    pub(super) changes: Vec<Change>,
    pub(super) answers: Answers,
    /// True if it wrote nothing.
    pub(super) is_empty: bool,
    /// The number of its jobs.
    pub(super) jobs: usize,
    /// The time at which the writer began to apply it.
    pub(super) began: Instant,
    /// The last assigned numbers after it.
    pub(super) assigned: Assigned,
}

/// The work of the thread.
enum Task {
    Complete(Box<Applied>),
    /// Reports that all earlier tasks are done.
    Report(SyncSender<()>),
}

/// The results of the group that is being flushed. The writer takes them if that takes too long.
#[derive(Clone, Default)]
struct Flushing(Arc<Mutex<Option<Answers>>>);

impl Flushing {
    fn put(&self, answers: Answers) {
        *self.lock() = Some(answers);
    }

    fn take(&self) -> Option<Answers> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Answers>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer's end of the thread.
pub(super) struct Committer {
    health: Arc<Health>,
    flush_limit: Duration,
    /// `None` once no more groups can be completed.
    tasks: Option<SyncSender<Task>>,
    /// Receives for each group whether it is on disk.
    synced: Receiver<bool>,
    flushing: Flushing,
    /// `None` if the thread may be blocked forever.
    thread: Option<JoinHandle<()>>,
    in_flight: Option<InFlight>,
    /// The last numbers that are on disk.
    on_disk: Acknowledged,
}

/// A group that is being brought to disk.
struct InFlight {
    assigned: Assigned,
    /// The callers that wait for a snapshot after it.
    snapshots: Vec<Answer<Fixed>>,
}

impl Committer {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub(super) fn start(completion: Completion, on_disk: Acknowledged) -> io::Result<Self> {
        let (health, flush_limit) = (Arc::clone(&completion.health), completion.disk.flush_limit);
        let flushing = Flushing::default();
        let (tasks, waiting) = sync_channel(1);
        let (report, synced) = sync_channel(1);
        let slot = flushing.clone();
        let thread = std::thread::Builder::new()
            .name("store-committer".to_owned())
            .spawn(move || completion.run(&waiting, &slot, &report))?;
        let (tasks, thread) = (Some(tasks), Some(thread));
        Ok(Self { health, flush_limit, tasks, synced, flushing, thread, in_flight: None, on_disk })
    }

    /// Returns the last numbers that are on disk.
    pub(super) fn on_disk(&self) -> Acknowledged {
        self.on_disk
    }

    /// Hands over an applied group; the one before must be settled.
    pub(super) fn begin(&mut self, group: Applied, snapshots: Vec<Answer<Fixed>>) {
        let assigned = group.assigned;
        match self.send(Task::Complete(Box::new(group))) {
            Ok(()) => self.in_flight = Some(InFlight { assigned, snapshots }),
            Err(Task::Complete(group)) => {
                let failure = self.health.fail("writing", &"the committer thread has stopped");
                group.answers.fail(&self.health, failure);
            }
            Err(Task::Report(_)) => {}
        }
    }

    /// Waits until the last group is on disk, and fixes the snapshots after it.
    pub(super) fn settle(&mut self, reader: &Reader) {
        let Some(InFlight { assigned, snapshots }) = self.in_flight.take() else { return };
        if !self.wait() {
            // The dropped senders tell callers that there is no snapshot.
            return;
        }
        self.on_disk = assigned.acknowledged();
        for answer in snapshots {
            // The caller may have stopped waiting.
            let _ = answer.send(archive::fix(reader, &assigned));
        }
    }

    /// Waits until the sink has the changes of all groups.
    pub(super) fn drain(&self) {
        let (report, is_done) = sync_channel(1);
        if self.send(Task::Report(report)).is_ok() {
            // An error: the thread has panicked, which it logs itself.
            let _ = is_done.recv();
        }
    }

    fn send(&self, task: Task) -> Result<(), Task> {
        match &self.tasks {
            Some(tasks) => tasks.send(task).map_err(|unsent| unsent.0),
            None => Err(task),
        }
    }

    /// Waits for the group in flight; returns true if it is on disk.
    fn wait(&mut self) -> bool {
        let mut progress = sync::progress();
        loop {
            match self.synced.recv_timeout(self.flush_limit) {
                Ok(is_synced) => return is_synced,
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) if sync::is_slow(&mut progress) => {}
                Err(RecvTimeoutError::Timeout) => {
                    // Without them the thread writes the marker, or has not finished the group before.
                    let Some(answers) = self.flushing.take() else { continue };
                    let failure = self.health.fail("flushing", &disk::late(self.flush_limit));
                    answers.fail(&self.health, failure);
                    (self.tasks, self.thread) = (None, None);
                    return false;
                }
            }
        }
    }
}

impl Drop for Committer {
    /// Waits until everything handed over is completed.
    fn drop(&mut self) {
        if self.in_flight.take().is_some() {
            self.wait();
        }
        drop(self.tasks.take());
        // A panic of the thread was logged by the thread itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The state of the thread.
pub(super) struct Completion {
    pub(super) health: Arc<Health>,
    pub(super) meters: Arc<Meters>,
    pub(super) sink: Arc<OnceLock<Arc<dyn ChangeSink>>>,
    pub(super) last_sequence: Arc<AtomicU64>,
    pub(super) disk: DiskCalls,
    pub(super) mark: Mark,
}

impl Completion {
    /// Runs until the writer hands over no more groups.
    fn run(mut self, tasks: &Receiver<Task>, flushing: &Flushing, synced: &SyncSender<bool>) {
        for task in tasks {
            match task {
                Task::Complete(group) => self.complete(*group, flushing, synced),
                Task::Report(done) => {
                    let _ = done.send(());
                }
            }
        }
    }

    fn complete(&mut self, group: Applied, flushing: &Flushing, synced: &SyncSender<bool>) {
        let Applied { changes, answers, is_empty, jobs, began, assigned } = group;
        flushing.put(answers);
        let flushed = if is_empty { self.health.check() } else { self.flush() };
        // The writer has rejected the group if the flush took too long.
        let Some(answers) = flushing.take() else { return };
        // Dropped before the results: no caller learns of a panic before the store has failed.
        let _guard = PanicGuard::new(&self.health, "the committer thread has panicked");
        let stored = flushed.and_then(|()| if is_empty { Ok(()) } else { self.mark(&assigned) });
        if stored.is_ok() {
            self.last_sequence.store(assigned.last.sequence.0, Ordering::Release);
        }
        if stored.is_ok() && !is_empty {
            self.meters.note_group(jobs, began.elapsed());
        }
        // The writer waits for it, unless it has panicked.
        let _ = synced.send(stored.is_ok());
        match stored {
            Ok(()) => {
                if let Some(sink) = self.sink.get().filter(|_| !changes.is_empty()) {
                    sink.apply(&changes);
                }
                answers.send();
            }
            Err(failure) => answers.fail(&self.health, failure),
        }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.health.check()?;
        match contain(|| (self.disk.flush)()) {
            Ok(flushed) => flushed.map_err(|error| self.health.fail("flushing", &error)),
            Err(Panicked) => Err(self.health.fail("flushing", &"the database has panicked")),
        }
    }

    /// Writes the marker of a group that is on disk. If that fails, the next write is not acknowledged.
    fn mark(&mut self, assigned: &Assigned) -> Result<(), StoreError> {
        self.mark
            .write(assigned.acknowledged())
            .map_err(|error| self.health.fail("writing the acknowledgement marker", &error))
    }
}
