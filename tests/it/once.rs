//! `Idempotency-Key`: a repeated request is done once.

mod batch;
mod bound;
mod crash;
mod grants;

use daftar_tests::records::{FEMALE, NATIONAL_ID, path, person, reference};
use daftar_tests::{ApiClient, Response, TestApp, errors};
use serde_json::{Value, json};

use crate::program;

const KEY: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";
const DAY_S: i64 = 86_400;

fn send(client: &ApiClient, target: &str, key: &str, body: &Value) -> Response {
    client.request("POST", target).header("Idempotency-Key", key).json(body).send()
}

/// Number of people.
fn people(client: &ApiClient) -> i64 {
    client.get("/Individual?_count=1").expect(200).json()["total"].as_i64().unwrap()
}

fn is_replay(response: &Response) -> bool {
    response.header("idempotency-replayed") == Some("true")
}

#[track_caller]
fn assert_same(first: &Response, again: &Response) {
    assert!(!is_replay(first) && is_replay(again), "{}", again.text());
    assert_eq!((again.status, again.json()), (first.status, first.json()));
    assert_eq!(again.header("etag"), first.header("etag"));
    // A restart of the test's server takes another port.
    let path = |response: &Response| {
        response.header("location").and_then(|url| url.split_once("/api/")).map(|url| url.1.to_owned())
    };
    assert_eq!(path(again), path(first));
}

#[test]
fn every_create_that_is_sent_twice_is_done_once_and_answered_alike() {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all", "program:read", "program_membership:all"]);
    program::create(&app, "P", json!({}));
    let group = json!({"identifier": [{"system": NATIONAL_ID, "value": "H"}]});
    let place =
        json!({"program": format!("Program/{NATIONAL_ID}|P"), "beneficiary": reference("1"), "status": "draft"});
    for (number, (target, body)) in [
        ("/Individual".to_owned(), person("1", json!({"gender": FEMALE, "name": {"given": "Amina"}}))),
        ("/Group".to_owned(), group),
        (format!("{}/$add-member", path("Group", "H")), json!({"entity": {"reference": reference("1")}})),
        ("/ProgramMembership".to_owned(), place),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("key-{number}");
        let first = send(&client, &target, &key, &body).expect(201);
        assert_same(&first, &send(&client, &target, &key, &body));
    }
    assert_eq!(people(&client), 1);
    let group = client.get(&path("Group", "H")).expect(200);
    assert_eq!((group.header("etag"), group.json()["member"].as_array().unwrap().len()), (Some("\"2\""), 1));
}

#[test]
fn the_header_is_ignored_where_no_record_is_created() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read", "eligibility:create"]);
    let draft = json!({"name": "Pension", "expression": "me.active", "subject": "individual"});
    let [first, second] = [0, 1].map(|_| send(&client, "/RuleDraft", KEY, &draft).expect(201));
    assert!(!is_replay(&first) && !is_replay(&second));
    assert_ne!(first.json()["id"], second.json()["id"], "each request creates a draft");
}

#[test]
fn equal_requests_match_by_content_not_by_spelling() {
    let app = TestApp::start();
    let (client, other) = (app.client(&["individual:all", "group:all"]), app.client(&["individual:all"]));
    let first = send(&client, "/Individual", KEY, &person("1", json!({"active": true}))).expect(201);
    let spelt = format!("{{\"active\":  true, \"identifier\": [{{\"value\": \"1\", \"system\": \"{NATIONAL_ID}\"}}]}}");
    let again = client.request("POST", "/individuals").header("Idempotency-Key", format!("\"{KEY}\""));
    assert_same(&first, &again.body("application/json; charset=utf-8", spelt).send());
    for (target, body) in [
        ("/Individual", person("1", json!({"active": false}))),
        ("/Individual", person("2", json!({"active": true}))),
        ("/Group", person("1", json!({"active": true}))),
    ] {
        let refused = send(&client, target, KEY, &body).expect(422);
        assert_eq!(
            errors(&refused.json()),
            [("Idempotency-Key".to_owned(), "reused_key".to_owned())],
            "{}",
            refused.text()
        );
        assert_eq!(refused.code(), "idempotency_key_reused");
    }
    drop(send(&other, "/Individual", KEY, &person("2", json!({}))).expect(201));
    assert_eq!(people(&client), 2, "another client's key is another key");
}

