//! Tests of the store on a PostgreSQL server of their own.

mod audit;
mod bulk;
mod catching_up;
mod crossing;
mod damaged;
mod documented;
mod left;
mod locked;
mod newer;
mod opening;
mod outages;
mod proxy;
mod reporting;
mod reporting_upkeep;
mod roles;
mod stored;
mod tables;
mod taken_over;
mod together;
mod unanswered;

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, mpsc};

use jiff::Timestamp;

use daftar_test_postgres::{Roles, Server};

use super::*;
use daftar_domain::audit::AuditEntry;
use daftar_domain::audit::query::{AuditBounds, AuditPosition, AuditQuery};
use daftar_domain::change::ChangedRecord;
use daftar_domain::client::{Client, ClientId};
use daftar_domain::code::{CodeNumber, CodeUri, Namespace};
use daftar_domain::deployment::Setting;
use daftar_domain::idempotency::IdempotencyKey;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_store::Store;
use daftar_store::archive::{Archive, Refill};
use daftar_store::suite::{Backend, every_behaviour};
use daftar_store::testing::AuditReads;

/// A database of its own on the server that the tests share, prepared by the role that owns its tables and opened by
/// the role of servers, so that every behaviour is tested with no more rights than that.
pub(super) struct Shared {
    url: String,
    store: Option<PostgresStore>,
    _server: Arc<Server>,
}

/// Few connections, and batches of so few rows that tests use both paths; the limits of the program are in [`bulk`].
pub(super) fn options(url: &str) -> PostgresOptions {
    let bulk = BulkLimits { copied_rows_min: 4, flush_bytes: 4 * 1024 };
    PostgresOptions { connections_max: 4, bulk, ..PostgresOptions::new(url.to_owned().into()) }
}

/// As [`options`], for writes that wait for a lock until the test releases it, on a slow machine too.
fn waits_for_locks(url: &str) -> PostgresOptions {
    let limit = Duration::from_secs(60);
    PostgresOptions { lock_timeout: limit, write_wait: limit, statement_timeout: limit * 2, ..options(url) }
}

/// Locks the row that orders writes until the transaction ends. The server does not end an idle one.
const LOCK_ROW: &str = "SET idle_in_transaction_session_timeout = 0; BEGIN; SELECT FROM daftar.last FOR UPDATE";

/// Waits for a future outside async code: on a runtime that outlives every test, as tasks started there continue.
fn waited<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    static RUNTIME: LazyLock<tokio::runtime::Runtime> =
        LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());
    let (done, is_done) = mpsc::channel();
    RUNTIME.spawn(async move { done.send(future.await) });
    is_done.recv().unwrap()
}

#[async_trait::async_trait]
impl Backend for Shared {
    fn fresh() -> Self {
        let server = Server::shared();
        let Roles { owner, server: url, .. } = server.create_roles();
        let _prepared = waited(PostgresStore::prepare(options(&owner))).unwrap();
        let store = waited(PostgresStore::open(options(&url))).unwrap();
        Self { url, store: Some(store), _server: server }
    }

    fn store(&self) -> &dyn Store {
        self.store.as_ref().unwrap()
    }

    fn whole(&self) -> &dyn Archive {
        self.store.as_ref().unwrap()
    }

    fn refill() -> (Box<dyn Refill>, Box<dyn FnOnce() -> Self>) {
        let server = Server::shared();
        let Roles { owner, server: url, .. } = server.create_roles();
        let filling = waited(PostgresRefill::open(options(&owner))).unwrap();
        let finish = move || {
            let store = waited(PostgresStore::open(options(&url))).unwrap();
            Self { url, store: Some(store), _server: server }
        };
        (Box::new(filling), Box::new(finish))
    }

    async fn reopen(&mut self) {
        if let Some(store) = self.store.take() {
            store.close().await;
        }
        self.store = Some(PostgresStore::open(options(&self.url)).await.unwrap());
    }

    fn remembers_what_was_touched() -> bool {
        true
    }
}

mod behaviour {
    use super::*;

    every_behaviour!(Shared);
}
