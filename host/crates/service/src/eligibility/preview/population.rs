//! Finds the subjects of a preview in the partitions of the register, at one snapshot.
//!
//! The register in memory is one partition. A register in a database has as many partitions as its size requires, of
//! which a few are evaluated concurrently.
//!
//! **Invariant:** every partition is read at the same snapshot, that of the preview.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt, stream};
use roaring::RoaringBitmap;

use super::breakdown::Counted;
use super::counting::{Counting, Listener, Spawned};
use super::facts::{Facts, View};
use super::partition::{LANES, PartedRegister};
use super::{Inquiry, Shown};
use crate::eligibility::failure::Failure;
use crate::registry::Registry;
use crate::visibility;
use daftar_domain::audit::Actor;
use daftar_domain::consent::ConsentId;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::record::RecordId;
use daftar_domain::search::SubjectQuery;
use daftar_domain::subject::Subject;
use daftar_index::{RowMarks, SearchLimits, Snapshot};
use daftar_store::index::Sees;
use daftar_store::snapshot::{Partition, ReadSnapshot, SnapshotReader};

/// The subjects of a preview, by partition.
#[async_trait::async_trait]
pub(super) trait Population: Send + Sync {
    /// Returns the number of subjects.
    fn len(&self) -> u64;

    /// Evaluates all subjects and returns the results of `sample` of them as the sample.
    ///
    /// # Errors
    /// Same as [`Ready::run`](super::Ready::run).
    async fn count(&self, inquiry: &Arc<Inquiry>, sample: u32, listener: &dyn Listener) -> Result<Counted, Failure>;
}

/// Finds the subjects of a preview in the current register.
///
/// # Errors
/// If the store fails.
pub(super) async fn find(
    ctx: &OpContext,
    registry: &Registry,
    query: &SubjectQuery,
) -> Result<Box<dyn Population>, AppError> {
    let in_memory = match (&registry.shared_index, &registry.parted) {
        (Some(index), _) => index.snapshot().await,
        (None, Some(_)) => None,
        (None, None) => Some((registry.columns.snapshot(), 0)),
    };
    Ok(match (in_memory, &registry.parted) {
        (Some((snapshot, layout)), _) => Box::new(InMemory::find(ctx, snapshot, layout, query)),
        (None, Some(register)) => {
            Box::new(Partitioned::find(register, query, visibility::sees(ctx), &ctx.actor).await?)
        }
        (None, None) => return Err(AppError::internal("there is no register to preview a rule over")),
    })
}

/// Subjects of a register in memory, which is one partition.
struct InMemory {
    view: View,
    rows: Arc<RowMarks>,
}

impl InMemory {
    fn find(ctx: &OpContext, snapshot: Arc<Snapshot>, layout: u64, query: &SubjectQuery) -> Self {
        let view = View::new(ctx, snapshot, Some(layout));
        let (people, groups) = (view.limits(Subject::Individual), view.limits(Subject::Group));
        let limits = match query.kind() {
            Subject::Individual => SearchLimits { records: people, groups },
            Subject::Group => SearchLimits { records: groups, groups: None },
        };
        let rows = view.snapshot.matching(query, limits);
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

/// Subjects of a register in a database, by partition.
struct Partitioned {
    parts: Parts,
    /// By partition number; each bitmap contains the positions in the partition.
    subjects: BTreeMap<u64, RoaringBitmap>,
    total: u64,
}

/// The partitions of the register at one snapshot.
#[derive(Clone)]
struct Parts {
    register: Arc<PartedRegister>,
    moment: Arc<dyn ReadSnapshot>,
    kind: Subject,
    /// The number of the preview.
    preview: u64,
}

/// The subjects of one partition.
struct Part {
    number: u64,
    /// Positions in the partition.
    subjects: RoaringBitmap,
    /// Positions of the sampled subjects, ascending.
    sample: Vec<u32>,
}

/// Results for the subjects of one partition, and the consents that cover the reported records.
struct PartOutcome {
    counted: Counted,
    shown: Vec<Shown>,
    consents: BTreeSet<ConsentId>,
}

/// Collects the reported subjects of a partition.
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
        let kind = query.kind();
        let size = register.partition_keys;
        let moment = register.source.snapshot(SnapshotReader::Preview(actor)).await?;
        let subjects = if query.has_no_conditions() && sees.is_none() {
            all_of(moment.last(kind.record_kind()).await?, size)
        } else {
            let mut subjects: BTreeMap<u64, RoaringBitmap> = BTreeMap::new();
            for id in moment.matching(query, sees).await? {
                let partition = Partition::of(kind, size, id);
                subjects.entry(partition.number).or_default().extend(partition.place_of(id));
            }
            subjects
        };
        let total = subjects.values().map(RoaringBitmap::len).sum();
        let parts = Parts { register: Arc::clone(register), moment, kind, preview: register.begin() };
        Ok(Self { parts, subjects, total })
    }

