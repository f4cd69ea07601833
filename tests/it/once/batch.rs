//! Batches and transactions that are sent twice.

use daftar_tests::records::{path, person, reference};
use daftar_tests::{ApiClient, Response, TestApp, errors};
use serde_json::{Value, json};

use super::{KEY, assert_same, is_replay, people, send};

fn create(id: &str) -> Value {
    json!({"request": {"method": "POST", "url": "Individual"}, "resource": person(id, json!({}))})
}

fn submit(client: &ApiClient, kind: &str, entries: &[Value]) -> Response {
    send(client, "/$batch", KEY, &json!({"type": kind, "entry": entries}))
}

fn statuses(response: &Response) -> Vec<i64> {
    let body = response.json();
    body["entry"].as_array().unwrap().iter().map(|entry| entry["response"]["status"].as_i64().unwrap()).collect()
}

#[test]
fn a_transaction_is_made_once() {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "consent:delete"]);
    let patch = json!({"request": {"method": "PATCH", "url": path("Individual", "1")}, "resource": {"active": false}});
    let entries = [create("1"), create("2"), patch];
    let first = submit(&client, "transaction", &entries).expect(200);
    assert_eq!(statuses(&first), [201, 201, 200]);
    assert_same(&first, &submit(&client, "transaction", &entries));
    assert_eq!(people(&client), 2);
    let refused = submit(&client, "transaction", &[create("3")]).expect(422);
    assert_eq!(errors(&refused.json()), [("Idempotency-Key".to_owned(), "reused_key".to_owned())]);
    assert_eq!(client.get(&path("Individual", "1")).expect(200).header("etag"), Some("\"2\""));
}

#[test]
fn a_repeated_batch_replays_successes_and_retries_failures() {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all"]);
    let family = json!({"request": {"method": "POST", "url": "Group"}, "resource": {
        "identifier": [{"system": "urn:svc:vocab:id-type#national_id", "value": "H"}],
        "member": [{"entity": {"reference": reference("7")}}],
    }});
    let patch = json!({"request": {"method": "PATCH", "url": path("Individual", "1")}, "resource": {"name": {"given": "Amina"}}});
    let read = json!({"request": {"method": "GET", "url": path("Individual", "1")}});
    let entries = [create("1"), family, patch, read];
    let first = submit(&client, "batch", &entries).expect(200);
    assert_eq!(statuses(&first), [201, 422, 200, 200]);
    drop(client.create_individual(&person("7", json!({}))));
    for _ in 0..2 {
        let again = submit(&client, "batch", &entries).expect(200);
        assert_eq!(statuses(&again), [201, 201, 200, 200]);
        assert!(!is_replay(&again), "a part of it may be new");
        assert_eq!(again.json()["entry"][0], first.json()["entry"][0]);
    }
    assert_eq!(people(&client), 2);
    assert_eq!(client.get(&path("Individual", "1")).expect(200).header("etag"), Some("\"2\""), "patched once");
    drop(submit(&client, "batch", &[create("9")]).expect(422));
}
