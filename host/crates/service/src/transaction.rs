//! Several operations as one transaction: each operation reads the writes of the previous ones, and either all of them
//! are written or none.
//!
//! **Invariant:** the operations are those of single calls; only the store that they receive differs.
//!
//! **Invariant:** a transaction that another one of this process overtakes in the assignment of numbers to codes is not
//! overtaken in it at its next attempt, which has the lock on numbers from its beginning.

use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use crate::client::spawn_uncancellable;
use crate::records;
use crate::registry::Registry;
use daftar_domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::change::ChangedRecord;
use daftar_domain::context::OpContext;
use daftar_domain::context::audit_context::HeldLines;
use daftar_domain::error::AppError;
use daftar_domain::idempotency::IdempotentRequest;
use daftar_store::overlay::Overlay;
use daftar_store::{Store, StoreError, Write};

/// The lock on numbers of codes: no other operation of this process assigns any.
pub type NumberLock = OwnedMutexGuard<()>;

/// Operations that wait for the commit.
pub struct Transaction {
    staged: Arc<Overlay>,
    registry: Arc<Registry>,
    lines: HeldLines,
    /// Present from the beginning if the attempt before was overtaken.
    lock: Option<NumberLock>,
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
    /// reason. Contains the lock for the retry if this attempt had it, and other writes may have assigned its numbers.
    Overtaken(Option<NumberLock>),
    /// Any other failure.
    Failed(AppError),
}

