//! Writes the lines of one request, many concurrently.
//!
//! **Invariant:** concurrency is bounded by the number of concurrent writes that the store prefers. No more lines are
//! accepted while the window contains [`WINDOW_LINES_MAX`] lines or [`WINDOW_BYTES_MAX`] bytes.
//!
//! **Invariant:** an error that is not caused by a line stops the run: writes in progress complete, and no more begin.
//!
//! **Invariant:** lines of one kind begin in their order. A line waits for every earlier line of the window that it
//! refers to, and for earlier lines with the same name.
//!
//! **Invariant:** no line resolves to a record of a later line: if a line of another kind began before it, it waits
//! for that line, and is rejected if that line created the record.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::task::Poll;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, Stream, StreamExt};

use super::{Done, Importer, Name, Names, PreparedLine, PreparedWork, Work, is_no_fault_of_the_line};
use daftar_domain::error::AppError;
use daftar_domain::record::RecordKind;

/// Number of lines in the window.
pub const WINDOW_LINES_MAX: usize = 2_048;
/// Total size of the lines in the window, in bytes.
pub const WINDOW_BYTES_MAX: usize = 24 << 20;

type Job = Pin<Box<dyn Future<Output = (u64, LineResult)> + Send>>;

/// The lines of a request that are in progress.
pub struct Run<S> {
    importer: Importer,
    source: S,
    is_source_over: bool,
    /// Lines that were written before, by number.
    earlier: HashMap<u64, Done>,
    window: Window<Work>,
    /// Lines of the window that were written before and are checked again, by position.
    again: HashMap<u64, Done>,
    running: FuturesUnordered<Job>,
    stopped: Option<AppError>,
}

impl<S: Stream<Item = Result<Vec<PreparedLine>, AppError>> + Unpin + Send> Run<S> {
    /// Creates a run; `earlier` are the lines that an earlier request of the same import wrote.
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

    /// Returns the next completed lines, in their order; empty when all are completed.
    ///
    /// # Errors
    /// The error that stopped the run, once, after the previous lines were reported.
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
            let is_accepting = !self.is_source_over && self.stopped.is_none() && has_room;
            if self.running.is_empty() && !is_accepting {
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
                read = self.source.next(), if is_accepting => self.accept(read),
            }
        }
    }

    fn accept(&mut self, read: Option<Result<Vec<PreparedLine>, AppError>>) {
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
                // It may have been written partially.
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
        let PreparedWork { kind, names, work } = prepared;
        self.window.push(line, kind, names, work)
    }

    /// Begins the lines that may begin. Each is polled immediately, so that they reach the store in this order.
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
            // The line stays, and no later line is reported.
            let Err(error) = result else { return };
            self.window.finish(place, Err(AppError::Busy));
            self.stopped.get_or_insert(error);
            return;
        }
        self.window.finish(place, result);
    }
}

/// Outcome of a line.
pub(super) type LineResult = Result<Done, AppError>;

const LANES: usize = RecordKind::ALL.len();

/// Lines from the first unreported one on. `W` is the work for a line.
pub(super) struct Window<W> {
    /// The position of the first line; positions are consecutive, independent of the numbers of lines.
    first: u64,
    slots: VecDeque<Slot<W>>,
    /// The last line that contains a record with that name.
    brought: HashMap<Name, u64>,
    /// The waiting positions, in one queue per kind.
    lanes: [VecDeque<u64>; LANES],
    bytes: usize,
}

struct Slot<W> {
    line: u64,
    bytes: usize,
    lane: usize,
    own: Vec<Name>,
    /// The positions that must be completed before.
    after: Vec<u64>,
    /// Names that no earlier line of the window contains.
    unknown: Vec<Name>,
    state: State<W>,
}

enum State<W> {
    Waiting(W),
    Running,
    Done(LineResult),
}

/// A line that may begin.
pub(super) struct Ready<W> {
    pub place: u64,
    pub line: u64,
    pub work: W,
    /// The later line that created a record to which this line refers.
    pub later: Option<u64>,
}

