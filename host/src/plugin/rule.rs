//! A rule in its sandbox.

use super::eligibility::{EngineError, RuleSession};
use super::engine::SandboxEngine;
use super::fault::{FaultKind, PluginFault};
use super::install::LoadedPlugin;
use super::limits::{PluginLimits, STACK_BYTES};
use super::sandbox::Sandbox;
use super::stats::Usage;
use super::wit::{Evaluated, LinkedEngine, RuleHandle, Rules};
use crate::domain::eligibility::{Batch, Bindings, Diagnostic, Outcomes, PlacedQuestion, Reference, Schema, Subject};

/// A compiled rule with everything that it said about itself.
pub(super) struct SandboxedRule {
    sandbox: Sandbox<Rules>,
    engine_name: String,
    rule: RuleHandle,
    references: Vec<Reference>,
    questions: Vec<PlacedQuestion>,
    warnings: Vec<Diagnostic>,
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
        let mut sandbox = Sandbox::start(plugin.sandbox_of(engine), |store| linked.instantiate(store))?;
        let limits = plugin.limits();
        let charged = |fault| charged(fault, limits, 0);
        let fuel = limits.fuel_base;
        let rule = sandbox
            .call(fuel, |store, rules| rules.compile(store, expression, schema))
            .map_err(charged)?
            .map_err(EngineError::Diagnostics)?;
        let references = sandbox.call(fuel, |store, rules| rules.references(store, rule, schema)).map_err(charged)?;
        let questions = sandbox.call(fuel, |store, rules| rules.questions(store, rule)).map_err(charged)?;
        let warnings = sandbox.call(fuel, |store, rules| rules.warnings(store, rule)).map_err(charged)?;
        Ok(Self { sandbox, engine_name: plugin.reference(), rule, references, questions, warnings })
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

    fn bind(&mut self, bindings: &Bindings) -> Result<(), EngineError> {
        let (rule, fuel) = (self.rule, self.sandbox.limits().fuel_base);
        let bound = self.sandbox.call(fuel, |store, rules| rules.bind(store, rule, bindings));
        bound.map_err(|fault| charged(fault, self.sandbox.limits(), 0))
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Outcomes, EngineError> {
        let (rule, fuel) = (self.rule, self.sandbox.limits().fuel_for(batch.rows));
        let evaluated = self.sandbox.call(fuel, |store, rules| rules.evaluate(store, rule, batch));
        match evaluated.map_err(|fault| charged(fault, self.sandbox.limits(), batch.rows))? {
            Evaluated::Outcomes(outcomes) => Ok(outcomes),
            Evaluated::Exhausted(budget) => Err(EngineError::EngineBudget { budget }),
        }
    }

    fn engine_name(&self) -> &str {
        &self.engine_name
    }

    fn usage(&self) -> Usage {
        self.sandbox.usage()
    }
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
