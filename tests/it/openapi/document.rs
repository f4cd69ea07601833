//! The document itself.

use std::collections::BTreeSet;

use daftar::api::router::endpoints;
use daftar_tests::contract;
use serde_json::Value;

/// Every operation of the document: method, path, operation.
fn operations() -> impl Iterator<Item = (&'static str, &'static str, &'static Value)> {
    let paths = contract::api_document()["paths"].as_object().unwrap().iter();
    paths.flat_map(|(path, item)| {
        item.as_object().unwrap().iter().map(move |(method, operation)| (method.as_str(), path.as_str(), operation))
    })
}

#[test]
fn it_describes_every_endpoint_and_nothing_else() {
    let of_router: BTreeSet<(String, String)> = endpoints()
        .into_iter()
        .map(|endpoint| (endpoint.method.as_str().to_ascii_lowercase(), endpoint.documented_path()))
        .collect();
    let of_document: BTreeSet<(String, String)> =
        operations().map(|(method, path, _)| (method.to_owned(), path.to_owned())).collect();
    assert_eq!(of_router, of_document, "the router is on the left, the document on the right");
    assert_eq!(contract::api_document()["openapi"], "3.1.0");
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk(value: &Value, problems: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(to)) = members.get("$ref") {
                    let found = to.strip_prefix('#').and_then(|path| contract::api_document().pointer(path));
                    problems.extend(found.is_none().then(|| to.clone()));
                }
                members.values().for_each(|value| walk(value, problems));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, problems)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut problems = Vec::new();
    walk(contract::api_document(), &mut problems);
    assert_eq!(problems, [""; 0]);
}

#[test]
fn every_named_shape_is_one_and_is_used() {
    let text = contract::api_document().to_string();
    for (name, shape) in contract::api_document()["components"]["schemas"].as_object().unwrap() {
        drop(contract::matches(shape, &Value::Null));
        assert!(text.contains(&format!("\"#/components/schemas/{name}\"")), "nothing has the shape `{name}`");
        for example in shape["examples"].as_array().into_iter().flatten() {
            assert_eq!(contract::matches(shape, example), Ok(()), "an example of `{name}`");
        }
    }
}

#[test]
fn every_operation_has_a_name_of_its_own_an_example_and_its_path_in_full() {
    let mut names = BTreeSet::new();
    for (method, path, operation) in operations() {
        let name = operation["operationId"].as_str().unwrap();
        assert!(names.insert(name), "`{name}` stands twice");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{name}");
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let of_path = parameters.filter(|parameter| parameter["in"] == "path");
        assert_eq!(of_path.count(), path.matches('{').count(), "{method} {path}: a part of the path is not told");
        assert!(
            operation["responses"].as_object().unwrap().keys().any(|status| status.starts_with(['2', '3'])),
            "{name}"
        );
    }
    let without_example: Vec<&str> = endpoints()
        .iter()
        .map(|endpoint| &endpoint.operation)
        .filter(|operation| operation.examples.is_empty())
        .map(|operation| operation.id)
        .collect();
    // Its examples would be secrets; `token.rs` tests it.
    assert_eq!(without_example, ["issueToken"]);
}

#[test]
fn links_lead_to_operations() {
    let names: BTreeSet<&str> =
        operations().map(|(_, _, operation)| operation["operationId"].as_str().unwrap()).collect();
    let mut links = 0;
    for (_, _, operation) in operations() {
        for response in operation["responses"].as_object().unwrap().values() {
            for link in response["links"].as_object().into_iter().flatten().map(|(_, link)| link) {
                links += 1;
                assert!(names.contains(link["operationId"].as_str().unwrap()), "{link}");
            }
        }
    }
    assert!(links >= 2);
}

#[test]
fn the_documented_scopes_of_an_operation_are_those_of_its_handler() {
    let security = |path: &str, method: &str| contract::api_document()["paths"][path][method]["security"].clone();
    assert_eq!(
        security("/api/v2/Program", "get"),
        serde_json::json!([{"client_credentials": ["program:search"]}, {"client_credentials": ["program:read"]}])
    );
    assert_eq!(security("/api/v2/metadata", "get"), serde_json::json!([]));
    let scopes =
        &contract::api_document()["components"]["securitySchemes"]["client_credentials"]["flows"]["clientCredentials"];
    assert_eq!(scopes["scopes"].as_object().unwrap().len(), 24, "those that open something");
    assert_eq!(
        contract::api_document()["paths"]["/api/v2/Individual/{identifier}"]["get"]["x-also-at"],
        serde_json::json!(["/api/v2/individuals/{identifier}"])
    );
}
