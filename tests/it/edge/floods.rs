//! Endless frames: HTTP/2 byte by byte, by clients that violate the protocol.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use daftar_tests::{Connection, TestApp};

use super::capacity::{metric, open};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A frame (RFC 9113, section 4.1).
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The fields of `GET` of a path, none of them in a table of names (RFC 7541, section 6.2.2).
fn get(path: &str) -> Vec<u8> {
    let mut fields = vec![0x82, 0x86];
    for (name, value) in [(4, path), (1, "localhost")] {
        fields.extend([name, u8::try_from(value.len()).unwrap()]);
        fields.extend(value.as_bytes());
    }
    fields
}

/// The preface of a client that reads nothing of any response.
pub fn takes_nothing() -> Vec<u8> {
    // SETTINGS_INITIAL_WINDOW_SIZE
    [PREFACE, &frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])].concat()
}

/// A request of that stream.
pub fn request(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &get(path))
}

/// A frame that requires a response from the peer.
pub fn ping() -> Vec<u8> {
    frame(PING, 0, 0, b"stay put")
}

/// Repeats the same bytes and reads nothing, until the server closes the connection; returns whether it did within this
/// number of bytes.
fn is_closed_under(way: &Connection, begin: &[u8], again: &[u8], bytes: usize) -> bool {
    let mut stream = begun(way, begin);
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    let many = again.repeat(65_536 / again.len());
    (0..bytes / many.len()).any(|_| stream.write_all(&many).is_err())
}

fn begun(way: &Connection, begin: &[u8]) -> TcpStream {
    let mut stream = open(way, way.source(), "");
    stream.write_all(begin).unwrap();
    stream
}

fn app() -> TestApp {
    let start = TestApp::builder().config(|config| {
        let connections = &mut config.server.connections;
        (connections.write_timeout_ms, connections.header_timeout_ms) = (1_000, 2_000);
        connections.idle_timeout_ms = 2_000;
    });
    start.start()
}

#[test]
fn a_head_in_endless_frames_ends_the_connection() {
    let app = app();
    let way = app.anonymous();
    let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(HEADERS, END_STREAM, 1, &get("/health/live"))].concat();
    for part in [&[][..], &[0; 1], b"\x00\x01x\x01y", &[0x82; 1_000]] {
        assert!(is_closed_under(&way, &begin, &frame(CONTINUATION, 0, 1, part), 64 << 20), "{part:?}");
    }
    assert_eq!(way.request("GET", "/health/live").send().status, 200);
}

#[test]
fn frames_that_have_to_be_answered_are_no_progress_and_end_with_the_time_of_the_connection() {
    let app = app();
    let way = app.anonymous();
    // Without a request the timeout is that of a head, and with an unread response that of a response.
    let requested = [takes_nothing(), request(1, "/nothing")].concat();
    for begin in [[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat(), requested] {
        for again in [frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 9]), ping()] {
            assert!(is_closed_under(&way, &begin, &again, usize::MAX));
            assert_eq!(way.request("GET", "/health/live").send().status, 200);
        }
    }
}

#[test]
fn answered_pings_keep_no_connection() {
    let app = app();
    let way = app.anonymous();
    let mut stream = begun(&way, &[takes_nothing(), request(1, "/nothing")].concat());
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut responses = [0; 4_096];
    // They are sent and their responses are read, which moves bytes on the socket in both directions.
    let since = Instant::now();
    let mut is_over = false;
    while !is_over && since.elapsed() < Duration::from_secs(30) {
        let is_sent = stream.write_all(&ping()).is_ok();
        let is_closed = match stream.read(&mut responses) {
            Ok(count) => count == 0,
            Err(error) => !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
        };
        is_over = !is_sent || is_closed;
    }
    assert!(is_over);
    assert!(metric(&app, "daftar_connections_closed_total{reason=\"write_timeout\"}") >= 1.0);
}

#[test]
fn requests_that_are_reset_immediately_end_the_connection_or_harm_no_client() {
    let app = app();
    let way = app.anonymous();
    let mut stream = begun(&way, &[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat());
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    for number in 0..50_000 {
        let id = 2 * number + 1;
        let both = [request(id, "/metadata"), frame(RST_STREAM, 0, id, &8_u32.to_be_bytes())].concat();
        if stream.write_all(&both).is_err() {
            break;
        }
    }
    assert_eq!(way.from(Ipv4Addr::new(127, 203, 0, 1)).request("GET", "/metadata").send().status, 200);
    drop(stream);
    while metric(&app, "daftar_http_requests_in_flight") > 0.0 {}
}
