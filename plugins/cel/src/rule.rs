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

/// Why a batch gave no outcomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvaluationFault {
    /// The batch is not what the rule needs.
    Batch(BatchFault),
    /// The rule needs more room than it may have.
    Exhausted(Budget),
}

/// How a batch is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Column by column where that can be, and row by row where it cannot.
    Columns,
    /// Row by row throughout; slow, and what the other way is measured against.
    Rows,
}

impl Way {
    /// The way of the engine. A benchmark builds one that goes row by row, with the feature `rows`; none is ever shipped.
    const OF_ENGINE: Self = if cfg!(feature = "rows") { Self::Rows } else { Self::Columns };
}

/// The outcomes of a batch, with how they came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated {
    /// The outcomes.
    pub outcomes: Outcomes,
    /// How much of the work was done how.
    pub work: Work,
}

impl Rule {
    /// Parses an expression and checks it against a schema.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, by place.
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

    /// What the rule needs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What is doubtful about it.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The fields that the host must send, with one of an empty path for a space whose rows are asked for and no field.
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

    /// What it costs to evaluate the rule about one subject.
    pub fn cost(&self) -> Cost {
        Cost::of(&self.tree)
    }

    /// How the outcome of one subject of a batch comes about; nothing where there is no such row.
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

    /// One outcome for each subject of a batch, in order.
    ///
    /// # Errors
    ///
    /// The batch contradicts itself, the schema or the rule, or the rule needs too much room.
    pub fn evaluate(&self, bindings: &Bindings, batch: Batch) -> Result<Outcomes, EvaluationFault> {
        self.evaluate_by(Way::OF_ENGINE, bindings, batch).map(|evaluated| evaluated.outcomes)
    }

    /// The same in a way of the caller's choice: the outcomes are those of [`Rule::evaluate`] either way.
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
