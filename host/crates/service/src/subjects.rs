//! Individuals and groups as other records refer to them, with their groups and programs, including the writes of a
//! transaction that are in no index yet.

use std::collections::HashSet;

use crate::records;
use crate::registry::Registry;
use daftar_domain::change::ChangedRecord;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::RecordId;
use daftar_domain::search::{MembershipTerm, Page};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_domain::value::Reference;
use daftar_store::{IDENTIFIER_OWNERS_MAX, Store};

/// The record that a reference resolves to. An unresolved reference is a problem of its field; any other error ends the
/// request.
///
/// # Errors
/// An error that ends the request.
pub fn noted<T>(
    field: &str,
    found: Result<T, AppError>,
    problems: &mut Vec<FieldProblem>,
) -> Result<Option<T>, AppError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) => {
            problems.push(leads_nowhere(field, error)?);
            Ok(None)
        }
    }
}

/// The problem of an unresolved reference.
///
/// # Errors
/// An error that ends the request.
pub fn leads_nowhere(field: &str, error: AppError) -> Result<FieldProblem, AppError> {
    let (code, message) = match error {
        AppError::NotFound(_) | AppError::Ambiguous => ("unresolved_reference", error.to_string()),
        AppError::NotThere(FieldProblem { code, message, .. }) => (code, message),
        other => return Err(other),
    };
    Ok(FieldProblem::new(field, code, message))
}

/// The error of a request with that unresolved reference; any other error unchanged.
#[must_use]
pub fn invalid(field: &str, error: AppError) -> AppError {
    leads_nowhere(field, error).map_or_else(|other| other, |problem| AppError::Invalid(vec![problem]))
}

/// All subjects of these kinds that have or had an identifier: the subjects that a search by it selects.
///
/// # Errors
/// If the store fails.
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

/// The current reference of a record that another record contains: `<kind>/<system>|<value>`.
///
/// # Errors
/// If the store fails; a missing record is a defect.
pub async fn called(store: &dyn Store, other: impl Into<Reference>) -> Result<String, AppError> {
    let Reference { kind, id } = other.into();
    let found = store.record(kind, id).await?;
    let identifiers = found.as_ref().map(ChangedRecord::identifiers).unwrap_or_default();
    let key = records::called(&identifiers)
        .ok_or_else(|| AppError::internal(format!("a reference leads to no {kind} that has an identifier")))?;
    Ok(records::reference(kind, key))
}

/// The groups with an individual as a current or former member, in the order of registration. A group that the
/// transaction changed may no longer contain the individual: its pending content decides.
///
/// # Errors
/// If the store fails.
pub async fn groups_of(registry: &Registry, individual: RecordId) -> Result<Vec<RecordId>, AppError> {
    let mut groups = registry.index.current().await.groups_of(individual).await?;
    if let Some(staged) = registry.store.pending_writes() {
        add(&mut groups, staged.groups_of(individual));
    }
    Ok(groups)
}

/// The memberships of a subject, of any status: their number, and the first ones up to a limit.
///
/// # Errors
/// If the store fails.
pub async fn memberships_of(
    registry: &Registry,
    subject: SubjectReference,
    count: u32,
) -> Result<(u64, Vec<RecordId>), AppError> {
    let of_subject = [vec![MembershipTerm::Beneficiary(subject)]];
    let found = registry.index.current().await.memberships(&of_subject, Page { offset: 0, count }).await?;
    let (mut total, mut ids) = (found.total, found.ids);
    if let Some(staged) = registry.store.pending_writes() {
        // A membership never changes its beneficiary, so memberships in the indexes are counted already.
        let new: Vec<RecordId> =
            staged.memberships_of(subject).into_iter().filter(|id| id.pending_number().is_some()).collect();
        total = total.saturating_add(new.len() as u64);
        add(&mut ids, new);
        ids.truncate(count as usize);
    }
    Ok((total, ids))
}

fn add(known: &mut Vec<RecordId>, more: Vec<RecordId>) {
    let already: HashSet<RecordId> = known.iter().copied().collect();
    known.extend(more.into_iter().filter(|id| !already.contains(id)));
}
