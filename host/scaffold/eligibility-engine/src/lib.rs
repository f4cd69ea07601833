//! The eligibility engine `@name@`: hands what `logic` knows to the plugin interface.

pub mod logic;

use daftar_sdk::eligibility::{
    Batch, BindError, Bindings, CompiledRule, Diagnostic, EligibilityEngine, EvaluationError, FieldType, Outcomes,
    PlacedQuestion, Reference, RegistrySchema, RowOutcome, RowSpace, Rule,
};
use logic::Expression;

/// The engine.
pub struct Engine;

impl EligibilityEngine for Engine {
    type Rule = CompiledExpression;

    fn compile(expression: String, schema: RegistrySchema) -> Result<Rule, Vec<Diagnostic>> {
        let truths: Vec<&str> = schema
            .fields
            .iter()
            .filter(|field| field.space == RowSpace::Me && field.kind == FieldType::Boolean && !field.repeated)
            .map(|field| field.path.as_str())
            .collect();
        match logic::parse(&expression, &truths) {
            Ok(expression) => Ok(Rule::new(CompiledExpression(expression))),
            Err(error) => Err(vec![Diagnostic::error(error.code, error.message).at(1, error.column, error.length)]),
        }
    }
}

/// A rule, ready to be evaluated.
pub struct CompiledExpression(Expression);

impl CompiledRule for CompiledExpression {
    fn references(&self) -> Vec<Reference> {
        vec![Reference { space: RowSpace::Me, path: self.0.path.clone(), needs_texts: false }]
    }

    fn questions(&self) -> Vec<PlacedQuestion> {
        Vec::new()
    }

    fn warnings(&self) -> Vec<Diagnostic> {
        Vec::new()
    }

    fn bind(&self, _bindings: Bindings) -> Result<(), BindError> {
        Ok(())
    }

    fn evaluate(&self, batch: Batch) -> Result<Outcomes, EvaluationError> {
        let column = batch.column(RowSpace::Me, &self.0.path)?;
        let fact = format!("me.{}", self.0.path);
        let rows = (0..batch.rows as usize).map(|row| RowOutcome::of(self.0.truth(column.boolean(row)), &fact));
        Ok(Outcomes::from_rows(rows))
    }
}

#[cfg(target_arch = "wasm32")]
daftar_sdk::export_eligibility_engine!(Engine);
