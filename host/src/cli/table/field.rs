//! Which fields the records of each kind have in a table, by the schema, and what their values are.

use super::path::{Path, is_by_system};
use daftar_domain::record::RecordKind;
use daftar_domain::schema::{self, Field, Kind};

/// What the values of a field are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A text.
    Text,
    /// A day.
    Date,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// A code.
    Code,
    /// Codes.
    Codes,
    /// Texts.
    Texts,
    /// A record of that kind, named by its identifier.
    Reference,
    /// People who are members, named by their identifiers.
    Members,
}

/// Identifiers, which every record but a consent has beside the fields of the schema.
const IDENTIFIER: [(&str, Form); 3] = [
    ("identifier[].value", Form::Text),
    ("identifier[].period.start", Form::Date),
    ("identifier[].period.end", Form::Date),
];

/// Every field of a kind with what its values are.
#[must_use]
pub fn fields(kind: RecordKind) -> Vec<(String, Form)> {
    let mut fields = match kind {
        // The server computes it.
        RecordKind::Consent => vec![("status".to_owned(), Form::Text)],
        RecordKind::Individual | RecordKind::Group | RecordKind::Program | RecordKind::ProgramMembership => {
            IDENTIFIER.map(|(path, form)| (path.to_owned(), form)).into()
        }
    };
    schema::fields(kind).iter().for_each(|field| add(&mut fields, field.name.to_owned(), field));
    fields
}

/// Adds a field, or its parts, where tables have it.
fn add(fields: &mut Vec<(String, Form)>, path: String, field: &Field) {
    if field.is_internal || field.is_not_tabular {
        return;
    }
    let form = match &field.kind {
        Kind::List { of: Kind::Code(_), .. } => Form::Codes,
        Kind::List { of: Kind::Struct(part), .. } => {
            let mut parts = part.fields.iter().filter(|part| !part.is_not_tabular);
            let of_item = if is_by_system(&path) { format!("{path}[]") } else { path.clone() };
            match (parts.next(), parts.next()) {
                (Some(Field { kind: Kind::Reference(_), .. }), None) => Form::Members,
                _ => return part.fields.iter().for_each(|part| add(fields, format!("{of_item}.{}", part.name), part)),
            }
        }
        Kind::List { .. } => Form::Texts,
        Kind::Struct(part) => {
            return part.fields.iter().for_each(|part| add(fields, format!("{path}.{}", part.name), part));
        }
        Kind::Boolean => Form::Boolean,
        Kind::Integer | Kind::Number | Kind::Count | Kind::Amount => Form::Number,
        Kind::Date => Form::Date,
        Kind::Code(_) | Kind::ModuleCode => Form::Code,
        Kind::Reference(_) => Form::Reference,
        Kind::Text(_)
        | Kind::Organization
        | Kind::Expression
        | Kind::FieldName
        | Kind::Word(_)
        | Kind::ConsentId
        | Kind::Photo => Form::Text,
    };
    fields.push((path, form));
}

/// What the values of a field are; nothing is known of the fields that modules add, which are texts where nothing else is said.
///
/// # Errors
/// One sentence that names the field, and the nearest that there is.
pub fn form(kind: RecordKind, path: &Path) -> Result<Form, String> {
    let shape = path.shape();
    if shape.starts_with("extension.") {
        return Ok(Form::Text);
    }
    let fields = fields(kind);
    if let Some((_, form)) = fields.iter().find(|(name, _)| *name == shape) {
        return Ok(*form);
    }
    let shown = |name: &str| match name.strip_suffix("[].value") {
        Some(list) => format!("{list}[{}]", system_of(kind, list)),
        None => name.replace("[]", "[…]"),
    };
    let near = nearest(&shape, fields.iter().map(|(name, _)| name.as_str()));
    let hint = near.map(|name| format!("; did you mean `{}`?", shown(name))).unwrap_or_default();
    Err(format!("records of type `{kind}` have no field `{}`{hint}", path.as_str()))
}

/// A system that an item of a list may have, for a hint: the first of its words.
fn system_of(kind: RecordKind, list: &str) -> &'static str {
    let parts = schema::find(schema::fields(kind), list).map(|list| list.kind.parts()).unwrap_or_default();
    match schema::find(parts, "system").map(|system| &system.kind) {
        Some(Kind::Word([first, ..])) => first,
        _ => "SYSTEM",
    }
}

/// The nearest of some names, if one is near.
#[must_use]
pub fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let distance = |known: &str| {
        // A last part alone is often all that was written.
        let last = known.rsplit('.').next().unwrap_or(known);
        let lower = name.to_lowercase();
        strsim::damerau_levenshtein(&lower, &known.to_lowercase())
            .min(strsim::damerau_levenshtein(&lower, &last.to_lowercase()) + 1)
    };
    let near = known.map(|known| (distance(known), known)).min()?;
    (near.0 <= 3.min(name.chars().count() / 2 + 1)).then_some(near.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_known_by_their_shape_and_others_are_told_with_the_nearest() {
        let form_of = |text: &str| form(RecordKind::Individual, &Path::parse(text).unwrap());
        assert_eq!(form_of("name.given"), Ok(Form::Text));
        assert_eq!(form_of("identifier[urn:x:a]"), Ok(Form::Text));
        assert_eq!(form_of("languages"), Ok(Form::Codes));
        assert_eq!(form_of("address[3].country"), Ok(Form::Code));
        assert_eq!(form_of("extension.farmer.crops"), Ok(Form::Text));
        assert!(form_of("birthdate").unwrap_err().ends_with("did you mean `birth_date`?"));
        assert!(form_of("given").unwrap_err().ends_with("did you mean `name.given`?"));
        assert!(form_of("telecom.value").unwrap_err().ends_with("did you mean `telecom[phone]`?"));
        assert!(form_of("identifier.value").unwrap_err().ends_with("did you mean `identifier[SYSTEM]`?"));
        assert!(form_of("shoe_size_in_inches").unwrap_err().ends_with("`shoe_size_in_inches`"));
    }

    #[test]
    fn tables_have_the_fields_of_the_schema() {
        let form_of = |kind, text: &str| form(kind, &Path::parse(text).unwrap()).ok();
        for (kind, path, expected) in [
            (RecordKind::Individual, "telecom[email].use", Form::Text),
            (RecordKind::Individual, "telecom[email].rank", Form::Number),
            (RecordKind::Individual, "address.line", Form::Texts),
            (RecordKind::Individual, "income.currency", Form::Code),
            (RecordKind::Individual, "photo", Form::Text),
            (RecordKind::Group, "identifier[urn:x:a].period.end", Form::Date),
            (RecordKind::Group, "member", Form::Members),
            (RecordKind::Program, "period.start", Form::Date),
            (RecordKind::ProgramMembership, "beneficiary", Form::Reference),
            (RecordKind::ProgramMembership, "override.reason", Form::Text),
            (RecordKind::Consent, "scopes", Form::Texts),
            (RecordKind::Consent, "status", Form::Text),
        ] {
            assert_eq!(form_of(kind, path), Some(expected), "{path}");
        }
        for (kind, path) in [
            (RecordKind::Individual, "telecom[email].system"),
            (RecordKind::Individual, "relationship.type"),
            (RecordKind::Group, "relationship.type"),
            (RecordKind::Group, "member.role"),
            (RecordKind::ProgramMembership, "has_no_identifier"),
            (RecordKind::Consent, "identifier[urn:x:a]"),
            (RecordKind::Consent, "withdrawn"),
        ] {
            assert_eq!(form_of(kind, path), None, "{path}");
        }
    }
}
