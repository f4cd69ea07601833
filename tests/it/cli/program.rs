//! `daftar program`, on a server that runs and on one that is stopped.

use std::path::Path;

use daftar_tests::TestApp;
use daftar_tests::process::run;
use serde_json::{Value, json};

const OTHER: &str = "urn:svc:vocab:id-type#tax_id|PENSION";
const ID: &str = "urn:svc:vocab:id-type#national_id|PENSION";

fn json_of(data_dir: &Path, arguments: &[&str]) -> Value {
    run(data_dir, &[&["program", "--json"], arguments].concat()).expect_success().json()
}

fn administer(data_dir: &Path) {
    let arguments = ["create", "--identifier", ID, "--name", "Pension", "--target-type", "individual"];
    let rule = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(rule.path(), "age_years(me.birth_date) >= 60\n").unwrap();
    let from_file = format!("@{}", rule.path().display());
    let more = ["--eligibility", &from_file, "--enforce-eligibility", "--start", "2026-01-01"];
    let created = json_of(data_dir, &[&arguments[..], &more].concat());
    assert_eq!(created["eligibility"], "age_years(me.birth_date) >= 60");
    assert_eq!((&created["enforce_eligibility"], &created["period"]), (&json!(true), &json!({"start": "2026-01-01"})));
    assert_eq!(json_of(data_dir, &["list"])["data"], json!([created]));
    let update = ["update", ID, "--name", "Old age", "--enforce", "false", "--no-eligibility"];
    let changed = json_of(data_dir, &update);
    assert_eq!((&changed["name"], &changed["enforce_eligibility"]), (&json!("Old age"), &json!(false)));
    assert_eq!(changed.get("eligibility"), None);
    assert_eq!(json_of(data_dir, &["show", ID]), changed);
    let text = run(data_dir, &["program", "show", ID]).expect_success().stdout;
    assert!(text.contains("PENSION") && text.contains("Old age"), "{text}");
    let version = changed["meta"]["version_id"].as_str().unwrap();
    let more = ["--description", "For the old", "--program-type", "pension", "--end", "2026-12-31"];
    let described = json_of(data_dir, &[&["update", ID, "--if-version", version][..], &more].concat());
    assert_eq!((&described["description"], &described["period"]["end"]), (&json!("For the old"), &json!("2026-12-31")));
    for stale in [
        &["update", ID, "--if-version", version, "--name", "x"][..],
        &["end", ID, "--on", "2026-06-30", "--if-version", version],
    ] {
        let refused = run(data_dir, &[&["program"], stale].concat());
        assert!(refused.code == 1 && refused.stderr.contains("version"), "{refused:?}");
    }
    assert_eq!(json_of(data_dir, &["update", ID, "--engine", "eligibility-cel"])["engine"], "eligibility-cel");
    let bare = json_of(data_dir, &["update", ID, "--no-description", "--no-program-type", "--no-engine", "--no-end"]);
    assert_eq!((bare.get("description"), bare.get("program_type"), bare.get("engine")), (None, None, None));
    assert_eq!(bare["period"], json!({"start": "2026-01-01"}));
    assert_eq!(json_of(data_dir, &["update", ID, "--no-period"]).get("period"), None);
    drop(json_of(data_dir, &["update", ID, "--start", "2026-01-01"]));
    let both = json_of(data_dir, &["update", ID, "--add-identifier", OTHER]);
    assert_eq!(both["identifier"].as_array().unwrap().len(), 2);
    let one = json_of(data_dir, &["update", OTHER, "--end-identifier", OTHER, "--ended-on", "2026-02-28"]);
    assert_eq!(one["identifier"][1]["period"], json!({"end": "2026-02-28"}));
    assert_eq!(one["identifier"][0], both["identifier"][0]);
    for (arguments, count) in [
        (&["--name", "old", "--target-type", "individual", "--active", "true", "--status", "current"][..], 1),
        (&["--identifier", ID, "--last-updated", "ge2026-01-01", "--last-updated", "lt2999-01-01"], 1),
        (&["--target-type", "group"], 0),
        (&["--status", "ended"], 0),
        (&["--active", "false"], 0),
        (&["--last-updated", "lt2020-01-01"], 0),
    ] {
        let found = json_of(data_dir, &[&["list"], arguments].concat());
        assert_eq!(found["data"].as_array().unwrap().len(), count, "{arguments:?}");
    }
    let ended = json_of(data_dir, &["end", ID, "--on", "2026-06-30"]);
    assert_eq!(ended["period"], json!({"start": "2026-01-01", "end": "2026-06-30"}));
    let text = run(data_dir, &["program", "list"]).expect_success().stdout;
    assert!(
        text.starts_with("IDENTIFIER") && text.contains("Old age") && text.contains("2026-01-01..2026-06-30"),
        "{text}"
    );
    for (arguments, what, code) in [
        (&["update", ID][..], "nothing to change", 2),
        (&["update", ID, "--engine", "gear"], "there are `eligibility-cel`", 1),
        (&["show", "urn:x:y|1"], "unknown identifier system `urn:x:y`", 1),
        (&["update", ID, "--end-identifier", "urn:x:y|1", "--ended-on", "2026-02-28"], "no identifier `urn:x:y|1`", 1),
        (&["list", "--last-updated", "yesterday"], "`_last_updated`", 1),
        (&["update", "urn:x:y|1", "--name", "x"], "unknown identifier system `urn:x:y`", 1),
        (&["update", ID, "--eligibility", "me.gendr"], "gender", 1),
        (&["end", ID, "--on", "2025-01-01"], "the end must not be before the start", 1),
        (&["create", "--identifier", "PENSION", "--name", "x", "--target-type", "group"], "SYSTEM|VALUE", 2),
    ] {
        let refused = run(data_dir, &[&["program"], arguments].concat());
        assert_eq!((refused.code, refused.stdout.as_str()), (code, ""), "{refused:?}");
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
