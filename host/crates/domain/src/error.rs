//! Errors of operations.
//!
//! **Invariant:** `Display` may be shown to the client: no secret, no data of other records. The cause stays in
//! `source()` and is logged. Only the table of [`crate::error_code`] assigns statuses.
//!
//! **Invariant:** the operator sees one line of any other panic, without the message: it may contain data.

use std::cell::Cell;
use std::io;
use std::io::Write;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

use tokio::task::JoinError;

use crate::client::ClientId;
use crate::code::Namespace;
use crate::error_code::ErrorCode;
use crate::manifest::PluginName;
use crate::record::{RecordKind, VersionId};
use crate::scope::{Resource, ScopeSet};

/// A cause that is logged and never returned to a client.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A cause that is an outage of a dependency of the store. Logged at its start and end, not with every request.
#[derive(Debug, thiserror::Error)]
#[error("outage: {0}")]
pub struct Outage(pub Cause);

/// A problem with one field of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldProblem {
    /// Path of the field, such as `address[0].country`; empty if the problem concerns the request as a whole.
    pub field: String,
    /// Stable name of the kind of problem, such as `unknown_code`.
    pub code: &'static str,
    /// One sentence with the problem and the valid values.
    pub message: String,
}

impl FieldProblem {
    /// Creates a problem of the field at a path.
    #[must_use]
    pub fn new(field: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Self { field: field.into(), code, message: message.into() }
    }
}

/// Use of a field that was not granted to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldUse {
    /// Filter records by it.
    Filter,
    /// Sort records by it.
    Sort,
    /// Read only this field.
    Read,
    /// Write it.
    Write,
    /// Evaluate a rule that reads it.
    Rule,
}

