//! The threads that guests run on.
//!
//! Guest calls are synchronous and may take seconds, so they never run on a worker of the async runtime. The queue is
//! bounded: what does not fit is refused at once, not kept waiting; and plugins take turns, so that none fills it for another.
//!
//! **Invariant:** background work never occupies the last thread, so a request waits for requests only.
//! **Invariant:** where threads are scarce, those that serve requests without a guest go first.
//! **Invariant:** a panic in a job ends that job, not its thread.

mod lanes;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, ThreadId};

use lanes::Lanes;

use super::limits::STACK_BYTES;
use crate::domain::manifest::PluginName;

/// Room on a thread's stack beside the guest's own, in bytes: our frames, and those that lift and lower values.
const HOST_STACK_BYTES: usize = 2 << 20;

/// How far the plugin threads stand back behind the others, as `nice` counts it: on a machine with few cores a guest that
/// computes must not make requests wait that need none.
const NICENESS: i32 = 10;

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

/// What plugin threads have to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUsage {
    /// How many there are.
    pub threads: usize,
    /// Requests that wait for one.
    pub interactive_waiting: usize,
    /// Background work that waits for one.
    pub background_waiting: usize,
    /// How many requests may wait.
    pub interactive_waiting_max: usize,
    /// How much background work may.
    pub background_waiting_max: usize,
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

struct Queue {
    interactive: Lanes,
    background: Lanes,
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
        let queue = Queue {
            interactive: Lanes::new(size.interactive_waiting),
            background: Lanes::new(size.background_waiting),
            background_running: 0,
            is_stopping: false,
        };
        let shared = Arc::new(Shared { size, queue: Mutex::new(queue), changed: Condvar::new() });
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

    /// Puts a job of a plugin into the queue.
    ///
    /// # Errors
    /// [`Busy`] when it is full or the plugin has its share of it; the job is dropped without having run.
    pub fn submit(
        &self,
        priority: Priority,
        plugin: &PluginName,
        job: impl FnOnce() + Send + 'static,
    ) -> Result<(), Busy> {
        // From here to its end, the time in the queue included.
        let span = tracing::info_span!("plugin.run", plugin.name = %plugin);
        let job = move || span.in_scope(job);
        let mut queue = self.shared.lock();
        match priority {
            Priority::Interactive => queue.interactive.push(plugin, Box::new(job))?,
            Priority::Background => queue.background.push(plugin, Box::new(job))?,
        }
        drop(queue);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// What there is to do now.
    pub fn usage(&self) -> PoolUsage {
        let queue = self.shared.lock();
        PoolUsage {
            threads: self.shared.size.threads,
            interactive_waiting: queue.interactive.waiting(),
            background_waiting: queue.background.waiting(),
            interactive_waiting_max: self.shared.size.interactive_waiting,
            background_waiting_max: self.shared.size.background_waiting,
        }
    }

    /// Runs a job and waits for its value. Never from one of the pool's own threads, which would wait for itself.
    ///
    /// # Errors
    /// [`Busy`] when the queue is full or the job panicked.
    pub fn run<R: Send + 'static>(
        &self,
        priority: Priority,
        plugin: &PluginName,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Busy> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.submit(priority, plugin, move || drop(sender.send(job())))?;
        receiver.recv().map_err(|_| Busy)
    }
}

