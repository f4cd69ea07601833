//! Evaluates a checked expression column by column: one operation for a thousand subjects, then the next.
//!
//! `compile` turns the parts of the tree that it knows into a `program`, with this batch's day and answers about codes put in as
//! constants; `run` executes it over a block of subjects at a time. A truth is a byte of 0 (no), 1 (not known) or 2 (yes), so that
//! Kleene's logic is `min`, `max` and `2 - x`, which the compiler makes SIMD instructions of; all loops are plain ones over slices.
//!
//! Only verdicts are found this way. A subject that comes out as not known goes through the row evaluator, which alone says what is
//! missing and which error stands in the way. Parts that only the row evaluator can do are done by it, for the subjects whose answer
//! the other parts have left open.
//!
//! **Invariant:** a column evaluation may know less than the row evaluator, never something else. Every operation here is monotone:
//! putting a truth in the place of "not known" does not change a result that was known without it. So "not known" is always a sound
//! answer, and errors, overflow and doubtful items are simply not known here. The two operations that are not monotone, whether a
//! field is recorded and whether somebody is alive, read the columns themselves.
//! **Invariant:** where the row evaluator would go beyond a budget, the subject reaches it: a part that can is evaluated here for
//! all subjects for which it is reached there, and more, and a subject for which it does goes through the row evaluator as a whole.
//! **Invariant:** work is linear: each part of a program runs once a block, each subject goes through the row evaluator at most once
//! as a whole and once for the parts that only that one can do. Fuel is therefore bounded by about twice that of the rows alone, and
//! the same for the same batch.

mod compile;
mod days;
mod kernels;
mod lane;
mod lists;
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
use run::Run;

const _: () = assert!(BLOCK_ITEMS_MAX <= LIST_ITEMS_MAX, "no list of a block may go beyond the budget of a list");

/// The fewest subjects that a block is cut down to; where even these have too many items, they go row by row.
const BLOCK_ROWS_MIN: usize = 64;

/// What a subject is to a rule, as one byte.
type Truth = u8;
/// The rule does not hold.
const NO: Truth = 0;
/// Not known here.
const UNKNOWN: Truth = 1;
/// The rule holds.
const YES: Truth = 2;

/// How the work of a batch was done. Subjects are in one of two numbers, parts of the rule about one subject in the third.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Subjects whose outcome came out of the columns.
    pub by_columns: u32,
    /// Subjects that the row evaluator was asked about as a whole.
    pub by_rows: u32,
    /// How often the row evaluator was asked about a part of the rule for one subject.
    pub parts_by_rows: u32,
}

/// Finds the outcome of every subject of a batch and hands it to `collector`, in order.
///
/// # Errors
///
/// The rule needs more room than it may have.
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
            Some(truths) if truths.len() == count => rows.settle(start, &truths, collector)?,
            // Households so large that a smaller block would do.
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

/// Finds the outcome of every subject row by row.
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

/// The row evaluator, for what the columns leave open.
struct Rows<'a> {
    tree: &'a Node,
    source: &'a str,
    evaluator: Evaluator<'a>,
    work: Work,
}

impl<'a> Rows<'a> {
    fn new(tree: &'a Node, source: &'a str, bindings: &'a Bindings, columns: &'a Columns) -> Self {
        Self { tree, source, evaluator: Evaluator::new(bindings, columns), work: Work::default() }
    }

    fn evaluate(&mut self, start: u32, end: u32, collector: &mut Collector) -> Result<(), Budget> {
        for row in start..end {
            let truth = self.evaluator.verdict(self.tree, row)?;
            collector.push(row, truth, self.source);
            self.work.by_rows += 1;
        }
        Ok(())
    }

    /// Takes the outcomes of a block, and asks for those that are not known.
    fn settle(&mut self, start: u32, truths: &[Truth], collector: &mut Collector) -> Result<(), Budget> {
        collector.push_decided(truths.iter().map(|truth| *truth == YES));
        for (row, truth) in (start..).zip(truths) {
            if *truth == UNKNOWN {
                let truth = self.evaluator.verdict(self.tree, row)?;
                collector.replace(row, truth, self.source);
                self.work.by_rows += 1;
            } else {
                self.work.by_columns += 1;
            }
        }
        Ok(())
    }
}
