//! Defines the facts of the register that a rule may use, and the scope and the field grant that a client requires to
//! read them. They are the same as for a read request of the same facts.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use super::evaluate::SubjectInput;
use crate::visibility;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{Diagnostic, Field, FieldType, Reference, RowSpace, Schema, Severity, Subject};
use daftar_domain::error::{AppError, FieldUse};
use daftar_domain::extension::{EXTENSION, ExtensionFields, kind_of};
use daftar_domain::hexadecimal;
use daftar_domain::manifest::ExtensionField;
use daftar_domain::record::RecordKind;
use daftar_domain::schema::{self, Kind};
use daftar_domain::scope::{Action, Resource, Scope};
use daftar_domain::subject::SubjectReference;
use daftar_domain::vocabulary::CodedField;

/// Path of the role of an individual in the household.
pub const ROLE_PATH: &str = "role";
/// Separator in a path between a list and a part of its items.
pub(super) const LIST_MARK: &str = "[].";

/// Returns the schema of rules about one kind of subject, with the fields that modules add to records.
#[must_use]
pub fn schema(subject: Subject, extension: &ExtensionFields) -> Schema {
    let mut fields = Vec::new();
    for space in [RowSpace::Me, RowSpace::Members, RowSpace::Programs] {
        let kind = record_kind(subject, space);
        fields.extend(schema::fields(kind).iter().flat_map(|field| of_field(space, "", field)));
        if kind == RecordKind::Individual {
            let role = Kind::Code(CodedField::MemberRole);
            fields.push(Field { path: ROLE_PATH.to_owned(), ..of_kind(space, &role) });
        }
        if space != RowSpace::Programs {
            fields.extend(extension.iter().map(|field| of_module(space, field)));
        }
    }
    of_fields(subject, fields)
}

/// Returns the schema of these fields, with its digest.
pub(super) fn of_fields(subject: Subject, fields: Vec<Field>) -> Schema {
    Schema { version: digest(subject, &fields), subject, fields }
}

/// Returns the kind of record of the rows of a space.
pub(super) fn record_kind(subject: Subject, space: RowSpace) -> RecordKind {
    match space {
        RowSpace::Me => subject.record_kind(),
        RowSpace::Members => RecordKind::Individual,
        RowSpace::Programs => RecordKind::ProgramMembership,
    }
}

/// Returns a field and its parts, if rules use them, with the path prefix `before`: `birth_date`; `name.family` for a
/// part; `address` and `address[].city` for a list of parts; `relationship[].period.start` for a part of such a part.
fn of_field(space: RowSpace, before: &str, field: &'static schema::Field) -> Vec<Field> {
    if !field.in_rules {
        return Vec::new();
    }
    let path = format!("{before}{}", field.name);
    let below = |between: &str| -> Vec<Field> {
        let before = format!("{path}{between}");
        field.kind.parts().iter().flat_map(|part| of_field(space, &before, part)).collect()
    };
    if let Kind::Struct(_) = field.kind {
        return below(".");
    }
    let parts = below(LIST_MARK);
    std::iter::once(Field { path, ..of_kind(space, &field.kind) }).chain(parts).collect()
}

/// Returns a field without its path.
fn of_kind(space: RowSpace, kind: &Kind) -> Field {
    let field = |kind, vocabularies: &[&str]| {
        let vocabularies = vocabularies.iter().map(|namespace| (*namespace).to_owned()).collect();
        Field { space, path: String::new(), kind, is_repeated: false, vocabularies }
    };
    match kind {
        Kind::Boolean => field(FieldType::Boolean, &[]),
        Kind::Integer | Kind::Count => field(FieldType::Integer, &[]),
        Kind::Number | Kind::Amount => field(FieldType::Number, &[]),
        Kind::Date => field(FieldType::Date, &[]),
        Kind::Code(coded) => field(FieldType::Coded, coded.namespaces()),
        Kind::ModuleCode => field(FieldType::Coded, &[]),
        Kind::Struct(_) => field(FieldType::Structure, &[]),
        Kind::List { of, .. } => Field { is_repeated: true, ..of_kind(space, of) },
        Kind::Text(_)
        | Kind::Organization
        | Kind::Expression
        | Kind::FieldName
        | Kind::Word(_)
        | Kind::Reference(_)
        | Kind::ConsentId
        | Kind::Photo => field(FieldType::Text, &[]),
    }
}

fn of_module(space: RowSpace, field: &ExtensionField) -> Field {
    Field {
        path: format!("{EXTENSION}.{}", field.path),
        is_repeated: field.repeated,
        vocabularies: field.vocabulary.iter().cloned().collect(),
        ..of_kind(space, kind_of(field.kind))
    }
}

