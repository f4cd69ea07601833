//! What the store tells the indexes, in the order in which it happened.

use std::sync::Arc;

use super::group::Group;
use super::individual::Individual;

/// The place of a write in the order of all writes, counted up from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The place after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A record as it stands after a write.
#[derive(Debug, Clone)]
pub enum ChangedRecord {
    /// A person.
    Individual(Arc<Individual>),
    /// A group.
    Group(Arc<Group>),
}

/// One record written.
#[derive(Debug, Clone)]
pub struct Change {
    /// When in the order of writes.
    pub sequence: Sequence,
    /// What it is now.
    pub record: ChangedRecord,
}
