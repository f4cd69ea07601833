//! Reads what is granted to a client: a scope, and the fields that it grants access to.

use serde_json::{Map, Value};

use crate::api::dto::reader::{ObjectReader, Problems, text_value};
use daftar_domain::extension::{EXTENSION, ExtensionFields};
use daftar_domain::field::{FieldName, FieldSet, extension_key, fields_of};
use daftar_domain::scope::{Resource, Scope};

/// The most fields that one grant names: more than a resource has.
const FIELDS_MAX: usize = 200;
/// The longest name of a scope or a field that is looked at, in bytes.
const NAME_BYTES_MAX: usize = 100;
/// A misspelt name is at most this far from the right one, and less than a third of its letters.
const NAME_EDITS_MAX: usize = 3;

/// Reads `{scope, fields?}`; every field of the resource, where none are named.
pub fn read_grant(
    members: Map<String, Value>,
    declared: &ExtensionFields,
    problems: &mut Problems,
) -> Option<(Scope, FieldSet)> {
    read_object(ObjectReader::root(members), declared, problems)
}

/// Reads one of the grants of a new client: the scope alone, or as [`read_grant`].
pub fn read_listed(
    path: String,
    item: Value,
    declared: &ExtensionFields,
    problems: &mut Problems,
) -> Option<(Scope, FieldSet)> {
    if item.is_object() {
        return read_object(ObjectReader::at(path, item, problems), declared, problems);
    }
    let text = text_value(&path, item, NAME_BYTES_MAX, problems)?;
    Some((read_scope(path, &text, problems)?, FieldSet::All))
}

fn read_object(
    mut reader: ObjectReader,
    declared: &ExtensionFields,
    problems: &mut Problems,
) -> Option<(Scope, FieldSet)> {
    let text = reader.text("scope", NAME_BYTES_MAX, problems);
    if text.is_none() && !reader.is_problem("scope", problems) {
        problems.add(reader.path_of("scope"), "required", "the scope to grant is needed");
    }
    let at = reader.path_of("fields");
    let items = reader.list("fields", FIELDS_MAX, problems);
    let scope = text.and_then(|text| read_scope(reader.path_of("scope"), &text, problems));
    reader.finish(problems);
    let (scope, Some(items)) = (scope?, items) else { return Some((scope?, FieldSet::All)) };
    if fields_of(scope.resource).is_empty() {
        let message = format!("`{}` has no fields that a grant could be restricted to", scope.resource.name());
        problems.add(at, "contradiction", message);
        return None;
    }
    let mut names = Vec::with_capacity(items.len());
    for (path, item) in items {
        let Some(text) = text_value(&path, item, NAME_BYTES_MAX, problems) else { continue };
        match FieldName::parse(scope.resource, &text) {
            Ok(name) if is_there(&name, declared) => names.push(name),
            Ok(_) | Err(_) => problems.add(path, "unknown_field", unknown(scope.resource, &text, declared)),
        }
    }
    Some((scope, FieldSet::only(names)))
}

fn read_scope(path: String, text: &str, problems: &mut Problems) -> Option<Scope> {
    match Scope::parse(text) {
        Ok(scope) => Some(scope),
        Err(error) => {
            problems.add(path, "unknown_scope", error.to_string());
            None
        }
    }
}

/// Whether a field can hold anything: a key of extensions is declared by an installed module.
fn is_there(name: &FieldName, declared: &ExtensionFields) -> bool {
    extension_key(name.as_str()).is_none_or(|key| keys_of(declared).any(|known| known == key))
}

fn keys_of(declared: &ExtensionFields) -> impl Iterator<Item = &str> {
    declared.iter().filter_map(|field| field.path.as_str().split('.').next())
}

