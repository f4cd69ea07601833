//! Generated sequences of operations, sent to servers and to a model of the register, which must agree: in the status
//! and version of every response, and in what records, searches, counts and the audit log show afterwards.
//!
//! A sequence follows from its seed, apart from the requests that a kill interrupts. One that fails is reduced:
//! operations are left out while it still fails, and the rest is printed as a list that a test can replay.

mod audit;
mod budget;
mod compare;
mod in_flight;
mod plan;
mod register;
mod replay;
mod run;
mod step;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use daftar::context::{Clock as _, SystemClock};

use self::run::Run;
pub use self::step::{Condition, Step};
pub use self::world::{Alone, Embedded, Shared, World};
use super::dice::Dice;

/// One operation of so many repeats an earlier one with its idempotency key.
const REPEATED_ONE_IN: u64 = 8;
/// The time for which operations are left out of a sequence that fails.
const REDUCED_FOR: Duration = Duration::from_secs(60);

/// What a sequence did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of writes that succeeded.
    pub written: u64,
    /// Number of requests that were rejected, as the model says.
    pub rejected: u64,
    /// Number of responses that repeated a stored outcome.
    pub replayed: u64,
    /// Number of requests that limits rejected.
    pub limited: u64,
    /// Number of comparisons of everything.
    pub comparisons: u64,
    /// Number of restarts without a kill.
    pub restarts: u64,
    /// Number of kills.
    pub kills: u64,
    /// Number of requests that a kill left without a response.
    pub unanswered: u64,
    /// Number of those that the server had completed.
    pub completed: u64,
}

impl Summary {
    /// The sums of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            written: self.written + other.written,
            rejected: self.rejected + other.rejected,
            replayed: self.replayed + other.replayed,
            limited: self.limited + other.limited,
            comparisons: self.comparisons + other.comparisons,
            restarts: self.restarts + other.restarts,
            kills: self.kills + other.kills,
            unanswered: self.unanswered + other.unanswered,
            completed: self.completed + other.completed,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { written, rejected, replayed, limited, comparisons, restarts, kills, unanswered, completed } = self;
        write!(
            formatter,
            "{written} writes, {rejected} rejected and {replayed} replayed requests, {limited} beyond limits, \
             {restarts} restarts, {kills} kills that left {unanswered} requests without a response, {completed} of \
             them completed, {comparisons} comparisons"
        )
    }
}

/// Sends the sequence of a seed to a new world. It has a kill in the middle, and others by chance.
///
/// # Errors
/// The first disagreement, with the reduced sequence.
pub fn run<W: World>(start: impl Fn() -> W, seed: u64, length: usize) -> Result<Summary, String> {
    let mut dice = Dice::new(seed);
    let mut steps: Vec<Step> = Vec::with_capacity(length);
    while steps.len() < length {
        let next = match (dice.below(REPEATED_ONE_IN), again(&steps, &mut dice)) {
            _ if steps.len() == length / 2 => Step::kill(&mut dice),
            (0, Some(again)) => again,
            _ => Step::random(&mut dice),
        };
        steps.push(next);
    }
    replay(&start, &steps).map_err(|problem| {
        let (steps, problem) = reduced(&start, steps, problem);
        format!("seed {seed}: {problem}\nreduced to {} operations: {steps:?}", steps.len())
    })
}

/// An earlier operation with an idempotency key, to be sent again.
fn again(steps: &[Step], dice: &mut Dice) -> Option<Step> {
    let keyed: Vec<Step> = steps.iter().copied().filter(|step| step.key().is_some()).collect();
    let place = dice.next().checked_rem(keyed.len() as u64)?;
    keyed.get(usize::try_from(place).ok()?).copied()
}

/// Sends a sequence to a new world.
///
/// # Errors
/// The first disagreement.
pub fn replay<W: World>(start: impl Fn() -> W, steps: &[Step]) -> Result<Summary, String> {
    let today = || register::day(SystemClock.now());
    let begun = today();
    let ran = replay_once(&start, steps);
    // Servers with the machine's clock wrote dates of two days if it has passed midnight, which it does at most once in
    // a sequence.
    if W::IS_CLOCK_SET || today() == begun { ran } else { replay_once(&start, steps) }
}

fn replay_once<W: World>(start: &impl Fn() -> W, steps: &[Step]) -> Result<Summary, String> {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut run = Run::new(start());
        steps.iter().try_for_each(|step| run.take(*step).map_err(|problem| format!("{step:?}: {problem}")))?;
        run.end()
    }));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
    })
}

/// Leaves out parts of a sequence while it fails, in ever smaller parts, for a bounded time.
fn reduced<W: World>(start: &impl Fn() -> W, mut steps: Vec<Step>, mut problem: String) -> (Vec<Step>, String) {
    let until = Instant::now() + REDUCED_FOR;
    let mut part = steps.len().div_ceil(2);
    loop {
        let mut from = 0;
        while from < steps.len() && Instant::now() < until {
            let mut fewer = steps.clone();
            drop(fewer.drain(from..(from + part).min(steps.len())));
            match replay(start, &fewer) {
                Err(found) => (steps, problem) = (fewer, found),
                Ok(_) => from += part,
            }
        }
        if part <= 1 || Instant::now() >= until {
            return (steps, problem);
        }
        part = part.div_ceil(2);
    }
}
