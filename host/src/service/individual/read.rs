//! Reading one person.

use super::{IndividualView, Wanted, beside, find, reference};
use crate::context::OpContext;
use crate::domain::audit::{AuditAction, AuditOutcome};
use crate::domain::identifier::IdentifierKey;
use crate::error::AppError;
use crate::service::audit;
use crate::service::codes::CodeView;
use crate::service::registry::Registry;
use crate::vocab::LanguagePreference;

/// Reads a person by identifier, and what is `wanted` of what lies beside the record.
///
/// # Errors
/// [`AppError::NotFound`] and [`AppError::Ambiguous`].
pub async fn read(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    key: &IdentifierKey,
    wanted: Wanted,
) -> Result<IndividualView, AppError> {
    let found = find(ctx, registry, key).await;
    let outcome = if found.is_ok() { AuditOutcome::Allowed } else { AuditOutcome::Refused };
    registry.audit.record(ctx, audit::entry(ctx, AuditAction::Read, outcome, vec![reference(key)])).await?;
    let (individual, fields) = found?;
    let beside = beside(ctx, registry, (&individual, &fields), wanted).await?;
    Ok(IndividualView { individual, fields, beside, codes: CodeView::new(registry.vocabularies.current(), languages) })
}
