//! When checkpoints are made: soon after a start that had none, when much was written since the last one, and at the end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use daftar_domain::change::Sequence;
use daftar_index::checkpoint::CheckpointFolder;
use daftar_index::{Columns, Image};
use daftar_store::Store;

/// How often it is asked whether a checkpoint is due.
const INTERVAL: Duration = Duration::from_secs(10);
/// A checkpoint is due when so much was written since the last one. Each write takes 10 to 25 µs to take up at the next start
/// (host/docs/SCALE.md).
const WRITES_DUE: u64 = 50_000;
/// It is also due when anything was written and the last one is so old.
const AGE_DUE: Duration = Duration::from_secs(3_600);
/// After one failed, as after a disk was full, the next is tried this much later.
const AFTER_FAILURE: Duration = Duration::from_secs(600);
/// By how much the thread that writes a checkpoint stands back for those that serve.
const NICENESS: i32 = 10;

/// Keeps checkpoints of a register.
pub(super) struct Checkpoints {
    folder: CheckpointFolder,
    columns: Arc<Columns>,
    store: Arc<dyn Store>,
    last: Mutex<Last>,
    /// Held by whoever writes one.
    writing: tokio::sync::Mutex<()>,
}

/// What is on disk.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// The last write that a checkpoint shows; none, where there is no checkpoint.
    sequence: Option<Sequence>,
    tried: Option<Instant>,
    /// When the last one was written, or, of one that was there at the start, when it was read.
    written: Option<Instant>,
    has_failed: bool,
}

/// What the metrics page tells of checkpoints.
pub(super) struct CheckpointUsage {
    /// How long ago the last one was written, or read at the start; absent where there is none.
    pub(super) age: Option<Duration>,
    /// Writes that it does not show.
    pub(super) writes_behind: u64,
    /// Whether the last try failed.
    pub(super) has_failed: bool,
}

impl Checkpoints {
    pub(super) fn new(
        folder: CheckpointFolder,
        columns: Arc<Columns>,
        store: Arc<dyn Store>,
        sequence: Option<Sequence>,
    ) -> Self {
        let tried = sequence.map(|_| Instant::now());
        let last = Mutex::new(Last { sequence, tried, written: tried, has_failed: false });
        Self { folder, columns, store, last, writing: tokio::sync::Mutex::default() }
    }

    /// Works until it is dropped.
    pub(super) async fn keep_up(&self) {
        // Not at once: the first requests after a start come first.
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + INTERVAL, INTERVAL);
        loop {
            ticks.tick().await;
            let _writing = self.writing.lock().await;
            if self.is_due() {
                self.write().await;
            }
        }
    }

    /// Makes a checkpoint unless the last one shows everything.
    pub(super) async fn finish(&self) {
        let _writing = self.writing.lock().await;
        let is_current = self.last().sequence == Some(self.columns.sequence());
        if !is_current {
            self.write().await;
        }
    }

    /// How old the last one is, how many writes came after it, and whether the last try failed.
    pub(super) fn usage(&self) -> CheckpointUsage {
        let last = self.last();
        CheckpointUsage {
            age: last.written.map(|written| written.elapsed()),
            writes_behind: self.columns.sequence().0.saturating_sub(last.sequence.unwrap_or_default().0),
            has_failed: last.has_failed,
        }
    }

    fn last(&self) -> Last {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_due(&self) -> bool {
        let (last, now) = (self.last(), self.columns.sequence());
        let age = last.tried.map(|tried| tried.elapsed());
        if last.has_failed && age.is_some_and(|age| age < AFTER_FAILURE) {
            return false;
        }
        let Some(sequence) = last.sequence else { return now > Sequence::default() };
        let writes = now.0.saturating_sub(sequence.0);
        writes >= WRITES_DUE || (writes > 0 && age.is_none_or(|age| age >= AGE_DUE))
    }

    async fn write(&self) {
        let started = Instant::now();
        let image = self.columns.image();
        let sequence = image.sequence();
        let written = self.try_write(image).await;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.tried = Some(Instant::now());
        last.has_failed = written.is_err();
        match written {
            Ok(bytes) => {
                last.sequence = Some(sequence);
                last.written = last.tried;
                tracing::info!(
                    checkpoint.sequence = sequence.0,
                    checkpoint.bytes = bytes,
                    duration_ms = daftar_http::spans::milliseconds(started.elapsed()),
                    "a checkpoint was written"
                );
            }
            Err(error) => tracing::warn!(
                error = %error,
                "no checkpoint could be written; nothing is lost, but the next start takes longer"
            ),
        }
    }

    async fn try_write(&self, image: Image) -> Result<u64, String> {
        let mark = self.store.history_mark(image.sequence()).await.map_err(|error| error.to_string())?;
        let mark = mark.ok_or_else(|| "the store does not know the last write".to_owned())?;
        let folder = self.folder.clone();
        let (answer, answered) = oneshot::channel();
        // A thread of its own, since it stands back for good.
        let thread = std::thread::Builder::new().name("checkpoint".to_owned()).spawn(move || {
            let _stood_back = rustix::process::setpriority_process(None, NICENESS);
            let _heard = answer.send(folder.write(&image, mark.0));
        });
        thread.map_err(|error| error.to_string())?;
        let written = answered.await.map_err(|_| "its thread ended early".to_owned())?;
        written.map_err(|error| error.to_string())
    }
}
