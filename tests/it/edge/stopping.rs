//! A server that is stopped: requests in progress are finished, others are not started, and it ends.

use std::net::{SocketAddr, TcpStream};
use std::thread;

use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use daftar_tests::records::person;
use daftar_tests::{ApiClient, Connection, TestApp};
use serde_json::json;

use super::capacity::{open, read_until_closed};
use super::http2::{plain, read, request, runtime};

/// A server with a long timeout for requests in progress: a test that reaches it hangs.
fn patient() -> TestApp {
    TestApp::builder()
        .config(|config| {
            config.server.shutdown_timeout_ms = 600_000;
            config.server.connections.body_stall_timeout_ms = 60_000;
            config.server.connections.body_timeout_ms = 60_000;
            config.server.connections.header_timeout_ms = 2_000;
        })
        .start()
}

fn address(way: &Connection) -> SocketAddr {
    way.url().trim_start_matches("http://").parse().unwrap()
}

/// Stops a server and waits until it accepts no connection.
pub(crate) fn begin_to_stop(mut app: TestApp) -> thread::JoinHandle<()> {
    let server = address(&app.anonymous());
    let stopping = thread::spawn(move || app.stop());
    while TcpStream::connect(server).is_ok() {}
    stopping
}

fn head(client: &ApiClient) -> String {
    let bearer = client.token();
    format!(
        "POST /api/v2/Individual HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {bearer}\r\nContent-Type: application/json\r\n"
    )
}

#[test]
fn a_request_in_progress_is_finished_and_idle_connections_are_closed() {
    let app = patient();
    let client = app.client(&["individual:all"]);
    let way = app.anonymous();
    let idle = open(&way, way.source(), "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let silent = open(&way, way.source(), "");
    let begun = open(&way, way.source(), "GET /health/live HTTP/1.1\r\nHo");
    let body = person("late", json!({})).to_string();
    let mut stopping = None;
    let mut app = Some(app);
    let response = client.connection().exchange_slowly(&head(&client), &body, || {
        stopping = app.take().map(begin_to_stop);
    });
    assert_eq!(response.expect(201).json()["type"], "Individual");
    assert!(String::from_utf8(read_until_closed(idle)).unwrap().ends_with("ok\n"));
    assert_eq!(read_until_closed(silent), b"");
    // Half a head is not a request in progress; it has the timeout of a head.
    assert_eq!(read_until_closed(begun), b"");
    stopping.unwrap().join().unwrap();
}

#[test]
fn a_request_in_progress_on_http2_is_finished() {
    let app = patient();
    let api = app.client(&["individual:all"]);
    let bearer = format!("Bearer {}", api.token());
    runtime().block_on(async {
        let client = plain(&app).await;
        let idle = plain(&app).await;
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let mut ready = client.clone().ready().await.unwrap();
        let (response, mut body) = ready.send_request(request("POST", "/api/v2/Individual", &headers), false).unwrap();
        // The server knows of the request once it responds to one sent after it.
        assert_eq!(super::http2::get(&client, "/health/live", &[]).await.unwrap().0, 200);
        let stopping = tokio::task::spawn_blocking(move || begin_to_stop(app)).await.unwrap();
        body.send_data(Bytes::from(person("late", json!({})).to_string()), true).unwrap();
        let (status, _, response) = read(response).await.unwrap();
        assert_eq!(status, 201, "{}", String::from_utf8_lossy(&response));
        drop((client, ready));
        assert!(super::http2::get(&idle, "/health/live", &[]).await.is_err(), "no other request is begun");
        tokio::task::spawn_blocking(move || stopping.join().unwrap()).await.unwrap();
    });
}

#[test]
fn an_export_in_progress_is_sent_completely() {
    let app = patient();
    let client = app.client(&["individual:all"]);
    // More than the buffers between a server that writes and a client that does not read.
    let photo = STANDARD.encode(vec![7; 4_500_000]);
    for number in 0..4 {
        drop(client.create_individual(&person(&format!("{number}"), json!({"photo": photo}))));
    }
    let held = app.admin().request("GET", "/export?type=Individual").hold_after("\"type\"");
    let stopping = begin_to_stop(app);
    let lines = held.finish().expect(200).lines();
    assert_eq!(lines.iter().filter(|line| line["photo"] == json!(photo)).count(), 4);
    let last = &lines.last().unwrap()["$export"];
    assert_eq!((&last["done"], &last["records"]), (&json!(true), &json!(4)), "{last}");
    stopping.join().unwrap();
}

#[test]
fn a_request_that_does_not_end_is_aborted_after_the_timeout() {
    let app = TestApp::builder().config(|config| config.server.shutdown_timeout_ms = 100).start();
    let client = app.client(&["individual:all"]);
    let request = client.request("POST", "/Individual").header("Content-Type", "application/json");
    let held = request.header("Expect", "100-continue").declare_length(100).hold_after("100 Continue");
    begin_to_stop(app).join().unwrap();
    assert!(held.text().contains("100 Continue") && !held.text().contains("HTTP/1.1 2"));
}
