//! Evaluates eligibility rules on subjects.
//!
//! The engine runs in the sandbox and reads columns. This module determines the facts that a rule reads, fetches them
//! with the permissions of the client, lays them out as columns, and returns the inputs that are required to repeat the
//! decision.

pub mod check;
mod codes;
pub mod decision;
pub mod engine;
pub mod evaluate;
pub mod evidence;
pub mod facts;
mod failure;
mod layout;
mod load;
pub mod preview;
pub mod schema;

pub use failure::ExhaustedExpressions;
