//! Where a preview finds its subjects: in partitions of the register, at one snapshot.
//!
//! The register in memory is one partition of this process. A register in a database has as many partitions as it needs; they are the tasks of a
//! job, on which this server works as does any other that has time (`preview/share.rs`).
//!
//! **Invariant:** every partition is seen as it was at one snapshot, the preview's, whichever server looks at it and when.
//!
//! **Invariant:** what a server that ends leaves unfinished is taken up by another; nothing is counted twice.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use roaring::RoaringBitmap;

use super::counting::{Counting, Listener};
use super::facts::{Facts, View};
use super::partition::{LANES, PartedRegister};
use super::share::{PartOutcome, PartTask, Task, decode, encode};
use super::tally::Counted;
use super::{Inquiry, Shown};
use crate::eligibility::failure::Failure;
use crate::registry::Registry;
use crate::visibility;
use daftar_domain::audit::Actor;
use daftar_domain::consent::ConsentId;
use daftar_domain::context::OpContext;
use daftar_domain::context::trail::{Trail, TrailOf};
use daftar_domain::error::AppError;
use daftar_domain::record::RecordId;
use daftar_domain::search::SubjectQuery;
use daftar_domain::subject::Subject;
use daftar_index::{RowMarks, SearchLimits};
use daftar_store::index::Sees;
use daftar_store::partition::{JobId, Moment, Partition, Wanted};

/// After this time it is looked for outcomes again, whether or not the database has notified of one.
const LOOKED_AGAIN: Duration = Duration::from_millis(200);

/// The subjects of a preview in their partitions.
#[async_trait::async_trait]
pub(super) trait Population: Send + Sync {
    /// How many subjects.
    fn len(&self) -> u64;

    /// Decides about all of them, so many of which are the sample.
    ///
    /// # Errors
    /// As a preview as a whole.
    async fn count(&self, inquiry: &Arc<Inquiry>, sample: u32, listener: &dyn Listener) -> Result<Counted, Failure>;
}

/// Finds whom a preview is about, as the register is now.
///
/// # Errors
/// When the store fails.
pub(super) async fn find(
    ctx: &OpContext,
    registry: &Registry,
    query: &SubjectQuery,
) -> Result<Box<dyn Population>, AppError> {
    Ok(match &registry.parted {
        Some(register) => Box::new(Partitioned::find(register, query, visibility::sees(ctx), &ctx.actor).await?),
        None => Box::new(InMemory::find(ctx, registry, query)),
    })
}

/// Subjects of the register in memory, which is one partition.
struct InMemory {
    view: View,
    rows: Arc<RowMarks>,
}

impl InMemory {
    /// The register as a whole has one layout.
    const LAYOUT: u64 = 0;

    fn find(ctx: &OpContext, registry: &Registry, query: &SubjectQuery) -> Self {
        let view = View::new(ctx, registry.columns.snapshot(), Some(Self::LAYOUT));
        let (people, groups) = (view.limits(Subject::Individual), view.limits(Subject::Group));
        let rows = match query {
            SubjectQuery::Individuals(query) => view.snapshot.matching(query, SearchLimits { records: people, groups }),
            SubjectQuery::Groups(query) => {
                view.snapshot.matching_groups(query, SearchLimits { records: groups, groups: None })
            }
        };
        Self { rows: Arc::new(rows), view }
    }
}

#[async_trait::async_trait]
impl Population for InMemory {
    fn len(&self) -> u64 {
        self.rows.len()
    }

    async fn count(&self, inquiry: &Arc<Inquiry>, sample: u32, listener: &dyn Listener) -> Result<Counted, Failure> {
        let sample = sample_places(self.len(), sample).filter_map(|place| self.rows.nth(place)).collect();
        let all = match inquiry.question.kind {
            Subject::Individual => self.view.snapshot.individual_count(),
            Subject::Group => self.view.snapshot.group_count(),
        };
        let facts = Facts::new(Arc::clone(inquiry), self.view.clone(), self.len(), all);
        Counting { facts: Arc::new(facts), rows: Arc::clone(&self.rows), sample }.count(listener).await
    }
}

/// Subjects of a register in a database, partition by partition.
struct Partitioned {
    register: Arc<PartedRegister>,
    moment: Arc<dyn Moment>,
    kind: Subject,
    /// By the number of the partition, by place in it.
    subjects: BTreeMap<u64, RoaringBitmap>,
    total: u64,
}

/// Collects what is shown of the subjects of a partition.
#[derive(Default)]
struct Collected(Mutex<(Vec<Shown>, BTreeSet<ConsentId>)>);

