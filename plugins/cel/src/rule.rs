//! A rule from its text to its outcomes.

use crate::batch::Batch;
use crate::bind::Bindings;
use crate::check;
use crate::columns::{self, BatchFault};
use crate::cost::Cost;
use crate::diagnostic::Diagnostic;
use crate::evaluate::{Budget, Evaluator};
use crate::explanation::Explanation;
use crate::outcome::{Collector, Outcomes};
use crate::plan::{Plan, Reference};
use crate::schema::{Schema, Space};
use crate::syntax;
use crate::tree::Node;
use crate::vector::{self, Work};

/// A checked expression, ready to be evaluated many times.
#[derive(Debug)]
pub struct Rule {
    source: String,
    tree: Node,
    plan: Plan,
    warnings: Vec<Diagnostic>,
}

/// The reason why a batch has no outcomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvaluationFault {
    /// The batch does not match the requirements of the rule.
    Batch(BatchFault),
    /// The rule exceeds a budget.
    Exhausted(Budget),
}

/// The evaluation strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Column by column if possible, otherwise row by row.
    Columns,
    /// Always row by row; slow, and the reference for the other strategy.
    Rows,
}

impl Way {
    /// The strategy of the engine. A benchmark builds one with the feature `rows`, which is never shipped.
    const OF_ENGINE: Self = if cfg!(feature = "rows") { Self::Rows } else { Self::Columns };
}

/// The outcomes of a batch, with statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated {
    /// The outcomes.
    pub outcomes: Outcomes,
    /// The amount of work by strategy.
    pub work: Work,
}

impl Rule {
    /// Parses an expression and checks it against a schema.
    ///
    /// # Errors
    ///
    /// All faults, sorted by position.
    pub fn compile(source: &str, schema: &Schema) -> Result<Self, Vec<Diagnostic>> {
        let parsed = syntax::parse(source).map_err(|fault| vec![fault])?;
        let checked = check::check(source, &parsed, schema)?;
        Ok(Self { source: source.to_owned(), tree: checked.tree, plan: checked.plan, warnings: checked.warnings })
    }

    /// The text of the expression.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The checked expression.
    pub fn tree(&self) -> &Node {
        &self.tree
    }

    /// The requirements of the rule.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The warnings of the check.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The fields that the host must send, with an empty path for a space of which only the rows are read.
    pub fn references(&self) -> Vec<Reference> {
        let mut references = self.plan.references().to_vec();
        for space in [Space::Members, Space::Programs] {
            let Some(span) = self.plan.rows_read_at(space) else { continue };
            if !references.iter().any(|reference| reference.space == space) {
                references.push(Reference { space, path: String::new(), needs_texts: false, span });
            }
        }
        references
    }

    /// The estimated cost for one subject.
    pub fn cost(&self) -> Cost {
        Cost::of(&self.tree)
    }

    /// Explains the outcome of one subject of a batch; none if there is no such row.
    ///
    /// # Errors
    ///
    /// As [`Rule::evaluate`].
    pub fn explain(&self, bindings: &Bindings, batch: Batch, row: u32) -> Result<Option<Explanation>, EvaluationFault> {
        let columns = columns::validate(batch, &self.plan, bindings).map_err(EvaluationFault::Batch)?;
        if row >= columns.rows() {
            return Ok(None);
        }
        let mut evaluator = Evaluator::new(bindings, &columns);
        let explained = evaluator.explain(&self.tree, &self.plan, &self.source, row);
        explained.map(Some).map_err(EvaluationFault::Exhausted)
    }

    /// Returns one outcome for each subject of a batch, in order.
    ///
    /// # Errors
    ///
    /// The batch is inconsistent or does not match the schema or the rule, or the rule exceeds a budget.
    pub fn evaluate(&self, bindings: &Bindings, batch: Batch) -> Result<Outcomes, EvaluationFault> {
        self.evaluate_by(Way::OF_ENGINE, bindings, batch).map(|evaluated| evaluated.outcomes)
    }

    /// Evaluates with a given strategy: the outcomes are those of [`Rule::evaluate`] for both.
    ///
    /// # Errors
    ///
    /// As [`Rule::evaluate`].
    pub fn evaluate_by(&self, way: Way, bindings: &Bindings, batch: Batch) -> Result<Evaluated, EvaluationFault> {
        let columns = columns::validate(batch, &self.plan, bindings).map_err(EvaluationFault::Batch)?;
        let mut collector = Collector::new(columns.rows());
        let work = match way {
            Way::Columns => vector::evaluate(&self.tree, &self.source, bindings, &columns, &mut collector),
            Way::Rows => vector::evaluate_rows(&self.tree, &self.source, bindings, &columns, &mut collector),
        };
        let work = work.map_err(EvaluationFault::Exhausted)?;
        Ok(Evaluated { outcomes: collector.finish(bindings), work })
    }
}
