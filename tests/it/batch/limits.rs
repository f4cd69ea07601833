//! Cost of a batch.

use daftar_tests::records::{person, with};
use daftar_tests::{ApiClient, TestApp, errors};
use serde_json::{Value, json};

use super::{get, send, statuses};

fn limited(app: &TestApp, limits: Value) -> ApiClient {
    let body = with(json!({"name": "limited", "scopes": ["individual:read"]}), limits);
    app.client_of(&app.admin().create_client(&body))
}

fn searches(count: usize) -> Vec<Value> {
    vec![get("Individual"); count]
}

#[test]
fn each_entry_counts_as_one_request_and_a_batch_that_does_not_fit_does_nothing() {
    let app = TestApp::start();
    let client = limited(&app, json!({"rate_limit_per_minute": 60}));
    let response = send(&client, "batch", searches(40)).expect(200);
    assert_eq!(statuses(&response), vec![200; 40]);
    assert_eq!((response.number("x-ratelimit-limit"), response.number("x-ratelimit-remaining")), (60, 20));
    let refused = send(&client, "batch", searches(21)).expect(429);
    assert_eq!(refused.number("x-ratelimit-limit"), 60);
    let wait_s = refused.number("retry-after");
    assert_eq!(wait_s, 2, "the call itself was counted, and so 19 of 21 are left");
    app.advance_seconds(wait_s);
    let response = send(&client, "batch", searches(21)).expect(200);
    assert_eq!(response.number("x-ratelimit-remaining"), 0);
}

#[test]
fn a_batch_that_never_fits_is_rejected_as_such() {
    let app = TestApp::start();
    let client = limited(&app, json!({"rate_limit_per_minute": 60, "rate_limit_per_day": 70}));
    let refused = send(&client, "batch", searches(61)).expect(422);
    assert_eq!(errors(&refused.json()), [("entry".to_owned(), "too_many".to_owned())]);
    assert!(refused.detail().contains("send at most 60 entries at once"), "{}", refused.detail());
    app.advance_seconds(60);
    drop(send(&client, "batch", searches(60)).expect(200));
    app.advance_seconds(60);
    let refused = send(&client, "batch", searches(10)).expect(429);
    assert_eq!((refused.number("x-ratelimit-limit"), refused.number("x-ratelimit-remaining")), (70, 8));
    assert!(refused.number("retry-after") > 3_600, "the next day");
    drop(send(&client, "batch", searches(8)).expect(200));
}

#[test]
fn a_response_of_32_mib_omits_further_bodies() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    // The maximum size of a photo, in base64: six of them exceed a response, five do not.
    let photo = "A".repeat(6_666_664) + "AAA=";
    drop(client.create_individual(&person("1", json!({"photo": photo}))));
    let read = || get("Individual/urn:svc:vocab:id-type%23national_id%7C1");
    let write = json!({"request": {"method": "POST", "url": "Individual"}, "resource": person("2", json!({}))});
    let mut entries = vec![read(); 7];
    entries.extend([write, read(), get("Individual?_count=1")]);
    let response = send(&client, "batch", entries).expect(200);
    assert_eq!(statuses(&response), [200, 200, 200, 200, 200, 200, 413, 201, 413, 413]);
    let body = response.json();
    let parts = body["entry"].as_array().unwrap();
    assert_eq!(parts[5]["resource"]["photo"].as_str().map(str::len), Some(photo.len()), "the last one is whole");
    let reported = parts[6]["problem"]["detail"].as_str().unwrap();
    assert!(reported.contains("reach the size limit"), "{reported}");
    assert_eq!(parts[6]["problem"]["code"], "response_too_large");
    assert!(parts[7]["resource"].is_null() && parts[7]["response"]["location"].is_string(), "{}", parts[7]);
    assert_eq!(client.found("identifier=urn:svc:vocab:id-type%23national_id%7C2"), ["2"]);
}
