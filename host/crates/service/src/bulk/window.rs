//! The lines that are being written: which of them may begin, and in which order they are told of.
//!
//! **Invariant:** lines of one kind begin in their order. A line waits for every earlier line of the window that it refers to, and
//! for earlier ones of the same name where it would look for its own record.
//!
//! **Invariant:** no line finds a record of a later line: where one of another kind was begun before it, it waits for it and is
//! refused when that made the record.

use std::collections::{HashMap, VecDeque};

use super::Done;
use super::names::{Name, Names};
use daftar_domain::error::AppError;
use daftar_domain::record::RecordKind;

/// What became of a line.
pub(super) type LineResult = Result<Done, AppError>;

const LANES: usize = RecordKind::ALL.len();

/// Lines from the first that is not told of yet. `W` is what is to be done for one.
pub(super) struct Window<W> {
    /// The place of the first line; places count up, whatever the numbers of lines.
    first: u64,
    slots: VecDeque<Slot<W>>,
    /// The last line that brings a record of that name.
    brought: HashMap<Name, u64>,
    /// The places that wait, a lane for each kind.
    lanes: [VecDeque<u64>; LANES],
    bytes: usize,
}

struct Slot<W> {
    line: u64,
    bytes: usize,
    lane: usize,
    own: Vec<Name>,
    /// The places that have to be done before.
    after: Vec<u64>,
    /// Names that no earlier line of the window brings.
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
    /// The later line that brought a record to which this one refers.
    pub later: Option<u64>,
}

impl<W> Window<W> {
    pub(super) fn new() -> Self {
        Self { first: 0, slots: VecDeque::new(), brought: HashMap::new(), lanes: Default::default(), bytes: 0 }
    }

    /// How many lines it holds, and how many bytes these had.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.slots.len(), self.bytes)
    }

    /// Adds a line that is done already, one way or the other.
    pub(super) fn push_done(&mut self, line: u64, result: LineResult) {
        let state = State::Done(result);
        let (own, after, unknown) = (Vec::new(), Vec::new(), Vec::new());
        self.slots.push_back(Slot { line, bytes: 0, lane: 0, own, after, unknown, state });
    }

    /// Adds a line. `looks` says whether it looks for its own record before it writes.
    pub(super) fn push(
        &mut self,
        (line, bytes): (u64, usize),
        kind: RecordKind,
        names: Names,
        looks: bool,
        work: W,
    ) -> u64 {
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
            let earlier = self.brought.insert(*name, place);
            after.extend(earlier.filter(|_| looks));
        }
        let lane = kind.place();
        if let Some(waiting) = self.lanes.get_mut(lane) {
            waiting.push_back(place);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.slots.push_back(Slot { line, bytes, lane, own: names.own, after, unknown, state: State::Waiting(work) });
        place
    }

    /// Takes a line that may begin.
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

    /// Whether a line may begin; then which later line brought a record that it refers to, if one did.
    fn judge(&self, place: u64) -> Option<Option<u64>> {
        let slot = self.slot(place)?;
        if slot.after.iter().any(|earlier| self.result(*earlier).is_none() && *earlier >= self.first) {
            return None;
        }
        for name in &slot.unknown {
            let Some(later) = self.brought.get(name).and_then(|later| self.slot(*later)) else { continue };
            if later.lane == slot.lane {
                // It begins after this one.
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

    /// Whether the next line to tell of is done.
    pub(super) fn is_front_done(&self) -> bool {
        self.slots.front().is_some_and(|front| matches!(front.state, State::Done(_)))
    }

    /// Says what became of a line that had begun.
    pub(super) fn finish(&mut self, place: u64, result: LineResult) {
        if let Some(slot) = self.slot_mut(place) {
            slot.state = State::Done(result);
        }
    }

    /// The next line to tell of, if it is done; one for which `keep` holds stays.
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
        let naming = super::super::names::Naming::default();
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
    fn a_group_waits_for_its_members_and_people_go_on() {
        let [a, b, g] = some_names();
        let mut window = Window::new();
        window.push((1, 10), Individual, names(&[a], &[]), false, ());
        window.push((2, 10), Group, names(&[g], &[a]), false, ());
        window.push((3, 10), Individual, names(&[b], &[]), false, ());
        assert_eq!(ready(&mut window), [1, 3]);
        assert_eq!(ready(&mut window), [0_u64; 0]);
        window.finish(2, Ok(Done::Created));
        assert!(window.pop(|_| false).is_none(), "lines are told of in their order");
        window.finish(0, Ok(Done::Created));
        assert_eq!(ready(&mut window), [2]);
        window.finish(1, Err(AppError::Ambiguous));
        let told: Vec<u64> = std::iter::from_fn(|| window.pop(|_| false)).map(|(line, _)| line).collect();
        assert_eq!(told, [1, 2, 3]);
        assert_eq!(window.size(), (0, 0));
        assert!(window.brought.is_empty());
    }

    #[test]
    fn a_line_never_finds_the_record_of_a_later_line() {
        let [a, x, g] = some_names();
        let mut window = Window::new();
        window.push((1, 1), Individual, names(&[x], &[]), false, ());
        window.push((2, 1), Group, names(&[g], &[x, a]), false, ());
        window.push((3, 1), Individual, names(&[a], &[]), false, ());
        assert_eq!(ready(&mut window), [1, 3]);
        window.finish(0, Ok(Done::Created));
        assert!(window.next_ready().is_none(), "it is not known yet whether line 3 makes its record");
        window.finish(2, Ok(Done::Created));
        assert_eq!(window.next_ready().map(|ready| (ready.line, ready.later)), Some((2, Some(3))));
    }

    #[test]
    fn who_looks_for_its_own_record_waits_for_an_earlier_line_of_that_name() {
        let [a] = some_names();
        let mut window = Window::new();
        window.push((1, 1), Individual, names(&[a], &[]), true, ());
        window.push((2, 1), Individual, names(&[a], &[]), true, ());
        assert_eq!(ready(&mut window), [1]);
        window.finish(0, Ok(Done::Created));
        assert_eq!(ready(&mut window), [2]);
        let mut window = Window::new();
        window.push((1, 1), Individual, names(&[a], &[]), false, ());
        window.push((2, 1), Individual, names(&[a], &[]), false, ());
        assert_eq!(ready(&mut window), [1, 2], "the store refuses the second one");
    }

    #[test]
    fn what_is_kept_is_not_told_of_and_nothing_behind_it() {
        let mut window: Window<()> = Window::new();
        window.push_done(1, Err(AppError::Busy));
        window.push_done(2, Ok(Done::Skipped));
        assert!(window.pop(Result::is_err).is_none());
        assert!(window.pop(|_| false).is_some());
        assert_eq!(window.pop(Result::is_err).map(|(line, _)| line), Some(2));
    }
}
