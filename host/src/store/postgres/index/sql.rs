//! Statements put together from parts.
//!
//! **Invariant:** no text of a caller stands in a statement: every value is a parameter, so there are few statements and each is
//! prepared once.

use deadpool_postgres::{Client, Pool};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use super::failure::{failed, unconnected};
use crate::store::StoreError;

/// The most prepared statements of one connection: there are more orders than anybody asks for.
const STATEMENTS_MAX: usize = 200;

/// Values of a statement.
#[derive(Default)]
pub(super) struct Parameters(Vec<Box<dyn ToSql + Sync + Send>>);

impl Parameters {
    /// Takes a value of a type, and says how the statement names it.
    pub(super) fn bind(&mut self, value: impl ToSql + Sync + Send + 'static, of_type: &str) -> String {
        self.0.push(Box::new(value));
        format!("${}::{of_type}", self.0.len())
    }

    /// The values, in the order of their names.
    pub(super) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.0.iter().map(|value| value.as_ref() as _).collect()
    }
}

/// Runs a reading statement. A connection that was lost while nobody used it is tried again with another one.
pub(super) async fn query(pool: &Pool, statement: &str, parameters: &Parameters) -> Result<Vec<Row>, StoreError> {
    let mut is_second = false;
    loop {
        let client = pool.get().await.map_err(|error| unconnected(&error))?;
        match run(&client, statement, parameters).await {
            Ok(rows) => return Ok(rows),
            Err(error) if is_lost(&error) && !is_second => {
                // It does not go back among the others.
                drop(deadpool_postgres::Object::take(client));
                is_second = true;
            }
            Err(error) => return Err(failed("searching", &error)),
        }
    }
}

async fn run(client: &Client, statement: &str, parameters: &Parameters) -> Result<Vec<Row>, tokio_postgres::Error> {
    if client.statement_cache.size() >= STATEMENTS_MAX {
        client.statement_cache.clear();
    }
    let prepared = client.prepare_cached(statement).await?;
    client.query(&prepared, &parameters.values()).await
}

/// Whether the connection went, not the statement.
fn is_lost(error: &tokio_postgres::Error) -> bool {
    let ended = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
    error.is_closed() || error.code().is_some_and(|code| ended.contains(code))
}
