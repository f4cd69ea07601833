//! Background tasks: a panic in one is logged, and the task starts again, unless its state would be lost.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;

use crate::context::Clock;

/// Delay before a background task that panicked is started again. It doubles with each panic soon after a start.
const AFTER_PANIC: Duration = Duration::from_secs(5);
/// The longest such delay.
const AFTER_PANIC_MAX: Duration = Duration::from_secs(600);

/// Runs a background task; logs a panic, and starts the task again after a pause.
pub async fn restarted<F: Future<Output = ()>>(name: &'static str, clock: Arc<dyn Clock>, task: impl Fn() -> F) {
    let mut pause = AFTER_PANIC;
    for restarts in 1_u64.. {
        let started = clock.elapsed();
        if AssertUnwindSafe(task()).catch_unwind().await.is_ok() {
            return;
        }
        if clock.elapsed().saturating_sub(started) > pause {
            pause = AFTER_PANIC;
        }
        tracing::error!(task = name, restarts, "a background task panicked and is started again");
        clock.sleep(pause).await;
        pause = pause.saturating_mul(2).min(AFTER_PANIC_MAX);
    }
}

/// Runs a background task whose state would be lost; logs a panic. Its owner has to detect its end, and to report that
/// the server is not ready.
pub async fn not_restarted(name: &'static str, task: impl Future<Output = ()>) {
    if AssertUnwindSafe(task).catch_unwind().await.is_err() {
        tracing::error!(
            task = name,
            "a background task panicked and cannot be started again: the server is not ready; restart it"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::future::{BoxFuture, ready};
    use jiff::Timestamp;

    use super::*;

    /// A clock that advances only while a task sleeps.
    #[derive(Default)]
    struct PausedClock(Mutex<Duration>);

    impl Clock for PausedClock {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }

        fn elapsed(&self) -> Duration {
            *self.0.lock().unwrap()
        }

        fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
            *self.0.lock().unwrap() += time;
            Box::pin(ready(()))
        }
    }

    #[tokio::test]
    async fn a_task_that_panics_is_started_again_after_longer_pauses_until_it_ends() {
        let (clock, starts) = (&Arc::new(PausedClock::default()), &Mutex::new(Vec::new()));
        let task = || async move {
            let start = {
                let mut starts = starts.lock().unwrap();
                starts.push(clock.elapsed().as_secs());
                starts.len()
            };
            if start == 10 {
                clock.sleep(AFTER_PANIC_MAX + AFTER_PANIC).await;
            }
            assert!(start == 12, "on purpose");
        };
        restarted("test", Arc::clone(clock) as Arc<dyn Clock>, task).await;
        // The tenth run lasts 605 seconds, so that the pause is the first one again.
        let expected = [0, 5, 15, 35, 75, 155, 315, 635, 1_235, 1_835, 2_445, 2_455];
        assert_eq!(*starts.lock().unwrap(), expected);
    }

    #[tokio::test]
    async fn the_state_of_a_task_that_is_not_started_again_is_dropped_with_its_panic() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<()>(1);
        let task = async move {
            tokio::task::yield_now().await;
            assert!(sender.is_closed(), "on purpose");
        };
        not_restarted("test", task).await;
        assert!(receiver.recv().await.is_none());
    }
}
