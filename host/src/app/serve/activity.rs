//! What a connection is doing, as its socket and its requests tell it, and until when it may go on so.
//!
//! **Invariant:** nothing here costs a timer for each request: who bounds a connection's time looks again when it could first be over.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use axum::http::Version;
use tokio::time::Instant;

use crate::app::transport::Cut;
use crate::config::ConnectionsConfig;

/// What one connection is doing.
#[derive(Debug)]
pub(super) struct Activity {
    begun: Instant,
    /// The time of tests, which passes when they say so.
    #[cfg(test)]
    passed_ms: AtomicU64,
    /// Requests whose answer has not been handed over to its end.
    in_flight: AtomicU32,
    /// Those of them whose next step is ours.
    ours: AtomicU32,
    /// Whether a request has come whole.
    is_known: AtomicBool,
    is_http2: AtomicBool,
    /// Whether the socket has something that the client does not take.
    is_writing: AtomicBool,
    /// When the last request was over, or the connection was ready for the first one.
    waiting_since_ms: AtomicU64,
    /// When the first byte came of a request whose head is not there yet, and one more; 0 where none has.
    head_since_ms: AtomicU64,
    /// When something was last handed over to the client.
    progress_ms: AtomicU64,
}

/// How long a connection may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// It is fine, at least until then.
    LookAgain(Instant),
    /// It is over for that reason.
    Over(Cut),
}

