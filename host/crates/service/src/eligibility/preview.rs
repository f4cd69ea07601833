//! Evaluates a rule over all subjects of a search: counts, subjects, and missing facts.
//!
//! It runs over partitions of the register (`preview/population.rs`): the register in memory is one partition, one in a
//! database has many. Each is worked on in time slices of a bounded number of subjects, each slice with a rule of its
//! own in the sandbox, on as many plugin threads as background work may take.
//!
//! **Invariant:** a preview sees one register from its beginning to its end, one generation of vocabularies and one engine.
//!
//! **Invariant:** what it keeps in memory does not grow with the register, but for a few bits a subject.
//!
//! **Invariant:** a client that stops waiting for it ends it: no time slice begins any more, and one that runs ends after its batch.
//!
//! **Invariant:** a time slice is held by work on a plugin thread and by nothing else: however many previews a client has, the preview of
//! another one waits for one slice of it at a time. The number of previews at once is bounded, in all and of one client.

mod breakdown;
mod counting;
mod facts;
mod partition;
mod population;
mod records;
mod run;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::civil::Date;

pub use self::breakdown::{AGE_BANDS, Counts};
pub use self::partition::{PartedRegister, PartitionUsage};
pub use self::records::PreviewCacheUsage;
pub use self::run::{Preview, PreviewEvent, Ready, Shown};

use self::breakdown::Breakdowns;
use self::facts::BATCH_ROWS_MAX;
use self::records::{Asking, PreviewCache};
use super::check::{self, codes_of};
use super::decision::{Decision, expression_digest};
use super::failure::{Failure, RequestIdentity, refused, unless_exhausted};
use super::load::household_code;
use super::schema::{self, missing_scope, schema};
use crate::group::{self, GroupSearchRequest};
use crate::individual::{self, SearchRequest};
use crate::registry::Registry;
use crate::visibility;
use daftar_domain::audit::Actor;
use daftar_domain::calendar::{date_from_days, days_since_epoch, utc_day};
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{Diagnostic, Reference, Schema, Subject};
use daftar_domain::error::{AppError, FieldUse};
use daftar_domain::fair::{FairSemaphore, Slot};
use daftar_domain::scope::Action;
use daftar_domain::search::SubjectQuery;
use daftar_sandbox::{EligibilityEngine, Priority, RuleRequest, RuleSession, run_rule};
use daftar_vocabulary::Generation;

/// The most subjects that a preview shows as a sample.
pub const SAMPLE_MAX: u32 = 100;
/// The most regions that are distinguished: those with the most subjects.
pub const REGIONS_MAX: usize = 1_000;
/// The most previews at once, those that wait included.
pub const PREVIEWS_MAX: usize = 256;
/// The most previews of one client at once.
pub const PREVIEWS_OF_CLIENT_MAX: usize = PREVIEWS_MAX / 4;

/// Subjects of a preview.
#[derive(Debug, Clone)]
pub enum SubjectSelection {
    /// People.
    Individuals(SearchRequest),
    /// Groups.
    Groups(GroupSearchRequest),
}

/// A preview that a client requests.
#[derive(Debug, Clone)]
pub struct PreviewRequest {
    /// The rule.
    pub expression: String,
    /// Subjects of the request.
    pub among: SubjectSelection,
    /// Number of subjects that are shown.
    pub sample: u32,
    /// On which day; today, where absent.
    pub as_of: Option<Date>,
    /// True if its events are sent as they come, and it continues after the request was answered.
    pub is_streamed: bool,
    /// True if the outcome of each subject is among the events.
    pub tells_subjects: bool,
}

/// Admits previews, schedules their time slices fairly between clients, and caches the fields that they read of
/// records.
#[derive(Debug)]
pub struct Previews {
    admitted: Arc<FairSemaphore<Actor>>,
    slices: Arc<FairSemaphore<Actor>>,
    cached: PreviewCache,
}

/// Figures of previews for the metrics page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreviewUsage {
    /// Previews that have begun and not ended.
    pub previews: usize,
    /// Time slices in use.
    pub slices: usize,
    /// Time slices that are waited for.
    pub waiting: usize,
    /// Fields that were read of records.
    pub cached: PreviewCacheUsage,
}

impl Previews {
    /// Schedules so many time slices at once, and caches fields up to so many bytes.
    #[must_use]
    pub fn new(slices_max: usize, stored_bytes_max: u64) -> Self {
        let admitted = FairSemaphore::new(PREVIEWS_MAX, PREVIEWS_OF_CLIENT_MAX);
        Self {
            admitted,
            slices: FairSemaphore::new(slices_max, slices_max),
            cached: PreviewCache::new(stored_bytes_max),
        }
    }

    /// Number of previews, of time slices in use and waited for, and usage of the cache.
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

    /// Admits a preview for as long as the slot is held.
    fn admit(&self, actor: &Actor) -> Result<Slot<Actor>, AppError> {
        self.admitted.try_acquire(actor).ok_or(AppError::Busy)
    }
}

