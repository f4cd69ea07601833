//! IPv6 clients: a network of 64 bits is one client, for all addresses in it.

use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpStream};

use daftar::config::Config;
use daftar_tests::token::{self, FORM, basic};
use daftar_tests::{Credentials, Response, TestApp};

/// Number of token requests in the bucket of a network.
const TOKENS: usize = 5;

/// A server on the loopback address of IPv6, which trusts proxies on that address.
fn app(trusts_loopback: bool) -> (TestApp, SocketAddr) {
    let trusted = if trusts_loopback { "trusted_proxies = ['::1']" } else { "" };
    let with = Config::parse(&format!("[server]\nlisten = '[::1]:0'\n{trusted}")).unwrap().server;
    let app = TestApp::builder().config(|config| {
        config.server.listen = with.listen;
        config.server.trusted_proxies = with.trusted_proxies;
    });
    let app = app.start();
    let port = app.anonymous().url().rsplit(':').next().unwrap().parse().unwrap();
    (app, SocketAddr::from((Ipv6Addr::LOCALHOST, port)))
}

fn send(server: SocketAddr, head: &str, body: &str) -> Response {
    let mut stream = TcpStream::connect(server).unwrap();
    let length = body.len();
    write!(stream, "{head}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    Response::parse(&response)
}

fn ask_for_token(server: SocketAddr, credentials: &Credentials, forwarded_for: Option<&str>) -> Response {
    let basic = basic(&credentials.id, &credentials.secret);
    let forwarded = forwarded_for.map_or_else(String::new, |address| format!("\r\nX-Forwarded-For: {address}"));
    let head = format!("POST {} HTTP/1.1\r\nAuthorization: {basic}\r\nContent-Type: {FORM}{forwarded}", token::PATH);
    send(server, &head, "grant_type=client_credentials")
}

fn client(app: &TestApp) -> Credentials {
    app.admin().create_client(&serde_json::json!({"name": "six", "scopes": ["individual:read"]}))
}

#[test]
fn a_client_of_ipv6_gets_tokens_up_to_the_limit_and_calls() {
    let (app, server) = app(false);
    let credentials = client(&app);
    let mut bearer = String::new();
    for _ in 0..TOKENS {
        let issued = ask_for_token(server, &credentials, None).expect(200).json();
        bearer = issued["access_token"].as_str().unwrap().to_owned();
    }
    let refused = ask_for_token(server, &credentials, None).expect(429);
    assert!(refused.number("retry-after") > 0, "{refused:?}");
    let head = format!("GET /api/v2/Individual HTTP/1.1\r\nAuthorization: Bearer {bearer}");
    assert_eq!(send(server, &head, "").expect(200).json()["total"], 0);
    let lines = app.admin().get("/audit?action=authenticate").expect(200).json();
    let from: Vec<&str> =
        lines["data"].as_array().unwrap().iter().filter_map(|line| line["address"].as_str()).collect();
    assert!(from.contains(&"::/64"), "the audit log says from which network: {lines}");
}

#[test]
fn addresses_of_one_network_share_a_bucket_and_networks_do_not() {
    let (app, server) = app(true);
    let credentials = client(&app);
    let from = |address: &str| ask_for_token(server, &credentials, Some(address)).status;
    for number in 1..=TOKENS {
        assert_eq!(from(&format!("2001:db8:0:1::{number}")), 200);
    }
    assert_eq!(from("2001:db8:0:1:ffff:ffff:ffff:ffff"), 429, "another address of the same 64 bits");
    assert_eq!(from("2001:db8:0:2::1"), 200, "another network");
    // An IPv4 address is the same client in both notations.
    for _ in 0..TOKENS {
        assert_eq!(from("198.51.100.7"), 200);
    }
    assert_eq!(from("::ffff:198.51.100.7"), 429);
}
