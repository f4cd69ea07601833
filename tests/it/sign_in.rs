//! Brute-force attempts at a secret are throttled, from any number of addresses; clients with the valid secret are not.

use std::thread::JoinHandle;

use daftar_tests::token::FORM;
use daftar_tests::{Credentials, Request, Response, Server, TestApp, process};
use serde_json::{Value, json};

/// Number of failures without a delay.
const FREE: usize = 10;
/// Maximum number of delayed responses at a time.
const HELD_MAX: usize = 64;
const SLOWED: &str = "/audit?actor=unknown&action=authenticate&text=slowed";

fn request(app: &TestApp, id: &str, secret: &str) -> Request {
    let body = format!("grant_type=client_credentials&client_id={id}&client_secret={secret}");
    app.token_request().body(FORM, body)
}

fn in_background(request: Request) -> JoinHandle<Response> {
    std::thread::spawn(move || request.send())
}

/// A value of the metrics page.
fn figure(app: &TestApp, name: &str) -> u64 {
    let page = app.admin_listener().request("GET", "/metrics").bearer(app.admin().token()).send().expect(200);
    let line = page.text().lines().find_map(|line| line.strip_prefix(&format!("{name} ")).map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

/// Waits until this number of responses is delayed, which depends on the server's own work alone.
fn wait_until_held(app: &TestApp, responses: u64) {
    for _ in 0..20_000 {
        if figure(app, "daftar_token_responses_delayed") == responses {
            return;
        }
        std::thread::yield_now();
    }
    panic!("{responses} responses are not delayed");
}

fn app_with_client() -> (TestApp, Credentials) {
    let app = TestApp::start();
    let credentials = app.admin().create_client(&json!({"name": "clinic", "scopes": ["individual:read"]}));
    (app, credentials)
}

/// The visible content of a failure response, delayed or not.
fn shown(response: &Response) -> (u16, Value, Option<String>) {
    (response.status, response.json(), response.header("www-authenticate").map(str::to_owned))
}

#[test]
fn failure_responses_are_delayed_and_a_valid_secret_is_not() {
    let (app, credentials) = app_with_client();
    let unknown = "client-absent";
    let free: Vec<_> = (0..FREE).map(|_| shown(&request(&app, &credentials.id, "wrong").send())).collect();
    for _ in 0..FREE {
        assert_eq!(request(&app, unknown, "wrong").send().status, 401);
    }
    let slow = [in_background(request(&app, &credentials.id, "wrong")), in_background(request(&app, unknown, "wrong"))];
    wait_until_held(&app, 2);
    assert_eq!(app.client_of(&credentials).get("/Individual").status, 200, "the right secret, while others are held");
    assert_eq!(request(&app, "client-another", "wrong").send().status, 401, "and so does a client that failed once");
    assert!(slow.iter().all(|response| !response.is_finished()));
    app.advance_seconds(1);
    for response in slow {
        assert_eq!(shown(&response.join().unwrap()), free[0], "nothing but the time differs");
    }
    assert!(free.iter().all(|response| *response == free[0]) && free[0].0 == 401, "{free:?}");

    let reported = app.admin().get(SLOWED).expect(200).json()["data"].take();
    let reported = reported.as_array().unwrap();
    let records: Vec<&Value> = reported.iter().map(|line| &line["records"]).collect();
    assert_eq!(reported.len(), 2, "one line for each, and no unknown client id: {reported:#?}");
    assert!(records.contains(&&json!([credentials.id])) && records.contains(&&json!([])), "{reported:#?}");
    assert_eq!(figure(&app, "daftar_token_throttled_total"), 2);
    assert_eq!(figure(&app, "daftar_token_failures_total"), 2 * (FREE as u64 + 1) + 1);
    // A quarter of an hour later it is forgotten.
    app.advance_seconds(15 * 60);
    assert_eq!(request(&app, &credentials.id, "wrong").send().status, 401);
}

#[test]
fn a_disabled_client_is_slowed_down_as_an_unknown_one_is() {
    let (app, credentials) = app_with_client();
    app.admin().disable(&credentials.id);
    for _ in 0..FREE {
        assert_eq!(request(&app, &credentials.id, &credentials.secret).send().status, 401);
    }
    let slow = in_background(request(&app, &credentials.id, &credentials.secret));
    wait_until_held(&app, 1);
    app.advance_seconds(1);
    assert_eq!(slow.join().unwrap().status, 401);
    app.admin().enable(&credentials.id);
    app.advance_seconds(1);
    assert_eq!(app.client_of(&credentials).get("/Individual").status, 200);
}

#[test]
fn malformed_requests_and_wrong_scopes_are_no_guesses() {
    let (app, credentials) = app_with_client();
    for _ in 0..FREE + 5 {
        let body = format!("grant_type=password&client_id={}&client_secret=wrong", credentials.id);
        assert_eq!(app.token_request().body(FORM, body).send().status, 400);
        let Credentials { id, secret } = &credentials;
        let body = format!("grant_type=client_credentials&client_id={id}&client_secret={secret}&scope=group:read");
        assert_eq!(app.token_request().body(FORM, body).send().status, 400);
    }
    assert_eq!(figure(&app, "daftar_token_failures_total"), 0);
}

#[test]
fn the_number_of_delayed_responses_is_limited_and_the_rest_is_rejected() {
    let (app, credentials) = app_with_client();
    for _ in 0..FREE {
        assert_eq!(request(&app, &credentials.id, "wrong").send().status, 401);
    }
    let held: Vec<_> = (0..HELD_MAX).map(|_| in_background(request(&app, &credentials.id, "wrong"))).collect();
    wait_until_held(&app, HELD_MAX as u64);
    let turned_away = request(&app, &credentials.id, "wrong").send().expect(429);
    assert_eq!(turned_away.header("retry-after"), Some("8"));
    assert_eq!(turned_away.header("cache-control"), Some("no-store"));
    assert_eq!(turned_away.json()["error"], "temporarily_unavailable");
    assert!(turned_away.detail().contains("retry in 8 s"), "{}", turned_away.detail());
    assert_eq!(figure(&app, "daftar_token_rejected_total"), 1);
    assert_eq!(app.client_of(&credentials).get("/Individual").status, 200, "the right secret passes");
    assert_eq!(request(&app, "client-another", "wrong").send().status, 401, "the first failures are free");
    app.advance_seconds(10);
    for response in held {
        assert_eq!(response.join().unwrap().status, 401);
    }
    wait_until_held(&app, 0);
}

#[test]
fn the_log_names_a_client_that_is_slowed_down_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let client = process::create_client(&data_dir, &["individual:read"]);
    let server = Server::serve(&data_dir, &[]);
    for attempt in 0..=FREE {
        let body = format!("grant_type=client_credentials&client_id={}&client_secret=guess-{attempt}", client.id);
        let response = server.connection().request("POST", daftar_tests::token::PATH).body(FORM, body).send();
        assert_eq!(response.status, 401);
    }
    let log = server.stop().expect_success().stderr;
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("token requests of a client keep failing")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains("WARN") && lines[0].contains(&client.id), "{log}");
    assert!(!log.contains("guess-") && !log.contains(&client.secret), "{log}");
}
