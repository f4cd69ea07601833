//! Rule evaluation over domain types: the interface for the rest of the host, and a compiled rule in its sandbox.
//!
//! **Invariant:** all calls of a request for one rule, from compilation to the last explanation, share one fuel budget
//! and one time budget. Each call gets the remainder of the previous calls. A rule that is compared with another one
//! has budgets of its own; both share the memory of one instance.
//!
//! **Invariant:** a budget that an expression exhausts is [`EngineError::Exhausted`], charged to the client that sent
//! the expression. It is never a fault of the engine; otherwise one client could disable eligibility for all clients.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::Store;

use super::idle::IdleOfRule;
use super::{LinkedEngine, RuleHandle, Rules};
use crate::breaker::Suspended;
use crate::engine::SandboxEngine;
use crate::fault::{Blame, FaultKind, PluginFault};
use crate::install::LoadedPlugin;
use crate::limits::{PluginLimits, STACK_BYTES};
use crate::pool::Priority;
use crate::sandbox::{CallError, HostState, Sandbox};
use crate::stats::Usage;
use crate::suspension::{is_suspicious, report_own_fault};
use daftar_domain::audit::Actor;
use daftar_domain::context::Cancellation;
use daftar_domain::eligibility::{
    Batch, Bindings, Diagnostic, Outcomes, PlacedQuestion, Reference, Schema, Severity, Subject,
};
use daftar_domain::explanation::{ExplainedPart, Explanation, RuleSummary};
use daftar_domain::manifest::PluginName;

/// Number of rows after which a session is not used for a further task: an engine that never frees memory needs no more
/// of it than for the longest time slice of a preview.
const SESSION_ROWS_MAX: u64 = 128 * 4_096;

/// The budgets of one rule. The calls of a request share them, so that many calls cost no more than one. Each call of
/// background work, such as a batch of a preview, has its own, because the number of batches is unbounded.
struct Budgets {
    /// The fuel granted so far: the base, and an amount for each row.
    granted: u64,
    /// The fuel that is left.
    left: u64,
    /// The time spent.
    time: Duration,
}

/// A sandbox whose calls are charged to the budgets of a rule.
struct Metered {
    sandbox: Sandbox<Rules>,
    priority: Priority,
    cancellation: Cancellation,
}

impl Metered {
    /// Calls the plugin over that many rows.
    fn call<R>(
        &mut self,
        budgets: &mut Budgets,
        rows: u32,
        call: impl FnOnce(&mut Store<HostState>, &Rules) -> Result<R, CallError>,
    ) -> Result<R, EngineError> {
        if self.cancellation.is_cancelled() {
            return Err(EngineError::Abandoned);
        }
        let limits = self.sandbox.limits();
        let mut time = Duration::from_millis(limits.call_ms);
        match self.priority {
            Priority::Interactive => {
                let more = limits.fuel_of_rows(rows);
                budgets.granted = budgets.granted.saturating_add(more);
                budgets.left = budgets.left.saturating_add(more);
                time = time.saturating_sub(budgets.time);
            }
            Priority::Background => {
                budgets.granted = limits.fuel_for(rows);
                budgets.left = budgets.granted;
            }
        }
        let before = self.sandbox.usage();
        let answer = self.sandbox.call_within(budgets.left, time, call);
        let after = self.sandbox.usage();
        budgets.left = budgets.left.saturating_sub(after.fuel.saturating_sub(before.fuel));
        budgets.time = budgets.time.saturating_add(after.time.saturating_sub(before.time));
        answer.map_err(|fault| charged(fault, self.sandbox.limits(), budgets.granted))
    }
}

/// A rule inside an instance, with the results of its inspection.
struct CompiledRule {
    expression: String,
    handle: RuleHandle,
    budgets: Budgets,
    references: Vec<Reference>,
    questions: Vec<PlacedQuestion>,
    warnings: Vec<Diagnostic>,
    summary: RuleSummary,
    /// True once its queries were answered.
    is_bound: bool,
}

impl CompiledRule {
    fn compile(
        metered: &mut Metered,
        mut budgets: Budgets,
        expression: &str,
        schema: &Schema,
    ) -> Result<Self, EngineError> {
        let budget = &mut budgets;
        let compiled = metered.call(budget, 0, |store, rules| rules.compile(store, expression, schema))?;
        let handle = compiled.map_err(EngineError::Diagnostics)?;
        let references = metered.call(budget, 0, |store, rules| rules.references(store, handle, schema))?;
        let questions = metered.call(budget, 0, |store, rules| rules.questions(store, handle))?;
        let warnings = metered.call(budget, 0, |store, rules| rules.warnings(store, handle))?;
        let summary = metered.call(budget, 0, |store, rules| rules.summary(store, handle))?;
        let expression = expression.to_owned();
        Ok(Self { expression, handle, budgets, references, questions, warnings, summary, is_bound: false })
    }

