//! Runs a program over a block of subjects.

use super::kernels;
use super::lane::{Known, Vector, repeat};
use super::program::{FrameId, Program, Test};
use super::{NO, Truth, UNKNOWN, YES, texts};
use crate::bind::Bindings;
use crate::columns::{CheckedValues, Columns};
use crate::evaluate::Evaluator;
use crate::tree::{ColumnId, Comparison, Node};

/// Consecutive rows of the batch.
#[derive(Debug, Default)]
pub struct Frame {
    /// The first row.
    pub start: usize,
    /// The number of rows.
    pub rows: usize,
    /// The offsets of its rows for each row of the outer frame. Empty for the subjects.
    pub offsets: Vec<u32>,
}

/// A program with a batch.
pub struct Run<'p, 'a> {
    program: &'p Program<'a>,
    pub(super) bindings: &'a Bindings,
    pub(super) columns: &'a Columns,
    evaluator: Evaluator<'a>,
    /// The rows of each frame of the program, once they are needed.
    pub(super) frames: Vec<Frame>,
    /// The subjects of the block for which a part exceeded a budget.
    exhausted: Vec<usize>,
    parts_by_rows: u32,
}

impl<'p, 'a> Run<'p, 'a> {
    /// Creates a run of a program.
    pub fn new(program: &'p Program<'a>, bindings: &'a Bindings, columns: &'a Columns) -> Self {
        let frames = program.parents.iter().map(|_| Frame::default()).collect();
        let evaluator = Evaluator::new(bindings, columns);
        Self { program, bindings, columns, evaluator, frames, exhausted: Vec::new(), parts_by_rows: 0 }
    }

    /// Evaluates some subjects; none if their lists have too many items for one block.
    pub fn block(&mut self, start: usize, rows: usize) -> Option<Vec<Truth>> {
        *self.frames.first_mut()? = Frame { start, rows, offsets: Vec::new() };
        self.exhausted.clear();
        let program = self.program;
        let mut truths = self.test(&program.test, 0, None)?;
        for row in &self.exhausted {
            *truths.get_mut(*row)? = UNKNOWN;
        }
        Some(truths)
    }

    /// The number of evaluations of a part by the row evaluator.
    pub fn parts_by_rows(&self) -> u32 {
        self.parts_by_rows
    }

    pub(super) fn frame(&self, at: FrameId) -> Option<&Frame> {
        self.frames.get(at)
    }

    /// Evaluates a boolean part for each row of a frame. Where `asked` is 0, the result does not matter.
    pub(super) fn test(&mut self, test: &'p Test<'a>, at: FrameId, requested: Option<&[u8]>) -> Option<Vec<Truth>> {
        let rows = self.frame(at)?.rows;
        match test {
            Test::Constant(truth) => Some(vec![*truth; rows]),
            Test::Booleans(column) => self.booleans(*column, at),
            Test::Not(operand) => {
                let mut truths = self.test(operand, at, requested)?;
                kernels::not(&mut truths);
                Some(truths)
            }
            Test::All(parts) => self.chain(parts, NO, kernels::and, at, requested),
            Test::Any(parts) => self.chain(parts, YES, kernels::or, at, requested),
            Test::Compare(comparison, left, right) => {
                let (left, right) = (self.value(left, at, requested)?, self.value(right, at, requested)?);
                kernels::compare(*comparison, &left, &right, rows)
            }
            Test::Between(value, low, high) => {
                let value = self.value(value, at, requested)?;
                let (low, high) = (self.value(low, at, requested)?, self.value(high, at, requested)?);
                let mut truths = kernels::compare(Comparison::GreaterOrEqual, &value, &low, rows)?;
                kernels::and(&mut truths, &kernels::compare(Comparison::LessOrEqual, &value, &high, rows)?);
                Some(truths)
            }
            Test::CompareTruths(comparison, left, right) => {
                let mut truths = self.test(left, at, requested)?;
                kernels::compare_truths(*comparison, &mut truths, &self.test(right, at, requested)?);
                Some(truths)
            }
            Test::Days(value, range) => {
                let Vector::Days(days) = self.value(value, at, requested)? else { return None };
                Some(kernels::days(&days, *range, rows))
            }
            Test::Among(value, table) => {
                let Vector::Codes(codes) = self.value(value, at, requested)? else { return None };
                Some(kernels::is_in_table(&codes, table, rows))
            }
            Test::Recorded(columns) => self.recorded(columns, at),
            Test::Alive(column) => self.alive(*column, at),
            Test::Text(test, text, argument) => {
                match (self.value(text, at, requested)?, self.value(argument, at, requested)?) {
                    (Vector::Texts(text), Vector::Texts(argument)) => texts::test(*test, &text, &argument, rows),
                    _ => None,
                }
            }
            Test::In(value, candidates) => {
                let value = self.value(value, at, requested)?;
                let mut truths = vec![NO; rows];
                // An unknown item may be an error, which makes the whole list an error.
                let mut known = value.known().clone();
                for candidate in candidates {
                    let candidate = self.value(candidate, at, requested)?;
                    known = known.and(candidate.known());
                    kernels::or(&mut truths, &kernels::compare(Comparison::Equal, &value, &candidate, rows)?);
                }
                known.apply(&mut truths);
                Some(truths)
            }
            Test::InItems(value, list, column) => {
                let value = self.value(value, at, requested)?;
                let opened = self.open(list)?;
                let items = self.column(*column, list.items)?;
                let same = self.in_items(&value, list, &items)?;
                let mut truths = opened.only_known(self.any_by_owner(list, &same)?);
                value.known().apply(&mut truths);
                Some(truths)
            }
            Test::Choice(choice, then, otherwise) => {
                let mut choice = self.test(choice, at, requested)?;
                let then = self.test(then, at, requested)?;
                let otherwise = self.test(otherwise, at, requested)?;
                kernels::choose(&mut choice, &then, &otherwise);
                Some(choice)
            }
            Test::Exists(list, body) => self.exists(list, body),
            Test::Every(list, body) => self.every(list, body),
            Test::One(list, body) => self.one(list, body),
            Test::Lifted(frame, test) => {
                let mut truths = self.test(test, *frame, None)?;
                for offsets in self.ways_in(*frame, at)? {
                    truths = repeat(&truths, offsets);
                }
                Some(truths)
            }
            Test::ByRow(node) => self.by_row(node, requested),
        }
    }

