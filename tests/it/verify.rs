//! `daftar verify`: on a stopped server's folder and on a running server.

use std::sync::Arc;

use daftar::columns::Columns;
use daftar::domain::change::Change;
use daftar::domain::extension::Extension;
use daftar::domain::group::{GroupDetails, MEMBER, Member};
use daftar::domain::identifier::{Identifier, IdentifierKey};
use daftar::domain::record::RecordId;
use daftar::domain::value::Values;
use daftar::store::sled::{SledOptions, SledStore};
use daftar::store::{ChangeSink, Operation, Store, Write};
use daftar_tests::process::{create_client, run};
use daftar_tests::records::{household, person};
use daftar_tests::{Finished, Server, token};
use serde_json::{Value, json};

/// A change sink that ignores changes.
struct NoSink;

impl ChangeSink for NoSink {
    fn apply(&self, _: &[Change]) {}
}

/// A group whose member does not exist, written without validation.
fn with_a_missing_member(data_dir: &std::path::Path) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = SledStore::open(&data_dir.join("store"), SledOptions::default()).unwrap();
    store.attach_sink(Arc::new(NoSink)).unwrap();
    let member = Member { individual: RecordId(77), role: None, period: None, is_inactive: false };
    let identifiers = vec![Identifier { key: IdentifierKey::parse("urn:x:h|1").unwrap(), period: None }];
    let details: GroupDetails = GroupDetails::new(identifiers, Values::default(), Extension::default());
    let details = details.with(MEMBER, vec![member]);
    let at = "2026-03-01T12:00:00Z".parse().unwrap();
    let write = Write {
        at,
        source: None,
        operations: vec![Operation::create(details)],
        audit: Vec::new(),
        read_set: Vec::new(),
    };
    runtime.block_on(store.commit(write)).unwrap();
}

/// A folder with a small register that was served before.
fn register() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::serve(folder.path(), &[]);
    let credentials = create_client(folder.path(), &["individual:all", "group:all"]);
    let token = token::fetch(&server.connection(), &credentials);
    let post = |path: &str, body: &Value| {
        let request = server.connection().request("POST", &format!("/api/v2{path}")).bearer(&token);
        drop(request.json(body).send().expect(201));
    };
    for id in ["1", "2", "3"] {
        post("/Individual", &person(id, json!({"name": {"given": "Amina"}, "birth_date": "1990-01-01"})));
    }
    post("/Group", &household("H", &[("1", "head"), ("2", "spouse")]));
    drop(server.stop().expect_success());
    folder
}

fn part<'r>(result: &'r Value, name: &str) -> &'r Value {
    let parts = result["parts"].as_array().unwrap();
    parts.iter().find(|part| part["part"] == name).unwrap_or(&Value::Null)
}

#[test]
fn a_valid_register_is_reported_as_valid_running_or_stopped() {
    let folder = register();
    let stopped = run(folder.path(), &["verify", "--json"]).expect_success();
    let result = stopped.json();
    assert_eq!((&result["valid"], &result["findings"], &result["listed"]), (&json!(true), &json!(0), &json!([])));
    assert_eq!(part(&result, "records"), &json!({"part": "records", "checked": 4, "findings": 0}));
    assert_eq!(part(&result, "indexes"), &Value::Null, "a stopped server has none");
    let server = Server::serve(folder.path(), &[]);
    let result = run(folder.path(), &["verify", "--json"]).expect_success().json();
    assert_eq!(result["valid"], true);
    assert_eq!(part(&result, "indexes"), &json!({"part": "indexes", "checked": 4, "findings": 0}));
    let text = run(folder.path(), &["verify"]).expect_success();
    assert!(text.stdout.ends_with(" items were verified, no errors\n"), "{text:?}");
    assert_eq!(text.stderr, "", "no progress bar without a terminal");
    let reported = run(folder.path(), &["audit", "query", "--json", "--text", "whole register"]).expect_success();
    assert_eq!(
        reported.stdout.lines().count(),
        2,
        "each verification of a running server is in the audit log: {reported:?}"
    );
    drop(server.stop().expect_success());
}

#[test]
fn a_problem_is_one_line_and_an_exit_code() {
    let folder = register();
    with_a_missing_member(folder.path());
    let line = "references: Group `urn:x:h|1`: its `member[0]` is Individual number 77, which is missing; keep a copy of the \
                folder, then restore the last backup in which `daftar verify` finds nothing\n";
    let check = |reported: Finished| {
        assert_eq!((reported.code, reported.stdout.as_str()), (1, line), "{reported:?}");
        assert!(reported.stderr.ends_with(" items were verified, 1 error\n"), "{reported:?}");
    };
    check(run(folder.path(), &["verify"]));
    let server = Server::serve(folder.path(), &[]);
    check(run(folder.path(), &["verify"]));
    let result = run(folder.path(), &["verify", "--json"]);
    assert_eq!((result.code, &result.json()["listed"][0]["part"]), (1, &json!("references")));
    drop(server.stop().expect_success());
}

#[test]
fn where_there_is_no_register_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let reported = run(folder.path(), &["verify"]);
    assert_eq!(reported.code, 66);
    assert!(reported.stderr.contains("there is no register in"), "{reported:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_register_in_memory_is_held_against_other_records() {
    // Empty columns, next to a store with records: searches would miss them.
    let folder = register();
    let store = SledStore::open(&folder.path().join("store"), SledOptions::default()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let findings = runtime.block_on(async {
        let (events, mut reported) = tokio::sync::mpsc::channel(16);
        let memory = daftar::service::verify::InMemory::Own(Arc::new(Columns::default()));
        let pace = daftar::service::verify::Pace::Fast;
        let look = daftar::service::verify::verify(&store, Some(&memory), pace, events);
        let listen = async {
            let mut findings = Vec::new();
            while let Some(event) = reported.recv().await {
                if let daftar::domain::verification::VerificationEvent::Finding(finding) = event {
                    findings.push(finding.to_string());
                }
            }
            findings
        };
        tokio::join!(look, listen).1
    });
    assert_eq!(findings.len(), 4, "{findings:?}");
    assert!(
        findings[0].starts_with(
            "indexes: Individual `urn:svc:vocab:id-type#national_id|1`: the record is missing from the search index; restart"
        ),
        "{findings:?}"
    );
}
