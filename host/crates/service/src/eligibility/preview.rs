//! Evaluates a rule over everybody whom a search finds: how many are eligible, who they are, and what is missing.
//!
//! It is done in turns of a bounded number of subjects, each with a rule of its own in the sandbox, on as many plugin threads as background work
//! may take. Whose turn it is, the desk says (`preview/desk.rs`).
//!
//! **Invariant:** a preview sees one register from its beginning to its end, one generation of vocabularies and one engine.
//!
//! **Invariant:** what it keeps in memory does not grow with the register, but for a few bits a subject.
//!
//! **Invariant:** whoever stops waiting for it ends it: no turn begins any more, and one that runs ends after its batch.

mod counted;
mod crossing;
pub mod desk;
mod facts;
mod households;
mod inquiry;
mod kept;
mod parted;
mod partition;
mod run;
mod share;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::civil::Date;
use tokio::sync::mpsc::Sender;

pub use self::kept::{KeptColumns, KeptUsage};
pub use self::partition::{PartedRegister, PartitionUsage};
pub use self::share::Sharing;
pub use self::tally::{AGE_BANDS, Counts};

use self::desk::{Place, PreviewDesk};
use self::facts::{BATCH_ROWS_MAX, Facts, Keeping};
use self::inquiry::Inquiry;
use self::parted::Parted;
use self::run::{Run, STREAMED, Subjects};
use self::tally::Breakdowns;
use super::access;
use super::check::codes_of;
use super::decision::{self, Decision, expression_digest};
use super::exhausted::Asked;
use super::failure::{Failure, refused, unless_exhausted};
use super::load::HOUSEHOLD;
use super::questions;
use super::schema::schema;
use crate::group::{self, GroupSearchRequest};
use crate::individual::{self, SearchRequest};
use crate::registry::Registry;
use crate::{open, visibility};
use daftar_domain::calendar::utc_day;
use daftar_domain::code::{CodeNumber, CodeUri};
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{Diagnostic, Reference, RowError, Schema, Subject, Verdict};
use daftar_domain::error::{AppError, FieldUse};
use daftar_domain::record::RecordKind;
use daftar_domain::scope::{Action, Resource, Scope};
use daftar_domain::search::SubjectQuery;
use daftar_index::{RowLimits, RowMarks, SearchLimits, Snapshot};
use daftar_sandbox::{EligibilityEngine, RuleRequest, RuleSession, run_rule};
use daftar_vocabulary::Generation;

/// The most subjects that a preview shows as a sample.
pub const SAMPLE_MAX: u32 = 100;
/// The most regions that are told apart: those with the most subjects.
pub const REGIONS_MAX: usize = 1_000;

/// Among whom.
#[derive(Debug, Clone)]
pub enum Among {
    /// People.
    Individuals(SearchRequest),
    /// Groups.
    Groups(GroupSearchRequest),
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct PreviewRequest {
    /// The rule.
    pub expression: String,
    /// Whom it is asked about.
    pub among: Among,
    /// How many subjects are shown.
    pub sample: u32,
    /// On which day; today, where absent.
    pub as_of: Option<Date>,
    /// Whether its events are sent as they come, and it goes on after the request was answered.
    pub is_streamed: bool,
    /// Whether the outcome of each subject is among the events.
    pub tells_subjects: bool,
}

/// What is told while a preview goes on.
#[derive(Debug)]
pub enum PreviewEvent {
    /// How many subjects of how many have been decided.
    Progress(u64, u64),
    /// What the rule says of some subjects, in the order of registration.
    Subjects(Vec<Shown>),
}

/// What the rule says of a subject that is shown.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Its reference. Personal data.
    pub subject: String,
    /// The outcome.
    pub verdict: Verdict,
    /// The facts that would decide, sorted.
    pub missing: Vec<String>,
    /// What went wrong while it was evaluated.
    pub errors: Vec<RowError>,
}

/// The answer. A breakdown that the client may not see is absent.
#[derive(Debug)]
pub struct Preview {
    /// All subjects.
    pub counts: Counts,
    /// By gender, those without one last; nothing for groups.
    pub by_gender: Option<Vec<(Option<CodeNumber>, Counts)>>,
    /// By place in [`AGE_BANDS`], those whose age is not known last; nothing for groups.
    pub by_age_band: Option<Vec<(Option<usize>, Counts)>>,
    /// By region, the one with most subjects first, those without one last.
    pub by_region: Option<Vec<(Option<String>, Counts)>>,
    /// The facts that would decide, the one that most subjects miss first.
    pub missing: Vec<(String, u64)>,
    /// Some subjects, spread evenly in the order of registration.
    pub sample: Vec<Shown>,
    /// The breakdowns that are left out, by name.
    pub withheld: Vec<&'static str>,
    /// What is needed to repeat it: no records are named.
    pub decision: Decision,
    /// What is doubtful about the rule.
    pub warnings: Vec<Diagnostic>,
    /// The vocabularies that it was made with.
    pub generation: Arc<Generation>,
}

