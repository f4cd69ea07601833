//! Change feed of a register shared by several processes, for a process that caches the register in memory.

use std::sync::Arc;
use std::time::Duration;

use daftar_domain::change::Sequence;

use super::StoreError;
use super::partition::ReadSnapshot;
use super::shared::History;

/// Changes of a register by any process. A backend with a shared register implements it; the store of a single process
/// passes all changes to its [`super::ChangeSink`].
///
/// - Atomicity: a snapshot contains each write completely or not at all.
/// - Order: sequence numbers increase within one [`History`]. A snapshot contains every write that was acknowledged
///   before it was requested.
/// - Durability: read-only.
/// - A crash of the process leaves no trace.
#[async_trait::async_trait]
pub trait ChangeFeed: Send + Sync + 'static {
    /// Returns the last write and its timeline. Costs one small query without locks.
    ///
    /// # Errors
    /// If the store does not respond.
    async fn last(&self) -> Result<(History, Sequence), StoreError>;

    /// Returns a snapshot of the current register. A process has one at a time: a second call waits until the first one
    /// is dropped.
    ///
    /// # Errors
    /// If the store does not respond.
    async fn snapshot(&self) -> Result<Arc<dyn ReadSnapshot>, StoreError>;

    /// Waits at most that long until a write of any process is notified, or a notification may have been missed.
    async fn heard(&self, at_most: Duration);
}
