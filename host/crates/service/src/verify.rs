//! Verifies the complete register, on disk and in memory, and reports problems.
//!
//! **Invariant:** a verification changes nothing, and uses bounded memory for a register of any size.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::Sender;

use crate::audit::{self, AuditLog};
use crate::catch_up::catch_up_readable;
use crate::shared_index::SharedIndex;
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::verification::{Finding, Part, Remedy, VerificationEvent, number_name, record_name};
use daftar_index::verify::{ROWS_PER_CHECK, RowProblem};
use daftar_index::{Columns, Snapshot};
use daftar_store::archive::Archive;
pub use daftar_store::verify::Pace;
use daftar_store::verify::{RawValues, readable_records, records_at_rest};
use daftar_store::{StoreError, blocking};

/// Number of records per batch of the comparison with the in-memory register.
const PAGE_RECORDS: usize = 1_024;
/// Maximum number of rows that are checked again in one step while nothing is written.
const AGAIN_MAX: usize = 2_048;

/// Verifies a register in service, one run at a time.
#[derive(Clone)]
pub struct Verifier {
    store: Arc<dyn Archive>,
    /// The in-memory register, if there is one.
    memory: Option<InMemory>,
    log: AuditLog,
    is_running: Arc<AtomicBool>,
}

/// The in-memory register of a server.
#[derive(Clone)]
pub enum InMemory {
    /// That of the only server, with every write.
    Own(Arc<Columns>),
    /// That of a server which shares its database with others.
    Shared(Arc<SharedIndex>),
}

/// Locked during a verification run.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A permit for a verification run: a server allows one at a time.
pub struct Look {
    store: Arc<dyn Archive>,
    memory: Option<InMemory>,
    _running: Running,
}

impl Verifier {
    /// Verifies that store and its in-memory register.
    #[must_use]
    pub fn new(store: Arc<dyn Archive>, memory: Option<InMemory>, log: AuditLog) -> Self {
        Self { store, memory, log, is_running: Arc::default() }
    }

    /// Admits a verification run, and writes its actor into the audit log.
    ///
    /// # Errors
    /// [`AppError::Conflict`] during another run; when the store fails.
    pub async fn begin(&self, ctx: &OpContext) -> Result<Look, AppError> {
        if self.is_running.swap(true, Ordering::AcqRel) {
            let detail = "the register is being verified already: wait for that to end, or stop it";
            return Err(AppError::conflict(ErrorCode::OperationInProgress, detail));
        }
        let running = Running(Arc::clone(&self.is_running));
        let entry = audit::entry(ctx, AuditAction::Administer, AuditOutcome::Allowed, Vec::new());
        self.log.record(ctx, entry.with_note("verified the whole register for damage")).await?;
        Ok(Look { store: Arc::clone(&self.store), memory: self.memory.clone(), _running: running })
    }
}

impl Look {
    /// Verifies, yielding to requests.
    ///
    /// # Errors
    /// As [`verify`].
    pub async fn run(self, events: Sender<VerificationEvent>) -> Result<(), AppError> {
        verify(&*self.store, self.memory.as_ref(), Pace::Yielding, events).await
    }
}

