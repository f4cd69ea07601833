//! The threads that run guests.
//!
//! Guest calls are synchronous and may take seconds, so they never run on a worker of the async runtime. The queue is
//! bounded: a job that exceeds it is rejected immediately. Scheduling is fair between plugins, and within a plugin
//! between clients (`fair`), so that none of them fills the queue for another.
//!
//! **Invariant:** the jobs of one client, in all plugins and of both priorities, never occupy the last thread: the
//! first request of another client always finds one.
//! **Invariant:** a job whose request was cancelled is not started.
//! **Invariant:** background jobs never occupy the last two threads, so a request waits for requests only, even if the
//! background jobs are those of its own client.
//! **Invariant:** guest threads have a lower scheduling priority than the threads that serve requests without a guest.
//! **Invariant:** a panic in a job ends that job, not its thread.
//! **Invariant:** one plugin has at most half of the queue, and one client at most half of that.
//! **Invariant:** plugins are served round-robin, and within a plugin its clients: a slow plugin delays its own callers
//! only, and a client with many requests only itself.
//! **Invariant:** if the share of a plugin is exhausted, a client with fewer jobs than another replaces the newest job
//! of that other: clients that fill the queue do not block others.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, ThreadId};

use super::limits::STACK_BYTES;
use daftar_domain::audit::Actor;
use daftar_domain::context::{Cancellation, dedicate_thread};
use daftar_domain::fair::FairQueue;
use daftar_domain::manifest::PluginName;

/// Stack space beside the guest's own, in bytes: for the frames of the host, and for lifting and lowering values.
const HOST_STACK_BYTES: usize = 2 << 20;

/// The minimum number of threads.
pub(super) const THREADS_MIN: usize = 3;

/// The `nice` value of plugin threads: on a machine with few cores a busy guest must not delay requests that run no
/// guest.
const NICENESS: i32 = 10;

/// The class of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// A request.
    Interactive,
    /// An install, or a batch of a preview.
    Background,
}

/// The numbers of threads and of queued jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PoolSize {
    pub threads: usize,
    pub interactive_waiting: usize,
    pub background_waiting: usize,
}

/// The current load of the plugin threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUsage {
    /// The number of threads.
    pub threads: usize,
    /// Requests that wait for a thread.
    pub interactive_waiting: usize,
    /// Background jobs that wait for a thread.
    pub background_waiting: usize,
    /// The most requests that may wait.
    pub interactive_waiting_max: usize,
    /// The most background jobs that may wait.
    pub background_waiting_max: usize,
    /// The most threads that background jobs may occupy.
    pub background_threads_max: usize,
}

/// The queue is full, or the pool has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too much plugin work is waiting")]
pub(super) struct Busy;

/// The client and the plugin of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub plugin: PluginName,
    pub actor: Actor,
}

impl Owner {
    /// A job of the server itself.
    pub fn system(plugin: &PluginName) -> Self {
        Self { plugin: plugin.clone(), actor: Actor::System }
    }
}

/// A job that waits for a thread.
struct Job {
    work: Box<dyn FnOnce() + Send>,
    cancellation: Cancellation,
}

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
    /// The owners of the running jobs, by priority.
    running: Vec<(Priority, Owner)>,
    is_stopping: bool,
}