    /// Combines truths until all rows are decided.
    fn chain(
        &mut self,
        parts: &'p [Test<'a>],
        settled: Truth,
        join: fn(&mut [Truth], &[Truth]),
        at: FrameId,
        requested: Option<&[u8]>,
    ) -> Option<Vec<Truth>> {
        let Some((first, others)) = parts.split_first() else {
            return Some(vec![YES.wrapping_sub(settled); self.frame(at)?.rows]);
        };
        let mut truths = self.test(first, at, requested)?;
        for part in others {
            if truths.iter().all(|truth| *truth == settled) {
                break;
            }
            // Only the row evaluator is expensive enough to skip undecidable rows.
            let still_requested = self.program.has_rows.then(|| {
                let is_open = truths.iter().map(|truth| u8::from(*truth != settled));
                match requested {
                    Some(requested) => is_open.zip(requested).map(|(is_open, requested)| is_open & requested).collect(),
                    None => is_open.collect::<Vec<u8>>(),
                }
            });
            let next = self.test(part, at, still_requested.as_deref().or(requested))?;
            join(&mut truths, &next);
        }
        Some(truths)
    }

    fn booleans(&self, column: ColumnId, at: FrameId) -> Option<Vec<Truth>> {
        let frame = self.frame(at)?;
        let column = self.columns.column(column)?;
        let CheckedValues::Booleans(values) = &column.values else { return None };
        let values = values.get(frame.start..frame.start + frame.rows)?;
        let mut truths: Vec<Truth> = values.iter().map(|value| kernels::known(*value != 0)).collect();
        Known::of(&column.valid, frame.start, frame.rows).apply(&mut truths);
        Some(truths)
    }

    fn recorded(&self, columns: &[ColumnId], at: FrameId) -> Option<Vec<Truth>> {
        let frame = self.frame(at)?;
        let mut recorded = vec![NO; frame.rows];
        for column in columns {
            let known = Known::of(&self.columns.column(*column)?.valid, frame.start, frame.rows);
            let mut truths = vec![YES; frame.rows];
            known.apply(&mut truths);
            kernels::or(&mut recorded, &truths);
        }
        for truth in &mut recorded {
            *truth = kernels::known(*truth == YES);
        }
        Some(recorded)
    }

    fn alive(&self, column: ColumnId, at: FrameId) -> Option<Vec<Truth>> {
        let as_of = self.columns.as_of();
        let Vector::Days(deceased) = self.column(column, at)? else { return None };
        let mut truths = deceased.values.map(|day| kernels::known(day > as_of)).into_vec(self.frame(at)?.rows);
        deceased.known.apply(&mut truths);
        // No date means that the person is alive.
        for truth in &mut truths {
            *truth = kernels::known(*truth != NO);
        }
        Some(truths)
    }

    /// The row evaluator, for each requested subject.
    fn by_row(&mut self, node: &'a Node, requested: Option<&[u8]>) -> Option<Vec<Truth>> {
        let subjects = self.frame(0)?;
        let (start, rows) = (subjects.start, subjects.rows);
        let mut truths = vec![UNKNOWN; rows];
        for (row, truth) in truths.iter_mut().enumerate() {
            if requested.is_some_and(|requested| requested.get(row) == Some(&0)) {
                continue;
            }
            self.parts_by_rows = self.parts_by_rows.saturating_add(1);
            match self.evaluator.verdict(node, u32::try_from(start + row).ok()?) {
                Ok(Ok(holds)) => *truth = kernels::known(holds),
                Ok(Err(_)) => {}
                Err(_) => self.exhausted.push(row),
            }
        }
        Some(truths)
    }

    /// The offsets from a frame to a nested one, outermost first.
    pub(super) fn ways_in(&self, outer: FrameId, inner: FrameId) -> Option<Vec<&[u32]>> {
        let mut ways = Vec::new();
        let mut at = inner;
        while at != outer {
            ways.push(self.frame(at)?.offsets.as_slice());
            let parent = *self.program.parents.get(at)?;
            if parent == at {
                return None;
            }
            at = parent;
        }
        ways.reverse();
        Some(ways)
    }
}
