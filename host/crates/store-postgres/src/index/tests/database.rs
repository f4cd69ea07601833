//! A database with the tables of the index.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use daftar_test_postgres::Server;
use secrecy::SecretString;

use super::super::{Apart, FEW_MAX, PostgresIndex, matching, write};
use crate::{PostgresOptions, database, open};
use daftar_domain::change::ChangedRecord;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::search::SubjectQuery;
use daftar_store::index::Sees;

const TABLES: &str = "daftar.search_individual, daftar.search_group, daftar.search_member, daftar.search_membership, \
                      daftar.search_consent, daftar.search_tally, daftar.record, daftar.earlier_version, daftar.identifier, \
                      daftar.open_membership";

/// Rows are written without records here, with random periods and ids.
const WITHOUT_CONSTRAINTS: &str = "\
ALTER TABLE daftar.search_member DROP CONSTRAINT search_member_period;
ALTER TABLE daftar.search_membership DROP CONSTRAINT search_membership_record;
ALTER TABLE daftar.search_consent DROP CONSTRAINT search_consent_record, DROP CONSTRAINT search_consent_period;
DROP INDEX daftar.search_consent_consent_id";

/// Number of new rows from which they are copied: so low that these tests do both.
const COPIED_MIN: usize = 4;

/// A database of the test's own.
pub(super) struct Database {
    pub(super) database: Arc<database::Database>,
    runtime: tokio::runtime::Runtime,
    /// Records written since it was empty.
    written: Mutex<BTreeSet<(RecordKind, RecordId)>>,
    _server: Arc<Server>,
}

impl Database {
    pub(super) fn new() -> Self {
        let server = Server::shared();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let options = PostgresOptions {
            connections_max: 1,
            ..PostgresOptions::new(SecretString::from(server.create_database()))
        };
        let database = runtime.block_on(async {
            let database = Arc::new(database::Database::new(&options).unwrap());
            open::open(&database, true).await.unwrap();
            database
        });
        let database = Self { database, runtime, written: Mutex::default(), _server: server };
        database.execute(WITHOUT_CONSTRAINTS);
        database
    }

    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(super) fn execute(&self, statements: &str) {
        self.wait(async {
            let connection = self.database.connection().await.unwrap();
            connection.object().unwrap().batch_execute(statements).await.unwrap();
        });
    }

    pub(super) fn empty(&self) {
        self.execute(&format!("TRUNCATE {TABLES}"));
        self.written.lock().unwrap().clear();
    }

    /// Writes records in one transaction.
    pub(super) fn write(&self, changed: &[ChangedRecord]) {
        let mut written = self.written.lock().unwrap();
        self.wait(async {
            let mut connection = self.database.connection().await.unwrap();
            let transaction = connection.object_mut().unwrap().transaction().await.unwrap();
            let known = written.clone();
            let rows = Apart::begin(changed.to_vec(), COPIED_MIN, move |kind, id| !known.contains(&(kind, id)));
            write(&transaction, rows).await.unwrap();
            transaction.commit().await.unwrap();
        });
        written.extend(changed.iter().map(|record| (record.place().0, record.place().1)));
    }

    /// Every key that a search finds.
    pub(super) fn matching(&self, query: &SubjectQuery, sees: Option<Sees<'_>>) -> Vec<RecordId> {
        self.wait(async {
            let connection = self.database.connection().await.unwrap();
            matching(connection.object().unwrap(), query, sees).await.unwrap()
        })
    }

    /// The index, with that limit of `few_max`.
    pub(super) fn index(&self, few_max: u32) -> PostgresIndex {
        PostgresIndex { database: Arc::clone(&self.database), few_max }
    }

    /// The index with its default limits.
    pub(super) fn usual(&self) -> PostgresIndex {
        self.index(FEW_MAX)
    }
}