impl FieldUse {
    /// Returns the reason for the denial.
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

/// Error of an operation.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The request cannot be parsed.
    #[error("{0}")]
    Malformed(String),
    /// The request can be parsed, and its values are not valid.
    #[error("{}", summary(.0))]
    Invalid(Vec<FieldProblem>),
    /// One value is not valid, for a reason with its own code.
    #[error("{}", located(.1))]
    InvalidValue(ErrorCode, FieldProblem),
    /// The cursor was not issued by this server for this search.
    #[error("{0}")]
    InvalidCursor(&'static str),
    /// Absent, or hidden from this client: the same response for both.
    #[error("no such {0}")]
    NotFound(RecordKind),
    /// The path of a request names a missing item; the problem names valid ones.
    #[error("{}", .0.message)]
    NotThere(FieldProblem),
    /// The identifier has ended, and several records had it.
    #[error("several records had this identifier before it ended; use an identifier that has not ended")]
    Ambiguous,
    /// An identifier of the record is in use.
    #[error("an identifier of system `{system}` is already in use by another record")]
    IdentifierInUse {
        /// The identifier's system.
        system: String,
    },
    /// The record was changed since the client read it.
    #[error("the record is at version {actual}, not {expected}: read it again and repeat the change")]
    VersionMismatch {
        /// The version that the client expected.
        expected: VersionId,
        /// The stored version.
        actual: VersionId,
    },
    /// Concurrent changes of the same records prevented the commit in every attempt.
    #[error(
        "write conflict: other requests changed the same records in every attempt; nothing was written, send the request again"
    )]
    Overtaken,
    /// The token is valid but grants none of the scopes that the operation accepts.
    #[error("Missing required scope {required}. Granted: {}", granted_text(.granted))]
    MissingScope {
        /// The accepted scopes, as text.
        required: String,
        /// The scopes of the client.
        granted: ScopeSet,
    },
    /// The client's grants do not include a field that the request uses.
    #[error(
        "the client was not granted the field `{field}` of `{}`: {}; an administrator grants it with `daftar client grant --fields`",
        .resource.name(), .usage.refusal()
    )]
    FieldNotGranted {
        /// The resource of the field.
        resource: Resource,
        /// Its path in the API.
        field: String,
        /// The use of the field.
        usage: FieldUse,
    },
    /// No client has this id.
    #[error("no such client `{0}`")]
    UnknownClient(ClientId),
    /// No plugin has this name.
    #[error("no plugin `{0}` is installed; `daftar plugin list` shows the installed ones")]
    UnknownPlugin(String),
    /// A plugin was rejected; the text names the step and the reason.
    #[error("{0}")]
    Plugin(String),
    /// The current state does not allow the operation, for the reason named by the code.
    #[error("{1}")]
    Conflict(ErrorCode, String),
    /// A dry run checked the operation successfully. Never returned to a client.
    #[error("the dry run succeeded; nothing was written")]
    DryRun,
    /// The program's eligibility expression does not accept the beneficiary.
    #[error(
        "the program's eligibility expression returns `{outcome}`{}; to override it, enrol with `override {{reason}}`",
        missing_text(.missing)
    )]
    NotEligible {
        /// `not_eligible` or `undetermined`.
        outcome: &'static str,
        /// The facts that would decide.
        missing: Vec<String>,
    },
    /// An expression was rejected; the diagnostics contain the reasons.
    #[error("the expression is not valid: {0}")]
    Expression(ExpressionProblem),
    /// No eligibility engine is active.
    #[error(
        "no eligibility engine is active; the administrator installs one with `daftar plugin install`, or selects one of several as `engine` in `[plugins]`"
    )]
    NoEngine,
    /// The eligibility engine is being compiled, for some seconds after a start.
    #[error(
        "the eligibility engine `{0}` is being compiled, which takes some seconds after a start; repeat the request"
    )]
    EngineCompiling(PluginName),
    /// The eligibility engine that a program names is not installed.
    #[error(
        "the eligibility engine `{0}`, which the program names, is not installed; the administrator installs it with `daftar plugin install`, or names another one with `daftar program update --engine`"
    )]
    EngineNotInstalled(String),
    /// The pack that resolves the codes of an open vocabulary does not respond.
    #[error(
        "the pack of the open vocabulary `{0}` does not respond; retry later, or use a code that the vocabulary lists"
    )]
    VocabularyUnavailable(Namespace),
    /// The pack that resolves the codes of an open vocabulary fails for a code of the request.
    #[error(
        "the pack of the open vocabulary `{0}` fails for a code of this request, and fails again if it is repeated; use a code that the vocabulary lists, and report the code to the operator"
    )]
    VocabularyFailed(Namespace),
    /// A plugin failed repeatedly and is suspended for some time.
    #[error("plugin `{plugin}` is suspended after repeated faults; retry in {retry_after_s} s")]
    PluginSuspended {
        /// Its name.
        plugin: PluginName,
        /// Seconds until the suspension ends.
        retry_after_s: u64,
    },
    /// The server is overloaded.
    #[error("the server is busy; retry later")]
    Busy,
    /// The store did not respond; the cause is only logged.
    #[error("the registry is not available; retry later")]
    Unavailable(#[source] Cause),
    /// A defect of the server; the cause is only logged.
    #[error("an internal error occurred; the request id identifies it in the server's log")]
    Internal(#[source] Cause),
}

/// The reason for rejecting an expression.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ExpressionProblem {
    /// The first diagnostic, or the budget that was exhausted.
    pub message: String,
    /// All diagnostics.
    pub diagnostics: Vec<crate::eligibility::Diagnostic>,
    /// The member of the request that contains the expression; `None` if it is `expression` or that of a program.
    pub field: Option<&'static str>,
}

impl ExpressionProblem {
    /// Names the member of the request that contains the expression, also in the message.
    #[must_use]
    pub fn of_field(self, field: &'static str) -> Self {
        Self { message: format!("`{field}`: {}", self.message), field: Some(field), ..self }
    }
}

impl AppError {
    /// Creates an error for one problem with one field.
    #[must_use]
    pub fn invalid(field: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldProblem::new(field, code, message)])
    }

    /// Returns an error if there are problems.
    ///
    /// # Errors
    /// [`AppError::Invalid`] with all problems, which are removed from the list.
    pub fn check(problems: &mut Vec<FieldProblem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self::Invalid(std::mem::take(problems))) }
    }

    /// Creates an error for an operation that the current state does not allow.
    #[must_use]
    pub fn conflict(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self::Conflict(code, detail.into())
    }

    /// Returns the error code for clients.
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
            // An expression that was evaluated has no diagnostics.
            Self::Expression(problem) if problem.diagnostics.is_empty() => ErrorCode::EvaluationFailed,
            Self::Expression(_) => ErrorCode::InvalidExpression,
            Self::NoEngine | Self::EngineNotInstalled(_) => ErrorCode::NoEligibilityEngine,
            Self::EngineCompiling(_) => ErrorCode::EngineCompiling,
            Self::VocabularyUnavailable(_) => ErrorCode::VocabularyUnavailable,
            Self::VocabularyFailed(_) => ErrorCode::VocabularyFailed,
            Self::PluginSuspended { .. } => ErrorCode::PluginSuspended,
            Self::Busy => ErrorCode::Overloaded,
            Self::Unavailable(_) => ErrorCode::StorageUnavailable,
            Self::DryRun | Self::Internal(_) => ErrorCode::InternalError,
        }
    }

    /// True if the cause is an outage, which is logged separately.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        let Self::Unavailable(cause) = self else { return false };
        causes(&**cause).any(|error| error.is::<Outage>())
    }

    /// Creates an error for a task that ended without a result. The log gets no panic message.
    #[must_use]
    pub fn of_task(error: JoinError) -> Self {
        Self::Internal(TaskEnded::from(error).into())
    }

    /// Creates an error for a defect of the server, with one sentence for the log.
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

