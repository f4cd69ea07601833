//! Callers behind proxies, and those that claim to be.

use std::net::Ipv4Addr;

use daftar::config::{Config, ServerConfig};
use daftar_tests::{Connection, Response, TestApp, fresh_address};
use serde_json::Value;

const PROXY: Ipv4Addr = Ipv4Addr::new(127, 200, 0, 1);
const INNER_PROXY: &str = "127.200.0.2";
/// Number of calls without a token in the bucket of an address.
const UNAUTHENTICATED: usize = 30;

fn server(settings: &str) -> ServerConfig {
    Config::parse(&format!("[server]\n{settings}")).unwrap().server
}

/// A server that trusts proxies in 127.200.0.0/16.
fn behind_proxy(more: &str) -> (TestApp, Connection) {
    let with = server(&format!("trusted_proxies = ['127.200.0.0/16']\n{more}"));
    let app = TestApp::builder().config(|config| {
        config.server.trusted_proxies = with.trusted_proxies;
        config.server.forwarded_header = with.forwarded_header;
    });
    let app = app.start();
    let proxy = app.anonymous().from(PROXY);
    (app, proxy)
}

fn call(connection: &Connection, headers: &[(&str, &str)]) -> Response {
    let request = connection.request("GET", "/metadata");
    headers.iter().fold(request, |request, (name, value)| request.header(name, value)).send()
}

/// Uses a bucket up; returns the number of calls.
fn drain(connection: &Connection, headers: &[(&str, &str)]) -> usize {
    (0..=UNAUTHENTICATED).take_while(|_| call(connection, headers).status == 200).count()
}

#[test]
fn forwarded_addresses_are_ignored_without_trusted_proxies() {
    let app = TestApp::start();
    let anonymous = app.anonymous();
    for number in 0..UNAUTHENTICATED {
        let made_up = format!("203.0.113.{number}");
        let forwarded = format!("for={made_up}");
        let headers =
            [("X-Forwarded-For", made_up.as_str()), ("Forwarded", forwarded.as_str()), ("X-Real-IP", made_up.as_str())];
        assert_eq!(call(&anonymous, &headers).status, 200);
    }
    assert_eq!(call(&anonymous, &[("X-Forwarded-For", "198.51.100.9")]).status, 429);
}

#[test]
fn forwarded_addresses_of_direct_clients_are_ignored() {
    let (app, _) = behind_proxy("");
    let anonymous = app.anonymous();
    assert_eq!(drain(&anonymous, &[("X-Forwarded-For", "203.0.113.1")]), UNAUTHENTICATED);
    assert_eq!(call(&anonymous, &[("X-Forwarded-For", "203.0.113.2")]).status, 429);
    assert_eq!(call(&app.anonymous().from(PROXY), &[("X-Forwarded-For", "203.0.113.1")]).status, 200);
}

#[test]
fn callers_behind_a_proxy_have_a_bucket_each_and_cannot_leave_it() {
    let (_app, proxy) = behind_proxy("");
    assert_eq!(drain(&proxy, &[("X-Forwarded-For", "203.0.113.1")]), UNAUTHENTICATED);
    for same in [
        "203.0.113.1",
        "198.51.100.9, 203.0.113.1",
        "127.200.0.9, 203.0.113.1",
        "garbage, \"x, 203.0.113.1",
        "203.0.113.1:4711",
        "::ffff:203.0.113.1",
        &format!("198.51.100.9, 203.0.113.1, {INNER_PROXY}"),
        &format!("{}203.0.113.1", "198.51.100.9, ".repeat(2_000)),
    ] {
        assert_eq!(call(&proxy, &[("X-Forwarded-For", same)]).status, 429, "{same:.80}");
    }
    let lines =
        [("X-Forwarded-For", "198.51.100.9"), ("X-Forwarded-For", "203.0.113.1"), ("X-Forwarded-For", INNER_PROXY)];
    assert_eq!(call(&proxy, &lines).status, 429, "several lines are one list");
    // A header that this proxy does not set contains what an unauthenticated client sent.
    let other = [("X-Forwarded-For", "203.0.113.1"), ("Forwarded", "for=198.51.100.9")];
    assert_eq!(call(&proxy, &other).status, 429);
    assert_eq!(call(&proxy, &[("X-Forwarded-For", "203.0.113.2")]).status, 200, "others are not held up");
    assert_eq!(drain(&proxy, &[("X-Forwarded-For", "2001:db8:1:2::1")]), UNAUTHENTICATED);
    assert_eq!(call(&proxy, &[("X-Forwarded-For", "2001:db8:1:2:ffff::9")]).status, 429, "a network of 64 bits is one");
}

