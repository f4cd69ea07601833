//! True if the store still works.
//!
//! **Invariant:** the first failure of the disk or the database is the last word: it is logged once and every later write
//! gets it as its answer, until the folder is opened again. What was written around a failure is not known, and continuing
//! could build on it.

use std::sync::OnceLock;

use daftar_store::StoreError;

/// The first failure, if there was one.
#[derive(Debug, Default)]
pub(super) struct Health {
    failure: OnceLock<String>,
}

impl Health {
    /// Refuses when something has failed.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.failure.get() {
            None => Ok(()),
            Some(failure) => Err(failed(failure)),
        }
    }

    /// Notes a failure, and gives the error to answer with.
    pub(super) fn fail(&self, doing: &'static str, error: &dyn std::fmt::Display) -> StoreError {
        let message = format!("{doing}: {error}");
        if self.failure.set(message.clone()).is_ok() {
            tracing::error!(
                error = %message,
                "the store failed and takes no more writes; check the disk, then restart the server"
            );
        }
        failed(&message)
    }
}

fn failed(message: &str) -> StoreError {
    StoreError::Failed(message.to_owned().into())
}
