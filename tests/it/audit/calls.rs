//! Every endpoint of the router that is for clients: allowed and refused, what it leaves in the audit log.

use std::collections::BTreeSet;

use daftar::api::access::Access;
use daftar::api::router::endpoints;
use daftar_tests::records::{FEMALE, household, path, person, reference, with};
use daftar_tests::{ApiClient, Response, TestApp};
use serde_json::{Value, json};

use super::{lines, texts};
use crate::program;

const ORGANIZATION: &str = "Ministry of Health";

/// What a call of an endpoint leaves.
struct Row {
    method: &'static str,
    /// The endpoint's first spelling, below the API's base path.
    path: &'static str,
    /// What is asked for, below the base path.
    target: fn(&World) -> String,
    body: Option<fn() -> Value>,
    /// The status for a client that may do anything.
    status: u16,
    action: &'static str,
    /// Records that its line names.
    records: &'static [&'static str],
    /// Fields that it names, among others.
    fields: &'static [&'static str],
}

/// A register with one of everything.
struct World {
    app: TestApp,
    /// May do anything.
    client: ApiClient,
    consent: String,
}

const P1: &str = "Individual/urn:svc:vocab:id-type#national_id|1";
const G1: &str = "Group/urn:svc:vocab:id-type#national_id|G1";
const PR1: &str = "Program/urn:svc:vocab:id-type#national_id|PR1";
const M1: &str = "ProgramMembership/urn:svc:vocab:id-type#national_id|M1";