#[async_trait::async_trait]
impl Listener for Collected {
    async fn decided(&self, _: u64) -> Result<(), Failure> {
        Ok(())
    }

    async fn shown(&self, subjects: Vec<Shown>, consents: Vec<ConsentId>) -> Result<(), Failure> {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        collected.0.extend(subjects);
        collected.1.extend(consents);
        Ok(())
    }
}

impl Partitioned {
    async fn find(
        register: &Arc<PartedRegister>,
        query: &SubjectQuery,
        sees: Option<Sees<'_>>,
        actor: &Actor,
    ) -> Result<Self, AppError> {
        let kind = match query {
            SubjectQuery::Individuals(_) => Subject::Individual,
            SubjectQuery::Groups(_) => Subject::Group,
        };
        let size = register.partitions.partition_keys();
        let moment = register.partitions.moment(actor).await?;
        let subjects = if query.is_everybody() && sees.is_none() {
            everybody(moment.last(kind).await?, size)
        } else {
            let mut subjects: BTreeMap<u64, RoaringBitmap> = BTreeMap::new();
            for id in moment.matching(query, sees).await? {
                let partition = Partition::of(kind, size, id);
                subjects.entry(partition.number).or_default().extend(partition.place_of(id));
            }
            subjects
        };
        let total = subjects.values().map(RoaringBitmap::len).sum();
        Ok(Self { register: Arc::clone(register), moment, kind, subjects, total })
    }

    /// The tasks: the subjects of each partition, and those of the sample among them.
    fn tasks(&self, sample: u32) -> Result<Vec<(u64, Vec<u8>)>, AppError> {
        let mut places = sample_places(self.total, sample).peekable();
        let mut before = 0_u64;
        let mut tasks = Vec::with_capacity(self.subjects.len());
        for (number, subjects) in &self.subjects {
            let end = before.saturating_add(subjects.len());
            let mut sampled = Vec::new();
            while let Some(place) = places.next_if(|place| *place < end) {
                let rank = u32::try_from(place.saturating_sub(before)).ok();
                sampled.extend(rank.and_then(|rank| subjects.select(rank)));
            }
            before = end;
            let mut bitmap = Vec::with_capacity(subjects.serialized_size());
            subjects.serialize_into(&mut bitmap).map_err(|error| AppError::Internal(error.into()))?;
            tasks.push((*number, encode(&PartTask { subjects: bitmap, sample: sampled })?));
        }
        Ok(tasks)
    }

    /// Works on tasks that no server works on, for as long as there may be any.
    async fn work(&self, inquiry: &Inquiry, job: JobId) -> Result<Infallible, Failure> {
        let jobs = &self.register.partitions;
        loop {
            let lane = self.register.lane().await;
            let claim = jobs.claim(Wanted::Of(job)).await.map_err(AppError::from)?;
            let Some(claim) = claim else {
                drop(lane);
                jobs.heard(LOOKED_AGAIN).await;
                continue;
            };
            let partition = Partition { kind: self.kind, size: jobs.partition_keys(), number: claim.number };
            let outcome =
                count_partition(&self.register, &*self.moment, inquiry, partition, decode(&claim.part)?).await?;
            claim.finish(encode(&outcome)?).await.map_err(AppError::from)?;
            drop(lane);
        }
    }

    /// Adds up what is finished, and reports it in the order of registration.
    async fn collect(&self, inquiry: &Inquiry, job: JobId, listener: &dyn Listener) -> Result<Counted, Failure> {
        let jobs = &self.register.partitions;
        let (mut known, mut waiting) = (Vec::new(), BTreeMap::new());
        let mut next = self.subjects.keys().copied().peekable();
        let mut counted = Counted::default();
        while next.peek().is_some() {
            let finished = jobs.finished(job, &known).await.map_err(AppError::from)?;
            if finished.is_empty() {
                jobs.heard(LOOKED_AGAIN).await;
                continue;
            }
            for (number, outcome) in finished {
                known.push(number);
                let outcome: PartOutcome = decode(&outcome)?;
                listener.decided(outcome.counted.counts.total).await?;
                waiting.insert(number, outcome);
            }
            while let Some(outcome) = next.peek().and_then(|number| waiting.remove(number)) {
                next.next();
                inquiry.ctx.trail.relies_on(&outcome.consents());
                if inquiry.question.tells_subjects {
                    let consents = outcome.consents_shown();
                    listener.shown(outcome.shown, consents).await?;
                }
                counted.merge(outcome.counted);
            }
        }
        Ok(counted)
    }
}

