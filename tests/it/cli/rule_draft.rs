//! `daftar rule-draft`, and drafts in a backup.

use std::path::Path;

use daftar_tests::TestApp;
use daftar_tests::process::run;
use daftar_tests::records::NATIONAL_ID;
use serde_json::{Value, json};

use crate::program;

fn json_of(data_dir: &Path, arguments: &[&str]) -> Value {
    run(data_dir, &[&["rule-draft", "--json"], arguments].concat()).expect_success().json()
}

/// A register with two drafts, of which the first is for a program.
fn register() -> (TestApp, [Value; 2]) {
    let app = TestApp::start();
    program::create(&app, "P", json!({}));
    let client = app.client(&["eligibility:read", "eligibility:create"]);
    let drafts = [json!(format!("Program/{NATIONAL_ID}|P")), Value::Null].map(|program| {
        let body = json!({
            "name": "Pension", "expression": "is_female(me)", "subject": "individual", "program": program,
            "as_of": "2026-02-28",
        });
        client.post("/RuleDraft", &body).expect(201).json()
    });
    (app, drafts)
}

fn administer(data_dir: &Path, drafts: &[Value; 2]) {
    let [first, second] = drafts.each_ref().map(|draft| draft["id"].as_str().unwrap());
    assert_eq!(json_of(data_dir, &["list", "--status", "open"])["data"].as_array().map(Vec::len), Some(2));
    assert_eq!(json_of(data_dir, &["show", first]), drafts[0]);
    let text = run(data_dir, &["rule-draft", "show", first]).expect_success().stdout;
    assert!(text.lines().any(|line| line.split_whitespace().eq(["as_of", "2026-02-28"])), "{text}");
    let text = run(data_dir, &["rule-draft", "list"]).expect_success().stdout;
    assert!(text.starts_with("ID ") && text.contains(first) && text.contains(second), "{text}");
    for (arguments, reported) in [
        (&["accept", first, "--if-version", "2"][..], "version 1, not 2"),
        (&["accept", second, "--if-version", "1"], "names no program"),
        (&["show", "123e4567-e89b-42d3-a456-426614174000"], "no such rule draft"),
        (&["show", "1"], "UUID"),
    ] {
        let refused = run(data_dir, &[&["rule-draft"], arguments].concat());
        assert!(refused.code == 1 && refused.stderr.contains(reported), "{refused:?}");
    }
    assert_eq!(json_of(data_dir, &["accept", first, "--if-version", "1"])["status"], "accepted");
    let rejected = json_of(data_dir, &["reject", second, "--if-version", "1", "--reason", "no program"]);
    assert_eq!((&rejected["status"], &rejected["reason"]), (&json!("rejected"), &json!("no program")));
    let program = run(data_dir, &["program", "--json", "show", &format!("{NATIONAL_ID}|P")]).expect_success().json();
    assert_eq!(program["eligibility"], "is_female(me)");
}

#[test]
fn drafts_are_decided_on_a_running_server() {
    let (app, drafts) = register();
    administer(app.data_dir(), &drafts);
}

#[test]
fn drafts_are_decided_on_a_stopped_server_and_are_in_its_backup() {
    let (mut app, drafts) = register();
    app.stop();
    administer(app.data_dir(), &drafts);
    let folder = tempfile::tempdir().unwrap();
    let (file, restored) = (folder.path().join("register.backup"), folder.path().join("restored"));
    let file = file.to_str().unwrap();
    drop(run(app.data_dir(), &["backup", file]).expect_success());
    drop(run(&restored, &["restore", file]).expect_success());
    drop(run(&restored, &["verify"]).expect_success());
    assert_eq!(json_of(&restored, &["list"]), json_of(app.data_dir(), &["list"]));
}
