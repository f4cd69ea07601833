//! Every endpoint of the router for clients: its audit entries for allowed and rejected calls.

mod rows;

use std::collections::BTreeSet;

use daftar::api::access::Access;
use daftar::api::router::endpoints;
use daftar_tests::records::{FEMALE, household, path, person, reference};
use daftar_tests::{ApiClient, Response, TestApp};
use serde_json::{Value, json};

use self::rows::{P1, ROWS, Row, membership};
use super::{lines, texts};
use crate::program;

const ORGANIZATION: &str = "Ministry of Health";

/// A register with one record of each kind.
struct World {
    app: TestApp,
    /// Has all scopes.
    client: ApiClient,
    consent: String,
    draft: String,
}

/// Endpoints without personal data: allowed calls are not audited, rejected ones are.
const IMPERSONAL: &[(&str, &str)] = &[
    ("POST", "/Eligibility/$validate"),
    ("GET", "/Vocabulary"),
    ("GET", "/Vocabulary/$search"),
    ("POST", "/Vocabulary/$validate"),
    ("POST", "/Vocabulary/$lookup"),
    ("GET", "/Vocabulary/{namespace}"),
    ("GET", "/Vocabulary/{namespace}/codes"),
    ("GET", "/Vocabulary/{namespace}/codes/{code}"),
    ("GET", "/Vocabulary/{namespace}/search"),
    ("GET", "/Vocabulary/{namespace}/$subsumes"),
    ("GET", "/ConceptGroup"),
    ("GET", "/ConceptGroup/{name}"),
];

/// Endpoints whose entries are calls of other endpoints, each audited on its own.
const OF_OTHERS: &[(&str, &str)] = &[("POST", "/$batch")];

fn world() -> World {
    let app = TestApp::start();
    let resources = ["individual", "group", "program", "program_membership", "consent", "eligibility", "vocabulary"];
    let scopes: Vec<String> = resources.iter().map(|resource| format!("{resource}:all")).collect();
    let client = app.client_of(&app.admin().create_client(&json!({
        "name": "anything", "organization": ORGANIZATION, "scopes": scopes,
        "rate_limit_per_minute": 1_000_000, "rate_limit_per_day": 1_000_000,
    })));
    drop(client.create_individual(&person("1", json!({"name": {"given": "Amina"}, "gender": FEMALE}))));
    drop(client.create_individual(&person("2", json!({}))));
    drop(client.create_group(&household("G1", &[("1", "head")])));
    program::create(&app, "PR1", json!({}));
    drop(client.post("/ProgramMembership", &membership()).expect(201));
    let consent = json!({
        "subject": reference("1"), "grantee": ORGANIZATION, "scopes": ["individual"], "effective_date": "2026-03-01",
    });
    let consent = app.admin().request("POST", "/consents").json(&consent).send().expect(201).json();
    let consent = consent["consent_id"].as_str().unwrap().to_owned();
    let draft = json!({"name": "d", "expression": "true", "subject": "individual"});
    let draft = client.post("/RuleDraft", &draft).expect(201).json()["id"].as_str().unwrap().to_owned();
    World { app, client, consent, draft }
}

fn call(world: &World, row: &Row, client: &ApiClient) -> Response {
    let request = client.request(row.method, &(row.target)(world));
    let request = if row.method == "PUT" { request.header("If-Match", "*") } else { request };
    match row.body {
        Some(body) => request.json(&body()).send(),
        None => request.send(),
    }
}

/// Records and fields of an audit entry, sorted. Consents and rule drafts, whose names are random, are left out.
fn named(line: &Value) -> (Vec<String>, Vec<String>) {
    let sorted = |mut texts: Vec<String>| {
        texts.retain(|text| !text.starts_with("Consent/") && !text.starts_with("RuleDraft/"));
        texts.sort_unstable();
        texts
    };
    (sorted(texts(line, "records")), sorted(texts(line, "fields")))
}

fn sorted(texts: &[&str]) -> Vec<String> {
    let texts: BTreeSet<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    texts.into_iter().collect()
}

#[test]
fn every_endpoint_for_clients_is_in_one_of_the_tables() {
    let for_clients = |access: Access| match access {
        Access::Scopes(_) | Access::AnyClient => true,
        Access::Public | Access::Token | Access::Health => false,
    };
    let of_router: BTreeSet<(String, String)> = endpoints()
        .iter()
        .filter(|endpoint| for_clients(endpoint.access))
        .map(|endpoint| (endpoint.method.to_string(), endpoint.paths[0].clone()))
        .collect();
    let rows = ROWS.iter().map(|row| (row.method, row.path)).chain(IMPERSONAL.iter().chain(OF_OTHERS).copied());
    let of_tables: BTreeSet<(String, String)> =
        rows.map(|(method, path)| (method.to_owned(), format!("/api/v2{path}"))).collect();
    assert_eq!(of_router, of_tables, "the router is on the left, the tables of audited calls on the right");
}

