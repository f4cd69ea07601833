//! Several operations as one transaction: each operation reads the writes of the previous ones, and either all of them
//! are written or none.
//!
//! **Invariant:** the operations are those of single calls; only the store that they receive differs.

use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use crate::records;
use crate::registry::Registry;
use daftar_domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::change::ChangedRecord;
use daftar_domain::context::OpContext;
use daftar_domain::context::audit_context::HeldLines;
use daftar_domain::error::AppError;
use daftar_domain::idempotency::IdempotentRequest;
use daftar_store::overlay::Overlay;
use daftar_store::{Committed, Store, StoreError, Write};

/// Operations that wait for the commit.
pub struct Transaction {
    staged: Arc<Overlay>,
    registry: Arc<Registry>,
    lines: HeldLines,
}

/// The reason for the rollback of operations that had succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollbackReason {
    /// Another operation was rejected.
    OtherRefused,
    /// Other writes repeatedly changed the data that they depend on.
    Overtaken,
    /// It could not be written.
    Failed,
}

impl RollbackReason {
    fn reason(self) -> &'static str {
        match self {
            Self::OtherRefused => "nothing was written: another entry of the transaction was refused",
            Self::Overtaken => "nothing was written: others changed the same records again and again",
            Self::Failed => "nothing was written: the store failed",
        }
    }

    fn outcome(self) -> AuditOutcome {
        match self {
            Self::OtherRefused | Self::Overtaken => AuditOutcome::Refused,
            Self::Failed => AuditOutcome::Failed,
        }
    }
}

/// The reason why a transaction was not written.
#[derive(Debug)]
pub enum CommitError {
    /// Other writes changed the data that it depends on: a retry may succeed, or one of its operations reports the
    /// reason.
    Overtaken,
    /// Any other failure.
    Failed(AppError),
}

impl Transaction {
    /// Without operations.
    #[must_use]
    pub fn begin(registry: &Registry) -> Self {
        let staged = Arc::new(Overlay::transaction(Arc::clone(&registry.store)));
        let store = Arc::clone(&staged) as Arc<dyn Store>;
        let vocabularies = Arc::new(registry.vocabularies.of_transaction());
        let registry = Registry { store, vocabularies, bodies: Arc::default(), ..registry.clone() };
        Self { staged, registry: Arc::new(registry), lines: HeldLines::default() }
    }

    /// Buffer for the audit entries of its operations: no response is sent before all of it is written.
    #[must_use]
    pub fn lines(&self) -> HeldLines {
        self.lines.clone()
    }

    /// The register with the pending writes of the operations.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry)
    }

    /// Assigns the following operations to that entry.
    pub fn begin_entry(&self, entry: usize) {
        self.staged.begin_part(entry);
    }

    /// The records that an entry wrote, in order.
    #[must_use]
    pub fn written_by(&self, entry: usize) -> Vec<ChangedRecord> {
        self.staged.written_by(entry)
    }

    /// The reference for other entries to the record that an entry wrote first: `<kind>/<system>|<value>`.
    #[must_use]
    pub fn reference_to(&self, entry: usize) -> Option<String> {
        let record = self.written_by(entry).into_iter().next()?;
        let identifiers = record.identifiers();
        records::called(&identifiers).map(|key| records::reference(record.place().0, key))
    }

    /// The entry that assigned the identifier, or the open membership, of the last rejection to another record.
    #[must_use]
    pub fn collided_with(&self) -> Option<usize> {
        self.staged.collided_with()
    }

    /// Writes everything.
    ///
    /// # Errors
    /// [`CommitError`]; nothing is written then.
    pub async fn commit(&self, ctx: &OpContext) -> Result<(), CommitError> {
        let write = self.staged.take(ctx.now, ctx.client().cloned());
        if write.operations.is_empty() && write.audit.is_empty() {
            return Ok(());
        }
        let audit = write.audit.clone();
        let _numbering = self.numbering(&write).await;
        self.committed(self.staged.base().commit(write).await, audit)
    }

    /// Writes everything, and the response to the request.
    ///
    /// # Errors
    /// [`CommitError`]; nothing is written then.
    pub async fn commit_once(&self, ctx: &OpContext, request: IdempotentRequest) -> Result<(), CommitError> {
        let write = self.staged.take(ctx.now, ctx.client().cloned());
        let audit = write.audit.clone();
        let _numbering = self.numbering(&write).await;
        self.committed(self.staged.base().commit_once(write, request).await, audit)
    }

    /// Locked while the transaction assigns numbers to codes, and while these are published.
    async fn numbering(&self, write: &Write) -> Option<OwnedMutexGuard<()>> {
        match write.new_codes().next() {
            Some(_) => Some(self.registry.vocabularies.changing().lock_owned().await),
            None => None,
        }
    }

    fn committed(&self, committed: Result<Committed, StoreError>, audit: Vec<AuditEntry>) -> Result<(), CommitError> {
        let error = match committed {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        // The entries are audited as rolled back.
        self.lines.hold(audit);
        match error {
            StoreError::VersionMismatch { .. }
            | StoreError::IdentifierInUse(_)
            | StoreError::MembershipOpen
            | StoreError::Overtaken
            | StoreError::AlreadyDone
            | StoreError::NotFound(_) => Err(CommitError::Overtaken),
            other => Err(CommitError::Failed(other.into())),
        }
    }

    /// Writes the audit entries of its operations, except those of its writes, when the response is ready.
    ///
    /// # Errors
    /// When the audit log accepts no more entries.
    pub async fn record_entries(&self) -> Result<(), AppError> {
        self.registry.audit.record_ended(self.lines.take()).await
    }

    /// Audits the previous operations as rolled back, with the other audit entries of the request.
    ///
    /// # Errors
    /// As [`Self::record_entries`].
    pub async fn abandon(&self, ctx: &OpContext, undone: RollbackReason) -> Result<(), AppError> {
        let (lines, reported) = self.rolled_back(ctx, undone);
        self.registry.audit.record_ended(reported).await?;
        for line in lines {
            self.registry.audit.record(ctx, line).await?;
        }
        Ok(())
    }

    /// The same for an entry that has a response status of its own.
    ///
    /// # Errors
    /// As [`Self::record_entries`].
    pub async fn abandon_entry(&self, ctx: &OpContext, undone: RollbackReason, status: u16) -> Result<(), AppError> {
        let (lines, mut reported) = self.rolled_back(ctx, undone);
        reported.extend(lines.into_iter().map(|line| AuditEntry { status: Some(status), ..line }));
        self.registry.audit.record_ended(reported).await
    }

    /// The audit entries of rolled-back operations, and the unchanged ones. Entries of reads are dropped, since the
    /// response contains none of the data.
    fn rolled_back(&self, ctx: &OpContext, undone: RollbackReason) -> (Vec<AuditEntry>, Vec<AuditEntry>) {
        let write = self.staged.take(ctx.now, ctx.client().cloned());
        let (done, reported): (Vec<_>, Vec<_>) =
            self.lines.take().into_iter().partition(|line| line.outcome == AuditOutcome::Allowed);
        let done = done.into_iter().filter(|line| !matches!(line.action, AuditAction::Read | AuditAction::Search));
        let lines = write.audit.into_iter().chain(done).map(|line| AuditEntry {
            outcome: undone.outcome(),
            status: None,
            reason: Some(undone.reason().to_owned()),
            ..line
        });
        (lines.collect(), reported)
    }
}
