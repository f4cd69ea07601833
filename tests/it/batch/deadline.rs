//! A batch whose time runs out: four fifths of what a request may take, from when it came.

use daftar_tests::{ApiClient, Response, TestApp};
use serde_json::{Value, json};

use super::{create, get, people, statuses};

/// The time for a request, in seconds: its batch has 480.
const REQUEST_S: u64 = 600;

fn register() -> (TestApp, ApiClient) {
    let app = TestApp::builder().config(|config| config.server.request_timeout_ms = REQUEST_S * 1_000).start();
    let client = app.client(&["individual:all"]);
    (app, client)
}

fn creates(count: u32) -> Vec<Value> {
    (1..=count).map(|number| create(&number.to_string(), number)).collect()
}

/// Sends a batch whose body comes so many seconds after its head.
fn send_slowly(app: &TestApp, client: &ApiClient, (kind, seconds): (&str, i64), entries: &[Value]) -> Response {
    let head = format!(
        "POST /api/v2/$batch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n",
        client.token()
    );
    let body = json!({"type": kind, "entry": entries}).to_string();
    client.connection().exchange_slowly(&head, &body, || app.advance_seconds(seconds))
}

#[test]
fn entries_not_started_in_time_are_503_with_retry_after() {
    let (app, client) = register();
    let entries = creates(12);
    // Each entry takes a few look-ups, so that the timeout expires after some of them.
    app.pass_at_each_look(30);
    let response = client.post("/$batch", &json!({"type": "batch", "entry": entries})).expect(200);
    app.pass_at_each_look(0);
    let statuses = statuses(&response);
    let done = statuses.iter().take_while(|status| **status == 201).count();
    assert!((1..12).contains(&done), "{statuses:?}");
    assert_eq!(statuses[done..], vec![503; 12 - done]);
    assert_eq!(people(&client), done as i64);
    let body = response.json();
    assert!(body["entry"][0]["response"].get("retry_after").is_none(), "{}", body["entry"][0]);
    for part in &body["entry"].as_array().unwrap()[done..] {
        assert_eq!(part["response"], json!({"status": 503, "retry_after": 1}), "{part}");
        let detail = part["problem"]["detail"].as_str().unwrap();
        assert!(detail.ends_with("before this entry was begun: send it again in another batch"), "{detail}");
        assert!(part.get("resource").is_none(), "{part}");
    }
    let rest = &entries[done..];
    let response = client.post("/$batch", &json!({"type": "batch", "entry": rest})).expect(200);
    assert_eq!(super::statuses(&response), vec![201; 12 - done]);
}

#[test]
fn the_time_counts_from_when_the_request_came() {
    let (app, client) = register();
    let entries = vec![get("Individual?_count=1"); 3];
    for (seconds, expected) in [(0, 200), (475, 200), (480, 503), (500, 503)] {
        let response = send_slowly(&app, &client, ("batch", seconds), &entries).expect(200);
        assert_eq!(statuses(&response), vec![expected; 3], "{seconds}");
    }
}

#[test]
fn a_transaction_that_is_not_done_in_time_is_503_and_writes_nothing() {
    let (app, client) = register();
    let refused = send_slowly(&app, &client, ("transaction", 480), &creates(2)).expect(503);
    assert_eq!((refused.number("retry-after"), refused.code().as_str()), (1, "deadline_exceeded"));
    let detail = refused.detail();
    assert!(detail.starts_with("entry[0]: the time limit of the batch ended before this entry"), "{detail}");
    assert!(detail.ends_with("nothing of the transaction was written"), "{detail}");
    app.pass_at_each_look(100);
    let refused = client.post("/$batch", &json!({"type": "transaction", "entry": creates(12)})).expect(503);
    app.pass_at_each_look(0);
    assert!(!refused.detail().starts_with("entry[0]"), "some were done: {}", refused.detail());
    assert_eq!(people(&client), 0);
}

#[test]
fn a_named_batch_that_ran_out_of_time_is_finished_when_it_is_sent_again() {
    let (app, client) = register();
    let named = || {
        let request = client.request("POST", "/$batch").header("Idempotency-Key", "a-long-batch");
        request.json(&json!({"type": "batch", "entry": creates(12)})).send().expect(200)
    };
    app.pass_at_each_look(30);
    let first = statuses(&named());
    app.pass_at_each_look(0);
    let done = first.iter().filter(|status| **status == 201).count();
    assert!((1..12).contains(&done), "{first:?}");
    assert_eq!(people(&client), done as i64);
    assert_eq!(statuses(&named()), vec![201; 12]);
    assert_eq!(people(&client), 12);
}
