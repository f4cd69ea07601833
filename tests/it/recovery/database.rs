//! The database is replaced by an older state of it. A standby that takes over without the last writes is in
//! `many::lost`.

use std::sync::Arc;

use daftar_tests::postgres::{self, Database, IN_MEMORY, Processes, eventually};
use daftar_tests::records::{FEMALE, path, person};
use daftar_tests::{ApiClient, token};
use serde_json::json;

const SCOPES: [&str; 2] = ["individual:all", "eligibility:read"];

fn create(client: &ApiClient, id: &str) {
    drop(client.create_individual(&person(id, json!({"gender": FEMALE}))));
}

fn total(client: &ApiClient) -> u64 {
    client.get("/Individual?_count=1").expect(200).json()["total"].as_u64().expect("a total")
}

/// The database is replaced by an older state, from a backup of PostgreSQL: the writes since then are lost. The servers
/// have checkpoints of the newer state.
///
/// 1. Stop every server of the register.
/// 2. Restore the database, complete, with the tools of PostgreSQL.
/// 3. Start the servers. Each discards its checkpoint, if it is of the lost state, and reads the records.
/// 4. `daftar verify` finds nothing. Clients, secrets and settings are those of the older state.
#[test]
fn an_older_database_is_served_without_the_newer_checkpoints() {
    let database = Arc::new(Database::shared());
    let mut processes = Processes::start_on(Arc::clone(&database), 0, "");
    processes.set_store(IN_MEMORY);
    let number = processes.start_one();
    processes.is_ready(number);
    let client = processes.client_of(number, &processes.credentials(number, &SCOPES));
    for id in ["old-1", "old-2"] {
        create(&client, id);
    }
    let (_, data_dir) = processes.stop(number);
    let name = database.sql("SELECT current_database()").trim().to_owned();
    let admin = |statement: &str| database.server().run_sql("postgres", statement);
    // Connections end a moment after their process.
    let copied = format!("CREATE DATABASE {name}_older TEMPLATE {name}");
    eventually("nothing uses the database", || database.server().try_sql("postgres", &copied).is_ok());

    processes.start_again(number, data_dir);
    processes.is_ready(number);
    let client = processes.at(number, &client);
    for id in ["lost-1", "lost-2", "lost-3"] {
        create(&client, id);
    }
    let lost = processes.credentials(number, &SCOPES);
    let (_, data_dir) = processes.stop(number);
    let dropped = format!("DROP DATABASE {name}");
    eventually("nothing uses the database", || database.server().try_sql("postgres", &dropped).is_ok());
    drop(admin(&format!("ALTER DATABASE {name}_older RENAME TO {name}")));

    processes.start_again(number, data_dir);
    processes.is_ready(number);
    let client = processes.at(number, &client);
    assert_eq!(total(&client), 2);
    assert_eq!(client.get(&path("Individual", "lost-1")).status, 404);
    let refused = processes.server(number).connection().request("POST", token::PATH);
    let refused = refused.header("Authorization", token::basic(&lost.id, &lost.secret));
    assert_eq!(refused.body(token::FORM, "grant_type=client_credentials").send().status, 401, "a lost client");
    // As many writes as were lost, and more: their numbers are used again.
    for id in ["lost-1", "new-1", "new-2", "new-3", "new-4", "new-5"] {
        create(&client, id);
    }
    assert_eq!(total(&client), 8);
    let (_, data_dir) = processes.stop(number);
    processes.start_again(number, data_dir);
    processes.is_ready(number);
    let client = processes.at(number, &client);
    assert_eq!((total(&client), client.get(&path("Individual", "lost-2")).status), (8, 404));
    let verified = postgres::run(processes.data_dir(number), &["verify"]);
    assert_eq!(verified.code, 0, "{verified:?}");
}