/// What to say of a name that is no field: the nearest that is one, or all of them.
fn unknown(resource: Resource, text: &str, declared: &ExtensionFields) -> String {
    let mut known: Vec<String> = fields_of(resource).iter().map(|name| (*name).to_owned()).collect();
    if fields_of(resource).contains(&EXTENSION) {
        known.extend(keys_of(declared).map(|key| format!("{EXTENSION}.{key}")));
        known.dedup();
    }
    let shown: String = text.chars().filter(|character| !character.is_control()).collect();
    let nearest = known.iter().map(|name| (strsim::damerau_levenshtein(text, name), name)).min();
    let edits_max = (text.chars().count() / 3).clamp(1, NAME_EDITS_MAX);
    match nearest.filter(|(distance, _)| *distance <= edits_max) {
        Some((_, name)) => format!("`{shown}` is no field of `{}`; did you mean `{name}`?", resource.name()),
        None if FieldName::parse(resource, text).is_ok() => {
            format!("no installed module declares `{shown}`; install it first, or grant `{EXTENSION}` as a whole")
        }
        None => format!("`{shown}` is no field of `{}`; it has {}", resource.name(), known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use daftar_domain::error::AppError;
    use daftar_domain::manifest::{ExtensionField, ExtensionFieldKind, ExtensionPath};

    fn declared() -> ExtensionFields {
        let path = ExtensionPath::parse("farmer.plots").unwrap();
        let field = ExtensionField { path, kind: ExtensionFieldKind::Integer, repeated: false, vocabulary: None };
        let mut fields = ExtensionFields::default();
        fields.add(field).unwrap();
        fields
    }

    fn read(body: Value) -> Result<String, String> {
        let Value::Object(members) = body else { unreachable!() };
        let mut problems = Problems::default();
        let grant = read_grant(members, &declared(), &mut problems);
        match problems.finish(grant) {
            Ok(grant) => match grant.unwrap() {
                (scope, FieldSet::All) => Ok(format!("{scope} all")),
                (scope, FieldSet::Only(names)) => {
                    Ok(format!("{scope} {}", names.iter().map(FieldName::as_str).collect::<Vec<_>>().join(",")))
                }
            },
            Err(AppError::Invalid(found)) => Err(format!("{}: {}", found[0].field, found[0].message)),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_grant_is_a_scope_and_perhaps_fields() {
        for (body, grant) in [
            (json!({"scope": "individual:read"}), "individual:read all"),
            (json!({"scope": "individual:read", "fields": null}), "individual:read all"),
            (json!({"scope": "individual:all", "fields": ["name", "birth_date"]}), "individual:all birth_date,name"),
            (json!({"scope": "group:read", "fields": ["extension.farmer"]}), "group:read extension.farmer"),
            (json!({"scope": "program:read", "fields": []}), "program:read "),
        ] {
            assert_eq!(read(body.clone()).as_deref(), Ok(grant), "{body}");
        }
    }

    #[test]
    fn a_wrong_field_is_told_with_the_nearest() {
        for (body, problem) in [
            (json!({"fields": ["name"]}), "scope: the scope to grant is needed"),
            (
                json!({"scope": "individual:read", "fields": ["name", "birthdate"]}),
                "fields[1]: `birthdate` is no field of `individual`; did you mean `birth_date`?",
            ),
            (
                json!({"scope": "group:read", "fields": ["extension.framer"]}),
                "fields[0]: `extension.framer` is no field of `group`; did you mean `extension.farmer`?",
            ),
            (
                json!({"scope": "group:read", "fields": ["extension.health"]}),
                "fields[0]: no installed module declares `extension.health`; install it first, or grant `extension` as a whole",
            ),
            (
                json!({"scope": "vocabulary:read", "fields": ["name"]}),
                "fields: `vocabulary` has no fields that a grant could be restricted to",
            ),
        ] {
            assert_eq!(read(body.clone()), Err(problem.to_owned()), "{body}");
        }
        let far = read(json!({"scope": "program:read", "fields": ["income"]})).unwrap_err();
        assert!(far.contains("`income` is no field of `program`; it has identifier, active, name"), "{far}");
    }
}
