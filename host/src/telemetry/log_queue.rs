//! The queue between the threads that log and the thread that writes the lines to standard error.
//!
//! Lines are collected in one buffer. The writing thread takes the whole buffer a moment after its first line, so that a
//! busy server wakes it some hundred times a second instead of once for each request.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

/// Maximum number of queued bytes: a quarter of a second of requests at 60,000 per second.
const WAITING_BYTES_MAX: usize = 5 << 20;

/// Time that a line waits for others to be written with it.
const GATHERING: Duration = Duration::from_millis(2);

/// Time that the end of the program waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Accepts log lines without ever waiting for their reader. All handles refer to the same queue.
#[derive(Clone)]
pub(super) struct LogQueue(Arc<Shared>);

struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// True while the writing thread waits for a first line.
    is_idle: bool,
    /// True once no more lines come.
    is_closing: bool,
    /// True once the last line was written.
    is_finished: bool,
}

/// Writes the queued log lines when dropped, within a second. The caller retains this value until the program ends.
pub struct LogWriter(LogQueue);

impl LogQueue {
    /// Starts the thread that writes the lines to `output`.
    pub(super) fn start(output: impl Write + Send + 'static) -> io::Result<(Self, LogWriter)> {
        let shared = Shared { waiting: Mutex::default(), changed: Condvar::new(), dropped: AtomicU64::new(0) };
        let queue = Self(Arc::new(shared));
        let writing = queue.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || writing.0.write_all_to(output))?;
        Ok((queue.clone(), LogWriter(queue)))
    }

    /// Returns the number of lines that were dropped because the queue was full.
    pub(super) fn dropped_lines(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        let mut waiting = self.waiting();
        if waiting.is_finished || waiting.bytes.len() + line.len() > WAITING_BYTES_MAX {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.bytes.extend_from_slice(line);
        if std::mem::take(&mut waiting.is_idle) {
            drop(waiting);
            self.changed.notify_all();
        }
    }

    fn write_all_to(&self, mut output: impl Write) {
        let mut taken = Vec::new();
        loop {
            let mut waiting = self.waiting();
            while waiting.bytes.is_empty() && !waiting.is_closing {
                waiting.is_idle = true;
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            if !waiting.is_closing {
                waiting = self.changed.wait_timeout(waiting, GATHERING).unwrap_or_else(PoisonError::into_inner).0;
            }
            std::mem::swap(&mut waiting.bytes, &mut taken);
            let is_last = waiting.is_closing;
            drop(waiting);
            // A line that cannot be written has no other place to go.
            let _ = output.write_all(&taken).and_then(|()| output.flush());
            taken.clear();
            if is_last {
                self.waiting().is_finished = true;
                self.changed.notify_all();
                return;
            }
        }
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        let shared = &*self.0.0;
        let mut waiting = shared.waiting();
        waiting.is_closing = true;
        shared.changed.notify_all();
        let end = Instant::now() + LAST_LINES;
        while !waiting.is_finished {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            waiting = shared.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<'w> MakeWriter<'w> for LogQueue {
    type Writer = Lines<'w>;

    fn make_writer(&'w self) -> Lines<'w> {
        Lines(&self.0)
    }
}

/// Adds whole lines to the queue: a formatted event is written with one call.
pub(super) struct Lines<'w>(&'w Shared);

impl Write for Lines<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// An output whose reader decides when it continues.
    struct Slow {
        permits: mpsc::Receiver<()>,
        written: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.permits.recv().map_err(io::Error::other)?;
            self.written.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (mpsc::Sender<()>, mpsc::Receiver<Vec<u8>>, LogQueue, LogWriter) {
        let ((permit, permits), (written, lines)) = (mpsc::channel(), mpsc::channel());
        let (queue, writer) = LogQueue::start(Slow { permits, written }).unwrap();
        (permit, lines, queue, writer)
    }

    #[test]
    fn the_last_lines_are_written_before_the_end() {
        let (permit, lines, queue, writer) = slow();
        for number in 0..3 {
            queue.make_writer().write_all(format!("line {number}\n").as_bytes()).unwrap();
        }
        for _ in 0..3 {
            permit.send(()).unwrap();
        }
        drop(writer);
        assert_eq!(lines.try_iter().flatten().collect::<Vec<u8>>(), b"line 0\nline 1\nline 2\n");
        assert_eq!(queue.dropped_lines(), 0);
    }

    #[test]
    fn lines_beyond_the_capacity_are_dropped_and_counted_without_waiting() {
        let (permit, lines, queue, writer) = slow();
        let line = vec![b'x'; 1 << 20];
        // The first is taken by the thread, which then waits for its reader.
        queue.make_writer().write_all(b"first\n").unwrap();
        while queue.0.waiting().bytes == b"first\n" {
            thread::yield_now();
        }
        for _ in 0..7 {
            queue.make_writer().write_all(&line).unwrap();
        }
        assert_eq!(queue.dropped_lines(), 2);
        for _ in 0..2 {
            permit.send(()).unwrap();
        }
        drop(writer);
        assert_eq!(lines.try_iter().map(|bytes| bytes.len()).collect::<Vec<_>>(), [6, 5 << 20]);
    }
}
