//! Servers that hold the register of a database in memory: the others find writes of one; and no fault stops them
//! permanently.

use std::path::Path;
use std::sync::Arc;

use daftar_test_postgres::{Server as Postgres, Stop};
use daftar_tests::ApiClient;
use daftar_tests::postgres::{self, Database, IN_MEMORY, Processes, eventually};
use daftar_tests::records::{FEMALE, MALE, household, path, person};
use serde_json::json;

const SCOPES: [&str; 3] = ["individual:all", "group:all", "eligibility:read"];
const WOMEN: &str = "/Individual?gender=urn:iso:std:iso:5218%232&_count=1";

/// Changes the first person in all tables, without a write that memory learns of; and back.
const BEHIND: &str = "UPDATE daftar.record SET value = jsonb_set(value, '{birth_date}', '\"1901-02-03\"') WHERE kind = 1 AND id = 1; \
    UPDATE daftar.search_individual SET birth_date = '1901-02-03' WHERE id = 1";
const BACK: &str = "UPDATE daftar.record SET value = jsonb_set(value, '{birth_date}', '\"1990-01-02\"') WHERE kind = 1 AND id = 1; \
    UPDATE daftar.search_individual SET birth_date = '1990-01-02' WHERE id = 1";
/// Changes one byte of the second person.
const DAMAGE: &str = "UPDATE daftar.record SET value = value - 'meta' WHERE kind = 1 AND id = 2";

fn in_memory(database: Arc<Database>, count: usize) -> Processes {
    let mut processes = Processes::start_on(database, 0, "");
    processes.set_store(IN_MEMORY);
    for _ in 0..count {
        let number = processes.start_one();
        processes.is_ready(number);
    }
    processes
}

fn total(client: &ApiClient, query: &str) -> u64 {
    client.get(query).expect(200).json()["total"].as_u64().expect("a total")
}

fn women(client: &ApiClient) -> (u64, u64) {
    let rule = json!({"expression": "is_female(me)", "subject": "individual"});
    let eligible = client.post("/Eligibility/$preview", &rule).expect(200).json()["eligible"].as_u64();
    (total(client, WOMEN), eligible.expect("a count"))
}

fn create(client: &ApiClient, id: &str) {
    drop(client.create_individual(&person(id, json!({"gender": FEMALE, "name": {"family": "Haile"}}))));
}

#[test]
fn writes_of_one_server_are_in_the_next_search_and_preview_of_the_other() {
    let processes = in_memory(Arc::new(Database::shared()), 2);
    let client = processes.client_of(0, &processes.credentials(0, &SCOPES));
    let clients = [0, 1].map(|number| processes.at(number, &client));
    for number in 1..=12_u64 {
        let (writes, reads) = (&clients[number as usize % 2], &clients[(number as usize + 1) % 2]);
        create(writes, &format!("P-{number}"));
        assert_eq!((women(reads), women(writes)), ((number, number), (number, number)));
        assert_eq!(total(reads, "/Individual?name=haile&_count=1"), number);
        let patch = json!({"gender": if number % 3 == 0 { MALE } else { FEMALE }});
        drop(reads.request("PATCH", &path("Individual", &format!("P-{number}"))).json(&patch).send().expect(200));
        let patch = json!({"gender": FEMALE});
        drop(writes.request("PATCH", &path("Individual", &format!("P-{number}"))).json(&patch).send().expect(200));
    }
    drop(clients[0].create_group(&household("H-1", &[("P-1", "head"), ("P-2", "spouse")])));
    assert_eq!(total(&clients[1], "/Group?_count=1"), 1);
    let page = clients[1].get("/Individual?_sort=-_last_updated&_count=3").expect(200).json();
    assert_eq!(page["data"], clients[0].get("/Individual?_sort=-_last_updated&_count=3").expect(200).json()["data"]);
    for number in 0..2 {
        assert!(processes.figure(number, "daftar_index_bytes") > 0.0);
        assert_eq!(processes.figure(number, "daftar_index_rebuilds_total"), 1.0, "it was read once");
        assert_eq!(processes.figure(number, "daftar_index_lag_writes"), 0.0);
    }
}

