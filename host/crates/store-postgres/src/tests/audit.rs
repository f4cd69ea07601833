//! Audit entries as rows: they round-trip, months have their partitions, and old months are dropped as a whole.

use super::*;
use std::net::IpAddr;

use daftar_domain::audit::query::lookup_key;
use daftar_domain::audit::{Actor, AuditAction, AuditOutcome};
use daftar_domain::client::ClientId;
use daftar_domain::consent::ConsentId;
use daftar_store::audit_log::{AuditRemoval, REMOVAL_PASSED_OVER_MAX};
use daftar_store::record::audit::entry_as_stored;
use daftar_store::record::samples::audit_entries;
use daftar_store::suite::audit_entry;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

async fn opened() -> (Arc<Server>, String, PostgresStore) {
    let server = Server::shared();
    let url = server.create_database();
    let store = PostgresStore::open(options(&url)).await.unwrap();
    (server, url, store)
}

fn database_of(url: &str) -> &str {
    url.rsplit_once('/').unwrap().1
}

async fn count(store: &PostgresStore, statement: &str) -> i64 {
    store.database.query_opt(statement, &[]).await.unwrap().unwrap().get(0)
}

async fn all(store: &PostgresStore, query: AuditQuery) -> Vec<AuditEntry> {
    let bounds = AuditBounds { lines_max: usize::MAX, examined_max: usize::MAX };
    store.audit_page(query, AuditPosition::END, bounds).await.unwrap().entries
}

/// Any entry: texts of any characters, some of them far too long for an index, and instants of the whole calendar.
fn any_entry() -> impl Strategy<Value = AuditEntry> {
    let text = || prop_oneof![8 => any::<String>(), 2 => "[a-z\0\"\\\\{},]{0,12}", 1 => "[x\u{e9}]{900,1400}"];
    let target = || prop_oneof![text(), "(Individual|Group|individual|Thing)/[a-z:|/#0-9]{0,20}"];
    let actor = prop_oneof![
        "client-[0-9a-f]{8}".prop_map(|id| Actor::Client(ClientId::parse(&id).unwrap())),
        Just(Actor::Administrator),
        Just(Actor::System),
        Just(Actor::Unknown),
    ];
    let bounds = Timestamp::MIN.as_millisecond()..=Timestamp::MAX.as_millisecond();
    let at = prop_oneof![bounds, 1_700_000_000_000_i64..1_900_000_000_000];
    let at = at.prop_map(|at| Timestamp::from_millisecond(at).unwrap());
    let who = (at, actor, proptest::option::of(any::<IpAddr>()), text(), proptest::option::of(text()));
    let action = proptest::sample::select(AuditAction::ALL.to_vec());
    let outcome = proptest::sample::select(AuditOutcome::ALL.to_vec());
    let lists = (
        proptest::collection::vec(target(), 0..4),
        proptest::collection::vec(text(), 0..4),
        proptest::collection::vec(any::<[u8; 16]>().prop_map(ConsentId::from_bytes), 0..3),
    );
    let how = (action, outcome, proptest::option::of(any::<u16>()), proptest::option::of(text()), any::<u64>());
    let note = proptest::option::of(text());
    (who, lists, how, note).prop_map(|(who, (targets, fields, consents), how, note)| AuditEntry {
        at: who.0,
        actor: who.1,
        address: who.2,
        request_id: who.3,
        operation: who.4.map(Into::into),
        action: how.0,
        outcome: how.1,
        status: how.2,
        targets,
        fields: fields.into(),
        consents,
        reason: how.3,
        note,
        count: how.4,
    })
}

