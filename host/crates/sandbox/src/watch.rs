//! What plugins are watched with: a clock, and something to record how long their calls take.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use daftar_domain::context::{Clock, SystemClock};
use daftar_domain::manifest::PluginName;

/// Tells the time to breakers and logs; the machine's clock unless a test sets another.
#[derive(Clone)]
pub struct HostClock(Arc<dyn Clock>);

impl HostClock {
    /// That clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self(clock)
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.now()
    }
}

impl Default for HostClock {
    fn default() -> Self {
        Self(Arc::new(SystemClock))
    }
}

impl fmt::Debug for HostClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("HostClock").field(&self.now()).finish()
    }
}

/// Gives each plugin something to record how long its calls take, in seconds.
#[derive(Clone)]
pub struct CallRecorder(Arc<CallHistogram>);

/// The histogram of a plugin's calls.
type CallHistogram = dyn Fn(&PluginName) -> metrics::Histogram + Send + Sync;

impl CallRecorder {
    /// What `histogram` gives for a plugin's name.
    #[must_use]
    pub fn new(histogram: impl Fn(&PluginName) -> metrics::Histogram + Send + Sync + 'static) -> Self {
        Self(Arc::new(histogram))
    }

    /// Takes how long the calls of that plugin take.
    pub(super) fn of(&self, plugin: &PluginName) -> metrics::Histogram {
        (self.0)(plugin)
    }
}

impl Default for CallRecorder {
    fn default() -> Self {
        Self::new(|_| metrics::Histogram::noop())
    }
}

impl fmt::Debug for CallRecorder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CallRecorder")
    }
}

/// What a plugin is watched with.
pub(super) struct Watch {
    /// Tells the time.
    pub clock: HostClock,
    /// Takes how long its calls take.
    pub durations: metrics::Histogram,
}
