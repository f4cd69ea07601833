//! A server that is killed while clients wait: whoever sends again gets an answer, and nothing is there twice.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use daftar_tests::process::create_client;
use daftar_tests::records::person;
use daftar_tests::{Connection, Server, token};
use serde_json::json;

#[test]
fn sent_again_after_a_kill_every_create_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let mut server = Server::serve(&data_dir, &[]);
    let credentials = create_client(&data_dir, &["individual:all"]);
    let token = token::fetch(&server.connection(), &credentials);
    let send = |connection: &Connection, number: u32| {
        let request = connection.request("POST", "/api/v2/Individual").bearer(&token);
        let request = request.header("Idempotency-Key", format!("create-{number}"));
        request.json(&person(&number.to_string(), json!({}))).send().status
    };
    let next = AtomicU32::new(0);
    for _ in 0..3 {
        let connection = server.connection();
        let (is_killed, done) = (AtomicBool::new(false), AtomicU32::new(0));
        let unanswered = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_killed.load(Ordering::Acquire) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        // The kill comes while some wait for their answer.
                        let sent = std::panic::catch_unwind(|| send(&connection, number));
                        if sent.is_ok_and(|status| status == 201) {
                            done.fetch_add(1, Ordering::AcqRel);
                        } else {
                            unanswered.lock().unwrap().push(number);
                        }
                    }
                });
            }
            while done.load(Ordering::Acquire) < 20 {
                if !unanswered.lock().unwrap().is_empty() {
                    is_killed.store(true, Ordering::Release);
                    panic!("a create was refused before the kill");
                }
                std::thread::yield_now();
            }
            server.kill();
            is_killed.store(true, Ordering::Release);
        });
        server = Server::serve(&data_dir, &[]);
        let connection = server.connection();
        for number in unanswered.into_inner().unwrap() {
            assert_eq!(send(&connection, number), 201, "{number}");
        }
        let found = connection.request("GET", "/api/v2/Individual?_count=1").bearer(&token).send().expect(200).json();
        assert_eq!(found["total"], next.load(Ordering::Acquire));
    }
    drop(server.stop().expect_success());
}
