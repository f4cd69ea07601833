//! Evaluates a rule over all subjects of a search: counts, subjects, and missing facts.
//!
//! A preview reads partitions of the register (`preview/population.rs`): a register in memory is one partition, a
//! register in a database has many. Each partition is evaluated in time slices of a bounded number of subjects. A
//! slice has an instance of the engine with the rule, which later slices of the preview use again. Slices use as many
//! plugin threads as the background work may occupy.
//!
//! **Invariant:** a preview uses one snapshot of the register, one generation of vocabularies and one engine.
//!
//! **Invariant:** the memory of a preview does not grow with the register, except for a few bits per subject.
//!
//! **Invariant:** a preview ends when its client stops waiting for it: no further time slice starts, and a running
//! slice ends after its current batch.
//!
//! **Invariant:** only work on a plugin thread occupies a time slice. However many previews a client runs, the preview
//! of another client waits for one of its slices at a time. The number of concurrent previews is bounded, in total and
//! per client.

mod bands;
mod breakdown;
mod comparison;
mod counting;
mod facts;
mod kinds;
mod partition;
mod population;
mod records;
mod run;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::civil::Date;

pub use self::bands::AGE_BANDS;
pub use self::breakdown::Counts;
pub use self::comparison::Cells;
pub use self::partition::{PartedRegister, PartitionUsage};
pub use self::records::PreviewCacheUsage;
pub use self::run::{Comparison, MovedSubject, Preview, PreviewEvent, Ready, Shown};

use self::breakdown::Breakdowns;
use self::comparison::ComparedRule;
use self::facts::BATCH_ROWS_MAX;
use self::records::{Asking, PreviewCache};
use super::check::{self, codes_of};
use super::decision::{Decision, expression_digest};
use super::failure::{Failure, RequestIdentity, engine_error, refused, unless_exhausted};
use super::load::household_code;
use super::schema::{self, missing_scope, schema};
use crate::registry::Registry;
use crate::{group, individual, open_vocabulary, search, visibility};
use daftar_domain::audit::Actor;
use daftar_domain::calendar::{date_from_days, days_since_epoch, utc_day};
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{Diagnostic, Reference, Schema, Subject};
use daftar_domain::error::{AppError, FieldUse};
use daftar_domain::fair::{FairSemaphore, Slot};
use daftar_domain::scope::Action;
use daftar_sandbox::{EligibilityEngine, IdleOfRule, IdleSessions, Priority, RuleRequest, RuleSession, run_rule};
use daftar_vocabulary::Generation;

/// Maximum number of subjects in the sample of a preview.
pub const SAMPLE_MAX: u32 = 100;
/// Maximum number of regions in a breakdown: those with the most subjects.
pub const REGIONS_MAX: usize = 1_000;
/// Maximum number of concurrent previews, including waiting ones.
pub const PREVIEWS_MAX: usize = 256;
/// Maximum number of concurrent previews of one client.
pub const PREVIEWS_OF_CLIENT_MAX: usize = PREVIEWS_MAX / 4;

/// Subjects of a preview.
#[derive(Debug, Clone)]
pub enum SubjectSelection {
    /// Individuals.
    Individuals(individual::SearchRequest),
    /// Groups.
    Groups(group::SearchRequest),
}

/// A preview that a client requests.
#[derive(Debug, Clone)]
pub struct PreviewRequest {
    /// The rule.
    pub expression: String,
    /// The rule to compare it with.
    pub compare: Option<String>,
    /// Search for the subjects.
    pub among: SubjectSelection,
    /// Number of subjects in the sample.
    pub sample: u32,
    /// Day of the evaluation; today if `None`.
    pub as_of: Option<Date>,
    /// True if its events are streamed, and the preview continues after the response has started.
    pub is_streamed: bool,
    /// True if the events include the outcome of each subject.
    pub tells_subjects: bool,
}

/// Admits previews, schedules their time slices fairly between clients, and caches the fields that they read from
/// records.
#[derive(Debug)]
pub struct Previews {
    admitted: Arc<FairSemaphore<Actor>>,
    slices: Arc<FairSemaphore<Actor>>,
    /// The instances of the engine between two time slices.
    idle: Arc<IdleSessions>,
    cached: PreviewCache,
}

/// Usage of previews, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreviewUsage {
    /// Number of running previews.
    pub previews: usize,
    /// Number of time slices in use.
    pub slices: usize,
    /// Number of waiting requests for a time slice.
    pub waiting: usize,
    /// Usage of the cache of fields read from records.
    pub cached: PreviewCacheUsage,
}

