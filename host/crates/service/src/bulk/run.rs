//! Writes the lines of one request, many at a time.
//!
//! **Invariant:** bounded: as many lines are being written as the store wants at once, and no more are taken up while the window holds
//! [`WINDOW_LINES_MAX`] lines or [`WINDOW_BYTES_MAX`] bytes.
//!
//! **Invariant:** an error that is no fault of a line stops everything: what is being written ends, and nothing more begins.

use std::collections::HashMap;
use std::pin::Pin;
use std::task::Poll;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, Stream, StreamExt};

use super::prepare::{PreparedLine, PreparedWork, Work};
use super::window::{LineResult, Window};
use super::{Done, Importer, is_no_fault_of_the_line};
use daftar_domain::error::AppError;

/// How many lines the window holds.
pub const WINDOW_LINES_MAX: usize = 2_048;
/// How many bytes the lines of the window had.
pub const WINDOW_BYTES_MAX: usize = 24 << 20;

type Job = Pin<Box<dyn Future<Output = (u64, LineResult)> + Send>>;

/// The lines of a request on their way.
pub struct Run<S> {
    importer: Importer,
    source: S,
    is_source_over: bool,
    /// Lines that were written before, by number.
    earlier: HashMap<u64, Done>,
    window: Window<Work>,
    /// Lines of the window that were written before, and are looked at again all the same: by place.
    again: HashMap<u64, Done>,
    running: FuturesUnordered<Job>,
    stopped: Option<AppError>,
}

impl<S: Stream<Item = Result<Vec<PreparedLine>, AppError>> + Unpin + Send> Run<S> {
    /// Begins; `earlier` are the lines that an earlier request of the same import wrote.
    pub fn new(importer: Importer, source: S, earlier: HashMap<u64, Done>) -> Self {
        Self {
            importer,
            source,
            is_source_over: false,
            earlier,
            window: Window::new(),
            again: HashMap::new(),
            running: FuturesUnordered::new(),
            stopped: None,
        }
    }

    /// The next lines that are done, in their order; empty when all are.
    ///
    /// # Errors
    /// What stopped it, once, after the lines before it were told of.
    pub async fn next(&mut self) -> Result<Vec<(u64, LineResult)>, AppError> {
        loop {
            let keep = |result: &LineResult| result.as_ref().is_err_and(is_no_fault_of_the_line);
            let done: Vec<_> = std::iter::from_fn(|| self.window.pop(keep)).collect();
            if !done.is_empty() {
                return Ok(done);
            }
            if self.stopped.is_none() {
                self.begin_ready().await;
            } else if self.running.is_empty() {
                return Err(self.stopped.take().unwrap_or(AppError::Busy));
            }
            let (lines, bytes) = self.window.size();
            let has_room = lines < WINDOW_LINES_MAX && bytes < WINDOW_BYTES_MAX;
            let takes_up = !self.is_source_over && self.stopped.is_none() && has_room;
            if self.running.is_empty() && !takes_up {
                if lines == 0 && self.stopped.is_none() {
                    return Ok(Vec::new());
                }
                if self.stopped.is_none() && !self.window.is_front_done() {
                    self.stopped = Some(AppError::internal("lines of an import wait for each other"));
                }
                continue;
            }
            tokio::select! {
                biased;
                Some((place, result)) = self.running.next(), if !self.running.is_empty() => {
                    self.finish(place, result);
                    while let Some(Some((place, result))) = self.running.next().now_or_never() {
                        self.finish(place, result);
                    }
                }
                read = self.source.next(), if takes_up => self.take_up(read),
            }
        }
    }

    fn take_up(&mut self, read: Option<Result<Vec<PreparedLine>, AppError>>) {
        match read {
            None => self.is_source_over = true,
            Some(Err(error)) => self.stopped = Some(error),
            Some(Ok(lines)) => lines.into_iter().for_each(|line| self.push(line)),
        }
    }

    fn push(&mut self, PreparedLine { line, bytes, work }: PreparedLine) {
        let earlier = self.earlier.remove(&line);
        match (work, earlier) {
            (Err(error), None) => {
                if is_no_fault_of_the_line(&error) {
                    self.stopped = Some(error);
                } else {
                    self.window.push_done(line, Err(error));
                }
            }
            (Ok(prepared), Some(done)) if prepared.adds_members() => {
                // It may have been written in part.
                let place = self.push_work((line, bytes), prepared);
                self.again.insert(place, done);
            }
            (_, Some(done)) => self.window.push_done(line, Ok(done)),
            (Ok(prepared), None) => {
                self.push_work((line, bytes), prepared);
            }
        }
    }

    fn push_work(&mut self, line: (u64, usize), prepared: PreparedWork) -> u64 {
        let looks = prepared.looks();
        let PreparedWork { kind, names, work } = prepared;
        self.window.push(line, kind, names, looks, work)
    }

    /// Begins the lines that may begin. Each is given its turn at once, so that they reach the store in this order.
    async fn begin_ready(&mut self) {
        let at_once = self.importer.registry.store.writes_at_once();
        while self.running.len() < at_once && self.stopped.is_none() {
            let Some(ready) = self.window.next_ready() else { return };
            let importer = self.importer.clone();
            let place = ready.place;
            let mut job: Job =
                Box::pin(async move { (place, importer.write(ready.line, ready.work, ready.later).await) });
            let begun = std::future::poll_fn(|context| Poll::Ready(job.as_mut().poll(context))).await;
            match begun {
                Poll::Ready((place, result)) => self.finish(place, result),
                Poll::Pending => self.running.push(job),
            }
        }
    }

    fn finish(&mut self, place: u64, result: LineResult) {
        let result = match (result, self.again.remove(&place)) {
            (Ok(_), Some(earlier)) => Ok(earlier),
            (result, _) => result,
        };
        if let Err(error) = &result
            && is_no_fault_of_the_line(error)
        {
            // The line stays, and nothing behind it is told of.
            let Err(error) = result else { return };
            self.window.finish(place, Err(AppError::Busy));
            self.stopped.get_or_insert(error);
            return;
        }
        self.window.finish(place, result);
    }
}
