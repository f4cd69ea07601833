//! People and groups as other records refer to them.

use daftar_domain::change::ChangedRecord;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_store::{IDENTIFIER_OWNERS_MAX, Store};

use super::registry::Registry;
use super::{records, visibility};

/// Who a reference means; a reference that leads nowhere is a problem of its field.
///
/// # Errors
/// When the store fails.
pub async fn resolve(
    ctx: &OpContext,
    registry: &Registry,
    field: &str,
    given: &SubjectReference<IdentifierKey>,
    problems: &mut Vec<FieldProblem>,
) -> Result<Option<SubjectReference>, AppError> {
    match visibility::find(ctx, registry, given.kind.record_kind(), &given.id).await {
        Ok((id, _)) => Ok(Some(SubjectReference { kind: given.kind, id })),
        Err(error) => unresolved(field, error, problems).map(|()| None),
    }
}

/// A reference that leads nowhere is a problem of its field; anything else ends the request.
///
/// # Errors
/// What ends the request.
pub fn unresolved(field: &str, error: AppError, problems: &mut Vec<FieldProblem>) -> Result<(), AppError> {
    problems.push(leads_nowhere(field, error)?);
    Ok(())
}

/// The problem of a reference that leads nowhere.
///
/// # Errors
/// What ends the request.
pub fn leads_nowhere(field: &str, error: AppError) -> Result<FieldProblem, AppError> {
    let (code, message) = match error {
        AppError::NotFound(_) | AppError::Ambiguous => ("unresolved_reference", error.to_string()),
        AppError::NotThere(FieldProblem { code, message, .. }) => (code, message),
        other => return Err(other),
    };
    Ok(FieldProblem { field: field.to_owned(), code, message })
}

/// Everybody of these kinds who carries or carried an identifier: what a search by it means.
///
/// # Errors
/// When the store fails.
pub async fn carriers(
    store: &dyn Store,
    kinds: &[Subject],
    key: &IdentifierKey,
) -> Result<Vec<SubjectReference>, AppError> {
    let mut found = Vec::new();
    for kind in kinds {
        let owners = store.identifier_owners(kind.record_kind(), key, IDENTIFIER_OWNERS_MAX).await?;
        found.extend(owners.into_iter().map(|owner| SubjectReference { kind: *kind, id: owner.id }));
    }
    Ok(found)
}

/// What a person or a group that another record holds is called now: `Individual/<system>|<value>`.
///
/// # Errors
/// When the store fails; one that is not there is a defect.
pub async fn called(store: &dyn Store, subject: SubjectReference) -> Result<String, AppError> {
    let kind = subject.kind.record_kind();
    let found = store.record(kind, subject.id).await?;
    let identifiers = found.as_ref().map(ChangedRecord::identifiers).unwrap_or_default();
    let key = records::called(&identifiers)
        .ok_or_else(|| AppError::internal(format!("a reference leads to no {kind} that has an identifier")))?;
    Ok(records::reference(kind, key))
}
