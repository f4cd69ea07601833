//! The circuit breaker of a plugin: suspends a plugin that keeps failing without a caller's part, and resumes it
//! automatically.
//!
//! **Invariant:** only faults that no caller can cause count: an instance that does not start, and calls with the
//! host's own input. A fault under a caller's expression is charged to that caller, or one client could suspend a
//! plugin for all.
//! **Invariant:** a suspended plugin is retried within [`BACK_OFF_MAX`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

use super::HostClock;

/// The number of faults within [`WINDOW`] that suspend a plugin.
const FAULTS_MAX: usize = 5;

/// See [`FAULTS_MAX`].
const WINDOW: SignedDuration = SignedDuration::from_secs(60);

/// The first suspension; doubled by each failed trial.
const BACK_OFF_MIN: SignedDuration = SignedDuration::from_secs(1);

/// The longest suspension. A plugin that was active for this long starts again with [`BACK_OFF_MIN`].
const BACK_OFF_MAX: SignedDuration = SignedDuration::from_secs(300);

/// The least interval between two checks of a plugin after faults under callers' input, which a caller causes at little
/// cost.
const CHECK_INTERVAL: SignedDuration = SignedDuration::from_secs(1);

/// The state of a circuit breaker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BreakerState {
    /// The plugin is active.
    #[default]
    Closed,
    /// The plugin is suspended.
    Open {
        /// Seconds until the next trial, rounded up.
        retry_after_s: u64,
    },
    /// A trial is running.
    HalfOpen,
}

impl BreakerState {
    /// The stable name of the state.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// The plugin is suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Suspended {
    /// Time until a retry is useful, in seconds.
    pub retry_after_s: u64,
}

/// The circuit breaker of one plugin.
pub(super) struct Breaker {
    clock: HostClock,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    /// The latest faults, at most [`FAULTS_MAX`].
    faults: VecDeque<Timestamp>,
    /// The number of suspensions since the plugin was last stable.
    openings: u32,
    opened_in_all: u64,
    closed_at: Timestamp,
    checked_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Closed,
    Open { since: Timestamp, until: Timestamp },
    HalfOpen,
}

impl Breaker {
    /// A breaker for a plugin that has just been loaded.
    pub fn new(clock: HostClock) -> Self {
        let state = State {
            phase: Phase::Closed,
            faults: VecDeque::with_capacity(FAULTS_MAX),
            openings: 0,
            opened_in_all: 0,
            closed_at: clock.now(),
            checked_at: None,
        };
        Self { clock, state: Mutex::new(state) }
    }

    /// Admits a call. If it returns a trial, the caller first tests the plugin and reports the result to it.
    ///
    /// # Errors
    /// The plugin is suspended, or another caller runs the trial.
    pub fn admit(self: &Arc<Self>) -> Result<Option<Trial>, Suspended> {
        let now = self.clock.now();
        let mut state = self.lock();
        match state.phase {
            Phase::Closed => Ok(None),
            Phase::HalfOpen => Err(Suspended { retry_after_s: 1 }),
            // A clock that was set back must not extend the suspension.
            Phase::Open { since, until } if now < until && now >= since => {
                Err(Suspended { retry_after_s: whole_seconds(until.duration_since(now)) })
            }
            Phase::Open { .. } => {
                state.phase = Phase::HalfOpen;
                Ok(Some(Trial { breaker: self.clone(), is_decided: false }))
            }
        }
    }

    /// Records a fault that no caller can have caused. Returns true if it suspended the plugin.
    pub fn record_fault(&self) -> bool {
        let now = self.clock.now();
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Closed) {
            return false;
        }
        state.faults.retain(|at| *at <= now && now.duration_since(*at) < WINDOW);
        state.faults.push_back(now);
        if state.faults.len() < FAULTS_MAX {
            return false;
        }
        if now.duration_since(state.closed_at) >= BACK_OFF_MAX {
            state.openings = 0;
        }
        state.open(now);
        true
    }

    /// Returns true if the plugin should be checked with the host's own input after a fault under a caller's.
    pub fn should_check(&self) -> bool {
        let now = self.clock.now();
        let mut state = self.lock();
        let was_just_checked = state.checked_at.is_some_and(|at| at <= now && now.duration_since(at) < CHECK_INTERVAL);
        if was_just_checked || !matches!(state.phase, Phase::Closed) {
            return false;
        }
        state.checked_at = Some(now);
        true
    }

    /// Returns the current state.
    pub fn state(&self) -> BreakerState {
        let now = self.clock.now();
        match self.lock().phase {
            Phase::Closed => BreakerState::Closed,
            Phase::HalfOpen => BreakerState::HalfOpen,
            Phase::Open { until, .. } => BreakerState::Open { retry_after_s: whole_seconds(until.duration_since(now)) },
        }
    }

    /// The number of suspensions since the plugin was loaded.
    pub fn opened_in_all(&self) -> u64 {
        self.lock().opened_in_all
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn open(&mut self, now: Timestamp) {
        let doublings = i32::try_from(self.openings.min(16)).unwrap_or(16);
        let back_off = BACK_OFF_MIN.saturating_mul(1i32 << doublings).min(BACK_OFF_MAX);
        self.phase = Phase::Open { since: now, until: now.saturating_add(back_off).unwrap_or(Timestamp::MAX) };
        self.openings = self.openings.saturating_add(1);
        self.opened_in_all = self.opened_in_all.saturating_add(1);
        self.faults.clear();
    }
}

