//! The eligibility engine: rules in CEL over a registry's columns.
pub mod diagnostic;
pub mod facts;
pub mod limits;
pub mod schema;
pub mod span;
mod suggestion;
pub mod syntax;
pub mod calendar;
pub mod check;
pub mod leaf;
pub mod plan;
pub mod tree;
pub mod value;