/// Verifies a store and, if given, the in-memory register built from it. Sends its findings as it proceeds.
///
/// # Errors
/// If the store cannot be verified at all.
pub async fn verify(
    store: &dyn Archive,
    memory: Option<&InMemory>,
    pace: Pace,
    events: Sender<VerificationEvent>,
) -> Result<(), AppError> {
    // The values of a database are those of one moment: a copy from before it is compared, with the writes until then.
    let copy = match memory {
        Some(InMemory::Shared(shared)) => shared.copy(),
        Some(InMemory::Own(_)) | None => None,
    };
    let values = store.raw_values().await?;
    let columns = match memory {
        None => None,
        Some(InMemory::Own(columns)) => Some(Arc::clone(columns)),
        Some(InMemory::Shared(shared)) => match copy {
            Some((copy, stamp)) if shared.is_of(stamp).await => Some(Arc::new(copy)),
            _ => {
                tracing::info!("the register in memory is being read again, and is not verified");
                None
            }
        },
    };
    daftar_store::verify::verify(Arc::clone(&values), pace, events.clone()).await?;
    let Some(columns) = columns else { return Ok(()) };
    if let Some(InMemory::Shared(_)) = memory {
        match catch_up_readable(&values, &columns, columns.sequence()).await {
            Ok(()) => {}
            // The finding on the change log is reported already.
            Err(StoreError::Corrupt { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    let held = Held { columns, part: Part::Indexes, file: None, remedy: Remedy::Restart };
    hold(values, held, pace, events).await
}

/// Columns to compare with the records, and the data for reports of their problems.
pub struct Held {
    /// The columns.
    pub columns: Arc<Columns>,
    /// The part of the register that they belong to.
    pub part: Part,
    /// The file that they were loaded from, if any.
    pub file: Option<String>,
    /// The remedy to report.
    pub remedy: Remedy,
}

/// Compares columns with the records of a store. Sends its findings as it proceeds.
///
/// # Errors
/// If the store cannot be verified at all.
pub async fn hold(
    values: Arc<dyn RawValues>,
    held: Held,
    pace: Pace,
    events: Sender<VerificationEvent>,
) -> Result<(), AppError> {
    let mut check = IndexCheck { values, held: &held, pace, events, done: 0 };
    for kind in RecordKind::ALL {
        check.kind(kind).await?;
    }
    Ok(())
}

/// Compares the in-memory register with the records on disk.
struct IndexCheck<'c> {
    values: Arc<dyn RawValues>,
    held: &'c Held,
    pace: Pace,
    events: Sender<VerificationEvent>,
    done: u64,
}

impl IndexCheck<'_> {
    async fn kind(&mut self, kind: RecordKind) -> Result<(), AppError> {
        let mut after = RecordId(0);
        for segment in 0..=u16::MAX {
            let snapshot = self.held.columns.snapshot();
            let rows = snapshot.row_count(kind);
            let past = u32::from(segment).saturating_add(1).saturating_mul(ROWS_PER_CHECK);
            let is_last = past >= rows;
            let last = past.checked_sub(1).filter(|_| !is_last).and_then(|row| snapshot.record_at(kind, row));
            let (reached, suspects) =
                self.segment(kind, segment, snapshot, after..=last.unwrap_or(RecordId(u64::MAX))).await?;
            after = reached;
            self.look_again(kind, segment, suspects).await?;
            if is_last || self.events.is_closed() {
                break;
            }
        }
        Ok(())
    }

    /// Compares the records of a segment, after the first of these keys up to the last, with their rows. Returns the
    /// rows that differ, and the last key read.
    async fn segment(
        &mut self,
        kind: RecordKind,
        segment: u16,
        snapshot: Arc<Snapshot>,
        keys: std::ops::RangeInclusive<RecordId>,
    ) -> Result<(RecordId, Vec<RecordId>), AppError> {
        let total =
            RecordKind::ALL.iter().fold(0_u64, |sum, kind| sum.saturating_add(u64::from(snapshot.row_count(*kind))));
        let mut check = blocking(move || snapshot.check_rows(kind, segment)).await?;
        let (mut after, last) = keys.into_inner();
        while after < last {
            let started = tokio::time::Instant::now();
            let (records, passed) = readable_records(&self.values, kind, after, PAGE_RECORDS).await?;
            let Some(passed) = passed else { break };
            let (checked, seen) = blocking(move || {
                let mut seen = 0_u64;
                for record in records.iter().filter(|record| record.place().1 <= last) {
                    check.see(record);
                    seen = seen.saturating_add(1);
                }
                (check, seen)
            })
            .await?;
            check = checked;
            after = passed.min(last);
            self.done = self.done.saturating_add(seen);
            let progress = VerificationEvent::Progress { part: self.held.part, done: self.done, total: Some(total) };
            if self.events.send(progress).await.is_err() {
                return Ok((after, Vec::new()));
            }
            match self.pace {
                Pace::Fast => {}
                Pace::Yielding => tokio::time::sleep(started.elapsed()).await,
            }
        }
        let problems = blocking(move || check.end()).await?;
        Ok((after, problems.into_iter().map(|(id, _)| id).collect()))
    }

    /// Checks rows that differed again, without concurrent writes: a record may have been written between the check of
    /// its row and its own check.
    async fn look_again(&self, kind: RecordKind, segment: u16, suspects: Vec<RecordId>) -> Result<(), AppError> {
        for ids in suspects.chunks(AGAIN_MAX) {
            let wanted: BTreeSet<RecordId> = ids.iter().copied().collect();
            let found: Arc<Mutex<Vec<(String, RowProblem)>>> = Arc::default();
            let (into, columns) = (Arc::clone(&found), Arc::clone(&self.held.columns));
            let look = move |records: &[daftar_domain::change::ChangedRecord]| {
                let mut check = columns.snapshot().check_rows(kind, segment);
                for record in records {
                    check.see(record);
                }
                let problems = check.end().into_iter().filter(|(id, _)| wanted.contains(id));
                let named = problems.map(|(id, problem)| {
                    let record = records.iter().find(|record| record.place().1 == id);
                    (record.map_or_else(|| number_name(kind, id), record_name), problem)
                });
                into.lock().unwrap_or_else(PoisonError::into_inner).extend(named);
            };
            records_at_rest(&self.values, kind, ids.to_vec(), look).await?;
            let found = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
            for (place, problem) in found {
                let Held { part, remedy, file, columns: _ } = self.held;
                let place = file.iter().fold(place, |place, file| format!("{file}: {place}"));
                let finding = Finding { part: *part, place, problem: problem.to_owned(), remedy: *remedy };
                if self.events.send(VerificationEvent::Finding(finding)).await.is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
