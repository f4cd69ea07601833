//! The requirements of a rule: fields, their columns, and answers about codes.
//!
//! **Invariant:** each field, column and question is in the plan once; its number is its index.

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
    /// The field's path as in the schema; empty if the rule only reads which rows exist.
    pub path: String,
    /// True if the rule reads texts of its codes.
    pub needs_texts: bool,
    /// The first position at which it is read.
    pub span: Span,
}

/// A column that every batch must contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnPlan {
    /// The rows it belongs to.
    pub space: Space,
    /// The column's path, with `[]` for the items of a list.
    pub path: String,
    /// The rows for which it has values.
    pub domain: Domain,
    /// The form of its values.
    pub shape: Shape,
    /// The number of the field that it belongs to.
    pub reference: usize,
}

impl ColumnPlan {
    /// Its space and path, such as `me.gender`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.space.root(), self.path)
    }

    /// The facts that are missing if it has no value.
    pub fn missing(&self) -> FactSet {
        FactSet::of(Fact::Field(self.reference))
    }
}

/// The form of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One value of that type.
    Value(FieldType),
    /// A list, by offsets.
    List,
}

/// A question about codes that the host answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The codes of that concept group.
    InGroup(String),
    /// The code and its descendants.
    DescendsFrom(String),
    /// The number of that code.
    Code(String),
}

/// A question with the position at which it is first asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedQuestion {
    /// The question.
    pub question: Question,
    /// The literal, or the name of the helper with the question.
    pub span: Span,
}

/// The columns of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldColumns {
    /// The field's own column: its values, or the offsets of its lists.
    pub column: ColumnId,
    /// For a repeated field of plain values, the column of its items.
    pub items: Option<ColumnId>,
    /// The facts that are missing if it has no value.
    pub missing: FactSet,
}

/// An exceeded limit of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanFull {
    /// More fields than one rule may read.
    Fields,
    /// More questions than one rule may ask.
    Questions,
}

/// The requirements of a rule.
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
    /// The fields, in the order of their numbers.
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

    /// Returns true if the rule reads the members, or the programs of the subject.
    pub fn reads_rows_of(&self, space: Space) -> bool {
        match space {
            Space::Me => true,
            Space::Members => self.reads_members.is_some(),
            Space::Programs => self.reads_programs.is_some(),
        }
    }

    /// The first position at which the rule reads the rows of that space.
    pub fn rows_read_at(&self, space: Space) -> Option<Span> {
        match space {
            Space::Me => None,
            Space::Members => self.reads_members,
            Space::Programs => self.reads_programs,
        }
    }

    /// Records that the rule reads the rows of that space.
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

    /// The columns of a field, added on first use.
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

    /// Records that texts of the codes of these fields are read.
    pub fn read_texts(&mut self, fields: FactSet) {
        for (number, reference) in self.references.iter_mut().enumerate() {
            reference.needs_texts |= fields.contains(Fact::Field(number));
        }
    }

    /// The number of a question, added on first use.
    ///
    /// # Errors
    ///
    /// The rule has too many questions.
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
