//! Dry runs that a server stops, and exports that are interrupted, with and without filters.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use daftar_tests::TestApp;
use daftar_tests::process::{Finished, command, finish, run};
use daftar_tests::records::{FEMALE, person};
use serde_json::{Value, json};

use super::{REJECTS, counts, individual, lines, rejects};

const USAGE: i32 = 2;
const UNAVAILABLE: i32 = 69;
const EMPTY: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// A response with lines, which ends with its connection.
fn response(lines: &[Value]) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\nconnection: close\r\n\r\n";
    lines.iter().fold(head.to_owned(), |text, line| format!("{text}{line}\n"))
}

/// Reads a request to the end of its body; returns its first line.
fn read_request(connection: &TcpStream) -> String {
    let mut reader = BufReader::new(connection);
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    let mut length = 0_usize;
    loop {
        let mut line = String::new();
        let read = reader.read_line(&mut line).unwrap();
        if read == 0 || line == "\r\n" {
            break;
        }
        let header = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        if let Some((_, value)) = header {
            length = value.trim().parse().unwrap();
        }
    }
    reader.read_exact(&mut vec![0_u8; length]).unwrap();
    first
}

/// Runs a command against a server that sends these responses, one for each request; returns its output and the first
/// lines of the requests.
fn run_against(responses: Vec<String>, arguments: &[&str]) -> (Finished, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for response in responses {
            let (mut connection, _) = listener.accept().unwrap();
            requests.push(read_request(&connection));
            let _is_read = connection.write_all(response.as_bytes()).is_ok();
        }
        requests
    });
    let nowhere = tempfile::tempdir().unwrap();
    let mut command = command(nowhere.path(), arguments);
    command.args(["--admin-url", &format!("http://{address}")]).env("DAFTAR_ADMIN_TOKEN", "t".repeat(43));
    let finished = finish(command);
    // Responses that the command did not request are taken by empty requests.
    while !server.is_finished() {
        drop(TcpStream::connect(address));
    }
    (finished, server.join().unwrap())
}

/// The id of an import in the first line of a request.
fn id_of(request: &str) -> &str {
    let (_, rest) = request.split_once("id=").unwrap_or_else(|| panic!("{request}"));
    rest.split(['&', ' ']).next().unwrap_or_default()
}

#[test]
fn a_dry_run_that_the_server_stops_starts_again_under_another_id() {
    let folder = tempfile::tempdir().unwrap();
    let file = lines(folder.path(), "people.ndjson", &[individual("1", json!({})), individual("2", json!({}))]);
    let rejected = |line: u64| {
        let errors = json!([{"field": "identifier", "code": "in_use", "message": "it is in use"}]);
        json!({"line": line, "status": 409, "detail": "it is in use", "errors": errors})
    };
    let counted = |last: Value, line: u64, created: u64, rejected: u64| {
        let counts = json!({
            "durable": line, "read": 1, "created": created, "updated": 0, "skipped": 0, "rejected": rejected
        });
        daftar_tests::records::with(last, counts)
    };
    let done = || json!({"done": true});
    let stopped = json!({"stopped": {"status": 503, "detail": "the registry is not available"}});
    let responses = vec![
        response(&[rejected(1), counted(done(), 1, 0, 1)]),
        response(&[counted(stopped, 1, 0, 0)]),
        EMPTY.to_owned(),
        response(&[counted(done(), 1, 1, 0)]),
        response(&[rejected(2), counted(done(), 2, 0, 1)]),
        EMPTY.to_owned(),
    ];
    let arguments = ["import", file.to_str().unwrap(), "--dry-run", "--json", "--part-bytes", "1"];
    let (finished, requests) = run_against(responses, &arguments);
    assert_eq!((finished.code, counts(&finished)), (REJECTS, [2, 1, 0, 0, 1]), "{finished:?} {requests:?}");
    assert!(finished.stderr.contains("the dry run starts again from the first line"), "{finished:?}");
    let ids: Vec<&str> = requests.iter().map(|request| id_of(request)).collect();
    assert!(ids[..3].iter().all(|id| *id == ids[0]) && ids[3..].iter().all(|id| *id == ids[3]), "{requests:?}");
    assert_ne!(ids[0], ids[3]);
    for (request, beginning, part) in [
        (&requests[2], "DELETE ", ids[0]),
        (&requests[3], "POST ", "first_line=1&"),
        (&requests[4], "POST ", "first_line=2&"),
        (&requests[5], "DELETE ", ids[3]),
    ] {
        assert!(request.starts_with(beginning) && request.contains(part), "{request}");
    }
    // The rejects are those of the complete run alone.
    let reported = rejects(&folder.path().join("people.ndjson.dry-run"));
    assert_eq!(reported.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2]);
}

#[test]
fn only_an_export_without_filters_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let sent = response(&[json!({"type": "Individual"}), json!({"$export": {"cursor": "x", "records": 1}})]);
    for (name, filter, message) in [
        ("all.ndjson", &[][..], "daftar export --resume"),
        ("some.ndjson", &["--filter", "active=true"], "an export with --filter does not resume"),
    ] {
        let file = folder.path().join(name);
        let arguments = [&["export", file.to_str().unwrap()], filter].concat();
        let (interrupted, _) = run_against(vec![sent.clone()], &arguments);
        assert_eq!(interrupted.code, UNAVAILABLE, "{interrupted:?}");
        assert!(interrupted.stderr.contains(message), "{interrupted:?}");
        for suffix in ["partial", "progress.json"] {
            let is_there = folder.path().join(format!("{name}.{suffix}")).exists();
            assert_eq!(is_there, filter.is_empty(), "{name}.{suffix}");
        }
        let refused = run(folder.path(), &[&arguments[..], &["--resume", "--filter", "active=true"]].concat());
        assert_eq!(refused.code, USAGE, "{refused:?}");
        assert!(refused.stderr.contains("cannot be used with"), "{refused:?}");
    }
}

#[test]
fn a_cursor_with_filters_is_refused_with_the_reason() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    drop(client.create_individual(&person("1", json!({"gender": FEMALE}))));
    let exported = app.admin().get("/export?type=Individual").expect(200).lines();
    let cursor = exported.iter().find_map(|line| line["$export"]["cursor"].as_str()).unwrap();
    let filter = "gender=urn:iso:std:iso:5218%232";
    assert_eq!(app.admin().get(&format!("/export?{filter}")).expect(200).lines()[0]["type"], "Individual");
    drop(app.admin().get(&format!("/export?type=Individual&cursor={cursor}")).expect(200));
    let detail = app.admin().get(&format!("/export?{filter}&cursor={cursor}")).expect(400).detail();
    assert!(detail.starts_with("`cursor` does not go with filters"), "{detail}");
}