impl Previews {
    /// Creates a scheduler of `slices_max` concurrent time slices, with a cache of up to `stored_bytes_max` bytes.
    #[must_use]
    pub fn new(slices_max: usize, stored_bytes_max: u64) -> Self {
        let admitted = FairSemaphore::new(PREVIEWS_MAX, PREVIEWS_OF_CLIENT_MAX);
        Self {
            admitted,
            slices: FairSemaphore::new(slices_max, slices_max),
            idle: IdleSessions::new(slices_max),
            cached: PreviewCache::new(stored_bytes_max),
        }
    }

    /// Returns the number of previews, of time slices in use and waiting, and the usage of the cache.
    #[must_use]
    pub fn usage(&self) -> PreviewUsage {
        let (previews, slices) = (self.admitted.usage(), self.slices.usage());
        PreviewUsage {
            previews: previews.held,
            slices: slices.held,
            waiting: slices.waiting,
            cached: self.cached.usage(),
        }
    }

    /// Admits a preview until the slot is dropped.
    fn admit(&self, actor: &Actor) -> Result<Slot<Actor>, AppError> {
        self.admitted.try_acquire(actor).ok_or(AppError::Busy)
    }
}

/// Parameters of the evaluation, the same for each subject.
#[derive(Debug, Clone)]
struct Question {
    expression: String,
    compare: Option<String>,
    kind: Subject,
    /// In days since 1970-01-01.
    as_of: i32,
    breakdowns: Breakdowns,
    tells_subjects: bool,
}

/// A question with everything that its evaluation requires, except the subjects.
#[derive(Clone)]
struct Inquiry {
    ctx: OpContext,
    registry: Registry,
    engine: Arc<dyn EligibilityEngine>,
    previews: Arc<Previews>,
    question: Question,
    schema: Arc<Schema>,
    compared: Option<ComparedRule>,
    /// The fields that the rule reads, and the compared one.
    references: Vec<Reference>,
    generation: Arc<Generation>,
    warnings: Vec<Diagnostic>,
    decision: Decision,
    /// The number of the code of groups that are households; `None` if no such code was ever stored.
    household: Option<u32>,
    asking: Asking,
    /// The instances of the engine that later time slices use again.
    idle: IdleOfRule,
}

impl Inquiry {
    /// Compiles the rule of a question, and checks that the client may evaluate it.
    async fn compile(
        ctx: OpContext,
        registry: Registry,
        engine: &Arc<dyn EligibilityEngine>,
        previews: Arc<Previews>,
        question: Question,
    ) -> Result<Self, Failure> {
        let schema = Arc::new(schema(question.kind, registry.vocabularies.current().extension_fields()));
        let idle = previews.idle.of_rule();
        let rule = RuleRequest {
            actor: ctx.actor.clone(),
            expression: question.expression.clone(),
            schema: Arc::clone(&schema),
            idle: Some(idle.clone()),
        };
        let own_engine = Arc::clone(engine);
        // The vocabularies are read after the snapshot, so that they contain codes that were published and recorded in
        // the meantime, also by other servers.
        let stored = open_vocabulary::numbered_elsewhere(&registry).await?;
        let described = move |session: &mut RuleSession| {
            schema::check_stored(&ctx, question.kind, session.references())?;
            let compared = question.compare.as_deref();
            let compared = compared.map(|expression| ComparedRule::compile(&ctx, session, expression, question.kind));
            let compared = compared.transpose()?;
            let references = match &compared {
                None => session.references().to_vec(),
                Some(compared) => compared.all_references(),
            };
            let active = registry.vocabularies.current();
            let active = match &stored {
                Some(stored) => open_vocabulary::with_stored_numbers(&registry, active, stored)?,
                None => active,
            };
            let generation = check::consulted(&registry, active, || {
                let codes = codes_of(session.questions()).into_iter();
                codes.chain(session.compared().into_iter().flat_map(|rule| codes_of(rule.questions()))).collect()
            })?;
            check::bindings(&generation, session.questions(), &BTreeSet::new()).map_err(refused)?;
            comparison::check_bindings(&generation, session)?;
            let as_of = date_from_days(question.as_of).ok_or_else(|| AppError::internal("a preview of no day"))?;
            let decision = Decision::of(session, &question.expression, &schema, &generation, as_of);
            Ok::<_, Failure>(Self {
                decision: Decision { is_by_consent: ctx.consent.is_some(), ..decision },
                household: household_code(&generation).map(|number| number.0),
                asking: previews.cached.begin(),
                idle,
                warnings: session.warnings().to_vec(),
                engine: own_engine,
                ctx,
                registry,
                previews,
                question,
                schema,
                compared,
                references,
                generation,
            })
        };
        run_rule(engine.as_ref(), Priority::Interactive, rule, described).await?
    }

