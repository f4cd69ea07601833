//! The suite of the shared state of processes, in a database.

use std::sync::Arc;

use daftar_test_postgres::Server;

use super::PostgresShared;
use crate::{PostgresOptions, PostgresStore};
use daftar_store::suite::sharing::{Process, sharing};

async fn process(url: &str) -> Process {
    let store = Arc::new(PostgresStore::open(PostgresOptions::new(url.to_owned().into())).await.unwrap());
    Process { shared: Arc::new(PostgresShared::of(store.clone())), store }
}

/// With the server, which runs until the last reference is dropped.
async fn two() -> (Process, Process, Arc<Server>) {
    let server = Server::shared();
    let url = server.create_database();
    (process(&url).await, process(&url).await, server)
}

sharing!(two);
