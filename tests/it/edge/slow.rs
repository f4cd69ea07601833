//! Clients that send or read too slowly.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};

use daftar_tests::{Response, TestApp};
use socket2::{Domain, Socket, Type};

use super::capacity::{metric, open, read_until_closed};

fn app(change: impl FnOnce(&mut daftar::config::ConnectionsConfig)) -> TestApp {
    TestApp::builder().config(|config| change(&mut config.server.connections)).start()
}

#[test]
fn a_head_that_does_not_come_to_its_end_ends_the_connection() {
    let app = app(|connections| connections.header_timeout_ms = 2_000);
    let way = app.anonymous();
    let heads = ["", "G", "GET /health/live HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", "PRI * HTTP/2.0\r\n", "PRI"];
    // All at once: the timeout passes once.
    for (begun, stream) in heads.map(|begun| (begun, open(&way, way.source(), begun))) {
        assert_eq!(read_until_closed(stream), b"", "{begun}");
    }
    // The second head of a connection has the same timeout.
    let whole = "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut stream = open(&way, way.source(), whole);
    let mut first = [0; 12];
    std::io::Read::read_exact(&mut stream, &mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    stream.write_all(b"GET /health/live HTTP/1.1\r\nHos").unwrap();
    let rest = String::from_utf8(read_until_closed(stream)).unwrap();
    assert!(rest.ends_with("ok\n") && !rest.contains("HTTP/1.1"), "{rest}");
}

#[test]
fn a_connection_without_a_request_ends() {
    let app = app(|connections| connections.idle_timeout_ms = 300);
    let way = app.anonymous();
    let stream = open(&way, way.source(), "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let response = read_until_closed(stream);
    assert_eq!(Response::parse(&response).expect(200).text(), "ok\n");
}

#[test]
fn a_body_that_stops_or_takes_too_long_is_answered_408() {
    let app = app(|connections| connections.body_stall_timeout_ms = 300);
    let client = app.client(&["individual:create"]);
    let begun = |bytes: usize| {
        let request = client.request("POST", "/Individual").body("application/json", "{\"identifier\": [");
        request.declare_length(bytes)
    };
    let stalled = begun(100).send();
    assert_eq!(stalled.status, 408, "{}", stalled.text());
    assert!(stalled.detail().contains("nothing more of the body arrived"), "{}", stalled.detail());
    let token = app.token_request().body(daftar_tests::token::FORM, "grant_type=").declare_length(100).send();
    assert_eq!(token.status, 408);

    let app = self::app(|connections| connections.body_timeout_ms = 300);
    let client = app.client(&["individual:create"]);
    let request = client.request("POST", "/Individual").body("application/json", "{").declare_length(100);
    let late = request.send().expect(408);
    assert!(late.detail().contains("did not arrive within"), "{}", late.detail());
    assert_eq!([stalled.code(), late.code()], ["request_timeout"; 2]);
}

#[test]
fn an_unread_response_ends_the_connection() {
    let app = app(|connections| connections.write_timeout_ms = 200);
    let way = app.anonymous();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    socket.bind(&SocketAddr::new(IpAddr::V4(way.source()), 0).into()).unwrap();
    let server: SocketAddr = way.url().trim_start_matches("http://").parse().unwrap();
    socket.connect(&server.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_write_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    // Endless requests, whose responses are never read: the server reads none once its own send buffer is full.
    let many = "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1_000);
    let sent = (0..1_000).take_while(|_| stream.write_all(many.as_bytes()).is_ok()).count();
    assert!(sent < 1_000, "the server continued reading from a client that reads nothing");
    while metric(&app, "daftar_connections_closed_total{reason=\"write_timeout\"}") < 1.0 {}
}
