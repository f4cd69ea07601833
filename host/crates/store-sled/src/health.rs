//! The health of the store.
//!
//! **Invariant:** the first failure of the disk or the database is final: it is logged once, and every later write
//! fails with it until the folder is opened again. The state after a failure is unknown, and further writes could
//! depend on it.

use std::sync::{Arc, OnceLock};

use daftar_store::StoreError;

/// The first failure, if there was one.
#[derive(Debug, Default)]
pub(super) struct Health {
    failure: OnceLock<String>,
}

impl Health {
    /// Returns an error if there was a failure.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.failure.get() {
            None => Ok(()),
            Some(failure) => Err(failed(failure)),
        }
    }

    /// Records a failure, and returns the error for the caller.
    pub(super) fn fail(&self, doing: &'static str, error: &dyn std::fmt::Display) -> StoreError {
        let message = format!("{doing}: {error}");
        if self.failure.set(message.clone()).is_ok() {
            tracing::error!(
                error = %message,
                "the store failed and accepts no more writes; check the disk, then restart the server"
            );
        }
        failed(&message)
    }
}

/// Records a panic of a thread as a failure of the store, so that no caller continues to hand it work.
pub(super) struct PanicGuard {
    health: Arc<Health>,
    message: &'static str,
}

impl PanicGuard {
    pub(super) fn new(health: &Arc<Health>, message: &'static str) -> Self {
        Self { health: Arc::clone(health), message }
    }
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.health.fail("writing", &self.message);
        }
    }
}

fn failed(message: &str) -> StoreError {
    StoreError::Failed(message.to_owned().into())
}
