//! The activity of one connection, as reported by its socket and its requests, and the time limits that follow from it.
//!
//! While bytes of responses wait for the client, the client must read at least [`MIN_BYTES_PER_S`], averaged over two
//! `write_timeout_ms`. A byte counts as read when the chunk of the response body that contains it has been written to
//! the socket. HTTP/2 frames that belong to no body (PING, SETTINGS, WINDOW_UPDATE) do not count.
//!
//! **Invariant:** no timer is created per request: the task of the connection checks again at the earliest time at
//! which a limit can expire.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::Version;
use tokio::time::Instant;

use daftar_domain::config::ConnectionsConfig;
use daftar_http::transport::Cut;

/// Minimum rate at which a client must read responses, in bytes per second.
pub(super) const MIN_BYTES_PER_S: u64 = 1_024;

/// Activity of a connection.
#[derive(Debug)]
pub(super) struct Activity {
    begun: Instant,
    /// The clock of tests, which they advance explicitly.
    #[cfg(test)]
    passed_ms: std::sync::atomic::AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Requests whose response has not been written to the socket completely.
    in_flight: u32,
    /// True if a complete request has been received.
    is_known: bool,
    is_http2: bool,
    /// True if the socket has pending data that the client does not read.
    is_writing: bool,
    /// Time at which the last request ended, or at which the connection was ready for its first request.
    waiting_since_ms: u64,
    /// Time at which the first byte of a request arrived whose head is still incomplete.
    head_since_ms: Option<u64>,
    /// Bytes of responses that wait for the client.
    unread: u64,
    /// Time since which the connection waits for the client.
    reading: Option<Reading>,
    /// Deadlines by which the client must have read each finished response, without the time at the minimum rate.
    ends: Vec<End>,
    next_id: u64,
}

/// A period during which data for the client was pending continuously.
#[derive(Debug, Clone, Copy)]
struct Reading {
    since_ms: u64,
    /// Start of the period in which the client must make progress; each byte read moves it forward, at the minimum
    /// rate.
    counts_from_ms: u64,
    taken: u64,
}

#[derive(Debug, Clone, Copy)]
struct End {
    id: u64,
    at_ms: u64,
}

/// Maximum lifetime of a connection from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// The connection may continue, at least until this time.
    LookAgain(Instant),
    /// The connection must be closed for this reason.
    Over(Cut),
}

/// Rate at which a client reads its responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadingRate {
    /// Average rate since data started to wait.
    pub(super) bytes_per_s: u64,
    /// Time since the wait began.
    pub(super) time: Duration,
    /// Number of bytes that wait.
    pub(super) unread: u64,
}

impl Activity {
    /// Creates the activity of a connection that was just accepted.
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            #[cfg(test)]
            passed_ms: std::sync::atomic::AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    /// Records that the connection is ready for its first request.
    pub(super) fn is_ready(&self) {
        let now_ms = self.now_ms();
        let mut state = self.state();
        (state.head_since_ms, state.waiting_since_ms) = (None, now_ms);
    }

    /// Records that bytes arrived.
    pub(super) fn received(&self) {
        let now_ms = self.now_ms();
        let mut state = self.state();
        if state.in_flight == 0 {
            state.head_since_ms.get_or_insert(now_ms);
        }
    }

    /// Records the state of the socket: true if it has pending data that the client does not read.
    pub(super) fn set_writing(&self, is_writing: bool) {
        let now_ms = self.now_ms();
        let mut state = self.state();
        state.is_writing = is_writing;
        state.update_reading(now_ms);
    }

    /// Records that a complete request arrived.
    pub(super) fn begin(self: &Arc<Self>, version: Version) -> InFlight {
        let mut state = self.state();
        state.in_flight = state.in_flight.saturating_add(1);
        state.head_since_ms = None;
        if !std::mem::replace(&mut state.is_known, true) {
            state.is_http2 = version == Version::HTTP_2;
        }
        let id = state.next_id;
        state.next_id = id.wrapping_add(1);
        drop(state);
        InFlight { activity: Arc::clone(self), id }
    }

    /// Returns the time since the connection became idle, and true if it had a request; `None` while a request is in
    /// progress.
    pub(super) fn waiting(&self) -> Option<(bool, Duration)> {
        let now_ms = self.now_ms();
        let state = self.state();
        if state.in_flight > 0 || state.is_writing {
            return None;
        }
        Some((state.is_known, Duration::from_millis(now_ms.saturating_sub(state.waiting_since_ms))))
    }

