//! What a rule needs before it can be evaluated: fields, their columns, and answers about codes.
//!
//! **Invariant:** each field, column and question is in the plan once; its number is its place.

use crate::facts::{Fact, FactSet};
use crate::limits::{FIELDS_READ_MAX, QUESTIONS_MAX};
use crate::schema::{Field, FieldType, Space};
use crate::span::Span;
use crate::tree::{ColumnId, Domain, QuestionId};

/// A field that the rule reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The rows it belongs to.
    pub space: Space,
    /// The field's path as in the schema; empty where the rule asks only which rows there are.
    pub path: String,
    /// Whether the rule reads texts of its codes.
    pub needs_texts: bool,
    /// Where it is first read.
    pub span: Span,
}

/// A column that every batch must bring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnPlan {
    /// The rows it belongs to.
    pub space: Space,
    /// The column's path, with `[]` for the items of a list.
    pub path: String,
    /// Which rows it has values for.
    pub domain: Domain,
    /// What its values are.
    pub shape: Shape,
    /// The number of the field that it belongs to.
    pub reference: usize,
}

impl ColumnPlan {
    /// Its space and path, such as `me.gender`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.space.root(), self.path)
    }

    /// What is missing where it has no value.
    pub fn missing(&self) -> FactSet {
        FactSet::of(Fact::Field(self.reference))
    }
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One value of that type.
    Value(FieldType),
    /// A list, by offsets.
    List,
}

/// Something about codes that only the host knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Which codes belong to that concept group?
    InGroup(String),
    /// Which codes are that code, or below it?
    DescendsFrom(String),
    /// Which number has that code?
    Code(String),
}

/// A question with the place where it is first asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedQuestion {
    /// What is asked.
    pub question: Question,
    /// The literal, or the name of the helper that asks.
    pub span: Span,
}

/// The columns of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldColumns {
    /// The field's own column: its values, or the offsets of its lists.
    pub column: ColumnId,
    /// For a repeated field of plain values, the column of its items.
    pub items: Option<ColumnId>,
    /// What is missing where there is no value.
    pub missing: FactSet,
}

/// A bound of the plan that a rule has gone beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanFull {
    /// More fields than one rule may read.
    Fields,
    /// More questions than one rule may ask.
    Questions,
}

/// Everything that a rule needs.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    references: Vec<Reference>,
    columns: Vec<ColumnPlan>,
    fields: Vec<FieldColumns>,
    questions: Vec<PlacedQuestion>,
    reads_members: Option<Span>,
    reads_programs: Option<Span>,
}

impl Plan {
    /// The fields that are read, in the order of their numbers.
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// The columns of those fields, in the order of their numbers.
    pub fn columns(&self) -> &[ColumnPlan] {
        &self.columns
    }

    /// The questions, in the order of their numbers.
    pub fn questions(&self) -> &[PlacedQuestion] {
        &self.questions
    }

    /// Whether the rule asks who the members are, or which programs the subject is in.
    pub fn reads_rows_of(&self, space: Space) -> bool {
        match space {
            Space::Me => true,
            Space::Members => self.reads_members.is_some(),
            Space::Programs => self.reads_programs.is_some(),
        }
    }

    /// Where the rule first asks which rows of that space there are.
    pub fn rows_read_at(&self, space: Space) -> Option<Span> {
        match space {
            Space::Me => None,
            Space::Members => self.reads_members,
            Space::Programs => self.reads_programs,
        }
    }

    /// Notes that the rule asks which rows of that space there are.
    pub fn read_rows(&mut self, space: Space, span: Span) {
        match space {
            Space::Me => {}
            Space::Members => {
                self.reads_members.get_or_insert(span);
            }
            Space::Programs => {
                self.reads_programs.get_or_insert(span);
            }
        }
    }

    /// The columns of a field of records of that domain, added when it is first read.
    ///
    /// # Errors
    ///
    /// The rule reads too many fields.
    pub fn read_field(&mut self, field: &Field, domain: Domain, span: Span) -> Result<FieldColumns, PlanFull> {
        let known = self.references.iter().position(|read| read.space == field.space && read.path == field.path);
        if let Some(columns) = known.and_then(|number| self.fields.get(number)) {
            return Ok(*columns);
        }
        let reference = self.references.len();
        if reference == FIELDS_READ_MAX {
            return Err(PlanFull::Fields);
        }
        self.references.push(Reference { space: field.space, path: field.path.clone(), needs_texts: false, span });
        let value = Shape::Value(field.kind);
        let shape = if field.is_repeated { Shape::List } else { value };
        let column = self.add_column(field, &field.path, domain, shape, reference);
        let has_items = field.is_repeated && field.kind != FieldType::Structure;
        let items = has_items.then(|| {
            let path = format!("{}[]", field.path);
            self.add_column(field, &path, Domain::Items(column), value, reference)
        });
        let columns = FieldColumns { column, items, missing: FactSet::of(Fact::Field(reference)) };
        self.fields.push(columns);
        Ok(columns)
    }

    /// Notes that texts of the codes of these fields are read.
    pub fn read_texts(&mut self, fields: FactSet) {
        for (number, reference) in self.references.iter_mut().enumerate() {
            reference.needs_texts |= fields.contains(Fact::Field(number));
        }
    }

    /// The number of a question, added when it is first asked.
    ///
    /// # Errors
    ///
    /// The rule asks too many questions.
    pub fn ask(&mut self, question: Question, span: Span) -> Result<QuestionId, PlanFull> {
        if let Some(known) = self.questions.iter().position(|placed| placed.question == question) {
            return Ok(known);
        }
        if self.questions.len() == QUESTIONS_MAX {
            return Err(PlanFull::Questions);
        }
        self.questions.push(PlacedQuestion { question, span });
        Ok(self.questions.len() - 1)
    }

    fn add_column(&mut self, field: &Field, path: &str, domain: Domain, shape: Shape, reference: usize) -> ColumnId {
        self.columns.push(ColumnPlan { space: field.space, path: path.to_owned(), domain, shape, reference });
        self.columns.len() - 1
    }
}
