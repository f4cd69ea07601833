//! Why a rule gave no answer, and what that means for whoever asked.
//!
//! **Invariant:** what an expression does to the engine is its author's to mend: 422, never a 5xx.

use std::future::Future;

use super::exhausted::Asked;
use crate::registry::Registry;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{Diagnostic, Severity};
use daftar_domain::error::{AppError, ExpressionProblem};
use daftar_sandbox::{EngineError, FaultKind};

/// Why there is no answer: for a reason of ours, or of the engine's.
pub(super) enum Failure {
    /// Of ours.
    App(AppError),
    /// Of the engine's.
    Engine(EngineError),
}

impl Failure {
    /// What kind of failure, without anything of what was asked.
    pub fn name(&self) -> &'static str {
        match self {
            Self::App(AppError::Busy) => "busy",
            Self::App(_) => "the server",
            Self::Engine(_) => "the engine",
        }
    }
}

impl From<AppError> for Failure {
    fn from(error: AppError) -> Self {
        Self::App(error)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// Runs what puts an expression to the engine, unless the same client's same expression just exhausted a budget.
///
/// # Errors
/// [`AppError::Expression`] naming the budget, and whatever `run` fails with.
pub(super) async fn unless_exhausted<T>(
    ctx: &OpContext,
    registry: &Registry,
    asked: Asked,
    run: impl Future<Output = Result<T, Failure>>,
) -> Result<T, AppError> {
    if let Some(message) = registry.exhausted.recall(&ctx.actor, &asked, ctx.now) {
        return Err(budget_problem(message));
    }
    run.await.map_err(|failure| match failure {
        Failure::App(error) => error,
        Failure::Engine(error) => {
            if let Some(message) = exhaustion(&error) {
                registry.exhausted.remember(&ctx.actor, asked, message, ctx.now);
            }
            engine_error(error)
        }
    })
}

/// The error of an expression with these diagnostics, which is told by the first that is one.
pub(super) fn refused(diagnostics: Vec<Diagnostic>) -> AppError {
    let first = diagnostics.iter().find(|diagnostic| diagnostic.severity == Severity::Error);
    let message = match first.or(diagnostics.first()) {
        Some(first) => format!("line {}, column {}: {}", first.line, first.column, first.message),
        None => "it was refused".to_owned(),
    };
    AppError::Expression(ExpressionProblem { message, diagnostics })
}

/// Which budget an expression exhausted, if that is what went wrong.
fn exhaustion(error: &EngineError) -> Option<String> {
    match error {
        EngineError::Exhausted { budget, allowed } => Some(format!(
            "it exhausted its budget of {allowed} for `{budget}`; make it simpler or ask about fewer subjects"
        )),
        EngineError::EngineBudget { budget, allowed } => {
            Some(format!("it exhausted the engine's own budget of {allowed} for `{budget}`; make it simpler"))
        }
        EngineError::Diagnostics(_)
        | EngineError::Fault(_)
        | EngineError::SetAside { .. }
        | EngineError::Busy
        | EngineError::NoEngine
        | EngineError::Abandoned => None,
    }
}

/// The error of an expression that exhausted a budget.
pub(super) fn budget_problem(message: String) -> AppError {
    AppError::Expression(ExpressionProblem { message, diagnostics: Vec::new() })
}

/// What a failure of the engine means for whoever asked. A fault that the expression caused is its author's to mend and
/// never a 5xx.
pub(super) fn engine_error(error: EngineError) -> AppError {
    match error {
        EngineError::Diagnostics(diagnostics) => refused(diagnostics),
        EngineError::Exhausted { .. } | EngineError::EngineBudget { .. } => {
            budget_problem(exhaustion(&error).unwrap_or_default())
        }
        EngineError::SetAside { plugin, retry_after_s } => AppError::PluginSetAside { plugin, retry_after_s },
        EngineError::Busy | EngineError::Abandoned => AppError::Busy,
        EngineError::NoEngine => AppError::NoEngine,
        EngineError::Fault(fault) => {
            tracing::warn!(plugin = %fault.plugin, fault = fault.kind.name(), "the eligibility engine failed");
            match fault.kind {
                // The wall clock is the back-stop: the machine is too busy, and that decides nothing about the rule.
                FaultKind::Timeout | FaultKind::Unavailable => AppError::Busy,
                FaultKind::Fuel
                | FaultKind::Memory
                | FaultKind::Table
                | FaultKind::Instances
                | FaultKind::Stack
                | FaultKind::Trap
                | FaultKind::OutputTooLarge
                | FaultKind::HostCalls
                | FaultKind::InvalidAnswer
                | FaultKind::RefusedInput => AppError::Expression(ExpressionProblem {
                    message: format!("the engine could not evaluate it ({})", fault.kind.name()),
                    diagnostics: Vec::new(),
                }),
            }
        }
    }
}
