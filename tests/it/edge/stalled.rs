//! Clients that read nothing of their responses, or too little, next to clients that do.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use daftar_tests::process::{Server, command, create_client};
use daftar_tests::records::{path, person};
use daftar_tests::{ApiClient, Connection, TestApp, artifacts};
use h2::RecvStream;
use h2::client::SendRequest;
use serde_json::json;
use tokio::task::JoinSet;

use super::capacity::{metric, open, read_until_closed};
use super::floods::{ping, request as raw_request, takes_nothing};
use super::http2::{request, runtime, socket};

/// A person whose record is 6.7 MB of JSON.
fn create_big(client: &ApiClient, id: &str) -> String {
    let photo = STANDARD.encode(vec![7; 5_000_000]);
    client.create_individual(&person(id, json!({"photo": photo})));
    path("Individual", id)
}

/// A connection on which nothing of any response is read.
async fn stalled_connection(way: &Connection) -> SendRequest<Bytes> {
    let server = way.url().trim_start_matches("http://").parse().unwrap();
    let stream = socket(way, server).await;
    let handshake = h2::client::Builder::new().initial_window_size(0).handshake(stream).await;
    let (client, connection) = handshake.unwrap();
    tokio::spawn(async move {
        // The result of a connection is reported by its requests.
        let _ended = connection.await;
    });
    client
}

/// Sends a request and reads the head of the response.
async fn ask(connection: &SendRequest<Bytes>, client: &ApiClient, path: &str) -> (u16, RecvStream) {
    let bearer = format!("Bearer {}", client.token());
    let request = request("GET", &format!("/api/v2{path}"), &[("authorization", &bearer)]);
    let (response, _) = connection.clone().ready().await.unwrap().send_request(request, true).unwrap();
    let (head, body) = response.await.unwrap().into_parts();
    if head.status == 503 {
        assert!(head.headers.contains_key("retry-after"));
    }
    (head.status.as_u16(), body)
}

#[test]
fn clients_that_take_nothing_and_send_pings_harm_no_other_and_are_closed() {
    const STALLED: usize = 200;
    const WRITE_TIMEOUT: Duration = Duration::from_secs(3);
    /// Between the requests of the ordinary client, whose processors the others need as well.
    const PAUSE: Duration = Duration::from_millis(20);
    let app = TestApp::builder()
        .config(|config| {
            let connections = &mut config.server.connections;
            (connections.max, connections.per_address_max) = (64, 64);
            connections.write_timeout_ms = WRITE_TIMEOUT.as_millis().try_into().unwrap();
        })
        .start();
    let client = app.client(&["individual:read"]);
    let way = app.anonymous();
    let begin = [takes_nothing(), raw_request(1, "/nothing")].concat();
    let mut streams: Vec<TcpStream> = (0..STALLED)
        .map(|number| {
            let mut stream = open(&way, Ipv4Addr::new(127, 202, 0, 1 + u8::try_from(number / 50).unwrap()), "");
            // A connection without a slot may be closed already.
            let _is_open = stream.write_all(&begin).is_ok();
            stream.set_nonblocking(true).unwrap();
            stream
        })
        .collect();
    let since = Instant::now();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let pings = scope.spawn(|| {
            let mut rest = [0; 4_096];
            // Ten in each timeout.
            while !streams.is_empty() && !is_over.load(Ordering::Relaxed) {
                streams.retain_mut(|stream| {
                    let is_sent = stream.write_all(&ping()).is_ok();
                    let is_open = match stream.read(&mut rest) {
                        Ok(count) => count > 0,
                        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
                    };
                    is_sent && is_open
                });
                thread::sleep(WRITE_TIMEOUT / 10);
            }
            since.elapsed()
        });
        let probe = app.anonymous();
        // Until the last ones have timed out and are evicted.
        while client.get("/Individual").status != 200 {
            assert!(since.elapsed() < 12 * WRITE_TIMEOUT, "no place for an ordinary client");
            thread::sleep(PAUSE);
        }
        while !pings.is_finished() {
            if since.elapsed() > 20 * WRITE_TIMEOUT {
                is_over.store(true, Ordering::Relaxed);
                panic!("they are still there");
            }
            for health in ["/health/live", "/health/ready"] {
                assert_eq!(probe.request("GET", health).send().status, 200);
            }
            assert_eq!(client.get("/Individual").status, 200);
            thread::sleep(PAUSE);
        }
        let cut_after = pings.join().unwrap();
        // Two timeouts, and ten more for a machine under other load: less than the timeout of an idle connection.
        assert!(cut_after < 12 * WRITE_TIMEOUT, "{cut_after:?}");
    });
    let cut = |reason: &str| metric(&app, &format!("daftar_connections_closed_total{{reason=\"{reason}\"}}"));
    // Which of the two comes first depends on the machine.
    assert!(cut("evicted_slow") + cut("write_timeout") >= 1.0);
}

