//! Evaluates the subjects of one partition in sequential or concurrent time slices, each on a thread of the sandbox.
//!
//! **Invariant:** a time slice ends when all its subjects are evaluated, after the batch in which its time limit
//! expired, or before the first batch that would start after the preview was cancelled.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::Shown;
use super::breakdown::{Counted, OfRegion, SliceCounter, SubjectCounter, counts_of_marks};
use super::comparison::Rules;
use super::facts::{BATCH_ROWS_MAX, Facts};
use super::records::PART_ROWS;
use crate::eligibility::failure::Failure;
use crate::subjects;
use daftar_domain::consent::ConsentId;
use daftar_domain::eligibility::{RowOutcome, Verdict};
use daftar_domain::error::AppError;
use daftar_domain::record::RecordId;
use daftar_domain::subject::SubjectReference;
use daftar_index::RowMarks;
use daftar_sandbox::{EngineError, Priority, RuleSession, run_rule};

/// Number of subjects of a time slice if the subjects are reported or the rule requires the texts of codes.
const SLICE_SHOWN: usize = 2_048;
/// Number of subjects of a time slice if the rule requires fields of records. If the cache contains the fields of all
/// subjects, a slice has as many subjects as without records.
const SLICE_RECORDS: usize = 8_192;
/// Maximum number of subjects of a time slice if no record is read. Their evaluation takes some ten milliseconds.
const SLICE_ROWS_MAX: usize = 128 * BATCH_ROWS_MAX;
/// Minimum number of subjects of a time slice. Compiling the rule in a new instance of the engine takes as long as
/// evaluating some ten thousand subjects.
const SLICE_ROWS_MIN: usize = 4 * BATCH_ROWS_MAX;
/// Time limit of the engine calls of a time slice: many times the usual duration for a rule of ordinary cost. A rule
/// that is expensive for each subject therefore does not delay the previews of other clients by the evaluation of a
/// full slice.
const SLICE_MAX: Duration = Duration::from_millis(250);

/// Time limit of a time slice that reads fields of records: longer than a slice of cached fields takes.
const READING_MAX: Duration = Duration::from_millis(50);

/// Receives the progress of a preview.
#[async_trait::async_trait]
pub(super) trait Listener: Send + Sync {
    /// Reports the number of subjects that were evaluated since the last call.
    ///
    /// # Errors
    /// If the client has disconnected.
    async fn decided(&self, subjects: u64) -> Result<(), Failure>;

    /// Reports results for some subjects, in the order of registration, and the consents that cover their records.
    ///
    /// # Errors
    /// If the client has disconnected, or the store fails.
    async fn shown(&self, subjects: Vec<Shown>, consents: Vec<ConsentId>) -> Result<(), Failure>;
}

/// The subjects of one partition to evaluate.
#[derive(Clone)]
pub(super) struct Counting {
    pub facts: Arc<Facts>,
    pub rows: Arc<RowMarks>,
    /// The rows of the sample, ascending.
    pub sample: Arc<[u32]>,
}

/// Result for the subject of a row, and the verdict of the compared rule.
type OfRow = (u32, RowOutcome, Option<Verdict>);

/// Result of a time slice.
#[derive(Default)]
struct Slice {
    tally: SubjectCounter,
    sample: Vec<OfRow>,
    shown: Vec<OfRow>,
    consents: BTreeSet<ConsentId>,
    /// Rows of the subjects that were not evaluated within the limits of the slice.
    left: Vec<u32>,
}

/// A task that is aborted when its handle is dropped.
pub(super) struct Spawned<T>(pub(super) JoinHandle<T>);

