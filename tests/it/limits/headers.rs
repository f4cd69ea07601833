//! Rate limit headers: every response has those of its bucket.

use daftar_tests::records::{NATIONAL_ID, path, person};
use daftar_tests::token::{self, FORM, basic};
use daftar_tests::{Request, Response, TestApp};
use serde_json::json;

use super::{client, headers};

const JSON: &str = "application/json";
/// A body that is over the limit of every call.
const TOO_LONG: usize = (8 << 20) + 1;

#[test]
fn every_response_describes_the_bucket_that_counted_it() {
    let app = TestApp::start();
    let scopes = json!(["individual:all", "vocabulary:read", "eligibility:read"]);
    let client = client(&app, json!({"scopes": scopes, "rate_limit_per_minute": 47}));
    drop(app.admin().request("DELETE", "/plugins/eligibility-cel?force=true").send().expect(204));
    let tag = client.get("/Vocabulary").expect(200).header("etag").unwrap().to_owned();
    let request = |method: &str, path: &str| client.request(method, path);
    let create = |body| request("POST", "/Individual").json(&body);
    let responses: Vec<(u16, Request)> = vec![
        (200, request("GET", "/Individual")),
        (200, request("HEAD", "/Individual")),
        (201, create(person("1", json!({})))),
        (200, request("GET", &path("Individual", "1"))),
        (304, request("GET", "/Vocabulary").header("If-None-Match", &tag)),
        (400, request("GET", "/Individual?unknown=1")),
        (400, request("GET", "/Individual/bare")),
        (403, request("GET", "/Group")),
        (404, request("GET", &path("Individual", "absent"))),
        (406, request("GET", "/Individual").header("Accept", "image/png")),
        (409, create(person("1", json!({})))),
        (413, request("POST", "/Individual").header("Content-Type", JSON).declare_length(TOO_LONG)),
        (415, request("POST", "/Individual").body("text/plain", "{}")),
        (422, create(json!({"identifier": [{"system": NATIONAL_ID, "value": "2"}], "unheard_of": 1}))),
        (503, request("POST", "/Eligibility/$validate").json(&json!({"expression": "true"}))),
    ];
    let made = responses.len() as i64 + 1;
    for (number, (status, request)) in responses.into_iter().enumerate() {
        let response = request.send().expect(status);
        assert_eq!(headers(&response), (47, 47 - 2 - number as i64), "{status}");
        assert_reset(&response, 47);
    }
    for left in (0..47 - made).rev() {
        assert_eq!(headers(&client.get("/Individual").expect(200)), (47, left));
    }
    let refused = client.get("/Individual").expect(429);
    assert_eq!((headers(&refused), refused.code().as_str()), ((47, 0), "rate_limited"));
    assert_reset(&refused, 47);
}

/// The minute bucket is full again after the time that the used calls take.
#[track_caller]
fn assert_reset(response: &Response, per_minute: i64) {
    let used = per_minute - headers(response).1;
    assert_eq!(response.number("x-ratelimit-reset"), (60 * used + per_minute - 1) / per_minute, "{response:?}");
}

#[test]
fn responses_without_a_valid_token_describe_the_bucket_of_the_address() {
    let app = TestApp::start();
    let anonymous = app.anonymous();
    let tag = anonymous.request("GET", "/metadata").send().expect(200).header("etag").unwrap().to_owned();
    let client = client(&app, json!({}));
    let request = |method: &str, path: &str| anonymous.request(method, path);
    let responses: Vec<(u16, Request)> = vec![
        (401, request("GET", "/api/v2/Individual")),
        (401, request("GET", "/api/v2/Individual").bearer("no.such.token")),
        (401, request("POST", "/api/v2/Individual").header("Content-Type", JSON).declare_length(TOO_LONG)),
        (304, request("GET", "/metadata").header("If-None-Match", &tag)),
        (406, request("GET", "/metadata").header("Accept", "image/png")),
        (200, request("GET", "/openapi.json")),
        (200, request("GET", "/api/v2/metadata")),
        (200, request("GET", "/.well-known/oauth-authorization-server")),
        (404, request("GET", "/api/v2/Nothing")),
        (405, request("DELETE", "/api/v2/Individual")),
        (405, request("OPTIONS", "/api/v2/Individual")),
        // Route and method are checked before any token.
        (404, request("GET", "/api/v2/Nothing").bearer(client.token())),
        (405, request("GET", "/api/v2/oauth/token").bearer(client.token())),
    ];
    for (number, (status, request)) in responses.into_iter().enumerate() {
        let response = request.send().expect(status);
        assert_eq!(headers(&response), (30, 28 - number as i64), "{status}");
        assert_reset(&response, 30);
    }
    assert_eq!(headers(&client.get("/Individual").expect(200)), (60, 59));
}

#[test]
fn every_response_to_a_token_request_describes_its_own_bucket() {
    let app = TestApp::start();
    let credentials = app.admin().create_client(&json!({"name": "clinic"}));
    let right = basic(&credentials.id, &credentials.secret);
    let asker = app.anonymous();
    let ask = |authorization: &str, body: &str| {
        asker.request("POST", token::PATH).header("Authorization", authorization).body(FORM, body)
    };
    let grant = "grant_type=client_credentials";
    let responses = [
        (200, ask(&right, grant)),
        (400, ask(&right, "grant_type=password")),
        (401, ask(&basic(&credentials.id, "wrong"), grant)),
        (413, ask(&right, grant).declare_length(TOO_LONG)),
        (400, asker.request("POST", token::PATH).body("text/plain", grant)),
        (429, ask(&right, grant)),
    ];
    for (number, (status, request)) in responses.into_iter().enumerate() {
        let response = request.send().expect(status);
        assert_eq!(headers(&response), (5, (4 - number as i64).max(0)), "{status}");
        // A sliding window has all its calls again a minute after the last one.
        assert_eq!(response.header("x-ratelimit-reset"), Some("60"), "{status}");
    }
    let elsewhere = asker.request("GET", "/metadata").send().expect(200);
    assert_eq!(headers(&elsewhere), (30, 29), "the same address has its other bucket whole");
}

#[test]
fn the_window_closest_to_its_limit_is_reported() {
    let app = TestApp::start();
    let client = client(&app, json!({"rate_limit_per_minute": 10, "rate_limit_per_day": 19}));
    let reported = || headers(&client.get("/Individual").expect(200));
    for left in (0..10).rev() {
        assert_eq!(reported(), (10, left));
    }
    app.advance_seconds(48);
    // Eight are available again, and the day has nine left.
    assert_eq!(reported(), (10, 7));
    app.advance_seconds(6);
    assert_eq!(reported(), (19, 7), "the day of two equals");
    app.advance_seconds(60);
    for left in (0..7).rev() {
        assert_eq!(reported(), (19, left));
    }
    let refused = client.get("/Individual").expect(429);
    assert_eq!(headers(&refused), (19, 0));
    assert!(refused.detail().contains("the limit of 19 requests a day"), "{}", refused.detail());
    assert_eq!(refused.code(), "quota_exceeded");
}
