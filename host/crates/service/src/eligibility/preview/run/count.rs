//! Decides about the subjects of one snapshot, turn by turn.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::{StreamExt, stream};
use tokio::task::JoinHandle;

use super::turn::Work;
use super::{Shown, TURN_RECORDS};
use crate::eligibility::failure::Failure;
use crate::eligibility::preview::counted::{Counted, OfRegion};
use crate::eligibility::preview::facts::{BATCH_ROWS_MAX, Facts, needs_texts};
use crate::eligibility::preview::inquiry::Inquiry;
use crate::eligibility::preview::kept::PART_ROWS;
use crate::eligibility::preview::tally::{Counts, RowOutcome, Tally};
use crate::subjects;
use daftar_domain::consent::ConsentId;
use daftar_domain::error::AppError;
use daftar_domain::record::RecordId;
use daftar_domain::subject::SubjectReference;
use daftar_index::RowMarks;

/// The most subjects of a turn where no record is read: some milliseconds.
const TURN_ROWS_MAX: usize = 64 * BATCH_ROWS_MAX;
/// The least of them: an instance of the engine that compiles the rule takes as long as some ten thousand subjects.
const TURN_ROWS_MIN: usize = 4 * BATCH_ROWS_MAX;

/// Hears how far it is.
#[async_trait::async_trait]
pub(in super::super) trait Teller: Send + Sync {
    /// So many more subjects have been decided about.
    ///
    /// # Errors
    /// When nobody listens any more.
    async fn decided(&self, subjects: u64) -> Result<(), Failure>;

    /// What the rule says of some subjects, in the order of registration, and the consents that open their records.
    ///
    /// # Errors
    /// When nobody listens any more, or the store fails.
    async fn told(&self, subjects: Vec<Shown>, consents: Vec<ConsentId>) -> Result<(), Failure>;
}

/// Subjects of one snapshot.
pub(in super::super) struct Counting<'c> {
    pub inquiry: &'c Inquiry,
    pub facts: Arc<Facts>,
    pub rows: Arc<RowMarks>,
    /// The rows of the sample, ascending.
    pub sample: Vec<u32>,
}

/// A task that ends when nobody waits for it any more.
struct Spawned<T>(JoinHandle<T>);

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

