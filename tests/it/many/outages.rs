//! A database that is unavailable, in any way: requests are 503 with Retry-After, nothing is partially done, and a
//! server resumes by itself when the database is available again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use daftar_test_postgres::{Server as Postgres, Stop};
use daftar_tests::postgres::{Database, Processes, eventually};
use daftar_tests::records::{FEMALE, household, path, person};
use daftar_tests::{ApiClient, Response};
use serde_json::json;

use super::SCOPES;

/// One server on a PostgreSQL that the test may stop, and a client of it.
fn alone() -> (Arc<Database>, Processes, ApiClient) {
    let database = Arc::new(Database::on(Arc::new(Postgres::start(&[]))));
    let processes = Processes::start_on(database.clone(), 1, "");
    let client = processes.client_of(0, &processes.credentials(0, &SCOPES));
    (database, processes, client)
}

fn create(client: &ApiClient, id: &str) -> Response {
    client.post("/Individual", &person(id, json!({"gender": FEMALE})))
}

/// Repeats a request until the server responds normally.
fn recovers(client: &ApiClient, id: &str) {
    eventually("a write is taken again", || [201, 409].contains(&create(client, id).status));
    assert_eq!(client.get(&path("Individual", id)).status, 200);
}

#[track_caller]
fn assert_retry_after(response: &Response) {
    assert_eq!(response.status, 503, "{}", response.text());
    let seconds: u64 = response.header("retry-after").expect("when to come again").parse().expect("seconds");
    assert!((1..=60).contains(&seconds), "{seconds}");
    let mut problem = response.json();
    // Its `type` is below the address of the server itself.
    drop(problem.as_object_mut().and_then(|problem| problem.remove("type")));
    let problem = problem.to_string();
    assert!(!problem.contains("postgres") && !problem.contains("127.0.0.1"), "nothing of what is behind: {problem}");
}

#[test]
fn a_database_that_is_gone_and_comes_back() {
    let (database, processes, client) = alone();
    assert_eq!(create(&client, "before").status, 201);
    database.server().stop(Stop::Fast);
    for _ in 0..3 {
        assert_retry_after(&client.get(&path("Individual", "before")));
        assert_retry_after(&client.get("/Individual?_count=1"));
        assert_retry_after(&create(&client, "during"));
        assert_retry_after(&client.post("/Eligibility/$preview", &json!({"expression": "true"})));
    }
    let ready = processes.server(0).connection().request("GET", "/health/ready").send();
    assert_eq!(ready.status, 503, "{}", ready.text());
    assert_eq!(processes.server(0).connection().request("GET", "/health/live").send().status, 200);
    database.server().start_again();
    recovers(&client, "after");
    assert_eq!(client.get(&path("Individual", "before")).status, 200);
    assert_eq!(client.get(&path("Individual", "during")).status, 404, "what was refused was not done");
    eventually("it is ready", || processes.server(0).connection().request("GET", "/health/ready").send().status == 200);
}

#[test]
fn acknowledged_writes_survive_a_database_that_is_killed_during_writes() {
    let (database, processes, client) = alone();
    let is_over = AtomicBool::new(false);
    let (acknowledged, refused) = std::thread::scope(|scope| {
        let writer = |writer: usize| {
            let (client, is_over) = (processes.at(0, &client), &is_over);
            scope.spawn(move || {
                let (mut acknowledged, mut refused) = (Vec::new(), Vec::new());
                let mut number = 0;
                while !is_over.load(Ordering::Relaxed) {
                    number += 1;
                    let (head, home) = (format!("{writer}-{number}"), format!("H-{writer}-{number}"));
                    let members = [(head.as_str(), "head")];
                    // A person and a household in one transaction.
                    let bundle = json!({"type": "transaction", "entry": [
                        {"request": {"method": "POST", "url": "Individual"}, "resource": person(&head, json!({}))},
                        {"request": {"method": "POST", "url": "Group"}, "resource": household(&home, &members)},
                    ]});
                    let response = client.post("/$batch", &bundle);
                    match response.status {
                        200 | 201 => acknowledged.push((head, home)),
                        503 => refused.push((head, home)),
                        other => panic!("{other}: {}", response.text()),
                    }
                }
                (acknowledged, refused)
            })
        };
        let writers: Vec<_> = (0..4).map(writer).collect();
        let written = || client.get("/Individual?_count=1").json()["total"].as_u64().unwrap_or_default();
        for round in 1..=3 {
            eventually("some are written", || written() >= round * 40);
            database.server().stop(Stop::Immediate);
            database.server().start_again();
        }
        eventually("some more are written", || written() >= 160);
        is_over.store(true, Ordering::Relaxed);
        let all = writers.into_iter().map(|writer| writer.join().unwrap());
        all.fold((Vec::new(), Vec::new()), |(mut done, mut refused), (more_done, more_refused)| {
            done.extend(more_done);
            refused.extend(more_refused);
            (done, refused)
        })
    });
    let is_there = |(head, home): &(String, String)| {
        [path("Individual", head), path("Group", home)].map(|path| client.get(&path).status)
    };
    for pair in &acknowledged {
        assert_eq!(is_there(pair), [200, 200], "{pair:?}");
    }
    let mut half = refused.iter().map(is_there).filter(|statuses| statuses[0] != statuses[1]);
    assert_eq!(half.next(), None, "nothing is half done");
    let late = refused.iter().filter(|pair| is_there(pair) == [200, 200]).count();
    let total = client.get("/Individual?_count=1").expect(200).json()["total"].as_u64().unwrap();
    assert_eq!(total as usize, acknowledged.len() + late);
    let sequence: usize = database.sql("SELECT count(*) FROM daftar.change").trim().parse().unwrap();
    let last: usize = database.sql("SELECT sequence FROM daftar.last").trim().parse().unwrap();
    assert_eq!(sequence, last, "the order of writes has no gap");
}

