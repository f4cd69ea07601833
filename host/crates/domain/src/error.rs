//! Why an operation did not happen, in the registry's own words.
//!
//! **Invariant:** `Display` may be shown to the client: no secret, no other record's data. The cause stays in `source()` and goes to the
//! log. Statuses are in the table of [`crate::error_code`], and nowhere else.
//!
//! **Invariant:** the operator sees one line of any other panic, without what it was about: that may be data.

use std::cell::Cell;
use std::io;
use std::io::Write;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

use crate::client::ClientId;
use crate::code::Namespace;
use crate::error_code::ErrorCode;
use crate::manifest::PluginName;
use crate::record::{RecordKind, VersionId};
use crate::scope::{Resource, ScopeSet};

/// A cause that is logged and never shown.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A cause that is an outage of what the store depends on. It is logged when it begins and when it is over, and not with every request.
#[derive(Debug, thiserror::Error)]
#[error("outage: {0}")]
pub struct Outage(pub Cause);

/// What is wrong with one field of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldProblem {
    /// The field's path, such as `address[0].country`; empty when the problem is the request as a whole.
    pub field: String,
    /// Stable name of the kind of fault, such as `unknown_code`.
    pub code: &'static str,
    /// One sentence that says what is wrong and what would be right.
    pub message: String,
}

impl FieldProblem {
    /// A problem of the field at that path.
    #[must_use]
    pub fn new(field: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Self { field: field.into(), code, message: message.into() }
    }
}

/// What a request would do with a field that it was not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldUse {
    /// Choose records by it.
    Filter,
    /// Put records in its order.
    Sort,
    /// Read nothing but it.
    Read,
    /// Write it.
    Write,
    /// Decide by it.
    Rule,
}

impl FieldUse {
    /// What is refused.
    #[must_use]
    pub fn refusal(self) -> &'static str {
        match self {
            Self::Filter => "a search cannot have a condition on it",
            Self::Sort => "a search cannot be sorted by it",
            Self::Read => "it cannot be read",
            Self::Write => "it cannot be written",
            Self::Rule => "a rule cannot read it",
        }
    }
}

