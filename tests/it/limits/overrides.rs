//! Limits of single clients, changed while they call.

use daftar_tests::{ApiClient, TestApp};
use serde_json::{Value, json};

use super::{assert_refused, client, headers};

fn set(app: &TestApp, client: &ApiClient, limits: &Value) {
    drop(app.admin().request("PATCH", &format!("/clients/{}", client.id())).json(limits).send().expect(200));
}

/// Number of further calls that are accepted before one is rejected.
fn let_through(client: &ApiClient) -> i64 {
    let responses = (0..200).map(|_| client.get("/Individual"));
    responses.take_while(|response| response.status == 200).count() as i64
}

#[test]
fn a_changed_minute_acts_on_the_next_call_of_an_old_token() {
    let app = TestApp::start();
    let client = client(&app, json!({"rate_limit_per_minute": 5}));
    assert_eq!(let_through(&client), 5);
    set(&app, &client, &json!({"rate_limit_per_minute": 20}));
    assert_eq!(headers(&client.get("/Individual").expect(200)), (20, 14), "what was used stays used");
    assert_eq!(let_through(&client), 14);
    set(&app, &client, &json!({"rate_limit_per_minute": 2}));
    assert_eq!(assert_refused(&client.get("/Individual"), 2), 30);
    app.advance_seconds(29);
    assert_eq!(assert_refused(&client.get("/Individual"), 2), 1);
    app.advance_seconds(1);
    assert_eq!(let_through(&client), 1);
    set(&app, &client, &json!({"rate_limit_per_minute": null}));
    assert_eq!(let_through(&client), 58, "the limit of all, less the two that are used");
}

#[test]
fn a_changed_day_acts_on_the_next_call_and_outlives_a_restart() {
    let mut app = TestApp::start();
    let client = client(&app, json!({"rate_limit_per_minute": 1_000, "rate_limit_per_day": 15}));
    assert_eq!(let_through(&client), 15);
    set(&app, &client, &json!({"rate_limit_per_day": 18}));
    assert_eq!(headers(&client.get("/Individual").expect(200)), (18, 2));
    assert_eq!(let_through(&client), 2);
    set(&app, &client, &json!({"rate_limit_per_day": 17}));
    let to_midnight_s = assert_refused(&client.get("/Individual"), 17);
    app.restart();
    assert_eq!(assert_refused(&client.get("/Individual"), 17), to_midnight_s);
    set(&app, &client, &json!({"rate_limit_per_day": 19}));
    assert_eq!(let_through(&client), 1);
    set(&app, &client, &json!({"rate_limit_per_day": null}));
    assert_eq!(headers(&client.get("/Individual").expect(200)), (1_000, 998));
    assert_eq!(left_of_day(&client, &app), 10_000 - 20);
}

/// The remaining calls of the day, as reported when the minute has more.
fn left_of_day(client: &ApiClient, app: &TestApp) -> i64 {
    set(app, client, &json!({"rate_limit_per_minute": 1_000_000}));
    let (limit, left) = headers(&client.get("/Individual").expect(200));
    assert_eq!(limit, 10_000);
    left + 1
}

#[test]
fn limits_of_one_client_are_no_others() {
    let app = TestApp::start();
    let (slow, fast) = (client(&app, json!({})), client(&app, json!({})));
    set(&app, &slow, &json!({"rate_limit_per_minute": 1, "rate_limit_per_day": 1}));
    assert_eq!(let_through(&slow), 1);
    assert_eq!(let_through(&fast), 60);
}
