//! Finding a record by its identifier, and which systems identifiers may be of.

use crate::domain::code::CodeUri;
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

/// Checks that every identifier is of a known system.
pub fn check_systems(generation: &Generation, identifiers: &[Identifier], problems: &mut Vec<FieldProblem>) {
    for (at, identifier) in identifiers.iter().enumerate() {
        if !is_known_system(generation, identifier) {
            let known: Vec<String> =
                generation.identifier_systems().iter().map(|system| format!("`{}`", system.uri)).collect();
            let message = format!("unknown identifier system; known systems: {}", known.join(", "));
            problems.push(FieldProblem { field: format!("identifier[{at}].system"), code: "unknown_system", message });
        }
    }
}

fn is_known_system(generation: &Generation, identifier: &Identifier) -> bool {
    let system = identifier.key.system.as_str();
    let uri = CodeUri::parse(system).ok().filter(|uri| uri.to_string() == system);
    uri.is_some_and(|uri| generation.check_identifier_system(&uri).is_ok())
}
