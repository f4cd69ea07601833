//! The functions that a plugin can import, and their budgets: `log`, which writes to the server's log.
//!
//! **Invariant:** every call from a guest is charged to the budget of the enclosing call before it is executed.
//! **Invariant:** a line of a plugin is one line of the log, of limited length, without characters that control a
//! terminal.
//! **Invariant:** a plugin that has received rules or facts about people logs nothing: its lines could contain them.
//! **Invariant:** the log lines of a plugin are rate limited; lines beyond the limit are counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use tracing::Level;

use super::fault::{FaultKind, Stopped};
use super::limits::PluginLimits;
use crate::HostClock;
use daftar_domain::manifest::{PluginManifest, PluginName, PluginVersion};

/// The calls to the host within one call of a plugin.
#[derive(Debug)]
pub(super) struct HostCalls {
    calls_max: u64,
    bytes_max: usize,
    calls: u64,
    bytes: usize,
}

impl HostCalls {
    pub fn new(limits: &PluginLimits) -> Self {
        Self { calls_max: limits.host_calls, bytes_max: limits.host_call_bytes, calls: 0, bytes: 0 }
    }

    /// Starts a call of the plugin.
    pub fn begin(&mut self) {
        (self.calls, self.bytes) = (0, 0);
    }

    /// Charges one call to the host with that many bytes.
    ///
    /// # Errors
    /// The exceeded budget.
    pub fn charge(&mut self, bytes: usize) -> Result<(), Stopped> {
        self.calls = self.calls.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        let detail = if self.calls > self.calls_max {
            format!("it called the host more often than the limit of {} times per call", self.calls_max)
        } else if self.bytes > self.bytes_max {
            format!("it passed more than the limit of {} bytes per call to the host", self.bytes_max)
        } else {
            return Ok(());
        };
        Err(Stopped { kind: FaultKind::HostCalls, detail })
    }
}

/// The burst of the rate limit, in lines.
const BURST: i64 = 20;

/// The sustained rate limit, in lines per second.
const LINES_PER_S: i64 = 2;

/// The longest message, in bytes; longer ones are truncated.
const MESSAGE_BYTES_MAX: usize = 1_000;

/// The log of one plugin.
pub(crate) struct PluginLog {
    name: PluginName,
    version: PluginVersion,
    clock: HostClock,
    allowance: Mutex<Allowance>,
    shows_all: bool,
    written: AtomicU64,
    suppressed: AtomicU64,
}

impl PluginLog {
    /// Creates the log of that plugin.
    pub fn new(manifest: &PluginManifest, clock: HostClock) -> Self {
        let allowance = Mutex::new(Allowance::new(clock.now()));
        let (written, suppressed) = (AtomicU64::new(0), AtomicU64::new(0));
        let (name, version) = (manifest.name.clone(), manifest.version);
        Self { name, version, clock, allowance, shows_all: false, written, suppressed }
    }

    /// The same, with every line if `shows_all`.
    pub fn showing(self, shows_all: bool) -> Self {
        Self { shows_all, ..self }
    }

    /// True if no line is suppressed.
    pub fn shows_all(&self) -> bool {
        self.shows_all
    }