#[test]
fn every_call_that_is_allowed_leaves_a_right_line() {
    let world = world();
    let mut differences = Vec::new();
    for row in ROWS {
        let reported = format!("{} {}", row.method, row.path);
        let response = call(&world, row, &world.client);
        assert_eq!(response.status, row.status, "{reported}: {}", response.text());
        let lines = lines(&world.app, &response);
        let of_action: Vec<&Value> = lines.iter().filter(|line| line["action"] == row.action).collect();
        assert_eq!(of_action.len(), 1, "{reported}: {lines:#?}");
        let line = of_action[0];
        assert_eq!(line["outcome"], "allowed", "{reported}");
        assert_eq!(line["status"], row.status, "{reported}");
        assert_eq!(line["client"], world.client.id(), "{reported}");
        assert_eq!(line["operation"], format!("{} /api/v2{}", row.method, row.path), "{reported}");
        assert!(line["address"].as_str().is_some_and(|address| address.starts_with("127.")), "{reported}: {line}");
        let others: Vec<&Value> = lines.iter().filter(|other| *other != line).collect();
        let found: Vec<_> = [line].iter().chain(&others).map(|line| named(line)).collect();
        let expected = [(row.records, row.fields)].into_iter().chain(row.shown);
        let expected: Vec<_> = expected.map(|(records, fields)| (sorted(records), sorted(fields))).collect();
        if found != expected {
            differences.push(format!("{reported}: {found:?} where {expected:?} was expected"));
        }
        for other in &others {
            assert_eq!(
                (&other["action"], &other["note"]),
                (&json!("read"), &json!("returned in the response")),
                "{reported}"
            );
            assert_eq!((&other["outcome"], &other["status"]), (&json!("allowed"), &json!(row.status)), "{reported}");
        }
        assert!(!json!(lines).to_string().contains("Amina"), "{reported}: no value of a record: {lines:#?}");
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn every_call_without_the_scope_is_audited_with_the_missing_scope() {
    let world = world();
    let other = world.app.client(&["identifier:all"]);
    for row in ROWS {
        let reported = format!("{} {}", row.method, row.path);
        let response = call(&world, row, &other).expect(403);
        let lines = lines(&world.app, &response);
        assert_eq!(lines.len(), 1, "{reported}: {lines:#?}");
        let line = &lines[0];
        assert_eq!((&line["outcome"], &line["status"]), (&json!("refused"), &json!(403)), "{reported}");
        assert_eq!((&line["client"], &line["actor"]), (&json!(other.id()), &json!("client")), "{reported}");
        let reason = line["reason"].as_str().unwrap();
        assert!(reason.starts_with("Missing required scope "), "{reported}: {reason}");
    }
}

#[test]
fn missing_records_and_invalid_requests_are_audited_with_the_record() {
    let world = world();
    let absent = "Individual/urn:svc:vocab:id-type#national_id|absent";
    for (method, resource, body, status) in [
        ("GET", "Individual", None, 404),
        ("GET", "Group", None, 404),
        ("GET", "Program", None, 404),
        ("GET", "ProgramMembership", None, 404),
        ("PATCH", "Individual", Some(json!({"birth_date": "1990-01-01"})), 404),
        ("PUT", "Individual", Some(json!({"surprise": 1})), 422),
        ("PATCH", "Group", Some(json!({"name": 7})), 404),
    ] {
        let request = world.client.request(method, &path(resource, "absent"));
        let response = body.iter().fold(request, |request, body| request.json(body)).send().expect(status);
        let lines = lines(&world.app, &response);
        let reported = format!("{method} {resource}: {lines:#?}");
        assert_eq!(lines.len(), 1, "{reported}");
        assert_eq!((&lines[0]["outcome"], &lines[0]["status"]), (&json!("refused"), &json!(status)), "{reported}");
        assert_eq!(texts(&lines[0], "records"), [absent.replace("Individual", resource)], "{reported}");
    }
    let twice = world.client.post("/Individual", &person("1", json!({}))).expect(409);
    let reported = lines(&world.app, &twice);
    assert_eq!(reported.len(), 1, "{reported:#?}");
    assert_eq!((&reported[0]["action"], texts(&reported[0], "records")), (&json!("create"), vec![P1.to_owned()]));
    let wrong = world.client.post("/Individual", &person("3", json!({"gender": "urn:nowhere#1"}))).expect(422);
    let reported = lines(&world.app, &wrong);
    assert_eq!(reported.len(), 1, "{reported:#?}");
    assert!(reported[0]["reason"].as_str().unwrap().starts_with("gender: "), "{reported:#?}");
}

#[test]
fn fields_that_are_hidden_or_not_requested_are_not_audited() {
    let world = world();
    let credentials = world.app.admin().create_client(&json!({"name": "few", "scopes": []}));
    world.app.admin().grant_fields(&credentials.id, "individual:read", &["gender"]);
    let few = world.app.client_of(&credentials);
    let response = few.get(&path("Individual", "1")).expect(200);
    assert_eq!(texts(&lines(&world.app, &response)[0], "fields"), ["gender", "identifier"]);
    let target = format!("{}?_elements=name", path("Individual", "1"));
    let response = world.client.get(&target).expect(200);
    assert_eq!(texts(&lines(&world.app, &response)[0], "fields"), ["identifier", "name"]);
}

#[test]
fn the_entries_of_a_batch_have_lines_of_their_own() {
    let world = world();
    let entry = |method: &str, url: String| json!({"request": {"method": method, "url": url}});
    let absent = path("Individual", "absent");
    let body = json!({"type": "batch", "entry": [entry("GET", path("Individual", "1")), entry("GET", absent)]});
    let response = world.client.post("/$batch", &body).expect(200);
    let reported: Vec<(String, u64)> = lines(&world.app, &response)
        .iter()
        .map(|line| (line["records"][0].as_str().unwrap_or_default().to_owned(), line["status"].as_u64().unwrap()))
        .collect();
    let absent = "Individual/urn:svc:vocab:id-type#national_id|absent".to_owned();
    let reported: BTreeSet<_> = reported.into_iter().collect();
    assert_eq!(reported, BTreeSet::from([(P1.to_owned(), 200), (absent, 404)]));
}
