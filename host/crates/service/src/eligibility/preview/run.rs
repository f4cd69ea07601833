//! Runs a preview: sends events to its client, assembles the result, and writes the audit entry.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;

use super::breakdown::{Counted, Counts, OfRegion};
use super::comparison::{self, Moved};
use super::counting::Listener;
use super::population::Population;
use super::{Inquiry, REGIONS_MAX};
use crate::audit::AuditLog;
use crate::eligibility::decision::Decision;
use crate::eligibility::failure::{Failure, RequestIdentity, unless_exhausted};
use crate::{audit, search, subjects};
use daftar_domain::address::REGION;
use daftar_domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::change::Details;
use daftar_domain::code::CodeNumber;
use daftar_domain::consent::ConsentId;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{Diagnostic, Reference, RowOutcome, Subject, Verdict};
use daftar_domain::error::AppError;
use daftar_domain::fair::Slot;
use daftar_domain::group::{self, GroupRecord};
use daftar_domain::individual::{self, IndividualRecord};
use daftar_domain::person_name::search_phrase;
use daftar_domain::record::{Fields, RecordId};
use daftar_domain::subject::SubjectReference;
use daftar_domain::value::{Key, List, Part};
use daftar_sandbox::EngineError;
use daftar_vocabulary::Generation;

/// Status in the audit log if the client disconnected.
const CALLER_LEFT: u16 = 499;
/// Status of a response that is streamed.
const STREAMED: u16 = 200;

/// Progress of a preview for the client.
#[derive(Debug)]
pub enum PreviewEvent {
    /// Number of evaluated subjects, and of all subjects.
    Progress(u64, u64),
    /// Results for some subjects, in the order of registration.
    Subjects(Vec<Shown>),
}

/// Result for a reported subject.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Reference of the subject. Personal data.
    pub subject: String,
    /// Outcome of the rule.
    pub outcome: RowOutcome,
    /// Outcome of the compared rule.
    pub compared: Option<Verdict>,
}

/// The part of a comparison that is not in the counts.
#[derive(Debug)]
pub struct Comparison {
    /// Subjects that the second rule makes eligible and the first does not: the first ones, as many as the sample.
    pub gained: Vec<MovedSubject>,
    /// Subjects that the first rule makes eligible and the second does not.
    pub lost: Vec<MovedSubject>,
    /// Warnings about the second rule.
    pub warnings: Vec<Diagnostic>,
}

/// A subject whose eligibility differs between the rules.
#[derive(Debug, Clone)]
pub struct MovedSubject {
    /// Reference of the subject. Personal data.
    pub subject: String,
    /// Outcomes of the first and the second rule.
    pub outcomes: (Verdict, Verdict),
}

/// Result of a preview. A breakdown that the client may not read is `None`.
#[derive(Debug)]
pub struct Preview {
    /// All subjects.
    pub counts: Counts,
    /// By gender; subjects without one last. Empty for groups.
    pub by_gender: Option<Vec<(Option<CodeNumber>, Counts)>>,
    /// By index in [`super::AGE_BANDS`]; subjects of unknown age last. Empty for groups.
    pub by_age_band: Option<Vec<(Option<usize>, Counts)>>,
    /// By region, in descending order of the number of subjects; subjects without a region last.
    pub by_region: Option<Vec<(Option<String>, Counts)>>,
    /// The missing facts that prevent a decision, with the number of subjects, in descending order.
    pub missing: Vec<(String, u64)>,
    /// The sample: subjects spread evenly in the order of registration.
    pub sample: Vec<Shown>,
    /// The comparison with a second rule.
    pub comparison: Option<Comparison>,
    /// Names of the breakdowns that are withheld from the client.
    pub withheld: Vec<&'static str>,
    /// Inputs of the decision, for a repetition. Names no records.
    pub decision: Decision,
    /// Warnings about the rule.
    pub warnings: Vec<Diagnostic>,
    /// The vocabularies with which the rule was evaluated.
    pub generation: Arc<Generation>,
}

impl Preview {
    /// Returns the references of the subjects in the response, each once.
    fn shown(&self) -> Vec<String> {
        let moved = self.comparison.iter().flat_map(|comparison| comparison.gained.iter().chain(&comparison.lost));
        let sample = self.sample.iter().map(|shown| &shown.subject);
        let mut shown: Vec<String> = Vec::new();
        for subject in sample.chain(moved.map(|moved| &moved.subject)) {
            if !shown.contains(subject) {
                shown.push(subject.clone());
            }
        }
        shown
    }
}