impl Counting<'_> {
    /// Decides about all of them.
    ///
    /// # Errors
    /// As a preview as a whole.
    pub async fn count(&self, teller: &dyn Teller) -> Result<Counted, Failure> {
        let total = self.rows.len();
        let work = Work {
            inquiry: Arc::new(self.inquiry.clone()),
            facts: Arc::clone(&self.facts),
            sample: self.sample.clone().into(),
        };
        let (desk, tells_subjects) = (&self.inquiry.desk, self.inquiry.tells_subjects);
        let is_fast = !tells_subjects && !self.facts.reads_records() && !needs_texts(&self.facts.references);
        let turn_rows = if is_fast { turn_rows(total, desk.turns_max()) } else { TURN_RECORDS };
        let ends_with_a_part = !is_fast && self.facts.keeping.is_some();
        let rows = Arc::clone(&self.rows);
        let turns = stream::unfold(Some(0_u32), move |first| {
            let mut turn = rows.from(first.unwrap_or_default(), turn_rows);
            if ends_with_a_part {
                end_with_a_part(&mut turn);
            }
            let next = turn.last().and_then(|last| last.checked_add(1));
            std::future::ready(first.filter(|_| !turn.is_empty()).map(|_| (turn, next)))
        });
        let turns = turns.map(|rows| Spawned(tokio::spawn(work.clone().turn(rows))));
        // In the order of registration, however many run at once.
        let mut parts = std::pin::pin!(turns.buffered(desk.turns_max()));
        let (mut tally, mut sample) = (Tally::default(), Vec::new());
        while let Some(part) = parts.next().await {
            let part = part.map_err(|error| Failure::App(AppError::Internal(error.into())))??;
            tally.merge(part.tally);
            sample.extend(part.sample);
            if tells_subjects {
                teller.told(self.shown(part.told).await?, part.consents.into_iter().collect()).await?;
            }
            teller.decided(part.decided).await?;
        }
        Ok(self.counted(tally, sample).await?)
    }

    async fn counted(&self, tally: Tally, sample: Vec<RowOutcome>) -> Result<Counted, AppError> {
        let by_region = if self.inquiry.breakdowns.by_region { self.by_region(&tally) } else { Vec::new() };
        let Tally { counts, by_gender, by_age_band, missing, .. } = tally;
        let sample = self.shown(sample).await?;
        let by_region = by_region.into_iter().collect();
        Ok(Counted { counts, by_gender, by_age_band, by_region, missing, sample })
    }

    fn by_region(&self, tally: &Tally) -> Vec<(Option<String>, OfRegion)> {
        let facts = &self.facts;
        let marks = [&tally.eligible, &tally.undetermined, &tally.errors];
        let regions = facts.snapshot.by_region(facts.kind, &self.rows, facts.limits(facts.kind), &marks);
        let of_region = regions.into_iter().map(|region| {
            let of_mark = |at: usize| region.marked.get(at).copied().unwrap_or_default();
            let (total, eligible, undetermined, errors) = (region.total, of_mark(0), of_mark(1), of_mark(2));
            let not_eligible = total.saturating_sub(eligible).saturating_sub(undetermined);
            let first = region.row.and_then(|row| facts.snapshot.id_at(facts.kind, row));
            let counts = Counts { total, eligible, not_eligible, undetermined, errors };
            (first.map(|_| region.phrase), OfRegion { first: first.unwrap_or(RecordId(0)), counts })
        });
        of_region.collect()
    }

    /// Outcomes with the references of their subjects.
    async fn shown(&self, outcomes: Vec<RowOutcome>) -> Result<Vec<Shown>, AppError> {
        let facts = &self.facts;
        let mut shown = Vec::with_capacity(outcomes.len());
        for RowOutcome { row, verdict, missing, errors } in outcomes {
            let Some(id) = facts.snapshot.id_at(facts.kind, row) else { continue };
            let subject = subjects::called(&*facts.registry.store, SubjectReference { kind: facts.kind, id }).await?;
            shown.push(Shown { subject, verdict, missing, errors });
        }
        Ok(shown)
    }
}

/// How many of so many subjects a turn has: as few turns as there may be, and no thread without one.
fn turn_rows(total: u64, at_once: usize) -> usize {
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    let rounds = total.div_ceil(TURN_ROWS_MAX).div_ceil(at_once).max(1);
    let each = total.div_ceil(rounds.saturating_mul(at_once));
    each.next_multiple_of(BATCH_ROWS_MAX).clamp(TURN_ROWS_MIN, TURN_ROWS_MAX)
}

/// Cuts ascending rows where a part ends that fields are kept in, so that no two turns read the same one.
fn end_with_a_part(rows: &mut Vec<u32>) {
    let Some(first) = rows.first() else { return };
    let parts = u32::try_from(TURN_RECORDS).unwrap_or(u32::MAX);
    let end = (first - first % PART_ROWS).saturating_add(parts);
    rows.truncate(rows.partition_point(|row| *row < end));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_few_and_none_waits_for_another() {
        let turns = |total: u64, at_once| total.div_ceil(turn_rows(total, at_once) as u64);
        assert_eq!(turns(1, 3), 1, "compiling a rule costs more than it");
        assert_eq!(turns(TURN_ROWS_MIN as u64, 3), 1);
        assert_eq!(turns(3 * TURN_ROWS_MIN as u64, 3), 3);
        assert_eq!(turns(200_000, 3), 3);
        assert_eq!((turns(1_000_000, 2), turns(1_000_000, 3)), (4, 6));
        for (total, at_once) in [(0, 1), (u64::from(u32::MAX), 1), (u64::from(u32::MAX), 64)] {
            assert!((TURN_ROWS_MIN..=TURN_ROWS_MAX).contains(&turn_rows(total, at_once)));
        }
    }
}
