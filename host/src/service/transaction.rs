//! Several use cases as one: each sees what those before it did, and all of them are written together or none is.
//!
//! **Invariant:** the use cases are the ones of single calls; all that differs is the store that they are given.

use std::sync::Arc;

use super::records;
use super::registry::Registry;
use crate::context::OpContext;
use crate::domain::audit::{AuditEntry, AuditOutcome};
use crate::domain::change::ChangedRecord;
use crate::domain::idempotency::RememberedRequest;
use crate::error::AppError;
use crate::store::staged::Staged;
use crate::store::{Committed, Store, StoreError};

/// What is said of the line of the audit log of a use case that came to nothing because another one did.
const UNDONE: &str = "nothing was written: another entry of the transaction was refused";

/// Use cases that wait to be written.
pub struct Transaction {
    staged: Arc<Staged>,
    registry: Arc<Registry>,
}

/// Why a transaction was not written.
#[derive(Debug)]
pub enum NotWritten {
    /// Others changed meanwhile what it rests on: made again, it may succeed, or one of its use cases says why not.
    Overtaken,
    /// Anything else.
    Failed(AppError),
}

impl Transaction {
    /// Nothing done yet.
    #[must_use]
    pub fn begin(registry: &Registry) -> Self {
        let staged = Arc::new(Staged::on(Arc::clone(&registry.store)));
        let store = Arc::clone(&staged) as Arc<dyn Store>;
        Self { staged, registry: Arc::new(Registry { store, ..registry.clone() }) }
    }

    /// The register as the use cases meet it.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry)
    }

    /// What is done from now on belongs to that entry.
    pub fn begin_entry(&self, entry: usize) {
        self.staged.begin_part(entry);
    }

    /// The records that an entry wrote, in order.
    #[must_use]
    pub fn written_by(&self, entry: usize) -> Vec<ChangedRecord> {
        self.staged.written_by(entry)
    }

    /// How other entries refer to the record that an entry wrote first: `<kind>/<system>|<value>`.
    #[must_use]
    pub fn reference_to(&self, entry: usize) -> Option<String> {
        let record = self.written_by(entry).into_iter().next()?;
        let identifiers = record.identifiers();
        records::called(&identifiers).map(|key| records::reference(record.place().0, key))
    }

    /// The entry that gave another record the identifier, or the open membership, that the last refusal was about.
    #[must_use]
    pub fn collided_with(&self) -> Option<usize> {
        self.staged.collided_with()
    }

    /// Writes everything.
    ///
    /// # Errors
    /// [`NotWritten`]; nothing of it is written then.
    pub async fn commit(&self, ctx: &OpContext) -> Result<(), NotWritten> {
        let write = self.staged.take(ctx.now, ctx.client().cloned());
        if write.operations.is_empty() && write.audit.is_empty() {
            return Ok(());
        }
        Self::told(self.staged.base().commit(write).await)
    }

    /// Writes everything, and how the request was answered that asked for it.
    ///
    /// # Errors
    /// [`NotWritten`]; nothing of it is written then.
    pub async fn commit_once(&self, ctx: &OpContext, request: RememberedRequest) -> Result<(), NotWritten> {
        let write = self.staged.take(ctx.now, ctx.client().cloned());
        Self::told(self.staged.base().commit_once(write, request).await)
    }

    fn told(committed: Result<Committed, StoreError>) -> Result<(), NotWritten> {
        match committed {
            Ok(_) => Ok(()),
            Err(
                StoreError::VersionMismatch { .. }
                | StoreError::IdentifierInUse(_)
                | StoreError::MembershipOpen
                | StoreError::AlreadyDone
                | StoreError::NotFound(_),
            ) => Err(NotWritten::Overtaken),
            Err(other) => Err(NotWritten::Failed(other.into())),
        }
    }

    /// Writes down that what was done so far came to nothing.
    ///
    /// # Errors
    /// When the audit log takes no more lines.
    pub async fn abandon(&self, ctx: &OpContext) -> Result<(), AppError> {
        let write = self.staged.take(ctx.now, ctx.client().cloned());
        let undone = |entry: AuditEntry| AuditEntry {
            outcome: AuditOutcome::Refused,
            status: None,
            reason: Some(UNDONE.to_owned()),
            ..entry
        };
        for entry in write.audit {
            self.registry.audit.record(ctx, undone(entry)).await?;
        }
        Ok(())
    }
}
