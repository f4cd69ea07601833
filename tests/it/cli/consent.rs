//! `daftar consent`, on a running and on a stopped server.

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
    assert_eq!(json_of(data_dir, &["list", "--grantee", "Absent"])["data"], json!([]));
    let text = run(data_dir, &["consent", "list"]).expect_success().stdout;
    assert!(text.starts_with("CONSENT_ID") && text.contains("2026-01-01..2099-12-31"), "{text}");
    let id = created["consent_id"].as_str().unwrap();
    assert_eq!(json_of(data_dir, &["show", id]), created);
    let text = run(data_dir, &["consent", "show", id]).expect_success().stdout;
    assert!(text.contains(id) && text.contains(GRANTEE), "{text}");
    let stale = run(data_dir, &["consent", "withdraw", id, "--if-version", "2"]);
    assert!(stale.code == 1 && stale.stderr.contains("version"), "{stale:?}");
    assert_eq!(json_of(data_dir, &["withdraw", id, "--if-version", "1"])["status"], "withdrawn");
    for (arguments, code, what) in [
        (&["withdraw", "1"][..], 1, "UUID"),
        (&["show", "123e4567-e89b-42d3-a456-426614174000"], 1, "no such Consent"),
        (&["withdraw", "123e4567-e89b-42d3-a456-426614174000"], 1, "no such Consent"),
        (&[&needed[..], &["--scope", "vocabulary"]].concat(), 2, "individual, group, program_membership"),
        (&[&needed[..], &["--scope", "individual", "--fields", "nam"]].concat(), 1, "fields"),
    ] {
        let refused = run(data_dir, &[&["consent"], arguments].concat());
        assert_eq!((refused.code, refused.stdout.as_str()), (code, ""), "{refused:?}");
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
fn a_client_belongs_to_the_organization_that_it_is_given_to() {
    let app = register();
    let client = |arguments: &[&str]| run(app.data_dir(), &[&["client", "--json"], arguments].concat());
    let created = client(&["create", "--name", "n", "--scope", "consent:read", "--organization", GRANTEE]);
    let created = created.expect_success().json();
    let id = created["client_id"].as_str().unwrap();
    assert_eq!(client(&["show", id]).expect_success().json()["organization"], GRANTEE);
    let set = |arguments: &[&str]| client(&[&["set", id], arguments].concat()).expect_success().json();
    let limited = set(&["--name", "m", "--rate-limit-per-minute", "7", "--rate-limit-per-day", "70"]);
    assert_eq!((&limited["name"], &limited["organization"]), (&json!("m"), &json!(GRANTEE)), "the rest stays");
    assert_eq!((&limited["rate_limit_per_minute"], &limited["rate_limit_per_day"]), (&json!(7), &json!(70)));
    let effective = |client: &Value| {
        ["effective_rate_limit_per_minute", "effective_rate_limit_per_day"].map(|name| client[name].as_u64().unwrap())
    };
    assert_eq!(effective(&limited), [7, 70], "its own limits count");
    let bare = set(&["--organization", "", "--rate-limit-per-minute", "0"]);
    assert_eq!((bare.get("organization"), bare.get("rate_limit_per_minute")), (None, None));
    assert_eq!(bare["rate_limit_per_day"], 70);
    assert_eq!(effective(&bare), [60, 70], "the default counts where it has none of its own");
    let shown = run(app.data_dir(), &["client", "show", id]).expect_success().stdout;
    assert!(shown.contains("rate_limit_per_minute 60 (default)\nrate_limit_per_day 70\n"), "{shown}");
    for (arguments, what, code) in [
        (&["set", id][..], "nothing to change", 2),
        (&["set", id, "--name", ""], "name", 1),
        (&["set", "client-9", "--name", "x"], "no such client", 1),
        (&["set", id, "--rate-limit-per-day", "10000001"], "rate limit", 1),
    ] {
        let refused = client(arguments);
        assert_eq!((refused.code, refused.stdout.as_str()), (code, ""), "{refused:?}");
        assert!(refused.stderr.contains(what), "{refused:?}");
    }
}

#[test]
fn a_client_sees_consented_fields_by_its_legal_basis() {
    let app = register();
    let client = |arguments: &[&str]| run(app.data_dir(), &[&["client"], arguments].concat());
    let json = |arguments: &[&str]| client(&[arguments, &["--json"]].concat()).expect_success().json();
    let create = ["create", "--name", "n", "--scope", "individual:read", "--legal-basis", "consent"];
    let refused = client(&create);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{refused:?}");
    assert!(refused.stderr.contains("name the organization"), "{refused:?}");
    let created = json(&[&create[..], &["--organization", GRANTEE, "--purpose", "vaccination"]].concat());
    let id = created["client_id"].as_str().unwrap();
    let shown = json(&["show", id]);
    assert_eq!((&shown["legal_basis"], &shown["purpose"]), (&json!("consent"), &json!("vaccination")));
    let text = client(&["show", id]).expect_success().stdout;
    assert!(text.contains("legal_basis consent") && text.contains("purpose     vaccination"), "{text}");
    let without_purpose = json(&["set", id, "--purpose", ""]);
    assert_eq!((&without_purpose["legal_basis"], without_purpose.get("purpose")), (&json!("consent"), None));
    let other = json(&["set", id, "--legal-basis", "public_task"]);
    assert_eq!(other["legal_basis"], "public_task");
    let none = json(&["set", id, "--legal-basis", ""]);
    assert_eq!((none.get("legal_basis"), &none["organization"]), (None, &json!(GRANTEE)));
    for (arguments, code, what) in [
        (&["set", id, "--legal-basis", "whim"][..], 2, "legal_obligation"),
        (&["set", id, "--purpose", "vaccination"], 1, "goes with the legal basis `consent`"),
    ] {
        let refused = client(arguments);
        assert_eq!((refused.code, refused.stdout.as_str()), (code, ""), "{refused:?}");
        assert!(refused.stderr.contains(what), "{refused:?}");
    }
}