    /// Returns the rule, with the client that requested the preview.
    fn rule(&self) -> RuleRequest {
        RuleRequest {
            actor: self.ctx.actor.clone(),
            expression: self.question.expression.clone(),
            schema: Arc::clone(&self.schema),
            idle: Some(self.idle.clone()),
        }
    }
}

/// Prepares a preview: compiles and checks the rule, and finds the subjects.
///
/// # Errors
/// [`AppError::Expression`] if the rule is invalid or exhausts a budget, [`AppError::MissingScope`] and
/// [`AppError::FieldNotGranted`] if the rule reads data that the client may not read, [`AppError::Busy`] if there are
/// too many previews, [`AppError::NoEngine`].
pub async fn prepare(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    previews: &Arc<Previews>,
    request: PreviewRequest,
) -> Result<Ready, AppError> {
    let engine_name = engine.engine_name().map_err(engine_error)?;
    let kind = match &request.among {
        SubjectSelection::Individuals(_) => Subject::Individual,
        SubjectSelection::Groups(_) => Subject::Group,
    };
    let resource = kind.record_kind().resource();
    if !ctx.holds(resource, Action::Read) {
        return Err(missing_scope(ctx, resource));
    }
    let admitted = previews.admit(&ctx.actor)?;
    let (query, _) = match request.among {
        SubjectSelection::Individuals(search) => individual::resolve(ctx, registry, search).await?,
        SubjectSelection::Groups(search) => group::resolve(ctx, registry, search).await?,
    };
    let population = population::find(ctx, registry, &query).await?;
    let compared = request.compare.iter().map(|expression| format!(" {}", expression_digest(expression)));
    let requested = RequestIdentity {
        expression_digest: compared.fold(expression_digest(&request.expression), |digest, other| digest + &other),
        under: format!("preview of {kind:?} {engine_name}"),
        // Budgets apply to a batch, not to the complete preview.
        subjects: usize::try_from(population.len()).unwrap_or(usize::MAX).min(BATCH_ROWS_MAX),
    };
    let (breakdowns, withheld) = breakdowns(ctx, kind);
    let question = Question {
        expression: request.expression,
        compare: request.compare,
        kind,
        as_of: days_since_epoch(request.as_of.unwrap_or_else(|| utc_day(ctx.now))),
        breakdowns,
        tells_subjects: request.tells_subjects,
    };
    let (of_client, previews) = (ctx.clone(), Arc::clone(previews));
    let compiled = Inquiry::compile(of_client, registry.clone(), engine, previews, question);
    let mut inquiry = unless_exhausted(ctx, registry, requested.clone(), compiled).await?;
    if request.is_streamed {
        inquiry.ctx = run::outliving(ctx);
    }
    Ok(Ready {
        inquiry: Arc::new(inquiry),
        population,
        searched_by: search::searched_fields(&query),
        sample: request.sample.min(SAMPLE_MAX),
        withheld,
        requested,
        is_streamed: request.is_streamed,
        _admitted: admitted,
    })
}

/// Returns the breakdowns that the client may read, and the names of the withheld ones.
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

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::client::ClientId;

    fn client(name: &str) -> Actor {
        Actor::Client(ClientId::parse(name).unwrap())
    }

    fn busy(slot: Result<Slot<Actor>, AppError>) -> bool {
        matches!(slot, Err(AppError::Busy))
    }

    #[test]
    fn one_client_has_a_quarter_of_the_previews_and_all_have_no_more_than_there_may_be() {
        let previews = Previews::new(1, 0);
        let one = client("client_one");
        let mut slots: Vec<Slot<Actor>> = (0..PREVIEWS_MAX / 4).map(|_| previews.admit(&one).unwrap()).collect();
        assert!(busy(previews.admit(&one)));
        for number in 0..PREVIEWS_MAX - PREVIEWS_OF_CLIENT_MAX {
            slots.push(previews.admit(&client(&format!("client_{number}"))).unwrap());
        }
        assert!(busy(previews.admit(&client("client_late"))));
        drop(slots.remove(0));
        assert!(!busy(previews.admit(&one)), "a slot is free again");
        assert_eq!(previews.usage().previews, PREVIEWS_MAX - 1);
    }
}