impl Transaction {
    /// Without operations. `lock` is that of the attempt before, if it was overtaken.
    #[must_use]
    pub fn begin(registry: &Registry, lock: Option<NumberLock>) -> Self {
        let staged = Arc::new(Overlay::transaction(Arc::clone(&registry.store)));
        let store = Arc::clone(&staged) as Arc<dyn Store>;
        let vocabularies = Arc::new(registry.vocabularies.of_transaction());
        let registry = Registry { store, vocabularies, bodies: Arc::default(), ..registry.clone() };
        Self { staged, registry: Arc::new(registry), lines: HeldLines::default(), lock }
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
    pub async fn commit(&mut self, ctx: &OpContext) -> Result<(), CommitError> {
        let write = self.staged.take(ctx.now, ctx.client().cloned());
        if write.operations.is_empty() && write.audit.is_empty() {
            return Ok(());
        }
        self.write(write, None).await
    }

    /// Writes everything, and the response to the request.
    ///
    /// # Errors
    /// [`CommitError`]; nothing is written then.
    pub async fn commit_once(&mut self, ctx: &OpContext, request: IdempotentRequest) -> Result<(), CommitError> {
        let write = self.staged.take(ctx.now, ctx.client().cloned());
        self.write(write, Some(request)).await
    }

    /// Writes everything. The lock on numbers is locked while numbers are assigned to codes and published, also if the
    /// client disconnects: a queued write is executed anyway.
    async fn write(&mut self, write: Write, request: Option<IdempotentRequest>) -> Result<(), CommitError> {
        let audit = write.audit.clone();
        let (base, lock) = (Arc::clone(self.staged.base()), self.lock.take());
        let changing = self.registry.vocabularies.changing();
        let requires_lock = lock.is_none() && write.new_codes().next().is_some();
        // A request whose time ends while it waits here writes nothing.
        let lock = if requires_lock { Some(changing.lock_owned().await) } else { lock };
        let is_locked = lock.is_some();
        let committing = async move {
            let committed = match request {
                Some(request) => base.commit_once(write, request).await,
                None => base.commit(write).await,
            };
            match committed {
                Ok(_) => Ok(()),
                Err(StoreError::Overtaken) => Err(CommitError::Overtaken(lock)),
                // The lock prevents none of these.
                Err(
                    StoreError::VersionMismatch { .. }
                    | StoreError::IdentifierInUse(_)
                    | StoreError::MembershipOpen
                    | StoreError::AlreadyDone
                    | StoreError::NotFound(_),
                ) => Err(CommitError::Overtaken(None)),
                Err(other) => Err(CommitError::Failed(other.into())),
            }
        };
        let committed = if is_locked {
            let ended = spawn_uncancellable(async move { Ok(committing.await) }).await;
            ended.unwrap_or_else(|error| Err(CommitError::Failed(error)))
        } else {
            committing.await
        };
        if committed.is_err() {
            // The entries are audited as rolled back.
            self.lines.hold(audit);
        }
        committed
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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use daftar_domain::audit::Actor;
    use daftar_domain::change::Change;
    use daftar_domain::code::{CodeNumber, CodeUri};
    use daftar_domain::context::audit_context::AuditContext;
    use daftar_domain::individual::IndividualDetails;
    use daftar_domain::record::{RecordId, VersionId};
    use daftar_store::{ChangeSink, NewCodes, Operation};
    use daftar_store_sled::testing::shared_store;

    struct NoSink;

    impl ChangeSink for NoSink {
        fn apply(&self, _: &[Change]) {}
    }

    fn opened() -> (OpContext, Registry) {
        let ctx = OpContext::unbound(Actor::System, "test".into(), Timestamp::UNIX_EPOCH, AuditContext::default());
        let registry = Registry::of_store(&shared_store());
        registry.store.attach_sink(Arc::new(NoSink)).unwrap();
        (ctx, registry)
    }

    fn person() -> IndividualDetails {
        IndividualDetails::default()
    }

    /// Assigns this number to a code.
    fn number(code: &str, number: u32) -> Operation {
        let codes = vec![CodeUri::parse(code).unwrap()];
        Operation::NumberCodes(NewCodes {
            first: CodeNumber(number),
            codes,
            counters: Vec::new(),
            given: Arc::new(|| {}),
        })
    }

    async fn write(registry: &Registry, operations: Vec<Operation>) {
        let at = Timestamp::UNIX_EPOCH;
        let write = Write { at, source: None, operations, audit: Vec::new(), read_set: Vec::new() };
        registry.store.commit(write).await.unwrap();
    }

    /// Registers an individual, and assigns this number to a code.
    async fn register(transaction: &Transaction, code: &str, first: u32) {
        write(&transaction.registry(), vec![Operation::create(person()), number(code, first)]).await;
    }

    async fn stored_codes(registry: &Registry) -> Vec<String> {
        registry.store.code_table().await.unwrap().codes.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn a_transaction_is_overtaken_in_the_numbers_of_codes_only_once() {
        let (ctx, registry) = opened();
        let changing = registry.vocabularies.changing();
        let [mut one, mut other] = [0, 1].map(|_| Transaction::begin(&registry, None));
        register(&one, "urn:open#a", 0).await;
        register(&other, "urn:open#b", 0).await;
        one.commit(&ctx).await.unwrap();
        let Err(CommitError::Overtaken(lock)) = other.commit(&ctx).await else { panic!("the number is assigned") };
        let mut again = Transaction::begin(&registry, lock);
        assert!(changing.try_lock().is_err(), "no other operation assigns numbers until its end");
        register(&again, "urn:open#b", 1).await;
        again.commit(&ctx).await.unwrap();
        assert!(changing.try_lock().is_ok());
        assert_eq!(stored_codes(&registry).await, ["urn:open#a", "urn:open#b"]);
    }

    #[tokio::test]
    async fn a_conflict_of_versions_leaves_the_lock_on_numbers_free() {
        let (ctx, registry) = opened();
        write(&registry, vec![Operation::create(person())]).await;
        let update = || Operation::update(RecordId(1), VersionId(1), person());
        let mut overtaken = Transaction::begin(&registry, None);
        write(&overtaken.registry(), vec![update(), number("urn:open#a", 0)]).await;
        write(&registry, vec![update()]).await;
        let committed = overtaken.commit(&ctx).await;
        assert!(matches!(committed, Err(CommitError::Overtaken(None))), "{committed:?}");
        assert!(registry.vocabularies.changing().try_lock().is_ok());
        assert_eq!(stored_codes(&registry).await, [""; 0]);
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_while_it_waits_for_the_numbers_writes_nothing() {
        let (ctx, registry) = opened();
        let lock = registry.vocabularies.changing().lock_owned().await;
        let mut transaction = Transaction::begin(&registry, None);
        register(&transaction, "urn:open#a", 0).await;
        tokio::select! {
            biased;
            _ = transaction.commit(&ctx) => panic!("another operation assigns numbers"),
            () = std::future::ready(()) => {}
        }
        drop(lock);
        let _lock = registry.vocabularies.changing().lock_owned().await;
        assert_eq!(stored_codes(&registry).await, [""; 0]);
    }

    #[tokio::test]
    async fn numbers_stay_locked_until_the_write_of_a_dropped_request_has_ended() {
        let (ctx, registry) = opened();
        let mut transaction = Transaction::begin(&registry, None);
        register(&transaction, "urn:open#a", 0).await;
        tokio::select! {
            biased;
            _ = transaction.commit(&ctx) => panic!("it ended before the writing thread could have done it"),
            () = std::future::ready(()) => {}
        }
        // The task of the write begins now.
        tokio::task::yield_now().await;
        let _lock = registry.vocabularies.changing().lock_owned().await;
        assert_eq!(stored_codes(&registry).await, ["urn:open#a"]);
    }
}
