//! Headers of every response for browsers and caches, on every route, for successes and errors.

use std::collections::BTreeSet;

use daftar::api::access::Access;
use daftar::api::router::endpoints;
use daftar_tests::{Response, TestApp};
use serde_json::json;

/// Problems in the common properties of every response of the server.
fn problems(what: &str, response: &Response) -> Vec<String> {
    let expected = [
        ("x-content-type-options", Some("nosniff")),
        ("referrer-policy", Some("no-referrer")),
        ("server", None),
        ("x-powered-by", None),
        ("set-cookie", None),
        ("access-control-allow-origin", None),
        ("strict-transport-security", None),
    ];
    let wrong = expected.into_iter().filter(|(name, value)| response.header(name) != *value);
    wrong.map(|(name, value)| format!("{what}: `{name}` is {:?}, not {value:?}", response.header(name))).collect()
}

/// Expected caching of a successful response of a route.
fn cache_control(access: Access, path: &str) -> &'static str {
    let is_of_codes = path.contains("ocabular") || path.contains("oncept");
    match access {
        Access::Public if path.starts_with("/.well-known") => "no-store",
        Access::Public => "no-cache",
        Access::Scopes(_) if is_of_codes => "private, no-cache",
        Access::Scopes(_) | Access::AnyClient | Access::Token | Access::Health => "no-store",
    }
}

#[test]
fn every_route_sends_cache_control_and_no_server_details() {
    let app = TestApp::start();
    let resources = ["individual", "group", "program", "program_membership", "consent", "vocabulary", "eligibility"];
    let scopes: Vec<String> = resources.iter().map(|resource| format!("{resource}:all")).collect();
    let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let client = app.client(&scopes);
    let mut wrong = Vec::new();
    let (mut succeeded, mut failed, mut codes) = (BTreeSet::new(), 0, 0);
    for endpoint in endpoints() {
        for path in &endpoint.paths {
            let target = path
                .replace("{identifier}", "urn:svc:vocab:id-type%23national_id%7C1")
                .replace("{member}", "urn:svc:vocab:id-type%23national_id%7C1")
                .replace("{consent_id}", "00000000-0000-0000-0000-000000000000")
                .replace("{namespace}", "urn:iso:std:iso:3166-1")
                .replace("{code}", "FRA")
                .replace("{name}", "feminine_gender")
                .replace("{error_code}", "not_found")
                .replace("{file}", "icon.svg");
            let target = match target.rsplit('/').next() {
                Some("search" | "$search" | "%24search") => format!("{target}?q=france"),
                Some("$subsumes" | "%24subsumes") => format!("{target}?a=FRA&b=FRA"),
                _ => target,
            };
            let body =
                if path.contains("ocabular") { json!({"codes": ["urn:iso:std:iso:3166-1#FRA"]}) } else { json!({}) };
            let method = endpoint.method.as_str();
            let anonymous = || app.anonymous().request(method, &target);
            let known = client.connection().request(method, &target).bearer(client.token());
            let known = if method == "GET" || method == "DELETE" { known } else { known.json(&body) };
            for request in [anonymous(), anonymous().bearer("forged"), anonymous().header("Accept", "image/png"), known]
            {
                let response = request.send();
                let what = format!("{method} {target}: {}", response.status);
                wrong.extend(problems(&what, &response));
                let cache = response.header("cache-control").unwrap_or_default();
                let right = if response.status < 400 { cache_control(endpoint.access, path) } else { "no-store" };
                if cache != right {
                    wrong.push(format!("{what}: `cache-control` is `{cache}`, not `{right}`"));
                }
                if cache.starts_with("private") {
                    codes += 1;
                    if response.header("vary") != Some("Authorization, Accept-Language") {
                        wrong.push(format!("{what}: `vary` is {:?}", response.header("vary")));
                    }
                }
                if response.status < 400 {
                    succeeded.insert(endpoint.operation.id);
                } else {
                    failed += 1;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(succeeded.len() >= 20 && failed > 100 && codes >= 20, "{succeeded:?} {failed} {codes}");
}

#[test]
fn every_unknown_route_gets_the_same_response() {
    let app = TestApp::start();
    let client = app.client(&[]);
    for (method, target) in
        [("GET", "/"), ("GET", "/api/v2/nothing"), ("DELETE", "/metadata"), ("OPTIONS", "/docs/api"), ("TRACE", "/")]
    {
        let response = client.connection().request(method, target).send();
        assert!(response.status >= 400, "{method} {target}");
        assert_eq!(problems(target, &response), [""; 0]);
        assert_eq!(response.header("cache-control"), Some("no-store"));
    }
    for response in
        [app.admin().get("/clients"), app.admin().get("/nothing"), app.admin_listener().request("GET", "/").send()]
    {
        assert_eq!(problems("admin", &response), [""; 0]);
        assert_eq!(response.header("cache-control"), Some("no-store"));
    }
}

#[test]
fn the_page_of_the_document_runs_nothing_and_stands_in_no_frame() {
    let app = TestApp::start();
    for path in ["/docs/api", "/api/v2/docs/api"] {
        let page = app.anonymous().request("GET", path).send().expect(200);
        let policy = page.header("content-security-policy").unwrap();
        for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("script-src"), "{policy}");
        assert_eq!(page.header("x-frame-options"), Some("DENY"));
        assert_eq!(problems(path, &page), [""; 0]);
    }
}

#[test]
fn a_head_has_a_hundred_headers_and_128_kib_at_most() {
    let app = TestApp::start();
    let status = |headers: &str| {
        let head = format!("GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
        let response = app.anonymous().exchange(head.as_bytes());
        String::from_utf8_lossy(&response).split(' ').nth(1).map(str::to_owned)
    };
    let headers = |count: usize| "x-more: 1\r\n".repeat(count);
    // Two are in every head here.
    for (count, expected) in [(97, "200"), (98, "200"), (99, "431")] {
        assert_eq!(status(&headers(count)).as_deref(), Some(expected), "{} headers", count + 2);
    }
    for (kib, expected) in [(120, "200"), (136, "431")] {
        assert_eq!(status(&format!("x-long: {}\r\n", "x".repeat(kib << 10))).as_deref(), Some(expected), "{kib} KiB");
    }
}
