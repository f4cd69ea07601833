//! What a rule reads of the register needs the scope and the field that a read of it would need.

use std::collections::BTreeSet;

use super::evaluate::SubjectInput;
use super::schema::ROLE_PATH;
use crate::visibility;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{Diagnostic, Reference, RowSpace, Severity, Subject};
use daftar_domain::error::{AppError, FieldUse};
use daftar_domain::scope::{Action, Resource, Scope};
use daftar_domain::subject::SubjectReference;

/// Checks that the client may read of the register what a rule about these subjects reads. Records given in the request are the
/// client's own.
///
/// # Errors
/// [`AppError::MissingScope`], [`AppError::FieldNotGranted`].
pub(super) fn check(ctx: &OpContext, references: &[Reference], subjects: &[SubjectInput]) -> Result<(), AppError> {
    Subject::ALL
        .into_iter()
        .filter(|kind| subjects.iter().any(|subject| stored(subject) == Some(*kind)))
        .try_for_each(|kind| check_stored(ctx, kind, references))
}

/// Checks that the client may read of the register what a rule about subjects of that kind reads.
///
/// # Errors
/// As [`check`].
pub(super) fn check_stored(ctx: &OpContext, kind: Subject, references: &[Reference]) -> Result<(), AppError> {
    let mut needs = vec![(resource_of(kind), None)];
    for reference in references {
        needs.extend(needs_of(kind, reference.space, &reference.path));
    }
    for (resource, _) in &needs {
        if !ctx.holds(*resource, Action::Read) {
            return Err(missing_scope(ctx, *resource));
        }
    }
    for (resource, path) in needs {
        if let Some(path) = path {
            visibility::check_read(ctx, resource, path, FieldUse::Rule)?;
        }
    }
    Ok(())
}

/// What a rule reads that this client may not read of the register: on stored records it is refused for that. Nothing is said to
/// a client that may not read such subjects at all: its rules are about records that it brings.
pub(super) fn gaps(ctx: &OpContext, kind: Subject, references: &[Reference]) -> Vec<Diagnostic> {
    if !ctx.holds(resource_of(kind), Action::Read) {
        return Vec::new();
    }
    let mut told = BTreeSet::new();
    let mut gaps = Vec::new();
    for reference in references {
        for (resource, path) in needs_of(kind, reference.space, &reference.path) {
            let Some((code, error)) = gap(ctx, resource, path) else { continue };
            let message =
                format!("a rule that reads `{}` is refused on records of the register: {error}", reference.name());
            if told.insert(message.clone()) {
                gaps.push(Diagnostic {
                    severity: Severity::Warning,
                    code: code.to_owned(),
                    message,
                    // An engine may say nothing of use: then it is the rule as a whole.
                    line: reference.line.max(1),
                    column: reference.column.max(1),
                    length: reference.length,
                    suggestion: None,
                });
            }
        }
    }
    gaps
}

/// Why a field cannot be read, under the stable name of the reason.
fn gap(ctx: &OpContext, resource: Resource, path: Option<&str>) -> Option<(&'static str, AppError)> {
    if !ctx.holds(resource, Action::Read) {
        return Some(("missing_scope", missing_scope(ctx, resource)));
    }
    let error = visibility::check_read(ctx, resource, path?, FieldUse::Rule).err()?;
    Some(("field_not_granted", error))
}

fn missing_scope(ctx: &OpContext, resource: Resource) -> AppError {
    let required = Scope::new(resource, Action::Read).to_string();
    AppError::MissingScope { required, granted: ctx.scopes.clone() }
}

/// Whether the client may see whether a fact is there, named as rules name missing facts: `me.gender`, `members`.
#[must_use]
pub fn may_be_told(ctx: &OpContext, kind: Subject, fact: &str) -> bool {
    let (root, path) = fact.split_once('.').unwrap_or((fact, ""));
    let spaces = [RowSpace::Me, RowSpace::Members, RowSpace::Programs];
    let Some(space) = spaces.into_iter().find(|space| space.name() == root.trim_end_matches("[]")) else {
        return true;
    };
    let mut needs = needs_of(kind, space, path).into_iter();
    needs.all(|(resource, path)| match path {
        Some(path) => visibility::check_read(ctx, resource, path, FieldUse::Rule).is_ok(),
        None => ctx.holds(resource, Action::Read),
    })
}

fn stored(subject: &SubjectInput) -> Option<Subject> {
    match subject {
        SubjectInput::Reference(kind, _) | SubjectInput::Stored(SubjectReference { kind, .. }) => Some(*kind),
        SubjectInput::Inline(_) => None,
    }
}

fn resource_of(kind: Subject) -> Resource {
    kind.record_kind().resource()
}

/// What one path of a rule about such subjects reads: whose field, or whose records at all.
fn needs_of(kind: Subject, space: RowSpace, path: &str) -> Vec<(Resource, Option<&str>)> {
    match space {
        RowSpace::Me if path == ROLE_PATH => household(kind),
        RowSpace::Me => vec![(resource_of(kind), Some(path))],
        RowSpace::Members => {
            let mut needs =
                vec![(Resource::Individual, Some(path).filter(|path| !path.is_empty() && *path != ROLE_PATH))];
            needs.extend(household(kind));
            needs
        }
        RowSpace::Programs => {
            let membership = Resource::ProgramMembership;
            let field = Some(path).filter(|path| !path.is_empty());
            vec![(membership, field), (membership, Some("beneficiary"))]
        }
    }
}

/// Who lives with a subject is told by the members of groups, and of a person by which of its groups is a household in use.
fn household(kind: Subject) -> Vec<(Resource, Option<&'static str>)> {
    let group = Resource::Group;
    match kind {
        Subject::Individual => vec![(group, Some("member")), (group, Some("group_type")), (group, Some("active"))],
        Subject::Group => vec![(group, Some("member"))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(kind: Subject, space: RowSpace, path: &str) -> Vec<String> {
        let needs = needs_of(kind, space, path).into_iter();
        needs.map(|(resource, path)| format!("{}.{}", resource.name(), path.unwrap_or("*"))).collect()
    }

    #[test]
    fn a_path_needs_its_field_and_how_its_rows_are_found() {
        use Subject::{Group, Individual};
        let household = ["group.member", "group.group_type", "group.active"];
        assert_eq!(needs(Individual, RowSpace::Me, "gender"), ["individual.gender"]);
        assert_eq!(needs(Group, RowSpace::Me, "name"), ["group.name"]);
        assert_eq!(needs(Individual, RowSpace::Me, "role"), household);
        let members = |first| [[first].as_slice(), &household].concat();
        assert_eq!(needs(Individual, RowSpace::Members, "gender"), members("individual.gender"));
        assert_eq!(needs(Individual, RowSpace::Members, "role"), members("individual.*"));
        assert_eq!(needs(Individual, RowSpace::Members, ""), members("individual.*"));
        assert_eq!(needs(Group, RowSpace::Members, "gender"), ["individual.gender", "group.member"]);
        let programs = ["program_membership.status", "program_membership.beneficiary"];
        assert_eq!(needs(Group, RowSpace::Programs, "status"), programs);
    }
}