#[test]
fn unreadable_forwarded_addresses_are_charged_to_the_proxy() {
    let (_app, proxy) = behind_proxy("");
    assert_eq!(drain(&proxy, &[("X-Forwarded-For", "unknown")]), UNAUTHENTICATED);
    for unreadable in ["", "_hidden", "203.0.113.1, ", "203.0.113.1 x", "[::1", "203.0.113.300", "\u{ff}"] {
        assert_eq!(call(&proxy, &[("X-Forwarded-For", unreadable)]).status, 429, "{unreadable}");
    }
    assert_eq!(call(&proxy, &[]).status, 429, "nor does a header that is not there help");
    assert_eq!(call(&proxy, &[("X-Forwarded-For", "203.0.113.1")]).status, 200);
}

#[test]
fn forwarded_is_read_where_the_settings_say_so() {
    let (_app, proxy) = behind_proxy("forwarded_header = 'forwarded'");
    assert_eq!(drain(&proxy, &[("Forwarded", "for=203.0.113.1;proto=https")]), UNAUTHENTICATED);
    for same in [
        "For=\"203.0.113.1:99\"",
        "for=198.51.100.9, for=203.0.113.1",
        "for=198.51.100.9;for=x, for=203.0.113.1, for=127.200.0.2;by=_x",
    ] {
        assert_eq!(call(&proxy, &[("Forwarded", same)]).status, 429, "{same}");
    }
    let other = [("Forwarded", "for=203.0.113.1"), ("X-Forwarded-For", "198.51.100.9")];
    assert_eq!(call(&proxy, &other).status, 429);
    assert_eq!(call(&proxy, &[("Forwarded", "for=\"[2001:db8::1]:443\"")]).status, 200);
}

#[test]
fn the_token_bucket_and_the_audit_log_go_by_the_same_address() {
    let (app, proxy) = behind_proxy("");
    let ask = |address: &str| {
        let request = proxy.request("POST", daftar_tests::token::PATH).header("X-Forwarded-For", address);
        request.body(daftar_tests::token::FORM, "grant_type=client_credentials&client_id=x&client_secret=y").send()
    };
    for _ in 0..5 {
        assert_eq!(ask("198.51.100.7, 203.0.113.1").status, 401);
    }
    assert_eq!(ask("203.0.113.1").status, 429);
    assert_eq!(ask("203.0.113.2").status, 401);
    let found = app.admin().get("/audit?actor=unknown&_count=1000").expect(200).json();
    let mut addresses: Vec<&str> =
        found["data"].as_array().unwrap().iter().filter_map(|line| line["address"].as_str()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses, ["203.0.113.1", "203.0.113.2"], "{found}");
}

#[test]
fn only_a_trusted_proxy_may_forward_the_https_scheme() {
    let (app, proxy) = behind_proxy("");
    let hsts = |response: &Response| response.header("strict-transport-security").map(str::to_owned);
    let by = |connection: &Connection, protocol: &str| {
        hsts(&call(connection, &[("X-Forwarded-For", "203.0.113.7"), ("X-Forwarded-Proto", protocol)]))
    };
    assert_eq!(by(&proxy, "https").as_deref(), Some("max-age=31536000"));
    assert_eq!(by(&proxy, "https, http"), None);
    assert_eq!(by(&proxy, "http"), None);
    assert_eq!(by(&app.anonymous(), "https"), None, "an untrusted peer");
    let with_token = app.client(&["individual:read"]);
    let reply = with_token.request("GET", "/Individual").header("X-Forwarded-Proto", "https").send().expect(200);
    assert_eq!(hsts(&reply), None);
}

#[test]
fn the_administrator_does_not_come_by_a_proxy() {
    let (app, _) = behind_proxy("");
    let admin = app.admin_listener().from(PROXY);
    let refused = admin.request("GET", "/admin/v1/clients").header("X-Forwarded-For", "203.0.113.5").send();
    assert_eq!(refused.status, 401);
    let found = app.admin().get("/audit?actor=unknown&_count=1000").expect(200).json();
    let line: &Value = &found["data"][0];
    assert_eq!(line["address"], PROXY.to_string(), "{found}");
    assert_ne!(fresh_address(), PROXY, "no other test has the proxy's address");
}
