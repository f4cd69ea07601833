//! Responses as lines of JSON, sent while the reported work continues. Lines that the client has not read yet wait in a
//! spool: first in memory, then in a temporary file of the server.
//!
//! **Invariant:** work does not wait for the reader of its lines while there is space for them: it releases its
//! resources when it ends, not when its lines were read.
//!
//! **Invariant:** lines are read in the order in which they are written, each once.
//!
//! **Invariant:** the memory of all spools is limited, and so are their files, of which one client has at most a
//! quarter. Without space the writer waits, and ends when the reader reads nothing for `READER_TIMEOUT`.
//!
//! **Invariant:** a file has no name and is readable by the server alone; it is deleted with its response, or with the
//! server.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use serde::Serialize;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinSet, spawn_blocking};
use tracing::Instrument as _;

use crate::api::extract::accept::LINES;
use daftar_domain::audit::Actor;

/// Formats the progress of some work.
pub trait Telling: Send + Unpin + 'static {
    /// Event of the work.
    type Event: Send + 'static;
    /// Result of the work.
    type End: Send + 'static;

    /// Returns the complete lines of an event, if any.
    fn lines(&mut self, event: Self::Event) -> Option<Vec<u8>>;

    /// The last line.
    fn last(&mut self, end: Self::End) -> Vec<u8>;
}

/// Returns a response that reports work in progress. The work is a separate task that does not wait for the client:
/// unread lines wait in a spool; only when that is full the task waits for the reader. It ends when the client
/// disconnects.
///
/// The work sends its events to `events`; all events are sent before the last line.
pub fn response<T: Telling>(
    spools: &Arc<Spools>,
    actor: &Actor,
    work: impl Future<Output = T::End> + Send + 'static,
    events: Receiver<T::Event>,
    telling: T,
) -> Response {
    let spool = Arc::new(Spool::new(spools, actor));
    // Dropping it with the response aborts the task.
    let mut task = JoinSet::new();
    task.spawn(run(work, events, telling, Arc::clone(&spool)).in_current_span());
    let lines = stream::unfold((spool, task), |(spool, task)| async {
        let lines = spool.read().await?;
        Some((lines, (spool, task)))
    });
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(LINES));
    response
}

/// Writes a value as a line of JSON; a value that cannot be JSON is left out.
pub fn write_line(value: &impl Serialize, out: &mut Vec<u8>) {
    let before = out.len();
    match serde_json::to_writer(&mut *out, value) {
        Ok(()) => out.push(b'\n'),
        Err(_) => out.truncate(before),
    }
}

/// Runs the work and writes its reports.
async fn run<T: Telling>(
    work: impl Future<Output = T::End> + Send,
    mut events: Receiver<T::Event>,
    mut telling: T,
    spool: Arc<Spool>,
) {
    let _closed_at_the_end = CloseOnDrop(Arc::clone(&spool));
    let mut work = std::pin::pin!(work);
    let mut ended = None;
    loop {
        let event = tokio::select! {
            biased;
            event = events.recv() => event,
            end = &mut work, if ended.is_none() => {
                ended = Some(end);
                continue;
            }
        };
        let lines = match event {
            Some(event) => telling.lines(event),
            None => break,
        };
        if let Some(lines) = lines
            && let Err(stalled) = spool.write(lines).await
        {
            tracing::info!(reason = %stalled, "response of lines ended before its work");
            spool.fail(stalled);
            return;
        }
    }
    let end = match ended {
        Some(end) => end,
        None => work.await,
    };
    if let Err(stalled) = spool.write(telling.last(end)).await {
        spool.fail(stalled);
    }
}

