//! Which facts of the register a rule may speak of.

use sha2::{Digest, Sha256};

use daftar_domain::eligibility::{Field, FieldType, RowSpace, Schema, Subject};
use daftar_domain::extension::{EXTENSION, ExtensionFields};
use daftar_domain::manifest::ExtensionFieldKind;
use daftar_domain::vocabulary::CodedField;

/// The path of a person's role in the household.
pub const ROLE_PATH: &str = "role";

/// The schema of rules about one kind of subject, with the fields that modules add to records.
#[must_use]
pub fn schema(subject: Subject, extension: &ExtensionFields) -> Schema {
    let mut fields = Vec::new();
    match subject {
        Subject::Individual => person_fields(RowSpace::Me, &mut fields),
        Subject::Group => group_fields(&mut fields),
    }
    extension_fields(RowSpace::Me, extension, &mut fields);
    person_fields(RowSpace::Members, &mut fields);
    extension_fields(RowSpace::Members, extension, &mut fields);
    program_fields(&mut fields);
    Schema { version: digest(subject, &fields), subject, fields }
}

fn person_fields(space: RowSpace, fields: &mut Vec<Field>) {
    let mut add = |path: &str, kind, is_repeated, vocabularies: &[&str]| {
        let vocabularies = vocabularies.iter().map(|namespace| (*namespace).to_owned()).collect();
        fields.push(Field { space, path: path.to_owned(), kind, is_repeated, vocabularies });
    };
    add("active", FieldType::Boolean, false, &[]);
    for path in ["name.family", "name.given", "name.middle", "name.prefix", "name.suffix", "name.text"] {
        add(path, FieldType::Text, false, &[]);
    }
    add("birth_date", FieldType::Date, false, &[]);
    add("birth_date_estimated", FieldType::Boolean, false, &[]);
    add("deceased_date", FieldType::Date, false, &[]);
    for field in CodedField::individual_singles() {
        add(field.path(), FieldType::Coded, false, field.namespaces());
    }
    for field in CodedField::individual_lists() {
        add(field.path(), FieldType::Coded, true, field.namespaces());
    }
    add("income.amount", FieldType::Number, false, &[]);
    add("income.currency", FieldType::Coded, false, CodedField::IncomeCurrency.namespaces());
    add("income.period", FieldType::Text, false, &[]);
    add("address", FieldType::Structure, true, &[]);
    for part in ["type", "text", "city", "district", "region", "postal_code"] {
        add(&format!("address[].{part}"), FieldType::Text, false, &[]);
    }
    add("address[].country", FieldType::Coded, false, CodedField::AddressCountry.namespaces());
    add(ROLE_PATH, FieldType::Coded, false, CodedField::MemberRole.namespaces());
}

fn group_fields(fields: &mut Vec<Field>) {
    let mut add = |path: &str, kind, vocabularies: &[&str]| {
        let vocabularies = vocabularies.iter().map(|namespace| (*namespace).to_owned()).collect();
        fields.push(Field { space: RowSpace::Me, path: path.to_owned(), kind, is_repeated: false, vocabularies });
    };
    add("active", FieldType::Boolean, &[]);
    add("name", FieldType::Text, &[]);
    add("group_type", FieldType::Coded, CodedField::GroupType.namespaces());
    add("housing_type", FieldType::Coded, CodedField::HousingType.namespaces());
}

fn extension_fields(space: RowSpace, extension: &ExtensionFields, fields: &mut Vec<Field>) {
    fields.extend(extension.iter().map(|field| Field {
        space,
        path: format!("{EXTENSION}.{}", field.path),
        kind: match field.kind {
            ExtensionFieldKind::Boolean => FieldType::Boolean,
            ExtensionFieldKind::Integer => FieldType::Integer,
            ExtensionFieldKind::Number => FieldType::Number,
            ExtensionFieldKind::Text => FieldType::Text,
            ExtensionFieldKind::Date => FieldType::Date,
            ExtensionFieldKind::Coded => FieldType::Coded,
        },
        is_repeated: field.repeated,
        vocabularies: field.vocabulary.iter().cloned().collect(),
    }));
}

fn program_fields(fields: &mut Vec<Field>) {
    for (path, kind) in [
        ("program", FieldType::Text),
        ("status", FieldType::Text),
        ("enrollment_date", FieldType::Date),
        ("exit_date", FieldType::Date),
        ("exit_reason", FieldType::Text),
    ] {
        let space = RowSpace::Programs;
        fields.push(Field { space, path: path.to_owned(), kind, is_repeated: false, vocabularies: Vec::new() });
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
