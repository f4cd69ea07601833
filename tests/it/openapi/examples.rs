//! The examples of the document, sent to a server.

use daftar::api::endpoint::Endpoint;
use daftar::api::openapi::document::parameters;
use daftar::api::openapi::operation::Example;
use daftar::api::router::endpoints;
use daftar_tests::{ApiClient, Response, TestApp, contract};
use serde_json::{Value, json};
use utoipa::openapi::path::ParameterIn;

/// Examples depend on each other: these go first, in this order, the others in the order of the table.
const FIRST: [&str; 3] = ["createIndividual", "createGroup", "createProgramMembership"];
const ORGANIZATION: &str = "Ministry of Health";
/// The consent and the rule draft that the examples name; the test creates each with an id of its own.
const SAMPLE_ID: &str = "123e4567-e89b-42d3-a456-426614174000";

#[test]
fn every_example_is_answered_as_the_document_says() {
    let app = TestApp::start();
    let client = client(&app);
    let program = json!({
        "identifier": [{"system": "urn:svc:vocab:id-type#tax_id", "value": "PENSION"}],
        "name": "Old-age pension", "target_type": "individual",
    });
    drop(app.admin().request("POST", "/programs").json(&program).send().expect(201));
    let mut endpoints = endpoints();
    endpoints.sort_by_key(|endpoint| FIRST.iter().position(|id| *id == endpoint.operation.id).unwrap_or(FIRST.len()));
    let (mut consent, mut draft) = (None, None);
    let mut problems = Vec::new();
    for endpoint in &endpoints {
        for example in &endpoint.operation.examples {
            if let Err(problem) = is_documented(endpoint, example) {
                problems.push(format!("{} `{}`: {problem}", endpoint.operation.id, example.name));
            }
            let needs = |part: &str| endpoint.paths[0].contains(part);
            let id = match () {
                () if needs("{consent_id}") => consent.get_or_insert_with(|| give(&app)).as_str(),
                () if needs("{draft_id}") => draft.get_or_insert_with(|| propose(&client)).as_str(),
                () => "",
            };
            let response = send(&client, endpoint, example, id);
            if response.status != example.status {
                let reported = (endpoint.operation.id, example.name, response.status, example.status);
                problems.push(format!("{reported:?}: {}", response.text()));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A client with all scopes.
fn client(app: &TestApp) -> ApiClient {
    let resources = ["individual", "group", "program", "program_membership", "consent", "vocabulary", "eligibility"];
    let scopes: Vec<String> = resources.iter().map(|resource| format!("{resource}:all")).collect();
    app.client_of(&app.admin().create_client(&json!({
        "name": "examples", "organization": ORGANIZATION, "scopes": scopes,
        "rate_limit_per_minute": 1_000_000, "rate_limit_per_day": 1_000_000,
    })))
}

/// Records the consent of the examples and returns its id.
fn give(app: &TestApp) -> String {
    let body = json!({
        "subject": "Individual/urn:svc:vocab:id-type#national_id|PERSON-1", "grantee": ORGANIZATION,
        "scopes": ["individual"], "effective_date": "2026-01-01",
    });
    let given = app.admin().request("POST", "/consents").json(&body).send().expect(201).json();
    given["consent_id"].as_str().unwrap().to_owned()
}

/// Creates the rule draft of the examples and returns its id.
fn propose(client: &ApiClient) -> String {
    let body = json!({"name": "Pension", "expression": "age_years(me.birth_date) >= 65", "subject": "individual"});
    let created = client.post("/RuleDraft", &body).expect(201).json();
    created["id"].as_str().unwrap().to_owned()
}

/// Tests whether the document contains the example, and a valid request has the documented shape.
fn is_documented(endpoint: &Endpoint, example: &Example) -> Result<(), String> {
    let method = endpoint.method.as_str().to_ascii_lowercase();
    let operation = &contract::api_document()["paths"][&endpoint.documented_path()][method];
    let Some(body) = &example.body else { return Ok(()) };
    for (media_type, content) in operation["requestBody"]["content"].as_object().unwrap() {
        if content["examples"][example.name]["value"] != *body {
            return Err(format!("the document does not show it as {media_type}"));
        }
        if example.status < 400 {
            contract::matches(&content["schema"], body)?;
        }
    }
    Ok(())
}

fn send(client: &ApiClient, endpoint: &Endpoint, example: &Example, id: &str) -> Response {
    let mut path = endpoint.documented_path();
    let mut query = Vec::new();
    let mut headers = Vec::new();
    for parameter in parameters(&endpoint.paths[0], &endpoint.operation) {
        let given = example.parameters.iter().find(|(name, _)| **name == parameter.name);
        let Some((name, value)) = given else {
            assert!(parameter.parameter_in != ParameterIn::Path, "`{}` says no {}", example.name, parameter.name);
            continue;
        };
        let value = if value == SAMPLE_ID { id } else { value };
        match parameter.parameter_in {
            ParameterIn::Path => path = path.replace(&format!("{{{name}}}"), &encoded(value)),
            ParameterIn::Query => query.push(format!("{name}={}", encoded(value))),
            ParameterIn::Header => headers.push((*name, value.to_owned())),
            ParameterIn::Cookie => panic!("no operation takes cookies"),
        }
    }
    let names: Vec<&str> = example.parameters.keys().copied().collect();
    assert_eq!(names.len(), path_count(endpoint) + query.len() + headers.len(), "{names:?} are not all told");
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    let mut request = client.connection().request(endpoint.method.as_str(), &path).bearer(client.token());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    match &example.body {
        Some(body) => request.body(endpoint.operation.body.as_ref().unwrap().media_types[0], body.to_string()).send(),
        None => request.send(),
    }
}

fn path_count(endpoint: &Endpoint) -> usize {
    endpoint.paths[0].matches('{').count()
}

fn encoded(value: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(byte).collect()
}

#[test]
fn a_page_of_a_search_matches_its_link() {
    let app = TestApp::start();
    let client = client(&app);
    let created = client.create_individual(&json!({
        "identifier": [{"system": "urn:svc:vocab:id-type#national_id", "value": "LINK|1"}],
    }));
    // The link of the document, followed as a reader of OpenAPI would.
    let part = |name: &str| created["identifier"][0][name].as_str().unwrap().to_owned();
    let path = format!("/Individual/{}", encoded(&format!("{}|{}", part("system"), part("value"))));
    let read: Value = client.get(&path).expect(200).json();
    assert_eq!(read["identifier"], created["identifier"]);
}
