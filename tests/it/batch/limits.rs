//! What a batch costs.

use daftar_tests::records::with;
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
    let answer = send(&client, "batch", searches(40)).expect(200);
    assert_eq!(statuses(&answer), vec![200; 40]);
    assert_eq!((answer.number("x-ratelimit-limit"), answer.number("x-ratelimit-remaining")), (60, 20));
    let refused = send(&client, "batch", searches(21)).expect(429);
    assert_eq!(refused.number("x-ratelimit-limit"), 60);
    let wait_s = refused.number("retry-after");
    assert_eq!(wait_s, 2, "the call itself was counted, and so 19 of 21 are left");
    app.advance_seconds(wait_s);
    let answer = send(&client, "batch", searches(21)).expect(200);
    assert_eq!(answer.number("x-ratelimit-remaining"), 0);
}

#[test]
fn a_batch_that_never_fits_is_told_so() {
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
