//! `daftar program`, on a server that runs and on one that is stopped.

use std::path::Path;

use daftar_tests::TestApp;
use daftar_tests::process::run;
use serde_json::{Value, json};

const ID: &str = "urn:svc:vocab:id-type#national_id|PENSION";

fn json_of(data_dir: &Path, arguments: &[&str]) -> Value {
    run(data_dir, &[&["program", "--json"], arguments].concat()).expect_success().json()
}

fn administer(data_dir: &Path) {
    let arguments = ["create", "--identifier", ID, "--name", "Pension", "--target-type", "individual"];
    let more = ["--eligibility", "age_years(me.birth_date) >= 60", "--enforce-eligibility", "--start", "2026-01-01"];
    let created = json_of(data_dir, &[&arguments[..], &more].concat());
    assert_eq!((&created["enforce_eligibility"], &created["period"]), (&json!(true), &json!({"start": "2026-01-01"})));
    assert_eq!(json_of(data_dir, &["list"])["data"], json!([created]));
    let update = ["update", ID, "--name", "Old age", "--enforce", "false", "--no-eligibility"];
    let changed = json_of(data_dir, &update);
    assert_eq!((&changed["name"], &changed["enforce_eligibility"]), (&json!("Old age"), &json!(false)));
    assert_eq!(changed.get("eligibility"), None);
    let ended = json_of(data_dir, &["end", ID, "--on", "2026-06-30"]);
    assert_eq!(ended["period"], json!({"start": "2026-01-01", "end": "2026-06-30"}));
    let text = run(data_dir, &["program", "list"]).expect_success().stdout;
    assert!(
        text.starts_with("IDENTIFIER") && text.contains("Old age") && text.contains("2026-01-01..2026-06-30"),
        "{text}"
    );
    for (arguments, what) in [
        (&["update", ID][..], "nothing to change"),
        (&["update", "urn:x:y|1", "--name", "x"], "no such Program"),
        (&["update", ID, "--eligibility", "me.gendr"], "gender"),
        (&["end", ID, "--on", "2025-01-01"], "the end lies before the start"),
        (&["create", "--identifier", "PENSION", "--name", "x", "--target-type", "group"], "SYSTEM|VALUE"),
    ] {
        let refused = run(data_dir, &[&["program"], arguments].concat());
        assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{refused:?}");
        assert!(refused.stderr.contains(what), "{refused:?}");
    }
}

#[test]
fn programs_are_administered_on_a_running_server() {
    let app = TestApp::start();
    administer(app.data_dir());
    assert_eq!(app.client(&["program:search"]).get("/Program?status=current").expect(200).json()["total"], 1);
}

#[test]
fn programs_are_administered_on_a_stopped_server() {
    let mut app = TestApp::start();
    app.stop();
    administer(app.data_dir());
}
