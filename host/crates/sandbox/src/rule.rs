//! A rule in its sandbox.
//!
//! **Invariant:** everything that a request does with its rule, from compilation to the last explanation, is charged to one budget of fuel
//! and one of time: what one call leaves of it is what the next one has.

use wasmtime::Store;

use super::breaker::{SetAside, Trial};
use super::eligibility::{EngineError, RuleSession};
use super::engine::SandboxEngine;
use super::fault::{Blame, FaultKind, PluginFault};
use super::install::LoadedPlugin;
use super::limits::{PluginLimits, STACK_BYTES};
use super::sandbox::{CallError, HostState, Sandbox};
use super::stats::Usage;
use super::wit::{Answered, EngineBudget, LinkedEngine, RuleHandle, Rules};
use daftar_domain::context::Cancellation;
use daftar_domain::eligibility::{Batch, Bindings, Diagnostic, Outcomes, PlacedQuestion, Reference, Schema, Subject};
use daftar_domain::explanation::{ExplainedPart, Explanation, RuleSummary};

/// What a session may use, and until when.
pub(super) struct Terms {
    pub budget: Budget,
    pub cancellation: Cancellation,
}

/// What fuel and time are counted over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Budget {
    /// All calls of a session together: a request is as cheap as one call, however many it makes.
    OfSession,
    /// Each call by itself: the batches of a preview, of which there may be any number.
    OfCall,
}

/// A sandbox whose calls are charged to a budget.
struct Metered {
    sandbox: Sandbox<Rules>,
    terms: Terms,
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
        if self.terms.cancellation.is_cancelled() {
            return Err(EngineError::Abandoned);
        }
        let limits = self.sandbox.limits();
        match self.terms.budget {
            Budget::OfSession => {
                let more = limits.fuel_of_rows(rows);
                self.granted = self.granted.saturating_add(more);
                self.left = self.left.saturating_add(more);
            }
            Budget::OfCall => {
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

/// A compiled rule with everything that it said about itself.
pub(super) struct SandboxedRule {
    metered: Metered,
    engine_name: String,
    expression: String,
    rule: RuleHandle,
    references: Vec<Reference>,
    questions: Vec<PlacedQuestion>,
    warnings: Vec<Diagnostic>,
    summary: RuleSummary,
}

impl SandboxedRule {
    /// Compiles an expression in a fresh instance.
    ///
    /// # Errors
    /// The expression is wrong or exhausts a budget, or the engine failed.
    pub fn compile(
        plugin: &LoadedPlugin,
        linked: &LinkedEngine,
        engine: &SandboxEngine,
        terms: Terms,
        expression: &str,
        schema: &Schema,
    ) -> Result<Self, EngineError> {
        let mut sandbox = started(plugin, linked, engine)?;
        sandbox.silence();
        if terms.budget == Budget::OfSession {
            sandbox.share_time();
        }
        let granted = plugin.limits().fuel_base;
        let mut metered = Metered { sandbox, terms, granted, left: granted };
        let compiled = metered.call(0, |store, rules| rules.compile(store, expression, schema))?;
        let rule = compiled.map_err(EngineError::Diagnostics)?;
        let references = metered.call(0, |store, rules| rules.references(store, rule, schema))?;
        let questions = metered.call(0, |store, rules| rules.questions(store, rule))?;
        let warnings = metered.call(0, |store, rules| rules.warnings(store, rule))?;
        let summary = metered.call(0, |store, rules| rules.summary(store, rule))?;
        let (engine_name, expression) = (plugin.reference(), expression.to_owned());
        Ok(Self { metered, engine_name, expression, rule, references, questions, warnings, summary })
    }
}

impl RuleSession for SandboxedRule {
    fn references(&self) -> &[Reference] {
        &self.references
    }

    fn questions(&self) -> &[PlacedQuestion] {
        &self.questions
    }

    fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    fn summary(&self) -> &RuleSummary {
        &self.summary
    }

    fn bind(&mut self, bindings: &Bindings) -> Result<(), EngineError> {
        let rule = self.rule;
        self.metered.call(0, |store, rules| rules.bind(store, rule, bindings))
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Outcomes, EngineError> {
        let rule = self.rule;
        let outcomes = within(self.metered.call(batch.rows, |store, rules| rules.evaluate(store, rule, batch))?)?;
        self.metered.sandbox.note_output(outcomes_bytes(&outcomes));
        Ok(outcomes)
    }

    fn explain(&mut self, batch: &Batch, row: u32) -> Result<Explanation, EngineError> {
        let (rule, expression) = (self.rule, self.expression.as_str());
        let explained =
            self.metered.call(batch.rows, |store, rules| rules.explain(store, rule, batch, row, expression))?;
        let explanation = within(explained)?;
        self.metered.sandbox.note_output(explanation_bytes(&explanation));
        Ok(explanation)
    }

    fn engine_name(&self) -> &str {
        &self.engine_name
    }

    fn usage(&self) -> Usage {
        self.metered.sandbox.usage()
    }

    fn cancellation(&self) -> &Cancellation {
        &self.metered.terms.cancellation
    }
}

/// An answer that stays within the engine's own budgets.
fn within<T>(answered: Answered<T>) -> Result<T, EngineError> {
    match answered {
        Answered::Answer(answer) => Ok(answer),
        Answered::Exhausted(EngineBudget { name: budget, allowed }) => {
            Err(EngineError::EngineBudget { budget, allowed })
        }
    }
}

impl SandboxedRule {
    /// Whether a fault ended it that may be the engine's own failing as well as the expression's doing.
    pub fn has_suspicious_fault(&self) -> bool {
        self.metered.sandbox.fault().is_some_and(|fault| is_suspicious(fault.kind))
    }
}

/// Whether a fault under a caller's expression may be the engine's own failing. A budget that the expression exhausts is not.
#[must_use]
pub fn is_suspicious(kind: FaultKind) -> bool {
    match kind {
        FaultKind::Timeout | FaultKind::Table | FaultKind::Instances | FaultKind::Trap | FaultKind::InvalidAnswer => {
            true
        }
        FaultKind::Fuel
        | FaultKind::Memory
        | FaultKind::Stack
        | FaultKind::OutputTooLarge
        | FaultKind::HostCalls
        | FaultKind::RefusedInput
        | FaultKind::Unavailable => false,
    }
}

/// An instance of an engine. No caller has a part in whether it starts, so a fault counts against the engine.
fn started(
    plugin: &LoadedPlugin,
    linked: &LinkedEngine,
    engine: &SandboxEngine,
) -> Result<Sandbox<Rules>, EngineError> {
    Sandbox::start(plugin.sandbox_of(engine), |store| linked.instantiate(store)).map_err(|fault| match fault.blame {
        Blame::Guest => {
            report_own_fault(plugin, &fault);
            EngineError::set_aside(&fault.plugin, SetAside { retry_after_s: 1 })
        }
        Blame::Host => EngineError::Fault(fault),
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
        && fault.blame == Blame::Guest
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
        FaultKind::Timeout
        | FaultKind::Table
        | FaultKind::Instances
        | FaultKind::Trap
        | FaultKind::InvalidAnswer
        | FaultKind::RefusedInput
        | FaultKind::Unavailable => return EngineError::Fault(fault),
    };
    EngineError::Exhausted { budget, allowed }
}