const ROWS: &[Row] = &[
    Row {
        method: "GET",
        path: "/Individual",
        target: |_| "/Individual?name=amina".to_owned(),
        body: None,
        status: 200,
        action: "search",
        records: &[P1],
        fields: &["identifier", "name", "gender"],
    },
    Row {
        method: "POST",
        path: "/Individual",
        target: |_| "/Individual".to_owned(),
        body: Some(|| person("new", json!({"birth_date": "1990-01-02"}))),
        status: 201,
        action: "create",
        records: &["Individual/urn:svc:vocab:id-type#national_id|new"],
        fields: &["identifier", "birth_date"],
    },
    Row {
        method: "GET",
        path: "/Individual/{identifier}",
        target: |_| path("Individual", "1"),
        body: None,
        status: 200,
        action: "read",
        records: &[P1],
        fields: &["identifier", "name", "gender"],
    },
    Row {
        method: "PATCH",
        path: "/Individual/{identifier}",
        target: |_| path("Individual", "1"),
        body: Some(|| json!({"birth_date": "1991-01-01"})),
        status: 200,
        action: "update",
        records: &[P1],
        fields: &["birth_date"],
    },
    Row {
        method: "PUT",
        path: "/Individual/{identifier}",
        target: |_| path("Individual", "1"),
        body: Some(|| person("1", json!({"name": {"given": "Amina"}, "gender": FEMALE}))),
        status: 200,
        action: "update",
        records: &[P1],
        fields: &["birth_date"],
    },
    Row {
        method: "POST",
        path: "/Group",
        target: |_| "/Group".to_owned(),
        body: Some(|| household("G2", &[])),
        status: 201,
        action: "create",
        records: &["Group/urn:svc:vocab:id-type#national_id|G2"],
        fields: &["identifier", "group_type", "member"],
    },
    Row {
        method: "GET",
        path: "/Group",
        target: |_| "/Group".to_owned(),
        body: None,
        status: 200,
        action: "search",
        records: &[G1],
        fields: &["identifier", "member"],
    },
    Row {
        method: "GET",
        path: "/Group/{identifier}",
        target: |_| path("Group", "G1"),
        body: None,
        status: 200,
        action: "read",
        records: &[G1, P1],
        fields: &["identifier", "member"],
    },
    Row {
        method: "PATCH",
        path: "/Group/{identifier}",
        target: |_| path("Group", "G1"),
        body: Some(|| json!({"name": "the first"})),
        status: 200,
        action: "update",
        records: &[G1],
        fields: &["name"],
    },
    Row {
        method: "PUT",
        path: "/Group/{identifier}",
        target: |_| path("Group", "G1"),
        body: Some(|| household("G1", &[("1", "head")])),
        status: 200,
        action: "update",
        records: &[G1],
        fields: &["name"],
    },
    Row {
        method: "GET",
        path: "/Individual/{identifier}/groups",
        target: |_| format!("{}/groups", path("Individual", "1")),
        body: None,
        status: 200,
        action: "read",
        records: &[P1, G1],
        fields: &[],
    },
    Row {
        method: "POST",
        path: "/Group/{identifier}/$add-member",
        target: |_| format!("{}/$add-member", path("Group", "G1")),
        body: Some(|| json!({"entity": {"reference": reference("2")}})),
        status: 201,
        action: "update",
        records: &[G1],
        fields: &["member"],
    },
    Row {
        method: "PATCH",
        path: "/Group/{identifier}/member/{member}",
        target: |_| format!("{}/member/{}", path("Group", "G1"), path("x", "2").trim_start_matches("/x/")),
        body: Some(|| json!({"period": {"start": "2026-01-01"}})),
        status: 200,
        action: "update",
        records: &[G1],
        fields: &["member"],
    },
    Row {
        method: "POST",
        path: "/Group/{identifier}/$remove-member",
        target: |_| format!("{}/$remove-member", path("Group", "G1")),
        body: Some(|| json!({"entity": {"reference": reference("2")}})),
        status: 200,
        action: "update",
        records: &[G1],
        fields: &["member"],
    },
    Row {
        method: "GET",
        path: "/Group/{identifier}/membership-history",
        target: |_| format!("{}/membership-history", path("Group", "G1")),
        body: None,
        status: 200,
        action: "read",
        records: &[G1, P1],
        fields: &[],
    },
    Row {
        method: "GET",
        path: "/Program",
        target: |_| "/Program".to_owned(),
        body: None,
        status: 200,
        action: "search",
        records: &[PR1],
        fields: &["identifier", "name"],
    },
    Row {
        method: "GET",
        path: "/Program/{identifier}",
        target: |_| path("Program", "PR1"),
        body: None,
        status: 200,
        action: "read",
        records: &[PR1],
        fields: &["identifier", "name"],
    },
    Row {
        method: "POST",
        path: "/ProgramMembership",
        target: |_| "/ProgramMembership".to_owned(),
        body: Some(|| json!({"program": PR1, "beneficiary": reference("2"), "status": "draft"})),
        status: 201,
        action: "create",
        records: &["Individual/urn:svc:vocab:id-type#national_id|2", PR1],
        fields: &["program", "beneficiary", "status"],
    },
    Row {
        method: "GET",
        path: "/ProgramMembership",
        target: |_| "/ProgramMembership".to_owned(),
        body: None,
        status: 200,
        action: "search",
        records: &[P1],
        fields: &["beneficiary", "status"],
    },
    Row {
        method: "GET",
        path: "/ProgramMembership/{identifier}",
        target: |_| path("ProgramMembership", "M1"),
        body: None,
        status: 200,
        action: "read",
        records: &[M1],
        fields: &["beneficiary", "status"],
    },
    Row {
        method: "PUT",
        path: "/ProgramMembership/{identifier}",
        target: |_| path("ProgramMembership", "M1"),
        body: Some(|| with(membership(), json!({"status": "enrolled"}))),
        status: 200,
        action: "update",
        records: &[P1, PR1, M1],
        fields: &["status"],
    },
    Row {
        method: "GET",
        path: "/Consent/{consent_id}",
        target: |world| format!("/Consent/{}", world.consent),
        body: None,
        status: 200,
        action: "read",
        records: &[P1],
        fields: &["subject", "status"],
    },
    Row {
        method: "DELETE",
        path: "/Consent/{consent_id}",
        target: |world| format!("/Consent/{}", world.consent),
        body: None,
        status: 204,
        action: "update",
        records: &[P1],
        fields: &[],
    },
    Row {
        method: "POST",
        path: "/Eligibility/$evaluate",
        target: |_| "/Eligibility/$evaluate".to_owned(),
        body: Some(|| json!({"expression": "is_female(me)", "subjects": [reference("1")]})),
        status: 200,
        action: "evaluate",
        records: &[P1],
        fields: &[],
    },
];

