//! Pages that call the API from a browser.

use daftar::config::Config;
use daftar_tests::{Response, TestApp};

const PORTAL: &str = "https://portal.example.org";

fn app(origins: &str) -> TestApp {
    let server = Config::parse(&format!("[server]\ncors_origins = [{origins}]")).unwrap().server;
    TestApp::builder().config(|config| config.server.cors_origins = server.cors_origins).start()
}

/// Every CORS header of a response.
fn about_origins(response: &Response) -> Vec<String> {
    let is_about = |name: &str| name.starts_with("access-control-");
    let reported = response.headers().iter().filter(|(name, _)| is_about(name));
    reported.map(|(name, value)| format!("{name}: {value}")).collect()
}

fn varies_by_origin(response: &Response) -> bool {
    response.headers().iter().any(|(name, value)| name == "vary" && value.contains("Origin"))
}

/// A raw response: its headers depend on the configuration, and the document describes those of every server.
fn raw(app: &TestApp, from: std::net::Ipv4Addr, head: &str) -> Response {
    let bytes = format!("{head}Host: localhost\r\nConnection: close\r\n\r\n");
    Response::parse(&app.anonymous().from(from).exchange(bytes.as_bytes()))
}

fn preflight(app: &TestApp, from: std::net::Ipv4Addr, origin: &str) -> Response {
    let requested = "Access-Control-Request-Method: PATCH\r\nAccess-Control-Request-Headers: authorization\r\n";
    raw(app, from, &format!("OPTIONS /api/v2/Individual/urn:x%7C1 HTTP/1.1\r\nOrigin: {origin}\r\n{requested}"))
}

#[test]
fn no_response_has_cors_headers_without_configured_origins() {
    let app = TestApp::start();
    let client = app.client(&["individual:read"]);
    let response = client.request("GET", "/Individual").header("Origin", PORTAL).send().expect(200);
    assert_eq!(about_origins(&response), [""; 0]);
    assert!(!varies_by_origin(&response));
    let requested = preflight(&app, daftar_tests::fresh_address(), PORTAL);
    assert_eq!((requested.status, about_origins(&requested)), (405, Vec::new()));
}

#[test]
fn a_page_of_a_named_origin_may_ask_and_read() {
    let app = app("'https://portal.example.org', 'http://localhost:3000'");
    let client = app.client(&["individual:read"]);
    let bearer = format!("Authorization: Bearer {}\r\n", client.token());
    for origin in [PORTAL, "http://localhost:3000"] {
        let requested = preflight(&app, daftar_tests::fresh_address(), origin).expect(204);
        assert_eq!(requested.header("access-control-allow-origin"), Some(origin));
        assert_eq!(requested.header("access-control-allow-methods"), Some("GET, HEAD, POST, PUT, PATCH, DELETE"));
        let headers = requested.header("access-control-allow-headers").unwrap();
        assert!(headers.contains("Authorization") && headers.contains("Idempotency-Key"), "{headers}");
        assert!(requested.header("access-control-allow-credentials").is_none() && varies_by_origin(&requested));
        assert_eq!(requested.header("x-ratelimit-limit"), Some("30"), "it is counted as other calls without a token");
        assert_eq!(requested.text(), "");

        let from = daftar_tests::fresh_address();
        let head = format!("GET /api/v2/Individual HTTP/1.1\r\nOrigin: {origin}\r\n");
        for (head, status) in [(format!("{head}{bearer}"), 200), (head, 401)] {
            let response = raw(&app, from, &head).expect(status);
            assert_eq!(response.header("access-control-allow-origin"), Some(origin));
            let exposed = response.header("access-control-expose-headers").unwrap();
            for name in [
                "ETag",
                "Location",
                "Retry-After",
                "X-RateLimit-Limit",
                "X-RateLimit-Remaining",
                "X-RateLimit-Reset",
                "X-Request-Id",
            ] {
                assert!(exposed.split(", ").any(|one| one == name), "{name}: {exposed}");
            }
            assert!(response.header("access-control-allow-credentials").is_none() && varies_by_origin(&response));
        }
    }
}

#[test]
fn other_pages_may_not() {
    let app = app("'https://portal.example.org'");
    let client = app.client(&["individual:read"]);
    let bearer = format!("Authorization: Bearer {}\r\n", client.token());
    for origin in [
        "https://portal.example.org.evil.example",
        "https://portal.example.org:8443",
        "http://portal.example.org",
        "https://PORTAL.example.org",
        "https://evil.example",
        "null",
        "*",
        "",
        "https://portal.example.org, https://evil.example",
        "https://portal.example.org\r\nOrigin: https://evil.example",
    ] {
        let requested = preflight(&app, daftar_tests::fresh_address(), origin).expect(403);
        assert_eq!(about_origins(&requested), [""; 0], "{origin}");
        assert!(requested.detail().contains("`cors_origins`") && varies_by_origin(&requested), "{origin}");
        assert_eq!(requested.code(), "origin_not_allowed", "{origin}");
        let head = format!("GET /api/v2/Individual HTTP/1.1\r\nOrigin: {origin}\r\n{bearer}");
        let response = raw(&app, daftar_tests::fresh_address(), &head).expect(200);
        assert_eq!(about_origins(&response), [""; 0], "clients that are not browsers may call: {origin}");
        assert!(varies_by_origin(&response));
    }
    let without = raw(&app, daftar_tests::fresh_address(), "GET /health/live HTTP/1.1\r\n").expect(200);
    assert!(varies_by_origin(&without) && about_origins(&without).is_empty(), "what is kept is kept for one origin");
}

#[test]
fn questions_of_browsers_use_the_bucket_of_their_address_up() {
    let app = app("'https://portal.example.org'");
    let from = daftar_tests::fresh_address();
    for _ in 0..30 {
        drop(preflight(&app, from, PORTAL).expect(204));
    }
    let refused = preflight(&app, from, PORTAL).expect(429);
    assert!(refused.number("retry-after") >= 1);
    assert_eq!(refused.header("access-control-allow-origin"), Some(PORTAL), "so that the page can tell why");
    drop(preflight(&app, daftar_tests::fresh_address(), PORTAL).expect(204));
}
