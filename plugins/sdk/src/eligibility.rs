//! Eligibility engines: the traits to implement, the types of the interface, and helpers for both.
//!
//! An engine is a type that implements [`EligibilityEngine`], whose associated type implements [`CompiledRule`]; export
//! it with
//! [`export_eligibility_engine!`](crate::export_eligibility_engine).
//!
//! # A complete engine
//!
//! Its language is one word: the path of a boolean field of the subject, such as `active`.
//!
//! ```
//! use daftar_sdk::eligibility::{
//!     Batch, BindError, Bindings, CompiledRule, Diagnostic, EligibilityEngine, EvaluationError, Explained, Explanation,
//!     FieldType, Outcomes, PlacedQuestion, Reference, RegistrySchema, RowOutcome, RowSpace, Rule, Summary,
//! };
//!
//! struct Engine;
//! struct IsTrue(String);
//!
//! impl EligibilityEngine for Engine {
//!     type Rule = IsTrue;
//!
//!     fn compile(expression: String, schema: RegistrySchema) -> Result<Rule, Vec<Diagnostic>> {
//!         match schema.field(RowSpace::Me, &expression) {
//!             Some(field) if field.kind == FieldType::Boolean => Ok(Rule::new(IsTrue(expression))),
//!             _ => Err(vec![Diagnostic::error("unknown_field", "an expression is the path of a truth, such as `active`")]),
//!         }
//!     }
//! }
//!
//! impl CompiledRule for IsTrue {
//!     fn references(&self) -> Vec<Reference> {
//!         vec![Reference::to(RowSpace::Me, &self.0)]
//!     }
//!
//!     fn questions(&self) -> Vec<PlacedQuestion> {
//!         Vec::new()
//!     }
//!
//!     fn warnings(&self) -> Vec<Diagnostic> {
//!         Vec::new()
//!     }
//!
//!     fn summary(&self) -> Summary {
//!         Summary::truth_of_steps(1)
//!     }
//!
//!     fn bind(&self, _bindings: Bindings) -> Result<(), BindError> {
//!         Ok(())
//!     }
//!
//!     fn evaluate(&self, batch: Batch) -> Result<Outcomes, EvaluationError> {
//!         let column = batch.column(RowSpace::Me, &self.0)?;
//!         let fact = format!("me.{}", self.0);
//!         Ok(Outcomes::from_rows((0..batch.rows as usize).map(|row| RowOutcome::of(column.boolean(row), &fact))))
//!     }
//!
//!     fn explain(&self, batch: Batch, row: u32) -> Result<Option<Explanation>, EvaluationError> {
//!         let (truth, fact) = (batch.column(RowSpace::Me, &self.0)?.boolean(row as usize), format!("me.{}", self.0));
//!         let whole = Explained::whole(&self.0, &RowOutcome::of(truth, &fact)).seeing_truth(&fact, truth);
//!         Ok((row < batch.rows).then(|| Explanation { parts: vec![whole], is_cut: false }))
//!     }
//! }
//!
//! # #[cfg(target_arch = "wasm32")]
//! daftar_sdk::export_eligibility_engine!(Engine);
//! ```

mod column;
mod explanation;
mod outcome;

/// The generated bindings of the world `eligibility-engine`.
#[doc(hidden)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit/daftar-plugin/0.1.0",
        world: "eligibility-engine",
        pub_export_macro: true,
        export_macro_name: "export_eligibility_engine",
        default_bindings_module: "daftar_sdk::eligibility::bindings",
        with: { "daftar:plugin/log@0.1.0": crate::log::bindings::daftar::plugin::log },
    });
}

use self::bindings as generated;

pub use explanation::COST_LIST_ITEMS;
pub use generated::daftar::plugin::columns::{Batch, Children, Column, ColumnValues, TextValues};
pub use generated::daftar::plugin::schema::{Field, FieldType, RegistrySchema, RowSpace, Subject};
pub use generated::exports::daftar::plugin::eligibility::{
    Answer, BindError, Bindings, Budget, CodeTexts, Cost, Diagnostic, EvaluationError, Explained, ExplainedValue,
    Explanation, Guest as EligibilityEngine, GuestRule as CompiledRule, Outcomes, PlacedQuestion, Question, Reference,
    RowError, Rule, SeenFact, Severity, Summary, TruthTable,
};
pub use outcome::RowOutcome;
