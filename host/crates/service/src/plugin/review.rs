//! Review of a plugin before its installation: the rules of programs are evaluated with the active plugins and with the
//! new one over a sample of the register, and the outcomes are compared.
//!
//! **Invariant:** a review changes nothing: no number is assigned, nothing is stored but audit entries, nothing is
//! published.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{PluginAdministration, PluginOffer, blocking, refusal, remove, with};
use crate::eligibility::engine_of_program;
use crate::eligibility::evaluate::{self, EvaluateRequest, Evaluated, SubjectInput, SubjectResult};
use crate::registry::Registry;
use crate::{records, subjects};
use daftar_domain::audit::AuditOutcome;
use daftar_domain::context::{Cancellation, OpContext};
use daftar_domain::eligibility::{Subject, Verdict};
use daftar_domain::error::AppError;
use daftar_domain::program::{ELIGIBILITY, ProgramDetails};
use daftar_domain::record::RecordId;
use daftar_domain::subject::SubjectReference;
use daftar_sandbox::{
    EligibilityEngine, EngineError, LoadedPlugin, PluginHost, PluginLibrary, Prepared, Priority, RuleRequest, RuleTask,
};
use daftar_vocabulary::Vocabularies;

/// Number of decisions of a review by default, with each of both versions.
pub const DECISIONS_DEFAULT: u32 = 10_000;
/// Maximum number of decisions of one review.
pub const DECISIONS_MAX: u32 = 100_000;
/// Number of subjects in one evaluation.
const BATCH_SUBJECTS: u64 = 500;
/// Maximum number of subjects that a review names for each kind of change.
const EXAMPLES_MAX: usize = 5;

/// The comparison of a plugin with the active ones.
#[derive(Debug)]
pub struct Review {
    /// The plugin.
    pub plugin: String,
    /// The installed version.
    pub from: Option<String>,
    /// The reviewed version.
    pub to: String,
    /// The reason for which an installation would be rejected; then nothing was compared.
    pub refusal: Option<String>,
    /// Each program with a rule.
    pub programs: Vec<ReviewedProgram>,
}

/// The comparison of a program's rule.
#[derive(Debug)]
pub struct ReviewedProgram {
    /// `Program/<system>|<value>`
    pub program: String,
    /// Number of compared subjects.
    pub compared: u64,
    /// The changed outcomes, the most frequent first.
    pub changes: Vec<ChangedOutcome>,
    /// The reason for which the new version does not evaluate the rule.
    pub problem: Option<String>,
}

/// A kind of change.
#[derive(Debug)]
pub struct ChangedOutcome {
    /// The outcome with the active plugins.
    pub before: Verdict,
    /// The outcome with the new one.
    pub after: Verdict,
    /// Number of subjects.
    pub subjects: u64,
    /// Some of them, by reference. Personal data.
    pub examples: Vec<String>,
}

/// The engines as they would be with a plugin that is not installed.
struct ReviewedEngine {
    host: Arc<PluginHost>,
    plugin: Arc<LoadedPlugin>,
    /// The installed engines.
    library: Arc<PluginLibrary>,
    /// True if the plugin decides the rules that are submitted here, false if the active engine does.
    decides: bool,
}

impl EligibilityEngine for ReviewedEngine {
    fn submit(
        &self,
        priority: Priority,
        request: RuleRequest,
        cancellation: Cancellation,
        task: RuleTask,
    ) -> Result<(), EngineError> {
        if self.decides {
            self.host.submit_rule(priority, &self.plugin, request, cancellation, task)
        } else {
            self.library.submit(priority, request, cancellation, task)
        }
    }

    fn background_threads(&self) -> usize {
        self.host.pool_usage().background_threads_max
    }

    fn engine_name(&self) -> Result<String, EngineError> {
        if self.decides { Ok(self.plugin.reference()) } else { self.library.engine_name() }
    }

    fn named(self: Arc<Self>, name: &str) -> Result<Arc<dyn EligibilityEngine>, EngineError> {
        if self.plugin.manifest().name.as_str() != name {
            return Arc::clone(&self.library).named(name);
        }
        let (host, plugin, library) = (self.host.clone(), self.plugin.clone(), self.library.clone());
        Ok(Arc::new(Self { host, plugin, library, decides: true }))
    }
}

/// A register with the plugins to evaluate rules by.
pub(super) struct Side {
    pub(super) registry: Registry,
    pub(super) engine: Arc<dyn EligibilityEngine>,
}

impl PluginAdministration {
    /// Compares the outcomes of all programs' rules with the active plugins and with the offered one, for about
    /// `decisions` subjects spread over the register. The evaluations are in the audit log.
    ///
    /// # Errors
    /// [`AppError::Plugin`] if the file is not a plugin that can be read and tested; [`AppError::NoEngine`] if a pack is
    /// reviewed without an active engine; if the store fails.
    pub async fn review(&self, ctx: &OpContext, offer: PluginOffer, decisions: u32) -> Result<Review, AppError> {
        let library = self.library.clone();
        let prepared = match blocking(move || library.prepare(offer)).await? {
            Ok(prepared) => prepared,
            Err(error) => {
                let note = format!("tried out for a review, and refused: {error}");
                self.audit(ctx, AuditOutcome::Refused, "a plugin that is not installed", note).await?;
                return Err(refusal(error));
            }
        };
        let tried = format!("{} {}", prepared.manifest().name, prepared.manifest().version);
        self.audit(ctx, AuditOutcome::Allowed, tried, "tried out for a review, not installed").await?;
        let from = self.library.recorded(&prepared.manifest().name).map(|installed| installed.version.to_string());
        let (plugin, to) = (prepared.manifest().name.to_string(), prepared.manifest().version.to_string());
        let mut review = Review { plugin, from, to, refusal: None, programs: Vec::new() };
        let present = Side { registry: self.registry.clone(), engine: self.library.clone() };
        let new = match self.side_with(&prepared).await? {
            Ok(side) => side,
            Err(reason) => {
                review.refusal = Some(prepared.refuse(reason).to_string());
                return Ok(review);
            }
        };
        let mut programs = self.registry.index.current().await.programs().await?;
        programs.retain(|program| program.details.get(ELIGIBILITY).is_some());
        let share = decisions.checked_div(u32::try_from(programs.len()).unwrap_or(u32::MAX)).unwrap_or_default().max(1);
        for program in programs {
            let Some(expression) = program.details.get(ELIGIBILITY) else { continue };
            let rule = Rule { expression, subject: program.details.target_type(), program: &program.details };
            let name = records::name_of(&program).unwrap_or_default();
            review.programs.push(compare(ctx, (&present, &new), &rule, name, share).await?);
        }
        Ok(review)
    }

