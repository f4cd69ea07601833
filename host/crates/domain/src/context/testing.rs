//! A clock for tests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use super::Clock;

/// A manually advanced clock for tests. Clones share the time.
#[derive(Debug, Clone)]
pub struct FakeClock {
    shown: Arc<Mutex<Shown>>,
    /// Notified when time passes.
    passed: Arc<Notify>,
}

/// The state of a test clock.
#[derive(Debug)]
struct Shown {
    now: Timestamp,
    elapsed: Duration,
    /// Time added by each read of the elapsed time.
    step: Duration,
}

impl FakeClock {
    /// Creates a clock set to a time.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        let shown = Arc::new(Mutex::new(Shown { now, elapsed: Duration::ZERO, step: Duration::ZERO }));
        Self { shown, passed: Arc::default() }
    }

    /// Sets the time, which may be earlier than before. The elapsed time does not change.
    pub fn set(&self, now: Timestamp) {
        self.shown().now = now;
    }

    /// Advances the clock, or sets it back by a negative duration. Elapsed time never decreases.
    pub fn advance(&self, by: SignedDuration) {
        let mut shown = self.shown();
        shown.now = shown.now.saturating_add(by).unwrap_or(shown.now);
        shown.elapsed = shown.elapsed.saturating_add(Duration::try_from(by).unwrap_or_default());
        drop(shown);
        self.passed.notify_waiters();
    }

    /// Makes every later read of the elapsed time advance the clock by `step`, so that a test can let a timeout expire
    /// in the middle of an operation.
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

    /// Waits until the clock was advanced by this much.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        let until = self.shown().elapsed.saturating_add(time);
        Box::pin(async move {
            loop {
                let mut passed = std::pin::pin!(clock.passed.notified());
                // From here on every advance is noticed, also before the await.
                passed.as_mut().enable();
                if clock.shown().elapsed >= until {
                    return;
                }
                passed.await;
            }
        })
    }
}
