//! A preview on its way: its turns, and what comes together of them.

mod trace;
mod turn;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::{StreamExt, stream};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;

use self::trace::{STREAMED, Trace};
use self::turn::Work;
use super::super::decision::Decision;
use super::super::exhausted::Asked;
use super::super::failure::{Failure, unless_exhausted};
use super::desk::PreviewDesk;
use super::facts::{BATCH_ROWS_MAX, Facts, needs_texts};
use super::kept::PART_ROWS;
use super::tally::{Breakdowns, RowOutcome, Tally};
use super::{Counts, Preview, PreviewEvent, REGIONS_MAX, Shown};
use crate::columns::{RegionCount, RowMarks};
use crate::domain::address::Address;
use crate::domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use crate::domain::eligibility::{Diagnostic, Reference, Subject};
use crate::domain::person_name::search_phrase;
use crate::domain::subject::SubjectReference;
use crate::error::AppError;
use crate::plugin::{EligibilityEngine, EngineError};
use crate::service::{audit, search, subjects};
use crate::vocab::Generation;

/// The most subjects of a turn where no record is read: some milliseconds.
const TURN_ROWS_MAX: usize = 64 * BATCH_ROWS_MAX;
/// The least of them: an instance of the engine that compiles the rule takes as long as some ten thousand subjects.
const TURN_ROWS_MIN: usize = 4 * BATCH_ROWS_MAX;
/// The subjects of a turn where records are read, be it to tell who the subjects are.
const TURN_RECORDS: usize = 2_048;

/// A preview that is ready.
pub(super) struct Run {
    pub facts: Arc<Facts>,
    pub engine: Arc<dyn EligibilityEngine>,
    pub desk: Arc<PreviewDesk>,
    pub generation: Arc<Generation>,
    pub expression: String,
    pub rows: Arc<RowMarks>,
    pub searched_by: Vec<String>,
    pub sample: u32,
    pub breakdowns: Breakdowns,
    pub withheld: Vec<&'static str>,
    pub asked: Asked,
    pub decision: Decision,
    pub warnings: Vec<Diagnostic>,
    /// Whether the status of the answer was sent already.
    pub is_streamed: bool,
}