impl<T> Future for Spawned<T> {
    type Output = Result<T, tokio::task::JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for Spawned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Counting {
    /// Evaluates all subjects.
    ///
    /// # Errors
    /// Same as [`Ready::run`](super::Ready::run).
    pub async fn count(&self, listener: &dyn Listener) -> Result<Counted, Failure> {
        let question = &self.facts.inquiry.question;
        let at_once = self.facts.inquiry.previews.slices.slots();
        let reads_records = self.facts.reads_records() && !self.facts.are_cached(self.rows.len());
        let slice_rows = if question.tells_subjects || self.facts.needs_texts() {
            SLICE_SHOWN
        } else if reads_records {
            SLICE_RECORDS
        } else {
            slice_rows(self.rows.len(), at_once)
        };
        let ends_with_a_part = self.facts.keeps.is_some();
        let rows = Arc::clone(&self.rows);
        let slices = stream::unfold(Some(0_u32), move |first| {
            let mut slice = rows.from(first.unwrap_or_default(), slice_rows);
            if ends_with_a_part {
                end_with_a_part(&mut slice, slice_rows);
            }
            let next = slice.last().and_then(|last| last.checked_add(1));
            std::future::ready(first.filter(|_| !slice.is_empty()).map(|_| (slice, next)))
        });
        let slices = slices.map(|rows| Spawned(tokio::spawn(self.clone().decide(rows))));
        // Results are in the order of registration, independent of the number of concurrent slices.
        let mut slices = std::pin::pin!(slices.buffered(at_once));
        let (mut tally, mut sample) = (SubjectCounter::default(), Vec::new());
        while let Some(slice) = slices.next().await {
            let slice = slice.map_err(|error| Failure::App(AppError::of_task(error)))??;
            let decided = slice.tally.counted.counts.total;
            tally.merge(slice.tally);
            sample.extend(slice.sample);
            if question.tells_subjects {
                listener.shown(self.shown(slice.shown).await?, slice.consents.into_iter().collect()).await?;
            }
            listener.decided(decided).await?;
        }
        let by_region = if question.breakdowns.by_region { self.by_region(&tally) } else { Vec::new() };
        let sample = self.shown(sample).await?;
        Ok(Counted { by_region: by_region.into_iter().collect(), sample, ..tally.counted })
    }

    fn by_region(&self, tally: &SubjectCounter) -> Vec<(Option<String>, OfRegion)> {
        let (facts, snapshot) = (&self.facts, &self.facts.view.snapshot);
        let kind = facts.kind();
        let marks = tally.marks();
        let marks: Vec<&RowMarks> = marks.iter().collect();
        let regions = snapshot.by_region(kind, &self.rows, facts.view.limits(kind), &marks);
        let of_region = regions.into_iter().map(|region| {
            let first = region.row.and_then(|row| snapshot.id_at(kind, row));
            let counts = counts_of_marks(region.total, &region.marked);
            (first.map(|_| region.phrase), OfRegion { first: first.unwrap_or(RecordId(0)), counts })
        });
        of_region.collect()
    }

    /// Returns outcomes with the references of their subjects.
    async fn shown(&self, outcomes: Vec<OfRow>) -> Result<Vec<Shown>, AppError> {
        let (kind, store) = (self.facts.kind(), &self.facts.inquiry.registry.store);
        let mut shown = Vec::with_capacity(outcomes.len());
        for (row, outcome, compared) in outcomes {
            let Some(id) = self.facts.view.snapshot.id_at(kind, row) else { continue };
            let subject = subjects::called(&**store, SubjectReference { kind, id }).await?;
            shown.push(Shown { subject, outcome, compared });
        }
        Ok(shown)
    }

    /// Evaluates some subjects in as many time slices as required.
    async fn decide(self, mut rows: Vec<u32>) -> Result<Slice, Failure> {
        let inquiry = Arc::clone(&self.facts.inquiry);
        let mut whole = Slice::default();
        let runtime = Handle::current();
        while !rows.is_empty() {
            let held = inquiry.previews.slices.acquire(&inquiry.ctx.actor).await;
            let (counting, runtime) = (self.clone(), runtime.clone());
            let decide = move |session: &mut RuleSession| {
                let _held = held;
                counting.decide_here(&runtime, session, rows)
            };
            let slice = run_rule(inquiry.engine.as_ref(), Priority::Background, inquiry.rule(), decide).await??;
            whole.tally.merge(slice.tally);
            whole.sample.extend(slice.sample);
            whole.shown.extend(slice.shown);
            whole.consents.extend(slice.consents);
            rows = slice.left;
        }
        Ok(whole)
    }

    /// Returns true if a time slice must end: its engine calls or its reads of records took too long.
    fn is_over(&self, session: &RuleSession, started: Instant) -> bool {
        session.time() >= SLICE_MAX || (self.facts.reads_records() && started.elapsed() >= READING_MAX)
    }

    /// Runs one time slice. Called on a thread of the sandbox.
    fn decide_here(&self, runtime: &Handle, session: &mut RuleSession, rows: Vec<u32>) -> Result<Slice, Failure> {
        let (facts, inquiry) = (&self.facts, &self.facts.inquiry);
        if session.engine_name() != inquiry.decision.engine {
            return Err(Failure::App(AppError::Busy));
        }
        let (mut slice, mut counter) = (Slice::default(), SliceCounter::default());
        let mut left = rows.as_slice();
        let mut rules = Rules::new(facts, session)?;
        let started = Instant::now();
        while !left.is_empty() && (left.len() == rows.len() || !self.is_over(rules.session, started)) {
            if rules.session.cancellation().is_cancelled() {
                return Err(Failure::Engine(EngineError::Abandoned));
            }
            let (mut batch, taken) = runtime.block_on(facts.batch(left))?;
            let Some((outcomes, compared)) = rules.evaluate(facts, &mut batch)? else { break };
            let (these, others) = left.split_at_checked(taken).unwrap_or((left, &[]));
            counter.add(facts, these, &batch, (&outcomes, compared.as_ref()));
            let of_row = |at: usize, row: &u32| {
                (*row, outcomes.of(at), compared.as_ref().and_then(|compared| compared.verdicts.get(at).copied()))
            };
            for row in sampled(&self.sample, these) {
                slice.sample.extend(these.binary_search(row).map(|at| of_row(at, row)));
            }
            if inquiry.question.tells_subjects {
                for (at, row) in these.iter().enumerate() {
                    slice.shown.push(of_row(at, row));
                    slice.consents.extend(facts.consents(facts.kind(), *row));
                }
            }
            left = others;
        }
        slice.tally = counter.finish(inquiry.question.breakdowns);
        slice.left = left.to_vec();
        Ok(slice)
    }
}

/// Returns the part of the ascending sample that is between the first and the last of some ascending rows.
fn sampled<'s>(sample: &'s [u32], rows: &[u32]) -> &'s [u32] {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return &[] };
    let start = sample.partition_point(|row| row < first);
    let end = sample.partition_point(|row| row <= last);
    sample.get(start..end).unwrap_or_default()
}

