//! A preview over a register in partitions: this process works on them, and so does whichever other process has time.
//!
//! **Invariant:** every partition is seen as it stood at one moment, the preview's, whichever process looks at it and when.
//!
//! **Invariant:** what a process that ends leaves unfinished is taken up by another; nothing is counted twice.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use roaring::RoaringBitmap;

use super::Shown;
use super::counted::Counted;
use super::crossing::{OtherVersion, PartOutcome, PartTask, Task};
use super::inquiry::Inquiry;
use super::partition::PartedRegister;
use super::run::{Counting, Teller, sample_places};
use crate::eligibility::failure::Failure;
use crate::visibility;
use daftar_domain::audit::Actor;
use daftar_domain::consent::ConsentId;
use daftar_domain::context::trail::{Trail, TrailOf};
use daftar_domain::error::AppError;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::search::SubjectQuery;
use daftar_domain::subject::Subject;
use daftar_index::RowMarks;
use daftar_store::index::Sees;
use daftar_store::partition::{JobId, Moment, Partition, Wanted};

/// After this time it is looked for outcomes again, whether or not something was heard of it.
const LOOKED_AGAIN: Duration = Duration::from_millis(200);

/// The subjects of a preview, partition by partition, at one moment.
pub(super) struct Parted {
    register: Arc<PartedRegister>,
    moment: Arc<dyn Moment>,
    kind: Subject,
    /// By the number of the partition, by place in it.
    subjects: BTreeMap<u64, RoaringBitmap>,
    total: u64,
}

/// A job that is taken down when it is dropped.
struct Posted {
    register: Arc<PartedRegister>,
    job: JobId,
}

impl Drop for Posted {
    fn drop(&mut self) {
        let (register, job) = (Arc::clone(&self.register), self.job);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            // The store takes down by itself what nobody holds any more.
            if let Err(error) = register.withdraw(job).await {
                tracing::debug!(error = %error, "a preview that is over could not be withdrawn");
            }
        });
    }
}

/// Keeps what is told of the subjects of a part.
#[derive(Default)]
struct Collected(Mutex<(Vec<Shown>, BTreeSet<ConsentId>)>);

#[async_trait::async_trait]
impl Teller for Collected {
    async fn decided(&self, _: u64) -> Result<(), Failure> {
        Ok(())
    }

    async fn told(&self, subjects: Vec<Shown>, consents: Vec<ConsentId>) -> Result<(), Failure> {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        collected.0.extend(subjects);
        collected.1.extend(consents);
        Ok(())
    }
}

impl Parted {
    /// Finds whom a preview is about, as the register stands now.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find(
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

    /// How many subjects.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Decides about all of them.
    ///
    /// # Errors
    /// As a preview as a whole.
    pub async fn count(&self, inquiry: &Inquiry, sample: u32, teller: &dyn Teller) -> Result<Counted, Failure> {
        let parts = self.parts(sample)?;
        let task =
            Task::of(inquiry, self.moment.name(), self.register.partitions.partition_keys()).put().map_err(defect)?;
        let job = self.register.post(task, parts).await.map_err(AppError::from)?;
        let posted = Posted { register: Arc::clone(&self.register), job };
        let lanes = try_join_all((0..self.register.lanes()).map(|_| self.work(inquiry, job)));
        // Lanes go on for as long as parts may come back that another process left unfinished.
        let counted = tokio::select! {
            counted = self.collect(inquiry, job, teller) => counted,
            Err(failure) = lanes => Err(failure),
        };
        drop(posted);
        counted
    }

    /// The parts: the subjects of each partition, and those of the sample among them.
    fn parts(&self, sample: u32) -> Result<Vec<(u64, Vec<u8>)>, AppError> {
        let mut places = sample_places(self.total, sample).peekable();
        let mut before = 0_u64;
        let mut parts = Vec::with_capacity(self.subjects.len());
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
            parts.push((*number, PartTask { subjects: bitmap, sample: sampled }.put().map_err(defect)?));
        }
        Ok(parts)
    }

    /// Works on parts that nobody else works on, for as long as there may be any.
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
            let partition =
                Partition { kind: self.kind, size: self.register.partitions.partition_keys(), number: claim.number };
            let part = PartTask::take(&claim.part).map_err(defect)?;
            let outcome = count_part(&self.register, &*self.moment, inquiry, partition, part).await?;
            claim.finish(outcome.put().map_err(defect)?).await.map_err(AppError::from)?;
            drop(lane);
        }
    }

    /// Adds up what is finished, and tells of it in the order of registration.
    async fn collect(&self, inquiry: &Inquiry, job: JobId, teller: &dyn Teller) -> Result<Counted, Failure> {
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
                let outcome = PartOutcome::take(&outcome).map_err(defect)?;
                teller.decided(outcome.counted.counts.total).await?;
                waiting.insert(number, outcome);
            }
            while let Some(outcome) = next.peek().and_then(|number| waiting.remove(number)) {
                next.next();
                inquiry.ctx.trail.relies_on(&outcome.consents);
                if inquiry.tells_subjects {
                    teller.told(outcome.told, outcome.consents_told.into_iter().collect()).await?;
                }
                counted.merge(outcome.counted);
            }
        }
        Ok(counted)
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

/// Decides about subjects of one partition.
///
/// # Errors
/// As a preview as a whole.
pub(super) async fn count_part(
    register: &PartedRegister,
    moment: &dyn Moment,
    inquiry: &Inquiry,
    partition: Partition,
    PartTask { subjects, sample }: PartTask,
) -> Result<PartOutcome, Failure> {
    let subjects = RoaringBitmap::deserialize_from(subjects.as_slice()).map_err(|_| defect(OtherVersion))?;
    let mut inquiry = inquiry.clone();
    // What a part relies on is told apart, wherever it is decided.
    inquiry.ctx.trail = Trail::new(TrailOf {
        request_id: Arc::clone(&inquiry.ctx.request_id),
        operation: "part of a preview".into(),
        address: None,
        success_status: 200,
    });
    let snapshot = register.snapshot(moment, partition).await.map_err(AppError::from)?;
    let [people, groups] =
        [RecordKind::Individual, RecordKind::Group].map(|kind| visibility::limits(&inquiry.ctx, &snapshot, kind));
    let first = partition.keys().start().0;
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
    let facts = Arc::new(inquiry.facts(Arc::clone(&snapshot), people, groups));
    let collected = Collected::default();
    let counting = Counting { inquiry: &inquiry, facts, rows: Arc::new(RowMarks::from_sorted(&rows)), sample };
    let counted = counting.count(&collected).await?;
    let (told, consents_told) = collected.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(PartOutcome { counted, told, consents_told, consents: inquiry.ctx.trail.relied_on() })
}

/// What this process wrote itself it can read.
pub(super) fn defect(error: OtherVersion) -> AppError {
    AppError::Internal(error.into())
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
