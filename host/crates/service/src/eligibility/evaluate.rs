//! Evaluates a rule on subjects that the request names or contains, and the rule of a program on one beneficiary.
//!
//! **Invariant:** a client that enrols a beneficiary receives the outcome of the program's rule and the names of
//! missing facts, never a fact. The administrator defines the rule, so a client cannot evaluate a rule of its own this
//! way.
//!
//! **Invariant:** an explanation has at most `DEPTH_MAX` levels, regardless of the depth that the engine reports, since
//! JSON parsers have depth limits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::civil::Date;

use super::check::{self, codes_of};
use super::decision::{Decision, expression_digest};
use super::evidence::{Content, EngineFacts};
use super::facts::{InlineSubject, SubjectFacts, inline_codes, with_inline};
use super::failure::{Failure, RequestIdentity, budget_problem, engine_error, refused, unless_exhausted};
use super::layout;
use super::load::{Loaded, Needs};
use super::schema::{self, ROLE_PATH, schema};
use crate::registry::Registry;
use crate::{audit, open_vocabulary, subjects};
use daftar_domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::calendar::{days_since_epoch, utc_day};
use daftar_domain::code::CodeNumber;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{
    Batch, CodeTexts, Diagnostic, PlacedQuestion, Reference, RowOutcome, RowSpace, Schema, Subject,
};
use daftar_domain::error::AppError;
use daftar_domain::explanation::{ExplainedPart, ExplainedValue, Explanation};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::{RecordId, VersionId};
use daftar_domain::subject::SubjectReference;
use daftar_sandbox::{EligibilityEngine, Priority, RuleRequest, RuleSession, run_rule};
use daftar_vocabulary::Generation;

/// Maximum number of individuals that one request reads, members of households included: about 1,000 large households.
pub const PEOPLE_MAX: usize = 20_000;
/// Maximum number of subjects of one request with explanations.
pub const EXPLAINED_MAX: usize = 100;
/// Maximum number of parts of all explanations of one response.
const EXPLAINED_PARTS_MAX: usize = 20_000;
/// Number of records with their versions that one audit entry names.
const VERSIONS_PER_ENTRY: usize = 100;
/// Note of the audit entries of a decision that was exported.
const EVIDENCE_NOTE: &str = "evidence bundle issued";

/// A subject to evaluate.
#[derive(Debug, Clone)]
pub enum SubjectInput {
    /// A record of the register.
    Reference(Subject, IdentifierKey),
    /// A record of the register that was already found.
    Stored(SubjectReference),
    /// An inline record of the request.
    Inline(Box<InlineSubject>),
}

/// An evaluation request.
#[derive(Debug, Clone)]
pub struct EvaluateRequest {
    /// The rule.
    pub expression: String,
    /// The program that has this rule, by reference and version.
    pub program: Option<(String, VersionId)>,
    /// Kind of its subjects.
    pub subject: Subject,
    /// The subjects.
    pub subjects: Vec<SubjectInput>,
    /// Day of the evaluation; today if `None`.
    pub as_of: Option<Date>,
    /// True if the results include explanations.
    pub explain: bool,
    /// The decision to repeat, for its day.
    pub repeated: Option<Arc<Decision>>,
    /// True if the result includes the evidence of the decision.
    pub evidence: bool,
}

/// Result for one subject.
#[derive(Debug)]
pub enum SubjectResult {
    /// The rule was evaluated.
    Outcome {
        /// Outcome of the rule.
        outcome: RowOutcome,
        /// Its explanation, if requested and supported by the engine.
        explanation: Option<Box<ExplanationTree>>,
    },
    /// The subject does not exist, or it is hidden.
    NotFound(AppError),
}

impl From<ExplainedOutcome> for SubjectResult {
    fn from((outcome, explanation): ExplainedOutcome) -> Self {
        Self::Outcome { outcome, explanation: explanation.map(Box::new) }
    }
}

/// Result of an evaluation.
#[derive(Debug)]
pub struct Evaluated {
    /// One result per subject, in the order of the request.
    pub results: Vec<SubjectResult>,
    /// Inputs of the decision, for a repetition.
    pub decision: Decision,
    /// Warnings about the rule.
    pub warnings: Vec<Diagnostic>,
    /// The fields that the rule reads, named as in missing facts.
    pub fields: Vec<String>,
    /// The codes in the explanations.
    pub codes: BTreeMap<CodeNumber, CodeTexts>,
    /// The input of the engine, if requested.
    pub evidence: Option<Box<Content>>,
}