/// What previews are made with.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    /// Decides.
    pub engine: &'a Arc<dyn EligibilityEngine>,
    /// Says whose turn it is.
    pub desk: &'a Arc<PreviewDesk>,
    /// What was read of records before.
    pub kept: &'a Arc<KeptColumns>,
}

/// A preview whose rule is sound and may be asked, ready to be run.
pub struct Ready {
    run: Run,
    place: Place,
}

/// What is known of a rule before anybody is looked at.
struct Setting {
    references: Vec<Reference>,
    generation: Arc<Generation>,
    warnings: Vec<Diagnostic>,
    decision: Decision,
}

/// Makes a preview ready: the rule is compiled and checked, whom it is about is found.
///
/// # Errors
/// [`AppError::Expression`] when the rule is wrong or exhausts a budget, [`AppError::MissingScope`] and [`AppError::FieldNotGranted`] when
/// it reads what the client may not, [`AppError::Busy`] when there are too many previews, [`AppError::NoEngine`].
pub async fn prepare(
    ctx: &OpContext,
    registry: &Registry,
    Means { engine, desk, kept }: Means<'_>,
    request: PreviewRequest,
) -> Result<Ready, AppError> {
    let engine_name = engine.engine_name().ok_or(AppError::NoEngine)?;
    let (kind, resource) = match &request.among {
        Among::Individuals(_) => (Subject::Individual, Resource::Individual),
        Among::Groups(_) => (Subject::Group, Resource::Group),
    };
    if !ctx.holds(resource, Action::Read) {
        let required = Scope::new(resource, Action::Read).to_string();
        return Err(AppError::MissingScope { required, granted: ctx.scopes.clone() });
    }
    let place = desk.enter(&ctx.actor)?;
    let (query, fields) = match request.among {
        Among::Individuals(search) => {
            let (query, fields) = individual::asked(ctx, registry, search).await?;
            (SubjectQuery::Individuals(query), fields)
        }
        Among::Groups(search) => {
            let (query, fields) = group::asked(ctx, registry, search).await?;
            (SubjectQuery::Groups(query), fields)
        }
    };
    let found = match &registry.parted {
        Some(parted) => Found::Parted(Parted::find(parted, &query, visibility::sees(ctx), &ctx.actor).await?),
        None => Found::Here(Here::find(ctx, registry, &query)),
    };
    let schema = Arc::new(schema(kind, registry.vocabularies.current().extension_fields()));
    let as_of = request.as_of.unwrap_or_else(|| utc_day(ctx.now));
    let asked = Asked {
        expression_digest: expression_digest(&request.expression),
        under: format!("preview of {kind:?} {engine_name}"),
        // A batch is what has a budget.
        subjects: usize::try_from(found.len()).unwrap_or(usize::MAX).min(BATCH_ROWS_MAX),
    };
    let described = {
        let (ctx, registry, schema) = (ctx.clone(), registry.clone(), schema.clone());
        let expression = request.expression.clone();
        move |session: &mut dyn RuleSession| setting(&ctx, &registry, &schema, &expression, as_of, session)
    };
    let rule = RuleRequest { actor: ctx.actor.clone(), expression: request.expression.clone(), schema: schema.clone() };
    let compiled = async { run_rule(engine.as_ref(), rule, described).await? };
    let setting = unless_exhausted(ctx, registry, asked.clone(), compiled).await?;
    let household = CodeUri::parse(HOUSEHOLD).ok().and_then(|uri| setting.generation.number_of(&uri));
    let (breakdowns, withheld) = breakdowns(ctx, kind);
    let inquiry = Inquiry {
        ctx: if request.is_streamed { outliving(ctx) } else { ctx.clone() },
        registry: registry.clone(),
        engine: Arc::clone(engine),
        engine_name: setting.decision.engine.clone(),
        desk: Arc::clone(desk),
        generation: setting.generation,
        expression: request.expression,
        schema,
        references: setting.references,
        kind,
        as_of,
        household: household.map(|number| number.0),
        breakdowns,
        tells_subjects: request.tells_subjects,
    };
    let subjects = match found {
        Found::Parted(parted) => Subjects::Parted(parted),
        Found::Here(Here { rows, snapshot, people, groups }) => {
            let mut facts = inquiry.facts(snapshot, people, groups);
            facts.keeping = keeping(&facts, rows.len(), kept);
            Subjects::Here(Arc::new(facts), Arc::new(rows))
        }
    };
    let run = Run {
        inquiry,
        subjects,
        searched_by: fields,
        sample: request.sample.min(SAMPLE_MAX),
        withheld,
        asked,
        decision: setting.decision,
        warnings: setting.warnings,
        is_streamed: request.is_streamed,
    };
    Ok(Ready { run, place })
}

