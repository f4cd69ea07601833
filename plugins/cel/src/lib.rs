//! The eligibility engine: rules in CEL over the columns of a registry, as a WebAssembly component.
//!
//! A rule passes through [`syntax`] (text to syntax tree), [`check`] (syntax tree to typed [`tree`] and [`plan`]),
//! [`bind`] (the host's answers about codes), and evaluation with three-valued logic over [`columns`]: column by column
//! in [`vector`] for verdicts, row by row in [`evaluate`] for everything else. [`rule`] combines them; the private
//! module `component` implements the plugin interface.
//!
//! **Invariant:** everything except `component` is plain Rust without interface types and is tested natively.
//! **Invariant:** the component imports no function (it writes no log): no clock, no randomness, no files, no network.
//! **Invariant:** no input (expression, schema, responses or batch) can make the engine panic.

pub mod batch;
pub mod bind;
pub mod calendar;
pub mod check;
pub mod columns;
mod component;
pub mod constant;
pub mod cost;
pub mod diagnostic;
pub mod evaluate;
pub mod explanation;
pub mod facts;
pub mod foreign;
pub mod leaf;
pub mod limits;
pub mod message;
pub mod outcome;
pub mod plan;
pub mod rule;
pub mod schema;
pub mod span;
mod suggestion;
pub mod syntax;
pub mod tree;
pub mod value;
pub mod vector;
pub mod warm;
