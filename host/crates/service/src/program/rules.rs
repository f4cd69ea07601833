//! Looks again at the rules of programs: one that was right when it was stored can break when a pack, a module, a concept group or the
//! engine changes.

use std::sync::Arc;

use crate::eligibility::check::check_expression;
use crate::records;
use crate::registry::Registry;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::Diagnostic;
use daftar_domain::error::AppError;
use daftar_domain::program::ELIGIBILITY;
use daftar_domain::record::RecordKind;
use daftar_sandbox::EligibilityEngine;

/// The rule of a program that cannot be evaluated any more.
#[derive(Debug)]
pub struct BrokenRule {
    /// `Program/<system>|<value>`
    pub program: String,
    /// Its expression.
    pub expression: String,
    /// What is wrong, in one sentence.
    pub message: String,
    /// Everything that is wrong with it; nothing, where it exhausts a budget.
    pub diagnostics: Vec<Diagnostic>,
}

/// Checks the rule of every program, and returns those that are wrong now.
///
/// # Errors
/// [`AppError::NoEngine`] and [`AppError::Busy`]: then nothing can be said of any.
pub async fn broken(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
) -> Result<Vec<BrokenRule>, AppError> {
    let mut broken = Vec::new();
    for program in registry.index.programs().await? {
        let Some(expression) = program.details.get(ELIGIBILITY) else { continue };
        match check_expression(ctx, registry, engine, expression, program.details.target_type()).await {
            Ok(_) => {}
            Err(AppError::Expression(problem)) => {
                let called = records::called(&program.details.identifiers);
                broken.push(BrokenRule {
                    program: called.map(|key| records::reference(RecordKind::Program, key)).unwrap_or_default(),
                    expression: expression.to_owned(),
                    message: problem.message,
                    diagnostics: problem.diagnostics,
                });
            }
            Err(other) => return Err(other),
        }
    }
    Ok(broken)
}

/// Writes into the log how many programs have rules that a change has broken, where any has.
pub async fn tell_broken(ctx: &OpContext, registry: &Registry, engine: &Arc<dyn EligibilityEngine>) {
    match broken(ctx, registry, engine).await {
        Ok(broken) if broken.is_empty() => {}
        Ok(broken) => tracing::warn!(
            programs.count = broken.len(),
            "the eligibility rules of some programs are not valid any more, `daftar program check` names them"
        ),
        Err(error) => {
            tracing::warn!(error = %error, "the eligibility rules of programs could not be checked after the change");
        }
    }
}
