//! Transactions on a server that is killed: each is applied completely or not at all.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use daftar_tests::process::create_client;
use daftar_tests::records::path;
use daftar_tests::{Server, token};
use serde_json::json;

use super::{create, family, placeholder};

/// People of one family.
const FAMILY: u32 = 8;

#[test]
fn a_kill_leaves_each_transaction_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let mut server = Server::serve(&data_dir, &[]);
    let credentials = create_client(&data_dir, &["individual:all", "group:all"]);
    let next = AtomicU32::new(0);
    for round in 0..4 {
        let connection = server.connection();
        let token = token::fetch(&connection, &credentials);
        let (is_killed, acknowledged, unanswered) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            let senders = [(); 4].map(|()| {
                scope.spawn(|| {
                    while !is_killed.load(Ordering::Acquire) {
                        let family_number = next.fetch_add(1, Ordering::Relaxed);
                        let mut entries = vec![family(
                            &format!("F{family_number}"),
                            &(0..FAMILY).map(placeholder).collect::<Vec<_>>(),
                        )];
                        entries.extend((0..FAMILY).map(|member| create(&format!("{family_number}-{member}"), member)));
                        let body = json!({"type": "transaction", "entry": entries});
                        // There is no response if the server is killed during the request. Any response but success
                        // fails the test.
                        let request = connection.request("POST", "/api/v2/$batch").bearer(&token).json(&body);
                        match request.try_send() {
                            Some(response) => {
                                assert_eq!(response.status, 200, "{}", response.text());
                                acknowledged.fetch_add(1, Ordering::AcqRel);
                            }
                            None => drop(unanswered.fetch_add(1, Ordering::AcqRel)),
                        }
                    }
                })
            });
            let is_failed = || unanswered.load(Ordering::Acquire) > 0 || senders.iter().any(|one| one.is_finished());
            while acknowledged.load(Ordering::Acquire) < 12 && !is_failed() {
                std::thread::yield_now();
            }
            let is_failed = is_failed();
            server.kill();
            is_killed.store(true, Ordering::Release);
            assert!(!is_failed, "a connection broke, or a transaction was refused, before the kill");
        });
        server = Server::serve(&data_dir, &[]);
        let connection = server.connection();
        let call = |path: &str| connection.request("GET", &format!("/api/v2{path}")).bearer(&token).send();
        let mut whole = 0;
        for number in 0..next.load(Ordering::Acquire) {
            let group = call(&path("Group", &format!("F{number}")));
            let there =
                (0..FAMILY).filter(|member| call(&path("Individual", &format!("{number}-{member}"))).status == 200);
            let there = there.count() as u32;
            assert!(
                there == if group.status == 200 { FAMILY } else { 0 },
                "family {number}: {} and {there}",
                group.status
            );
            if group.status == 200 {
                whole += 1;
                assert_eq!(group.json()["member"].as_array().unwrap().len() as u32, FAMILY);
            }
        }
        assert!(whole >= acknowledged.load(Ordering::Acquire), "round {round}");
    }
    drop(server.stop().expect_success());
}
