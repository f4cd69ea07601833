//! `POST /admin/v1/backup`

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use daftar_tests::records::path;
use socket2::{Domain, Socket, Type};

use super::*;

/// Requests a backup and reads only its first bytes.
fn begun(app: &TestApp) -> TcpStream {
    let address: SocketAddr = app.admin_listener().url().replace("http://", "").parse().unwrap();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // Data that waits in the reader's own buffers is not subject to backpressure.
    socket.set_recv_buffer_size(4_096).unwrap();
    socket.connect(&address.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    let token = app.admin().token().to_owned();
    let head = format!(
        "POST /admin/v1/backup HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    stream
}

/// Incompressible bytes (xorshift).
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).flatten().take(length).collect()
}

#[test]
fn is_for_the_administrator_alone() {
    let app = TestApp::start();
    let backup = "/admin/v1/backup";
    assert_eq!(app.admin_listener().request("POST", backup).send().status, 401);
    assert_eq!(app.admin_listener().request("POST", backup).bearer("wrong").send().status, 401);
    let refused = app.admin().request("GET", "/backup").send().expect(405);
    assert_eq!(refused.header("allow"), Some("POST"));
    let unknown = app.admin().request("POST", "/backup?secrets=true").send().expect(400);
    assert!(unknown.detail().contains("secrets"), "{}", unknown.detail());
    drop(app.admin().request("POST", "/backup?keys=perhaps").send().expect(400));
}

#[test]
fn one_backup_at_a_time_and_a_slow_reader_blocks_no_other_client() {
    let app = TestApp::start();
    let client = furnish(&app);
    for number in 0..3 {
        // More than the buffers of a connection hold, and incompressible.
        let photo = BASE64.encode(noise(4_900_000, number + 1));
        let person = path("Individual", &number.to_string());
        drop(client.request("PATCH", &person).json(&json!({"photo": photo})).send().expect(200));
    }
    let slow = begun(&app);
    let refused = app.admin().request("POST", "/backup").send().expect(409);
    assert!(refused.detail().contains("a backup is being made"), "{}", refused.detail());
    assert_eq!(refused.code(), "operation_in_progress");
    // A reader that stops blocks neither readers nor writers.
    for number in 100..130 {
        drop(client.post("/Individual", &person(&number.to_string(), json!({}))).expect(201));
        assert_eq!(client.get("/Individual?_count=1").expect(200).json()["total"], number - 93);
    }
    drop(slow);
    let folder = tempfile::tempdir().unwrap();
    // It ends when the server detects that the reader has disconnected.
    let made = (0..1_000).find_map(|number| {
        let file = folder.path().join(number.to_string());
        let made = back_up(app.data_dir(), &file, &[]);
        (made.code == 0).then(|| made.json())
    });
    assert_eq!(made.unwrap()["counts"]["individuals"], 36);
    let lines = audit_lines(&app.admin());
    let of_backups: Vec<_> = lines.iter().filter(|line| line["records"] == json!(["backup"])).collect();
    let outcomes: Vec<_> = of_backups.iter().map(|line| (line["outcome"].as_str().unwrap(), &line["status"])).collect();
    assert!(outcomes.contains(&("allowed", &json!(200))), "{outcomes:?}");
    let broken_off: Vec<_> = of_backups.iter().filter(|line| line["outcome"] == "failed").collect();
    assert_eq!(broken_off.len(), 1, "{of_backups:#?}");
    assert_eq!(broken_off[0]["reason"], "the reader disconnected before the end of the backup");
    assert!(broken_off[0]["note"].as_str().unwrap().contains("with the keys"));
}