#[test]
fn a_client_leaves_so_much_unread_and_no_more() {
    let app = TestApp::builder().config(|config| config.server.connections.responses_per_client_mib = 16).start();
    let (client, other) = (app.client(&["individual:all"]), app.client(&["individual:read"]));
    let path = create_big(&client, "big");
    runtime().block_on(async {
        let connection = stalled_connection(client.connection()).await;
        let mut taken = Vec::new();
        for _ in 0..10 {
            taken.push(ask(&connection, &client, &path).await);
        }
        let statuses: Vec<u16> = taken.iter().map(|(status, _)| *status).collect();
        assert_eq!(statuses, [200, 200, 503, 503, 503, 503, 503, 503, 503, 503]);
        assert!(metric(&app, "daftar_responses_waiting_bytes") > 13e6);
        assert!(metric(&app, "daftar_responses_rejected_total{bound=\"client\"}") >= 8.0);
        assert_eq!(other.get(&path).status, 200, "another client");
    });
    while metric(&app, "daftar_responses_waiting_bytes") > 0.0 {}
    assert_eq!(client.get(&path).status, 200, "what was given up is given back");
}

#[test]
fn a_batch_gathers_no_more_than_its_client_may_leave_unread() {
    let app = TestApp::builder().config(|config| config.server.connections.responses_per_client_mib = 16).start();
    let client = app.client(&["individual:all"]);
    let path = create_big(&client, "big");
    let entry = json!({"request": {"method": "GET", "url": path.trim_start_matches('/')}});
    let batch = json!({"type": "batch", "entry": vec![entry; 4]});
    let response = client.post("/$batch", &batch).expect(200).json();
    let statuses: Vec<_> = response["entry"].as_array().unwrap().iter().map(|entry| &entry["response"]).collect();
    assert_eq!(statuses.iter().map(|one| &one["status"]).collect::<Vec<_>>(), [200, 200, 503, 503]);
    assert_eq!(statuses[3]["retry_after"], 1);
    assert_eq!(response["entry"][3]["problem"]["code"], "responses_unread");
    while metric(&app, "daftar_responses_waiting_bytes") > 0.0 {}
}

