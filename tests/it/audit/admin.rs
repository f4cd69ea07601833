//! The admin API: absent from the public listener; its changes and rejections are audited.

use daftar::admin::router::{BASE_PATH, routes};
use daftar::api::access::Access;
use daftar::api::router::endpoints;
use daftar_tests::records::NATIONAL_ID;
use daftar_tests::{Response, TestApp, packs};
use serde_json::{Value, json};

use super::{found, lines};
use crate::program;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

#[test]
fn nothing_of_the_admin_api_is_on_the_public_listener() {
    let app = TestApp::start();
    let token = app.admin().token().to_owned();
    let paths = routes().into_iter().map(|(path, _)| format!("{BASE_PATH}{path}")).chain(["/metrics".to_owned()]);
    for path in paths {
        for method in METHODS {
            let response = app.anonymous().request(method, &path).bearer(&token).send();
            assert_eq!(response.status, 404, "{method} {path}: {}", response.text());
        }
    }
}

#[test]
fn nothing_of_the_public_api_but_probes_of_health_is_on_the_admin_listener() {
    let app = TestApp::start();
    let token = app.admin().token().to_owned();
    for endpoint in endpoints().into_iter().filter(|endpoint| endpoint.access != Access::Health) {
        for path in &endpoint.paths {
            let response = app.admin_listener().request(endpoint.method.as_str(), path).bearer(&token).send();
            assert_eq!(response.status, 404, "{} {path}: {}", endpoint.method, response.text());
        }
    }
}

#[test]
fn administration_of_a_client_is_audited_with_its_status() {
    let app = TestApp::start();
    let id = app.admin().create_client(&json!({"name": "n", "scopes": []})).id;
    for (method, path, body, status) in [
        ("PATCH", String::new(), Some(json!({"rate_limit_per_minute": 7})), 200),
        ("POST", "/grants".to_owned(), Some(json!({"scope": "individual:read"})), 200),
        ("DELETE", "/grants/individual:read".to_owned(), None, 200),
        ("POST", "/rotate-secret".to_owned(), Some(json!({})), 200),
        ("POST", "/disable".to_owned(), None, 200),
        ("POST", "/enable".to_owned(), None, 200),
    ] {
        let request = app.admin().request(method, &format!("/clients/{id}{path}"));
        let response = body.iter().fold(request, |request, body| request.json(body)).send().expect(status);
        let lines = lines(&app, &response);
        let reported = format!("{method} {path}: {lines:#?}");
        assert_eq!(lines.len(), 1, "{reported}");
        assert_eq!(
            (&lines[0]["actor"], &lines[0]["outcome"]),
            (&json!("administrator"), &json!("allowed")),
            "{reported}"
        );
        assert_eq!((&lines[0]["status"], &lines[0]["records"]), (&json!(status), &json!([id])), "{reported}");
    }
    let refused = app.admin().request("DELETE", &format!("/clients/{id}/grants/individual:read")).send().expect(409);
    assert_eq!(refused.code(), "conflict");
    let lines = lines(&app, &refused);
    assert_eq!((lines.len(), &lines[0]["outcome"], &lines[0]["status"]), (1, &json!("refused"), &json!(409)));
    let absent = app.admin().request("POST", "/clients/absent/disable").send().expect(404);
    assert_eq!(super::lines(&app, &absent)[0]["outcome"], "refused");
}

/// Creates two rule drafts for the program `P`, and returns their ids.
fn rule_drafts(app: &TestApp) -> [String; 2] {
    program::create(app, "P", json!({"eligibility": "is_female(me)"}));
    let scopes = ["eligibility:read", "eligibility:create"];
    let body = json!({"name": "analyst", "organization": "Ministry", "scopes": scopes});
    let client = app.client_of(&app.admin().create_client(&body));
    let program = format!("Program/{NATIONAL_ID}|P");
    let draft = json!({"name": "Pension", "expression": "is_male(me)", "subject": "individual", "program": program});
    let create = || client.post("/RuleDraft", &draft).expect(201).json()["id"].as_str().unwrap().to_owned();
    [create(), create()]
}

#[test]
fn deletions_and_decisions_are_audited_with_the_status_of_their_response() {
    let folder = tempfile::tempdir().unwrap();
    let app = TestApp::start();
    let id = app.admin().create_client(&json!({"name": "n", "scopes": []})).id;
    let system = json!({"uri": "urn:x:cards"});
    drop(app.admin().request("POST", "/identifier-systems").json(&system).send().expect(201));
    let pack = |version: &str| std::fs::read(packs::build(folder.path(), version, None)).unwrap();
    for version in ["1.0.0", "1.1.0"] {
        assert_eq!(app.admin().install(&pack(version)).status, 201);
    }
    let [accepted, rejected] = rule_drafts(&app);
    let check = |response: &Response| {
        let lines = lines(&app, response);
        assert!(!lines.is_empty() && lines.iter().all(|line| line["status"] == response.status), "{lines:#?}");
    };
    for (method, path, body, status) in [
        ("DELETE", format!("/clients/{id}"), None, 204),
        ("DELETE", "/identifier-systems/urn:x:cards".to_owned(), None, 204),
        ("POST", format!("/rule-drafts/{accepted}/accept"), Some(json!({"version": 1})), 200),
        ("POST", format!("/rule-drafts/{rejected}/reject"), Some(json!({"version": 1, "reason": "no"})), 200),
        ("POST", "/plugins/small/rollback".to_owned(), None, 200),
        ("DELETE", "/plugins/small".to_owned(), None, 204),
    ] {
        let request = app.admin().request(method, &path);
        check(&body.iter().fold(request, |request, body| request.json(body)).send().expect(status));
    }
    let review = app.admin().request("POST", "/plugin-reviews").body("application/wasm", pack("1.2.0"));
    check(&review.send().expect(200));
}

