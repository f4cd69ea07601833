//! How the rest of the host evaluates rules, over domain types, and a rule in its sandbox.
//!
//! **Invariant:** everything that a request does with its rule, from compilation to the last explanation, is charged to one budget of fuel
//! and one of time: what one call leaves of it is what the next one has.
//! **Invariant:** a budget that an expression exhausts is its own [`EngineError::Exhausted`], charged to whoever sent the
//! expression; it is never a fault of the engine, or one client could switch eligibility off for all.

use std::sync::Arc;

use wasmtime::Store;

use super::breaker::{SetAside, Trial};
use super::engine::SandboxEngine;
use super::fault::{Blame, FaultKind, PluginFault};
use super::install::LoadedPlugin;
use super::limits::{PluginLimits, STACK_BYTES};
use super::pool::Priority;
use super::sandbox::{CallError, HostState, Sandbox};
use super::stats::Usage;
use super::wit::{LinkedEngine, RuleHandle, Rules};
use daftar_domain::audit::Actor;
use daftar_domain::context::Cancellation;
use daftar_domain::eligibility::{
    Batch, Bindings, Diagnostic, Outcomes, PlacedQuestion, Reference, Schema, Severity, Subject,
};
use daftar_domain::explanation::{ExplainedPart, Explanation, RuleSummary};
use daftar_domain::manifest::PluginName;

/// A sandbox whose calls are charged to a budget: all calls of a request together, so that it is as cheap as one call, however many it
/// makes; each call of background work by itself, such as the batches of a preview, of which there may be any number.
struct Metered {
    sandbox: Sandbox<Rules>,
    priority: Priority,
    cancellation: Cancellation,
    /// The fuel granted so far: the base, and something for each row.
    granted: u64,
    /// What is left of it.
    left: u64,
}

impl Metered {
    /// Makes a call about so many rows.
    fn call<R>(
        &mut self,
        rows: u32,
        call: impl FnOnce(&mut Store<HostState>, &Rules) -> Result<R, CallError>,
    ) -> Result<R, EngineError> {
        if self.cancellation.is_cancelled() {
            return Err(EngineError::Abandoned);
        }
        let limits = self.sandbox.limits();
        match self.priority {
            Priority::Interactive => {
                let more = limits.fuel_of_rows(rows);
                self.granted = self.granted.saturating_add(more);
                self.left = self.left.saturating_add(more);
            }
            Priority::Background => {
                self.granted = limits.fuel_for(rows);
                self.left = self.granted;
            }
        }
        let before = self.sandbox.usage().fuel;
        let answer = self.sandbox.call(self.left, call);
        self.left = self.left.saturating_sub(self.sandbox.usage().fuel.saturating_sub(before));
        answer.map_err(|fault| charged(fault, self.sandbox.limits(), self.granted))
    }
}

/// A compiled rule in its sandbox, for one request, with everything that it said about itself.
pub struct RuleSession {
    metered: Metered,
    engine_name: String,
    expression: String,
    rule: RuleHandle,
    references: Vec<Reference>,
    questions: Vec<PlacedQuestion>,
    warnings: Vec<Diagnostic>,
    summary: RuleSummary,
}

impl RuleSession {
    /// Compiles an expression in a fresh instance.
    ///
    /// # Errors
    /// The expression is wrong or exhausts a budget, or the engine failed.
    pub(super) fn compile(
        plugin: &LoadedPlugin,
        linked: &LinkedEngine,
        engine: &SandboxEngine,
        (priority, cancellation): (Priority, Cancellation),
        expression: &str,
        schema: &Schema,
    ) -> Result<Self, EngineError> {
        let mut sandbox = started(plugin, linked, engine)?;
        sandbox.silence();
        if priority == Priority::Interactive {
            sandbox.share_time();
        }
        let granted = plugin.limits().fuel_base;
        let mut metered = Metered { sandbox, priority, cancellation, granted, left: granted };
        let compiled = metered.call(0, |store, rules| rules.compile(store, expression, schema))?;
        let rule = compiled.map_err(EngineError::Diagnostics)?;
        let references = metered.call(0, |store, rules| rules.references(store, rule, schema))?;
        let questions = metered.call(0, |store, rules| rules.questions(store, rule))?;
        let warnings = metered.call(0, |store, rules| rules.warnings(store, rule))?;
        let summary = metered.call(0, |store, rules| rules.summary(store, rule))?;
        let (engine_name, expression) = (plugin.reference(), expression.to_owned());
        Ok(Self { metered, engine_name, expression, rule, references, questions, warnings, summary })
    }

    /// The fields that it reads, all of them fields of the schema.
    #[must_use]
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// What it asks about codes.
    #[must_use]
    pub fn questions(&self) -> &[PlacedQuestion] {
        &self.questions
    }

    /// What is doubtful about it; it runs all the same.
    #[must_use]
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The type of its value and what it costs.
    #[must_use]
    pub fn summary(&self) -> &RuleSummary {
        &self.summary
    }

