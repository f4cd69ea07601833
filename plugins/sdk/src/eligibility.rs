//! Eligibility engines: the traits to implement and the types of the interface.
//!
//! An engine is a type that implements [`EligibilityEngine`], whose associated type implements [`CompiledRule`]; hand it to
//! [`export_eligibility_engine!`](crate::export_eligibility_engine).

use crate::bindings::eligibility_engine as generated;

pub use generated::daftar::plugin::columns::{Batch, Children, Column, ColumnValues, TextValues};
pub use generated::daftar::plugin::schema::{Field, FieldType, RegistrySchema, RowSpace, Subject};
pub use generated::exports::daftar::plugin::eligibility::{
    Answer, BindError, Bindings, CodeTexts, Diagnostic, EvaluationError, Guest as EligibilityEngine,
    GuestRule as CompiledRule, Outcomes, PlacedQuestion, Question, Reference, RowError, Rule, Severity, TruthTable,
};
