//! More connections and more requests than there are slots.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};

use daftar_tests::{ApiClient, Connection, Held, Response, TestApp};
use serde_json::json;
use socket2::{Domain, Socket, Type};

fn app(max: u64, per_address_max: u64, requests_max: u64) -> TestApp {
    let app = TestApp::builder().config(|config| {
        let connections = &mut config.server.connections;
        (connections.max, connections.per_address_max, connections.requests_max) = (max, per_address_max, requests_max);
        // Slow clients here are slow on purpose.
        (connections.body_timeout_ms, connections.body_stall_timeout_ms) = (60_000, 60_000);
        connections.header_timeout_ms = 60_000;
    });
    app.start()
}

/// A connection that sends nothing, or a part of a request.
pub fn open(connection: &Connection, from: Ipv4Addr, says: &str) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(IpAddr::V4(from), 0).into()).unwrap();
    let server: SocketAddr = connection.url().trim_start_matches("http://").parse().unwrap();
    socket.connect(&server.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(says.as_bytes()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    stream
}

/// Reads until the server closes the connection.
pub fn read_until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut response = Vec::new();
    // A connection that is closed may end in a reset.
    let _is_orderly = stream.read_to_end(&mut response).is_ok();
    response
}

/// A request whose head is read and whose body is not sent yet.
fn start_request(client: &ApiClient) -> Held {
    let request = client.request("POST", "/Individual").header("Content-Type", "application/json");
    request.header("Expect", "100-continue").declare_length(100).hold_after("100 Continue")
}

fn is_healthy(connection: &Connection) {
    for path in ["/health/live", "/health/ready"] {
        assert_eq!(connection.request("GET", path).send().expect(200).text(), "ok\n");
    }
}

#[track_caller]
fn assert_retry_after(refused: &Response, what: &str) {
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.detail().contains(what), "{}", refused.detail());
    assert!(refused.number("retry-after") >= 1);
}

pub fn metric(app: &TestApp, series: &str) -> f64 {
    let request = app.admin_listener().request("GET", "/metrics").bearer(app.admin().token());
    let page = request.send().expect(200).text();
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no `{series}`: {page}")).parse().unwrap()
}

#[test]
fn one_address_has_its_number_of_connections() {
    let app = app(100, 3, 100);
    let client = app.client(&["individual:all"]);
    let anonymous = app.anonymous();
    let ask = || anonymous.request("GET", "/api/v2/Individual").bearer(client.token()).send();
    let mut held: Vec<TcpStream> = (0..3).map(|_| open(&anonymous, anonymous.source(), "GET /metad")).collect();
    // They connected before it, so the server accepted them before it.
    assert_retry_after(&ask(), "from this address");
    is_healthy(&anonymous);
    assert_eq!(app.anonymous().request("GET", "/metadata").send().status, 200, "another address");
    assert_eq!(client.post("/Individual", &json!({})).status, 422);
    let token = anonymous.request("POST", daftar_tests::token::PATH).body(daftar_tests::token::FORM, "x=y").send();
    assert_eq!(token.status, 503);
    assert_eq!(token.json()["error"], "temporarily_unavailable");
    drop(held.pop());
    while ask().status != 200 {}
    assert!(metric(&app, "daftar_connections_closed_total{reason=\"address_full\"}") >= 4.0);
}

#[test]
fn idle_connections_are_evicted_and_requests_in_progress_are_not() {
    let app = app(4, 100, 100);
    let client = app.client(&["individual:create"]);
    let idle: Vec<TcpStream> = (0..12)
        .map(|_| open(&app.anonymous(), daftar_tests::fresh_address(), "POST /api/v2/Individual HTTP/1.1\r\nHost"))
        .collect();
    assert_eq!(client.post("/Individual", &json!({})).expect(422).status, 422);
    let busy: Vec<Held> = (0..4).map(|_| start_request(&client)).collect();
    for stream in idle {
        assert_eq!(read_until_closed(stream), b"", "it was cut, since others came with requests");
    }
    let refused = app.anonymous().request("GET", "/metadata").send();
    assert_retry_after(&refused, "too many connections are open");
    assert_eq!(refused.code(), "too_many_connections");
    is_healthy(&app.anonymous());
    assert_eq!(app.admin().get("/clients").status, 200, "the administrator has places of their own");
    assert!(metric(&app, "daftar_connections_closed_total{reason=\"evicted_idle\"}") >= 12.0);
    drop(busy);
    while app.anonymous().request("GET", "/metadata").send().status != 200 {}
}

#[test]
fn so_many_requests_are_worked_on_at_once() {
    let app = app(100, 100, 2);
    let client = app.client(&["individual:create"]);
    let first = start_request(&client);
    assert_eq!(client.post("/Individual", &json!({})).status, 422, "the second place");
    let second = start_request(&client);
    let refused = client.post("/Individual", &json!({}));
    assert_retry_after(&refused, "too many concurrent requests");
    assert_eq!(refused.code(), "overloaded");
    let token = app.token_request().body(daftar_tests::token::FORM, "grant_type=client_credentials").send();
    assert_eq!((token.status, &token.json()["error"]), (503, &json!("temporarily_unavailable")));
    is_healthy(&app.anonymous());
    assert_eq!(app.admin().get("/clients").status, 200);
    assert_eq!(metric(&app, "daftar_http_requests_in_flight"), 2.0);
    assert_eq!(metric(&app, "daftar_http_requests_rejected_total"), 2.0);
    drop((first, second));
    while client.post("/Individual", &json!({})).status != 422 {}
}

#[test]
fn requests_for_tokens_take_a_quarter_of_the_places_at_most() {
    let app = app(100, 100, 4);
    let client = app.client(&["individual:read"]);
    let slow = app.token_request().header("Content-Type", daftar_tests::token::FORM);
    let _slow = slow.header("Expect", "100-continue").declare_length(50).hold_after("100 Continue");
    let other = app.token_request().body(daftar_tests::token::FORM, "grant_type=client_credentials").send();
    assert_eq!(other.status, 503, "{}", other.text());
    assert_eq!(client.get("/Individual").status, 200);
}

#[test]
fn hundreds_of_slow_clients_starve_no_other_client() {
    let app = app(100, 50, 50);
    let client = app.client(&["individual:read"]);
    let way = app.anonymous();
    let mut slow = Vec::new();
    for number in 0..300_u32 {
        let [_, _, high, low] = number.to_be_bytes();
        let from = Ipv4Addr::new(127, 201, high, low.max(1));
        slow.push(open(&way, from, "GET /api/v2/Individual HTTP/1.1\r\nHost: localhost\r\nX-Slow: "));
        if number % 10 == 0 {
            assert_eq!(client.get("/Individual").status, 200, "an ordinary client, beside {number} slow ones");
            is_healthy(&way);
        }
    }
    // They send a byte occasionally; some of them are closed by now.
    let still_there = slow.iter_mut().filter_map(|stream| stream.write_all(b"x").ok()).count();
    assert_eq!(client.get("/Individual").status, 200);
    assert!(still_there > 0);
    assert!(metric(&app, "daftar_connections") <= 100.0 + 64.0 + 8.0);
}