/// Why an operation did not happen.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The request cannot be understood.
    #[error("{0}")]
    Malformed(String),
    /// The request is understood and asks for something that cannot be.
    #[error("{}", summary(.0))]
    Invalid(Vec<FieldProblem>),
    /// One value is not valid, for a reason with a code of its own.
    #[error("{}", located(.1))]
    InvalidValue(ErrorCode, FieldProblem),
    /// The cursor is not one of this server for this search.
    #[error("{0}")]
    InvalidCursor(&'static str),
    /// Absent, or hidden from this client: one answer for both.
    #[error("no such {0}")]
    NotFound(RecordKind),
    /// What the path of a request names is not there; the problem says what would be right.
    #[error("{}", .0.message)]
    NotThere(FieldProblem),
    /// Several records once carried the identifier that has ended.
    #[error("several records carried this identifier before it ended; use one that is still open")]
    Ambiguous,
    /// An identifier of the record is in use.
    #[error("an identifier of system `{system}` is already in use by another record")]
    IdentifierInUse {
        /// The identifier's system.
        system: String,
    },
    /// The record was written since the client read it.
    #[error("the record is at version {actual}, not {expected}: read it again and repeat the change")]
    VersionMismatch {
        /// What the client expected.
        expected: VersionId,
        /// What is stored.
        actual: VersionId,
    },
    /// Others change again and again what the operation rests on.
    #[error("others change the same records again and again: nothing was written, send the request again")]
    Overtaken,
    /// The token is sound but grants none of the scopes that the operation accepts.
    #[error("Missing required scope {required}. Granted: {}", granted_text(.granted))]
    MissingScope {
        /// The scopes of which one is needed, as text.
        required: String,
        /// What the client holds.
        granted: ScopeSet,
    },
    /// The client's grants do not open a field that the request is about.
    #[error(
        "the client was not granted the field `{field}` of `{}`: {}; an administrator opens it with `daftar client grant --fields`",
        .resource.name(), .usage.refusal()
    )]
    FieldNotGranted {
        /// Whose field.
        resource: Resource,
        /// Its path in the API.
        field: String,
        /// What the request would do with it.
        usage: FieldUse,
    },
    /// There is no client of that id.
    #[error("no such client `{0}`")]
    UnknownClient(ClientId),
    /// There is no plugin of that name.
    #[error("no plugin `{0}` is installed; `daftar plugin list` shows what is")]
    UnknownPlugin(String),
    /// A plugin was refused; says at which step and why.
    #[error("{0}")]
    Plugin(String),
    /// The present state does not allow it, for the reason that the code names.
    #[error("{1}")]
    Conflict(ErrorCode, String),
    /// A dry run checked the operation, which could be done. A dry run takes it for success; no client receives it.
    #[error("it was checked and could be done, and nothing was written")]
    DryRun,
    /// The program's expression does not let the beneficiary in.
    #[error(
        "the program's eligibility expression says `{outcome}`{}; enrol with `override {{reason}}` to go against it",
        missing_text(.missing)
    )]
    NotEligible {
        /// `not_eligible` or `undetermined`.
        outcome: &'static str,
        /// The facts that would decide.
        missing: Vec<String>,
    },
    /// An expression was refused; the diagnostics say why.
    #[error("the expression is not valid: {0}")]
    Expression(ExpressionProblem),
    /// Nothing decides eligibility here yet.
    #[error(
        "no eligibility engine is active; the administrator installs one with `daftar plugin install`, or names one of several as `engine` in `[plugins]`"
    )]
    NoEngine,
    /// Only its pack can tell the codes of an open vocabulary, and it does not answer.
    #[error(
        "the pack of the open vocabulary `{0}` does not answer, retry later, or use a code that the vocabulary lists"
    )]
    VocabularyUnavailable(Namespace),
    /// A plugin fails by itself and is left alone for a while.
    #[error("plugin `{plugin}` is suspended after repeated faults; retry in {retry_after_s} s")]
    PluginSuspended {
        /// Its name.
        plugin: PluginName,
        /// Seconds until it is worth asking again.
        retry_after_s: u64,
    },
    /// The server has too much to do.
    #[error("the server is busy, retry later")]
    Busy,
    /// The store did not answer; the cause stays in the log.
    #[error("the registry is not available, retry later")]
    Unavailable(#[source] Cause),
    /// A defect of ours; the cause stays in the log.
    #[error("an internal error occurred; the request id identifies it in the server's log")]
    Internal(#[source] Cause),
}

/// Why an expression was refused.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ExpressionProblem {
    /// The first diagnostic, or the budget that was exhausted.
    pub message: String,
    /// All diagnostics.
    pub diagnostics: Vec<crate::eligibility::Diagnostic>,
}

impl AppError {
    /// One problem with one field.
    #[must_use]
    pub fn invalid(field: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldProblem::new(field, code, message)])
    }

    /// Refuses what has problems.
    ///
    /// # Errors
    /// [`AppError::Invalid`] with all of them, which are taken out.
    pub fn check(problems: &mut Vec<FieldProblem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self::Invalid(std::mem::take(problems))) }
    }

    /// The present state does not allow it.
    #[must_use]
    pub fn conflict(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self::Conflict(code, detail.into())
    }

    /// The code by which clients know the reason.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Malformed(_) => ErrorCode::MalformedRequest,
            Self::InvalidCursor(_) => ErrorCode::InvalidCursor,
            Self::Invalid(_) => ErrorCode::ValidationFailed,
            Self::InvalidValue(code, _) | Self::Conflict(code, _) => *code,
            Self::NotFound(_) | Self::NotThere(_) | Self::UnknownClient(_) | Self::UnknownPlugin(_) => {
                ErrorCode::NotFound
            }
            Self::Ambiguous => ErrorCode::AmbiguousIdentifier,
            Self::IdentifierInUse { .. } => ErrorCode::IdentifierInUse,
            Self::VersionMismatch { .. } => ErrorCode::VersionMismatch,
            Self::Overtaken => ErrorCode::WriteConflict,
            Self::MissingScope { .. } => ErrorCode::MissingScope,
            Self::FieldNotGranted { .. } => ErrorCode::FieldNotGranted,
            Self::Plugin(_) => ErrorCode::PluginRejected,
            Self::NotEligible { .. } => ErrorCode::NotEligible,
            // An expression that was evaluated had no diagnostics.
            Self::Expression(problem) if problem.diagnostics.is_empty() => ErrorCode::EvaluationFailed,
            Self::Expression(_) => ErrorCode::InvalidExpression,
            Self::NoEngine => ErrorCode::NoEligibilityEngine,
            Self::VocabularyUnavailable(_) => ErrorCode::VocabularyUnavailable,
            Self::PluginSuspended { .. } => ErrorCode::PluginSuspended,
            Self::Busy => ErrorCode::Overloaded,
            Self::Unavailable(_) => ErrorCode::StorageUnavailable,
            Self::DryRun | Self::Internal(_) => ErrorCode::InternalError,
        }
    }

    /// Whether it is due to an outage, which is logged by itself.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        let Self::Unavailable(cause) = self else { return false };
        causes(&**cause).any(|error| error.is::<Outage>())
    }

    /// A defect of ours, told in one sentence for the log.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::Internal(message.into().into())
    }
}

