//! Looking through everything that a store keeps, and saying what is wrong.
//!
//! **Invariant:** nothing is changed. What is written meanwhile is never told as damage: what looks wrong while others write is
//! looked at once more while nobody does.

use tokio::sync::mpsc::Sender;

use daftar_domain::change::ChangedRecord;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::verification::VerificationEvent;

use super::StoreError;

/// How much of the machine a look through the register may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// All that it can.
    Fast,
    /// Half of one processor: a server runs on the same folder.
    Yielding,
}

/// Looks at records while nothing is written. Must not write, wait or take long.
pub type LookAtRest = Box<dyn FnOnce(&[ChangedRecord]) + Send>;

/// Verifies a store. A backend implements it whose files no database checks.
///
/// - Atomicity: what seems invalid while others write is checked again while no write is made, and reported only if it is invalid then.
/// - Order: events come as the store is read, findings in no particular order.
/// - Durability: nothing is changed, on disk or in memory.
/// - A crash ends it, and leaves nothing behind.
#[async_trait::async_trait]
pub trait Verification: Send + Sync + 'static {
    /// Looks through everything and tells what it finds. Takes bounded memory: four bytes a record, and what a few hundred
    /// values take. Ends early where nobody listens any more.
    ///
    /// # Errors
    /// When the store cannot be looked through at all. What cannot be read in it is a finding.
    async fn verify(&self, pace: Pace, events: Sender<VerificationEvent>) -> Result<(), StoreError>;

    /// Up to `limit` records of a kind with keys after `after`, by key; those that cannot be read are left out, as
    /// [`Verification::verify`] names them. Says the key of the last one that was passed; none where there is none after.
    ///
    /// # Errors
    /// When the database fails.
    async fn readable_records(
        &self,
        kind: RecordKind,
        after: RecordId,
        limit: usize,
    ) -> Result<(Vec<ChangedRecord>, Option<RecordId>), StoreError>;

    /// Hands over the records of those keys, as far as they can be read, while nothing is written.
    ///
    /// # Errors
    /// When the database fails.
    async fn look_at_rest(&self, kind: RecordKind, ids: Vec<RecordId>, look: LookAtRest) -> Result<(), StoreError>;
}
