//! Until when a batch does what it is asked for.
//!
//! **Invariant:** it counts from when the request came, as the time does that ends the whole request without an answer: a body that
//! comes slowly takes of both.

use std::sync::Arc;
use std::time::Duration;

use crate::api::middleware::answer::RequestInfo;
use crate::state::AppState;
use daftar_domain::context::Clock;

/// The part of the time for a request that a batch takes for its entries; in the rest it is answered.
const PART_FOR_ENTRIES: f64 = 0.8;

/// When no further entry is begun, and one that is being done is waited for no longer.
pub struct Deadline {
    clock: Arc<dyn Clock>,
    at: Duration,
}

impl Deadline {
    /// The deadline of a batch that came with that request.
    pub(super) fn of(app: &AppState, info: &RequestInfo) -> Self {
        let time = Duration::from_millis(app.config.server.request_timeout_ms).mul_f64(PART_FOR_ENTRIES);
        Self { clock: Arc::clone(&app.clock), at: info.begun.saturating_add(time) }
    }

    /// A deadline at that reading of a clock.
    #[cfg(test)]
    pub(super) fn at(clock: Arc<dyn Clock>, at: Duration) -> Self {
        Self { clock, at }
    }

    /// How much time is left; none from the deadline on.
    pub(super) fn left(&self) -> Option<Duration> {
        Some(self.at.saturating_sub(self.clock.elapsed())).filter(|left| !left.is_zero())
    }
}