impl CallPool {
    /// Starts the threads: at least three, one for background work, one for a client with background work, and one for
    /// other clients.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(size: PoolSize) -> std::io::Result<Self> {
        let size = PoolSize { threads: size.threads.max(THREADS_MIN), ..size };
        let queue = Queue {
            interactive: Lanes::new(size.interactive_waiting),
            background: Lanes::new(size.background_waiting),
            running: Vec::with_capacity(size.threads),
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

    /// Enqueues a job. It is dropped without having run if its request is cancelled first.
    ///
    /// # Errors
    /// [`Busy`] if the queue is full, or the plugin or the client has exhausted its share; the job is dropped without
    /// having run.
    pub fn submit(
        &self,
        priority: Priority,
        owner: &Owner,
        cancellation: Cancellation,
        job: impl FnOnce() + Send + 'static,
    ) -> Result<(), Busy> {
        // The span includes the time in the queue.
        let span = tracing::info_span!("plugin.run", plugin.name = %owner.plugin);
        let job = Job { work: Box::new(move || span.in_scope(job)), cancellation };
        let mut queue = self.shared.lock();
        let dropped = queue.lanes(priority).push(owner, job)?;
        drop(queue);
        drop(dropped);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Returns the current load.
    pub fn usage(&self) -> PoolUsage {
        let queue = self.shared.lock();
        PoolUsage {
            threads: self.shared.size.threads,
            interactive_waiting: queue.interactive.waiting(),
            background_waiting: queue.background.waiting(),
            interactive_waiting_max: self.shared.size.interactive_waiting,
            background_waiting_max: self.shared.size.background_waiting,
            background_threads_max: self.shared.size.background_threads(),
        }
    }

    /// Runs a job and waits for its value. Never call it from a thread of the pool, which would wait for itself.
    ///
    /// # Errors
    /// [`Busy`] if the queue is full or the job panicked.
    pub fn run<R: Send + 'static>(
        &self,
        priority: Priority,
        owner: &Owner,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Busy> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.submit(priority, owner, Cancellation::default(), move || drop(sender.send(job())))?;
        receiver.recv().map_err(|_| Busy)
    }
}

impl Drop for CallPool {
    /// Drops the waiting jobs and waits for the running ones, which end by their limits.
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.is_stopping = true;
        let waiting = (queue.interactive.drain(), queue.background.drain());
        drop(queue);
        drop(waiting);
        self.shared.changed.notify_all();
        let this_thread: ThreadId = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // The last owner of the pool may be one of its jobs; a thread cannot join itself.
            if thread.thread().id() != this_thread {
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics while the lock is held, and the queue is consistent between any two statements.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        dedicate_thread();
        if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
            tracing::debug!(error = %error, "cannot lower the priority of a plugin thread");
        }
        while let Some((priority, owner, job)) = self.next() {
            if !job.cancellation.is_cancelled() && catch_unwind(AssertUnwindSafe(job.work)).is_err() {
                tracing::error!("plugin thread job panicked");
            }
            let mut queue = self.lock();
            queue.lanes(priority).ended(&owner);
            if let Some(at) = queue.running.iter().position(|running| *running == (priority, owner.clone())) {
                queue.running.swap_remove(at);
            }
            drop(queue);
            // Another thread may have skipped a waiting job.
            self.changed.notify_one();
        }
    }

