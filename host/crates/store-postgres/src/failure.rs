//! Failures of the database, reported without values of records.
//!
//! **Invariant:** no text of the database that could quote a value is passed on: of rejected statements only the code,
//! the table and the constraint are reported.

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::error::{Severity, SqlState};

use daftar_domain::error::{Cause, Outage};
use daftar_store::StoreError;

const REFUSED: &str = "the database refused it";
/// Prefixes of errors that are about values and not about the connection.
const OF_VALUES: [&str; 6] =
    ["error serializing", "error deserializing", "invalid column", "expected", "query returned", "error encoding"];

/// Meaning of a failure for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The database is unavailable, or the connection to it is lost.
    Unreachable,
    /// It did not respond in time.
    Slow,
    /// It cancelled a statement that took too long, and reported that.
    Interrupted,
    /// It cancelled a statement that waited too long for a lock, and reported that.
    Locked,
    /// Every connection is in use.
    Exhausted,
    /// It rolled the work back in favour of another transaction: to be retried.
    Conflict,
    /// It is read-only now.
    ReadOnly,
    /// Its disk is full: writes that need space fail until there is some.
    DiskFull,
    /// It rejected the statement.
    Refused,
}

/// A failure.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(super) struct Failure {
    pub(super) meaning: Meaning,
    message: String,
}

impl Failure {
    pub(super) fn new(meaning: Meaning, message: impl Into<String>) -> Self {
        Self { meaning, message: message.into() }
    }

    /// The database did not respond in time.
    pub(super) fn slow() -> Self {
        Self::new(Meaning::Slow, "the database did not answer in time")
    }

    /// True if the database rejected it with that code.
    pub(super) fn is_of(&self, code: &str) -> bool {
        self.message.starts_with(&format!("{REFUSED} ({code}"))
    }

    /// True if an immediate retry on a new connection may succeed.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self.meaning, Meaning::Unreachable | Meaning::Conflict | Meaning::ReadOnly)
    }

    /// True if the database was unavailable, or accepts no writes: one outage for all callers, and no failure of this
    /// request. In every other case other requests may succeed.
    pub(super) fn is_outage(&self) -> bool {
        self.is_of_connection() || self.meaning == Meaning::DiskFull
    }

    /// True if the connection is unusable.
    pub(super) fn is_of_connection(&self) -> bool {
        matches!(self.meaning, Meaning::Unreachable | Meaning::Slow | Meaning::ReadOnly)
    }
}

impl From<&tokio_postgres::Error> for Failure {
    fn from(error: &tokio_postgres::Error) -> Self {
        let Some(refusal) = error.as_db_error() else {
            let shown = error.to_string();
            let is_of_values = OF_VALUES.iter().any(|begins| shown.starts_with(begins));
            let meaning = if is_of_values { Meaning::Refused } else { Meaning::Unreachable };
            return Self::new(meaning, with_causes(error));
        };
        let code = refusal.code();
        let is_fatal = matches!(refusal.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
        let meaning = match code.code() {
            "40001" | "40P01" => Meaning::Conflict,
            "25006" => Meaning::ReadOnly,
            // Others of class 53 concern connections (53300), or perhaps one statement only: memory, configured limits.
            "53100" if !is_fatal => Meaning::DiskFull,
            "57014" => Meaning::Interrupted,
            "55P03" => Meaning::Locked,
            code if is_fatal || is_of_connection(code) => Meaning::Unreachable,
            _ => Meaning::Refused,
        };
        let mut text = format!("{REFUSED} ({}", code.code());
        if meaning == Meaning::Refused {
            for (what, name) in [("table", refusal.table()), ("constraint", refusal.constraint())] {
                if let Some(name) = name {
                    text.push_str(&format!(", {what} `{name}`"));
                }
            }
            text.push(')');
        } else {
            // These texts are about the server and its connections.
            text.push_str(&format!("): {}", refusal.message()));
        }
        Self::new(meaning, text)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::from(&error)
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Timeout(TimeoutType::Wait) => {
                Self::new(Meaning::Exhausted, "every connection to the database that this process may have is in use")
            }
            PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => {
                Self::new(Meaning::Unreachable, "the database did not take a connection in time")
            }
            PoolError::Backend(error) => Self::from(&error),
            PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
                Self::new(Meaning::Unreachable, "the store is closed")
            }
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        let is_outage = failure.is_outage();
        let cause: Cause = failure.into();
        Self::Failed(if is_outage { Outage(cause).into() } else { cause })
    }
}

/// Connection exceptions, too many connections, and a server that shuts down, starts or is cut off.
fn is_of_connection(code: &str) -> bool {
    code.starts_with("08") || code.starts_with("57P") || code == SqlState::TOO_MANY_CONNECTIONS.code()
}

/// The error and its causes: those of connections and of reading rows, which quote no value.
fn with_causes(error: &tokio_postgres::Error) -> String {
    let mut reported = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        let source_reported = source.to_string();
        if !reported.contains(&source_reported) {
            reported.push_str(&format!(": {source_reported}"));
        }
        cause = source.source();
    }
    reported
}

/// Reports data that this program cannot have written.
pub(super) fn corrupt(what: &'static str, reason: &str) -> StoreError {
    StoreError::Corrupt { what, reason: reason.to_owned() }
}