impl Drop for CallPool {
    /// Drops what waits, and lets what runs end: its limits see to it that it does.
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.is_stopping = true;
        let waiting = (queue.interactive.drain(), queue.background.drain());
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
        if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
            tracing::debug!(error = %error, "a plugin thread keeps its priority");
        }
        while let Some((priority, plugin, job)) = self.next() {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!("a job on a plugin thread panicked");
            }
            let mut queue = self.lock();
            match priority {
                Priority::Interactive => queue.interactive.ended(&plugin),
                Priority::Background => {
                    queue.background.ended(&plugin);
                    queue.background_running = queue.background_running.saturating_sub(1);
                    drop(queue);
                    // Another thread may have passed over waiting background work.
                    self.changed.notify_one();
                }
            }
        }
    }

    /// The next job, or none when the pool stops.
    fn next(&self) -> Option<(Priority, PluginName, Job)> {
        let mut queue = self.lock();
        loop {
            if queue.is_stopping {
                return None;
            }
            if let Some((plugin, job)) = queue.interactive.pop() {
                return Some((Priority::Interactive, plugin, job));
            }
            if queue.background_running < self.size.threads.saturating_sub(1)
                && let Some((plugin, job)) = queue.background.pop()
            {
                queue.background_running = queue.background_running.saturating_add(1);
                return Some((Priority::Background, plugin, job));
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

    fn plugin() -> PluginName {
        PluginName::parse("test").unwrap()
    }

    /// Occupies a thread until the sender is dropped. Returns once the job runs.
    fn occupy(pool: &CallPool, priority: Priority) -> SyncSender<()> {
        let (release, released): (SyncSender<()>, Receiver<()>) = sync_channel(0);
        let (started, has_started) = sync_channel(0);
        pool.submit(priority, &plugin(), move || {
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
        assert_eq!(pool.submit(Priority::Interactive, &plugin(), || ()), Ok(()));
        assert_eq!(pool.submit(Priority::Interactive, &plugin(), || ()), Err(Busy));
        assert_eq!(pool.submit(Priority::Background, &plugin(), || ()), Ok(()));
        assert_eq!(pool.submit(Priority::Background, &plugin(), || ()), Err(Busy));
        drop((first, second));
    }

    #[test]
    fn a_plugin_that_occupies_every_thread_and_fills_its_queue_leaves_room_for_another() {
        let pool = pool(4, 4);
        let (first, second) = (occupy(&pool, Priority::Interactive), occupy(&pool, Priority::Interactive));
        let slow: Vec<_> = (0..4).map(|_| pool.submit(Priority::Interactive, &plugin(), || ())).collect();
        assert_eq!(slow, [Ok(()), Ok(()), Err(Busy), Err(Busy)]);
        let other = PluginName::parse("other").unwrap();
        assert_eq!(pool.submit(Priority::Interactive, &other, || ()), Ok(()));
        let usage = pool.usage();
        assert_eq!((usage.threads, usage.interactive_waiting, usage.background_waiting), (2, 3, 0));
        drop((first, second));
    }

    #[test]
    fn background_work_leaves_a_thread_for_requests() {
        let pool = pool(4, 4);
        let background = occupy(&pool, Priority::Background);
        let (sender, receiver) = sync_channel(1);
        pool.submit(Priority::Background, &plugin(), move || sender.send("background").unwrap()).unwrap();
        assert_eq!(pool.run(Priority::Interactive, &plugin(), || "request"), Ok("request"));
        assert!(receiver.try_recv().is_err());
        drop(background);
        assert_eq!(receiver.recv(), Ok("background"));
    }

    #[test]
    fn a_panic_ends_its_job_only() {
        let pool = pool(4, 4);
        for _ in 0..8 {
            let outcome: Result<(), Busy> = pool.run(Priority::Interactive, &plugin(), || panic!("a test's panic"));
            assert_eq!(outcome, Err(Busy));
        }
        assert_eq!(pool.run(Priority::Background, &plugin(), || 7), Ok(7));
    }

    #[test]
    fn stopping_drops_what_waits_and_joins_what_runs() {
        let pool = pool(4, 4);
        let running = (occupy(&pool, Priority::Interactive), occupy(&pool, Priority::Interactive));
        let (sender, receiver) = sync_channel::<()>(1);
        pool.submit(Priority::Interactive, &plugin(), move || sender.send(()).unwrap()).unwrap();
        let stopping = std::thread::spawn(move || drop(pool));
        assert!(receiver.recv().is_err(), "a job that waited has run");
        drop(running);
        stopping.join().unwrap();
    }
}
