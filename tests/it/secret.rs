//! Effect of a changed secret on a client's tokens, and the notice of an old secret.

use daftar_tests::process::run;
use daftar_tests::{Server, TestApp, token};
use serde_json::{Value, json};

#[test]
fn a_token_taken_while_the_secret_is_being_rotated_does_not_outlive_the_rotation() {
    let app = TestApp::start();
    let (admin, client) = (app.admin(), app.client(&["individual:read"]));
    assert_eq!(client.get("/Individual").status, 200);
    let mut taken = None;
    let head = format!(
        "POST /admin/v1/clients/{}/rotate-secret HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n",
        client.id(),
        admin.token()
    );
    let rotated = app.admin_listener().exchange_slowly(&head, "{}", || {
        app.advance_seconds(5);
        taken = Some(token::fetch(&app.anonymous(), client.credentials()));
    });
    drop(rotated.expect(200));
    let taken = taken.unwrap();
    let call = || app.anonymous().request("GET", "/api/v2/Individual").bearer(&taken).send();
    let refused = call().expect(401);
    assert_eq!(
        (refused.detail().as_str(), refused.code().as_str()),
        ("the access token has expired: get a new one", "token_expired")
    );
    admin.disable(client.id());
    admin.enable(client.id());
    assert_eq!(call().status, 401);
    assert_eq!(client.get("/Individual").status, 401);
}

const DAY_S: i64 = 86_400;

fn figure(app: &TestApp) -> Option<String> {
    let page = app.admin_listener().request("GET", "/metrics").bearer(app.admin().token()).send().expect(200);
    page.text().lines().find_map(|line| line.strip_prefix("daftar_clients_with_old_secrets ").map(str::to_owned))
}

#[test]
fn an_old_secret_is_reported_after_ninety_days_until_it_is_replaced() {
    let app = TestApp::start();
    let admin = app.admin();
    let id = admin.create_client(&json!({"name": "clinic", "scopes": ["individual:read"]})).id;
    let secrets = || admin.get(&format!("/clients/{id}")).expect(200).json()["secrets"].take();
    let listed = || run(app.data_dir(), &["client", "list"]).expect_success().stdout;
    let shown = || run(app.data_dir(), &["client", "show", &id]).expect_success().stdout;
    app.advance_seconds(90 * DAY_S);
    assert_eq!((&secrets()[0]["age_days"], secrets()[0].get("warning")), (&json!(90), None), "not on the last day");
    assert!(listed().contains("90 d ") && !listed().contains("too old"), "{}", listed());
    assert_eq!(figure(&app).as_deref(), Some("0"));
    app.advance_seconds(1);
    let warning = format!("older than 90 days: `daftar client rotate-secret {id} --overlap 24h` gives another");
    assert_eq!(secrets()[0]["warning"], warning);
    assert!(listed().contains("90 d, too old"), "{}", listed());
    assert!(shown().contains("90 days old, made 2026-03-01T12:00:00.000Z; older than 90 days"), "{}", shown());
    assert_eq!(figure(&app).as_deref(), Some("1"));
    assert_eq!(admin.get("/clients").expect(200).json()["data"][0]["secrets"], secrets());

    let rotated = run(app.data_dir(), &["client", "rotate-secret", &id, "--overlap", "24h"]).expect_success();
    assert!(rotated.stdout.contains("daftar_secret_"), "shown this once");
    let both: Vec<(Value, Option<Value>)> =
        (0..2).map(|place| (secrets()[place]["age_days"].clone(), secrets()[place].get("warning").cloned())).collect();
    assert_eq!(both, [(json!(90), None), (json!(0), None)], "the old one goes by itself");
    assert!(listed().contains(" 0 d ") && shown().contains("good until 2026-05-31T12:00:01.000Z"), "{}", shown());
    assert_eq!(figure(&app).as_deref(), Some("0"));
}

#[test]
fn the_settings_say_when_a_secret_is_old_or_that_none_is() {
    let mut app = TestApp::builder().config(|config| config.token.secret_age_warning_days = 1).start();
    let id = app.admin().create_client(&json!({"name": "clinic"})).id;
    let warning = |app: &TestApp| {
        app.admin().get(&format!("/clients/{id}")).expect(200).json()["secrets"][0].get("warning").cloned()
    };
    app.advance_seconds(DAY_S + 1);
    assert!(warning(&app).unwrap().as_str().unwrap().starts_with("older than 1 days"));
    app.admin().disable(&id);
    assert_eq!((warning(&app), figure(&app).as_deref()), (None, Some("0")), "a client that may not call opens nothing");
    app.admin().enable(&id);
    app.restart_with(|config| config.token.secret_age_warning_days = 0);
    app.advance_seconds(10_000 * DAY_S);
    assert_eq!((warning(&app), figure(&app)), (None, None));
}

#[test]
fn the_log_names_clients_with_old_secrets_at_the_start() {
    let mut app = TestApp::start();
    let credentials = app.admin().create_client(&json!({"name": "clinic"}));
    app.stop();
    // The clock of tests shows a day that is long past by that of the machine.
    let log = Server::serve(app.data_dir(), &[]).stop().expect_success().stderr;
    let line = log.lines().find(|line| line.contains("a client's secret is old")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("WARN") && line.contains(&credentials.id) && line.contains("secret.age_days="), "{line}");
    assert!(!log.contains(&credentials.secret));
    drop(run(app.data_dir(), &["client", "rotate-secret", &credentials.id]).expect_success());
    let log = Server::serve(app.data_dir(), &[]).stop().expect_success().stderr;
    assert!(!log.contains("secret is old"), "{log}");
}
