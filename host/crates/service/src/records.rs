//! Operations common to all kinds of records: find a record, name it, and write it at the version it was read.

use std::sync::Arc;
use std::time::Duration;

use crate::identifiers;
use crate::registry::Registry;
use daftar_domain::audit::AuditEntry;
use daftar_domain::change::Details;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
pub use daftar_domain::identifier::called;
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::record::{
    Fields, Record, RecordId, RecordKind, RecordType, UnmetCondition, VersionCondition, VersionId,
};
use daftar_store::{Committed, Operation, Store, Write};

/// Maximum number of attempts of a change that names no version.
const ATTEMPTS_MAX: u32 = 12;
/// Number of immediate attempts; later ones wait, so that servers with conflicting writes do not stay in step.
const IMMEDIATE_ATTEMPTS: u32 = 3;
/// Maximum wait between attempts, in milliseconds.
const PAUSE_MS_MAX: u64 = 64;

/// The record that an identifier addresses.
///
/// # Errors
/// [`AppError::NotFound`] and [`AppError::Ambiguous`].
pub async fn find<D: Details>(store: &dyn Store, key: &IdentifierKey) -> Result<Arc<Record<D>>, AppError> {
    by_id(store, identifiers::find(store, D::KIND, key).await?).await
}

/// The record of a key that another record contains.
///
/// # Errors
/// If the store fails; a missing record is a defect.
pub async fn by_id<D: Details>(store: &dyn Store, id: RecordId) -> Result<Arc<Record<D>>, AppError> {
    let record = store.find(id).await?;
    record.ok_or_else(|| AppError::internal(format!("a key leads to no {}", D::KIND)))
}

/// Repeats a change while other writes change the data it depends on, or the record itself if the caller expects no
/// version.
///
/// # Errors
/// Those of the last attempt.
pub async fn retried<T, F: Future<Output = Result<T, AppError>>>(
    condition: &VersionCondition,
    mut attempt: impl FnMut() -> F,
) -> Result<T, AppError> {
    let mut attempts = 1;
    loop {
        let outcome = attempt().await;
        let is_overtaken = match outcome {
            Err(AppError::Overtaken) => true,
            Err(AppError::VersionMismatch { .. }) => !condition.expects_versions(),
            Ok(_) | Err(_) => false,
        };
        if !is_overtaken || attempts == ATTEMPTS_MAX {
            return outcome;
        }
        if let Some(waits) = attempts.checked_sub(IMMEDIATE_ATTEMPTS) {
            let longest_ms = 2_u64.saturating_pow(waits.saturating_add(1)).min(PAUSE_MS_MAX);
            tokio::time::sleep(Duration::from_millis(rand::random_range(0..=longest_ms))).await;
        }
        attempts = attempts.saturating_add(1);
    }
}

/// Makes a change as [`retried`]; if it is rejected, `refusal` is written into the audit log.
///
/// # Errors
/// Those of the last attempt.
pub async fn changed<T, F: Future<Output = Result<T, AppError>>>(
    ctx: &OpContext,
    registry: &Registry,
    condition: &VersionCondition,
    refusal: impl FnOnce() -> AuditEntry,
    attempt: impl FnMut() -> F,
) -> Result<T, AppError> {
    let outcome = retried(condition, attempt).await;
    if outcome.is_err() {
        registry.audit.record(ctx, refusal()).await?;
    }
    outcome
}

/// A change for the caller at the present time, with its audit entry.
#[must_use]
pub fn write(ctx: &OpContext, operations: Vec<Operation>, entry: AuditEntry) -> Write {
    Write { at: ctx.now, source: ctx.client().cloned(), operations, audit: vec![entry], read_set: Vec::new() }
}

/// Commits a write, and returns the record that its first operation created.
///
/// # Errors
/// Those of [`Store::commit`]; [`AppError::Internal`] when the record is of another kind.
pub async fn commit<D: Details>(registry: &Registry, write: Write) -> Result<Arc<Record<D>>, AppError> {
    written(registry.store.commit(write).await?)
}

/// Checks that a record is at a version at which it may be changed.
///
/// # Errors
/// [`AppError::VersionMismatch`]; [`AppError::Conflict`] if the caller excludes the version (412).
pub fn check_version(condition: &VersionCondition, actual: VersionId) -> Result<(), AppError> {
    match condition.unmet_at(actual) {
        None => Ok(()),
        Some(UnmetCondition::Expected(expected)) => Err(AppError::VersionMismatch { expected, actual }),
        Some(UnmetCondition::Excluded) => Err(excluded(actual)),
    }
}

/// The error for a change whose caller excludes the present version.
#[must_use]
pub(crate) fn excluded(actual: VersionId) -> AppError {
    let message =
        format!("`If-None-Match` excludes version {actual}, the present one: leave the header out to make the change");
    AppError::conflict(ErrorCode::PreconditionFailed, message)
}

/// The record that the first operation of a write created.
///
/// # Errors
/// [`AppError::Internal`] when it is of another kind.
pub fn written<D: Details>(committed: Committed) -> Result<Arc<Record<D>>, AppError> {
    committed.first().ok_or_else(|| AppError::internal(format!("the store returned no {} for a write", D::KIND)))
}

/// Writes `<kind>/<system>|<value>`. Personal data if the kind is.
#[must_use]
pub fn reference(kind: RecordKind, key: &IdentifierKey) -> String {
    format!("{kind}/{}", key.reveal())
}

/// Reference of a record: `<kind>/<system>|<value>`. Personal data if the kind is.
#[must_use]
pub fn name_of<T: RecordType>(record: &Record<Fields<T>>) -> Option<String> {
    called(&record.details.identifiers).map(|key| reference(T::KIND, key))
}

/// The identifier that finds a record: the first active one, or else the first that still leads to it.
/// If none does, since other records adopted them, the identifier that names it.
///
/// # Errors
/// If the store fails; a record without identifiers is a defect.
pub async fn found_by(
    store: &dyn Store,
    kind: RecordKind,
    id: RecordId,
    all: &[Identifier],
) -> Result<IdentifierKey, AppError> {
    let called = called(all).ok_or_else(|| AppError::internal(format!("a {kind} has no identifier")))?;
    if all.iter().any(Identifier::is_open) {
        return Ok(called.clone());
    }
    for ended in all {
        match identifiers::find(store, kind, &ended.key).await {
            Ok(found) if found == id => return Ok(ended.key.clone()),
            Ok(_) | Err(AppError::NotFound(_) | AppError::Ambiguous) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(called.clone())
}

/// Every identifier of a record as a reference, for the audit log.
#[must_use]
pub fn references(kind: RecordKind, identifiers: &[Identifier]) -> Vec<String> {
    identifiers.iter().map(|identifier| reference(kind, &identifier.key)).collect()
}
