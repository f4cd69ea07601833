//! A preview on its way: its turns, and what comes together of them.

mod count;
mod trace;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::Sender;

pub(super) use self::count::{Counting, Teller};
pub(super) use self::trace::STREAMED;
use self::trace::Trace;
use super::super::decision::Decision;
use super::super::exhausted::Asked;
use super::super::failure::{Failure, unless_exhausted};
use super::counted::{Counted, OfRegion};
use super::facts::Facts;
use super::inquiry::Inquiry;
use super::parted::Parted;
use super::{Counts, Preview, PreviewEvent, REGIONS_MAX, Shown};
use crate::{audit, search};
use daftar_domain::address::REGION;
use daftar_domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::consent::ConsentId;
use daftar_domain::eligibility::{Diagnostic, Reference, Subject};
use daftar_domain::error::AppError;
use daftar_domain::group::{self, GroupDetails};
use daftar_domain::individual::{self, IndividualDetails};
use daftar_domain::person_name::search_phrase;
use daftar_domain::record::RecordId;
use daftar_domain::value::{Key, List, Part, Values};
use daftar_index::RowMarks;
use daftar_sandbox::EngineError;

/// The subjects of a turn where records are read, be it to tell who the subjects are.
const TURN_RECORDS: usize = 2_048;

/// Whom a preview is about, and where they are looked at.
pub(super) enum Subjects {
    /// Rows of the register in memory.
    Here(Arc<Facts>, Arc<RowMarks>),
    /// Keys of a register in partitions.
    Parted(Parted),
}

impl Subjects {
    fn len(&self) -> u64 {
        match self {
            Self::Here(_, rows) => rows.len(),
            Self::Parted(parted) => parted.len(),
        }
    }
}

/// A preview that is ready.
pub(super) struct Run {
    pub inquiry: Inquiry,
    pub subjects: Subjects,
    pub searched_by: Vec<String>,
    pub sample: u32,
    pub withheld: Vec<&'static str>,
    pub asked: Asked,
    pub decision: Decision,
    pub warnings: Vec<Diagnostic>,
    /// Whether the status of the answer is sent before it ends.
    pub is_streamed: bool,
}

/// Tells whoever listens, and writes down what is shown of each subject.
struct Listener<'r> {
    run: &'r Run,
    events: Option<&'r Sender<PreviewEvent>>,
    decided: AtomicU64,
    total: u64,
}

#[async_trait::async_trait]
impl Teller for Listener<'_> {
    async fn decided(&self, subjects: u64) -> Result<(), Failure> {
        let decided = self.decided.fetch_add(subjects, Ordering::Relaxed).saturating_add(subjects);
        tell(self.events, PreviewEvent::Progress(decided, self.total)).await
    }

    async fn told(&self, subjects: Vec<Shown>, consents: Vec<ConsentId>) -> Result<(), Failure> {
        let targets = subjects.iter().map(|shown| shown.subject.clone()).collect();
        let line = self.run.line_of(targets, "shown by a preview").with_consents(consents);
        let Inquiry { ctx, registry, .. } = &self.run.inquiry;
        registry.audit.record(ctx, line).await?;
        tell(self.events, PreviewEvent::Subjects(subjects)).await
    }
}

impl Run {
    /// Runs every turn, and writes down who was looked at.
    ///
    /// # Errors
    /// [`AppError::Expression`] when a budget is exhausted, [`AppError::Busy`], and when the store fails.
    pub async fn complete(self, events: Option<Sender<PreviewEvent>>) -> Result<Preview, AppError> {
        let Inquiry { ctx, registry, .. } = &self.inquiry;
        let mut trace = Trace { line: Some(self.line()), ctx: ctx.clone(), audit: registry.audit.clone() };
        let counted = unless_exhausted(ctx, registry, self.asked.clone(), self.count(events.as_ref())).await;
        let finished = match counted {
            Ok(counted) => self.finish(counted).await,
            Err(error) => Err(error),
        };
        trace.end(finished.as_ref()).await?;
        finished
    }

    async fn count(&self, events: Option<&Sender<PreviewEvent>>) -> Result<Counted, Failure> {
        let (inquiry, total) = (&self.inquiry, self.subjects.len());
        let listener = Listener { run: self, events, decided: AtomicU64::new(0), total };
        listener.decided(0).await?;
        match &self.subjects {
            Subjects::Here(facts, rows) => {
                let sample = sample_places(total, self.sample).filter_map(|place| rows.nth(place)).collect();
                let (facts, rows) = (Arc::clone(facts), Arc::clone(rows));
                Counting { inquiry, facts, rows, sample }.count(&listener).await
            }
            Subjects::Parted(parted) => parted.count(inquiry, self.sample, &listener).await,
        }
    }

