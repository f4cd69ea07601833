//! What is said of a database that did not answer.
//!
//! **Invariant:** no value of a query or of a row: what PostgreSQL says of an error may repeat them.

use std::fmt;

use deadpool_postgres::PoolError;
use tokio_postgres::Error;

use crate::store::StoreError;

/// Why PostgreSQL did not do what it was asked.
#[derive(Debug)]
struct Failure {
    doing: &'static str,
    reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.doing, self.reason)
    }
}

impl std::error::Error for Failure {}

/// What a caller is told of an error of PostgreSQL or of the way to it.
pub(super) fn failed(doing: &'static str, error: &Error) -> StoreError {
    let reason = match error.as_db_error() {
        Some(refused) => format!("PostgreSQL answered with error {}", refused.code().code()),
        None => error.to_string(),
    };
    StoreError::Failed(Box::new(Failure { doing, reason }))
}

/// What a caller is told where there is no connection.
pub(super) fn unconnected(error: &PoolError) -> StoreError {
    let doing = "connecting to PostgreSQL";
    match error {
        PoolError::Backend(error) => failed(doing, error),
        PoolError::Timeout(_) => {
            StoreError::Failed(Box::new(Failure { doing, reason: "no connection became free in time".to_owned() }))
        }
        other => StoreError::Failed(Box::new(Failure { doing, reason: other.to_string() })),
    }
}

/// What a caller is told of a row that is not as it was written.
pub(super) fn unreadable(what: &'static str, error: &Error) -> StoreError {
    StoreError::Corrupt { what, reason: error.to_string() }
}
