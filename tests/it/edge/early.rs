//! Requests that are answered before their body was read: the client sees the response, and no broken connection.

use std::io::{Read, Write};
use std::net::TcpStream;

use daftar_tests::{Response, TestApp};

use super::capacity::open;

/// As long as a body may be that writes a person.
const BIG: usize = 8 << 20;

/// Sends a request with so long a body, all of it, and only then reads the response.
#[track_caller]
fn send(stream: &mut TcpStream, method: &str, path: &str, headers: &str, bytes: usize) -> Response {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {bytes}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![b' '; bytes]).expect("the server takes the whole body");
    let mut response = Vec::new();
    let mut part = [0; 4_096];
    loop {
        let count = stream.read(&mut part).expect("the server answers");
        assert!(count > 0, "{}", String::from_utf8_lossy(&response));
        response.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&response).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.parse().unwrap() {
            return Response::parse(&response);
        }
    }
}

const JSON: &str = "Content-Type: application/json\r\n";

#[test]
fn a_body_that_no_handler_reads_is_discarded_and_the_connection_stays_open() {
    let app = TestApp::start();
    let client = app.client(&["individual:create"]);
    let way = app.anonymous();
    let mut stream = open(&way, way.source(), "");
    let bearer = |token: &str| format!("{JSON}Authorization: Bearer {token}\r\n");
    let person = "/api/v2/Individual";
    for (path, headers, status) in [
        (person, JSON.to_owned(), 401),
        (person, bearer("forged"), 401),
        (person, format!("{}Content-Encoding: gzip\r\n", bearer(client.token())), 415),
        ("/api/v2/Group", bearer(client.token()), 403),
        ("/api/v2/Program", bearer(client.token()), 405),
        ("/nothing", JSON.to_owned(), 404),
        (daftar_tests::token::PATH, JSON.to_owned(), 413),
    ] {
        assert_eq!(send(&mut stream, "POST", path, &headers, BIG).status, status, "{path} {headers}");
    }
    assert_eq!(send(&mut stream, "GET", "/health/live", "", 0).status, 200);
}

#[test]
fn a_connection_without_a_slot_gets_503_for_any_request() {
    let app = TestApp::builder().config(|config| config.server.connections.per_address_max = 1).start();
    let way = app.anonymous();
    let _held = open(&way, way.source(), "GET /metad");
    for _ in 0..20 {
        let mut stream = open(&way, way.source(), "");
        assert_eq!(send(&mut stream, "POST", "/api/v2/Individual", JSON, BIG).status, 503);
    }
}

#[test]
fn the_rest_of_a_body_is_read_for_so_long_and_no_longer() {
    let app = TestApp::start();
    let way = app.anonymous();
    // One that stops, and one that is asked to wait for the server's word.
    for more in ["", "Expect: 100-continue\r\n"] {
        let head =
            format!("POST /api/v2/Individual HTTP/1.1\r\nHost: localhost\r\n{JSON}{more}Content-Length: {BIG}\r\n\r\n");
        let response = way.exchange(head.as_bytes());
        assert_eq!(Response::parse(&response).status, 401, "and the connection is closed");
    }
    // One that does not end.
    let mut stream = open(&way, way.source(), "");
    let endless = 1_u64 << 40;
    let head =
        format!("POST /api/v2/Individual HTTP/1.1\r\nHost: localhost\r\n{JSON}Content-Length: {endless}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let part = vec![b' '; 1 << 20];
    assert!((0..256).any(|_| stream.write_all(&part).is_err()), "256 MB were taken");
}