fn digest(subject: Subject, fields: &[Field]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(format!("{subject:?}\n"));
    for field in fields {
        let line = format!(
            "{}.{} {:?} {} {}\n",
            field.space.name(),
            field.path,
            field.kind,
            field.is_repeated,
            field.vocabularies.join(",")
        );
        hasher.update(line);
    }
    format!("sha256:{}", hexadecimal::encode(&hasher.finalize()))
}

/// Checks that the client may read all fields of the register that a rule about these subjects reads. Inline records
/// belong to the client and require no permission.
///
/// # Errors
/// [`AppError::MissingScope`], [`AppError::FieldNotGranted`].
pub(super) fn check(ctx: &OpContext, references: &[Reference], subjects: &[SubjectInput]) -> Result<(), AppError> {
    Subject::ALL
        .into_iter()
        .filter(|kind| subjects.iter().any(|subject| stored_kind(subject) == Some(*kind)))
        .try_for_each(|kind| check_stored(ctx, kind, references))
}

/// Checks that the client may read all fields of the register that a rule about subjects of this kind reads.
///
/// # Errors
/// Same as [`check`].
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

/// Returns a warning for each field of a rule that this client may not read from the register, since the server rejects
/// the rule for stored records. Returns none if the client may not read such subjects at all: its rules are about
/// inline records.
pub(super) fn gaps(ctx: &OpContext, kind: Subject, references: &[Reference]) -> Vec<Diagnostic> {
    if !ctx.holds(resource_of(kind), Action::Read) {
        return Vec::new();
    }
    let mut reported = BTreeSet::new();
    let mut gaps = Vec::new();
    for reference in references {
        for (resource, path) in needs_of(kind, reference.space, &reference.path) {
            let Some((code, error)) = gap(ctx, resource, path) else { continue };
            let message =
                format!("a rule that reads `{}` is refused on records of the register: {error}", reference.name());
            if reported.insert(message.clone()) {
                gaps.push(Diagnostic {
                    severity: Severity::Warning,
                    code: code.to_owned(),
                    message,
                    reason: format!("rule_{code}"),
                    parameters: vec![reference.name()],
                    // If the engine returns no usable position, the warning is about the complete rule.
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

/// Returns the error for which a field cannot be read, with its stable code, or `None` if it can be read.
fn gap(ctx: &OpContext, resource: Resource, path: Option<&str>) -> Option<(&'static str, AppError)> {
    if !ctx.holds(resource, Action::Read) {
        return Some(("missing_scope", missing_scope(ctx, resource)));
    }
    let error = visibility::check_read(ctx, resource, path?, FieldUse::Rule).err()?;
    Some(("field_not_granted", error))
}

/// Returns the error for a client that may not read such records.
pub(super) fn missing_scope(ctx: &OpContext, resource: Resource) -> AppError {
    let required = Scope::new(resource, Action::Read).to_string();
    AppError::MissingScope { required, granted: ctx.scopes.clone() }
}

/// Returns true if the client may read the field of a missing fact. `fact` is named as in missing facts: `me.gender`,
/// `members`.
#[must_use]
pub fn may_be_reported(ctx: &OpContext, kind: Subject, fact: &str) -> bool {
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

fn stored_kind(subject: &SubjectInput) -> Option<Subject> {
    match subject {
        SubjectInput::Reference(kind, _) | SubjectInput::Stored(SubjectReference { kind, .. }) => Some(*kind),
        SubjectInput::Inline(_) => None,
    }
}

fn resource_of(kind: Subject) -> Resource {
    kind.record_kind().resource()
}

/// Returns the resources and fields that a client must be permitted to read for one path of a rule. `None` stands for
/// the records without a particular field.
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

/// Returns the fields required to find the household of a subject: the members of groups, and for an individual also
/// the type and status of its groups.
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

    #[test]
    fn a_schema_names_each_field_once_and_its_digest_distinguishes_the_subjects() {
        for subject in [Subject::Individual, Subject::Group] {
            let schema = schema(subject, &ExtensionFields::default());
            let mut names: Vec<(RowSpace, &str)> =
                schema.fields.iter().map(|field| (field.space, field.path.as_str())).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
        let none = ExtensionFields::default();
        assert_ne!(schema(Subject::Individual, &none).version, schema(Subject::Group, &none).version);
        assert_eq!(schema(Subject::Group, &none).version, schema(Subject::Group, &none).version);
    }

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