/// A preview that is ready to run: its rule is valid and the client may evaluate it.
pub struct Ready {
    pub(super) inquiry: Arc<Inquiry>,
    pub(super) population: Box<dyn Population>,
    pub(super) searched_by: Vec<String>,
    pub(super) sample: u32,
    pub(super) withheld: Vec<&'static str>,
    pub(super) requested: RequestIdentity,
    /// True if the status of the response is sent before the preview ends.
    pub(super) is_streamed: bool,
    /// Slot of the preview, released when the preview ends.
    pub(super) _admitted: Slot<Actor>,
}

/// Sends events to the client, and records the reported subjects in the audit log.
struct Reporter<'r> {
    run: &'r Ready,
    events: Option<Sender<PreviewEvent>>,
    decided: AtomicU64,
}

impl Reporter<'_> {
    /// Sends an event if the client requested events. Returns an error if the client disconnected, which ends the
    /// preview.
    async fn send(&self, event: PreviewEvent) -> Result<(), Failure> {
        match &self.events {
            Some(events) => events.send(event).await.map_err(|_| Failure::Engine(EngineError::Abandoned)),
            None => Ok(()),
        }
    }
}

#[async_trait::async_trait]
impl Listener for Reporter<'_> {
    async fn decided(&self, subjects: u64) -> Result<(), Failure> {
        let decided = self.decided.fetch_add(subjects, Ordering::Relaxed).saturating_add(subjects);
        self.send(PreviewEvent::Progress(decided, self.run.population.len())).await
    }

    async fn shown(&self, subjects: Vec<Shown>, consents: Vec<ConsentId>) -> Result<(), Failure> {
        let targets = subjects.iter().map(|shown| shown.subject.clone()).collect();
        let entry = self.run.entry_of(targets, "shown by a preview").with_consents(consents);
        let Inquiry { ctx, registry, .. } = &*self.run.inquiry;
        registry.audit.record(ctx, entry).await?;
        self.send(PreviewEvent::Subjects(subjects)).await
    }
}

impl Ready {
    /// Runs the preview, reports its progress and, if requested, the result for each subject, and writes its audit
    /// entry.
    ///
    /// # Errors
    /// [`AppError::Expression`] if a budget is exhausted, [`AppError::Busy`], and an error if the store fails.
    pub async fn run(self, events: Option<Sender<PreviewEvent>>) -> Result<Preview, AppError> {
        let Inquiry { ctx, registry, .. } = &*self.inquiry;
        let mut trace = Trace { entry: Some(self.entry()), ctx: ctx.clone(), audit: registry.audit.clone() };
        let counting = async {
            let reporter = Reporter { run: &self, events, decided: AtomicU64::new(0) };
            reporter.decided(0).await?;
            self.population.count(&self.inquiry, self.sample, &reporter).await
        };
        let finished = match unless_exhausted(ctx, registry, self.requested.clone(), counting).await {
            Ok(counted) => self.finish(counted).await,
            Err(error) => Err(error),
        };
        trace.end(finished.as_ref()).await?;
        finished
    }