/// The authority with which a rule reads the register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Authority {
    /// The authority of the client: the rule may read the data that the scopes of the client permit.
    Caller,
    /// The authority of a program: the administrator defined the rule.
    Program,
}

/// Evaluates a rule for the client.
///
/// # Errors
/// [`AppError::Expression`] if the rule is invalid or exhausts a budget, [`AppError::Invalid`] for invalid inline
/// records, [`AppError::MissingScope`] and [`AppError::FieldNotGranted`] if the rule reads data that the client may not
/// read.
pub async fn evaluate(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    request: EvaluateRequest,
) -> Result<Evaluated, AppError> {
    evaluate_for(ctx, registry, engine, request, Authority::Caller).await
}

async fn evaluate_for(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    request: EvaluateRequest,
    authority: Authority,
) -> Result<Evaluated, AppError> {
    let engine_name = engine.engine_name().map_err(engine_error)?;
    let targets = request.subjects.iter().filter_map(|subject| match subject {
        SubjectInput::Reference(kind, key) => Some(format!("{}/{}", kind.record_kind(), key.reveal())),
        SubjectInput::Inline(_) | SubjectInput::Stored(_) => None,
    });
    let targets: Vec<String> = targets.collect();
    let (is_repeated, is_evidence) = (request.repeated.is_some(), request.evidence);
    let requested = RequestIdentity {
        expression_digest: expression_digest(&request.expression),
        under: format!("{:?} {} {engine_name}", request.subject, request.explain),
        subjects: request.subjects.len(),
    };
    let outcome = unless_exhausted(ctx, registry, requested, run(ctx, registry, engine, request, authority)).await;
    // The entries name all records that were read, members of households included. For a rejected request, the entry
    // names the requested records.
    let entries = match &outcome {
        Ok(evaluated) if is_evidence => {
            let named = |entry: AuditEntry| match entry.note.clone() {
                Some(note) => entry.with_note(format!("{note}; {EVIDENCE_NOTE}")),
                None => entry.with_note(EVIDENCE_NOTE),
            };
            read_entries(ctx, evaluated, is_repeated).into_iter().map(named).collect()
        }
        Ok(evaluated) => read_entries(ctx, evaluated, is_repeated),
        Err(_) => vec![audit::entry(ctx, AuditAction::Evaluate, AuditOutcome::Refused, targets)],
    };
    for entry in entries {
        registry.audit.record(ctx, entry).await?;
    }
    outcome
}

/// Returns the audit entries that name the records that were read. For a repeated decision they include the versions,
/// which may differ from the current ones.
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
        idle: None,
    };
    let runtime = tokio::runtime::Handle::current();
    run_rule(engine.as_ref(), Priority::Interactive, rule, move |session| evaluation.run(&runtime, session)).await?
}

/// A running evaluation. It runs on a thread of the sandbox.
pub(super) struct Evaluation {
    pub ctx: OpContext,
    pub registry: Registry,
    pub generation: Arc<Generation>,
    schema: Arc<Schema>,
    pub as_of: Date,
    pub request: EvaluateRequest,
    pub authority: Authority,
}

impl Evaluation {
    fn run(self, runtime: &tokio::runtime::Handle, session: &mut RuleSession) -> Result<Evaluated, Failure> {
        let references = session.references().to_vec();
        if self.authority == Authority::Caller {
            schema::check(&self.ctx, &references, &self.request.subjects)?;
        }
        let needs = Needs { household: reads_household(&references), programs: reads_programs(&references) };
        // Checked before any record is read: a decision that cannot be repeated is rejected for this reason, for any
        // subject.
        if let Some(repeated) = &self.request.repeated {
            repeated.check_setting(&self.decision(session, &self.generation, BTreeMap::new()))?;
        }
        let loaded = runtime.block_on(self.load(needs, session.cancellation()))?;
        // The vocabularies are read after the records, so that they contain codes that were published and recorded in
        // the meantime. Inline records are resolved with the same generation, which also contains the codes of open
        // vocabularies that only they or the rule name.
        let generation = self.consulted(runtime, &loaded, (&references, session.questions()))?;
        let all = with_inline(&generation, loaded.stored, &self.request.subjects)?;
        let subjects: Vec<&SubjectFacts> = all.iter().filter_map(|subject| subject.as_ref().ok()).collect();
        let decision = self.decision(session, &generation, loaded.reads.versions);
        if let Some(repeated) = &self.request.repeated {
            repeated.check_setting(&decision)?;
            repeated.check_records(&decision.versions)?;
        }
        let decided = if self.request.evidence {
            if all.len() > subjects.len() {
                let absent = all.into_iter().find_map(Result::err);
                return Err(absent.unwrap_or_else(|| AppError::internal("a subject has no facts")).into());
            }
            self.decide_with_evidence(session, &generation, &subjects)?
        } else {
            self.decide(session, &generation, &subjects)?
        };
        let Decided { outcomes, codes, evidence } = decided;
        let warnings = session.warnings().to_vec();
        let fields = references.iter().map(Reference::name).collect();
        Ok(Evaluated { results: results(all, outcomes), decision, warnings, fields, codes, evidence })
    }

