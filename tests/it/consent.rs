//! `/Consent`, administration of consents, and the access that they grant.

mod calls;
mod differential;
mod filtering;
mod replays;
pub mod world;

use daftar_tests::records::{NATIONAL_ID, person, reference, with};
use daftar_tests::{ApiClient, Response, TestApp, errors, redacted};
use serde_json::{Value, json};

const MINISTRY: &str = "Ministry of Health";
const SCOPES: &[&str] = &["consent:read", "consent:delete"];

/// A client of an organization with all scopes for consents.
fn client_of(app: &TestApp, organization: &str) -> ApiClient {
    app.client_of(&app.admin().create_client(&json!({
        "name": "consenting", "organization": organization, "scopes": SCOPES,
        "rate_limit_per_minute": 1_000_000, "rate_limit_per_day": 1_000_000,
    })))
}

/// A register with two people in it.
fn register() -> TestApp {
    let app = TestApp::start();
    let writer = app.client(&["individual:create"]);
    for id in ["1", "2"] {
        drop(writer.create_individual(&person(id, json!({}))));
    }
    app
}

fn consent(person: &str, more: Value) -> Value {
    let body = json!({
        "subject": reference(person), "grantee": MINISTRY, "scopes": ["individual"], "effective_date": "2026-03-01",
    });
    with(body, more)
}

fn post(app: &TestApp, body: &Value) -> Response {
    app.admin().request("POST", "/consents").json(body).send()
}

/// Records a consent and returns its name.
#[track_caller]
fn give(app: &TestApp, person: &str, more: Value) -> String {
    post(app, &consent(person, more)).expect(201).json()["consent_id"].as_str().unwrap().to_owned()
}