    fn bind(&mut self, metered: &mut Metered, bindings: &Bindings) -> Result<(), EngineError> {
        let rule = self.handle;
        metered.call(&mut self.budgets, 0, |store, rules| rules.bind(store, rule, bindings))?;
        self.is_bound = true;
        Ok(())
    }

    fn evaluate(&mut self, metered: &mut Metered, batch: &Batch) -> Result<Outcomes, EngineError> {
        let rule = self.handle;
        let answer = metered.call(&mut self.budgets, batch.rows, |store, rules| rules.evaluate(store, rule, batch));
        let outcomes = answer??;
        metered.sandbox.note_output(outcomes_bytes(&outcomes));
        Ok(outcomes)
    }

    fn explain(&mut self, metered: &mut Metered, batch: &Batch, row: u32) -> Result<Explanation, EngineError> {
        let (rule, expression) = (self.handle, self.expression.as_str());
        let explained = metered
            .call(&mut self.budgets, batch.rows, |store, rules| rules.explain(store, rule, batch, row, expression));
        let explanation = explained??;
        metered.sandbox.note_output(explanation_bytes(&explanation));
        Ok(explanation)
    }

    /// Returns true if the bindings depend on the rows that were evaluated.
    fn is_bound_to_texts(&self) -> bool {
        self.is_bound && self.references.iter().any(|reference| reference.needs_texts)
    }
}

/// A compiled rule in its sandbox, for one request, and the rule that it is compared with.
pub struct RuleSession {
    metered: Metered,
    engine_name: String,
    rule: CompiledRule,
    compared: Option<CompiledRule>,
    schema: Arc<Schema>,
    plugin: Arc<LoadedPlugin>,
    /// Number of rows evaluated, by each rule.
    rows: u64,
    /// The time spent before the current task.
    time_before: Duration,
}

/// The rule that a session compares with its first one.
pub struct SecondRule<'s> {
    metered: &'s mut Metered,
    rule: &'s mut CompiledRule,
}

impl SecondRule<'_> {
    /// The fields that the rule reads, all of them fields of the schema.
    #[must_use]
    pub fn references(&self) -> &[Reference] {
        &self.rule.references
    }

    /// The rule's questions about codes.
    #[must_use]
    pub fn questions(&self) -> &[PlacedQuestion] {
        &self.rule.questions
    }

    /// The warnings of the compilation.
    #[must_use]
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.rule.warnings
    }

    /// Binds the results of the rule's queries, as [`RuleSession::bind`].
    ///
    /// # Errors
    /// A budget was exhausted, or a fault ended the session.
    pub fn bind(&mut self, bindings: &Bindings) -> Result<(), EngineError> {
        self.rule.bind(self.metered, bindings)
    }

    /// Evaluates a batch, as [`RuleSession::evaluate`].
    ///
    /// # Errors
    /// A budget was exhausted, or a fault ended the session.
    pub fn evaluate(&mut self, batch: &Batch) -> Result<Outcomes, EngineError> {
        self.rule.evaluate(self.metered, batch)
    }
}

impl RuleSession {
    /// Compiles an expression in a fresh instance.
    ///
    /// # Errors
    /// The expression is invalid or exhausts a budget, or the engine failed.
    pub(super) fn compile(
        plugin: &Arc<LoadedPlugin>,
        linked: &LinkedEngine,
        engine: &SandboxEngine,
        (priority, cancellation): (Priority, Cancellation),
        (expression, schema): (&str, &Arc<Schema>),
    ) -> Result<Self, EngineError> {
        let mut sandbox = started(plugin, linked, engine)?;
        sandbox.silence();
        let granted = plugin.limits().fuel_base;
        let budgets = Budgets { granted, left: granted, time: sandbox.usage().time };
        let mut metered = Metered { sandbox, priority, cancellation };
        let rule = CompiledRule::compile(&mut metered, budgets, expression, schema)?;
        Ok(Self {
            metered,
            engine_name: plugin.reference(),
            rule,
            compared: None,
            schema: Arc::clone(schema),
            plugin: Arc::clone(plugin),
            rows: 0,
            time_before: Duration::ZERO,
        })
    }