/// Returns the number of subjects of a time slice: as few slices as the limits permit, and at least one for each thread
/// if there are enough subjects.
fn slice_rows(total: u64, at_once: usize) -> usize {
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    let rounds = total.div_ceil(SLICE_ROWS_MAX).div_ceil(at_once).max(1);
    let each = total.div_ceil(rounds.saturating_mul(at_once));
    each.next_multiple_of(BATCH_ROWS_MAX).clamp(SLICE_ROWS_MIN, SLICE_ROWS_MAX)
}

/// Truncates ascending rows at the end of a cached segment, so that no two time slices read the same segment.
fn end_with_a_part(rows: &mut Vec<u32>, slice_rows: usize) {
    let Some(first) = rows.first() else { return };
    let parts = u32::try_from(slice_rows).unwrap_or(u32::MAX);
    let end = (first - first % PART_ROWS).saturating_add(parts);
    rows.truncate(rows.partition_point(|row| *row < end));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_of_a_batch_is_found_by_its_ends() {
        let sample = [3, 5, 8, 13];
        assert_eq!(sampled(&sample, &[5, 6, 8]), [5, 8]);
        assert_eq!(sampled(&sample, &[0, 1, 2]), [0_u32; 0]);
        assert_eq!(sampled(&sample, &[13]), [13]);
        assert_eq!(sampled(&sample, &[]), [0_u32; 0]);
    }

    #[test]
    fn time_slices_end_with_a_cached_segment() {
        let ended = |rows: std::ops::Range<u32>, slice_rows| {
            let mut rows: Vec<u32> = rows.collect();
            end_with_a_part(&mut rows, slice_rows);
            rows.last().copied()
        };
        assert_eq!(ended(0..5_000, SLICE_SHOWN), Some(2_047));
        assert_eq!(ended(100..5_000, SLICE_SHOWN), Some(2_047));
        assert_eq!(ended(100..20_000, SLICE_ROWS_MIN), Some(SLICE_ROWS_MIN as u32 - 1));
    }

    #[test]
    fn time_slices_are_few_and_none_waits_for_another() {
        let slices = |total: u64, at_once| total.div_ceil(slice_rows(total, at_once) as u64);
        assert_eq!(slices(1, 3), 1, "compiling a rule costs more than it");
        assert_eq!(slices(SLICE_ROWS_MIN as u64, 3), 1);
        assert_eq!(slices(3 * SLICE_ROWS_MIN as u64, 3), 3);
        assert_eq!(slices(200_000, 3), 3);
        assert_eq!((slices(1_000_000, 2), slices(2_000_000, 2), slices(1_000_000, 3)), (2, 4, 3));
        for (total, at_once) in [(0, 1), (u64::from(u32::MAX), 1), (u64::from(u32::MAX), 64)] {
            assert!((SLICE_ROWS_MIN..=SLICE_ROWS_MAX).contains(&slice_rows(total, at_once)));
        }
    }
}
