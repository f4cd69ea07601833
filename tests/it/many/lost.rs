//! A standby that takes over without the last writes: they are discarded, although later writes reuse
//! their numbers.

use std::sync::Arc;

use daftar_test_postgres::{Server as Postgres, Stop};
use daftar_tests::postgres::{Database, Processes, eventually};
use daftar_tests::records::{FEMALE, MALE, path, person};
use daftar_tests::{ApiClient, token};
use serde_json::json;

/// The scopes of a client that writes and previews.
const SCOPES: [&str; 4] = ["individual:all", "group:all", "vocabulary:read", "eligibility:read"];

/// Number of people whom a rule finds to be women, and of others.
fn women_and_others(client: &ApiClient) -> (u64, u64) {
    let rule = json!({"expression": "is_female(me)", "subject": "individual"});
    let counts = client.post("/Eligibility/$preview", &rule).expect(200).json();
    let count = |name: &str| counts[name].as_u64().expect("a count");
    (count("eligible"), count("not_eligible"))
}

#[test]
fn writes_lost_in_a_failover_are_discarded_everywhere() {
    let primary = Postgres::start(&[("wal_level", "replica"), ("max_wal_senders", "4")]);
    let database = Arc::new(Database::on(Arc::new(primary)));
    let standby = database.server().start_standby();
    let name = database.sql("SELECT current_database()").trim().to_owned();
    let role = daftar_test_postgres::ROLE;
    let (one, other) = (database.server().port(), standby.port());
    let url = format!("postgres://{role}@127.0.0.1:{one},127.0.0.1:{other}/{name}?target_session_attrs=read-write");
    let mut processes = Processes::start_on(database.clone(), 0, "");
    for _ in 0..2 {
        processes.start_one_by(&url);
    }
    let create = |client: &ApiClient, id: &str, gender: &str| {
        client.post("/Individual", &person(id, json!({"gender": gender}))).status
    };
    let client = processes.client_of(0, &processes.credentials(0, &SCOPES));
    let clients = [0, 1].map(|number| processes.at(number, &client));
    let changed = processes.credentials(0, &["group:read"]);
    assert_eq!(create(&client, "before", FEMALE), 201);

    standby.stop_following(database.server());
    assert_eq!(create(&client, "lost", FEMALE), 201);
    let lost = processes.credentials(0, &["group:read"]);
    let of_lost = [0, 1].map(|number| processes.client_of(number, &lost));
    processes.admin(0).disable(&changed.id);
    let group = json!({"description": "Lost", "includes": [{"code": FEMALE}], "excludes": []});
    drop(processes.admin(1).request("PUT", "/concept-groups/lost").json(&group).send().expect(200));
    for client in &clients {
        assert_eq!(women_and_others(client), (2, 0));
        eventually("the concept group counts", || client.get("/ConceptGroup/lost").status == 200);
    }

    database.server().stop(Stop::Immediate);
    standby.run_sql(&name, "SELECT pg_promote()");
    eventually("the standby takes writes", || create(&client, "new-0", MALE) == 201);
    eventually("the other server has found it too", || create(&clients[1], "new-1", MALE) == 201);
    // As many as were lost, and more: every number is used again.
    for number in 2..8 {
        assert_eq!(create(&clients[number % 2], &format!("new-{number}"), MALE), 201);
    }
    for (number, client) in clients.iter().enumerate() {
        assert_eq!(women_and_others(client), (1, 8));
        assert_eq!(client.get(&path("Individual", "lost")).status, 404);
        eventually("a lost client is unknown", || of_lost[number].get(&path("Group", "absent")).status == 401);
        let refused = processes.server(number).connection().request("POST", token::PATH);
        let refused = refused.header("Authorization", token::basic(&lost.id, &lost.secret));
        assert_eq!(refused.body(token::FORM, "grant_type=client_credentials").send().status, 401);
        eventually("a concept group that was lost is gone", || client.get("/ConceptGroup/lost").status == 404);
    }
    for number in [1, 0] {
        assert_eq!(
            processes.client_of(number, &changed).get(&path("Group", "absent")).status,
            404,
            "it is not disabled"
        );
        processes.admin(number).disable(&changed.id);
        processes.admin(number).enable(&changed.id);
    }
}
