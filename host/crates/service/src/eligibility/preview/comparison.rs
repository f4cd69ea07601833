//! Compares a rule with a second one: both are evaluated over the same batches, each in an instance of its own.
//!
//! **Invariant:** the facts of a batch are read once, for both rules. A rule gets the columns that it reads, and no
//! others.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::facts::Facts;
use crate::eligibility::check;
use crate::eligibility::failure::{Failure, refused};
use crate::eligibility::layout::codes_with_texts;
use crate::eligibility::schema::{self, LIST_MARK};
use daftar_domain::code::CodeNumber;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{
    Batch, Column, Diagnostic, Outcomes, PlacedQuestion, Reference, RowSpace, Schema, Subject, Verdict,
};
use daftar_domain::record::RecordId;
use daftar_sandbox::RuleSession;
use daftar_vocabulary::Generation;

use super::{SAMPLE_MAX, kinds};

/// The member of the request with the second rule.
const FIELD: &str = "compare";

/// Number of verdicts.
const VERDICTS: usize = Verdict::ALL.len();

/// A second rule, and the fields that each of the two reads.
#[derive(Debug, Clone)]
pub(super) struct ComparedRule {
    expression: String,
    references: Vec<Reference>,
    /// The fields that the first rule reads.
    of_first: Vec<Reference>,
    /// Warnings of its compilation.
    pub warnings: Vec<Diagnostic>,
}

impl ComparedRule {
    /// Compiles the second rule beside the first, and checks that the client may evaluate it.
    pub fn compile(
        ctx: &OpContext,
        session: &mut RuleSession,
        (expression, schema): (&str, &Schema),
        subject: Subject,
    ) -> Result<Self, Failure> {
        let of_first = session.references().to_vec();
        let compared = session.compare(expression, schema).map_err(of_second)?;
        schema::check_stored(ctx, subject, compared.references())?;
        let (references, warnings) = (compared.references().to_vec(), compared.warnings().to_vec());
        Ok(Self { expression: expression.to_owned(), references, of_first, warnings })
    }

    /// Returns the fields that either rule reads.
    pub fn all_references(&self) -> Vec<Reference> {
        let mut all = self.of_first.clone();
        for reference in &self.references {
            match all.iter_mut().find(|known| known.space == reference.space && known.path == reference.path) {
                Some(known) => known.needs_texts |= reference.needs_texts,
                None => all.push(reference.clone()),
            }
        }
        all
    }
}

/// Checks that the codes and groups that the second rule names exist.
pub(super) fn check_bindings(generation: &Generation, session: &mut RuleSession) -> Result<(), Failure> {
    let Some(compared) = session.compared() else { return Ok(()) };
    bindings(generation, compared.questions(), &BTreeSet::new()).map(drop).map_err(of_second)
}

fn of_second(failure: impl Into<Failure>) -> Failure {
    failure.into().of_field(FIELD)
}

/// The rules of one time slice.
pub(super) struct Rules<'s> {
    pub session: &'s mut RuleSession,
    /// True once the rules are bound.
    is_bound: bool,
}

impl<'s> Rules<'s> {
    /// Compiles the second rule, if there is one, beside the first.
    pub fn new(facts: &Facts, session: &'s mut RuleSession) -> Result<Self, Failure> {
        let inquiry = &facts.inquiry;
        if let Some(compared) = &inquiry.compared {
            session.compare(&compared.expression, &inquiry.schema).map_err(of_second)?;
        }
        Ok(Self { session, is_bound: false })
    }

    /// Evaluates a batch by each rule. Returns `None` if the rules are bound and cannot be bound again to the texts of
    /// codes in this batch, which requires another time slice.
    pub fn evaluate(&mut self, facts: &Facts, batch: &Batch) -> Result<Option<(Outcomes, Option<Outcomes>)>, Failure> {
        let (inquiry, second) = (&facts.inquiry, facts.inquiry.compared.as_ref());
        let of_first = second.map_or(&inquiry.references, |second| &second.of_first);
        let texts = codes_with_texts(of_first, batch);
        let second = second.map(|second| (second, codes_with_texts(&second.references, batch)));
        let has_texts = !texts.is_empty() || second.as_ref().is_some_and(|(_, texts)| !texts.is_empty());
        if self.is_bound && has_texts {
            return Ok(None);
        }
        let bind = |session: &mut RuleSession, texts: &BTreeSet<CodeNumber>| -> Result<(), Failure> {
            Ok(session.bind(&bindings(&inquiry.generation, session.questions(), texts)?)?)
        };
        let is_first_batch = !std::mem::replace(&mut self.is_bound, true);
        if is_first_batch {
            bind(self.session, &texts)?;
        }
        let Some((second, texts)) = second else { return Ok(Some((self.session.evaluate(batch)?, None))) };
        let outcomes = self.session.evaluate(&of_rule(batch, of_first))?;
        let Some(session) = self.session.compared() else { return Ok(Some((outcomes, None))) };
        if is_first_batch {
            bind(session, &texts).map_err(of_second)?;
        }
        let compared = session.evaluate(&of_rule(batch, &second.references)).map_err(of_second)?;
        Ok(Some((outcomes, Some(compared))))
    }
}