fn summary(problems: &[FieldProblem]) -> String {
    match problems {
        [] => "the request is not valid".to_owned(),
        [only] => located(only),
        [first, rest @ ..] => format!("{} (and {} more)", located(first), rest.len()),
    }
}

/// What is wrong, after the field if it is about one.
fn located(problem: &FieldProblem) -> String {
    if problem.field.is_empty() { problem.message.clone() } else { format!("{}: {}", problem.field, problem.message) }
}

fn missing_text(missing: &[String]) -> String {
    if missing.is_empty() { String::new() } else { format!(", as it misses {}", missing.join(", ")) }
}

fn granted_text(granted: &ScopeSet) -> String {
    if granted.is_empty() { "none".to_owned() } else { granted.to_string() }
}

/// An error, and what is behind it, one after the other.
pub fn causes<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// Why a file cannot be read, and what to do.
#[must_use]
pub fn why_not_read(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file; check the path".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "this account may not read it; run the command as its owner, or change its permissions".to_owned()
        }
        io::ErrorKind::IsADirectory => "it is a folder; name a file".to_owned(),
        io::ErrorKind::InvalidData => "it is not UTF-8 text; name another file".to_owned(),
        _ => error.to_string(),
    }
}

/// Why a file cannot be written, and what to do.
#[must_use]
pub fn why_not_written(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "its folder is not there; make the folder first, or name another".to_owned(),
        io::ErrorKind::NotADirectory => "a part of its path is a file; name another path".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "this account may not write there; name another folder, or change its permissions".to_owned()
        }
        io::ErrorKind::IsADirectory => "it is a folder; name a file".to_owned(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full; make room, or name a file on another disk".to_owned()
        }
        io::ErrorKind::ReadOnlyFilesystem => "the disk is read-only; name a file on another disk".to_owned(),
        _ => error.to_string(),
    }
}

thread_local! {
    /// How many calls of [`contain`] this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Code panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panicked;

/// Runs something whose panic is an answer like any other. What it changed must not be used after a panic.
///
/// # Errors
/// [`Panicked`] when it did.
pub fn contain<T>(run: impl FnOnce() -> T) -> Result<T, Panicked> {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get().saturating_sub(1));
        }
    }
    DEPTH.set(DEPTH.get().saturating_add(1));
    let _leave = Leave;
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| Panicked)
}

/// Tells panics of this process in one line each, and those that are contained not at all.
pub fn shorten_panic_messages() {
    std::panic::set_hook(Box::new(tell));
}

fn tell(panic: &PanicHookInfo<'_>) {
    if DEPTH.get() > 0 {
        return;
    }
    let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
    // Only texts that stand in the program: others may be made of data.
    let text = panic.payload().downcast_ref::<&'static str>().map(|text| format!(": {text}")).unwrap_or_default();
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name").to_owned();
    let line = format!("error: a defect of daftar{place} in the thread `{name}`{text}; please report it\n");
    // Nothing can be done where standard error is closed.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

#[cfg(test)]
mod contained_tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_the_thread_goes_on() {
        assert_eq!(contain(|| 7), Ok(7));
        let inner = contain(|| contain(|| panic!("on purpose")).is_err());
        assert_eq!(inner, Ok(true));
        assert_eq!(DEPTH.get(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_known_however_deep_it_lies_and_another_failure_is_none() {
        #[derive(Debug, thiserror::Error)]
        #[error("around it")]
        struct Around(#[source] Cause);
        let outage = || -> Cause { Outage("it is gone".into()).into() };
        assert!(AppError::Unavailable(outage()).is_outage());
        assert!(AppError::Unavailable(Around(outage()).into()).is_outage());
        assert!(!AppError::Unavailable(Around("a disk".into()).into()).is_outage());
        assert!(!AppError::Internal(outage()).is_outage());
    }
}
