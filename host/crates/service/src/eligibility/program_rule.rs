//! Asks a program's own expression about one beneficiary, on the program's authority.
//!
//! **Invariant:** whoever enrols learns the outcome and the names of missing facts, never a fact: the expression is the
//! administrator's, so that no client can put a question of its own this way.

use std::sync::Arc;

use super::evaluate::{Authority, EvaluateRequest, SubjectInput, SubjectResult, evaluate_for};
use crate::registry::Registry;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::Verdict;
use daftar_domain::error::AppError;
use daftar_domain::subject::SubjectReference;
use daftar_sandbox::EligibilityEngine;

/// What a program's expression says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleWord {
    /// The beneficiary is eligible.
    Eligible,
    /// It is not.
    NotEligible,
    /// The facts do not decide.
    Undetermined,
    /// Nothing: it could not be evaluated.
    Silent,
}

impl RuleWord {
    /// The name in answers and in the audit log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Eligible => "eligible",
            Self::NotEligible => "not_eligible",
            Self::Undetermined => "undetermined",
            Self::Silent => "nothing, as it could not be evaluated",
        }
    }
}

/// The answer about one beneficiary.
#[derive(Debug)]
pub struct RuleAnswer {
    /// The outcome.
    pub word: RuleWord,
    /// The facts that would decide, sorted.
    pub missing: Vec<String>,
}

/// Asks an expression about a beneficiary today.
///
/// # Errors
/// [`AppError::Expression`] when it cannot be evaluated, [`AppError::NoEngine`], [`AppError::Busy`].
pub async fn ask_program(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    expression: &str,
    beneficiary: SubjectReference,
) -> Result<RuleAnswer, AppError> {
    let request = EvaluateRequest {
        expression: expression.to_owned(),
        program: None,
        subject: beneficiary.kind,
        subjects: vec![SubjectInput::Stored(beneficiary)],
        as_of: None,
        explain: false,
        repeated: None,
    };
    let evaluated = evaluate_for(ctx, registry, engine, request, Authority::Program).await?;
    match evaluated.results.into_iter().next() {
        Some(SubjectResult::Outcome { verdict, missing, .. }) => Ok(RuleAnswer {
            word: match verdict {
                Verdict::Eligible => RuleWord::Eligible,
                Verdict::NotEligible => RuleWord::NotEligible,
                Verdict::Undetermined => RuleWord::Undetermined,
            },
            missing,
        }),
        Some(SubjectResult::NotFound(error)) => Err(error),
        None => Err(AppError::internal("a rule about one beneficiary gave no outcome")),
    }
}
