//! Lookup of a record by its identifier, and the systems that identifiers may use.

use jiff::civil::Date;

use crate::registry::Registry;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::record::{RecordId, RecordKind};
use daftar_store::{IDENTIFIER_OWNERS_MAX, IdentifierOwner, Store};
use daftar_vocabulary::Generation;

/// Number of former owners of one identifier that are read: more than one is ambiguous already.
pub(super) const OWNERS_MAX: usize = 16;

/// The record that an identifier addresses: its current owner, or else the only former one.
///
/// # Errors
/// [`AppError::NotFound`] if no record ever had it, [`AppError::Ambiguous`] if several records had it and none has it
/// now.
pub async fn find(store: &dyn Store, kind: RecordKind, key: &IdentifierKey) -> Result<RecordId, AppError> {
    choose(kind, &store.identifier_owners(kind, key, OWNERS_MAX).await?)
}

/// Every record of a kind that has or had an identifier: the records that a search by it selects.
///
/// # Errors
/// If the store fails.
pub async fn carriers(registry: &Registry, kind: RecordKind, key: &IdentifierKey) -> Result<Vec<RecordId>, AppError> {
    let owners = registry.store.identifier_owners(kind, key, IDENTIFIER_OWNERS_MAX).await?;
    Ok(owners.into_iter().map(|owner| owner.id).collect())
}

/// Chooses the owner that an identifier addresses.
///
/// # Errors
/// As [`find`].
pub fn choose(kind: RecordKind, owners: &[IdentifierOwner]) -> Result<RecordId, AppError> {
    if let Some(holder) = owners.iter().find(|owner| owner.is_open) {
        return Ok(holder.id);
    }
    match owners {
        [] => Err(AppError::NotFound(kind)),
        [only] => Ok(only.id),
        [_, ..] => Err(AppError::Ambiguous),
    }
}

/// The problem of an identifier of an unknown system, at that field: the same for all operations.
#[must_use]
pub fn unknown_system(generation: &Generation, key: &IdentifierKey, field: &str) -> Option<FieldProblem> {
    let problem = generation.check_system(&key.system).err()?;
    Some(FieldProblem::new(field, problem.code(), problem.to_string()))
}

/// The reason why an identifier resolves to no record, such as an unknown system. Depends on the identifier alone,
/// never on records.
#[must_use]
pub fn explained(registry: &Registry, key: &IdentifierKey, error: AppError) -> AppError {
    if !matches!(error, AppError::NotFound(_)) {
        return error;
    }
    let problem = unknown_system(&registry.vocabularies.current(), key, "identifier");
    problem.map_or(error, AppError::NotThere)
}

/// Checks that an identifier by which a search selects records can lead to any: an unknown system that no record
/// visible to the client uses is a problem of its filter.
///
/// # Errors
/// [`AppError::Invalid`].
pub fn check_filter(registry: &Registry, filter: &str, key: &IdentifierKey, is_carried: bool) -> Result<(), AppError> {
    if is_carried {
        return Ok(());
    }
    let problem = unknown_system(&registry.vocabularies.current(), key, filter);
    problem.map_or(Ok(()), |problem| Err(AppError::Invalid(vec![problem])))
}

/// Checks each identifier that a record of that kind does not have `before`: its system is registered for such
/// records, and the value has the format of the system. A value is never repeated. An end is not in the future: an
/// ended identifier is free for other records, and an end is never removed.
pub fn check(
    (generation, today): (&Generation, Date),
    kind: RecordKind,
    before: &[Identifier],
    identifiers: &[Identifier],
    problems: &mut Vec<FieldProblem>,
) {
    for (at, identifier) in identifiers.iter().enumerate() {
        let former = before.iter().find(|former| former.key == identifier.key);
        let end = |identifier: &Identifier| identifier.period.and_then(|period| period.end);
        let ends_now = end(identifier).filter(|_| former.and_then(end) != end(identifier));
        if ends_now.is_some_and(|end| end > today) {
            let message = format!(
                "an identifier ends when others may take it up, and a day after today ({today}) has not come: leave `end` out until then"
            );
            problems.push(FieldProblem::new(format!("identifier[{at}].period.end"), "future_end", message));
        }
        if former.is_some() {
            continue;
        }
        if let Err(problem) = generation.check_identifier(kind, identifier) {
            let field = format!("identifier[{at}].{}", problem.member());
            problems.push(FieldProblem::new(field, problem.code(), problem.to_string()));
        }
    }
}

/// Checks that every identifier of a record is present and either unchanged or newly ended: identifiers are added and
/// ended, never altered and never removed.
pub fn check_retained(before: &[Identifier], now: &[Identifier], problems: &mut Vec<FieldProblem>) {
    for former in before {
        let Some(at) = now.iter().position(|identifier| identifier.key == former.key) else {
            let message = format!(
                "an identifier of system `{}` is gone; an identifier is ended with `period.end`, never taken away",
                former.key.system
            );
            problems.push(FieldProblem::new("identifier", "immutable", message));
            continue;
        };
        let (was, is) =
            (former.period.unwrap_or_default(), now.get(at).and_then(|same| same.period).unwrap_or_default());
        if was.start != is.start || (was.end.is_some() && was.end != is.end) {
            let message = "the period of an identifier is altered; it can only be given an end";
            problems.push(FieldProblem::new(format!("identifier[{at}].period"), "immutable", message));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;
    use daftar_domain::calendar::{Period, parse_date};

    fn identifier(key: &str, start: Option<&str>, end: Option<&str>) -> Identifier {
        let day = |text: Option<&str>| text.and_then(|text| parse_date(text).ok());
        let period = Period { start: day(start), end: day(end) };
        Identifier { key: IdentifierKey::parse(key).unwrap(), period: Some(period).filter(|_| start.or(end).is_some()) }
    }

    fn problems(before: &[Identifier], now: &[Identifier]) -> Vec<String> {
        let mut problems = Vec::new();
        check_retained(before, now, &mut problems);
        problems.into_iter().map(|problem| problem.field).collect()
    }

    #[test]
    fn identifiers_are_added_and_ended_and_nothing_else() {
        let open = identifier("urn:x:a|1", None, None);
        let ended = identifier("urn:x:a|1", None, Some("2026-01-31"));
        let other = identifier("urn:x:a|2", Some("2026-01-01"), None);
        assert!(problems(from_ref(&open), &[other.clone(), open.clone()]).is_empty());
        assert!(problems(from_ref(&open), from_ref(&ended)).is_empty());
        assert!(problems(from_ref(&ended), from_ref(&ended)).is_empty());
        assert_eq!(problems(from_ref(&open), from_ref(&other)), ["identifier"]);
        assert_eq!(problems(&[ended], &[other.clone(), open]), ["identifier[1].period"]);
        assert_eq!(problems(&[other], &[identifier("urn:x:a|2", None, None)]), ["identifier[0].period"]);
    }
}
