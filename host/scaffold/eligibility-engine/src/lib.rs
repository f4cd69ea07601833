//! The eligibility engine `@name@`: hands what `logic` knows to the plugin interface.

pub mod logic;

use daftar_sdk::eligibility::{
    Batch, BindError, Bindings, CompiledRule, Diagnostic, EligibilityEngine, EvaluationError, Explained, Explanation,
    FieldType, Outcomes, PlacedQuestion, Reference, RegistrySchema, RowOutcome, RowSpace, Rule, Summary,
};
use logic::Expression;

/// The engine.
pub struct Engine;

impl EligibilityEngine for Engine {
    type Rule = CompiledExpression;

    fn compile(expression: String, schema: RegistrySchema) -> Result<Rule, Vec<Diagnostic>> {
        daftar_sdk::log::report_panics();
        let truths: Vec<&str> = schema
            .fields
            .iter()
            .filter(|field| field.space == RowSpace::Me && field.kind == FieldType::Boolean && !field.repeated)
            .map(|field| field.path.as_str())
            .collect();
        match logic::parse(&expression, &truths) {
            Ok(parsed) => Ok(Rule::new(CompiledExpression { text: expression, parsed })),
            Err(error) => Err(vec![Diagnostic::error(error.code, error.message).at(1, error.column, error.length)]),
        }
    }
}

/// A rule, ready to be evaluated.
pub struct CompiledExpression {
    text: String,
    parsed: Expression,
}

impl CompiledRule for CompiledExpression {
    fn references(&self) -> Vec<Reference> {
        vec![Reference::to(RowSpace::Me, &self.parsed.path)]
    }

    fn questions(&self) -> Vec<PlacedQuestion> {
        Vec::new()
    }

    fn warnings(&self) -> Vec<Diagnostic> {
        Vec::new()
    }

    fn summary(&self) -> Summary {
        Summary::truth_of_steps(1)
    }

    fn bind(&self, _bindings: Bindings) -> Result<(), BindError> {
        Ok(())
    }

    fn evaluate(&self, batch: Batch) -> Result<Outcomes, EvaluationError> {
        let column = batch.column(RowSpace::Me, &self.parsed.path)?;
        let fact = format!("me.{}", self.parsed.path);
        let rows = (0..batch.rows as usize).map(|row| RowOutcome::of(self.parsed.truth(column.boolean(row)), &fact));
        Ok(Outcomes::from_rows(rows))
    }

    fn explain(&self, batch: Batch, row: u32) -> Result<Option<Explanation>, EvaluationError> {
        let recorded = batch.column(RowSpace::Me, &self.parsed.path)?.boolean(row as usize);
        let fact = format!("me.{}", self.parsed.path);
        let outcome = RowOutcome::of(self.parsed.truth(recorded), &fact);
        let whole = Explained::whole(&self.text, &outcome).seeing_truth(&fact, recorded);
        Ok((row < batch.rows).then(|| Explanation { parts: vec![whole], is_cut: false }))
    }
}

#[cfg(target_arch = "wasm32")]
daftar_sdk::export_eligibility_engine!(Engine);
