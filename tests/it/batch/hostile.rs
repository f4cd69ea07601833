//! Malicious envelopes.

use daftar_tests::records::person;
use daftar_tests::{TestApp, errors};
use serde_json::{Value, json};

use super::{create, entry, family, get, people, placeholder, send};

fn pair(field: &str, code: &str) -> (String, String) {
    (field.to_owned(), code.to_owned())
}

#[test]
fn too_many_entries_are_refused_before_any_is_done() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    for (kind, count, status) in
        [("batch", 500, 200), ("batch", 501, 422), ("batch", 10_000, 422), ("transaction", 51, 422), ("batch", 0, 422)]
    {
        let response = send(&client, kind, vec![get("Individual?_count=1"); count]);
        assert_eq!(response.status, status, "{kind} {count}: {:.300}", response.text());
    }
    let many: Vec<Value> = (0..50).map(|number| create(&number.to_string(), number)).collect();
    drop(send(&client, "transaction", many).expect(200));
    assert_eq!(people(&client), 50);
}

#[test]
fn the_envelope_is_read_strictly() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    for (body, expected) in [
        (json!({}), vec![pair("entry", "required"), pair("type", "required")]),
        (json!({"type": "history", "entry": [get("Individual")]}), vec![pair("type", "required")]),
        (json!({"type": "batch", "entry": {}}), vec![pair("entry", "wrong_type"), pair("entry", "empty")]),
        (
            json!({"type": "batch", "entry": [7]}),
            vec![pair("entry[0]", "wrong_type"), pair("entry[0].request", "required")],
        ),
        (
            json!({"type": "batch", "entry": [get("https://elsewhere.example/Individual")]}),
            vec![pair("entry[0].request.url", "invalid_url")],
        ),
        (
            json!({"type": "batch", "entry": [entry("POST", "/api/v2/%24batch", json!({}))]}),
            vec![pair("entry[0].request.url", "invalid_url")],
        ),
        (
            json!({"type": "batch", "entry": [get("Individual/urn:x#a|1")]}),
            vec![pair("entry[0].request.url", "invalid_url")],
        ),
        (
            json!({"type": "batch", "entry": [entry("TRACE", "Individual", Value::Null)]}),
            vec![pair("entry[0].request.method", "invalid")],
        ),
        (
            json!({"type": "batch", "entry": [entry("POST", "Individual", Value::Null)]}),
            vec![pair("entry[0].resource", "required")],
        ),
    ] {
        let response = client.post("/$batch", &body).expect(422);
        assert_eq!(errors(&response.json()), expected, "{body}: {}", response.text());
    }
    let deep = format!("{{\"type\": \"batch\", \"entry\": {}1{}}}", "[".repeat(100), "]".repeat(100));
    let send_raw = |kind: &str, body: &str| client.request("POST", "/$batch").body(kind, body).send();
    assert!(send_raw("application/json", &deep).expect(400).detail().contains("deep"));
    drop(send_raw("text/plain", "{}").expect(415));
    drop(send_raw("application/json", "[]").expect(400));
    drop(send_raw("application/json", &format!("{{\"type\": \"{}\"}}", "x".repeat(8 << 20))).expect(413));
    // Its objects would take a hundred times the memory of their text.
    let objects = format!("{{\"type\": \"batch\", \"entry\": [{}0]}}", "{\"\":0},".repeat(1_000_000));
    assert!(send_raw("application/json", &objects).expect(413).detail().contains("objects"));
    drop(client.post("/$batch?atomic=false", &json!({})).expect(400));
    drop(app.anonymous().request("POST", "/api/v2/$batch").json(&json!({})).send().expect(401));
}

#[test]
fn placeholders_lead_somewhere_and_in_no_circle() {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all"]);
    let related = |id: &str, number: u32, to: u32| {
        let relationship =
            json!([{"target": {"reference": placeholder(to)}, "type": "urn:svc:vocab:relationship#neighbour"}]);
        let mut group = family(id, &[]);
        group["resource"]["relationship"] = relationship;
        group["full_url"] = placeholder(number).into();
        group
    };
    let circle = send(&client, "transaction", vec![related("A", 1, 2), create("1", 7), related("B", 2, 1)]).expect(422);
    assert_eq!(errors(&circle.json()), [pair("entry[0]", "circle"), pair("entry[2]", "circle")]);
    let unknown = send(&client, "transaction", vec![family("H", &[placeholder(9)]), create("1", 1)]).expect(422);
    let expected = [pair("entry[0].resource.member[0].entity.reference", "unknown_placeholder")];
    assert_eq!(errors(&unknown.json()), expected);
    let twice = send(&client, "transaction", vec![create("1", 1), create("2", 1)]).expect(422);
    assert_eq!(errors(&twice.json()), [pair("entry[1].full_url", "duplicate")]);
    // Only in references: a name is a name.
    let mut named = create("1", 1);
    named["resource"] = person("1", json!({"name": {"text": placeholder(9)}}));
    drop(send(&client, "transaction", vec![named]).expect(200));
    // A placeholder has no meaning outside a transaction.
    let response = send(&client, "batch", vec![create("2", 2), family("H", &[placeholder(2)])]).expect(200);
    assert_eq!(super::statuses(&response), [201, 422]);
}

#[test]
fn many_values_below_long_names_are_read_without_their_places() {
    let app = TestApp::start();
    let client = app.client(&["individual:create"]);
    // The text of all their places would have 14 GB.
    let deep = |many: Value| (0..27).fold(many, |inner, _| json!({"a".repeat(1_000): inner}));
    let refused = send(&client, "transaction", vec![entry("POST", "Individual", deep(json!(vec![0; 500_000])))]);
    assert!(refused.expect(422).text().len() < 10_000);
    // No more problems are listed than a response has.
    let unknown = deep(json!(vec![json!({"reference": "urn:uuid:none"}); 100_000]));
    let refused = send(&client, "transaction", vec![entry("POST", "Individual", unknown)]).expect(422);
    assert!(refused.text().len() < 400_000, "{}", refused.text().len());
}

#[test]
fn the_memory_of_a_body_is_free_again_after_its_response() {
    let app = TestApp::start();
    let client = app.client(&["individual:create"]);
    let body = json!({"x": vec![json!({"": 0}); 300_000]});
    for number in 0..4 {
        let request = client.request("POST", "/Individual").header("Idempotency-Key", format!("key-{number}"));
        assert_eq!(request.json(&body).send().status, 422);
    }
}

#[test]
fn very_many_unknown_codes_are_reported_without_suggestions() {
    let app = TestApp::start();
    let client = app.client(&["individual:create"]);
    let languages: Vec<String> = (0..100).map(|number| format!("urn:iso:std:iso:639#q{number}q")).collect();
    let entry = |id: usize| {
        let body =
            json!({"languages": &languages, "health_conditions": vec!["http://id.who.int/icd/release/11/mms#XXXX"; 0]});
        entry("POST", "Individual", person(&id.to_string(), body))
    };
    let response = send(&client, "batch", (0..100).map(entry).collect()).expect(200);
    assert_eq!(super::statuses(&response), vec![422; 100]);
    let problem = response.json()["entry"][99]["problem"].clone();
    assert_eq!(errors(&problem).len(), 50, "as many as one answer lists");
}
