//! Damaged rows: each is reported by itself, and every row after it is read.

use super::*;
use crate::rows::column;
use daftar_domain::extension::{Extension, ExtensionContent, ExtensionValue};
use daftar_domain::manifest::ExtensionPath;
use daftar_domain::record::RecordId;
use daftar_domain::verification::VerificationEvent;
use daftar_store::suite::{Listener, commit, person};
use daftar_store::verify::{Pace, RawValue, Table, verify};
use daftar_store::{Operation, StoreError};

struct Damaged {
    store: PostgresStore,
    server: Arc<Server>,
    url: String,
}

impl Damaged {
    /// A register of four individuals, one of whom was written twice.
    async fn new() -> Self {
        let server = Server::shared();
        let url = server.create_database();
        let store = PostgresStore::open(options(&url)).await.unwrap();
        store.attach_sink(Arc::new(Listener::default())).unwrap();
        for number in 1..=4 {
            commit(&store, vec![Operation::create(person(&[&format!("urn:x:a|{number}")]))]).await.unwrap();
        }
        let again = Operation::update(RecordId(1), VersionId(1), person(&["urn:x:a|1"]));
        commit(&store, vec![again]).await.unwrap();
        Self { store, server, url }
    }

    fn sql(&self, statements: &str) {
        self.server.run_sql(self.url.rsplit_once('/').unwrap().1, statements);
    }

    async fn findings(&self) -> Vec<String> {
        let (events, mut reported) = tokio::sync::mpsc::channel(4);
        let listen = async {
            let mut findings = Vec::new();
            while let Some(event) = reported.recv().await {
                if let VerificationEvent::Finding(finding) = event {
                    findings.push(finding.to_string());
                }
            }
            findings
        };
        let (ended, findings) =
            tokio::join!(verify(self.store.raw_values().await.unwrap(), Pace::Fast, events), listen);
        ended.unwrap();
        findings
    }
}

/// The connection of the first verification is closed by another thread, while this one waits for its locks.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_the_database_rejects_is_reported_and_later_ones_are_read() {
    let damaged = Damaged::new().await;
    assert_eq!(damaged.findings().await, Vec::<String>::new());
    // Like a value whose pages are damaged: only reading it fails.
    damaged.sql(
        "ALTER TABLE daftar.record RENAME TO record_before; \
         CREATE VIEW daftar.record AS SELECT kind, id, version, \
         CASE WHEN id = 2 THEN ('z' || id)::jsonb ELSE value END AS value FROM daftar.record_before; \
         ALTER TABLE daftar.change RENAME TO change_before; \
         CREATE VIEW daftar.change AS SELECT sequence, touched, \
         CASE WHEN sequence = 3 THEN decode('z' || sequence, 'hex') ELSE value END AS value FROM daftar.change_before",
    );
    let found = damaged.findings().await;
    assert!(
        found.iter().any(|line| line.starts_with("changes: the row with the number 3: a value cannot be read")),
        "{found:#?}"
    );
    assert!(
        found.iter().any(|line| line.starts_with("records: Individual number 2: a value cannot be read")),
        "{found:#?}"
    );
    assert!(!found.iter().any(|line| line.contains("were not checked")), "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_last_write_or_record_is_not_reported_as_missing() {
    for (table, key, number) in [("change", "sequence", 5), ("record", "id", 4)] {
        let damaged = Damaged::new().await;
        let (columns, value) = if table == "change" {
            ("sequence, touched", "decode('z' || sequence, 'hex')")
        } else {
            ("kind, id, version", "('z' || id)::jsonb")
        };
        damaged.sql(&format!(
            "ALTER TABLE daftar.{table} RENAME TO {table}_before; \
             CREATE VIEW daftar.{table} AS SELECT {columns}, \
             CASE WHEN {key} = {number} THEN {value} ELSE value END AS value FROM daftar.{table}_before"
        ));
        let found = damaged.findings().await;
        let of_values = found.iter().filter(|line| line.starts_with("changes: ") || line.starts_with("records: "));
        let of_values: Vec<_> = of_values.collect();
        assert!(matches!(of_values.as_slice(), [one] if one.contains("a value cannot be read")), "{found:#?}");
    }
}

