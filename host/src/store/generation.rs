//! How a process hears that another one changed what both keep in memory: clients, and what the deployment decided.
//!
//! **Invariant:** the generation is raised in the very write that makes the change: whoever reads a generation and then the clients or
//! settings has read all that belongs to it.

use super::StoreError;

/// How often what processes keep in memory was changed, by any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Generation {
    /// Of clients.
    pub clients: u64,
    /// Of settings, installed plugins and numbers of codes.
    pub deployment: u64,
}

impl Generation {
    /// How often anything was changed: what is told of to those who listen.
    #[must_use]
    pub fn changes(self) -> u64 {
        self.clients.saturating_add(self.deployment)
    }
}

/// Tells of changes by other processes.
#[async_trait::async_trait]
pub trait Feed: Send + Sync + 'static {
    /// The generation now. Asks the store: one small question.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn generation(&self) -> Result<Generation, StoreError>;

    /// Waits until a change is heard of, or until changes are heard of again or no longer. One that came while nobody waited ends
    /// the next wait at once. May return without a reason.
    async fn heard(&self);

    /// Whether changes are heard of as they are made. Whoever needs the newest compares the generation while this is not so.
    fn is_listening(&self) -> bool;

    /// How often anything was changed, as far as that was heard of: see [`Generation::changes`].
    fn heard_of(&self) -> u64;
}
