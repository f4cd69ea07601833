//! Eligibility engines: the traits to implement, the types of the interface, and what makes both short.
//!
//! An engine is a type that implements [`EligibilityEngine`], whose associated type implements [`CompiledRule`]; hand it to
//! [`export_eligibility_engine!`](crate::export_eligibility_engine).
//!
//! # A complete engine
//!
//! Its language is one word: the path of a truth of the subject, such as `active`.
//!
//! ```
//! use daftar_sdk::eligibility::{
//!     Batch, BindError, Bindings, CompiledRule, Diagnostic, EligibilityEngine, EvaluationError, FieldType, Outcomes,
//!     PlacedQuestion, Reference, RegistrySchema, RowOutcome, RowSpace, Rule,
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
//!         vec![Reference { space: RowSpace::Me, path: self.0.clone(), needs_texts: false }]
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
//!     fn bind(&self, _bindings: Bindings) -> Result<(), BindError> {
//!         Ok(())
//!     }
//!
//!     fn evaluate(&self, batch: Batch) -> Result<Outcomes, EvaluationError> {
//!         let column = batch.column(RowSpace::Me, &self.0)?;
//!         let fact = format!("me.{}", self.0);
//!         Ok(Outcomes::from_rows((0..batch.rows as usize).map(|row| RowOutcome::of(column.boolean(row), &fact))))
//!     }
//! }
//!
//! # #[cfg(target_arch = "wasm32")]
//! daftar_sdk::export_eligibility_engine!(Engine);
//! ```

mod column;
mod outcome;

use crate::bindings::eligibility_engine as generated;

pub use generated::daftar::plugin::columns::{Batch, Children, Column, ColumnValues, TextValues};
pub use generated::daftar::plugin::schema::{Field, FieldType, RegistrySchema, RowSpace, Subject};
pub use generated::exports::daftar::plugin::eligibility::{
    Answer, BindError, Bindings, CodeTexts, Diagnostic, EvaluationError, Guest as EligibilityEngine,
    GuestRule as CompiledRule, Outcomes, PlacedQuestion, Question, Reference, RowError, Rule, Severity, TruthTable,
};
pub use outcome::RowOutcome;