impl Ready {
    /// Runs it, and tells meanwhile how far it is and, where that is asked for, what the rule says of each subject.
    ///
    /// # Errors
    /// [`AppError::Expression`] when a budget is exhausted, [`AppError::Busy`], and when the store fails.
    pub async fn run(self, events: Option<Sender<PreviewEvent>>) -> Result<Preview, AppError> {
        let Self { run, place } = self;
        let preview = run.complete(events).await;
        drop(place);
        preview
    }
}

/// The context of work that goes on after its request was answered: its audit entries are written as they come, and what it relies on is
/// collected by itself.
fn outliving(ctx: &OpContext) -> OpContext {
    let trail = ctx.trail.of_part(&ctx.trail.operation().unwrap_or_default(), STREAMED);
    let _nothing_was_collected_yet = trail.end(ctx.now, STREAMED, None);
    OpContext { trail, ..ctx.clone() }
}

/// Whom a preview is about.
enum Found {
    Here(Here),
    Parted(Parted),
}

impl Found {
    fn len(&self) -> u64 {
        match self {
            Self::Here(here) => here.rows.len(),
            Self::Parted(parted) => parted.len(),
        }
    }
}

/// Subjects by row of the register in memory at one moment.
struct Here {
    rows: RowMarks,
    snapshot: Arc<Snapshot>,
    /// Which people exist for the client; all, where absent.
    people: Option<Arc<RowLimits>>,
    /// Which groups exist for the client; all, where absent.
    groups: Option<Arc<RowLimits>>,
}

impl Here {
    fn find(ctx: &OpContext, registry: &Registry, query: &SubjectQuery) -> Self {
        let snapshot = registry.columns.snapshot();
        let [people, groups] =
            [RecordKind::Individual, RecordKind::Group].map(|kind| visibility::limits(ctx, &snapshot, kind));
        let rows = match query {
            SubjectQuery::Individuals(query) => {
                snapshot.matching(query, SearchLimits { records: people.as_deref(), groups: groups.as_deref() })
            }
            SubjectQuery::Groups(query) => {
                snapshot.matching_groups(query, SearchLimits { records: groups.as_deref(), groups: None })
            }
        };
        Self { rows, snapshot, people, groups }
    }
}

/// What the rule is before anybody is looked at; on a thread of the sandbox.
fn setting(
    ctx: &OpContext,
    registry: &Registry,
    schema: &Schema,
    expression: &str,
    as_of: Date,
    session: &mut dyn RuleSession,
) -> Result<Setting, Failure> {
    let references = session.references().to_vec();
    access::check_stored(ctx, schema.subject, &references)?;
    // Taken after the snapshot: a code that was published and recorded meanwhile is answered for too.
    let mut generation = registry.vocabularies.current();
    if generation.has_open_vocabularies() {
        generation = open::consult_here(registry, generation, &codes_of(session.questions()))?;
    }
    questions::bindings(&generation, session.questions(), &BTreeSet::new()).map_err(refused)?;
    let asked = session.questions();
    let decision = Decision {
        expression_digest: expression_digest(expression),
        engine: session.engine_name().to_owned(),
        vocabularies: decision::vocabularies(&generation, schema, &references, asked),
        concept_groups: decision::concept_groups(&generation, asked),
        schema: schema.version.clone(),
        as_of,
        versions: BTreeMap::new(),
        is_by_consent: ctx.consent.is_some(),
    };
    Ok(Setting { references, generation, warnings: session.warnings().to_vec(), decision })
}

/// Where what a rule reads of records about so many subjects is kept; nowhere, where it reads none or is about a few, since a part is read as a
/// whole. What a client sees by consent is not what others see, and is kept nowhere either.
fn keeping(facts: &Facts, subjects: u64, kept: &Arc<KeptColumns>) -> Option<Keeping> {
    let all = match facts.kind {
        Subject::Individual => facts.snapshot.individual_count(),
        Subject::Group => facts.snapshot.group_count(),
    };
    let sees_all = facts.limits(Subject::Individual).is_none() && facts.limits(Subject::Group).is_none();
    let is_worth_it = sees_all && subjects.saturating_mul(2) >= all && facts.reads_records();
    is_worth_it.then(|| Keeping { columns: Arc::clone(kept), asking: kept.begin() })
}

/// What is broken down for the client, and what is left out as it may not see it.
fn breakdowns(ctx: &OpContext, kind: Subject) -> (Breakdowns, Vec<&'static str>) {
    let resource = kind.record_kind().resource();
    let may = |field: &str| visibility::check_read(ctx, resource, field, FieldUse::Rule).is_ok();
    let is_person = kind == Subject::Individual;
    let of_person = [("by_gender", "gender"), ("by_age_band", "birth_date")].into_iter().filter(|_| is_person);
    let all = of_person.chain([("by_region", "address")]);
    let withheld: Vec<&str> = all.filter(|(_, field)| !may(field)).map(|(name, _)| name).collect();
    let shown = |name: &str| !withheld.contains(&name);
    let breakdowns = Breakdowns {
        by_gender: is_person && shown("by_gender"),
        by_age_band: is_person && shown("by_age_band"),
        by_region: shown("by_region"),
    };
    (breakdowns, withheld)
}
