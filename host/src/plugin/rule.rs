//! A rule in its sandbox.

use super::breaker::{SetAside, Trial};
use super::eligibility::{EngineError, RuleSession};
use super::engine::SandboxEngine;
use super::fault::{Blame, FaultKind, PluginFault};
use super::install::LoadedPlugin;
use super::limits::{PluginLimits, STACK_BYTES};
use super::sandbox::Sandbox;
use super::stats::Usage;
use super::wit::{Answered, EngineBudget, LinkedEngine, RuleHandle, Rules};
use crate::domain::eligibility::{Batch, Bindings, Diagnostic, Outcomes, PlacedQuestion, Reference, Schema, Subject};
use crate::domain::explanation::{ExplainedPart, Explanation, RuleSummary};

/// A compiled rule with everything that it said about itself.
pub(super) struct SandboxedRule {
    sandbox: Sandbox<Rules>,
    engine_name: String,
    expression: String,
    rule: RuleHandle,
    references: Vec<Reference>,
    questions: Vec<PlacedQuestion>,
    warnings: Vec<Diagnostic>,
    summary: Option<RuleSummary>,
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
        expression: &str,
        schema: &Schema,
    ) -> Result<Self, EngineError> {
        let mut sandbox = started(plugin, linked, engine)?;
        sandbox.silence();
        let limits = plugin.limits();
        let charged = |fault| charged(fault, limits, 0);
        let fuel = limits.fuel_base;
        let rule = match sandbox.call(fuel, |store, rules| rules.compile(store, expression, schema)) {
            Ok(compiled) => compiled.map_err(EngineError::Diagnostics)?,
            Err(fault) => return Err(charged(fault)),
        };
        let references = sandbox.call(fuel, |store, rules| rules.references(store, rule, schema)).map_err(charged)?;
        let questions = sandbox.call(fuel, |store, rules| rules.questions(store, rule)).map_err(charged)?;
        let warnings = sandbox.call(fuel, |store, rules| rules.warnings(store, rule)).map_err(charged)?;
        let summary = sandbox.call(fuel, |store, rules| rules.summary(store, rule)).map_err(charged)?;
        let (engine_name, expression) = (plugin.reference(), expression.to_owned());
        Ok(Self { sandbox, engine_name, expression, rule, references, questions, warnings, summary })
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

    fn summary(&self) -> Option<&RuleSummary> {
        self.summary.as_ref()
    }

    fn bind(&mut self, bindings: &Bindings) -> Result<(), EngineError> {
        let (rule, fuel) = (self.rule, self.sandbox.limits().fuel_base);
        let bound = self.sandbox.call(fuel, |store, rules| rules.bind(store, rule, bindings));
        bound.map_err(|fault| charged(fault, self.sandbox.limits(), 0))
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Outcomes, EngineError> {
        let (rule, fuel) = (self.rule, self.sandbox.limits().fuel_for(batch.rows));
        let evaluated = self.sandbox.call(fuel, |store, rules| rules.evaluate(store, rule, batch));
        match evaluated.map_err(|fault| charged(fault, self.sandbox.limits(), batch.rows))? {
            Answered::Answer(outcomes) => {
                self.sandbox.note_output(outcomes_bytes(&outcomes));
                Ok(outcomes)
            }
            Answered::Exhausted(EngineBudget { name: budget, allowed }) => {
                Err(EngineError::EngineBudget { budget, allowed })
            }
        }
    }

    fn explain(&mut self, batch: &Batch, row: u32) -> Result<Option<Explanation>, EngineError> {
        let (rule, fuel) = (self.rule, self.sandbox.limits().fuel_for(batch.rows));
        let expression = self.expression.as_str();
        let explained = self.sandbox.call(fuel, |store, rules| rules.explain(store, rule, batch, row, expression));
        match explained.map_err(|fault| charged(fault, self.sandbox.limits(), batch.rows))? {
            Answered::Answer(explanation) => {
                self.sandbox.note_output(explanation.as_ref().map_or(0, explanation_bytes));
                Ok(explanation)
            }
            Answered::Exhausted(EngineBudget { name: budget, allowed }) => {
                Err(EngineError::EngineBudget { budget, allowed })
            }
        }
    }

    fn engine_name(&self) -> &str {
        &self.engine_name
    }

    fn usage(&self) -> Usage {
        self.sandbox.usage()
    }
}

impl SandboxedRule {
    /// Whether a fault ended it that may be the engine's own failing as well as the expression's doing.
    pub fn has_suspicious_fault(&self) -> bool {
        self.sandbox.fault().is_some_and(|fault| is_suspicious(fault.kind))
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
    if plugin.breaker().record_fault() {
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
    if plugin.breaker().should_check()
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
fn charged(fault: PluginFault, limits: &PluginLimits, rows: u32) -> EngineError {
    let bytes = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    let (budget, allowed) = match fault.kind {
        FaultKind::Fuel => ("fuel", limits.fuel_for(rows)),
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