#[tokio::test]
async fn a_record_of_another_version_than_its_row_is_in_no_backup() {
    let damaged = Damaged::new().await;
    damaged.sql("UPDATE daftar.record SET version = 7 WHERE id = 3");
    let mut snapshot = damaged.store.snapshot().await.unwrap();
    let error = loop {
        match snapshot.next().await {
            Ok(entries) => assert!(!entries.is_empty(), "it was taken"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("the value stored as version 7 is that of version 1"), "{error}");
}

#[tokio::test]
async fn a_row_of_another_type_is_damage_and_no_failure_of_the_database() {
    let damaged = Damaged::new().await;
    let rows = damaged.store.database.query("SELECT NULL::bigint", &[]).await.unwrap();
    let read: Result<i64, StoreError> = column(&rows[0], 0);
    assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
}

#[tokio::test]
async fn a_page_ends_after_about_a_mebibyte() {
    let damaged = Damaged::new().await;
    damaged.sql(
        "INSERT INTO daftar.audit (number, month, at, actor, request_id, action, outcome, count, note) \
         SELECT (1000 + n) * 256, date_trunc('month', now()), now(), 'system', 'r', 'read', 'allowed', 1, repeat('n', 400000) \
         FROM generate_series(1, 5) n",
    );
    let values = damaged.store.raw_values().await.unwrap();
    let sizes = tokio::task::spawn_blocking(move || {
        let (mut after, mut sizes) = (Some(1000_u64.to_be_bytes().to_vec()), Vec::new());
        while after.is_some() {
            let page = values.page(Table::Audit, after.as_deref(), 512);
            assert!(page.values.iter().all(|value| matches!(value, RawValue::Numbered(..))));
            sizes.push(page.values.len());
            after = page.next;
        }
        sizes
    });
    assert_eq!(sizes.await.unwrap(), [3, 2, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_audit_entry_is_reported_and_the_others_are_read() {
    let damaged = Damaged::new().await;
    damaged.sql(
        "INSERT INTO daftar.audit (number, month, at, actor, request_id, action, outcome, count) \
         SELECT n * 256, '2026-03-01', '2026-03-04', CASE n WHEN 72 THEN 'ghost' ELSE 'system' END, 'r', 'read', 'allowed', 1 \
         FROM generate_series(71, 73) n; \
         UPDATE daftar.audit SET details = '{\"packed\": \"zz\"}' WHERE number = 73 * 256",
    );
    let found = damaged.findings().await;
    let found: Vec<_> = found.iter().filter(|line| line.starts_with("audit: ")).collect();
    let is_reported = |start: &str| found.iter().any(|line| line.starts_with(start));
    assert!(
        is_reported("audit: value 72 of the audit log: ") && is_reported("audit: the row with the number 73: "),
        "{found:#?}"
    );
    assert_eq!(found.len(), 2, "{found:#?}");
}

/// Stored JSON has a text with U+0000 in two digits for each byte: half a page of binary values is more than a page of
/// rows, which ends between two versions of a record.
#[tokio::test]
async fn a_page_that_ends_within_the_history_of_a_record_is_no_damage() {
    let register = Damaged::new().await;
    let text = ExtensionValue::Text("\0".repeat(20_000));
    let path = ExtensionPath::parse("farmer.values").unwrap();
    for (id, first) in [(1, 2), (2, 1)] {
        let mut details = person(&[&format!("urn:x:a|{id}")]);
        details.extension = Extension::new(vec![(path.clone(), ExtensionContent::Many(vec![text.clone()]))]);
        let updates = (first..first + 40).map(|version| (VersionId(version), details.clone()));
        for (version, details) in updates {
            commit(&register.store, vec![Operation::update(RecordId(id), version, details)]).await.unwrap();
        }
    }
    assert_eq!(register.findings().await, Vec::<String>::new());
}
