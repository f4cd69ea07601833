//! What processes of one register share beside its records: whose turn it is to change plugins and settings, installed plugins,
//! counts of calls, the mark of their keys.
//!
//! **Invariant:** everything here is decided by the store in one step: two processes that ask at the same time get answers as if one
//! had asked after the other.

pub mod limits;
pub mod plugins;

use jiff::Timestamp;

use super::StoreError;
use super::generation::Feed;

pub use self::limits::{Lease, Leased, SharedLimits, Take, Taken, Windowed};
pub use self::plugins::{PLUGIN_LIST_BYTES_MAX, SharedPlugins, StoredList};

/// Held while plugins or settings are changed: by one process at a time, and until it is dropped.
pub trait Turn: Send + Sync {}

/// A store behind several processes.
#[async_trait::async_trait]
pub trait Shared: Feed + SharedLimits + SharedPlugins {
    /// Waits for the turn to change plugins and settings.
    ///
    /// # Errors
    /// When the store does not answer, or the turn does not come in the time that a request may take.
    async fn turn(&self) -> Result<Box<dyn Turn>, StoreError>;

    /// Keeps a value under a name unless one is kept under it already, durably; says what is kept.
    ///
    /// # Errors
    /// When the store fails.
    async fn keep_once(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError>;

    /// What time it is by the clock of what the processes share.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn time(&self) -> Result<Timestamp, StoreError>;
}
