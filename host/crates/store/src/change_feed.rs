//! What is written to a register that several processes share, for a process that keeps a copy of it in memory.

use std::sync::Arc;
use std::time::Duration;

use daftar_domain::change::Sequence;

use super::StoreError;
use super::partition::ReadSnapshot;
use super::shared::History;

/// What is written to a register, by whichever process. A backend whose register several processes share implements it; the store of one
/// process tells its [`super::ChangeSink`] of everything.
///
/// - Atomicity: a snapshot shows each write whole or not at all.
/// - Order: sequences count up within one [`History`]. A snapshot shows every write that was acknowledged before it was asked for.
/// - Durability: nothing is changed.
/// - A crash of the process leaves nothing behind.
#[async_trait::async_trait]
pub trait ChangeFeed: Send + Sync + 'static {
    /// The last write now, and the history that it belongs to. Asks the store: one small question that waits for no lock.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn last(&self) -> Result<(History, Sequence), StoreError>;

    /// The register as it stands now. There is one such snapshot of a process at a time: a second call waits until the first one is dropped.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn snapshot(&self) -> Result<Arc<dyn ReadSnapshot>, StoreError>;

    /// Waits until a write of any process is heard of, or may have been missed; at most so long.
    async fn heard(&self, at_most: Duration);
}
