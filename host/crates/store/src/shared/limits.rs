//! Call counts shared by several processes.

use std::time::Duration;

/// Request for calls of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Take {
    /// Minimum number; otherwise nothing is reserved.
    pub least: u64,
    /// Maximum number.
    pub most: u64,
    /// Limit of the count.
    pub limit: u64,
}

/// Reserved calls of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Number of calls.
    pub taken: u64,
    /// The count including them.
    pub count: u64,
}

/// Request for calls of a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Number of calls per minute.
    pub per_minute: u32,
    /// Minimum number; otherwise nothing is reserved.
    pub least: u32,
    /// Maximum number.
    pub most: u32,
}

/// Reserved calls of a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leased {
    /// Number of calls.
    pub calls: u32,
    /// Number of calls that remain available immediately.
    pub left: u32,
    /// Time until the minute is full again.
    pub until_full: Duration,
}

/// Result of a sliding window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Windowed {
    /// True if the calls were counted.
    pub is_taken: bool,
    /// Time that each call remains in the window, including the new ones; at most [`WINDOW`].
    pub until_left: Vec<Duration>,
}

/// The length of a sliding window.
pub const WINDOW: Duration = Duration::from_secs(60);

/// The time in which one call is refilled; at least a nanosecond.
#[must_use]
pub fn cell_ns(per_minute: u32) -> u64 {
    (60_000_000_000 / u64::from(per_minute.max(1))).max(1)
}
