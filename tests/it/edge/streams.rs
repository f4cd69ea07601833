//! Stalled imports and exports, many at the same time.

use std::io::Read;
use std::net::TcpStream;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use daftar_tests::TestApp;
use daftar_tests::records::person;
use serde_json::{Value, json};

use super::capacity::{open, read_until_closed};

/// Maximum number of concurrent exports.
const EXPORTS_MAX: usize = 8;
const READERS: usize = 64;
const PEOPLE: usize = 5;
/// Several of these do not fit into the buffers of a connection.
const PHOTO_BYTES: usize = 3 << 20;

fn app() -> TestApp {
    let app = TestApp::builder().config(|config| {
        let connections = &mut config.server.connections;
        (connections.body_stall_timeout_ms, connections.body_timeout_ms) = (500, 60_000);
    });
    let app = app.start();
    let client = app.client(&["individual:all"]);
    for number in 0..PEOPLE {
        let photo = STANDARD.encode(vec![u8::try_from(number).unwrap(); PHOTO_BYTES]);
        drop(client.post("/Individual", &person(&number.to_string(), json!({"photo": photo}))).expect(201));
    }
    app
}

fn ask(app: &TestApp, request: &str, more: &str) -> TcpStream {
    let admin = app.admin_listener();
    let bearer = app.admin().token().to_owned();
    let head = format!("{request} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {bearer}\r\n{more}");
    open(&admin, admin.source(), &head)
}

/// The status of a response of which nothing more is read.
fn status(stream: &mut TcpStream) -> u16 {
    let mut line = [0; 12];
    stream.read_exact(&mut line).unwrap();
    std::str::from_utf8(&line[9..]).unwrap().parse().unwrap()
}

#[test]
fn an_export_of_many_photos_is_sent_in_pages_of_bounded_size() {
    let app = app();
    let text = app.admin().get("/export?type=Individual").expect(200).text();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_cursor = |line: &Value| line["$export"]["cursor"].is_string();
    let mut since = 0;
    for line in &lines {
        since = if line.get("$export").is_some() { 0 } else { since + 1 };
        assert!(since <= 1, "a page ends with the record that fills it");
    }
    assert_eq!(lines.iter().filter(|line| line["photo"].is_string()).count(), PEOPLE);
    assert_eq!(lines.last().unwrap()["$export"]["records"], PEOPLE);
    // Each of the cursors continues without gaps.
    let cursor = lines.iter().find(|line| is_cursor(line)).unwrap()["$export"]["cursor"].as_str().unwrap();
    let rest = app.admin().get(&format!("/export?type=Individual&cursor={cursor}")).expect(200).text();
    assert_eq!(rest.matches("\"photo\"").count(), PEOPLE - 1);
}

#[test]
fn export_readers_without_progress_occupy_few_slots_and_disturb_no_other_client() {
    let app = app();
    let mut readers: Vec<TcpStream> =
        (0..READERS).map(|_| ask(&app, "GET /admin/v1/export?type=Individual", "\r\n")).collect();
    let statuses: Vec<u16> = readers.iter_mut().map(status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), EXPORTS_MAX, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 503).count(), READERS - EXPORTS_MAX, "{statuses:?}");
    // Other clients are not affected.
    let client = app.client(&["individual:all"]);
    drop(client.post("/Individual", &person("other", json!({}))).expect(201));
    assert_eq!(app.anonymous().request("GET", "/health/live").send().expect(200).text(), "ok\n");
    // Their slots are free again once they are closed.
    drop(readers);
    let mut status = 503;
    for _ in 0..600 {
        status = app.admin().get("/export?type=Individual").status;
        if status == 200 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(status, 200);
}

#[test]
fn senders_of_imports_that_stop_hold_one_turn_and_leave_it() {
    let app = app();
    let line = person("imported", json!({"type": "Individual"})).to_string();
    let begin = |id: usize| {
        let more = "Connection: close\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";
        // A complete line and a part of one.
        let chunk = format!("{line}\n{}", &line[..9]);
        let more = format!("{more}{:x}\r\n{chunk}\r\n", chunk.len());
        ask(&app, &format!("POST /admin/v1/import?id=import-{id:04}&on_existing=skip"), &more)
    };
    let mut senders: Vec<TcpStream> = (0..READERS).map(begin).collect();
    // The one whose lines are being written gets its response when it is closed.
    let responses: Vec<String> =
        senders.drain(..).map(|sender| String::from_utf8_lossy(&read_until_closed(sender)).into_owned()).collect();
    let turned_away = responses.iter().filter(|response| response.starts_with("HTTP/1.1 409")).count();
    assert_eq!(turned_away, READERS - 1, "{responses:?}");
    let begun = responses.iter().find(|response| !response.starts_with("HTTP/1.1 409")).unwrap();
    assert!(!begun.contains("\"done\":true"), "half a line is no end: {begun}");
    // Nothing of an incomplete group of lines is written, and the next import may begin after a long enough silence.
    let client = app.client(&["individual:all"]);
    assert_eq!(client.found("_count=100").len(), PEOPLE);
    app.advance_seconds(31);
    let next = app.admin().request("POST", "/import?id=import-next&on_existing=skip");
    let reported = next.body("application/x-ndjson", format!("{line}\n").as_bytes()).send().expect(200).text();
    assert!(reported.contains("\"done\":true"), "{reported}");
    assert_eq!(client.found("_count=100").len(), PEOPLE + 1, "{reported}");
}