    /// Compiles an expression to compare this one with, in the same instance and with fuel and time of its own.
    ///
    /// # Errors
    /// Same as for the first expression.
    pub fn compare(&mut self, expression: &str) -> Result<SecondRule<'_>, EngineError> {
        let granted = self.metered.sandbox.limits().fuel_base;
        let budgets = Budgets { granted, left: granted, time: Duration::ZERO };
        let compiled = CompiledRule::compile(&mut self.metered, budgets, expression, &self.schema)?;
        Ok(SecondRule { metered: &mut self.metered, rule: self.compared.insert(compiled) })
    }

    /// The rule that [`RuleSession::compare`] compiled.
    pub fn compared(&mut self) -> Option<SecondRule<'_>> {
        self.compared.as_mut().map(|rule| SecondRule { metered: &mut self.metered, rule })
    }

    /// The fields that the rule reads, all of them fields of the schema.
    #[must_use]
    pub fn references(&self) -> &[Reference] {
        &self.rule.references
    }

    /// The rule's questions about codes.
    #[must_use]
    pub fn questions(&self) -> &[PlacedQuestion] {
        &self.rule.questions
    }

    /// The warnings of the compilation.
    #[must_use]
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.rule.warnings
    }

    /// The type of the rule's value and its cost.
    #[must_use]
    pub fn summary(&self) -> &RuleSummary {
        &self.rule.summary
    }

    /// Binds the results of the rule's queries. The caller calls it once before the first `evaluate`, even if there are
    /// no queries.
    ///
    /// # Errors
    /// A budget was exhausted, or a fault ended the session.
    pub fn bind(&mut self, bindings: &Bindings) -> Result<(), EngineError> {
        self.rule.bind(&mut self.metered, bindings)
    }

    /// Returns true if all rules of the session are bound, by an earlier task of the same preview.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.rule.is_bound && self.compared.as_ref().is_none_or(|compared| compared.is_bound)
    }

    /// Evaluates a batch: one outcome for each row, in order.
    ///
    /// # Errors
    /// A budget was exhausted, or a fault ended the session.
    pub fn evaluate(&mut self, batch: &Batch) -> Result<Outcomes, EngineError> {
        self.rows = self.rows.saturating_add(u64::from(batch.rows));
        self.rule.evaluate(&mut self.metered, batch)
    }

    /// Explains the outcome of one row of a batch. The first part is the complete expression, and its value is the
    /// outcome that [`RuleSession::evaluate`] returns.
    ///
    /// # Errors
    /// A budget was exhausted, or a fault ended the session.
    pub fn explain(&mut self, batch: &Batch, row: u32) -> Result<Explanation, EngineError> {
        self.rule.explain(&mut self.metered, batch, row)
    }

    /// The engine that compiled the rule, as the decision block names it: another engine may be active by now.
    #[must_use]
    pub fn engine_name(&self) -> &str {
        &self.engine_name
    }

    /// Returns the resource usage of the session so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.metered.sandbox.usage()
    }

    /// Returns the time that the current task spent in calls of the engine.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.usage().time.saturating_sub(self.time_before)
    }

    /// The cancellation of the request. Once it is cancelled, every call fails with [`EngineError::Abandoned`], and
    /// work between calls should end.
    #[must_use]
    pub fn cancellation(&self) -> &Cancellation {
        &self.metered.cancellation
    }

    /// Returns true if a fault ended the session that the engine may have caused itself.
    pub(super) fn has_suspicious_fault(&self) -> bool {
        self.metered.sandbox.fault().is_some_and(|fault| is_suspicious(fault.kind))
    }

    /// Prepares the session for background work of the same client with the same rules.
    pub(super) fn resume(&mut self, cancellation: Cancellation) {
        self.metered.priority = Priority::Background;
        self.metered.cancellation = cancellation;
        self.time_before = self.usage().time;
    }

    /// Returns true if a later task with the same rules may use the session: no fault ended it, it has not served as
    /// many rows as an instance may, and its bindings do not depend on the rows of its batches.
    pub(super) fn is_reusable(&self) -> bool {
        self.metered.sandbox.fault().is_none()
            && self.rows < SESSION_ROWS_MAX
            && !self.rule.is_bound_to_texts()
            && !self.compared.as_ref().is_some_and(CompiledRule::is_bound_to_texts)
    }

    /// Returns true if the session is an instance of this plugin.
    pub(super) fn is_of(&self, plugin: &Arc<LoadedPlugin>) -> bool {
        Arc::ptr_eq(&self.plugin, plugin)
    }
}

