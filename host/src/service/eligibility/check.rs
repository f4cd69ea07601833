//! Checks an expression before it is stored: it compiles against the facts of its subject, and every code and concept group
//! that it names exists.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::failure::{engine_error, refused};
use super::questions;
use super::schema::schema;
use crate::domain::eligibility::{Diagnostic, Subject};
use crate::error::AppError;
use crate::plugin::{EligibilityEngine, run_rule};
use crate::service::registry::Registry;

/// Checks an expression and returns what is doubtful about it.
///
/// # Errors
/// [`AppError::Expression`] with every diagnostic, or when checking exhausts a budget; [`AppError::NoEngine`].
pub async fn check_expression(
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    expression: &str,
    subject: Subject,
) -> Result<Vec<Diagnostic>, AppError> {
    let generation = registry.vocabularies.current();
    let schema = Arc::new(schema(subject, generation.extension_fields()));
    let outcome = run_rule(engine.as_ref(), expression.to_owned(), schema, move |session| {
        questions::bindings(&generation, session.questions(), &BTreeSet::new()).map_err(refused)?;
        Ok(session.warnings().to_vec())
    });
    outcome.await.unwrap_or_else(|error| Err(engine_error(error)))
}
