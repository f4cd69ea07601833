//! Each entry by itself.

use daftar_tests::TestApp;
use daftar_tests::records::{NATIONAL_ID, path, person, reference};
use serde_json::json;

use super::{create, entry, family, get, people, send, statuses};
use crate::program;

#[test]
fn entries_succeed_and_fail_by_themselves_in_order() {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "vocabulary:read"]);
    let mut stale = entry("PATCH", &path("Individual", "1"), json!({"active": false}));
    stale["request"]["if_match"] = "\"4\"".into();
    let entries = vec![
        create("1", 1),
        create("1", 2),
        get(&path("Individual", "1")),
        family("H", &[reference("1")]),
        entry("POST", "individuals", person("2", json!({"gender": "urn:iso:std:iso:5218#7"}))),
        get("/api/v2/individuals?_count=0"),
        stale,
        get("Nothing/at/all"),
        get("Vocabulary/urn:iso:std:iso:5218/codes/2"),
        entry("PUT", &path("individuals", "1"), person("1", json!({"name": {"given": "Amina"}}))),
        get("Individual/urn:svc:vocab:id-type|1"),
    ];
    let response = send(&client, "batch", entries).expect(200);
    assert_eq!(statuses(&response), [201, 409, 200, 403, 422, 400, 409, 404, 200, 200, 404]);
    let body = response.json();
    assert_eq!(body["type"], "batch-response");
    for (at, part) in body["entry"].as_array().unwrap().iter().enumerate() {
        let is_refused = part["response"]["status"].as_i64().unwrap() >= 400;
        assert_eq!((part.get("problem").is_some(), part.get("resource").is_some()), (is_refused, !is_refused), "{at}");
    }
    let forbidden = &body["entry"][3]["problem"];
    assert_eq!(forbidden["detail"], "Missing required scope group:create. Granted: individual:all vocabulary:read");
    assert_eq!(forbidden["instance"], "/api/v2/Group");
    assert_eq!(forbidden["request_id"], response.header("x-request-id").unwrap());
    assert_eq!(body["entry"][4]["problem"]["errors"][0]["field"], "gender");
    assert_eq!(body["entry"][9]["response"]["etag"], "\"2\"");
    let url = body["entry"][2]["full_url"].as_str().unwrap();
    assert!(url.starts_with("http") && url.ends_with(&format!("/api/v2{}", path("Individual", "1"))), "{url}");
    assert_eq!(people(&client), 1);
}

#[test]
fn the_url_of_an_entry_keeps_its_query() {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "program_membership:all"]);
    drop(client.create_individual(&person("1", json!({}))));
    let membership = |program: &str, status: &str| {
        let program = format!("Program/{NATIONAL_ID}|{program}");
        json!({"program": program, "beneficiary": reference("1"), "status": status})
    };
    for id in ["P", "Q"] {
        program::create(&app, id, json!({}));
        drop(client.post("/ProgramMembership", &membership(id, "draft")).expect(201));
    }
    let program = NATIONAL_ID.replace('#', "%23");
    let target = format!("{}?program=Program/{program}%7CP", path("ProgramMembership", "1"));
    let entries = vec![entry("PUT", &target, membership("P", "enrolled")), get("individuals?_count=1")];
    let response = send(&client, "batch", entries).expect(200);
    assert_eq!(statuses(&response), [200, 200]);
    let body = response.json();
    for (at, expected) in [target.as_str(), "/individuals?_count=1"].into_iter().enumerate() {
        let url = body["entry"][at]["full_url"].as_str().unwrap();
        assert!(url.ends_with(&format!("/api/v2{expected}")), "{url}");
        drop(client.get(url).expect(200));
    }
}

#[test]
fn every_entry_leaves_the_line_in_the_audit_log_that_it_leaves_alone() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    drop(send(&client, "batch", vec![create("1", 1), create("1", 2), get(&path("Individual", "1"))]).expect(200));
    drop(send(&client, "transaction", vec![create("2", 1), create("1", 2)]).expect(422));
    let audit = app.admin().get("/audit").expect(200).json();
    let lines: Vec<String> = audit["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["operation"].as_str().is_some_and(|operation| operation.contains("/api/v2/Individual")))
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", text("operation"), text("outcome"), line["status"])
        })
        .collect();
    let mut lines = lines;
    lines.sort();
    assert_eq!(
        lines,
        [
            "GET /api/v2/Individual/{identifier} allowed 200",
            "POST /api/v2/Individual allowed 201",
            "POST /api/v2/Individual refused 409",
            "POST /api/v2/Individual refused 409",
            "POST /api/v2/Individual refused 422",
        ]
    );
}