    /// Returns the subjects of each partition, with the sampled ones among them.
    fn cut(&self, sample: u32) -> Vec<Part> {
        let mut places = sample_places(self.total, sample).peekable();
        let mut before = 0_u64;
        let parts = self.subjects.iter().map(|(number, subjects)| {
            let end = before.saturating_add(subjects.len());
            let mut sampled = Vec::new();
            while let Some(place) = places.next_if(|place| *place < end) {
                let rank = u32::try_from(place.saturating_sub(before)).ok();
                sampled.extend(rank.and_then(|rank| subjects.select(rank)));
            }
            before = end;
            Part { number: *number, subjects: subjects.clone(), sample: sampled }
        });
        parts.collect()
    }
}

impl Parts {
    /// Evaluates the subjects of one partition.
    async fn count(self, inquiry: Arc<Inquiry>, part: Part) -> Result<PartOutcome, Failure> {
        let _lane = self.register.lane().await;
        let partition = Partition { kind: self.kind, size: self.register.partition_keys, number: part.number };
        let read = self.register.snapshot(&*self.moment, partition, self.preview).await;
        let (snapshot, layout) = read.map_err(AppError::from)?;
        let (first, end) = (partition.keys().start().0, partition.keys().end().0);
        let row_of = |place: u32| {
            let id = RecordId(first.saturating_add(u64::from(place)));
            match partition.kind {
                Subject::Individual => snapshot.row_of(id),
                Subject::Group => snapshot.group_row_of(id),
            }
        };
        let rows: Option<Vec<u32>> = part.subjects.iter().map(row_of).collect();
        let rows = rows.ok_or_else(|| AppError::internal("a subject that a search found is not in its partition"))?;
        let sample = part.sample.into_iter().filter_map(row_of).collect();
        let view = View::new(&inquiry.ctx, Arc::clone(&snapshot), layout);
        // Keys are consecutive. Keys after the end of the partition belong to records that refer to its subjects.
        let last = snapshot.last_of(partition.kind).map_or(0, |last| last.0.min(end));
        let all = last.saturating_add(1).saturating_sub(first);
        let facts = Arc::new(Facts::new(inquiry, view, part.subjects.len(), all));
        let collected = Collected::default();
        let rows = Arc::new(RowMarks::from_sorted(&rows));
        let counted = Counting { facts, rows, sample }.count(&collected).await?;
        let (shown, consents) = collected.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(PartOutcome { counted, shown, consents })
    }
}

#[async_trait::async_trait]
impl Population for Partitioned {
    fn len(&self) -> u64 {
        self.total
    }

    async fn count(&self, inquiry: &Arc<Inquiry>, sample: u32, listener: &dyn Listener) -> Result<Counted, Failure> {
        let count = |part| Spawned(tokio::spawn(self.parts.clone().count(Arc::clone(inquiry), part)));
        // Results are in the order of registration, independent of the number of concurrent partitions.
        let mut outcomes = std::pin::pin!(stream::iter(self.cut(sample)).map(count).buffered(LANES));
        let mut counted = Counted::default();
        while let Some(outcome) = outcomes.next().await {
            let outcome = outcome.map_err(|error| Failure::App(AppError::of_task(error)))??;
            let PartOutcome { counted: of_part, shown, consents } = outcome;
            listener.decided(of_part.counts.total).await?;
            if inquiry.question.tells_subjects {
                listener.shown(shown, consents.into_iter().collect()).await?;
            }
            counted.merge(of_part);
        }
        Ok(counted)
    }
}

/// Returns all keys up to the last, which are consecutive, in partitions of `size` keys.
fn all_of(last: RecordId, size: u32) -> BTreeMap<u64, RoaringBitmap> {
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

/// Returns the positions of the sample among `total` subjects, spread evenly, ascending.
fn sample_places(total: u64, sample: u32) -> impl Iterator<Item = u64> {
    let wanted = u64::from(sample);
    (0..wanted.min(total)).map(move |at| if total <= wanted { at } else { at * total / wanted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subject_is_in_one_partition() {
        let lengths =
            |last, size| -> Vec<u64> { all_of(RecordId(last), size).values().map(RoaringBitmap::len).collect() };
        assert_eq!(lengths(0, 4), [0_u64; 0]);
        assert_eq!(lengths(4, 4), [4]);
        assert_eq!(lengths(9, 4), [4, 4, 1]);
    }
}