#[tokio::test]
async fn entries_are_read_back_exactly_and_found_by_what_they_name() {
    let (_server, _, store) = opened().await;
    let mut runner = TestRunner::deterministic();
    let strategy = any_entry();
    let any = (0..700).map(|_| strategy.new_tree(&mut runner).unwrap().current());
    let mut entries: Vec<AuditEntry> = audit_entries().into_iter().chain(any).map(entry_as_stored).collect();
    for some in entries.chunks(300) {
        store.append_audit(some.to_vec()).await.unwrap();
        store.audit(0).await.unwrap();
    }
    entries.reverse();
    let read = store.audit(usize::MAX).await.unwrap();
    assert_eq!(read.len(), entries.len());
    for (read, written) in read.iter().zip(&entries) {
        assert_eq!(read, written);
    }
    let mut queries = Vec::new();
    for entry in entries.iter().step_by(9) {
        let query = AuditQuery::default();
        queries.push(AuditQuery { request_id: Some(entry.request_id.clone()), ..query.clone() });
        queries.push(AuditQuery { actor: Some(entry.actor.clone()), outcome: Some(entry.outcome), ..query.clone() });
        queries.push(AuditQuery { actions: vec![entry.action], text: entry.reason.clone(), ..query.clone() });
        queries.push(AuditQuery { from: Some(entry.at), ..query.clone() });
        queries.push(AuditQuery { to: Some(entry.at), ..query.clone() });
        for target in &entry.targets {
            queries.push(AuditQuery { target: Some(target.clone()), ..query.clone() });
            queries.push(AuditQuery { target: Some(lookup_key(target).to_owned()), ..query.clone() });
        }
    }
    for query in queries {
        let expected: Vec<&AuditEntry> = entries.iter().filter(|entry| query.holds(entry)).collect();
        assert_eq!(all(&store, query.clone()).await.iter().collect::<Vec<_>>(), expected, "{query:?}");
    }
}

#[tokio::test]
async fn copied_entries_are_the_same_rows_as_inserted_ones() {
    let server = Server::shared();
    let mut runner = TestRunner::deterministic();
    let strategy = any_entry();
    let any = (0..300).map(|_| strategy.new_tree(&mut runner).unwrap().current());
    let entries: Vec<AuditEntry> = audit_entries().into_iter().chain(any).map(entry_as_stored).collect();
    let mut rows = Vec::new();
    for copied_rows_min in [1, usize::MAX] {
        let url = server.create_database();
        let bulk = BulkLimits { copied_rows_min, ..BulkLimits::default() };
        let store = PostgresStore::open(PostgresOptions { bulk, ..options(&url) }).await.unwrap();
        store.append_audit(entries.clone()).await.unwrap();
        store.audit(0).await.unwrap();
        rows.push(server.run_sql(database_of(&url), "SELECT audit FROM daftar.audit ORDER BY number"));
    }
    assert!(rows[0].lines().count() > entries.len() / 2, "{}", rows[0]);
    assert_eq!(rows[0], rows[1]);
}

#[tokio::test]
async fn a_period_is_found_between_many_earlier_and_later_entries() {
    let (_server, _, store) = opened().await;
    let first: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let at = |number: i32| first + SignedDuration::from_secs(30 * i64::from(number));
    let lines = (0..60_000).map(|number| AuditEntry { at: at(number), ..audit_entry(&number.to_string()) });
    let lines: Vec<_> = lines.collect();
    store.append_audit(lines).await.unwrap();
    let query = AuditQuery { from: Some(at(20_000)), to: Some(at(20_005)), ..AuditQuery::default() };
    let bounds = AuditBounds { lines_max: 9, examined_max: 50_000 };
    let page = store.audit_page(query, AuditPosition::END, bounds).await.unwrap();
    let found: Vec<_> = page.entries.iter().map(|entry| entry.request_id.as_str()).collect();
    assert_eq!(found, ["20004", "20003", "20002", "20001", "20000"]);
    assert_eq!(page.next, None, "the index has no more entries");
}

#[tokio::test]
async fn an_entry_written_between_the_statements_of_a_query_repeats_no_other() {
    let (server, url, store) = opened().await;
    let outcome = |number: u32| if number == 5 { AuditOutcome::Refused } else { AuditOutcome::Allowed };
    let lines = (1..=6).map(|number| AuditEntry { outcome: outcome(number), ..audit_entry(&number.to_string()) });
    store.append_audit(lines.chain([audit_entry("late")]).collect()).await.unwrap();
    store.audit(0).await.unwrap();
    // The first statement that would read the last entry does not find it.
    server.run_sql(
        database_of(&url),
        "CREATE SEQUENCE daftar.statements; ALTER TABLE daftar.audit RENAME TO audit_written; \
         CREATE VIEW daftar.audit AS SELECT * FROM daftar.audit_written \
         WHERE request_id <> 'late' OR (SELECT nextval('daftar.statements')) > 1",
    );
    let query = AuditQuery { outcome: Some(AuditOutcome::Allowed), ..AuditQuery::default() };
    let bounds = AuditBounds { lines_max: 8, examined_max: 4 };
    let (mut found, mut next) = (Vec::new(), Some(AuditPosition::END));
    while let Some(before) = next {
        let page = store.audit_page(query.clone(), before, bounds).await.unwrap();
        found.extend(page.entries.into_iter().map(|entry| entry.request_id));
        next = page.next;
    }
    assert_eq!(found, ["6", "4", "3", "2", "1"]);
    assert!(count(&store, "SELECT last_value FROM daftar.statements").await > 1, "the second statement found it");
}

