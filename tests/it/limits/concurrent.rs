//! Concurrent requests.

use daftar_tests::token::{self, FORM, basic};
use daftar_tests::{Request, TestApp};
use serde_json::json;

use super::client;

const CALLERS: usize = 8;
const CALLS_EACH: usize = 12;

/// Number of concurrent calls that are accepted.
fn let_through(request: &(impl Fn() -> Request + Sync)) -> usize {
    std::thread::scope(|scope| {
        let caller = || (0..CALLS_EACH).filter(|_| request().send().status != 429).count();
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(caller)).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    })
}

#[test]
fn calls_that_come_at_once_get_no_more_than_the_limit() {
    let app = TestApp::start();
    let by_minute = client(&app, json!({"rate_limit_per_minute": 50}));
    assert_eq!(let_through(&|| by_minute.request("GET", "/Individual")), 50);
    let by_day = client(&app, json!({"rate_limit_per_minute": 1_000, "rate_limit_per_day": 50}));
    assert_eq!(let_through(&|| by_day.request("GET", "/Individual")), 50);
    let two_tokens = app.client_of(by_minute.credentials());
    app.advance_seconds(60);
    let either = std::sync::atomic::AtomicUsize::new(0);
    let in_turn = || {
        let client = [&by_minute, &two_tokens][either.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 2];
        client.request("GET", "/Individual")
    };
    assert_eq!(let_through(&in_turn), 50, "two tokens of one client have one limit");
}

#[test]
fn concurrent_unauthenticated_requests_get_no_more_than_the_limit_of_their_address() {
    let app = TestApp::start();
    let anonymous = app.anonymous();
    assert_eq!(let_through(&|| anonymous.request("GET", "/api/v2/Individual")), 30);
    let credentials = app.admin().create_client(&json!({"name": "clinic"}));
    let right = basic(&credentials.id, &credentials.secret);
    let ask = || {
        let request = anonymous.request("POST", token::PATH).header("Authorization", &right);
        request.body(FORM, "grant_type=client_credentials")
    };
    assert_eq!(let_through(&ask), 5);
}
