//! Unsupported methods are rejected for every caller.

use std::collections::{BTreeMap, BTreeSet};

use daftar::api::router::endpoints;
use daftar_tests::TestApp;

const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];

/// The methods that each path has in the table; a GET answers HEAD as well.
fn offered() -> BTreeMap<String, BTreeSet<String>> {
    let mut offered: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for endpoint in endpoints() {
        for path in endpoint.paths {
            let methods = offered.entry(path).or_default();
            methods.insert(endpoint.method.to_string());
            if endpoint.method == "GET" {
                methods.insert("HEAD".to_owned());
            }
        }
    }
    offered
}

#[test]
fn an_unsupported_method_is_405_for_every_caller_with_the_allowed_methods() {
    let app = TestApp::start();
    let holder = app.client(&["individual:all", "group:all", "program:all", "consent:all", "vocabulary:all"]);
    let mut problems = Vec::new();
    for (path, methods) in offered() {
        let target = path.replace("{identifier}", "urn:x%7C1").replace("{member}", "urn:x%7C1").replace(['{', '}'], "");
        for method in METHODS.iter().filter(|method| !methods.contains(**method)) {
            let connection = app.anonymous();
            for request in
                [connection.request(method, &target), connection.request(method, &target).bearer(holder.token())]
            {
                let response = request.send();
                let allowed = response.header("allow").unwrap_or_default();
                let allowed: BTreeSet<String> = allowed.split(',').map(|one| one.trim().to_owned()).collect();
                if response.status != 405 || allowed != methods {
                    problems
                        .push(format!("{method} {path}: {} {allowed:?} instead of 405 {methods:?}", response.status));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_path_that_there_is_not_is_404_with_and_without_a_token() {
    let app = TestApp::start();
    let holder = app.client(&["individual:all"]);
    for path in [
        "/",
        "/api/v2",
        "/api/v2/",
        "/api/v2/individual",
        "/api/v2/Individual/",
        "/api/v1/Individual",
        "/admin/v1/clients",
        "/metrics",
    ] {
        drop(app.anonymous().request("GET", path).send().expect(404));
        drop(app.anonymous().request("GET", path).bearer(holder.token()).send().expect(404));
    }
}
