//! The component boundary: converts between the types of the interface and those of the engine.

use crate::batch::{Batch, Children, Column, ColumnValues};
use crate::bind::{Answer, BindFault, Bindings, CodeTexts};
use crate::columns::BatchFault;
use crate::diagnostic::{Diagnostic, Severity};
use crate::explanation::{Explained, ExplainedValue, SeenFact};
use crate::outcome::Outcomes;
use crate::plan::Question;
use crate::rule::{EvaluationFault, Rule};
use crate::schema::{Field, FieldType, Schema, Space, Subject};
use std::cell::RefCell;

mod bindings {
    #![cfg_attr(
        target_arch = "wasm32",
        expect(unsafe_code, reason = "the generated glue moves what crosses the boundary through linear memory")
    )]

    wit_bindgen::generate!({
        path: "../../wit/daftar-plugin/0.1.0",
        world: "eligibility-engine",
    });

    // Elsewhere the names of the interface are not valid linker symbols.
    #[cfg(target_arch = "wasm32")]
    use super::Engine;
    #[cfg(target_arch = "wasm32")]
    export!(Engine);
}

use bindings::daftar::plugin::{columns as wit_columns, schema as wit_schema};
use bindings::exports::daftar::plugin::eligibility as wit;

/// The implementation of the engine interface.
struct Engine;

/// A rule of the host, with the answers once they are bound.
struct BoundRule {
    rule: Rule,
    bindings: RefCell<Option<Bindings>>,
}

impl wit::Guest for Engine {
    type Rule = BoundRule;

    fn compile(expression: String, schema: wit_schema::RegistrySchema) -> Result<wit::Rule, Vec<wit::Diagnostic>> {
        let schema = Schema::new(subject(schema.subject), schema.fields.into_iter().map(field));
        match Rule::compile(&expression, &schema) {
            Ok(rule) => Ok(wit::Rule::new(BoundRule { rule, bindings: RefCell::new(None) })),
            Err(diagnostics) => Err(diagnostics.iter().map(|fault| diagnostic(fault, &expression)).collect()),
        }
    }
}

impl wit::GuestRule for BoundRule {
    fn references(&self) -> Vec<wit::Reference> {
        let references = self.rule.references().into_iter();
        references
            .map(|reference| {
                let place = reference.span.place(self.rule.source());
                wit::Reference {
                    space: wit_space(reference.space),
                    path: reference.path,
                    needs_texts: reference.needs_texts,
                    line: place.line,
                    column: place.column,
                    length: place.length,
                }
            })
            .collect()
    }

    fn questions(&self) -> Vec<wit::PlacedQuestion> {
        let questions = self.rule.plan().questions().iter();
        questions
            .map(|placed| {
                let place = placed.span.place(self.rule.source());
                let question = match &placed.question {
                    Question::InGroup(name) => wit::Question::InGroup(name.clone()),
                    Question::DescendsFrom(uri) => wit::Question::DescendsFrom(uri.clone()),
                    Question::Code(uri) => wit::Question::Code(uri.clone()),
                };
                wit::PlacedQuestion { question, line: place.line, column: place.column, length: place.length }
            })
            .collect()
    }

    fn warnings(&self) -> Vec<wit::Diagnostic> {
        self.rule.warnings().iter().map(|warning| diagnostic(warning, self.rule.source())).collect()
    }

    fn summary(&self) -> wit::Summary {
        let cost = self.rule.cost();
        wit::Summary {
            result_type: self.rule.tree().value.cel_name().to_owned(),
            cost: wit::Cost {
                steps_min: cost.steps_min,
                steps_max: cost.steps_max,
                list_items: crate::limits::COST_LIST_ITEMS,
            },
        }
    }

