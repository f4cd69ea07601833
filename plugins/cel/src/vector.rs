//! Evaluates a checked expression column by column: one operation for a thousand subjects, then the next.
//!
//! `compile` converts the supported parts of the tree into a `program`, with this batch's day and answers about codes
//! as constants; `run` executes it over blocks of subjects. A truth is a byte of 0 (no), 1 (unknown) or 2 (yes), so
//! that Kleene's logic is `min`, `max` and `2 - x`, which compile to SIMD instructions; all loops are plain loops over
//! slices.
//!
//! Only verdicts are computed this way. The missing facts of a subject with an unknown verdict are read from the bitmaps
//! of the columns if the rule consists of simple parts (`missing`); otherwise the row evaluator determines them, and
//! the errors. Parts that only the row evaluator supports are evaluated by it, for the subjects that the other parts
//! leave undecided.
//!
//! **Invariant:** the column evaluation may know less than the row evaluator, but never contradicts it. Every operation
//! here is monotone: replacing "unknown" by a truth does not change a result that was known without it. So "unknown" is
//! always a correct result, and errors, overflow and items in doubt are simply unknown here. The two operations that
//! are not monotone, whether a field is recorded and whether a person is alive, read the columns themselves.
//! **Invariant:** if the row evaluator would exceed a budget for a subject, it evaluates that subject: a part that may
//! exceed one is evaluated here for all subjects for which the row evaluator reaches it, and more, and a subject that
//! exceeds it is evaluated by the row evaluator as a whole.
//! **Invariant:** work is linear: each part of a program runs once per block, and each subject passes through the row
//! evaluator at most once as a whole and once for its unsupported parts. Fuel is therefore limited to about twice that
//! of the row evaluator, and deterministic for a batch.

mod compile;
mod days;
mod kernels;
mod lane;
mod lists;
mod missing;
mod program;
mod run;
mod texts;
mod values;

use crate::bind::Bindings;
use crate::columns::Columns;
use crate::evaluate::{Budget, Evaluator};
use crate::limits::{BLOCK_ITEMS_MAX, BLOCK_ROWS_MAX, LIST_ITEMS_MAX};
use crate::outcome::Collector;
use crate::tree::Node;
use crate::value::Unknown;
use program::Program;
use run::Run;

const _: () = assert!(BLOCK_ITEMS_MAX <= LIST_ITEMS_MAX, "no list of a block may go beyond the budget of a list");

/// The smallest block; subjects with too many items even for it are evaluated row by row.
const BLOCK_ROWS_MIN: usize = 64;

/// The number of truths that are checked for an unknown one at once.
const TRUTHS_AT_ONCE: usize = 16;

/// The truth of a rule for a subject, as one byte.
type Truth = u8;
/// The rule does not hold.
const NO: Truth = 0;
/// Unknown here.
const UNKNOWN: Truth = 1;
/// The rule holds.
const YES: Truth = 2;

/// Statistics of a batch. Each subject is counted in one of the first two numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Subjects whose outcome the columns determine.
    pub by_columns: u32,
    /// Subjects evaluated by the row evaluator as a whole.
    pub by_rows: u32,
    /// Evaluations of a part of the rule for one subject by the row evaluator.
    pub parts_by_rows: u32,
}

/// Determines the outcome of every subject of a batch and passes it to `collector`, in order.
///
/// # Errors
///
/// The rule exceeds a budget.
pub fn evaluate(
    tree: &Node,
    source: &str,
    bindings: &Bindings,
    columns: &Columns,
    collector: &mut Collector,
) -> Result<Work, Budget> {
    let Some(program) = compile::compile(tree, bindings, columns) else {
        return evaluate_rows(tree, source, bindings, columns, collector);
    };
    let mut rows = Rows::new(tree, source, bindings, columns);
    let mut run = Run::new(&program, bindings, columns);
    let mut start = 0;
    let mut block_rows = BLOCK_ROWS_MAX;
    while start < columns.rows() {
        let left = (columns.rows() - start) as usize;
        let count = block_rows.min(left);
        let end = start + u32::try_from(count).unwrap_or(0);
        match run.block(start as usize, count) {
            Some(truths) if truths.len() == count => rows.settle(&program, start, &truths, collector)?,
            // The households are large, but a smaller block may fit.
            None if block_rows > BLOCK_ROWS_MIN => {
                block_rows /= 2;
                continue;
            }
            Some(_) | None => rows.evaluate(start, end, collector)?,
        }
        start = end;
    }
    Ok(Work { parts_by_rows: run.parts_by_rows(), ..rows.work })
}

/// Determines the outcome of every subject row by row.
///
/// # Errors
///
/// As [`evaluate`].
pub fn evaluate_rows(
    tree: &Node,
    source: &str,
    bindings: &Bindings,
    columns: &Columns,
    collector: &mut Collector,
) -> Result<Work, Budget> {
    let mut rows = Rows::new(tree, source, bindings, columns);
    rows.evaluate(0, columns.rows(), collector)?;
    Ok(rows.work)
}

/// The row evaluator, for subjects that the columns leave undecided.
struct Rows<'a> {
    tree: &'a Node,
    source: &'a str,
    columns: &'a Columns,
    evaluator: Evaluator<'a>,
    work: Work,
}

impl<'a> Rows<'a> {
    fn new(tree: &'a Node, source: &'a str, bindings: &'a Bindings, columns: &'a Columns) -> Self {
        Self { tree, source, columns, evaluator: Evaluator::new(bindings, columns), work: Work::default() }
    }

    fn evaluate(&mut self, start: u32, end: u32, collector: &mut Collector) -> Result<(), Budget> {
        for row in start..end {
            let truth = self.evaluator.verdict(self.tree, row)?;
            collector.push(row, truth, self.source);
            self.work.by_rows += 1;
        }
        Ok(())
    }

    /// Collects the outcomes of a block. The reasons of the unknown ones are read from the columns if possible.
    fn settle(
        &mut self,
        program: &Program<'_>,
        start: u32,
        truths: &[Truth],
        collector: &mut Collector,
    ) -> Result<(), Budget> {
        collector.push_decided(truths, YES);
        let mut by_rows = 0;
        // The check of sixteen truths at once is branchless; most blocks have no unknown one, and few have many.
        for (first, truths) in (start..).step_by(TRUTHS_AT_ONCE).zip(truths.chunks(TRUTHS_AT_ONCE)) {
            if truths.iter().fold(0, |any, truth| any | *truth) & UNKNOWN == 0 {
                continue;
            }
            for (row, _) in (first..).zip(truths).filter(|(_, truth)| **truth == UNKNOWN) {
                // A part by rows may exceed a budget, which only the row evaluator reports.
                let simple = if program.has_rows { None } else { Some(&program.test) };
                let truth = match simple.and_then(|test| missing::facts_of(test, self.columns, row)) {
                    Some(facts) => Err(Unknown::missing(facts)),
                    None => {
                        by_rows += 1;
                        self.evaluator.verdict(self.tree, row)?
                    }
                };
                collector.replace(row, truth, self.source);
            }
        }
        self.work.by_rows += by_rows;
        self.work.by_columns += u32::try_from(truths.len()).unwrap_or(u32::MAX).saturating_sub(by_rows);
        Ok(())
    }
}