    /// Waits for the next job. Returns none when the pool stops.
    fn next(&self) -> Option<(Priority, Owner, Job)> {
        let mut queue = self.lock();
        loop {
            if queue.is_stopping {
                return None;
            }
            if let Some((priority, (owner, job))) = queue.next(self.size) {
                queue.running.push((priority, owner.clone()));
                return Some((priority, owner, job));
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl PoolSize {
    /// The most threads that one client may occupy.
    fn threads_of_client(self) -> usize {
        self.threads.saturating_sub(1)
    }

    /// The most threads that background jobs may occupy.
    fn background_threads(self) -> usize {
        self.threads.saturating_sub(2)
    }
}

impl Queue {
    fn lanes(&mut self, priority: Priority) -> &mut Lanes {
        match priority {
            Priority::Interactive => &mut self.interactive,
            Priority::Background => &mut self.background,
        }
    }

    /// Takes the next job that may run.
    fn next(&mut self, size: PoolSize) -> Option<(Priority, (Owner, Job))> {
        let Self { interactive, background, running, .. } = self;
        let of_actor = |actor: &Actor| running.iter().filter(|(_, owner)| owner.actor == *actor).count();
        let may_run = |actor: &Actor| of_actor(actor) < size.threads_of_client();
        if let Some(next) = interactive.pop(may_run) {
            return Some((Priority::Interactive, next));
        }
        let in_background = running.iter().filter(|(priority, _)| *priority == Priority::Background).count();
        if in_background >= size.background_threads() {
            return None;
        }
        background.pop(may_run).map(|next| (Priority::Background, next))
    }
}

/// The waiting jobs of one plugin, by client.
type OfPlugin = FairQueue<Actor, VecDeque<Job>>;

/// The waiting jobs of one priority.
struct Lanes {
    places: usize,
    plugins: FairQueue<PluginName, OfPlugin>,
}

/// Counts the waiting jobs of one plugin or one client.
fn waiting<'j>(jobs: impl Iterator<Item = (&'j Actor, &'j VecDeque<Job>)>) -> usize {
    jobs.map(|(_, jobs)| jobs.len()).sum()
}

impl Lanes {
    /// Creates a queue of that capacity.
    pub fn new(places: usize) -> Self {
        Self { places, plugins: FairQueue::default() }
    }

    /// Counts all waiting jobs.
    pub fn waiting(&self) -> usize {
        self.plugins.iter().map(|(_, clients)| waiting(clients.iter())).sum()
    }

    /// Appends a job to the queue of its client. Returns the jobs that it displaced, to be dropped without the lock.
    ///
    /// # Errors
    /// The queue is full, or the plugin or the client has exhausted its share.
    pub fn push(&mut self, owner: &Owner, job: Job) -> Result<Vec<Job>, Busy> {
        let mut dropped = Vec::new();
        if !self.has_place(owner) {
            dropped = self.take_cancelled();
        }
        if !self.has_place(owner) {
            dropped.push(self.take_newest_of_largest(owner).ok_or(Busy)?);
        }
        self.plugins.update(&owner.plugin, |clients| clients.update(&owner.actor, |jobs| jobs.push_back(job)));
        Ok(dropped)
    }

    /// Takes the next job of a client that `may_run`. The caller reports its end to [`Self::ended`].
    pub fn pop(&mut self, may_run: impl Fn(&Actor) -> bool) -> Option<(Owner, Job)> {
        let (plugin, (actor, job)) = self.plugins.next(
            |_, clients, _| clients.has_next(|actor, _, _| may_run(actor)),
            |clients| clients.next(|actor, _, _| may_run(actor), VecDeque::pop_front),
        )?;
        Some((Owner { plugin, actor }, job))
    }

    /// Records the end of a job of that owner.
    pub fn ended(&mut self, owner: &Owner) {
        self.plugins.ended(&owner.plugin, |clients| clients.ended(&owner.actor, |_| ()));
    }

    /// Takes all waiting jobs.
    pub fn drain(&mut self) -> Vec<Job> {
        self.take(|_| true)
    }

    /// The most waiting jobs of one plugin.
    fn share_of_plugin(&self) -> usize {
        self.places.div_ceil(2)
    }

    /// The most waiting jobs of one client for one plugin.
    fn share_of_client(&self) -> usize {
        self.share_of_plugin().div_ceil(2)
    }

    fn waiting_of(&self, owner: &Owner) -> usize {
        let clients = self.plugins.get(&owner.plugin);
        clients.and_then(|clients| clients.get(&owner.actor)).map_or(0, VecDeque::len)
    }

    fn has_place(&self, owner: &Owner) -> bool {
        let of_plugin = self.plugins.get(&owner.plugin).map_or(0, |clients| waiting(clients.iter()));
        self.waiting() < self.places
            && of_plugin < self.share_of_plugin()
            && self.waiting_of(owner) < self.share_of_client()
    }

    fn take_cancelled(&mut self) -> Vec<Job> {
        self.take(|job| job.cancellation.is_cancelled())
    }

    /// Takes the newest job of the client with the most jobs of that plugin, if it has at least two more than the
    /// owner.
    fn take_newest_of_largest(&mut self, owner: &Owner) -> Option<Job> {
        let own = self.waiting_of(owner);
        let (_, clients) = self.plugins.iter_mut().find(|(plugin, _)| **plugin == owner.plugin)?;
        let (_, jobs) = clients.iter_mut().max_by_key(|(_, jobs)| jobs.len())?;
        if jobs.len() < own.saturating_add(2) { None } else { jobs.pop_back() }
    }

    fn take(&mut self, is_taken: impl Fn(&Job) -> bool) -> Vec<Job> {
        let mut taken = Vec::new();
        for (_, clients) in self.plugins.iter_mut() {
            for (_, jobs) in clients.iter_mut() {
                let (these, others) = std::mem::take(jobs).into_iter().partition(&is_taken);
                *jobs = others;
                taken.extend::<VecDeque<Job>>(these);
            }
            clients.forget_idle();
        }
        self.plugins.forget_idle();
        taken
    }
}

#[cfg(test)]
mod lanes_tests {
    use super::*;
    use daftar_domain::client::ClientId;
    use daftar_domain::context::Cancellation;

    fn of(plugin: &str, client: &str) -> Owner {
        let actor = Actor::Client(ClientId::parse(&format!("client_{client}")).unwrap());
        Owner { plugin: PluginName::parse(plugin).unwrap(), actor }
    }

    fn job() -> Job {
        Job { work: Box::new(|| ()), cancellation: Cancellation::default() }
    }

    fn is_taken(lanes: &mut Lanes, owner: &Owner) -> bool {
        lanes.push(owner, job()).is_ok()
    }

    /// The order in which one thread serves all jobs.
    fn served(lanes: &mut Lanes) -> Vec<Owner> {
        let next = || {
            let (owner, _) = lanes.pop(|_| true)?;
            lanes.ended(&owner);
            Some(owner)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn one_plugin_has_at_most_half_of_the_queue_and_one_client_half_of_that() {
        let mut lanes = Lanes::new(8);
        let taken = [0; 3].map(|_| is_taken(&mut lanes, &of("chatty", "one")));
        assert_eq!(taken, [true, true, false]);
        let taken = [0; 3].map(|_| is_taken(&mut lanes, &of("chatty", "two")));
        assert_eq!(taken, [true, true, false]);
        assert!(["one", "one", "two", "two"].iter().all(|client| is_taken(&mut lanes, &of("quiet", client))));
        assert_eq!((is_taken(&mut lanes, &of("third", "one")), lanes.waiting()), (false, 8));
    }

    #[test]
    fn plugins_are_served_round_robin() {
        let mut lanes = Lanes::new(16);
        for plugin in ["a", "a", "a", "a", "b", "b"] {
            lanes.push(&of(plugin, "one"), job()).unwrap();
        }
        let order: Vec<String> = served(&mut lanes).iter().map(|owner| owner.plugin.to_string()).collect();
        assert_eq!(order, ["a", "b", "a", "b", "a", "a"]);
    }

    #[test]
    fn clients_of_a_plugin_are_served_round_robin() {
        let mut lanes = Lanes::new(16);
        let (greedy, modest) = (of("a", "greedy"), of("a", "modest"));
        for owner in [&greedy, &greedy, &greedy, &greedy, &modest, &modest] {
            lanes.push(owner, job()).unwrap();
        }
        let order: Vec<bool> = served(&mut lanes).iter().map(|owner| *owner == modest).collect();
        assert_eq!(order, [false, true, false, true, false, false]);
    }

    #[test]
    fn clients_that_fill_the_queue_do_not_block_others() {
        let mut lanes = Lanes::new(16);
        let [one, two, late] = ["one", "two", "late"].map(|client| of("a", client));
        for owner in [&one, &one, &one, &one, &two, &two, &two, &two] {
            assert!(lanes.push(owner, job()).unwrap().is_empty());
        }
        for _ in 0..2 {
            assert_eq!(lanes.push(&late, job()).unwrap().len(), 1, "another job is displaced");
        }
        assert_eq!(lanes.waiting(), 8);
        assert!(!is_taken(&mut lanes, &late), "it would have as many jobs as they have");
        assert!(!is_taken(&mut lanes, &one));
    }

    #[test]
    fn a_job_of_a_cancelled_request_takes_no_slot() {
        let mut lanes = Lanes::new(4);
        let owner = of("a", "one");
        let cancellation = Cancellation::default();
        lanes.push(&owner, Job { cancellation: cancellation.clone(), ..job() }).unwrap();
        assert!(!is_taken(&mut lanes, &owner));
        drop(cancellation.guard());
        assert_eq!(lanes.push(&owner, job()).unwrap().len(), 1);
    }

    #[test]
    fn a_client_without_a_thread_comes_before_one_with_a_thread() {
        let mut lanes = Lanes::new(16);
        for plugin in ["slow", "slow", "slow"] {
            lanes.push(&of(plugin, "one"), job()).unwrap();
        }
        drop(lanes.pop(|_| true).unwrap());
        drop(lanes.pop(|_| true).unwrap());
        lanes.push(&of("quick", "one"), job()).unwrap();
        assert_eq!(lanes.pop(|_| true).unwrap().0, of("quick", "one"));
    }

    #[test]
    fn a_client_that_may_not_run_is_passed_over() {
        let mut lanes = Lanes::new(16);
        for owner in [of("a", "greedy"), of("a", "modest"), of("b", "greedy")] {
            lanes.push(&owner, job()).unwrap();
        }
        let may_run = |actor: &Actor| *actor != of("a", "greedy").actor;
        assert_eq!(lanes.pop(may_run).map(|(owner, _)| owner), Some(of("a", "modest")));
        assert!(lanes.pop(may_run).is_none());
        assert_eq!(lanes.waiting(), 2);
    }

    #[test]
    fn a_plugin_without_jobs_is_removed() {
        let mut lanes = Lanes::new(16);
        for number in 0..1_000 {
            let owner = of(&format!("p{number}"), "one");
            lanes.push(&owner, job()).unwrap();
            drop(lanes.pop(|_| true).unwrap());
            lanes.ended(&owner);
        }
        assert_eq!(lanes.plugins.iter().count(), 0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;
    use daftar_domain::client::ClientId;

    fn pool(interactive_waiting: usize, background_waiting: usize) -> CallPool {
        CallPool::start(PoolSize { threads: 3, interactive_waiting, background_waiting }).unwrap()
    }

    /// A job of that client in one plugin.
    fn of(client: &str) -> Owner {
        Owner { plugin: PluginName::parse("test").unwrap(), actor: Actor::Client(ClientId::parse(client).unwrap()) }
    }

    fn submit(pool: &CallPool, priority: Priority, owner: &Owner) -> Result<(), Busy> {
        pool.submit(priority, owner, Cancellation::default(), || ())
    }

    /// Occupies a thread until the sender is dropped. Returns once the job runs.
    fn occupy(pool: &CallPool, priority: Priority, client: &str) -> SyncSender<()> {
        let (release, released): (SyncSender<()>, Receiver<()>) = sync_channel(0);
        let (started, has_started) = sync_channel(0);
        let job = move || {
            started.send(()).unwrap();
            let _ = released.recv();
        };
        pool.submit(priority, &of(client), Cancellation::default(), job).unwrap();
        has_started.recv().unwrap();
        release
    }

    /// Occupies all threads, which one client cannot.
    fn occupy_all(pool: &CallPool) -> [SyncSender<()>; 3] {
        ["client_one", "client_two", "client_three"].map(|client| occupy(pool, Priority::Interactive, client))
    }

    #[test]
    fn a_full_queue_rejects_immediately() {
        let pool = pool(1, 1);
        let held = occupy_all(&pool);
        for priority in [Priority::Interactive, Priority::Background] {
            assert_eq!(submit(&pool, priority, &of("client_one")), Ok(()));
            assert_eq!(submit(&pool, priority, &of("client_one")), Err(Busy));
        }
        drop(held);
    }

    #[test]
    fn a_plugin_that_fills_threads_and_queue_does_not_block_another() {
        let pool = pool(4, 4);
        let held = occupy_all(&pool);
        let slow = ["client_one", "client_two", "client_three", "client_four"];
        let slow = slow.map(|client| submit(&pool, Priority::Interactive, &of(client)));
        assert_eq!(slow, [Ok(()), Ok(()), Err(Busy), Err(Busy)]);
        let other = Owner { plugin: PluginName::parse("other").unwrap(), ..of("client_one") };
        assert_eq!(submit(&pool, Priority::Interactive, &other), Ok(()));
        let usage = pool.usage();
        assert_eq!((usage.threads, usage.interactive_waiting, usage.background_waiting), (3, 3, 0));
        assert_eq!(usage.background_threads_max, 1);
        drop(held);
    }

    #[test]
    fn background_work_leaves_a_thread_for_requests() {
        let pool = pool(4, 4);
        let background = occupy(&pool, Priority::Background, "client_one");
        let (sender, receiver) = sync_channel(1);
        let job = move || sender.send("background").unwrap();
        pool.submit(Priority::Background, &of("client_two"), Cancellation::default(), job).unwrap();
        assert_eq!(pool.run(Priority::Interactive, &of("client_three"), || "request"), Ok("request"));
        assert!(receiver.try_recv().is_err());
        drop(background);
        assert_eq!(receiver.recv(), Ok("background"));
    }

    #[test]
    fn one_client_never_occupies_the_last_thread() {
        let pool = pool(16, 4);
        // One in the background and one for a request.
        let held =
            [Priority::Background, Priority::Interactive].map(|priority| occupy(&pool, priority, "client_greedy"));
        let (sender, receiver) = sync_channel(1);
        let job = move || sender.send("greedy").unwrap();
        pool.submit(Priority::Interactive, &of("client_greedy"), Cancellation::default(), job).unwrap();
        // It was submitted later; a FIFO queue would run the other job first.
        assert_eq!(pool.run(Priority::Interactive, &of("client_modest"), || "modest"), Ok("modest"));
        assert!(receiver.try_recv().is_err(), "the last thread is reserved for other clients");
        drop(held);
        assert_eq!(receiver.recv(), Ok("greedy"));
    }

    #[test]
    fn a_client_with_much_work_that_waits_delays_another_one_by_one_job() {
        let pool = pool(16, 4);
        let held = occupy_all(&pool);
        let (sender, receiver) = sync_channel(16);
        for client in ["client_one", "client_one", "client_one", "client_one", "client_late", "client_late"] {
            let sender = sender.clone();
            let job = move || sender.send(client).unwrap();
            pool.submit(Priority::Interactive, &of(client), Cancellation::default(), job).unwrap();
        }
        let [first, second, third] = held;
        // One thread drains the queue: the others stay occupied.
        drop(first);
        let order: Vec<&str> = receiver.iter().take(6).collect();
        let (one, late) = ("client_one", "client_late");
        assert_eq!(order, [late, one, late, one, one, one]);
        drop((second, third));
    }

    #[test]
    fn work_of_a_cancelled_request_is_not_started() {
        let pool = pool(4, 4);
        let held = occupy_all(&pool);
        let (sender, receiver) = sync_channel::<()>(1);
        let cancellation = Cancellation::default();
        let guard = cancellation.guard();
        let job = move || sender.send(()).unwrap();
        pool.submit(Priority::Interactive, &of("client_one"), cancellation, job).unwrap();
        drop(guard);
        drop(held);
        assert!(receiver.recv().is_err(), "it has run");
    }

    #[test]
    fn a_panic_ends_its_job_only() {
        let pool = pool(4, 4);
        for _ in 0..8 {
            let panic = || panic!("a test's panic");
            let outcome: Result<(), Busy> = pool.run(Priority::Interactive, &of("client_one"), panic);
            assert_eq!(outcome, Err(Busy));
        }
        assert_eq!(pool.run(Priority::Background, &of("client_one"), || 7), Ok(7));
    }

    #[test]
    fn stopping_drops_waiting_jobs_and_joins_running_ones() {
        let pool = pool(4, 4);
        let running = occupy_all(&pool);
        let (sender, receiver) = sync_channel::<()>(1);
        let job = move || sender.send(()).unwrap();
        pool.submit(Priority::Interactive, &of("client_one"), Cancellation::default(), job).unwrap();
        let stopping = std::thread::spawn(move || drop(pool));
        assert!(receiver.recv().is_err(), "a job that waited has run");
        drop(running);
        stopping.join().unwrap();
    }
}
