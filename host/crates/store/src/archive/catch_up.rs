//! What one store holds of another one from which it was filled, and what is brought into it.

use std::collections::BTreeMap;

use crate::StoreError;
use crate::audit_log::REMOVAL_PASSED_OVER_MAX;
use crate::change_log::RegisterId;
use daftar_domain::change::Sequence;

use super::{Kept, Refill};

/// How many of the oldest values of the audit log are told of whatever else was written. A removal takes old values and passes over
/// [`REMOVAL_PASSED_OVER_MAX`] at most, one more being the line that tells of it: of those behind so many that are there none is gone.
pub const OLDEST_AUDIT: usize = REMOVAL_PASSED_OVER_MAX + 1;

/// The most records that are told of as written since: their names take some hundred megabytes.
pub const WRITTEN_SINCE_MAX: usize = 2_000_000;

/// What is told where more were written.
pub fn too_many_written() -> StoreError {
    StoreError::LimitReached(
        "more records were written since than can be caught up: fill an empty database from a new backup, and catch up soon after it",
    )
}

/// What a store holds of the one that it was filled from: everything up to these numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Whose.
    pub register: RegisterId,
    /// The last write.
    pub sequence: Sequence,
    /// How many parts the table of codes has.
    pub code_table_parts: u64,
    /// The last value of the audit log.
    pub audit: u64,
    /// The value of the audit log that tells of the last removal: it is written again with each step of that.
    pub removal: Option<u64>,
}

/// Where a store stands, and what it holds at the ends of what another one holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// The register's own id.
    pub register: RegisterId,
    /// The last write.
    pub sequence: Sequence,
    /// How many parts the table of codes has.
    pub code_table_parts: u64,
    /// The last value of the audit log.
    pub audit: u64,
    /// The digest of what is stored of the write that is the other one's last.
    pub change: Option<[u8; 32]>,
    /// The digest of the value of the audit log that is the other one's last; nothing where it was removed.
    pub audit_value: Option<[u8; 32]>,
}

/// What was brought.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Brought {
    /// How many things of each kind are new or changed.
    pub written: BTreeMap<Kept, u64>,
    /// How many things of each kind were taken out.
    pub taken_out: BTreeMap<Kept, u64>,
}

impl Brought {
    /// Whether there was nothing to bring.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.taken_out.is_empty()
    }
}

/// A store that was filled before, and is to be brought up to the one that it was filled from. No client writes to it until that is over.
pub struct CatchUp {
    /// What it holds.
    pub held: Held,
    /// What it has there at its own ends.
    pub ends: Ends,
    /// Writes the changes made since.
    pub refill: Box<dyn Refill>,
}
