//! Locks and outages: reads continue while writes are blocked, each request has its response, and the log names the
//! cause once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use daftar_test_postgres::{Server as Postgres, Stop};
use daftar_tests::postgres::{Database, Processes, eventually};
use daftar_tests::records::{FEMALE, path, person};
use daftar_tests::{ApiClient, Response};
use serde_json::{Value, json};

use super::SCOPES;

/// A server on a PostgreSQL that the test may stop, and a client of it.
fn alone() -> (Arc<Database>, Processes, ApiClient) {
    let database = Arc::new(Database::on(Arc::new(Postgres::start(&[]))));
    let processes = Processes::start_on(database.clone(), 1, "");
    let client = processes.client_of(0, &processes.credentials(0, &SCOPES));
    (database, processes, client)
}

fn create(client: &ApiClient, id: &str) -> Response {
    client.post("/Individual", &person(id, json!({"gender": FEMALE})))
}

#[test]
fn a_lock_on_the_row_that_orders_writes_stops_no_read_and_the_log_names_the_session() {
    let (database, mut processes, client) = alone();
    assert_eq!(create(&client, "before").status, 201);
    let read = || client.get(&path("Individual", "before")).status;
    std::thread::scope(|scope| {
        let holding = scope.spawn(|| database.hold("SELECT FROM daftar.last FOR UPDATE /* a_secret_of_the_query */"));
        eventually("the row is held", || database.is_held());
        assert_eq!(read(), 200);
        let refused = create(&client, "during");
        assert_eq!(refused.status, 503, "{}", refused.text());
        assert!(refused.header("retry-after").is_some());
        // Earlier reads are not written yet if audit entries are written together with writes.
        for _ in 0..40 {
            assert_eq!(read(), 200, "reads wait for no write");
            std::thread::sleep(std::time::Duration::from_millis(25));
        }
        let audited = processes.admin(0).get("/audit?action=read").expect(200).json();
        assert!(audited["data"].as_array().is_some_and(|lines| lines.len() > 40), "they are audited: {audited}");
        database.end_holder();
        holding.join().unwrap();
    });
    eventually("a write is taken again", || [201, 409].contains(&create(&client, "after").status));
    let page = processes.admin(0).metrics();
    for times in ["held", "wait"] {
        let name = format!("daftar_database_lock_{times}_duration_seconds_count ");
        let groups = page.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok());
        assert!(groups.is_some_and(|groups| groups >= 2), "{name}: {groups:?}");
    }
    let (ended, _) = processes.stop(0);
    let reported: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("waiting for a lock")).collect();
    assert_eq!(reported.len(), 1, "{reported:?}");
    for named in ["holder", "(write ", "blocker.pid=", "blocker.transaction_s=", "blocker.command=", "SET"] {
        assert!(reported[0].contains(named), "{named}: {reported:?}");
    }
    assert!(!ended.stderr.contains("a_secret_of_the_query"));
}

#[test]
fn an_outage_is_two_entries_in_the_log_however_many_requests_fail() {
    let (database, mut processes, client) = alone();
    assert_eq!(create(&client, "before").status, 201);
    database.server().stop(Stop::Fast);
    for number in 0..20 {
        assert_eq!(client.get(&path("Individual", "before")).status, 503);
        if number < 3 {
            assert_eq!(create(&client, "during").status, 503);
        }
    }
    database.server().start_again();
    eventually("a write is taken again", || [201, 409].contains(&create(&client, "after").status));
    let (ended, _) = processes.stop(0);
    let with = |text: &str| ended.stderr.lines().filter(|line| line.contains(text)).collect::<Vec<_>>();
    let (began, over) = (with("database outage: "), with("database outage ended"));
    assert_eq!((began.len(), over.len()), (1, 1), "{began:?} {over:?}");
    let failed = over[0]
        .split("outage.requests_failed=")
        .nth(1)
        .and_then(|rest| rest.split(|one: char| !one.is_ascii_digit()).next()?.parse::<u32>().ok());
    assert!(failed.is_some_and(|failed| failed >= 20), "{over:?}");
    assert!(over[0].contains("duration_ms"), "{over:?}");
    assert_eq!(with("the store failed"), [""; 0]);
    assert_eq!(with("ERROR"), [""; 0]);
}

/// A transaction of several people.
fn bundle(name: &str) -> Value {
    let entry = |number: usize| {
        let id = format!("{name}-{number}");
        json!({"request": {"method": "POST", "url": "Individual"}, "resource": person(&id, json!({"gender": FEMALE}))})
    };
    json!({"type": "transaction", "entry": (0..40).map(entry).collect::<Vec<_>>()})
}

#[test]
fn every_request_in_flight_when_the_database_stops_gets_its_status() {
    let (database, processes, client) = alone();
    assert_eq!(create(&client, "before").status, 201);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let write = |writer: usize| {
            let (client, is_over) = (processes.at(0, &client), &is_over);
            scope.spawn(move || {
                let mut statuses = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let mut text = bundle(&format!("{writer}-{}", statuses.len())).to_string();
                    // Far longer than a socket buffer: white space is a body, too.
                    text = text.replacen('{', &format!("{{{}", " ".repeat(200_000)), 1);
                    let request = client.request("POST", "/$batch").body("application/json", &text);
                    // None if the connection breaks before the complete request is sent and its response is received.
                    statuses.push(request.try_send().map(|response| response.status));
                }
                statuses
            })
        };
        let writers: Vec<_> = (0..8).map(write).collect();
        let written = || client.get("/Individual?_count=1").json()["total"].as_u64().unwrap_or_default();
        for round in 1..=2_u64 {
            eventually("some are written", || written() > round * 200);
            database.server().stop(Stop::Immediate);
            std::thread::sleep(std::time::Duration::from_secs(1));
            database.server().start_again();
        }
        eventually("some more are written", || written() > 600);
        is_over.store(true, Ordering::Relaxed);
        let statuses: Vec<Option<u16>> = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        let without = statuses.iter().filter(|status| status.is_none()).count();
        assert_eq!(without, 0, "of {} requests", statuses.len());
        assert!(statuses.iter().all(|status| [Some(200), Some(503)].contains(status)), "{statuses:?}");
        assert!(statuses.contains(&Some(503)), "some were in flight, or came while there was no database");
    });
}
