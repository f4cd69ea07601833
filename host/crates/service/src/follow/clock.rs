//! The clock of this server, compared with the database's. Servers whose clocks agree with that one agree with each other: tokens, `not_before`
//! of clients and the times of writes go by the clock of the server that makes them.

use std::sync::PoisonError;
use std::time::Duration;

use jiff::SignedDuration;

use super::Follower;

/// How often the clocks are compared.
const INTERVAL: Duration = Duration::from_secs(10);
/// A greater difference is reported.
const DIFFERENCE_MAX: SignedDuration = SignedDuration::from_secs(2);

/// By how much the clock of this server differs from the database's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockDifference {
    /// How far this server's clock is ahead; below zero where it is behind.
    pub ahead: SignedDuration,
    /// How far that may be off: half the time that asking took.
    pub within: SignedDuration,
}

impl ClockDifference {
    /// Whether the clocks differ by more than is harmless, however long asking took.
    pub fn is_large(&self) -> bool {
        self.ahead.abs().saturating_sub(self.within) > DIFFERENCE_MAX
    }

    /// In seconds.
    pub fn seconds(&self) -> f64 {
        self.ahead.as_secs_f64()
    }
}

impl Follower {
    /// The difference when the clocks were compared last; nothing before that.
    pub fn clock_difference(&self) -> Option<ClockDifference> {
        *self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares the clocks now and then.
    pub(super) async fn follow_clock(&self) {
        loop {
            self.compare_clocks().await;
            tokio::time::sleep(INTERVAL).await;
        }
    }

    pub(super) async fn compare_clocks(&self) {
        let (asked_at, begun) = (self.clock.now(), self.clock.elapsed());
        // An outage is logged by itself; what was found before stays.
        let Ok(there) = self.shared.time().await else { return };
        let taken = self.clock.elapsed().saturating_sub(begun);
        let within = SignedDuration::try_from(taken / 2).unwrap_or(SignedDuration::MAX);
        // The database read its clock between the request and the response.
        let ahead = asked_at.duration_since(there).saturating_add(within);
        let difference = ClockDifference { ahead, within };
        let before = self.clocks.lock().unwrap_or_else(PoisonError::into_inner).replace(difference);
        let was_large = before.is_some_and(|before| before.is_large());
        if difference.is_large() && !was_large {
            tracing::warn!(
                clock.ahead_s = difference.seconds(),
                clock.within_s = within.as_secs_f64(),
                "the clock of this server and the database's differ: tokens of other servers may be refused here, and those of this one there; set the clocks by NTP"
            );
        } else if was_large && !difference.is_large() {
            tracing::info!(
                clock.ahead_s = difference.seconds(),
                "the clock of this server and the database's agree again"
            );
        }
    }
}