/// Returns the message of a problem, after the field if it concerns one.
fn located(problem: &FieldProblem) -> String {
    if problem.field.is_empty() { problem.message.clone() } else { format!("{}: {}", problem.field, problem.message) }
}

fn missing_text(missing: &[String]) -> String {
    if missing.is_empty() { String::new() } else { format!(", missing: {}", missing.join(", ")) }
}

fn granted_text(granted: &ScopeSet) -> String {
    if granted.is_empty() { "none".to_owned() } else { granted.to_string() }
}

/// Returns an iterator over an error and its causes, outermost first.
pub fn causes<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// Returns the reason why a file cannot be read, and a remedy.
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

/// Returns the reason why a file cannot be written, and a remedy.
#[must_use]
pub fn why_not_written(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "its folder does not exist; create it first, or name another".to_owned(),
        io::ErrorKind::NotADirectory => "a part of its path is a file; name another path".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "this account may not write there; name another folder, or change its permissions".to_owned()
        }
        io::ErrorKind::IsADirectory => "it is a folder; name a file".to_owned(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full; free disk space, or name a file on another disk".to_owned()
        }
        io::ErrorKind::ReadOnlyFilesystem => "the disk is read-only; name a file on another disk".to_owned(),
        _ => error.to_string(),
    }
}

thread_local! {
    /// Nesting depth of [`contain`] on this thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The code panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panicked;

/// A task ended without a result. In contrast to [`JoinError`], it omits the message of a panic, which may contain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TaskEnded {
    /// It panicked.
    #[error("a task panicked")]
    Panicked,
    /// It was cancelled, for example because the server stops.
    #[error("a task was cancelled")]
    Cancelled,
}

impl From<JoinError> for TaskEnded {
    fn from(error: JoinError) -> Self {
        if error.is_panic() { Self::Panicked } else { Self::Cancelled }
    }
}

/// Runs a closure and returns its panic as an error. Data that it changed must not be used after a panic.
///
/// # Errors
/// [`Panicked`] if it panicked.
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

/// Prints panics of this process in one line each, except contained ones.
pub fn shorten_panic_messages() {
    std::panic::set_hook(Box::new(print_panic));
}

fn print_panic(panic: &PanicHookInfo<'_>) {
    if DEPTH.get() > 0 {
        return;
    }
    let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
    // Only string literals of the program: other messages may contain data.
    let text = panic.payload().downcast_ref::<&'static str>().map(|text| format!(": {text}")).unwrap_or_default();
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("unnamed").to_owned();
    let line = format!("error: a defect of daftar{place} in the thread `{name}`{text}; please report it\n");
    // If standard error is closed, the message is lost.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

#[cfg(test)]
mod contained_tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_the_thread_continues() {
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
    fn an_outage_is_recognized_at_any_depth_of_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("around it")]
        struct Around(#[source] Cause);
        let outage = || -> Cause { Outage("it is gone".into()).into() };
        assert!(AppError::Unavailable(outage()).is_outage());
        assert!(AppError::Unavailable(Around(outage()).into()).is_outage());
        assert!(!AppError::Unavailable(Around("a disk".into()).into()).is_outage());
        assert!(!AppError::Internal(outage()).is_outage());
    }

    #[tokio::test]
    async fn the_error_of_a_task_omits_the_message_of_its_panic() {
        let identifier = String::from("urn:x:a|1");
        let ended = tokio::spawn(async move { assert!(identifier.is_empty(), "{identifier}") }).await;
        let error = ended.map_err(AppError::of_task).unwrap_err();
        let texts: Vec<String> = causes(&error).map(ToString::to_string).collect();
        assert_eq!(texts.last().map(String::as_str), Some("a task panicked"));
        assert!(!format!("{texts:?} {error:?}").contains("urn:x:a"));
        let cancelled = tokio::spawn(std::future::pending::<()>());
        cancelled.abort();
        assert_eq!(TaskEnded::from(cancelled.await.unwrap_err()), TaskEnded::Cancelled);
    }
}
