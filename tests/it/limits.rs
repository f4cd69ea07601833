//! The three buckets: just below, at and above each limit, and after a restart. Other files test limits of single
//! clients, headers, crashes and concurrent calls.

mod concurrent;
mod crash;
mod headers;
mod overrides;

use daftar_tests::token::{FORM, basic};
use daftar_tests::{ApiClient, Credentials, Response, TestApp};
use serde_json::{Value, json};

/// Seconds from the initial noon of the clock to the next day.
const TO_MIDNIGHT_S: i64 = 12 * 3_600;

fn client(app: &TestApp, limits: Value) -> ApiClient {
    let body = daftar_tests::records::with(json!({"name": "limited", "scopes": ["individual:read"]}), limits);
    app.client_of(&app.admin().create_client(&body))
}

/// `X-RateLimit-Limit` and `X-RateLimit-Remaining`.
fn headers(response: &Response) -> (i64, i64) {
    assert!(response.number("x-ratelimit-reset") >= 0, "{response:?}");
    (response.number("x-ratelimit-limit"), response.number("x-ratelimit-remaining"))
}

#[track_caller]
fn assert_refused(response: &Response, limit: i64) -> i64 {
    assert_eq!(response.status, 429, "{}", response.text());
    assert_eq!(headers(response), (limit, 0));
    assert!(response.detail().contains(&format!("the limit of {limit} requests")), "{}", response.detail());
    let retry_after_s = response.number("retry-after");
    assert!(retry_after_s >= 1);
    retry_after_s
}

#[test]
fn a_client_has_sixty_calls_a_minute_and_one_more_each_second() {
    let app = TestApp::start();
    let client = client(&app, json!({}));
    for made in 1..=60 {
        let response = client.get("/Individual").expect(200);
        assert_eq!(headers(&response), (60, 60 - made));
    }
    let wait_s = assert_refused(&client.get("/Individual"), 60);
    assert_eq!(wait_s, 1);
    let again = client.get("/Individual");
    assert_eq!(assert_refused(&again, 60), 1, "a refused call counts in nothing");
    app.advance_seconds(wait_s);
    assert_eq!(client.get("/Individual").status, 200, "waiting as long as told is enough");
    assert_eq!(client.get("/Individual").status, 429);
    for _ in 0..120 {
        app.advance_seconds(1);
        assert_eq!(client.get("/Individual").status, 200, "who calls evenly is never refused");
    }
}

#[test]
fn every_response_to_a_client_counts() {
    let app = TestApp::start();
    let client = client(&app, json!({"rate_limit_per_minute": 6}));
    let remaining = |response: &Response| headers(response).1;
    assert_eq!(remaining(&client.post("/Individual", &json!({})).expect(403)), 5);
    assert_eq!(remaining(&client.get("/Individual?unknown=1").expect(400)), 4);
    assert_eq!(remaining(&client.get("/Individual/urn:x:y|1").expect(404)), 3);
    assert_eq!(remaining(&client.request("POST", "/Individual").body("text/plain", "").send().expect(403)), 2);
    let again = app.client_of(client.credentials());
    assert_eq!(remaining(&again.get("/Individual").expect(200)), 1, "a new token has no new limit");
    assert_eq!(remaining(&client.get("/Individual").expect(200)), 0);
    assert_refused(&again.get("/Individual"), 6);
    assert_refused(&again.post("/Individual", &json!({})), 6);
}

#[test]
fn clients_do_not_share_a_limit_and_may_have_their_own() {
    let app = TestApp::start();
    let small = client(&app, json!({"rate_limit_per_minute": 2}));
    let other = client(&app, json!({"rate_limit_per_minute": 2}));
    assert_eq!(headers(&small.get("/Individual").expect(200)), (2, 1));
    assert_eq!(headers(&small.get("/Individual").expect(200)), (2, 0));
    assert_eq!(assert_refused(&small.get("/Individual"), 2), 30, "one call in thirty seconds");
    assert_eq!(headers(&other.get("/Individual").expect(200)), (2, 1));
    app.advance_seconds(29);
    assert_eq!(assert_refused(&small.get("/Individual"), 2), 1);
    app.advance_seconds(1);
    assert_eq!(small.get("/Individual").status, 200);
}

