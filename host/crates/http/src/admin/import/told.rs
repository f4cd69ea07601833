//! The lines by which an import reports while it runs.

use crate::api::error::Problem;
use daftar_api_types::admin::operation::{ImportCounts, ImportErrorBody, ImportLine, StoppedBody};
use daftar_domain::error::AppError;
use daftar_service::bulk::Done;

/// The most problems of one line that are reported.
const PROBLEMS_MAX: usize = 50;

/// Counts a line.
pub fn count(counts: &mut ImportCounts, result: &Result<Done, AppError>) {
    counts.read += 1;
    match result {
        Ok(Done::Created) => counts.created += 1,
        Ok(Done::Updated) => counts.updated += 1,
        Ok(Done::Skipped) => counts.skipped += 1,
        Err(_) => counts.rejected += 1,
    }
}

/// Counts in words, for the audit log.
#[must_use]
pub fn sentence(counts: &ImportCounts) -> String {
    let ImportCounts { read, created, updated, skipped, rejected } = counts;
    format!("{read} lines read, {created} created, {updated} updated, {skipped} skipped, {rejected} rejected")
}

/// A line that was rejected.
#[must_use]
pub fn rejected(line: u64, error: AppError) -> ImportLine {
    let (field, code) = place_of(&error);
    let status = error.code().entry().status;
    let Problem { detail, errors, .. } = Problem::from(error);
    let errors = errors.into_iter().take(PROBLEMS_MAX);
    let mut errors: Vec<ImportErrorBody> = errors
        .map(|problem| ImportErrorBody {
            field: problem.field,
            code: problem.code.to_owned(),
            message: problem.message,
        })
        .collect();
    if errors.is_empty() {
        let (field, code) = (field.to_owned(), code.to_owned());
        errors.push(ImportErrorBody { field, code, message: detail.clone() });
    }
    ImportLine::Rejected { line, status, detail, errors }
}

/// Why an import or export stopped.
#[must_use]
pub fn stopped_by(error: AppError) -> StoppedBody {
    let Problem { code, detail, .. } = Problem::from(error);
    StoppedBody { status: code.entry().status, detail }
}

/// The last line of an import that stopped.
#[must_use]
pub fn stopped(error: AppError, durable: Option<u64>, counts: ImportCounts) -> ImportLine {
    ImportLine::Stopped { stopped: stopped_by(error), durable, counts }
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
        AppError::Overtaken | AppError::Conflict(..) => ("", "conflict"),
        AppError::Malformed(_) => ("", "malformed"),
        AppError::Invalid(_)
        | AppError::InvalidValue(..)
        | AppError::InvalidCursor(_)
        | AppError::DryRun
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
