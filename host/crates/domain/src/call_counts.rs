//! Calls that a process reserves or counts, of those that several processes share.

use std::time::Duration;

/// The length of a sliding window.
pub const WINDOW: Duration = Duration::from_secs(60);

/// The requested number of calls: at least `least` or none, and at most `most`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The minimum; fewer are not useful.
    pub least: u32,
    /// The maximum.
    pub most: u32,
}

/// The reserved calls of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfDay {
    /// The number of calls.
    pub taken: u32,
    /// The current count of all processes.
    pub count: u64,
}

/// The reserved calls of a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfMinute {
    /// The number of calls.
    pub taken: u32,
    /// The time until the minute is full again.
    pub until_full: Duration,
}

/// The outcome of counting in a sliding window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfWindow {
    /// True if the calls were counted.
    pub is_taken: bool,
    /// The remaining time of each call of all processes in the window, including those counted now; at most [`WINDOW`].
    pub until_left: Vec<Duration>,
}

/// The time in which one call of a minute is refilled; at least a nanosecond.
#[must_use]
pub fn cell_ns(per_minute: u32) -> u64 {
    (60_000_000_000 / u64::from(per_minute.max(1))).max(1)
}