    fn bind(&self, sent: wit::Bindings) -> Result<(), wit::BindError> {
        let answers = sent.answers.into_iter().map(answer).collect();
        let texts = sent
            .texts
            .into_iter()
            .map(|texts| (texts.number, CodeTexts::new(texts.namespace, texts.code, texts.display)));
        let bound = Bindings::new(self.rule.plan(), answers, texts);
        let (bindings, answer) = match bound {
            Ok(bindings) => (Some(bindings), Ok(())),
            Err(BindFault::WrongAnswerCount) => (None, Err(wit::BindError::WrongAnswerCount)),
            Err(BindFault::WrongAnswerKind(index)) => (None, Err(wit::BindError::WrongAnswerKind(index))),
        };
        *self.bindings.borrow_mut() = bindings;
        answer
    }

    fn evaluate(&self, sent: wit_columns::Batch) -> Result<wit::Outcomes, wit::EvaluationError> {
        let bindings = self.bindings.borrow();
        let Some(bindings) = bindings.as_ref() else { return Err(wit::EvaluationError::NotBound) };
        self.rule.evaluate(bindings, batch(sent)).map(outcomes).map_err(evaluation_error)
    }

    fn explain(&self, sent: wit_columns::Batch, row: u32) -> Result<Option<wit::Explanation>, wit::EvaluationError> {
        let bindings = self.bindings.borrow();
        let Some(bindings) = bindings.as_ref() else { return Err(wit::EvaluationError::NotBound) };
        let explained = self.rule.explain(bindings, batch(sent), row).map_err(evaluation_error)?;
        Ok(explained.map(|explanation| wit::Explanation {
            parts: explanation.parts.into_iter().map(explained_part).collect(),
            is_cut: explanation.is_cut,
        }))
    }
}

fn evaluation_error(fault: EvaluationFault) -> wit::EvaluationError {
    match fault {
        EvaluationFault::Batch(BatchFault::MissingColumn(name)) => wit::EvaluationError::MissingColumn(name),
        EvaluationFault::Batch(BatchFault::Malformed(sentence)) => wit::EvaluationError::MalformedBatch(sentence),
        EvaluationFault::Exhausted(budget) => wit::EvaluationError::Exhausted(wit::Budget {
            name: budget.name().to_owned(),
            size: u64::try_from(budget.size()).unwrap_or(u64::MAX),
        }),
    }
}

fn explained_part(part: Explained) -> wit::Explained {
    let byte = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
    wit::Explained {
        parent: part.parent.map(byte),
        start: byte(part.span.start),
        end: byte(part.span.end),
        item: part.item,
        value: explained_value(part.value),
        missing: part.missing,
        error: part.error.map(str::to_owned),
        seen: part.seen.into_iter().map(seen_fact).collect(),
    }
}

fn seen_fact(fact: SeenFact) -> wit::SeenFact {
    wit::SeenFact { name: fact.name, value: explained_value(fact.value) }
}

fn explained_value(value: ExplainedValue) -> wit::ExplainedValue {
    match value {
        ExplainedValue::Unknown => wit::ExplainedValue::Unknown,
        ExplainedValue::Boolean(truth) => wit::ExplainedValue::Boolean(truth),
        ExplainedValue::Integer(integer) => wit::ExplainedValue::Integer(integer),
        ExplainedValue::Number(number) => wit::ExplainedValue::Number(number),
        ExplainedValue::Day(days) => wit::ExplainedValue::Day(days),
        ExplainedValue::Code(number) => wit::ExplainedValue::Code(number),
        ExplainedValue::Text(text) => wit::ExplainedValue::Text(text),
        ExplainedValue::Items(low, high) => wit::ExplainedValue::Items((low, high)),
        ExplainedValue::Structure => wit::ExplainedValue::Structure,
        ExplainedValue::Other(text) => wit::ExplainedValue::Other(text),
    }
}

fn subject(subject: wit_schema::Subject) -> Subject {
    match subject {
        wit_schema::Subject::Individual => Subject::Individual,
        wit_schema::Subject::Group => Subject::Group,
    }
}

