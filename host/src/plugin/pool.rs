//! The threads that guests run on.
//!
//! Guest calls are synchronous and may take seconds, so they never run on a worker of the async runtime. The queue is
//! bounded: what does not fit is refused at once, not kept waiting.
//!
//! **Invariant:** background work never occupies the last thread, so a request waits for requests only.
//! **Invariant:** a panic in a job ends that job, not its thread.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, ThreadId};

use super::limits::STACK_BYTES;

/// Room on a thread's stack beside the guest's own, in bytes: our frames, and those that lift and lower values.
const HOST_STACK_BYTES: usize = 2 << 20;

/// Who waits for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Priority {
    /// A request.
    Interactive,
    /// Nobody in particular: installs, previews.
    Background,
}

/// How many threads, and how many jobs may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PoolSize {
    pub threads: usize,
    pub interactive_waiting: usize,
    pub background_waiting: usize,
}

/// The queue is full, or the pool has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too much plugin work is waiting")]
pub(super) struct Busy;

type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of threads with a bounded queue.
pub(super) struct CallPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    size: PoolSize,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    interactive: VecDeque<Job>,
    background: VecDeque<Job>,
    background_running: usize,
    is_stopping: bool,
}

impl CallPool {
    /// Starts the threads: two at least, so that background work leaves one free.
    ///
    /// # Errors
    /// The machine gives no thread.
    pub fn start(size: PoolSize) -> std::io::Result<Self> {
        let size = PoolSize { threads: size.threads.max(2), ..size };
        let shared = Arc::new(Shared { size, queue: Mutex::new(Queue::default()), changed: Condvar::new() });
        let mut pool = Self { shared, threads: Vec::with_capacity(size.threads) };
        for number in 0..size.threads {
            let shared = pool.shared.clone();
            let builder = std::thread::Builder::new()
                .name(format!("plugin-{number}"))
                .stack_size(STACK_BYTES.saturating_add(HOST_STACK_BYTES));
            pool.threads.push(builder.spawn(move || shared.work())?);
        }
        Ok(pool)
    }

    /// Puts a job into the queue.
    ///
    /// # Errors
    /// [`Busy`] when it is full; the job is dropped without having run.
    pub fn submit(&self, priority: Priority, job: impl FnOnce() + Send + 'static) -> Result<(), Busy> {
        let size = self.shared.size;
        let mut queue = self.shared.lock();
        let (waiting, most) = match priority {
            Priority::Interactive => (&mut queue.interactive, size.interactive_waiting),
            Priority::Background => (&mut queue.background, size.background_waiting),
        };
        if waiting.len() >= most {
            return Err(Busy);
        }
        waiting.push_back(Box::new(job));
        drop(queue);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Runs a job and waits for its value. Never from one of the pool's own threads, which would wait for itself.
    ///
    /// # Errors
    /// [`Busy`] when the queue is full or the job panicked.
    pub fn run<R: Send + 'static>(
        &self,
        priority: Priority,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Busy> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.submit(priority, move || drop(sender.send(job())))?;
        receiver.recv().map_err(|_| Busy)
    }
}

impl Drop for CallPool {
    /// Drops what waits, and lets what runs end: its limits see to it that it does.
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.is_stopping = true;
        let waiting = (std::mem::take(&mut queue.interactive), std::mem::take(&mut queue.background));
        drop(queue);
        drop(waiting);
        self.shared.changed.notify_all();
        let this_thread: ThreadId = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // The last owner may be a job of this pool; a thread cannot wait for its own end.
            if thread.thread().id() != this_thread {
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics while it is held, and the queue is sound between any two statements.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((priority, job)) = self.next() {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!("a job on a plugin thread panicked");
            }
            if priority == Priority::Background {
                let mut queue = self.lock();
                queue.background_running = queue.background_running.saturating_sub(1);
                drop(queue);
                // Another thread may have passed over waiting background work.
                self.changed.notify_one();
            }
        }
    }

    /// The next job, or none when the pool stops.
    fn next(&self) -> Option<(Priority, Job)> {
        let mut queue = self.lock();
        loop {
            if queue.is_stopping {
                return None;
            }
            if let Some(job) = queue.interactive.pop_front() {
                return Some((Priority::Interactive, job));
            }
            if queue.background_running < self.size.threads.saturating_sub(1)
                && let Some(job) = queue.background.pop_front()
            {
                queue.background_running = queue.background_running.saturating_add(1);
                return Some((Priority::Background, job));
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    fn pool(interactive_waiting: usize, background_waiting: usize) -> CallPool {
        CallPool::start(PoolSize { threads: 2, interactive_waiting, background_waiting }).unwrap()
    }

    /// Occupies a thread until the sender is dropped. Returns once the job runs.
    fn occupy(pool: &CallPool, priority: Priority) -> SyncSender<()> {
        let (release, released): (SyncSender<()>, Receiver<()>) = sync_channel(0);
        let (started, has_started) = sync_channel(0);
        pool.submit(priority, move || {
            started.send(()).unwrap();
            let _ = released.recv();
        })
        .unwrap();
        has_started.recv().unwrap();
        release
    }

    #[test]
    fn a_full_queue_refuses_at_once() {
        let pool = pool(1, 1);
        let first = occupy(&pool, Priority::Interactive);
        let second = occupy(&pool, Priority::Interactive);
        assert_eq!(pool.submit(Priority::Interactive, || ()), Ok(()));
        assert_eq!(pool.submit(Priority::Interactive, || ()), Err(Busy));
        assert_eq!(pool.submit(Priority::Background, || ()), Ok(()));
        assert_eq!(pool.submit(Priority::Background, || ()), Err(Busy));
        drop((first, second));
    }

    #[test]
    fn background_work_leaves_a_thread_for_requests() {
        let pool = pool(4, 4);
        let background = occupy(&pool, Priority::Background);
        let (sender, receiver) = sync_channel(1);
        pool.submit(Priority::Background, move || sender.send("background").unwrap()).unwrap();
        assert_eq!(pool.run(Priority::Interactive, || "request"), Ok("request"));
        assert!(receiver.try_recv().is_err());
        drop(background);
        assert_eq!(receiver.recv(), Ok("background"));
    }

    #[test]
    fn a_panic_ends_its_job_only() {
        let pool = pool(4, 4);
        for _ in 0..8 {
            let outcome: Result<(), Busy> = pool.run(Priority::Interactive, || panic!("a test's panic"));
            assert_eq!(outcome, Err(Busy));
        }
        assert_eq!(pool.run(Priority::Background, || 7), Ok(7));
    }

    #[test]
    fn stopping_drops_what_waits_and_joins_what_runs() {
        let pool = pool(4, 4);
        let running = (occupy(&pool, Priority::Interactive), occupy(&pool, Priority::Interactive));
        let (sender, receiver) = sync_channel::<()>(1);
        pool.submit(Priority::Interactive, move || sender.send(()).unwrap()).unwrap();
        let stopping = std::thread::spawn(move || drop(pool));
        assert!(receiver.recv().is_err(), "a job that waited has run");
        drop(running);
        stopping.join().unwrap();
    }
}
