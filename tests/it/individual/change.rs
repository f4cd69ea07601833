//! Changing people: PUT and PATCH.

use daftar_tests::records::{FEMALE, GENDER, MALE, NATIONAL_ID, path, person, with};
use daftar_tests::{ApiClient, Response, TestApp, errors};
use serde_json::{Value, json};

const SCOPES: &[&str] = &["individual:create", "individual:read", "individual:update"];

fn send(client: &ApiClient, method: &str, id: &str, body: &Value) -> Response {
    client.request(method, &path("Individual", id)).json(body).send()
}

/// The members of a record beside its identifiers and meta.
fn message(body: &Value) -> Value {
    let mut body = body.clone();
    for name in ["identifier", "meta", "type"] {
        body.as_object_mut().unwrap().remove(name);
    }
    body
}

#[test]
fn a_replaced_individual_has_exactly_the_fields_of_the_body() {
    let mut app = TestApp::start();
    let client = app.client(SCOPES);
    let more = json!({"name": {"given": "Amina"}, "gender": FEMALE, "telecom": [{"system": "phone", "value": "1"}]});
    drop(client.create_individual(&person("1", more)));
    let replaced =
        send(&client, "PUT", "1", &person("1", json!({"birth_date": "1980-01-31", "telecom": []}))).expect(200);
    assert_eq!(replaced.header("etag"), Some("\"2\""));
    assert_eq!(message(&replaced.json()), json!({"birth_date": "1980-01-31", "telecom": []}));
    assert_eq!(replaced.json()["meta"]["version_id"], "2");
    assert!(client.found("name=amina").is_empty(), "the indexes follow");
    assert_eq!(client.found("birth_date=1980-01-31"), ["1"]);
    app.restart();
    assert_eq!(client.get(&path("individuals", "1")).expect(200).json(), replaced.json());
    let unchanged = send(&client, "PUT", "1", &replaced.json()).expect(200);
    assert_eq!(message(&unchanged.json()), message(&replaced.json()), "what was read can be sent back");
}

#[test]
fn a_patch_changes_only_the_named_fields() {
    let app = TestApp::start();
    let client = app.client(SCOPES);
    let more = json!({
        "name": {"given": "Amina", "family": "Diallo"}, "gender": FEMALE, "telecom": [{"system": "phone", "value": "1"}],
        "address": [{"city": "Labé", "country": "urn:iso:std:iso:3166-1#GN"}], "languages": ["urn:iso:std:iso:639#fr"],
        "income": {"amount": 12.5, "currency": "urn:iso:std:iso:4217#GNF", "period": "month"},
    });
    let before = client.create_individual(&person("1", more));
    let nothing = send(&client, "PATCH", "1", &json!({})).expect(200).json();
    assert_eq!(message(&nothing), message(&before));
    let patch = json!({"name": {"given": "Aminata", "family": null}, "telecom": null, "languages": [], "gender": {"namespace": GENDER, "code": "1"}});
    let request = client.request("PATCH", &path("Individual", "1"));
    let changed = request.body("application/merge-patch+json", patch.to_string()).send().expect(200).json();
    assert_eq!(changed["name"], json!({"given": "Aminata"}));
    assert_eq!(changed["gender"]["uri"], MALE);
    assert_eq!((changed.get("telecom"), &changed["languages"]), (None, &json!([])), "absent and empty are kept apart");
    assert_eq!((&changed["address"], &changed["income"]), (&before["address"], &before["income"]));
    assert_eq!(changed["meta"]["version_id"], "3");
    for (patch, field, code) in [
        (json!({"identifier": null}), "identifier", "required"),
        (json!({"gendr": MALE}), "gendr", "unknown_field"),
        (json!({"gender": "urn:iso:std:iso:5218#7"}), "gender", "unknown_code"),
        (json!({"deceased_date": "1800-01-01", "birth_date": "1900-01-01"}), "deceased_date", "invalid_date"),
        (json!({"type": "Group"}), "type", "wrong_type"),
    ] {
        let refused = send(&client, "PATCH", "1", &patch);
        assert_eq!(refused.status, 422, "{patch}: {}", refused.text());
        assert_eq!(errors(&refused.json())[0], (field.to_owned(), code.to_owned()), "{patch}");
    }
    assert_eq!(client.get(&path("Individual", "1")).expect(200).json(), changed, "nothing refused was written");
}