#[tokio::test]
async fn partitions_of_three_months_are_created_once_by_servers_without_the_right_to_create_tables() {
    const PARTITIONS: &str = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'daftar.audit'::regclass";
    let (server, url, store) = opened().await;
    assert_eq!(count(&store, PARTITIONS).await, 4, "this month, two more and the default");
    let role = format!("runs_{}", database_of(&url));
    server.run_sql(
        database_of(&url),
        &format!(
            "DO $$ DECLARE name text; BEGIN FOR name IN SELECT relname FROM pg_class \
             WHERE relname ~ '^audit_[0-9]' AND relkind = 'r' LOOP \
             EXECUTE 'DROP TABLE daftar.' || name; END LOOP; END $$; \
             CREATE ROLE \"{role}\"; GRANT USAGE ON SCHEMA daftar TO \"{role}\"; \
             GRANT EXECUTE ON FUNCTION daftar.make_audit_months TO \"{role}\""
        ),
    );
    let call = format!("SET ROLE \"{role}\"; SELECT daftar.make_audit_months()");
    let calls = (0..6).map(|_| async {
        let link = store.database.link("another").await.unwrap();
        link.client.batch_execute(&call).await.unwrap();
    });
    daftar_store::suite::futures_join(calls).await;
    assert_eq!(count(&store, PARTITIONS).await, 4);
    let vacuumed = "SELECT count(*) FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid \
                    WHERE inhparent = 'daftar.audit'::regclass \
                    AND reloptions IS DISTINCT FROM '{autovacuum_vacuum_insert_threshold=-1}'";
    assert_eq!(count(&store, vacuumed).await, 0, "their pages stay in the order of time");
    let link = store.database.link("another").await.unwrap();
    let refused = link.client.batch_execute(&format!("SET ROLE \"{role}\"; CREATE TABLE daftar.other ()")).await;
    assert!(refused.is_err(), "it may create no table itself");
    let drop_month = format!("SET ROLE \"{role}\"; SELECT daftar.drop_audit_month('infinity')");
    assert!(link.client.batch_execute(&drop_month).await.is_err(), "no function is public");
    let row = store.database.query_opt("SELECT now()", &[]).await.unwrap().unwrap();
    let now = Timestamp::try_from(row.get::<_, std::time::SystemTime>(0)).unwrap();
    let now = AuditEntry { at: now, ..audit_entry("now") };
    let old = AuditEntry { at: "1999-12-31T23:59:59.999Z".parse().unwrap(), ..audit_entry("old") };
    store.append_audit(vec![now, old]).await.unwrap();
    store.audit(0).await.unwrap();
    assert_eq!(count(&store, "SELECT count(*) FROM daftar.audit_default").await, 1, "only that of a wrong clock");
    let made = "SELECT count(*) FROM (SELECT daftar.make_audit_month('1999-12-01') AS made) AS call WHERE made";
    assert_eq!(count(&store, made).await, 0, "a month of a wrong clock gets no partition");
}

/// An entry of each hour of some days of three months, of which the last contains the boundary.
async fn three_months(store: &PostgresStore) -> usize {
    for month in ["2026-01-01", "2026-02-01", "2026-03-01"] {
        let made = format!("SELECT count(daftar.make_audit_month('{month}'))");
        count(store, &made).await;
    }
    let lines: Vec<_> = ["2026-01-31T12:00:00Z", "2026-02-27T12:00:00Z", "2026-03-09T12:00:00Z"]
        .into_iter()
        .flat_map(|from| {
            let from: Timestamp = from.parse().unwrap();
            (0..48).map(move |hour| from + SignedDuration::from_hours(hour))
        })
        .collect();
    for at in &lines {
        store.append_audit(vec![AuditEntry { at: *at, ..audit_entry(&at.to_string()) }]).await.unwrap();
        store.audit(0).await.unwrap();
    }
    lines.len()
}

