//! Which records the references of a draft mean, and the draft with these records and with the codes of the register.
//!
//! **Invariant:** what was received may be sent back. A record whose identifiers have all ended is still shown by one of them; the record
//! that has taken that identifier up since is not put in the place of the one that is referred to.

use std::collections::HashMap;

use crate::codes::{Held, resolve_at};
use crate::registry::Registry;
use crate::{records, subjects, visibility};
use daftar_domain::code::{CodeNumber, CodeUri, CodedValue, EditionNumber};
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::record::{Fields, RecordId, RecordKind, RecordType};
use daftar_domain::value::{CodePlace, Reference, Translate};
use daftar_vocabulary::Generation;

/// Stands where a refused code stood until the whole record is refused, a few lines later; never stored.
const REFUSED: CodedValue = CodedValue { number: CodeNumber(u32::MAX), edition: EditionNumber(u32::MAX) };

/// Stands in the same way where a reference leads nowhere; no record has that key.
pub(crate) const UNRESOLVED: RecordId = RecordId(u64::MAX);

/// How the records that a record refers to are shown now.
#[derive(Debug, Default)]
pub(crate) struct Shown(HashMap<Reference<IdentifierKey>, Option<RecordId>>);

impl Shown {
    /// As records of these identifiers are called.
    pub(crate) fn of<'a>(others: impl Iterator<Item = (Reference, &'a [Identifier])>) -> Self {
        let mut shown: HashMap<Reference<IdentifierKey>, Option<RecordId>> = HashMap::new();
        for (Reference { kind, id }, identifiers) in others {
            let Some(called) = records::called(identifiers) else { continue };
            let called = Reference { kind, id: called.clone() };
            // Two that are called the same cannot be told apart.
            shown.entry(called).and_modify(|one| *one = None).or_insert(Some(id));
        }
        Self(shown)
    }

    /// The record that is shown so.
    pub(crate) fn find(&self, reference: &Reference<IdentifierKey>) -> Option<RecordId> {
        self.0.get(reference).copied().flatten()
    }
}

/// Puts the key of a record in the place of each reference, by its kind.
pub(crate) struct To<F>(pub F);

impl<I, F: FnMut(RecordKind) -> RecordId> Translate<CodedValue, I> for To<F> {
    type Code = CodedValue;
    type Id = RecordId;

    fn code(&mut self, _: CodePlace<'_>, _: &str, code: CodedValue) -> CodedValue {
        code
    }

    fn reference(&mut self, _: &str, reference: Reference<I>) -> Reference {
        Reference { kind: reference.kind, id: (self.0)(reference.kind) }
    }
}

/// The records that the references of a draft mean, or why they mean none.
pub(crate) struct Found(HashMap<Reference<IdentifierKey>, Result<RecordId, FieldProblem>>);

impl Found {
    /// Looks for those that are not shown already.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn of<T: RecordType>(
        ctx: &OpContext,
        registry: &Registry,
        shown: &Shown,
        draft: &Fields<T, CodeUri, IdentifierKey>,
    ) -> Result<Self, AppError> {
        let mut found = HashMap::new();
        for reference in draft.references() {
            if found.contains_key(reference) {
                continue;
            }
            let meant = match shown.find(reference) {
                Some(present) => Ok(present),
                None => match visibility::find(ctx, registry, reference.kind, &reference.id).await {
                    Ok((id, _)) => Ok(id),
                    Err(error) => Err(subjects::leads_nowhere("", error)?),
                },
            };
            found.insert(reference.clone(), meant);
        }
        Ok(Self(found))
    }
}

/// Checks every code of a draft against its field's vocabularies, save those that are held already, and puts the records that were found in
/// the places of references; `references` has them with the record that is changed, or is absent where codes alone are checked. Where that
/// adds problems, the record is none.
pub(crate) fn resolve<T: RecordType>(
    generation: &Generation,
    held: &Held,
    references: Option<(&Found, Option<RecordId>)>,
    draft: Fields<T, CodeUri, IdentifierKey>,
    problems: &mut Vec<FieldProblem>,
) -> Fields<T> {
    let own = draft.identifiers.iter().filter(|identifier| identifier.is_open());
    let own = own.map(|identifier| Reference { kind: T::KIND, id: identifier.key.clone() }).collect();
    let of_references = Vec::new();
    let mut resolving = Resolving { generation, held, references, kind: T::KIND, own, problems, of_references };
    let details = draft.translate(&mut resolving);
    let Resolving { problems, of_references, .. } = resolving;
    problems.extend(of_references);
    details
}

struct Resolving<'r, 'p> {
    generation: &'r Generation,
    held: &'r Held,
    references: Option<(&'r Found, Option<RecordId>)>,
    kind: RecordKind,
    /// How others can refer to the record itself.
    own: Vec<Reference<IdentifierKey>>,
    problems: &'p mut Vec<FieldProblem>,
    /// Told after the problems of codes.
    of_references: Vec<FieldProblem>,
}

impl Translate<CodeUri, IdentifierKey> for Resolving<'_, '_> {
    type Code = CodedValue;
    type Id = RecordId;

    fn code(&mut self, place: CodePlace<'_>, path: &str, code: CodeUri) -> CodedValue {
        resolve_at(self.generation, self.held, (place, path), &code, self.problems).unwrap_or(REFUSED)
    }

    fn reference(&mut self, path: &str, reference: Reference<IdentifierKey>) -> Reference {
        let id = self.meant(path, &reference).unwrap_or(UNRESOLVED);
        Reference { kind: reference.kind, id }
    }
}

impl Resolving<'_, '_> {
    fn meant(&mut self, path: &str, reference: &Reference<IdentifierKey>) -> Option<RecordId> {
        let (found, own) = self.references?;
        let found = found.0.get(reference)?;
        // In a part a reference is an object.
        let field = if path.contains('.') { format!("{path}.reference") } else { path.to_owned() };
        let is_own = |id: RecordId| reference.kind == self.kind && own == Some(id);
        match found {
            Ok(id) if !is_own(*id) && !self.own.contains(reference) => return Some(*id),
            Err(problem) if !self.own.contains(reference) => {
                self.of_references.push(FieldProblem { field, ..problem.clone() });
            }
            Ok(_) | Err(_) => {
                let message = "a record has no relationship to itself".to_owned();
                self.of_references.push(FieldProblem { field, code: "self_reference", message });
            }
        }
        None
    }
}