    /// Answers its questions. Once, before the first `evaluate`, also when it asks nothing.
    ///
    /// # Errors
    /// A budget was exhausted, or a fault ended the session.
    pub fn bind(&mut self, bindings: &Bindings) -> Result<(), EngineError> {
        let rule = self.rule;
        self.metered.call(0, |store, rules| rules.bind(store, rule, bindings))
    }

    /// Evaluates a batch: one outcome for each row, in order.
    ///
    /// # Errors
    /// A budget was exhausted, or a fault ended the session.
    pub fn evaluate(&mut self, batch: &Batch) -> Result<Outcomes, EngineError> {
        let rule = self.rule;
        let outcomes = self.metered.call(batch.rows, |store, rules| rules.evaluate(store, rule, batch))??;
        self.metered.sandbox.note_output(outcomes_bytes(&outcomes));
        Ok(outcomes)
    }

    /// How the outcome of one row of a batch comes about. The first part is the whole expression, and its value is the outcome that
    /// [`RuleSession::evaluate`] gives.
    ///
    /// # Errors
    /// A budget was exhausted, or a fault ended the session.
    pub fn explain(&mut self, batch: &Batch, row: u32) -> Result<Explanation, EngineError> {
        let (rule, expression) = (self.rule, self.expression.as_str());
        let explained =
            self.metered.call(batch.rows, |store, rules| rules.explain(store, rule, batch, row, expression));
        let explanation = explained??;
        self.metered.sandbox.note_output(explanation_bytes(&explanation));
        Ok(explanation)
    }

    /// The engine that compiled it, as the decision block names it: another may be active by now.
    #[must_use]
    pub fn engine_name(&self) -> &str {
        &self.engine_name
    }

    /// What the session has used so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.metered.sandbox.usage()
    }

    /// Whether the request was given up: then every further call is [`EngineError::Abandoned`], and what is done between calls is to end.
    #[must_use]
    pub fn cancellation(&self) -> &Cancellation {
        &self.metered.cancellation
    }

    /// Whether a fault ended it that may be the engine's own failing as well as the expression's doing.
    pub(super) fn has_suspicious_fault(&self) -> bool {
        self.metered.sandbox.fault().is_some_and(|fault| is_suspicious(fault.kind))
    }
}

/// Whether a fault under a caller's expression may be the engine's own failing. A budget that the expression exhausts is not.
#[must_use]
pub fn is_suspicious(kind: FaultKind) -> bool {
    use FaultKind::{Instances, InvalidAnswer, Table, Timeout, Trap};
    matches!(kind, Timeout | Table | Instances | Trap | InvalidAnswer)
}

/// An instance of an engine. No caller has a part in whether it starts, so a fault counts against the engine.
fn started(
    plugin: &LoadedPlugin,
    linked: &LinkedEngine,
    engine: &SandboxEngine,
) -> Result<Sandbox<Rules>, EngineError> {
    Sandbox::start(plugin.sandbox_of(engine), |store| linked.instantiate(store)).map_err(|fault| {
        match fault.kind.blame() {
            Blame::Guest => {
                report_own_fault(plugin, &fault);
                EngineError::set_aside(&fault.plugin, SetAside { retry_after_s: 1 })
            }
            Blame::Host => EngineError::Fault(fault),
        }
    })
}

/// Counts a fault that no caller can have caused.
pub(super) fn report_own_fault(plugin: &LoadedPlugin, fault: &PluginFault) {
    if plugin.breaker.record_fault() {
        tracing::error!(
            plugin.name = %fault.plugin, plugin.fault = fault.kind.name(),
            "a plugin keeps failing by itself, it is set aside for a while"
        );
    }
}

/// Tries a plugin that was set aside with `try_out`, which gives it the host's own input.
///
/// # Errors
/// It fails still, and is set aside for longer.
pub(super) fn tried_again(
    trial: Trial,
    plugin: &LoadedPlugin,
    try_out: impl FnOnce() -> Result<(), PluginFault>,
) -> Result<(), SetAside> {
    match try_out() {
        Ok(()) => {
            trial.succeeded();
            tracing::info!(plugin.name = %plugin.manifest().name, "a plugin that was set aside answers again");
            Ok(())
        }
        Err(fault) => {
            tracing::warn!(
                plugin.name = %plugin.manifest().name, plugin.fault = fault.kind.name(),
                "a plugin that was set aside still fails"
            );
            Err(trial.failed())
        }
    }
}

/// Asks a plugin that failed under a caller's input something of the host's own: only if it fails at that, too, it is the plugin
/// that is broken and not the input.
pub(super) fn check(plugin: &LoadedPlugin, try_out: impl FnOnce() -> Result<(), PluginFault>) {
    if plugin.breaker.should_check()
        && let Err(fault) = try_out()
        && fault.kind.blame() == Blame::Guest
    {
        report_own_fault(plugin, &fault);
    }
}