/// Starts an instance of an engine. The start has no input of a caller, so a fault counts against the engine.
fn started(
    plugin: &LoadedPlugin,
    linked: &LinkedEngine,
    engine: &SandboxEngine,
) -> Result<Sandbox<Rules>, EngineError> {
    Sandbox::start(plugin.sandbox_of(engine), |store| linked.instantiate(store)).map_err(|fault| {
        match fault.kind.blame() {
            Blame::Guest => {
                report_own_fault(plugin, &fault);
                EngineError::suspended(&fault.plugin, Suspended { retry_after_s: 1 })
            }
            Blame::Host => EngineError::Fault(fault),
        }
    })
}

/// The approximate size of outcomes, as the host counts it.
fn outcomes_bytes(outcomes: &Outcomes) -> usize {
    let names: usize = outcomes.missing_names.iter().map(String::len).sum();
    let numbers = outcomes.missing_offsets.len().saturating_add(outcomes.missing.len());
    outcomes.verdicts.len().saturating_add(names).saturating_add(numbers.saturating_mul(size_of::<u32>()))
}

/// The approximate size of an explanation, as the host counts it.
fn explanation_bytes(explanation: &Explanation) -> usize {
    let names = |part: &ExplainedPart| -> usize {
        let missing: usize = part.missing.iter().map(String::len).sum();
        missing.saturating_add(part.seen.iter().map(|fact| fact.name.len()).sum())
    };
    explanation.parts.iter().map(|part| names(part).saturating_add(size_of::<ExplainedPart>())).sum()
}

/// Calls an engine for the first time. Its expression language is unknown here, so any valid response is accepted, a
/// rule as well as diagnostics.
///
/// # Errors
/// The call ended with a fault.
pub(super) fn try_out(plugin: &LoadedPlugin, linked: &LinkedEngine, engine: &SandboxEngine) -> Result<(), PluginFault> {
    let schema = Schema { version: "smoke".to_owned(), subject: Subject::Individual, fields: Vec::new() };
    let mut sandbox = Sandbox::start(plugin.sandbox_of(engine), |store| linked.instantiate(store))?;
    let fuel = plugin.limits().fuel_base;
    let compiled = sandbox.call(fuel, |store, rules| rules.compile(store, "true", &schema))?;
    if let Ok(rule) = compiled {
        sandbox.call(fuel, |store, rules| rules.references(store, rule, &schema))?;
        sandbox.call(fuel, |store, rules| rules.questions(store, rule))?;
        sandbox.call(fuel, |store, rules| rules.warnings(store, rule))?;
        sandbox.call(fuel, |store, rules| rules.summary(store, rule))?;
    }
    Ok(())
}

/// Decides whether a fault is charged to the expression or to the engine. An expression can exhaust fuel, memory, stack
/// and output; these are counted deterministically, so the result is the same on every machine. The wall clock is not,
/// so a timeout is a fault.
fn charged(fault: PluginFault, limits: &PluginLimits, fuel: u64) -> EngineError {
    let bytes = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    let (budget, allowed) = match fault.kind {
        FaultKind::Fuel => ("fuel", fuel),
        FaultKind::Memory => ("memory", bytes(limits.memory_bytes)),
        FaultKind::Stack => ("stack", bytes(STACK_BYTES)),
        FaultKind::OutputTooLarge => ("output", bytes(limits.output_bytes)),
        FaultKind::HostCalls => ("host_calls", limits.host_calls),
        _ => return EngineError::Fault(fault),
    };
    EngineError::Exhausted { budget, allowed }
}

/// A rule to run, and its client.
#[derive(Debug, Clone)]
pub struct RuleRequest {
    /// The client, for fair scheduling.
    pub actor: Actor,
    /// The rule.
    pub expression: String,
    /// The fields that the rule may read.
    pub schema: Arc<Schema>,
    /// The idle sessions of earlier tasks with this rule, if there may be any.
    pub idle: Option<IdleOfRule>,
}