/// Endpoints that say nothing of a person: what they allow leaves no line. What they refuse does.
const IMPERSONAL: &[(&str, &str)] = &[
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

/// Endpoints whose entries are calls of others, each with lines of its own.
const OF_OTHERS: &[(&str, &str)] = &[("POST", "/$batch")];

fn membership() -> Value {
    json!({"program": PR1, "beneficiary": reference("1"), "status": "draft",
        "identifier": [{"system": daftar_tests::records::NATIONAL_ID, "value": "M1"}]})
}

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
    World { app, client, consent }
}

fn call(world: &World, row: &Row, client: &ApiClient) -> Response {
    let request = client.request(row.method, &(row.target)(world));
    match row.body {
        Some(body) => request.json(&body()).send(),
        None => request.send(),
    }
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
    for row in ROWS {
        let told = format!("{} {}", row.method, row.path);
        let response = call(&world, row, &world.client);
        assert_eq!(response.status, row.status, "{told}: {}", response.text());
        let lines = lines(&world.app, &response);
        let of_action: Vec<&Value> = lines.iter().filter(|line| line["action"] == row.action).collect();
        assert_eq!(of_action.len(), 1, "{told}: {lines:#?}");
        let line = of_action[0];
        assert_eq!(line["outcome"], "allowed", "{told}");
        assert_eq!(line["status"], row.status, "{told}");
        assert_eq!(line["client"], world.client.id(), "{told}");
        assert_eq!(line["operation"], format!("{} /api/v2{}", row.method, row.path), "{told}");
        assert!(line["address"].as_str().is_some_and(|address| address.starts_with("127.")), "{told}: {line}");
        let (records, fields) = (texts(line, "records"), texts(line, "fields"));
        for record in row.records {
            assert!(records.iter().any(|named| named == record), "{told}: {record} in {records:?}");
        }
        for field in row.fields {
            assert!(fields.iter().any(|named| named == field), "{told}: {field} in {fields:?}");
        }
        assert!(!line.to_string().contains("Amina"), "{told}: no value of a record: {line}");
    }
}

#[test]
fn every_call_without_the_scope_leaves_a_line_that_says_which_is_missing() {
    let world = world();
    let stranger = world.app.client(&["identifier:all"]);
    for row in ROWS {
        let told = format!("{} {}", row.method, row.path);
        let response = call(&world, row, &stranger).expect(403);
        let lines = lines(&world.app, &response);
        assert_eq!(lines.len(), 1, "{told}: {lines:#?}");
        let line = &lines[0];
        assert_eq!((&line["outcome"], &line["status"]), (&json!("refused"), &json!(403)), "{told}");
        assert_eq!((&line["client"], &line["actor"]), (&json!(stranger.id()), &json!("client")), "{told}");
        let reason = line["reason"].as_str().unwrap();
        assert!(reason.starts_with("Missing required scope "), "{told}: {reason}");
    }
}

#[test]
fn what_is_not_there_and_what_is_wrong_leave_a_line_that_names_the_record() {
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
        let told = format!("{method} {resource}: {lines:#?}");
        assert_eq!(lines.len(), 1, "{told}");
        assert_eq!((&lines[0]["outcome"], &lines[0]["status"]), (&json!("refused"), &json!(status)), "{told}");
        assert_eq!(texts(&lines[0], "records"), [absent.replace("Individual", resource)], "{told}");
    }
    let twice = world.client.post("/Individual", &person("1", json!({}))).expect(409);
    let told = lines(&world.app, &twice);
    assert_eq!(told.len(), 1, "{told:#?}");
    assert_eq!((&told[0]["action"], texts(&told[0], "records")), (&json!("create"), vec![P1.to_owned()]));
    let wrong = world.client.post("/Individual", &person("3", json!({"gender": "urn:nowhere#1"}))).expect(422);
    let told = lines(&world.app, &wrong);
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0]["reason"].as_str().unwrap().starts_with("gender: "), "{told:#?}");
}

#[test]
fn what_a_client_may_not_see_or_does_not_ask_for_is_not_among_the_fields() {
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
    let told: Vec<(String, u64)> = lines(&world.app, &response)
        .iter()
        .map(|line| (line["records"][0].as_str().unwrap_or_default().to_owned(), line["status"].as_u64().unwrap()))
        .collect();
    let absent = "Individual/urn:svc:vocab:id-type#national_id|absent".to_owned();
    let told: BTreeSet<_> = told.into_iter().collect();
    assert_eq!(told, BTreeSet::from([(P1.to_owned(), 200), (absent, 404)]));
}
