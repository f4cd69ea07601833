//! Authorization of every endpoint of the router, for every kind of caller and every single scope.

mod callers;
mod methods;
mod reach;
mod table;

use std::collections::BTreeSet;

use daftar::api::endpoint::Endpoint;
use daftar::api::router::endpoints;
use daftar_tests::TestApp;

use callers::{Caller, callers};
use table::{ROWS, Row};

#[test]
fn every_endpoint_has_a_row_and_every_row_an_endpoint() {
    let of_router: BTreeSet<(String, String)> = endpoints().iter().map(key).collect();
    let of_table: BTreeSet<(String, String)> =
        ROWS.iter().map(|row| (row.method.to_owned(), row.path.to_owned())).collect();
    assert_eq!(of_router, of_table, "the router is on the left, the authorization table on the right");
    assert_eq!(of_table.len(), ROWS.len(), "a row stands twice");
}

#[test]
fn every_caller_gets_the_response_of_the_table() {
    let app = TestApp::start();
    let callers = callers(&app);
    assert_eq!(callers.len(), 48 + 5, "one a scope, and those with no token, a bad one or no scope");
    let mut problems = Vec::new();
    for endpoint in endpoints() {
        let row = ROWS.iter().find(|row| (row.method.to_owned(), row.path.to_owned()) == key(&endpoint)).unwrap();
        for path in &endpoint.paths {
            problems.extend(callers.iter().filter_map(|caller| wrong(&app, row, path, caller)));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn key(endpoint: &Endpoint) -> (String, String) {
    (endpoint.method.to_string(), endpoint.paths[0].clone())
}

/// The problem of the response to that caller, if any.
fn wrong(app: &TestApp, row: &Row, path: &str, caller: &Caller) -> Option<String> {
    let expected = row.expected(caller);
    let request = row.request(&app.anonymous(), path);
    let request = caller.token.iter().fold(request, |request, token| request.bearer(token));
    let response = request.send();
    let reported = format!("{} {path} by {}", row.method, caller.name);
    if response.status != expected {
        return Some(format!("{reported}: {} instead of {expected}: {}", response.status, response.text()));
    }
    match response.status {
        401 => response.header("www-authenticate").is_none().then(|| format!("{reported}: a 401 without a challenge")),
        403 => {
            let detail = response.detail();
            let is_reported = detail.starts_with(&format!("Missing required scope {}. Granted: ", row.missing(caller)))
                && detail.contains(if caller.scope.is_empty() { "none" } else { &caller.scope });
            (!is_reported).then(|| format!("{reported}: {detail}"))
        }
        _ => None,
    }
}