/// What outcomes take, about as the host counts it.
fn outcomes_bytes(outcomes: &Outcomes) -> usize {
    let names: usize = outcomes.missing_names.iter().map(String::len).sum();
    let numbers = outcomes.missing_offsets.len().saturating_add(outcomes.missing.len());
    outcomes.verdicts.len().saturating_add(names).saturating_add(numbers.saturating_mul(size_of::<u32>()))
}

/// What an explanation takes, about as the host counts it.
fn explanation_bytes(explanation: &Explanation) -> usize {
    let names = |part: &ExplainedPart| -> usize {
        let missing: usize = part.missing.iter().map(String::len).sum();
        missing.saturating_add(part.seen.iter().map(|fact| fact.name.len()).sum())
    };
    explanation.parts.iter().map(|part| names(part).saturating_add(size_of::<ExplainedPart>())).sum()
}

/// The first call into an engine. Which language it speaks is not for us to know: any answer that keeps to the interface is
/// good, a rule as well as diagnostics.
///
/// # Errors
/// It did not answer.
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

/// Whether a fault is charged to the expression or to the engine. Fuel, memory, stack and output are what an expression can
/// exhaust; they are counted deterministically, so the verdict is the same wherever it is asked. The wall clock is not, so
/// running into it is a fault.
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

/// A rule that is to be run, and for whom.
#[derive(Debug, Clone)]
pub struct RuleRequest {
    /// Its thread is scheduled fairly among those that ask.
    pub actor: Actor,
    /// The rule.
    pub expression: String,
    /// What it may read.
    pub schema: Arc<Schema>,
}

/// Why a rule gave no outcomes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The expression is wrong; at least one of these is an error.
    #[error("{}", first_error(.0))]
    Diagnostics(Vec<Diagnostic>),
    /// The expression needs more than one request may use.
    #[error("the expression exhausts the budget `{budget}` of {allowed}")]
    Exhausted {
        /// `fuel`, `memory`, `stack`, `output` or `host_calls`.
        budget: &'static str,
        /// How large the budget is: fuel, or bytes.
        allowed: u64,
    },
    /// The expression needs more room than the engine allows itself.
    #[error("the expression exhausts the engine's own budget `{budget}` of {allowed}")]
    EngineBudget {
        /// The engine's name for it.
        budget: String,
        /// How large it is.
        allowed: u64,
    },
    /// The engine did not answer as it should.
    #[error(transparent)]
    Fault(#[from] PluginFault),
    /// The engine fails by itself and is left alone for a while.
    #[error("plugin `{plugin}` keeps failing and is set aside, retry in {retry_after_s} s")]
    SetAside {
        /// Its name.
        plugin: PluginName,
        /// Seconds until it is worth asking again.
        retry_after_s: u64,
    },
    /// Too much is waiting already.
    #[error("too many rules are being evaluated, retry later")]
    Busy,
    /// No engine is active.
    #[error("no eligibility engine is active: install one, or name one of several as `engine` in `[plugins]`")]
    NoEngine,
    /// The work was dropped before it was done: the server is stopping, or the task panicked.
    #[error("the evaluation was given up before it was done")]
    Abandoned,
}

impl EngineError {
    /// That plugin is set aside.
    pub(super) fn set_aside(plugin: &PluginName, SetAside { retry_after_s }: SetAside) -> Self {
        Self::SetAside { plugin: plugin.clone(), retry_after_s }
    }
}

/// What is done with a rule, on a plugin thread.
pub type RuleTask = Box<dyn FnOnce(Result<&mut RuleSession, EngineError>) + Send>;

/// Compiles and evaluates rules.
pub trait EligibilityEngine: Send + Sync {
    /// Runs `task` on a plugin thread with the compiled rule in its sandbox, or with the reason why there is none. The task is dropped
    /// without having run when the request is cancelled before.
    ///
    /// For a request, one budget of fuel and one of time are for everything that the task does with the rule, its compilation included.
    /// Background work waits while requests do, and never takes the last thread from them; each of its calls has budgets of its own,
    /// since the number of batches has no bound.
    ///
    /// # Errors
    /// [`EngineError::Busy`], [`EngineError::SetAside`] or [`EngineError::NoEngine`]; the task is then dropped without having run.
    fn submit(
        &self,
        priority: Priority,
        request: RuleRequest,
        cancellation: Cancellation,
        task: RuleTask,
    ) -> Result<(), EngineError>;

    /// How many rules can be evaluated in the background at once.
    fn background_threads(&self) -> usize;

    /// The active engine as the decision block names it: `name@version sha256:…`.
    fn engine_name(&self) -> Option<String>;
}

/// Runs `task` on a plugin thread with the compiled rule, and waits for its value. When this is dropped, a task that has not begun never
/// does, and one that has ends at its next call of the rule.
///
/// # Errors
/// There is no rule: see [`EngineError`]. What goes wrong inside `task` is for its value to say.
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

fn first_error(diagnostics: &[Diagnostic]) -> String {
    let first = diagnostics.iter().find(|diagnostic| diagnostic.severity == Severity::Error);
    first.map_or_else(
        || "the expression is not valid".to_owned(),
        |error| format!("{} (line {}, column {})", error.message, error.line, error.column),
    )
}