    /// The register as it would be with a plugin; the reason if it cannot be installed.
    pub(super) async fn side_with(&self, prepared: &Prepared) -> Result<Result<Side, String>, AppError> {
        let (packs, deployment) = self.publisher.decided();
        let registry = self.registry.clone();
        match with(&packs, &deployment, prepared) {
            Err(error) => Ok(Err(error.reason)),
            Ok(None) => {
                let (host, plugin, library) = (self.host.clone(), prepared.loaded().clone(), self.library.clone());
                let decides = library.current().makes_active(&prepared.manifest().name);
                let engine = Arc::new(ReviewedEngine { host, plugin, library, decides });
                Ok(Ok(Side { registry, engine }))
            }
            Ok(Some((changed, retained))) => {
                let deployment = remove::joined(&deployment, &retained);
                let tried = self.publisher.tried(&changed, &deployment).await?;
                Ok(tried.map(|(generation, _)| {
                    // Codes that only a pack can resolve are not known here: rules that name them are reported.
                    let vocabularies = Arc::new(Vocabularies::new(generation));
                    Side { registry: Registry { vocabularies, ..registry }, engine: self.library.clone() }
                }))
            }
        }
    }
}

/// A program's rule.
struct Rule<'a> {
    expression: &'a str,
    subject: Subject,
    program: &'a ProgramDetails,
}

async fn compare(
    ctx: &OpContext,
    (present, new): (&Side, &Side),
    rule: &Rule<'_>,
    program: String,
    share: u32,
) -> Result<ReviewedProgram, AppError> {
    let mut reviewed = ReviewedProgram { program, compared: 0, changes: Vec::new(), problem: None };
    let mut changes: BTreeMap<(&str, &str), ChangedOutcome> = BTreeMap::new();
    let counts = present.registry.index.current().await.record_counts().await?;
    let total = if rule.subject == Subject::Individual { counts.individuals } else { counts.groups };
    let picked = u64::from(share).min(total);
    for first in (0..picked).step_by(usize::try_from(BATCH_SUBJECTS).unwrap_or(1)) {
        // Keys count up from 1 without a gap.
        let places = first..(first + BATCH_SUBJECTS).min(picked);
        let ids: Vec<RecordId> = places.map(|at| RecordId(at * total / picked + 1)).collect();
        // A rule that the active plugins do not evaluate has no outcomes to compare.
        let before = outcomes(ctx, present, rule, &ids).await;
        let after = outcomes(ctx, new, rule, &ids).await;
        let (before, after) = match (before, after) {
            (Ok(before), Ok(after)) => (before, after),
            (Ok(_), Err(problem @ (AppError::Expression(_) | AppError::EngineNotInstalled(_)))) => {
                reviewed.problem = Some(problem.to_string());
                break;
            }
            (Err(problem @ (AppError::Expression(_) | AppError::EngineNotInstalled(_))), _) => {
                reviewed.problem = Some(format!("the active plugins do not evaluate it either: {problem}"));
                break;
            }
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        for ((id, before), after) in ids.into_iter().zip(before).zip(after) {
            let (Some(before), Some(after)) = (before, after) else { continue };
            reviewed.compared += 1;
            if before == after {
                continue;
            }
            let none = ChangedOutcome { before, after, subjects: 0, examples: Vec::new() };
            let change = changes.entry((before.name(), after.name())).or_insert(none);
            change.subjects += 1;
            if change.examples.len() < EXAMPLES_MAX {
                let reference = SubjectReference { kind: rule.subject, id };
                change.examples.push(subjects::called(&*present.registry.store, reference).await?);
            }
        }
    }
    reviewed.changes = changes.into_values().collect();
    reviewed.changes.sort_by_key(|change| Reverse(change.subjects));
    Ok(reviewed)
}

/// The outcome for each subject; none for one that cannot be read.
async fn outcomes(
    ctx: &OpContext,
    side: &Side,
    rule: &Rule<'_>,
    ids: &[RecordId],
) -> Result<Vec<Option<Verdict>>, AppError> {
    let stored = |id: &RecordId| SubjectInput::Stored(SubjectReference { kind: rule.subject, id: *id });
    let request = EvaluateRequest {
        expression: rule.expression.to_owned(),
        program: None,
        subject: rule.subject,
        subjects: ids.iter().map(stored).collect(),
        as_of: None,
        explain: false,
        repeated: None,
        evidence: false,
    };
    let engine = engine_of_program(&side.engine, rule.program)?;
    let Evaluated { results, .. } = evaluate::evaluate(ctx, &side.registry, &engine, request).await?;
    let verdict = |result: SubjectResult| match result {
        SubjectResult::Outcome { outcome, .. } => Some(outcome.verdict),
        SubjectResult::NotFound(_) => None,
    };
    Ok(results.into_iter().map(verdict).collect())
}
