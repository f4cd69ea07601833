//! Evaluates a rule on subjects named or given in the request.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::civil::Date;

use super::access;
use super::check::codes_of;
use super::decision::{self, Decision, expression_digest};
use super::exhausted::Asked;
use super::explained::{ExplanationTree, tree};
use super::facts::{InlineSubject, SubjectFacts};
use super::failure::{Failure, budget_problem, refused, unless_exhausted};
use super::layout;
use super::load::{Loader, Needs, inline_codes};
use super::questions;
use super::schema::{ROLE_PATH, schema};
use crate::audit;
use crate::open;
use crate::registry::Registry;
use daftar_domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::calendar::{days_since_epoch, utc_day};
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{
    Diagnostic, Outcomes, PlacedQuestion, Reference, RowError, RowSpace, Schema, Subject, Verdict,
};
use daftar_domain::error::AppError;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::VersionId;
use daftar_domain::subject::SubjectReference;
use daftar_sandbox::{EligibilityEngine, RuleRequest, RuleSession, run_rule};
use daftar_vocabulary::Generation;

/// The most people that one request looks at, members of households included: some 1,000 large households.
pub const PEOPLE_MAX: usize = 20_000;
/// The most subjects of one request whose answers are explained.
pub const EXPLAINED_MAX: usize = 100;
/// The most parts of all explanations of one answer.
const EXPLAINED_PARTS_MAX: usize = 20_000;
/// How many records with their versions one audit entry names.
const VERSIONS_PER_ENTRY: usize = 100;

/// Somebody to decide about.
#[derive(Debug, Clone)]
pub enum SubjectInput {
    /// A record of the register.
    Reference(Subject, IdentifierKey),
    /// A record of the register that was found already.
    Stored(SubjectReference),
    /// A record given in the request.
    Inline(Box<InlineSubject>),
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct EvaluateRequest {
    /// The rule.
    pub expression: String,
    /// The program whose rule it is, by reference and at that version.
    pub program: Option<(String, VersionId)>,
    /// What it decides about.
    pub subject: Subject,
    /// About whom.
    pub subjects: Vec<SubjectInput>,
    /// On which day; today, where absent.
    pub as_of: Option<Date>,
    /// Whether it is told how each answer comes about.
    pub explain: bool,
    /// The decision that is to be repeated, on its day.
    pub repeated: Option<Arc<Decision>>,
}

/// What the rule says of one subject.
#[derive(Debug)]
pub enum SubjectResult {
    /// The rule's word.
    Outcome {
        /// The outcome.
        verdict: Verdict,
        /// The facts that would decide, sorted.
        missing: Vec<String>,
        /// What went wrong while it was evaluated.
        errors: Vec<RowError>,
        /// How it came about, where that was asked and the engine can tell.
        explanation: Option<Box<ExplanationTree>>,
    },
    /// There is no such subject, or it is hidden.
    NotFound(AppError),
}

/// The answer.
#[derive(Debug)]
pub struct Evaluated {
    /// One a subject, in the order asked.
    pub results: Vec<SubjectResult>,
    /// What is needed to repeat it.
    pub decision: Decision,
    /// What is doubtful about the rule.
    pub warnings: Vec<Diagnostic>,
    /// The fields that the rule reads, named as missing facts are.
    pub fields: Vec<String>,
}

/// On whose word a rule reads the register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// The caller's: what it reads needs the caller's scopes.
    Caller,
    /// A program's: the administrator wrote the rule.
    Program,
}

/// Evaluates a rule for whoever asks.
///
/// # Errors
/// As [`evaluate_for`].
pub async fn evaluate(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    request: EvaluateRequest,
) -> Result<Evaluated, AppError> {
    evaluate_for(ctx, registry, engine, request, Authority::Caller).await
}