    /// Returns the rate at which the client reads its responses; `None` while nothing waits.
    pub(super) fn reading_rate(&self) -> Option<ReadingRate> {
        let now_ms = self.now_ms();
        let state = self.state();
        let Reading { since_ms, taken, .. } = state.reading?;
        let time_ms = now_ms.saturating_sub(since_ms);
        let bytes_per_s = taken.saturating_mul(1_000).checked_div(time_ms).unwrap_or(u64::MAX);
        Some(ReadingRate { bytes_per_s, time: Duration::from_millis(time_ms), unread: state.unread })
    }

    /// Returns the number of bytes of responses that wait for the client.
    pub(super) fn unread(&self) -> u64 {
        self.state().unread
    }

    /// Checks the time limits: the connection may continue, or must be closed.
    pub(super) fn due(&self, limits: &ConnectionsConfig) -> Due {
        let now_ms = self.now_ms();
        let shortest_ms = limits.header_timeout_ms.min(limits.idle_timeout_ms).min(limits.write_timeout_ms);
        let later_ms = now_ms.saturating_add(shortest_ms);
        let state = self.state();
        let response = state.reading.map(|reading| {
            let first_ms = state.ends.iter().map(|end| end.at_ms).fold(reading.counts_from_ms, u64::min);
            (first_ms.saturating_add(limits.write_timeout_ms.saturating_mul(2)), Cut::WriteTimeout)
        });
        // Other concurrent writes: responses to HTTP/2 frames that belong to no request.
        let request = (state.in_flight == 0).then(|| {
            if !state.is_known {
                (state.waiting_since_ms.saturating_add(limits.header_timeout_ms), Cut::HeaderTimeout)
            } else if let Some(since_ms) = state.head_since_ms.filter(|_| !state.is_http2) {
                (since_ms.saturating_add(limits.header_timeout_ms), Cut::HeaderTimeout)
            } else {
                (state.waiting_since_ms.saturating_add(limits.idle_timeout_ms), Cut::Idle)
            }
        });
        let first = response.into_iter().chain(request).min_by_key(|(until_ms, _)| *until_ms);
        let Some((until_ms, cut)) = first else { return Due::LookAgain(self.at(later_ms)) };
        if now_ms >= until_ms {
            return Due::Over(cut);
        }
        Due::LookAgain(self.at(until_ms.min(later_ms)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn now_ms(&self) -> u64 {
        self.passed_ms.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Advances the clock by this duration.
    #[cfg(test)]
    pub(super) fn pass_ms(&self, ms: u64) {
        self.passed_ms.fetch_add(ms, std::sync::atomic::Ordering::Relaxed);
    }

    #[cfg(not(test))]
    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn at(&self, since_begun_ms: u64) -> Instant {
        // One millisecond more, since the measured time was rounded down.
        let after = Duration::from_millis(since_begun_ms.saturating_add(1));
        self.begun.checked_add(after).unwrap_or_else(Instant::now)
    }
}

impl State {
    fn update_reading(&mut self, now_ms: u64) {
        if self.unread == 0 && !self.is_writing {
            self.reading = None;
        } else if self.reading.is_none() {
            self.reading = Some(Reading { since_ms: now_ms, counts_from_ms: now_ms, taken: 0 });
        }
    }
}

/// Returns the time for this number of bytes at the minimum rate.
fn slowest_ms(bytes: u64) -> u64 {
    bytes.saturating_mul(1_000) / MIN_BYTES_PER_S
}

/// A request whose response has not been written to the socket completely.
#[derive(Debug)]
pub(super) struct InFlight {
    activity: Arc<Activity>,
    id: u64,
}

impl InFlight {
    /// Records that bytes of the response wait for the client.
    pub(super) fn offered(&self, bytes: u64) {
        let now_ms = self.activity.now_ms();
        let mut state = self.activity.state();
        state.unread = state.unread.saturating_add(bytes);
        state.update_reading(now_ms);
    }

    /// Records that the response is finished and that all its bytes wait for the client. The client must read it in the
    /// time in which the slowest permitted client reads all data that waits on this connection. So one stalled response
    /// cannot stay open indefinitely beside others that make progress.
    pub(super) fn finished(&self, bytes: u64) {
        self.offered(bytes);
        let now_ms = self.activity.now_ms();
        let mut state = self.activity.state();
        if bytes > 0 {
            let at_ms = now_ms.saturating_add(slowest_ms(state.unread));
            state.ends.push(End { id: self.id, at_ms });
        }
    }

    /// Records that the socket accepted this number of the waiting bytes.
    pub(super) fn taken(&self, bytes: u64) {
        let now_ms = self.activity.now_ms();
        let mut state = self.activity.state();
        state.unread = state.unread.saturating_sub(bytes);
        if let Some(reading) = &mut state.reading {
            reading.taken = reading.taken.saturating_add(bytes);
            reading.counts_from_ms = reading.counts_from_ms.saturating_add(slowest_ms(bytes)).min(now_ms);
        }
        state.update_reading(now_ms);
    }

    /// Records that this number of the waiting bytes will never be sent.
    pub(super) fn discarded(&self, bytes: u64) {
        let now_ms = self.activity.now_ms();
        let mut state = self.activity.state();
        state.unread = state.unread.saturating_sub(bytes);
        state.update_reading(now_ms);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let now_ms = self.activity.now_ms();
        let mut state = self.activity.state();
        state.ends.retain(|end| end.id != self.id);
        state.waiting_since_ms = now_ms;
        state.in_flight = state.in_flight.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
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
                assert!(at > activity.at(activity.now_ms()), "it is checked again later");
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
    fn answers_to_frames_excuse_no_missing_request() {
        let activity = Arc::new(Activity::new());
        for _ in 0..10 {
            assert_eq!(over(&activity), None);
            activity.pass_ms(10);
            activity.set_writing(false);
            activity.set_writing(true);
        }
        assert_eq!(over(&activity), Some(Cut::HeaderTimeout));
        drop(activity.begin(Version::HTTP_2));
        activity.pass_ms(1_000);
        activity.set_writing(false);
        activity.set_writing(true);
        assert_eq!(over(&activity), Some(Cut::Idle));
    }

    #[test]
    fn a_request_takes_as_long_as_the_server_takes_and_its_response_two_timeouts() {
        let activity = Arc::new(Activity::new());
        let request = activity.begin(Version::HTTP_2);
        activity.pass_ms(60_000);
        assert_eq!((over(&activity), activity.waiting(), activity.reading_rate()), (None, None, None), "it is made");
        request.finished(500);
        activity.pass_ms(300);
        // Frames that belong to no body are written and read.
        activity.set_writing(true);
        activity.set_writing(false);
        activity.pass_ms(299);
        assert_eq!(over(&activity), None);
        activity.pass_ms(1);
        assert_eq!(over(&activity), Some(Cut::WriteTimeout));
        let other = activity.begin(Version::HTTP_2);
        assert_eq!(over(&activity), Some(Cut::WriteTimeout), "a request that is worked on excuses nothing");
        request.taken(500);
        drop(request);
        activity.pass_ms(60_000);
        assert_eq!(over(&activity), None, "nothing waits for the client");
        drop(other);
        assert_eq!(activity.waiting(), Some((true, Duration::ZERO)));
    }

    #[test]
    fn a_response_has_to_move_at_the_lowest_rate() {
        const PART: u64 = 32 << 10;
        let limits = ConnectionsConfig::default();
        // Seconds for a chunk of a response of 6.7 MB, and the number of seconds after which the connection is closed.
        for (seconds, cut_after) in [(8, None), (31, None), (36, Some(32..600)), (61, Some(60..62))] {
            let activity = Arc::new(Activity::new());
            let request = activity.begin(Version::HTTP_11);
            let size = 205 * PART;
            request.finished(size);
            let mut cut_at = None;
            'response: for part in 0..205 {
                for second in 0..seconds {
                    activity.pass_ms(1_000);
                    if let Due::Over(cut) = activity.due(&limits) {
                        assert_eq!(cut, Cut::WriteTimeout);
                        cut_at = Some(part * seconds + second + 1);
                        break 'response;
                    }
                }
                request.taken(PART);
            }
            match (&cut_after, cut_at) {
                (None, None) => {}
                (Some(range), Some(at)) => assert!(range.contains(&at), "{seconds} s: {at}"),
                (_, _) => panic!("{seconds} s for a part: {cut_at:?}"),
            }
        }
    }

    #[test]
    fn one_response_cannot_stay_for_ever_while_others_progress() {
        let activity = Arc::new(Activity::new());
        let stalled = activity.begin(Version::HTTP_2);
        stalled.finished(10_240);
        let mut passed_ms = 0;
        while over(&activity).is_none() {
            let moving = activity.begin(Version::HTTP_2);
            moving.finished(100);
            activity.pass_ms(50);
            moving.taken(100);
            passed_ms += 50;
            assert!(passed_ms < 60_000);
        }
        assert!((10_600..11_000).contains(&passed_ms), "10 s at the lowest rate, and two timeouts: {passed_ms}");
    }

    #[test]
    fn the_rate_is_that_of_the_time_in_which_something_waits() {
        let activity = Arc::new(Activity::new());
        let request = activity.begin(Version::HTTP_11);
        activity.pass_ms(60_000);
        request.finished(10_000);
        activity.pass_ms(2_000);
        request.taken(4_000);
        let rate = ReadingRate { bytes_per_s: 2_000, time: Duration::from_secs(2), unread: 6_000 };
        assert_eq!(activity.reading_rate(), Some(rate));
        request.discarded(6_000);
        assert_eq!((activity.reading_rate(), activity.unread()), (None, 0));
    }
}