    async fn finish(&self, counted: Counted) -> Result<Preview, AppError> {
        let Counted { counts, by_gender, by_age_band, by_region, missing, sample } = counted;
        let is_withheld = |name: &str| self.withheld.contains(&name);
        let by_region =
            if self.inquiry.breakdowns.by_region { Some(self.told_by_region(by_region).await?) } else { None };
        let generation = &self.inquiry.generation;
        // Those without a value, which sort first, are told last.
        let mut by_gender: Vec<_> = by_gender.into_iter().collect();
        by_gender.sort_by_key(|(gender, _)| {
            (gender.is_none(), gender.and_then(|number| generation.code_texts(number)).map(|texts| texts.code))
        });
        let mut by_age_band: Vec<_> = by_age_band.into_iter().collect();
        by_age_band.sort_by_key(|(band, _)| (band.is_none(), *band));
        let mut missing: Vec<(String, u64)> = missing.into_iter().collect();
        missing.sort_by(|(one, of_one), (other, of_other)| of_other.cmp(of_one).then_with(|| one.cmp(other)));
        Ok(Preview {
            counts,
            by_gender: (!is_withheld("by_gender")).then_some(by_gender),
            by_age_band: (!is_withheld("by_age_band")).then_some(by_age_band),
            by_region,
            missing,
            sample,
            withheld: self.withheld.clone(),
            decision: self.decision.clone(),
            warnings: self.warnings.clone(),
            generation: Arc::clone(generation),
        })
    }

    /// The regions with most subjects, then those without one.
    async fn told_by_region(
        &self,
        mut by_region: BTreeMap<Option<String>, OfRegion>,
    ) -> Result<Vec<(Option<String>, Counts)>, AppError> {
        let without = by_region.remove(&None);
        let mut regions: Vec<(String, OfRegion)> =
            by_region.into_iter().filter_map(|(phrase, of_region)| Some((phrase?, of_region))).collect();
        regions.sort_by(|one, other| other.1.counts.total.cmp(&one.1.counts.total).then_with(|| one.0.cmp(&other.0)));
        regions.truncate(REGIONS_MAX);
        let mut told = Vec::with_capacity(regions.len() + 1);
        for (phrase, OfRegion { first, counts }) in regions {
            told.push((Some(self.spelt(first, phrase).await?), counts));
        }
        told.extend(without.map(|OfRegion { counts, .. }| (None, counts)));
        Ok(told)
    }

    /// A region as that record spells it.
    async fn spelt(&self, record: RecordId, phrase: String) -> Result<String, AppError> {
        let store = &self.inquiry.registry.store;
        let spelt = match self.inquiry.kind {
            Subject::Individual => {
                let person = store.find::<IndividualDetails>(record).await?;
                person.and_then(|person| spelling(&person.details, individual::ADDRESS, &phrase))
            }
            Subject::Group => {
                let group = store.find::<GroupDetails>(record).await?;
                group.and_then(|group| spelling(&group.details, group::ADDRESS, &phrase))
            }
        };
        // The record may have moved since: then the region is told as it is compared.
        Ok(spelt.unwrap_or(phrase))
    }

    /// The line of the whole preview, its sample not yet in it.
    fn line(&self) -> AuditEntry {
        let by = search::note(self.searched_by.clone(), &[]);
        let note = format!("a preview over {} subjects, {by}", self.subjects.len());
        let mut line = self.line_of(Vec::new(), &note);
        line.outcome = AuditOutcome::Failed;
        line
    }

    fn line_of(&self, targets: Vec<String>, note: &str) -> AuditEntry {
        let line = audit::entry(&self.inquiry.ctx, AuditAction::Evaluate, AuditOutcome::Allowed, targets);
        let line = line.with_fields(self.inquiry.references.iter().map(Reference::name)).with_note(note);
        if self.is_streamed { line.with_status(STREAMED) } else { line }
    }
}

/// How a record spells a region in one of its addresses.
fn spelling(details: &Values, addresses: Key<List<Part>>, phrase: &str) -> Option<String> {
    let mut regions = details.items(addresses).filter_map(|address| address.get(REGION));
    regions.find(|region| search_phrase(region) == phrase).map(str::to_owned)
}

/// The places of the sample among so many subjects, spread evenly, ascending.
pub(super) fn sample_places(total: u64, sample: u32) -> impl Iterator<Item = u64> {
    let wanted = u64::from(sample);
    (0..wanted.min(total)).map(move |at| if total <= wanted { at } else { at * total / wanted })
}

/// Tells how far it is, if somebody listens; whoever listened and left ends it.
async fn tell(events: Option<&Sender<PreviewEvent>>, event: PreviewEvent) -> Result<(), Failure> {
    match events {
        Some(events) => events.send(event).await.map_err(|_| Failure::Engine(EngineError::Abandoned)),
        None => Ok(()),
    }
}
