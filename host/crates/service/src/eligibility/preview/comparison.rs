//! Compares a rule with a second one: both are evaluated over the same batches, in one instance of the engine.
//!
//! **Invariant:** the facts of a batch are read once, for both rules. A rule gets the columns that it reads, and no
//! others.

use std::collections::BTreeSet;

use super::facts::Facts;
use crate::eligibility::check;
use crate::eligibility::failure::{Failure, refused};
use crate::eligibility::layout::codes_with_texts;
use crate::eligibility::schema::{self, LIST_MARK};
use daftar_domain::code::CodeNumber;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::{
    Batch, Column, Diagnostic, Outcomes, PlacedQuestion, Reference, RowSpace, Subject, Verdict,
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
        expression: &str,
        subject: Subject,
    ) -> Result<Self, Failure> {
        let of_first = session.references().to_vec();
        let compared = session.compare(expression).map_err(of_second)?;
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
    /// Compiles the second rule, if there is one, beside the first, unless an earlier time slice did.
    pub fn new(facts: &Facts, session: &'s mut RuleSession) -> Result<Self, Failure> {
        if let Some(compared) = &facts.inquiry.compared
            && session.compared().is_none()
        {
            session.compare(&compared.expression).map_err(of_second)?;
        }
        let is_bound = session.is_bound();
        Ok(Self { session, is_bound })
    }

    /// Evaluates a batch by each rule. Returns `None` if the rules are bound and cannot be bound again to the texts of
    /// codes in this batch, which requires another time slice.
    pub fn evaluate(
        &mut self,
        facts: &Facts,
        batch: &mut Batch,
    ) -> Result<Option<(Outcomes, Option<Outcomes>)>, Failure> {
        let (inquiry, second) = (&facts.inquiry, facts.inquiry.compared.as_ref());
        let of_first = second.map_or(&inquiry.references, |second| &second.of_first);
        let texts = codes_with_texts(of_first, batch);
        let second = second.map(|second| (second, codes_with_texts(&second.references, batch)));
        let has_texts = !texts.is_empty() || second.as_ref().is_some_and(|(_, texts)| !texts.is_empty());
        if self.is_bound && has_texts {
            return Ok(None);
        }
        let is_first_batch = !std::mem::replace(&mut self.is_bound, true);
        if is_first_batch {
            let bindings = bindings(&inquiry.generation, self.session.questions(), &texts)?;
            self.session.bind(&bindings)?;
        }
        let Some((second, texts)) = second else { return Ok(Some((self.session.evaluate(batch)?, None))) };
        let outcomes = with_part(batch, of_first, |batch| self.session.evaluate(batch))?;
        let Some(mut rule) = self.session.compared() else { return Ok(Some((outcomes, None))) };
        if is_first_batch {
            let bindings = bindings(&inquiry.generation, rule.questions(), &texts).map_err(of_second)?;
            rule.bind(&bindings).map_err(of_second)?;
        }
        let compared = with_part(batch, &second.references, |batch| rule.evaluate(batch)).map_err(of_second)?;
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

/// Calls `evaluate` with the part of a batch that a rule reads. The other columns are taken out in the meantime, so that no
/// column is copied.
fn with_part<R>(batch: &mut Batch, references: &[Reference], evaluate: impl FnOnce(&Batch) -> R) -> R {
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
    let others: Vec<Column> = batch.columns.extract_if(.., |column| !reads(column)).collect();
    let members = batch.members.take_if(|_| !reads_space(RowSpace::Members));
    let programs = batch.programs.take_if(|_| !reads_space(RowSpace::Programs));
    let found = evaluate(batch);
    batch.columns.extend(others);
    batch.members = batch.members.take().or(members);
    batch.programs = batch.programs.take().or(programs);
    found
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

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::eligibility::{Children, ColumnValues};

    fn column(space: RowSpace, path: &str) -> Column {
        Column { space, path: path.to_owned(), valid: Vec::new(), values: ColumnValues::Codes(vec![1]) }
    }

    fn reference(space: RowSpace, path: &str) -> Reference {
        Reference { space, path: path.to_owned(), needs_texts: false, line: 0, column: 0, length: 0 }
    }

    #[test]
    fn a_rule_gets_its_part_of_a_batch_and_the_batch_stays_whole() {
        let (me, members) = (RowSpace::Me, RowSpace::Members);
        let children = Children { offsets: vec![0, 1], known: Vec::new() };
        let columns = [(me, "gender"), (me, "tags"), (me, "tags[]"), (me, "address"), (me, "address[].district")];
        let columns = columns.into_iter().chain([(members, "gender"), (members, "birth_date")]);
        let whole = Batch {
            as_of: 0,
            rows: 1,
            members: Some(children.clone()),
            programs: Some(children),
            columns: columns.map(|(space, path)| column(space, path)).collect(),
        };
        let mut batch = whole.clone();
        let mut part = |references: &[Reference]| {
            with_part(&mut batch, references, |batch| {
                let mut names: Vec<String> = batch.columns.iter().map(Column::name).collect();
                names.sort_unstable();
                (names.join(" "), batch.members.is_some(), batch.programs.is_some())
            })
        };
        let found = part(&[reference(me, "tags"), reference(me, "address[].district")]);
        assert_eq!(found, ("me.address me.address[].district me.tags me.tags[]".to_owned(), false, false));
        let found = part(&[reference(members, "gender"), reference(RowSpace::Programs, "")]);
        assert_eq!(found, ("members.gender".to_owned(), true, true));
        assert_eq!(part(&[]), (String::new(), false, false));
        let by_name = |batch: &Batch| {
            let mut columns = batch.columns.clone();
            columns.sort_by_key(Column::name);
            Batch { columns, ..batch.clone() }
        };
        assert_eq!(by_name(&batch), by_name(&whole));
    }
}