fn removal(before: Timestamp) -> AuditRemoval {
    let line = AuditEntry { at: "2026-03-20T00:00:00Z".parse().unwrap(), ..audit_entry("removal") };
    AuditRemoval { before, line, reported: None }
}

#[tokio::test]
async fn whole_months_are_dropped_and_the_edge_is_exact() {
    let (_server, url, store) = opened().await;
    store.attach_sink(Arc::new(daftar_store::suite::Listener::default())).unwrap();
    let total = three_months(&store).await;
    let before: Timestamp = "2026-03-10T06:00:00Z".parse().unwrap();
    // Another process reads the log for long: nothing is dropped, and no caller waits for it.
    let reader = store.database.link("reader").await.unwrap();
    let begun = "SET idle_in_transaction_session_timeout = 0; BEGIN; SELECT count(*) FROM daftar.audit";
    reader.client.batch_execute(begun).await.unwrap();
    let first = store.remove_audit(removal(before)).await.unwrap().unwrap();
    assert_eq!(first.lines, 48, "row by row");
    reader.client.batch_execute("COMMIT").await.unwrap();
    let other = PostgresStore::open(options(&url)).await.unwrap();
    let mut reported = first;
    while let Some(removed) =
        other.remove_audit(AuditRemoval { reported: Some(reported), ..removal(before) }).await.unwrap()
    {
        assert_eq!(removed.at, first.at, "one entry reports the whole removal");
        reported = removed;
    }
    let left = store.audit(usize::MAX).await.unwrap();
    let (report, left) = left.split_first().map(|(newest, rest)| (newest.clone(), rest)).unwrap();
    assert_eq!((report.request_id.as_str(), report.count), ("removal", reported.lines));
    assert!(left.iter().all(|entry| entry.at >= before));
    assert_eq!(left.len() as u64, total as u64 - reported.lines);
    // January was empty by then, February was not.
    let dropped = "SELECT count(*) FROM pg_class WHERE relname IN ('audit_2026_01', 'audit_2026_02') AND relkind = 'r'";
    assert_eq!(count(&store, dropped).await, 0);
    assert_eq!(
        count(&store, "SELECT count(*) FROM pg_class WHERE relname = 'audit_2026_03' AND relkind = 'r'").await,
        1
    );
}

#[tokio::test]
async fn a_month_behind_many_entries_of_a_wrong_clock_is_not_dropped() {
    let (server, url, store) = opened().await;
    count(&store, "SELECT count(daftar.make_audit_month('2026-01-01'))").await;
    let young = REMOVAL_PASSED_OVER_MAX + 1;
    server.run_sql(
        database_of(&url),
        &format!(
            "INSERT INTO daftar.audit (number, month, at, actor, request_id, action, outcome, count) \
             SELECT n * 256, '2027-01-01', '2027-01-01', 'system', 'young', 'read', 'allowed', 1 FROM generate_series(1, {young}) n; \
             INSERT INTO daftar.audit (number, month, at, actor, request_id, action, outcome, count) \
             VALUES (1000 * 256, '2026-01-01', '2026-01-02', 'system', 'old', 'read', 'allowed', 1)"
        ),
    );
    let before: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
    assert!(store.remove_audit(removal(before)).await.unwrap().is_none(), "as in the embedded store");
    server.run_sql(database_of(&url), "DELETE FROM daftar.audit WHERE number = 256");
    assert_eq!(store.remove_audit(removal(before)).await.unwrap().unwrap().lines, 1);
}

#[tokio::test]
async fn members_of_a_newer_program_stay_and_are_in_no_archive_of_this_one() {
    let (server, url, store) = opened().await;
    store.append_audit(vec![audit_entry("newer"), audit_entry("known")]).await.unwrap();
    store.audit(0).await.unwrap();
    let newer = "UPDATE daftar.audit SET details = '{\"purposes\": [\"care\"]}' WHERE request_id = 'newer'";
    server.run_sql(database_of(&url), newer);
    assert_eq!(store.audit(9).await.unwrap(), [audit_entry("known"), audit_entry("newer")]);
    let mut snapshot = store.snapshot().await.unwrap();
    let error = loop {
        match snapshot.next().await {
            Ok(entries) => assert!(!entries.is_empty(), "it was taken"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("use the newer daftar"), "{error}");
    assert_eq!(count(&store, "SELECT count(*) FROM daftar.audit WHERE details ? 'purposes'").await, 1);
}
