//! Reading one person.

use super::{IndividualView, find, reference};
use crate::context::OpContext;
use crate::domain::audit::{AuditAction, AuditOutcome};
use crate::domain::identifier::IdentifierKey;
use crate::error::AppError;
use crate::service::audit;
use crate::service::codes::CodeView;
use crate::service::registry::Registry;
use crate::vocab::LanguagePreference;

/// Reads a person by identifier.
///
/// # Errors
/// [`AppError::NotFound`] and [`AppError::Ambiguous`].
pub async fn read(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    key: &IdentifierKey,
) -> Result<IndividualView, AppError> {
    let found = find(ctx, registry, key).await;
    let outcome = if found.is_ok() { AuditOutcome::Allowed } else { AuditOutcome::Refused };
    registry.audit.record(ctx, audit::entry(ctx, AuditAction::Read, outcome, vec![reference(key)])).await?;
    let (individual, fields) = found?;
    Ok(IndividualView { individual, fields, codes: CodeView::new(registry.vocabularies.current(), languages) })
}
