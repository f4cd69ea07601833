//! Which fields a body names.

use serde_json::{Map, Value};

use daftar_domain::extension::EXTENSION;
use daftar_domain::field::FieldSet;
use daftar_domain::scope::Resource;
use daftar_service::written;

/// The fields that the members of a body name, `null` ones too: of an `extension` that is an object its keys, of any other the
/// whole.
#[must_use]
pub fn named(resource: Resource, members: &Map<String, Value>) -> FieldSet {
    let mut names: Vec<String> = Vec::with_capacity(members.len());
    for (name, value) in members {
        match value {
            Value::Object(keys) if name == EXTENSION => {
                names.extend(keys.keys().map(|key| format!("{EXTENSION}.{key}")));
            }
            Value::Object(_) | Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                names.push(name.clone())
            }
        }
    }
    written::named(resource, names.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(body: Value) -> FieldSet {
        let Value::Object(members) = body else { unreachable!() };
        named(Resource::Individual, &members)
    }

    #[test]
    fn names_what_is_there_and_the_keys_of_extensions() {
        let fields = of(json!({"type": "Individual", "gender": null, "extension": {"farmer": {}, "herder": null}}));
        for field in ["gender", "extension.farmer", "extension.herder"] {
            assert!(fields.names(field), "{field}");
        }
        assert!(!fields.names("extension") && !fields.names("name"));
        assert!(of(json!({"extension": null})).names("extension"));
        assert_eq!(of(json!({"extension": {}, "meta": {}, "no_field": 1})), FieldSet::none());
    }
}