/// Options for each subject.
#[derive(Debug, Clone)]
struct Question {
    expression: String,
    kind: Subject,
    /// In days since 1970-01-01.
    as_of: i32,
    breakdowns: Breakdowns,
    tells_subjects: bool,
}

/// A question with all that answering it needs, but subjects.
#[derive(Clone)]
struct Inquiry {
    ctx: OpContext,
    registry: Registry,
    engine: Arc<dyn EligibilityEngine>,
    previews: Arc<Previews>,
    question: Question,
    schema: Arc<Schema>,
    references: Vec<Reference>,
    generation: Arc<Generation>,
    warnings: Vec<Diagnostic>,
    decision: Decision,
    /// The number of the code of groups that are households; absent where no such code was ever stored.
    household: Option<u32>,
    asking: Asking,
}

impl Inquiry {
    /// Compiles the rule of a question, and checks that the client may ask it.
    async fn compile(
        ctx: OpContext,
        registry: Registry,
        engine: &Arc<dyn EligibilityEngine>,
        previews: Arc<Previews>,
        question: Question,
    ) -> Result<Self, Failure> {
        let schema = Arc::new(schema(question.kind, registry.vocabularies.current().extension_fields()));
        let rule = RuleRequest {
            actor: ctx.actor.clone(),
            expression: question.expression.clone(),
            schema: Arc::clone(&schema),
        };
        let own_engine = Arc::clone(engine);
        let described = move |session: &mut RuleSession| {
            let references = session.references().to_vec();
            schema::check_stored(&ctx, question.kind, &references)?;
            // Taken after the snapshot: a code that was published and recorded in the meantime is answered for too.
            let generation = check::consulted(&registry, || codes_of(session.questions()))?;
            check::bindings(&generation, session.questions(), &BTreeSet::new()).map_err(refused)?;
            let as_of = date_from_days(question.as_of).ok_or_else(|| AppError::internal("a preview of no day"))?;
            let decision = Decision::of(session, &question.expression, &schema, &generation, as_of);
            Ok::<_, Failure>(Self {
                decision: Decision { is_by_consent: ctx.consent.is_some(), ..decision },
                household: household_code(&generation).map(|number| number.0),
                asking: previews.cached.begin(),
                warnings: session.warnings().to_vec(),
                engine: own_engine,
                ctx,
                registry,
                previews,
                question,
                schema,
                references,
                generation,
            })
        };
        run_rule(engine.as_ref(), Priority::Interactive, rule, described).await?
    }

    /// The rule, for the client whose preview it is.
    fn rule(&self) -> RuleRequest {
        RuleRequest {
            actor: self.ctx.actor.clone(),
            expression: self.question.expression.clone(),
            schema: Arc::clone(&self.schema),
        }
    }
}

/// Makes a preview ready: the rule is compiled and checked, whom it is about is found.
///
/// # Errors
/// [`AppError::Expression`] when the rule is wrong or exhausts a budget, [`AppError::MissingScope`] and
/// [`AppError::FieldNotGranted`] when it reads what the client may not, [`AppError::Busy`] when there are too many
/// previews, [`AppError::NoEngine`].
pub async fn prepare(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    previews: &Arc<Previews>,
    request: PreviewRequest,
) -> Result<Ready, AppError> {
    let engine_name = engine.engine_name().ok_or(AppError::NoEngine)?;
    let kind = match &request.among {
        SubjectSelection::Individuals(_) => Subject::Individual,
        SubjectSelection::Groups(_) => Subject::Group,
    };
    let resource = kind.record_kind().resource();
    if !ctx.holds(resource, Action::Read) {
        return Err(missing_scope(ctx, resource));
    }
    let admitted = previews.admit(&ctx.actor)?;
    let (query, searched_by) = match request.among {
        SubjectSelection::Individuals(search) => {
            let (query, fields) = individual::requested(ctx, registry, search).await?;
            (SubjectQuery::Individuals(query), fields)
        }
        SubjectSelection::Groups(search) => {
            let (query, fields) = group::requested(ctx, registry, search).await?;
            (SubjectQuery::Groups(query), fields)
        }
    };
    let population = population::find(ctx, registry, &query).await?;
    let requested = RequestIdentity {
        expression_digest: expression_digest(&request.expression),
        under: format!("preview of {kind:?} {engine_name}"),
        // A batch is what has a budget.
        subjects: usize::try_from(population.len()).unwrap_or(usize::MAX).min(BATCH_ROWS_MAX),
    };
    let (breakdowns, withheld) = breakdowns(ctx, kind);
    let question = Question {
        expression: request.expression,
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
        searched_by,
        sample: request.sample.min(SAMPLE_MAX),
        withheld,
        requested,
        is_streamed: request.is_streamed,
        _admitted: admitted,
    })
}

/// Breakdowns for the client, and withheld ones.
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
