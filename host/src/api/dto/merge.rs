//! A JSON merge patch (RFC 7396): the members of a patch replace those of a body, `null` takes one out.

use serde_json::{Map, Value};

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