fn space(space: wit_schema::RowSpace) -> Space {
    match space {
        wit_schema::RowSpace::Me => Space::Me,
        wit_schema::RowSpace::Members => Space::Members,
        wit_schema::RowSpace::Programs => Space::Programs,
    }
}

fn wit_space(space: Space) -> wit_schema::RowSpace {
    match space {
        Space::Me => wit_schema::RowSpace::Me,
        Space::Members => wit_schema::RowSpace::Members,
        Space::Programs => wit_schema::RowSpace::Programs,
    }
}

fn field(field: wit_schema::Field) -> Field {
    let kind = match field.kind {
        wit_schema::FieldType::Boolean => FieldType::Boolean,
        wit_schema::FieldType::Integer => FieldType::Integer,
        wit_schema::FieldType::Number => FieldType::Number,
        wit_schema::FieldType::Text => FieldType::Text,
        wit_schema::FieldType::Date => FieldType::Date,
        wit_schema::FieldType::Coded => FieldType::Coded,
        wit_schema::FieldType::Structure => FieldType::Structure,
    };
    Field {
        space: space(field.space),
        path: field.path,
        kind,
        is_repeated: field.repeated,
        vocabularies: field.vocabularies,
    }
}

fn diagnostic(diagnostic: &Diagnostic, source: &str) -> wit::Diagnostic {
    let place = diagnostic.place(source);
    wit::Diagnostic {
        severity: match diagnostic.severity {
            Severity::Error => wit::Severity::Error,
            Severity::Warning => wit::Severity::Warning,
        },
        code: diagnostic.fault.name().to_owned(),
        message: diagnostic.message.clone(),
        reason: diagnostic.reason.name().to_owned(),
        parameters: diagnostic.parameters.clone(),
        line: place.line,
        column: place.column,
        length: place.length,
        suggestion: diagnostic.suggestion.clone(),
    }
}

fn answer(answer: wit::Answer) -> Answer {
    match answer {
        wit::Answer::Truths(table) => Answer::Truths { truths: table.truths, missing: table.missing },
        wit::Answer::Number(number) => Answer::Number(number),
    }
}

fn batch(batch: wit_columns::Batch) -> Batch {
    Batch {
        as_of: batch.as_of,
        rows: batch.rows,
        members: batch.members.map(children),
        programs: batch.programs.map(children),
        columns: batch.columns.into_iter().map(column).collect(),
    }
}

fn children(children: wit_columns::Children) -> Children {
    Children { offsets: children.offsets, known: children.known }
}

fn column(column: wit_columns::Column) -> Column {
    let values = match column.values {
        wit_columns::ColumnValues::Booleans(values) => ColumnValues::Booleans(values),
        wit_columns::ColumnValues::Integers(values) => ColumnValues::Integers(values),
        wit_columns::ColumnValues::Numbers(values) => ColumnValues::Numbers(values),
        wit_columns::ColumnValues::Days(values) => ColumnValues::Days(values),
        wit_columns::ColumnValues::Codes(values) => ColumnValues::Codes(values),
        wit_columns::ColumnValues::Texts(texts) => ColumnValues::Texts { offsets: texts.offsets, bytes: texts.bytes },
        wit_columns::ColumnValues::Lists(offsets) => ColumnValues::Lists(offsets),
    };
    Column { space: space(column.space), path: column.path, valid: column.valid, values }
}

fn outcomes(outcomes: Outcomes) -> wit::Outcomes {
    let errors = outcomes.errors.into_iter();
    wit::Outcomes {
        verdicts: outcomes.verdicts.into_iter().map(|verdict| verdict as u8).collect(),
        missing_names: outcomes.missing_names,
        missing_offsets: outcomes.missing_offsets,
        missing: outcomes.missing,
        errors: errors
            .map(|error| wit::RowError {
                row: error.row,
                code: error.kind.name().to_owned(),
                line: error.place.line,
                column: error.place.column,
            })
            .collect(),
    }
}