#[async_trait::async_trait]
impl Population for Partitioned {
    fn len(&self) -> u64 {
        self.total
    }

    async fn count(&self, inquiry: &Arc<Inquiry>, sample: u32, listener: &dyn Listener) -> Result<Counted, Failure> {
        let tasks = self.tasks(sample)?;
        let task = encode(&Task::of(inquiry, self.moment.name(), self.register.partitions.partition_keys()))?;
        let job = self.register.post(task, tasks).await.map_err(AppError::from)?;
        let lanes = try_join_all((0..LANES).map(|_| self.work(inquiry, job.id)));
        // Lanes go on for as long as tasks may come back that another server left unfinished.
        tokio::select! {
            counted = self.collect(inquiry, job.id, listener) => counted,
            Err(failure) = lanes => Err(failure),
        }
    }
}

/// Every key up to the last, which follow one another, in partitions of that size.
fn everybody(last: RecordId, size: u32) -> BTreeMap<u64, RoaringBitmap> {
    let size = size.max(1);
    let partitions = last.0.div_ceil(u64::from(size));
    let places = |number: u64| {
        let before = number.saturating_mul(u64::from(size));
        let count = u32::try_from(last.0.saturating_sub(before)).unwrap_or(size).min(size);
        let mut places = RoaringBitmap::new();
        places.insert_range(0..count);
        (number, places)
    };
    (0..partitions).map(places).collect()
}

/// The places of the sample among so many subjects, spread evenly, ascending.
fn sample_places(total: u64, sample: u32) -> impl Iterator<Item = u64> {
    let wanted = u64::from(sample);
    (0..wanted.min(total)).map(move |at| if total <= wanted { at } else { at * total / wanted })
}

/// Decides about subjects of one partition of a register in a database.
///
/// # Errors
/// As a preview as a whole.
pub(super) async fn count_partition(
    register: &PartedRegister,
    moment: &dyn Moment,
    inquiry: &Inquiry,
    partition: Partition,
    PartTask { subjects, sample }: PartTask,
) -> Result<PartOutcome, Failure> {
    let subjects = RoaringBitmap::deserialize_from(subjects.as_slice());
    let subjects = subjects.map_err(|error| AppError::Internal(error.into()))?;
    // The consents that a partition relies on are told apart, wherever it is decided.
    let trail = Trail::new(TrailOf {
        request_id: Arc::clone(&inquiry.ctx.request_id),
        operation: "part of a preview".into(),
        address: None,
        success_status: 200,
    });
    let ctx = OpContext { trail, ..inquiry.ctx.clone() };
    let (snapshot, layout) = register.snapshot(moment, partition).await.map_err(AppError::from)?;
    let (first, end) = (partition.keys().start().0, partition.keys().end().0);
    let row_of = |place: u32| {
        let id = RecordId(first.saturating_add(u64::from(place)));
        match partition.kind {
            Subject::Individual => snapshot.row_of(id),
            Subject::Group => snapshot.group_row_of(id),
        }
    };
    let rows: Option<Vec<u32>> = subjects.iter().map(row_of).collect();
    let rows = rows.ok_or_else(|| AppError::internal("a subject that a search found is not in its partition"))?;
    let sample = sample.into_iter().filter_map(row_of).collect();
    let view = View::new(&ctx, Arc::clone(&snapshot), layout);
    let inquiry = Arc::new(Inquiry { ctx, ..inquiry.clone() });
    // Keys follow one another. Those after the partition's are of records that belong to its subjects.
    let last = snapshot.last_of(partition.kind).map_or(0, |last| last.0.min(end));
    let all = last.saturating_add(1).saturating_sub(first);
    let facts = Arc::new(Facts::new(Arc::clone(&inquiry), view, subjects.len(), all));
    let collected = Collected::default();
    let counted = Counting { facts, rows: Arc::new(RowMarks::from_sorted(&rows)), sample }.count(&collected).await?;
    let (shown, consents_shown) = collected.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(PartOutcome::new(counted, shown, consents_shown, inquiry.ctx.trail.relied_on()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_in_one_partition_each() {
        let lengths =
            |last, size| -> Vec<u64> { everybody(RecordId(last), size).values().map(RoaringBitmap::len).collect() };
        assert_eq!(lengths(0, 4), [0_u64; 0]);
        assert_eq!(lengths(4, 4), [4]);
        assert_eq!(lengths(9, 4), [4, 4, 1]);
    }
}