#[test]
fn a_days_count_outlives_a_restart_and_ends_at_midnight() {
    let mut app = TestApp::start();
    let client = client(&app, json!({"rate_limit_per_minute": 1_000, "rate_limit_per_day": 40}));
    for made in 1..=20 {
        assert_eq!(headers(&client.get("/Individual").expect(200)), (40, 40 - made));
    }
    app.restart();
    // At most one block of sixteen reserved on disk may be counted although unused.
    let mut response = client.get("/Individual").expect(200);
    let (limit, first) = headers(&response);
    assert_eq!(limit, 40);
    assert!((4..20).contains(&first), "{first}");
    for expected in (0..first).rev() {
        response = client.get("/Individual").expect(200);
        assert_eq!(headers(&response), (40, expected));
    }
    let wait_s = assert_refused(&client.get("/Individual"), 40);
    assert_eq!(wait_s, TO_MIDNIGHT_S);
    app.restart();
    assert_refused(&client.get("/Individual"), 40);
    app.advance_seconds(TO_MIDNIGHT_S - 1);
    assert_eq!(assert_refused(&client.get("/Individual"), 40), 1);
    app.advance_seconds(1);
    assert_eq!(headers(&client.get("/Individual").expect(200)), (40, 39));
}

#[test]
fn an_address_without_a_token_has_thirty_calls_and_never_blocks_a_valid_one() {
    let app = TestApp::start();
    let client = client(&app, json!({}));
    let anonymous = app.anonymous().from(client.connection().source());
    for made in 1..=10 {
        let request = anonymous.request("GET", "/api/v2/Individual");
        assert_eq!(headers(&request.send().expect(401)), (30, 30 - 3 * made + 2));
        let request = anonymous.request("GET", "/api/v2/Individual").bearer("forged.token.x");
        assert_eq!(headers(&request.send().expect(401)), (30, 30 - 3 * made + 1));
        let request = anonymous.request("GET", "/.well-known/oauth-authorization-server");
        assert_eq!(headers(&request.send().expect(200)), (30, 30 - 3 * made));
    }
    for target in ["/api/v2/Individual", "/.well-known/oauth-authorization-server", "/nothing"] {
        assert_eq!(assert_refused(&anonymous.request("GET", target).send(), 30), 2);
    }
    assert_refused(&anonymous.request("GET", "/api/v2/Individual").bearer("forged.token.x").send(), 30);
    assert_eq!(anonymous.request("GET", "/health/live").send().status, 200);
    assert_eq!(headers(&client.get("/Individual").expect(200)), (60, 59), "a valid token of the same address");
    assert_eq!(app.anonymous().request("GET", "/api/v2/Individual").send().status, 401, "another address");
    app.advance_seconds(2);
    assert_eq!(anonymous.request("GET", "/api/v2/Individual").send().status, 401);
}

#[test]
fn an_address_may_ask_for_five_tokens_a_minute_and_fifty_a_day() {
    let app = TestApp::start();
    let credentials = app.admin().create_client(&json!({"name": "clinic"}));
    let connection = app.anonymous();
    let ask = |credentials: &Credentials| {
        let request = connection.request("POST", "/api/v2/oauth/token");
        let request = request.header("Authorization", basic(&credentials.id, &credentials.secret));
        request.body(FORM, "grant_type=client_credentials").send()
    };
    let wrong = Credentials { secret: "wrong".to_owned(), ..credentials.clone() };
    for made in 1..=5 {
        let response = if made % 2 == 0 { ask(&wrong).expect(401) } else { ask(&credentials).expect(200) };
        assert_eq!(headers(&response), (5, 5 - made));
    }
    let refused = ask(&credentials);
    assert_eq!(assert_refused(&refused, 5), 60, "no 60 seconds have more than five");
    assert_eq!(refused.json()["error"], "temporarily_unavailable");
    assert_eq!(refused.header("content-type"), Some("application/json"));
    assert_eq!(ask(&wrong).status, 429, "whether a secret is right is not told any more");
    assert_eq!(app.client_of(&credentials).get("/Individual").status, 403, "another address gets its token");
    app.advance_seconds(59);
    assert_eq!(assert_refused(&ask(&credentials), 5), 1);
    app.advance_seconds(1);
    for made in 6..=50 {
        assert_eq!(ask(&credentials).status, 200, "{made}");
        app.advance_seconds(12);
    }
    app.advance_seconds(60);
    assert!(assert_refused(&ask(&credentials), 50) > 3_600);
}

#[test]
fn forged_tokens_of_a_client_leave_its_limit_alone() {
    let app = TestApp::start();
    let client = client(&app, json!({}));
    let (message, _) = client.token().rsplit_once('.').unwrap();
    let forged = format!("{message}.AAAA");
    let forger = app.anonymous();
    for _ in 0..30 {
        assert_eq!(forger.request("GET", "/api/v2/Individual").bearer(&forged).send().status, 401);
    }
    assert_eq!(forger.request("GET", "/api/v2/Individual").bearer(&forged).send().status, 429);
    assert_eq!(headers(&client.get("/Individual").expect(200)), (60, 59));
}