#[test]
fn the_organization_that_a_consent_is_given_to_reads_it() {
    let mut app = register();
    let more = json!({
        "type": "Consent", "purpose": "vaccination", "expiry_date": "2026-12-31", "fields": ["birth_date", "extension.farmer"],
        "scopes": ["individual", "program_membership"], "legal_basis": "public_task",
    });
    let created = post(&app, &consent("1", more)).expect(201);
    assert_eq!(created.header("etag"), Some("\"1\""));
    let mut body = created.json();
    let id = body["consent_id"].take().as_str().unwrap().to_owned();
    insta::assert_json_snapshot!(redacted(&body), @r#"
    {
      "consent_id": null,
      "effective_date": "2026-03-01",
      "expiry_date": "2026-12-31",
      "fields": [
        "birth_date",
        "extension.farmer"
      ],
      "grantee": "Ministry of Health",
      "legal_basis": "public_task",
      "meta": {
        "last_updated": "2026-03-01T12:00:00.000Z",
        "version_id": "1"
      },
      "purpose": "vaccination",
      "scopes": [
        "individual",
        "program_membership"
      ],
      "status": "given",
      "subject": "Individual/urn:svc:vocab:id-type#national_id|1",
      "type": "Consent"
    }
    "#);
    let (ministry, other, none) =
        (client_of(&app, " Ministry of Health "), client_of(&app, "Ministry of health"), app.client(SCOPES));
    app.restart();
    for path in [format!("/Consent/{id}"), format!("/consents/{}", id.replace('-', "").to_uppercase())] {
        let found = ministry.get(&path).expect(200);
        assert_eq!((found.json(), found.header("etag")), (created.json(), Some("\"1\"")), "{path}");
        let absent = ministry.get("/Consent/123e4567-e89b-42d3-a456-426614174000").expect(404).json();
        for unrelated in [&other, &none] {
            for method in ["GET", "DELETE"] {
                let hidden = unrelated.request(method, &path).send().expect(404).json();
                assert_eq!((&hidden["detail"], &hidden["type"]), (&absent["detail"], &absent["type"]), "{method}");
            }
        }
    }
    assert_eq!(
        ministry.get("/Consent/1").expect(400).detail(),
        "the id of a `Consent` is a UUID such as `123e4567-e89b-42d3-a456-426614174000`"
    );
    assert_eq!(ministry.get(&format!("/Consent/{id}?x=1")).status, 400);
    assert_eq!(ministry.get("/Consent").status, 404, "consents are not searched by clients");
    assert_eq!(ministry.get(&format!("/Consent/{id}")).expect(200).json()["status"], "given", "it was not withdrawn");
}

#[test]
fn a_withdrawn_consent_stays_readable_and_withdrawn() {
    let mut app = register();
    let ministry = client_of(&app, MINISTRY);
    let path = format!("/Consent/{}", give(&app, "1", json!({"expiry_date": "2026-03-02"})));
    let delete = |version: Option<&str>| {
        let request = ministry.request("DELETE", &path);
        match version {
            Some(version) => request.header("If-Match", version).send(),
            None => request.send(),
        }
    };
    assert_eq!(
        delete(Some("\"2\"")).expect(409).detail(),
        "the record is at version 1, not 2: read it again and repeat the change"
    );
    let excluded = ministry.request("DELETE", &path).header("If-None-Match", "*").send().expect(412);
    assert_eq!(excluded.code(), "precondition_failed");
    assert_eq!(ministry.get(&path).expect(200).json()["status"], "given");
    for _ in 0..2 {
        assert_eq!(delete(None).expect(204).text(), "");
        let withdrawn = ministry.get(&path).expect(200);
        assert_eq!((&withdrawn.json()["status"], withdrawn.header("etag")), (&json!("withdrawn"), Some("\"2\"")));
    }
    assert_eq!(ministry.get(&path).expect(200).json()["meta"]["source"], ministry.id());
    app.restart();
    app.advance_seconds(3 * 86_400);
    let ministry = app.client_of(ministry.credentials());
    assert_eq!(ministry.get(&path).expect(200).json()["status"], "withdrawn");
}

#[test]
fn a_consent_expires_after_its_last_day() {
    let app = register();
    let id = give(&app, "1", json!({"expiry_date": "2026-03-01"}));
    let status = |app: &TestApp| app.admin().get(&format!("/consents/{id}")).expect(200).json()["status"].clone();
    assert_eq!(status(&app), "given");
    app.advance_seconds(12 * 3_600 - 1);
    assert_eq!(status(&app), "given", "the last day counts");
    app.advance_seconds(1);
    assert_eq!(status(&app), "expired");
    let withdrawn = app.admin().request("POST", &format!("/consents/{id}/withdraw")).send().expect(200).json();
    assert_eq!((&withdrawn["status"], &withdrawn["meta"]["version_id"]), (&json!("withdrawn"), &json!("2")));
    let again = app.admin().request("POST", &format!("/consents/{id}/withdraw")).send().expect(200).json();
    assert_eq!(again, withdrawn);
}

#[test]
fn the_administrator_searches_consents_by_subject_and_grantee() {
    let app = register();
    for (person, grantee) in [("1", MINISTRY), ("2", MINISTRY), ("1", "World Food Programme")] {
        drop(give(&app, person, json!({"grantee": grantee})));
    }
    let key = "urn:svc:vocab:id-type%23national_id|1";
    let found = |query: &str| app.admin().get(&format!("/consents?{query}")).expect(200).json();
    for (query, expected) in [
        (String::new(), 3),
        (format!("subject={key}"), 2),
        (format!("subject=Individual/{key}"), 2),
        (format!("subject=Group/{key}"), 0),
        ("grantee=Ministry+of+Health".to_owned(), 2),
        (format!("grantee=Ministry+of+Health&subject={key}"), 1),
        ("grantee=Absent".to_owned(), 0),
    ] {
        assert_eq!(found(&query)["total"], expected, "{query}");
    }
    let page = found("_count=1&_offset=2");
    assert_eq!((&page["data"][0]["grantee"], &page["links"]["next"]), (&json!("World Food Programme"), &Value::Null));
    for wrong in ["colour=red", "subject=1", "grantee=", "_count=101"] {
        assert_eq!(app.admin().get(&format!("/consents?{wrong}")).status, 400, "{wrong}");
    }
}

#[test]
fn wrong_consents_are_refused_and_named() {
    let app = register();
    let one = |more| consent("1", more);
    for (body, field, code) in [
        (consent("9", json!({})), "subject", "unresolved_reference"),
        (one(json!({"subject": null})), "subject", "required"),
        (one(json!({"subject": format!("Program/{NATIONAL_ID}|1")})), "subject", "invalid_reference"),
        (one(json!({"grantee": null})), "grantee", "required"),
        (one(json!({"grantee": "x".repeat(201)})), "grantee", "invalid"),
        (one(json!({"effective_date": null})), "effective_date", "required"),
        (one(json!({"effective_date": "2026-02-30"})), "effective_date", "invalid_date"),
        (one(json!({"expiry_date": "2026-02-28"})), "expiry_date", "invalid_date"),
        (one(json!({"scopes": []})), "scopes", "required"),
        (one(json!({"scopes": ["vocabulary"]})), "scopes[0]", "unknown_value"),
        (one(json!({"scopes": ["individual", "individual"]})), "scopes[1]", "duplicate"),
        (one(json!({"fields": []})), "fields", "required"),
        (one(json!({"fields": ["birthdate"]})), "fields[0]", "unknown_value"),
        (one(json!({"fields": ["name", "name"]})), "fields[1]", "duplicate"),
        (one(json!({"purpose": "x".repeat(1_001)})), "purpose", "too_long"),
        (one(json!({"legal_basis": "whim"})), "legal_basis", "unknown_value"),
        (one(json!({"status": "withdrawn"})), "status", "unknown_field"),
        (one(json!({"consent_id": "123e4567-e89b-42d3-a456-426614174000"})), "consent_id", "unknown_field"),
    ] {
        let refused = post(&app, &body);
        assert_eq!(refused.status, 422, "{body}: {}", refused.text());
        assert_eq!(errors(&refused.json()), [(field.to_owned(), code.to_owned())], "{body}");
    }
    assert_eq!(app.admin().get("/consents").expect(200).json()["total"], 0, "nothing of it was written");
    let longest = json!({"grantee": "ش".repeat(200), "purpose": "x".repeat(1_000), "expiry_date": "2026-03-01"});
    drop(give(&app, "1", longest));
}

#[test]
fn consents_are_written_and_listed_behind_the_admin_token_only() {
    let app = register();
    let client = client_of(&app, MINISTRY);
    for (method, path) in [("POST", "/Consent"), ("GET", "/Consent"), ("POST", "/consents")] {
        let refused = client.request(method, path).json(&consent("1", json!({}))).send();
        assert!(matches!(refused.status, 404 | 405), "{method} {path}: {}", refused.status);
    }
    let without = app.admin_listener().request("GET", "/admin/v1/consents").send();
    assert_eq!(without.status, 401, "{}", without.text());
}