/// Evaluates a rule.
///
/// # Errors
/// [`AppError::Expression`] when the rule is wrong or exhausts a budget, [`AppError::Invalid`] for inline records that are
/// not right, [`AppError::MissingScope`] and [`AppError::FieldNotGranted`] when the rule reads what the client may not.
pub async fn evaluate_for(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    request: EvaluateRequest,
    authority: Authority,
) -> Result<Evaluated, AppError> {
    let engine_name = engine.engine_name().ok_or(AppError::NoEngine)?;
    let targets = request.subjects.iter().filter_map(|subject| match subject {
        SubjectInput::Reference(kind, key) => Some(format!("{}/{}", kind.record_kind(), key.reveal())),
        SubjectInput::Inline(_) | SubjectInput::Stored(_) => None,
    });
    let targets: Vec<String> = targets.collect();
    let is_repeated = request.repeated.is_some();
    let asked = Asked {
        expression_digest: expression_digest(&request.expression),
        under: format!("{:?} {} {engine_name}", request.subject, request.explain),
        subjects: request.subjects.len(),
    };
    let outcome = unless_exhausted(ctx, registry, asked, run(ctx, registry, engine, request, authority)).await;
    // Whoever was read is named, members of households included; of a refused request, whoever was asked about.
    let entries = match &outcome {
        Ok(evaluated) => read_entries(ctx, evaluated, is_repeated),
        Err(_) => vec![audit::entry(ctx, AuditAction::Evaluate, AuditOutcome::Refused, targets)],
    };
    for entry in entries {
        registry.audit.record(ctx, entry).await?;
    }
    outcome
}

/// The audit entries that name what was read; where a decision was repeated, with the versions, which need not be the present ones.
fn read_entries(ctx: &OpContext, evaluated: &Evaluated, is_repeated: bool) -> Vec<AuditEntry> {
    let entry = |read: Vec<String>| {
        let entry = audit::entry(ctx, AuditAction::Evaluate, AuditOutcome::Allowed, read);
        entry.with_fields(evaluated.fields.iter().cloned())
    };
    let versions = &evaluated.decision.versions;
    if !is_repeated || versions.is_empty() {
        return vec![entry(versions.keys().cloned().collect())];
    }
    let versions: Vec<(&String, &VersionId)> = versions.iter().collect();
    let entries = versions.chunks(VERSIONS_PER_ENTRY).map(|some| {
        let read = some.iter().map(|(name, _)| (*name).clone()).collect();
        let named: Vec<String> = some.iter().map(|(name, version)| format!("{name} at version {version}")).collect();
        entry(read).with_note(format!("decision repeated, read: {}", named.join(", ")))
    });
    entries.collect()
}

/// Runs the rule on a thread of the sandbox.
async fn run(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    request: EvaluateRequest,
    authority: Authority,
) -> Result<Evaluated, Failure> {
    let generation = registry.vocabularies.current();
    let evaluation = Evaluation {
        ctx: ctx.clone(),
        registry: registry.clone(),
        schema: Arc::new(schema(request.subject, generation.extension_fields())),
        generation,
        as_of: match &request.repeated {
            Some(decision) => decision.as_of,
            None => request.as_of.unwrap_or_else(|| utc_day(ctx.now)),
        },
        request,
        authority,
    };
    let rule = RuleRequest {
        actor: ctx.actor.clone(),
        expression: evaluation.request.expression.clone(),
        schema: evaluation.schema.clone(),
    };
    let runtime = tokio::runtime::Handle::current();
    run_rule(engine.as_ref(), rule, move |session| evaluation.run(&runtime, session)).await?
}

/// One evaluation on its way; it runs on a thread of the sandbox.
struct Evaluation {
    ctx: OpContext,
    registry: Registry,
    generation: Arc<Generation>,
    schema: Arc<Schema>,
    as_of: Date,
    request: EvaluateRequest,
    authority: Authority,
}

impl Evaluation {
    fn run(self, runtime: &tokio::runtime::Handle, session: &mut dyn RuleSession) -> Result<Evaluated, Failure> {
        let references = session.references().to_vec();
        if self.authority == Authority::Caller {
            access::check(&self.ctx, &references, &self.request.subjects)?;
        }
        let needs = Needs { household: reads_household(&references), programs: reads_programs(&references) };
        let loader = Loader {
            ctx: &self.ctx,
            authority: self.authority,
            registry: &self.registry,
            generation: &self.generation,
            as_of: self.as_of,
            repeated: self.request.repeated.as_deref(),
            cancellation: session.cancellation().clone(),
        };
        // Before anybody is read: what cannot be repeated is refused for that, whoever it is about.
        if let Some(repeated) = &self.request.repeated {
            repeated.check_setting(&self.decision(session, &self.generation, BTreeMap::new()))?;
        }
        let loaded = runtime.block_on(loader.load(&self.request.subjects, needs))?;
        // Taken after the records: a code that was published and recorded meanwhile is answered for too. Inline records are read
        // under the same generation, which also knows codes of open vocabularies that only they or the rule name.
        let generation = self.consulted(session.questions())?;
        let loader = Loader { generation: &generation, ..loader };
        let all = loader.with_inline(loaded.stored, &self.request.subjects)?;
        let subjects: Vec<&SubjectFacts> = all.iter().filter_map(|subject| subject.as_ref().ok()).collect();
        let batch = layout::batch(&self.schema, &references, &subjects, days_since_epoch(self.as_of))?;
        let with_texts = layout::codes_with_texts(&references, &batch);
        let bindings = questions::bindings(&generation, session.questions(), &with_texts).map_err(refused)?;
        session.bind(&bindings)?;
        let outcomes = session.evaluate(&batch)?;
        let decision = self.decision(session, &generation, loaded.reads.versions);
        if let Some(repeated) = &self.request.repeated {
            repeated.check_setting(&decision)?;
            repeated.check_records(&decision.versions)?;
        }
        let explanations = self.explanations(session, &references, &subjects, &generation)?;
        let warnings = session.warnings().to_vec();
        let fields = references.iter().map(Reference::name).collect();
        Ok(Evaluated { results: results(all, &outcomes, explanations), decision, warnings, fields })
    }

