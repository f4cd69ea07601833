//! How a process hears that another one changed what both keep in memory: clients, and what the deployment decided.
//!
//! **Invariant:** the generation is raised in the very write that makes the change: whoever reads a generation and then the clients or
//! settings has read all that belongs to it.
//!
//! **Invariant:** numbers are compared with numbers of the same history only: another one may have given them for something else.

use jiff::Timestamp;

use super::StoreError;

/// What tells the database that answers from every other that may answer in its place and may stand at an earlier state: a copy that took
/// over, one that was put back, or the same one started again. Two answers of one history never go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct History(pub [u64; 2]);

/// How often what processes keep in memory was changed, by any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Generation {
    /// Of clients.
    pub clients: u64,
    /// Of settings, installed plugins and numbers of codes.
    pub deployment: u64,
    /// In which history that was counted.
    pub history: History,
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

    /// Says that what this process keeps in memory of codes is of that history: records are written in it only, and only what began after
    /// `since`. Whatever began before may hold numbers that another history gave. Until it is said for the first time everything is written.
    fn rest_on(&self, history: History, since: Option<Timestamp>);

    /// How often anything was changed, as far as that was heard of: see [`Generation::changes`].
    fn heard_of(&self) -> u64;
}
