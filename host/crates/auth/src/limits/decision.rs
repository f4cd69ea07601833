//! What a caller is told about its limits.

use std::time::Duration;

/// The three `X-RateLimit-` headers: of the window, minute or day, that has fewer calls left. Where both have the same
/// the day is shown: it takes longer to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateHeaders {
    /// `X-RateLimit-Limit`: calls in the window.
    pub limit: u32,
    /// `X-RateLimit-Remaining`: how many could follow at once.
    pub remaining: u32,
    /// `X-RateLimit-Reset`: whole seconds, rounded up, until the window has all its calls again.
    pub reset_s: u64,
}

/// Why a call is not let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its minute is used up.
    Minute,
    /// Its day is used up.
    Day,
    /// More addresses call at once than the server keeps count of.
    Crowded,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Minute, Self::Day, Self::Crowded];

    /// Its name on the metrics page.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Day => "day",
            Self::Crowded => "crowded",
        }
    }
}

/// Whether a call may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is counted and may go on.
    Allowed {
        /// What the answer says of the limits.
        headers: RateHeaders,
    },
    /// It is not counted and must be answered with 429.
    Refused {
        /// Why.
        refusal: Refusal,
        /// How many calls the window that is used up has in all.
        limit: u32,
        /// What the answer says of the limits.
        headers: RateHeaders,
        /// `Retry-After`: whole seconds, at least 1. A call after that time is let through, unless others came before
        /// it, and none a second earlier.
        retry_after_s: u64,
    },
}

impl Decision {
    /// What the answer says of the limits.
    #[must_use]
    pub fn headers(&self) -> RateHeaders {
        match self {
            Self::Allowed { headers } | Self::Refused { headers, .. } => *headers,
        }
    }

    /// Whether the call may go on.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed { .. })
    }

    /// A sentence for the `detail` of the 429; `None` when the call may go on.
    #[must_use]
    pub fn detail(&self) -> Option<String> {
        let Self::Refused { refusal, limit, retry_after_s, .. } = self else { return None };
        let reason = match refusal {
            Refusal::Minute => format!("the limit of {limit} requests a minute is reached"),
            Refusal::Day => format!("the limit of {limit} requests a day is reached"),
            Refusal::Crowded => "requests come from too many addresses at once".to_owned(),
        };
        Some(format!("{reason}: retry in {retry_after_s} s"))
    }
}

/// Whole seconds, rounded up.
pub(super) fn seconds_up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}
