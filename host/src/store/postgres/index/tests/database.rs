//! A database with the tables of the index.

use std::sync::Arc;

use daftar_test_postgres::Server;
use deadpool_postgres::{Manager, Pool};
use tokio_postgres::NoTls;

use super::super::{FEW_MAX, PostgresIndex, SEARCH_OPTIONS, matching, write};
use crate::domain::change::ChangedRecord;
use crate::domain::record::RecordId;
use crate::domain::search::SubjectQuery;
use crate::store::index::Sees;

const MIGRATION: &str = include_str!("../../migrations/V2__index.sql");
/// What the records themselves stand in, as far as the index asks for it.
const RECORDS: &str = "
    CREATE SCHEMA IF NOT EXISTS daftar;
    CREATE TABLE daftar.last (sequence bigint NOT NULL);
    INSERT INTO daftar.last VALUES (0);
    CREATE TABLE daftar.record (kind smallint, id bigint, value bytea);";
const TABLES: &str = "daftar.search_individual, daftar.search_group, daftar.search_member, daftar.search_membership, \
                      daftar.search_consent, daftar.search_tally, daftar.record";

/// A database of the test's own.
pub(super) struct Database {
    pub(super) pool: Pool,
    runtime: tokio::runtime::Runtime,
    _server: Arc<Server>,
}

impl Database {
    pub(super) fn new() -> Self {
        let server = Server::shared();
        let mut config: tokio_postgres::Config = server.create_database().parse().unwrap();
        config.options(SEARCH_OPTIONS);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let pool = Pool::builder(Manager::new(config, NoTls)).max_size(1).build().unwrap();
        let database = Self { pool, runtime, _server: server };
        database.execute(RECORDS);
        database.execute(MIGRATION);
        database
    }

    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(super) fn execute(&self, statements: &str) {
        self.wait(async { self.pool.get().await.unwrap().batch_execute(statements).await.unwrap() });
    }

    pub(super) fn empty(&self) {
        self.execute(&format!("TRUNCATE {TABLES}"));
    }

    /// Writes records in one transaction.
    pub(super) fn write(&self, changed: &[ChangedRecord]) {
        self.wait(async {
            let mut client = self.pool.get().await.unwrap();
            let transaction = client.transaction().await.unwrap();
            write(&transaction, changed).await.unwrap();
            transaction.commit().await.unwrap();
        });
    }

    /// Every key that a search finds.
    pub(super) fn matching(&self, query: &SubjectQuery, sees: Option<Sees<'_>>) -> Vec<RecordId> {
        self.wait(async {
            let client = self.pool.get().await.unwrap();
            matching(&client, query, sees).await.unwrap()
        })
    }

    /// The index, with that bound on what is few.
    pub(super) fn index(&self, few_max: u32) -> PostgresIndex {
        PostgresIndex { pool: self.pool.clone(), few_max }
    }

    /// The index as it is used.
    pub(super) fn usual(&self) -> PostgresIndex {
        self.index(FEW_MAX)
    }
}
