//! A JSON merge patch (RFC 7396): the members of a patch replace those of a body, `null` takes one out.
//!
//! Which fields a body names.

use serde::Serialize;
use serde_json::{Map, Value};

use daftar_domain::error::AppError;
use daftar_domain::extension::EXTENSION;
use daftar_domain::field::FieldSet;
use daftar_domain::scope::Resource;
use daftar_service::written;

/// The members of a body as it is shown, with a patch applied.
///
/// Codes are texts there: a patch that names another code, in whatever form, is not mixed with the one that is there.
///
/// # Errors
/// [`AppError::Internal`] when what is shown is no object.
pub fn patched(shown: impl Serialize, patch: Map<String, Value>) -> Result<Map<String, Value>, AppError> {
    let mut shown = serde_json::to_value(shown).map_err(|error| AppError::Internal(error.into()))?;
    codes_as_texts(&mut shown);
    let Value::Object(mut members) = shown else {
        return Err(AppError::internal("a record is written as something else than an object"));
    };
    merge(&mut members, patch);
    Ok(members)
}

/// Puts the URI of a coded object in its place, wherever one lies.
fn codes_as_texts(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let is_code = members.len() == 4
                && ["uri", "code", "display", "namespace"]
                    .iter()
                    .all(|name| members.get(*name).is_some_and(Value::is_string));
            if is_code {
                let uri = members.remove("uri").unwrap_or_default();
                *value = uri;
            } else {
                members.values_mut().for_each(codes_as_texts);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(codes_as_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Applies a patch. The depth of both was bounded when they were read.
pub fn merge(body: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, value) in patch {
        match value {
            Value::Null => {
                body.remove(&name);
            }
            Value::Object(patch) => {
                if !matches!(body.get(&name), Some(Value::Object(_))) {
                    body.insert(name.clone(), Value::Object(Map::new()));
                }
                if let Some(Value::Object(inner)) = body.get_mut(&name) {
                    merge(inner, patch);
                }
            }
            other => {
                body.insert(name, other);
            }
        }
    }
}

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

    #[test]
    fn another_code_is_not_mixed_with_the_one_that_is_there() {
        let code = json!({"uri": "urn:x#1", "code": "1", "display": "One", "namespace": "urn:x"});
        let shown = json!({"gender": code, "address": [{"country": code}], "name": {"given": "A"}});
        let Value::Object(patch) = json!({"gender": {"namespace": "urn:x", "code": "2"}}) else { unreachable!() };
        let members = patched(shown, patch).unwrap();
        let expected = json!({"gender": {"namespace": "urn:x", "code": "2"}, "address": [{"country": "urn:x#1"}], "name": {"given": "A"}});
        assert_eq!(Value::Object(members), expected);
    }

    #[test]
    fn does_what_the_appendix_of_the_rfc_shows() {
        for (body, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            let (Value::Object(mut merged), Value::Object(patch)) = (body, patch) else { unreachable!() };
            merge(&mut merged, patch);
            assert_eq!(Value::Object(merged), expected);
        }
    }
}

#[cfg(test)]
mod named_tests {
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
