//! What a rule says about the subjects of a batch.
//!
//! **Invariant:** the same rule, answers and batch give the same outcomes to the byte, whatever the order of evaluation.

use crate::bind::Bindings;
use crate::facts::FactSet;
use crate::span::Place;
use crate::value::{FailureKind, Truth};

/// What a rule says about one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// The rule does not hold.
    NotEligible = 0,
    /// The rule holds.
    Eligible = 1,
    /// It depends on something that is not known.
    Undetermined = 2,
}

/// An error while one subject was evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowError {
    /// The subject's row.
    pub row: u32,
    /// What went wrong.
    pub kind: FailureKind,
    /// Where in the expression.
    pub place: Place,
}

/// One outcome for each subject, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// One verdict for each subject.
    pub verdicts: Vec<Verdict>,
    /// The names of the facts that are missing anywhere, each once, sorted.
    pub missing_names: Vec<String>,
    /// One more than there are subjects; the missing facts of subject `i` are `missing[offsets[i]..offsets[i + 1]]`.
    pub missing_offsets: Vec<u32>,
    /// Indices into `missing_names`, rising for each subject.
    pub missing: Vec<u32>,
    /// Errors by row, at most one a row.
    pub errors: Vec<RowError>,
}

/// Collects outcomes row by row.
pub struct Collector {
    verdicts: Vec<Verdict>,
    missing: Vec<FactSet>,
    errors: Vec<RowError>,
}

impl Collector {
    /// Room for so many subjects.
    pub fn new(rows: u32) -> Self {
        let rows = rows as usize;
        Self { verdicts: Vec::with_capacity(rows), missing: Vec::with_capacity(rows), errors: Vec::new() }
    }

    /// Takes the outcome of the next subject.
    pub fn push(&mut self, row: u32, truth: Truth, source: &str) {
        let (verdict, missing) = match truth {
            Ok(true) => (Verdict::Eligible, FactSet::EMPTY),
            Ok(false) => (Verdict::NotEligible, FactSet::EMPTY),
            Err(reasons) => {
                let error = reasons.error.map(|failure| (failure.kind, failure.at.place(source)));
                self.errors.extend(error.map(|(kind, place)| RowError { row, kind, place }));
                (Verdict::Undetermined, reasons.missing)
            }
        };
        self.verdicts.push(verdict);
        self.missing.push(missing);
    }

    /// Gives every missing fact its name.
    pub fn finish(self, bindings: &Bindings) -> Outcomes {
        let anywhere = self.missing.iter().fold(FactSet::EMPTY, |all, facts| all.union(*facts));
        let names = bindings.names().iter().filter(|(_, facts)| facts.intersects(anywhere));
        let (missing_names, facts_by_name): (Vec<String>, Vec<FactSet>) = names.cloned().unzip();
        let mut missing = Vec::new();
        let mut missing_offsets = vec![0];
        for facts in &self.missing {
            if !facts.is_empty() {
                let named = (0_u32..).zip(&facts_by_name).filter(|(_, these)| these.intersects(*facts));
                missing.extend(named.map(|(index, _)| index));
            }
            missing_offsets.push(u32::try_from(missing.len()).unwrap_or(u32::MAX));
        }
        Outcomes { verdicts: self.verdicts, missing_names, missing_offsets, missing, errors: self.errors }
    }
}