impl<W> Window<W> {
    pub(super) fn new() -> Self {
        Self { first: 0, slots: VecDeque::new(), brought: HashMap::new(), lanes: Default::default(), bytes: 0 }
    }

    /// Number of its lines, and their size in bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.slots.len(), self.bytes)
    }

    /// Adds a line that is completed already, with any outcome.
    pub(super) fn push_done(&mut self, line: u64, result: LineResult) {
        let state = State::Done(result);
        let (own, after, unknown) = (Vec::new(), Vec::new(), Vec::new());
        self.slots.push_back(Slot { line, bytes: 0, lane: 0, own, after, unknown, state });
    }

    /// Adds a line.
    pub(super) fn push(&mut self, (line, bytes): (u64, usize), kind: RecordKind, names: Names, work: W) -> u64 {
        let place = self.first + self.slots.len() as u64;
        let mut after = Vec::new();
        let mut unknown = Vec::new();
        for name in names.needs {
            match self.brought.get(&name) {
                Some(earlier) => after.push(*earlier),
                None => unknown.push(name),
            }
        }
        for name in &names.own {
            after.extend(self.brought.insert(*name, place));
        }
        let lane = kind.place();
        if let Some(waiting) = self.lanes.get_mut(lane) {
            waiting.push_back(place);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.slots.push_back(Slot { line, bytes, lane, own: names.own, after, unknown, state: State::Waiting(work) });
        place
    }

    /// Removes a line that may begin from its queue.
    pub(super) fn next_ready(&mut self) -> Option<Ready<W>> {
        for lane in 0..LANES {
            let Some(place) = self.lanes.get(lane).and_then(|waiting| waiting.front().copied()) else { continue };
            let Some(later) = self.judge(place) else { continue };
            self.lanes.get_mut(lane)?.pop_front();
            let slot = self.slot_mut(place)?;
            let line = slot.line;
            if let State::Waiting(work) = std::mem::replace(&mut slot.state, State::Running) {
                return Some(Ready { place, line, work, later });
            }
        }
        None
    }

    /// Returns a value if a line may begin: the later line that created a record that it refers to, if any.
    fn judge(&self, place: u64) -> Option<Option<u64>> {
        let slot = self.slot(place)?;
        if slot.after.iter().any(|earlier| self.result(*earlier).is_none() && *earlier >= self.first) {
            return None;
        }
        for name in &slot.unknown {
            let Some(later) = self.brought.get(name).and_then(|later| self.slot(*later)) else { continue };
            if later.lane == slot.lane {
                // It begins after this line.
                continue;
            }
            match &later.state {
                State::Waiting(_) | State::Running => return None,
                State::Done(Ok(Done::Created)) => return Some(Some(later.line)),
                State::Done(Ok(Done::Updated | Done::Skipped) | Err(_)) => {}
            }
        }
        Some(None)
    }

    /// True if the next line to report is completed.
    pub(super) fn is_front_done(&self) -> bool {
        self.slots.front().is_some_and(|front| matches!(front.state, State::Done(_)))
    }

    /// Stores the outcome of a line that had begun.
    pub(super) fn finish(&mut self, place: u64, result: LineResult) {
        if let Some(slot) = self.slot_mut(place) {
            slot.state = State::Done(result);
        }
    }

    /// Returns the next line to report, if it is completed; a line for which `keep` is true stays.
    pub(super) fn pop(&mut self, keep: impl Fn(&LineResult) -> bool) -> Option<(u64, LineResult)> {
        let front = self.slots.front()?;
        match &front.state {
            State::Done(result) if !keep(result) => {}
            State::Done(_) | State::Waiting(_) | State::Running => return None,
        }
        let Slot { line, bytes, own, state, .. } = self.slots.pop_front()?;
        for name in own {
            if self.brought.get(&name) == Some(&self.first) {
                self.brought.remove(&name);
            }
        }
        self.first += 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        match state {
            State::Done(result) => Some((line, result)),
            State::Waiting(_) | State::Running => None,
        }
    }

    fn result(&self, place: u64) -> Option<&LineResult> {
        match &self.slot(place)?.state {
            State::Done(result) => Some(result),
            State::Waiting(_) | State::Running => None,
        }
    }

    fn slot(&self, place: u64) -> Option<&Slot<W>> {
        self.slots.get(usize::try_from(place.checked_sub(self.first)?).ok()?)
    }

    fn slot_mut(&mut self, place: u64) -> Option<&mut Slot<W>> {
        self.slots.get_mut(usize::try_from(place.checked_sub(self.first)?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::record::RecordKind::{Group, Individual};

    fn names(own: &[Name], needs: &[Name]) -> Names {
        Names { own: own.to_vec(), needs: needs.to_vec() }
    }

    fn some_names<const COUNT: usize>() -> [Name; COUNT] {
        let naming = crate::bulk::Naming::default();
        std::array::from_fn(|at| naming.numbered(at))
    }

    fn ready(window: &mut Window<()>) -> Vec<u64> {
        let mut lines = Vec::new();
        while let Some(ready) = window.next_ready() {
            lines.push(ready.line);
        }
        lines
    }

    #[test]
    fn a_group_waits_for_its_members_and_people_continue() {
        let [a, b, g] = some_names();
        let mut window = Window::new();
        window.push((1, 10), Individual, names(&[a], &[]), ());
        window.push((2, 10), Group, names(&[g], &[a]), ());
        window.push((3, 10), Individual, names(&[b], &[]), ());
        assert_eq!(ready(&mut window), [1, 3]);
        assert_eq!(ready(&mut window), [0_u64; 0]);
        window.finish(2, Ok(Done::Created));
        assert!(window.pop(|_| false).is_none(), "lines are reported in their order");
        window.finish(0, Ok(Done::Created));
        assert_eq!(ready(&mut window), [2]);
        window.finish(1, Err(AppError::Ambiguous));
        let reported: Vec<u64> = std::iter::from_fn(|| window.pop(|_| false)).map(|(line, _)| line).collect();
        assert_eq!(reported, [1, 2, 3]);
        assert_eq!(window.size(), (0, 0));
        assert!(window.brought.is_empty());
    }

    #[test]
    fn a_line_never_finds_the_record_of_a_later_line() {
        let [a, x, g] = some_names();
        let mut window = Window::new();
        window.push((1, 1), Individual, names(&[x], &[]), ());
        window.push((2, 1), Group, names(&[g], &[x, a]), ());
        window.push((3, 1), Individual, names(&[a], &[]), ());
        assert_eq!(ready(&mut window), [1, 3]);
        window.finish(0, Ok(Done::Created));
        assert!(window.next_ready().is_none(), "it is not known yet whether line 3 makes its record");
        window.finish(2, Ok(Done::Created));
        assert_eq!(window.next_ready().map(|ready| (ready.line, ready.later)), Some((2, Some(3))));
    }

    #[test]
    fn a_line_waits_for_an_earlier_line_of_that_name() {
        let [a, b] = some_names();
        let mut window = Window::new();
        window.push((1, 1), Individual, names(&[a], &[]), ());
        window.push((2, 1), Individual, names(&[a, b], &[]), ());
        window.push((3, 1), Individual, names(&[b], &[]), ());
        assert_eq!(ready(&mut window), [1]);
        window.finish(0, Ok(Done::Created));
        assert_eq!(ready(&mut window), [2]);
        window.finish(1, Ok(Done::Created));
        assert_eq!(ready(&mut window), [3]);
    }

    #[test]
    fn a_retained_line_and_later_ones_are_not_reported() {
        let mut window: Window<()> = Window::new();
        window.push_done(1, Err(AppError::Busy));
        window.push_done(2, Ok(Done::Skipped));
        assert!(window.pop(Result::is_err).is_none());
        assert!(window.pop(|_| false).is_some());
        assert_eq!(window.pop(Result::is_err).map(|(line, _)| line), Some(2));
    }
}