#[test]
fn a_change_needs_the_version_that_was_read_where_one_is_named() {
    let app = TestApp::start();
    let client = app.client(SCOPES);
    drop(client.create_individual(&person("1", json!({}))));
    let at = |method: &str, version: &str| {
        let request = client.request(method, &path("Individual", "1")).header("If-Match", version);
        request.json(&person("1", json!({"active": true}))).send()
    };
    for method in ["PUT", "PATCH"] {
        let refused = at(method, "\"7\"").expect(409);
        assert!(refused.detail().contains("read it again and repeat the change"), "{}", refused.detail());
        assert_eq!(at(method, "7").status, 400);
    }
    assert_eq!(at("PUT", "\"1\"").expect(200).header("etag"), Some("\"2\""));
    assert_eq!(at("PATCH", "\"1\"").status, 409);
    assert_eq!(at("PATCH", "\"1\", \"2\"").expect(200).header("etag"), Some("\"3\""));
    let handles: Vec<_> = (0..8)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || {
                let request = client.request("PATCH", &path("Individual", "1")).header("If-Match", "\"3\"");
                request.json(&json!({"active": false})).send().status
            })
        })
        .collect();
    let mut statuses: Vec<u16> = handles.into_iter().map(|handle| handle.join().unwrap()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409, 409, 409, 409, 409, 409]);
}

#[test]
fn a_change_of_an_excluded_version_is_412_and_changes_nothing() {
    let app = TestApp::start();
    let client = app.client(SCOPES);
    drop(client.create_individual(&person("1", json!({}))));
    let unless = |client: &ApiClient, method: &str, id: &str, excluded: &str| {
        let request = client.request(method, &path("Individual", id)).header("If-None-Match", excluded);
        request.json(&person(id, json!({"active": false}))).send()
    };
    for method in ["PUT", "PATCH"] {
        for excluded in ["*", "\"1\"", "W/\"1\"", "\"7\", \"1\""] {
            let refused = unless(&client, method, "1", excluded).expect(412);
            assert_eq!(refused.code(), "precondition_failed", "{method} {excluded}");
            assert!(refused.detail().contains("excludes version 1"), "{}", refused.detail());
        }
        assert_eq!(unless(&client, method, "1", "1").status, 400);
        assert_eq!(unless(&client, method, "9", "*").status, 404, "an absent record is not created");
        assert_eq!(unless(&app.client(&["individual:read"]), method, "1", "*").status, 403);
    }
    assert_eq!(client.get(&path("Individual", "1")).expect(200).header("etag"), Some("\"1\""));
    assert_eq!(unless(&client, "PUT", "1", "\"7\"").expect(200).header("etag"), Some("\"2\""));
    let both = |permitted: &str, excluded: &str| {
        let request = client.request("PATCH", &path("Individual", "1")).header("If-Match", permitted);
        request.header("If-None-Match", excluded).json(&json!({"active": true})).send().status
    };
    assert_eq!([both("\"7\"", "*"), both("\"2\"", "\"2\""), both("\"2\"", "\"1\"")], [409, 412, 200]);
}

#[test]
fn a_read_returns_the_body_even_if_the_client_has_the_version() {
    let app = TestApp::start();
    let client = app.client(SCOPES);
    let created = client.create_individual(&person("1", json!({})));
    for has in ["\"1\"", "*"] {
        let read = client.request("GET", &path("Individual", "1")).header("If-None-Match", has).send().expect(200);
        assert_eq!(read.json(), created, "the version does not identify the names of codes and other records");
    }
}

