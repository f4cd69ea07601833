//! What an import tells while it runs, one JSON object a line.

use serde::Serialize;

use crate::api::error::Problem;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_service::bulk::Done;

/// The most problems of one line that are told.
const PROBLEMS_MAX: usize = 50;

/// How many lines of a request ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    read: u64,
    created: u64,
    updated: u64,
    skipped: u64,
    rejected: u64,
}

impl Counts {
    /// Counts a line.
    pub fn count(&mut self, result: &Result<Done, AppError>) {
        self.read += 1;
        match result {
            Ok(Done::Created) => self.created += 1,
            Ok(Done::Updated) => self.updated += 1,
            Ok(Done::Skipped) => self.skipped += 1,
            Err(_) => self.rejected += 1,
        }
    }

    /// For the audit log.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { read, created, updated, skipped, rejected } = self;
        format!("{read} lines read, {created} created, {updated} updated, {skipped} skipped, {rejected} rejected")
    }
}

/// One thing that is told.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Told {
    /// A line that was refused; nothing of it was written.
    Rejected {
        /// Its number.
        line: u64,
        /// With which status a single call would have been answered.
        status: u16,
        /// One sentence.
        detail: String,
        /// What is wrong with which field.
        errors: Vec<ErrorBody>,
    },
    /// Everything up to that line is on disk, or was told as refused.
    Durable {
        /// Its number.
        durable: u64,
        /// So far.
        #[serde(flatten)]
        counts: Counts,
    },
    /// All lines are done.
    Ended {
        /// Always.
        done: bool,
        /// The last line that was done; none where there was none.
        durable: Option<u64>,
        /// In all.
        #[serde(flatten)]
        counts: Counts,
    },
    /// It stopped for a reason that is no line's fault: lines after the last durable one may have been written.
    Stopped {
        /// Why.
        stopped: StoppedBody,
        /// The last line that was done.
        durable: Option<u64>,
        /// Until then.
        #[serde(flatten)]
        counts: Counts,
    },
}

/// Why an import stopped.
#[derive(Debug, Serialize)]
pub struct StoppedBody {
    status: u16,
    detail: String,
}

/// What is wrong with one field.
#[derive(Debug, Serialize)]
pub struct ErrorBody {
    field: String,
    code: &'static str,
    message: String,
}

impl From<FieldProblem> for ErrorBody {
    fn from(FieldProblem { field, code, message }: FieldProblem) -> Self {
        Self { field, code, message }
    }
}

impl Told {
    /// A line that was refused.
    #[must_use]
    pub fn rejected(line: u64, error: AppError) -> Self {
        let (field, code) = place_of(&error);
        let Problem { status, detail, errors, .. } = Problem::from(error);
        let mut errors: Vec<ErrorBody> = errors.into_iter().take(PROBLEMS_MAX).map(ErrorBody::from).collect();
        if errors.is_empty() {
            errors.push(ErrorBody { field: field.to_owned(), code, message: detail.clone() });
        }
        Self::Rejected { line, status: status.as_u16(), detail, errors }
    }

    /// Why it stopped.
    #[must_use]
    pub fn stopped(error: AppError, durable: Option<u64>, counts: Counts) -> Self {
        let Problem { status, detail, .. } = Problem::from(error);
        Self::Stopped { stopped: StoppedBody { status: status.as_u16(), detail }, durable, counts }
    }

    /// As a line.
    pub fn write(&self, out: &mut Vec<u8>) {
        let before = out.len();
        if serde_json::to_writer(&mut *out, self).is_err() {
            out.truncate(before);
            return;
        }
        out.push(b'\n');
    }
}

/// The field that a refusal is about that names none itself, and the kind of fault.
fn place_of(error: &AppError) -> (&'static str, &'static str) {
    match error {
        AppError::IdentifierInUse { .. } => ("identifier", "in_use"),
        AppError::Ambiguous => ("identifier", "ambiguous"),
        AppError::NotFound(_) | AppError::NotThere(_) => ("identifier", "not_found"),
        AppError::VersionMismatch { .. } => ("meta.version_id", "version_mismatch"),
        AppError::NotEligible { .. } => ("status", "not_eligible"),
        AppError::Expression(_) => ("eligibility", "invalid_expression"),
        AppError::Overtaken | AppError::Conflict(_) => ("", "conflict"),
        AppError::Malformed(_) => ("", "malformed"),
        AppError::Invalid(_)
        | AppError::MissingScope { .. }
        | AppError::FieldNotGranted { .. }
        | AppError::UnknownClient(_)
        | AppError::UnknownPlugin(_)
        | AppError::Plugin(_)
        | AppError::NoEngine
        | AppError::VocabularyUnavailable(_)
        | AppError::PluginSetAside { .. }
        | AppError::Busy
        | AppError::Unavailable(_)
        | AppError::Internal(_) => ("", "refused"),
    }
}