    /// How the answer about each subject comes about, where that was asked.
    fn explanations(
        &self,
        session: &mut dyn RuleSession,
        references: &[Reference],
        subjects: &[&SubjectFacts],
        generation: &Generation,
    ) -> Result<Vec<Option<ExplanationTree>>, Failure> {
        let mut trees = Vec::new();
        if !self.request.explain {
            return Ok(trees);
        }
        let mut parts = 0;
        for subject in subjects {
            // Alone in its batch: a part is told once, and not with everybody else's columns around it.
            let batch = layout::batch(&self.schema, references, &[*subject], days_since_epoch(self.as_of))?;
            let explanation = session.explain(&batch, 0)?;
            parts += explanation.parts.len();
            if parts > EXPLAINED_PARTS_MAX {
                return Err(Failure::App(budget_problem(format!(
                    "its explanations exhausted the budget of {EXPLAINED_PARTS_MAX} for `explained_parts`; ask about fewer subjects"
                ))));
            }
            trees.push(tree(&self.request.expression, generation, explanation));
        }
        Ok(trees)
    }

    /// The generation in force, with what packs of open vocabularies say about codes of inline records and of the rule.
    fn consulted(&self, questions: &[PlacedQuestion]) -> Result<Arc<Generation>, AppError> {
        let generation = self.registry.vocabularies.current();
        if !generation.has_open_vocabularies() {
            return Ok(generation);
        }
        let mut codes = inline_codes(&self.request.subjects);
        codes.extend(codes_of(questions));
        open::consult_here(&self.registry, generation, &codes)
    }

    fn decision(
        &self,
        session: &dyn RuleSession,
        generation: &Generation,
        versions: BTreeMap<String, VersionId>,
    ) -> Decision {
        let (references, questions) = (session.references(), session.questions());
        Decision {
            expression_digest: expression_digest(&self.request.expression),
            engine: session.engine_name().to_owned(),
            vocabularies: decision::vocabularies(generation, &self.schema, references, questions),
            concept_groups: decision::concept_groups(generation, questions),
            schema: self.schema.version.clone(),
            as_of: self.as_of,
            versions: versions.into_iter().chain(self.request.program.clone()).collect(),
            is_by_consent: self.ctx.consent.is_some() && self.authority == Authority::Caller,
        }
    }
}

pub(super) fn reads_household(references: &[Reference]) -> bool {
    references.iter().any(|reference| {
        reference.space == RowSpace::Members || (reference.space == RowSpace::Me && reference.path == ROLE_PATH)
    })
}

pub(super) fn reads_programs(references: &[Reference]) -> bool {
    references.iter().any(|reference| reference.space == RowSpace::Programs)
}

fn results(
    subjects: Vec<Result<SubjectFacts, AppError>>,
    outcomes: &Outcomes,
    explanations: Vec<Option<ExplanationTree>>,
) -> Vec<SubjectResult> {
    let mut row = 0;
    let mut explanations = explanations.into_iter();
    let mut results = Vec::with_capacity(subjects.len());
    for subject in subjects {
        match subject {
            Ok(_) => {
                let verdict = outcomes.verdicts.get(row).copied().unwrap_or(Verdict::Undetermined);
                let missing = outcomes.missing_of(row).into_iter().map(str::to_owned).collect();
                let errors = outcomes.errors.iter().filter(|error| error.row as usize == row).cloned().collect();
                let explanation = explanations.next().flatten().map(Box::new);
                results.push(SubjectResult::Outcome { verdict, missing, errors, explanation });
                row += 1;
            }
            Err(error) => results.push(SubjectResult::NotFound(error)),
        }
    }
    results
}
