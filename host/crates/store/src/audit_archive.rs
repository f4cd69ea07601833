//! What is done with the audit log besides adding to it: looking things up, and removing what is old enough.

use jiff::Timestamp;

use daftar_domain::audit::AuditEntry;
use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery};

use super::StoreError;

/// The most stored values that one step of a removal takes out: few enough for one batch, with the line that tells of it.
pub const REMOVAL_VALUES_MAX: usize = 48;

/// How many values that are young enough to stay one step passes over: lines written while the clock was wrong keep nothing that
/// was written after them.
pub const REMOVAL_PASSED_OVER_MAX: usize = 256;

/// One step of a removal.
#[derive(Debug, Clone)]
pub struct AuditRemoval {
    /// Only what is older.
    pub before: Timestamp,
    /// The line that tells of it; its count is set to how many lines have been removed.
    pub line: AuditEntry,
    /// What the steps before this one of the same removal did.
    pub told: Option<AuditRemoved>,
}

/// What the steps of a removal did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditRemoved {
    /// Where the line is that tells of it.
    pub at: u64,
    /// How many lines were removed.
    pub lines: u64,
}

/// The audit log as its keeper sees it.
#[async_trait::async_trait]
pub trait AuditArchive: Send + Sync + 'static {
    /// Looks through the lines before a place, newest first.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn audit_page(
        &self,
        query: AuditQuery,
        before: AuditPosition,
        bounds: AuditBounds,
    ) -> Result<AuditPage, StoreError>;

    /// Removes some of the oldest stored values, none of whose lines is young enough to stay, and tells of it, in one write.
    /// Nothing when there is nothing more to remove. What one value holds is removed together, once all of it is old enough.
    /// What stays is passed over, up to [`REMOVAL_PASSED_OVER_MAX`] values.
    ///
    /// # Errors
    /// When the store fails or a value cannot be read.
    async fn remove_audit(&self, removal: AuditRemoval) -> Result<Option<AuditRemoved>, StoreError>;
}
