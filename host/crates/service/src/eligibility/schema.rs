//! Which facts of the register a rule may speak of.

use sha2::{Digest, Sha256};

use daftar_domain::eligibility::{Field, FieldType, RowSpace, Schema, Subject};
use daftar_domain::extension::{EXTENSION, ExtensionFields, kind_of};
use daftar_domain::manifest::ExtensionField;
use daftar_domain::record::RecordKind;
use daftar_domain::schema::{self, Kind};
use daftar_domain::vocabulary::CodedField;

/// The path of a person's role in the household.
pub const ROLE_PATH: &str = "role";
/// What stands in a path between a list and a part of each item.
pub(super) const LIST_MARK: &str = "[].";

/// The schema of rules about one kind of subject, with the fields that modules add to records.
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
    Schema { version: digest(subject, &fields), subject, fields }
}

/// The kind of record that the rows of a space are.
pub(super) fn record_kind(subject: Subject, space: RowSpace) -> RecordKind {
    match space {
        RowSpace::Me => subject.record_kind(),
        RowSpace::Members => RecordKind::Individual,
        RowSpace::Programs => RecordKind::ProgramMembership,
    }
}

/// A field and its parts, as far as rules use them, behind the path of the part that it is of: `birth_date`; `name.family` of a part;
/// `address` and `address[].city` of a list of parts; `relationship[].period.start` of a part of such a part.
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

/// A field without its path.
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
    format!("sha256:{}", super::decision::hexadecimal(&hasher.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_names_each_field_once_and_its_digest_tells_the_subjects_apart() {
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
}