    /// Writes a line if the rate limit permits, and counts it otherwise.
    pub fn write(&self, level: Level, message: &str) {
        if !is_wanted(level) {
            return;
        }
        let taken = self.allowance.lock().unwrap_or_else(PoisonError::into_inner).take(self.clock.now());
        let taken = if self.shows_all { Some(0) } else { taken };
        let Some(suppressed) = taken else {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        self.written.fetch_add(1, Ordering::Relaxed);
        if suppressed > 0 {
            tracing::warn!(
                plugin.name = %self.name, plugin.version = %self.version, plugin.suppressed = suppressed,
                "plugin log rate limit exceeded, lines dropped"
            );
        }
        let line = fit_to_log(message);
        macro_rules! written_as {
            ($event:ident) => {
                tracing::$event!(
                    plugin.name = %self.name, plugin.version = %self.version, plugin.line = %line, "plugin log"
                )
            };
        }
        match level {
            Level::TRACE => written_as!(trace),
            Level::DEBUG => written_as!(debug),
            Level::INFO => written_as!(info),
            Level::WARN => written_as!(warn),
            Level::ERROR => written_as!(error),
        }
    }

    /// Counts a suppressed line that may contain data of a caller.
    pub fn withhold(&self) {
        self.suppressed.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of lines written, and of lines suppressed by the rate limit or because they could contain data of a
    /// caller.
    pub fn counts(&self) -> (u64, u64) {
        (self.written.load(Ordering::Relaxed), self.suppressed.load(Ordering::Relaxed))
    }
}

/// Returns true if the log records lines of that level. Checks for an event: a filter that accepts events alone rejects
/// the hint of `tracing::enabled!`.
fn is_wanted(level: Level) -> bool {
    match level {
        Level::TRACE => tracing::event_enabled!(Level::TRACE),
        Level::DEBUG => tracing::event_enabled!(Level::DEBUG),
        Level::INFO => tracing::event_enabled!(Level::INFO),
        Level::WARN => tracing::event_enabled!(Level::WARN),
        Level::ERROR => tracing::event_enabled!(Level::ERROR),
    }
}

/// The token bucket of the rate limit, in thousandths of a line.
#[derive(Debug)]
struct Allowance {
    thousandths: i64,
    since: Timestamp,
    /// Lines dropped since the last written line.
    suppressed: u64,
}

impl Allowance {
    fn new(now: Timestamp) -> Self {
        Self { thousandths: BURST * 1_000, since: now, suppressed: 0 }
    }

    /// Takes one line. Returns the number of lines dropped before it; none if this line is dropped too.
    fn take(&mut self, now: Timestamp) -> Option<u64> {
        // A clock that was set back changes nothing.
        let passed_ms = now.as_millisecond().saturating_sub(self.since.as_millisecond()).max(0);
        self.since = now;
        let refilled = self.thousandths.saturating_add(passed_ms.saturating_mul(LINES_PER_S));
        self.thousandths = refilled.min(BURST * 1_000);
        if self.thousandths < 1_000 {
            self.suppressed = self.suppressed.saturating_add(1);
            return None;
        }
        self.thousandths -= 1_000;
        Some(std::mem::take(&mut self.suppressed))
    }
}

/// Formats a message for the log: one line, truncated, without control characters and bidirectional overrides.
fn fit_to_log(message: &str) -> String {
    let mut line = String::with_capacity(message.len().min(MESSAGE_BYTES_MAX));
    for character in message.chars() {
        if line.len() + character.len_utf8() > MESSAGE_BYTES_MAX {
            line.push('…');
            break;
        }
        let acts = character.is_control()
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        line.push(if acts { ' ' } else { character });
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::default_limits;
    use daftar_domain::manifest::PluginKind;

    fn calls() -> HostCalls {
        let limits = default_limits(PluginKind::VocabularyPack);
        HostCalls::new(&PluginLimits { host_calls: 3, host_call_bytes: 100, ..limits })
    }

    fn refused(charged: Result<(), Stopped>) -> Option<String> {
        charged.err().map(|stopped| stopped.detail)
    }

    #[test]
    fn calls_are_allowed_up_to_their_limit_and_the_count_restarts_with_each_call() {
        let mut calls = calls();
        for _ in 0..2 {
            calls.begin();
            assert!((0..3).all(|_| calls.charge(1).is_ok()));
            assert_eq!(
                refused(calls.charge(1)).as_deref(),
                Some("it called the host more often than the limit of 3 times per call")
            );
        }
    }

    #[test]
    fn bytes_are_allowed_up_to_their_sum() {
        let too_much = Some("it passed more than the limit of 100 bytes per call to the host");
        for (last, expected) in [(39, None), (40, None), (41, too_much), (usize::MAX, too_much)] {
            let mut calls = calls();
            assert_eq!(calls.charge(60), Ok(()));
            assert_eq!(refused(calls.charge(last)).as_deref(), expected);
        }
    }
}

#[cfg(test)]
mod log_tests {
    use jiff::SignedDuration;

    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + ms).unwrap()
    }

    #[test]
    fn a_burst_is_written_and_faster_lines_are_counted() {
        let mut allowance = Allowance::new(at(0));
        let taken: Vec<_> = (0..25).map(|_| allowance.take(at(0))).collect();
        assert_eq!(taken[..20], [Some(0); 20]);
        assert_eq!(taken[20..], [None; 5]);
        assert_eq!(allowance.take(at(499)), None);
        assert_eq!(allowance.take(at(500)), Some(6), "half a second gives one line");
        assert_eq!(allowance.take(at(500)), None);
        let later: Vec<_> = (0..21).filter_map(|_| allowance.take(at(60_000))).collect();
        assert_eq!((later.len(), later[0]), (20, 1), "a minute gives no more than a burst");
    }

    #[test]
    fn a_clock_that_was_set_back_gives_no_lines() {
        let mut allowance = Allowance::new(at(0));
        while allowance.take(at(0)).is_some() {}
        let earlier = at(0).checked_sub(SignedDuration::from_hours(1)).unwrap();
        assert_eq!(allowance.take(earlier), None);
        assert!(allowance.take(earlier.checked_add(SignedDuration::from_millis(500)).unwrap()).is_some());
    }

    #[test]
    fn a_line_stays_one_line_without_terminal_control_characters() {
        assert_eq!(fit_to_log("a\r\nb\u{1b}[2Jc\u{202e}d\u{85}e\u{2028}f"), "a  b [2Jc d e f");
        assert_eq!(fit_to_log("Ça marche: ٣"), "Ça marche: ٣");
    }

    #[test]
    fn a_message_is_written_up_to_its_length() {
        for (length, written) in [(999, 999), (1_000, 1_000), (1_001, 1_000 + '…'.len_utf8())] {
            assert_eq!(fit_to_log(&"x".repeat(length)).len(), written);
        }
        // A character that does not fit is omitted as a whole.
        assert_eq!(fit_to_log(&format!("{}é", "x".repeat(999))), format!("{}…", "x".repeat(999)));
    }
}