fn bindings(
    generation: &Generation,
    questions: &[PlacedQuestion],
    texts: &BTreeSet<CodeNumber>,
) -> Result<daftar_domain::eligibility::Bindings, Failure> {
    Ok(check::bindings(generation, questions, texts).map_err(refused)?)
}

/// Returns the part of a batch that a rule reads.
fn of_rule<'b>(batch: &'b Batch, references: &[Reference]) -> Cow<'b, Batch> {
    let reads = |column: &Column| {
        let of_column = |reference: &Reference| {
            let list = reference.path.split_once(LIST_MARK).map(|(list, _)| list);
            let items = column.path.strip_suffix("[]");
            let paths = [Some(column.path.as_str()), items];
            column.space == reference.space
                && (paths.contains(&Some(reference.path.as_str())) || list == Some(column.path.as_str()))
        };
        references.iter().any(of_column)
    };
    let reads_space = |space| references.iter().any(|reference| reference.space == space);
    let (members, programs) = (reads_space(RowSpace::Members), reads_space(RowSpace::Programs));
    let is_whole = (members || batch.members.is_none()) && (programs || batch.programs.is_none());
    if is_whole && batch.columns.iter().all(reads) {
        return Cow::Borrowed(batch);
    }
    Cow::Owned(Batch {
        as_of: batch.as_of,
        rows: batch.rows,
        members: batch.members.clone().filter(|_| members),
        programs: batch.programs.clone().filter(|_| programs),
        columns: batch.columns.iter().filter(|column| reads(column)).cloned().collect(),
    })
}

/// Number of subjects by the outcomes of both rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cells([u64; VERDICTS * VERDICTS]);

impl Cells {
    /// Returns the number of subjects with these outcomes of the first and of the second rule.
    #[must_use]
    pub fn of(&self, first: Verdict, second: Verdict) -> u64 {
        self.0.get(first as usize * VERDICTS + second as usize).copied().unwrap_or_default()
    }

    /// Adds subjects with these outcomes, as numbers.
    pub(super) fn add(&mut self, (first, second): (usize, usize), count: u64) {
        if let Some(cell) = self.0.get_mut(first * VERDICTS + second) {
            *cell += count;
        }
    }

    /// Adds the cells of other subjects.
    pub(super) fn merge(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(cell, other)| *cell += other);
    }
}

/// A subject that one of the rules makes eligible and the other does not.
#[derive(Debug, Clone, Copy)]
pub(super) struct MovedSubject {
    pub id: RecordId,
    pub outcomes: (Verdict, Verdict),
}

/// The first subjects that the second rule makes eligible and the first does not, and the reverse.
#[derive(Debug, Clone, Default)]
pub(super) struct Moved {
    pub gained: Vec<MovedSubject>,
    pub lost: Vec<MovedSubject>,
}

impl Moved {
    /// Adds those of a batch, by the kind of each row.
    pub fn add(&mut self, facts: &Facts, rows: &[u32], kinds: &[u8]) {
        let is_full = |subjects: &Vec<MovedSubject>| subjects.len() >= SAMPLE_MAX as usize;
        if is_full(&self.gained) && is_full(&self.lost) {
            return;
        }
        for (at, kind) in kinds::moved(kinds) {
            let (first, second) = kind.verdicts();
            let (Some(first), Some(second)) = (Verdict::ALL.get(first), Verdict::ALL.get(second)) else { continue };
            let subjects = if *first == Verdict::Eligible { &mut self.lost } else { &mut self.gained };
            if !is_full(subjects)
                && let Some(row) = rows.get(at)
            {
                let id = facts.view.snapshot.id_at(facts.kind(), *row);
                subjects.extend(id.map(|id| MovedSubject { id, outcomes: (*first, *second) }));
            }
        }
    }

    /// Adds those of subjects that were registered later.
    pub fn merge(&mut self, later: Self) {
        for (subjects, later) in [(&mut self.gained, later.gained), (&mut self.lost, later.lost)] {
            subjects.extend(later);
            subjects.truncate(SAMPLE_MAX as usize);
        }
    }
}