    async fn finish(&self, counted: Counted) -> Result<Preview, AppError> {
        let Counted { counts, by_gender, by_age_band, by_region, missing, sample, moved } = counted;
        let Inquiry { question, generation, decision, warnings, .. } = &*self.inquiry;
        let is_withheld = |name: &str| self.withheld.contains(&name);
        let by_region = if question.breakdowns.by_region { Some(self.largest(by_region).await?) } else { None };
        // `None` sorts first, but subjects without a value are listed last.
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
            comparison: self.compared(moved).await?,
            withheld: self.withheld.clone(),
            decision: decision.clone(),
            warnings: warnings.clone(),
            generation: Arc::clone(generation),
        })
    }

    /// Returns the comparison with the second rule, with as many subjects as the sample.
    async fn compared(&self, moved: Moved) -> Result<Option<Comparison>, AppError> {
        let Some(compared) = &self.inquiry.compared else { return Ok(None) };
        let (gained, lost) = (self.moved(moved.gained).await?, self.moved(moved.lost).await?);
        Ok(Some(Comparison { gained, lost, warnings: compared.warnings.clone() }))
    }

    async fn moved(&self, subjects: Vec<comparison::MovedSubject>) -> Result<Vec<MovedSubject>, AppError> {
        let (kind, store) = (self.inquiry.question.kind, &self.inquiry.registry.store);
        let mut moved = Vec::new();
        for comparison::MovedSubject { id, outcomes } in subjects.into_iter().take(self.sample as usize) {
            let subject = subjects::called(&**store, SubjectReference { kind, id }).await?;
            moved.push(MovedSubject { subject, outcomes });
        }
        Ok(moved)
    }

    /// Returns the regions with the most subjects, followed by the count of subjects without a region.
    async fn largest(
        &self,
        mut by_region: BTreeMap<Option<String>, OfRegion>,
    ) -> Result<Vec<(Option<String>, Counts)>, AppError> {
        let without = by_region.remove(&None);
        let mut regions: Vec<(String, OfRegion)> =
            by_region.into_iter().filter_map(|(phrase, of_region)| Some((phrase?, of_region))).collect();
        regions.sort_by(|one, other| other.1.counts.total.cmp(&one.1.counts.total).then_with(|| one.0.cmp(&other.0)));
        regions.truncate(REGIONS_MAX);
        let mut largest = Vec::with_capacity(regions.len() + 1);
        for (phrase, OfRegion { first, counts }) in regions {
            let spelt = match self.inquiry.question.kind {
                Subject::Individual => self.spelt::<IndividualRecord>(first, individual::ADDRESS, &phrase).await?,
                Subject::Group => self.spelt::<GroupRecord>(first, group::ADDRESS, &phrase).await?,
            };
            // If the address of the record has changed since, the region is reported in its normalized form.
            largest.push((Some(spelt.unwrap_or(phrase)), counts));
        }
        largest.extend(without.map(|OfRegion { counts, .. }| (None, counts)));
        Ok(largest)
    }

    /// Returns a region as a record spells it in one of its addresses.
    async fn spelt<T>(
        &self,
        record: RecordId,
        addresses: Key<List<Part>>,
        phrase: &str,
    ) -> Result<Option<String>, AppError>
    where
        Fields<T>: Details,
    {
        let Some(record) = self.inquiry.registry.store.find::<Fields<T>>(record).await? else { return Ok(None) };
        let mut regions = record.details.values.items(addresses).filter_map(|address| address.get(REGION));
        Ok(regions.find(|region| search_phrase(region) == phrase).map(str::to_owned))
    }

    /// Returns the audit entry of the complete preview, without the sample.
    fn entry(&self) -> AuditEntry {
        let by = search::note(self.searched_by.clone(), &[]);
        let note = format!("a preview over {} subjects, {by}", self.population.len());
        let mut entry = self.entry_of(Vec::new(), &note);
        entry.outcome = AuditOutcome::Failed;
        entry
    }

    fn entry_of(&self, targets: Vec<String>, note: &str) -> AuditEntry {
        let entry = audit::entry(&self.inquiry.ctx, AuditAction::Evaluate, AuditOutcome::Allowed, targets);
        let entry = entry.with_fields(self.inquiry.references.iter().map(Reference::name)).with_note(note);
        if self.is_streamed { entry.with_status(STREAMED) } else { entry }
    }
}

/// Returns the context of work that continues after the response has started. Its audit entries are written
/// immediately, and its consents are collected separately from those of the request.
pub(super) fn outliving(ctx: &OpContext) -> OpContext {
    let trail = ctx.trail.of_part(&ctx.trail.operation().unwrap_or_default(), STREAMED);
    let _nothing_was_collected_yet = trail.end(ctx.now, STREAMED, None);
    OpContext { trail, ..ctx.clone() }
}

/// The audit entry of a preview, written when the preview ends or is dropped.
struct Trace {
    entry: Option<AuditEntry>,
    ctx: OpContext,
    audit: AuditLog,
}

impl Trace {
    /// Writes the entry of a preview that ended with a result or an error.
    async fn end(&mut self, finished: Result<&Preview, &AppError>) -> Result<(), AppError> {
        let Some(mut entry) = self.entry.take() else { return Ok(()) };
        match finished {
            Ok(preview) => {
                entry.outcome = AuditOutcome::Allowed;
                entry.targets = preview.shown();
                entry.consents = self.ctx.trail.relied_on();
            }
            Err(AppError::Expression(_)) => entry.outcome = AuditOutcome::Refused,
            Err(_) => entry.outcome = AuditOutcome::Failed,
        }
        self.audit.record(&self.ctx, entry).await
    }
}

impl Drop for Trace {
    /// Writes the entry of a preview that was started and whose client disconnected.
    fn drop(&mut self) {
        let Some(entry) = self.entry.take() else { return };
        // If the request is still collecting entries, the error that ends the request states the reason.
        let Err(entry) = self.ctx.trail.collect(entry) else { return };
        let entry = entry.with_status(CALLER_LEFT).with_reason("the caller left before the preview was at its end");
        let (audit, Ok(runtime)) = (self.audit.clone(), Handle::try_current()) else { return };
        runtime.spawn(async move {
            if let Err(error) = audit.record_now(vec![entry]).await {
                tracing::error!(error = %error, "a preview whose caller left could not be audited");
            }
        });
    }
}
