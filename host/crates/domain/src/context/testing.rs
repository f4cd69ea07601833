//! A clock for tests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use super::Clock;

/// A clock that stands still until it is moved: for tests. Clones show the same time.
#[derive(Debug, Clone)]
pub struct FakeClock {
    shown: Arc<Mutex<Shown>>,
    /// Told whenever time passes.
    passed: Arc<Notify>,
}

/// What a clock of tests shows.
#[derive(Debug)]
struct Shown {
    now: Timestamp,
    elapsed: Duration,
    /// By how much each look at what has passed moves that on.
    step: Duration,
}

impl FakeClock {
    /// A clock that shows that instant.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        let shown = Arc::new(Mutex::new(Shown { now, elapsed: Duration::ZERO, step: Duration::ZERO }));
        Self { shown, passed: Arc::default() }
    }

    /// Moves it to an instant, which may lie before the one shown. No time passes.
    pub fn set(&self, now: Timestamp) {
        self.shown().now = now;
    }

    /// Moves it on, or back by a negative duration; as far as the calendar goes. Time passes only when it is moved on.
    pub fn advance(&self, by: SignedDuration) {
        let mut shown = self.shown();
        shown.now = shown.now.saturating_add(by).unwrap_or(shown.now);
        shown.elapsed = shown.elapsed.saturating_add(Duration::try_from(by).unwrap_or_default());
        drop(shown);
        self.passed.notify_waiters();
    }

    /// From now on that much time passes whenever somebody looks how much has passed, so that a test can have time run out in the
    /// middle of something.
    pub fn pass_at_each_look(&self, step: Duration) {
        self.shown().step = step;
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        self.shown().now
    }

    fn elapsed(&self) -> Duration {
        let mut shown = self.shown();
        let passed = shown.elapsed.saturating_add(shown.step);
        shown.elapsed = passed;
        passed
    }

    /// Waits until somebody has moved the clock on by so much.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        let until = self.shown().elapsed.saturating_add(time);
        Box::pin(async move {
            loop {
                let mut passed = std::pin::pin!(clock.passed.notified());
                // From here on no move is missed, whenever it is waited for.
                passed.as_mut().enable();
                if clock.shown().elapsed >= until {
                    return;
                }
                passed.await;
            }
        })
    }
}