/// The reason why a rule returned no outcomes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The expression is invalid; at least one of these diagnostics is an error.
    #[error("{}", first_error(.0))]
    Diagnostics(Vec<Diagnostic>),
    /// The expression exhausts a budget of the request.
    #[error("the expression exhausts the budget `{budget}` of {allowed}")]
    Exhausted {
        /// `fuel`, `memory`, `stack`, `output` or `host_calls`.
        budget: &'static str,
        /// The size of the budget: fuel, or bytes.
        allowed: u64,
    },
    /// The expression exhausts a budget of the engine.
    #[error("the expression exhausts the engine's own budget `{budget}` of {allowed}")]
    EngineBudget {
        /// The engine's name for it.
        budget: String,
        /// The size of the budget.
        allowed: u64,
    },
    /// The engine's call ended with a fault.
    #[error(transparent)]
    Fault(#[from] PluginFault),
    /// The engine is suspended after repeated faults.
    #[error("plugin `{plugin}` is suspended after repeated faults, retry in {retry_after_s} s")]
    Suspended {
        /// Its name.
        plugin: PluginName,
        /// Time until a retry is useful, in seconds.
        retry_after_s: u64,
    },
    /// The queue of the plugin threads is full.
    #[error("too many rules are being evaluated, retry later")]
    Busy,
    /// The only engine is being compiled, for some seconds after a start.
    #[error("the eligibility engine `{0}` is being compiled, retry in some seconds")]
    Compiling(PluginName),
    /// No engine of the requested name is installed.
    #[error("no eligibility engine `{engine}` is installed; {}", listed(.installed))]
    NotInstalled {
        /// The requested name.
        engine: String,
        /// The installed engines.
        installed: Vec<PluginName>,
    },
    /// No engine is active.
    #[error("no eligibility engine is active: install one, or name one of several as `engine` in `[plugins]`")]
    NoEngine,
    /// The job was dropped before it completed: the server is stopping, or the task panicked.
    #[error("the evaluation was aborted before it completed")]
    Abandoned,
}

impl EngineError {
    /// The error of a suspended plugin.
    pub(super) fn suspended(plugin: &PluginName, Suspended { retry_after_s }: Suspended) -> Self {
        Self::Suspended { plugin: plugin.clone(), retry_after_s }
    }
}

/// A task with a compiled rule, run on a plugin thread.
pub type RuleTask = Box<dyn FnOnce(Result<&mut RuleSession, EngineError>) + Send>;

/// Compiles and evaluates rules: the active engine, or one that a rule names.
pub trait EligibilityEngine: Send + Sync {
    /// Runs `task` on a plugin thread with the compiled rule in its sandbox, or with the reason why the rule is not
    /// available. If the request is cancelled first, the task is dropped without having run.
    ///
    /// For a request, one fuel budget and one time budget cover the complete task, including compilation. Background
    /// work yields to requests and never occupies the last thread. Each of its calls has separate budgets, because the
    /// number of batches is unbounded.
    ///
    /// # Errors
    /// [`EngineError::Busy`], [`EngineError::Suspended`], [`EngineError::Compiling`], [`EngineError::NotInstalled`] or
    /// [`EngineError::NoEngine`]; the task is then dropped without having run.
    fn submit(
        &self,
        priority: Priority,
        request: RuleRequest,
        cancellation: Cancellation,
        task: RuleTask,
    ) -> Result<(), EngineError>;

    /// The most rules that can be evaluated concurrently in the background.
    fn background_threads(&self) -> usize;

    /// The engine, as the decision block names it: `name@version sha256:…`.
    ///
    /// # Errors
    /// [`EngineError::Compiling`], [`EngineError::NotInstalled`] or [`EngineError::NoEngine`].
    fn engine_name(&self) -> Result<String, EngineError>;

    /// Returns the engine of that name, for a rule that names one.
    ///
    /// # Errors
    /// [`EngineError::Compiling`] or [`EngineError::NotInstalled`].
    fn named(self: Arc<Self>, name: &str) -> Result<Arc<dyn EligibilityEngine>, EngineError>;
}

/// Runs `task` on a plugin thread with the compiled rule, and waits for its value. If the future is dropped, a task
/// that has not started never runs, and a running one ends at its next call of the rule.
///
/// # Errors
/// There is no rule: see [`EngineError`]. Errors inside `task` are part of its value.
pub async fn run_rule<R: Send + 'static>(
    engine: &dyn EligibilityEngine,
    priority: Priority,
    request: RuleRequest,
    task: impl FnOnce(&mut RuleSession) -> R + Send + 'static,
) -> Result<R, EngineError> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let cancellation = Cancellation::default();
    let _cancelled_when_this_is_dropped = cancellation.guard();
    let answer = move |session: Result<&mut RuleSession, EngineError>| drop(sender.send(session.map(task)));
    engine.submit(priority, request, cancellation, Box::new(answer))?;
    receiver.await.map_err(|_| EngineError::Abandoned)?
}

fn listed(engines: &[PluginName]) -> String {
    let names: Vec<String> = engines.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none is installed".to_owned() } else { format!("there are {}", names.join(", ")) }
}

fn first_error(diagnostics: &[Diagnostic]) -> String {
    let first = diagnostics.iter().find(|diagnostic| diagnostic.severity == Severity::Error);
    first.map_or_else(
        || "the expression is not valid".to_owned(),
        |error| format!("{} (line {}, column {})", error.message, error.line, error.column),
    )
}