/// Ends what still runs when it is dropped.
struct GiveUp(Arc<AtomicBool>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
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

impl Run {
    /// Runs every turn, and writes down who was looked at.
    ///
    /// # Errors
    /// [`AppError::Expression`] when a budget is exhausted, [`AppError::Busy`], and when the store fails.
    pub async fn complete(
        mut self,
        events: Option<Sender<PreviewEvent>>,
        tells_subjects: bool,
    ) -> Result<Preview, AppError> {
        self.is_streamed = events.is_some();
        let mut trace = Trace { line: Some(self.line()), facts: Arc::clone(&self.facts) };
        let asked = self.asked.clone();
        let turns = self.turns(events.as_ref(), tells_subjects);
        let counted = unless_exhausted(&self.facts.ctx, &self.facts.registry, asked, turns).await;
        let finished = match counted {
            Ok((tally, sample)) => self.finish(tally, sample).await,
            Err(error) => Err(error),
        };
        trace.end(finished.as_ref()).await?;
        finished
    }

    async fn turns(
        &self,
        events: Option<&Sender<PreviewEvent>>,
        tells_subjects: bool,
    ) -> Result<(Tally, Vec<RowOutcome>), Failure> {
        let total = self.rows.len();
        let given_up = GiveUp(Arc::default());
        let work = Work {
            facts: Arc::clone(&self.facts),
            generation: Arc::clone(&self.generation),
            engine: Arc::clone(&self.engine),
            engine_name: self.decision.engine.clone(),
            desk: Arc::clone(&self.desk),
            expression: self.expression.clone(),
            breakdowns: self.breakdowns,
            tells_subjects,
            sample: self.sampled().into(),
            is_given_up: Arc::clone(&given_up.0),
        };
        tell(events, PreviewEvent::Progress(0, total)).await?;
        let is_fast = !tells_subjects && !self.facts.reads_records() && !needs_texts(&self.facts.references);
        let turn_rows = if is_fast { turn_rows(total, self.desk.turns_max()) } else { TURN_RECORDS };
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
        let mut parts = std::pin::pin!(turns.buffered(self.desk.turns_max()));
        let (mut tally, mut sample, mut done) = (Tally::default(), Vec::new(), 0);
        while let Some(part) = parts.next().await {
            let part = part.map_err(|error| Failure::App(AppError::Internal(error.into())))??;
            done += part.decided;
            tally.merge(part.tally);
            sample.extend(part.sample);
            if tells_subjects {
                let shown = self.shown(part.told).await?;
                let targets = shown.iter().map(|shown| shown.subject.clone()).collect();
                let line = self.line_of(targets, "shown by a preview").with_consents(part.consents);
                self.facts.registry.audit.record(&self.facts.ctx, line).await?;
                tell(events, PreviewEvent::Subjects(shown)).await?;
            }
            tell(events, PreviewEvent::Progress(done, total)).await?;
        }
        Ok((tally, sample))
    }

    /// The rows of the sample, ascending.
    fn sampled(&self) -> Vec<u32> {
        let (total, wanted) = (self.rows.len(), u64::from(self.sample));
        let places = (0..wanted.min(total)).map(|at| if total <= wanted { at } else { at * total / wanted });
        places.filter_map(|place| self.rows.nth(place)).collect()
    }

    async fn finish(&self, tally: Tally, sample: Vec<RowOutcome>) -> Result<Preview, AppError> {
        let by_region = if self.breakdowns.by_region { Some(self.by_region(&tally).await?) } else { None };
        let is_withheld = |name: &str| self.withheld.contains(&name);
        // Those without a value, which sort first, are told last.
        let mut by_gender: Vec<_> = tally.by_gender.into_iter().collect();
        by_gender.sort_by_key(|(gender, _)| {
            (gender.is_none(), gender.and_then(|number| self.generation.code_texts(number)).map(|texts| texts.code))
        });
        let mut by_age_band: Vec<_> = tally.by_age_band.into_iter().collect();
        by_age_band.sort_by_key(|(band, _)| (band.is_none(), *band));
        let mut missing: Vec<(String, u64)> = tally.missing.into_iter().collect();
        missing.sort_by(|(one, of_one), (other, of_other)| of_other.cmp(of_one).then_with(|| one.cmp(other)));
        Ok(Preview {
            counts: tally.counts,
            by_gender: (!is_withheld("by_gender")).then_some(by_gender),
            by_age_band: (!is_withheld("by_age_band")).then_some(by_age_band),
            by_region,
            missing,
            sample: self.shown(sample).await?,
            withheld: self.withheld.clone(),
            decision: self.decision.clone(),
            warnings: self.warnings.clone(),
            generation: Arc::clone(&self.generation),
        })
    }

    async fn by_region(&self, tally: &Tally) -> Result<Vec<(Option<String>, Counts)>, AppError> {
        let facts = &self.facts;
        let marks = [&tally.eligible, &tally.undetermined, &tally.errors];
        let limits = facts.limits(facts.kind);
        let mut regions = facts.snapshot.by_region(facts.kind, &self.rows, limits, &marks);
        regions.sort_by(|one, other| {
            let key = |region: &RegionCount| (region.row.is_none(), std::cmp::Reverse(region.total));
            key(one).cmp(&key(other)).then_with(|| one.phrase.cmp(&other.phrase))
        });
        let named = regions.iter().filter(|region| region.row.is_some()).take(REGIONS_MAX);
        let regions: Vec<&RegionCount> = named.chain(regions.iter().filter(|region| region.row.is_none())).collect();
        let mut told = Vec::with_capacity(regions.len());
        for region in regions {
            let of_mark = |at: usize| region.marked.get(at).copied().unwrap_or_default();
            let (eligible, undetermined, errors) = (of_mark(0), of_mark(1), of_mark(2));
            let not_eligible = region.total.saturating_sub(eligible).saturating_sub(undetermined);
            let name = match region.row {
                Some(row) => Some(self.spelt(row, &region.phrase).await?),
                None => None,
            };
            told.push((name, Counts { total: region.total, eligible, not_eligible, undetermined, errors }));
        }
        Ok(told)
    }

    /// A region as the record of that row spells it.
    async fn spelt(&self, row: u32, phrase: &str) -> Result<String, AppError> {
        let facts = &self.facts;
        let addresses: Option<Vec<Address>> = match (facts.kind, facts.snapshot.id_at(facts.kind, row)) {
            (_, None) => None,
            (Subject::Individual, Some(id)) => {
                facts.registry.store.individual(id).await?.and_then(|record| record.details.address.clone())
            }
            (Subject::Group, Some(id)) => {
                facts.registry.store.group(id).await?.and_then(|record| record.details.address.clone())
            }
        };
        let mut regions = addresses.into_iter().flatten().filter_map(|address| address.region);
        // The record may have moved since: then the region is told as it is compared.
        Ok(regions.find(|region| search_phrase(region) == phrase).unwrap_or_else(|| phrase.to_owned()))
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

    /// The line of the whole preview, its sample not yet in it.
    fn line(&self) -> AuditEntry {
        let by = search::note(self.searched_by.clone(), &[]);
        let note = format!("a preview over {} subjects, {by}", self.rows.len());
        let mut line = self.line_of(Vec::new(), &note);
        line.outcome = AuditOutcome::Failed;
        line
    }

    fn line_of(&self, targets: Vec<String>, note: &str) -> AuditEntry {
        let line = audit::entry(&self.facts.ctx, AuditAction::Evaluate, AuditOutcome::Allowed, targets);
        let line = line.with_fields(self.facts.references.iter().map(Reference::name)).with_note(note);
        if self.is_streamed { line.with_status(STREAMED) } else { line }
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

/// Tells how far it is, if somebody listens; whoever listened and left ends it.
async fn tell(events: Option<&Sender<PreviewEvent>>, event: PreviewEvent) -> Result<(), Failure> {
    match events {
        Some(events) => events.send(event).await.map_err(|_| Failure::Engine(EngineError::Abandoned)),
        None => Ok(()),
    }
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