    /// Evaluates the subjects in one batch, and explains each result if requested.
    fn decide(
        &self,
        session: &mut RuleSession,
        generation: &Generation,
        subjects: &[&SubjectFacts],
    ) -> Result<Decided, Failure> {
        let references = session.references().to_vec();
        let batch = layout::batch(&self.schema, &references, subjects, days_since_epoch(self.as_of))?;
        let with_texts = layout::codes_with_texts(&references, &batch);
        let bindings = check::bindings(generation, session.questions(), &with_texts).map_err(refused)?;
        session.bind(&bindings)?;
        let outcomes = session.evaluate(&batch)?;
        let (mut decided, mut parts) = (Vec::with_capacity(subjects.len()), 0);
        for (row, subject) in subjects.iter().enumerate() {
            let explanation = if self.request.explain {
                // Each subject has its own batch: a part is reported once, without the columns of other subjects.
                let batch = layout::batch(&self.schema, &references, &[*subject], days_since_epoch(self.as_of))?;
                explained(session, &self.request.expression, &batch, &mut parts)?
            } else {
                None
            };
            decided.push((outcomes.of(row), explanation));
        }
        let mut numbers = BTreeSet::new();
        for (_, explanation) in &decided {
            explanation.iter().for_each(|tree| add_codes(&tree.root, &mut numbers));
        }
        let codes = numbers.into_iter().filter_map(|number| Some((number, generation.code_texts(number)?)));
        Ok(Decided { outcomes: decided, codes: codes.collect(), evidence: None })
    }

    /// Evaluates each subject from the content of an evidence bundle.
    fn decide_with_evidence(
        &self,
        session: &mut RuleSession,
        generation: &Generation,
        subjects: &[&SubjectFacts],
    ) -> Result<Decided, Failure> {
        let (references, as_of) = (session.references().to_vec(), days_since_epoch(self.as_of));
        let batches = subjects.iter().map(|subject| layout::batch(&self.schema, &references, &[*subject], as_of));
        let batches: Vec<Batch> = batches.collect::<Result<_, _>>()?;
        let answers = check::bindings(generation, session.questions(), &BTreeSet::new()).map_err(refused)?.answers;
        let questions = session.questions().iter().map(|placed| placed.question.clone()).zip(answers).collect();
        let facts = EngineFacts { schema: &self.schema, as_of: self.as_of, questions, batches, generation };
        let content = Content::new(&self.request, session.engine_name(), facts)?;
        let inputs = content.inputs().map_err(AppError::internal)?;
        let outcomes = inputs.decide(session)?;
        Ok(Decided { outcomes, codes: inputs.codes_by_number(), evidence: Some(Box::new(content)) })
    }

    /// Returns the active vocabularies, with the contents of packs of open vocabularies for the codes of inline records
    /// and of the rule.
    fn consulted(
        &self,
        runtime: &tokio::runtime::Handle,
        loaded: &Loaded,
        (references, questions): (&[Reference], &[PlacedQuestion]),
    ) -> Result<Arc<Generation>, AppError> {
        let active = self.active_for(runtime, loaded, references)?;
        check::consulted(&self.registry, active, || {
            let mut codes = inline_codes(&self.request.subjects);
            codes.extend(codes_of(questions));
            codes
        })
    }

    /// Returns the active vocabularies, with every code that the rule reads: another server may have numbered a code that
    /// is not active here yet.
    fn active_for(
        &self,
        runtime: &tokio::runtime::Handle,
        loaded: &Loaded,
        references: &[Reference],
    ) -> Result<Arc<Generation>, AppError> {
        let active = self.registry.vocabularies.current();
        let facts: Vec<&SubjectFacts> = loaded.stored.values().filter_map(|facts| facts.as_ref().ok()).collect();
        let is_new = |number: &CodeNumber| number.0 as usize >= active.code_count();
        if !facts.iter().any(|facts| facts.codes().iter().any(is_new)) {
            return Ok(active);
        }
        let read = layout::batch(&self.schema, references, &facts, days_since_epoch(self.as_of))?;
        let new: BTreeSet<CodeNumber> = layout::codes(&read).into_iter().filter(is_new).collect();
        if new.is_empty() {
            return Ok(active);
        }
        let stored = runtime.block_on(self.registry.store.code_table())?;
        open_vocabulary::with_codes_of_records(&self.registry, active, &stored, new)
    }

