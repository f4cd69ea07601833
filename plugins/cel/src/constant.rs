//! Expressions without a subject: evaluated like rules (scan, parser, checker, evaluator), and of any type.
//!
//! Not used for rules. The conformance tests of CEL use it, whose expressions read no registry.

use crate::batch::Batch;
use crate::bind::Bindings;
use crate::check::{self, Checked, Typing};
use crate::columns;
use crate::diagnostic::Diagnostic;
use crate::evaluate::{Budget, Evaluator};
use crate::foreign::{CrateValue, Environment};
use crate::schema::{Schema, Subject};
use crate::syntax;
use crate::value::FailureKind;

/// The reason why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoValue {
    /// It is invalid, and was not evaluated.
    Refused(Vec<Diagnostic>),
    /// It failed; none if facts are missing.
    Failed(Option<FailureKind>),
    /// It exceeds a budget.
    Exhausted(Budget),
}

/// The value of an expression that reads no fields of a registry, with these variables in that container.
///
/// # Errors
///
/// It is invalid, it failed, or it exceeds a budget.
pub fn evaluate(
    source: &str,
    typing: Typing,
    variables: Vec<(String, CrateValue)>,
    container: &str,
) -> Result<CrateValue, NoValue> {
    let parsed = syntax::parse(source).map_err(|fault| NoValue::Refused(vec![fault]))?;
    let schema = Schema::new(Subject::Individual, []);
    let environment = Environment::new(variables, container);
    let Checked { tree, plan, .. } =
        check::check_in(source, &parsed, &schema, environment, typing).map_err(NoValue::Refused)?;
    let nothing = NoValue::Failed(None);
    let bindings = Bindings::new(&plan, Vec::new(), []).map_err(|_| nothing.clone())?;
    let batch = Batch { as_of: 0, rows: 1, members: None, programs: None, columns: Vec::new() };
    let columns = columns::validate(batch, &plan, &bindings).map_err(|_| nothing)?;
    let mut evaluator = Evaluator::new(&bindings, &columns);
    match evaluator.value(&tree, 0).map_err(NoValue::Exhausted)? {
        Ok(value) => Ok(value),
        Err(reasons) => Err(NoValue::Failed(reasons.error.map(|failure| failure.kind))),
    }
}