#[test]
fn an_outage_of_the_database_is_over_for_memory_too_when_it_is_back() {
    let database = Arc::new(Database::on(Arc::new(Postgres::start(&[]))));
    let processes = in_memory(Arc::clone(&database), 2);
    let client = processes.client_of(0, &processes.credentials(0, &SCOPES));
    let other = processes.at(1, &client);
    create(&client, "before");
    assert_eq!(women(&other), (1, 1));
    database.server().stop(Stop::Immediate);
    assert_eq!(other.get(WOMEN).status, 503, "no stale data is returned");
    database.server().start_again();
    eventually("writes are taken again", || client.post("/Individual", &person("after", json!({}))).status != 503);
    create(&client, "more");
    for client in [&client, &other] {
        eventually("searches are answered", || client.get(WOMEN).status == 200);
        assert_eq!(women(client), (2, 2));
    }
    // It is the same database, and another one could have responded in its place.
    for number in 0..2 {
        eventually("it was read again", || processes.figure(number, "daftar_index_rebuilds_total") >= 2.0);
    }
    assert_eq!((women(&client), women(&other)), ((2, 2), (2, 2)));
}

#[test]
fn a_server_that_is_killed_or_stopped_resumes_from_its_checkpoint() {
    let mut processes = in_memory(Arc::new(Database::shared()), 2);
    let client = processes.client_of(0, &processes.credentials(0, &SCOPES));
    for number in 0..5 {
        create(&client, &format!("P-{number}"));
    }
    let (stopped, data_dir) = processes.stop(1);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    create(&client, "during");
    processes.start_again(1, data_dir);
    processes.is_ready(1);
    assert_eq!(women(&processes.at(1, &client)), (6, 6));
    assert_eq!(processes.figure(1, "daftar_index_rebuilds_total"), 0.0, "the checkpoint and one write were read");
    let data_dir = processes.kill(1);
    create(&client, "killed");
    processes.start_again(1, data_dir);
    processes.is_ready(1);
    assert_eq!(women(&processes.at(1, &client)), (7, 7));
    assert_eq!(processes.figure(1, "daftar_index_rebuilds_total"), 0.0);
}

#[test]
fn verification_compares_memory_and_checkpoints_with_the_database() {
    let mut processes = in_memory(Arc::new(Database::shared()), 2);
    let client = processes.client_of(0, &processes.credentials(0, &SCOPES));
    for number in 0..4 {
        let fields = json!({"gender": FEMALE, "birth_date": "1990-01-02"});
        drop(client.create_individual(&person(&format!("P-{number}"), fields)));
    }
    assert_eq!(women(&processes.at(1, &client)), (4, 4));
    let verified = |data_dir: &Path, part: &str, checked: u64, findings: u64| {
        let run = postgres::run(data_dir, &["verify", "--json"]);
        assert_eq!(run.code, i32::from(findings > 0), "{run:?}");
        let parts = run.json()["parts"].as_array().cloned().unwrap_or_default();
        let found = parts.iter().find(|found| found["part"] == part);
        assert_eq!(found, Some(&json!({"part": part, "checked": checked, "findings": findings})), "{run:?}");
        run.stdout
    };
    // The rows in the memory of the server; those of the database are of the same part.
    let data_dir = processes.data_dir(1).to_owned();
    drop(verified(&data_dir, "indexes", 4, 0));
    processes.database().sql(BEHIND);
    let found = verified(&data_dir, "indexes", 4, 1);
    assert!(found.contains("|P-0"), "{found}");
    processes.database().sql(BACK);

    let (stopped, data_dir) = processes.stop(1);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    create(&client, "later");
    drop(verified(&data_dir, "checkpoints", 5, 0));
    processes.database().sql(BEHIND);
    let found = verified(&data_dir, "checkpoints", 5, 1);
    assert!(found.contains("checkpoints/") && found.contains("|P-0"), "{found}");
}

#[test]
fn a_record_that_cannot_be_read_is_left_out_counted_and_named_by_verify() {
    let mut processes = in_memory(Arc::new(Database::shared()), 1);
    let client = processes.client_of(0, &processes.credentials(0, &SCOPES));
    for number in 0..3 {
        create(&client, &format!("P-{number}"));
    }
    let data_dir = processes.kill(0);
    // Without a checkpoint all records are read.
    drop(std::fs::remove_dir_all(data_dir.join("checkpoints")));
    processes.database().sql(DAMAGE);
    processes.start_again(0, data_dir);
    processes.is_ready(0);
    assert_eq!(women(&processes.at(0, &client)), (2, 2));
    assert_eq!(processes.figure(0, "daftar_index_unreadable_records"), 1.0);
    let verified = postgres::run(processes.data_dir(0), &["verify", "--json"]);
    assert_eq!(verified.code, 1, "{verified:?}");
    assert!(verified.stdout.contains("Individual number 2"), "{verified:?}");
    let (stopped, _) = processes.stop(0);
    let logged = stopped.stderr.matches("is left out of searches in memory").count();
    assert_eq!(logged, 1, "{}", stopped.stderr);
}