    fn decision(
        &self,
        session: &RuleSession,
        generation: &Generation,
        versions: BTreeMap<String, VersionId>,
    ) -> Decision {
        Decision {
            versions: versions.into_iter().chain(self.request.program.clone()).collect(),
            is_by_consent: self.ctx.consent.is_some() && self.authority == Authority::Caller,
            ..Decision::of(session, &self.request.expression, &self.schema, generation, self.as_of)
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

/// The outcomes of the subjects with facts, in order.
struct Decided {
    outcomes: Vec<ExplainedOutcome>,
    codes: BTreeMap<CodeNumber, CodeTexts>,
    evidence: Option<Box<Content>>,
}

/// The outcome for one subject with its explanation, if requested.
pub(super) type ExplainedOutcome = (RowOutcome, Option<ExplanationTree>);

fn results(subjects: Vec<Result<SubjectFacts, AppError>>, outcomes: Vec<ExplainedOutcome>) -> Vec<SubjectResult> {
    let mut outcomes = outcomes.into_iter();
    let result = |subject: Result<SubjectFacts, AppError>| match subject {
        Ok(_) => outcomes.next().map(SubjectResult::from),
        Err(error) => Some(SubjectResult::NotFound(error)),
    };
    subjects.into_iter().filter_map(result).collect()
}

/// Returns the explanation of the result for the only subject of a batch. `parts` counts the parts of a response.
pub(super) fn explained(
    session: &mut RuleSession,
    expression: &str,
    batch: &Batch,
    parts: &mut usize,
) -> Result<Option<ExplanationTree>, Failure> {
    let explanation = session.explain(batch, 0)?;
    *parts += explanation.parts.len();
    if *parts > EXPLAINED_PARTS_MAX {
        return Err(Failure::App(budget_problem(format!(
            "its explanations exhausted the budget of {EXPLAINED_PARTS_MAX} for `explained_parts`; ask about fewer subjects"
        ))));
    }
    Ok(tree(expression, explanation))
}

/// Adds the codes of a part and of its child parts. A tree has few levels, so the function may be recursive.
fn add_codes(node: &Node, numbers: &mut BTreeSet<CodeNumber>) {
    let values = node.part.seen.iter().map(|fact| &fact.value).chain([&node.part.value]);
    numbers.extend(values.filter_map(|value| match value {
        ExplainedValue::Code(number) => Some(*number),
        _ => None,
    }));
    node.children.iter().for_each(|child| add_codes(child, numbers));
}

/// Evaluates the expression of a program for a beneficiary on the current day, with the authority of the program.
///
/// # Errors
/// [`AppError::Expression`] if the expression cannot be evaluated, [`AppError::NoEngine`], [`AppError::Busy`].
pub async fn ask_program(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    expression: &str,
    beneficiary: SubjectReference,
) -> Result<RowOutcome, AppError> {
    let request = EvaluateRequest {
        expression: expression.to_owned(),
        program: None,
        subject: beneficiary.kind,
        subjects: vec![SubjectInput::Stored(beneficiary)],
        as_of: None,
        explain: false,
        repeated: None,
        evidence: false,
    };
    let evaluated = evaluate_for(ctx, registry, engine, request, Authority::Program).await?;
    match evaluated.results.into_iter().next() {
        Some(SubjectResult::Outcome { outcome, .. }) => Ok(outcome),
        Some(SubjectResult::NotFound(error)) => Err(error),
        None => Err(AppError::internal("a rule about one beneficiary gave no outcome")),
    }
}

/// Returns references to up to `count` records, spread evenly over the register in the order of registration. The
/// result is the same until another record is registered. For the administrator: requires no scope.
///
/// # Errors
/// If the store fails.
pub async fn sample(registry: &Registry, subject: Subject, count: u32) -> Result<Vec<String>, AppError> {
    let counts = registry.index.current().await.record_counts().await?;
    let total = match subject {
        Subject::Individual => counts.individuals,
        Subject::Group => counts.groups,
    };
    let picked = u64::from(count).min(total);
    let mut references = Vec::new();
    for at in 0..picked {
        // Keys are consecutive, starting at 1.
        let id = RecordId(at * total / picked + 1);
        references.push(subjects::called(&*registry.store, SubjectReference { kind: subject, id }).await?);
    }
    Ok(references)
}

/// Maximum number of levels of a tree. Each level is two levels of JSON, and many JSON parsers accept at most 128.
const DEPTH_MAX: usize = 50;

/// One part of an expression with its child parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its text.
    pub text: String,
    /// Its value.
    pub part: ExplainedPart,
    /// Its child parts, in the order of the text.
    pub children: Vec<Node>,
}

/// Explanation of the result for one subject.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplanationTree {
    /// The complete expression.
    pub root: Node,
    /// True if the explanation is truncated.
    pub is_cut: bool,
}

/// Builds the tree of an explanation; `None` if it has no parts.
fn tree(expression: &str, explanation: Explanation) -> Option<ExplanationTree> {
    let parents: Vec<Option<usize>> = explanation.parts.iter().map(|part| part.parent).collect();
    let mut depths: Vec<usize> = Vec::with_capacity(parents.len());
    for parent in &parents {
        let above = parent.and_then(|parent| depths.get(parent).copied());
        depths.push(above.map_or(0, |depth| depth + 1));
    }
    let node = |part: ExplainedPart| {
        let text = expression.get(part.text.clone()).unwrap_or_default().to_owned();
        Node { text, part, children: Vec::new() }
    };
    // A part that is too deep gets no node: each text may be as long as the expression.
    let parts = explanation.parts.into_iter().zip(&depths);
    let mut nodes: Vec<Option<Node>> = parts.map(|(part, depth)| (*depth < DEPTH_MAX).then(|| node(part))).collect();
    let is_cut = explanation.is_cut || depths.iter().any(|depth| *depth >= DEPTH_MAX);
    // Each part follows its parent. In reverse order, every part is therefore complete before it is added to its
    // parent.
    for at in (1..nodes.len()).rev() {
        let Some(mut part) = nodes.get_mut(at).and_then(Option::take) else { continue };
        part.children.reverse();
        let parent = parents.get(at).copied().flatten().and_then(|parent| nodes.get_mut(parent));
        if let Some(Some(parent)) = parent {
            parent.children.push(part);
        }
    }
    let mut root = nodes.into_iter().next().flatten()?;
    root.children.reverse();
    Some(ExplanationTree { root, is_cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(parent: Option<usize>, text: std::ops::Range<usize>) -> ExplainedPart {
        let value = ExplainedValue::Boolean(true);
        ExplainedPart { parent, text, item: None, value, missing: vec![], error: None, seen: vec![] }
    }

    fn texts(node: &Node) -> String {
        let children: Vec<String> = node.children.iter().map(texts).collect();
        if children.is_empty() { node.text.clone() } else { format!("{}({})", node.text, children.join(" ")) }
    }

    #[test]
    fn parts_become_a_tree_in_the_order_of_the_text() {
        let parts =
            vec![part(None, 0..6), part(Some(0), 0..1), part(Some(1), 1..2), part(Some(1), 2..3), part(Some(0), 5..6)];
        let tree = tree("abcdef", Explanation { parts, is_cut: false }).unwrap();
        assert_eq!(texts(&tree.root), "abcdef(a(b c) f)");
        assert!(!tree.is_cut);
    }

    #[test]
    fn what_lies_too_deep_is_cut_and_said_to_be() {
        let chain = |levels: usize| {
            let mut parts = vec![part(None, 0..1)];
            parts.extend((1..levels).map(|at| part(Some(at - 1), 0..1)));
            tree("a", Explanation { parts, is_cut: false }).unwrap()
        };
        assert!(!chain(DEPTH_MAX - 1).is_cut && !chain(DEPTH_MAX).is_cut);
        let deep = chain(4_000);
        assert!(deep.is_cut);
        assert_eq!(texts(&deep.root).matches('a').count(), DEPTH_MAX);
    }

    #[test]
    fn parts_before_and_after_a_truncated_part_remain() {
        let mut parts = vec![part(None, 0..1)];
        parts.extend((1..DEPTH_MAX + 2).map(|at| part(Some(at - 1), 0..1)));
        parts.extend([part(Some(DEPTH_MAX - 2), 1..2), part(Some(DEPTH_MAX - 1), 1..2), part(Some(0), 2..3)]);
        let tree = tree("abc", Explanation { parts, is_cut: false }).unwrap();
        assert!(tree.is_cut);
        let expected = format!("{}a b{} c)", "a(".repeat(DEPTH_MAX - 1), ")".repeat(DEPTH_MAX - 2));
        assert_eq!(texts(&tree.root), expected);
    }
}
