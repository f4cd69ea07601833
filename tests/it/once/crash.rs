//! A server that is killed while clients wait: a client that retries gets a response, and nothing is done twice.

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
    let create = |connection: &Connection, number: u32| {
        let request = connection.request("POST", "/api/v2/Individual").bearer(&token);
        let request = request.header("Idempotency-Key", format!("create-{number}"));
        request.json(&person(&number.to_string(), json!({})))
    };
    let next = AtomicU32::new(0);
    for _ in 0..3 {
        let connection = server.connection();
        let (is_killed, done) = (AtomicBool::new(false), AtomicU32::new(0));
        let unanswered = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let senders = [(); 4].map(|()| {
                scope.spawn(|| {
                    while !is_killed.load(Ordering::Acquire) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        // There is no response if the server is killed during the request. Any response but success
                        // fails the test.
                        match create(&connection, number).try_send() {
                            Some(response) => {
                                assert_eq!(response.status, 201, "{}", response.text());
                                done.fetch_add(1, Ordering::AcqRel);
                            }
                            None => unanswered.lock().unwrap().push(number),
                        }
                    }
                })
            });
            let is_failed = || !unanswered.lock().unwrap().is_empty() || senders.iter().any(|one| one.is_finished());
            while done.load(Ordering::Acquire) < 20 && !is_failed() {
                std::thread::yield_now();
            }
            let is_failed = is_failed();
            server.kill();
            is_killed.store(true, Ordering::Release);
            assert!(!is_failed, "a connection broke, or a create was refused, before the kill");
        });
        server = Server::serve(&data_dir, &[]);
        let connection = server.connection();
        for number in unanswered.into_inner().unwrap() {
            drop(create(&connection, number).send().expect(201));
        }
        let found = connection.request("GET", "/api/v2/Individual?_count=1").bearer(&token).send().expect(200).json();
        assert_eq!(found["total"], next.load(Ordering::Acquire));
    }
    drop(server.stop().expect_success());
}