#[test]
fn a_rejected_request_may_be_corrected_under_the_same_key() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    drop(client.create_individual(&person("1", json!({}))));
    drop(send(&client, "/Individual", KEY, &person("1", json!({}))).expect(409));
    drop(send(&client, "/Individual", KEY, &person("2", json!({"colour": "red"}))).expect(422));
    let first = send(&client, "/Individual", KEY, &person("2", json!({}))).expect(201);
    assert_same(&first, &send(&client, "/Individual", KEY, &person("2", json!({}))));
}

#[test]
fn it_is_remembered_for_a_day_through_restarts_as_it_was_then() {
    let mut app = TestApp::start();
    let client = app.client(&["individual:all"]);
    let body = person("1", json!({"name": {"given": "Amina"}}));
    let first = send(&client, "/Individual", KEY, &body).expect(201);
    let renamed = client.request("PATCH", &path("Individual", "1")).json(&json!({"name": {"given": "Grace"}})).send();
    assert_eq!(renamed.expect(200).header("etag"), Some("\"2\""));
    app.restart();
    assert_same(&first, &send(&client, "/Individual", KEY, &body));
    app.advance_seconds(DAY_S - 1);
    let client = app.client_of(client.credentials());
    assert_same(&first, &send(&client, "/Individual", KEY, &body));
    app.advance_seconds(1);
    drop(send(&client, "/Individual", KEY, &body).expect(409));
    drop(send(&client, "/Individual", KEY, &person("2", json!({}))).expect(201));
}

#[test]
fn a_replay_shows_no_more_than_the_client_may_see_now() {
    let app = TestApp::start();
    let client = app.client(&["individual:read", "individual:create"]);
    let body = person("1", json!({"name": {"given": "Amina"}}));
    drop(send(&client, "/Individual", KEY, &body).expect(201));
    let revoked = format!("/clients/{}/grants/individual:read", client.id());
    assert!(app.admin().request("DELETE", &revoked).send().status < 300);
    let again = send(&client, "/Individual", KEY, &body).expect(201);
    assert!(is_replay(&again));
    let members: Vec<_> = again.json().as_object().unwrap().keys().cloned().collect();
    assert_eq!(members, ["identifier", "meta", "type"]);
}

#[test]
fn keys_are_bounded_and_the_usual_refusals_come_first() {
    let app = TestApp::start();
    let client = app.client(&["individual:create"]);
    for wrong in ["", "a b", &"k".repeat(256), "\"open"] {
        let refused = send(&client, "/Individual", wrong, &person("1", json!({}))).expect(400);
        assert!(refused.detail().starts_with("`Idempotency-Key` must be 1 to 255"), "{}", refused.detail());
    }
    let twice = client.request("POST", "/Individual").header("Idempotency-Key", "a").header("Idempotency-Key", "b");
    assert_eq!(twice.json(&person("1", json!({}))).send().expect(400).detail(), "`Idempotency-Key` appears twice");
    drop(send(&client, "/Individual", &"k".repeat(255), &person("1", json!({}))).expect(201));
    let refused = send(&client, "/Group", "a b", &json!({})).expect(403);
    assert!(refused.detail().starts_with("Missing required scope group:create"), "{}", refused.detail());
    let text = client.request("POST", "/Individual").header("Idempotency-Key", "t").body("text/plain", "x").send();
    drop(text.expect(415));
    let anonymous = app.anonymous().request("POST", "/api/v2/Individual").header("Idempotency-Key", "t");
    drop(anonymous.json(&json!({})).send().expect(401));
}

#[test]
fn of_many_at_once_one_is_done() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    let body = person("1", json!({}));
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..8).map(|_| scope.spawn(|| send(&client, "/Individual", KEY, &body).status)).collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    assert!(statuses.contains(&201), "{statuses:?}");
    assert!(statuses.iter().all(|status| [201, 409].contains(status)), "{statuses:?}");
    assert!(is_replay(&send(&client, "/Individual", KEY, &body).expect(201)));
    assert_eq!(people(&client), 1);
}