#[test]
fn a_database_that_takes_no_writes_shows_nothing_that_cannot_be_written_down() {
    let (database, processes, client) = alone();
    assert_eq!(create(&client, "before").status, 201);
    let name = database.sql("SELECT current_database()").trim().to_owned();
    let set = |value: &str| {
        database.sql(&format!(
            "BEGIN READ WRITE; ALTER DATABASE {name} SET default_transaction_read_only = {value}; COMMIT"
        ));
        database.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()");
    };
    let mut shown = 0;
    let mut read = || {
        let status = client.get(&path("Individual", "before")).status;
        assert!([200, 503].contains(&status), "{status}");
        shown += usize::from(status == 200);
        status
    };
    set("on");
    eventually("writes are refused", || create(&client, "during").status == 503);
    assert_retry_after(&create(&client, "during"));
    eventually("reads that cannot be audited are rejected too", || read() == 503);
    set("off");
    eventually("reads are answered", || read() == 200);
    recovers(&client, "after");
    assert_eq!(client.get(&path("Individual", "during")).status, 404);
    let lines = processes.admin(0).get("/audit?action=read&outcome=allowed&_count=100").expect(200).json();
    let named = |line: &&serde_json::Value| line["records"].to_string().contains("|before");
    assert_eq!(lines["data"].as_array().expect("lines").iter().filter(named).count(), shown, "{lines}");
}

#[test]
fn a_database_without_a_free_connection() {
    let database = Arc::new(Database::on(Arc::new(Postgres::start(&[]))));
    let mut processes = Processes::start_on(database.clone(), 1, "");
    let url = database.bounded_url();
    let bounded = processes.start_one_by(&url);
    let client = processes.client_of(bounded, &processes.credentials(0, &SCOPES));
    assert_eq!(create(&client, "before").status, 201);
    let role = url.split("//").nth(1).and_then(|rest| rest.split('@').next()).expect("a role").to_owned();
    database.sql(&format!("ALTER ROLE {role} CONNECTION LIMIT 0"));
    database.sql(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'"));
    eventually("reads are refused", || client.get(&path("Individual", "before")).status == 503);
    assert_retry_after(&client.get(&path("Individual", "before")));
    assert_retry_after(&create(&client, "during"));
    let other = processes.at(0, &client);
    assert_eq!(create(&other, "other").status, 201, "another process still serves");
    database.sql(&format!("ALTER ROLE {role} CONNECTION LIMIT -1"));
    recovers(&client, "after");
    assert_eq!(client.get(&path("Individual", "during")).status, 404);
}

#[test]
fn a_database_that_is_slow() {
    let (database, _processes, client) = alone();
    assert_eq!(create(&client, "before").status, 201);
    std::thread::scope(|scope| {
        let holding = scope.spawn(|| database.hold("SELECT FROM daftar.last FOR UPDATE"));
        eventually("the row is held", || database.is_held());
        assert_retry_after(&create(&client, "during"));
        assert_eq!(client.get(&path("Individual", "before")).status, 200, "reads wait for no write");
        database.end_holder();
        holding.join().unwrap();
    });
    recovers(&client, "after");
}

#[test]
fn a_standby_takes_over_and_nothing_acknowledged_is_lost() {
    let primary = Postgres::start(&[("wal_level", "replica"), ("max_wal_senders", "4")]);
    let database = Arc::new(Database::on(Arc::new(primary)));
    let standby = database.server().start_standby();
    // A response waits until the standby has the write too.
    database.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
    database.sql("SELECT pg_reload_conf()");
    let is_connected = "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
    eventually("the primary waits for its standby", || database.sql(is_connected) == "t");
    let name = database.sql("SELECT current_database()").trim().to_owned();
    let role = daftar_test_postgres::ROLE;
    let (one, other) = (database.server().port(), standby.port());
    let url = format!("postgres://{role}@127.0.0.1:{one},127.0.0.1:{other}/{name}?target_session_attrs=read-write");
    let mut processes = Processes::start_on(database.clone(), 0, "");
    let number = processes.start_one_by(&url);
    let client = processes.client_of(number, &processes.credentials(number, &SCOPES));
    let mut acknowledged = Vec::new();
    let mut write = |id: String| {
        let status = create(&client, &id).status;
        assert!([201, 503].contains(&status), "{status}");
        if status == 201 {
            acknowledged.push(id);
        }
        status
    };
    for at in 0..20 {
        write(format!("before-{at}"));
    }
    database.server().stop(Stop::Immediate);
    assert_eq!(write("during".to_owned()), 503);
    standby.run_sql(&name, "SELECT pg_promote()");
    let mut at = 0;
    eventually("the standby takes writes", || {
        at += 1;
        write(format!("after-{at}")) == 201
    });
    for id in &acknowledged {
        assert_eq!(client.get(&path("Individual", id)).status, 200, "{id}");
    }
    assert!(acknowledged.len() > 10);
}
