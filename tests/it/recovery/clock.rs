//! The clock of the machine is wrong for a while.

use std::path::Path;

use daftar::config::StoreBackend;
use daftar_tests::postgres::{self, Database};
use daftar_tests::process::{Finished, run};
use daftar_tests::records::{path, person};
use daftar_tests::{ApiClient, Credentials, TestApp, template};
use serde_json::{Value, json};

const DAY_S: i64 = 86_400;
const KEY: &str = "18c2e1f0-clock";

fn create(client: &ApiClient, key: &str, id: &str) -> (u16, String) {
    let request = client.request("POST", "/Individual").header("Idempotency-Key", key);
    let response = request.json(&person(id, json!({}))).send();
    (response.status, response.text())
}

fn entries(app: &TestApp, query: &str) -> Vec<Value> {
    let page = app.admin().get(&format!("/audit?_count=1000&{query}")).expect(200).json();
    page["data"].as_array().unwrap().clone()
}

/// The clock jumps ahead by a day, over the end of a month, and is set back.
///
/// 1. Set the clock right (NTP), and restart the server.
/// 2. Clients whose token was issued in the wrong time get 401 and fetch another one by themselves.
/// 3. `daftar verify` finds nothing. Audit entries of the wrong time keep it, in their order of writing.
#[test]
fn a_clock_that_jumps_a_day_ahead_and_back_loses_nothing() {
    jump(TestApp::start(), |data_dir| run(data_dir, &["verify"]));
}

/// The same with a register in a database: the clock of the server jumps, and PostgreSQL has the right time.
#[test]
fn a_clock_that_jumps_a_day_ahead_and_back_loses_nothing_in_a_database() {
    let database = Database::shared();
    let prepare = |data_dir: &Path| {
        template::copy_to(data_dir);
        std::fs::remove_dir_all(data_dir.join("store")).unwrap();
        let _config = postgres::settings(data_dir, &database.url(), None, "");
    };
    let app = TestApp::builder().prepared(prepare).config(|config| {
        config.store.backend = StoreBackend::Postgres;
        config.store.postgres.url = Some(database.url());
    });
    jump(app.start(), |data_dir| postgres::run(data_dir, &["verify"]));
}

fn jump(mut app: TestApp, verify: impl Fn(&Path) -> Finished) {
    app.advance_seconds(30 * DAY_S);
    let client = app.client(&["individual:all"]);
    let first = create(&client, KEY, "before");
    assert_eq!(first.0, 201);

    app.advance_seconds(DAY_S);
    assert_eq!(client.get("/Individual").status, 401, "its token has expired");
    let later = app.client_of(client.credentials());
    let during = create(&later, "18c2e1f0-later", "during");
    assert_eq!(during.0, 201);
    let patch = json!({"name": {"family": "Diallo"}});
    drop(later.request("PATCH", &path("Individual", "before")).json(&patch).send().expect(200));

    app.advance_seconds(-DAY_S);
    assert_eq!(later.get("/Individual").status, 401, "its token is of the future");
    assert_eq!(client.get("/Individual").expect(200).json()["total"], 2, "its token is valid again");
    app.restart();
    let client = app.client_of(client.credentials());
    assert_eq!(create(&client, KEY, "before").0, 201, "a repetition is answered as the first request");
    assert_eq!(create(&client, "18c2e1f0-later", "during"), during);
    assert_eq!(create(&client, "18c2e1f0-after", "after").0, 201);
    drop(client.request("PATCH", &path("Individual", "before")).json(&json!({"active": true})).send().expect(200));
    assert_eq!(client.get("/Individual").expect(200).json()["total"], 3);

    let of = |from: &str, to: &str, id: &str| {
        let found = entries(&app, &format!("action=create&from={from}&to={to}"));
        found.iter().any(|entry| entry["records"].to_string().contains(&format!("|{id}\"")))
    };
    for (id, is_later) in [("before", false), ("during", true), ("after", false)] {
        assert_eq!(of("2026-03-31", "2026-04-01", id), !is_later, "{id}");
        assert_eq!(of("2026-04-01", "2026-04-02", id), is_later, "{id}");
    }
    app.stop();
    let verified = verify(app.data_dir());
    assert!(verified.code == 0 && verified.stdout.contains("no errors"), "{verified:?}");
}

/// Each day that the clock shows has its own quota. When the clock is set back, the count of the wrong day continues if it is
/// higher: no client gets a second day.
///
/// 1. Set the clock right.
/// 2. Restart the server: each client has what is left of its quota of the right day.
#[test]
fn each_day_that_the_clock_shows_has_its_own_quota() {
    let mut app = TestApp::start();
    let limits =
        json!({"name": "n", "scopes": ["individual:read"], "rate_limit_per_minute": 1_000, "rate_limit_per_day": 20});
    let [careful, eager] = [(); 2].map(|()| app.admin().create_client(&limits));
    let used = |app: &TestApp, credentials: &Credentials, calls: usize| {
        let client = app.client_of(credentials);
        (0..calls).filter(|_| client.get("/Individual").status == 200).count()
    };
    assert_eq!((used(&app, &careful, 15), used(&app, &eager, 4)), (15, 4));
    app.advance_seconds(DAY_S);
    assert_eq!((used(&app, &careful, 10), used(&app, &eager, 30)), (10, 20));
    app.advance_seconds(-DAY_S);
    assert_eq!(used(&app, &careful, 1), 1, "the first day continues at its count");
    assert_eq!(used(&app, &eager, 1), 0, "the count of the wrong day continues");
    app.restart();
    // A call of each block of two that was reserved on disk may be counted although unused: after the jump, and now.
    assert!((2..=4).contains(&used(&app, &careful, 30)));
    assert!((15..=16).contains(&used(&app, &eager, 30)), "what is left of the right day");
    app.advance_seconds(2 * DAY_S);
    assert_eq!(used(&app, &careful, 30), 20);
}

/// Audit entries are removed by the clock: a jump of a day removes those of a day, which are lost.
///
/// 1. Before a start with a wrong clock, set it right: `daftar doctor` compares it with the last write.
/// 2. Entries that were removed are in the last backup.
#[test]
fn a_jump_of_a_day_removes_the_audit_entries_of_a_day_and_no_others() {
    let mut app = TestApp::start();
    drop(app.client(&["individual:read"]));
    app.advance_seconds(2 * DAY_S);
    drop(app.client(&["individual:read"]));
    let count = |app: &TestApp, query: &str| entries(app, query).len();
    let (first, third) = ("to=2026-03-02", "from=2026-03-03&to=2026-03-04");
    app.advance_seconds(28 * DAY_S);
    // These searches have audit entries too, of a later day.
    let (old, other) = (count(&app, first), count(&app, third));
    assert!(old > 0 && other > 0);
    app.restart_with(|config| config.audit.retention_days = 30);
    assert_eq!(count(&app, first), old, "exactly 30 days old");
    app.advance_seconds(DAY_S);
    app.restart();
    let removal = (0..2_000).find_map(|_| entries(&app, "action=audit&actor=system").into_iter().next());
    assert!(removal.is_some(), "the removal runs during the requests");
    assert_eq!((count(&app, first), count(&app, third)), (0, other));
    app.advance_seconds(-DAY_S);
    app.restart();
    assert_eq!((count(&app, first), count(&app, third)), (0, other));
    assert_eq!(run(app.data_dir(), &["verify"]).code, 0);
}
