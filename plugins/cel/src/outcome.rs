//! The outcomes of a rule for the subjects of a batch.
//!
//! **Invariant:** the same rule, answers and batch give the same outcomes, byte for byte, in any order of evaluation.

use crate::bind::Bindings;
use crate::facts::FactSet;
use crate::span::Place;
use crate::value::{FailureKind, Truth};

/// The verdict on one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// The rule does not hold.
    NotEligible = 0,
    /// The rule holds.
    Eligible = 1,
    /// It depends on unknown facts.
    Undetermined = 2,
}

/// An error in the evaluation of one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowError {
    /// The subject's row.
    pub row: u32,
    /// The kind of error.
    pub kind: FailureKind,
    /// The position in the expression.
    pub place: Place,
}

/// One outcome for each subject, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// One verdict for each subject.
    pub verdicts: Vec<Verdict>,
    /// The names of all missing facts, unique and sorted.
    pub missing_names: Vec<String>,
    /// One more than the number of subjects; the missing facts of subject `i` are `missing[offsets[i]..offsets[i +
    /// 1]]`.
    pub missing_offsets: Vec<u32>,
    /// Indices into `missing_names`, ascending for each subject.
    pub missing: Vec<u32>,
    /// Errors by row, at most one per row.
    pub errors: Vec<RowError>,
}

/// Number of subjects in a block. In the sandbox each iteration of a loop costs a check of the limits, and only blocks of
/// this size become SIMD instructions.
const BLOCK: usize = 16;

/// Collects outcomes row by row.
pub struct Collector {
    verdicts: Vec<Verdict>,
    /// The missing facts of each row that has any, by row.
    missing: Vec<(u32, FactSet)>,
    errors: Vec<RowError>,
}

impl Collector {
    /// Creates a collector for that many subjects.
    pub fn new(rows: u32) -> Self {
        Self { verdicts: Vec::with_capacity(rows as usize), missing: Vec::new(), errors: Vec::new() }
    }

    /// Adds the outcome of the next subject.
    pub fn push(&mut self, row: u32, truth: Truth, source: &str) {
        let verdict = self.verdict(row, truth, source);
        self.verdicts.push(verdict);
    }

    /// Adds the outcomes of the next subjects, which are all known or replaced later: the rule holds for those whose
    /// truth is `yes`. A block in each iteration of the loop, which compiles to SIMD instructions.
    pub fn push_decided(&mut self, truths: &[u8], yes: u8) {
        let (blocks, rest) = truths.as_chunks::<BLOCK>();
        for block in blocks {
            self.verdicts.extend_from_slice(&block.map(|truth| decided(truth == yes)));
        }
        self.verdicts.extend(rest.iter().map(|truth| decided(*truth == yes)));
    }

    /// Replaces the outcome of a subject that had no missing facts. Subjects come in order.
    pub fn replace(&mut self, row: u32, truth: Truth, source: &str) {
        let verdict = self.verdict(row, truth, source);
        if let Some(taken) = self.verdicts.get_mut(row as usize) {
            *taken = verdict;
        }
    }

    fn verdict(&mut self, row: u32, truth: Truth, source: &str) -> Verdict {
        match truth {
            Ok(truth) => decided(truth),
            Err(reasons) => {
                let error = reasons.error.map(|failure| (failure.kind, failure.at.place(source)));
                self.errors.extend(error.map(|(kind, place)| RowError { row, kind, place }));
                if !reasons.missing.is_empty() {
                    self.missing.push((row, reasons.missing));
                }
                Verdict::Undetermined
            }
        }
    }

    /// Resolves the names of missing facts.
    pub fn finish(self, bindings: &Bindings) -> Outcomes {
        let anywhere = self.missing.iter().fold(FactSet::EMPTY, |all, (_, facts)| all.union(*facts));
        let names = bindings.names().iter().filter(|(_, facts)| facts.intersects(anywhere));
        let (missing_names, facts_by_name): (Vec<String>, Vec<FactSet>) = names.cloned().unzip();
        let mut missing = Vec::new();
        let mut missing_offsets = vec![0; self.verdicts.len() + 1];
        let (mut set, mut so_far) = (0, 0);
        for (row, facts) in &self.missing {
            let end = *row as usize + 1;
            fill(missing_offsets.get_mut(set..end).unwrap_or_default(), so_far);
            let named = (0_u32..).zip(&facts_by_name).filter(|(_, these)| these.intersects(*facts));
            missing.extend(named.map(|(index, _)| index));
            (set, so_far) = (end, u32::try_from(missing.len()).unwrap_or(u32::MAX));
        }
        fill(missing_offsets.get_mut(set..).unwrap_or_default(), so_far);
        Outcomes { verdicts: self.verdicts, missing_names, missing_offsets, missing, errors: self.errors }
    }
}

/// Sets all offsets to the same value, a block of them in each iteration of the loop.
fn fill(offsets: &mut [u32], value: u32) {
    let (blocks, rest) = offsets.as_chunks_mut::<BLOCK>();
    blocks.iter_mut().for_each(|block| *block = [value; BLOCK]);
    rest.iter_mut().for_each(|offset| *offset = value);
}

fn decided(truth: bool) -> Verdict {
    if truth { Verdict::Eligible } else { Verdict::NotEligible }
}