impl Activity {
    /// A connection that has just come.
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            #[cfg(test)]
            passed_ms: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            ours: AtomicU32::new(0),
            is_known: AtomicBool::new(false),
            is_http2: AtomicBool::new(false),
            is_writing: AtomicBool::new(false),
            waiting_since_ms: AtomicU64::new(0),
            head_since_ms: AtomicU64::new(0),
            progress_ms: AtomicU64::new(0),
        }
    }

    /// It can take its first request.
    pub(super) fn is_ready(&self) {
        self.head_since_ms.store(0, Ordering::Relaxed);
        self.waiting_since_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Bytes came.
    pub(super) fn received(&self) {
        if self.in_flight.load(Ordering::Relaxed) == 0 && self.head_since_ms.load(Ordering::Relaxed) == 0 {
            self.head_since_ms.store(self.now_ms().saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Whether the client takes what is written.
    pub(super) fn set_writing(&self, is_writing: bool) {
        self.is_writing.store(is_writing, Ordering::Relaxed);
    }

    /// Bytes were taken.
    pub(super) fn progressed(&self) {
        self.progress_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// A request came whole.
    pub(super) fn begin(self: &std::sync::Arc<Self>, version: Version) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.ours.fetch_add(1, Ordering::AcqRel);
        self.head_since_ms.store(0, Ordering::Relaxed);
        if !self.is_known.load(Ordering::Relaxed) {
            self.is_http2.store(version == Version::HTTP_2, Ordering::Relaxed);
            self.is_known.store(true, Ordering::Relaxed);
        }
        InFlight { activity: std::sync::Arc::clone(self), is_ours: true }
    }

    /// How long it has been waiting for a request, and whether one ever came; none while something is done for it.
    pub(super) fn waiting(&self) -> Option<(bool, Duration)> {
        if self.in_flight.load(Ordering::Acquire) > 0 || self.is_writing.load(Ordering::Relaxed) {
            return None;
        }
        let since = self.now_ms().saturating_sub(self.waiting_since_ms.load(Ordering::Relaxed));
        Some((self.is_known.load(Ordering::Relaxed), Duration::from_millis(since)))
    }

    /// Whether it may go on.
    pub(super) fn due(&self, limits: &ConnectionsConfig) -> Due {
        let now_ms = self.now_ms();
        let shortest_ms = limits.header_timeout_ms.min(limits.idle_timeout_ms).min(limits.write_timeout_ms);
        let later = Due::LookAgain(self.at(now_ms.saturating_add(shortest_ms)));
        // What the socket waits for it bounds itself.
        if self.is_writing.load(Ordering::Relaxed) {
            return later;
        }
        if self.in_flight.load(Ordering::Acquire) > 0 {
            let taken_ms = self.progress_ms.load(Ordering::Relaxed);
            let waits_for_client = self.ours.load(Ordering::Acquire) == 0;
            let is_over = waits_for_client && now_ms >= taken_ms.saturating_add(limits.write_timeout_ms);
            return if is_over { Due::Over(Cut::WriteTimeout) } else { later };
        }
        let waiting_since_ms = self.waiting_since_ms.load(Ordering::Relaxed);
        let head_since_ms = self.head_since_ms.load(Ordering::Relaxed);
        let is_known = self.is_known.load(Ordering::Relaxed);
        let (until_ms, cut) = if !is_known {
            (waiting_since_ms.saturating_add(limits.header_timeout_ms), Cut::HeaderTimeout)
        } else if head_since_ms > 0 && !self.is_http2.load(Ordering::Relaxed) {
            (head_since_ms.saturating_sub(1).saturating_add(limits.header_timeout_ms), Cut::HeaderTimeout)
        } else {
            (waiting_since_ms.saturating_add(limits.idle_timeout_ms), Cut::Idle)
        };
        if now_ms >= until_ms {
            return Due::Over(cut);
        }
        Due::LookAgain(self.at(until_ms.min(now_ms.saturating_add(shortest_ms))))
    }

    #[cfg(test)]
    fn now_ms(&self) -> u64 {
        self.passed_ms.load(Ordering::Relaxed)
    }

    /// Lets so much time pass.
    #[cfg(test)]
    pub(super) fn pass_ms(&self, ms: u64) {
        self.passed_ms.fetch_add(ms, Ordering::Relaxed);
    }

    #[cfg(not(test))]
    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn at(&self, since_begun_ms: u64) -> Instant {
        // A millisecond more, since what was measured was rounded down.
        let after = Duration::from_millis(since_begun_ms.saturating_add(1));
        self.begun.checked_add(after).unwrap_or_else(Instant::now)
    }
}

/// A request whose answer has not been handed over to its end.
#[derive(Debug)]
pub(super) struct InFlight {
    activity: std::sync::Arc<Activity>,
    is_ours: bool,
}

impl InFlight {
    /// The next step is the client's: it has been given a part of the answer.
    pub(super) fn handed_over(&mut self) {
        self.activity.progressed();
        if std::mem::replace(&mut self.is_ours, false) {
            self.activity.ours.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// The next step is ours: the client took what there was.
    pub(super) fn is_being_made(&mut self) {
        if !std::mem::replace(&mut self.is_ours, true) {
            self.activity.ours.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.is_ours {
            self.activity.ours.fetch_sub(1, Ordering::AcqRel);
        }
        self.activity.waiting_since_ms.store(self.activity.now_ms(), Ordering::Relaxed);
        self.activity.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const LIMITS: fn() -> ConnectionsConfig = || ConnectionsConfig {
        header_timeout_ms: 100,
        idle_timeout_ms: 1_000,
        write_timeout_ms: 300,
        ..ConnectionsConfig::default()
    };

    fn over(activity: &Activity) -> Option<Cut> {
        match activity.due(&LIMITS()) {
            Due::Over(cut) => Some(cut),
            Due::LookAgain(at) => {
                assert!(at > Instant::now(), "it is looked at again later");
                None
            }
        }
    }

    #[test]
    fn a_first_request_has_the_time_of_a_head() {
        let activity = Arc::new(Activity::new());
        activity.pass_ms(5_000);
        activity.is_ready();
        activity.pass_ms(99);
        assert_eq!(over(&activity), None);
        activity.pass_ms(1);
        assert_eq!(over(&activity), Some(Cut::HeaderTimeout));
    }

    #[test]
    fn a_known_connection_may_wait_until_a_request_begins() {
        let activity = Arc::new(Activity::new());
        drop(activity.begin(Version::HTTP_11));
        activity.pass_ms(999);
        assert_eq!(over(&activity), None);
        activity.received();
        activity.pass_ms(99);
        assert_eq!(over(&activity), None, "the head has its own time");
        activity.received();
        activity.pass_ms(1);
        assert_eq!(over(&activity), Some(Cut::HeaderTimeout), "a byte now and then gives it no more");
        drop(activity.begin(Version::HTTP_11));
        activity.pass_ms(1_000);
        assert_eq!(over(&activity), Some(Cut::Idle));
    }

    #[test]
    fn frames_of_http2_are_no_head_of_a_request() {
        let activity = Arc::new(Activity::new());
        drop(activity.begin(Version::HTTP_2));
        activity.received();
        activity.pass_ms(999);
        assert_eq!(over(&activity), None);
        activity.pass_ms(1);
        assert_eq!(over(&activity), Some(Cut::Idle));
    }

    #[test]
    fn a_request_takes_as_long_as_we_take_and_no_longer_than_the_client_does() {
        let activity = Arc::new(Activity::new());
        let mut request = activity.begin(Version::HTTP_2);
        activity.pass_ms(60_000);
        assert_eq!((over(&activity), activity.waiting()), (None, None), "we are at work");
        request.handed_over();
        activity.pass_ms(299);
        assert_eq!(over(&activity), None);
        activity.progressed();
        activity.pass_ms(299);
        assert_eq!(over(&activity), None, "it takes some of it");
        activity.pass_ms(1);
        assert_eq!(over(&activity), Some(Cut::WriteTimeout));
        request.is_being_made();
        assert_eq!(over(&activity), None);
        request.handed_over();
        let other = activity.begin(Version::HTTP_2);
        activity.pass_ms(60_000);
        assert_eq!(over(&activity), None, "another request of the connection is ours");
        drop(other);
        assert_eq!(over(&activity), Some(Cut::WriteTimeout));
        drop(request);
        assert_eq!(over(&activity), None);
        assert_eq!(activity.waiting(), Some((true, Duration::ZERO)));
    }
}