#[test]
fn identifiers_are_added_and_ended_and_never_taken_away() {
    let app = TestApp::start();
    let client = app.client(SCOPES);
    drop(client.create_individual(&person("1", json!({}))));
    drop(client.create_individual(&person("2", json!({}))));
    let id = |value: &str, end: Option<&str>| match end {
        Some(end) => json!({"system": NATIONAL_ID, "value": value, "period": {"end": end}}),
        None => json!({"system": NATIONAL_ID, "value": value}),
    };
    let patch = |identifiers: &[Value]| send(&client, "PATCH", "1", &json!({"identifier": identifiers}));
    for (identifiers, status) in [
        (vec![id("1b", None)], 422),
        (vec![id("1", None), id("2", None)], 409),
        (vec![id("1", None), json!({"system": "urn:x", "value": "1"})], 422),
        (vec![id("1", Some("2026-01-31")), id("1b", None)], 200),
        (vec![id("1", None), id("1b", None)], 422),
        (vec![id("1", Some("2026-02-01")), id("1b", None)], 422),
    ] {
        let response = patch(&identifiers);
        assert_eq!(response.status, status, "{identifiers:?}: {}", response.text());
    }
    assert_eq!(client.get(&path("Individual", "1b")).expect(200).json(), client.get(&path("Individual", "1")).json());
    let taken_up =
        send(&client, "PATCH", "2", &json!({"identifier": [id("2", None), id("1", None)]})).expect(200).json();
    assert_eq!(client.get(&path("Individual", "1")).expect(200).json(), taken_up, "the holder is meant");
}

#[test]
fn a_change_by_a_client_that_may_not_read_is_answered_with_a_receipt() {
    let app = TestApp::start();
    drop(app.client(SCOPES).create_individual(&person("1", json!({"gender": FEMALE}))));
    let writer = app.client(&["individual:update"]);
    for (method, body) in [("PUT", person("1", json!({"gender": MALE}))), ("PATCH", json!({"gender": FEMALE}))] {
        let receipt = send(&writer, method, "1", &body).expect(200).json();
        assert_eq!(receipt.as_object().unwrap().keys().collect::<Vec<_>>(), ["identifier", "meta", "type"]);
    }
    assert_eq!(send(&writer, "PUT", "9", &person("9", json!({}))).expect(404).detail(), "no such Individual");
    assert_eq!(writer.request("DELETE", &path("Individual", "1")).send().status, 405);
    let odd = with(person("1", json!({})), json!({"photograph": "x"}));
    assert_eq!(send(&writer, "PUT", "1", &odd).status, 422);
}

#[test]
fn an_identifier_ends_today_at_the_latest() {
    let app = TestApp::start();
    let client = app.client(SCOPES);
    let of = |end: &str| json!({"identifier": [{"system": NATIONAL_ID, "value": "1", "period": {"end": end}}]});
    let refused = client.post("/Individual", &of("2026-03-02")).expect(422);
    assert_eq!(errors(&refused.json()), [("identifier[0].period.end".to_owned(), "future_end".to_owned())]);
    assert!(refused.detail().len() < 300 && refused.text().contains("2026-03-01"), "{}", refused.text());
    drop(client.create_individual(&person("1", json!({}))));
    for method in ["PUT", "PATCH"] {
        let refused = send(&client, method, "1", &of("2026-03-02")).expect(422);
        assert_eq!(errors(&refused.json()), [("identifier[0].period.end".to_owned(), "future_end".to_owned())]);
    }
    assert_eq!(client.post("/Individual", &person("1", json!({}))).status, 409, "it is still the first one's");
    let ended = send(&client, "PATCH", "1", &of("2026-03-01")).expect(200).json();
    assert_eq!(ended["identifier"][0]["period"], json!({"end": "2026-03-01"}));
    drop(client.create_individual(&person("1", json!({"name": {"given": "Moussa"}}))));
    assert_eq!(client.get(&path("Individual", "1")).expect(200).json()["name"]["given"], "Moussa");
}
