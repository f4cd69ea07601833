//! The documented parameters are those that the server accepts.

use std::collections::BTreeSet;

use daftar::api::access::Access;
use daftar::api::endpoint::Endpoint;
use daftar::api::openapi::document::parameters;
use daftar::api::router::endpoints;
use daftar_tests::TestApp;
use serde_json::json;
use utoipa::openapi::path::ParameterIn;

/// The documented query parameters of an endpoint.
fn documented(endpoint: &Endpoint) -> BTreeSet<String> {
    parameters(&endpoint.paths[0], &endpoint.operation)
        .filter(|parameter| parameter.parameter_in == ParameterIn::Query)
        .map(|parameter| parameter.name)
        .collect()
}

/// A valid path.
fn path(endpoint: &Endpoint) -> String {
    endpoint.paths[0]
        .replace("{identifier}", "urn:x%7C1")
        .replace("{member}", "urn:x%7C2")
        .replace("{consent_id}", "123e4567-e89b-42d3-a456-426614174000")
        .replace("{draft_id}", "123e4567-e89b-42d3-a456-426614174000")
        .replace("{namespace}", "urn:iso:std:iso:5218")
        .replace("{code}", "2")
        .replace("{name}", "feminine_gender")
}

#[test]
fn an_unknown_parameter_is_refused_everywhere_naming_those_of_the_document() {
    let app = TestApp::start();
    let resources =
        ["individual", "group", "program", "program_membership", "consent", "vocabulary", "eligibility", "identifier"];
    let scopes = resources.map(|resource| format!("{resource}:all"));
    let client = app.client(&scopes.each_ref().map(String::as_str));
    let mut problems = Vec::new();
    for endpoint in endpoints().iter().filter(|endpoint| counts(endpoint)) {
        let target = format!("{}?definitely-unknown=1", path(endpoint));
        let connection = app.anonymous();
        let mut request = connection.request(endpoint.method.as_str(), &target).bearer(client.token());
        if endpoint.operation.body.is_some() {
            request = request.json(&json!({}));
        }
        let response = request.send();
        let id = endpoint.operation.id;
        if response.status != 400 {
            problems.push(format!("{id}: {} instead of 400", response.status));
            continue;
        }
        let detail = response.detail();
        let known = if detail.ends_with("this call has no parameters") {
            ""
        } else if let Some((_, known)) = detail.split_once("known here: ") {
            known
        } else {
            problems.push(format!("{id}: {detail}"));
            continue;
        };
        let known: BTreeSet<String> = known.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let documented = documented(endpoint);
        if known != documented {
            problems.push(format!("{id}: the server knows {known:?}, the document has {documented:?}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Health checks and OAuth clients add parameters of their own, which RFC 6749 and RFC 8414 ignore.
fn counts(endpoint: &Endpoint) -> bool {
    let ignores = matches!(endpoint.access, Access::Token | Access::Health);
    !ignores && endpoint.operation.id != "readAuthorizationServer"
}