#[test]
fn a_rotated_secret_is_shown_once_and_the_old_one_is_valid_during_the_overlap() {
    let app = TestApp::start();
    let old = app.admin().create_client(&json!({"name": "n", "scopes": ["individual:read"]}));
    let rotate = |overlap_s: u32| {
        let request = app.admin().request("POST", &format!("/clients/{}/rotate-secret", old.id));
        request.json(&json!({"overlap_s": overlap_s})).send()
    };
    let token = |secret: &str| {
        let body = format!("grant_type=client_credentials&client_id={}&client_secret={secret}", old.id);
        app.token_request().body("application/x-www-form-urlencoded", body).send()
    };
    let held = token(&old.secret).expect(200).json()["access_token"].as_str().unwrap().to_owned();
    let read = || app.anonymous().request("GET", "/api/v2/Individual").bearer(&held).send().status;
    app.advance_seconds(1);
    let rotated = rotate(3_600).expect(200).json();
    let new = rotated["client_secret"].as_str().unwrap().to_owned();
    assert_eq!(rotated["older_secrets_expire_at"], "2026-03-01T13:00:01.000Z");
    for secret in [&old.secret, &new] {
        assert_eq!(token(secret).status, 200);
    }
    assert_eq!(read(), 200, "tokens stay valid");
    app.advance_seconds(3_599);
    assert_eq!(token(&old.secret).status, 200, "just before the end");
    app.advance_seconds(1);
    assert_eq!(token(&old.secret).status, 401, "at the end");
    assert_eq!(token(&new).status, 200);
    let newest = rotate(0).expect(200).json()["client_secret"].as_str().unwrap().to_owned();
    assert_eq!((token(&new).status, read()), (401, 401), "without an overlap all of it ends at once");
    app.advance_seconds(1);
    assert_eq!(token(&newest).status, 200);
    let shown = app.admin().get(&format!("/clients/{}", old.id)).expect(200);
    assert_eq!(shown.json()["secrets"].as_array().map(Vec::len), Some(1), "{}", shown.text());
    assert!(![&old.secret, &new, &newest].iter().any(|secret| shown.text().contains(secret.as_str())));
}

#[test]
fn a_client_has_at_most_four_secrets_and_an_overlap_at_most_a_month() {
    let app = TestApp::start();
    let id = app.admin().create_client(&json!({"name": "n", "scopes": []})).id;
    let rotate = |body: Value| app.admin().request("POST", &format!("/clients/{id}/rotate-secret")).json(&body).send();
    drop(rotate(json!({"overlap_s": 2_592_001})).expect(422));
    for _ in 0..3 {
        drop(rotate(json!({"overlap_s": 2_592_000})).expect(200));
    }
    let refused = rotate(json!({"overlap_s": 60})).expect(409);
    assert_eq!(refused.code(), "limit_reached");
    assert!(
        refused.detail().contains("has 4 secrets that are good: wait until 2026-03-31T12:00:00Z"),
        "{}",
        refused.detail()
    );
    drop(rotate(json!({})).expect(200));
    drop(rotate(json!({"overlap_s": 60})).expect(200));
    assert_eq!(found(&app, &format!("record={id}&text=another%20secret")).len(), 5);
}

#[test]
fn old_entries_are_removed_at_the_start_and_the_removal_is_audited() {
    let mut app = TestApp::start();
    drop(app.admin().create_client(&json!({"name": "n", "scopes": []})));
    let before = found(&app, "to=2026-03-02&_count=1000").len() as u64;
    assert!(before >= 1);
    app.advance_seconds(40 * 86_400);
    app.restart_with(|config| config.audit.retention_days = 30);
    let removal = (0..2_000).find_map(|_| found(&app, "action=audit&actor=system").into_iter().next());
    let removal = removal.expect("the removal runs during the requests, and is reported");
    assert!(removal["count"].as_u64().unwrap() >= before, "{removal}");
    assert_eq!(removal["note"], "removed lines older than 2026-03-11T12:00:00Z, as `[audit] retention_days` is 30");
    assert_eq!(found(&app, "to=2026-03-02").len(), 0);
}