/// The resident memory of a process, in bytes.
fn resident_bytes(process: rustix::process::Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn stalled_reads_of_large_responses_take_no_more_memory_than_their_bound() {
    const MIB: u64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let (data, config) = (folder.path().join("data"), folder.path().join("daftar.toml"));
    std::fs::write(&config, "[server.connections]\nresponses_mib = 32\nresponses_per_client_mib = 32\n").unwrap();
    let config = config.to_str().unwrap();
    daftar_tests::template::copy_compiled_to(&data);
    let mut command = command(&data, &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    // Freed memory is returned to the system immediately, so that only used memory is measured.
    command.args(["--config", config]).arg("--plugins").arg(artifacts::plugins()).env("MIMALLOC_PURGE_DELAY", "0");
    let server = Server::start(command);
    let credentials = create_client(&data, &["individual:all"]);
    let token = daftar_tests::token::fetch(&server.connection(), &credentials);
    let client = ApiClient::new(server.connection(), credentials, token);
    let path = create_big(&client, "big");
    for _ in 0..5 {
        assert_eq!(client.get(&path).status, 200);
    }
    let before = resident_bytes(server.id());
    runtime().block_on(async {
        let mut requested = JoinSet::new();
        for _ in 0..4 {
            let connection = stalled_connection(client.connection()).await;
            for _ in 0..50 {
                let (connection, client, path) = (connection.clone(), client.clone(), path.clone());
                requested.spawn(async move { ask(&connection, &client, &path).await });
            }
        }
        let taken = requested.join_all().await;
        let begun = taken.iter().filter(|(status, _)| *status == 200).count();
        assert!((4..10).contains(&begun), "{begun} of 200");
        let more = resident_bytes(server.id()).saturating_sub(before);
        assert!(more < 32 * MIB + 50_000_000, "{} MiB more than before", more / MIB);
    });
    drop(server.stop().expect_success());
}

#[test]
fn the_slowest_connection_is_closed_where_all_clients_leave_too_much_unread() {
    let app = TestApp::builder()
        .config(|config| {
            let connections = &mut config.server.connections;
            (connections.responses_mib, connections.responses_per_client_mib) = (16, 16);
            connections.write_timeout_ms = 20_000;
        })
        .start();
    let clients: Vec<ApiClient> = (0..3).map(|_| app.client(&["individual:all"])).collect();
    let path = create_big(&clients[0], "big");
    runtime().block_on(async {
        let mut stalled = Vec::new();
        for client in &clients[..2] {
            let connection = stalled_connection(client.connection()).await;
            let (status, body) = ask(&connection, client, &path).await;
            assert_eq!(status, 200);
            stalled.push((connection, body));
        }
        // Until the first has timed out and is closed.
        let response = loop {
            let response = clients[2].get(&path);
            if response.status == 200 {
                break response;
            }
            assert_eq!(response.status, 503);
        };
        assert!(response.text().len() > 6_000_000);
        let (_, first) = &mut stalled[0];
        assert!(matches!(first.data().await, Some(Err(_))), "it was cut");
        assert!(metric(&app, "daftar_connections_closed_total{reason=\"response_memory\"}") >= 1.0);
    });
}

#[test]
fn a_client_that_reads_slowly_and_steadily_gets_its_whole_response() {
    let app = TestApp::builder().config(|config| config.server.connections.write_timeout_ms = 2_000).start();
    let client = app.client(&["individual:all"]);
    let path = create_big(&client, "big");
    let way = client.connection();
    let bearer = client.token();
    let head = format!(
        "GET /api/v2{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {bearer}\r\nConnection: close\r\n\r\n"
    );
    let mut stream = open(way, way.source(), &head);
    let mut part = vec![0; 128 << 10];
    let mut count = 0;
    // For several times the timeout of an unread response.
    loop {
        match stream.read(&mut part).unwrap() {
            0 => break,
            bytes => count += bytes,
        }
        thread::sleep(Duration::from_millis(150));
    }
    assert!(count > 6_600_000, "{count}");
    assert_eq!(metric(&app, "daftar_connections_closed_total{reason=\"write_timeout\"}"), 0.0);
}

#[test]
fn a_connection_without_a_slot_speaks_http_1_1_and_has_two_seconds_for_a_head() {
    let app = TestApp::builder()
        .config(|config| {
            let connections = &mut config.server.connections;
            connections.per_address_max = 1;
            connections.header_timeout_ms = 60_000;
        })
        .start();
    let way = app.anonymous();
    let _held = open(&way, way.source(), "GET /metad");
    let mut second = open(&way, way.source(), "");
    // It may be closed while it sends.
    let _is_sent = second.write_all(&[takes_nothing(), raw_request(1, "/health/live")].concat()).is_ok();
    assert_eq!(read_until_closed(second), b"");
    let since = Instant::now();
    assert_eq!(read_until_closed(open(&way, way.source(), "GET /heal")), b"");
    assert!(since.elapsed() < Duration::from_secs(20));
    // Many silent connections do not block health checks.
    let _silent: Vec<TcpStream> = (0..40).map(|_| open(&way, way.source(), "")).collect();
    assert_eq!(way.request("GET", "/health/ready").send().expect(200).text(), "ok\n");
}

#[test]
fn health_is_on_the_administrators_listener_as_well() {
    let app = TestApp::start();
    for path in ["/health/live", "/health/ready"] {
        assert_eq!(app.admin_listener().request("GET", path).send().expect(200).text(), "ok\n");
    }
}
