//! `daftar consent`, on a server that runs and on one that is stopped.

use std::path::Path;

use daftar_tests::TestApp;
use daftar_tests::process::run;
use daftar_tests::records::{person, reference};
use serde_json::{Value, json};

const GRANTEE: &str = "Ministry of Health";

fn json_of(data_dir: &Path, arguments: &[&str]) -> Value {
    run(data_dir, &[&["consent", "--json"], arguments].concat()).expect_success().json()
}

fn administer(data_dir: &Path) {
    let subject = reference("1");
    let needed = ["create", "--subject", &subject, "--grantee", GRANTEE, "--effective", "2026-01-01"];
    let more = ["--scope", "individual", "group", "--fields", "name,birth_date", "--expires", "2099-12-31"];
    let created = json_of(data_dir, &[&needed[..], &more].concat());
    assert_eq!((&created["fields"], &created["status"]), (&json!(["name", "birth_date"]), &json!("given")));
    assert_eq!(json_of(data_dir, &["list"])["data"], json!([created]));
    assert_eq!(json_of(data_dir, &["list", "--subject", &subject, "--grantee", GRANTEE])["data"], json!([created]));
    assert_eq!(json_of(data_dir, &["list", "--grantee", "Nobody"])["data"], json!([]));
    let text = run(data_dir, &["consent", "list"]).expect_success().stdout;
    assert!(text.starts_with("CONSENT_ID") && text.contains("2026-01-01..2099-12-31"), "{text}");
    let id = created["consent_id"].as_str().unwrap();
    assert_eq!(json_of(data_dir, &["withdraw", id])["status"], "withdrawn");
    for (arguments, what) in [
        (&["withdraw", "1"][..], "UUID"),
        (&["withdraw", "123e4567-e89b-42d3-a456-426614174000"], "no such Consent"),
        (&[&needed[..], &["--scope", "vocabulary"]].concat(), "`individual`, `group`, `program_membership`"),
        (&[&needed[..], &["--scope", "group", "--fields", "nam"]].concat(), "fields"),
    ] {
        let refused = run(data_dir, &[&["consent"], arguments].concat());
        assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{refused:?}");
        assert!(refused.stderr.contains(what), "{refused:?}");
    }
}

fn register() -> TestApp {
    let app = TestApp::start();
    drop(app.client(&["individual:create"]).create_individual(&person("1", json!({}))));
    app
}

#[test]
fn consents_are_administered_on_a_running_server() {
    let app = register();
    administer(app.data_dir());
}

#[test]
fn consents_are_administered_on_a_stopped_server() {
    let mut app = register();
    app.stop();
    administer(app.data_dir());
}

#[test]
fn a_client_belongs_to_the_organization_that_it_was_created_with() {
    let app = register();
    let create = ["client", "create", "--json", "--name", "n", "--scope", "consent:read", "--organization", GRANTEE];
    let created = run(app.data_dir(), &create).expect_success().json();
    let id = created["client_id"].as_str().unwrap();
    let shown = run(app.data_dir(), &["client", "show", "--json", id]).expect_success().json();
    assert_eq!(shown["organization"], GRANTEE);
}
