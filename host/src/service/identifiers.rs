//! Finding a record by its identifier, and which systems identifiers may be of.

use crate::domain::identifier::{Identifier, IdentifierKey};
use crate::domain::record::{RecordId, RecordKind};
use crate::error::{AppError, FieldProblem};
use crate::store::Store;
use crate::vocab::Generation;

/// How many former holders of one identifier are looked at: more than one is ambiguous already.
const OWNERS_MAX: usize = 16;

/// The record that an identifier addresses: the one that holds it now, or else the only one that ever did.
///
/// # Errors
/// [`AppError::NotFound`] when nobody ever did, [`AppError::Ambiguous`] when several did and none does now.
pub async fn find(store: &dyn Store, kind: RecordKind, key: &IdentifierKey) -> Result<RecordId, AppError> {
    let owners = store.identifier_owners(kind, key, OWNERS_MAX).await?;
    if let Some(holder) = owners.iter().find(|owner| owner.is_open) {
        return Ok(holder.id);
    }
    match owners.as_slice() {
        [] => Err(AppError::NotFound(kind)),
        [only] => Ok(only.id),
        [_, ..] => Err(AppError::Ambiguous),
    }
}

/// Checks that a record of that kind may be given each of the identifiers: its system is known, meant for such records, and
/// the value looks like one of it. A value is never repeated.
pub fn check(generation: &Generation, kind: RecordKind, identifiers: &[Identifier], problems: &mut Vec<FieldProblem>) {
    for (at, identifier) in identifiers.iter().enumerate() {
        if let Err(problem) = generation.check_identifier(kind, identifier) {
            let field = format!("identifier[{at}].{}", problem.member());
            problems.push(FieldProblem { field, code: problem.code(), message: problem.to_string() });
        }
    }
}