/// The one call that tests a suspended plugin. If dropped without a result, the next call becomes the trial.
pub(super) struct Trial {
    breaker: Arc<Breaker>,
    is_decided: bool,
}

impl Trial {
    /// The plugin works again: it is active.
    pub fn succeeded(mut self) {
        self.is_decided = true;
        let now = self.breaker.clock.now();
        let mut state = self.breaker.lock();
        (state.phase, state.closed_at) = (Phase::Closed, now);
    }

    /// The plugin still fails: it is suspended for twice as long.
    pub fn failed(mut self) -> Suspended {
        self.is_decided = true;
        let now = self.breaker.clock.now();
        self.breaker.lock().open(now);
        match self.breaker.state() {
            BreakerState::Open { retry_after_s } => Suspended { retry_after_s },
            BreakerState::Closed | BreakerState::HalfOpen => Suspended { retry_after_s: 1 },
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if !self.is_decided {
            let now = self.breaker.clock.now();
            self.breaker.lock().phase = Phase::Open { since: now, until: now };
        }
    }
}

fn whole_seconds(duration: SignedDuration) -> u64 {
    let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(0);
    milliseconds.div_ceil(1_000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::context::FakeClock;

    fn breaker() -> (Arc<Breaker>, FakeClock) {
        let clock = FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap());
        (Arc::new(Breaker::new(Arc::new(clock.clone()))), clock)
    }

    fn opened() -> (Arc<Breaker>, FakeClock) {
        let (breaker, clock) = breaker();
        let opened: Vec<bool> = (0..FAULTS_MAX).map(|_| breaker.record_fault()).collect();
        assert_eq!(opened, [false, false, false, false, true]);
        (breaker, clock)
    }

    fn trial(breaker: &Arc<Breaker>) -> Trial {
        match breaker.admit() {
            Ok(Some(trial)) => trial,
            Ok(None) => panic!("the breaker is closed"),
            Err(aside) => panic!("{aside:?}"),
        }
    }

    fn retry_after(breaker: &Arc<Breaker>) -> u64 {
        breaker.admit().err().unwrap().retry_after_s
    }

    #[test]
    fn one_fault_less_than_the_limit_does_not_suspend() {
        let (breaker, _) = breaker();
        for _ in 1..FAULTS_MAX {
            assert!(!breaker.record_fault());
        }
        assert!(matches!(breaker.admit(), Ok(None)));
    }

    #[test]
    fn faults_that_are_far_apart_do_not_suspend() {
        let (breaker, clock) = breaker();
        for _ in 0..50 {
            assert!(!breaker.record_fault());
            clock.advance(WINDOW / 4);
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn a_suspended_plugin_is_tested_once_and_resumed() {
        let (breaker, clock) = opened();
        assert_eq!((retry_after(&breaker), breaker.state()), (1, BreakerState::Open { retry_after_s: 1 }));
        clock.advance(SignedDuration::from_millis(999));
        assert_eq!(retry_after(&breaker), 1);
        clock.advance(SignedDuration::from_millis(1));
        let trial = trial(&breaker);
        assert_eq!((retry_after(&breaker), breaker.state()), (1, BreakerState::HalfOpen), "one trial at a time");
        trial.succeeded();
        assert!(matches!(breaker.admit(), Ok(None)));
        assert_eq!(breaker.opened_in_all(), 1);
    }

    #[test]
    fn each_failed_trial_doubles_the_time_up_to_its_bound() {
        let (breaker, clock) = opened();
        let mut waited = Vec::new();
        for _ in 0..10 {
            clock.advance(SignedDuration::from_secs(i64::try_from(retry_after(&breaker)).unwrap()));
            waited.push(trial(&breaker).failed().retry_after_s);
        }
        assert_eq!(waited, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }

    #[test]
    fn a_stable_plugin_starts_with_the_shortest_suspension_again() {
        let (breaker, clock) = opened();
        clock.advance(BACK_OFF_MIN);
        trial(&breaker).succeeded();
        for _ in 0..FAULTS_MAX {
            breaker.record_fault();
        }
        assert_eq!(retry_after(&breaker), 2, "it failed again immediately");
        clock.advance(BACK_OFF_MIN * 2);
        trial(&breaker).succeeded();
        clock.advance(BACK_OFF_MAX);
        for _ in 0..FAULTS_MAX {
            breaker.record_fault();
        }
        assert_eq!(retry_after(&breaker), 1);
    }

    #[test]
    fn a_trial_that_never_ran_leaves_it_to_the_next_call() {
        let (breaker, clock) = opened();
        clock.advance(BACK_OFF_MIN);
        drop(trial(&breaker));
        trial(&breaker).succeeded();
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_extend_a_suspension() {
        let (breaker, clock) = opened();
        clock.advance(SignedDuration::from_hours(-24));
        trial(&breaker).succeeded();
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn checks_after_callers_faults_are_rare() {
        let (breaker, clock) = breaker();
        assert!(breaker.should_check());
        assert!(!breaker.should_check());
        clock.advance(CHECK_INTERVAL);
        assert!(breaker.should_check());
    }
}