/// Closes the spool, however the task ends.
struct CloseOnDrop(Arc<Spool>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Maximum memory of a spool, in bytes: for a fast reader no file is created.
const MEMORY_OF_SPOOL_MAX: u64 = 1 << 20;
/// Maximum memory of all spools, in bytes.
const MEMORY_MAX: usize = 64 << 20;
/// Maximum size of all files, in bytes. A line of a subject has about 100 bytes: a client has ten million lines.
const FILES_MAX: u64 = 4 << 30;
/// Maximum time that a writer waits for space while the reader reads nothing.
const READER_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of bytes read from a file at a time.
const READ_BYTES: u64 = 256 << 10;

/// The spools of a server.
#[derive(Debug)]
pub struct Spools {
    folder: PathBuf,
    bounds: Bounds,
    /// One permit for each byte of memory.
    memory: Arc<Semaphore>,
    /// The bytes of files by client; clients without a file are absent.
    files: Mutex<HashMap<Actor, u64>>,
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    memory_of_spool: u64,
    memory: usize,
    files: u64,
    reader_timeout: Duration,
}

impl Spools {
    /// Spools with their files in a folder.
    #[must_use]
    pub fn new(folder: PathBuf) -> Arc<Self> {
        let bounds = Bounds {
            memory_of_spool: MEMORY_OF_SPOOL_MAX,
            memory: MEMORY_MAX,
            files: FILES_MAX,
            reader_timeout: READER_TIMEOUT,
        };
        Self::with_bounds(folder, bounds)
    }

    fn with_bounds(folder: PathBuf, bounds: Bounds) -> Arc<Self> {
        let memory = Arc::new(Semaphore::new(bounds.memory));
        Arc::new(Self { folder, bounds, memory, files: Mutex::default() })
    }

    /// Returns the bytes waiting in memory and in files.
    #[must_use]
    pub fn usage(&self) -> (u64, u64) {
        let memory = self.bounds.memory.saturating_sub(self.memory.available_permits());
        (memory as u64, self.lock().values().sum())
    }

    /// Reserves memory, if available; released when it is dropped.
    fn take_memory(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.memory).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }

    /// Reserves file space, if available.
    fn take_file(&self, actor: &Actor, bytes: u64) -> bool {
        let mut files = self.lock();
        let of_all = files.values().sum::<u64>().saturating_add(bytes);
        let of_client = files.get(actor).copied().unwrap_or_default().saturating_add(bytes);
        let is_there = of_all <= self.bounds.files && of_client <= self.bounds.files / 4;
        if is_there {
            files.insert(actor.clone(), of_client);
        }
        is_there
    }

    fn give_back_file(&self, actor: &Actor, bytes: u64) {
        let mut files = self.lock();
        let left = files.get(actor).copied().unwrap_or_default().saturating_sub(bytes);
        if left == 0 {
            files.remove(actor);
        } else if bytes > 0 {
            files.insert(actor.clone(), left);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Actor, u64>> {
        // Each change leaves it valid.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reader read nothing for too long, and there is no space for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client read nothing for {} s, and no more lines may wait for it", .0.as_secs())]
struct Stalled(Duration);

/// The lines of one response.
#[derive(Debug)]
struct Spool {
    spools: Arc<Spools>,
    actor: Actor,
    state: Mutex<State>,
    /// Something was written, or the writer has finished.
    written: Notify,
    /// Something was read.
    read: Notify,
}

/// Lines, with their share of the memory of all spools.
type InMemory = (Vec<u8>, Option<OwnedSemaphorePermit>);

#[derive(Debug, Default)]
struct State {
    /// Lines written before all lines in the file.
    memory: VecDeque<InMemory>,
    memory_bytes: u64,
    file: Option<Arc<File>>,
    /// Number of bytes in the file, and how many of them were read.
    file_written: u64,
    file_read: u64,
    is_closed: bool,
    failure: Option<Stalled>,
}

/// Destination of the next lines.
enum Target {
    Memory(Option<OwnedSemaphorePermit>),
    File(Option<Arc<File>>, u64),
    Nowhere,
}

/// File space reserved for lines that are not written yet: released if they cannot be written, or the response ends
/// first.
struct FileSpace<'s> {
    spool: &'s Spool,
    bytes: u64,
}

impl Drop for FileSpace<'_> {
    fn drop(&mut self) {
        self.spool.spools.give_back_file(&self.spool.actor, self.bytes);
    }
}

/// Source of the next read.
enum Next {
    Lines(Vec<u8>),
    OfFile(Arc<File>, u64, u64),
    Failure(Stalled),
    End,
    Wait,
}

fn length(lines: &[u8]) -> u64 {
    u64::try_from(lines.len()).unwrap_or(u64::MAX)
}

impl Spool {
    /// An empty spool of a client.
    pub fn new(spools: &Arc<Spools>, actor: &Actor) -> Self {
        Self {
            spools: Arc::clone(spools),
            actor: actor.clone(),
            state: Mutex::default(),
            written: Notify::new(),
            read: Notify::new(),
        }
    }

    /// Writes lines once there is space. A spool has one writer.
    ///
    /// # Errors
    /// If there is no space, and the reader read nothing for too long.
    pub async fn write(&self, lines: Vec<u8>) -> Result<(), Stalled> {
        let mut lines = lines;
        let mut files_are_usable = true;
        loop {
            let target = self.reserve(length(&lines), files_are_usable);
            match target {
                Target::Memory(taken) => {
                    let mut state = self.lock();
                    state.memory_bytes = state.memory_bytes.saturating_add(length(&lines));
                    state.memory.push_back((lines, taken));
                    break;
                }
                Target::File(file, at) => {
                    let (bytes, folder) = (length(&lines), self.spools.folder.clone());
                    let mut space = FileSpace { spool: self, bytes };
                    let written = spawn_blocking(move || {
                        let written = write_at(file, &folder, &lines, at);
                        (lines, written)
                    });
                    match written.await {
                        Ok((_, Ok(file))) => {
                            let mut state = self.lock();
                            state.file = Some(file);
                            state.file_written = state.file_written.saturating_add(bytes);
                            space.bytes = 0;
                            break;
                        }
                        Ok((unwritten, Err(error))) => {
                            tracing::warn!(error = %error, "lines of a response cannot be spooled to disk");
                            (lines, files_are_usable) = (unwritten, false);
                        }
                        // The runtime stops, and so does the response.
                        Err(_) => return Ok(()),
                    }
                }
                Target::Nowhere => {
                    let timeout = self.spools.bounds.reader_timeout;
                    tokio::time::timeout(timeout, self.read.notified()).await.map_err(|_| Stalled(timeout))?;
                }
            }
        }
        self.written.notify_one();
        Ok(())
    }

    /// Reserves space for that many bytes.
    fn reserve(&self, bytes: u64, files_are_usable: bool) -> Target {
        let mut state = self.lock();
        let is_file_read = state.file_read >= state.file_written;
        if is_file_read {
            state.end_file(&self.spools, &self.actor);
            let is_small = state.memory_bytes.saturating_add(bytes) <= self.spools.bounds.memory_of_spool;
            if is_small && let Some(taken) = self.spools.take_memory(bytes) {
                return Target::Memory(Some(taken));
            }
        }
        if files_are_usable && self.spools.take_file(&self.actor, bytes) {
            return Target::File(state.file.clone(), state.file_written);
        }
        // The reader has read everything and waits for these lines: they pass through memory one by one.
        if is_file_read && state.memory.is_empty() { Target::Memory(None) } else { Target::Nowhere }
    }

    /// Reads the next lines; nothing at the end. A spool has one reader.
    pub async fn read(&self) -> Option<io::Result<Vec<u8>>> {
        loop {
            match self.next() {
                Next::Lines(lines) => {
                    self.read.notify_one();
                    return Some(Ok(lines));
                }
                Next::OfFile(file, at, bytes) => {
                    let read = spawn_blocking(move || read_at(&file, at, bytes)).await;
                    let read = read.unwrap_or_else(|error| Err(error.into()));
                    if read.is_ok() {
                        let mut state = self.lock();
                        state.file_read = state.file_read.saturating_add(bytes);
                    }
                    self.read.notify_one();
                    return Some(read);
                }
                Next::Failure(stalled) => return Some(Err(io::Error::other(stalled))),
                Next::End => return None,
                Next::Wait => self.written.notified().await,
            }
        }
    }

    fn next(&self) -> Next {
        let mut state = self.lock();
        if let Some((lines, _taken)) = state.memory.pop_front() {
            state.memory_bytes = state.memory_bytes.saturating_sub(length(&lines));
            return Next::Lines(lines);
        }
        let unread = state.file_written.saturating_sub(state.file_read);
        match &state.file {
            Some(file) if unread > 0 => Next::OfFile(Arc::clone(file), state.file_read, unread.min(READ_BYTES)),
            Some(_) | None => match state.failure.take() {
                Some(stalled) => Next::Failure(stalled),
                None if state.is_closed => Next::End,
                None => Next::Wait,
            },
        }
    }

    /// Marks the end of the lines.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.written.notify_one();
    }

    /// Ends the response without its last line.
    pub fn fail(&self, stalled: Stalled) {
        self.lock().failure = Some(stalled);
        self.close();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves it valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Deletes a file that was read completely.
    fn end_file(&mut self, spools: &Spools, actor: &Actor) {
        let Some(file) = self.file.take() else { return };
        spools.give_back_file(actor, self.file_written);
        (self.file_written, self.file_read) = (0, 0);
        // Deleting a large file takes time.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(file))),
            Err(_) => drop(file),
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.lock().end_file(&self.spools, &self.actor);
    }
}

fn write_at(file: Option<Arc<File>>, folder: &std::path::Path, lines: &[u8], at: u64) -> io::Result<Arc<File>> {
    let file = match file {
        Some(file) => file,
        None => Arc::new(tempfile::tempfile_in(folder)?),
    };
    file.write_all_at(lines, at)?;
    Ok(file)
}

fn read_at(file: &File, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut lines = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    file.read_exact_at(&mut lines, at)?;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use tokio::sync::mpsc::{Sender, channel};

    use super::*;

    /// Reports even numbers, and at the end the count of all numbers.
    struct Even(u32);

    impl Telling for Even {
        type Event = u32;
        type End = &'static str;

        fn lines(&mut self, event: u32) -> Option<Vec<u8>> {
            self.0 += 1;
            event.is_multiple_of(2).then(|| format!("{event}\n").into_bytes())
        }

        fn last(&mut self, end: &'static str) -> Vec<u8> {
            format!("{end} {}\n", self.0).into_bytes()
        }
    }

    fn answered(work: impl Future<Output = &'static str> + Send + 'static, events: Receiver<u32>) -> Response {
        response(&Spools::new(std::env::temp_dir()), &Actor::Administrator, work, events, Even(0))
    }

    async fn received_text(response: Response) -> String {
        String::from_utf8(to_bytes(response.into_body(), 1_000).await.unwrap().to_vec()).unwrap()
    }

    async fn count(events: Sender<u32>, to: u32) {
        for number in 0..to {
            events.send(number).await.unwrap();
        }
    }

    #[tokio::test]
    async fn reports_events_in_order_and_then_the_end() {
        let (events, received) = channel(2);
        let work = async move {
            count(events, 5).await;
            "of"
        };
        let response = answered(work, received);
        assert_eq!(response.headers()["content-type"], LINES);
        assert_eq!(received_text(response).await, "0\n2\n4\nof 5\n");
    }

    #[tokio::test]
    async fn waits_for_work_that_reports_nothing_more() {
        let (events, received) = channel(2);
        let (go, gone) = tokio::sync::oneshot::channel();
        let work = async move {
            count(events, 1).await;
            gone.await.unwrap()
        };
        let lines = tokio::spawn(received_text(answered(work, received)));
        tokio::task::yield_now().await;
        go.send("late").unwrap();
        assert_eq!(lines.await.unwrap(), "0\nlate 1\n");
    }

    #[tokio::test]
    async fn work_ends_when_the_caller_leaves() {
        let (events, received) = channel(1);
        let watched = events.clone();
        let work = async move {
            count(events, 1_000).await;
            "never"
        };
        let response = answered(work, received);
        drop(response);
        watched.closed().await;
    }

    #[tokio::test]
    async fn work_finishes_without_a_reader() {
        let (events, received) = channel(1);
        let watched = events.clone();
        let (ended, has_ended) = tokio::sync::oneshot::channel();
        let work = async move {
            count(events, 100_000).await;
            ended.send(()).unwrap();
            "of"
        };
        let response = answered(work, received);
        has_ended.await.unwrap();
        drop(watched);
        let lines = to_bytes(response.into_body(), 1_000_000).await.unwrap();
        assert!(lines.starts_with(b"0\n2\n") && lines.ends_with(b"99998\nof 100000\n"));
    }
}

#[cfg(test)]
mod spool_tests {
    use futures_util::FutureExt as _;

    use super::*;
    use daftar_domain::client::ClientId;

    /// The time for which a writer waits: far longer than a reader that is there needs on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(30);
    /// The same where no reader comes.
    const WITHOUT_READER: Duration = Duration::from_secs(1);

    fn client(name: &str) -> Actor {
        Actor::Client(ClientId::parse(name).unwrap())
    }

    fn spools(memory_of_spool: u64, memory: usize, files: u64) -> Arc<Spools> {
        let bounds = Bounds { memory_of_spool, memory, files, reader_timeout: PATIENCE };
        Spools::with_bounds(std::env::temp_dir(), bounds)
    }

    fn line(number: usize) -> Vec<u8> {
        format!("line {number:04}\n").into_bytes()
    }

    async fn read_all(spool: &Spool) -> String {
        let mut all = Vec::new();
        while let Some(lines) = spool.read().await {
            all.extend(lines.unwrap());
        }
        String::from_utf8(all).unwrap()
    }

    fn lines(numbers: std::ops::Range<usize>) -> String {
        numbers.map(|number| String::from_utf8(line(number)).unwrap()).collect()
    }

    #[tokio::test]
    async fn lines_that_wait_go_to_a_file_and_come_in_their_order() {
        let spools = spools(25, 1_000, 100_000);
        let spool = Spool::new(&spools, &client("client_one"));
        for number in 0..500 {
            spool.write(line(number)).await.unwrap();
        }
        assert_eq!(spools.usage(), (20, 4_980), "two are in memory, the others in the file");
        spool.close();
        assert_eq!(read_all(&spool).await, lines(0..500));
        drop(spool);
        assert_eq!(spools.usage(), (0, 0));
    }

    #[tokio::test]
    async fn a_reader_that_catches_up_is_served_from_memory_again() {
        let spools = spools(25, 1_000, 100_000);
        let spool = Spool::new(&spools, &client("client_one"));
        for number in 0..10 {
            spool.write(line(number)).await.unwrap();
        }
        let mut read = String::new();
        while read.len() < 100 {
            read.push_str(&String::from_utf8(spool.read().await.unwrap().unwrap()).unwrap());
        }
        for number in 10..12 {
            spool.write(line(number)).await.unwrap();
        }
        assert_eq!(spools.usage(), (20, 0), "the file is deleted");
        spool.close();
        assert_eq!(read + &read_all(&spool).await, lines(0..12));
    }

    #[tokio::test]
    async fn one_client_has_a_quarter_of_the_files_and_then_waits_for_its_reader() {
        let spools = spools(0, 0, 400);
        let (greedy, modest) = (client("client_greedy"), client("client_modest"));
        let (one, other) = (Spool::new(&spools, &greedy), Spool::new(&spools, &greedy));
        for number in 0..5 {
            one.write(line(number)).await.unwrap();
            other.write(line(number)).await.unwrap();
        }
        assert!(!spools.take_file(&greedy, 1), "the two have a quarter");
        let of_another = Spool::new(&spools, &modest);
        of_another.write(line(0)).await.unwrap();
        // A reader frees space, and the writer continues.
        let write = async {
            for number in 5..100 {
                other.write(line(number)).await.unwrap();
            }
            other.close();
        };
        let (read, ()) = tokio::join!(read_all(&other), write);
        assert_eq!(read, lines(0..100));
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_ends_its_response_when_its_files_are_full() {
        let mut spools = spools(0, 0, 400);
        Arc::get_mut(&mut spools).unwrap().bounds.reader_timeout = WITHOUT_READER;
        let spool = Spool::new(&spools, &client("client_one"));
        for number in 0..10 {
            spool.write(line(number)).await.unwrap();
        }
        let stalled = spool.write(line(10)).await.unwrap_err();
        assert_eq!(stalled, Stalled(WITHOUT_READER));
        spool.fail(stalled);
        assert!(spool.read().await.unwrap().is_ok(), "what was written is read");
        let failed = spool.read().await.unwrap().unwrap_err();
        assert_eq!(failed.to_string(), "the client read nothing for 1 s, and no more lines may wait for it");
        assert!(spool.read().await.is_none());
    }

    #[tokio::test]
    async fn without_a_disk_the_writer_goes_at_the_pace_of_the_reader() {
        let mut broken = Arc::into_inner(spools(0, 0, 100_000)).unwrap();
        broken.folder = PathBuf::from("/nowhere/at/all");
        broken.bounds.reader_timeout = WITHOUT_READER;
        let broken = Arc::new(broken);
        let spool = Spool::new(&broken, &client("client_one"));
        spool.write(line(0)).await.unwrap();
        assert!(spool.write(line(1)).await.is_err());
        assert!(spool.read().now_or_never().is_some());
        spool.write(line(1)).await.unwrap();
        spool.close();
        assert_eq!(read_all(&spool).await, lines(1..2));
        assert_eq!(broken.usage(), (0, 0));
    }
}
